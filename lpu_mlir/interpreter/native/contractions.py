"""Contractions of tiles."""

from __future__ import annotations

from xdsl.ir import Operation

from lpu_mlir.dialects.lpu_kernel import ContractOp
from lpu_mlir.interpreter.native.contract import emit_contract
from lpu_mlir.interpreter.native.frame import Frame
from lpu_mlir.interpreter.native.llvm import Int


def emit_contraction(f: Frame, op: Operation) -> None:
    assert isinstance(op, ContractOp)
    lhs, rhs = f.in_memory(op.lhs).view, f.in_memory(op.rhs).view
    extents: dict[int, Int] = {}
    for view, dims in ((lhs, op.lhs_dims), (rhs, op.rhs_dims)):
        extents.update(zip(dims.get_values(), view.sizes, strict=True))
    rank = len(op.result.type.get_shape())
    held = f.takes_over(op.acc)
    out = (
        f.keep(held, op.result)
        if held
        else f.new_tile(op.result, [extents[dim] for dim in range(rank)])
    )
    if op.acc is not None and held is None:
        f.fill(out, f.tile(op.acc))
    emit_contract(
        f.b,
        f.machine,
        lhs,
        op.lhs_dims.get_values(),
        rhs,
        op.rhs_dims.get_values(),
        out.view,
        accumulate=op.acc is not None,
        scratch=f.temporary,
    )
    f.values[op.result] = out
