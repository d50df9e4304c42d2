"""How a contraction is computed: which axis fills vectors, and how many sums are kept at a time.

The sums of a block stay in registers while the summed axes are walked. Lanes run along one axis:

- a summed one: both operands are read along it, lanes are summed at the end ("dot");
- an axis of the result: the right operand is read along it, the left one is repeated in all lanes
  ("broadcast"), or read along it too. What a block needs of the right operand may be packed: copied
  in the order in which it is read.
- none: scalars.

What is legal is decided by `_dot`, `_broadcast` and `_packed`; what is best, by `_cycles`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
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
PACK_CYCLES = {1: 1.5, 2: 2.5}
"""Cycles to copy a vector into a panel."""
TRANSPOSE_CYCLES = 5.0
"""Cycles to copy a vector into a panel, one of a square that is transposed."""
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
    streams: bool = False
    """Whether the positions of the first level's blocks are far apart."""
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


def known(size: Int) -> int:
    return size if isinstance(size, int) else ASSUMED_SIZE


def transposes(plan: Plan) -> bool:
    """Whether packing transposes: the right operand is contiguous in what is summed last."""
    if not plan.summed or plan.vector is None or plan.vector.rhs in PACK_CYCLES:
        return False
    last = plan.summed[-1]
    return last.rhs == 1 and isinstance(last.size, int) and last.size >= plan.lanes


def scalar_plan(axes: Sequence[Axis]) -> Plan:
    """A plan for any axes."""
    return _arranged(Plan(1, None, (), ()), [Level(a, 1) for a in axes if not a.summed], axes)


def choose(axes: Sequence[Axis], lanes: int, registers: int) -> Plan:
    """The plan of the fewest cycles, for vectors of so many lanes and so many of them."""
    swapped = [replace(axis, lhs=axis.rhs, rhs=axis.lhs) for axis in axes]
    plans = [
        scalar_plan(axes),
        *_plans(axes, False, lanes, registers),
        *_plans(swapped, True, lanes, registers),
    ]
    return min(plans, key=_cycles)


def _plans(
    axes: Sequence[Axis], swapped: bool, lanes: int, registers: int
) -> Generator[Plan]:
    levels = [axis for axis in axes if not axis.summed]
    for vector in axes:
        filled = _filled(vector, lanes)
        if filled == 1:
            continue
        plan = Plan(filled, vector, (), (), swapped=swapped)
        if _is_matrix_vector(vector, levels):
            yield _streaming(plan, levels[0], axes)
            continue
        for packed in (False, True):
            if not (_can_pack(vector, axes) if packed else _can_read(vector)):
                continue
            for counts in _counts(levels, vector, filled, registers):
                blocks = [Level(axis, count) for axis, count in zip(levels, counts, strict=True)]
                yield _arranged(replace(plan, packed=packed), blocks, axes)


def _filled(vector: Axis, lanes: int) -> int:
    """How many of the lanes an axis fills."""
    if isinstance(vector.size, int):
        while lanes > max(vector.size, 1):
            lanes //= 2
    return lanes


def _can_read(vector: Axis) -> bool:
    """Whether vectors can be loaded along an axis."""
    known_strides = all(isinstance(s, int) and s in LOAD_CYCLES for s in (vector.lhs, vector.rhs))
    return known_strides and vector.rhs != 0


def _can_pack(vector: Axis, axes: Sequence[Axis]) -> bool:
    """Whether panels can be made for vectors along an axis, and are read more than once."""
    return (
        not vector.summed
        and vector.rhs != 0
        and isinstance(vector.lhs, int)
        and vector.lhs in LOAD_CYCLES
        and all(isinstance(axis.size, int) for axis in axes if axis.summed)
        and any(axis.rhs == 0 for axis in axes if not axis.summed)
    )


def _is_matrix_vector(vector: Axis, levels: Sequence[Axis]) -> bool:
    """Whether every row of a matrix meets only one vector."""
    return (
        vector.summed and _can_read(vector) and len(levels) == 1 and levels[0].lhs == 0
    )


def _streaming(plan: Plan, level: Axis, axes: Sequence[Axis]) -> Plan:
    count = min(STREAMS, known(level.size))
    return replace(
        plan, levels=(Level(level, count),), summed=_summed(axes, plan.vector), streams=True
    )


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
    for counts in found:
        operands = min(_loads(levels, counts, "lhs"), _loads(levels, counts, "rhs"))
        if prod(counts) + operands + 1 <= registers:
            yield counts


def _loads(levels: Sequence[Axis], counts: Iterable[float], operand: str) -> float:
    """Vectors of an operand that a block reads in a step."""
    return prod(
        count
        for axis, count in zip(levels, counts, strict=True)
        if getattr(axis, operand) != 0
    )


def _cycles(plan: Plan) -> float:
    """Estimated cycles for one multiply-add of two elements."""
    levels = [level.axis for level in plan.levels]
    counts: list[float] = []
    useful = 1.0
    reuse = 1.0
    for level in plan.levels:
        positions = _positions(level.axis, plan.vector, plan.lanes)
        blocks = ceil(positions / level.count)
        counts.append(positions / blocks if positions else 1)
        useful *= counts[-1]
        if level.axis is plan.vector:
            useful *= known(level.axis.size) / positions
        if level.axis.rhs == 0:
            reuse *= blocks
    steps = float(prod(known(axis.size) for axis in plan.summed))
    if plan.dot:
        assert plan.vector is not None
        size = known(plan.vector.size)
        steps *= ceil(size / plan.lanes) / size
        useful *= size / ceil(size / plan.lanes)
    rows = prod(counts)
    strides = (plan.vector.lhs, 1 if plan.packed else plan.vector.rhs) if plan.vector else (0, 0)
    loads = sum(
        _loads(levels, counts, operand) * LOAD_CYCLES[known(stride)]
        for operand, stride in zip(("lhs", "rhs"), strides, strict=True)
    )
    step = max(rows * FMA_CYCLES, loads) + 0.1 * loads
    if plan.packed:
        step += _loads(levels, counts, "rhs") * _packing(plan) / reuse
    return (step + rows * _finishing(plan) / max(steps, 1)) / useful


def _packing(plan: Plan) -> float:
    """Cycles to put a vector into a panel."""
    assert plan.vector is not None
    if transposes(plan):
        return TRANSPOSE_CYCLES
    stride = plan.vector.rhs
    return PACK_CYCLES.get(stride, 1.5 * plan.lanes) if isinstance(stride, int) else 30.0


def _finishing(plan: Plan) -> float:
    """Cycles to store an accumulator."""
    if plan.dot:
        return HORIZONTAL_CYCLES
    along = plan.vector is None or plan.vector.out == 1
    return 1.0 if along else 1.5 * plan.lanes


def _arranged(plan: Plan, levels: Sequence[Level], axes: Sequence[Axis]) -> Plan:
    """With the loops in order: the largest operand is walked once."""

    def rank(level: Level) -> tuple[bool, int]:
        return plan.packed and level.axis.rhs != 0, _bytes_moved(level.axis, axes)

    ordered = sorted(levels, key=rank, reverse=True)
    return replace(plan, levels=tuple(ordered), summed=_summed(axes, plan.vector))


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
