"""The sums of one block: loops over what is summed, with the accumulators in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod

from lpu_mlir.dialects.lpu import element_bytes
from lpu_mlir.interpreter.native.contract.axes import Axis
from lpu_mlir.interpreter.native.contract.cost import LINE_BYTES
from lpu_mlir.interpreter.native.contract.parts import Contraction, Place, Row
from lpu_mlir.interpreter.native.contract.plan import known
from lpu_mlir.interpreter.native.llvm import Int, Value
from lpu_mlir.interpreter.native.tile import View

UNROLLED = 96
"""Multiply-adds in the body of the innermost loop, at most."""
STEPS = 8
"""Trips of a loop in its body, at most."""
BLOCK = 128
"""Products that are added one after the other where sums are long: their error then grows with this
and with the number of such blocks, and not with the length."""
FETCHED = 14
"""Rows that the next block is fetched for ahead, at most."""
STREAMED_BYTES = 1024
"""How far ahead of where it is read a matrix is asked for: memory takes some hundred cycles."""
LARGE = 1 << 17
"""Elements of an operand that a cache near the processor does not hold."""

Sums = list[Value]
"""The accumulators of a block, one for each row."""


@dataclass(frozen=True)
class Summation:
    """Sets of sums for some rows; sets take turns, so that fewer additions wait for each other."""

    what: Contraction
    rows: Sequence[Row]

    def total(self, place: Place) -> Sums:
        """The sums over everything."""
        plan, arithmetic = self.what.plan, self.what.arithmetic
        nothing = [arithmetic.zero(plan.lanes)] * len(self.rows)
        sets = self._over(plan.summed, place, [nothing] * plan.copies)
        return [arithmetic.total(copies) for copies in zip(*sets, strict=True)]

    def _over(self, axes: Sequence[Axis], place: Place, sets: list[Sums]) -> list[Sums]:
        """The sums with what these axes add."""
        if not axes:
            return self._step(place, sets)
        b, axis = self.what.b, axes[0]
        trips = b.floor_divide(axis.size, self.what.width(axis))
        unroll = self._unroll(axis, trips, axes[1:])
        whole = trips if unroll == 1 else b.round_down(trips, unroll)
        sets = self._in_blocks(axes, place, whole, unroll, sets)
        if whole != trips:
            last = self._walk(axes, place, (whole, trips), 1, sets[:1])
            sets = [*last, *sets[1:]]
        if axis is self.what.plan.vector:
            sets = self._rest(axis, place, sets)
        return sets

    def _in_blocks(
        self, axes: Sequence[Axis], place: Place, trips: Int, unroll: int, sets: list[Sums]
    ) -> list[Sums]:
        """The first trips along the first axis; each block of many begins anew and is then added.

        Where lanes run along what is summed, each has a small part of it anyway.
        """
        what, b = self.what, self.what.b
        steps = prod(known(axis.size) for axis in axes[1:])
        block = max(1, BLOCK // (max(1, steps) * unroll)) * unroll
        if what.plan.dot or (isinstance(trips, int) and trips <= 2 * block):
            return self._walk(axes, place, (0, trips), unroll, sets)
        with b.loop(0, trips, block, [*chain(*sets)]) as loop:
            end = b.add(loop.index, block)
            if not isinstance(trips, int) or trips % block:
                end = b.minimum(end, trips)
            nothing = [[what.arithmetic.zero(what.plan.lanes)] * len(self.rows)] * len(sets)
            own = self._walk(axes, place, (loop.index, end), unroll, nothing)
            pairs = zip(loop.carried, chain(*own), strict=True)
            loop.carry(what.arithmetic.add(total, part) for total, part in pairs)
        return self._sets(loop.results)

    def _walk(
        self,
        axes: Sequence[Axis],
        place: Place,
        ends: tuple[Int, Int],
        unroll: int,
        sets: list[Sums],
    ) -> list[Sums]:
        """The trips along the first axis between two ends, so many in each of a loop."""
        what, (axis, *inner), (lower, upper) = self.what, axes, ends
        width = what.width(axis)
        if isinstance(lower, int) and isinstance(upper, int) and upper - lower <= unroll:
            for n in range(lower, upper):
                sets = self._over(inner, what.moved(place, axis, n * width), sets)
            return sets
        first, end = what.b.mul(lower, width), what.b.mul(upper, width)
        with what.b.loop(first, end, unroll * width, [*chain(*sets)]) as loop:
            there = what.moved(place, axis, loop.index)
            sets = self._sets(loop.carried)
            if not inner:
                self._prefetch(there)
            for n in range(unroll):
                here = what.moved(there, axis, n * width)
                if not inner:
                    self._stream(here, n * width, width)
                sets = self._over(inner, here, sets)
            loop.carry(chain(*sets))
        return self._sets(loop.results)

    def _prefetch(self, place: Place) -> None:
        """Ask for rows of the left operand that the next block reads where this one is."""
        what, b = self.what, self.what.b
        distance = self._ahead()
        offsets = dict.fromkeys(row.lhs for row in self.rows)
        if distance == 0 or len(offsets) > FETCHED:
            return
        for offset in offsets:
            b.prefetch(b.address(place.lhs, b.add(offset, distance), what.lhs.element))

    def _stream(self, place: Place, start: int, length: int) -> None:
        """Ask for what so many elements of each row of a matrix are followed by, line for line from
        `start` on, if every row is read once, not to be kept in the caches."""
        what, b = self.what, self.what.b
        operand = what.read_once()
        if operand is None:
            return
        view: View = getattr(what, operand)
        size = element_bytes(view.element)
        line = LINE_BYTES // size
        for offset in dict.fromkeys(getattr(row, operand) for row in self.rows):
            for begin in range(-start % line, length, line):
                ahead = b.add(offset, begin + STREAMED_BYTES // size)
                b.prefetch(b.address(getattr(place, operand), ahead, view.element), once=True)

    def _ahead(self) -> int:
        """How far from a block's rows of the left operand the next ones are, if the operand is
        large and its rows are read along; 0 if not, or if that is not known."""
        plan = self.what.plan
        if plan.vector is None or plan.vector.lhs != 0 or plan.summed[-1].lhs != 1:
            return 0
        axes = (*plan.summed, *(level.axis for level in plan.levels))
        if prod(known(axis.size) for axis in axes if axis.lhs != 0) < LARGE:
            return 0
        moving = [level for level in plan.levels if plan.positions(level.axis) > level.count]
        if not moving or not isinstance(moving[-1].axis.lhs, int):
            return 0
        return moving[-1].count * moving[-1].axis.lhs

    def _sets(self, values: Sequence[Value]) -> list[Sums]:
        size = len(self.rows)
        return [list(values[at : at + size]) for at in range(0, len(values), size)]

    def _unroll(self, axis: Axis, trips: Int, inner: Sequence[Axis]) -> int:
        """How many trips the body of a loop makes: all, as many as divide them, or any."""
        steps = len(self.rows)
        for other in inner:
            if not isinstance(other.size, int) or other is self.what.plan.vector:
                return 1
            steps *= other.size
        most = min(STEPS, max(1, UNROLLED // max(steps, 1)))
        copies = 1 if inner else max(1, self.what.plan.copies // self.what.products)
        if not isinstance(trips, int):
            return copies
        if self._reads_again(axis, min(trips, most)):
            return 1
        if trips <= most:
            return max(trips, 1)
        divisors = [n for n in range(most, 0, -1) if trips % n == 0 and n % copies == 0]
        return divisors[0] if divisors and not inner else copies

    def _reads_again(self, axis: Axis, trips: int) -> bool:
        """Whether one of so many trips reads for one row what an earlier one does for another;
        compilers would keep it in a register that there is not."""
        for operand in ("lhs", "rhs"):
            stride, offsets = getattr(axis, operand), {getattr(row, operand) for row in self.rows}
            if isinstance(stride, int) and stride != 0 and len(offsets) > 1:
                known_offsets = {offset for offset in offsets if isinstance(offset, int)}
                for n in range(1, trips):
                    if any(offset + n * stride in known_offsets for offset in known_offsets):
                        return True
        return False

    def _rest(self, axis: Axis, place: Place, sets: list[Sums]) -> list[Sums]:
        """What does not fill a vector: the last full vector, without what has been added."""
        b, width = self.what.b, self.what.width(axis)
        rest = b.sub(axis.size, b.round_down(axis.size, width))
        if rest == 0:
            return sets
        last = self.what.moved(place, axis, b.sub(axis.size, width))
        return self._step(last, sets, b.sub(width, rest))

    def _step(self, place: Place, sets: list[Sums], done: Int = 0) -> list[Sums]:
        """The multiply-adds of one step for each row, each into the set whose turn it is."""
        what, products = self.what, self.what.products
        along = what.plan.vector
        lhs_stride, rhs_stride = (along.lhs, along.rhs) if along else (0, 0)
        lhs: dict[Int, list[Value]] = {}
        rhs: dict[Int, list[Value]] = {}
        sums = [list(values) for values in sets]
        for n in self._order():
            row = self.rows[n]
            if row.lhs not in lhs:
                lhs[row.lhs] = self._load(what.lhs, place.lhs, row.lhs, lhs_stride, done)
            if row.rhs not in rhs:
                rhs[row.rhs] = self._load(what.rhs, place.rhs, row.rhs, rhs_stride, done)
            for turn, (a, z) in enumerate(zip(lhs[row.lhs], rhs[row.rhs], strict=True)):
                into = sums[turn % len(sums)]
                into[n] = what.arithmetic.multiply_add(a, z, into[n])
        return [*sums[products:], *sums[:products]]

    def _order(self) -> list[int]:
        """The rows in such an order that few vectors of the operands are kept."""
        lhs, rhs = [row.lhs for row in self.rows], [row.rhs for row in self.rows]
        more = lhs if len(set(lhs)) > len(set(rhs)) else rhs
        return sorted(range(len(self.rows)), key=lambda n: more.index(more[n]))

    def _load(self, view: View, base: Value, offset: Int, stride: Int, done: Int) -> list[Value]:
        """A vector of an operand for each product of a step, zero where elements are done."""
        what, b, lanes = self.what, self.what.b, self.what.plan.lanes
        values = (
            what.load_pairs(view, base, offset)
            if what.paired
            else [what.load(view, base, offset, stride)]
        )
        if done == 0:
            return values
        zero, count = what.arithmetic.zero(lanes), len(values)
        firsts = [b.floor_divide(b.add(done, count - 1 - n), count) for n in range(count)]
        return [
            what.arithmetic.select(what.lanes_from(first), value, zero)
            for first, value in zip(firsts, values, strict=True)
        ]
