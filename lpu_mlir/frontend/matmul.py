"""ATen's matrix products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from xdsl.ir import SSAValue

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.frontend.builder import GraphBuilder, Number, Tensors, Term, dtype_of, shape_of
from lpu_mlir.frontend.types import opmath

aten = torch.ops.aten
Handler: TypeAlias = Callable[..., Tensors]


def product(b: GraphBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    return b.matmul(x, y)


def product_add(
    b: GraphBuilder,
    added: SSAValue,
    x: SSAValue,
    y: SSAValue,
    *,
    beta: Number = 1,
    alpha: Number = 1,
) -> SSAValue:
    """beta * added + alpha * (x @ y), rounded once; with beta == 0, `added` is not read."""
    dtype = opmath(dtype_of(x))
    result = Term(b, b.matmul(x, y, dtype))
    if alpha != 1:
        result = result * Term(b, b.number(alpha, dtype))
    if beta != 0:
        bias = Term(b, b.convert(added, dtype))
        result = result + (bias if beta == 1 else bias * Term(b, b.number(beta, dtype)))
    return b.convert(result.value, b.dtype)


def dot(b: GraphBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    one = Expr.const(1)
    row, column = b.reshape(x, [one, *shape_of(x)]), b.reshape(y, [*shape_of(y), one])
    return b.reshape(b.matmul(row, column), ())


def mv(b: GraphBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    column = b.reshape(y, [*shape_of(y), Expr.const(1)])
    return b.reshape(b.matmul(x, column), b.shape)


HANDLERS: Mapping[Any, Handler] = {
    aten.mm.default: product,
    aten.bmm.default: product,
    aten.addmm.default: product_add,
    aten.baddbmm.default: product_add,
    aten.dot.default: dot,
    aten.mv.default: mv,
}
