"""What a graph takes and gives, and how its outputs are made of what its program computes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from operator import itemgetter
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.frontend.interface import FloatInput, Input, TensorInput
from lpu_mlir.runtime.layout import ArgumentLayouts, Layout
from lpu_mlir.runtime.numbers import Symbols, numbers

Output: TypeAlias = Callable[[Sequence[Tensor], Sequence[Tensor], Symbols], Any]
"""From arguments, results and symbols to one output of the graph."""


@dataclass(frozen=True)
class Binding:
    """A symbol that is read off input `position`: the number itself, an extent or a stride."""

    symbol: str
    kind: Literal["number", "extent", "stride"]
    position: int
    axis: int = 0

    def reader(self) -> Callable[[Sequence[Any]], int]:
        """What reads the symbol's value off the inputs."""
        position, axis = self.position, self.axis
        match self.kind:
            case "number":
                return lambda inputs: int(inputs[position])
            case "extent":
                return lambda inputs: inputs[position].shape[axis]
            case "stride":
                return lambda inputs: inputs[position].stride()[axis]


class Described(Protocol):
    """An output of the graph as data."""

    def maker(self) -> Output:
        """What makes the output."""
        ...


@dataclass(eq=False)
class Signature:
    """What a graph takes and gives."""

    inputs: tuple[Input, ...]
    constants: tuple[Tensor, ...]
    """Arguments after those that come from inputs."""
    arguments: tuple[Layout, ...]
    results: tuple[Layout, ...]
    bindings: tuple[Binding, ...]
    """How symbols are read off the inputs; what is left, host calls bind."""
    described: tuple[Described, ...]
    """The outputs."""
    written: tuple[int, ...] = ()
    """Arguments that the program writes."""

    def __post_init__(self) -> None:
        self.outputs = [output.maker() for output in self.described]
        self.returns_inputs = any(map(_is_input, self.described))
        self._symbols = [(binding.symbol, binding.reader()) for binding in self.bindings]
        read = dict(filter(None, map(_reader, self.inputs, count())))
        self._readers = [read[i] for i in sorted(read)]
        """For each argument but the constants, what finds it among the inputs."""
        tensors = [given for given in self.inputs if isinstance(given, TensorInput)]
        self._longer = [given.argument for given in tensors if given.longer]

    def bind(self, inputs: Sequence[Any]) -> Symbols:
        """The symbols' values for these inputs."""
        return {name: read(inputs) for name, read in self._symbols}

    def tensors(self, inputs: Sequence[Any], layouts: ArgumentLayouts) -> list[Tensor]:
        """The function's arguments, as long as their layouts say, from the graph's inputs."""
        tensors = [*(read(inputs) for read in self._readers), *self.constants]
        for position in self._longer:
            tensors[position] = tensors[position][: layouts[position].sizes[0]]
        return tensors

    def write_back(self, tensors: Sequence[Tensor], arguments: Sequence[Tensor]) -> None:
        """What the program wrote to copies of lazy tensors, to the tensors themselves."""
        with torch.no_grad():
            for position in self.written:
                if arguments[position] is not tensors[position]:
                    tensors[position].copy_(arguments[position])


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


def _is_input(described: Described) -> bool:
    """Whether an output is an input or a view of one."""
    return isinstance(described, ArgumentOutput) or (
        isinstance(described, ViewOutput) and not described.of_result
    )


# --- outputs, see frontend/outputs.py -----------------------------------------------------------


@dataclass(frozen=True)
class ResultOutput:
    index: int

    def maker(self) -> Output:
        index = self.index
        return lambda arguments, results, values: results[index]


@dataclass(frozen=True)
class ArgumentOutput:
    index: int

    def maker(self) -> Output:
        index = self.index
        return lambda arguments, results, values: arguments[index]


@dataclass(frozen=True)
class NumberOutput:
    index: int

    def maker(self) -> Output:
        index = self.index
        return lambda arguments, results, values: results[index].item()


@dataclass(frozen=True)
class ExtentOutput:
    value: Expr

    def maker(self) -> Output:
        evaluate = self.value.evaluate
        return lambda arguments, results, values: evaluate(values)


@dataclass(frozen=True)
class LiteralOutput:
    value: bool | float | None

    def maker(self) -> Output:
        value = self.value
        return lambda arguments, results, values: value


@dataclass(frozen=True)
class ConditionOutput:
    compare: str
    lhs: Expr
    rhs: Expr

    def maker(self) -> Output:
        holds: Callable[[int, int], bool] = getattr(operator, self.compare)
        sides = numbers([self.lhs, self.rhs])
        return lambda arguments, results, values: holds(*sides(values))


@dataclass(frozen=True)
class ViewOutput:
    """A view of a result's or an argument's storage; `offset` counts from its first element, or if
    it is absolute from the beginning of the storage."""

    of_result: bool
    index: int
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    offset: Expr
    absolute: bool = False

    def maker(self) -> Output:
        of_result, index, offset = self.of_result, self.index, self.offset
        absolute = self.absolute
        shape, steps = numbers(self.shape), numbers(self.strides)

        def output(
            arguments: Sequence[Tensor], results: Sequence[Tensor], values: Symbols
        ) -> Tensor:
            base = results[index] if of_result else arguments[index]
            before = 0 if absolute else int(base.storage_offset())
            start = before + offset.evaluate(values)
            return base.as_strided(shape(values), steps(values), start)

        return output


@dataclass(frozen=True)
class PlacedOutput:
    """A result in a storage that has room before it, as that of its base has."""

    index: int
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    offset: Expr

    def maker(self) -> Output:
        index, offset = self.index, self.offset
        shape, steps = numbers(self.shape), numbers(self.strides)

        def output(
            arguments: Sequence[Tensor], results: Sequence[Tensor], values: Symbols
        ) -> Tensor:
            sizes, strides, start = shape(values), steps(values), offset.evaluate(values)
            span = 1 + sum((e - 1) * s for e, s in zip(sizes, strides, strict=True))
            whole = results[index].new_empty(start + max(span, 0))
            return whole.as_strided(sizes, strides, start).copy_(results[index])

        return output


OUTPUTS = (
    ResultOutput,
    ArgumentOutput,
    NumberOutput,
    ExtentOutput,
    LiteralOutput,
    ConditionOutput,
    ViewOutput,
    PlacedOutput,
)
"""The classes of outputs."""
