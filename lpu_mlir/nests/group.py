"""Several nests as one: which of their dims are the same, and the parts that come of it.

A group is a nest that may have been several.  Two dims are one if they step equally through what
both nests load, or through what one stores and the other loads: then equal loads are one, and a
value takes the place of a load of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from xdsl.ir import SSAValue

from lpu_mlir.dialects import lpu_loop
from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu_loop import Dim, NestOp, indirect_name
from lpu_mlir.nests.nest import Label, Nest, Store, form_tree
from lpu_mlir.nests.scalar import Fold, Load, Node, Scalars
from lpu_mlir.nests.traffic import Traffic


@dataclass(eq=False)
class Group:
    """A nest that may have been several: its parts, and what they store to."""

    ops: list[NestOp]
    """The nests that it was; it comes in the place of the first of them."""
    position: int
    parts: list[Nest]
    outs: list[SSAValue]
    results: list[SSAValue]
    loads: dict[Load, int]
    """What it loads, and how many bytes that is."""

    @property
    def name(self) -> Label:
        return Label(self.ops[0], self.position)

    def sources(self) -> dict[SSAValue, list[Load]]:
        found: dict[SSAValue, list[Load]] = {}
        for load in self.loads:
            found.setdefault(load.source, []).append(load)
        return found


# --- what parts store ----------------------------------------------------------------------------


def is_ordered(part: Nest) -> bool:
    """Whether two points may store to one element, so that their order counts."""
    names = [name for name, _ in part.dims]
    for store in part.stores:
        if store.indirect and not at_one_place(store):
            return True
        for name in names:
            steps = [e.coefficient(name) for e in store.index]
            known = [None if step is None else step.constant() for step in steps]
            if any(step is None or step < 0 for step in known) or not any(known):
                return True
    return False


def at_one_place(store: Store) -> bool:
    """Whether one axis has a position that comes from data, on which no other axis depends."""
    if len(store.indirect) != 1 or store.index.count(Expr.name(indirect_name(0))) != 1:
        return False
    return not any(store.indirect[0].free & e.names() for e in store.index)


def has_scan(part: Nest) -> bool:
    return any(isinstance(node, Fold) and node.form == "scan" for node in part.nodes())


def placed(part: Nest, store: Store, out: SSAValue) -> bool:
    """Whether each element of a destination is stored once, at a point of its own."""
    if store.kind != "replace" or store.indirect or not isinstance(out.owner, lpu_loop.EmptyOp):
        return False
    dims = [str(e) for e in store.index if e.constant() != 0]
    return sorted(dims) == sorted(name for name, _ in part.dims)


def definitions(group: Group) -> dict[SSAValue, tuple[Nest, Store]]:
    """The results of a group that a value at every element stands for."""
    stores = [(part, store) for part in group.parts for store in part.stores]
    counts = Counter(store.out for _, store in stores)
    return {
        group.results[store.out]: (part, store)
        for part, store in stores
        if counts[store.out] == 1 and placed(part, store, group.outs[store.out])
    }


# --- dims in common -----------------------------------------------------------------------------


def common_dims(parts: Sequence[Nest]) -> dict[str, Expr]:
    """The dims that all parts have; none if their order counts."""
    if any(is_ordered(part) for part in parts):
        return {}
    return {name: e for name, e in parts[0].dims if all((name, e) in p.dims for p in parts)}


def alike(mine: Expr, its: Expr, dims: Mapping[str, Expr]) -> tuple[str, str] | None:
    """The dims that two positions along one axis step with, if they do so equally."""
    ours, theirs = mine.names() & dims.keys(), [n for n in its.names() if n[0] == "d"]
    if len(ours) != 1 or len(theirs) != 1:
        return None
    [name] = ours
    return (name, theirs[0]) if mine == its.substitute({theirs[0]: Expr.name(name)}) else None


def votes(
    first: Nest, first_made: Sequence[tuple[SSAValue, Store]], second: Group
) -> Counter[tuple[str, str]]:
    """How many bytes speak for a dim of a part being one of another group: both step equally
    through what both load, or what one stores and the other loads."""
    places: dict[SSAValue, list[Sequence[Expr]]] = {}
    for node in first.nodes():
        if isinstance(node, Load):
            places.setdefault(node.source, []).append(node.index)
    for result, store in first_made:
        places.setdefault(result, []).append(store.index)
    found = Counter[tuple[str, str]]()
    dims = dict(first.dims)
    for load, size in second.loads.items():
        for index in places.get(load.source, ()):
            pairs = zip(index, load.index, strict=True)
            alikes = dict.fromkeys(alike(mine, its, dims) for mine, its in pairs)
            found.update({pair: size + 1 for pair in alikes if pair is not None})
    return found


def match_dims(first: Group, second: Group) -> dict[str, str]:
    """Dims of `second` -> the dims of a part of `first` that they are; of the part for which most
    bytes speak."""
    theirs = common_dims(second.parts)
    if not theirs:
        return {}
    made = definitions(first)
    best, most = dict[str, str](), 0
    for part in first.parts:
        if is_ordered(part):
            continue
        own = [(result, store) for result, (p, store) in made.items() if p is part]
        dims, mapping, total = dict(part.dims), dict[str, str](), 0
        for (mine, its), size in votes(part, own, second).most_common():
            if its in mapping or mine in mapping.values() or theirs.get(its) != dims[mine]:
                continue
            mapping[its] = mine
            total += size
        if total > most:
            best, most = mapping, total
    return best


# --- mechanics ----------------------------------------------------------------------------------


def rename(
    part: Nest, names: Mapping[str, str], first: Group, scalars: Scalars, moved: int
) -> Nest:
    """A part with other names for its dims, the values that `first` stores in the place of loads
    of them, and its destinations after those of `first`."""
    made = definitions(first)

    def on_load(load: Load) -> Node | None:
        if load.source not in made or load.indirect:
            return None
        store = made[load.source][1]
        return store.value if load.index == store.index else None

    own = [(names[name], extent) for name, extent in part.dims]
    ours = [dim for p in first.parts for dim in p.dims if dim in own]
    dims = dict.fromkeys((*ours, *own))
    stores = tuple(replace(store, out=store.out + moved) for store in part.stores)
    new = Nest(tuple(dims), stores, part.checks)
    scalars.ranges.update(new.ranges())
    return new.rewrite(scalars, {old: Expr.name(n) for old, n in names.items()}, on_load)


def join(parts: Sequence[Nest], more: Sequence[Nest]) -> list[Nest]:
    """All parts; one with the dims of another becomes one with it."""
    found = list(parts)
    for part in more:
        same = next((i for i, p in enumerate(found) if set(p.dims) == set(part.dims)), None)
        if same is None:
            found.append(part)
            continue
        old = found[same]
        checks = dict.fromkeys((*old.checks, *part.checks))
        found[same] = Nest(old.dims, (*old.stores, *part.stores), tuple(checks))
    return found


def merge(first: Group, second: Group, scalars: Scalars, traffic: Traffic) -> Group:
    """Both groups as one, in the place of `first`."""
    parts = merge_parts(first, second, match_dims(first, second), scalars)
    if not form_tree(parts):
        parts = merge_parts(first, second, {}, scalars)
    return replace(
        first,
        parts=parts,
        outs=[*first.outs, *second.outs],
        results=[*first.results, *second.results],
        loads={load: size for part in parts for load, size in traffic.loads(part).items()},
    )


def merge_parts(
    first: Group, second: Group, mapping: Mapping[str, str], scalars: Scalars
) -> list[Nest]:
    """The parts of both, some dims of `second` being dims of `first`, the others new."""
    taken = {name for part in first.parts for name, _ in part.dims}
    fresh = filter(lambda name: name not in taken, map("d{}".format, count()))
    names = dict(mapping)
    for part in second.parts:
        names.update({name: next(fresh) for name, _ in part.dims if name not in names})
    for part in first.parts:
        scalars.ranges.update(part.ranges())
    more = [rename(part, names, first, scalars, len(first.outs)) for part in second.parts]
    return join(first.parts, more)


def tidy(group: Group, scalars: Scalars) -> list[Nest]:
    """The parts with dims named in order: d0, d1, …"""
    order = dict.fromkeys(name for part in group.parts for name, _ in part.dims)
    names = {name: f"d{i}" for i, name in enumerate(order)}
    found: list[Nest] = []
    for part in group.parts:
        dims: tuple[Dim, ...] = tuple((names[name], extent) for name, extent in part.dims)
        new = replace(part, dims=dims)
        scalars.ranges.update(new.ranges())
        moved = {name: Expr.name(names[name]) for name, _ in part.dims}
        found.append(new.rewrite(scalars, moved))
    return found
