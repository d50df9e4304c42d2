"""What a plan costs: cycles of a processor that starts two multiply-adds of vectors in each.

The numbers are those of recent x86-64 processors, rounded; only their order matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, gcd, prod

from lpu_mlir.interpreter.native.contract.axes import Axis
from lpu_mlir.interpreter.native.contract.plan import Level, Plan, known, plans

FMA_CYCLES = 0.5
STEP_CYCLES = 0.25
"""To go on to the next step."""
EVERY_OTHER_CYCLES = 1.5
"""What it takes longer to load a vector of every other element."""
SCALAR_CYCLES = 0.5
"""To load a scalar into all lanes."""
HORIZONTAL_CYCLES = 3.0
"""To sum the lanes of one of four accumulators."""
SCATTER_CYCLES = 2.0
"""To store one lane, or the same lane of several accumulators."""
COPY_CYCLES = {1: 3.0, 2: 4.0}
"""To copy a vector of elements that are so far apart into a panel."""
TRANSPOSE_CYCLES = 5.0
"""To copy one vector of a square that is transposed."""
GATHER_CYCLES = 1.5
"""To copy one element of other vectors."""

NEAR, MIDDLE, FAR = (0.5, 0.0), (1.0, 0.05), (2.7, 0.7)
"""To load a vector of a panel that is so near, and to wait for a line of it."""
NEAR_BYTES, MIDDLE_BYTES = 16 << 10, 512 << 10
"""How large a panel may be."""
SCATTERED = 4.0
"""How much longer the wait is for single lines."""
KIND_COST = 0.01
"""How much dearer blocks are of which there is another size: there is code for each."""
LINE_BYTES = 64
SETS, WAYS = 1024, 16
"""Of the cache in the middle: lines this many lines from each other share a set."""


def choose(axes: Sequence[Axis], lanes: int, registers: int, element_bytes: int) -> Plan:
    """The plan of the fewest cycles, for vectors of so many lanes and so many of them."""
    return min(plans(axes, lanes, registers), key=lambda plan: cycles(plan, element_bytes))


def choose_sure(axes: Sequence[Axis], lanes: int, registers: int, element_bytes: int) -> Plan:
    """The best of the plans of which is known that their vectors are filled."""
    sure = (
        plan
        for plan in plans(axes, lanes, registers)
        if plan.vector is None or isinstance(plan.vector.size, int)
    )
    return min(sure, key=lambda plan: cycles(plan, element_bytes))


def cycles(plan: Plan, element_bytes: int) -> float:
    """Estimated cycles for one multiply-add of two elements."""
    steps = prod(known(axis.size) for axis in plan.summed)
    filled = 1.0
    if plan.vector is not None:
        size = known(plan.vector.size)
        vectors = ceil(size / plan.lanes)
        filled = size / vectors
        if plan.dot:
            steps = steps // size * vectors
    blocks = prod(ceil(plan.positions(level.axis) / level.count) for level in plan.levels)
    rows = prod(plan.positions(level.axis) for level in plan.levels)
    step = _step(plan, steps, element_bytes) * blocks / rows
    kinds = prod(
        1 + (plan.positions(level.axis) % level.count > 0)
        for level in plan.levels
        if not level.apart
    )
    return (step + _finishing(plan) / max(steps, 1)) / filled * (1 + KIND_COST * (kinds - 1))


def _step(plan: Plan, steps: int, element_bytes: int) -> float:
    """Cycles of a step of a block."""
    loads = stalls = packing = 0.0
    for operand in ("lhs", "rhs"):
        load, stall = _loading(plan, operand, steps, element_bytes)
        loads, stalls = loads + load, stalls + stall
    if plan.packed:
        uses = prod(_blocks(plan, level) for level in plan.levels if level.axis.rhs == 0)
        packing = plan.loads("rhs") * _packing(plan) / uses
    return max(plan.rows * FMA_CYCLES, loads) + STEP_CYCLES + 0.1 * loads + stalls + packing


def _blocks(plan: Plan, level: Level) -> int:
    return ceil(plan.positions(level.axis) / level.count)


def _loading(plan: Plan, operand: str, steps: int, element_bytes: int) -> tuple[float, float]:
    """Cycles to load what a step takes of an operand, and cycles to wait for it."""
    vectors = plan.loads(operand)
    panel = plan.packed and operand == "rhs"
    along = 0 if plan.vector is None else getattr(plan.vector, operand)
    scalars = along == 0 and not panel
    if scalars and plan.summed and getattr(plan.summed[-1], operand) in (0, 1):
        return vectors * SCALAR_CYCLES, 0.0
    if all(plan.positions(lv.axis) == 1 for lv in plan.levels if getattr(lv.axis, operand) == 0):
        return vectors * MIDDLE[0], 0.0  # it is read once, from wherever it is
    width = 1 if scalars else plan.lanes
    lines = ceil(vectors * width * element_bytes / LINE_BYTES)
    size = lines * LINE_BYTES * steps
    missed = 0.0 if panel or plan.dot else _missed(plan, operand, lines, element_bytes)
    if size > MIDDLE_BYTES:
        missed = 1.0
    near = NEAR if size <= NEAR_BYTES else MIDDLE
    load, stall = (a + missed * (z - a) for a, z in zip(near, FAR, strict=True))
    if scalars:
        return vectors * SCALAR_CYCLES, lines * SCATTERED * stall
    if along == 2 and not panel:
        load += EVERY_OTHER_CYCLES
    return vectors * load, lines * stall


def _missed(plan: Plan, operand: str, lines: int, element_bytes: int) -> float:
    """The share of lines that far apart, so many a step, for which a cache has too few sets."""
    if not plan.summed:
        return 0.0
    stride, size = getattr(plan.summed[-1], operand), known(plan.summed[-1].size)
    if not isinstance(stride, int) or stride * element_bytes % LINE_BYTES:
        return 0.0
    apart = gcd(stride * element_bytes // LINE_BYTES, SETS)
    held = SETS // apart * min(lines, apart) * WAYS
    return max(0.0, 1.0 - held / (size * lines))


def _packing(plan: Plan) -> float:
    """Cycles to put a vector into a panel."""
    assert plan.vector is not None
    if plan.transposes:
        return TRANSPOSE_CYCLES
    stride = plan.vector.rhs
    gathered = GATHER_CYCLES * plan.lanes
    return COPY_CYCLES.get(stride, gathered) if isinstance(stride, int) else gathered


def _finishing(plan: Plan) -> float:
    """Cycles to store an accumulator."""
    if plan.dot:
        return HORIZONTAL_CYCLES
    if plan.vector is None or plan.vector.out == 1:
        return 1.0
    # Lanes go to different places, together with those of neighbours, by powers of two of them.
    neighbours = prod(level.count for level in plan.levels if level.axis.out == 1)
    return 1.0 + SCATTER_CYCLES * plan.lanes * neighbours.bit_count() / neighbours
