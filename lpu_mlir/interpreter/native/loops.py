"""Loops, and the tiles that they carry."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Block, Operation, SSAValue

from lpu_mlir.dialects.lpu_kernel import ForOp
from lpu_mlir.interpreter.native.elements import Stored, Tile
from lpu_mlir.interpreter.native.frame import Frame


def emit_for(f: Frame, op: Operation, emit_block: Callable[[Frame, Block], None]) -> None:
    assert isinstance(op, ForOp)
    lower, upper, step = f.integers(op.loop_bounds())
    pairs = list(zip(op.iter_args, op.outputs, strict=True))
    carried = [_carried(f, op, init, result) for init, result in pairs]
    with f.b.loop(lower, upper, step) as loop:
        f.values[op.induction] = loop.index
        f.values.update(zip(op.carried_args, carried, strict=True))
        emit_block(f, op.body.block)
        f.position = f.schedule.position[op.yield_op]
        _carry(f, op, carried)
    f.values.update(zip(op.outputs, carried, strict=True))


def _carried(f: Frame, op: ForOp, init: SSAValue, result: SSAValue) -> Stored:
    """The memory of a tile that is carried, from the loop's start to the last use of the result,
    with the initial value in it."""
    end = max(f.schedule.end[result], f.schedule.last[op])
    held = f.takes_over(init)
    if held is not None and list(op.iter_args).count(init) == 1:
        assert held.buffer is not None
        held.buffer.end = max(held.buffer.end, end)
        return held
    tile = f.tile(init)
    stored = f.new_tile(result, tile.sizes)
    assert stored.buffer is not None
    stored.buffer.end = end
    f.fill(stored, tile)
    return stored


def _carry(f: Frame, op: ForOp, carried: list[Stored]) -> None:
    """Puts what the body yields where the next iteration looks for it.

    What lies in the memory of another tile that is carried is moved out of the way first.
    """
    moves: list[tuple[Stored, Tile]] = []
    bases = [tile.view.base for tile in carried]
    for value, target in zip(op.yield_op.arguments, carried, strict=True):
        tile = f.tile(value)
        if isinstance(tile, Stored) and tile.view.base == target.view.base:
            continue
        if any(view.base in bases for view, _ in tile.views()):
            moved = f.like(target, value)
            f.fill(moved, tile)
            tile = moved
        moves.append((target, tile))
    for target, tile in moves:
        f.fill(target, tile)
