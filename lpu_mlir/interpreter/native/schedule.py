"""When the elements of each tile are read: which tiles need memory, for how long, which copies.

A map whose elements are read once is computed by its reader and never stored; a load is no copy but
a view of DRAM.  Both move reading to a later place, which this analysis knows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue

from lpu_mlir.dialects.lpu_kernel import (
    FoldOp,
    ForOp,
    LoadOp,
    MapOp,
    PhaseOp,
    SliceOp,
    StoreOp,
    TileType,
    WindowsOp,
    YieldOp,
)
from lpu_mlir.dialects.lpu_kernel.movement import WindowOp

MayAlias = Callable[[SSAValue, SSAValue], bool]
"""Whether two memref arguments of a kernel may share bytes."""


@dataclass
class Schedule:
    """
    Positions count operations in program order; a loop has one at its start and one at its end.
    `end` is the last position at which a tile may be read, `inlined` holds the maps that their
    readers compute and `copied` the loads whose window may change before it is last read.
    """

    position: dict[Operation, int] = field(default_factory=dict[Operation, int])
    last: dict[Operation, int] = field(default_factory=dict[Operation, int])
    end: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    inlined: set[Operation] = field(default_factory=set[Operation])
    copied: set[Operation] = field(default_factory=set[Operation])

    @staticmethod
    def of(phase: PhaseOp, may_alias: MayAlias) -> Schedule:
        schedule = Schedule()
        schedule._number(phase.cores.block, 0)
        stores = [op for op in phase.walk() if isinstance(op, StoreOp)]
        loads = [op for op in phase.walk() if isinstance(op, LoadOp)]
        risky = [s for s in stores if any(may_alias(s.memref, load.memref) for load in loads)]
        for op in schedule.position:
            if isinstance(op, MapOp) and schedule._can_inline(op, risky):
                schedule.inlined.add(op)
        for op in reversed(schedule.position):
            for value in op.results:
                if isinstance(value.type, TileType):
                    schedule.end[value] = schedule._end(value)
            if isinstance(op, ForOp):
                for value in op.carried_args:
                    schedule.end[value] = schedule._end(value)
        for load in loads:
            near = [s for s in risky if may_alias(s.memref, load.memref)]
            if any(schedule._may_change(load, store) for store in near):
                schedule.copied.add(load)
        return schedule

    def _number(self, block: Block, position: int) -> int:
        for op in block.ops:
            position += 1
            self.position[op] = self.last[op] = position
            if isinstance(op, ForOp):
                position = self.last[op] = self._number(op.body.block, position) + 1
        return position

    # --- inlining -------------------------------------------------------------------------------

    def _can_inline(self, op: MapOp, risky: list[StoreOp]) -> bool:
        if len(op.outputs) != 1:
            return False
        uses = list(op.outputs[0].uses)
        if len(uses) != 1 or uses[0].operation.parent is not op.parent:
            return False
        reader = uses[0].operation
        if any(self._lies_between(store, op, reader) for store in risky):
            return False
        match reader:
            case MapOp():
                return _reads_once(reader, uses[0].index)
            case FoldOp():
                return uses[0].index == 0
            case StoreOp():
                return reader.value is op.outputs[0]
            case _:
                return False

    def _lies_between(self, store: StoreOp, first: Operation, last: Operation) -> bool:
        around = _ancestor_in(store, first.parent)
        return (
            around is not None
            and self.position[first] < self.position[around]
            and (self.last[around] < self.position[last])
        )

    # --- ends -----------------------------------------------------------------------------------

    def _end(self, value: SSAValue) -> int:
        """The last position at which the tile is read; that of its definition if it never is."""
        block = value.owner if isinstance(value.owner, Block) else value.owner.parent
        owner = block.parent_op() if isinstance(value.owner, Block) and block else value.owner
        end = self.position[owner] if isinstance(owner, Operation) else 0
        for use in value.uses:
            around = _ancestor_in(use.operation, block)
            assert around is not None
            if around is not use.operation:
                end = max(end, self.last[around])
            else:
                end = max(end, self._read_at(use.operation))
        return end

    def _read_at(self, op: Operation) -> int:
        """When an operation reads the tiles it is given."""
        if op in self.inlined or isinstance(op, SliceOp | WindowsOp | LoadOp):
            return max(self.end[value] for value in op.results)
        if isinstance(op, YieldOp):
            parent = op.parent_op()
            return self.position[op] if parent is None else self.last[parent]
        return self.position[op]

    # --- copies ---------------------------------------------------------------------------------

    def _may_change(self, load: LoadOp, store: StoreOp) -> bool:
        """Whether a store may come between a load and the last reading of its tile."""
        around = _ancestor_in(store, load.parent)
        if around is None:
            return False
        end = self.end[load.result]
        if self.last[around] < self.position[load] or self.position[around] > end:
            return False
        # At the end itself every element is read just before its place is written.
        return not (self.position[around] == end and around is store and _same_window(load, store))


def _reads_once(reader: MapOp, operand: int) -> bool:
    """Whether a map reads every element of an input once."""
    position = operand - len(reader.sizes) - len(reader.offsets)
    if position < 0:
        return False
    dims, sizes = reader.dims_of_inputs()[position], reader.map_sizes()
    return all(size == 1 for dim, size in enumerate(sizes) if dim not in dims)


def _ancestor_in(op: Operation, block: Block | None) -> Operation | None:
    """The operation of a block that an operation is, or is inside of."""
    current: Operation | None = op
    while current is not None and current.parent is not block:
        current = current.parent_op()
    return current


def _same_window(load: LoadOp, store: StoreOp) -> bool:
    return load.memref is store.memref and _window(load) == _window(store)


def _window(op: WindowOp) -> tuple[object, ...]:
    return (*op.window_offsets(), op.index, op.indexed_dim)
