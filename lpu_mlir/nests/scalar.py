"""Scalar expressions of loop nests, hash-consed.

All nodes of one `Scalars` pool with equal structure are one object, so common subexpressions are
shared by construction and equality is identity.  Bound dims are named by height: those of a fold
that contains no fold are r0, r1, …, those of a fold around it count on from there.  So equal folds
are one object wherever they stand, and no fold hides a dim of one around it.  Whoever looks inside
a fold while substituting opens it with fresh names (t0, t1, …) first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.dialects import arith
from xdsl.ir import Attribute, Operation, SSAValue

from lpu_mlir.dialects.expr import Expr, Range, simplify
from lpu_mlir.dialects.lpu import element_type, i64, scalar_type
from lpu_mlir.dialects.lpu_loop import Dim, indirect_name

Properties: TypeAlias = tuple[tuple[str, Attribute], ...]


def is_dim(name: str) -> bool:
    """Whether a name is a dim of a nest (d0), of a fold (r0) or a fresh one (t0)."""
    return name[0] in "drt" and name[1:].isdigit()


@dataclass(frozen=True, eq=False)
class Node:
    """A scalar: its type, the dims it depends on, and how deeply it nests folds."""

    type: Attribute
    free: frozenset[str]
    height: int

    @property
    def children(self) -> tuple[Node, ...]:
        return ()


@dataclass(frozen=True, eq=False)
class Load(Node):
    """An element of a tensor or memref; `_n` in an index is the n-th indirect scalar."""

    source: SSAValue
    index: tuple[Expr, ...]
    indirect: tuple[Node, ...]

    @property
    def children(self) -> tuple[Node, ...]:
        return self.indirect


@dataclass(frozen=True, eq=False)
class Index(Node):
    """An index expression as an i64."""

    expr: Expr


@dataclass(frozen=True, eq=False)
class Op(Node):
    """An operation of `arith` or `math` on scalars; constants have no operands."""

    op: type[Operation]
    operands: tuple[Node, ...]
    properties: Properties

    @property
    def children(self) -> tuple[Node, ...]:
        return self.operands


@dataclass(frozen=True, eq=False)
class Fold(Node):
    """`body` combined over `dims`; `form` is fold, arg_fold or scan (then `along` is a dim)."""

    form: str
    kind: str
    dims: tuple[Dim, ...]
    body: Node
    along: str

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.body,)


@dataclass(frozen=True, eq=False)
class Pieces(Node):
    """`parts[i]` where bounds[i-1] <= position < bounds[i]."""

    position: Expr
    bounds: tuple[Expr, ...]
    parts: tuple[Node, ...]

    @property
    def children(self) -> tuple[Node, ...]:
        return self.parts


def _dims_of(exprs: Iterable[Expr]) -> frozenset[str]:
    return frozenset(name for expr in exprs for name in expr.names() if is_dim(name))


def _free(exprs: Iterable[Expr], children: Iterable[Node]) -> frozenset[str]:
    return _dims_of(exprs).union(*(child.free for child in children))


def _height(children: Sequence[Node]) -> int:
    return max((child.height for child in children), default=0)


OnLoad: TypeAlias = Callable[[Load], Node | None]


@dataclass
class Scalars:
    """A pool of nodes: one for each pass over one function."""

    ranges: dict[str, Range] = field(default_factory=dict[str, Range])
    """What names may be: the function's symbols, and the fresh dims handed out."""

    _pool: dict[tuple[object, ...], Node] = field(default_factory=dict[tuple[object, ...], Node])
    _fresh: int = 0

    # --- construction -----------------------------------------------------------------------
    def load(self, source: SSAValue, index: Sequence[Expr], indirect: Sequence[Node] = ()) -> Load:
        key = (Load, source, tuple(index), tuple(indirect))
        found = self._pool.get(key)
        if not isinstance(found, Load):
            scalar = scalar_type(element_type(source.type))
            free = _free(index, indirect)
            found = Load(scalar, free, _height(indirect), source, tuple(index), tuple(indirect))
            self._pool[key] = found
        return found

    def index(self, expr: Expr) -> Index:
        found = self._pool.get((Index, expr))
        if not isinstance(found, Index):
            found = self._pool[Index, expr] = Index(i64, _dims_of([expr]), 0, expr)
        return found

    def op(
        self,
        op: type[Operation],
        operands: Sequence[Node],
        type: Attribute,
        properties: Properties = (),
    ) -> Op:
        key = (op, tuple(operands), type, properties)
        found = self._pool.get(key)
        if not isinstance(found, Op):
            free, height = _free((), operands), _height(operands)
            found = Op(type, free, height, op, tuple(operands), properties)
            self._pool[key] = found
        return found

    def constant(self, value: Attribute, type: Attribute) -> Op:
        return self.op(arith.ConstantOp, (), type, (("value", value),))

    def fold(
        self,
        kind: str,
        dims: Sequence[Dim],
        body: Node,
        type: Attribute,
        form: str = "fold",
        along: str = "",
    ) -> Fold:
        if any(name.startswith("r") for name, _ in dims):
            dims, body = self._freshen(dims, body)
        start = body.height
        taken = [int(n[1:]) for n in body.free if n[0] == "r" and int(n[1:]) >= start]
        if any(position < start + len(dims) for position in taken):
            start = max(taken) + 1  # until the fold around, whose dim that is, is made anew
        bound = tuple((f"r{start + i}", extent) for i, (_, extent) in enumerate(dims))
        renamed = {old: Expr.name(new) for (old, _), (new, _) in zip(dims, bound, strict=True)}
        body = self.rewrite(body, renamed)
        key = (Fold, form, kind, bound, body, type, along)
        found = self._pool.get(key)
        if not isinstance(found, Fold):
            free = body.free - {name for name, _ in bound}
            free |= _dims_of(extent for _, extent in bound)
            free = free | {along} if along else free
            height = start + len(dims)
            found = Fold(type, free, height, form, kind, bound, body, along)
            self._pool[key] = found
        return found

    def pieces(self, position: Expr, bounds: Sequence[Expr], parts: Sequence[Node]) -> Node:
        distances = [(position - bound).constant() for bound in bounds]
        if None not in distances:  # a position that is no dim is in one of them
            return parts[sum(d is not None and d >= 0 for d in distances)]
        key = (Pieces, position, tuple(bounds), tuple(parts))
        found = self._pool.get(key)
        if found is None:
            free = _free([position, *bounds], parts)
            height = _height(parts)
            found = Pieces(parts[0].type, free, height, position, tuple(bounds), tuple(parts))
            self._pool[key] = found
        return found

    # --- rewriting --------------------------------------------------------------------------
    def fresh(self, extent: Expr) -> str:
        """A dim name used nowhere else, with its range."""
        name = f"t{self._fresh}"
        self._fresh += 1
        self.ranges[name] = (Expr.const(0), extent - 1)
        return name

    def open(self, fold: Fold) -> tuple[tuple[Dim, ...], Node]:
        """The fold's dims under fresh names and its body in terms of them."""
        return self._freshen(fold.dims, fold.body)

    def _freshen(self, bound: Sequence[Dim], body: Node) -> tuple[tuple[Dim, ...], Node]:
        dims = tuple((self.fresh(extent), extent) for _, extent in bound)
        renamed = {old: Expr.name(new) for (old, _), (new, _) in zip(bound, dims, strict=True)}
        return dims, self.rewrite(body, renamed)

    def rewrite(self, node: Node, names: Mapping[str, Expr], on_load: OnLoad | None = None) -> Node:
        """`node` with names substituted in its indices and, after that, loads replaced."""
        memo: dict[Node, Node] = {}
        only_renames = all(e.text.isalnum() and e.constant() is None for e in names.values())

        def expr(e: Expr) -> Expr:
            replaced = e.substitute(names)
            return replaced if only_renames else simplify(replaced, self.ranges)

        def visit(n: Node) -> Node:
            if on_load is None and not n.free & names.keys():
                return n
            found = memo.get(n)
            if found is None:
                found = memo[n] = build(n)
            return found

        def build(n: Node) -> Node:
            match n:
                case Load():
                    moved = self.load(
                        n.source, [expr(e) for e in n.index], [visit(i) for i in n.indirect]
                    )
                    return (on_load(moved) if on_load is not None else None) or moved
                case Index():
                    return self.index(expr(n.expr))
                case Op():
                    operands = tuple(visit(o) for o in n.operands)
                    if operands == n.operands:
                        return n
                    return self.op(n.op, operands, n.type, n.properties)
                case Fold():
                    return self._rewrite_fold(n, names, on_load)
                case Pieces():
                    return self.pieces(
                        expr(n.position), [expr(b) for b in n.bounds], [visit(p) for p in n.parts]
                    )
                case _:
                    raise TypeError(f"unknown node {n}")

        return visit(node)

    def replace(self, node: Node, change: Callable[[Node], Node | None]) -> Node:
        """`node` with some nodes replaced, outermost first; bound dims keep their names, so a
        replacement must fit where it stands."""
        memo: dict[Node, Node] = {}

        def visit(n: Node) -> Node:
            found = memo.get(n)
            if found is None:
                replaced = change(n)
                found = memo[n] = rebuild(n) if replaced is None else replaced
            return found

        def rebuild(n: Node) -> Node:
            children = [visit(child) for child in n.children]
            if all(new is old for new, old in zip(children, n.children, strict=True)):
                return n
            match n:
                case Load():
                    return self.load(n.source, n.index, children)
                case Op():
                    return self.op(n.op, children, n.type, n.properties)
                case Fold():
                    return self.fold(n.kind, n.dims, children[0], n.type, n.form, n.along)
                case Pieces():
                    return self.pieces(n.position, n.bounds, children)
                case _:
                    raise TypeError(f"unknown node {n}")

        return visit(node)

    def _rewrite_fold(self, fold: Fold, names: Mapping[str, Expr], on_load: OnLoad | None) -> Node:
        dims = [(self.fresh(e.substitute(names)), e.substitute(names)) for _, e in fold.dims]
        inner = {old: Expr.name(new) for (old, _), (new, _) in zip(fold.dims, dims, strict=True)}
        body = self.rewrite(fold.body, {**names, **inner}, on_load)
        along = names.get(fold.along)
        return self.fold(
            fold.kind, dims, body, fold.type, fold.form, fold.along if along is None else str(along)
        )


def walk(roots: Iterable[Node]) -> list[Node]:
    """Every node reachable from the roots once, operands before users."""
    order: dict[Node, None] = {}

    def visit(node: Node) -> None:
        if node in order:
            return
        for child in node.children:
            visit(child)
        order[node] = None

    for root in roots:
        visit(root)
    return list(order)


def indirect_names(indirect: Sequence[Node]) -> dict[str, Node]:
    """The names by which index expressions refer to scalars, and those scalars."""
    return {indirect_name(i): node for i, node in enumerate(indirect)}


def as_contraction(node: Node) -> tuple[Node, Node] | None:
    """The factors, if a node is a sum of products over operands of different dims.

    Such a fold is a matrix product of a kind: its factors need never be multiplied out.  A product
    of two scalars with the same dims (a sum of squares) is an ordinary reduction.
    """
    if not isinstance(node, Fold) or node.form != "fold" or node.kind != "add":
        return None
    body = node.body
    if not isinstance(body, Op) or body.op not in (arith.MulfOp, arith.MuliOp):
        return None
    lhs, rhs = body.operands
    bound = {name for name, _ in node.dims}
    if lhs.free == rhs.free or not bound <= lhs.free & rhs.free:
        return None
    return lhs, rhs
