"""Kernels compiled to machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, IntAttr, MemRefType, StridedLayoutAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.hints import isa

from lpu_mlir.dialects.lpu_kernel import ContractOp, KernelOp
from lpu_mlir.interpreter.native.kernel import NativeKernel, emit_kernel, prepare_kernel
from lpu_mlir.interpreter.native.machine import Machine
from lpu_mlir.model.traffic import moved_bytes
from lpu_mlir.runtime.host_program import Fixed, Kernel

Aliases: TypeAlias = set[tuple[int, int]]
"""Pairs of a kernel's buffers, the lower one first, that may share bytes."""

Emit: TypeAlias = Callable[[KernelOp, Machine, Aliases, int], NativeKernel]
"""From a kernel after the whole pipeline to LLVM text for so many workers."""

WORKER_BYTES = 16 << 10
"""Another worker is worth it for so many bytes of a kernel's buffers."""
CONTRACTION_BYTES = 4 << 10
"""The same for kernels that multiply matrices: they read what they load more than once."""


def emit(kernel: KernelOp, machine: Machine, aliases: Aliases, workers: int) -> NativeKernel:
    """The kernel as LLVM text; NotImplementedError names the kernel and what has no translation."""
    prepared = prepare_kernel(kernel, workers)
    memrefs = [argument for argument in prepared.args if isinstance(argument.type, MemRefType)]
    numbers = {argument: n for n, argument in enumerate(memrefs)}

    def may_alias(a: SSAValue, b: SSAValue) -> bool:
        i, j = sorted((numbers[a], numbers[b]))
        return i == j or (i, j) in aliases

    try:
        return emit_kernel(prepared, machine, may_alias)
    except NotImplementedError as error:
        raise NotImplementedError(f"kernel @{kernel.sym_name.data}: {error}") from error


def describe_kernel(kernel: KernelOp, native: NativeKernel, image: bytes) -> Kernel:
    """The kernel's machine code, and what calls it must know."""
    types = [argument.type for argument in kernel.args]
    multiplies = any(isinstance(op, ContractOp) for op in kernel.walk())
    return Kernel(
        native.name,
        image,
        native.phases,
        native.scratch_bytes,
        native.checks,
        tuple(_fixed(t) if isa(t, MemRefType[Attribute]) else None for t in types),
        CONTRACTION_BYTES if multiplies else WORKER_BYTES,
        str(kernel) if IndexType() in types else moved_bytes(kernel),
    )


def _fixed(type: MemRefType[Attribute]) -> Fixed:
    sizes = tuple(None if n == DYNAMIC_INDEX else n for n in type.get_shape())
    if isinstance(type.layout, StridedLayoutAttr):
        given = type.layout.strides.data
        return Fixed(sizes, tuple(s.data if isinstance(s, IntAttr) else None for s in given))
    return Fixed(sizes, None)
