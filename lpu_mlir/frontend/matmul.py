"""ATen's matrix products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from xdsl.ir import SSAValue

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.frontend.builder import GraphBuilder, Number, Tensors, Term, dtype_of, rank, shape_of
from lpu_mlir.frontend.dtypes import HALVES, opmath
from lpu_mlir.frontend.errors import NotNative

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
    if dtype_of(added) != dtype_of(x):
        raise NotNative("eager refuses operands of different dtypes")
    dtype = opmath(dtype_of(x))
    result = Term(b, b.matmul(x, y, dtype))
    if alpha != 1:
        result = result * Term(b, b.number(alpha, dtype))
    if beta != 0:
        bias = Term(b, b.convert(added, dtype))
        result = result + (bias if beta == 1 else bias * Term(b, b.number(beta, dtype)))
    return b.convert(result.value, b.dtype)


def vector_add(
    b: GraphBuilder,
    added: SSAValue,
    x: SSAValue,
    y: SSAValue,
    *,
    beta: Number = 1,
    alpha: Number = 1,
) -> SSAValue:
    """addmv: beta * added + alpha * (x @ y) of a matrix and a vector."""
    if b.dtype in HALVES:
        raise NotNative("eager rounds the product of half precision by itself")
    row = [*[Expr.const(1)] * (1 - rank(added)), *shape_of(added), Expr.const(1)]
    column = b.reshape(y, [*shape_of(y), Expr.const(1)])
    result = product_add(b, b.reshape(added, row), x, column, beta=beta, alpha=alpha)
    return b.reshape(result, b.shape)


def batches_add(
    b: GraphBuilder,
    added: SSAValue,
    x: SSAValue,
    y: SSAValue,
    *,
    beta: Number = 1,
    alpha: Number = 1,
) -> SSAValue:
    """addbmm: beta * added + alpha * the sum of x @ y over the batch, as one product."""
    if b.dtype in HALVES:
        raise NotNative("eager rounds half precision after each matrix of the batch")
    batch, rows, inner = shape_of(x)
    wide = b.reshape(b.transpose(x, [1, 0, 2]), [rows, batch * inner])
    tall = b.reshape(y, [batch * inner, shape_of(y)[2]])
    return b.broadcast(product_add(b, added, wide, tall, beta=beta, alpha=alpha), b.shape)


def dot(b: GraphBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    one = Expr.const(1)
    row, column = b.reshape(x, [one, *shape_of(x)]), b.reshape(y, [*shape_of(y), one])
    return b.reshape(b.matmul(row, column), ())


def mv(b: GraphBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    column = b.reshape(y, [*shape_of(y), Expr.const(1)])
    return b.reshape(b.matmul(x, column), b.shape)


def grouped(b: GraphBuilder, x: SSAValue, weights: SSAValue, ends: SSAValue) -> SSAValue:
    """Rows [s, k] in groups, each times its own of the weights [groups, k, n].

    `ends` has the row after the last of each group; rows after all groups give 0.  Each row's
    matrix is found by counting the groups that end before it.
    """
    rows, groups = shape_of(x)[0], shape_of(weights)[0]
    one = Expr.const(1)
    row = Term(b, b.iota(0, [rows, one]))
    last = Term(b, b.reshape(b.convert(ends, torch.int64), [one, groups]))
    ended = Term(b, b.reduce("add", row.apply("ge", last).to(torch.int64).value, [1]))
    group = ended.apply("minimum", groups - 1)
    chosen = b.gather(weights, [group.value], [0], 0)
    out = b.matmul(b.reshape(x, [rows, one, *shape_of(x)[1:]]), chosen)
    within = Term(b, b.reshape(ended.apply("lt", groups).value, [rows, one]))
    flat = b.reshape(out, b.shape)
    return b.select(within.value, flat, b.full(0, b.dtype))


HANDLERS: Mapping[Any, Handler] = {
    aten.mm.default: product,
    aten.bmm.default: product,
    aten.addmm.default: product_add,
    aten.baddbmm.default: product_add,
    aten.addmv.default: vector_add,
    aten.addbmm.default: batches_add,
    aten.dot.default: dot,
    aten.mv.default: mv,
}
