"""
The operations on scalars as functions of torch tensors, applied to all elements of a tile.

A scalar is a tensor of exactly its type's width: i1 is bool, i8 to i64 and index are signed
integers, whatever an operation takes their sign to be. Results that MLIR leaves undefined
(division by zero, shifts beyond the width, conversions out of range) are some value, never a trap:
whoever cares guards them with a `check`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    FloatAttr,
    IndexType,
    IntegerAttr,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation

from lpu_mlir.dialects.lpu import RemFOp, ui8

Function: TypeAlias = Callable[..., Tensor]
Unary: TypeAlias = Callable[[Tensor], Tensor]
Binary: TypeAlias = Callable[[Tensor, Tensor], Tensor]

DTYPES: dict[Attribute, torch.dtype] = {
    f16: torch.float16,
    bf16: torch.bfloat16,
    f32: torch.float32,
    f64: torch.float64,
    i1: torch.bool,
    i8: torch.int8,
    i16: torch.int16,
    i32: torch.int32,
    i64: torch.int64,
    ui8: torch.uint8,
    IndexType(): torch.int64,
}
"""The torch dtype of an element or scalar type."""

_UNSIGNED: dict[torch.dtype, Any] = {
    torch.int8: np.uint8,
    torch.int16: np.uint16,
    torch.int32: np.uint32,
    torch.int64: np.uint64,
}


def scalar_function(op: Operation) -> Function:
    """
    What a scalar operation with one result computes from its operands' tensors.

    Raises NotImplementedError for an operation that is in neither table.
    """
    if (plain := _PLAIN.get(type(op))) is not None:
        return plain
    if (make := _BY_TYPE.get(type(op))) is not None:
        return make(op)
    raise NotImplementedError(f"{op.name} is not a scalar operation of kernels")


def constant_tensor(op: arith.ConstantOp) -> Tensor:
    """A 0-d tensor with the value of a scalar constant."""
    return torch.tensor(constant_value(op.value), dtype=DTYPES[op.result.type])


def constant_value(attribute: Attribute) -> float | int | bool:
    """The Python value of a scalar attribute: a bool for i1, integers with their sign."""
    if isinstance(attribute, FloatAttr):
        return cast("FloatAttr[Any]", attribute).value.data
    assert isinstance(attribute, IntegerAttr)
    integer = cast("IntegerAttr[Any]", attribute)
    value = integer.value.data
    if integer.type == i1:
        return bool(value & 1)
    width = 8 * DTYPES[integer.type].itemsize
    return (value + (1 << width - 1)) % (1 << width) - (1 << width - 1)


def _array(x: Tensor) -> Any:
    return x.numpy()


def _unsigned_array(x: Tensor) -> Any:
    """The same bits as unsigned integers, which torch has few operations for."""
    return _array(x).view(_UNSIGNED[x.dtype])


def _from_array(array: Any) -> Tensor:
    return torch.as_tensor(np.asarray(array))


# --- integers -----------------------------------------------------------------------------------


def _widened(function: Function) -> Function:
    """An integer function on i1: computed on -1 and 0, of which the low bit is kept."""

    def on_i1(*operands: Tensor) -> Tensor:
        wide = function(*(-x.to(torch.int8) for x in operands))
        return wide if wide.dtype == torch.bool else (wide & 1).to(torch.bool)

    return on_i1


def _integer(function: Function) -> Callable[[Operation], Function]:
    """A function of signed integers, and of i1 by way of them."""
    on_i1 = _widened(function)
    return lambda op: on_i1 if op.operands[0].type == i1 else function


def _unsigned(function: Callable[..., Any]) -> Callable[[Operation], Function]:
    """A numpy function on the operands taken as unsigned; integers come back as signed."""

    def on_unsigned(*operands: Tensor) -> Tensor:
        dtype = operands[0].dtype
        result = _from_array(function(*map(_unsigned_array, operands)))
        return result if result.dtype == torch.bool else result.view(dtype)

    return _integer(on_unsigned)


def _safe_divisor(b: Tensor) -> Tensor:
    """b with 0 and -1 replaced by 1: on those the machine's division traps or overflows."""
    return torch.where((b == 0) | (b == -1), 1, b)


def _divide(rounding: str) -> Binary:
    def divide(a: Tensor, b: Tensor) -> Tensor:
        quotient = torch.div(a, _safe_divisor(b), rounding_mode=rounding)
        return torch.where(b == -1, -a, quotient)

    return divide


def _remainder(a: Tensor, b: Tensor) -> Tensor:
    return torch.where(b == -1, 0, torch.fmod(a, _safe_divisor(b))).to(a.dtype)


def _ceil_divide(a: Tensor, b: Tensor) -> Tensor:
    remainder = _remainder(a, b)
    rounds_up = (remainder != 0) & ((remainder < 0) == (b < 0))
    return _divide("trunc")(a, b) + rounds_up.to(a.dtype)


def _nonzero(array: Any) -> Any:
    return np.maximum(array, array.dtype.type(1))


def _unsigned_divide(a: Any, b: Any) -> Any:
    return a // _nonzero(b)


def _unsigned_remainder(a: Any, b: Any) -> Any:
    return a % _nonzero(b)


def _unsigned_ceil_divide(a: Any, b: Any) -> Any:
    b = _nonzero(b)
    return a // b + (a % b != 0).astype(a.dtype)


def _unsigned_shift(a: Any, b: Any) -> Any:
    last = a.dtype.type(8 * a.dtype.itemsize - 1)
    return (a >> np.minimum(b, last)) * (b <= last)


def _integer_power(a: Tensor, b: Tensor) -> Tensor:
    """Wraps around; a negative exponent leaves 1 and -1 and makes everything else 0."""
    exponent = b + torch.zeros_like(a)
    base = a + torch.zeros_like(b)
    odd = (exponent & 1) == 1
    inverse = torch.where(base == 1, 1, torch.where(base == -1, torch.where(odd, -1, 1), 0))
    power, square, left = torch.ones_like(base), base, exponent.clamp(min=0)
    while bool((left > 0).any()):
        power = torch.where((left & 1) == 1, power * square, power)
        square, left = square * square, left >> 1
    return torch.where(exponent < 0, inverse.to(a.dtype), power)


def _population(array: Any) -> Any:
    return np.bitwise_count(array).astype(array.dtype)


def _smear(array: Any) -> Any:
    """Sets every bit below the highest set one."""
    for shift in (1, 2, 4, 8, 16, 32):
        if shift < 8 * array.dtype.itemsize:
            array = array | array >> array.dtype.type(shift)
    return array


def _leading_zeros(array: Any) -> Any:
    return _population(~_smear(array))


def _trailing_zeros(array: Any) -> Any:
    one = array.dtype.type(1)
    return _population(~array & (array - one))


_CMPI: tuple[Function | Callable[..., Any], ...] = (
    torch.eq,
    torch.ne,
    torch.lt,
    torch.le,
    torch.gt,
    torch.ge,
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
)


def _compare_integers(op: Operation) -> Function:
    assert isinstance(op, arith.CmpiOp)
    predicate = op.predicate.value.data
    wrap = _unsigned if predicate > 5 else _integer
    return wrap(_CMPI[predicate])(op)


# --- floats -------------------------------------------------------------------------------------


def _ordered(a: Tensor, b: Tensor) -> Tensor:
    return (a == a) & (b == b)


_CMPF: tuple[Binary, ...] = (
    lambda a, b: torch.zeros_like(a == b),
    torch.eq,
    torch.gt,
    torch.ge,
    torch.lt,
    torch.le,
    lambda a, b: (a < b) | (a > b),
    _ordered,
    lambda a, b: ~((a < b) | (a > b)),
    lambda a, b: ~(a <= b),
    lambda a, b: ~(a < b),
    lambda a, b: ~(a >= b),
    lambda a, b: ~(a > b),
    torch.ne,
    lambda a, b: ~_ordered(a, b),
    lambda a, b: torch.ones_like(a == b),
)


def _compare_floats(op: Operation) -> Function:
    assert isinstance(op, arith.CmpfOp)
    return _CMPF[op.predicate.value.data]


def _round_half_away(x: Tensor) -> Tensor:
    whole = torch.trunc(x)
    return whole + torch.copysign(((x - whole).abs() >= 0.5).to(x.dtype), x)


def _cube_root(x: Tensor) -> Tensor:
    return _from_array(np.cbrt(_array(x.double()))).to(x.dtype)


def _fused_multiply_add(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """One rounding up to f32, whose products f64 holds exactly; two for f64."""
    return (a.double() * b.double() + c.double()).to(a.dtype)


def _float_remainder(a: Tensor, b: Tensor) -> Tensor:
    """Exact, by way of f64; torch's own is not where the divisor is subnormal."""
    with np.errstate(all="ignore"):
        return _from_array(np.fmod(_array(a.double()), _array(b.double()))).to(a.dtype)


def _float_to_integer_power(a: Tensor, b: Tensor) -> Tensor:
    return torch.pow(a.double(), b.double()).to(a.dtype)


# --- conversions --------------------------------------------------------------------------------


def _result_dtype(op: Operation) -> torch.dtype:
    return DTYPES[op.results[0].type]


def _to_result(op: Operation) -> Unary:
    dtype = _result_dtype(op)
    return lambda x: x.to(dtype)


def _truncate(dtype: torch.dtype) -> Unary:
    """From a wider integer, keeping the low bits."""
    if dtype == torch.bool:
        return lambda x: (x & 1).to(torch.bool)
    return lambda x: x.to(dtype)


def _sign_extend(op: Operation) -> Unary:
    dtype = _result_dtype(op)
    if op.operands[0].type == i1:
        # By way of an integer, of which there is no -0.
        return lambda x: (-x.to(torch.int8)).to(dtype)
    return _truncate(dtype)


def _to_unsigned(x: Tensor) -> Tensor:
    """Up to 32 bits: the unsigned value in an i64."""
    return x.to(torch.int64) & ((1 << 8 * x.itemsize) - 1)


def _zero_extend(op: Operation) -> Unary:
    dtype = _result_dtype(op)
    if op.operands[0].type == i1:
        return lambda x: x.to(dtype)
    return lambda x: _to_unsigned(x).to(dtype)


def _unsigned_to_float(op: Operation) -> Unary:
    dtype = _result_dtype(op)
    if op.operands[0].type in (i64, IndexType()):
        wide = np.float64 if dtype == torch.float64 else np.float32

        def convert(x: Tensor) -> Tensor:
            return _from_array(_unsigned_array(x).astype(wide)).to(dtype)

        return convert
    return _zero_extend(op)


def _float_to_signed(op: Operation) -> Unary:
    dtype = _result_dtype(op)
    if dtype == torch.bool:
        return lambda x: (x.to(torch.int64) & 1).to(torch.bool)
    return lambda x: x.to(dtype)


def _float_to_unsigned(op: Operation) -> Unary:
    dtype = _result_dtype(op)
    truncate = _truncate(dtype)
    half = 2.0**63

    def convert(x: Tensor) -> Tensor:
        # f64 holds every narrower float; the upper half of the u64 range is shifted down.
        wide = x.double()
        upper = wide >= half
        low = torch.where(upper, wide - half, wide).to(torch.int64)
        return truncate(torch.where(upper, low ^ torch.iinfo(torch.int64).min, low))

    return convert


def _bitcast(op: Operation) -> Unary:
    dtype = _result_dtype(op)
    return lambda x: x.view(dtype)


# --- the tables ---------------------------------------------------------------------------------

_PLAIN: dict[type[Operation], Function] = {
    arith.AddfOp: torch.add,
    arith.SubfOp: torch.sub,
    arith.MulfOp: torch.mul,
    arith.DivfOp: torch.div,
    arith.NegfOp: torch.neg,
    RemFOp: _float_remainder,
    arith.MaximumfOp: torch.maximum,
    arith.MinimumfOp: torch.minimum,
    arith.MaxnumfOp: torch.fmax,
    arith.MinnumfOp: torch.fmin,
    arith.SelectOp: torch.where,
    arith.AndIOp: torch.bitwise_and,
    arith.OrIOp: torch.bitwise_or,
    arith.XOrIOp: torch.bitwise_xor,
    math.AbsFOp: torch.abs,
    math.AcosOp: torch.acos,
    math.AcoshOp: torch.acosh,
    math.AsinOp: torch.asin,
    math.AsinhOp: torch.asinh,
    math.Atan2Op: torch.atan2,
    math.AtanOp: torch.atan,
    math.AtanhOp: torch.atanh,
    math.CbrtOp: _cube_root,
    math.CeilOp: torch.ceil,
    math.CopySignOp: torch.copysign,
    math.CosOp: torch.cos,
    math.CoshOp: torch.cosh,
    math.ErfOp: torch.erf,
    math.Exp2Op: torch.exp2,
    math.ExpM1Op: torch.expm1,
    math.ExpOp: torch.exp,
    math.FPowIOp: _float_to_integer_power,
    math.FloorOp: torch.floor,
    math.FmaOp: _fused_multiply_add,
    math.Log10Op: torch.log10,
    math.Log1pOp: torch.log1p,
    math.Log2Op: torch.log2,
    math.LogOp: torch.log,
    math.PowFOp: torch.pow,
    math.RoundEvenOp: torch.round,
    math.RoundOp: _round_half_away,
    math.RsqrtOp: torch.rsqrt,
    math.SinOp: torch.sin,
    math.SinhOp: torch.sinh,
    math.SqrtOp: torch.sqrt,
    math.TanOp: torch.tan,
    math.TanhOp: torch.tanh,
    math.TruncOp: torch.trunc,
}
"""Operations that are one function whatever their types."""

_BY_TYPE: dict[type[Operation], Callable[[Operation], Function]] = {
    arith.AddiOp: _integer(torch.add),
    arith.SubiOp: _integer(torch.sub),
    arith.MuliOp: _integer(torch.mul),
    arith.DivSIOp: _integer(_divide("trunc")),
    arith.FloorDivSIOp: _integer(_divide("floor")),
    arith.CeilDivSIOp: _integer(_ceil_divide),
    arith.RemSIOp: _integer(_remainder),
    arith.DivUIOp: _unsigned(_unsigned_divide),
    arith.CeilDivUIOp: _unsigned(_unsigned_ceil_divide),
    arith.RemUIOp: _unsigned(_unsigned_remainder),
    arith.MaxSIOp: _integer(torch.maximum),
    arith.MinSIOp: _integer(torch.minimum),
    arith.MaxUIOp: _unsigned(np.maximum),
    arith.MinUIOp: _unsigned(np.minimum),
    arith.ShLIOp: _integer(torch.bitwise_left_shift),
    arith.ShRSIOp: _integer(torch.bitwise_right_shift),
    arith.ShRUIOp: _unsigned(_unsigned_shift),
    arith.CmpiOp: _compare_integers,
    arith.CmpfOp: _compare_floats,
    arith.ExtFOp: _to_result,
    arith.TruncFOp: _to_result,
    arith.ExtSIOp: _sign_extend,
    arith.ExtUIOp: _zero_extend,
    arith.TruncIOp: lambda op: _truncate(_result_dtype(op)),
    arith.IndexCastOp: _sign_extend,
    arith.SIToFPOp: _sign_extend,
    arith.UIToFPOp: _unsigned_to_float,
    arith.FPToSIOp: _float_to_signed,
    arith.FPToUIOp: _float_to_unsigned,
    arith.BitcastOp: _bitcast,
    math.AbsIOp: _integer(torch.abs),
    math.CtPopOp: _unsigned(_population),
    math.CountLeadingZerosOp: _unsigned(_leading_zeros),
    math.CountTrailingZerosOp: _unsigned(_trailing_zeros),
    math.IPowIOp: _integer(_integer_power),
}
"""Operations that depend on their types or on a predicate."""
