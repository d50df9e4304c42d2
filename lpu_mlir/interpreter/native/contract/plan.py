"""How a contraction is computed: which axis fills vectors, and how many sums are kept at a time.

The sums of a block stay in registers while the summed axes are walked. Lanes run along one axis:

- a summed one: both operands are read along it, lanes are summed at the end ("dot");
- an axis of the result: the right operand is read along it, the left one is repeated in all lanes
  ("broadcast"), or read along it too. What a block needs of the right operand may be packed: copied
  in the order in which it is read.
- none: scalars.

Here is what is legal; what is best, cost.py estimates.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

from lpu_mlir.interpreter.native.contract.axes import Axis
from lpu_mlir.interpreter.native.llvm import Int

ASSUMED_SIZE = 64
"""The extent that an axis is taken to have if it is only known at run time."""

READ_STRIDES = (0, 1, 2)
"""How far apart elements of a vector may be to be read where they are."""
STREAMS = 4
"""Rows far apart that are read together where each is read once."""
LATENCY = 8
"""Multiply-adds that must be under way to hide each other's latency."""


@dataclass(frozen=True)
class Level:
    """An axis of the result, and how many of its positions a block has.

    Counts vectors along the axis that lanes run along.
    """

    axis: Axis
    count: int
    apart: bool = False
    """Whether the positions of a block are far apart, not next to each other."""


@dataclass(frozen=True)
class Plan:
    """Loops over blocks of sums, outermost first, and in each, loops over what is summed."""

    lanes: int
    vector: Axis | None
    levels: tuple[Level, ...]
    summed: tuple[Axis, ...]
    packed: bool = False
    """Whether the right operand is packed; levels along which it moves then come first."""
    swapped: bool = False
    """Whether the axes are those of the operands the other way round."""

    @property
    def rows(self) -> int:
        """Accumulators of a block."""
        return prod(level.count for level in self.levels)

    @property
    def dot(self) -> bool:
        return self.vector is not None and self.vector.summed

    @property
    def copies(self) -> int:
        """Sets of accumulators, used in turn."""
        return max(1, ceil(LATENCY / self.rows))

    @property
    def copied(self) -> list[tuple[int, Int]]:
        """The loops that walk the right operand as the summed axes do, as few as its layout
        allows, outermost first: their extents and strides."""
        loops: list[tuple[int, Int]] = []
        for axis in self.summed:
            size, stride = known(axis.size), axis.rhs
            if loops and isinstance(stride, int) and loops[-1][1] == stride * size:
                size *= loops.pop()[0]
            loops.append((size, stride))
        return loops

    @property
    def transposes(self) -> bool:
        """Whether packing transposes: the right operand is contiguous in what is summed last."""
        if not self.summed or self.vector is None or self.vector.rhs in READ_STRIDES:
            return False
        size, stride = self.copied[-1]
        return stride == 1 and size >= self.lanes

    def positions(self, axis: Axis) -> int:
        """How many positions, or vectors, an axis has, or is taken to have."""
        return ceil(known(axis.size) / self.lanes) if axis is self.vector else known(axis.size)

    def loads(self, operand: str) -> int:
        """Vectors of an operand that a block reads in a step."""
        return prod(level.count for level in self.levels if getattr(level.axis, operand) != 0)


def known(size: Int) -> int:
    return size if isinstance(size, int) else ASSUMED_SIZE


def scalar_plan(axes: Sequence[Axis]) -> Plan:
    """A plan for any axes."""
    return _arranged(Plan(1, None, (), ()), [Level(a, 1) for a in axes if not a.summed], axes)


def plans(axes: Sequence[Axis], lanes: int, registers: int) -> Generator[Plan]:
    """All plans worth comparing, for vectors of so many lanes and so many of them; no extent that
    is known is 0."""
    yield scalar_plan(axes)
    swapped = [replace(axis, lhs=axis.rhs, rhs=axis.lhs) for axis in axes]
    for vector in axes:
        if vector.summed and _can_read(vector):
            yield from _blocked(Plan(_filled(vector, lanes), vector, (), ()), axes, registers)
    for sides in (axes, swapped):
        for vector in sides:
            plan = Plan(_filled(vector, lanes), vector, (), (), swapped=sides is swapped)
            if vector.summed or vector.rhs == 0 or plan.lanes == 1:
                continue
            if _can_read(vector):
                yield from _blocked(plan, sides, registers)
            if _can_pack(vector, sides):
                yield from _blocked(replace(plan, packed=True), sides, registers)


def _filled(vector: Axis, lanes: int) -> int:
    """How many of the lanes an axis fills."""
    if isinstance(vector.size, int):
        while lanes > vector.size:
            lanes //= 2
    return lanes


def _can_read(vector: Axis) -> bool:
    """Whether vectors of both operands can be loaded along an axis; of one alone they are one."""
    strides = (vector.lhs, vector.rhs)
    return strides != (0, 0) and all(isinstance(s, int) and s in READ_STRIDES for s in strides)


def _can_pack(vector: Axis, axes: Sequence[Axis]) -> bool:
    """Whether panels can be made for vectors along an axis, and are read more than once."""
    return (
        isinstance(vector.lhs, int)
        and vector.lhs in READ_STRIDES
        and all(isinstance(axis.size, int) for axis in axes if axis.summed)
        and any(axis.rhs == 0 for axis in axes if not axis.summed)
    )


def _blocked(plan: Plan, axes: Sequence[Axis], registers: int) -> Generator[Plan]:
    """The plan with all blocks that fit the registers, beside the operands of one of them."""
    levels = [axis for axis in axes if not axis.summed]
    moving = [axis for axis in levels if 0 in (axis.lhs, axis.rhs)]
    if plan.dot and len(moving) == 1:
        # Every row of a matrix meets only one vector.
        (rows,) = moving
        count = min(STREAMS, known(rows.size))
        blocks = [Level(axis, count if axis is rows else 1) for axis in levels]
        yield _arranged(plan, blocks, axes)
        return
    found: list[tuple[Level, ...]] = [()]
    for axis in levels:
        moves = 0 in (axis.lhs, axis.rhs) or axis is plan.vector
        found = [
            (*blocks, Level(axis, count))
            for blocks in found
            for count in _counts(
                plan.positions(axis), registers // prod(b.count for b in blocks) if moves else 1
            )
        ]
    for blocks in found:
        blocked = replace(plan, levels=blocks)
        operands = min(blocked.loads("lhs"), blocked.loads("rhs"))
        if blocked.rows + operands + 1 <= registers:
            yield _arranged(blocked, blocks, axes)


def _counts(positions: int, most: int) -> list[int]:
    """Sizes of blocks, the smallest for each number of blocks."""
    counts = range(1, max(min(positions, most), 1) + 1)
    smallest: dict[int, int] = {}
    for count in counts:
        smallest.setdefault(ceil(positions / count), count)
    return list(smallest.values())


def _arranged(plan: Plan, levels: Sequence[Level], axes: Sequence[Axis]) -> Plan:
    """With the loops in order: the largest operand is walked once."""

    def rank(level: Level) -> tuple[bool, int]:
        return plan.packed and level.axis.rhs != 0, _elements_moved(level.axis, axes)

    ordered = sorted(levels, key=rank, reverse=True)
    if plan.dot:
        # Several long streams are read faster than one.
        several = next((n for n, level in enumerate(ordered) if level.count > 1), None)
        if several is not None:
            ordered[several] = replace(ordered[several], apart=True)
    return replace(plan, levels=tuple(ordered), summed=_summed(axes, plan.vector))


def _elements_moved(axis: Axis, axes: Sequence[Axis]) -> int:
    """How much of the operands is read anew when this axis moves."""
    return sum(
        prod(known(a.size) for a in axes if getattr(a, operand) != 0)
        for operand in ("lhs", "rhs")
        if getattr(axis, operand) != 0
    )


def _summed(axes: Sequence[Axis], vector: Axis | None) -> tuple[Axis, ...]:
    """The summed axes, outermost first; the one that lanes run along is the innermost."""

    def reach(axis: Axis) -> tuple[bool, int]:
        strides = [s if isinstance(s, int) else 1 << 40 for s in (axis.lhs, axis.rhs)]
        return axis is not vector, max(map(abs, strides))

    return tuple(sorted((a for a in axes if a.summed), key=reach, reverse=True))
