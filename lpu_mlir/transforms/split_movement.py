"""Splits loads into requests by `top` and receives in the cores, joined by channels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from lpu_mlir.dialects.lpu_kernel import (
    ChannelOp,
    ForOp,
    KernelOp,
    LoadOp,
    PhaseOp,
    ReceiveOp,
    RequestOp,
    StoreOp,
    TileType,
)
from lpu_mlir.dialects.lpu_kernel.core_dependence import (
    core_dependent_values,
    depends_on_core,
    enclosing_loops,
)


def can_be_requested(load: LoadOp, stored: Iterable[SSAValue]) -> bool:
    """Whether `top` can ask for a window ahead of the cores, which store to `stored`."""
    if load.index is not None and isinstance(load.index.type, TileType):
        # Only the cores have tiles.
        return False
    # A request runs ahead of the cores, so that it could miss what they store.
    return load.memref not in stored


def needed_by_top(loads: Iterable[LoadOp]) -> set[Operation]:
    """The loops around some loads, and the arithmetic that their bounds and windows come from."""
    loops = {loop for load in loads for loop in enclosing_loops(load)}
    pending = [value for loop in loops for value in loop.bounds]
    pending += [value for load in loads for value in load.operands]
    needed: set[Operation] = {*loops}
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, Operation) and owner not in needed:
            needed.add(owner)
            pending += owner.operands
    return needed


def channel_depth(load: LoadOp, depth: int) -> int:
    """Buffers of a load's channel: no more than it has tiles, where that is known."""
    trips: list[int] = []
    for loop in enclosing_loops(load):
        lower, upper, step = loop.loop_bounds()
        if not (isinstance(lower, int) and isinstance(upper, int) and isinstance(step, int)):
            return depth
        trips.append(len(range(lower, upper, step)))
    return max(1, min(depth, prod(trips)))


@dataclass
class _Top:
    """Builds the program of `top` from the parts of the cores' program that it needs."""

    needed: set[Operation]
    requests: dict[Operation, tuple[str, str]]
    """Load -> channel and destination."""

    values: dict[SSAValue, SSAValue]

    def fill(self, block: Block, source: Block) -> None:
        for op in source.ops:
            if isinstance(op, LoadOp) and op in self.requests:
                block.add_op(self._request(op))
            elif isinstance(op, ForOp) and op in self.needed:
                block.add_op(self._loop(op))
            elif op in self.needed:
                block.add_op(op.clone(self.values))

    def _of(self, value: SSAValue) -> SSAValue:
        return self.values.get(value, value)

    def _request(self, load: LoadOp) -> RequestOp:
        channel, destination = self.requests[load]
        return RequestOp(
            channel,
            destination,
            load.memref,
            [v if isinstance(v, int) else self._of(v) for v in load.window_offsets()],
            [v if isinstance(v, int) else self._of(v) for v in load.window_sizes()],
            index_dim=load.indexed_dim,
            index=None if load.index is None else self._of(load.index),
        )

    def _loop(self, loop: ForOp) -> ForOp:
        lower, upper, step = (v if isinstance(v, int) else self._of(v) for v in loop.loop_bounds())
        copy = ForOp(loop.kind.data, lower, upper, step)
        copy.induction.name_hint = loop.induction.name_hint
        self.values[loop.induction] = copy.induction
        self.fill(copy.body.block, loop.body.block)
        copy.end_body()
        return copy


def split_phase(kernel: KernelOp, phase: PhaseOp, depth: int) -> None:
    """Split every load of a phase that can be; a phase without one keeps no `top`."""
    stored = {op.memref for op in phase.walk() if isinstance(op, StoreOp)}
    loads = [
        op for op in phase.cores.walk() if isinstance(op, LoadOp) and can_be_requested(op, stored)
    ]
    if not loads or phase.top is not None:
        return
    dependent = core_dependent_values(phase.cores)
    channels = [_add_channel(kernel, load, depth) for load in loads]
    requests: dict[Operation, tuple[str, str]] = {
        load: (channel, "each" if depends_on_core(load, dependent) else "all")
        for load, channel in zip(loads, channels, strict=True)
    }
    top = Block(arg_types=[phase.core_id.type])
    top.args[0].name_hint = phase.core_id.name_hint
    _Top(needed_by_top(loads), requests, {phase.core_id: top.args[0]}).fill(top, phase.cores.block)
    phase.add_top(top)
    for load in loads:
        receive = ReceiveOp(requests[load][0], load.result_type)
        receive.result.name_hint = load.result.name_hint
        Rewriter.replace_op(load, receive)


def _add_channel(kernel: KernelOp, load: LoadOp, depth: int) -> str:
    """Put the channel of a load before the kernel's phases; returns its name."""
    taken = kernel.channels()
    number = len(taken)
    while f"ch{number}" in taken:
        number += 1
    channel = ChannelOp(f"ch{number}", channel_depth(load, depth), load.result_type)
    channel.location = load.location
    first_phase = next(kernel.phases())
    Rewriter.insert_op(channel, InsertPoint.before(first_phase))
    return f"ch{number}"


@dataclass(frozen=True)
class SplitMovementPass(ModulePass):
    """
    Makes each `load` that can run ahead of its core a `request` in `top` and a `receive` in the
    core. `top` gets a copy of the loops and index arithmetic that it needs. A window that is the
    same for all cores is requested `to all`. Loads indexed by a tile, and loads of what the same
    phase stores to, stay.

    Before:
    ```mlir
    lpu_kernel.phase cores(%c) {
      lpu_kernel.for parallel %i = 0 to %n step 8 {
        %r = lpu_kernel.apply <d0 + 64 * d1>(%i, %c)
        %t = lpu_kernel.load %x[%r, 0] [8, 576] : memref<?x576xf32> -> !lpu_kernel.tile<8x576xf32>
        "use"(%t)
      }
    }
    ```
    After:
    ```mlir
    lpu_kernel.channel @ch0 depth 2 : !lpu_kernel.tile<8x576xf32>
    lpu_kernel.phase top(%c) {
      lpu_kernel.for parallel %i = 0 to %n step 8 {
        %r = lpu_kernel.apply <d0 + 64 * d1>(%i, %c)
        lpu_kernel.request @ch0 %x[%r, 0] [8, 576] to each : memref<?x576xf32>
      }
    } cores(%c) {
      lpu_kernel.for parallel %i = 0 to %n step 8 {
        %r = lpu_kernel.apply <d0 + 64 * d1>(%i, %c)
        %t = lpu_kernel.receive @ch0 : !lpu_kernel.tile<8x576xf32>
        "use"(%t)
      }
    }
    ```
    """

    name = "split-movement"

    depth: int = 2
    """Tiles that a channel holds: 2 lets one arrive while the other is used."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.walk():
            if isinstance(kernel, KernelOp):
                for phase in list(kernel.phases()):
                    split_phase(kernel, phase, self.depth)
