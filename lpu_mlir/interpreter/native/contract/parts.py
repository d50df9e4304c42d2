"""What the parts of a contraction's code share: what is computed, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import bf16, f16, f32, i32

from lpu_mlir.interpreter.native.contract.arithmetic import Arithmetic
from lpu_mlir.interpreter.native.contract.axes import Axis
from lpu_mlir.interpreter.native.contract.blocks import Position
from lpu_mlir.interpreter.native.contract.plan import Plan, known
from lpu_mlir.interpreter.native.llvm import I1, Builder, Int, Value, literal, vector
from lpu_mlir.interpreter.native.tile import View

STREAMED = 1 << 14
"""Elements of a matrix that is large enough to be streamed."""


@dataclass(frozen=True)
class Place:
    """Where the loops are: addresses in both operands and the result."""

    lhs: Value
    rhs: Value
    out: Value


@dataclass(frozen=True)
class Row:
    """One accumulator: where its operands and its result are, in elements from the place."""

    lhs: Int = 0
    rhs: Int = 0
    out: Int = 0
    fresh: tuple[Value, ...] = ()
    """Whether no other row stands for the same elements: if all of these hold."""
    stale: Int = 0
    """Leading lanes that an earlier vector stands for."""


@dataclass(frozen=True)
class Contraction:
    """Operands, result, and the plan of computing it."""

    b: Builder
    arithmetic: Arithmetic
    lhs: View
    rhs: View
    out: View
    accumulate: bool
    plan: Plan
    streams: bool = False
    """Whether what is read once passes the caches by."""

    def read_once(self) -> str | None:
        """The operand whose elements are each read once, if it is large, its rows are read along,
        and it is to pass the caches by."""
        plan = self.plan
        rows = [level.axis for level in plan.levels if level.apart]
        if not (self.streams and plan.dot and rows):
            return None
        operand = "lhs" if rows[0].lhs != 0 else "rhs"
        axes = (*plan.summed, *(level.axis for level in plan.levels))
        elements = prod(known(axis.size) for axis in axes if getattr(axis, operand) != 0)
        once = all(
            plan.positions(level.axis) <= level.count
            for level in plan.levels
            if getattr(level.axis, operand) == 0
        )
        along = getattr(plan.summed[-1], operand) == 1
        return operand if once and along and elements >= STREAMED else None

    def moved(self, place: Place, axis: Axis, index: Int) -> Place:
        """The place further along an axis."""
        b = self.b
        return Place(
            b.address(place.lhs, b.mul(index, axis.lhs), self.lhs.element),
            b.address(place.rhs, b.mul(index, axis.rhs), self.rhs.element),
            b.address(place.out, b.mul(index, axis.out), self.out.element),
        )

    @property
    def paired(self) -> bool:
        """Whether a step takes two elements for each lane, of which one operand at least has bf16:
        as words they are widened with half as many instructions."""
        along, elements = self.plan.vector, {self.lhs.element, self.rhs.element}
        return (
            along is not None
            and along.summed
            and (along.lhs, along.rhs) == (1, 1)
            and bf16 in elements
            and elements <= {bf16, f32}
            and self.out.element == f32
            and isinstance(along.size, int)
            and along.size >= 2 * self.plan.lanes
        )

    @property
    def products(self) -> int:
        """How many products a step adds in each lane."""
        return 2 if self.paired else 1

    def width(self, axis: Axis) -> int:
        """Elements that one step along an axis passes."""
        return self.plan.lanes * self.products if axis is self.plan.vector else 1

    def at(self, row: Row, axis: Axis, position: Position) -> Row:
        """The row further along an axis."""
        b = self.b
        return Row(
            b.add(row.lhs, b.mul(position.index, axis.lhs)),
            b.add(row.rhs, b.mul(position.index, axis.rhs)),
            b.add(row.out, b.mul(position.index, axis.out)),
            row.fresh if position.fresh is None else (*row.fresh, position.fresh),
            b.add(row.stale, position.stale),
        )

    def rows(self, rows: Sequence[Row], axis: Axis, positions: Sequence[Position]) -> list[Row]:
        """All rows at all positions; neighbours in the result are neighbours here."""
        if axis.out == 1:
            return [self.at(row, axis, position) for row in rows for position in positions]
        return [self.at(row, axis, position) for position in positions for row in rows]

    def lanes_from(self, first: Int) -> Value:
        """Whether a lane's number is that large."""
        lanes = self.plan.lanes
        if isinstance(first, int):
            bits = ", ".join(f"i1 {'true' if lane >= first else 'false'}" for lane in range(lanes))
            return Value(vector(I1, lanes), f"<{bits}>")
        numbers, bound = self.b.lane_numbers(lanes), self.b.splat(first, lanes)
        return self.b.op(vector(I1, lanes), f"icmp sge {numbers}, {bound.text}")

    def load(self, view: View, base: Value, offset: Int, stride: Int) -> Value:
        """A vector of an operand in the accumulator's type: elements that are `stride` apart."""
        b, lanes = self.b, self.plan.lanes
        address = b.address(base, offset, view.element)
        if stride == 0 or lanes == 1:
            loaded = b.load(address, view.element)
        elif stride == 1:
            loaded = b.load(address, view.element, lanes)
        elif stride == 2:
            loaded = self._every_other(view, address)
        else:
            loaded = self._gathered(view, address, stride)
        if view.element == f16:
            loaded = b.splat(loaded, lanes)  # processors widen vectors of these, not scalars
        return b.splat(self.arithmetic.widen(loaded, view.element), lanes)

    def load_pairs(self, view: View, base: Value, offset: Int) -> list[Value]:
        """Twice as many elements as lanes, as f32: the even ones, and the odd ones."""
        b, lanes, address = self.b, self.plan.lanes, self.b.address(base, offset, view.element)
        if view.element == f32:
            low, high = (b.load(b.address(address, n, f32), f32, lanes) for n in (0, lanes))
            return [self.arithmetic.shuffle(low, high, range(n, 2 * lanes, 2)) for n in (0, 1)]
        words = b.load(address, i32, lanes, aligned=2)
        low = b.binary("shl", words, literal(words.type, 16))
        high = b.binary("and", words, literal(words.type, -1 << 16))
        return [b.cast("bitcast", half, "float") for half in (low, high)]

    def _every_other(self, view: View, address: Value) -> Value:
        """Two vectors that end where the last of the elements is, joined."""
        b, lanes = self.b, self.plan.lanes
        low = b.load(address, view.element, lanes)
        high = b.load(b.address(address, lanes - 1, view.element), view.element, lanes)
        half = range(0, lanes, 2)
        return self.arithmetic.shuffle(low, high, [*half, *(lanes + 1 + n for n in half)])

    def _gathered(self, view: View, address: Value, stride: Int) -> Value:
        b = self.b
        elements = [
            b.load(b.address(address, b.mul(lane, stride), view.element), view.element)
            for lane in range(self.plan.lanes)
        ]
        gathered = Value(vector(elements[0].type, self.plan.lanes), "poison")
        for lane, element in enumerate(elements):
            gathered = b.insert(gathered, element, lane)
        return gathered
