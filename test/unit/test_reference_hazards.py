"""The reference interpreter: each hazard it reports, and a neighbour that is none."""

import gc
import threading
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor
from xdsl.context import Context
from xdsl.dialects import arith, builtin, math
from xdsl.parser import Parser

from lpu_mlir.dialects.lpu import Lpu
from lpu_mlir.dialects.lpu_kernel import KernelOp, LpuKernel
from lpu_mlir.interpreter.reference import (
    ChannelError,
    CompiledKernel,
    ExtentError,
    InterpreterParams,
    LaunchStats,
    Memory,
    OutOfBoundsError,
    RaceError,
    SramCapacityError,
    SramClobberedError,
    UnwrittenReadError,
)

TORCH = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i1": torch.bool,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "ui8": torch.uint8,
}


def kernel(text: str) -> CompiledKernel:
    """The one kernel of a text, verified. `!t<...>` and `#m` abbreviate tile and memory space."""
    context = Context()
    for dialect in (builtin.Builtin, arith.Arith, math.Math, Lpu, LpuKernel):
        context.load_dialect(dialect)
    text = text.replace("!t<", "!lpu_kernel.tile<").replace("#m", '"shared_dram"')
    module = Parser(context, text).parse_module()
    module.verify()
    (op,) = module.body.block.ops
    assert isinstance(op, KernelOp)
    return CompiledKernel(op)


def launch(
    text: str, *args: Tensor | int, memory: Memory | None = None, **params: Any
) -> LaunchStats:
    return kernel(text).launch(args, memory or Memory(), InterpreterParams(**params))


COPY = """
lpu_kernel.kernel @k(%x: memref<?x?xf32, #m>, %y: memref<?x?xf32, #m>, %i: index, %j: index,
                     %n: index, %m: index) access [ro, wo] cores 1 {
  lpu_kernel.phase cores(%c) {
    %t = lpu_kernel.load %x[%i, %j] [%n, %m] : memref<?x?xf32, #m> -> !t<8x8xf32>
    lpu_kernel.store %t, %y[0, 0] : !t<8x8xf32>, memref<?x?xf32, #m>
  }
}"""

GATHER = """
lpu_kernel.kernel @k(%x: memref<4x5x2xf32, #m>, %p: memref<?x?xi64, #m>,
                     %y: memref<?x?x?x?xf32, #m>, %n: index) access [ro, ro, wo] cores 2 {
  lpu_kernel.phase cores(%c) {
    %i = lpu_kernel.load %p[0, 0] [2, %n] : memref<?x?xi64, #m> -> !t<2x3xi64>
    %t = lpu_kernel.load %x[0, 0, 0] [4, 1, 2] index 1 by %i
      : memref<4x5x2xf32, #m>, !t<2x3xi64> -> !t<4x2x3x2xf32>
    %s = lpu_kernel.slice %t[%c, 0, 0, 0] [1, 2, %n, 2] : !t<4x2x3x2xf32> -> !t<1x2x3x2xf32>
    lpu_kernel.store %s, %y[%c, 0, 0, 0] : !t<1x2x3x2xf32>, memref<?x?x?x?xf32, #m>
  }
}"""

SUM = """
lpu_kernel.kernel @k(%x: memref<?xf32, #m>, %y: memref<1xf32, #m>, %n: index)
    access [ro, wo] cores 1 {
  lpu_kernel.phase cores(%c) {
    %zero = lpu_kernel.fill 0.0 : f32 [1] -> !t<1xf32>
    %s = lpu_kernel.for reduction %i = 0 to %n step 4 iter_args(%a = %zero) -> (!t<1xf32>) {
      %m = lpu_kernel.apply <min(4, d0 - d1)>(%n, %i)
      %t = lpu_kernel.load %x[%i] [%m] : memref<?xf32, #m> -> !t<4xf32>
      %p = lpu_kernel.fold add %t [0] : !t<4xf32> -> !t<f32>
      %b = lpu_kernel.map [1] ins(%a as [0], %p as [] : !t<1xf32>, !t<f32>) -> (!t<1xf32>) {
      ^bb0(%k: index, %u: f32, %v: f32):
        %w = arith.addf %u, %v : f32
        lpu_kernel.yield %w : f32
      }
      lpu_kernel.yield %b : !t<1xf32>
    }
    lpu_kernel.store %s, %y[0] : !t<1xf32>, memref<1xf32, #m>
  }
}"""

# --- checks -------------------------------------------------------------------------------------

CHECKED = """
lpu_kernel.kernel @k(%x: memref<2x4xi1, #m>, %y: memref<2xf32, #m>, %n: index)
    access [ro, wo] cores 2 {
  lpu_kernel.phase cores(%c) {
    %t = lpu_kernel.load %x[%c, 0] [1, 4] : memref<2x4xi1, #m> -> !t<1x4xi1>
    lpu_kernel.check %t, "ZeroDivisionError", "division by zero" : !t<1x4xi1>
    %eight = arith.constant 8 : index
    %q = arith.cmpi slt, %n, %eight : index
    lpu_kernel.check %q, "IndexError", "n out of range" : i1
    %f = lpu_kernel.fill 1.0 : f32 [1] -> !t<1xf32>
    lpu_kernel.store %f, %y[%c] : !t<1xf32>, memref<2xf32, #m>
  }
}"""


def test_checks_raise_after_the_launch() -> None:
    x, y = torch.ones(2, 4, dtype=torch.bool), torch.zeros(2)
    launch(CHECKED, x, y, 7)
    y.zero_()
    with pytest.raises(IndexError, match="n out of range"):
        launch(CHECKED, x, y, 8)
    assert y.tolist() == [1.0, 1.0]
    x[1, 3] = False
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        launch(CHECKED, x, y, 7)
    # Of several failures the one of the first core counts, in whatever order they run.
    for seed in range(4):
        with pytest.raises(IndexError):
            launch(CHECKED, x, y, 8, seed=seed)


# --- reading before writing ---------------------------------------------------------------------

FIRST_HALF = """
lpu_kernel.kernel @k(%x: memref<8x{e}, #m>, %y: memref<4x{e}, #m>) access [ro, wo] cores 1 {{
  lpu_kernel.phase cores(%c) {{
    %t = lpu_kernel.load %x[0] [4] : memref<8x{e}, #m> -> !t<4x{e}>
    lpu_kernel.store %t, %y[0] : !t<4x{e}>, memref<4x{e}, #m>
  }}
}}"""


@pytest.mark.parametrize("element", TORCH)
def test_unwritten_read(element: str) -> None:
    text = FIRST_HALF.format(e=element)
    x, y = torch.zeros(8, dtype=TORCH[element]), torch.zeros(4, dtype=TORCH[element])
    memory = Memory()
    memory.poison(x)
    with pytest.raises(UnwrittenReadError, match=r"@k.*load \(%t\).*window \[0\]\[4\]"):
        launch(text, x, y, memory=memory)
    memory.mark_written(x[:3])
    with pytest.raises(UnwrittenReadError, match="have not been written"):
        launch(text, x, y, memory=memory)
    # The other half may stay as it is.
    memory.mark_written(x[3:4])
    launch(text, x, y, memory=memory)


def test_what_a_kernel_writes_is_written() -> None:
    x, y, z = torch.ones(8), torch.empty(4), torch.empty(4)
    memory = Memory()
    memory.poison(y)
    assert y.isnan().all()
    assert not memory.is_written(y)
    launch(FIRST_HALF.format(e="f32"), x, y, memory=memory)
    assert memory.is_written(y)
    copy = COPY.replace("?x?x", "4x").replace("[%i, %j] [%n, %m]", "[0] [4]")
    copy = copy.replace("[0, 0]", "[0]").replace("8x8x", "4x")
    launch(copy, y, z, 0, 0, 0, 0, memory=memory)


def test_indexed_read_of_written_rows_only() -> None:
    x, y = torch.zeros(4, 5, 2), torch.zeros(2, 2, 3, 2)
    memory = Memory()
    memory.poison(x[:, 3])
    launch(GATHER, x, torch.tensor([[4, 0, 4], [1, 1, 2]]), y, 3, memory=memory)
    with pytest.raises(UnwrittenReadError):
        launch(GATHER, x, torch.tensor([[4, 0, 3], [1, 1, 2]]), y, 3, memory=memory)


def test_poison_is_recognisable() -> None:
    memory = Memory()
    for dtype, expected in (
        (torch.int8, 0xA5 - 0x100),
        (torch.uint8, 0xA5),
        (torch.int32, 0xA5A5A5A5 - (1 << 32)),
        (torch.bool, True),
    ):
        x = torch.zeros(3, dtype=dtype)
        memory.poison(x[1:])
        assert x.tolist() == [0, expected, expected]
        assert memory.is_written(x[:1])
        assert not memory.is_written(x)
        memory.forget(x)
        assert memory.is_written(x)


def test_memory_releases_what_it_tracks() -> None:
    memory, x = Memory(), torch.zeros(3)
    storage = weakref.ref(x.untyped_storage())
    memory.poison(x)
    del x, memory
    gc.collect()
    assert storage() is None


# --- races --------------------------------------------------------------------------------------

RACE = """
lpu_kernel.kernel @k(%y: memref<?xf32, #m>, %z: memref<?xf32, #m>, %o: index, %p: index)
    access [wo, wo] cores 4 {
  lpu_kernel.phase cores(%c) {
    %t = lpu_kernel.fill 1.0 : f32 [3] -> !t<3xf32>
    %a = lpu_kernel.apply <d0 * d1>(%c, %o)
    lpu_kernel.store %t, %y[%a] : !t<3xf32>, memref<?xf32, #m>
    lpu_kernel.store %t, %y[%a] : !t<3xf32>, memref<?xf32, #m>
    %b = lpu_kernel.apply <d0 * d1>(%c, %p)
    lpu_kernel.store %t, %z[%b] : !t<3xf32>, memref<?xf32, #m>
  }
  lpu_kernel.phase cores(%c) {
    %t = lpu_kernel.fill 1.0 : f32 [1] -> !t<1xf32>
    %a = lpu_kernel.apply <3 - d0>(%c)
    lpu_kernel.store %t, %y[%a] : !t<1xf32>, memref<?xf32, #m>
  }
}"""


@pytest.mark.parametrize("seed", range(3))
def test_write_race(seed: int) -> None:
    y, z = torch.zeros(16), torch.zeros(16)
    # Bytes written twice by one core, or by different cores in different phases, are no race.
    launch(RACE, y, z, 3, 3, seed=seed)
    with pytest.raises(RaceError, match=r"@k.*store.*another core"):
        launch(RACE, y, z, 2, 3, seed=seed)
    launch(RACE, y, z, 2, 3, seed=seed, check_races=False)


MIXED = """
lpu_kernel.kernel @k(%y: memref<?xf32, #m>, %z: memref<?xf16, #m>) access [wo, wo] cores 2 {
  lpu_kernel.phase cores(%c) {
    %t = lpu_kernel.fill 1.0 : f32 [1] -> !t<1xf32>
    lpu_kernel.store %t, %y[%c] : !t<1xf32>, memref<?xf32, #m>
    %u = lpu_kernel.fill 1.0 : f16 [1] -> !t<1xf16>
    %o = lpu_kernel.apply <d0 + 2>(%c)
    lpu_kernel.store %u, %z[%o] : !t<1xf16>, memref<?xf16, #m>
  }
}"""


def test_write_race_through_two_arguments() -> None:
    whole = torch.zeros(32)
    launch(RACE, whole[:16], whole[16:], 3, 3)
    launch(RACE, whole[::2], whole[1::2], 3, 3)
    # The views overlap, but what is written does not.
    launch(RACE, whole[:16], whole[12:28], 3, 3)
    with pytest.raises(RaceError):
        launch(RACE, whole[:16], whole[8:24], 3, 3)
    # Bytes of elements of different sizes.
    halves = torch.zeros(64, dtype=torch.float16)
    with pytest.raises(RaceError):
        launch(MIXED, halves.view(torch.float32), halves)
    launch(MIXED, halves[:4].view(torch.float32), halves[4:])


def test_write_race_by_index() -> None:
    text = """
    lpu_kernel.kernel @k(%p: memref<4xi64, #m>, %y: memref<8xf32, #m>) access [ro, wo] cores 4 {
      lpu_kernel.phase cores(%c) {
        %i = lpu_kernel.load %p[%c] [1] : memref<4xi64, #m> -> !t<1xi64>
        %t = lpu_kernel.fill 1.0 : f32 [1] -> !t<1xf32>
        lpu_kernel.store %t, %y[0] index 0 by %i : !t<1xf32>, memref<8xf32, #m>, !t<1xi64>
      }
    }"""
    launch(text, torch.tensor([7, 0, 3, 4]), torch.zeros(8))
    with pytest.raises(RaceError):
        launch(text, torch.tensor([7, 0, 3, 7]), torch.zeros(8))


ADD_RACE = """
lpu_kernel.kernel @k(%p: memref<4xi64, #m>, %y: memref<8xf32, #m>, %z: memref<4xf32, #m>, %n: index)
    access [ro, rw, wo] cores 4 {
  lpu_kernel.phase cores(%c) {
    %i = lpu_kernel.load %p[%c] [1] : memref<4xi64, #m> -> !t<1xi64>
    %t = lpu_kernel.fill 1.0 : f32 [1] -> !t<1xf32>
    lpu_kernel.store add %t, %y[0] index 0 by %i : !t<1xf32>, memref<8xf32, #m>, !t<1xi64>
    lpu_kernel.store add %t, %y[0] index 0 by %i : !t<1xf32>, memref<8xf32, #m>, !t<1xi64>
    %o = lpu_kernel.apply <d0 + d1>(%c, %n)
    %u = lpu_kernel.load %y[%o] [1] : memref<8xf32, #m> -> !t<1xf32>
    lpu_kernel.store %u, %z[%c] : !t<1xf32>, memref<4xf32, #m>
  }
}"""


@pytest.mark.parametrize("seed", range(3))
def test_race_of_what_is_added(seed: int) -> None:
    y, z = torch.zeros(8), torch.zeros(4)
    launch(ADD_RACE, torch.tensor([0, 2, 1, 3]), y, z, 4, seed=seed)
    assert y.tolist() == [2.0, 2.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0]
    # Two cores add to one element, and one reads what another adds to.
    for index, read in ([0, 2, 1, 2], 4), ([0, 2, 1, 4], 3):
        with pytest.raises(RaceError, match=r"another core"):
            launch(ADD_RACE, torch.tensor(index), y, z, read, seed=seed)


def test_adding_to_what_is_not_written() -> None:
    memory, y = Memory(), torch.zeros(8)
    memory.poison(y)
    memory.mark_written(y[:5].fill_(1.0))
    launch(ADD_RACE, torch.arange(4), y, torch.zeros(4), 0, memory=memory)
    assert y[:5].tolist() == [3.0, 3.0, 3.0, 3.0, 1.0]
    with pytest.raises(UnwrittenReadError, match=r"lpu_kernel\.store: 4 of 4 bytes"):
        launch(ADD_RACE, torch.tensor([0, 1, 2, 5]), y, torch.zeros(4), 0, memory=memory)


READ_RACE = """
lpu_kernel.kernel @k(%x: memref<4xf32, #m>, %y: memref<4xf32, #m>, %n: index)
    access [ro, wo] cores 4 {
  lpu_kernel.phase cores(%c) {
    %o = lpu_kernel.apply <d0 * d1>(%c, %n)
    %t = lpu_kernel.load %x[%o] [1] : memref<4xf32, #m> -> !t<1xf32>
    lpu_kernel.store %t, %y[%c] : !t<1xf32>, memref<4xf32, #m>
  }
}"""


@pytest.mark.parametrize("seed", range(3))
def test_read_race(seed: int) -> None:
    x, y = torch.arange(4.0), torch.zeros(4)
    launch(READ_RACE, x, y, 0, seed=seed)
    # In place, as long as each core reads what it alone writes.
    launch(READ_RACE, x, x, 1, seed=seed)
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
    with pytest.raises(RaceError, match=r"another core (read|wrote)"):
        launch(READ_RACE, x, x, 0, seed=seed)


# --- channels -----------------------------------------------------------------------------------

CHANNEL = """
lpu_kernel.kernel @k(%x: memref<?x4xf32, #m>, %w: memref<1x4xf32, #m>, %y: memref<?x4xf32, #m>,
                     %n: index, %m: index) access [ro, ro, wo] cores 2 {
  lpu_kernel.channel @rows depth 2 : !t<1x4xf32>
  lpu_kernel.channel @scale depth 1 : !t<1x4xf32>
  lpu_kernel.phase top(%d) {
    lpu_kernel.request @scale %w[0, 0] [1, 4] to all : memref<1x4xf32, #m>
    lpu_kernel.for sequential %i = 0 to %n step 1 {
      %r = lpu_kernel.apply <2 * d0 + d1>(%i, %d)
      lpu_kernel.request @rows %x[%r, 0] [1, 4] to each : memref<?x4xf32, #m>
    }
  } cores(%c) {
    %s = lpu_kernel.receive @scale : !t<1x4xf32>
    lpu_kernel.for sequential %i = 0 to %m step 1 {
      %t = lpu_kernel.receive @rows : !t<1x4xf32>
      %v = lpu_kernel.map [1, 4] ins(%t as [0, 1], %s as [0, 1] : !t<1x4xf32>, !t<1x4xf32>)
          -> (!t<1x4xf32>) {
      ^bb0(%j: index, %k: index, %a: f32, %b: f32):
        %p = arith.mulf %a, %b : f32
        lpu_kernel.yield %p : f32
      }
      %r = lpu_kernel.apply <2 * d0 + d1>(%i, %c)
      lpu_kernel.store %v, %y[%r, 0] : !t<1x4xf32>, memref<?x4xf32, #m>
    }
  }
}"""


@pytest.mark.parametrize("seed", range(3))
def test_channels_deliver_in_order(seed: int) -> None:
    x, w, y = torch.randn(6, 4), torch.randn(1, 4), torch.zeros(6, 4)
    stats = launch(CHANNEL, x, w, y, 3, 3, seed=seed)
    assert torch.equal(y, x * w)
    # The multicast counts once.
    assert stats == LaunchStats(dram_read=6 * 16 + 16, dram_written=6 * 16)


def test_a_request_to_each_counts_for_each_even_if_it_could_be_a_multicast() -> None:
    text = CHANNEL.replace("to all", "to each")
    stats = launch(text, torch.zeros(6, 4), torch.zeros(1, 4), torch.zeros(6, 4), 3, 3)
    assert stats.dram_read == 6 * 16 + 2 * 16


def test_more_receives_than_requests() -> None:
    with pytest.raises(ChannelError, match="more often than top requests"):
        launch(CHANNEL, torch.zeros(6, 4), torch.zeros(1, 4), torch.zeros(6, 4), 2, 3)


def test_more_requests_than_receives() -> None:
    with pytest.raises(ChannelError, match="core 0 leaves 1 tiles requested for it in channel @r"):
        launch(CHANNEL, torch.zeros(6, 4), torch.zeros(1, 4), torch.zeros(6, 4), 3, 2)


def test_requests_in_another_order_than_receives() -> None:
    swapped = CHANNEL.replace("%i = 0 to %m step 1", "%i = %m to 3 step 1")
    swapped = swapped.replace("%i = 0 to %n step 1", "%i = %n to 3 step 1")
    args = torch.zeros(8, 4), torch.zeros(1, 4), torch.zeros(8, 4)
    launch(swapped, *args, 1, 1)
    with pytest.raises(ChannelError, match=r"in iteration \[0\] what was requested in \[1\]"):
        launch(swapped, *args, 1, 0)


def test_request_beyond_the_channels_capacity() -> None:
    text = """
    lpu_kernel.kernel @k(%x: memref<?xf32, #m>, %n: index) access [ro] cores 1 {
      lpu_kernel.channel @c depth 1 : !t<4xf32>
      lpu_kernel.phase top(%d) {
        lpu_kernel.request @c %x[0] [%n] to all : memref<?xf32, #m>
      } cores(%c) {
        %t = lpu_kernel.receive @c : !t<4xf32>
      }
    }"""
    launch(text, torch.zeros(8), 4)
    with pytest.raises(ExtentError, match=r"\[5\] exceed the tile's capacity \[4\]"):
        launch(text, torch.zeros(8), 5)
    with pytest.raises(OutOfBoundsError, match=r"lpu_kernel\.request"):
        launch(text, torch.zeros(3), 4)


# --- SRAM ---------------------------------------------------------------------------------------

PLACED = """
lpu_kernel.kernel @k(%x: memref<4xf32, #m>, %y: memref<4xf32, #m>) access [ro, wo] cores 1 {{
  lpu_kernel.phase cores(%c) {{
    %t = lpu_kernel.load %x[0] [4] sram [0] : memref<4xf32, #m> -> !t<4xf32>
    %u = lpu_kernel.fill 0.0 : f32 [4] sram [{offset}] -> !t<4xf32>
    lpu_kernel.store %t, %y[0] : !t<4xf32>, memref<4xf32, #m>
    lpu_kernel.store %u, %y[0] : !t<4xf32>, memref<4xf32, #m>
  }}
}}"""


def test_clobbered_tile() -> None:
    launch(PLACED.format(offset=16), torch.zeros(4), torch.zeros(4))
    with pytest.raises(SramClobberedError, match=r"@k: lpu_kernel\.store: a tile it reads"):
        launch(PLACED.format(offset=12), torch.zeros(4), torch.zeros(4))


def test_reuse_of_a_dead_tiles_bytes() -> None:
    text = PLACED.format(offset=0)
    lines = text.splitlines()
    # The store of %t moves before the fill that takes its place.
    lines[4], lines[5] = lines[5], lines[4]
    launch("\n".join(lines), torch.zeros(4), torch.zeros(4))


def test_sram_capacity() -> None:
    launch(PLACED.format(offset=16), torch.zeros(4), torch.zeros(4), sram_bytes=32)
    with pytest.raises(SramCapacityError, match=r"fill reaches byte 32 of an SRAM of 31"):
        launch(PLACED.format(offset=16), torch.zeros(4), torch.zeros(4), sram_bytes=31)


def test_a_single_tile_larger_than_sram() -> None:
    args = torch.zeros(6, 8), torch.zeros(8, 8), 0, 0, 1, 1
    launch(COPY, *args, sram_bytes=256)
    with pytest.raises(SramCapacityError, match="load reaches byte 256"):
        launch(COPY, *args, sram_bytes=255)


CARRIED = """
lpu_kernel.kernel @k(%y: memref<4xf32, #m>) access [wo] cores 1 {{
  lpu_kernel.phase cores(%c) {{
    %z = lpu_kernel.fill 0.0 : f32 [4] sram [0] -> !t<4xf32>
    %r = lpu_kernel.for sequential %i = 0 to 2 step 1 iter_args(%a = %z) -> (!t<4xf32>) sram [16] {{
      %b = lpu_kernel.fill 1.0 : f32 [4] sram [{offset}] -> !t<4xf32>
      %d = lpu_kernel.map [4] ins(%a as [0], %b as [0] : !t<4xf32>, !t<4xf32>) -> (!t<4xf32>)
          sram [48] {{
      ^bb0(%k: index, %u: f32, %v: f32):
        %w = arith.addf %u, %v : f32
        lpu_kernel.yield %w : f32
      }}
      lpu_kernel.yield %d : !t<4xf32>
    }}
    lpu_kernel.store %r, %y[0] : !t<4xf32>, memref<4xf32, #m>
  }}
}}"""


def test_a_carried_tile_has_its_own_bytes() -> None:
    y = torch.zeros(4)
    # The initial value is copied into the loop's buffer, so that its own may be reused.
    launch(CARRIED.format(offset=0), y)
    assert y.tolist() == [2.0] * 4
    launch(CARRIED.format(offset=32), y)
    with pytest.raises(SramClobberedError, match=r"lpu_kernel\.map"):
        launch(CARRIED.format(offset=16), y)


def test_a_tile_live_through_a_loop_is_clobbered_in_its_second_trip() -> None:
    text = CARRIED.format(offset=32).replace("%a as [0], %b", "%z as [0], %b")
    y = torch.zeros(4)
    launch(text, y)
    with pytest.raises(SramClobberedError, match=r"lpu_kernel\.map"):
        launch(text.replace("sram [48]", "sram [0]"), y)
    launch(text.replace("sram [48]", "sram [0]").replace("0 to 2", "0 to 1"), y)


def test_a_channels_buffers_belong_to_it() -> None:
    text = """
    lpu_kernel.kernel @k(%x: memref<4xf32, #m>) access [ro] cores 1 {{
      lpu_kernel.channel @c depth 2 sram [0] : !t<4xf32>
      lpu_kernel.phase top(%d) {{
        lpu_kernel.request @c %x[0] [4] to all : memref<4xf32, #m>
      }} cores(%c) {{
        %u = lpu_kernel.fill 0.0 : f32 [4] sram [{offset}] -> !t<4xf32>
        %t = lpu_kernel.receive @c : !t<4xf32>
      }}
    }}"""
    launch(text.format(offset=32), torch.zeros(4))
    with pytest.raises(SramClobberedError, match="over the buffers of @c"):
        launch(text.format(offset=28), torch.zeros(4))


# --- phases, counts, arguments ------------------------------------------------------------------

PARTIALS = """
lpu_kernel.kernel @k(%x: memref<4x4xf32, #m>, %p: memref<4xf32, #m>, %y: memref<1xf32, #m>)
    access [ro, rw, wo] cores 4 {
  lpu_kernel.phase cores(%c) {
    %t = lpu_kernel.load %x[%c, 0] [1, 4] : memref<4x4xf32, #m> -> !t<1x4xf32>
    %s = lpu_kernel.fold add %t [1] : !t<1x4xf32> -> !t<1xf32>
    lpu_kernel.store %s, %p[%c] : !t<1xf32>, memref<4xf32, #m>
  }
  lpu_kernel.phase cores(%c) {
    %last = lpu_kernel.apply <1 - min(1, d0)>(%c)
    lpu_kernel.for parallel %i = 0 to %last step 1 {
      %t = lpu_kernel.load %p[0] [4] : memref<4xf32, #m> -> !t<4xf32>
      %s = lpu_kernel.fold add %t [0] : !t<4xf32> -> !t<f32>
      %v = lpu_kernel.map [1] ins(%s as [] : !t<f32>) -> (!t<1xf32>) {
      ^bb0(%j: index, %a: f32):
        lpu_kernel.yield %a : f32
      }
      lpu_kernel.store %v, %y[0] : !t<1xf32>, memref<1xf32, #m>
    }
  }
}"""


@pytest.mark.parametrize("seed", range(4))
def test_a_phase_sees_what_all_cores_stored_in_the_one_before(seed: int) -> None:
    x, p, y = torch.arange(16.0).view(4, 4), torch.zeros(4), torch.zeros(1)
    memory = Memory()
    memory.poison(p)
    stats = launch(PARTIALS, x, p, y, memory=memory, seed=seed)
    assert y.item() == 120
    # The second load's loop depends on the core, so that it is not a multicast; core 0 alone runs.
    assert stats == LaunchStats(dram_read=64 + 16, dram_written=16 + 4)


def test_cores_run_in_the_order_of_the_seed() -> None:
    text = """
    lpu_kernel.kernel @k(%y: memref<1xi64, #m>) access [rw] cores 8 {
      lpu_kernel.phase cores(%c) {
        %t = lpu_kernel.map [1] at [%c] -> (!t<1xi64>) {
        ^bb0(%i: index):
          %v = arith.index_cast %i : index to i64
          lpu_kernel.yield %v : i64
        }
        lpu_kernel.store %t, %y[0] : !t<1xi64>, memref<1xi64, #m>
      }
    }"""
    last: set[int] = set()
    for seed in range(8):
        y = torch.zeros(1, dtype=torch.int64)
        launch(text, y, seed=seed, check_races=False)
        last.add(int(y))
        again = torch.zeros(1, dtype=torch.int64)
        launch(text, again, seed=seed, check_races=False)
        assert torch.equal(y, again)
    assert len(last) > 2


def test_loads_that_are_equal_for_all_cores_count_once() -> None:
    text = """
    lpu_kernel.kernel @k(%x: memref<4x4xf32, #m>, %n: index) access [ro] cores 4 {
      lpu_kernel.phase cores(%c) {
        %a = lpu_kernel.load %x[0, 0] [1, 4] : memref<4x4xf32, #m> -> !t<1x4xf32>
        %o = lpu_kernel.apply <d0>(%n)
        lpu_kernel.for sequential %i = 0 to 2 step 1 {
          %b = lpu_kernel.load %x[%o, %i] [1, 1] : memref<4x4xf32, #m> -> !t<1x1xf32>
          %q = arith.addi %c, %i : index
          %p = lpu_kernel.apply <d0 - d1>(%q, %i)
          %d = lpu_kernel.load %x[%p, %i] [1, 1] : memref<4x4xf32, #m> -> !t<1x1xf32>
        }
      }
    }"""
    assert launch(text, torch.zeros(4, 4), 1).dram_read == 16 + 2 * 4 + 4 * 2 * 4


def test_arguments_must_fit() -> None:
    x, y = torch.zeros(8), torch.zeros(4)
    text = FIRST_HALF.format(e="f32")
    with pytest.raises(TypeError, match="takes 2 arguments, got 1"):
        launch(text, x)
    with pytest.raises(TypeError, match="argument 1 of kernel @k is a memref"):
        launch(text, x, 3)
    with pytest.raises(ValueError, match=r"float32 \[7\], expected torch.float32 \[8\]"):
        launch(text, x[:7], y)
    with pytest.raises(ValueError, match=r"float64 \[8\], expected torch.float32 \[8\]"):
        launch(text, x.double(), y)


def test_one_object_serves_many_threads() -> None:
    compiled = kernel(SUM)
    failures: list[int] = []

    def work(n: int) -> None:
        for _ in range(20):
            y = torch.zeros(1)
            compiled.launch((torch.full((n,), float(n)), y, n), Memory(), InterpreterParams())
            if y.item() != n * n:
                failures.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(5, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
