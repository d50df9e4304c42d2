"""What one native call gets: tables of kernels and their arguments, for each binding of symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lpu_mlir.dialects.expr import Expr, contiguous_strides
from lpu_mlir.dialects.lpu import extents, strides, type_bytes
from lpu_mlir.dialects.lpu_host import ALIGNMENT
from lpu_mlir.interpreter.native.pool import ARENA, FIRST_ROOT, Plan
from lpu_mlir.runtime.flat import Buffer, Launch, Root, Run
from lpu_mlir.runtime.kernels import Layout, LoadedKernel
from lpu_mlir.runtime.numbers import Bounded, Numbers, Symbols

MOST_BINDINGS = 64
"""For so many values of the symbols tables are kept."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Bound:
    """A run for some values of the symbols: entries, slots and roots as `Plan` takes them."""

    kernels: Sequence[LoadedKernel]
    entries: Ints
    slots: Ints
    roots: Ints
    arena_bytes: int
    """What the run's own intermediates take."""

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


class Writer:
    """Lays out the arguments of launches: each slot is an expression's value, plus the address of a
    root, plus the start of an arena among those of the run."""

    def __init__(self, run: Run):
        self.numbers = Numbers()
        self.roots: dict[Root, int] = {}
        self.depths = {arena.root: arena.depth + 1 for arena in run.arenas}
        self.slots: list[tuple[int, int, int]] = []
        """For each slot the place of its value, the number of its root, and the depth of its arena,
        from 1; 0 where there is none."""
        self.equal: list[tuple[int, int, int, int]] = []
        """Places of a buffer's bytes, an extent, a stride, and what the stride must be if there are
        bytes and the extent is above 1."""

    def launch(self, launch: Launch, kernel: LoadedKernel) -> int:
        """Adds the arguments of a launch; the number of the first slot."""
        first, buffers, indices = len(self.slots), iter(launch.buffers), iter(launch.indices)
        for layout in kernel.arguments:
            if layout is None:
                self.number(next(indices))
            else:
                self.buffer(next(buffers), layout, kernel.name)
        return first

    def number(self, expr: Expr) -> None:
        self.slots.append((self.numbers.place(expr), 0, 0))

    def buffer(self, buffer: Buffer, layout: Layout, name: str) -> None:
        shape, steps = extents(buffer.type), strides(buffer.type)
        root, address = buffer.object.root, self.numbers.place(buffer.object.offset + buffer.start)
        if root in self.depths:
            self.slots.append((address, ARENA, self.depths[root]))
        else:
            number = self.roots.setdefault(root, FIRST_ROOT + len(self.roots))
            self.slots.append((address, number, 0))
        for extent, known in zip(shape, layout.sizes, strict=True):
            if known is None:
                self.number(extent)
            elif extent != known:
                raise ValueError(f"@{name} takes extents {layout.sizes}, got {buffer.type}")
        expected = contiguous_strides(shape) if layout.strides is None else layout.strides
        for extent, stride, known in zip(shape, steps, expected, strict=True):
            if known is None:
                self.number(stride)
            elif stride != known:
                self.must_equal(buffer, extent, stride, Expr.of(known))

    def must_equal(self, buffer: Buffer, extent: Expr, stride: Expr, expected: Expr) -> None:
        place = self.numbers.place
        size = place(type_bytes(buffer.type))
        self.equal.append((size, place(extent), place(stride), place(expected)))


class RunTable:
    """The tables of a run of launches.

    A call gives the addresses of `roots`, in order.
    """

    def __init__(self, run: Run, kernels: Mapping[str, LoadedKernel]):
        self.kernels = [kernels[launch.kernel] for launch in run.launches]
        writer, place = (made := Writer(run)), made.numbers.place
        pairs = list(zip(run.launches, self.kernels, strict=True))
        firsts = [writer.launch(launch, kernel) for launch, kernel in pairs]
        works = [place(_bytes_of(launch)) for launch in run.launches]
        self._arenas = [(arena.depth + 1, place(arena.size)) for arena in run.arenas]
        self._entries, self._works, self._worker_bytes = self._table(firsts, works)
        self._values, self._roots, self._depths = _columns(writer.slots, 3)
        self.roots = list(writer.roots)
        self._equal = _columns(writer.equal, 4)
        self._evaluate = writer.numbers.evaluator()
        self.symbols = tuple(writer.numbers.names())
        self._bound: Bounded[tuple[int, ...], Bound] = Bounded(self._bind, MOST_BINDINGS)
        if not self.symbols:
            self.bound({})  # tells at once what is wrong

    def _table(self, firsts: Sequence[int], works: Sequence[int]) -> tuple[Ints, Ints, Ints]:
        """The entries but for the number of workers; of each the place of its bytes, and for how
        many another worker is worth it."""
        entries: list[tuple[int, int, int, int]] = []
        sizes: list[tuple[int, int]] = []
        for kernel, first, work in zip(self.kernels, firsts, works, strict=True):
            entries += [(address, first, cores, 1) for address, cores in kernel.phases]
            sizes += [(work, kernel.worker_bytes)] * len(kernel.phases)
        table = np.array(entries, np.int64).reshape(-1, 4)
        places, worth = _columns(sizes, 2)
        return table, places, worth

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
        values = self._evaluate(dict(zip(self.symbols, key, strict=True)))
        self._check_strides(values)
        starts = self._arena_starts(values)
        slots = values[self._values] + starts[self._depths]
        entries = self._entries.copy()
        worth = 1 + values[self._works] // self._worker_bytes
        entries[:, 3] = np.minimum(worth, entries[:, 2])
        return Bound(self.kernels, entries, slots, self._roots, int(starts[-1]))

    def _check_strides(self, values: Ints) -> None:
        size, extent, stride, expected = (values[places] for places in self._equal)
        if ((size > 0) & (extent > 1) & (stride != expected)).any():
            raise ValueError("a buffer is not laid out as its kernel expects; a bug in lpu_mlir")

    def _arena_starts(self, values: Ints) -> Ints:
        """Where the arenas of each depth start, counted from 1, and where the last one ends."""
        deepest = max((depth for depth, _ in self._arenas), default=0)
        sizes = np.zeros(deepest + 2, np.int64)
        for depth, place in self._arenas:
            aligned = -(-values[place] // ALIGNMENT) * ALIGNMENT
            sizes[depth + 1] = max(sizes[depth + 1], aligned)
        return np.cumsum(sizes)


def _columns(rows: Sequence[tuple[int, ...]], count: int) -> tuple[Ints, ...]:
    return tuple(np.array(rows, np.int64).reshape(-1, count).T.copy())


def _bytes_of(launch: Launch) -> Expr:
    """What the buffers of a launch hold, a measure of the work."""
    return sum((type_bytes(buffer.type) for buffer in launch.buffers), Expr.const(0))
