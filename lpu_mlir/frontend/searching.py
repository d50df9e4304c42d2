"""ATen operators that look for a place in what is in order: searches by halves, and what is in the
middle or ahead of all so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias

import torch
from xdsl.ir import SSAValue

from lpu_mlir.dialects.expr import Expr, nonnegative
from lpu_mlir.frontend.builder import (
    GraphBuilder,
    Operand,
    Tensors,
    Term,
    dtype_of,
    promoted,
    rank,
    shape_of,
)
from lpu_mlir.frontend.dtypes import opmath
from lpu_mlir.frontend.errors import NotNative
from lpu_mlir.frontend.indexing import grid
from lpu_mlir.frontend.order import MOST_PAIRS, beside, known, sort

aten = torch.ops.aten
Handler: TypeAlias = Callable[..., Tensors]


MOST_BITS = 32
"""Of the length of a row that is not known."""


# --- a place in a row -----------------------------------------------------------------------------


def searchsorted(
    b: GraphBuilder,
    row: SSAValue,
    values: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: SSAValue | None = None,
) -> SSAValue:
    """Where values belong in rows along the last dim: in the steps of eager, so that NaN and rows
    that are in no order lead to the same place."""
    if not rank(row):
        raise NotNative("eager refuses a search in a number")
    if sorter is not None:
        row = b.gather(
            row, grid(b, sorter, rank(row) - 1), range(rank(row)), 0, error="RuntimeError"
        )
    dtype = promoted(row, values)
    if dtype == torch.bool or dtype.is_complex:
        raise NotNative("eager has no search of that dtype")
    row, value = b.convert(row, dtype), b.operand(values, dtype)
    length, shape = shape_of(row)[-1], shape_of(value)
    low = Term(b, b.full(0, torch.int64, shape))
    high = Term(b, b.broadcast(b.number(length, torch.int64), shape))
    for _ in range(_most_steps(b, length)):
        middle = (low + high).apply("shr", 1)
        # Where the search has come to its end, any element will do.
        found = _elements(b, row, middle.apply("minimum", length - 1).value)
        reached = Term(b, b.pointwise("gt" if right or side == "right" else "ge", found, value))
        onward = reached.apply("not").apply("and", low.apply("lt", high))
        high = Term(b, b.select(onward.value, high.value, middle.value))
        low = Term(b, b.select(onward.value, (middle + 1).value, low.value))
    return b.convert(low.value, b.dtype)


def _most_steps(b: GraphBuilder, length: Expr) -> int:
    """To find a place among so many elements, of which there is one at least."""
    number = length.constant()
    if number is not None:
        return number.bit_length()
    if not nonnegative(length - 1, b.ranges):
        raise NotNative("a search in what may be empty")
    return MOST_BITS


def _elements(b: GraphBuilder, row: SSAValue, at: SSAValue) -> SSAValue:
    """The elements at positions of the only row, or each of the row of the same leading dims."""
    if rank(row) == 1:
        return b.gather(row, [at], [0], 0)
    return b.gather(row, grid(b, at, rank(row) - 1), range(rank(row)), 0)


def bucketize(
    b: GraphBuilder,
    values: Operand,
    boundaries: SSAValue,
    *,
    out_int32: bool = False,
    right: bool = False,
) -> SSAValue:
    return searchsorted(b, boundaries, values, right=right)


# --- the middle -----------------------------------------------------------------------------------


def median(ignores_nan: bool) -> Handler:
    """median.dim and nanmedian.dim: (values, positions), of the lower of two in the middle."""

    def handler(b: GraphBuilder, x: SSAValue, dim: int = -1, keepdim: bool = False) -> Tensors:
        shape = shape_of(x)
        if dtype_of(x) == torch.bool:
            raise NotNative("eager has no median of booleans")
        if not shape:
            return x, b.full(0, torch.int64)
        axis = dim % len(shape)
        if known(shape[axis]) == 0:
            raise NotNative("eager refuses it if there is no element")
        ordered = sort(b, x, axis)
        assert isinstance(ordered, tuple)
        place = _middle(b, x, axis, ignores_nan)
        kept = b.keep(place, shape, [axis])
        axes = list(range(len(shape)))
        value, at = (b.gather(t, grid(b, kept, axis), axes, 0) for t in ordered if t is not None)
        if ignores_nan:
            choice = b.full(_choice_of_nan(known(shape[axis])), torch.int64)
            at = b.select(b.pointwise("eq", value, value), at, choice)
        result = shape_of(kept if keepdim else place)
        return b.reshape(value, result), b.reshape(at, result)

    return handler


@cache
def _choice_of_nan(length: int) -> int:
    """Of nothing but NaN eager takes one or another, as its way through so many leads."""
    return int(torch.full((length,), math.nan).nanmedian(0)[1])


def _middle(b: GraphBuilder, x: SSAValue, axis: int, ignores_nan: bool) -> SSAValue:
    """i64 places in a sorted row: where NaN counts, of the first one if there is any."""
    length = known(shape_of(x)[axis])
    wanted = [e for dim, e in enumerate(shape_of(x)) if dim != axis]
    if not dtype_of(x).is_floating_point:
        return b.full((length - 1) // 2, torch.int64, wanted)
    numbers = Term(b, b.pointwise("eq", x, x)).to(torch.int64)
    count = Term(b, b.reduce("add", numbers.value, [axis]))
    if ignores_nan:
        return (count - 1).apply("maximum", 0).apply("shr", 1).value
    whole = count.apply("eq", length).value
    return b.select(whole, b.full((length - 1) // 2, torch.int64), count.value)


def whole_median(ignores_nan: bool) -> Handler:
    """median and nanmedian of all elements; of none it is NaN."""

    def handler(b: GraphBuilder, x: SSAValue) -> SSAValue:
        elements = math.prod(known(e) for e in shape_of(x))
        if elements == 0:
            raise NotNative("the median of nothing")
        found = median(ignores_nan)(b, b.reshape(x, [elements]), 0)
        assert isinstance(found, tuple)
        assert found[0] is not None
        return found[0]

    return handler


# --- so far ---------------------------------------------------------------------------------------


def extreme_so_far(kind: str) -> Handler:
    """cummax and cummin: (values, positions) of the last of equal ones; from the first NaN on each
    NaN is the extreme."""

    def handler(b: GraphBuilder, x: SSAValue, dim: int) -> Tensors:
        shape = shape_of(x)
        if not shape:
            return x, b.full(0, torch.int64)
        axis = dim % len(shape)
        ordered = b.convert(x, torch.uint8) if dtype_of(x) == torch.bool else x
        running = b.scan(kind, ordered, axis)
        new = b.pointwise("eq", ordered, running)
        if dtype_of(x).is_floating_point:
            new = b.pointwise("or", new, b.pointwise("ne", x, x))
        place = b.select(new, b.iota(axis, shape), b.full(0, torch.int64))
        position = b.scan("max", place, axis)
        axes = list(range(len(shape)))
        return b.gather(x, grid(b, position, axis), axes, 0), position

    return handler


def logcumsumexp(b: GraphBuilder, x: SSAValue, dim: int) -> SSAValue:
    """log(exp(x₀) + … + exp(xᵢ)), of each less the greatest so far."""
    shape = shape_of(x)
    if not dtype_of(x).is_floating_point:
        raise NotNative("eager has this for floats alone")
    if not shape:
        return x
    axis = dim % len(shape)
    length = known(shape[axis])
    if length * length > MOST_PAIRS:
        raise NotNative(f"a sum of exponentials up to each of {length} elements")
    wide = Term(b, b.convert(x, opmath(dtype_of(x))))
    greatest = Term(b, b.scan("max", wide.value, axis))
    finite = greatest.apply("abs").apply("lt", math.inf)
    zero = b.full(0, dtype_of(wide.value))
    greatest = Term(b, b.select(finite.value, greatest.value, zero))
    here, there = (beside(b, Term(b, b.iota(axis, shape)), axis, place) for place in (1, 0))
    powers = (beside(b, wide, axis, 0) - beside(b, greatest, axis, 1)).apply("exp")
    so_far = b.select(there.apply("le", here).value, powers.value, zero)
    total = Term(b, b.reduce("add", so_far, [axis + 1]))
    return (total.apply("log") + greatest).to(b.dtype).value


HANDLERS: Mapping[Any, Handler] = {
    aten.searchsorted.Tensor: searchsorted,
    aten.searchsorted.Scalar: searchsorted,
    aten.bucketize.Tensor: bucketize,
    aten.bucketize.Scalar: bucketize,
    aten.median.default: whole_median(ignores_nan=False),
    aten.median.dim: median(ignores_nan=False),
    aten.nanmedian.default: whole_median(ignores_nan=True),
    aten.nanmedian.dim: median(ignores_nan=True),
    aten.cummax.default: extreme_so_far("max"),
    aten.cummin.default: extreme_so_far("min"),
    aten.logcumsumexp.default: logcumsumexp,
}
