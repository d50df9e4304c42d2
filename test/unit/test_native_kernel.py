"""What only machine code can get wrong: when elements are read, what lies outside of tiles, vectors
of every width."""

import mmap
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from kernel_harness import launch, launch_native, parse_kernel
from torch import Tensor

from lpu_mlir.interpreter.native.compile import host
from lpu_mlir.interpreter.native.kernel import emit_kernel
from lpu_mlir.interpreter.native.machine import Machine

pytestmark = pytest.mark.sampled


def machines() -> Iterator[Machine]:
    """This machine, and as if its vectors were narrower."""
    full = host()
    for width in (16, 32, 64):
        if width <= full.vector_bytes:
            yield replace(full, name=f"{width} bytes", vector_bytes=width)


WIDTHS = pytest.mark.parametrize("machine", list(machines()), ids=lambda machine: machine.name)


def at_page_end(tensor: Tensor) -> Tensor:
    """The elements where reading one more is a fault: the next page may not be touched."""
    size = tensor.numel() * tensor.itemsize
    pages = -(-size // mmap.PAGESIZE)
    memory = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
    array = np.frombuffer(memory, np.uint8)
    _protect(array.ctypes.data + pages * mmap.PAGESIZE)
    bytes = torch.from_numpy(array)[pages * mmap.PAGESIZE - size : pages * mmap.PAGESIZE]
    result = bytes.view(tensor.dtype).view(tensor.shape)
    return result.copy_(tensor)


def _protect(address: int) -> None:
    import ctypes

    no_access = 0
    code = ctypes.CDLL(None).mprotect(
        ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE), no_access
    )
    assert code == 0


# --- vectors --------------------------------------------------------------------------------------

ELEMENTS = {
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "i1": torch.bool,
    "i8": torch.int8,
    "i64": torch.int64,
}


@WIDTHS
@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("size", [1, 7, 16, 33])
def test_nothing_outside_of_a_tile_is_touched(machine: Machine, element: str, size: int):
    text = f"""
    lpu_kernel.kernel @k(%x: memref<{size}x{element}, #m>, %y: memref<{size}x{element}, #m>)
        access [ro, wo] cores 1 {{
      lpu_kernel.phase cores(%c) {{
        %t = lpu_kernel.load %x[0] [{size}] : memref<{size}x{element}, #m> -> !t<{size}x{element}>
        lpu_kernel.store %t, %y[0] : !t<{size}x{element}>, memref<{size}x{element}, #m>
      }}
    }}"""
    x = at_page_end(torch.arange(size).to(ELEMENTS[element]))
    y = at_page_end(torch.zeros(size, dtype=x.dtype))
    launch_native(parse_kernel(text), [x, y], machine)
    assert torch.equal(x, y)


@WIDTHS
@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("offset", [0, 1])
def test_large_results_pass_the_caches_by(machine: Machine, element: str, offset: int):
    size, dtype = 1000, ELEMENTS[element]
    text = f"""
    lpu_kernel.kernel @k(%x: memref<{size}x{element}, #m>, %y: memref<{size}x{element}, #m>,
                         %z: memref<{size}x{element}, #m>) access [ro, wo, rw] cores 1 {{
      lpu_kernel.phase cores(%c) {{
        %t = lpu_kernel.load %x[0] [{size}] : memref<{size}x{element}, #m> -> !t<{size}x{element}>
        lpu_kernel.store %t, %y[0] : !t<{size}x{element}>, memref<{size}x{element}, #m>
        lpu_kernel.store %t, %z[0] : !t<{size}x{element}>, memref<{size}x{element}, #m>
      }}
    }}"""
    small = replace(machine, cache_bytes=size * dtype.itemsize)
    x, both = torch.arange(size).to(dtype), torch.zeros(2, size + 8, dtype=dtype)
    kernel = parse_kernel(text)
    launch_native(kernel, [x, both[0, offset:][:size], both[1, :size]], small)
    expected = torch.zeros_like(both)
    expected[0, offset:][:size], expected[1, :size] = x, x
    assert torch.equal(both, expected)

    def stores(cache_bytes: int) -> int:
        chosen = replace(machine, cache_bytes=cache_bytes)
        return emit_kernel(kernel, chosen, lambda a, b: a is b).text.count(", !nontemporal !0")

    assert stores(size * dtype.itemsize) == 1
    assert stores(size * dtype.itemsize + 1) == 0


@WIDTHS
@pytest.mark.parametrize("strides", [(40, 1), (1, 40), (3, 80)], ids=str)
def test_rows_and_columns(machine: Machine, strides: tuple[int, int]):
    """A softmax-like kernel on rows of 37 whose elements lie in either order or apart."""
    m, n = 5, 37
    layout = f"strided<[{strides[0]}, {strides[1]}]>"
    text = f"""
    lpu_kernel.kernel @k(%x: memref<{m}x{n}xf32, {layout}, #m>, %y: memref<{m}x{n}xf32, #m>)
        access [ro, wo] cores 1 {{
      lpu_kernel.phase cores(%c) {{
        %t = lpu_kernel.load %x[0, 0] [{m}, {n}]
          : memref<{m}x{n}xf32, {layout}, #m> -> !t<{m}x{n}xf32>
        %s = lpu_kernel.fold max %t [1] : !t<{m}x{n}xf32> -> !t<{m}xf32>
        %a = lpu_kernel.fold add %t [0] : !t<{m}x{n}xf32> -> !t<{n}xf32>
        %r = lpu_kernel.map [{m}, {n}] ins(%t as [0, 1], %s as [0], %a as [1]
            : !t<{m}x{n}xf32>, !t<{m}xf32>, !t<{n}xf32>) -> (!t<{m}x{n}xf32>) {{
        ^bb0(%i : index, %j : index, %v : f32, %w : f32, %u : f32):
          %d = arith.subf %v, %w : f32
          %e = arith.mulf %d, %u : f32
          lpu_kernel.yield %e : f32
        }}
        lpu_kernel.store %r, %y[0, 0] : !t<{m}x{n}xf32>, memref<{m}x{n}xf32, #m>
      }}
    }}"""
    x = torch.randn(m * strides[0] + n * strides[1]).as_strided((m, n), strides)
    y = torch.empty(m, n)
    launch_native(parse_kernel(text), [x, y], machine)
    torch.testing.assert_close(y, (x - x.amax(1, keepdim=True)) * x.sum(0))


# --- when elements are read -----------------------------------------------------------------------


def test_a_load_is_what_was_there_before_a_store_of_the_core():
    """%x is read after it was stored to, once through a map that its reader computes."""
    launch(
        """
    lpu_kernel.kernel @k(%x: memref<40xf32, #m>, %y: memref<40xf32, #m>)
        access [rw, wo] cores 1 {
      lpu_kernel.phase cores(%c) {
        %t = lpu_kernel.load %x[0] [40] : memref<40xf32, #m> -> !t<40xf32>
        %n = lpu_kernel.map [40] ins(%t as [0] : !t<40xf32>) -> (!t<40xf32>) {
        ^bb0(%i : index, %v : f32):
          %w = arith.negf %v : f32
          lpu_kernel.yield %w : f32
        }
        %z = lpu_kernel.fill 0.0 : f32 [40] -> !t<40xf32>
        lpu_kernel.store %z, %x[0] : !t<40xf32>, memref<40xf32, #m>
        lpu_kernel.store %n, %y[0] : !t<40xf32>, memref<40xf32, #m>
      }
    }""",
        torch.randn(40),
        torch.empty(40),
    )


def test_an_index_is_read_when_what_it_selects_is():
    """The tile that is selected is put into memory late, where the index must still be."""
    text = """
    lpu_kernel.kernel @k(%i: memref<6xi64, #m>, %x: memref<6x8xf32, #m>, %w: memref<4x8x5xf32, #m>,
                         %y: memref<6x5xf32, #m>) access [ro, ro, ro, wo] cores 1 {
      lpu_kernel.phase cores(%c) {
        %j = lpu_kernel.load %i[0] [6] : memref<6xi64, #m> -> !t<6xi64>
        %k = lpu_kernel.map [6] ins(%j as [0] : !t<6xi64>) -> (!t<6xi64>) {
        ^bb0(%a: index, %b: i64):
          %three = arith.constant 3 : i64
          %d = arith.subi %three, %b : i64
          lpu_kernel.yield %d : i64
        }
        %u = lpu_kernel.load %x[0, 0] [6, 8] : memref<6x8xf32, #m> -> !t<6x8xf32>
        %v = lpu_kernel.load %w[0, 0, 0] [1, 8, 5] index 0 by %k
          : memref<4x8x5xf32, #m>, !t<6xi64> -> !t<6x8x5xf32>
        %z = lpu_kernel.contract %u as [0, 2], %v as [0, 2, 1]
          : !t<6x8xf32>, !t<6x8x5xf32> -> !t<6x5xf32>
        lpu_kernel.store %z, %y[0, 0] : !t<6x5xf32>, memref<6x5xf32, #m>
      }
    }
    """
    i, x, w = torch.tensor([3, 0, 0, 1, 2, 3]), torch.randn(6, 8), torch.randn(4, 8, 5)
    y = torch.empty(6, 5)
    launch(text, i, x, w, y)
    torch.testing.assert_close(y, torch.einsum("nk,nkm->nm", x, w[3 - i]))


def test_a_window_moved_within_one_memref():
    """Source and target overlap: every element is that before the move."""
    launch(
        """
    lpu_kernel.kernel @k(%x: memref<100xf32, #m>) access [rw] cores 1 {
      lpu_kernel.phase cores(%c) {
        %t = lpu_kernel.load %x[0] [90] : memref<100xf32, #m> -> !t<90xf32>
        lpu_kernel.store %t, %x[7] : !t<90xf32>, memref<100xf32, #m>
      }
    }""",
        torch.randn(100),
    )


def test_arguments_that_overlap():
    """The output is the input shifted by three elements of one storage."""
    storage = torch.randn(70)
    launch(
        """
    lpu_kernel.kernel @k(%x: memref<64xf32, #m>, %y: memref<64xf32, #m>) access [ro, wo] cores 1 {
      lpu_kernel.phase cores(%c) {
        %t = lpu_kernel.load %x[0] [64] : memref<64xf32, #m> -> !t<64xf32>
        lpu_kernel.store %t, %y[0] : !t<64xf32>, memref<64xf32, #m>
      }
    }""",
        storage[:64],
        storage[3:67],
    )


def test_a_loop_that_exchanges_what_it_carries():
    launch(
        """
    lpu_kernel.kernel @k(%x: memref<2x20xf32, #m>, %y: memref<2x20xf32, #m>)
        access [ro, wo] cores 1 {
      lpu_kernel.phase cores(%c) {
        %a = lpu_kernel.load %x[0, 0] [1, 20] : memref<2x20xf32, #m> -> !t<1x20xf32>
        %b = lpu_kernel.load %x[1, 0] [1, 20] : memref<2x20xf32, #m> -> !t<1x20xf32>
        %p, %q = lpu_kernel.for sequential %i = 0 to 3 step 1 iter_args(%u = %a, %v = %b)
            -> (!t<1x20xf32>, !t<1x20xf32>) {
          lpu_kernel.yield %v, %u : !t<1x20xf32>, !t<1x20xf32>
        }
        lpu_kernel.store %p, %y[0, 0] : !t<1x20xf32>, memref<2x20xf32, #m>
        lpu_kernel.store %q, %y[1, 0] : !t<1x20xf32>, memref<2x20xf32, #m>
      }
    }""",
        torch.randn(2, 20),
        torch.empty(2, 20),
    )


def test_a_carried_tile_that_is_still_read_after_its_next_value_is_known():
    """The new maximum and the old one are both needed, as in attention."""
    launch(
        """
    lpu_kernel.kernel @k(%x: memref<4x20xf32, #m>, %y: memref<20xf32, #m>) access [ro, wo] cores 1 {
      lpu_kernel.phase cores(%c) {
        %z = lpu_kernel.fill 0.0 : f32 [20] -> !t<20xf32>
        %m, %s = lpu_kernel.for reduction %i = 0 to 4 step 1 iter_args(%u = %z, %v = %z)
            -> (!t<20xf32>, !t<20xf32>) {
          %t = lpu_kernel.load %x[%i, 0] [1, 20] : memref<4x20xf32, #m> -> !t<1x20xf32>
          %n = lpu_kernel.fold max %t [0] acc(%u : !t<20xf32>) : !t<1x20xf32> -> !t<20xf32>
          %w = lpu_kernel.map [20] ins(%v as [0], %u as [0], %n as [0]
              : !t<20xf32>, !t<20xf32>, !t<20xf32>) -> (!t<20xf32>) {
          ^bb0(%j : index, %a : f32, %b : f32, %d : f32):
            %e = arith.subf %d, %b : f32
            %f = arith.addf %a, %e : f32
            lpu_kernel.yield %f : f32
          }
          lpu_kernel.yield %n, %w : !t<20xf32>, !t<20xf32>
        }
        %r = lpu_kernel.map [20] ins(%m as [0], %s as [0] : !t<20xf32>, !t<20xf32>)
            -> (!t<20xf32>) {
        ^bb0(%j : index, %a : f32, %b : f32):
          %e = arith.subf %a, %b : f32
          lpu_kernel.yield %e : f32
        }
        lpu_kernel.store %r, %y[0] : !t<20xf32>, memref<20xf32, #m>
      }
    }""",
        torch.randn(4, 20),
        torch.empty(20),
    )


# --- indices --------------------------------------------------------------------------------------

GATHER = """
    lpu_kernel.kernel @k(%x: memref<?x24xf32, #m>, %i: memref<6xi64, #m>, %y: memref<6x24xf32, #m>)
        access [ro, ro, wo] cores 1 {
      lpu_kernel.phase cores(%c) {
        %n = lpu_kernel.load %i[0] [6] : memref<6xi64, #m> -> !t<6xi64>
        %t = lpu_kernel.load %x[0, 0] [1, 24] index 0 by %n
          : memref<?x24xf32, #m>, !t<6xi64> -> !t<6x24xf32>
        lpu_kernel.store %t, %y[0, 0] : !t<6x24xf32>, memref<6x24xf32, #m>
      }
    }"""


@pytest.mark.parametrize("rows", [1, 5])
def test_an_index_out_of_range_reads_nothing_outside(rows: int):
    """The reference refuses it; machine code, whose kernel has checked it before, stays within."""
    x = at_page_end(torch.randn(rows, 24))
    index = torch.tensor([0, rows - 1, rows, 1 << 40, -1, -(1 << 40)])
    y = torch.empty(6, 24)
    launch_native(parse_kernel(GATHER), [x, index, y])
    assert torch.equal(y, x[torch.tensor([0, *[rows - 1] * 5])])


def test_nothing_is_read_of_an_empty_dim():
    y = torch.empty(6, 24)
    launch_native(parse_kernel(GATHER), [torch.empty(0, 24), torch.zeros(6).long(), y])


@pytest.mark.parametrize("kind", ["", "add ", "mul ", "max ", "min "])
@pytest.mark.parametrize("columns", [1, 24])
def test_slices_of_equal_indices_follow_each_other(kind: str, columns: int):
    access = "rw" if kind else "wo"
    launch(
        f"""
    lpu_kernel.kernel @k(%x: memref<9x{columns}xf32, #m>, %i: memref<9xi64, #m>,
                         %y: memref<4x{columns}xf32, #m>) access [ro, ro, {access}] cores 1 {{
      lpu_kernel.phase cores(%c) {{
        %n = lpu_kernel.load %i[0] [9] : memref<9xi64, #m> -> !t<9xi64>
        %t = lpu_kernel.load %x[0, 0] [9, {columns}]
          : memref<9x{columns}xf32, #m> -> !t<9x{columns}xf32>
        lpu_kernel.store {kind}%t, %y[0, 0] index 0 by %n
          : !t<9x{columns}xf32>, memref<4x{columns}xf32, #m>, !t<9xi64>
      }}
    }}""",
        torch.randn(9, columns),
        torch.tensor([3, 0, 3, 3, 1, 2, 0, 1, 1]),
        torch.zeros(4, columns),
    )


# --- checks ---------------------------------------------------------------------------------------


def test_the_first_check_that_fails_is_noted():
    op = parse_kernel("""
    lpu_kernel.kernel @k(%a: memref<40xi1, #m>, %b: memref<40xi1, #m>, %y: memref<40xi1, #m>)
        access [ro, ro, wo] cores 1 {
      lpu_kernel.phase cores(%c) {
        %t = lpu_kernel.load %a[0] [40] : memref<40xi1, #m> -> !t<40xi1>
        lpu_kernel.check %t, "IndexError", "first" : !t<40xi1>
        %u = lpu_kernel.load %b[0] [40] : memref<40xi1, #m> -> !t<40xi1>
        lpu_kernel.check %u, "ZeroDivisionError", "second" : !t<40xi1>
        lpu_kernel.store %t, %y[0] : !t<40xi1>, memref<40xi1, #m>
      }
    }""")
    good, bad = torch.ones(40, dtype=torch.bool), torch.ones(40, dtype=torch.bool)
    bad[37] = False
    for a, b, expected in [
        (good, good, []),
        (good, bad, [("ZeroDivisionError", "second")]),
        (bad, good, [("IndexError", "first")]),
        (bad, bad, [("IndexError", "first")]),
    ]:
        y = torch.empty(40, dtype=torch.bool)
        assert launch_native(op, [a, b, y]) == expected
        assert torch.equal(y, a)  # the kernel runs on


@pytest.mark.parametrize("divisor", [1, 2, 3, 8, -1, -2, -3])
@pytest.mark.parametrize("is_known", [True, False], ids=["known", "argument"])
def test_index_arithmetic_rounds_down(divisor: int, is_known: bool):
    """The quotient is where the kernel stores to."""
    operands = "%n" if is_known else "%n, %m"
    expr = f"20 + d0 floordiv ({divisor})" if is_known else "20 + d0 floordiv d1"
    for number in (-7, -6, -1, 0, 1, 6, 7):
        launch(
            f"""
        lpu_kernel.kernel @k(%y: memref<40xf32, #m>, %n: index, %m: index) access [wo] cores 1 {{
          lpu_kernel.phase cores(%c) {{
            %o = lpu_kernel.apply <{expr}>({operands})
            %z = lpu_kernel.fill 1.0 : f32 [1] -> !t<1xf32>
            lpu_kernel.store %z, %y[%o] : !t<1xf32>, memref<40xf32, #m>
          }}
        }}""",
            torch.zeros(40),
            number,
            divisor,
        )


@pytest.mark.parametrize("trips", [0, 2])
def test_a_tile_that_is_put_into_memory_is_there_after_a_loop_that_reads_it(trips: int):
    launch(
        """
    lpu_kernel.kernel @k(%x: memref<9x8xf32, #m>, %i: memref<4xi64, #m>, %y: memref<4x4xf32, #m>,
                         %n: index) access [ro, ro, wo] cores 1 {
      lpu_kernel.phase cores(%c) {
        %j = lpu_kernel.load %i[0] [4] : memref<4xi64, #m> -> !t<4xi64>
        %t = lpu_kernel.load %x[0, 0] [1, 8] index 0 by %j
          : memref<9x8xf32, #m>, !t<4xi64> -> !t<4x8xf32>
        %o = lpu_kernel.fill 1.0 : f32 [4, 8] -> !t<4x8xf32>
        %z = lpu_kernel.fill 0.0 : f32 [4, 4] -> !t<4x4xf32>
        %s = lpu_kernel.for reduction %k = 0 to %n step 1 iter_args(%a = %z) -> (!t<4x4xf32>) {
          %p = lpu_kernel.contract %t as [0, 2], %o as [1, 2] acc(%a : !t<4x4xf32>)
            : !t<4x8xf32>, !t<4x8xf32> -> !t<4x4xf32>
          lpu_kernel.yield %p : !t<4x4xf32>
        }
        %q = lpu_kernel.contract %t as [0, 2], %o as [1, 2] acc(%s : !t<4x4xf32>)
          : !t<4x8xf32>, !t<4x8xf32> -> !t<4x4xf32>
        lpu_kernel.store %q, %y[0, 0] : !t<4x4xf32>, memref<4x4xf32, #m>
      }
    }""",
        torch.randn(9, 8),
        torch.tensor([8, 0, 3, 3]),
        torch.empty(4, 4),
        trips,
    )
