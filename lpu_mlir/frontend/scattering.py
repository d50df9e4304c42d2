"""ATen operators that combine what goes to one position: sums, products, means and extremes.

Elements follow one another, as in eager.  Eager's scatters round half precision once, at the end;
its operators that take one position for a whole slice round each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from xdsl.ir import SSAValue

from lpu_mlir.dialects.expr import product
from lpu_mlir.frontend.builder import GraphBuilder, Operand, Tensors, dtype_of, rank, shape_of
from lpu_mlir.frontend.dtypes import opmath
from lpu_mlir.frontend.errors import NotNative
from lpu_mlir.frontend.indexing import at_positions, index_add, kind_for, scattered

aten = torch.ops.aten
Handler: TypeAlias = Callable[..., Tensors]

KINDS: Mapping[str, str] = {
    "add": "add",
    "sum": "add",
    "mean": "add",
    "multiply": "mul",
    "prod": "mul",
    "amax": "max",
    "amin": "min",
}
"""The `reduce` argument -> how `lpu_graph.scatter` combines."""


def neutral(kind: str, dtype: torch.dtype) -> float | int:
    """What does not change an element that it is combined with."""
    if kind in ("add", "mul"):
        return int(kind == "mul")
    if dtype == torch.bool:
        return kind == "min"
    if dtype.is_floating_point:
        return -math.inf if kind == "max" else math.inf
    return torch.iinfo(dtype).min if kind == "max" else torch.iinfo(dtype).max


def _divided(b: GraphBuilder, total: SSAValue, count: SSAValue) -> SSAValue:
    """Total by count, where there is one; integers are rounded down."""
    dtype = dtype_of(total)
    one = b.full(1, dtype)
    count = b.select(b.pointwise("eq", count, b.full(0, dtype)), one, count)
    wide = [b.convert(value, opmath(dtype)) for value in (total, count)]
    kind = "div" if dtype.is_floating_point else "floordiv"
    return b.convert(b.pointwise(kind, *wide), dtype)


def _none_yet(b: GraphBuilder, x: SSAValue, include_self: bool) -> SSAValue:
    """How many elements there are at each position of x: one, if x itself counts."""
    return b.full(int(include_self), dtype_of(x), shape_of(x))


def scatter_reduce(
    b: GraphBuilder,
    x: SSAValue,
    dim: int,
    index: SSAValue,
    source: Operand,
    reduce: str,
    *,
    include_self: bool = True,
) -> SSAValue:
    """scatter_reduce.two, scatter.reduce and scatter.value_reduce."""
    kind, means = KINDS[reduce], reduce == "mean"
    if means and b.dtype == torch.bool:
        raise NotNative("eager has no mean of booleans")
    start = x
    if not include_self:
        start = scattered(b, "replace", x, dim, index, neutral(kind, b.dtype))
    result = scattered(b, kind, start, dim, index, source)
    if not means:
        return result
    count = scattered(b, "add", _none_yet(b, x, include_self), dim, index, 1)
    return _divided(b, result, count)


def index_reduce(
    b: GraphBuilder,
    x: SSAValue,
    dim: int,
    index: SSAValue,
    source: SSAValue,
    reduce: str,
    *,
    include_self: bool = True,
) -> SSAValue:
    kind, means = KINDS[reduce], reduce == "mean"
    if b.dtype == torch.bool and (means or not include_self or rank(x) < 2):
        raise NotNative("eager has this for no booleans")
    if not rank(x):
        raise NotNative("what eager takes of a 0-d tensor depends on the number of positions")
    start = x
    if not include_self:
        filled = b.full(neutral(kind, b.dtype), b.dtype, shape_of(source))
        start = at_positions(b, "replace", x, dim, index, filled)
    result = at_positions(b, kind, start, dim, index, source)
    if not means:
        return result
    ones = b.full(1, b.dtype, shape_of(source))
    return _divided(b, result, index_add(b, _none_yet(b, x, include_self), dim, index, ones))


def put(
    b: GraphBuilder, x: SSAValue, index: SSAValue, source: SSAValue, accumulate: bool = False
) -> SSAValue:
    """The elements of x are counted in row-major order, from the end if negative."""
    if dtype_of(index) != torch.int64:
        raise NotNative("eager takes no other positions than int64")
    elements, count = product(shape_of(x)), product(shape_of(index))
    flat, updates = b.reshape(x, [elements]), b.reshape(source, [count])
    positions = b.from_end(b.reshape(index, [count]), elements)
    kind = kind_for("add", b.dtype) if accumulate else "replace"
    return b.reshape(b.scatter(kind, flat, updates, [positions], [0], 0), b.shape)


HANDLERS: Mapping[Any, Handler] = {
    aten.scatter_reduce.two: scatter_reduce,
    aten.scatter.reduce: scatter_reduce,
    aten.scatter.value_reduce: scatter_reduce,
    aten.index_reduce.default: index_reduce,
    aten.put.default: put,
}
