"""ATen's poolings and their gradients: reductions over windows.

A window of a fixed size is a view (`lpu_graph.windows`).  Adaptive windows whose sizes differ are
sets of positions, chosen by comparing; so is the part of a window that lies in the padding.  The
gradients look from each element at the windows that it is in: no element is met twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch
from xdsl.ir import SSAValue

from lpu_mlir.dialects.expr import Expr, contiguous_strides, product
from lpu_mlir.dialects.lpu import Extent
from lpu_mlir.frontend.builder import GraphBuilder, Number, Tensors, Term, dtype_of, rank, shape_of
from lpu_mlir.frontend.convolution import fixed, placed, spread
from lpu_mlir.frontend.dtypes import opmath

aten = torch.ops.aten
Handler: TypeAlias = Callable[..., Tensors]


def lowest(dtype: torch.dtype) -> float | int:
    return -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min


def _axis(b: GraphBuilder, n: int, axis: int, extent: Expr) -> Term:
    """Positions along one of n dims, as i64 that broadcast over the others."""
    return Term(b, b.iota(axis, [extent if i == axis else Expr.const(1) for i in range(n)]))


# --- windows of one size ------------------------------------------------------------------------


@dataclass(frozen=True)
class Windows:
    """Windows along the last dims: how many, their sizes, and how they lie on the input."""

    extents: Sequence[Expr]
    counts: Sequence[Expr]
    sizes: Sequence[int]
    strides: Sequence[int]
    padding: Sequence[int]
    dilations: Sequence[int]
    fit: bool
    """No window reaches beyond the padding."""

    @staticmethod
    def of(
        n: int,
        x: SSAValue,
        counts: Sequence[Expr],
        sizes: Sequence[Extent],
        strides: Sequence[Extent],
        padding: Sequence[Extent],
        dilations: Sequence[Extent] = (1,),
        ceil_mode: bool = False,
    ) -> Windows:
        """Along the last n dims of `x`; without strides, windows lie side by side."""
        given = fixed(sizes, n)
        return Windows(
            shape_of(x)[-n:],
            counts[-n:],
            given,
            fixed(strides, n) if strides else given,
            fixed(padding, n, 0),
            fixed(dilations, n),
            not ceil_mode,
        )

    @property
    def n(self) -> int:
        return len(self.sizes)

    def whole(self, axis: int) -> Expr:
        """Extent of the padded input: up to the last element of the last window at least."""
        if self.fit:
            return self.extents[axis] + 2 * self.padding[axis]
        last = (self.counts[axis] - 1) * self.strides[axis]
        return last + (self.sizes[axis] - 1) * self.dilations[axis] + 1

    def look(self, b: GraphBuilder, x: SSAValue, fill: float) -> SSAValue:
        """[..., counts, sizes]; what lies in the padding is `fill`."""
        whole = [self.whole(axis) for axis in range(self.n)]
        around = placed(b, x, self.padding, whole, fill)
        return b.windows(around, self.counts, self.sizes, self.strides, self.dilations)

    def look_back(self, b: GraphBuilder, y: SSAValue, fill: float) -> SSAValue:
        """[..., extents, sizes]: for each element of the input, what `y` has for the window in
        which it is at the last place, at the one before, and so on; else `fill`."""
        ones = [1] * self.n
        spans = [(k - 1) * d for k, d in zip(self.sizes, self.dilations, strict=True)]
        low = [span - p for span, p in zip(spans, self.padding, strict=True)]
        whole = [e + span for e, span in zip(self.extents, spans, strict=True)]
        around = placed(b, spread(b, y, self.strides, fill), low, whole, fill)
        return b.windows(around, self.extents, self.sizes, ones, self.dilations)

    def reduce(self, b: GraphBuilder, kind: str, windows: SSAValue) -> SSAValue:
        first = rank(windows) - self.n
        return b.reduce(kind, windows, range(first, first + self.n))

    def positions(self, b: GraphBuilder) -> tuple[Term, Term | None]:
        """[counts, sizes]: the row-major position in the input of each element of a window, and
        whether it is there at all, if some may not be."""
        flat, inside = Term(b, b.full(0, torch.int64)), None
        steps = contiguous_strides(self.extents)
        for axis in range(self.n):
            window = _axis(b, 2 * self.n, axis, self.counts[axis]) * self.strides[axis]
            place = _axis(b, 2 * self.n, self.n + axis, Expr.const(self.sizes[axis]))
            at = window + place * self.dilations[axis] - self.padding[axis]
            flat = flat + at * steps[axis]
            past = self.whole(axis) - self.padding[axis] - self.extents[axis]
            if self.padding[axis] == 0 and b.simplify(Expr.max(past, 0)) == 0:
                continue
            there = at.apply("ge", 0).apply("and", at.apply("lt", self.extents[axis]))
            inside = there if inside is None else inside.apply("and", there)
        return flat, inside


# --- average ------------------------------------------------------------------------------------


def _divisor(
    b: GraphBuilder, w: Windows, include_padding: bool, override: Number | None, dtype: torch.dtype
) -> Term:
    """What the sum over each window is divided by."""
    if override is not None:
        return Term(b, b.number(override, dtype))
    total = Term(b, b.full(1, torch.int64))
    for axis in range(w.n):
        past = w.whole(axis) - w.extents[axis] - w.padding[axis] * (2 if include_padding else 1)
        whole = include_padding or w.padding[axis] == 0
        if whole and b.simplify(Expr.max(past, 0)) == 0:
            total = total * w.sizes[axis]
            continue
        start = _axis(b, w.n, axis, w.counts[axis]) * w.strides[axis] - w.padding[axis]
        high = w.extents[axis] + (w.padding[axis] if include_padding else 0)
        end = (start + w.sizes[axis]).apply("minimum", high)
        total = total * (end - (start if include_padding else start.apply("maximum", 0)))
    return total.to(dtype)


def avg_pool(
    n: int,
    b: GraphBuilder,
    x: SSAValue,
    kernel: Sequence[Extent],
    stride: Sequence[Extent] = (),
    padding: Sequence[Extent] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: Number | None = None,
) -> SSAValue:
    """avg_pool2d and 3d; integers are divided toward zero."""
    dtype = opmath(b.dtype)
    w = Windows.of(n, x, b.shape, kernel, stride, padding, ceil_mode=ceil_mode)
    total = Term(b, w.reduce(b, "add", b.convert(w.look(b, x, 0), dtype)))
    divisor = _divisor(b, w, count_include_pad, divisor_override, dtype)
    kind = "div" if dtype.is_floating_point else "truncdiv"
    return total.apply(kind, divisor).to(b.dtype).value


def avg_pool_backward(
    n: int,
    b: GraphBuilder,
    gradient: SSAValue,
    x: SSAValue,
    kernel: Sequence[Extent],
    stride: Sequence[Extent],
    padding: Sequence[Extent],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Number | None,
) -> SSAValue:
    dtype = opmath(b.dtype)
    w = Windows.of(n, x, shape_of(gradient), kernel, stride, padding, ceil_mode=ceil_mode)
    divisor = _divisor(b, w, count_include_pad, divisor_override, dtype)
    shares = Term(b, b.convert(gradient, dtype)) / divisor
    return b.convert(w.reduce(b, "add", w.look_back(b, shares.value, 0)), b.dtype)


# --- maximum ------------------------------------------------------------------------------------


def _key(
    b: GraphBuilder, x: Term, largest: Term, flat: Term, inside: Term | None, size: Expr
) -> Term:
    """The key of each candidate for the position of the largest: of equal elements the first has
    the greatest key, of NaN the last, as in eager; -1 for no candidate."""
    chosen = x.apply("eq", largest)
    key = flat.apply("neg") + (size - 1)
    if dtype_of(x.value).is_floating_point:
        is_nan = x.apply("ne", x)
        chosen = chosen.apply("or", is_nan)
        key = is_nan.apply("select", flat + size, key)
    if inside is not None:
        chosen = chosen.apply("and", inside)
    return chosen.apply("select", key, Term(b, b.full(-1, torch.int64)))


def _decoded(key: Term, size: Expr) -> SSAValue:
    """The position that a key stands for."""
    last = key - size
    first = key.apply("neg") + (size - 1)
    return key.apply("ge", size).apply("select", last, first).value


def max_pool(
    n: int,
    b: GraphBuilder,
    x: SSAValue,
    kernel: Sequence[Extent],
    stride: Sequence[Extent] = (),
    padding: Sequence[Extent] = (0,),
    dilation: Sequence[Extent] = (1,),
    ceil_mode: bool = False,
) -> Tensors:
    """(maxima, their row-major positions in the input)."""
    w = Windows.of(n, x, b.shape, kernel, stride, padding, dilation, ceil_mode)
    return _largest_in(b, x, w)


def _largest_in(b: GraphBuilder, x: SSAValue, w: Windows) -> Tensors:
    flat, inside = w.positions(b)
    return _largest(b, w.look(b, x, lowest(dtype_of(x))), flat, inside, w.extents)


def _largest(
    b: GraphBuilder, x: SSAValue, flat: Term, inside: Term | None, extents: Sequence[Expr]
) -> Tensors:
    """Maxima over the last dims of [..., windows, elements] and their positions among `extents`."""
    n, size = len(extents), product(extents)
    largest = b.reduce("max", x, _last(x, n))
    again = b.reshape(largest, [*shape_of(largest), *[1] * n])
    key = _key(b, Term(b, x), Term(b, again), flat, inside, size)
    best = Term(b, b.reduce("max", key.value, _last(key.value, n)))
    return largest, _decoded(best, size)


def max_pool_backward(
    n: int,
    b: GraphBuilder,
    gradient: SSAValue,
    x: SSAValue,
    kernel: Sequence[Extent],
    stride: Sequence[Extent],
    padding: Sequence[Extent],
    dilation: Sequence[Extent],
    ceil_mode: bool,
    indices: SSAValue,
) -> SSAValue:
    dtype = opmath(b.dtype)
    w = Windows.of(n, x, shape_of(gradient), kernel, stride, padding, dilation, ceil_mode)
    gradients = Term(b, w.look_back(b, b.convert(gradient, dtype), 0))
    came_from = Term(b, w.look_back(b, indices, -1))
    own = _flat_positions(b, w.extents, after=w.n)
    parts = came_from.apply("eq", own).apply("select", gradients, Term(b, b.full(0, dtype)))
    return b.convert(w.reduce(b, "add", parts.value), b.dtype)


def _flat_positions(
    b: GraphBuilder, extents: Sequence[Expr], before: int = 0, after: int = 0
) -> Term:
    """Row-major positions along some dims, as i64, among others over which they are the same."""
    rank = before + len(extents) + after
    flat = Term(b, b.full(0, torch.int64))
    for axis, step in enumerate(contiguous_strides(extents)):
        flat = flat + _axis(b, rank, before + axis, extents[axis]) * step
    return flat


def _last(value: SSAValue, n: int) -> range:
    return range(rank(value) - n, rank(value))


# --- windows themselves -------------------------------------------------------------------------


def im2col(
    b: GraphBuilder,
    x: SSAValue,
    kernel: Sequence[Extent],
    dilation: Sequence[Extent],
    padding: Sequence[Extent],
    stride: Sequence[Extent],
) -> SSAValue:
    """[N, C * elements of a window, windows] of [N, C, H, W]."""
    shape, n = shape_of(x), 2
    sizes, spaces = fixed(kernel, n), fixed(padding, n, 0)
    steps, spread_by = fixed(stride, n), fixed(dilation, n)
    counts = [
        (extent + 2 * p - d * (k - 1) - 1).floordiv(s) + 1
        for extent, p, d, k, s in zip(shape[-n:], spaces, spread_by, sizes, steps, strict=True)
    ]
    w = Windows.of(n, x, counts, sizes, steps, spaces, spread_by)
    windows = w.look(b, x, 0)
    lead = rank(x) - n
    order = [*range(lead), lead + 2, lead + 3, lead, lead + 1]
    return b.reshape(b.transpose(windows, order), b.shape)


# --- adaptive -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Adaptive:
    """Window i of `count` along a dim reaches from floor(i * extent / count) to
    ceil((i + 1) * extent / count)."""

    extents: Sequence[Expr]
    counts: Sequence[Expr]

    @property
    def n(self) -> int:
        return len(self.extents)

    def windows(self) -> Windows | None:
        """The same as windows of one size, where the counts divide the extents."""
        parts = [e.divmod(c) for e, c in zip(self.extents, self.counts, strict=True) if c.terms]
        sizes = [quotient.constant() for quotient, rest in parts if not rest.terms]
        known = [size for size in sizes if size]
        if len(known) < self.n:
            return None
        ones = [1] * self.n
        return Windows(self.extents, self.counts, known, known, [0] * self.n, ones, True)

    def bounds(self, b: GraphBuilder, axis: int, rank: int, place: int) -> tuple[Term, Term]:
        """First and one past the last position of the windows, along dim `place` of `rank`."""
        i = _axis(b, rank, place, self.counts[axis])
        extent, count = self.extents[axis], self.counts[axis]
        start = (i * extent).apply("floordiv", count)
        end = ((i + 1) * extent + (count - 1)).apply("floordiv", count)
        return start, end

    def covers(self, b: GraphBuilder, counts_first: bool) -> Term:
        """Which windows an element is in: [counts, extents], or [extents, counts]."""
        result = Term(b, b.full(True, torch.bool))
        for axis in range(self.n):
            of_window, of_element = (axis, self.n + axis)[:: 1 if counts_first else -1]
            start, end = self.bounds(b, axis, 2 * self.n, of_window)
            at = _axis(b, 2 * self.n, of_element, self.extents[axis])
            inside = at.apply("ge", start).apply("and", at.apply("lt", end))
            result = result.apply("and", inside)
        return result

    def sizes(self, b: GraphBuilder) -> Term:
        """[counts]: how many elements each window has."""
        total = Term(b, b.full(1, torch.int64))
        for axis in range(self.n):
            start, end = self.bounds(b, axis, self.n, axis)
            total = total * (end - start)
        return total


def _beside(b: GraphBuilder, x: SSAValue, n: int) -> SSAValue:
    """`x` with n dims of 1 before the last n."""
    shape = shape_of(x)
    return b.reshape(x, [*shape[: len(shape) - n], *[1] * n, *shape[len(shape) - n :]])


def adaptive_avg_pool(n: int, b: GraphBuilder, x: SSAValue, size: Sequence[Extent]) -> SSAValue:
    dtype = opmath(b.dtype)
    a = Adaptive(shape_of(x)[-n:], b.shape[-n:])
    same = a.windows()
    if same is not None:
        total = Term(b, same.reduce(b, "add", b.convert(same.look(b, x, 0), dtype)))
        return (total / math.prod(same.sizes)).to(b.dtype).value
    chosen = (
        a.covers(b, True)
        .apply("select", Term(b, _beside(b, b.convert(x, dtype), n)), Term(b, b.full(0, dtype)))
        .value
    )
    total = Term(b, b.reduce("add", chosen, _last(chosen, n)))
    return (total / a.sizes(b).to(dtype)).to(b.dtype).value


def adaptive_avg_pool_backward(
    n: int, b: GraphBuilder, gradient: SSAValue, x: SSAValue
) -> SSAValue:
    dtype = opmath(b.dtype)
    a = Adaptive(shape_of(x)[-n:], shape_of(gradient)[-n:])
    shares = Term(b, b.convert(gradient, dtype)) / a.sizes(b).to(dtype)
    chosen = (
        a.covers(b, False)
        .apply("select", Term(b, _beside(b, shares.value, n)), Term(b, b.full(0, dtype)))
        .value
    )
    return b.convert(b.reduce("add", chosen, _last(chosen, n)), b.dtype)


def adaptive_max_pool(n: int, b: GraphBuilder, x: SSAValue, size: Sequence[Extent]) -> Tensors:
    """(maxima, their row-major positions in the input)."""
    a = Adaptive(shape_of(x)[-n:], b.shape[-n:])
    same = a.windows()
    if same is not None:
        return _largest_in(b, x, same)
    covers, other = a.covers(b, True), Term(b, b.full(lowest(b.dtype), b.dtype))
    chosen = covers.apply("select", Term(b, _beside(b, x, n)), other).value
    return _largest(b, chosen, _flat_positions(b, a.extents, before=n), covers, a.extents)


def adaptive_max_pool_backward(
    n: int, b: GraphBuilder, gradient: SSAValue, x: SSAValue, indices: SSAValue
) -> SSAValue:
    dtype = opmath(b.dtype)
    own = _flat_positions(b, shape_of(x)[-n:], after=n)
    gradients = Term(b, _beside(b, b.convert(gradient, dtype), n))
    here = Term(b, _beside(b, indices, n)).apply("eq", own)
    parts = here.apply("select", gradients, Term(b, b.full(0, dtype))).value
    return b.convert(b.reduce("add", parts, _last(parts, n)), b.dtype)


HANDLERS: Mapping[Any, Handler] = {
    aten.avg_pool2d.default: partial(avg_pool, 2),
    aten.avg_pool3d.default: partial(avg_pool, 3),
    aten.avg_pool2d_backward.default: partial(avg_pool_backward, 2),
    aten.avg_pool3d_backward.default: partial(avg_pool_backward, 3),
    aten.max_pool2d_with_indices.default: partial(max_pool, 2),
    aten.max_pool3d_with_indices.default: partial(max_pool, 3),
    aten.max_pool2d_with_indices_backward.default: partial(max_pool_backward, 2),
    aten.max_pool3d_with_indices_backward.default: partial(max_pool_backward, 3),
    aten.im2col.default: im2col,
    aten._adaptive_avg_pool2d.default: partial(adaptive_avg_pool, 2),
    aten._adaptive_avg_pool3d.default: partial(adaptive_avg_pool, 3),
    aten._adaptive_avg_pool2d_backward.default: partial(adaptive_avg_pool_backward, 2),
    aten._adaptive_avg_pool3d_backward.default: partial(adaptive_avg_pool_backward, 3),
    aten.adaptive_max_pool2d.default: partial(adaptive_max_pool, 2),
    aten.adaptive_max_pool3d.default: partial(adaptive_max_pool, 3),
    aten.adaptive_max_pool2d_backward.default: partial(adaptive_max_pool_backward, 2),
    aten.adaptive_max_pool3d_backward.default: partial(adaptive_max_pool_backward, 3),
}
