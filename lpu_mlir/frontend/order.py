"""ATen operators that rank and count elements.  Each compares all pairs, which the LPU does side by
side; beyond a size that no longer pays, and the host does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from xdsl.ir import SSAValue

from lpu_mlir.dialects.expr import Expr, product
from lpu_mlir.frontend.builder import GraphBuilder, Number, Tensors, Term, dtype_of, shape_of
from lpu_mlir.frontend.errors import NotNative

aten = torch.ops.aten
Handler: TypeAlias = Callable[..., Tensors]

MOST_PAIRS = 1 << 22
"""Comparisons for one row of a sort, or for one histogram."""


def sort(b: GraphBuilder, x: SSAValue, dim: int = -1, descending: bool = False) -> Tensors:
    """(values, positions), stable as eager is on the CPU; NaN counts as the largest value.

    An element's place is the number of those that go before it.
    """
    shape = shape_of(x)
    if not shape:
        return x, b.full(0, torch.int64)
    axis = dim % len(shape)
    length = known(shape[axis])
    if length * length > MOST_PAIRS:
        raise NotNative(f"a sort of {length} elements")
    ordered = Term(b, b.convert(x, torch.uint8) if dtype_of(x) == torch.bool else x)
    mine, other = (beside(b, ordered, axis, place) for place in (1, 0))
    here, there = (beside(b, Term(b, b.iota(axis, shape)), axis, place) for place in (1, 0))
    before = other.apply("gt" if descending else "lt", mine)
    equal = other.apply("eq", mine)
    if dtype_of(x).is_floating_point:
        mine_nan, other_nan = (t.apply("ne", t) for t in (mine, other))
        last, first = (other_nan, mine_nan) if descending else (mine_nan, other_nan)
        before = before.apply("or", last.apply("and", first.apply("not")))
        equal = equal.apply("or", mine_nan.apply("and", other_nan))
    before = before.apply("or", equal.apply("and", there.apply("lt", here)))
    place = b.reduce("add", before.to(torch.int64).value, [axis + 1])
    grid = [place if i == axis else b.iota(i, shape) for i in range(len(shape))]
    axes = list(range(len(shape)))
    empty_values, empty_positions = (b.full(0, d, shape) for d in (dtype_of(x), torch.int64))
    values = b.scatter("replace", empty_values, x, grid, axes, 0)
    positions = b.scatter("replace", empty_positions, b.iota(axis, shape), grid, axes, 0)
    return values, positions


def known(extent: Expr) -> int:
    length = extent.constant()
    if length is None:
        raise NotNative("a number of elements that is not known")
    return length


def beside(b: GraphBuilder, term: Term, axis: int, place: int) -> Term:
    """The tensor with a dim of 1 more, before or after `axis`: its pairs with one another."""
    shape = list(shape_of(term.value))
    shape.insert(axis + place, Expr.const(1))
    return Term(b, b.reshape(term.value, shape))


def stable_sort(
    b: GraphBuilder, x: SSAValue, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> Tensors:
    return sort(b, x, dim, descending)


def histc(
    b: GraphBuilder, x: SSAValue, bins: int = 100, lowest: Number = 0, highest: Number = 0
) -> SSAValue:
    """How many elements are in each of `bins` equal parts of [lowest, highest]."""
    if not isinstance(lowest, int | float) or not isinstance(highest, int | float):
        raise NotNative("a histogram whose range is known only when it runs")
    if not lowest < highest:
        raise NotNative("a histogram over the range of its data")
    elements = known(product(shape_of(x)))
    if elements * bins > MOST_PAIRS:
        raise NotNative(f"a histogram of {elements} elements")
    if dtype_of(x) not in (torch.float32, torch.float64):
        raise NotNative("a histogram in half precision")
    flat = Term(b, b.reshape(x, [1, elements]))
    inside = flat.apply("ge", lowest).apply("and", flat.apply("le", highest))
    part = ((flat - lowest) / (highest - lowest) * bins).apply("minimum", bins - 1)
    part = Term(b, b.select(inside.value, part.value, b.full(-1, dtype_of(x)))).to(torch.int64)
    numbers = Term(b, b.iota(0, [bins, 1]))
    chosen = numbers.apply("eq", part).apply("and", inside)
    return b.reduce("add", chosen.to(b.dtype).value, [1])


HANDLERS: Mapping[Any, Handler] = {
    aten.sort.default: sort,
    aten.sort.stable: stable_sort,
    aten.histc.default: histc,
}
