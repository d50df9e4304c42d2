"""Functions of the C library, lane by lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from lpu_mlir.interpreter.native.lanes import Lanes, where
from lpu_mlir.interpreter.native.llvm import Builder, Value, element_of, lanes_of, suffix

Function: TypeAlias = Callable[..., Value]
"""A function of a builder and operands of one type, which is that of the result."""


def library(name: str) -> Function:
    """The function of f64 of that name, and that of f32, whose name ends in f."""

    def run(b: Builder, *operands: Value) -> Value:
        element = element_of(operands[0].type)
        symbol = name if element == "double" else f"{name}f"
        b.declare(symbol, f"{element} ({', '.join([element] * len(operands))})")
        if lanes_of(operands[0].type) == 1:
            return b.call(symbol, element, operands)
        return b.call(_lane_by_lane(b, symbol, operands), operands[0].type, operands)

    return run


def _lane_by_lane(b: Builder, symbol: str, operands: tuple[Value, ...]) -> str:
    """The name of a helper that calls a function for every lane."""
    kind = operands[0].type
    name = f"lpu.{symbol}.{suffix(kind)}"
    if name not in b.module.definitions:
        inner = Builder(b.module)
        arguments = [Value(kind, f"%a{n}") for n in range(len(operands))]
        result = Value(kind, "poison")
        for lane in range(lanes_of(kind)):
            scalars = [inner.extract(argument, lane) for argument in arguments]
            result = inner.insert(result, inner.call(symbol, element_of(kind), scalars), lane)
        b.module.definitions[name] = inner.function(
            name, arguments, "noinline ", result, "internal"
        )
    return name


def of_f32(function: Callable[..., Lanes]) -> Function:
    """A function of f32; for f64 it is the C library's of the same name."""
    of_f64 = library(function.__name__)

    def run(b: Builder, *operands: Value) -> Value:
        if element_of(operands[0].type) == "double":
            return of_f64(b, *operands)
        return function(*(Lanes(b, x) for x in operands)).value

    return run


def unless_rare(rare: Lanes, usual: Lanes, name: str, *operands: Lanes) -> Lanes:
    """A result, and that of a function of the C library in rare lanes, if there are any."""
    b = usual.b

    def mixed() -> Value:
        other = library(name)(b, *(x.value for x in operands))
        return where(rare, Lanes(b, other), usual).value

    return Lanes(b, b.unless(rare.any(), usual.value, mixed))
