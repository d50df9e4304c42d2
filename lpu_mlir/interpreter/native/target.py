"""`lpu-opt -t llvm-ir`: kernels as the native interpreter compiles them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.target import Target

from lpu_mlir.dialects.lpu_kernel import KernelOp
from lpu_mlir.interpreter.native.kernel import NativeKernel, emit_kernel
from lpu_mlir.interpreter.native.machine import MACHINES, Machine


@dataclass(frozen=True)
class LlvmIrTarget(Target):
    """
    The kernels of a module as LLVM text, each with a comment that says what its caller must know.
    Channels must have been joined:
    `lpu-opt -p join-movement,coalesce-cores,coalesce-trips -t llvm-ir`.
    """

    name = "llvm-ir"

    machine: str = "x86-64-v3"
    """What vectors are made for: a key of `MACHINES`."""

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        if self.machine not in MACHINES:
            raise PassFailedException(
                f"unknown machine '{self.machine}', expected one of {', '.join(MACHINES)}"
            )
        kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
        if not kernels:
            raise PassFailedException("no kernels here: loop-to-kernel makes them")
        for kernel in kernels:
            native = _emit(kernel, MACHINES[self.machine])
            print(f"; @{native.name}: {native.scratch_bytes} bytes of scratch", file=output)
            for function, cores in native.phases:
                print(f"; @{function} on {cores} cores", file=output)
            for number, (error, message) in enumerate(native.checks, 1):
                print(f"; check {number}: {error}: {message}", file=output)
            print(native.text, file=output)


def _emit(kernel: KernelOp, machine: Machine) -> NativeKernel:
    try:
        return emit_kernel(kernel, machine, lambda a, b: a is b)
    except NotImplementedError as error:
        raise PassFailedException(f"kernel @{kernel.sym_name.data}: {error}") from error
