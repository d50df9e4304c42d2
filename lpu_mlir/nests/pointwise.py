"""The pointwise functions of `lpu_graph` as scalar expressions, and conversions of element types.

One table for each kind of number.  Half-precision floats are computed in f32 and rounded once, as
PyTorch does; unsigned bytes are i8 scalars on which order, division and shifts are unsigned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import pi, sqrt
from typing import TypeAlias

from xdsl.dialects import arith, math
from xdsl.dialects.arith import FastMathFlagsAttr, IntegerOverflowAttr
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    f32,
    f64,
)
from xdsl.ir import Attribute, Operation

from lpu_mlir.dialects.lpu import RemFOp, i1, i8, i16, i32, i64, scalar_type, ui8
from lpu_mlir.nests.scalar import Node, Properties, Scalars

_FAST: Properties = (("fastmath", FastMathFlagsAttr("none")),)
_WRAP: Properties = (("overflowFlags", IntegerOverflowAttr("none")),)
_WITH_OVERFLOW = (arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.ShLIOp)

INTEGER_DIVISION = frozenset({"floordiv", "truncdiv", "remainder", "fmod"})
"""Functions that raise when an integer divisor is zero."""


@dataclass(frozen=True)
class Numbers:
    """Builds operations on scalars of one element type."""

    scalars: Scalars
    element: Attribute

    @property
    def type(self) -> Attribute:
        return scalar_type(self.element)

    @property
    def unsigned(self) -> bool:
        return self.element in (ui8, i1)

    def float(self, op: type[Operation], *operands: Node) -> Node:
        return self.scalars.op(op, operands, self.type, _FAST)

    def int(self, op: type[Operation], *operands: Node) -> Node:
        properties = _WRAP if op in _WITH_OVERFLOW else ()
        return self.scalars.op(op, operands, self.type, properties)

    def const(self, value: float) -> Node:
        return self.scalars.constant(constant_attr(value, self.type), self.type)

    def select(self, condition: Node, then: Node, otherwise: Node) -> Node:
        return self.scalars.op(arith.SelectOp, (condition, then, otherwise), self.type)

    def compare(self, predicate: str, lhs: Node, rhs: Node) -> Node:
        """`predicate` is eq, ne, lt, le, gt or ge; comparing with NaN gives false, but for ne."""
        if isinstance(self.type, AnyFloat):
            code = _CMPF[predicate]
            properties: Properties = (("fastmath", _FAST[0][1]), ("predicate", _i64(code)))
            return self.scalars.op(arith.CmpfOp, (lhs, rhs), i1, properties)
        code = _CMPI[predicate] + (4 if self.unsigned and _CMPI[predicate] > 1 else 0)
        return self.scalars.op(arith.CmpiOp, (lhs, rhs), i1, (("predicate", _i64(code)),))


def _i64(value: int) -> Attribute:
    return IntegerAttr(value, i64)


_CMPI = {"eq": 0, "ne": 1, "lt": 2, "le": 3, "gt": 4, "ge": 5}
_CMPF = {"eq": 1, "ne": 13, "lt": 4, "le": 5, "gt": 2, "ge": 3}


def constant_attr(value: float, type: Attribute) -> Attribute:
    """The attribute of a scalar constant of that type."""
    if isinstance(type, AnyFloat):
        return FloatAttr(float(value), type)
    return IntegerAttr(int(value), IntegerType(_bits(type)))


# --- floats -------------------------------------------------------------------------------------

Builder: TypeAlias = Callable[..., Node]


def _float_sign(n: Numbers, x: Node) -> Node:
    negative = n.select(n.compare("lt", x, n.const(0)), n.const(-1), n.const(0))
    return n.select(n.compare("gt", x, n.const(0)), n.const(1), negative)


def _float_sigmoid(n: Numbers, x: Node) -> Node:
    one = n.const(1)
    denominator = n.float(arith.AddfOp, one, n.float(math.ExpOp, n.float(arith.NegfOp, x)))
    return n.float(arith.DivfOp, one, denominator)


def _half_of(n: Numbers, x: Node, like: Node) -> Node:
    """x / 2 * (1 + like)"""
    halved = n.float(arith.MulfOp, x, n.const(0.5))
    return n.float(arith.MulfOp, halved, n.float(arith.AddfOp, like, n.const(1)))


def _gelu(n: Numbers, x: Node) -> Node:
    scaled = n.float(arith.MulfOp, x, n.const(sqrt(0.5)))
    return _half_of(n, x, n.float(math.ErfOp, scaled))


def _gelu_tanh(n: Numbers, x: Node) -> Node:
    cubed = n.float(arith.MulfOp, n.float(arith.MulfOp, x, x), x)
    inner = n.float(arith.AddfOp, x, n.float(arith.MulfOp, cubed, n.const(0.044715)))
    scaled = n.float(arith.MulfOp, inner, n.const(sqrt(2 / pi)))
    return _half_of(n, x, n.float(math.TanhOp, scaled))


def _quick_gelu(n: Numbers, x: Node) -> Node:
    return n.float(arith.MulfOp, x, _float_sigmoid(n, n.float(arith.MulfOp, x, n.const(1.702))))


def _signs_differ(n: Numbers, rest: Node, divisor: Node) -> Node:
    """Whether a remainder is not zero and has another sign than the divisor."""
    zero = n.const(0)
    negative, below = n.compare("lt", rest, zero), n.compare("lt", divisor, zero)
    differ = n.scalars.op(arith.XOrIOp, (negative, below), i1)
    return n.scalars.op(arith.AndIOp, (n.compare("ne", rest, zero), differ), i1)


def _float_remainder(n: Numbers, x: Node, y: Node) -> Node:
    rest = n.float(RemFOp, x, y)
    return n.select(_signs_differ(n, rest, y), n.float(arith.AddfOp, rest, y), rest)


def _float_floordiv(n: Numbers, x: Node, y: Node) -> Node:
    """PyTorch's floor division: the exact remainder decides, then the quotient is rounded."""
    zero, one = n.const(0), n.const(1)
    rest = n.float(RemFOp, x, y)
    quotient = n.float(arith.DivfOp, n.float(arith.SubfOp, x, rest), y)
    lower = n.float(arith.SubfOp, quotient, one)
    quotient = n.select(_signs_differ(n, rest, y), lower, quotient)
    down = n.float(math.FloorOp, quotient)
    above = n.compare("gt", n.float(arith.SubfOp, quotient, down), n.const(0.5))
    rounded = n.select(above, n.float(arith.AddfOp, down, one), down)
    plain = n.float(arith.DivfOp, x, y)
    signed_zero = n.float(math.CopySignOp, zero, plain)
    rounded = n.select(n.compare("eq", quotient, zero), signed_zero, rounded)
    return n.select(n.compare("eq", y, zero), plain, rounded)


def _reciprocal(n: Numbers, x: Node) -> Node:
    return n.float(arith.DivfOp, n.const(1), x)


def _direct(op: type[Operation]) -> Builder:
    def build(n: Numbers, *operands: Node) -> Node:
        return n.float(op, *operands)

    return build


FLOAT: Mapping[str, Builder] = {
    "abs": _direct(math.AbsFOp),
    "acos": _direct(math.AcosOp),
    "acosh": _direct(math.AcoshOp),
    "add": _direct(arith.AddfOp),
    "asin": _direct(math.AsinOp),
    "asinh": _direct(math.AsinhOp),
    "atan": _direct(math.AtanOp),
    "atan2": _direct(math.Atan2Op),
    "atanh": _direct(math.AtanhOp),
    "ceil": _direct(math.CeilOp),
    "copysign": _direct(math.CopySignOp),
    "cos": _direct(math.CosOp),
    "cosh": _direct(math.CoshOp),
    "div": _direct(arith.DivfOp),
    "erf": _direct(math.ErfOp),
    "exp": _direct(math.ExpOp),
    "exp2": _direct(math.Exp2Op),
    "expm1": _direct(math.ExpM1Op),
    "floor": _direct(math.FloorOp),
    "floordiv": _float_floordiv,
    "fma": _direct(math.FmaOp),
    "fmod": _direct(RemFOp),
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "log": _direct(math.LogOp),
    "log10": _direct(math.Log10Op),
    "log1p": _direct(math.Log1pOp),
    "log2": _direct(math.Log2Op),
    "maximum": _direct(arith.MaximumfOp),
    "minimum": _direct(arith.MinimumfOp),
    "mul": _direct(arith.MulfOp),
    "neg": _direct(arith.NegfOp),
    "pow": _direct(math.PowFOp),
    "quick_gelu": _quick_gelu,
    "reciprocal": _reciprocal,
    "remainder": _float_remainder,
    "round": _direct(math.RoundEvenOp),
    "rsqrt": _direct(math.RsqrtOp),
    "sigmoid": _float_sigmoid,
    "sign": _float_sign,
    "sin": _direct(math.SinOp),
    "sinh": _direct(math.SinhOp),
    "sqrt": _direct(math.SqrtOp),
    "sub": _direct(arith.SubfOp),
    "tan": _direct(math.TanOp),
    "tanh": _direct(math.TanhOp),
    "trunc": _direct(math.TruncOp),
}

# --- integers -----------------------------------------------------------------------------------


def _signed(op: type[Operation], unsigned_op: type[Operation]) -> Builder:
    def build(n: Numbers, *operands: Node) -> Node:
        return n.int(unsigned_op if n.unsigned else op, *operands)

    return build


def _int_abs(n: Numbers, x: Node) -> Node:
    return x if n.unsigned else n.int(math.AbsIOp, x)


def _int_sign(n: Numbers, x: Node) -> Node:
    above = n.select(n.compare("gt", x, n.const(0)), n.const(1), n.const(0))
    if n.unsigned:
        return above
    return n.select(n.compare("lt", x, n.const(0)), n.const(-1), above)


def _int_remainder(n: Numbers, x: Node, y: Node) -> Node:
    if n.unsigned:
        return n.int(arith.RemUIOp, x, y)
    rest = n.int(arith.RemSIOp, x, y)
    return n.select(_signs_differ(n, rest, y), n.int(arith.AddiOp, rest, y), rest)


def _int_pow(n: Numbers, x: Node, y: Node) -> Node:
    """An exponent below 0 counts as such, so unsigned ones need one bit more."""
    if not n.unsigned:
        return n.int(math.IPowIOp, x, y)
    wide = [convert(n.scalars, value, n.element, i16) for value in (x, y)]
    return convert(n.scalars, Numbers(n.scalars, i16).int(math.IPowIOp, *wide), i16, n.element)


def _int_neg(n: Numbers, x: Node) -> Node:
    return n.int(arith.SubiOp, n.const(0), x)


def _int_not(n: Numbers, x: Node) -> Node:
    return n.int(arith.XOrIOp, x, n.const(-1))


def _bool_not(n: Numbers, x: Node) -> Node:
    return n.int(arith.XOrIOp, x, n.const(1))


def _plain(op: type[Operation]) -> Builder:
    def build(n: Numbers, *operands: Node) -> Node:
        return n.int(op, *operands)

    return build


INTEGER: Mapping[str, Builder] = {
    "abs": _int_abs,
    "add": _plain(arith.AddiOp),
    "and": _plain(arith.AndIOp),
    "floordiv": _signed(arith.FloorDivSIOp, arith.DivUIOp),
    "fmod": _signed(arith.RemSIOp, arith.RemUIOp),
    "maximum": _signed(arith.MaxSIOp, arith.MaxUIOp),
    "minimum": _signed(arith.MinSIOp, arith.MinUIOp),
    "mul": _plain(arith.MuliOp),
    "neg": _int_neg,
    "not": _int_not,
    "or": _plain(arith.OrIOp),
    "pow": _int_pow,
    "remainder": _int_remainder,
    "shl": _plain(arith.ShLIOp),
    "shr": _signed(arith.ShRSIOp, arith.ShRUIOp),
    "sign": _int_sign,
    "sub": _plain(arith.SubiOp),
    "truncdiv": _signed(arith.DivSIOp, arith.DivUIOp),
    "xor": _plain(arith.XOrIOp),
}

BOOLEAN: Mapping[str, Builder] = {
    "add": _plain(arith.OrIOp),
    "and": _plain(arith.AndIOp),
    "maximum": _plain(arith.OrIOp),
    "minimum": _plain(arith.AndIOp),
    "mul": _plain(arith.AndIOp),
    "not": _bool_not,
    "or": _plain(arith.OrIOp),
    "sub": _plain(arith.XOrIOp),
    "xor": _plain(arith.XOrIOp),
}

EXACT = frozenset({"abs", "neg", "maximum", "minimum", "copysign", "sign", "select"})
"""Functions whose half-precision result needs no rounding: computed in the type itself."""


def pointwise(scalars: Scalars, kind: str, operands: list[Node], element: Attribute) -> Node:
    """The value of a pointwise function on scalars of tensors with that element type.

    For `select` the first operand is the condition and `element` the type of the others.
    """
    numbers = Numbers(scalars, element)
    if kind in _CMPI:
        return numbers.compare(kind, *operands)
    if kind == "select":
        return numbers.select(*operands)
    if element == i1:
        return BOOLEAN[kind](numbers, *operands)
    if not isinstance(element, AnyFloat):
        return INTEGER[kind](numbers, *operands)
    if isinstance(element, BFloat16Type | Float16Type) and kind not in EXACT:
        wide = [convert(scalars, operand, element, f32) for operand in operands]
        result = FLOAT[kind](Numbers(scalars, f32), *wide)
        return convert(scalars, result, f32, element)
    return FLOAT[kind](numbers, *operands)


# --- conversions --------------------------------------------------------------------------------


def convert(scalars: Scalars, value: Node, source: Attribute, target: Attribute) -> Node:
    """A scalar of element type `source` as one of `target`, by PyTorch's rules."""
    if source == target:
        return value
    if target == i1:
        numbers = Numbers(scalars, source)
        return numbers.compare("ne", value, numbers.const(0))
    if isinstance(source, AnyFloat):
        if isinstance(target, AnyFloat):
            return _convert_float(scalars, value, source, target)
        through = i32 if target in (i8, i16, i32) else i64  # the least, for what it has not
        whole = scalars.op(arith.FPToSIOp, (value,), through)
        return convert(scalars, whole, through, target)
    if isinstance(target, AnyFloat):
        op = arith.UIToFPOp if source in (i1, ui8) else arith.SIToFPOp
        if isinstance(target, BFloat16Type | Float16Type):
            return convert(scalars, scalars.op(op, (value,), f32), f32, target)
        return scalars.op(op, (value,), target)
    return _convert_integer(scalars, value, source, target)


def _convert_float(scalars: Scalars, value: Node, source: AnyFloat, target: AnyFloat) -> Node:
    if source.bitwidth == target.bitwidth:  # between the two halves
        return convert(scalars, convert(scalars, value, source, f32), f32, target)
    if source.bitwidth < target.bitwidth:
        return scalars.op(arith.ExtFOp, (value,), target, ())
    if source == f64 and target.bitwidth == 16:
        return convert(scalars, convert(scalars, value, source, f32), f32, target)
    return scalars.op(arith.TruncFOp, (value,), target, ())


def _bits(type: Attribute) -> int:
    assert isinstance(type, IntegerType)
    return type.bitwidth


def _convert_integer(scalars: Scalars, value: Node, source: Attribute, target: Attribute) -> Node:
    result = scalar_type(target)
    narrow, wide = _bits(value.type), _bits(result)
    if narrow == wide:
        return value
    if narrow > wide:
        return scalars.op(arith.TruncIOp, (value,), result)
    op = arith.ExtUIOp if source in (i1, ui8) else arith.ExtSIOp
    return scalars.op(op, (value,), result)
