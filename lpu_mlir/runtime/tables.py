"""What one native call gets: tables of kernels and their arguments, for each binding of symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lpu_mlir.interpreter.native.pool import ARENA, Plan
from lpu_mlir.runtime.host_program import Ints, Launches
from lpu_mlir.runtime.kernels import LoadedKernel
from lpu_mlir.runtime.numbers import Bounded, Symbols, evaluator
from lpu_mlir.runtime.stats import KernelUse

MOST_BINDINGS = 64
"""For so many values of the symbols tables are kept."""


@dataclass(frozen=True)
class Bound:
    """A run for some values of the symbols: entries, slots and roots as `Plan` takes them."""

    kernels: Sequence[LoadedKernel]
    entries: Ints
    slots: Ints
    roots: Ints
    arena_bytes: int
    """What the run's own intermediates take."""
    firsts: Sequence[int]
    """The first slot of each launch."""

    @cached_property
    def uses(self) -> Mapping[str, KernelUse]:
        """What all launches of each kernel do."""
        found: dict[str, KernelUse] = {}
        for kernel, first in zip(self.kernels, self.firsts, strict=True):
            use = KernelUse(1, *kernel.moved(self.slots[first:]))
            found.setdefault(kernel.name, KernelUse()).add(use)
        return found

    @cached_property
    def plan(self) -> Plan:
        """All launches in one call."""
        scratch = max((kernel.scratch for kernel in self.kernels), default=0)
        return Plan(
            self.entries,
            self.slots,
            self.roots,
            scratch=scratch,
            arena=self.arena_bytes,
            keep=self.kernels,
        )

    @cached_property
    def launches(self) -> Sequence[tuple[LoadedKernel, Plan]]:
        """Each launch by itself; the call gives the intermediates an address, as the last root."""
        last = max(self.roots, default=ARENA) + 1
        roots = np.where(self.roots == ARENA, last, self.roots)
        ends = np.cumsum([len(kernel.phases) for kernel in self.kernels])
        parts = np.split(self.entries, ends[:-1])
        return [
            (kernel, Plan(part, self.slots, roots, scratch=kernel.scratch, keep=kernel))
            for kernel, part in zip(self.kernels, parts, strict=True)
        ]


class RunTable:
    """The tables of a run of launches.

    A call gives the addresses of the roots, in order.
    """

    def __init__(self, run: Launches, kernels: Mapping[str, LoadedKernel]):
        self.run = run
        self.kernels = [kernels[name] for name in run.kernels]
        self._entries, self._works, self._worker_bytes = self._table()
        self._evaluate = evaluator(run.expressions)
        self.symbols = tuple(sorted({n for expr in run.expressions for n in expr.names()}))
        self._bound: Bounded[tuple[int, ...], Bound] = Bounded(self._bind, MOST_BINDINGS)

    def _table(self) -> tuple[Ints, Ints, Ints]:
        """The entries but for the number of workers; of each the place of its bytes, and for how
        many another worker is worth it."""
        entries: list[tuple[int, int, int, int]] = []
        works: list[int] = []
        worth: list[int] = []
        for loaded, first, work in zip(self.kernels, self.run.firsts, self.run.works, strict=True):
            entries += [(address, first, cores, 1) for address, cores in loaded.phases]
            works += [work] * len(loaded.phases)
            worth += [loaded.kernel.worker_bytes] * len(loaded.phases)
        table = np.array(entries, np.int64).reshape(-1, 4)
        return table, np.array(works, np.int64), np.array(worth, np.int64)

    def kernel_of(self, entry: int) -> LoadedKernel:
        """The kernel that an entry of the plan is a phase of."""
        for kernel in self.kernels:
            if entry < len(kernel.phases):
                return kernel
            entry -= len(kernel.phases)
        raise IndexError(entry)

    def bound(self, symbols: Symbols) -> Bound:
        """The tables for these values of the symbols."""
        return self._bound.get(tuple([symbols[name] for name in self.symbols]))

    def _bind(self, key: tuple[int, ...]) -> Bound:
        run, values = self.run, self._evaluate(dict(zip(self.symbols, key, strict=True)))
        self._check_strides(values)
        starts = self._arena_starts(values)
        slots = values[run.values] + starts[run.depths]
        entries = self._entries.copy()
        worth = 1 + values[self._works] // self._worker_bytes
        entries[:, 3] = np.minimum(worth, entries[:, 2])
        return Bound(self.kernels, entries, slots, run.bases, int(starts[-1]), run.firsts)

    def _check_strides(self, values: Ints) -> None:
        size, extent, stride, expected = values[self.run.equal].T
        if ((size > 0) & (extent > 1) & (stride != expected)).any():
            raise ValueError("a buffer is not laid out as its kernel expects; a bug in lpu_mlir")

    def _arena_starts(self, values: Ints) -> Ints:
        """Where the arenas of each depth start, counted from 1, and where the last one ends."""
        arenas = self.run.arenas
        deepest = max((depth for depth, _ in arenas), default=0)
        sizes = np.zeros(deepest + 2, np.int64)
        for depth, place in arenas:
            sizes[depth + 1] = max(sizes[depth + 1], values[place])
        return np.cumsum(sizes)
