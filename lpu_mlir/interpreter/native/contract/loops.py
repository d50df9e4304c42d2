"""The code of a contraction: loops over blocks of sums, and where their results go.

Where an extent is not a multiple of a block's, the last block is moved back or repeats its last
position, so that nothing outside is read or written; where the sums are added to what is there,
what another block has added already is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from lpu_mlir.dialects.lpu import element_bytes
from lpu_mlir.interpreter.native.contract.blocks import Run, runs
from lpu_mlir.interpreter.native.contract.pack import Packing, panel_elements
from lpu_mlir.interpreter.native.contract.parts import Contraction, Place, Row
from lpu_mlir.interpreter.native.contract.plan import Level
from lpu_mlir.interpreter.native.contract.sums import Summation
from lpu_mlir.interpreter.native.llvm import Int, Value, lanes_of

Scratch = Callable[[int], Value]
"""Gives memory of so many bytes."""


@dataclass(frozen=True)
class Emission:
    """The blocks of a contraction; packed operands are in the panel."""

    what: Contraction
    scratch: Scratch

    def run(self) -> None:
        what = self.what
        place = Place(what.lhs.base, what.rhs.base, what.out.base)
        if what.plan.packed:
            size = panel_elements(what) * element_bytes(what.out.element)
            self._levels(what.plan.levels, place, [Row()], self.scratch(size))
        else:
            self._levels(what.plan.levels, place, [Row()])

    def _levels(
        self, levels: Sequence[Level], place: Place, rows: list[Row], panel: Value | None = None
    ) -> None:
        """The loops over the blocks, and in them each block."""
        what = self.what
        if panel is not None and all(level.axis.rhs == 0 for level in levels):
            what, place, rows = Packing.of(what, rows, panel).packed(place, rows)
            replace(self, what=what)._levels(levels, place, rows)
            return
        if not levels:
            self._store_all(place, rows, Summation(what, rows).total(place))
            return
        level, axis = levels[0], levels[0].axis
        for run in runs(what.b, axis.size, what.width(axis), level.count, level.apart):
            with self._each(run) as start:
                there = what.moved(place, axis, start) if run.exact else place
                more = what.rows(rows, axis, run.positions(what.b, start))
                self._levels(levels[1:], there, more, panel)

    @contextmanager
    def _each(self, run: Run) -> Generator[Int]:
        """A loop over the blocks of a run, giving where each starts."""
        b = self.what.b
        if run.blocks == 1:
            yield run.first
            return
        with b.loop(run.first, b.add(run.first, b.mul(run.blocks, run.step)), run.step) as loop:
            yield loop.index

    # --- results --------------------------------------------------------------------------------

    def _store_all(self, place: Place, rows: Sequence[Row], sums: Sequence[Value]) -> None:
        plan = self.what.plan
        if plan.dot:
            self._store_dots(place, rows, sums)
        elif plan.vector is None or plan.vector.out == 1:
            for row, value in zip(rows, sums, strict=True):
                stale = () if row.stale == 0 else (self.what.lanes_from(row.stale),)
                self._write(place, row.out, value, (*row.fresh, *stale))
        else:
            self._store_across(place, rows, sums)

    def _store_dots(self, place: Place, rows: Sequence[Row], sums: Sequence[Value]) -> None:
        """Store the sum of the lanes of each row, several at once where they are neighbours."""
        at = 0
        for value in self.what.arithmetic.lane_sums(sums):
            group = rows[at : at + lanes_of(value.type)]
            at += len(group)
            if _are_neighbours(group):
                self._write(place, group[0].out, value, group[0].fresh)
            else:
                for lane, row in enumerate(group):
                    self._write(place, row.out, self.what.b.extract(value, lane), row.fresh)

    def _store_across(self, place: Place, rows: Sequence[Row], sums: Sequence[Value]) -> None:
        """Store each lane somewhere else, together with that lane of rows that are neighbours."""
        b, plan = self.what.b, self.what.plan
        assert plan.vector is not None
        at = 0
        while at < len(rows):
            count = plan.lanes
            while count > len(rows) - at or not _are_neighbours(rows[at : at + count]):
                count //= 2
            row = rows[at]
            joined = self.what.arithmetic.interleaved(sums[at : at + count])
            for lane in range(plan.lanes):
                first = lane * count % plan.lanes
                value = self._part(joined[lane * count // plan.lanes], first, count)
                offset = b.add(row.out, b.mul(lane, plan.vector.out))
                stale = () if row.stale == 0 else (b.less(row.stale, lane + 1),)
                self._write(place, offset, value, (*row.fresh, *stale))
            at += count

    def _part(self, value: Value, first: int, count: int) -> Value:
        """Some lanes of a vector."""
        if count == 1:
            return self.what.b.extract(value, first)
        return self.what.arithmetic.shuffle(value, value, range(first, first + count))

    def _write(self, place: Place, offset: Int, value: Value, conditions: Sequence[Value]) -> None:
        """Store, or add to what is there where the conditions hold."""
        what, b = self.what, self.what.b
        element = what.out.element
        address = b.address(place.out, offset, element)
        if what.accumulate:
            old = b.load(address, element, lanes_of(value.type))
            value = what.arithmetic.add(old, value)
            for condition in conditions:
                value = what.arithmetic.select(condition, value, old)
        b.store(value, address, element)


def _are_neighbours(rows: Sequence[Row]) -> bool:
    """Whether the results follow each other in memory, each for itself; one row is."""
    first = rows[0].out
    return len(rows) == 1 or (
        isinstance(first, int)
        and all(
            row.out == first + n and not row.fresh and row.stale == rows[0].stale
            for n, row in enumerate(rows)
        )
    )
