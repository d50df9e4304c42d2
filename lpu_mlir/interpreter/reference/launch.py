"""The state of one launch, and of one core's run of one program within it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from torch import Tensor

from lpu_mlir.interpreter.reference.arguments import Argument


@dataclass(frozen=True, kw_only=True)
class InterpreterParams:
    """How strictly, and on what machine, kernels run."""

    seed: int = 0
    """Shuffles the order in which the cores of a phase run; 0 keeps them in order."""

    sram_bytes: int = 1 << 23
    """The capacity of one core's SRAM."""

    check_races: bool = True
    """Report bytes that one core writes and another writes or reads in one phase."""


@dataclass(frozen=True)
class LaunchStats:
    """What one launch moved."""

    dram_read: int
    """Bytes; what is the same for all cores counts once, whether split into a multicast or not."""

    dram_written: int
    """Bytes, over all cores."""


@dataclass
class Launch:
    """Everything that changes while a kernel runs."""

    arguments: Sequence[Argument]
    dram_read: int = 0
    dram_written: int = 0
    failures: list[tuple[int, int, str, str]] = field(default_factory=list[Any])
    """Failed checks: phase, core, exception, message."""


@dataclass
class Frame:
    """
    One core's run of one program. `values` holds a value per slot: tiles as tensors, index values
    as integers. `turn` is the core's place in the order in which they run.
    """

    launch: Launch
    phase: int
    core: int
    turn: int
    values: list[Any]
    queues: dict[str, deque[tuple[Tensor, tuple[int, ...]]]]
    clobbered: set[int] = field(default_factory=set[int])
    """The slots of tiles whose SRAM now holds something else."""


Step: TypeAlias = Callable[[Frame], None]
