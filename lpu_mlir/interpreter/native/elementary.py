"""Elementary functions of f32 and f64 on any number of lanes, as LLVM text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from lpu_mlir.interpreter.native.llvm import (
    Builder,
    Value,
    element_of,
    known,
    lanes_of,
    literal,
    suffix,
)

Function: TypeAlias = Callable[..., Value]
"""A function of a builder and operands of one type, which is that of the result."""


# --- the C library ------------------------------------------------------------------------------


def _library(name: str) -> Function:
    """A function of the C library, lane by lane."""

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


acos = _library("acos")
acosh = _library("acosh")
asin = _library("asin")
asinh = _library("asinh")
atan = _library("atan")
atan2 = _library("atan2")
atanh = _library("atanh")
cbrt = _library("cbrt")
cos = _library("cos")
cosh = _library("cosh")
erf = _library("erf")
exp = _library("exp")
exp2 = _library("exp2")
expm1 = _library("expm1")
fmod = _library("fmod")
log = _library("log")
log10 = _library("log10")
log1p = _library("log1p")
log2 = _library("log2")
sin = _library("sin")
sinh = _library("sinh")
tan = _library("tan")
tanh = _library("tanh")


# --- roots and powers ---------------------------------------------------------------------------


def rsqrt(b: Builder, x: Value) -> Value:
    """1 / sqrt(x), both rounded."""
    return b.binary("fdiv", literal(x.type, 1.0), b.intrinsic("sqrt", x))


def _power_half(b: Builder, x: Value) -> Value:
    """sqrt, but that of -0 is 0 and that of -inf is inf."""
    root = b.binary("fadd", b.intrinsic("sqrt", x), literal(x.type, 0.0))
    low = b.compare("fcmp oeq", x, literal(x.type, float("-inf")))
    return b.select(low, literal(x.type, float("inf")), root)


def _reciprocal(b: Builder, x: Value) -> Value:
    return b.binary("fdiv", literal(x.type, 1.0), x)


def _square(b: Builder, x: Value) -> Value:
    return b.binary("fmul", x, x)


_KNOWN_POWERS: dict[float, Callable[[Builder, Value], Value]] = {
    -1.0: _reciprocal,
    -0.5: lambda b, x: _reciprocal(b, _power_half(b, x)),
    0.5: _power_half,
    1.0: lambda b, x: x,
    2.0: _square,
    3.0: lambda b, x: b.binary("fmul", _square(b, x), x),
}
"""Powers with an exponent known while emitting that need at most two roundings."""

_power = _library("pow")


def pow(b: Builder, x: Value, y: Value) -> Value:
    exponent = known(y)
    if exponent in _KNOWN_POWERS:
        return _KNOWN_POWERS[exponent](b, x)
    return _power(b, x, y)
