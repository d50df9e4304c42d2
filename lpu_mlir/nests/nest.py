"""Between `lpu_loop.nest` and its expressions: `read` and `write`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from lpu_mlir.dialects import lpu_loop
from lpu_mlir.dialects.expr import Expr, Range, simplify
from lpu_mlir.dialects.lpu_loop import Dim, NestOp
from lpu_mlir.nests.scalar import Fold, Index, Load, Node, OnLoad, Op, Pieces, Scalars, walk


@dataclass(frozen=True)
class Store:
    """`value` goes to an element of the n-th destination; "replace" or "add"."""

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
    """A nest as expressions: what it stores and checks for every point of its dims d0, d1, …"""

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


# --- reading ------------------------------------------------------------------------------------


def read(op: NestOp, scalars: Scalars) -> Nest:
    """The expressions of a nest."""
    stores: list[Store] = []
    checks: list[Check] = []
    values: dict[SSAValue, Node] = {}
    outs = list(op.outs)
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
            case _:
                values[inner.results[0]] = _read_scalar(inner, values, scalars)
    return Nest(op.dims.data, tuple(stores), tuple(checks))


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


def write_body(nest: Nest, outs: Sequence[SSAValue]) -> Region:
    """The body that computes `nest` into the destinations `outs`."""
    block = Block()
    writer = _Writer([_Frame(block, frozenset(name for name, _ in nest.dims))])
    for check in nest.checks:
        condition = writer.value(check.condition)
        block.add_op(lpu_loop.CheckOp(condition, check.error, check.message))
    for store in nest.stores:
        indirect = [writer.value(i) for i in store.indirect]
        value = writer.value(store.value)
        block.add_op(lpu_loop.StoreOp(store.kind, value, outs[store.out], store.index, indirect))
    return Region(block)


def write(nest: Nest, outs: Sequence[SSAValue]) -> NestOp:
    """The operation that computes `nest` into the destinations `outs`."""
    on_tensors = all(isinstance(out.type, TensorType) for out in outs)
    results: list[Attribute] | None = None if on_tensors else []
    return NestOp(nest.dims, outs, write_body(nest, outs), results)
