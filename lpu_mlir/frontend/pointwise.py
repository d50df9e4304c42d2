"""ATen operators that work element by element.

A `pointwise` on bf16 or f16 computes in f32 and rounds once.  What eager rounds once is therefore a
single pointwise operation, or is converted to f32, computed there and converted back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
import torch._inductor.inductor_prims  # pyright: ignore[reportUnusedImport]  # registers prims.fma
from xdsl.ir import SSAValue

from lpu_mlir.frontend.builder import (
    GraphBuilder,
    Number,
    Operand,
    Tensors,
    Term,
    as_value,
    dtype_of,
    promoted,
    rank,
)
from lpu_mlir.frontend.dtypes import HALVES, INTEGERS, opmath
from lpu_mlir.frontend.errors import NotNative
from lpu_mlir.frontend.types import constant

aten = torch.ops.aten
prims = torch.ops.prims
Handler: TypeAlias = Callable[..., Tensors]


# --- families -----------------------------------------------------------------------------------


def unary(kind: str) -> Handler:
    """Computed in the result's dtype: integers become floats first where eager does so."""

    def handler(b: GraphBuilder, x: SSAValue) -> SSAValue:
        return b.pointwise(kind, b.convert(x, b.dtype))

    return handler


def rounding(kind: str) -> Handler:
    """Identity on integers."""

    def handler(b: GraphBuilder, x: SSAValue) -> SSAValue:
        return b.pointwise(kind, x) if dtype_of(x).is_floating_point else x

    return handler


MOST_DECIMALS = 30
"""Powers of ten that f32 has."""


def round_decimals(b: GraphBuilder, x: SSAValue, *, decimals: int) -> SSAValue:
    """Scaled by a power of ten, rounded and scaled back; half precision in f32."""
    if not b.dtype.is_floating_point or abs(decimals) > MOST_DECIMALS:
        raise NotNative("decimals of integers, or more than f32 has")
    power = 10.0 ** abs(decimals)
    term = Term(b, b.convert(x, opmath(b.dtype)))
    if decimals < 0:
        return ((term / power).apply("round") * power).to(b.dtype).value
    return ((term * power).apply("round") / power).to(b.dtype).value


def binary(kind: str) -> Handler:
    """Computed in the result's dtype, to which eager promotes the operands."""

    def handler(b: GraphBuilder, x: Operand, y: Operand) -> SSAValue:
        return b.pointwise(kind, b.operand(x, b.dtype), b.operand(y, b.dtype))

    return handler


def comparison(kind: str) -> Handler:
    def handler(b: GraphBuilder, x: Operand, y: Operand) -> SSAValue:
        dtype = promoted(x, y)
        return b.pointwise(kind, b.operand(x, dtype), b.operand(y, dtype))

    return handler


def logical(kind: str) -> Handler:
    """On the truth values of the operands."""

    def handler(b: GraphBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
        return b.pointwise(kind, b.convert(x, torch.bool), b.convert(y, torch.bool))

    return handler


def composite(formula: Callable[..., Term]) -> Handler:
    """A formula on terms, computed in f32 for half precision and rounded once."""

    def handler(b: GraphBuilder, *args: Any, **kwargs: Any) -> SSAValue:
        dtype = opmath(b.dtype)
        terms = [
            Term(b, b.convert(b.operand(as_value(a), b.dtype), dtype))
            if isinstance(a, SSAValue)
            else a
            for a in args
        ]
        return formula(*terms, **kwargs).to(b.dtype).value

    return handler


# --- arithmetic ---------------------------------------------------------------------------------

_ON_BOOL = {"add": "or", "mul": "and"}


def _unrounded(b: GraphBuilder, y: Operand) -> SSAValue | None:
    """The second operand in f32, if eager's kernels for half precision read it unrounded.

    They do so with numbers and 0-d tensors; None if the result's dtype holds it exactly, too.
    """
    if isinstance(y, SSAValue) and (rank(y) or dtype_of(y) == b.dtype):
        return None
    if isinstance(y, int | float) and constant(y, b.element).value.data == y:
        return None
    return b.operand(y, torch.float32)


def product(kind: str) -> Handler:
    """mul, div, floordiv."""

    def handler(b: GraphBuilder, x: Operand, y: Operand) -> SSAValue:
        lhs = b.operand(x, b.dtype)
        if b.dtype == torch.bool:
            return b.pointwise(_ON_BOOL[kind], lhs, b.operand(y, b.dtype))
        wide = _unrounded(b, y) if b.dtype in HALVES else None
        if wide is None:
            return b.pointwise(kind, lhs, b.operand(y, b.dtype))
        return b.convert(b.pointwise(kind, b.convert(lhs, torch.float32), wide), b.dtype)

    return handler


def add(b: GraphBuilder, x: Operand, y: Operand, alpha: Number = 1, kind: str = "add") -> SSAValue:
    """x + alpha * y, all in the result's dtype; fused, as in eager's loops over vectors (what is
    left at their ends, it rounds twice in half precision)."""
    dtype = b.dtype
    lhs, rhs = b.operand(x, dtype), b.operand(y, dtype)
    if dtype == torch.bool:
        kind = "or"
    if isinstance(alpha, int) and alpha == 1:
        return b.pointwise(kind, lhs, rhs)
    if dtype == torch.bool:
        return b.pointwise(kind, lhs, b.pointwise("and", rhs, b.number(alpha, dtype)))
    factor = b.number(alpha, dtype)
    if not dtype.is_floating_point:
        return b.pointwise(kind, lhs, b.pointwise("mul", rhs, factor))
    factor = b.pointwise("neg", factor) if kind == "sub" else factor
    return b.pointwise("fma", rhs, factor, lhs)


def subtract(b: GraphBuilder, x: Operand, y: Operand, alpha: Number = 1) -> SSAValue:
    if torch.bool in (promoted(x), promoted(y)):
        raise NotNative("eager refuses to subtract booleans, or from them")
    return add(b, x, y, alpha, "sub")


def divide(b: GraphBuilder, x: Operand, y: Operand, *, rounding_mode: str | None) -> Tensors:
    if rounding_mode is None:
        return product("div")(b, x, y)
    if rounding_mode == "floor":
        return product("floordiv")(b, x, y)
    if not b.dtype.is_floating_point:
        return binary("truncdiv")(b, x, y)
    lhs, dtype = b.operand(x, b.dtype), b.dtype
    if b.dtype in HALVES and not (isinstance(y, SSAValue) and rank(y)):
        lhs, dtype = b.convert(lhs, torch.float32), torch.float32
    quotient = b.pointwise("trunc", b.pointwise("div", lhs, b.operand(y, dtype)))
    return b.convert(quotient, b.dtype)


def pow_scalar(b: GraphBuilder, x: SSAValue, exponent: Number) -> SSAValue:
    """Eager computes some exponents without pow, but in f16 and of integers only exact ones."""
    if isinstance(exponent, int) and exponent < 0 and not b.dtype.is_floating_point:
        raise NotNative("integers to negative powers are an error")
    x = b.convert(x, b.dtype)
    special = _POWERS.get(exponent) if isinstance(exponent, int | float) else None
    exact = exponent in (0, 1, 2)
    if special is not None and (exact or b.dtype not in (torch.float16, *INTEGERS)):
        return special(b, x)
    return b.pointwise("pow", x, b.fitting(exponent, b.dtype))


def _square(b: GraphBuilder, x: SSAValue) -> SSAValue:
    return b.pointwise("mul", x, x)


_POWERS: Mapping[int | float, Callable[[GraphBuilder, SSAValue], SSAValue]] = {
    0: lambda b, x: b.full(1, b.dtype, b.shape),
    1: lambda b, x: x,
    2: _square,
    3: lambda b, x: b.pointwise("mul", _square(b, x), x),
    0.5: lambda b, x: b.pointwise("sqrt", x),
    -0.5: lambda b, x: b.pointwise("rsqrt", x),
    -1: lambda b, x: b.pointwise("reciprocal", x),
    -2: lambda b, x: b.pointwise("reciprocal", _square(b, x)),
}


def fma(b: GraphBuilder, x: Operand, y: Operand, z: Operand) -> SSAValue:
    return b.pointwise("fma", *[b.operand(v, b.dtype) for v in (x, y, z)])


def addcmul(x: Term, y: Term, z: Term, *, value: Number = 1) -> Term:
    return x + y * value * z


def addcdiv(x: Term, y: Term, z: Term, *, value: Number = 1) -> Term:
    return x + y * value / z


# --- selection ----------------------------------------------------------------------------------


def where(b: GraphBuilder, condition: SSAValue, x: Operand, y: Operand) -> SSAValue:
    condition = b.convert(condition, torch.bool)
    return b.select(condition, b.operand(x, b.dtype), b.operand(y, b.dtype))


def clamp(
    b: GraphBuilder, x: SSAValue, low: Operand | None = None, high: Operand | None = None
) -> SSAValue:
    """The upper bound wins over the lower one; NaN stays, in `x` and in the bounds."""
    if b.dtype == torch.bool:
        raise NotNative("eager clamps no booleans")
    x = b.convert(x, b.dtype)
    if low is not None:
        x = b.pointwise("maximum", x, b.fitting(low, b.dtype))
    return x if high is None else b.pointwise("minimum", x, b.fitting(high, b.dtype))


def clamp_max(b: GraphBuilder, x: SSAValue, high: Operand) -> SSAValue:
    return clamp(b, x, None, high)


def clamp_keywords(b: GraphBuilder, x: SSAValue, *bounds: Operand | None, **named: Any) -> SSAValue:
    low, high = (*bounds, None, None)[:2]
    return clamp(b, x, named.get("min", low), named.get("max", high))


def ignoring_nan(kind: str) -> Handler:
    """fmax and fmin: a NaN loses."""

    def handler(b: GraphBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
        x, y = b.convert(x, b.dtype), b.convert(y, b.dtype)
        chosen = b.pointwise(kind, x, y)
        if not b.dtype.is_floating_point:
            return chosen
        chosen = b.select(b.pointwise("ne", y, y), x, chosen)
        return b.select(b.pointwise("ne", x, x), y, chosen)

    return handler


def masked_fill(b: GraphBuilder, x: SSAValue, mask: SSAValue, value: Operand) -> SSAValue:
    return b.select(b.convert(mask, torch.bool), b.fitting(value, b.dtype), x)


# --- predicates ---------------------------------------------------------------------------------


def isnan(b: GraphBuilder, x: SSAValue) -> SSAValue:
    if not dtype_of(x).is_floating_point:
        return b.full(False, torch.bool, b.shape)
    return b.pointwise("ne", x, x)


def isinf(b: GraphBuilder, x: SSAValue) -> SSAValue:
    if not dtype_of(x).is_floating_point:
        return b.full(False, torch.bool, b.shape)
    return b.pointwise("eq", b.pointwise("abs", x), b.full(math.inf, dtype_of(x)))


def signbit(b: GraphBuilder, x: SSAValue) -> SSAValue:
    dtype = dtype_of(x)
    if dtype == torch.bool:
        return b.full(False, torch.bool, b.shape)
    if dtype.is_floating_point:
        x = b.pointwise("copysign", b.full(1, dtype), x)
    return b.pointwise("lt", x, b.full(0, dtype))


def angle(b: GraphBuilder, x: SSAValue) -> SSAValue:
    """Of real numbers: pi for those below 0, NaN for NaN."""
    value = b.convert(x, b.dtype)
    negative = b.pointwise("lt", value, b.full(0, b.dtype))
    result = b.select(negative, b.full(math.pi, b.dtype), b.full(0, b.dtype))
    return b.select(b.pointwise("ne", value, value), value, result)


def logical_not(b: GraphBuilder, x: SSAValue) -> SSAValue:
    return b.pointwise("not", b.convert(x, torch.bool))


def sign(b: GraphBuilder, x: SSAValue) -> SSAValue:
    return x if dtype_of(x) == torch.bool else b.pointwise("sign", x)


# --- activations --------------------------------------------------------------------------------


def gelu(x: Term, approximate: str = "none") -> Term:
    return x.apply("gelu_tanh" if approximate == "tanh" else "gelu")


def silu(x: Term) -> Term:
    return x * x.apply("sigmoid")


def _either(condition: Term, then: Term, otherwise: Term) -> Term:
    return condition.apply("select", then, otherwise)


def leaky_relu(x: Term, slope: float = 0.01) -> Term:
    return _either(x.apply("gt", 0), x, x * slope)


def elu(x: Term, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Term:
    negative = (x * input_scale).apply("expm1") * (alpha * scale)
    return _either(x.apply("lt", 0), negative, x * scale)


def hardtanh(b: GraphBuilder, x: SSAValue, low: Number = -1, high: Number = 1) -> SSAValue:
    return clamp(b, x, low, high)


def relu(b: GraphBuilder, x: SSAValue) -> SSAValue:
    return clamp(b, x, 0)


# --- the tables ---------------------------------------------------------------------------------

_UNARY = (
    "abs acos acosh asin asinh atan atanh cos cosh erf exp exp2 expm1 log log10 log1p log2 neg "
    "reciprocal rsqrt sigmoid sin sinh sqrt tan tanh"
).split()

HANDLERS: Mapping[Any, Handler] = {
    **{getattr(aten, name).default: unary(name) for name in _UNARY},
    **{getattr(aten, name).default: rounding(name) for name in ("ceil", "floor", "round", "trunc")},
    **{
        getattr(getattr(aten, name), overload): handler
        for name, handler in (
            ("add", add),
            ("sub", subtract),
            ("mul", product("mul")),
            ("div", product("div")),
        )
        for overload in ("Tensor", "Scalar")
    },
    **{
        getattr(getattr(aten, name), overload): comparison(name)
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
        for overload in ("Tensor", "Scalar")
    },
    **{
        getattr(getattr(aten, f"bitwise_{name}"), overload): binary(name)
        for name in ("and", "or", "xor")
        for overload in ("Tensor", "Scalar", "Scalar_Tensor")
    },
    **{getattr(aten, f"logical_{name}").default: logical(name) for name in ("and", "or", "xor")},
    aten.true_divide.Tensor: product("div"),
    aten.div.Tensor_mode: divide,
    aten.div.Scalar_mode: divide,
    aten.remainder.Tensor: binary("remainder"),
    aten.remainder.Scalar: binary("remainder"),
    aten.remainder.Scalar_Tensor: binary("remainder"),
    aten.fmod.Tensor: binary("fmod"),
    aten.fmod.Scalar: binary("fmod"),
    aten.atan2.default: binary("atan2"),
    aten.copysign.Tensor: binary("copysign"),
    aten.copysign.Scalar: binary("copysign"),
    aten.maximum.default: binary("maximum"),
    aten.minimum.default: binary("minimum"),
    aten.fmax.default: ignoring_nan("maximum"),
    aten.fmin.default: ignoring_nan("minimum"),
    aten.bitwise_not.default: unary("not"),
    aten.bitwise_left_shift.Tensor: binary("shl"),
    aten.bitwise_left_shift.Tensor_Scalar: binary("shl"),
    aten.bitwise_left_shift.Scalar_Tensor: binary("shl"),
    aten.__lshift__.Scalar: binary("shl"),
    aten.__lshift__.Tensor: binary("shl"),
    aten.bitwise_right_shift.Tensor: binary("shr"),
    aten.bitwise_right_shift.Tensor_Scalar: binary("shr"),
    aten.bitwise_right_shift.Scalar_Tensor: binary("shr"),
    aten.__rshift__.Scalar: binary("shr"),
    aten.__rshift__.Tensor: binary("shr"),
    aten.pow.Tensor_Scalar: pow_scalar,
    aten.pow.Tensor_Tensor: binary("pow"),
    aten.pow.Scalar: binary("pow"),
    prims.fma.default: fma,
    aten.addcmul.default: composite(addcmul),
    aten.addcdiv.default: composite(addcdiv),
    aten.logical_not.default: logical_not,
    aten.angle.default: angle,
    aten.round.decimals: round_decimals,
    aten.sign.default: sign,
    aten.signbit.default: signbit,
    aten.isnan.default: isnan,
    aten.isinf.default: isinf,
    aten.where.self: where,
    aten.clamp.default: clamp_keywords,
    aten.clamp.Tensor: clamp_keywords,
    aten.clamp_min.default: clamp,
    aten.clamp_min.Tensor: clamp,
    aten.clamp_max.default: clamp_max,
    aten.clamp_max.Tensor: clamp_max,
    aten.masked_fill.Scalar: masked_fill,
    aten.masked_fill.Tensor: masked_fill,
    aten.gelu.default: composite(gelu),
    aten.silu.default: composite(silu),
    aten.leaky_relu.default: composite(leaky_relu),
    aten.elu.default: composite(elu),
    aten.hardtanh.default: hardtanh,
    aten.relu.default: relu,
}
