"""Kernels made ready to run: the definition of what the kernel dialect means."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType
from xdsl.ir import Region
from xdsl.utils.hints import isa

from lpu_mlir.dialects.lpu_kernel import CHECK_ERRORS, KernelOp
from lpu_mlir.interpreter.reference.arguments import bind_arguments
from lpu_mlir.interpreter.reference.errors import (
    ChannelError,
    OutOfBoundsError,
    SramCapacityError,
)
from lpu_mlir.interpreter.reference.launch import (
    Frame,
    InterpreterParams,
    Launch,
    LaunchStats,
    Step,
)
from lpu_mlir.interpreter.reference.memory import Memory
from lpu_mlir.interpreter.reference.scalar import DTYPES
from lpu_mlir.interpreter.reference.scope import Scope, sram_needed
from lpu_mlir.interpreter.reference.steps import compile_block

_ERRORS: dict[str, type[Exception]] = {
    error.__name__: error for error in (IndexError, ZeroDivisionError, RuntimeError)
}
assert set(_ERRORS) == set(CHECK_ERRORS)


@dataclass(frozen=True)
class _Program:
    """What one core, or top for one core, runs in one phase."""

    steps: Sequence[Step]
    template: Sequence[Any]
    scalars: Sequence[tuple[int, int]]
    core_slot: int

    @staticmethod
    def compile(kernel: KernelOp, region: Region) -> _Program:
        scope = Scope(kernel, region)
        steps = compile_block(region.block, scope)
        return _Program(steps, scope.template, scope.scalars, scope.core_slot)

    def values(self, args: Sequence[Tensor | int]) -> list[Any]:
        """The slots of a frame with the kernel's index arguments in place."""
        values = list(self.template)
        for number, slot in self.scalars:
            values[slot] = args[number]
        return values


class CompiledKernel:
    """
    A kernel as closures. It keeps no reference to state of a launch, so that any number of threads
    may launch one object at once. Later changes of the operation are not seen.

    Raises NotImplementedError for operations that kernels do not have.
    """

    def __init__(self, kernel: KernelOp):
        self.name = kernel.sym_name.data
        self._cores = kernel.cores
        self._channels = list(kernel.channels())
        self._types = [arg.type for arg in kernel.args]
        self._written = [word.data != "ro" for word in kernel.access]
        self._sram_needed = sram_needed(kernel)
        self._phases = [
            (
                None if phase.top is None else _Program.compile(kernel, phase.top),
                _Program.compile(kernel, phase.cores),
            )
            for phase in kernel.phases()
        ]

    def launch(
        self, args: Sequence[Tensor | int], memory: Memory, params: InterpreterParams
    ) -> LaunchStats:
        """
        Run the kernel on CPU tensors (any strides) and index values, in the order of its arguments.

        Raises TypeError or ValueError for arguments that do not fit the kernel, a HazardError at
        the first thing the LPU does not allow, and after the launch the exception of the first
        failed check: also where something was then accessed out of bounds.
        """
        tensors = self._check_arguments(args)
        self._check_sram(params)
        races = params.check_races and self._cores > 1
        launch = Launch(bind_arguments(tensors, self._written, memory, races))
        order = list(range(self._cores))
        if params.seed:
            random.Random(params.seed).shuffle(order)
        try:
            with torch.no_grad():
                for number, (top, cores) in enumerate(self._phases):
                    for argument in launch.arguments:
                        if argument.accesses is not None:
                            argument.accesses.reset()
                    self._run_phase(launch, number, top, cores, order, args)
        except OutOfBoundsError:
            if not launch.failures:
                raise
        if launch.failures:
            _, _, error, message = min(launch.failures, key=lambda failure: failure[:2])
            raise _ERRORS[error](message)
        return LaunchStats(launch.dram_read, launch.dram_written)

    def _run_phase(
        self,
        launch: Launch,
        number: int,
        top: _Program | None,
        cores: _Program,
        order: Sequence[int],
        args: Sequence[Tensor | int],
    ) -> None:
        queues = [{name: deque[Any]() for name in self._channels} for _ in order]
        for program in (top, cores):
            if program is None:
                continue
            values = program.values(args)
            for turn, core in enumerate(order):
                frame = Frame(launch, number, core, turn, values.copy(), queues[core])
                frame.values[program.core_slot] = core
                for step in program.steps:
                    step(frame)
        for core, of_core in enumerate(queues):
            for name, queue in of_core.items():
                if queue:
                    raise ChannelError(
                        f"kernel @{self.name}: core {core} leaves {len(queue)} tiles requested "
                        f"for it in channel @{name}"
                    )

    def _check_arguments(self, args: Sequence[Tensor | int]) -> list[Tensor]:
        """The tensors among the arguments, after checking all against the kernel's types."""
        if len(args) != len(self._types):
            raise TypeError(
                f"kernel @{self.name} takes {len(self._types)} arguments, got {len(args)}"
            )
        tensors: list[Tensor] = []
        for number, (arg, type) in enumerate(zip(args, self._types, strict=True)):
            if not isa(type, MemRefType):
                if not isinstance(arg, int):
                    raise TypeError(f"argument {number} of kernel @{self.name} is an index")
                continue
            if not isinstance(arg, torch.Tensor):
                raise TypeError(f"argument {number} of kernel @{self.name} is a memref")
            self._check_tensor(number, arg, DTYPES[type.element_type], type.get_shape())
            tensors.append(arg)
        return tensors

    def _check_tensor(
        self, number: int, tensor: Tensor, dtype: torch.dtype, shape: Sequence[int]
    ) -> None:
        fits = len(shape) == tensor.ndim and all(
            static in (DYNAMIC_INDEX, -1, actual)
            for static, actual in zip(shape, tensor.shape, strict=True)
        )
        if tensor.dtype != dtype or not fits:
            raise ValueError(
                f"argument {number} of kernel @{self.name} is {tensor.dtype} "
                f"{list(tensor.shape)}, expected {dtype} {list(shape)}"
            )

    def _check_sram(self, params: InterpreterParams) -> None:
        needed, what = self._sram_needed
        if needed > params.sram_bytes:
            raise SramCapacityError(
                f"kernel @{self.name}: {what} reaches byte {needed} of an SRAM of "
                f"{params.sram_bytes}"
            )
