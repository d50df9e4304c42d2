"""Each arith and math operation of the reference interpreter against torch, numpy or Python."""

from collections.abc import Callable
from math import fmod
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from xdsl.dialects import arith, builtin, math, test
from xdsl.dialects.builtin import IndexType, bf16, f16, f32, f64, i1, i8, i16, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from lpu_mlir.dialects.lpu import RemFOp
from lpu_mlir.interpreter.reference.scalar import (
    DTYPES,
    constant_tensor,
    constant_value,
    scalar_function,
)

FLOATS = [f16, bf16, f32, f64]
INTEGERS = [i8, i16, i32, i64]
NAN, INF = float("nan"), float("inf")


def value(type: Attribute) -> SSAValue:
    return test.TestOp(result_types=[type]).results[0]


def run(op: Operation, *operands: Tensor) -> Tensor:
    """The result, after checking that it has exactly the dtype of the operation's."""
    result = scalar_function(op)(*operands)
    assert result.dtype == DTYPES[op.results[0].type]
    return result


def same(actual: Tensor, expected: Tensor) -> None:
    """Equal bits but for the sign and payload of NaN."""
    assert actual.dtype == expected.dtype
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
    if actual.dtype.is_floating_point:
        numbers = ~torch.isnan(expected)
        assert torch.equal(actual.signbit()[numbers], expected.signbit()[numbers])


def floats(type: Attribute) -> Tensor:
    values = [-INF, -200.0, -2.5, -1.5, -1.0, -0.75, -0.0, 0.0, 0.25, 0.5, 1.0, 2.5, 3.0, INF, NAN]
    return torch.tensor(values, dtype=DTYPES[type])


def float_pairs(type: Attribute) -> tuple[Tensor, Tensor]:
    values = floats(type)
    return values.repeat_interleave(len(values)), values.repeat(len(values))


def integers(type: Attribute) -> list[int]:
    half = 1 << (8 * DTYPES[type].itemsize - 1)
    return [-half, -half + 1, -100, -7, -2, -1, 0, 1, 2, 3, 7, 100, half - 2, half - 1]


def wrap(number: int, type: Attribute) -> int:
    width = 8 * DTYPES[type].itemsize
    return (number + (1 << width - 1)) % (1 << width) - (1 << width - 1)


# --- floats -------------------------------------------------------------------------------------

UNARY: list[tuple[type[Any], Callable[[Tensor], Tensor]]] = [
    (math.AbsFOp, torch.abs),
    (math.AcosOp, torch.acos),
    (math.AcoshOp, torch.acosh),
    (math.AsinOp, torch.asin),
    (math.AsinhOp, torch.asinh),
    (math.AtanOp, torch.atan),
    (math.AtanhOp, torch.atanh),
    (math.CeilOp, torch.ceil),
    (math.CosOp, torch.cos),
    (math.CoshOp, torch.cosh),
    (math.ErfOp, torch.erf),
    (math.Exp2Op, torch.exp2),
    (math.ExpM1Op, torch.expm1),
    (math.ExpOp, torch.exp),
    (math.FloorOp, torch.floor),
    (math.Log10Op, torch.log10),
    (math.Log1pOp, torch.log1p),
    (math.Log2Op, torch.log2),
    (math.LogOp, torch.log),
    (math.RoundEvenOp, torch.round),
    (math.RsqrtOp, torch.rsqrt),
    (math.SinOp, torch.sin),
    (math.SinhOp, torch.sinh),
    (math.SqrtOp, torch.sqrt),
    (math.TanOp, torch.tan),
    (math.TanhOp, torch.tanh),
    (math.TruncOp, torch.trunc),
    (arith.NegfOp, torch.neg),
]

BINARY: list[tuple[type[Any], Callable[[Tensor, Tensor], Tensor]]] = [
    (arith.AddfOp, torch.add),
    (arith.SubfOp, torch.sub),
    (arith.MulfOp, torch.mul),
    (arith.DivfOp, torch.div),
    (arith.MaximumfOp, torch.maximum),
    (arith.MinimumfOp, torch.minimum),
    (arith.MaxnumfOp, torch.fmax),
    (arith.MinnumfOp, torch.fmin),
    (math.Atan2Op, torch.atan2),
    (math.CopySignOp, torch.copysign),
    (math.PowFOp, torch.pow),
]


@pytest.mark.parametrize("type", FLOATS, ids=str)
@pytest.mark.parametrize(("op", "expected"), UNARY, ids=lambda x: getattr(x, "name", ""))
def test_unary_float(op: type[Any], expected: Callable[[Tensor], Tensor], type: Attribute) -> None:
    same(run(op(value(type)), floats(type)), expected(floats(type)))


@pytest.mark.parametrize("type", FLOATS, ids=str)
@pytest.mark.parametrize(("op", "expected"), BINARY, ids=lambda x: getattr(x, "name", ""))
def test_binary_float(
    op: type[Any], expected: Callable[[Tensor, Tensor], Tensor], type: Attribute
) -> None:
    a, b = float_pairs(type)
    same(run(op(value(type), value(type)), a, b), expected(a, b))


def c_fmod(a: float, b: float) -> float:
    """fmod of C, where Python raises an exception for infinite or zero operands."""
    return fmod(a, b) if abs(a) != INF and b != 0 else NAN


@pytest.mark.parametrize("type", FLOATS, ids=str)
def test_remf_is_that_of_torch_and_exact(type: Attribute) -> None:
    op, dtype = RemFOp.create(operands=[value(type)] * 2, result_types=[type]), DTYPES[type]
    a, b = float_pairs(type)
    same(run(op, a, b), torch.fmod(a, b))
    # With subnormal numbers and large quotients, where torch's f32 is not.
    info = torch.finfo(dtype)
    values = [info.max, info.smallest_normal, info.smallest_normal / 4, 1e4, 3.1, 0.3]
    x = torch.tensor([*values, *(-v for v in values)], dtype=dtype)
    a, b = x.repeat_interleave(len(x)), x.repeat(len(x))
    exact = [c_fmod(p, q) for p, q in zip(a.tolist(), b.tolist(), strict=True)]
    same(run(op, a, b), torch.tensor(exact, dtype=torch.float64).to(dtype))


def test_maximum_propagates_nan_and_maxnum_does_not() -> None:
    a, b = torch.tensor([NAN, 1.0]), torch.tensor([2.0, NAN])
    assert run(arith.MaximumfOp(value(f32), value(f32)), a, b).isnan().all()
    same(run(arith.MaxnumfOp(value(f32), value(f32)), a, b), torch.tensor([2.0, 1.0]))
    assert run(arith.MinimumfOp(value(f32), value(f32)), a, b).isnan().all()
    same(run(arith.MinnumfOp(value(f32), value(f32)), a, b), torch.tensor([2.0, 1.0]))


@pytest.mark.parametrize("type", FLOATS, ids=str)
def test_round_is_half_away_from_zero(type: Attribute) -> None:
    x = torch.tensor([-2.5, -1.5, -0.4, -0.0, 0.5, 1.4999, 2.5, INF, NAN], dtype=DTYPES[type])
    expected = [-3.0, -2.0, -0.0, -0.0, 1.0, round(float(x[5])), 3.0, INF, NAN]
    same(run(math.RoundOp(value(type)), x), torch.tensor(expected, dtype=DTYPES[type]))


@pytest.mark.parametrize("type", FLOATS, ids=str)
def test_cbrt(type: Attribute) -> None:
    x = torch.tensor([-27.0, -0.0, 8.0, 3.375, INF, NAN], dtype=DTYPES[type])
    expected = torch.tensor([-3.0, -0.0, 2.0, 1.5, INF, NAN], dtype=torch.float64)
    same(run(math.CbrtOp(value(type)), x), expected.to(DTYPES[type]))


def test_fma_rounds_once() -> None:
    a = torch.tensor([1 + 2.0**-12], dtype=torch.float32)
    c = -(a * a)
    exact = float(a) * float(a) + float(c)
    assert exact != 0.0
    result = run(math.FmaOp(value(f32), value(f32), value(f32)), a, a, c)
    same(result, torch.tensor([exact], dtype=torch.float32))


def test_fpowi() -> None:
    a = torch.tensor([2.0, -3.0, 0.5, 0.0], dtype=torch.float32)
    b = torch.tensor([10, 3, -2, 0], dtype=torch.int32)
    op = math.FPowIOp(value(f32), value(i32))
    same(run(op, a, b), torch.tensor([1024.0, -27.0, 4.0, 1.0]))


@pytest.mark.parametrize("predicate", arith.CMPF_COMPARISON_OPERATIONS)
def test_cmpf(predicate: str) -> None:
    a, b = float_pairs(f32)
    relation = {
        "eq": lambda x, y: x == y,
        "gt": lambda x, y: x > y,
        "ge": lambda x, y: x >= y,
        "lt": lambda x, y: x < y,
        "le": lambda x, y: x <= y,
        "ne": lambda x, y: x < y or x > y,
        "rd": lambda x, y: True,
        "no": lambda x, y: False,
    }
    expected: list[bool] = []
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        unordered = x != x or y != y
        if predicate in ("true", "false"):
            expected.append(predicate == "true")
        else:
            expected.append(predicate[0] == "u" if unordered else relation[predicate[1:]](x, y))
    op = arith.CmpfOp(value(f32), value(f32), predicate)
    assert run(op, a, b).tolist() == expected


# --- integers -----------------------------------------------------------------------------------


def truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


SIGNED: list[tuple[type[Any], Callable[[int, int], int]]] = [
    (arith.AddiOp, lambda a, b: a + b),
    (arith.SubiOp, lambda a, b: a - b),
    (arith.MuliOp, lambda a, b: a * b),
    (arith.AndIOp, lambda a, b: a & b),
    (arith.OrIOp, lambda a, b: a | b),
    (arith.XOrIOp, lambda a, b: a ^ b),
    (arith.MaxSIOp, max),
    (arith.MinSIOp, min),
]
DIVISIONS: list[tuple[type[Any], bool, Callable[[int, int], int]]] = [
    (arith.DivSIOp, True, truncated),
    (arith.RemSIOp, True, lambda a, b: a - b * truncated(a, b)),
    (arith.FloorDivSIOp, True, lambda a, b: a // b),
    (arith.CeilDivSIOp, True, lambda a, b: -(-a // b)),
    (arith.DivUIOp, False, lambda a, b: a // b),
    (arith.RemUIOp, False, lambda a, b: a % b),
    (arith.CeilDivUIOp, False, lambda a, b: -(-a // b)),
    (arith.MaxUIOp, False, max),
    (arith.MinUIOp, False, min),
]


def check_pairs(
    op: Operation,
    type: Attribute,
    expected: Callable[[int, int], int],
    *,
    signed: bool = True,
    pairs: list[tuple[int, int]] | None = None,
) -> None:
    """Compare on all pairs, which the expectation sees as signed or as unsigned numbers."""
    if pairs is None:
        pairs = [(a, b) for a in integers(type) for b in integers(type)]
    mask = (1 << 8 * DTYPES[type].itemsize) - 1
    a, b = (torch.tensor(side, dtype=DTYPES[type]) for side in zip(*pairs, strict=True))
    seen = pairs if signed else [(x & mask, y & mask) for x, y in pairs]
    assert run(op, a, b).tolist() == [wrap(expected(x, y), type) for x, y in seen]


@pytest.mark.parametrize("type", [*INTEGERS, IndexType()], ids=str)
@pytest.mark.parametrize(("op", "expected"), SIGNED, ids=lambda x: getattr(x, "name", ""))
def test_signed(op: type[Any], expected: Callable[[int, int], int], type: Attribute) -> None:
    check_pairs(op(value(type), value(type)), type, expected)


@pytest.mark.parametrize("type", [*INTEGERS, IndexType()], ids=str)
@pytest.mark.parametrize(
    ("op", "signed", "expected"), DIVISIONS, ids=lambda x: getattr(x, "name", "")
)
def test_division(
    op: type[Any], signed: bool, expected: Callable[[int, int], int], type: Attribute
) -> None:
    pairs = [(a, b) for a in integers(type) for b in integers(type) if b]
    check_pairs(op(value(type), value(type)), type, expected, signed=signed, pairs=pairs)


@pytest.mark.parametrize("op", [row[0] for row in DIVISIONS], ids=lambda x: x.name)
def test_division_by_zero_does_not_trap(op: type[Any]) -> None:
    run(op(value(i32), value(i32)), torch.tensor([7], dtype=torch.int32), torch.zeros(1).int())


@pytest.mark.parametrize("type", INTEGERS, ids=str)
def test_shifts(type: Attribute) -> None:
    width = 8 * DTYPES[type].itemsize
    pairs = [(a, b) for a in integers(type) for b in range(width)]
    operands = value(type), value(type)
    check_pairs(arith.ShLIOp(*operands), type, lambda a, b: a << b, pairs=pairs)
    check_pairs(arith.ShRSIOp(*operands), type, lambda a, b: a >> b, pairs=pairs)
    check_pairs(arith.ShRUIOp(*operands), type, lambda a, b: a >> b, pairs=pairs, signed=False)


@pytest.mark.parametrize("type", [*INTEGERS, IndexType()], ids=str)
@pytest.mark.parametrize("predicate", arith.CMPI_COMPARISON_OPERATIONS)
def test_cmpi(predicate: str, type: Attribute) -> None:
    relation = {
        "eq": lambda a, b: a == b,
        "ne": lambda a, b: a != b,
        "lt": lambda a, b: a < b,
        "le": lambda a, b: a <= b,
        "gt": lambda a, b: a > b,
        "ge": lambda a, b: a >= b,
    }[predicate[-2:]]
    mask = (1 << 8 * DTYPES[type].itemsize) - 1 if predicate[0] == "u" else -1
    pairs = [(a, b) for a in integers(type) for b in integers(type)]
    a, b = (torch.tensor(side, dtype=DTYPES[type]) for side in zip(*pairs, strict=True))
    op = arith.CmpiOp(value(type), value(type), predicate)
    assert run(op, a, b).tolist() == [relation(x & mask, y & mask) for x, y in pairs]


BOOLEANS: list[tuple[Operation, Callable[[int, int], bool]]] = [
    (arith.AndIOp(value(i1), value(i1)), lambda a, b: bool(a & b)),
    (arith.OrIOp(value(i1), value(i1)), lambda a, b: bool(a | b)),
    (arith.XOrIOp(value(i1), value(i1)), lambda a, b: bool(a ^ b)),
    (arith.AddiOp(value(i1), value(i1)), lambda a, b: bool((a + b) & 1)),
    (arith.MuliOp(value(i1), value(i1)), lambda a, b: bool(a * b)),
    (arith.MaxSIOp(value(i1), value(i1)), lambda a, b: bool(-max(-a, -b))),
    (arith.MaxUIOp(value(i1), value(i1)), lambda a, b: bool(max(a, b))),
    (arith.CmpiOp(value(i1), value(i1), "slt"), lambda a, b: -a < -b),
    (arith.CmpiOp(value(i1), value(i1), "ult"), lambda a, b: a < b),
    (arith.CmpiOp(value(i1), value(i1), "eq"), lambda a, b: a == b),
]


@pytest.mark.parametrize(("op", "expected"), BOOLEANS, ids=lambda x: getattr(x, "name", ""))
def test_i1(op: Operation, expected: Callable[[int, int], bool]) -> None:
    a, b = torch.tensor([False, False, True, True]), torch.tensor([False, True, False, True])
    pairs = [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert run(op, a, b).tolist() == [expected(x, y) for x, y in pairs]


@pytest.mark.parametrize("type", INTEGERS, ids=str)
def test_bit_counts(type: Attribute) -> None:
    width = 8 * DTYPES[type].itemsize
    bits = [f"{x & ((1 << width) - 1):0{width}b}" for x in integers(type)]
    x = torch.tensor(integers(type), dtype=DTYPES[type])
    assert run(math.CtPopOp(value(type)), x).tolist() == [b.count("1") for b in bits]
    leading = [len(b) - len(b.lstrip("0")) for b in bits]
    assert run(math.CountLeadingZerosOp(value(type)), x).tolist() == leading
    trailing = [len(b) - len(b.rstrip("0")) for b in bits]
    assert run(math.CountTrailingZerosOp(value(type)), x).tolist() == trailing


@pytest.mark.parametrize("type", INTEGERS, ids=str)
def test_absi_and_ipowi(type: Attribute) -> None:
    x = torch.tensor(integers(type), dtype=DTYPES[type])
    assert run(math.AbsIOp(value(type)), x).tolist() == [wrap(abs(n), type) for n in x.tolist()]
    pairs = [(a, b) for a in (-3, -1, 0, 1, 2, 7) for b in range(9)]
    op = math.IPowIOp(value(type), value(type))
    check_pairs(op, type, lambda a, b: a**b, pairs=pairs)
    negative = [(-2, -1), (-1, -3), (-1, -2), (1, -5), (5, -1)]
    check_pairs(op, type, lambda a, b: {1: 1, -1: (-1) ** -b}.get(a, 0), pairs=negative)


# --- conversions and the rest -------------------------------------------------------------------


@pytest.mark.parametrize(("source", "target"), [(f16, f32), (bf16, f32), (f32, f64), (bf16, f64)])
def test_extf_and_truncf(source: Attribute, target: Any) -> None:
    x = floats(source)
    same(run(arith.ExtFOp(value(source), target), x), x.to(DTYPES[target]))
    wide = torch.randn(64, dtype=DTYPES[target], generator=torch.Generator().manual_seed(0))
    same(run(arith.TruncFOp(value(target), source), wide), wide.to(DTYPES[source]))


WIDENINGS = [(i8, i16), (i8, i64), (i16, i32), (i32, i64)]


@pytest.mark.parametrize(("source", "target"), WIDENINGS, ids=str)
def test_integer_widths(source: Any, target: Any) -> None:
    numbers = integers(source)
    mask = (1 << 8 * DTYPES[source].itemsize) - 1
    x = torch.tensor(numbers, dtype=DTYPES[source])
    assert run(arith.ExtSIOp(value(source), target), x).tolist() == numbers
    assert run(arith.ExtUIOp(value(source), target), x).tolist() == [n & mask for n in numbers]
    wide = torch.tensor(integers(target), dtype=DTYPES[target])
    narrow = run(arith.TruncIOp(value(target), source), wide)
    assert narrow.tolist() == [wrap(n, source) for n in wide.tolist()]


def test_i1_conversions() -> None:
    x = torch.tensor([False, True])
    assert run(arith.ExtSIOp(value(i1), i32), x).tolist() == [0, -1]
    assert run(arith.ExtUIOp(value(i1), i32), x).tolist() == [0, 1]
    same(run(arith.SIToFPOp(value(i1), f32), x), torch.tensor([0.0, -1.0]))
    assert run(arith.UIToFPOp(value(i1), f32), x).tolist() == [0.0, 1.0]
    numbers = torch.tensor([0, 1, 2, 3, -1])
    assert run(arith.TruncIOp(value(i64), i1), numbers).tolist() == [False, True, False, True, True]


@pytest.mark.parametrize("type", INTEGERS, ids=str)
def test_index_cast(type: Any) -> None:
    numbers = integers(type)
    x = torch.tensor(numbers, dtype=DTYPES[type])
    assert run(arith.IndexCastOp(value(type), IndexType()), x).tolist() == numbers
    back = run(arith.IndexCastOp(value(IndexType()), type), torch.tensor([5, 300, -1]))
    assert back.tolist() == [wrap(n, type) for n in (5, 300, -1)]


@pytest.mark.parametrize("target", FLOATS, ids=str)
@pytest.mark.parametrize("source", INTEGERS, ids=str)
def test_integer_to_float(source: Any, target: Any) -> None:
    x = torch.tensor(integers(source), dtype=DTYPES[source])
    same(run(arith.SIToFPOp(value(source), target), x), x.to(DTYPES[target]))
    mask = (1 << 8 * DTYPES[source].itemsize) - 1
    unsigned = np.array([n & mask for n in integers(source)], dtype=np.uint64)
    wide = np.float64 if target == f64 else np.float32
    expected = torch.from_numpy(unsigned.astype(wide)).to(DTYPES[target])
    same(run(arith.UIToFPOp(value(source), target), x), expected)


@pytest.mark.parametrize("source", FLOATS, ids=str)
@pytest.mark.parametrize("target", INTEGERS, ids=str)
def test_float_to_integer(source: Any, target: Any) -> None:
    x = torch.tensor([-100.7, -1.0, -0.0, 0.9, 1.5, 100.0, 127.0], dtype=DTYPES[source])
    signed = run(arith.FPToSIOp(value(source), target), x)
    assert signed.tolist() == [int(n) for n in x.tolist()]
    top = (1 << 8 * DTYPES[target].itemsize) - 1
    numbers = [n for n in (0.0, 0.9, 200.0, 2.0**15, 2.0**31, 2.0**63) if n <= top]
    x = torch.tensor(numbers, dtype=torch.float64).to(DTYPES[source])
    x = x[x.isfinite() & (x.double() <= top)]
    unsigned = run(arith.FPToUIOp(value(source), target), x)
    assert unsigned.tolist() == [wrap(int(n), target) for n in x.tolist()]


def test_bitcast() -> None:
    x = torch.tensor([1.0, -2.0])
    bits = run(arith.BitcastOp(value(f32), i32), x)
    assert bits.tolist() == [0x3F800000, 0xC0000000 - (1 << 32)]
    same(run(arith.BitcastOp(value(i32), f32), bits), x)


def test_select() -> None:
    op = arith.SelectOp(value(i1), value(f32), value(f32))
    result = run(op, torch.tensor([True, False]), torch.tensor([1.0, NAN]), torch.tensor(2.0))
    assert result.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        (builtin.FloatAttr(0.1, f32), float(np.float32(0.1))),
        (builtin.IntegerAttr(-1, i8), -1),
        (builtin.IntegerAttr(200, i8), -56),
        (builtin.IntegerAttr(-1, i1), True),
        (builtin.IntegerAttr(0, i1), False),
        (builtin.IntegerAttr(1 << 40, i64), 1 << 40),
        (builtin.IntegerAttr(7, IndexType()), 7),
    ],
    ids=str,
)
def test_constants(attribute: Any, expected: float | bool) -> None:
    assert constant_value(attribute) == expected
    tensor = constant_tensor(arith.ConstantOp(attribute))
    assert tensor.dtype == DTYPES[attribute.type]
    assert tensor.item() == expected


def test_unknown_operation() -> None:
    with pytest.raises(NotImplementedError, match=r"test\.op is not a scalar operation"):
        scalar_function(test.TestOp())
