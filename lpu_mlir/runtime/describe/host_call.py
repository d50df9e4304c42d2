"""Host calls, read off the operations."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, StringAttr

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.location import describe_location
from lpu_mlir.dialects.lpu import HostCallOp, ShapeAttr
from lpu_mlir.frontend.arguments import plain_arguments
from lpu_mlir.frontend.importer import BINDS, FUNCTIONALIZED, STORAGE
from lpu_mlir.frontend.outputs import STRIDES
from lpu_mlir.runtime.describe.layout import layout_of
from lpu_mlir.runtime.host_call import Operator


def describe_host_call(op: HostCallOp) -> Operator:
    """The call of a PyTorch operator that an operation stands for."""
    return Operator(
        op.overload.data,
        plain_arguments(op.arguments.data),
        tuple(_bound_symbols(op)),
        tuple(layout_of(result.type) for result in op.outputs),
        tuple(bool(result.uses) for result in op.outputs),
        STORAGE in op.attributes,
        tuple(_strides(op)),
        describe_location(op.location),
        FUNCTIONALIZED in op.attributes,
    )


def _strides(op: HostCallOp) -> list[tuple[Expr, ...]]:
    found = op.attributes.get(STRIDES)
    if not isinstance(found, ArrayAttr):
        return []
    return [each.data for each in found.data if isinstance(each, ShapeAttr)]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


def _bound_symbols(op: HostCallOp) -> list[str]:
    bound = op.attributes.get(BINDS)
    if not isinstance(bound, ArrayAttr):
        return []
    return [s.data for s in bound.data if isinstance(s, StringAttr)]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
