"""Which dim the cores share and how large the tiles are: the policy of the lowering to kernels.

Sizes are found by halving: all dims start whole (the shared one a core's part of it), and while a
computed tile or what is live in SRAM is too large, its largest parallel dim is halved, its fold
dims only when nothing else is left, for a fold walked in chunks may have to read its operand again.

Two kinds of dims are walked in order, by one core.  A scan runs along a dim, which is the innermost
loop, so that what it carries spans the tiles of the loops around.  Dims that a store's address does
not contain, such as those of a scatter's index, may meet the same element again: they are walked as
written, so that only the last of them that has a tile of more than one position may be in parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from math import ceil, prod
from typing import TypeAlias

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from lpu_mlir.dialects.expr import Expr, Range
from lpu_mlir.dialects.lpu import element_bytes
from lpu_mlir.model.target import Target
from lpu_mlir.nests.nest import Nest
from lpu_mlir.nests.online import Online, find_online
from lpu_mlir.nests.scalar import Fold, Index, Load, Node, Op, Pieces, Scalars, as_contraction, walk
from lpu_mlir.tiling.access import INDEXED, make_access

DimKey: TypeAlias = "str | tuple[Fold, str]"
"""A dim of the nest by name, or one of a fold: sibling folds use the same names."""

SYMBOLIC_TILE = 512
"""Capacity of a tile along a dim of unknown extent."""

WALK_LENGTH = 64
"""Positions of a chunk of a walk over scores, below which the loop costs more than larger tiles."""

LAST = 1 << 20
"""The cost of halving the dim of a fold, for then operands may have to be read again."""


@dataclass(frozen=True)
class Walk:
    """Which dims of a nest are walked in order."""

    scanned: tuple[str, ...]
    """The dims that scans run along."""
    ordered: tuple[str, ...]
    """The dims, from the outermost, whose points may store to one element in turn."""

    @property
    def sequential(self) -> frozenset[str]:
        return frozenset((*self.scanned, *self.ordered))

    @property
    def whole(self) -> frozenset[str]:
        """Dims that must be in one tile: there is one innermost loop to carry something along."""
        return frozenset(self.scanned) if len(self.scanned) > 1 else frozenset()


def scans(nest: Nest) -> list[Fold]:
    """The scans of a nest, operands before users."""
    return [node for node in nest.nodes() if isinstance(node, Fold) and node.form == "scan"]


def make_walk(nest: Nest, outs: Sequence[SSAValue], scalars: Scalars) -> Walk:
    """
    How a nest must be walked.

    Raises NotImplementedError for a scan that is not along a dim of the nest, or that would have to
    go on while other dims are walked in order.
    """
    ranges = {**scalars.ranges, **nest.ranges()}
    names = [name for name, _ in nest.dims]
    every = frozenset(names)
    met_again: set[str] = set()
    for store in nest.stores:
        direct = make_access(store, outs[store.out], ranges, scalars, every).dims
        met_again |= every - set(direct)
    bound = {f.dims[0][0] for f in scans(nest)}
    scanned = tuple(sorted({f.along for f in scans(nest)} - bound, key=names.index))
    if any(f.free - bound - every for f in scans(nest)):
        raise NotImplementedError("a scan inside a fold")
    walk = Walk(scanned, tuple(n for n in names if n in met_again))
    if any(name in walk.ordered[:-1] for name in scanned):
        raise NotImplementedError(f"a scan along {scanned} of what is scattered by {walk.ordered}")
    return walk


def require_order(nest: Nest, outs: Sequence[SSAValue], scalars: Scalars) -> None:
    """Raise NotImplementedError if the pieces of a nest, one after the other, are not its order."""
    pieces = [node for node in nest.nodes() if isinstance(node, Pieces)]
    if not pieces:
        return
    walk = make_walk(nest, outs, scalars)
    cut = {name for node in pieces for name in node.position.names()}
    # Pieces of the outermost dim come in its order.
    if cut & {*walk.ordered[1:], *walk.scanned}:
        raise NotImplementedError(f"pieces along {sorted(cut)}, which is walked in order")


def strip_widening(node: Node) -> Node:
    """The operand of a contraction as it is in memory: the MPU widens by itself."""
    if isinstance(node, Op) and node.op is arith.ExtFOp and isinstance(node.operands[0], Load):
        return node.operands[0]
    return node


@dataclass(frozen=True)
class Tile:
    """A tile that the nest needs: of what, the dims that step along each of its axes and by how
    many elements, its bytes per element, computed or moved."""

    node: Node
    axes: tuple[tuple[tuple[DimKey, int], ...], ...]
    element_bytes: int
    computed: bool

    @property
    def dims(self) -> tuple[DimKey, ...]:
        return tuple(dim for axis in self.axes for dim, _ in axis)

    @property
    def overlaps(self) -> bool:
        """Whether it is seen through windows that overlap."""
        return any(len(axis) > 1 for axis in self.axes)

    def bytes(self, sizes: Mapping[DimKey, int]) -> int:
        """Its size, given the positions along each dim."""
        along = (1 + sum(step * (sizes[dim] - 1) for dim, step in axis) for axis in self.axes)
        return prod(along) * self.element_bytes


@dataclass
class Needs:
    """Every tile that evaluating a nest makes, and the views that loads become."""

    nest: Nest
    scalars: Scalars
    outs: Sequence[SSAValue]
    tiles: list[Tile] = field(default_factory=list[Tile])
    extents: dict[DimKey, Expr] = field(default_factory=dict[DimKey, Expr])

    def __post_init__(self) -> None:
        self.seen: set[tuple[Node, tuple[DimKey, ...]]] = set()
        self.online = find_online(self.nest, self.scalars)
        self.walked = walked_loads(self.online.values())
        self.extents.update(dict(self.nest.dims))
        ranges: dict[str, Range] = {**self.scalars.ranges, **self.nest.ranges()}
        scope: dict[str, DimKey] = {name: name for name, _ in self.nest.dims}
        for root in self.nest.roots():
            self.visit(root, scope, ranges)
        for store in self.nest.stores:
            target = self.outs[store.out]
            access = make_access(store, target, ranges, self.scalars, frozenset(scope))
            # Dims that are not in the address are in the positions of the indexed axis.
            rest = sorted(scope.keys() - {*access.dims})
            stored = [n for dim in access.dims for n in (rest if dim == INDEXED else (dim,))]
            self.arrange(store.value, stored, scope, ranges)
            if access.index is not None:
                self.arrange(access.index, rest, scope, ranges)

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
                axes = [
                    tuple((scope[dim], step) for dim, step in axis.steps)
                    for axis in access.axes
                    if INDEXED not in axis.dims
                ]
                axes += [((scope[dim], 1),) for dim in sorted(inner)]
                self.tiles.append(Tile(node, tuple(axes), element_bytes(node.type), computed=False))
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
        if fold.form == "scan":
            # It is computed tile by tile of the dim that it runs along.
            ((name, _),) = fold.dims
            inner = {**scope, name: scope[fold.along]}
            return self.visit(fold.body, inner, {**ranges, name: ranges[fold.along]})
        owner = fold
        if (online := self.online.get(fold)) is not None:
            # All folds of a walk are over the dims of one.
            owner, fold = online.highest, online.sums.get(fold, fold)
        keys: dict[str, DimKey] = {name: (owner, name) for name, _ in fold.dims}
        self.extents.update((keys[name], extent) for name, extent in fold.dims)
        inner = {**scope, **keys}
        bound = {name: (Expr.const(0), extent - 1) for name, extent in fold.dims}
        inside = {**ranges, **bound}
        factors = as_contraction(fold)
        for root in (fold.body,) if factors is None else map(strip_widening, factors):
            self.visit(root, inner, inside)
        if factors is None and not self.folds_in_place(fold, scope, inside):
            # What is the same along a dim of the fold is there as often as it is folded.
            names = [n for n in scope if n in fold.body.free] + list(keys)
            self.arrange(fold.body, names, inner, inside)
        for factor in map(strip_widening, factors or ()):
            self.widen(factor, inner, inside)
        return None

    def folds_in_place(
        self, fold: Fold, scope: Mapping[str, DimKey], ranges: Mapping[str, Range]
    ) -> bool:
        """Whether a fold takes a loaded tile as it is: what is left has its dims in order."""
        if not isinstance(fold.body, Load) or fold.form != "fold":
            return False
        dims = make_access(fold.body, fold.body.source, ranges, self.scalars).dims
        bound = {name for name, _ in fold.dims}
        kept = [name for name in dims if name not in bound]
        return frozenset(dims) == fold.body.free and kept == [
            n for n in scope if n in fold.body.free
        ]

    def arrange(
        self,
        node: Node,
        order: Sequence[str],
        scope: Mapping[str, DimKey],
        ranges: Mapping[str, Range],
    ) -> None:
        """Counts the copy of a loaded tile whose axes are not in the order in which it is used, and
        the tile of a value that is the same along some dims."""
        if isinstance(node, Fold):
            return
        if not isinstance(node, Load):
            if node.free != frozenset(order) or not node.children:
                self.need(tuple(scope[n] for n in order), node, computed=True)
        elif make_access(node, node.source, ranges, self.scalars).dims != tuple(order):
            self.need(tuple(scope[n] for n in order), node, computed=True)

    def widen(self, factor: Node, scope: Mapping[str, DimKey], ranges: Mapping[str, Range]) -> None:
        """Counts the tile over all dims of a factor whose window does not step along each."""
        if isinstance(factor, Load):
            access = make_access(factor, factor.source, ranges, self.scalars)
            if access.index is None and frozenset(access.dims) != factor.free:
                self.need(tuple(scope[n] for n in sorted(factor.free)), factor, computed=True)

    def need(self, dims: tuple[DimKey, ...], node: Node, computed: bool) -> None:
        axes = tuple(((dim, 1),) for dim in dims)
        self.tiles.append(Tile(node, axes, element_bytes(node.type), computed))


def walked_loads(walks: Iterable[Online]) -> list[frozenset[str]]:
    """The dims of every load that moves along a walk over scores."""
    found: dict[Load, None] = {}
    for online in walks:
        names = {name for name, _ in online.highest.dims}
        for node in walk([online.score, *(fold.body for fold in online.sums.values())]):
            if isinstance(node, Load) and node.free & names:
                found[node] = None
    return [load.free for load in found]


# --- the plan -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """`shared`: the dim that the cores divide; `sizes`: tile capacity of every dim;
    `order`: the nest's dims from the outermost loop inwards; `online`: folds made in one walk."""

    shared: str | None
    sizes: Mapping[DimKey, int]
    order: tuple[str, ...]
    walk: Walk
    online: Mapping[Fold, Online]


@dataclass(frozen=True)
class Part:
    """A part of a nest, how it must be walked and the tiles that it needs."""

    nest: Nest
    walk: Walk
    needs: Needs

    @property
    def dims(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.nest.dims)

    def has_own_scores(self, name: str) -> bool:
        """Whether the scores that are walked over differ by a dim."""
        return all(name in online.highest.free for online in self.needs.online.values())


def make_part(nest: Nest, outs: Sequence[SSAValue], scalars: Scalars) -> Part:
    """Raises NotImplementedError as `make_walk` does."""
    return Part(nest, make_walk(nest, outs, scalars), Needs(nest, scalars, outs))


def is_within(part: Part, other: Part) -> bool:
    """Whether a part has fewer dims than another one, which makes all that it stores."""
    if not part.dims or not part.dims < other.dims:
        return False
    made = set(other.nest.nodes())
    return all(n in made for n in part.nest.nodes() if isinstance(n, Load | Fold))


@dataclass
class Planner:
    """Sizes for all parts of one phase: what they have in common has one size."""

    parts: Sequence[Part]
    target: Target
    hints: Mapping[str, int]

    def __post_init__(self) -> None:
        self.extents: dict[DimKey, Expr] = {}
        for part in self.parts:
            self.extents.update(part.needs.extents)
        self.shared = self.choose_shared()
        self.tiles = [
            (tile, shared)
            for part, shared in zip(self.parts, self.shared, strict=True)
            for tile in part.needs.tiles
        ]
        """All tiles, and the dim that is divided in the part that makes them.  What two parts need
        counts twice: in loops of their own, they have it twice."""
        windowed = [{a[0][0] for a in t.axes if len(a) == 1} for t, _ in self.tiles if t.overlaps]
        self.apart = frozenset[DimKey].intersection(*map(frozenset, windowed)) if windowed else ()
        """Dims whose parts have no elements of overlapping windows in common."""

    def likely(self, extent: Expr) -> int:
        return max(1, extent.evaluate(self.hints))

    def widest(self, part: Part) -> str | None:
        """Of the dims with about as much to divide as any, the one whose parts read least together;
        ties go to the one with most to divide, then to that on which most folds depend, for every
        core makes the others, then to the outermost. One by which scores do not differ comes last:
        each core would compute all of them."""
        dims = [
            (min(self.likely(extent), self.target.cores), -position, name)
            for position, (name, extent) in enumerate(part.nest.dims)
            if name not in part.walk.sequential
        ]
        if not dims:
            return None
        dims = [dim for dim in dims if dim[0] > 1 and part.has_own_scores(dim[2])] or dims
        most = max(dims)[0]
        enough = [dim for dim in dims if dim[0] * 2 >= most]
        folds = Counter(
            dim for tile in part.needs.tiles if isinstance(tile.node, Fold) for dim in tile.dims
        )
        return min(
            enough,
            key=lambda dim: (self.read_by_all(part, dim[2]), -dim[0], -folds[dim[2]], -dim[1]),
        )[2]

    def read_by_all(self, part: Part, shared: str) -> int:
        """Bytes that the cores read for their shares of a dim, what is the same for all once; but
        not if the shares have no known size, for then nothing is read for all at once."""
        whole = {key: self.likely(extent) for key, extent in part.needs.extents.items()}
        cores = min(whole[shared], self.target.cores)
        share = {**whole, shared: ceil(whole[shared] / cores)}
        each = cores if self.extents[shared].constant() is None else 1
        total = 0
        for tile in part.needs.tiles:
            if tile.computed:
                continue
            overlaps = any(len(axis) > 1 and shared in dict(axis) for axis in tile.axes)
            differs = any(shared in dict(axis) for axis in tile.axes)
            if overlaps:
                total += tile.bytes(share) * cores
            else:
                total += tile.bytes(whole) * (1 if differs else each)
        return total

    def choose_shared(self) -> list[str | None]:
        """The dim that the cores divide in each part.  A part that only stores what another one
        makes goes with that."""
        widest = [self.widest(part) for part in self.parts]
        found = list(widest)
        for i, part in enumerate(self.parts):
            around = [j for j, other in enumerate(self.parts) if is_within(part, other)]
            if around:
                shared = widest[around[0]]
                found[i] = shared if shared in part.dims else None
        return found

    def per_core(self, name: str) -> int:
        """The positions of a dim that one core has, if its extent is known."""
        return max(1, ceil((self.extents[name].constant() or 0) / self.target.cores))

    def whole(self, key: DimKey) -> int:
        """The largest tile worth having along a dim."""
        extent = self.extents[key]
        size = extent.constant()
        if size is None:
            return min(SYMBOLIC_TILE, max(self.likely(extent), 64))
        walked = [
            shared
            for part, shared in zip(self.parts, self.shared, strict=True)
            if isinstance(key, str) and key in part.dims
        ]
        if isinstance(key, str) and all(shared == key for shared in walked):
            return self.per_core(key)
        return max(1, size)

    def clipped(self, sizes: Mapping[DimKey, int], shared: str | None) -> Mapping[DimKey, int]:
        """The capacities in a part that has `shared` divided."""
        if shared is None or self.extents[shared].constant() is None:
            return sizes
        return {**sizes, shared: min(sizes[shared], self.per_core(shared))}

    def weighed(self, sizes: Mapping[DimKey, int]) -> list[tuple[int, Tile]]:
        """All tiles with their bytes."""
        clipped = {shared: self.clipped(sizes, shared) for shared in dict.fromkeys(self.shared)}
        return [(tile.bytes(clipped[shared]), tile) for tile, shared in self.tiles]

    def shrink(self, sizes: dict[DimKey, int], tile: Tile) -> bool:
        """Halves one dim of a tile, of the largest among those that cost least; False if none can
        be."""
        whole = {name for part in self.parts for name in part.walk.whole}
        dims = [dim for dim in tile.dims if sizes[dim] > 1 and dim not in whole]
        if not dims:
            return False
        best = min(
            dims, key=lambda dim: (self.cost(dim, sizes), dim not in self.apart, -sizes[dim])
        )
        sizes[best] = ceil(sizes[best] / 2)
        self.keep_order(sizes)
        return True

    def cost(self, dim: DimKey, sizes: Mapping[DimKey, int]) -> int:
        """How reluctantly a dim is halved. Around a walk over scores, another trip repeats the
        loads that do not depend on its dim, and a walk may be in parts of some length."""
        if not isinstance(dim, str):
            walked = any(dim[0] in part.needs.online for part in self.parts)
            return 1 if walked and sizes[dim] > WALK_LENGTH else LAST
        around = [part for part in self.parts if dim in part.dims]
        if not all(part.has_own_scores(dim) for part in around):
            return LAST - 1
        repeated = sum(dim not in names for part in around for names in part.needs.walked)
        return repeated + 1 if repeated else 0

    def keep_order(self, sizes: dict[DimKey, int]) -> None:
        """One position at a time outside an ordered dim that is in parts."""
        for part in self.parts:
            in_parts = False
            for name in reversed(part.walk.ordered):
                if in_parts:
                    sizes[name] = 1
                extent = self.extents[name].constant()
                in_parts |= extent is None or sizes[name] < extent

    def choose_sizes(self) -> dict[DimKey, int] | None:
        """Tile capacities of all dims; None if SRAM has no room for several parts with tiles as
        large as each alone could have."""
        sizes = {key: self.whole(key) for key in self.extents}
        self.keep_order(sizes)
        while True:
            weighed = self.weighed(sizes)
            computed = (entry for entry in weighed if entry[1].computed)
            size, tile = max(computed, key=lambda entry: entry[0], default=(0, None))
            if size <= self.target.tile_bytes:
                if self.fit(weighed):
                    return sizes
                if len(self.parts) > 1:
                    return None
                tile = max(weighed, key=lambda entry: entry[0])[1]
            if tile is None or not self.shrink(sizes, tile):
                return sizes

    def fit(self, weighed: Sequence[tuple[int, Tile]]) -> bool:
        """Whether SRAM has room for all tiles at once.  A quarter is left between parts, for what
        loops carry and what lies between tiles: a part alone could not have made it too small."""
        depth = self.target.channel_depth
        live = sum(size * (1 if tile.computed else depth) for size, tile in weighed)
        room = self.target.sram_bytes
        return live <= (room if len(self.parts) == 1 else room * 3 // 4)

    def plan(self, part: Part, shared: str | None, sizes: Mapping[DimKey, int]) -> Plan:
        own = self.clipped(sizes, shared)
        for name in part.walk.whole:
            if self.extents[name].constant() != own[name]:
                raise NotImplementedError(
                    f"scans along several dims, one of extent {self.extents[name]}"
                )
        order = LoopOrder(self, part, own, shared).choose()
        return Plan(shared, own, order, part.walk, part.needs.online)


@dataclass(frozen=True)
class LoopOrder:
    """The order of the loops of one part, given the tile sizes."""

    planner: Planner
    part: Part
    sizes: Mapping[DimKey, int]
    shared: str | None

    def trips(self, name: str) -> int:
        extent = self.planner.likely(self.planner.extents[name])
        part = ceil(extent / self.planner.target.cores) if name == self.shared else extent
        return ceil(part / self.sizes[name])

    def choose(self) -> tuple[str, ...]:
        """The loop order that moves fewest bytes, but for the dims that have their place."""
        names = [name for name, _ in self.part.nest.dims]
        looped = [name for name in names if self.trips(name) > 1]
        order = [name for name in names if name not in looped]
        order += looped if len(looped) > 4 else self.cheapest(looped)
        ordered = self.part.walk.ordered
        places = sorted(order.index(name) for name in ordered)
        for place, name in zip(places, ordered, strict=True):
            order[place] = name
        # A stable sort: what scans run along goes last.
        return tuple(sorted(order, key=lambda name: name in self.part.walk.scanned))

    def cheapest(self, looped: Sequence[str]) -> tuple[str, ...]:
        """The permutation of some loops that moves fewest bytes: all loops from the outermost to
        the last that a load depends on repeat it."""
        loads = [tile for tile in self.part.needs.tiles if not tile.computed]

        def moved(order: Sequence[str]) -> int:
            total = 0
            for load in loads:
                last = max((i for i, n in enumerate(order) if n in load.dims), default=-1)
                repeats = prod(self.trips(n) for n in order[: last + 1])
                total += repeats * load.bytes(self.sizes)
            return total

        return min(permutations(looped), key=moved)


def make_plans(
    parts: Sequence[Part], target: Target, hints: Mapping[str, int]
) -> list[Plan] | None:
    """
    Cores, tile sizes and loop order for parts in one phase; None if that would make their tiles
    smaller, for all have to be in SRAM.

    Raises NotImplementedError where dims that must be in one tile have no known or a too large
    extent.
    """
    planner = Planner(parts, target, hints)
    sizes = planner.choose_sizes()
    if sizes is None:
        return None
    return [
        planner.plan(part, shared, sizes)
        for part, shared in zip(parts, planner.shared, strict=True)
    ]


def used_cores(nest: Nest, plan: Plan, target: Target) -> int:
    """How many cores have something to do; all, when that depends on symbols."""
    if plan.shared is None:
        return 1
    extent = dict(nest.dims)[plan.shared]
    size = extent.constant()
    if size is None:
        return target.cores
    chunk = max(1, ceil(size / target.cores))
    return max(1, ceil(size / chunk))
