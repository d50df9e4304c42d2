"""Cutting and splitting the dims of a nest, so that every piece is known and every address affine.

Index-set splitting: a value given piecewise over a dim makes several nests, one for each piece.
Dim splitting: where `d floordiv 3` remains in an address, d becomes two dims, 3 * da + db.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from xdsl.dialects.builtin import f32, f64

from lpu_mlir.dialects.expr import Call, Expr, Range, nonnegative, simplify
from lpu_mlir.dialects.lpu_loop import Dim
from lpu_mlir.nests.nest import Nest
from lpu_mlir.nests.pointwise import convert
from lpu_mlir.nests.scalar import Fold, Load, Node, Pieces, Scalars, is_dim
from lpu_mlir.tiling.access import address

# --- pieces -------------------------------------------------------------------------------------


def split_pieces(nest: Nest, scalars: Scalars) -> list[Nest]:
    """Nests that together do the same and hold no piecewise value."""
    pieces = next((node for node in nest.nodes() if isinstance(node, Pieces)), None)
    if pieces is None:
        return [nest]
    dims = [name for name in pieces.position.names() if is_dim(name)]
    if not dims:
        raise NotImplementedError(f"a piecewise value at the fixed position {pieces.position}")
    dim = dims[0]
    shift = pieces.position - Expr.name(dim)
    extent = dict(nest.dims)[dim]
    starts = [
        Expr.const(0),
        *(_within(bound - shift, extent, scalars.ranges) for bound in pieces.bounds),
    ]
    ends = [*starts[1:], extent]
    found: list[Nest] = []
    for part, (start, end) in enumerate(zip(starts, ends, strict=True)):
        if (end - start).constant() == 0:
            continue
        cut = choose_part(nest, pieces, part, scalars)
        dims_ = tuple((n, end - start if n == dim else e) for n, e in nest.dims)
        cut = replace(cut, dims=dims_)
        scalars.ranges.update(cut.ranges())
        cut = cut.rewrite(scalars, {dim: Expr.name(dim) + start})
        found += split_pieces(cut, scalars)
    return found


def _within(bound: Expr, extent: Expr, ranges: Mapping[str, Range]) -> Expr:
    """A bound clipped to the dim's positions."""
    return simplify(Expr.max(0, Expr.min(bound, extent)), ranges)


def choose_part(nest: Nest, pieces: Pieces, part: int, scalars: Scalars) -> Nest:
    """The nest where every value cut at the same places is in its part number `part`."""

    def change(node: Node) -> Node:
        return scalars.replace(
            node,
            lambda n: (
                n.parts[part]
                if isinstance(n, Pieces)
                and n.position == pieces.position
                and n.bounds == pieces.bounds
                else None
            ),
        )

    return nest.map(change)


# --- affine addresses ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """Dim `name` of the nest (or of `fold`) becomes `factor * outer + inner`."""

    fold: Fold | None
    name: str
    factor: Expr


def accesses(
    nest: Nest, ranges: Mapping[str, Range]
) -> Iterator[tuple[Load, Mapping[str, Range], Fold | None]]:
    """Every load with the ranges of the dims in scope and the innermost fold around it."""
    seen: set[tuple[Node, Fold | None]] = set()

    def visit(
        node: Node, scope: Mapping[str, Range], fold: Fold | None
    ) -> Iterator[tuple[Load, Mapping[str, Range], Fold | None]]:
        if (node, fold) in seen:
            return
        seen.add((node, fold))
        if isinstance(node, Load):
            yield node, scope, fold
        if isinstance(node, Fold):
            bound = {name: (Expr.const(0), extent - 1) for name, extent in node.dims}
            scope, fold = {**scope, **bound}, node
        for child in node.children:
            yield from visit(child, scope, fold)

    for root in nest.roots():
        yield from visit(root, {**ranges, **nest.ranges()}, None)


def find_split(nest: Nest, scalars: Scalars) -> Split | None:
    """A dim to split, if some address is not affine in it but would be in its parts."""
    for load, scope, fold in accesses(nest, scalars.ranges):
        found = _split_for(address(load.source, load.index, scope), nest, fold, scope)
        if found is not None:
            return found
    return None


def _split_for(
    flat: Expr, nest: Nest, fold: Fold | None, ranges: Mapping[str, Range]
) -> Split | None:
    bound = dict(fold.dims) if fold is not None and fold.form == "fold" else {}
    # A scan runs along one dim.
    along = {node.along for node in nest.nodes() if isinstance(node, Fold)}
    dims = {name: extent for name, extent in nest.dims if name not in along}
    for call in sorted(flat.calls(), key=str):
        for name in sorted(call.lhs.names()):
            extent = dims.get(name, bound.get(name))
            factor = _factor(call, name)
            if extent is None or factor is None or extent.divmod(factor)[1].terms:
                continue
            if not nonnegative(factor, ranges):
                continue  # the dim is counted backwards
            if factor != extent and factor != 1:
                return Split(fold if name in bound else None, name, factor)
    return None


def _factor(call: Call, name: str) -> Expr | None:
    """f such that (a * name + …) floordiv (a * f) is affine in the parts of name."""
    a = call.lhs.coefficient(name)
    if call.kind != "floordiv" or a is None or not a.terms or (a.constant() or 1) < 0:
        return None
    factor, rest = call.rhs.divmod(a)
    return None if rest.terms else factor


def make_affine(nest: Nest, scalars: Scalars) -> Nest:
    """The nest with dims split until no address needs it."""
    scalars.ranges.update(nest.ranges())
    while (split := find_split(nest, scalars)) is not None:
        nest = apply_split(nest, split, scalars)
        scalars.ranges.update(nest.ranges())
    return nest


def _parts(name: str, extent: Expr, factor: Expr, outer: str, inner: str) -> tuple[list[Dim], Expr]:
    dims = [(outer, extent.divmod(factor)[0]), (inner, factor)]
    return dims, factor * Expr.name(outer) + Expr.name(inner)


def apply_split(nest: Nest, split: Split, scalars: Scalars) -> Nest:
    if split.fold is not None:
        return nest.map(lambda node: scalars.replace(node, _fold_splitter(split, scalars)))
    taken = {name for name, _ in nest.dims}
    free = [f"d{i}" for i in range(2 * len(taken) + 2) if f"d{i}" not in taken]
    dims: list[Dim] = []
    names: dict[str, Expr] = {}
    for name, extent in nest.dims:
        if name != split.name:
            dims.append((name, extent))
            continue
        parts, names[name] = _parts(name, extent, split.factor, name, free[0])
        dims += parts
    moved = Nest(tuple(dims), nest.stores, nest.checks)
    scalars.ranges.update(moved.ranges())
    return moved.rewrite(scalars, names)


def _fold_splitter(split: Split, scalars: Scalars):
    def change(node: Node) -> Node | None:
        if node is not split.fold:
            return None
        assert isinstance(node, Fold)
        opened, body = scalars.open(node)
        dims: list[Dim] = []
        names: dict[str, Expr] = {}
        for (old, extent), (fresh, _) in zip(node.dims, opened, strict=True):
            if old != split.name:
                dims.append((fresh, extent))
                continue
            outer = scalars.fresh(extent.divmod(split.factor)[0])
            inner = scalars.fresh(split.factor)
            parts, names[fresh] = _parts(old, extent, split.factor, outer, inner)
            dims += parts
        body = scalars.rewrite(body, names)
        return scalars.fold(node.kind, dims, body, node.type)

    return change


# --- scans --------------------------------------------------------------------------------------


def widen_scans(nest: Nest, scalars: Scalars) -> Nest:
    """Running sums and products of f32 in f64, as PyTorch computes them: the roundings of a long
    one would add up, and its last elements depend on how it is cut into tiles."""

    def change(node: Node) -> Node | None:
        if not isinstance(node, Fold) or node.form != "scan":
            return None
        if node.type != f32 or node.kind not in ("add", "mul"):
            return None
        body = convert(scalars, scalars.replace(node.body, change), f32, f64)
        wide = scalars.fold(node.kind, node.dims, body, f64, node.form, node.along)
        return convert(scalars, wide, f64, f32)

    return nest.map(lambda node: scalars.replace(node, change))


def cut_to_known(nest: Nest, scalars: Scalars) -> Sequence[Nest]:
    """What `nest` does, as nests without pieces whose addresses are as affine as can be."""
    scalars.ranges.update(nest.ranges())
    nest = widen_scans(nest, scalars)
    return [make_affine(part, scalars) for part in split_pieces(nest, scalars)]


def distinguish(parts: Sequence[Nest], scalars: Scalars) -> list[Nest]:
    """The parts with other names for dims whose name stands for another extent in an earlier one:
    the pieces of a dim are of different lengths."""
    extents: dict[str, Expr] = {}
    found: list[Nest] = []
    for part in parts:
        names: dict[str, Expr] = {}
        dims: list[Dim] = []
        taken = {name for name, _ in part.dims}
        for name, extent in part.dims:
            if extents.get(name, extent) != extent:
                fresh = next(n for i in count() if (n := f"d{i}") not in {*extents, *taken})
                names[name], name = Expr.name(fresh), fresh
            extents[name] = extent
            dims.append((name, extent))
        found.append(replace(part, dims=tuple(dims)).rewrite(scalars, names) if names else part)
    return found
