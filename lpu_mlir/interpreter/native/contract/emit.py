"""The code of a contraction: loops over blocks of sums, and the sums of one block.

Where an extent is not a multiple of a block's, the last block is moved back or repeats its last
position, so that nothing outside is read or written; where the sums are added to what is there,
what another block has added already is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, product

from lpu_mlir.dialects.lpu import element_bytes
from lpu_mlir.interpreter.native.contract.arithmetic import Arithmetic
from lpu_mlir.interpreter.native.contract.axes import Axis, axes_of
from lpu_mlir.interpreter.native.contract.blocks import Position, Row, Run, runs
from lpu_mlir.interpreter.native.contract.plan import UNROLLED, Level, Plan, choose, scalar_plan
from lpu_mlir.interpreter.native.llvm import I1, Builder, Int, Value, lanes_of, vector
from lpu_mlir.interpreter.native.machine import Machine
from lpu_mlir.interpreter.native.tile import View


def emit_contract(
    b: Builder,
    machine: Machine,
    lhs: View,
    lhs_dims: Sequence[int],
    rhs: View,
    rhs_dims: Sequence[int],
    out: View,
    *,
    accumulate: bool,
    scratch: Callable[[int], Value],
) -> None:
    """
    Compute sums of products of two operands, as `lpu_kernel.contract` defines them, into `out`.

    Dims are numbered as in that operation. With `accumulate` the sums are added to what is in
    `out`. The operands do not overlap the result. `scratch` gives memory of so many bytes.
    """
    axes = axes_of(b, lhs, lhs_dims, rhs, rhs_dims, out)
    if any(axis.size == 0 and not axis.summed for axis in axes):
        return
    plan = choose(axes, machine.lanes(element_bytes(out.element)), machine.vector_registers)
    contraction = Contraction(b, Arithmetic(b, out.element), lhs, rhs, out, accumulate)
    size = plan.vector.size if plan.vector else 1
    if isinstance(size, int):
        Emission(contraction, plan).run()
        return
    # Vectors are never partly filled, so an axis may turn out too short for them.
    short = b.less(size, plan.lanes)
    with b.when(short):
        Emission(contraction, scalar_plan(axes)).run()
    with b.when(b.op(I1, f"xor {short}, true")):
        Emission(contraction, plan).run()


@dataclass(frozen=True)
class Contraction:
    """What is computed, whatever the plan."""

    b: Builder
    arithmetic: Arithmetic
    lhs: View
    rhs: View
    out: View
    accumulate: bool


@dataclass(frozen=True)
class Place:
    """Where the loops are: addresses in both operands and the result."""

    lhs: Value
    rhs: Value
    out: Value


Sums = list[Value]
"""The accumulators of a block, one for each row."""


@dataclass(frozen=True)
class Emission:
    """The code of one contraction by one plan."""

    what: Contraction
    plan: Plan

    @property
    def b(self) -> Builder:
        return self.what.b

    @property
    def arithmetic(self) -> Arithmetic:
        return self.what.arithmetic

    def run(self) -> None:
        what = self.what
        self._levels(self.plan.levels, Place(what.lhs.base, what.rhs.base, what.out.base), [])

    def _moved(self, place: Place, axis: Axis, index: Int) -> Place:
        what, b = self.what, self.b
        return Place(
            b.address(place.lhs, b.mul(index, axis.lhs), what.lhs.element),
            b.address(place.rhs, b.mul(index, axis.rhs), what.rhs.element),
            b.address(place.out, b.mul(index, axis.out), what.out.element),
        )

    # --- blocks ---------------------------------------------------------------------------------

    def _levels(
        self,
        levels: Sequence[Level],
        place: Place,
        chosen: Sequence[tuple[Axis, Sequence[Position]]],
    ) -> None:
        """The loops over the blocks, and in them each block."""
        if not levels:
            self._block(place, self._rows(chosen))
            return
        axis = levels[0].axis
        width = self.plan.lanes if axis is self.plan.vector else 1
        for run in runs(self.b, axis.size, width, levels[0].count, self.plan.streams):
            with self._each(run) as start:
                there = self._moved(place, axis, start) if run.exact else place
                positions = run.positions(self.b, start)
                self._levels(levels[1:], there, [*chosen, (axis, positions)])

    @contextmanager
    def _each(self, run: Run) -> Generator[Int]:
        """A loop over the blocks of a run, giving where each starts."""
        if run.blocks == 1:
            yield run.first
            return
        end = self.b.add(run.first, self.b.mul(run.blocks, run.step))
        with self.b.loop(run.first, end, run.step) as loop:
            yield loop.index

    def _rows(self, chosen: Sequence[tuple[Axis, Sequence[Position]]]) -> list[Row]:
        """All combinations of positions; neighbours in the result are neighbours here."""
        b = self.b
        chosen = sorted(chosen, key=lambda pair: pair[0].out == 1)
        axes = [axis for axis, _ in chosen]
        rows: list[Row] = []
        for positions in product(*(positions for _, positions in chosen)):
            lhs: Int = 0
            rhs: Int = 0
            out: Int = 0
            stale: Int = 0
            for axis, position in zip(axes, positions, strict=True):
                lhs = b.add(lhs, b.mul(position.index, axis.lhs))
                rhs = b.add(rhs, b.mul(position.index, axis.rhs))
                out = b.add(out, b.mul(position.index, axis.out))
                stale = b.add(stale, position.stale)
            fresh = tuple(p.fresh for p in positions if p.fresh is not None)
            rows.append(Row(lhs, rhs, out, fresh, stale))
        return rows

    def _block(self, place: Place, rows: Sequence[Row]) -> None:
        zero = self.arithmetic.zero(self.plan.lanes)
        sets = self._sum(self.plan.summed, place, rows, [[zero] * len(rows)] * self.plan.copies)
        sums = [self.arithmetic.total(copies) for copies in zip(*sets, strict=True)]
        if self.plan.dot:
            self._store_dots(place, rows, sums)
        else:
            for row, value in zip(rows, sums, strict=True):
                self._store(place, row, value)

    # --- sums -----------------------------------------------------------------------------------

    def _sum(
        self, axes: Sequence[Axis], place: Place, rows: Sequence[Row], sets: list[Sums]
    ) -> list[Sums]:
        """The sums with what these axes add; the sets of sums take turns."""
        if not axes:
            return self._step(place, rows, sets)
        axis, inner = axes[0], axes[1:]
        width = self.plan.lanes if axis is self.plan.vector else 1
        trips = self.b.floor_divide(axis.size, width)
        unroll = self._unroll(trips, inner, len(rows))

        def walk(lower: Int, upper: Int, step: int, sets: list[Sums]) -> list[Sums]:
            """The trips from `lower` to below `upper`, so many in each of a loop."""
            if isinstance(lower, int) and isinstance(upper, int) and upper - lower <= step:
                return straight(lower, upper - lower, sets)
            ends = (self.b.mul(lower, width), self.b.mul(upper, width))
            with self.b.loop(*ends, step * width, [*chain(*sets)]) as loop:
                there = self._moved(place, axis, loop.index)
                sets = _sets(loop.carried, len(rows))
                for n in range(step):
                    sets = self._sum(inner, self._moved(there, axis, n * width), rows, sets)
                loop.carry(chain(*sets))
            return _sets(loop.results, len(rows))

        def straight(first: int, count: int, sets: list[Sums]) -> list[Sums]:
            for n in range(first, first + count):
                sets = self._sum(inner, self._moved(place, axis, n * width), rows, sets)
            return sets

        whole = trips if unroll == 1 else self.b.round_down(trips, unroll)
        sets = walk(0, whole, unroll, sets)
        if whole != trips:
            last = walk(whole, trips, 1, sets[:1])
            sets = [*last, *sets[1:]]
        if axis is self.plan.vector:
            sets = self._rest(axis, place, rows, sets)
        return sets

    def _unroll(self, trips: Int, inner: Sequence[Axis], rows: int) -> int:
        """How many trips the body of a loop makes: all, as many as divide them, or any."""
        for axis in inner:
            if not isinstance(axis.size, int) or axis is self.plan.vector:
                return 1
            rows *= axis.size
        most = max(1, UNROLLED // max(rows, 1))
        copies = self.plan.copies
        if not isinstance(trips, int):
            return copies
        if trips <= most:
            return max(trips, 1)
        divisors = [n for n in range(most, 0, -1) if trips % n == 0 and n % copies == 0]
        return divisors[0] if divisors else copies

    def _rest(self, axis: Axis, place: Place, rows: Sequence[Row], sets: list[Sums]) -> list[Sums]:
        """What does not fill a vector: the last full vector, without what has been added."""
        b, lanes = self.b, self.plan.lanes
        rest = b.sub(axis.size, b.round_down(axis.size, lanes))
        if rest == 0:
            return sets
        last = self._moved(place, axis, b.sub(axis.size, lanes))
        return self._step(last, rows, sets, b.sub(lanes, rest))

    def _step(
        self, place: Place, rows: Sequence[Row], sets: list[Sums], done: Int = 0
    ) -> list[Sums]:
        """One multiply-add for each row, into the set whose turn it is."""
        what = self.what
        vector = self.plan.vector
        lhs_stride, rhs_stride = (vector.lhs, vector.rhs) if vector else (0, 0)
        lhs: dict[Int, Value] = {}
        rhs: dict[Int, Value] = {}
        sums: Sums = []
        for row, acc in zip(rows, sets[0], strict=True):
            if row.lhs not in lhs:
                lhs[row.lhs] = self._load(what.lhs, place.lhs, row.lhs, lhs_stride, done)
            if row.rhs not in rhs:
                rhs[row.rhs] = self._load(what.rhs, place.rhs, row.rhs, rhs_stride, done)
            sums.append(self.arithmetic.multiply_add(lhs[row.lhs], rhs[row.rhs], acc))
        return [*sets[1:], sums]

    def _load(self, view: View, base: Value, offset: Int, stride: Int, done: Int) -> Value:
        """A vector of an operand, zero in the lanes that are done."""
        b, lanes = self.b, self.plan.lanes
        address = b.address(base, offset, view.element)
        if stride == 0:
            loaded = b.load(address, view.element)
        elif stride == 1:
            loaded = b.load(address, view.element, lanes)
        else:
            loaded = self._load_even(view, address)
        value = b.splat(self.arithmetic.widen(loaded, view.element), lanes)
        if done == 0:
            return value
        return self.arithmetic.select(self._lanes_from(done), value, self.arithmetic.zero(lanes))

    def _load_even(self, view: View, address: Value) -> Value:
        """Every other element: two vectors that end where the last of them is."""
        b, lanes = self.b, self.plan.lanes
        low = b.load(address, view.element, lanes)
        high = b.load(b.address(address, lanes - 1, view.element), view.element, lanes)
        half = range(0, lanes, 2)
        return self.arithmetic.shuffle(low, high, [*half, *(lanes + 1 + n for n in half)])

    def _lanes_from(self, first: Int) -> Value:
        """Whether a lane's number is that large."""
        lanes = self.plan.lanes
        if isinstance(first, int):
            bits = ", ".join(f"i1 {'true' if lane >= first else 'false'}" for lane in range(lanes))
            return Value(vector(I1, lanes), f"<{bits}>")
        numbers = self.b.lane_numbers(lanes)
        return self.b.op(
            vector(I1, lanes), f"icmp sge {numbers}, {self.b.splat(first, lanes).text}"
        )

    # --- results --------------------------------------------------------------------------------

    def _store_dots(self, place: Place, rows: Sequence[Row], sums: Sums) -> None:
        """Store the sum of the lanes of each row, several at once where they are neighbours."""
        at = 0
        for value in self.arithmetic.lane_sums(sums):
            group = rows[at : at + lanes_of(value.type)]
            at += len(group)
            neighbours = all(
                isinstance(row.out, int)
                and isinstance(group[0].out, int)
                and row.out == group[0].out + n
                for n, row in enumerate(group)
            )
            if neighbours and not any(row.fresh for row in group):
                self._write(place, group[0].out, value, ())
            else:
                for lane, row in enumerate(group):
                    self._write(place, row.out, self.b.extract(value, lane), row.fresh)

    def _store(self, place: Place, row: Row, value: Value) -> None:
        """Store an accumulator along the axis that lanes run along."""
        b, plan = self.b, self.plan
        if plan.vector is None or plan.vector.out == 1:
            stale = () if row.stale == 0 else (self._lanes_from(row.stale),)
            self._write(place, row.out, value, (*row.fresh, *stale))
            return
        for lane in range(plan.lanes):
            offset = b.add(row.out, b.mul(lane, plan.vector.out))
            stale = () if row.stale == 0 else (b.less(row.stale, lane + 1),)
            self._write(place, offset, b.extract(value, lane), (*row.fresh, *stale))

    def _write(self, place: Place, offset: Int, value: Value, conditions: Sequence[Value]) -> None:
        """Store, or add to what is there where the conditions hold."""
        what, b = self.what, self.b
        element = what.out.element
        address = b.address(place.out, offset, element)
        if what.accumulate:
            old = b.load(address, element, lanes_of(value.type))
            value = self.arithmetic.add(old, value)
            for condition in conditions:
                value = self.arithmetic.select(condition, value, old)
        b.store(value, address, element)


def _sets(values: Sequence[Value], size: int) -> list[Sums]:
    """Values, cut into lists of a size."""
    return [list(values[at : at + size]) for at in range(0, len(values), size)]
