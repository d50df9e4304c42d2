"""
The reference interpreter: what the kernel dialect means, executed tile by tile with torch.

It checks everything that can go wrong on the device and is the oracle of faster ways to run.
"""

from lpu_mlir.interpreter.reference.errors import (
    ChannelError,
    ExtentError,
    HazardError,
    OutOfBoundsError,
    RaceError,
    SramCapacityError,
    SramClobberedError,
    UnwrittenReadError,
)
from lpu_mlir.interpreter.reference.launch import InterpreterParams, LaunchStats
from lpu_mlir.interpreter.reference.machine import CompiledKernel
from lpu_mlir.interpreter.reference.memory import Memory

__all__ = [
    "ChannelError",
    "CompiledKernel",
    "ExtentError",
    "HazardError",
    "InterpreterParams",
    "LaunchStats",
    "Memory",
    "OutOfBoundsError",
    "RaceError",
    "SramCapacityError",
    "SramClobberedError",
    "UnwrittenReadError",
]
