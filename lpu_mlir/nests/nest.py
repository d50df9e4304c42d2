"""Between `lpu_loop.nest` and its expressions: `read` and `write`.

A nest is a list of parts, each with all its dims; dims of one name in several parts are one dim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from lpu_mlir.dialects import lpu_loop
from lpu_mlir.dialects.expr import Expr, Range, simplify
from lpu_mlir.dialects.location import describe_location
from lpu_mlir.dialects.lpu_loop import Dim, NestOp, ParallelOp
from lpu_mlir.nests.scalar import Fold, Index, Load, Node, OnLoad, Op, Pieces, Scalars, walk


@dataclass(frozen=True)
class Store:
    """`value` goes to an element of the n-th destination; `kind` is one of `lpu_loop.STORES`."""

    kind: str
    out: int
    index: tuple[Expr, ...]
    indirect: tuple[Node, ...]
    value: Node


@dataclass(frozen=True)
class Check:
    """`condition` must hold at every point of the nest."""

    condition: Node
    error: str
    message: str


@dataclass(frozen=True)
class Nest:
    """A nest as expressions, or one part of a nest: what it stores and checks for every point of
    its dims d0, d1, …"""

    dims: tuple[Dim, ...]
    stores: tuple[Store, ...]
    checks: tuple[Check, ...] = ()

    def roots(self) -> list[Node]:
        found = [check.condition for check in self.checks]
        for store in self.stores:
            found += [*store.indirect, store.value]
        return found

    def nodes(self) -> list[Node]:
        """Every node once, operands before users."""
        return walk(self.roots())

    def ranges(self) -> dict[str, Range]:
        return {name: (Expr.const(0), extent - 1) for name, extent in self.dims}

    def map(
        self, change: Callable[[Node], Node], place: Callable[[Expr], Expr] = lambda e: e
    ) -> Nest:
        """The nest with every root changed, and the places it stores to."""
        stores = tuple(
            replace(
                store,
                index=tuple(map(place, store.index)),
                indirect=tuple(map(change, store.indirect)),
                value=change(store.value),
            )
            for store in self.stores
        )
        checks = tuple(replace(check, condition=change(check.condition)) for check in self.checks)
        return Nest(self.dims, stores, checks)

    def rewrite(
        self, scalars: Scalars, names: Mapping[str, Expr], on_load: OnLoad | None = None
    ) -> Nest:
        """The nest with names substituted and, after that, loads replaced."""
        return self.map(
            lambda node: scalars.rewrite(node, names, on_load),
            lambda e: simplify(e.substitute(names), scalars.ranges),
        )


@dataclass(frozen=True)
class Label:
    """What messages call a nest: its place in its block, its results' names and its source line.

    The text is made only for messages that are shown.
    """

    op: Operation
    position: int

    def __str__(self) -> str:
        hints = [f" %{result.name_hint}" for result in self.op.results if result.name_hint]
        where = describe_location(self.op.location)
        return f"nest {self.position}" + "".join(hints) + (f" at {where}" if where else "")


# --- reading ------------------------------------------------------------------------------------


def read(op: NestOp, scalars: Scalars) -> Nest:
    """The expressions of a nest without parts; ValueError for one with parts."""
    parts = read_parts(op, scalars)
    if len(parts) != 1:
        raise ValueError(f"a nest of {len(parts)} parts")
    return parts[0]


def read_parts(op: NestOp, scalars: Scalars) -> tuple[Nest, ...]:
    """The parts of a nest, each with all its dims; those of one name are one dim."""
    return tuple(_read_part(op, (), {}, list(op.outs), scalars))


def _read_part(
    op: ParallelOp,
    around: tuple[Dim, ...],
    known: Mapping[SSAValue, Node],
    outs: Sequence[SSAValue],
    scalars: Scalars,
) -> list[Nest]:
    stores: list[Store] = []
    checks: list[Check] = []
    parts: list[Nest] = []
    values = dict(known)
    dims = (*around, *op.dims.data)
    for inner in op.body.block.ops:
        match inner:
            case lpu_loop.StoreOp():
                indirect = tuple(values[i] for i in inner.indirect)
                where = outs.index(inner.target)
                value = values[inner.value]
                stores.append(Store(inner.kind.data, where, inner.index.data, indirect, value))
            case lpu_loop.CheckOp():
                condition = values[inner.condition]
                checks.append(Check(condition, inner.error.data, inner.message.data))
            case lpu_loop.OverOp():
                parts += _read_part(inner, dims, values, outs, scalars)
            case _:
                values[inner.results[0]] = _read_scalar(inner, values, scalars)
    if parts and not stores and not checks:
        return parts
    return [Nest(dims, tuple(stores), tuple(checks)), *parts]


def _read_scalar(op: Operation, values: dict[SSAValue, Node], scalars: Scalars) -> Node:
    match op:
        case lpu_loop.LoadOp():
            return scalars.load(op.target, op.index.data, [values[i] for i in op.indirect])
        case lpu_loop.IndexOp():
            return scalars.index(op.value.data)
        case lpu_loop.FoldOp() | lpu_loop.ArgFoldOp() | lpu_loop.ScanOp():
            body = _read_region(op.body, values, scalars)
            form = op.name.removeprefix("lpu_loop.")
            along = op.along.data if isinstance(op, lpu_loop.ScanOp) else ""
            return scalars.fold(op.kind.data, op.dims.data, body, op.output.type, form, along)
        case lpu_loop.PiecesOp():
            parts = [_read_region(piece, values, scalars) for piece in op.pieces]
            return scalars.pieces(op.position.data, op.bounds.data, parts)
        case _:
            operands = [values[o] for o in op.operands]
            properties = tuple(sorted(op.properties.items()))
            return scalars.op(type(op), operands, op.results[0].type, properties)


def _read_region(region: Region, outer: dict[SSAValue, Node], scalars: Scalars) -> Node:
    values = dict(outer)
    for op in region.block.ops:
        if isinstance(op, lpu_loop.YieldOp):
            return values[op.value]
        values[op.results[0]] = _read_scalar(op, values, scalars)
    raise ValueError("a region of lpu_loop ends in lpu_loop.yield")


# --- writing ------------------------------------------------------------------------------------


@dataclass
class _Frame:
    """A block being written, the dims in scope there and the values it has.

    `lazy` frames are pieces: what they compute may not move out, for its loads are in bounds only
    within the piece.
    """

    block: Block
    dims: frozenset[str]
    lazy: bool = False
    values: dict[Node, SSAValue] = field(default_factory=dict[Node, SSAValue])
    last: list[Operation] = field(default_factory=list[Operation])
    """Stores and parts, which come after all values."""


@dataclass
class _Writer:
    """Puts every node into the outermost block in which its dims are known, once."""

    frames: list[_Frame]

    def value(self, node: Node) -> SSAValue:
        for frame in reversed(self.frames):
            if node in frame.values:
                return frame.values[node]
        depth = self._depth(node)
        inner, self.frames = self.frames[depth + 1 :], self.frames[: depth + 1]
        op = self._build(node)
        self.frames[depth].block.add_op(op)
        self.frames[depth].values[node] = op.results[0]
        self.frames += inner
        return op.results[0]

    def fill(self, parts: Sequence[Nest], outs: Sequence[SSAValue]) -> None:
        """Fills the innermost block, whose dims all parts have, with the parts."""
        frame = self.frames[-1]
        own = [part for part in parts if len(part.dims) == len(frame.dims)]
        for part in own:
            self._fill_part(part, outs)
        for group in _groups([part for part in parts if part not in own], frame.dims):
            dims = _common(group, frame.dims)
            if not dims:
                raise ValueError("the dims of the parts of a nest must form a tree")
            names = frozenset(name for name, _ in dims)
            self.frames.append(_Frame(Block(), frame.dims | names))
            self.fill(group, outs)
            frame.last.append(lpu_loop.OverOp(dims, Region(self.frames.pop().block)))
        frame.block.add_ops(frame.last)

    def _fill_part(self, part: Nest, outs: Sequence[SSAValue]) -> None:
        frame = self.frames[-1]
        for check in part.checks:
            condition = self.value(check.condition)
            frame.block.add_op(lpu_loop.CheckOp(condition, check.error, check.message))
        for store in part.stores:
            indirect = [self.value(i) for i in store.indirect]
            value = self.value(store.value)
            out = outs[store.out]
            frame.last.append(lpu_loop.StoreOp(store.kind, value, out, store.index, indirect))

    def _depth(self, node: Node) -> int:
        depth = len(self.frames) - 1
        while (
            depth > 0 and not self.frames[depth].lazy and node.free <= self.frames[depth - 1].dims
        ):
            depth -= 1
        return depth

    def _build(self, node: Node) -> Operation:
        match node:
            case Load():
                indirect = [self.value(i) for i in node.indirect]
                return lpu_loop.LoadOp(node.source, node.index, indirect)
            case Index():
                return lpu_loop.IndexOp(node.expr)
            case Op():
                return node.op.create(
                    operands=[self.value(o) for o in node.operands],
                    result_types=[node.type],
                    properties=dict(node.properties),
                )
            case Fold():
                body = self._region(node.body, [name for name, _ in node.dims])
                if node.form == "scan":
                    return lpu_loop.ScanOp(node.kind, node.dims, node.along, body, node.type)
                form = lpu_loop.FoldOp if node.form == "fold" else lpu_loop.ArgFoldOp
                return form(node.kind, node.dims, body, node.type)
            case Pieces():
                parts = [self._region(part, (), lazy=True) for part in node.parts]
                return lpu_loop.PiecesOp(node.position, node.bounds, parts, node.type)
            case _:
                raise TypeError(f"unknown node {node}")

    def _region(self, body: Node, dims: Sequence[str], lazy: bool = False) -> Region:
        block = Block()
        self.frames.append(_Frame(block, self.frames[-1].dims | set(dims), lazy))
        result = self.value(body)
        block.add_op(lpu_loop.YieldOp(result))
        self.frames.pop()
        return Region(block)


def write_body(parts: Sequence[Nest], outs: Sequence[SSAValue]) -> tuple[list[Dim], Region]:
    """The dims that all parts of a nest share, and the body that computes the parts."""
    dims = _common(parts, frozenset())
    writer = _Writer([_Frame(Block(), frozenset(name for name, _ in dims))])
    writer.fill(parts, outs)
    return dims, Region(writer.frames[0].block)


def write(nest: Nest, outs: Sequence[SSAValue]) -> NestOp:
    """The operation that computes `nest` into the destinations `outs`."""
    return write_parts([nest], outs)


def write_parts(parts: Sequence[Nest], outs: Sequence[SSAValue]) -> NestOp:
    """The operation that computes several parts, which share dims of one name."""
    on_tensors = all(isinstance(out.type, TensorType) for out in outs)
    results: list[Attribute] | None = None if on_tensors else []
    dims, body = write_body(parts, outs)
    return NestOp(dims, outs, body, results)


def _common(parts: Sequence[Nest], known: frozenset[str]) -> list[Dim]:
    """The dims that all parts have, but for the known ones."""
    return [
        dim
        for dim in parts[0].dims
        if dim[0] not in known and all(dim in part.dims for part in parts)
    ]


def form_tree(parts: Sequence[Nest], known: frozenset[str] = frozenset()) -> bool:
    """Whether parts can be written as one nest: those that share any dim beyond the known ones
    all share one."""
    groups = _groups([part for part in parts if len(part.dims) > len(known)], known)
    for group in groups:
        common = _common(group, known)
        if not common or not form_tree(group, known | {name for name, _ in common}):
            return False
    return True


def _groups(parts: Sequence[Nest], known: frozenset[str]) -> list[list[Nest]]:
    """The parts in groups, of which each shares a dim beyond the known ones."""
    groups: list[tuple[set[str], list[Nest]]] = []
    for part in parts:
        own = {name for name, _ in part.dims} - known
        met = [group for group in groups if group[0] & own]
        groups = [group for group in groups if not group[0] & own]
        names = own.union(*(names for names, _ in met))
        groups.append((names, [*(p for _, members in met for p in members), part]))
    return [members for _, members in groups]
