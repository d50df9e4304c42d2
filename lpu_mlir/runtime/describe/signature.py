"""What a graph takes and gives, read off the imported function before it is lowered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FloatAttr, IntegerAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from lpu_mlir.dialects.expr import Expr, contiguous_strides
from lpu_mlir.dialects.lpu import ExprAttr, ShapeAttr, element_type, extents, symbols
from lpu_mlir.dialects.lpu_graph import WriteBackOp
from lpu_mlir.frontend.importer import ImportedGraph
from lpu_mlir.frontend.interface import ExtentInput, Input, TensorInput
from lpu_mlir.frontend.outputs import OUTPUTS, STRIDES
from lpu_mlir.frontend.types import DTYPES
from lpu_mlir.runtime.layout import Layout
from lpu_mlir.runtime.signature import (
    ArgumentOutput,
    Binding,
    ConditionOutput,
    Described,
    ExtentOutput,
    LiteralOutput,
    NumberOutput,
    PlacedOutput,
    ResultOutput,
    Signature,
    ViewOutput,
)

Kind = TypeVar("Kind", bound=Attribute)


def describe_signature(graph: ImportedGraph) -> Signature:
    """What an imported graph takes and gives."""
    function = graph.func
    types = function.function_type
    arguments = _layouts(types.inputs.data, function.arg_attrs)
    wanted = {declared.symbol.data for declared in symbols(function)}
    return Signature(
        graph.inputs,
        graph.constants,
        arguments,
        _layouts(types.outputs.data, function.res_attrs),
        tuple(_bindings(graph.inputs, arguments, wanted)),
        tuple(map(_output, _dictionaries(function.attributes[OUTPUTS]))),
        _written(function),
    )


def _written(function: FuncOp) -> tuple[int, ...]:
    """The arguments that a function writes."""
    targets = {op.target for op in function.body.block.ops if isinstance(op, WriteBackOp)}
    return tuple(n for n, argument in enumerate(function.args) if argument in targets)


def _bindings(
    inputs: Sequence[Input], arguments: Sequence[Layout], wanted: set[str]
) -> list[Binding]:
    """How each symbol is read off the inputs; what is left, host calls bind."""
    found: dict[str, Binding] = {}

    def bind(value: Expr, *how: Any) -> None:
        found.setdefault(str(value), Binding(str(value), *how))

    for i, given in enumerate(inputs):
        if isinstance(given, ExtentInput):
            bind(given.value, "number", i)
    for i, given in enumerate(inputs):
        if isinstance(given, TensorInput):
            layout = arguments[given.argument]
            for axis, extent in enumerate(layout.shape):
                bind(extent, "extent", i, axis)
            for axis, stride in enumerate(layout.strides):
                bind(stride, "stride", i, axis)
    return [found[name] for name in sorted(wanted & found.keys())]


def _layouts(
    types: Sequence[Attribute], attrs: ArrayAttr[DictionaryAttr] | None
) -> tuple[Layout, ...]:
    dictionaries = attrs.data if attrs is not None else [DictionaryAttr({})] * len(types)
    return tuple(_layout(t, d) for t, d in zip(types, dictionaries, strict=True))


def _layout(type: Attribute, attrs: DictionaryAttr) -> Layout:
    shape = extents(type)
    given = attrs.data.get(STRIDES)
    strides = given.data if isinstance(given, ShapeAttr) else contiguous_strides(shape)
    return Layout(DTYPES[element_type(type)], shape, strides)


def _dictionaries(attr: Attribute) -> list[DictionaryAttr]:
    entries: list[DictionaryAttr] = []
    assert isinstance(attr, ArrayAttr)
    for entry in attr.data:  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        assert isinstance(entry, DictionaryAttr)
        entries.append(entry)
    return entries


# --- outputs ------------------------------------------------------------------------------------


class _Entry:
    """The description of one output in the attribute `lpu.outputs`."""

    def __init__(self, described: DictionaryAttr):
        self.data: Mapping[str, Attribute] = described.data

    def get(self, name: str, kind: type[Kind]) -> Kind:
        found = self.data[name]
        assert isinstance(found, kind)
        return found

    def text(self, name: str) -> str:
        return self.get(name, StringAttr).data

    def expr(self, name: str) -> Expr:
        return self.get(name, ExprAttr).data

    def shape(self, name: str) -> tuple[Expr, ...]:
        return self.get(name, ShapeAttr).data

    @property
    def index(self) -> int:
        found = self.data["index"]
        assert isinstance(found, IntegerAttr)
        return found.value.data

    @property
    def literal(self) -> bool | float:
        found = self.data["value"]
        if isinstance(found, IntegerAttr):
            return bool(found.value.data)
        assert isinstance(found, FloatAttr)
        return found.value.data


_OUTPUTS: Mapping[str, Callable[[_Entry], Described]] = {
    "result": lambda entry: ResultOutput(entry.index),
    "argument": lambda entry: ArgumentOutput(entry.index),
    "number": lambda entry: NumberOutput(entry.index),
    "extent": lambda entry: ExtentOutput(entry.expr("value")),
    "literal": lambda entry: LiteralOutput(entry.literal),
    "none": lambda entry: LiteralOutput(None),
    "condition": lambda entry: ConditionOutput(
        entry.text("compare"), entry.expr("lhs"), entry.expr("rhs")
    ),
    "view": lambda entry: ViewOutput(
        entry.text("of") == "result",
        entry.index,
        entry.shape("shape"),
        entry.shape("strides"),
        entry.expr("offset"),
        "absolute" in entry.data,
    ),
    "placed": lambda entry: PlacedOutput(
        entry.index, entry.shape("shape"), entry.shape("strides"), entry.expr("offset")
    ),
}
"""Kind of an output -> what it is made of."""


def _output(described: DictionaryAttr) -> Described:
    entry = _Entry(described)
    return _OUTPUTS[entry.text("kind")](entry)
