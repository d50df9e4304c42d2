"""What machine code is told: addresses, sizes, strides, indices; which buffers may overlap."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from lpu_mlir.dialects.lpu_kernel import KernelOp
from lpu_mlir.interpreter.native.compile import loader
from lpu_mlir.interpreter.native.kernel import NativeKernel
from lpu_mlir.interpreter.native.machine import Machine
from lpu_mlir.pipeline import make_context
from lpu_mlir.runtime.describe.flat import Run, aliases, flatten
from lpu_mlir.runtime.describe.kernels import describe_kernel
from lpu_mlir.runtime.describe.program import describe_program
from lpu_mlir.runtime.kernels import LoadedKernel
from lpu_mlir.runtime.native import NativeProgram
from lpu_mlir.runtime.stats import RunStats

# A kernel that says what it is told: its last argument gets its first 12 slots.
DUMP = """
define void @dump(ptr %args, ptr %scratch, i64 %lo, i64 %hi, ptr %fail) {
  %at = getelementptr i64, ptr %args, i64 POSITION
  %out = load ptr, ptr %at
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %args, i64 96, i1 false)
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


def module(text: str) -> ModuleOp:
    return Parser(make_context(), text).parse_module()


def dump(kernel: KernelOp, machine: Machine, shared: Any, workers: int) -> NativeKernel:
    position = kernel.attributes["position"].data
    text = DUMP.replace("POSITION", position)
    return NativeKernel(kernel.sym_name.data, text, (("dump", 1),), 0, ())


def run(text: str, *tensors: Tensor, destinations: int = 1, **symbols: int) -> RunStats:
    program, stats = NativeProgram(describe_program(module(text), dump)), RunStats()
    count = len(tensors) - destinations
    program.execute(tensors[:count], tensors[count:], symbols, stats)
    return stats


STATIC = """
lpu_kernel.kernel @k(%x: memref<4x6xf32, "shared_dram">, %n: index,
    %y: memref<2x6xf32, strided<[12, 1]>, "shared_dram">, %out: memref<12xi64, "shared_dram">)
    access [ro, ro, wo] cores 1 {
  lpu_kernel.phase cores(%c) {}
} attributes {position = "3"}
func.func @main(%x: memref<4x6xf32, "shared_dram">, %out: memref<12xi64, "shared_dram">) {
  %y = lpu_host.view %x : memref<4x6xf32, "shared_dram">
    -> memref<2x6xf32, #lpu.layout<[2, 6], [12, 1], 6>, "shared_dram">
  lpu_host.launch @k(%x, %y, %out) indices <[7]> : memref<4x6xf32, "shared_dram">,
    memref<2x6xf32, #lpu.layout<[2, 6], [12, 1], 6>, "shared_dram">, memref<12xi64, "shared_dram">
  func.return
}
"""


def test_known_sizes_are_not_told():
    x, out = torch.zeros(4, 6), torch.zeros(12, dtype=torch.int64)
    run(STATIC, x, out)
    address = x.data_ptr()
    assert out[:4].tolist() == [address, 7, address + 4 * 6, out.data_ptr()]


def test_the_offset_of_a_tensor_counts():
    whole, out = torch.zeros(100), torch.zeros(12, dtype=torch.int64)
    x = whole[10:34].view(4, 6)
    run(STATIC, x, out)
    assert out[0] == whole.data_ptr() + 40


@pytest.mark.parametrize(("cache_bytes", "streams"), [(191, True), (192, False)])
def test_programs_stream_that_read_more_than_the_cache_holds(
    cache_bytes: int, streams: bool, monkeypatch: pytest.MonkeyPatch
):
    machines: list[Machine] = []

    def emit(kernel: KernelOp, machine: Machine, shared: Any, workers: int) -> NativeKernel:
        machines.append(machine)
        return dump(kernel, machine, shared, workers)

    monkeypatch.setattr(loader(), "machine", replace(loader().machine, cache_bytes=cache_bytes))
    describe_program(module(STATIC), emit)  # arguments of 96 bytes each
    assert [machine.streams for machine in machines] == [streams]


DYNAMIC = """
lpu_kernel.kernel @k(%x: memref<?x?xf32, strided<[1, ?]>, "shared_dram">,
    %y: memref<?x3xf32, "shared_dram">, %out: memref<12xi64, "shared_dram">, %n: index)
    access [ro, ro, wo] cores 1 {
  lpu_kernel.phase cores(%c) {}
} attributes {position = "6"}
func.func @main(
    %x: memref<?x?xf32, #lpu.layout<[s0, s1], [1, s2], 0>, "shared_dram">,
    %y: memref<?x3xf32, #lpu.layout<[2 * s0, 3], [3, 1], 0>, "shared_dram">,
    %out: memref<12xi64, "shared_dram">) {
  lpu_host.launch @k(%x, %y, %out) indices <[s0 * s1 + 1]> :
    memref<?x?xf32, #lpu.layout<[s0, s1], [1, s2], 0>, "shared_dram">,
    memref<?x3xf32, #lpu.layout<[2 * s0, 3], [3, 1], 0>, "shared_dram">,
    memref<12xi64, "shared_dram">
  func.return
}
"""


def test_what_symbols_determine_is_told_anew_for_their_values():
    program = NativeProgram(describe_program(module(DYNAMIC), dump))
    for s0, s1, s2 in [(5, 4, 5), (2, 3, 9), *((n, 2, n) for n in range(1, 100)), (5, 4, 5)]:
        x, y = torch.zeros(s1, s2)[:, :s0].t(), torch.zeros(2 * s0, 3)
        out = torch.zeros(12, dtype=torch.int64)
        program.execute([x, y], [out], {"s0": s0, "s1": s1, "s2": s2}, None)
        told = [x.data_ptr(), s0, s1, s2, y.data_ptr(), 2 * s0, out.data_ptr(), s0 * s1 + 1]
        assert out[:8].tolist() == told


CALLS = """
lpu_kernel.kernel @k(%a: memref<16xf32, "shared_dram">, %b: memref<?xf32, "shared_dram">,
    %out: memref<12xi64, "shared_dram">) access [rw, rw, wo] cores 1 {
  lpu_kernel.phase cores(%c) {}
} attributes {position = "3"}
func.func private @inner(%a: memref<16xf32, "shared_dram">, %out: memref<12xi64, "shared_dram">) {
  %arena = lpu_host.arena <256 * s0> lower_bound <0>
    : memref<?xi8, #lpu.layout<[256 * s0], [1], 0>, "shared_dram">
  %b = lpu_host.carve %arena at <64> : memref<?xi8, #lpu.layout<[256 * s0], [1], 0>, "shared_dram">
    -> memref<?xf32, #lpu.layout<[s0], [1], 0>, "shared_dram">
  lpu_host.launch @k(%a, %b, %out) indices <[]> : memref<16xf32, "shared_dram">,
    memref<?xf32, #lpu.layout<[s0], [1], 0>, "shared_dram">, memref<12xi64, "shared_dram">
  func.return
}
func.func @main(%out0: memref<12xi64, "shared_dram">, %out1: memref<12xi64, "shared_dram">) {
  %arena = lpu_host.arena <300> lower_bound <0> : memref<300xi8, "shared_dram">
  %a = lpu_host.carve %arena at <128>
    : memref<300xi8, "shared_dram"> -> memref<16xf32, "shared_dram">
  func.call @inner(%a, %out0)
    : (memref<16xf32, "shared_dram">, memref<12xi64, "shared_dram">) -> ()
  func.call @inner(%a, %out1)
    : (memref<16xf32, "shared_dram">, memref<12xi64, "shared_dram">) -> ()
  func.return
}
"""


@pytest.mark.parametrize("s0", [1, 3])
def test_calls_use_one_after_the_other_the_memory_behind_the_callers(s0: int):
    outs = [torch.zeros(12, dtype=torch.int64) for _ in range(2)]
    stats = run(CALLS, *outs, destinations=2, s0=s0)
    (a0, b0, n0), (a1, b1, n1) = (out[:3].tolist() for out in outs)
    assert (a0, b0, n0) == (a1, b1, s0)
    assert n1 == s0
    assert (a0 - 128) % 64 == 0
    assert b0 == a0 - 128 + 320 + 64  # the caller's 300 bytes end at a multiple of 64
    assert stats.peak_bytes == 320 + 256 * s0
    assert stats.kernels["k"].launches == 2


def test_intermediates_that_do_not_fit_are_an_error():
    outs = [torch.zeros(12, dtype=torch.int64) for _ in range(2)]
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        run(CALLS, *outs, destinations=2, s0=1 << 45)
    assert not outs[0].any()


def test_strides_that_a_kernel_cannot_see_are_refused():
    wrong = STATIC.replace("[12, 1], 6>", "[11, 1], 6>")
    with pytest.raises(ValueError, match="@k takes strides"):
        describe_program(module(wrong), dump)
    late = DYNAMIC.replace("[2 * s0, 3], [3, 1]", "[2 * s0, 3], [s1, 1]")
    program = NativeProgram(describe_program(module(late), dump))
    out = torch.zeros(12, dtype=torch.int64)
    x, y = torch.zeros(3, 2).t(), torch.zeros(4, 3)
    program.execute([x, y], [out], {"s0": 2, "s1": 3, "s2": 2}, None)
    with pytest.raises(ValueError, match="not laid out as its kernel expects"):
        program.execute([x, y], [out], {"s0": 2, "s1": 4, "s2": 2}, None)
    # Of one row or none the stride does not matter.
    program.execute([x, y], [out], {"s0": 0, "s1": 4, "s2": 2}, None)


# --- overlaps -----------------------------------------------------------------------------------


def shared(body: str, access: str) -> set[tuple[int, int]]:
    """The pairs of @k's buffers that may overlap, of a program with arguments %x, %z of 24 f32."""
    f = '"shared_dram"'
    text = f"""
    lpu_kernel.kernel @k(%a: memref<8xf32, {f}>, %b: memref<8xf32, {f}>, %c: memref<8xf32, {f}>)
        access {access} cores 1 {{
      lpu_kernel.phase cores(%core) {{}}
    }}
    func.func @main(%x: memref<24xf32, {f}>, %z: memref<24xf32, {f}>) {{
      {body}
      func.return
    }}"""
    parsed = module(text)
    functions = {op.sym_name.data: op for op in parsed.ops if isinstance(op, func.FuncOp)}
    [kernel] = [op for op in parsed.ops if isinstance(op, KernelOp)]
    return aliases(flatten(functions["main"], functions), kernel)


def view(name: str, source: str, offset: object, stride: int = 1) -> str:
    return (
        f'%{name} = lpu_host.view %{source} : memref<24xf32, "shared_dram"> '
        f"-> {viewed(offset, stride)}\n"
    )


def viewed(offset: object, stride: int = 1) -> str:
    return f'memref<8xf32, #lpu.layout<[8], [{stride}], {offset}>, "shared_dram">'


def launch(*buffers: tuple[str, object]) -> str:
    names = ", ".join(f"%{name}" for name, _ in buffers)
    types = ", ".join(viewed(offset) for _, offset in buffers)
    return f"lpu_host.launch @k({names}) indices <[]> : {types}\n"


def test_parts_of_one_buffer_overlap_if_their_bytes_do():
    parts = view("p", "x", 0) + view("q", "x", 8) + view("r", "x", 15)
    call = launch(("p", 0), ("q", 8), ("r", 15))
    assert shared(parts + call, "[ro, ro, wo]") == {(1, 2)}
    assert shared(parts + call, "[rw, rw, rw]") == {(1, 2)}
    assert shared(parts + call, "[wo, ro, ro]") == set()  # two that are only read


def test_different_buffers_never_overlap():
    parts = view("p", "x", 0) + view("q", "z", 0) + view("r", "x", 8)
    assert shared(parts + launch(("p", 0), ("q", 0), ("r", 8)), "[wo, wo, wo]") == set()


def test_what_is_not_known_may_overlap_and_launches_add_up():
    parts = view("p", "x", 0) + view("q", "z", 0) + view("r", "x", "s0")
    both = launch(("p", 0), ("q", 0), ("r", "s0")) + launch(("q", 0), ("q", 0), ("r", "s0"))
    assert shared(parts + both, "[ro, ro, wo]") == {(0, 2)}
    assert shared(parts + both, "[wo, ro, wo]") == {(0, 1), (0, 2)}


def test_runs_end_where_pytorch_is_needed():
    text = """
    lpu_kernel.kernel @k(%a: memref<4xf32, "shared_dram">) access [rw] cores 1 {
      lpu_kernel.phase cores(%core) {}
    }
    func.func @main(%x: memref<4xf32, "shared_dram">) {
      lpu_host.launch @k(%x) indices <[]> : memref<4xf32, "shared_dram">
      lpu_host.launch @k(%x) indices <[]> : memref<4xf32, "shared_dram">
      %y = "lpu.host_call"(%x) <{overload = "aten.erfinv.default",
        arguments = {"0" = #lpu.operand<0>}, reason = "test"}>
        : (memref<4xf32, "shared_dram">) -> memref<4xf32, "shared_dram">
      lpu_host.launch @k(%y) indices <[]> : memref<4xf32, "shared_dram">
      func.return
    }"""
    functions = {op.sym_name.data: op for op in module(text).ops if isinstance(op, func.FuncOp)}
    steps = flatten(functions["main"], functions).steps
    assert [len(s.launches) if isinstance(s, Run) else "host" for s in steps] == [2, "host", 1]


# --- one launch on tensors ----------------------------------------------------------------------


def test_a_launch_on_tensors():
    [kernel] = [op for op in module(DYNAMIC).ops if isinstance(op, KernelOp)]
    native = dump(kernel, loader().machine, set(), 1)
    described = describe_kernel(kernel, native, loader().image(native.text))
    loaded = LoadedKernel.load(described, loader())
    x, y, out = torch.zeros(5, 6).t(), torch.zeros(4, 3), torch.zeros(12, dtype=torch.int64)
    loaded.launch([x, y, out, 9], 1)
    expected = [x.data_ptr(), 6, 5, 6, y.data_ptr(), 4, out.data_ptr(), 9]
    assert out[:8].tolist() == expected
    with pytest.raises(ValueError, match="a tensor"):
        loaded.launch([x.contiguous(), y, out, 9], 1)
