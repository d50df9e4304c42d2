"""How the outputs of an FX graph come from the results of its function.

The function's attribute `lpu.outputs` is an array with one dictionary for each output:

    {kind = "result", index = 0}
        the function's result
    {kind = "argument", index = 3}
        the argument's tensor itself, after all write-backs
    {kind = "view", of = "result", index = 0, shape = .., strides = .., offset = #lpu.expr<4>}
        a view of a result's or argument's storage; `offset` counts from that tensor's first
        element, or with `absolute` from the beginning of the storage
    {kind = "placed", index = 0, shape = .., strides = .., offset = #lpu.expr<4>}
        the function's result, moved to where a view of its base would begin
    {kind = "extent", value = #lpu.expr<s18>}       an integer
    {kind = "condition", compare = "eq", lhs = #lpu.expr<u0>, rhs = #lpu.expr<1>}
        a bool; `compare` is one of eq, ne, lt, le, gt, ge
    {kind = "number", index = 1}                    the float in a 0-d f64 result
    {kind = "literal", value = true}                a bool or float constant
    {kind = "none"}

A result that is not dense in row-major order has its strides (in elements) in the result attribute
`lpu.strides`, as arguments do.  A graph output that is a view of an intermediate is a result of its
own, unless another output shares its storage or its elements overlap (expand): then the base is
the result and the output a view of it.  A base whose own elements overlap (empty_strided) becomes
a view of its storage, as one dim.  Of a base that is written back to an argument, AOTAutograd takes
the output for a view of the argument where its strides and its offset, not its elements, say.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import torch
from torch import fx
from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    f64,
)
from xdsl.ir import Attribute, SSAValue

from lpu_mlir.dialects.expr import Expr, Range, contiguous_strides, nesting
from lpu_mlir.dialects.lpu import ExprAttr, ShapeAttr, i64
from lpu_mlir.frontend import views
from lpu_mlir.frontend.builder import FloatScalar, GraphBuilder, dtype_of
from lpu_mlir.frontend.calls import Comparison
from lpu_mlir.frontend.types import NATIVE

aten = torch.ops.aten
OUTPUTS = "lpu.outputs"
STRIDES = "lpu.strides"
"""Strides in eager of an argument or result that is not row by row; of a host call those of all its
operands."""
COPY_ = aten.copy_.default
PLAIN_VIEWS = frozenset(
    (COPY_, aten.as_strided.default, *(op for op in views.HANDLERS if op.is_view))
)
"""Operators whose result is a strided view of their first argument, of the same dtype."""


def storage_base(node: fx.Node) -> fx.Node:
    """The node whose storage the node's tensor shares when the graph runs in eager."""
    while node.op == "call_function":
        source: Any = node.args[0] if node.args else None
        multiple = node.target is operator.getitem
        producer = source if multiple else node
        view = isinstance(producer, fx.Node) and producer.target in PLAIN_VIEWS
        if not view or not isinstance(source, fx.Node):
            return node
        node = source
    return node


def is_absolute(node: fx.Node) -> bool:
    """Whether as_strided with an offset of its own is on the way from a node to its base."""
    base = storage_base(node)
    while node is not base:
        if node.target is aten.as_strided.default and explicit_offset(node) is not None:
            return True
        source = node.args[0]
        assert isinstance(source, fx.Node)
        node = source
    return False


def explicit_offset(node: fx.Node) -> Any:
    """The offset in the storage that as_strided or as_strided_scatter is given; None if it is that
    of the tensor."""
    position = 3 if node.target is aten.as_strided.default else 4
    given: Any = node.kwargs.get("storage_offset")
    return node.args[position] if len(node.args) > position else given


def unusual_strides(shape: Sequence[Expr], strides: Sequence[Expr]) -> tuple[Expr, ...] | None:
    """The strides, if they are not those of a dense row-major tensor; extents of 1 are free."""
    if any(extent == 0 for extent in shape):
        return None
    dense = contiguous_strides(shape)
    used = tuple(d if e == 1 else s for e, s, d in zip(shape, strides, dense, strict=True))
    return None if used == dense else used


def dense_order(
    shape: Sequence[Expr], strides: Sequence[Expr], ranges: Mapping[str, Range]
) -> list[int] | None:
    """The permutation that makes a tensor row-major; None if it has gaps or may overlap."""
    order = nesting(shape, strides, ranges)
    if order is None:
        return None
    moved = [[values[dim] for dim in order] for values in (shape, strides)]
    return order if unusual_strides(*moved) is None else None


def layout_attrs(shape: Sequence[Expr], strides: Sequence[Expr]) -> DictionaryAttr:
    """The attributes of an argument or result with these strides."""
    used = unusual_strides(shape, strides)
    return DictionaryAttr({} if used is None else {STRIDES: ShapeAttr(used)})


def index_attr(value: int) -> IntegerAttr:
    return IntegerAttr(value, i64)


class OutputWriter:
    """Collects the function's results and the descriptions of the graph's outputs.

    `extents` turns sizes, strides and offsets of the nodes' tensors into expressions; `arguments`
    has the argument numbers of placeholders and constants, `given` the symbols that inputs tell.
    """

    def __init__(
        self,
        environment: Mapping[fx.Node, Any],
        arguments: Mapping[fx.Node, int],
        builder: GraphBuilder,
        extents: Callable[[Sequence[Any]], tuple[Expr, ...]],
        given: AbstractSet[str],
    ):
        self.environment = environment
        self.arguments = arguments
        self.b = builder
        self.extents = extents
        self.given = given
        self.results: list[SSAValue] = []
        self.result_attrs: list[DictionaryAttr] = []
        self.result_of: dict[fx.Node, int] = {}

    def write(self, outputs: Sequence[Any]) -> ArrayAttr:
        nodes = {o for o in outputs if isinstance(o, fx.Node)}
        self.held = {storage_base(n) for node in nodes for n in copied_to_arguments(node.graph)}
        """Nodes of which arguments hold the values, or parts of them, in the end."""
        sharing = Counter(storage_base(node) for node in nodes)
        return ArrayAttr([DictionaryAttr(self._describe(o, sharing)) for o in outputs])

    def _describe(self, output: Any, sharing: Counter[fx.Node]) -> dict[str, Attribute]:
        value = self.environment[output] if isinstance(output, fx.Node) else output
        match value:
            case None:
                return {"kind": StringAttr("none")}
            case bool():
                return {"kind": StringAttr("literal"), "value": BoolAttr.from_bool(value)}
            case int() | Expr():
                return {"kind": StringAttr("extent"), "value": ExprAttr(Expr.of(value))}
            case Comparison():
                return {
                    "kind": StringAttr("condition"),
                    "compare": StringAttr(value.kind),
                    "lhs": ExprAttr(value.lhs),
                    "rhs": ExprAttr(value.rhs),
                }
            case float():
                return {"kind": StringAttr("literal"), "value": FloatAttr(value, f64)}
            case FloatScalar():
                return {
                    "kind": StringAttr("number"),
                    "index": index_attr(self._append(value.value)),
                }
            case _:
                return self._tensor(output, sharing)

    def _tensor(self, node: fx.Node, sharing: Counter[fx.Node]) -> dict[str, Attribute]:
        base = storage_base(node)
        whole = node.target is COPY_ or node is base
        if base in self.arguments:
            index = self.arguments[base]
            if whole:
                return {"kind": StringAttr("argument"), "index": index_attr(index)}
            return self._view(node, base, "argument", index)
        shape, strides = self._layout(node)
        if self._overlaps(base):
            if node.meta["val"].dtype not in NATIVE:  # its base is dense: see `_index`
                return {"kind": StringAttr("result"), "index": index_attr(self._index(node))}
            return self._view(node, base, "result", self._index(base))
        if whole or (sharing[base] == 1 and nesting(shape, strides, self.b.ranges) is not None):
            (offset,) = self.extents([node.meta["val"].storage_offset()])
            index = {"index": index_attr(self._index(node))}
            if whole or base not in self.held or offset == 0:
                return {"kind": StringAttr("result"), **index}
            return {"kind": StringAttr("placed"), **index, **_placement(shape, strides, offset)}
        return self._view(node, base, "result", self._index(base))

    def _overlaps(self, node: fx.Node) -> bool:
        """Whether elements of a new tensor share an address, as far as its layout is known."""
        shape, strides = self._layout(node)
        if any(value.constant() is None for value in (*shape, *strides)):
            return False
        return unusual_strides(shape, strides) is not None and nesting(shape, strides, {}) is None

    def _storage(self, node: fx.Node) -> SSAValue:
        """The storage of a tensor, from its first to its last element, as one dim."""
        value = self.environment[node]
        shape, strides = self._layout(node)
        span = sum(((e - 1) * s for e, s in zip(shape, strides, strict=True)), Expr.const(1))
        index = views.storage_index(self.b, shape, strides, Expr.const(0))
        storage = self.b.full(0, dtype_of(value), [span])
        return self.b.scatter("replace", storage, value, [index], [0], 0)

    def _index(self, node: fx.Node) -> int:
        if node not in self.result_of and self._overlaps(node):
            if node.meta["val"].dtype not in NATIVE:  # no kernel can lay it out: it is dense
                self.result_of[node] = self._append(self.environment[node])
            else:
                self.result_of[node] = self._append(self._storage(node))
        if node not in self.result_of:
            self.result_of[node] = self._append(self.environment[node])
            self.result_attrs[-1] = layout_attrs(*self._layout(node))
        return self.result_of[node]

    def _append(self, value: SSAValue) -> int:
        self.results.append(value)
        self.result_attrs.append(DictionaryAttr({}))
        return len(self.results) - 1

    def _layout(self, node: fx.Node) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        val = node.meta["val"]
        return self.extents(val.shape), self.extents(val.stride())

    def _view(self, node: fx.Node, base: fx.Node, of: str, index: int) -> dict[str, Attribute]:
        shape, strides = self._layout(node)
        ends = self.extents([n.meta["val"].storage_offset() for n in (node, base)])
        absolute = of == "argument" and is_absolute(node)
        offset = ends[0] if absolute else ends[0] - ends[1]
        if not offset.names() <= self.given:
            self._append(self.environment[node])  # the elements that are there are checked for
        return {
            "kind": StringAttr("view"),
            "of": StringAttr(of),
            "index": index_attr(index),
            **({"absolute": UnitAttr()} if absolute else {}),
            **_placement(shape, strides, offset),
        }


def _placement(
    shape: Sequence[Expr], strides: Sequence[Expr], offset: Expr
) -> dict[str, Attribute]:
    placed = {"shape": ShapeAttr(tuple(shape)), "strides": ShapeAttr(tuple(strides))}
    return {**placed, "offset": ExprAttr(offset)}


def copied_to_arguments(graph: fx.Graph) -> Iterator[fx.Node]:
    """The nodes whose values a graph copies to its arguments."""
    for node in graph.nodes:
        if node.target is COPY_ and isinstance(node.args[1], fx.Node):
            yield node.args[1]
