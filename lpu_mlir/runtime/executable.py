"""The callable that torch gets: from the graph's inputs to its outputs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FloatAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute

from lpu_mlir.dialects.expr import Expr, contiguous_strides
from lpu_mlir.dialects.lpu import ExprAttr, ShapeAttr, element_type, extents, symbols
from lpu_mlir.frontend.importer import ExtentInput, FloatInput, ImportedGraph, TensorInput
from lpu_mlir.frontend.outputs import OUTPUTS, STRIDES
from lpu_mlir.frontend.types import DTYPES
from lpu_mlir.interpreter.reference import Memory
from lpu_mlir.runtime.frozen import Frozen
from lpu_mlir.runtime.program import Program, RunStats, Symbols, check_written, numbers


@dataclass(frozen=True)
class Layout:
    """The layout that the program was compiled for: dtype, extents and strides."""

    dtype: torch.dtype
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]

    @staticmethod
    def of(type: Attribute, attrs: DictionaryAttr) -> Layout:
        shape = extents(type)
        strides = attrs.data.get(STRIDES)
        steps = strides.data if isinstance(strides, ShapeAttr) else contiguous_strides(shape)
        return Layout(DTYPES[element_type(type)], shape, steps)

    def empty(self, values: Symbols) -> Tensor:
        sizes, steps = numbers(self.shape)(values), numbers(self.strides)(values)
        return torch.empty_strided(sizes, steps, dtype=self.dtype)

    def lay_out(self, tensor: Tensor, values: Symbols) -> Tensor:
        """The tensor in this layout: a copy if it is in another."""
        return tensor if self.matches(tensor, values) else self.empty(values).copy_(tensor)

    def matches(self, tensor: Tensor, values: Symbols) -> bool:
        """Whether a tensor is laid out so; strides of extents below 2 do not matter."""
        sizes, steps = numbers(self.shape)(values), numbers(self.strides)(values)
        if tuple(tensor.shape) != sizes or tensor.dtype != self.dtype:
            return False
        pairs = zip(sizes, steps, tensor.stride(), strict=True)
        return 0 in sizes or all(size < 2 or want == got for size, want, got in pairs)


Binding: TypeAlias = tuple[str, Callable[[Sequence[Any]], int]]
Output: TypeAlias = Callable[[Sequence[Tensor], Sequence[Tensor], Symbols], Any]
"""From arguments, results and symbols to one output of the graph."""


class Signature:
    """What a graph takes and gives; made from the imported function, before it is lowered."""

    def __init__(self, graph: ImportedGraph):
        function = graph.func
        types = function.function_type
        self.inputs = graph.inputs
        self.constants = graph.constants
        self.arguments = _layouts(types.inputs.data, function.arg_attrs)
        self.results = _layouts(types.outputs.data, function.res_attrs)
        described = function.attributes[OUTPUTS]
        self.outputs = [_output(entry) for entry in _dictionaries(described)]
        self.bindings = self._bindings({s.symbol.data for s in symbols(function)})

    def _bindings(self, wanted: set[str]) -> list[Binding]:
        """How each symbol is read off the inputs; what is left, host calls bind."""
        found: dict[str, Callable[[Sequence[Any]], int]] = {}
        for i, given in enumerate(self.inputs):
            if isinstance(given, ExtentInput):
                found.setdefault(str(given.value), _nth(i))
        for i, given in enumerate(self.inputs):
            if isinstance(given, TensorInput):
                layout = self.arguments[given.argument]
                for axis, extent in enumerate(layout.shape):
                    found.setdefault(str(extent), _size(i, axis))
                for axis, stride in enumerate(layout.strides):
                    found.setdefault(str(stride), _stride(i, axis))
        return [(name, found[name]) for name in sorted(wanted & found.keys())]

    def bind(self, inputs: Sequence[Any]) -> Symbols:
        """The symbols' values for these inputs."""
        return {name: read(inputs) for name, read in self.bindings}

    def tensors(self, inputs: Sequence[Any], values: Symbols) -> list[Tensor]:
        """The function's arguments from the graph's inputs."""
        found: dict[int, Tensor] = {}
        for given, value in zip(self.inputs, inputs, strict=True):
            if isinstance(given, TensorInput):
                shape = self.arguments[given.argument].shape
                found[given.argument] = (
                    value[: shape[0].evaluate(values)] if given.longer else value
                )
            elif isinstance(given, FloatInput):
                found[given.argument] = torch.tensor(float(value), dtype=torch.float64)
        tensors = [found[i] for i in sorted(found)] + list(self.constants)
        return [
            as_compiled(tensor, layout, values, position)
            for position, (tensor, layout) in enumerate(zip(tensors, self.arguments, strict=True))
        ]


def as_compiled(tensor: Tensor, layout: Layout, values: Symbols, position: int) -> Tensor:
    """The tensor without lazy conjugation or negation; ValueError if it is laid out otherwise."""
    if tensor.is_neg() or tensor.is_conj():
        return layout.empty(values).copy_(tensor.resolve_conj().resolve_neg())
    if not layout.matches(tensor, values):
        raise ValueError(
            f"argument {position} is {tensor.dtype} {tuple(tensor.shape)} with strides "
            f"{tensor.stride()}; the program was compiled for {layout.dtype} "
            f"{numbers(layout.shape)(values)} with strides {numbers(layout.strides)(values)}"
        )
    return tensor


def _nth(position: int) -> Callable[[Sequence[Any]], int]:
    return lambda inputs: int(inputs[position])


def _size(position: int, axis: int) -> Callable[[Sequence[Any]], int]:
    return lambda inputs: inputs[position].shape[axis]


def _stride(position: int, axis: int) -> Callable[[Sequence[Any]], int]:
    return lambda inputs: inputs[position].stride()[axis]


def _layouts(types: Sequence[Attribute], attrs: ArrayAttr[DictionaryAttr] | None) -> list[Layout]:
    dictionaries = attrs.data if attrs is not None else [DictionaryAttr({})] * len(types)
    return [Layout.of(t, d) for t, d in zip(types, dictionaries, strict=True)]


def _dictionaries(attr: Attribute) -> list[DictionaryAttr]:
    entries: list[DictionaryAttr] = []
    assert isinstance(attr, ArrayAttr)
    for entry in attr.data:  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        assert isinstance(entry, DictionaryAttr)
        entries.append(entry)
    return entries


# --- outputs ------------------------------------------------------------------------------------


def _integer(attr: Attribute | None) -> int:
    assert isinstance(attr, IntegerAttr)
    return attr.value.data


def _output(described: DictionaryAttr) -> Output:
    data = described.data
    kind = data["kind"]
    assert isinstance(kind, StringAttr)
    match kind.data:
        case "result":
            index = _integer(data["index"])
            return lambda arguments, results, values: results[index]
        case "argument":
            index = _integer(data["index"])
            return lambda arguments, results, values: arguments[index]
        case "view":
            return _view_output(data)
        case "extent":
            value = data["value"]
            assert isinstance(value, ExprAttr)
            return lambda arguments, results, values: value.data.evaluate(values)
        case "condition":
            return _condition_output(data)
        case "number":
            index = _integer(data["index"])
            return lambda arguments, results, values: results[index].item()
        case "literal":
            literal = data["value"]
            assert isinstance(literal, IntegerAttr | FloatAttr)
            number: Any = literal.value.data
            number = bool(number) if isinstance(literal, IntegerAttr) else number
            return lambda arguments, results, values: number
        case "none":
            return lambda arguments, results, values: None
        case other:
            raise ValueError(f"unknown kind of output '{other}'")


def _condition_output(data: Mapping[str, Attribute]) -> Output:
    compare, lhs, rhs = data["compare"], data["lhs"], data["rhs"]
    assert isinstance(compare, StringAttr)
    assert isinstance(lhs, ExprAttr)
    assert isinstance(rhs, ExprAttr)
    holds: Callable[[int, int], bool] = getattr(operator, compare.data)
    sides = numbers([lhs.data, rhs.data])
    return lambda arguments, results, values: holds(*sides(values))


def _view_output(data: Mapping[str, Attribute]) -> Output:
    index, of = _integer(data["index"]), data["of"]
    shape, steps, shift = data["shape"], data["strides"], data["offset"]
    assert isinstance(of, StringAttr)
    assert isinstance(shape, ShapeAttr)
    assert isinstance(steps, ShapeAttr)
    assert isinstance(shift, ExprAttr)
    of_result = of.data == "result"

    def output(arguments: Sequence[Tensor], results: Sequence[Tensor], values: Symbols) -> Tensor:
        base = results[index] if of_result else arguments[index]
        start = int(base.storage_offset()) + shift.data.evaluate(values)
        return base.as_strided(numbers(shape.data)(values), numbers(steps.data)(values), start)

    return output


# --- the callable -------------------------------------------------------------------------------


class Executable:
    """A compiled graph as torch calls it: a list of inputs, which it empties, to a list of outputs.

    Re-entrant; `on_run` is told what each run did.
    """

    _boxed_call = True

    def __init__(
        self,
        signature: Signature,
        program: Program,
        on_run: Callable[[RunStats], None] | None = None,
    ):
        self.signature, self.program, self.on_run = signature, program, on_run
        self.frozen = Frozen(program)

    def __call__(self, inputs: list[Any]) -> list[Any]:
        given = list(inputs)
        inputs.clear()
        signature = self.signature
        with torch.no_grad():
            values = signature.bind(given)
            arguments = signature.tensors(given, values)
            results, stats = self._run(arguments, values)
        if self.on_run is not None:
            self.on_run(stats)
        originals = self._originals(given, arguments)
        return [output(originals, results, values) for output in signature.outputs]

    def _run(self, arguments: list[Tensor], values: Symbols) -> tuple[list[Tensor], RunStats]:
        """All results in order: destinations made here, and what the program returns."""
        returned = self.program.returned
        layouts = enumerate(self.signature.results)
        made = {i: layout.empty(values) for i, layout in layouts if i not in returned}
        memory = Memory()
        for tensor in made.values():
            memory.poison(tensor)
        kept, freeze = self.frozen.values(arguments)
        given, stats = self.program.run([*arguments, *kept, *made.values()], values, memory)
        stats.freeze, stats.kept_bytes = freeze, self.frozen.kept_bytes
        check_written(list(made.values()), memory)
        layouts = [self.signature.results[i] for i in returned]
        laid_out = [layout.lay_out(t, values) for layout, t in zip(layouts, given, strict=True)]
        results = {**made, **dict(zip(returned, laid_out, strict=True))}
        return [results[i] for i in sorted(results)], stats

    def _originals(self, given: Sequence[Any], arguments: list[Tensor]) -> list[Tensor]:
        """The arguments as they came in, for outputs that are inputs."""
        originals = list(arguments)
        for kind, value in zip(self.signature.inputs, given, strict=True):
            if isinstance(kind, TensorInput):
                originals[kind.argument] = value
        return originals
