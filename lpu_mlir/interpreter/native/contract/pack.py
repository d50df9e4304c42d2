"""Copying what a block needs of the right operand, in the order in which it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from lpu_mlir.interpreter.native.contract.axes import Axis
from lpu_mlir.interpreter.native.contract.parts import Contraction, Place, Row
from lpu_mlir.interpreter.native.llvm import Int, Value
from lpu_mlir.interpreter.native.tile import View


@dataclass(frozen=True)
class Packing:
    """A panel: for each step of the sums, the vectors that a block reads in it."""

    what: Contraction
    panel: Value
    offsets: Sequence[Int]
    """Where the vectors of a step are, in elements from the place."""

    @classmethod
    def of(cls, what: Contraction, rows: Sequence[Row], panel: Value) -> Packing:
        return cls(what, panel, list(dict.fromkeys(row.rhs for row in rows)))

    def packed(self, place: Place, rows: Sequence[Row]) -> tuple[Contraction, Place, list[Row]]:
        """Emit the copy; the contraction, place and rows that use it."""
        what = self.what
        axes = self._axes()
        self._copy(what.plan.summed, axes, place.rhs, self.panel)
        view = View(self.panel, what.out.element, (), ())
        vector = what.plan.vector
        assert vector is not None
        plan = replace(what.plan, summed=axes, vector=replace(vector, rhs=1), packed=False)
        at = {offset: n * what.plan.lanes for n, offset in enumerate(self.offsets)}
        return (
            replace(what, rhs=view, plan=plan),
            replace(place, rhs=self.panel),
            [replace(row, rhs=at[row.rhs]) for row in rows],
        )

    def _axes(self) -> tuple[Axis, ...]:
        """The summed axes, with the panel's strides for the right operand."""
        step = len(self.offsets) * self.what.plan.lanes
        axes: list[Axis] = []
        for axis in reversed(self.what.plan.summed):
            axes.insert(0, replace(axis, rhs=step))
            assert isinstance(axis.size, int)
            step *= axis.size
        return tuple(axes)

    def _copy(
        self, source: Sequence[Axis], target: Sequence[Axis], base: Value, panel: Value
    ) -> None:
        """The loops over the steps, and in them the copy of each."""
        what, b = self.what, self.what.b
        if not source:
            self._step(base, panel)
            return
        axis, packed = source[0], target[0]
        if len(source) == 1 and what.plan.transposes:
            self._transposed(axis, base, panel)
            return
        assert isinstance(axis.size, int)
        unroll = 1 if len(source) > 1 else _divisor(axis.size, max(1, 8 // len(self.offsets)))
        with b.loop(0, axis.size, unroll) as loop:
            for n in range(unroll):
                index = b.add(loop.index, n)
                self._copy(
                    source[1:],
                    target[1:],
                    b.address(base, b.mul(index, axis.rhs), what.rhs.element),
                    b.address(panel, b.mul(index, packed.rhs), what.out.element),
                )

    def _step(self, base: Value, panel: Value) -> None:
        what, b = self.what, self.what.b
        assert what.plan.vector is not None
        for n, offset in enumerate(self.offsets):
            value = what.load(what.rhs, base, offset, what.plan.vector.rhs)
            b.store(
                value, b.address(panel, n * what.plan.lanes, what.out.element), what.out.element
            )

    def _transposed(self, axis: Axis, base: Value, panel: Value) -> None:
        """Squares of as many steps as lanes; the last one ends where the axis does."""
        what, b, lanes = self.what, self.what.b, self.what.plan.lanes
        assert what.plan.vector is not None
        assert isinstance(axis.size, int)
        apart = what.plan.vector.rhs
        step = len(self.offsets) * lanes
        with b.loop(0, axis.size, lanes) as loop:
            start = b.minimum(loop.index, axis.size - lanes)
            if axis.size % lanes == 0:
                start = loop.index
            there = b.address(base, start, what.rhs.element)
            target = b.address(panel, b.mul(start, step), what.out.element)
            for n, offset in enumerate(self.offsets):
                square = [
                    what.load(what.rhs, there, b.add(offset, b.mul(lane, apart)), 1)
                    for lane in range(lanes)
                ]
                for k, value in enumerate(what.arithmetic.interleaved(square)):
                    address = b.address(target, k * step + n * lanes, what.out.element)
                    b.store(value, address, what.out.element)


def _divisor(size: int, most: int) -> int:
    return max(n for n in range(1, most + 1) if size % n == 0) if size else 1


def panel_elements(what: Contraction) -> int:
    """Elements of the largest panel of a plan that packs."""
    plan = what.plan
    vectors = prod(level.count for level in plan.levels if level.axis.rhs != 0)
    steps = 1
    for axis in plan.summed:
        assert isinstance(axis.size, int)
        steps *= axis.size
    return steps * vectors * plan.lanes
