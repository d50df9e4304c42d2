"""ATen's distances between rows, and their gradients: of all pairs, side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from xdsl.ir import SSAValue

from lpu_mlir.dialects.expr import Expr, nonnegative
from lpu_mlir.dialects.lpu_graph import broadcast_extents
from lpu_mlir.frontend.builder import (
    GraphBuilder,
    Number,
    Tensors,
    Term,
    dtype_of,
    either,
    rank,
    shape_of,
)
from lpu_mlir.frontend.calls import Comparison
from lpu_mlir.frontend.errors import NotNative

aten = torch.ops.aten
Handler: TypeAlias = Callable[..., Tensors]

FEW_ROWS = 25
"""With more rows eager computes Euclidean distances from a product of matrices."""


# --- pairs --------------------------------------------------------------------------------------


def _order(b: GraphBuilder, order: Number, *tensors: SSAValue) -> float:
    """The order of the norm, if eager computes it of these."""
    if not isinstance(order, int | float) or order < 0:
        raise NotNative("a norm whose order is negative or known only when it runs")
    if any(dtype_of(t) != b.dtype for t in tensors):
        raise NotNative("eager refuses operands of different dtypes")
    if b.dtype not in (torch.float32, torch.float64):
        raise NotNative("eager refuses half precision, unless there is nothing to compute")
    return order


def _beside(b: GraphBuilder, x: SSAValue, place: int) -> Term:
    """`x` with a dim of 1 before the `place`-th dim from the end."""
    shape = list(shape_of(x))
    shape.insert(len(shape) - place, Expr.const(1))
    return Term(b, b.reshape(x, shape))


def _differences(b: GraphBuilder, x: SSAValue, y: SSAValue) -> Term:
    """[..., R, S, M] of rows [..., R, M] and [..., S, M]."""
    return _beside(b, x, 1) - _beside(b, y, 2)


def _total(b: GraphBuilder, kind: str, x: Term) -> Term:
    return Term(b, b.reduce(kind, x.value, [rank(x.value) - 1]))


def _norm(b: GraphBuilder, size: Term, order: float, *, nan_counts: bool) -> Term:
    """The norm over the last dim of sizes that are not negative."""
    if order == 0:
        return _total(b, "add", size.apply("ceil").apply("minimum", 1))
    if order == 1:
        return _total(b, "add", size)
    if order == 2:
        return _total(b, "add", size * size).apply("sqrt")
    if order == math.inf:
        known = size if nan_counts else either(size.apply("ne", size), 0.0, size)
        return _total(b, "max", known).apply("maximum", 0)
    return _total(b, "add", size.apply("pow", order)).apply("pow", 1 / order)


def _sign(x: Term) -> Term:
    """NaN of NaN."""
    return either(x.apply("ne", x), x, x.apply("sign"))


def _gradient(difference: Term, gradient: Term, distance: Term, order: float) -> Term:
    """What each element of a difference has of the gradient of its norm."""
    if order == 1:
        return gradient * _sign(difference)
    if order == math.inf:
        away = (difference.apply("abs") - distance).apply("abs").apply("ceil")
        largest = away.apply("minimum", 1).apply("neg") + 1
        return gradient * _sign(difference) * largest
    if order == 2:
        result = gradient * difference / distance
    elif order < 2:
        size = difference.apply("abs").apply("pow", order - 1)
        result = _sign(difference) * size * gradient / distance.apply("pow", order - 1)
    else:
        size = difference.apply("abs").apply("pow", order - 2)
        result = difference * size * gradient / distance.apply("pow", order - 1)
    nothing = distance.apply("eq", 0)
    if order < 1:
        nothing = nothing.apply("or", difference.apply("eq", 0))
    return either(nothing, 0.0, result)


# --- of two sets of rows ------------------------------------------------------------------------


def cdist(
    b: GraphBuilder, x: SSAValue, y: SSAValue, order: Number, mode: int | None = None
) -> SSAValue:
    """[..., R, S] of [..., R, M] and [..., S, M]; a NaN does not count as the largest."""
    order = _order(b, order, x, y)
    if shape_of(x)[-1] == 0:
        return b.full(0, b.dtype, b.shape)
    sizes = _differences(b, x, y).apply("abs")
    product = _by_product(b, x, y, mode or 0) if order == 2 else False
    if product is True:
        return _euclidean(b, x, y)
    direct = _norm(b, sizes, order, nan_counts=False).value
    return direct if product is False else b.select(product, _euclidean(b, x, y), direct)


def _by_product(b: GraphBuilder, x: SSAValue, y: SSAValue, mode: int) -> bool | SSAValue:
    """Whether eager multiplies matrices; as a tensor where only a run tells."""
    if mode == 2:
        return False
    rows = [shape_of(x)[-2], shape_of(y)[-2]]
    if mode == 1 or any(nonnegative(e - FEW_ROWS - 1, b.ranges) for e in rows):
        return True
    if all(nonnegative(FEW_ROWS - e, b.ranges) for e in rows):
        return False
    many = [b.condition(Comparison("gt", e, Expr.const(FEW_ROWS))) for e in rows]
    return b.pointwise("or", *many)


def _euclidean(b: GraphBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """The root of x² - 2xy + y², as one product of rows with two more columns."""
    batch = broadcast_extents(shape_of(x)[:-2], shape_of(y)[:-2])
    sides: list[SSAValue] = []
    for rows in (x, y):
        wide = Term(b, b.broadcast(rows, [*batch, *shape_of(rows)[-2:]]))
        column = [*shape_of(wide.value)[:-1], Expr.const(1)]
        squares = b.reshape(_total(b, "add", wide * wide).value, column)
        one = b.full(1, b.dtype, column)
        parts = [(wide * -2).value, squares, one] if rows is x else [wide.value, one, squares]
        sides.append(b.concat(parts, len(batch) + 1))
    n = len(batch)
    turned = b.transpose(sides[1], [*range(n), n + 1, n])
    square = Term(b, b.reshape(b.matmul(sides[0], turned), b.shape))
    return square.apply("maximum", 0).apply("sqrt").value


def cdist_backward(
    b: GraphBuilder,
    gradient: SSAValue,
    x: SSAValue,
    y: SSAValue,
    order: Number,
    distance: SSAValue,
) -> SSAValue:
    """The gradient of `x`, not yet summed over the dims along which it is repeated."""
    order = _order(b, order, gradient, x, y, distance)
    if order == 0:
        return b.full(0, b.dtype, b.shape)
    of_pair, apart = (_beside(b, value, 0) for value in (gradient, distance))
    parts = _gradient(_differences(b, x, y), of_pair, apart, order).value
    return b.broadcast(b.reduce("add", parts, [rank(parts) - 2]), b.shape)


# --- of the rows of one -------------------------------------------------------------------------


def _place(b: GraphBuilder, rows: Expr) -> tuple[Term, Term]:
    """[R, R]: which of the R(R - 1)/2 distances is that of two rows, and whether it is another
    row; the place of a row beside itself is one past the last."""
    i, j = (Term(b, b.iota(axis, [rows, rows])) for axis in (0, 1))
    low, high = i.apply("minimum", j), i.apply("maximum", j)
    before = (low * (rows * 2 - 1) - low * low).apply("floordiv", 2)
    other = i.apply("ne", j)
    place = before + high - low - 1
    return either(other, place, Term(b, b.number(_pairs(rows), torch.int64))), other


def _pairs(rows: Expr) -> Expr:
    return (rows * (rows - 1)).floordiv(2)


def pdist(b: GraphBuilder, x: SSAValue, order: Number = 2) -> SSAValue:
    """[R(R - 1)/2] of [R, M]: of the first row and each later one, of the second, and so on."""
    order = _order(b, order, x)
    rows, width = shape_of(x)
    if width == 0:
        return b.full(0, b.dtype, b.shape)
    sizes = _differences(b, x, x).apply("abs")
    square = _norm(b, sizes, order, nan_counts=True).value
    place, _ = _place(b, rows)
    i, j = (Term(b, b.iota(axis, [rows, rows])) for axis in (0, 1))
    at = either(i.apply("lt", j), place, Term(b, b.number(_pairs(rows), torch.int64)))
    results = b.full(0, b.dtype, [_pairs(rows) + 1])
    results = b.scatter("replace", results, square, [at.value], [0], 0)
    return b.slice(results, [0], b.shape)


def pdist_backward(
    b: GraphBuilder, gradient: SSAValue, x: SSAValue, order: Number, distance: SSAValue
) -> SSAValue:
    order = _order(b, order, gradient, x, distance)
    if order == 0:
        return b.full(0, b.dtype, b.shape)
    rows = shape_of(x)[0]
    place, other = _place(b, rows)
    padded = [b.pad(value, [0], [_pairs(rows) + 1], 0) for value in (gradient, distance)]
    found = [b.gather(value, [place.value], [0], 0) for value in padded]
    of_pair, apart = (_beside(b, value, 0) for value in found)
    parts = _gradient(_differences(b, x, x), of_pair, apart, order)
    nothing = Term(b, b.full(0, b.dtype))
    parts = either(_beside(b, other.value, 0), parts, nothing).value
    return b.reduce("add", parts, [1])


HANDLERS: Mapping[Any, Handler] = {
    aten._cdist_forward.default: cdist,
    aten._cdist_backward.default: cdist_backward,
    aten._pdist_forward.default: pdist,
    aten._pdist_backward.default: pdist_backward,
}
