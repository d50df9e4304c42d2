"""ATen's convolutions and their gradients, each as one or more `lpu_graph.conv`.

A convolution there has no padding and looks at its input in one direction.  The gradient of the
input, which is what a transposed convolution is, convolves the other gradient with the weight
flipped; a stride of s makes s times as many channels, whose elements then take turns along the
dim.  The gradient of the weight convolves the input with the gradient, batch and channels changing
places, and so do strides and dilations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from xdsl.ir import SSAValue

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu import Extent
from lpu_mlir.frontend.builder import GraphBuilder, Tensors, dtype_of, rank, shape_of
from lpu_mlir.frontend.dtypes import opmath
from lpu_mlir.frontend.errors import NotNative

aten = torch.ops.aten
Handler: TypeAlias = Callable[..., Tensors]


# --- what convolution and pooling share ---------------------------------------------------------


def fixed(values: Sequence[Extent], n: int, default: int = 1) -> list[int]:
    """One integer for each of n dims; a single one stands for all, none for the default."""
    known = [Expr.of(value).constant() for value in values]
    if any(value is None for value in known):
        raise NotNative("strides, padding or dilation known only when it runs")
    listed = [value for value in known if value is not None] or [default]
    return listed * n if len(listed) == 1 else listed


def placed(
    b: GraphBuilder, x: SSAValue, low: Sequence[int], shape: Sequence[Expr], fill: bool | float
) -> SSAValue:
    """The last dims with extents `shape`: element p is element p - low of `x`, or else `fill`."""
    outer = list(shape_of(x)[: rank(x) - len(shape)])
    starts: list[Extent] = [0] * len(outer)
    lows: list[Extent] = [0] * len(outer)
    kept = list(outer)
    for before, extent, wanted in zip(low, shape_of(x)[len(outer) :], shape, strict=True):
        cut, added = max(-before, 0), max(before, 0)
        starts.append(cut)
        lows.append(added)
        inside = Expr.min(extent - cut, wanted - added)
        kept.append(b.simplify(Expr.max(inside, 0)))
    inner = b.slice(x, starts, kept)
    whole = [*outer, *shape]
    return inner if tuple(kept) == tuple(whole) else b.pad(inner, lows, whole, fill)


def spread(b: GraphBuilder, x: SSAValue, strides: Sequence[int], fill: bool | float) -> SSAValue:
    """The last dims with each element followed by stride - 1 times `fill`."""
    if all(stride == 1 for stride in strides):
        return x
    outer, inner = shape_of(x)[: -len(strides)], shape_of(x)[-len(strides) :]
    one = Expr.const(1)
    apart = [e for extent in inner for e in (extent, one)]
    filled = [e for pair in zip(inner, map(Expr.const, strides), strict=True) for e in pair]
    lows = [0] * (len(outer) + len(filled))
    padded = b.pad(b.reshape(x, [*outer, *apart]), lows, [*outer, *filled], fill)
    return b.reshape(padded, [*outer, *(e * s for e, s in zip(inner, strides, strict=True))])


# --- convolution --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Geometry:
    """Strides, padding and dilation along each dim that windows move along, and groups."""

    strides: Sequence[int]
    padding: Sequence[int]
    dilations: Sequence[int]
    groups: int

    @staticmethod
    def of(
        n: int,
        strides: Sequence[Extent],
        padding: Sequence[Extent],
        dilations: Sequence[Extent],
        groups: int,
    ) -> Geometry:
        return Geometry(fixed(strides, n), fixed(padding, n, 0), fixed(dilations, n), groups)

    def padded(self, b: GraphBuilder, x: SSAValue) -> SSAValue:
        """[N, C, ...] with zeros on both sides."""
        pairs = zip(shape_of(x)[2:], self.padding, strict=True)
        return placed(b, x, self.padding, [e + 2 * p for e, p in pairs], 0)

    def forward(
        self,
        b: GraphBuilder,
        x: SSAValue,
        weight: SSAValue,
        counts: Sequence[Expr],
        dtype: torch.dtype,
    ) -> SSAValue:
        """In `dtype`: that of the operands or, not rounded, f32."""
        around = self.padded(b, x)
        return b.conv(around, weight, counts, self.strides, self.dilations, self.groups, dtype)

    def transposed(
        self,
        b: GraphBuilder,
        gradient: SSAValue,
        weight: SSAValue,
        counts: Sequence[Expr],
        dtype: torch.dtype,
    ) -> SSAValue:
        """The gradient of an input with extents `counts`."""
        sizes = [_known(e) for e in shape_of(weight)[2:]]
        options = zip(sizes, self.strides, self.padding, self.dilations, strict=True)
        turns = [Turns.of(*option) for option in options]
        # Elements of a dilated kernel do not take turns: there the gradient has zeros in between.
        apart = [s // t.count for s, t in zip(self.strides, turns, strict=True)]
        rows = [e.ceildiv(t.count) for e, t in zip(counts, turns, strict=True)]
        reach = [(t.taps - 1) * d for t, d in zip(turns, self.dilations, strict=True)]
        whole = [row + r for row, r in zip(rows, reach, strict=True)]
        around = placed(b, spread(b, gradient, apart, 0), [t.before for t in turns], whole, 0)
        flipped = self.flipped(b, weight, turns)
        ones = [1] * len(counts)
        result = b.conv(around, flipped, rows, ones, self.dilations, self.groups, dtype)
        return self.interleaved(b, result, turns, counts)

    def flipped(self, b: GraphBuilder, weight: SSAValue, turns: Sequence[Turns]) -> SSAValue:
        """[G * O, C, ...] as [G * C * turns, O, taps ...], counted backwards along the taps."""
        n = len(turns)
        shift = [t.shift for t in turns]
        weight = placed(b, weight, shift, [Expr.const(t.taps * t.count) for t in turns], 0)
        outputs, channels, *_ = shape_of(weight)
        per_group = outputs.floordiv(self.groups)
        split = [part for t in turns for part in (t.taps, t.count)]
        grouped = b.reshape(weight, [self.groups, per_group, channels, *split])
        taps, places = [3 + 2 * i for i in range(n)], [4 + 2 * i for i in range(n)]
        swapped = b.transpose(grouped, [0, 2, *places, 1, *taps])
        total = channels * self.groups * math.prod(t.count for t in turns)
        joined = b.reshape(swapped, [total, per_group, *(t.taps for t in turns)])
        starts = [0, 0, *(t.taps - 1 for t in turns)]
        steps = [1, 1, *(-1 if t.taps > 1 else 1 for t in turns)]
        return b.slice(joined, starts, shape_of(joined), steps)

    def interleaved(
        self, b: GraphBuilder, x: SSAValue, turns: Sequence[Turns], counts: Sequence[Expr]
    ) -> SSAValue:
        """[N, C * turns, rows ...] with the turns along the dims that the rows are: [N, C, ...]."""
        if all(t.count == 1 for t in turns):
            return x
        n = len(turns)
        batch, total, *rows = shape_of(x)
        channels = total.floordiv(math.prod(t.count for t in turns))
        apart = b.reshape(x, [batch, channels, *(t.count for t in turns), *rows])
        order = [dim for i in range(n) for dim in (2 + n + i, 2 + i)]
        whole = [row * t.count for row, t in zip(rows, turns, strict=True)]
        joined = b.reshape(b.transpose(apart, [0, 1, *order]), [batch, channels, *whole])
        return b.slice(joined, [0] * (2 + n), [batch, channels, *counts])

    def weight_gradient(
        self, b: GraphBuilder, x: SSAValue, gradient: SSAValue, sizes: Sequence[Expr]
    ) -> SSAValue:
        """[O, C, ...] of extents `sizes`, from the input [N, G * C, ...] and [N, O, ...]."""
        around = self.padded(b, x)
        batch, channels, *inner = shape_of(around)
        per_group = channels.floordiv(self.groups)
        grouped = b.reshape(around, [batch, self.groups, per_group, *inner])
        places = range(len(inner))
        turned = b.transpose(grouped, [2, 1, 0, *(3 + p for p in places)])
        turned = b.reshape(turned, [per_group, batch * self.groups, *inner])
        swap = [1, 0, *(2 + p for p in places)]
        weights = b.transpose(gradient, swap)
        result = b.conv(
            turned, weights, sizes, self.dilations, self.strides, self.groups, dtype_of(x)
        )
        return b.transpose(result, swap)


@dataclass(frozen=True)
class Turns:
    """How the results of a transposed convolution along one dim are made: result u * count + r is
    the sum over `taps` elements i of the input, from u - before on, each times element
    r + padding - i * count of the kernel."""

    count: int
    taps: int
    before: int
    shift: int
    """Zeros before the kernel so that its elements for r = 0 stand at multiples of the count."""

    @staticmethod
    def of(size: int, stride: int, padding: int, dilation: int) -> Turns:
        if dilation > 1:
            return Turns(1, size, (size - 1) * dilation - padding, 0)
        first, last = -((size - 1 - padding) // stride), (stride - 1 + padding) // stride
        return Turns(stride, last - first + 1, -first, last * stride - padding)


def _known(extent: Expr) -> int:
    value = extent.constant()
    if value is None:
        raise NotNative("a kernel whose extents are known only when it runs")
    return value


def convolution(
    b: GraphBuilder,
    x: SSAValue,
    weight: SSAValue,
    bias: SSAValue | None,
    stride: Sequence[Extent],
    padding: Sequence[Extent],
    dilation: Sequence[Extent],
    transposed: bool,
    output_padding: Sequence[Extent],
    groups: int,
) -> SSAValue:
    """With a bias, half precision is rounded after it."""
    n = rank(weight) - 2
    geometry = Geometry.of(n, stride, padding, dilation, groups)
    dtype = b.dtype if bias is None else opmath(b.dtype)
    compute = geometry.transposed if transposed else geometry.forward
    result = compute(b, x, weight, b.shape[2:], dtype)
    if bias is not None:
        per_channel = b.reshape(b.convert(bias, dtype), [*shape_of(bias), *[1] * n])
        result = b.pointwise("add", result, per_channel)
    return b.convert(result, b.dtype)


def convolution_backward(
    b: GraphBuilder,
    gradient: SSAValue,
    x: SSAValue,
    weight: SSAValue,
    bias_sizes: Sequence[Extent] | None,
    stride: Sequence[Extent],
    padding: Sequence[Extent],
    dilation: Sequence[Extent],
    transposed: bool,
    output_padding: Sequence[Extent],
    groups: int,
    output_mask: Sequence[bool],
) -> Tensors:
    """The gradients of input, weight and bias, as far as the mask asks for them."""
    geometry = Geometry.of(rank(weight) - 2, stride, padding, dilation, groups)
    of_input = of_weight = of_bias = None
    if output_mask[0]:
        compute = geometry.forward if transposed else geometry.transposed
        of_input = compute(b, gradient, weight, shape_of(x)[2:], dtype_of(x))
    if output_mask[1]:
        looked_at, other = (gradient, x) if transposed else (x, gradient)
        of_weight = geometry.weight_gradient(b, looked_at, other, shape_of(weight)[2:])
    if output_mask[2]:
        of_bias = b.reduce("add", gradient, [d for d in range(rank(gradient)) if d != 1])
    return of_input, of_weight, of_bias


HANDLERS: Mapping[Any, Handler] = {
    aten.convolution.default: convolution,
    aten.convolution_backward.default: convolution_backward,
}
