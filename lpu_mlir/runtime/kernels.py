"""Kernels as machine code: what calls them must know, and one launch on tensors."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntAttr, MemRefType, StridedLayoutAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.hints import isa

from lpu_mlir.dialects.lpu_kernel import ContractOp, KernelOp
from lpu_mlir.interpreter.native.compile import Code, Loader
from lpu_mlir.interpreter.native.kernel import NativeKernel, emit_kernel, prepare_kernel
from lpu_mlir.interpreter.native.machine import Machine
from lpu_mlir.interpreter.native.pool import Plan, as_bases, pool

Aliases: TypeAlias = set[tuple[int, int]]
"""Pairs of a kernel's buffers, the lower one first, that may share bytes."""

Emit: TypeAlias = Callable[[KernelOp, Machine, Aliases, int], NativeKernel]
"""From a kernel after the whole pipeline to LLVM text for so many workers."""

WORKER_BYTES = 16 << 10
"""Another worker is worth it for so many bytes of a kernel's buffers."""
CONTRACTION_BYTES = 2 << 10
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


@dataclass(frozen=True)
class Layout:
    """Which sizes and strides of a memref a kernel must be told; None for the others."""

    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...] | None
    """None for a dense memref: they follow from the sizes."""

    @staticmethod
    def of(type: MemRefType[Attribute]) -> Layout:
        sizes = tuple(None if n == DYNAMIC_INDEX else n for n in type.get_shape())
        if isinstance(type.layout, StridedLayoutAttr):
            given = type.layout.strides.data
            return Layout(sizes, tuple(s.data if isinstance(s, IntAttr) else None for s in given))
        return Layout(sizes, None)


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel in memory."""

    name: str
    phases: tuple[tuple[int, int], ...]
    """The address of each phase's function and its number of cores."""
    scratch: int
    """Bytes for each worker."""
    checks: tuple[tuple[str, str], ...]
    arguments: tuple[Layout | None, ...]
    """The layouts of memrefs, in order; None for an index."""
    worker_bytes: int
    code: Code

    @staticmethod
    def load(kernel: KernelOp, native: NativeKernel, loader: Loader) -> LoadedKernel:
        """Compiles a kernel, unless one with the same text is there under whatever name."""
        own, common = f"@{native.name}.", "@kernel."
        names = [name.replace(own[1:], common[1:], 1) for name, _ in native.phases]
        code = loader.load(native.text.replace(own, common), names)
        addresses = [code.addresses[name] for name in names]
        types = [argument.type for argument in kernel.args]
        multiplies = any(isinstance(op, ContractOp) for op in kernel.walk())
        return LoadedKernel(
            native.name,
            tuple((a, cores) for a, (_, cores) in zip(addresses, native.phases, strict=True)),
            native.scratch_bytes,
            tuple(native.checks),
            tuple(Layout.of(t) if isa(t, MemRefType[Attribute]) else None for t in types),
            CONTRACTION_BYTES if multiplies else WORKER_BYTES,
            code,
        )

    def failure(self, check: int) -> Exception:
        """The exception of a failed check."""
        error, message = self.checks[check]
        exception: type[Exception] = vars(builtins)[error]
        return exception(message)

    def launch(self, args: Sequence[Tensor | int], workers: int) -> None:
        """Runs the kernel on CPU tensors and index values, in the order of its arguments.

        Raises the exception of the first check that fails.  Nothing else is checked.
        """
        slots: list[int] = []
        for layout, arg in zip(self.arguments, args, strict=True):
            slots += [arg] if isinstance(arg, int) else tensor_slots(layout, arg)
        values = np.array(slots, np.int64)
        entries = [[address, 0, cores, workers] for address, cores in self.phases]
        table = np.array(entries, np.int64).reshape(-1, 4)
        plan = Plan(table, values, np.zeros_like(values), scratch=self.scratch, keep=self)
        failed = pool().run(plan, as_bases([]), workers)
        if failed is not None:
            raise self.failure(failed[1])


def tensor_slots(layout: Layout | None, tensor: Tensor) -> list[int]:
    """What a kernel is told of a tensor; ValueError if it is not laid out as the kernel expects."""
    assert layout is not None
    sizes, strides = layout.sizes, layout.strides
    given: list[Any] = list(zip(tensor.shape, tensor.stride(), strict=True))
    steps = strides or dense_strides(tuple(tensor.shape))
    for (size, stride), known, step in zip(given, sizes, steps, strict=True):
        fits = known in (None, size) and (size < 2 or step in (None, stride) or 0 in tensor.shape)
        if not fits:
            raise ValueError(f"a tensor {tuple(tensor.shape)}, {tensor.stride()} for {layout}")
    told = [n for n, known in zip(tensor.shape, sizes, strict=True) if known is None]
    if strides is not None:
        told += [n for n, known in zip(tensor.stride(), strides, strict=True) if known is None]
    return [tensor.data_ptr(), *told]


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a dense tensor of that shape."""
    steps = accumulate(reversed(shape[1:]), lambda a, b: a * b, initial=1)
    return tuple(reversed(list(steps)))[-len(shape) :] if shape else ()
