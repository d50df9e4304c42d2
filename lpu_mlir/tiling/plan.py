"""Which dim the cores share and how large the tiles are: the policy of the lowering to kernels.

Sizes are found by halving: all dims start whole (the shared one a core's part of it), and while a
computed tile or what is live in SRAM is too large, its largest parallel dim is halved, its fold dims
only when nothing else is left, for a fold walked in chunks may have to read its operand again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from math import ceil, prod
from typing import TypeAlias

from xdsl.dialects import arith

from lpu_mlir.dialects.expr import Expr, Range
from lpu_mlir.dialects.lpu import element_bytes
from lpu_mlir.model.target import Target
from lpu_mlir.nests.nest import Nest
from lpu_mlir.nests.scalar import Fold, Index, Load, Node, Op, Scalars, as_contraction
from lpu_mlir.tiling.access import INDEXED, Access, make_access

DimKey: TypeAlias = "str | tuple[Fold, str]"
"""A dim of the nest by name, or one of a fold: sibling folds use the same names."""

SYMBOLIC_TILE = 512
"""Capacity of a tile along a dim of unknown extent."""


def is_whole_only(nest: Nest) -> frozenset[str]:
    """Dims that must be in one tile: those that a scan runs along."""
    return frozenset(n.along for n in nest.nodes() if isinstance(n, Fold) and n.along)


def strip_widening(node: Node) -> Node:
    """The operand of a contraction as it is in memory: the MPU widens by itself."""
    if isinstance(node, Op) and node.op is arith.ExtFOp and isinstance(node.operands[0], Load):
        return node.operands[0]
    return node


@dataclass(frozen=True)
class Tile:
    """A tile that the nest needs: the dims it spans, its bytes per element, computed or moved."""

    dims: tuple[DimKey, ...]
    element_bytes: int
    computed: bool


@dataclass
class Needs:
    """Every tile that evaluating a nest makes, and the views that loads become."""

    nest: Nest
    scalars: Scalars
    tiles: list[Tile] = field(default_factory=list[Tile])
    extents: dict[DimKey, Expr] = field(default_factory=dict[DimKey, Expr])

    def __post_init__(self) -> None:
        self.seen: set[tuple[Node, tuple[DimKey, ...]]] = set()
        self.extents.update(dict(self.nest.dims))
        ranges: dict[str, Range] = {**self.scalars.ranges, **self.nest.ranges()}
        scope: dict[str, DimKey] = {name: name for name, _ in self.nest.dims}
        for root in self.nest.roots():
            self.visit(root, scope, ranges)

    def visit(self, node: Node, scope: Mapping[str, DimKey], ranges: Mapping[str, Range]) -> None:
        dims = tuple(scope[name] for name in sorted(node.free))
        if (node, dims) in self.seen:
            return
        self.seen.add((node, dims))
        match node:
            case Load():
                access = make_access(node, node.source, ranges, self.scalars)
                if access.index is not None:
                    self.visit(access.index, scope, ranges)
                inner = access.index.free if access.index is not None else frozenset[str]()
                names = sorted({*access.dims, *inner} - {INDEXED})
                self.need(tuple(scope[n] for n in names), node, computed=False)
            case Fold():
                self.visit_fold(node, scope, ranges)
                self.need(dims, node, computed=True)
            case Op() | Index():
                if isinstance(node, Index) or node.operands:
                    self.need(dims, node, computed=True)
                for child in node.children:
                    self.visit(child, scope, ranges)
            case _:
                raise TypeError(f"unexpected node {node}")

    def visit_fold(
        self, fold: Fold, scope: Mapping[str, DimKey], ranges: Mapping[str, Range]
    ) -> None:
        keys: dict[str, DimKey] = {name: (fold, name) for name, _ in fold.dims}
        self.extents.update((keys[name], extent) for name, extent in fold.dims)
        inner = {**scope, **keys}
        bound = {name: (Expr.const(0), extent - 1) for name, extent in fold.dims}
        inside = {**ranges, **bound}
        factors = as_contraction(fold)
        for root in (fold.body,) if factors is None else map(strip_widening, factors):
            self.visit(root, inner, inside)

    def need(self, dims: tuple[DimKey, ...], node: Node, computed: bool) -> None:
        self.tiles.append(Tile(dims, element_bytes(node.type), computed))


# --- the plan -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """`shared`: the dim that the cores divide; `sizes`: tile capacity of every dim;
    `order`: the nest's dims from the outermost loop inwards."""

    shared: str | None
    sizes: Mapping[DimKey, int]
    order: tuple[str, ...]


@dataclass
class Planner:
    needs: Needs
    target: Target
    hints: Mapping[str, int]
    fixed: frozenset[str]

    def likely(self, extent: Expr) -> int:
        return max(1, extent.evaluate(self.hints))

    def choose_shared(self, unshareable: frozenset[str]) -> str | None:
        """The dim with most work to divide; ties go to the outermost."""
        candidates = [
            (min(self.likely(extent), self.target.cores), -position, name)
            for position, (name, extent) in enumerate(self.needs.nest.dims)
            if name not in unshareable
        ]
        return max(candidates)[2] if candidates else None

    def whole(self, key: DimKey, shared: str | None) -> int:
        """The largest tile worth having along a dim."""
        extent = self.needs.extents[key]
        size = extent.constant()
        if size is None:
            size = min(SYMBOLIC_TILE, max(self.likely(extent), 64))
            return size
        return max(1, ceil(size / self.target.cores) if key == shared else size)

    def bytes(self, tile: Tile, sizes: Mapping[DimKey, int]) -> int:
        return prod(sizes[dim] for dim in tile.dims) * tile.element_bytes

    def excess(self, sizes: Mapping[DimKey, int]) -> Tile | None:
        """A tile that is too large, if there is one."""
        tiles = self.needs.tiles
        computed = max(
            (t for t in tiles if t.computed), key=lambda t: self.bytes(t, sizes), default=None
        )
        if computed is not None and self.bytes(computed, sizes) > self.target.tile_bytes:
            return computed
        depth = self.target.channel_depth
        live = sum(self.bytes(t, sizes) * (1 if t.computed else depth) for t in tiles)
        if live > self.target.sram_bytes:
            return max(tiles, key=lambda t: self.bytes(t, sizes))
        return None

    def shrink(self, sizes: dict[DimKey, int], tile: Tile) -> bool:
        """Halves one dim of a tile; False if none can be."""
        for wanted in (True, False):
            dims = [
                dim
                for dim in tile.dims
                if sizes[dim] > 1 and isinstance(dim, str) == wanted and dim not in self.fixed
            ]
            if dims:
                largest = max(dims, key=lambda dim: sizes[dim])
                sizes[largest] = ceil(sizes[largest] / 2)
                return True
        return False

    def trips(self, name: str, sizes: Mapping[DimKey, int], shared: str | None) -> int:
        extent = self.likely(self.needs.extents[name])
        part = ceil(extent / self.target.cores) if name == shared else extent
        return ceil(part / sizes[name])

    def choose_order(self, sizes: Mapping[DimKey, int], shared: str | None) -> tuple[str, ...]:
        """The loop order that moves fewest bytes: a load is repeated by every loop around it."""
        names = [name for name, _ in self.needs.nest.dims]
        looped = [name for name in names if self.trips(name, sizes, shared) > 1]
        still = [name for name in names if name not in looped]
        if len(looped) > 4:
            return (*still, *looped)
        loads = [tile for tile in self.needs.tiles if not tile.computed]

        def moved(order: Sequence[str]) -> int:
            total = 0
            for load in loads:
                last = max((i for i, n in enumerate(order) if n in load.dims), default=-1)
                repeats = prod(self.trips(n, sizes, shared) for n in order[: last + 1])
                total += repeats * self.bytes(load, sizes)
            return total

        return (*still, *min(permutations(looped), key=moved))


def make_plan(
    needs: Needs, target: Target, hints: Mapping[str, int], unshareable: frozenset[str]
) -> Plan:
    """Cores, tile sizes and loop order for a nest."""
    fixed = is_whole_only(needs.nest)
    planner = Planner(needs, target, hints, fixed)
    shared = planner.choose_shared(unshareable | fixed)
    sizes: dict[DimKey, int] = {key: planner.whole(key, shared) for key in needs.extents}
    while (tile := planner.excess(sizes)) is not None:
        if not planner.shrink(sizes, tile):
            break
    return Plan(shared, sizes, planner.choose_order(sizes, shared))
