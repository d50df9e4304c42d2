"""What a graph takes and gives, and how its outputs are made of what its program computes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FloatAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute

from lpu_mlir.dialects.expr import Expr, contiguous_strides
from lpu_mlir.dialects.lpu import ExprAttr, ShapeAttr, element_type, extents, symbols
from lpu_mlir.frontend.importer import ExtentInput, FloatInput, ImportedGraph, Input, TensorInput
from lpu_mlir.frontend.outputs import OUTPUTS, STRIDES
from lpu_mlir.frontend.types import DTYPES
from lpu_mlir.runtime.numbers import Symbols, numbers


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

    def bound(self, values: Symbols) -> BoundLayout:
        """The layout for these values of the symbols."""
        return BoundLayout(self.dtype, numbers(self.shape)(values), numbers(self.strides)(values))


@dataclass(frozen=True)
class BoundLayout:
    """A layout in numbers."""

    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    def empty(self) -> Tensor:
        return torch.empty_strided(self.sizes, self.strides, dtype=self.dtype)

    def lay_out(self, tensor: Tensor) -> Tensor:
        """The tensor in this layout: a copy if it is in another."""
        return tensor if self.matches(tensor) else self.empty().copy_(tensor)

    def matches(self, tensor: Tensor) -> bool:
        """Whether a tensor is laid out so; strides of extents below 2 do not matter."""
        if tensor.shape != self.sizes or tensor.dtype != self.dtype:
            return False
        pairs = zip(self.sizes, self.strides, tensor.stride(), strict=True)
        return 0 in self.sizes or all(size < 2 or want == got for size, want, got in pairs)

    def as_compiled(self, tensor: Tensor, position: int) -> Tensor:
        """Argument `position` without lazy conjugation or negation; ValueError if it is laid out
        otherwise."""
        if tensor.is_neg() or tensor.is_conj():
            return self.empty().copy_(tensor.resolve_conj().resolve_neg())
        if not self.matches(tensor):
            raise ValueError(
                f"argument {position} is {tensor.dtype} {tuple(tensor.shape)} with strides "
                f"{tensor.stride()}; the program was compiled for {self.dtype} {self.sizes} "
                f"with strides {self.strides}"
            )
        return tensor


Binding: TypeAlias = tuple[str, Callable[[Sequence[Any]], int]]
Output: TypeAlias = Callable[[Sequence[Tensor], Sequence[Tensor], Symbols], Any]
"""From arguments, results and symbols to one output of the graph."""


class Signature:
    """What a graph takes and gives; made from the imported function, before it is lowered."""

    def __init__(self, graph: ImportedGraph):
        function = graph.func
        types = function.function_type
        self.inputs = graph.inputs
        self.constants = list(graph.constants)
        self.arguments = _layouts(types.inputs.data, function.arg_attrs)
        self.results = _layouts(types.outputs.data, function.res_attrs)
        described = function.attributes[OUTPUTS]
        self.outputs = [_output(entry) for entry in _dictionaries(described)]
        self.bindings = self._bindings({s.symbol.data for s in symbols(function)})
        read = dict(filter(None, map(_reader, self.inputs, count())))
        self._readers = [read[i] for i in sorted(read)]
        """For each argument but the constants, what finds it among the inputs."""
        tensors = [given for given in self.inputs if isinstance(given, TensorInput)]
        self._longer = [given.argument for given in tensors if given.longer]

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

    def tensors(self, inputs: Sequence[Any], layouts: Sequence[BoundLayout]) -> list[Tensor]:
        """The function's arguments, laid out as given, from the graph's inputs.

        ValueError for one that is laid out otherwise.
        """
        tensors = [read(inputs) for read in self._readers] + self.constants
        for position in self._longer:
            tensors[position] = tensors[position][: layouts[position].sizes[0]]
        for position, (tensor, layout) in enumerate(zip(tensors, layouts, strict=True)):
            if (
                tensor.shape != layout.sizes
                or tensor.stride() != layout.strides
                or tensor.dtype is not layout.dtype
                or tensor.is_neg()
                or tensor.is_conj()
            ):
                with torch.no_grad():
                    tensors[position] = layout.as_compiled(tensor, position)
        return tensors


def _reader(given: Input, position: int) -> tuple[int, Callable[[Sequence[Any]], Tensor]] | None:
    """Which argument an input is, and what reads it; None if it is not one."""
    match given:
        case TensorInput():
            return given.argument, itemgetter(position)
        case FloatInput():
            return given.argument, lambda inputs: as_tensor(float(inputs[position]))
        case _:
            return None


def as_tensor(value: float) -> Tensor:
    """A 0-d tensor, made without an operator."""
    return torch.from_numpy(np.array(value))  # pyright: ignore[reportUnknownMemberType]


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
