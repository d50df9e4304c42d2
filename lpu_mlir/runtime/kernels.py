"""Kernels as machine code: what calls them must know, and one launch on tensors."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

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
class Parameter:
    """Which sizes and strides of a memref a kernel has to be told: those that are None here."""

    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...] | None
    """None for a dense memref: they follow from the sizes."""

    @staticmethod
    def of(type: MemRefType[Attribute]) -> Parameter:
        sizes = tuple(None if n == DYNAMIC_INDEX else n for n in type.get_shape())
        if isinstance(type.layout, StridedLayoutAttr):
            steps = type.layout.strides.data
            return Parameter(
                sizes, tuple(s.data if isinstance(s, IntAttr) else None for s in steps)
            )
        return Parameter(sizes, None)


@dataclass(frozen=True)
class KernelText:
    """A kernel as LLVM text, and what its caller must know."""

    native: NativeKernel
    parameters: tuple[Parameter | None, ...]
    """Of the memrefs among its arguments; None for an index."""
    worker_bytes: int
    """For so many bytes of its buffers another worker is worth it."""

    @staticmethod
    def of(kernel: KernelOp, native: NativeKernel) -> KernelText:
        types = [argument.type for argument in kernel.args]
        multiplies = any(isinstance(op, ContractOp) for op in kernel.walk())
        return KernelText(
            native,
            tuple(Parameter.of(t) if isa(t, MemRefType[Attribute]) else None for t in types),
            CONTRACTION_BYTES if multiplies else WORKER_BYTES,
        )


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel in memory."""

    name: str
    phases: tuple[tuple[int, int], ...]
    """The address of each phase's function and its number of cores."""
    scratch: int
    """Bytes for each worker."""
    checks: tuple[tuple[str, str], ...]
    parameters: tuple[Parameter | None, ...]
    worker_bytes: int
    code: Code

    @staticmethod
    def load(text: KernelText, loader: Loader) -> LoadedKernel:
        """Compiles a kernel, unless one with the same text is there."""
        native = text.native
        code = loader.load(native.text, [name for name, _ in native.phases])
        return LoadedKernel(
            native.name,
            tuple((code.addresses[name], cores) for name, cores in native.phases),
            native.scratch_bytes,
            native.checks,
            text.parameters,
            text.worker_bytes,
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
        for parameter, arg in zip(self.parameters, args, strict=True):
            slots += [arg] if isinstance(arg, int) else tensor_slots(parameter, arg)
        values = np.array(slots, np.int64)
        entries = [[address, 0, cores, workers] for address, cores in self.phases]
        table = np.array(entries, np.int64).reshape(-1, 4)
        plan = Plan(table, values, np.zeros_like(values), scratch=self.scratch, keep=self)
        failed = pool().run(plan, as_bases([]), workers)
        if failed is not None:
            raise self.failure(failed[1])


def tensor_slots(parameter: Parameter | None, tensor: Tensor) -> list[int]:
    """What a kernel is told of a tensor; ValueError if it is not laid out as the kernel expects."""
    assert parameter is not None
    shape, strides = tuple(tensor.shape), tensor.stride()
    expected = parameter.strides or dense_strides(shape)
    rows = zip(shape, strides, parameter.sizes, expected, strict=True)
    for size, stride, known, step in rows:
        matters = size > 1 and 0 not in shape
        if known not in (None, size) or (matters and step not in (None, stride)):
            raise ValueError(f"a tensor {shape} with strides {strides} for {parameter}")
    told = [n for n, known in zip(shape, parameter.sizes, strict=True) if known is None]
    if parameter.strides is not None:
        told += [n for n, known in zip(strides, parameter.strides, strict=True) if known is None]
    return [tensor.data_ptr(), *told]


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a dense tensor of that shape."""
    steps = accumulate(reversed(shape[1:]), lambda a, b: a * b, initial=1)
    return tuple(reversed(list(steps)))[-len(shape) :] if shape else ()
