"""Places every intermediate of a function at an offset in one arena.

Buffers whose lives overlap get disjoint places.  While all sizes are known, a buffer goes to the
lowest gap that fits.  One whose size depends on symbols takes the place of a dead one that is at
least as large whatever the symbols are, or a new place after all others: offsets are plain sums,
for maxima of maxima would grow without bound.  A buffer whose size a host call determines stays on
its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from lpu_mlir.dialects.expr import Expr, Range, nonnegative
from lpu_mlir.dialects.lpu import bound_late, symbol_ranges, symbols, type_bytes
from lpu_mlir.dialects.lpu_host import ALIGNMENT, AllocOp, ArenaOp, CarveOp, ViewOp


@dataclass(frozen=True)
class Life:
    """A buffer from its first to its last use, both included, and its size in bytes."""

    alloc: AllocOp
    first: int
    last: int
    size: Expr

    def overlaps(self, other: Life) -> bool:
        return self.first <= other.last and other.first <= self.last


def lives(block: Block) -> list[Life]:
    """The lives of a block's buffers, in program order; of those whose size is known at entry."""
    late = bound_late(block)
    position = {op: i for i, op in enumerate(block.ops)}
    found: list[Life] = []
    for op in block.ops:
        if isinstance(op, AllocOp):
            uses = [position[_in_block(user, block)] for user in _users(op.output)]
            size = type_bytes(op.output.type).ceildiv(ALIGNMENT) * ALIGNMENT
            if uses and not size.names() & late:
                found.append(Life(op, min(uses), max(uses), size))
    return found


def _users(buffer: SSAValue) -> list[Operation]:
    """Operations that touch a buffer, also through views of it."""
    found: list[Operation] = []
    for use in buffer.uses:
        if isinstance(use.operation, ViewOp):
            found += _users(use.operation.output)
        else:
            found.append(use.operation)
    return found


def _in_block(op: Operation, block: Block) -> Operation:
    found = block.find_ancestor_op_in_block(op)
    assert found is not None
    return found


@dataclass
class Place:
    """Bytes that several buffers take in turn."""

    offset: Expr
    size: Expr
    tenants: list[Life]

    def fits(self, buffer: Life, ranges: Mapping[str, Range]) -> bool:
        """Whether a buffer can move in, whatever the symbols are."""
        free = not any(buffer.overlaps(tenant) for tenant in self.tenants)
        return free and nonnegative(self.size - buffer.size, ranges)


def place(buffers: Sequence[Life], ranges: Mapping[str, Range]) -> tuple[dict[Life, Expr], Expr]:
    """An offset for each buffer, and where the last one ends."""
    offsets = {life: Expr.const(offset) for life, offset in place_known(buffers).items()}
    end = Expr.const(0)
    for life, offset in offsets.items():
        end = Expr.max(end, offset + life.size)
    places: list[Place] = []
    for buffer in buffers:
        if buffer in offsets:
            continue
        found = next((place for place in places if place.fits(buffer, ranges)), None)
        if found is None:
            found = Place(end, buffer.size, [])
            places.append(found)
            end = end + buffer.size
        found.tenants.append(buffer)
        offsets[buffer] = found.offset
    return offsets, end


def place_known(buffers: Sequence[Life]) -> dict[Life, int]:
    """Offsets of the buffers whose size is known: the largest first, each in the lowest gap."""
    known = [(size, b) for b in buffers if (size := b.size.constant()) is not None]
    known.sort(key=lambda entry: -entry[0])
    offsets: dict[Life, int] = {}
    sizes = {buffer: size for size, buffer in known}
    for size, buffer in known:
        neighbours = sorted((offsets[o], sizes[o]) for o in offsets if o.overlaps(buffer))
        offsets[buffer] = _lowest_gap(neighbours, size)
    return offsets


def _lowest_gap(neighbours: Sequence[tuple[int, int]], size: int) -> int:
    start = 0
    for offset, length in neighbours:
        if offset - start >= size:
            break
        start = max(start, offset + length)
    return start


def lower_bound(buffers: Sequence[Life], hints: Mapping[str, int]) -> int:
    """The most bytes live at one moment: no plan needs less."""
    sizes = [buffer.size.evaluate(hints) for buffer in buffers]
    moments = {buffer.first for buffer in buffers}
    return max(
        (
            sum(s for s, b in zip(sizes, buffers, strict=True) if b.first <= moment <= b.last)
            for moment in moments
        ),
        default=0,
    )


def plan_function(function: func.FuncOp) -> None:
    block = function.body.block
    buffers = lives(block)
    for op in list(block.ops):
        if isinstance(op, AllocOp) and not op.output.uses:
            Rewriter.erase_op(op)
    if not buffers:
        return
    offsets, peak = place(buffers, symbol_ranges(function))
    hints = {s.symbol.data: s.hint.data for s in symbols(function)}
    arena = ArenaOp(peak, lower_bound(buffers, hints))
    first = block.first_op
    assert first is not None
    block.insert_op_before(arena, first)
    for buffer in buffers:
        alloc = buffer.alloc
        carve = CarveOp(arena.output, offsets[buffer], alloc.output.type)
        Rewriter.replace_op(alloc, carve)


@dataclass(frozen=True)
class PlanMemoryPass(ModulePass):
    """Turns `lpu_host.alloc` into places in one arena for each function.

    Before:
    ```mlir
    %0 = lpu_host.alloc : memref<64xf32, "shared_dram">
    %1 = lpu_host.alloc : memref<64xf32, "shared_dram">
    ```
    After:
    ```mlir
    %a = lpu_host.arena <512> lower_bound <512> : memref<512xi8, "shared_dram">
    %0 = lpu_host.carve %a at <0> : … -> memref<64xf32, "shared_dram">
    %1 = lpu_host.carve %a at <256> : … -> memref<64xf32, "shared_dram">
    ```
    """

    name = "plan-memory"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, func.FuncOp) and function.body.blocks:
                plan_function(function)
