"""Kernels in memory: where their functions are, and what calls must know."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pkgutil import resolve_name

import numpy as np
from torch import Tensor

from lpu_mlir.interpreter.native.compile import Code, Loader
from lpu_mlir.interpreter.native.pool import Plan, as_bases, pool
from lpu_mlir.runtime.host_program import Fixed, Ints, Kernel


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel in memory."""

    kernel: Kernel
    phases: tuple[tuple[int, int], ...]
    """The address of each phase's function and its number of cores."""
    code: Code
    """What owns the functions."""

    @staticmethod
    def load(kernel: Kernel, loader: Loader) -> LoadedKernel:
        """Loads a kernel, unless one with the same code is there under whatever name."""
        code = loader.load_image(kernel.image, [name for name, _ in kernel.phases])
        phases = tuple((code.addresses[name], cores) for name, cores in kernel.phases)
        return LoadedKernel(kernel, phases, code)

    @property
    def name(self) -> str:
        return self.kernel.name

    @property
    def scratch(self) -> int:
        """Bytes for each worker."""
        return self.kernel.scratch

    def failure(self, check: int) -> Exception:
        """The exception of a failed check."""
        error, message = self.kernel.checks[check]
        exception: type[Exception] = vars(builtins)[error]
        return exception(message)

    def moved(self, slots: Ints) -> tuple[int, int]:
        """Bytes that a launch with these slots reads and writes."""
        moved = self.kernel.moved
        if not isinstance(moved, str):
            return moved
        indices: list[int] = []
        place = 0
        for fixed in self.kernel.arguments:
            if fixed is None:
                indices.append(int(slots[place]))
            place += 1 if fixed is None else fixed.slots
        # Reads IR, and is asked for when a report is: not for every program from the cache.
        count = resolve_name("lpu_mlir.model.traffic:moved_bytes_of")
        return count(moved, tuple(indices))

    def launch(self, args: Sequence[Tensor | int], workers: int) -> None:
        """Runs the kernel on CPU tensors and index values, in the order of its arguments.

        Raises the exception of the first check that fails, and ValueError for a tensor that is not
        laid out as the kernel expects.
        """
        slots: list[int] = []
        for fixed, arg in zip(self.kernel.arguments, args, strict=True):
            slots += [arg] if isinstance(arg, int) else tensor_slots(fixed, arg)
        values = np.array(slots, np.int64)
        entries = [[address, 0, cores, workers] for address, cores in self.phases]
        table = np.array(entries, np.int64).reshape(-1, 4)
        plan = Plan(table, values, np.zeros_like(values), scratch=self.scratch, keep=self)
        failed = pool().run(plan, as_bases([]), workers)
        if failed is not None:
            raise self.failure(failed[1])


def tensor_slots(fixed: Fixed | None, tensor: Tensor) -> list[int]:
    """What a kernel is told of a tensor."""
    assert fixed is not None
    shape, strides = tuple(tensor.shape), tensor.stride()
    expected = fixed.strides or dense_strides(shape)
    rows = zip(shape, strides, fixed.sizes, expected, strict=True)
    for size, stride, known, step in rows:
        matters = size > 1 and 0 not in shape
        if known not in (None, size) or (matters and step not in (None, stride)):
            raise ValueError(f"a tensor {shape} with strides {strides} for {fixed}")
    told = [n for n, known in zip(shape, fixed.sizes, strict=True) if known is None]
    if fixed.strides is not None:
        told += [n for n, known in zip(strides, fixed.strides, strict=True) if known is None]
    return [tensor.data_ptr(), *told]


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a dense tensor of that shape."""
    steps = accumulate(reversed(shape[1:]), lambda a, b: a * b, initial=1)
    return tuple(reversed(list(steps)))[-len(shape) :] if shape else ()
