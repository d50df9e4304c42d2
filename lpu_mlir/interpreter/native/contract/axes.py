"""The axes of a contraction: what it loops over, and how its operands move along each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from lpu_mlir.interpreter.native.llvm import Builder, Int, Value
from lpu_mlir.interpreter.native.tile import View


@dataclass(frozen=True)
class Axis:
    """One loop: its extent and the strides of both operands and the result, in elements.

    A stride of 0 means that what is read or written stays the same. A summed axis is one that the
    result lacks.
    """

    size: Int
    lhs: Int
    rhs: Int
    out: Int
    summed: bool

    @property
    def strides(self) -> tuple[Int, Int, Int]:
        return self.lhs, self.rhs, self.out


def axes_of(
    b: Builder, lhs: View, lhs_dims: Sequence[int], rhs: View, rhs_dims: Sequence[int], out: View
) -> list[Axis]:
    """The axes of a contraction, as few as the layouts allow."""
    views = ((lhs, tuple(lhs_dims)), (rhs, tuple(rhs_dims)), (out, tuple(range(out.rank))))
    dims = dict.fromkeys(dim for _, named in reversed(views) for dim in named)
    axes: list[Axis] = []
    for dim in dims:
        sizes = [view.sizes[named.index(dim)] for view, named in views if dim in named]
        strides = [view.strides[named.index(dim)] if dim in named else 0 for view, named in views]
        axes.append(Axis(_known(sizes), *strides, summed=dim >= out.rank))
    return coalesced(b, axes)


def _known(sizes: Iterable[Int]) -> Int:
    """One of equal sizes, a number if any is."""
    sizes = list(sizes)
    return next((size for size in sizes if isinstance(size, int)), sizes[0])


def coalesced(b: Builder, axes: Iterable[Axis]) -> list[Axis]:
    """The same loops without those of one trip, and with nested ones joined."""
    axes = [axis for axis in axes if axis.size != 1]
    while pair := next((p for p in permutations(axes, 2) if _nests(*p)), None):
        outer, inner = pair
        at = axes.index(inner)
        axes[at] = replace(inner, size=b.mul(outer.size, inner.size))
        axes.remove(outer)
    return axes


def _nests(outer: Axis, inner: Axis) -> bool:
    """Whether going on along the inner axis leads to the next of the outer one."""
    size = inner.size
    if outer.summed != inner.summed or not isinstance(size, int) or size == 0:
        return False
    return all(
        not isinstance(a, Value) and not isinstance(z, Value) and a == z * size
        for a, z in zip(outer.strides, inner.strides, strict=True)
    )
