"""ATen's grid samplers: an image looked at where a grid says, from -1 to 1 along each dim.

Eager computes every step in the dtype of the image, half precision too.  In two dims it computes
with vectors and takes 0 for what is outside of the image; in three it leaves that out.  The
formulas differ a little, which shows in what becomes of NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import product
from operator import add, mul
from typing import Any, TypeAlias

import torch
from xdsl.ir import SSAValue

from lpu_mlir.dialects.expr import Expr, nonnegative
from lpu_mlir.frontend.builder import GraphBuilder, Tensors, Term, dtype_of, either, rank, shape_of
from lpu_mlir.frontend.dtypes import HALVES, opmath
from lpu_mlir.frontend.errors import NotNative

aten = torch.ops.aten
Handler: TypeAlias = Callable[..., Tensors]

BILINEAR, NEAREST, BICUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)


# --- coordinates --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Axis:
    """Along one dim of `size`: coordinates of a grid as positions, and those in the image."""

    size: Expr
    padding: int
    corners: bool
    """-1 and 1 are the middles of the outermost elements, not their outer edges."""
    vectors: bool
    """As eager computes it in two dims."""

    @property
    def last(self) -> Expr:
        return self.size - 1

    @property
    def span(self) -> Expr:
        """How far it is from one reflection to the other."""
        return self.last if self.corners else self.size

    @property
    def low(self) -> float:
        return 0.0 if self.corners else -0.5

    def position(self, x: Term) -> Term:
        if self.corners:
            half = (x + 1) / 2 * self.last
            return (x + 1) * self.scale(x) if self.vectors else half
        if self.vectors:
            return (x + 1) * self.scale(x) - 0.5
        return ((x + 1) * self.size - 1) / 2

    def scale(self, like: Term) -> Term:
        """The derivative of a position."""
        return Term(like.b, like.b.number(self.span, dtype_of(like.value))) / 2

    def inside(self, x: Term) -> Term:
        """Positions brought into the image, unless what is outside of it is 0."""
        if self.padding == ZEROS:
            return x
        if self.padding == REFLECTION:
            x = self.reflected(x)[0]
        bounded = x.apply("maximum", 0).apply("minimum", self.last)
        last = Term(x.b, x.b.number(0 if self.vectors else self.last, dtype_of(x.value)))
        return either(x.apply("ne", x), last, bounded)

    def inside_with_slope(self, x: Term) -> tuple[Term, Term]:
        """And the derivative by the coordinate of the grid."""
        slope = self.scale(x)
        if self.padding == ZEROS:
            return x, slope
        if self.padding == REFLECTION:
            x, back = self.reflected(x)
            slope = either(back, slope.apply("neg"), slope)
        bounded = x.apply("maximum", 0).apply("minimum", self.last)
        outside = x.apply("le", 0).apply("or", x.apply("ge", self.last))
        return bounded, either(outside, 0.0, slope)

    def reflected(self, x: Term) -> tuple[Term, Term]:
        """Positions between the two reflections, and where they go backwards."""
        if not nonnegative(self.span - 1, x.b.ranges):
            if self.span != 0:
                raise NotNative("a dim that may or may not have one element")
            b, shape = x.b, shape_of(x.value)
            zero, never = b.full(0, dtype_of(x.value), shape), b.full(False, torch.bool, shape)
            return Term(b, zero), Term(b, never)
        x = x - self.low if self.low else x
        size, negative = x.apply("abs"), x.apply("lt", 0)
        if self.vectors:
            twice = Term(x.b, x.b.number(self.span, dtype_of(x.value))) * 2
            rest = size - (size / twice).apply("trunc") * twice
            other = twice - rest
            odd = rest.apply("gt", other)
        else:
            rest = size.apply("fmod", self.span)
            other = Term(x.b, x.b.number(self.span, dtype_of(x.value))) - rest
            turns = (size / self.span).apply("floor")
            odd = turns.apply("fmod", 2).apply("eq", 1)
            odd = odd.apply("and", turns.apply("lt", float(1 << 31)))  # a C int
        result = either(odd, other, rest)
        return (result + self.low if self.low else result), odd.apply("xor", negative)


def _index(x: Term, size: Expr, ahead: int = 0) -> tuple[Term, Term]:
    """i64 positions for whole numbers, and some further ahead; 0 for those outside of [0, size),
    and which are not."""
    wide = x.to(opmath(dtype_of(x.value)))
    wide = either(wide.apply("ne", wide), -2.0, wide)
    bounded = wide.apply("maximum", -2).apply("minimum", size + 1)
    index = bounded.to(torch.int64) + ahead
    there = index.apply("ge", 0).apply("and", index.apply("lt", size))
    return either(there, index, 0), there


@dataclass(frozen=True)
class Image:
    """[N, C, ...]; what is read or added is [N, ..., C], at positions [N, ..., 1]."""

    b: GraphBuilder
    value: SSAValue
    sizes: Sequence[Expr]
    """Of the image."""
    shape: Sequence[Expr]
    """[N, ...] of the grid."""

    @property
    def dims(self) -> list[int]:
        return [0, *range(2, 2 + len(self.sizes))]

    def indices(self, at: Sequence[Term]) -> list[SSAValue]:
        positions = [self.b.broadcast(self.b.reshape(t.value, self.shape), self.shape) for t in at]
        return [self.b.iota(0, self.shape), *positions]

    def read(self, at: Sequence[Term], there: Term) -> Term:
        found = Term(self.b, self.b.gather(self.value, self.indices(at), self.dims, 0))
        return either(there, found, 0.0)

    def added(self, total: SSAValue, at: Sequence[Term], there: Term, x: Term) -> SSAValue:
        """Some more on top of a total with the extents of the image."""
        x = either(there, x, 0.0)
        shape = [*self.shape, shape_of(total)[1]]
        updates = self.b.broadcast(x.value, shape)
        return self.b.scatter("add", total, updates, self.indices(at), self.dims, 0)


@dataclass(frozen=True)
class Sampler:
    """What the operators have in common."""

    b: GraphBuilder
    image: Image
    axes: Sequence[Axis]
    coordinates: Sequence[Term]
    """Of the grid, from the outermost dim of the image to the innermost: [N, ..., 1]."""

    @staticmethod
    def of(
        n: int, b: GraphBuilder, x: SSAValue, grid: SSAValue, padding: int, corners: bool
    ) -> Sampler:
        if dtype_of(x) != dtype_of(grid):
            raise NotNative("eager refuses a grid of another dtype")
        if not dtype_of(x).is_floating_point:
            raise NotNative("eager refuses integers, unless there are none")
        sizes, shape = shape_of(x)[2:], shape_of(grid)[:-1]
        axes = [Axis(size, padding, corners, n == 2) for size in sizes]
        parts = [b.slice_dim(grid, n + 1, place, 1) for place in reversed(range(n))]
        return Sampler(b, Image(b, x, sizes, shape), axes, [Term(b, part) for part in parts])

    def positions(self) -> list[Term]:
        pairs = zip(self.axes, self.coordinates, strict=True)
        return [axis.position(x) for axis, x in pairs]

    def inside(self) -> list[Term]:
        return [a.inside(x) for a, x in zip(self.axes, self.positions(), strict=True)]

    def inside_with_slopes(self) -> list[tuple[Term, Term]]:
        return [a.inside_with_slope(x) for a, x in zip(self.axes, self.positions(), strict=True)]

    def place(self, at: Sequence[Term], ahead: Sequence[int]) -> tuple[list[Term], Term]:
        """Positions in the image, and whether they are there."""
        found = [_index(x, axis.size, by) for x, axis, by in zip(at, self.axes, ahead, strict=True)]
        there = found[0][1]
        for _, inside in found[1:]:
            there = there.apply("and", inside)
        return [index for index, _ in found], there

    def nothing(self) -> SSAValue:
        """Of the extents of the image, to be added to."""
        return self.b.full(0, self.b.dtype, shape_of(self.image.value))


def _channels_second(b: GraphBuilder, x: SSAValue) -> SSAValue:
    """[N, ..., C] as [N, C, ...]."""
    n = rank(x)
    return b.transpose(x, [0, n - 1, *range(1, n - 1)])


def _channels_last(b: GraphBuilder, x: SSAValue) -> Term:
    n = rank(x)
    return Term(b, b.transpose(x, [0, *range(2, n), 1]))


# --- the nearest element ------------------------------------------------------------------------


def _nearest(s: Sampler) -> Term:
    at, there = s.place([x.apply("round") for x in s.inside()], [0] * len(s.axes))
    return s.image.read(at, there)


def _nearest_backward(
    s: Sampler, gradient: Term, wanted: bool
) -> tuple[SSAValue | None, list[Term]]:
    shape = shape_of(s.coordinates[0].value)
    slopes = [Term(s.b, s.b.full(0, s.b.dtype, shape)) for _ in s.axes]
    if not wanted:
        return None, slopes
    at, there = s.place([x.apply("round") for x in s.inside()], [0] * len(s.axes))
    return s.image.added(s.nothing(), at, there, gradient), slopes


# --- between elements ---------------------------------------------------------------------------


def _shares(x: Term, vectors: bool) -> tuple[Term, tuple[Term, Term]]:
    """The element before, and the weights of it and of the next one."""
    before = x.apply("floor")
    if vectors:
        far = x - before
        return before, (far.apply("neg") + 1, far)
    return before, (before + 1 - x, x - before)


def _total(terms: Sequence[Term]) -> Term:
    return reduce(add, terms)


def _corners(n: int) -> list[tuple[int, ...]]:
    """For each corner, from the first to the last: how far ahead it is along each dim."""
    return list(product((0, 1), repeat=n))


def _weight(shares: Sequence[tuple[Term, Term]], ahead: Sequence[int], vectors: bool) -> Term:
    chosen = [share[by] for share, by in zip(shares, ahead, strict=True)]
    if vectors:
        return chosen[0] * chosen[1]
    return reduce(mul, reversed(chosen))


def _linear(s: Sampler) -> Term:
    vectors = s.axes[0].vectors
    before, shares = zip(*[_shares(x, vectors) for x in s.inside()], strict=True)
    parts: list[Term] = []
    for ahead in _corners(len(s.axes)):
        at, there = s.place(before, ahead)
        part = s.image.read(at, there) * _weight(shares, ahead, vectors)
        parts.append(part if vectors else either(there, part, 0.0))
    return _total(parts)


def _linear_backward(
    s: Sampler, gradient: Term, wanted: bool
) -> tuple[SSAValue | None, list[Term]]:
    vectors = s.axes[0].vectors
    inside, slopes = zip(*s.inside_with_slopes(), strict=True)
    before, shares = zip(*[_shares(x, vectors) for x in inside], strict=True)
    total = s.nothing() if wanted else None
    corners: dict[tuple[int, ...], tuple[Term, Term]] = {}
    for ahead in _corners(len(s.axes)):
        at, there = s.place(before, ahead)
        corners[ahead] = s.image.read(at, there), there
        if total is not None:
            part = _weight(shares, ahead, vectors) * gradient
            total = s.image.added(total, at, there, part)
    along = _along_with_vectors if vectors else _along
    parts = [along(corners, shares, gradient, dim) for dim in range(len(s.axes))]
    return total, [_summed(p) * slope for p, slope in zip(parts, slopes, strict=True)]


Corners: TypeAlias = Mapping[tuple[int, ...], tuple[Term, Term]]
"""What is at each corner, and whether anything is."""


def _along_with_vectors(
    corners: Corners, shares: Sequence[tuple[Term, Term]], gradient: Term, dim: int
) -> Term:
    """In two dims, how the result changes along one, times its gradient: [N, ..., C]."""

    def step(other: int) -> Term:
        low, high = ((along, other) if dim == 0 else (other, along) for along in (0, 1))
        return corners[high][0] - corners[low][0]

    near, far = shares[1 - dim]
    return (step(0) * near + step(1) * far) * gradient


def _along(corners: Corners, shares: Sequence[tuple[Term, Term]], gradient: Term, dim: int) -> Term:
    """In three, the same."""
    others = [other for other in reversed(range(len(shares))) if other != dim]
    parts: list[Term] = []
    for ahead, (value, there) in corners.items():
        weights = [shares[other][ahead[other]] for other in others]
        part = either(there, reduce(mul, [value, *weights, gradient]), 0.0)
        parts.append(part if ahead[dim] else part.apply("neg"))
    return _total(parts)


def _summed(x: Term) -> Term:
    """Over the channels."""
    last = rank(x.value) - 1
    total = x.b.reduce("add", x.value, [last])
    return Term(x.b, x.b.keep(total, shape_of(x.value), [last]))


# --- cubic --------------------------------------------------------------------------------------

A = -0.75
"""What eager's cubic convolution is made with."""


def cubic_weights(t: Term) -> list[Term]:
    """Of the elements at -1, 0, 1 and 2 for a place between 0 and 1."""

    def outer(x: Term) -> Term:
        return ((x * A - 5 * A) * x + 8 * A) * x - 4 * A

    def inner(x: Term) -> Term:
        return (x * (A + 2) - (A + 3)) * x * x + 1

    back = t.apply("neg")
    return [outer(t + 1), inner(t), inner(back + 1), outer(back + 2)]


def _cubic_slopes(t: Term) -> list[Term]:
    """The derivatives of the weights, with the other sign."""
    back = t.apply("neg")
    before, after, beyond = back - 1, back + 1, back + 2
    return [
        (before * (-3 * A) - 10 * A) * before - 8 * A,
        (back * (-3 * (A + 2)) - 2 * (A + 3)) * back,
        (after * (3 * (A + 2)) - 2 * (A + 3)) * after,
        (beyond * (3 * A) - 10 * A) * beyond + 8 * A,
    ]


def _around(
    s: Sampler, before: Sequence[Term]
) -> Mapping[tuple[int, int], tuple[list[Term], Term]]:
    """The places of the 4 by 4 elements around."""
    places: dict[tuple[int, int], tuple[list[Term], Term]] = {}
    for ahead in product(range(4), repeat=2):
        moved = [
            axis.inside(x + (by - 1)) for axis, x, by in zip(s.axes, before, ahead, strict=True)
        ]
        places[ahead[0], ahead[1]] = s.place([x.apply("trunc") for x in moved], [0, 0])
    return places


def _cubic(s: Sampler) -> Term:
    positions = s.positions()
    before = [x.apply("floor") for x in positions]
    down, across = (cubic_weights(x - low) for x, low in zip(positions, before, strict=True))
    places = _around(s, before)
    rows = [_total([across[j] * s.image.read(*places[i, j]) for j in range(4)]) for i in range(4)]
    return _total([weight * row for weight, row in zip(down, rows, strict=True)])


def _cubic_backward(s: Sampler, gradient: Term, wanted: bool) -> tuple[SSAValue | None, list[Term]]:
    positions = s.positions()
    before = [x.apply("floor") for x in positions]
    rest = [x - low for x, low in zip(positions, before, strict=True)]
    (down, across), (down_slopes, across_slopes) = (
        [of(x) for x in rest] for of in (cubic_weights, _cubic_slopes)
    )
    places = _around(s, before)
    total = s.nothing() if wanted else None
    parts: tuple[list[Term], list[Term]] = ([], [])
    for j, i in product(range(4), repeat=2):
        if total is not None:
            part = gradient * across[j] * down[i]
            total = s.image.added(total, *places[i, j], part)
        value = s.image.read(*places[i, j]) * gradient
        parts[0].append(value * down_slopes[i] * across[j])
        parts[1].append(value * across_slopes[j] * down[i])
    slopes = [axis.scale(x) for axis, x in zip(s.axes, positions, strict=True)]
    sums = [_summed(_total(p)).apply("neg") for p in parts]
    return total, [x * slope for x, slope in zip(sums, slopes, strict=True)]


# --- the operators ------------------------------------------------------------------------------

_FORMS: Mapping[int, Callable[[Sampler], Term]] = {
    BILINEAR: _linear,
    NEAREST: _nearest,
    BICUBIC: _cubic,
}
_BACKWARD: Mapping[int, Callable[[Sampler, Term, bool], tuple[SSAValue | None, list[Term]]]] = {
    BILINEAR: _linear_backward,
    NEAREST: _nearest_backward,
    BICUBIC: _cubic_backward,
}


def grid_sampler(
    n: int,
    b: GraphBuilder,
    x: SSAValue,
    grid: SSAValue,
    mode: int,
    padding: int,
    corners: bool,
) -> SSAValue:
    """[N, C, ...] of an image [N, C, ...] and a grid [N, ..., n] of coordinates, of which the
    first is along the last dim."""
    sampler = Sampler.of(n, b, x, grid, padding, corners)
    if any(extent == 0 for extent in b.shape):
        return b.full(0, b.dtype, b.shape)
    return _channels_second(b, _FORMS[mode](sampler).value)


def grid_sampler_backward(
    n: int,
    b: GraphBuilder,
    gradient: SSAValue,
    x: SSAValue,
    grid: SSAValue,
    mode: int,
    padding: int,
    corners: bool,
    output_mask: Sequence[bool],
) -> Tensors:
    """The gradients of image, if it is asked for, and grid."""
    b.dtype = dtype_of(x)
    if b.dtype in HALVES:
        raise NotNative("eager adds gradients up in half precision, one after the other")
    sampler = Sampler.of(n, b, x, grid, padding, corners)
    if any(extent == 0 for extent in shape_of(gradient)):
        of_image = b.full(0, b.dtype, shape_of(x)) if output_mask[0] else None
        return of_image, b.full(0, b.dtype, shape_of(grid))
    total, slopes = _BACKWARD[mode](sampler, _channels_last(b, gradient), output_mask[0])
    return total, b.concat([slope.value for slope in reversed(slopes)], n + 1)


HANDLERS: Mapping[Any, Handler] = {
    aten.grid_sampler_2d.default: partial(grid_sampler, 2),
    aten.grid_sampler_3d.default: partial(grid_sampler, 3),
    aten.grid_sampler_2d_backward.default: partial(grid_sampler_backward, 2),
    aten.grid_sampler_3d_backward.default: partial(grid_sampler_backward, 3),
}
