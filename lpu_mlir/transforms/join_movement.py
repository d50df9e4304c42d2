"""Joins requests and receives to loads again."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from lpu_mlir.dialects.lpu_kernel import (
    Index,
    KernelOp,
    LoadOp,
    PhaseOp,
    ReceiveOp,
    RequestOp,
)
from lpu_mlir.dialects.lpu_kernel.core_dependence import enclosing_loops


def join_phase(phase: PhaseOp) -> None:
    """Make every receive of a phase the load that its request stands for; `top` goes."""
    top = phase.top
    if top is None:
        return
    requests = {
        op.channel.root_reference.data: op for op in top.walk() if isinstance(op, RequestOp)
    }
    receives = [op for op in phase.cores.walk() if isinstance(op, ReceiveOp)]
    for receive in receives:
        request = requests[receive.channel.root_reference.data]
        _join(phase, request, receive)
    phase.detach_region(top)
    top.drop_all_references()


def _join(phase: PhaseOp, request: RequestOp, receive: ReceiveOp) -> None:
    assert phase.top is not None
    known: dict[SSAValue, SSAValue] = {phase.top.block.args[0]: phase.core_id}
    for theirs, ours in zip(enclosing_loops(request), enclosing_loops(receive), strict=True):
        known[theirs.induction] = ours.induction

    def here(value: SSAValue) -> SSAValue:
        """What a value of `top` is in the cores' program; its arithmetic is copied."""
        owner = value.owner
        if value not in known and isinstance(owner, Operation):
            operands = [here(operand) for operand in owner.operands]
            copy = owner.clone(dict(zip(owner.operands, operands, strict=True)))
            equal = _equal_before(receive, copy)
            if equal is None:
                Rewriter.insert_op(copy, InsertPoint.before(receive))
            known.update(zip(owner.results, (equal or copy).results, strict=True))
        return known.get(value, value)

    def index(given: Index) -> Index:
        return given if isinstance(given, int) else here(given)

    load = LoadOp(
        request.memref,
        [index(value) for value in request.window_offsets()],
        [index(value) for value in request.window_sizes()],
        receive.result.type,
        index_dim=request.indexed_dim,
        index=None if request.index is None else here(request.index),
    )
    load.result.name_hint = receive.result.name_hint
    Rewriter.replace_op(receive, load)


def _equal_before(op: Operation, wanted: Operation) -> Operation | None:
    """An operation that is computed before `op` and equals `wanted`, which has no regions."""
    before: Operation | None = op
    while before is not None and not isinstance(before, PhaseOp):
        earlier = before.prev_op
        while earlier is not None:
            if _is_equal(earlier, wanted):
                return earlier
            earlier = earlier.prev_op
        before = before.parent_op()
    return None


def _is_equal(a: Operation, b: Operation) -> bool:
    same = type(a) is type(b) and a.properties == b.properties
    return same and tuple(a.operands) == tuple(b.operands)


def join_kernel(kernel: KernelOp) -> None:
    """Make every receive of a kernel a load."""
    for phase in list(kernel.phases()):
        join_phase(phase)
    for channel in kernel.channels().values():
        Rewriter.erase_op(channel)


@dataclass(frozen=True)
class JoinMovementPass(ModulePass):
    """
    The inverse of split-movement: every `receive` becomes the `load` of the window that its
    `request` asks for; channels and `top` go. For what runs a core's program by itself and has no
    use for movement ahead of it.

    Before:
    ```mlir
    lpu_kernel.channel @ch0 depth 2 : !lpu_kernel.tile<8x576xf32>
    lpu_kernel.phase top(%d) {
      %r = lpu_kernel.apply <8 * d0>(%d)
      lpu_kernel.request @ch0 %x[%r, 0] [8, 576] to each : memref<64x576xf32>
    } cores(%c) {
      %t = lpu_kernel.receive @ch0 : !lpu_kernel.tile<8x576xf32>
      "use"(%t)
    }
    ```
    After:
    ```mlir
    lpu_kernel.phase cores(%c) {
      %r = lpu_kernel.apply <8 * d0>(%c)
      %t = lpu_kernel.load %x[%r, 0] [8, 576] : memref<64x576xf32> -> !lpu_kernel.tile<8x576xf32>
      "use"(%t)
    }
    ```
    """

    name = "join-movement"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.walk():
            if isinstance(kernel, KernelOp):
                join_kernel(kernel)
