"""Floats of one format as those of another, and operations on half precision by way of f32."""

from __future__ import annotations

from lpu_mlir.interpreter.native.library import Function
from lpu_mlir.interpreter.native.llvm import (
    I32,
    Builder,
    Value,
    element_of,
    known,
    literal,
    retyped,
)

HALVES = ("half", "bfloat")


def like(x: Value, number: float) -> Value:
    """A number in as many lanes, of the same type."""
    return literal(x.type, number)


def widened(b: Builder, x: Value) -> Value:
    """Half precision as f32, which is exact; other floats as they are."""
    number = known(x)
    if number is not None and element_of(x.type) in HALVES:
        return literal(retyped(x.type, "float"), number)
    match element_of(x.type):
        case "half":
            return b.cast("fpext", x, "float")
        case "bfloat":
            bits = b.cast("zext", b.cast("bitcast", x, "i16"), I32)
            return b.cast("bitcast", b.binary("shl", bits, like(bits, 16)), "float")
        case _:
            return x


def _to_bfloat(b: Builder, x: Value) -> Value:
    """The nearest bf16 to an f32, to even: by integers, as conversions of some machines flush
    subnormal numbers to zero."""
    bits = b.cast("bitcast", x, I32)
    upper = b.binary("lshr", bits, like(bits, 16))
    odd = b.binary("and", upper, like(bits, 1))
    up = b.binary("add", odd, like(bits, 0x7FFF))
    nearest = b.binary("lshr", b.binary("add", bits, up), like(bits, 16))
    quiet = b.binary("or", upper, like(bits, 0x40))
    chosen = b.select(b.compare("fcmp uno", x, x), quiet, nearest)
    return b.cast("bitcast", b.cast("trunc", chosen, "i16"), "bfloat")


def to_float(b: Builder, x: Value, element: str) -> Value:
    """Any float as any other; from f64 to half precision by way of f32, as PyTorch converts."""
    if element_of(x.type) == element:
        return x
    wide = widened(b, x)
    if element_of(wide.type) == element:
        return wide
    if element == "double":
        return b.cast("fpext", wide, "double")
    if element_of(wide.type) == "double":
        wide = b.cast("fptrunc", wide, "float")
    match element:
        case "half":
            return b.cast("fptrunc", wide, "half")
        case "bfloat":
            return _to_bfloat(b, wide)
        case _:
            return wide


def rounded(function: Function) -> Function:
    """A function of f32 and f64, of half precision by way of f32."""

    def run(b: Builder, *operands: Value) -> Value:
        result = function(b, *(widened(b, x) for x in operands))
        return to_float(b, result, element_of(operands[0].type))

    return run


def exact(function: Function) -> Function:
    """A function of f32 and f64 whose result is one of its operands, also for half precision."""

    def run(b: Builder, *operands: Value) -> Value:
        result = function(b, *(widened(b, x) for x in operands))
        if element_of(operands[0].type) != "bfloat":
            return to_float(b, result, element_of(operands[0].type))
        bits = b.cast("bitcast", result, I32)
        upper = b.cast("trunc", b.binary("lshr", bits, like(bits, 16)), "i16")
        return b.cast("bitcast", upper, "bfloat")

    return run
