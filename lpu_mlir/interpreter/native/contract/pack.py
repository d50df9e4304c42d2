"""Copying what a block needs of the right operand, in the order in which it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from lpu_mlir.interpreter.native.contract.axes import Axis
from lpu_mlir.interpreter.native.contract.parts import Contraction, Place, Row
from lpu_mlir.interpreter.native.llvm import I64, PTR, Builder, Int, Value
from lpu_mlir.interpreter.native.tile import View

COPIED = 8
"""Vectors copied in the body of a loop, at most."""

AHEAD = 32
"""Steps that are copied until one that is fetched is."""


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
        self._copy(what.plan.copied, place.rhs, self.panel)
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

    @property
    def _step_elements(self) -> int:
        return len(self.offsets) * self.what.plan.lanes

    def _copy(self, loops: Sequence[tuple[int, Int]], source: Value, panel: Value) -> None:
        """The loops over the steps, and in them the copy of each."""
        what, b = self.what, self.what.b
        if not loops:
            self._copy_step(source, panel)
            return
        (size, stride), inner = loops[0], loops[1:]
        if not inner and what.plan.transposes:
            self._transpose(size, source, panel)
            return
        step = self._step_elements * prod(extent for extent, _ in inner)
        unroll = 1 if inner else _divisor(size, max(1, COPIED // len(self.offsets)))
        with b.loop(0, size, unroll) as loop:
            for n in range(unroll):
                index = b.add(loop.index, n)
                there = b.address(source, b.mul(index, stride), what.rhs.element)
                if not inner:
                    self._fetch(b.address(there, b.mul(AHEAD, stride), what.rhs.element))
                target = b.address(panel, b.mul(index, step), what.out.element)
                self._copy(inner, there, target)

    def _fetch(self, source: Value) -> None:
        """Ask for what a later step reads: rows far apart are not foreseen by processors."""
        for offset in self.offsets:
            self.what.b.prefetch(self.what.b.address(source, offset, self.what.rhs.element))

    def _copy_step(self, source: Value, panel: Value) -> None:
        what, b = self.what, self.what.b
        assert what.plan.vector is not None
        for n, offset in enumerate(self.offsets):
            value = what.load(what.rhs, source, offset, what.plan.vector.rhs)
            target = b.address(panel, n * what.plan.lanes, what.out.element)
            b.store(value, target, what.out.element)

    def _transpose(self, size: int, source: Value, panel: Value) -> None:
        """Squares of as many steps as lanes; the last one ends where the steps do."""
        what, b, lanes = self.what, self.what.b, self.what.plan.lanes
        assert what.plan.vector is not None
        apart, step = b.value(what.plan.vector.rhs), self._step_elements
        square = self._square()
        with b.loop(0, size, lanes) as loop:
            start = loop.index if size % lanes == 0 else b.minimum(loop.index, size - lanes)
            for n, offset in enumerate(self.offsets):
                there = b.address(source, b.add(start, offset), what.rhs.element)
                at = b.add(b.mul(start, step), n * lanes)
                target = b.address(panel, at, what.out.element)
                b.call_void(square, [there, apart, target, b.value(step)])

    def _square(self) -> str:
        """The function that transposes a square: where it is, how far its rows are apart, and the
        same of where it goes."""
        what, lanes = self.what, self.what.plan.lanes
        name = f"transpose.{lanes}.{what.rhs.element}.{what.out.element}"
        if name in what.b.module.definitions:
            return name
        b = Builder(what.b.module)
        source, target = Value(PTR, "%source"), Value(PTR, "%target")
        apart, step = Value(I64, "%apart"), Value(I64, "%step")
        inside = replace(what, b=b, arithmetic=replace(what.arithmetic, b=b))
        rows = [inside.load(what.rhs, source, b.mul(lane, apart), 1) for lane in range(lanes)]
        for n, column in enumerate(inside.arithmetic.interleaved(rows)):
            b.store(column, b.address(target, b.mul(n, step), what.out.element), what.out.element)
        text = b.function(
            name, [source, apart, target, step], linkage="internal", attributes="noinline "
        )
        what.b.module.definitions[name] = text
        return name


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
