"""Programs that run every kernel twice: interpreted, and as machine code on copies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, ModuleOp

from lpu_mlir.compile import interpreter_params
from lpu_mlir.debug.measure import Distance, MismatchError, distance
from lpu_mlir.debug.parts import random_numbers_kept
from lpu_mlir.dialects.lpu_kernel import KernelOp, TileType
from lpu_mlir.interpreter.native.compile import loader
from lpu_mlir.interpreter.reference import CompiledKernel, InterpreterParams, LaunchStats, Memory
from lpu_mlir.interpreter.reference.scalar import DTYPES
from lpu_mlir.options import Options
from lpu_mlir.runtime.describe.program import describe_program
from lpu_mlir.runtime.kernels import LoadedKernel
from lpu_mlir.runtime.native import NativeProgram
from lpu_mlir.runtime.numbers import Symbols
from lpu_mlir.runtime.program import Program
from lpu_mlir.runtime.stats import RunStats

ARITHMETIC = ("arith.", "math.", "lpu.remf", "lpu_kernel.fold", "lpu_kernel.contract")
"""Beginnings of the names of what computes."""

EXACT = (arith.ConstantOp, arith.ExtFOp, arith.NegfOp, arith.SelectOp)


class ComparedKernel:
    """A kernel that is interpreted; the machine code for it must do the same.

    MismatchError if it does not: for the first argument that it writes otherwise, or for another
    exception.  Results may differ by `tolerance` times what `kernel_distance` allows.
    """

    def __init__(self, kernel: KernelOp, native: LoadedKernel, tolerance: float, workers: int):
        self.name = kernel.sym_name.data
        self.reference, self.native = CompiledKernel(kernel), native
        self.tolerance, self.workers = tolerance, workers
        self.computed = rounded_to(kernel)
        self.written = [n for n, word in enumerate(kernel.access) if word.data != "ro"]

    def launch(
        self, args: Sequence[Tensor | int], memory: Memory, params: InterpreterParams
    ) -> LaunchStats:
        copies = copied(args)
        theirs = _attempt(lambda: self.reference.launch(args, memory, params))
        ours = _attempt(lambda: self.native.launch(copies, self.workers))
        if isinstance(theirs, Exception) or isinstance(ours, Exception):
            if type(theirs) is type(ours) and str(theirs) == str(ours):
                assert isinstance(theirs, Exception)
                raise theirs
            raise self._mismatch(f"{_said(ours)} instead of {_said(theirs)}")
        for position in self.written:
            got, expected = copies[position], args[position]
            assert isinstance(got, Tensor)
            assert isinstance(expected, Tensor)
            found = kernel_distance(got, expected, self.tolerance, self.computed)
            if found is not None:
                raise self._mismatch(f"argument {position}: {found}")
        return theirs

    def _mismatch(self, what: str) -> MismatchError:
        return MismatchError(
            f"machine code and the reference interpreter differ in kernel @{self.name}, {what}"
        )


def rounded_to(kernel: KernelOp) -> frozenset[torch.dtype]:
    """The dtypes of floats that a kernel rounds to on its way: a result may be of a finer one."""
    types = [
        result.type.element_type if isinstance(result.type, TileType) else result.type
        for op in kernel.walk()
        for result in op.results
        if op.name.startswith(ARITHMETIC) and not isinstance(op, EXACT)
    ]
    return frozenset(DTYPES[type] for type in types if isinstance(type, AnyFloat))


def kernel_distance(
    actual: Tensor, expected: Tensor, tolerance: float, computed: Iterable[torch.dtype] = ()
) -> Distance | None:
    """The distance of what machine code wrote from what the interpreter did; None if they agree.

    Sums are added in another order, and what they are of may cancel: so the absolute tolerance is
    for every unit of the largest value.
    """
    sizes = expected[expected.isfinite()].to(torch.float64).abs()
    unit = max(1.0, float(sizes.max())) if sizes.numel() else 1.0
    return distance(actual, expected, tolerance, unit, computed)


def copied(args: Sequence[Tensor | int]) -> list[Tensor | int]:
    """Arguments with storage of their own; what is shared stays shared."""
    storages: dict[int, torch.UntypedStorage] = {}

    def copy(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        own = storages.get(storage.data_ptr()) or storage.clone()
        storages[storage.data_ptr()] = own
        empty = torch.empty(0, dtype=tensor.dtype)
        return empty.set_(own, tensor.storage_offset(), tensor.shape, tensor.stride())

    return [copy(arg) if isinstance(arg, Tensor) else arg for arg in args]


def _attempt(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except Exception as error:
        return error


def _said(outcome: Any) -> str:
    is_error = isinstance(outcome, Exception)
    return f"{type(outcome).__name__}: {outcome}" if is_error else "no exception"


def side_by_side(module: ModuleOp, options: Options) -> ComparedProgram:
    """What runs every kernel of a lowered module twice."""
    return ComparedProgram(module, interpreter_params(options), options.tolerance)


class ComparedProgram:
    """A module as machine code, which before each run is interpreted on copies of the arguments,
    kernel by kernel beside machine code; see `Runnable`.

    What `stats` says is of the interpreter.
    """

    def __init__(self, module: ModuleOp, params: InterpreterParams, tolerance: float):
        described, workers = describe_program(module), torch.get_num_threads()
        natives = {kernel.name: LoadedKernel.load(kernel, loader()) for kernel in described.kernels}

        def make(kernel: KernelOp) -> CompiledKernel | ComparedKernel:
            native = natives.get(kernel.sym_name.data)
            if native is None:  # it is never launched
                return CompiledKernel(kernel)
            return ComparedKernel(kernel, native, tolerance, workers)

        self.interpreted, self.native = Program(module, params, make), NativeProgram(described)
        self.returned, self.frozen = described.returned, described.frozen
        self.kept = described.kept
        self.empty = self.native.empty

    def execute(
        self,
        arguments: Sequence[Tensor],
        destinations: Sequence[Tensor],
        symbols: Symbols,
        stats: RunStats | None,
        entry: str = "main",
    ) -> list[Tensor]:
        copies = [t for t in copied([*arguments, *destinations]) if isinstance(t, Tensor)]
        count = len(arguments)
        with random_numbers_kept():
            self.interpreted.execute(copies[:count], copies[count:], dict(symbols), stats, entry)
        return self.native.execute(arguments, destinations, symbols, None, entry)
