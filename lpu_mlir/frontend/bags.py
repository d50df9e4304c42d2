"""ATen's bags of embeddings: rows of a table, reduced over runs of their indices.

Rows that count for nothing (the padding) go to one more bag, or row, than there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from xdsl.ir import SSAValue

from lpu_mlir.dialects.expr import Expr, nonnegative
from lpu_mlir.frontend.builder import GraphBuilder, Tensors, Term, dtype_of, shape_of
from lpu_mlir.frontend.dtypes import opmath
from lpu_mlir.frontend.errors import NotNative

aten = torch.ops.aten
Handler: TypeAlias = Callable[..., Tensors]

SUM, MEAN, MAX = range(3)
EMPTY = (Expr.const(0),)


def _bag_of(
    b: GraphBuilder, offsets: SSAValue, count: Expr, bags: Expr, *, whole: bool = False
) -> Term:
    """i64 [count]: the bag of each index, of those that begin at the first offsets.

    Offsets that are out of range are a RuntimeError.  So are those that descend, and if `whole` a
    last one that is not the end: about these eager's kernels disagree.
    """
    starts = Term(b, b.convert(offsets, torch.int64))
    size = shape_of(offsets)[0]
    before, after = (Term(b, b.slice(starts.value, [at], [size - 1])) for at in (0, 1))
    ordered = Term(b, b.reduce("and", after.apply("ge", before).value, [0]))
    first, last = (Term(b, b.slice_dim(starts.value, 0, at, 1)) for at in (0, size - 1))
    fits = first.apply("eq", 0).apply("and", last.apply("eq" if whole else "le", count))
    right = ordered.apply("and", Term(b, b.reshape(fits.value, [])))
    checked = starts + Term(b, b.zero_if(right.value, "RuntimeError"))
    begins = b.slice(checked.value, [0], [bags])
    marks = b.scatter(
        "add", b.full(0, torch.int64, [count + 1]), b.full(1, torch.int64, [bags]), [begins], [0], 0
    )
    return Term(b, b.slice(b.scan("add", marks, 0), [0], [count])) - 1


def _unless_padding(b: GraphBuilder, place: Term, indices: Term, padding: int, spare: Expr) -> Term:
    """The places of what counts, and the spare one for the rest."""
    if padding < 0:
        return place
    other = b.broadcast(b.number(spare, torch.int64), shape_of(place.value))
    return Term(b, b.select(indices.apply("eq", padding).value, other, place.value))


def _summed(b: GraphBuilder, rows: SSAValue, places: Term, count: Expr) -> SSAValue:
    """Rows added at their places along the first dim, of which the last is not kept."""
    shape = shape_of(rows)[1:]
    total = b.full(0, dtype_of(rows), [count + 1, *shape])
    total = b.scatter("add", total, rows, [places.value], [0], 0, error="RuntimeError")
    return b.slice_dim(total, 0, 0, count)


@dataclass(frozen=True)
class Bags:
    """Rows [count, features] of a table and the bag of each."""

    b: GraphBuilder
    rows: SSAValue
    indices: Term
    places: Term
    bags: Expr

    def sizes(self) -> Term:
        ones = self.b.full(1, torch.int64, shape_of(self.indices.value))
        return Term(self.b, _summed(self.b, ones, self.places, self.bags))

    def sums(self) -> SSAValue:
        return _summed(self.b, self.rows, self.places, self.bags)

    def means(self, sizes: Term, dtype: torch.dtype) -> SSAValue:
        """Rounded before the division and after it, as in eager."""
        wide = dtype_of(self.rows)
        total = Term(self.b, self.b.convert(self.b.convert(self.sums(), dtype), wide))
        divisor = self.b.reshape(sizes.apply("maximum", 1).to(wide).value, [self.bags, 1])
        return (total / Term(self.b, divisor)).value

    def extreme(self, kind: str, fill: float, values: Term) -> SSAValue:
        """The greatest or least values of each bag."""
        b, shape = self.b, shape_of(values.value)[1:]
        start = b.full(fill, dtype_of(values.value), [self.bags + 1, *shape])
        return b.scatter(kind, start, values.value, [self.places.value], [0], 0)

    def greatest(self, sizes: Term) -> tuple[SSAValue, SSAValue]:
        """(values, indices) of the first of equal ones; NaN counts where its bag begins."""
        b, count = self.b, shape_of(self.rows)[0]
        rows = Term(b, self.rows)
        low = b.full(-math.inf, dtype_of(self.rows))
        finite = Term(b, b.select(rows.apply("eq", rows).value, self.rows, low))
        greatest = self.extreme("max", -math.inf, finite)
        here = Term(b, b.gather(greatest, [self.places.value], [0], 0))
        beyond = b.number(count - 1, torch.int64)
        position = b.iota(0, shape_of(self.rows))
        matching = b.select(finite.apply("eq", here).value, position, beyond)
        where = self.extreme("min", torch.iinfo(torch.int64).max, Term(b, matching))
        first = self.extreme("min", torch.iinfo(torch.int64).max, Term(b, b.iota(0, [count])))
        kept = [b.slice_dim(t, 0, 0, self.bags) for t in (greatest, where, first)]
        begin = Term(b, kept[2]).apply("minimum", Term(b, beyond))
        value = Term(b, b.gather(self.rows, [begin.value], [0], 0))
        nan = value.apply("ne", value).value
        chosen = b.select(nan, b.reshape(begin.value, [self.bags, 1]), kept[1])
        chosen = b.pointwise("minimum", chosen, beyond)
        found = b.gather(self.indices.value, [chosen], [0], 0)
        some = b.reshape(sizes.apply("gt", 0).value, [self.bags, 1])
        values = b.select(some, b.select(nan, value.value, kept[0]), b.full(0, dtype_of(low)))
        return values, b.select(some, found, b.full(0, torch.int64))


def embedding_bag(
    b: GraphBuilder,
    weight: SSAValue,
    indices: SSAValue,
    offsets: SSAValue,
    scale_grad_by_freq: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    per_sample_weights: SSAValue | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Tensors:
    """(reduced, bag of each index, size of each bag, index of what is greatest): what a mode needs
    for its gradient, and zeros; no bags of indices where eager's quick sum does without."""
    bags, count = b.shape[0], shape_of(indices)[0]
    if not nonnegative(bags - 1, b.ranges):
        raise NotNative("there may be no bag")
    if mode == MAX and not nonnegative(count - 1, b.ranges):
        raise NotNative("there may be no index")
    quick = b.result_shapes[1] == EMPTY and count != 0
    unclear = mode == MEAN or (mode == SUM and b.dtype == torch.bfloat16)
    whole = include_last_offset and unclear and padding_idx < 0
    numbers = Term(b, b.convert(indices, torch.int64))
    bag_of = _bag_of(b, offsets, count, bags, whole=whole)
    places = _unless_padding(b, bag_of, numbers, padding_idx, bags)
    if include_last_offset and quick:
        end = b.slice(b.convert(offsets, torch.int64), [bags], [1])
        after = b.pointwise("ge", b.iota(0, [count]), end)
        places = Term(b, b.select(after, b.number(bags, torch.int64), places.value))
    rows = b.gather(weight, [numbers.value], [0], 0, error="RuntimeError")
    if mode != MAX:
        rows = b.convert(rows, opmath(b.dtype))
    if per_sample_weights is not None:
        factors = b.convert(b.reshape(per_sample_weights, [count, 1]), dtype_of(rows))
        rows = b.pointwise("mul", rows, factors)
    found = Bags(b, rows, numbers, places, bags)
    first = b.full(0, torch.int64, EMPTY) if quick else bag_of.value
    if mode == SUM:
        rest = [b.full(0, torch.int64, shape) for shape in b.result_shapes[2:]]
        return _typed(b, found.sums(), first, *rest)
    sizes = found.sizes()
    if mode == MEAN:
        return _typed(b, found.means(sizes, b.dtype), first, sizes.value, sizes.value)
    values, chosen = found.greatest(sizes)
    return _typed(b, values, first, sizes.value, chosen)


def _typed(b: GraphBuilder, *results: SSAValue) -> Tensors:
    """The results in their dtypes; sizes that PyTorch expects of another extent are not used."""
    typed: list[SSAValue] = []
    for value, dtype, shape in zip(results, b.result_dtypes, b.result_shapes, strict=True):
        same = len(shape_of(value)) == len(shape) and shape_of(value)[:1] == shape[:1]
        typed.append(b.convert(value if same else b.full(0, torch.int64, shape), dtype))
    return tuple(typed)


# --- gradients ------------------------------------------------------------------------------------


def dense_backward(
    b: GraphBuilder,
    grad: SSAValue,
    indices: SSAValue,
    offset2bag: SSAValue,
    bag_size: SSAValue,
    maximum_indices: SSAValue,
    num_weights: Any,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: SSAValue | None,
    padding_idx: int = -1,
) -> SSAValue:
    """Of the table: what its rows have been added to, in f32 for half precision."""
    if scale_grad_by_freq:
        raise NotNative("gradients by how often an index occurs")
    rows, wide = b.shape[0], opmath(b.dtype)
    sizes = Term(b, b.convert(bag_size, torch.int64))
    if mode == MAX:
        some = b.reshape(sizes.apply("gt", 0).value, [shape_of(grad)[0], 1])
        chosen = b.convert(maximum_indices, torch.int64)
        places = b.select(some, chosen, b.number(rows, torch.int64))
        total = b.full(0, wide, [rows + 1, b.shape[1]])
        columns = b.iota(1, shape_of(places))
        total = b.scatter("add", total, b.convert(grad, wide), [places, columns], [0, 1], 0)
        return b.convert(b.slice_dim(total, 0, 0, rows), b.dtype)
    bag = b.convert(offset2bag, torch.int64)
    given = Term(b, b.convert(b.gather(grad, [bag], [0], 0, error="RuntimeError"), wide))
    factors: list[SSAValue] = []
    if per_sample_weights is not None:
        factors.append(b.convert(per_sample_weights, wide))
    if mode == MEAN:
        factors.append(b.gather(sizes.to(wide).apply("reciprocal").value, [bag], [0], 0))
    for factor in factors:
        given = given * Term(b, b.reshape(factor, [shape_of(indices)[0], 1]))
    numbers = Term(b, b.convert(indices, torch.int64))
    places = _unless_padding(b, numbers, numbers, padding_idx, rows)
    return b.convert(_summed(b, given.value, places, rows), b.dtype)


def backward(
    b: GraphBuilder,
    grad: SSAValue,
    indices: SSAValue,
    offsets: SSAValue,
    offset2bag: SSAValue,
    bag_size: SSAValue,
    maximum_indices: SSAValue,
    num_weights: Any,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: SSAValue | None,
    padding_idx: int = -1,
) -> SSAValue:
    if sparse:
        raise NotNative("a sparse gradient")
    count = shape_of(indices)[0]
    if shape_of(offset2bag) != (count,):
        offset2bag = _bag_of(b, offsets, count, shape_of(offsets)[0]).value
    return dense_backward(
        b,
        *(grad, indices, offset2bag, bag_size, maximum_indices, num_weights),
        *(scale_grad_by_freq, mode, per_sample_weights, padding_idx),
    )


def per_sample_weights_backward(
    b: GraphBuilder,
    grad: SSAValue,
    weight: SSAValue,
    indices: SSAValue,
    offsets: SSAValue,
    offset2bag: SSAValue,
    mode: int,
    padding_idx: int = -1,
) -> SSAValue:
    """Of each row's factor: its product with what the row has been added to."""
    count, wide = shape_of(indices)[0], opmath(b.dtype)
    bag = b.convert(offset2bag, torch.int64)
    if shape_of(offset2bag) != (count,):
        bag = _bag_of(b, offsets, count, shape_of(offsets)[0]).value
    numbers = Term(b, b.convert(indices, torch.int64))
    pair = [
        b.convert(b.gather(table, [at], [0], 0, error="RuntimeError"), wide)
        for table, at in ((grad, bag), (weight, numbers.value))
    ]
    total = Term(b, b.reduce("add", b.pointwise("mul", *pair), [1]))
    if padding_idx >= 0:
        padded = numbers.apply("eq", padding_idx).value
        total = Term(b, b.select(padded, b.full(0, wide), total.value))
    return total.to(b.dtype).value


HANDLERS: Mapping[Any, Handler] = {
    aten._embedding_bag.default: embedding_bag,
    aten._embedding_bag_forward_only.default: embedding_bag,
    aten._embedding_bag_backward.default: backward,
    aten._embedding_bag_dense_backward.default: dense_backward,
    aten._embedding_bag_per_sample_weights_backward.default: per_sample_weights_backward,
}
