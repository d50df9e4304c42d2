"""How a contraction is computed: which axis fills vectors, and how many sums are kept at a time.

The sums of a block stay in registers while the summed axes are walked. Lanes run along one axis:

- a summed one: both operands are read along it, lanes are summed at the end ("dot");
- an axis of the result: one operand is read along it, the other repeated in all lanes
  ("broadcast");
- none: scalars.

What is legal is decided by `_vector_axes`; what is best, by `_cycles`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, prod

from lpu_mlir.interpreter.native.contract.axes import Axis
from lpu_mlir.interpreter.native.llvm import Int

ASSUMED_SIZE = 64
"""The extent that an axis is taken to have if it is only known at run time."""

FMA_CYCLES = 0.5
LOAD_CYCLES = {0: 0.5, 1: 0.5, 2: 1.5}
"""Cycles to load a vector of elements that are so far apart."""
HORIZONTAL_CYCLES = 3.0
"""Cycles to sum the lanes of one of four accumulators."""
STREAMS = 4
"""Rows far apart that are read together where each is read once."""
LATENCY = 8
"""Multiply-adds that must be under way to hide each other's latency."""
UNROLLED = 48
"""Multiply-adds in the body of the innermost loop, at most."""


@dataclass(frozen=True)
class Level:
    """An axis of the result, and how many of its positions a block has.

    Counts vectors along the axis that lanes run along.
    """

    axis: Axis
    count: int


@dataclass(frozen=True)
class Plan:
    """Loops over blocks of sums, outermost first, and in each, loops over what is summed."""

    lanes: int
    vector: Axis | None
    levels: tuple[Level, ...]
    summed: tuple[Axis, ...]
    streams: bool
    """Whether the positions of the first level's blocks are far apart."""

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


def known(size: Int) -> int:
    return size if isinstance(size, int) else ASSUMED_SIZE


def scalar_plan(axes: Sequence[Axis]) -> Plan:
    """A plan for any axes."""
    return _arranged(1, None, [Level(a, 1) for a in axes if not a.summed], axes)


def choose(axes: Sequence[Axis], lanes: int, registers: int) -> Plan:
    """The plan of the fewest cycles, for vectors of so many lanes and so many of them."""
    plans = [scalar_plan(axes)]
    for vector, lanes_there in _vector_axes(axes, lanes):
        levels = [axis for axis in axes if not axis.summed]
        if _is_matrix_vector(vector, levels):
            plans.append(_streaming(vector, lanes_there, levels, axes))
            continue
        for counts in _counts(levels, vector, lanes_there, registers):
            blocks = [Level(axis, count) for axis, count in zip(levels, counts, strict=True)]
            plans.append(_arranged(lanes_there, vector, blocks, axes))
    return min(plans, key=_cycles)


def _vector_axes(axes: Sequence[Axis], lanes: int) -> Generator[tuple[Axis, int]]:
    """The axes that lanes can run along, and how many of them."""
    for axis in axes:
        known_strides = all(isinstance(s, int) and s in LOAD_CYCLES for s in (axis.lhs, axis.rhs))
        if not known_strides or axis.lhs == axis.rhs == 0:
            continue
        if isinstance(axis.size, int):
            while lanes > axis.size:
                lanes //= 2
        if lanes > 1:
            yield axis, lanes


def _is_matrix_vector(vector: Axis, levels: Sequence[Axis]) -> bool:
    """Whether every row of a matrix meets only one vector."""
    return vector.summed and len(levels) == 1 and 0 in (levels[0].lhs, levels[0].rhs)


def _streaming(vector: Axis, lanes: int, levels: Sequence[Axis], axes: Sequence[Axis]) -> Plan:
    count = min(STREAMS, known(levels[0].size))
    return Plan(lanes, vector, (Level(levels[0], count),), _summed(axes, vector), streams=True)


def _positions(axis: Axis, vector: Axis | None, lanes: int) -> int:
    """How many positions, or vectors, an axis has."""
    return ceil(known(axis.size) / lanes) if axis is vector else known(axis.size)


def _counts(
    levels: Sequence[Axis], vector: Axis, lanes: int, registers: int
) -> Iterable[tuple[int, ...]]:
    """Sizes of blocks that fit the registers, beside the operands of one of them."""
    found: list[tuple[int, ...]] = [()]
    for axis in levels:
        most = _positions(axis, vector, lanes)
        if 0 not in (axis.lhs, axis.rhs) and axis is not vector:
            most = 1
        found = [
            (*counts, count)
            for counts in found
            for count in range(1, min(most, registers // prod(counts)) + 1)
        ]
    return (
        counts
        for counts in found
        if prod(counts) + min(_loads(levels, counts, "lhs"), _loads(levels, counts, "rhs")) + 1
        <= registers
    )


def _loads(levels: Sequence[Axis], counts: Iterable[float], operand: str) -> float:
    """Vectors of an operand that a block reads in a step."""
    return prod(
        count for axis, count in zip(levels, counts, strict=True) if getattr(axis, operand) != 0
    )


def _cycles(plan: Plan) -> float:
    """Estimated cycles for one multiply-add of two elements."""
    levels = [level.axis for level in plan.levels]
    counts: list[float] = []
    useful = 1.0
    for level in plan.levels:
        along = level.axis is plan.vector
        positions = _positions(level.axis, plan.vector, plan.lanes)
        counts.append(positions / ceil(positions / level.count) if positions else 1)
        useful *= counts[-1]
        if along:
            useful *= known(level.axis.size) / positions
    steps = float(prod(known(axis.size) for axis in plan.summed))
    if plan.dot:
        assert plan.vector is not None
        size = known(plan.vector.size)
        steps *= ceil(size / plan.lanes) / size
        useful *= size / ceil(size / plan.lanes)
    rows = prod(counts)
    strides = (plan.vector.lhs, plan.vector.rhs) if plan.vector else (0, 0)
    loads = sum(
        _loads(levels, counts, operand) * LOAD_CYCLES[known(stride)]
        for operand, stride in zip(("lhs", "rhs"), strides, strict=True)
    )
    step = max(rows * FMA_CYCLES, loads) + 0.1 * loads
    return (step + rows * _finishing(plan) / max(steps, 1)) / useful


def _finishing(plan: Plan) -> float:
    """Cycles to store an accumulator."""
    if plan.dot:
        return HORIZONTAL_CYCLES
    along = plan.vector is None or plan.vector.out == 1
    return 1.0 if along else 1.5 * plan.lanes


def _arranged(
    lanes: int, vector: Axis | None, levels: Sequence[Level], axes: Sequence[Axis]
) -> Plan:
    """With the loops in order: the largest operand is walked once."""
    ordered = sorted(levels, key=lambda level: _bytes_moved(level.axis, axes), reverse=True)
    return Plan(lanes, vector, tuple(ordered), _summed(axes, vector), streams=False)


def _bytes_moved(axis: Axis, axes: Sequence[Axis]) -> int:
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
