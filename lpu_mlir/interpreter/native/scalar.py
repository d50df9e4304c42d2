"""The operations on scalars as LLVM text, on any number of lanes at once.

What each computes is defined by the reference interpreter's table of the same name, bit by bit but
for the sign and payload of NaN, the sign of a zero that is the larger or smaller of two zeros, and
the last bits of elementary functions.  Nothing traps and nothing is undefined: what MLIR leaves
undefined is some value here too, on x86 that of the reference.

A half-precision operation is computed in f32 and rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Operation

from lpu_mlir.dialects.lpu import RemFOp, ui8
from lpu_mlir.interpreter.native import elementary, inverse, powers
from lpu_mlir.interpreter.native.floats import HALVES, exact, like, rounded, to_float, widened
from lpu_mlir.interpreter.native.lanes import Lanes
from lpu_mlir.interpreter.native.library import Function, library, of_f32
from lpu_mlir.interpreter.native.llvm import (
    I1,
    I8,
    I32,
    I64,
    Builder,
    Value,
    element_of,
    known,
    lanes_of,
    literal,
    register_type,
    suffix,
    vector,
)

Unary: TypeAlias = Callable[[Builder, Value], Value]
Binary: TypeAlias = Callable[[Builder, Value, Value], Value]

_FLOATS = (*HALVES, "float", "double")


def emit_scalar(b: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    """The result of a scalar operation; operands of one lane are used for all lanes of the others.

    Raises NotImplementedError for an operation that is in neither table.
    """
    lanes = max(lanes_of(operand.type) for operand in operands)
    values = [b.splat(operand, lanes) for operand in operands]
    if (plain := PLAIN.get(type(op))) is not None:
        return plain(b, *values)
    if (make := BY_TYPE.get(type(op))) is not None:
        return make(op)(b, *values)
    raise NotImplementedError(f"{op.name} is not a scalar operation of kernels")


def emit_constant(b: Builder, attribute: Attribute, lanes: int = 1) -> Value:
    """A scalar constant in every lane."""
    if isinstance(attribute, FloatAttr):
        number = cast("FloatAttr[Any]", attribute)
        return literal(vector(register_type(number.type), lanes), number.value.data)
    assert isinstance(attribute, IntegerAttr)
    integer = cast("IntegerAttr[Any]", attribute)
    return literal(vector(register_type(integer.type), lanes), integer.value.data)


# --- helpers ------------------------------------------------------------------------------------


def _width(type: str) -> int:
    """The bits of an element of an integer type."""
    return int(element_of(type)[1:])


def _instruction(name: str) -> Binary:
    return lambda b, x, y: b.binary(name, x, y)


def _intrinsic(name: str) -> Function:
    def run(b: Builder, *operands: Value) -> Value:
        return b.intrinsic(name, *operands)

    return run


def _as_i8(function: Function) -> Function:
    """A function of integers, and of i1 by way of i8 -1 and 0, of which the low bit is kept."""

    def run(b: Builder, *operands: Value) -> Value:
        if element_of(operands[0].type) != I1:
            return function(b, *operands)
        return b.cast("trunc", function(b, *(b.cast("sext", x, I8) for x in operands)), I1)

    return run


# --- floats -------------------------------------------------------------------------------------


_power_of_lanes = of_f32(powers.pow)


def _power(b: Builder, x: Value, y: Value) -> Value:
    if (function := powers.KNOWN_POWERS.get(known(y) or 0.0)) is not None:
        return function(Lanes(b, x)).value
    return _power_of_lanes(b, x, y)


def _reciprocal_root(b: Builder, x: Value) -> Value:
    return powers.rsqrt(Lanes(b, x)).value


def _on_sign(function: Function, on_bits: Function) -> Function:
    """What changes no bit but the sign: for half precision, a function of the bits."""

    def run(b: Builder, *operands: Value) -> Value:
        element = element_of(operands[0].type)
        if element not in HALVES:
            return function(b, *operands)
        bits = (b.cast("bitcast", x, "i16") for x in operands)
        return b.cast("bitcast", on_bits(b, *bits), element)

    return run


def _negate(b: Builder, x: Value) -> Value:
    return b.op(x.type, f"fneg {x}")


def _flip(b: Builder, bits: Value) -> Value:
    return b.binary("xor", bits, like(bits, 0x8000))


def _magnitude(b: Builder, bits: Value) -> Value:
    return b.binary("and", bits, like(bits, 0x7FFF))


def _with_sign(b: Builder, x: Value, sign: Value) -> Value:
    """By bits: of llvm.copysign of what was widened LLVM makes calls of a function that is not
    there, `__truncdfhf2`."""
    element = element_of(x.type)
    width = 16 if element in HALVES else int(suffix(element)[1:])
    bits, sign_bits = (b.cast("bitcast", value, f"i{width}") for value in (x, sign))
    magnitude = b.binary("and", bits, like(bits, (1 << width - 1) - 1))
    only_sign = b.binary("and", sign_bits, like(bits, -1 << width - 1))
    return b.cast("bitcast", b.binary("or", magnitude, only_sign), element)


def _select(b: Builder, condition: Value, x: Value, y: Value) -> Value:
    return b.select(condition, x, y)


def _extreme(better: str) -> Binary:
    """The better of two, or NaN if either is; which of two zeros is left open."""

    def run(b: Builder, x: Value, y: Value) -> Value:
        if _is_number(x) or _is_number(y):
            # The second operand is chosen where a comparison fails, also with NaN.
            first, second = (x, y) if _is_number(x) else (y, x)
            return b.select(b.compare(f"fcmp {better}", first, second), first, second)
        chosen = b.select(b.compare(f"fcmp {better}", x, y), x, y)
        return b.select(b.compare("fcmp uno", x, x), x, chosen)

    return run


def _is_number(x: Value) -> bool:
    """Whether it is known to be other than NaN."""
    number = known(x)
    return number is not None and number == number


def _extreme_number(better: str) -> Binary:
    """The better of two, or the other one if one is NaN."""

    def run(b: Builder, x: Value, y: Value) -> Value:
        chosen = b.select(b.compare(f"fcmp {better}", x, y), x, y)
        return b.select(b.compare("fcmp uno", y, y), x, chosen)

    return run


_FCMP = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)


def _compare_floats(op: Operation) -> Binary:
    assert isinstance(op, arith.CmpfOp)
    predicate = _FCMP[op.predicate.value.data]
    return lambda b, x, y: b.compare(f"fcmp {predicate}", widened(b, x), widened(b, y))


# --- integers -----------------------------------------------------------------------------------

_ICMP = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


def _compare_integers(op: Operation) -> Binary:
    assert isinstance(op, arith.CmpiOp)
    predicate = _ICMP[op.predicate.value.data]
    return lambda b, x, y: b.compare(f"icmp {predicate}", x, y)


def _equals(b: Builder, x: Value, number: int) -> Value:
    return b.compare("icmp eq", x, like(x, number))


def _negative(b: Builder, x: Value) -> Value:
    return b.compare("icmp slt", x, like(x, 0))


def _safe_divisor(b: Builder, y: Value) -> Value:
    """With 0 and -1 replaced by 1: on those the division traps or overflows."""
    plus_one = b.binary("add", y, like(y, 1))
    return b.select(b.compare("icmp ult", plus_one, like(y, 2)), like(y, 1), y)


def _quotient(b: Builder, x: Value, y: Value) -> Value:
    quotient = b.binary("sdiv", x, _safe_divisor(b, y))
    return b.select(_equals(b, y, -1), b.binary("sub", like(x, 0), x), quotient)


def _remainder(b: Builder, x: Value, y: Value) -> Value:
    return b.binary("srem", x, _safe_divisor(b, y))


def _divide_and_step(b: Builder, x: Value, y: Value, steps: str, step: str) -> Value:
    """The quotient, and one further if there is a remainder whose sign compares so with y's."""
    rest = _remainder(b, x, y)
    signs = b.binary("xor", rest, y)
    inexact = b.compare("icmp ne", rest, like(rest, 0))
    further = b.binary("and", inexact, b.compare(f"icmp {steps}", signs, like(signs, 0)))
    return b.binary(step, _quotient(b, x, y), b.cast("zext", further, element_of(x.type)))


def _floor_divide(b: Builder, x: Value, y: Value) -> Value:
    return _divide_and_step(b, x, y, "slt", "sub")


def _ceil_divide(b: Builder, x: Value, y: Value) -> Value:
    return _divide_and_step(b, x, y, "sge", "add")


def _nonzero(b: Builder, y: Value) -> Value:
    return b.intrinsic("umax", y, like(y, 1))


def _unsigned_divide(b: Builder, x: Value, y: Value) -> Value:
    return b.binary("udiv", x, _nonzero(b, y))


def _unsigned_remainder(b: Builder, x: Value, y: Value) -> Value:
    return b.binary("urem", x, _nonzero(b, y))


def _unsigned_ceil_divide(b: Builder, x: Value, y: Value) -> Value:
    rest = _unsigned_remainder(b, x, y)
    further = b.compare("icmp ne", rest, like(rest, 0))
    return b.binary("add", _unsigned_divide(b, x, y), b.cast("zext", further, element_of(x.type)))


def _shift_out(name: str) -> Binary:
    """A shift by the width or more, or by a negative number, leaves zeros."""

    def run(b: Builder, x: Value, y: Value) -> Value:
        inside = b.compare("icmp ult", y, like(y, _width(y.type)))
        return b.select(inside, b.binary(name, x, y), like(x, 0))

    return run


def _shift_right(b: Builder, x: Value, y: Value) -> Value:
    return b.binary("ashr", x, b.intrinsic("umin", y, like(y, _width(y.type) - 1)))


def _counted(name: str) -> Unary:
    """A bit count or absolute value with LLVM's flag that every operand is allowed."""

    def run(b: Builder, x: Value) -> Value:
        defined = literal(I1, 0)
        name_of_type = f"llvm.{name}.{suffix(x.type)}"
        return b.call(name_of_type, x.type, [x, defined])

    return run


def _integer_power(b: Builder, x: Value, y: Value) -> Value:
    """By squaring, as often as the largest exponent needs; of a negative exponent only the powers
    of 1 and -1 are not 0."""
    zero, one = like(x, 0), like(x, 1)
    left = b.intrinsic("smax", y, zero)
    with b.loop(0, _significant_bits(b, left), carried=[one, x, left]) as loop:
        power, square, rest = loop.carried
        odd = b.cast("trunc", rest, I1)
        loop.carry(
            [
                b.select(odd, b.binary("mul", power, square), power),
                b.binary("mul", square, square),
                b.binary("lshr", rest, one),
            ]
        )
    unit = b.compare("icmp ult", b.binary("add", x, one), like(x, 3))
    # x is -1, 0 or 1: with an odd exponent x itself, else its square.
    own = b.select(b.cast("trunc", y, I1), x, b.binary("mul", x, x))
    inverse = b.select(unit, own, zero)
    return b.select(_negative(b, y), inverse, loop.results[0])


def _significant_bits(b: Builder, x: Value) -> Value:
    """How many bits the largest of numbers of 0 or more has, as i64."""
    element = element_of(x.type)
    if x.type != element:
        x = b.call(f"llvm.vector.reduce.or.{suffix(x.type)}", element, [x])
    bits = b.binary("sub", like(x, _width(element)), _counted("ctlz")(b, x))
    return bits if element == I64 else b.cast("zext", bits, I64)


# --- conversions --------------------------------------------------------------------------------


def _result_element(op: Operation) -> str:
    return register_type(op.results[0].type)


def _convert_float(op: Operation) -> Unary:
    element = _result_element(op)
    return lambda b, x: to_float(b, x, element)


def _resize(extend: str) -> Callable[[Operation], Unary]:
    """Of integers: to fewer bits the low ones, to more bits as `extend` says."""

    def make(op: Operation) -> Unary:
        element = _result_element(op)
        return lambda b, x: _resized(b, x, element, extend)

    return make


def _resized(b: Builder, x: Value, element: str, extend: str = "sext") -> Value:
    change = _width(element) - _width(x.type)
    return x if change == 0 else b.cast(extend if change > 0 else "trunc", x, element)


def _integer_to_float(name: str) -> Callable[[Operation], Unary]:
    def make(op: Operation) -> Unary:
        element = _result_element(op)
        through = element if element == "double" else "float"
        return lambda b, x: to_float(b, b.cast(name, x, through), element)

    return make


def _truncated(b: Builder, x: Value, element: str) -> Value:
    """A float as a signed integer, one and the same for what is out of range."""
    whole = b.cast("fptosi", x, element)
    return b.op(whole.type, f"freeze {whole}")


def _float_to_signed(op: Operation) -> Unary:
    """To fewer than 32 bits by way of i32, to i1 of i64, as PyTorch converts."""
    element = _result_element(op)
    through = I64 if element in (I1, I64) else I32
    return lambda b, x: _resized(b, _truncated(b, widened(b, x), through), element)


def _float_to_unsigned(op: Operation) -> Unary:
    """By way of i64, into whose range the upper half of u64 is shifted."""
    element = _result_element(op)

    def run(b: Builder, x: Value) -> Value:
        wide = widened(b, x)
        half = like(wide, 2.0**63)
        upper = b.compare("fcmp oge", wide, half)
        shifted = b.select(upper, b.binary("fsub", wide, half), wide)
        whole = _truncated(b, shifted, I64)
        moved = b.binary("xor", whole, like(whole, -(1 << 63)))
        return _resized(b, b.select(upper, moved, whole), element)

    return run


def _float_to_integer_power(b: Builder, x: Value, y: Value) -> Value:
    exponent = b.cast("uitofp" if element_of(y.type) == I1 else "sitofp", y, "double")
    power = library("pow")(b, to_float(b, x, "double"), exponent)
    return to_float(b, power, element_of(x.type))


def _bitcast(op: Operation) -> Unary:
    element = _result_element(op)
    return lambda b, x: x if element_of(x.type) == element else b.cast("bitcast", x, element)


# --- the tables ---------------------------------------------------------------------------------

_ADD, _MULTIPLY = rounded(_instruction("fadd")), rounded(_instruction("fmul"))
_MAXIMUM, _MINIMUM = exact(_extreme("ogt")), exact(_extreme("olt"))
_AND, _OR, _XOR = _instruction("and"), _instruction("or"), _instruction("xor")

PLAIN: dict[type[Operation], Function] = {
    arith.AddfOp: _ADD,
    arith.SubfOp: rounded(_instruction("fsub")),
    arith.MulfOp: _MULTIPLY,
    arith.DivfOp: rounded(_instruction("fdiv")),
    arith.NegfOp: _on_sign(_negate, _flip),
    RemFOp: rounded(of_f32(powers.fmod)),
    arith.MaximumfOp: _MAXIMUM,
    arith.MinimumfOp: _MINIMUM,
    arith.MaxnumfOp: exact(_extreme_number("ogt")),
    arith.MinnumfOp: exact(_extreme_number("olt")),
    arith.SelectOp: _select,
    arith.AddiOp: _instruction("add"),
    arith.SubiOp: _instruction("sub"),
    arith.MuliOp: _instruction("mul"),
    arith.AndIOp: _AND,
    arith.OrIOp: _OR,
    arith.XOrIOp: _XOR,
    arith.DivSIOp: _as_i8(_quotient),
    arith.FloorDivSIOp: _as_i8(_floor_divide),
    arith.CeilDivSIOp: _as_i8(_ceil_divide),
    arith.RemSIOp: _as_i8(_remainder),
    arith.DivUIOp: _as_i8(_unsigned_divide),
    arith.CeilDivUIOp: _as_i8(_unsigned_ceil_divide),
    arith.RemUIOp: _as_i8(_unsigned_remainder),
    arith.MaxSIOp: _as_i8(_intrinsic("smax")),
    arith.MinSIOp: _as_i8(_intrinsic("smin")),
    arith.MaxUIOp: _as_i8(_intrinsic("umax")),
    arith.MinUIOp: _as_i8(_intrinsic("umin")),
    arith.ShLIOp: _as_i8(_shift_out("shl")),
    arith.ShRSIOp: _as_i8(_shift_right),
    arith.ShRUIOp: _as_i8(_shift_out("lshr")),
    math.AbsFOp: _on_sign(_intrinsic("fabs"), _magnitude),
    math.AbsIOp: _as_i8(_counted("abs")),
    math.AcosOp: rounded(of_f32(inverse.acos)),
    math.AcoshOp: rounded(of_f32(inverse.acosh)),
    math.AsinOp: rounded(of_f32(inverse.asin)),
    math.AsinhOp: rounded(of_f32(inverse.asinh)),
    math.Atan2Op: rounded(of_f32(inverse.atan2)),
    math.AtanOp: rounded(of_f32(inverse.atan)),
    math.AtanhOp: rounded(of_f32(inverse.atanh)),
    math.CbrtOp: rounded(of_f32(powers.cbrt)),
    math.CeilOp: rounded(_intrinsic("ceil")),
    math.CopySignOp: _with_sign,
    math.CosOp: rounded(of_f32(elementary.cos)),
    math.CoshOp: rounded(of_f32(elementary.cosh)),
    math.CountLeadingZerosOp: _as_i8(_counted("ctlz")),
    math.CountTrailingZerosOp: _as_i8(_counted("cttz")),
    math.CtPopOp: _as_i8(_intrinsic("ctpop")),
    math.ErfOp: rounded(of_f32(elementary.erf)),
    math.Exp2Op: rounded(of_f32(elementary.exp2)),
    math.ExpM1Op: rounded(of_f32(elementary.expm1)),
    math.ExpOp: rounded(of_f32(elementary.exp)),
    math.FPowIOp: _float_to_integer_power,
    math.FloorOp: rounded(_intrinsic("floor")),
    math.FmaOp: rounded(_intrinsic("fma")),
    math.IPowIOp: _as_i8(_integer_power),
    math.Log10Op: rounded(of_f32(elementary.log10)),
    math.Log1pOp: rounded(of_f32(elementary.log1p)),
    math.Log2Op: rounded(of_f32(elementary.log2)),
    math.LogOp: rounded(of_f32(elementary.log)),
    math.PowFOp: rounded(_power),
    math.RoundEvenOp: rounded(_intrinsic("roundeven")),
    math.RoundOp: rounded(_intrinsic("round")),
    math.RsqrtOp: rounded(_reciprocal_root),
    math.SinOp: rounded(of_f32(elementary.sin)),
    math.SinhOp: rounded(of_f32(elementary.sinh)),
    math.SqrtOp: rounded(_intrinsic("sqrt")),
    math.TanOp: rounded(of_f32(elementary.tan)),
    math.TanhOp: rounded(of_f32(elementary.tanh)),
    math.TruncOp: rounded(_intrinsic("trunc")),
}
"""Operations that are one function whatever their types."""

BY_TYPE: dict[type[Operation], Callable[[Operation], Function]] = {
    arith.CmpiOp: _compare_integers,
    arith.CmpfOp: _compare_floats,
    arith.ExtFOp: _convert_float,
    arith.TruncFOp: _convert_float,
    arith.ExtSIOp: _resize("sext"),
    arith.ExtUIOp: _resize("zext"),
    arith.TruncIOp: _resize("sext"),
    arith.IndexCastOp: _resize("sext"),
    arith.SIToFPOp: _integer_to_float("sitofp"),
    arith.UIToFPOp: _integer_to_float("uitofp"),
    arith.FPToSIOp: _float_to_signed,
    arith.FPToUIOp: _float_to_unsigned,
    arith.BitcastOp: _bitcast,
}
"""Operations that depend on their result type or on a predicate."""

# --- folds --------------------------------------------------------------------------------------


def combine(b: Builder, kind: str, element: Attribute, x: Value, y: Value) -> Value:
    """How a fold or scan of that kind combines two elements; max and min yield NaN if either is.

    Of booleans, the sum is whether either is true and the product whether both are.
    """
    return _COMBINE[_class(element)][kind](b, x, y)


def identity(kind: str, element: Attribute) -> Value:
    """The element that a fold of nothing results in, one lane."""
    type = register_type(element)
    infinite = float("inf") if type in _FLOATS else None
    highest = _largest(element) if infinite is None else infinite
    lowest = _smallest(element) if infinite is None else -infinite
    numbers = {"add": 0, "mul": 1, "max": lowest, "min": highest, "and": -1, "or": 0, "xor": 0}
    return literal(type, numbers[kind])


def _class(element: Attribute) -> str:
    type = register_type(element)
    if type in _FLOATS:
        return "float"
    if type == I1:
        return "boolean"
    return "unsigned" if element == ui8 else "signed"


_BITWISE: dict[str, Function] = {"and": _AND, "or": _OR, "xor": _XOR}
_INTEGER = {"add": _instruction("add"), "mul": _instruction("mul"), **_BITWISE}
_COMBINE: dict[str, dict[str, Function]] = {
    "float": {"add": _ADD, "mul": _MULTIPLY, "max": _MAXIMUM, "min": _MINIMUM},
    "boolean": {"add": _OR, "mul": _AND, "max": _OR, "min": _AND, **_BITWISE},
    "signed": {"max": _intrinsic("smax"), "min": _intrinsic("smin"), **_INTEGER},
    "unsigned": {"max": _intrinsic("umax"), "min": _intrinsic("umin"), **_INTEGER},
}


def _largest(element: Attribute) -> int:
    width = _width(register_type(element))
    return (1 << width - 1) - 1 if _class(element) == "signed" else (1 << width) - 1


def _smallest(element: Attribute) -> int:
    return _largest(element) + 1 if _class(element) == "signed" else 0
