"""ATen operators that take what a mask selects from, or put it into, a row of elements.

The number of a selected element, in row-major order, is its position in the row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from xdsl.ir import SSAValue

from lpu_mlir.dialects.expr import Expr, product
from lpu_mlir.dialects.lpu import Extent
from lpu_mlir.dialects.lpu_graph import broadcast_extents
from lpu_mlir.frontend.builder import GraphBuilder, Tensors, Term, dtype_of, rank, shape_of
from lpu_mlir.frontend.errors import NotNative

aten = torch.ops.aten
Handler: TypeAlias = Callable[..., Tensors]


def numbered(b: GraphBuilder, mask: SSAValue) -> SSAValue:
    """i64 of the mask's shape: 1, 2, 3, … where it is true, and 0 elsewhere."""
    shape = shape_of(mask)
    flat = b.reshape(mask, [product(shape)])
    number = b.scan("add", b.convert(flat, torch.int64), 0)
    return b.reshape(b.select(flat, number, b.full(0, torch.int64)), shape)


def _after_nothing(b: GraphBuilder, row: SSAValue, dim: int = 0) -> SSAValue:
    """The row with a zero before it, for what is not selected."""
    shape: list[Extent] = list(shape_of(row))
    low: list[Extent] = [int(axis == dim) for axis in range(len(shape))]
    shape[dim] = shape[dim] + 1
    return b.pad(row, low, shape, 0)


def _require_bool(mask: SSAValue) -> None:
    if dtype_of(mask) != torch.bool:
        raise NotNative("eager takes no other masks than booleans")


def masked_scatter(b: GraphBuilder, x: SSAValue, mask: SSAValue, source: SSAValue) -> SSAValue:
    """x with the first elements of a source where the mask is true; RuntimeError if it has less."""
    _require_bool(mask)
    mask = b.broadcast(mask, b.shape)
    row = _after_nothing(b, b.reshape(source, [product(shape_of(source))]))
    found = b.gather(row, [numbered(b, mask)], [0], 0, error="RuntimeError")
    return b.select(mask, found, b.broadcast(x, b.shape))


def masked_scatter_backward(
    b: GraphBuilder, grad: SSAValue, mask: SSAValue, sizes: Any
) -> SSAValue:
    """What was put where the mask is true, and then zeros; RuntimeError if that is more."""
    _require_bool(mask)
    shape = broadcast_extents(shape_of(grad), shape_of(mask))
    flat = b.reshape(b.broadcast(grad, shape), [product(shape)])
    places = b.reshape(numbered(b, b.broadcast(mask, shape)), [product(shape)])
    count = product(b.shape)
    row = b.full(0, b.dtype, [count + 1])
    row = b.scatter("replace", row, flat, [places], [0], 0, error="RuntimeError")
    return b.reshape(b.slice(row, [1], [count]), b.shape)


# --- x[…, mask, …] = values -----------------------------------------------------------------------


def masked_put(
    b: GraphBuilder,
    x: SSAValue,
    mask: SSAValue,
    first: int,
    values: SSAValue,
    accumulate: bool,
) -> SSAValue:
    """x with values, or plus values, where a mask over the dims from `first` on is true."""
    mask = b.convert(mask, torch.bool)
    covered = rank(mask)
    trailing = rank(x) - first - covered
    spread = _spread(b, b.convert(values, b.dtype), mask, first, trailing)
    if accumulate:
        spread = b.pointwise("or" if b.dtype == torch.bool else "add", x, spread)
    condition = b.reshape(mask, [*shape_of(mask), *[Expr.const(1)] * trailing])
    return b.select(condition, b.broadcast(spread, shape_of(x)), x)


def _spread(
    b: GraphBuilder, values: SSAValue, mask: SSAValue, first: int, trailing: int
) -> SSAValue:
    """Values that broadcast against […, selected, …], with the mask's dims in place of that one."""
    ones = [Expr.const(1)] * (first + 1 + trailing - rank(values))
    shape = [*ones, *shape_of(values)]
    if shape[first] == 1:
        between = [Expr.const(1)] * rank(mask)
        return b.reshape(values, [*shape[:first], *between, *shape[first + 1 :]])
    row = _after_nothing(b, b.reshape(values, shape), first)
    count = Term(b, b.number(shape[first], torch.int64))
    number = Term(b, numbered(b, mask)).apply("minimum", count)  # one value is for all
    number = number + _require_as_many(b, mask, count)
    return b.gather(row, [number.value], [first], first)


def _require_as_many(b: GraphBuilder, mask: SSAValue, count: Term) -> Term:
    """0; a RuntimeError if the mask selects another number of elements, unless `count` is 1."""
    dims = range(rank(mask))
    selected = Term(b, b.reduce("add", b.convert(mask, torch.int64), dims))
    right = selected.apply("eq", count).apply("or", count.apply("eq", 1))
    return Term(b, b.zero_if(right.value, "RuntimeError"))


HANDLERS: Mapping[Any, Handler] = {
    aten.masked_scatter.default: masked_scatter,
    aten.masked_scatter_backward.default: masked_scatter_backward,
}
