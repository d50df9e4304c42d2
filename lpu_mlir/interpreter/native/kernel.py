"""A kernel as LLVM text: one function for each phase, which runs a range of cores.

    define void @phase0(ptr %args, ptr %scratch, i64 %lo, i64 %hi, ptr %fail)

`args` holds an i64 for each of: the address of a memref's first element, its sizes that are not
known from its type, its strides that are not; an index.  `scratch` is memory of the worker that
calls, and `fail` where it notes the first `check` that fails: its number in the kernel, from 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IntAttr,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
)
from xdsl.ir import Attribute, Block, Operation
from xdsl.utils.hints import isa

from lpu_mlir.dialects.lpu import element_bytes
from lpu_mlir.dialects.lpu_kernel import (
    ApplyOp,
    ArgFoldOp,
    CheckOp,
    ContractOp,
    FillOp,
    FoldOp,
    ForOp,
    KernelOp,
    LoadOp,
    MapOp,
    ScanOp,
    SliceOp,
    StoreOp,
    WindowsOp,
    YieldOp,
)
from lpu_mlir.interpreter.native.contractions import emit_contraction
from lpu_mlir.interpreter.native.folds import emit_arg_fold, emit_fold, emit_scan
from lpu_mlir.interpreter.native.frame import Frame
from lpu_mlir.interpreter.native.llvm import I64, PTR, Builder, Int, Module, Value
from lpu_mlir.interpreter.native.loops import emit_for
from lpu_mlir.interpreter.native.machine import Machine
from lpu_mlir.interpreter.native.maps import (
    emit_apply,
    emit_check,
    emit_constant_op,
    emit_fill,
    emit_map,
    emit_scalar_op,
    emit_slice,
    emit_windows,
)
from lpu_mlir.interpreter.native.movement import emit_load, emit_store
from lpu_mlir.interpreter.native.schedule import MayAlias, Schedule
from lpu_mlir.interpreter.native.tile import View
from lpu_mlir.transforms.coalesce_cores import coalesce
from lpu_mlir.transforms.coalesce_trips import POSITIONS, coalesce_trips
from lpu_mlir.transforms.join_movement import join_kernel

UNJOINED = "channels are joined by the pass join-movement"

ARGUMENTS = (
    Value(PTR, "%args"),
    Value(PTR, "%scratch"),
    Value(I64, "%lo"),
    Value(I64, "%hi"),
    Value(PTR, "%fail"),
)


@dataclass(frozen=True)
class NativeKernel:
    """A kernel as LLVM text, and what its caller must know."""

    name: str
    text: str
    phases: tuple[tuple[str, int], ...]
    """The function of each phase and its number of cores."""
    scratch_bytes: int
    checks: tuple[tuple[str, str], ...]
    """Exception and message of each check, in order."""


def emit_kernel(kernel: KernelOp, machine: Machine, may_alias: MayAlias) -> NativeKernel:
    """Translates a kernel without channels; NotImplementedError names what has no translation."""
    module = Module()
    checks: list[tuple[str, str]] = []
    phases: list[tuple[str, int]] = []
    scratch = 0
    for number, phase in enumerate(kernel.phases()):
        function = (
            f"phase{number}"  # without the kernel's name, so that equal kernels have one text
        )
        b = Builder(module)
        frame = Frame(b, kernel, machine, Schedule.of(phase, may_alias), checks, {})
        _bind_arguments(frame)
        with b.loop(ARGUMENTS[2], ARGUMENTS[3]) as cores:
            frame.values[phase.core_id] = cores.index
            emit_block(frame, phase.cores.block)
        b.fence()
        module.definitions[function] = b.function(function, ARGUMENTS, _attributes(machine))
        phases.append((function, kernel.cores))
        scratch = max(scratch, frame.scratch.bytes)
    return NativeKernel(kernel.sym_name.data, module.text(), tuple(phases), scratch, tuple(checks))


def prepare_kernel(kernel: KernelOp, cores: int) -> KernelOp:
    """A copy of a kernel as `emit_kernel` wants it: without channels, and where it pays with fewer
    cores on larger tiles, but at least as many as are asked for, and with fewer trips of loops."""
    copy = kernel.clone()
    join_kernel(copy)
    coalesce(copy, cores)
    coalesce_trips(copy, POSITIONS)
    return copy


def _attributes(machine: Machine) -> str:
    """Without them LLVM may split the widest vectors in two."""
    width = 8 * machine.vector_bytes
    return f'nounwind "min-legal-vector-width"="{width}" "prefer-vector-width"="{width}" '


# --- arguments ------------------------------------------------------------------------------------


def _bind_arguments(f: Frame) -> None:
    slots = _Slots(f.b)
    for argument in f.kernel.args:
        if isa(argument.type, MemRefType[Attribute]):
            view = _memref(f.b, slots, argument.type)
            large = _bytes(view) >= f.machine.cache_bytes
            passing = large and f.kernel.access_of(argument) == "wo"
            f.memrefs[argument] = replace(view, passing=passing)
        else:
            f.values[argument] = slots.next(I64)


@dataclass
class _Slots:
    """The argument block, read from the front."""

    b: Builder
    count: int = 0

    def next(self, type: str) -> Value:
        offset, self.count = self.count, self.count + 1
        slot = self.b.op(PTR, f"getelementptr i64, {ARGUMENTS[0]}, i64 {offset}")
        return self.b.op(type, f"load {type}, {slot}")


def _memref(b: Builder, slots: _Slots, type: MemRefType[Attribute]) -> View:
    base = slots.next(PTR)
    sizes: list[Int] = [
        slots.next(I64) if size == DYNAMIC_INDEX else size for size in type.get_shape()
    ]
    return View(base, type.element_type, tuple(sizes), _strides(b, slots, type, sizes))


def _bytes(view: View) -> int:
    """The bytes of the elements, as far as their number is known."""
    return element_bytes(view.element) * prod(n if isinstance(n, int) else 1 for n in view.sizes)


def _strides(
    b: Builder, slots: _Slots, type: MemRefType[Attribute], sizes: list[Int]
) -> tuple[Int, ...]:
    if isinstance(type.layout, StridedLayoutAttr):
        given = type.layout.strides.data
        return tuple(s.data if isinstance(s, IntAttr) else slots.next(I64) for s in given)
    assert isinstance(type.layout, NoneAttr)
    strides: list[Int] = []
    step: Int = 1
    for size in reversed(sizes):
        strides.append(step)
        step = b.mul(step, size)
    return tuple(reversed(strides))


# --- operations -----------------------------------------------------------------------------------


def emit_block(f: Frame, block: Block) -> None:
    for op in block.ops:
        if isinstance(op, YieldOp):
            continue
        f.position = f.schedule.position[op]
        if (emit := EMIT.get(type(op))) is None:
            if op.name.startswith("lpu_kernel."):
                raise NotImplementedError(f"{op.name} has no native form; {UNJOINED}")
            emit = emit_scalar_op
        emit(f, op)


def _for(f: Frame, op: Operation) -> None:
    emit_for(f, op, emit_block)


EMIT: Mapping[type[Operation], Callable[[Frame, Operation], None]] = {
    ApplyOp: emit_apply,
    arith.ConstantOp: emit_constant_op,
    FillOp: emit_fill,
    MapOp: emit_map,
    SliceOp: emit_slice,
    WindowsOp: emit_windows,
    CheckOp: emit_check,
    LoadOp: emit_load,
    StoreOp: emit_store,
    FoldOp: emit_fold,
    ArgFoldOp: emit_arg_fold,
    ScanOp: emit_scan,
    ContractOp: emit_contraction,
    ForOp: _for,
}
"""Operation -> what translates it; what is not here is arithmetic on single values."""
