"""What runs of programs did, and what the callable given to torch asks of a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from lpu_mlir.runtime.layout import Layout
from lpu_mlir.runtime.numbers import Symbols

LAUNCHED = "%s: %d bytes read, %d written, %.6f s"
"""What is logged of a launch: kernel, bytes, time."""


@dataclass
class KernelUse:
    """How often a kernel was launched and what its launches moved, in bytes."""

    launches: int = 0
    dram_read: int = 0
    dram_written: int = 0

    def add(self, other: KernelUse) -> None:
        self.launches += other.launches
        self.dram_read += other.dram_read
        self.dram_written += other.dram_written


@dataclass
class RunStats:
    """What one run of a program did."""

    kernels: dict[str, KernelUse] = field(default_factory=dict[str, KernelUse])
    peak_bytes: int = 0
    """The most bytes that arenas held at once."""
    arena_bytes: int = 0
    seconds: float = 0.0
    """Wall time."""
    freeze: RunStats | None = None
    """What the run of @freeze did that was needed first, if one was."""
    kept_bytes: int = 0
    """Bytes of results of @freeze that are kept."""
    partitions: int = 0
    """How many runs of launches there were without a host call in between."""
    _inside: bool = False

    def add_launch(self, name: str, use: KernelUse) -> None:
        if not self._inside:
            self.partitions, self._inside = self.partitions + 1, True
        self.kernels.setdefault(name, KernelUse()).add(use)

    def add_host_call(self) -> None:
        self._inside = False


class Runnable(Protocol):
    """A lowered module made ready to run; threads may run it at once.

    `execute` takes the tensors of @main's arguments, then the destinations of its results, and
    gives what it returns: the results at the positions `returned`.  The last arguments are the
    results of @freeze, which takes those of @main's arguments at the positions `frozen`.
    """

    returned: tuple[int, ...]
    frozen: tuple[int, ...]
    kept: tuple[Layout, ...]
    """The results of @freeze."""

    def empty(self, sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Memory for a result; what is in it is undefined."""
        ...

    def execute(
        self,
        arguments: Sequence[Tensor],
        destinations: Sequence[Tensor],
        symbols: Symbols,
        stats: RunStats | None,
        entry: str = "main",
    ) -> list[Tensor]:
        """Runs @main, or @freeze; says in `stats` what it did."""
        ...
