"""ATen operators that work element by element: promotion and rounding as in eager."""

import math
from functools import partial

import pytest
import torch
from frontend_checks import DTYPES, FLOATS, INTEGERS, SHAPES, check, sample

from lpu_mlir.dialects.lpu_graph import ConvertOp, PointwiseOp
from lpu_mlir.frontend.dtypes import promote
from lpu_mlir.frontend.pointwise import HANDLERS

pytestmark = pytest.mark.sampled

aten = torch.ops.aten
HALVES = (torch.bfloat16, torch.float16)


def supported(function, *inputs: torch.Tensor) -> bool:
    """Whether eager takes these dtypes."""
    try:
        function(*inputs)
    except (RuntimeError, NotImplementedError, TypeError):
        return False
    return True


UNARY = [
    name
    for name in (
        "abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh erf exp exp2 expm1 floor "
        "isinf isnan log log10 log1p log2 logical_not neg reciprocal relu round sigmoid sign "
        "signbit sin sinh sqrt tan tanh trunc leaky_relu elu hardtanh"
    ).split()
]


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str):
    function = getattr(aten, name).default
    ran = 0
    for dtype in DTYPES:
        x = sample(dtype, (5, 7), special=True)
        if supported(function, x):
            check(function, x)
            ran += 1
    assert ran >= len(FLOATS)


# Eager rounds twice in half precision, or uses a library whose result for infinity is NaN.
@pytest.mark.parametrize(
    "function",
    [
        aten.rsqrt.default,
        aten.silu.default,
        aten.gelu.default,
        lambda x: aten.gelu.default(x, approximate="tanh"),
        lambda x: aten.elu.default(x, 1.3, 0.7, 0.9),
        lambda x: aten.leaky_relu.default(x, 0.2),
        lambda x: aten.hardtanh.default(x, -0.3, 0.7),
    ],
)
@pytest.mark.parametrize("dtype", FLOATS)
def test_activations(function, dtype: torch.dtype):
    check(function, sample(dtype, (5, 7)))


BINARY = {
    "add": aten.add.Tensor,
    "sub": aten.sub.Tensor,
    "mul": aten.mul.Tensor,
    "div": aten.div.Tensor,
    "div_trunc": lambda x, y: aten.div.Tensor_mode(x, y, rounding_mode="trunc"),
    "div_none": lambda x, y: aten.div.Tensor_mode(x, y, rounding_mode=None),
    "remainder": aten.remainder.Tensor,
    "fmod": aten.fmod.Tensor,
    "atan2": aten.atan2.default,
    "copysign": aten.copysign.Tensor,
    "maximum": aten.maximum.default,
    "minimum": aten.minimum.default,
    "fmax": aten.fmax.default,
    "fmin": aten.fmin.default,
    "eq": aten.eq.Tensor,
    "ne": aten.ne.Tensor,
    "lt": aten.lt.Tensor,
    "le": aten.le.Tensor,
    "gt": aten.gt.Tensor,
    "ge": aten.ge.Tensor,
    "and": aten.bitwise_and.Tensor,
    "or": aten.bitwise_or.Tensor,
    "xor": aten.bitwise_xor.Tensor,
    "logical_and": aten.logical_and.default,
    "logical_xor": aten.logical_xor.default,
    "where": lambda x, y: aten.where.self(x != 0, x, y),
    "add_alpha": lambda x, y: aten.add.Tensor(x, y, alpha=2),
}


# One dtype of each kind that promotion and the kernels tell apart.
PAIRED = (*FLOATS, torch.int64, torch.uint8, torch.bool)


@pytest.mark.parametrize("name", BINARY)
def test_binary_is_bit_equal_for_all_pairs_of_dtypes(name: str):
    function, ran = BINARY[name], 0
    for left in PAIRED:
        for right in PAIRED:
            x, y = sample(left, (5, 7), 1, special=True), sample(right, (7,), 2)
            if not right.is_floating_point:
                y = torch.where(y == 0, torch.ones_like(y), y)
            if supported(function, x, y):
                check(function, x, y, exact=True)
                ran += 1
    assert ran >= 9


@pytest.mark.parametrize("name", [n for n in BINARY if n not in ("fmax", "fmin")])
@pytest.mark.parametrize("value", [0.1, 3.7, -2])
def test_zero_dim_tensors_promote_and_round_as_in_eager(name: str, value: float):
    function, ran = BINARY[name], 0
    for left in PAIRED:
        for right in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
            x, y = sample(left, (5, 7), 1), torch.tensor(value, dtype=right)
            if (y != 0 or right.is_floating_point) and supported(function, x, y):
                check(function, x, y, exact=True)
                ran += 1
    assert ran >= 3


NUMBERS = {
    **{name: BINARY[name] for name in ("add", "sub", "mul", "div", "div_trunc")},
    "where": lambda x, y: aten.where.ScalarOther(x != 0, x, y),
    **{
        name: getattr(aten, name).Scalar
        for name in ("remainder", "fmod", "eq", "ne", "lt", "le", "gt", "ge")
    },
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [0.1, 3.7, -2, 2, 300])
def test_python_numbers_promote_and_round_as_in_eager(name: str, value: float):
    function, ran = NUMBERS[name], 0
    for dtype in DTYPES:
        x = sample(dtype, (5, 7), 1, special=True)
        if supported(lambda x: function(x, value), x):
            check(lambda x: function(x, value), x, exact=True)
            ran += 1
    assert ran >= len(FLOATS)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int8])
@pytest.mark.parametrize("divisor", [(7,), ()])
def test_floor_division(dtype: torch.dtype, divisor: tuple[int, ...]):
    x, y = sample(dtype, (5, 7), 1, special=True), sample(dtype, divisor, 3)
    y = torch.where(y == 0, torch.ones_like(y), y)
    check(lambda x, y: aten.div.Tensor_mode(x, y, rounding_mode="floor"), x, y)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int8, torch.uint8])
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 5, 0.5, -0.5, -1, -2, 2.5, -1.3])
def test_pow_with_a_number(dtype: torch.dtype, exponent: float):
    x = sample(dtype, (5, 7), special=True)
    if not supported(lambda x: aten.pow.Tensor_Scalar(x, exponent), x):
        assert isinstance(exponent, int)
        assert exponent < 0
        return
    check(lambda x: aten.pow.Tensor_Scalar(x, exponent), x)


def test_booleans_take_part_in_arithmetic():
    x, y = sample(torch.bool, (9,), 1), sample(torch.bool, (9,), 2)
    check(aten.add.Tensor, x, y)
    check(aten.mul.Tensor, x, y)
    check(lambda x: aten.add.Tensor(x, True, alpha=True), x)
    check(lambda x: aten.mul.Tensor(x, True), sample(torch.int8, (9,)))


def test_squares_are_products():
    graph = check(lambda x: aten.pow.Tensor_Scalar(x, 2), sample(torch.float32, (3,)))
    [op] = [op for op in graph.func.walk() if isinstance(op, PointwiseOp)]
    assert op.kind.data == "mul"


def test_pow_of_tensors():
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        exponents = sample(dtype, (7,), 2).abs()
        check(aten.pow.Tensor_Tensor, sample(dtype, (5, 7)), exponents)
        check(lambda x: aten.pow.Scalar(3, x), exponents)


def test_unsigned_exponents():
    x = torch.arange(256, dtype=torch.uint8)
    check(aten.pow.Tensor_Tensor, x, x.flip(0), exact=True)
    check(aten.pow.Tensor_Tensor, x + 1, x[:1] - 5, exact=True)
    check(lambda x: aten.pow.Tensor_Scalar(x, 251), x, exact=True)
    check(lambda x: aten.pow.Scalar(251, x), x, exact=True)


@pytest.mark.parametrize("bounds", [(0.1, 1.7), (-1, None), (None, 2), (2, -1), (math.nan, 1.0)])
def test_clamp(bounds: tuple[float | None, float | None]):
    for dtype in (*FLOATS, *INTEGERS):
        x = sample(dtype, (5, 7), special=True)
        if supported(lambda x: aten.clamp.default(x, *bounds), x):
            check(lambda x: aten.clamp.default(x, *bounds), x, exact=True)
    low, high = sample(torch.float32, (7,), 4), sample(torch.float64, (5, 1), 5)
    check(aten.clamp.Tensor, sample(torch.bfloat16, (5, 7)), low, high)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_alpha_is_fused(dtype: torch.dtype):
    x, y = sample(dtype, (32, 4), 1), sample(dtype, (32, 4), 2)
    exact = dtype in HALVES  # elsewhere eager may fuse or not
    graph = check(lambda x, y: aten.sub.Tensor(x, y, alpha=0.3), x, y, exact=exact)
    assert "fma" in {op.kind.data for op in graph.func.walk() if isinstance(op, PointwiseOp)}


@pytest.mark.parametrize("dtype", HALVES)
def test_composites_round_half_precision_once(dtype: torch.dtype):
    graph = check(aten.gelu.default, sample(dtype, (40, 7)))
    converts = [op for op in graph.func.walk() if isinstance(op, ConvertOp)]
    assert len(converts) == 2


def test_selection():
    x, mask = sample(torch.float32, (3, 4)), sample(torch.bool, (4,), 1)
    check(lambda x, m: aten.masked_fill.Scalar(x, m, -math.inf), x, mask, exact=True)
    check(lambda x, m, v: aten.masked_fill.Tensor(x, m, v), x, mask, torch.tensor(2), exact=True)


def test_fused_multiply_add():
    x, y, z = (sample(torch.float32, (5,), seed) for seed in range(3))
    graph = check(torch.ops.prims.fma.default, x, y, z)
    assert len(list(graph.func.body.block.ops)) == 2
    check(lambda x, y: torch.ops.prims.fma.default(x, 0.5, y), x, y)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1), (2, 3)])
def test_shapes_broadcast(shape: tuple[int, ...]):
    x, y = sample(torch.float32, shape), sample(torch.float32, (2, 1, 1, 1))
    check(lambda x, y: aten.mul.Tensor(x, y) + aten.exp.default(x), x, y)


def test_promotion_follows_result_type():
    dtypes = (torch.bool, torch.uint8, torch.int8, torch.int64, torch.bfloat16, torch.float16)
    for a in (*dtypes, torch.float32, torch.float64):
        for b in dtypes:
            for x in (torch.ones(2, dtype=a), torch.ones((), dtype=a)):
                for y in (torch.ones(2, dtype=b), torch.ones((), dtype=b)):
                    operands = [(t.dtype, 0 if t.dim() else 1) for t in (x, y)]
                    assert promote(*operands) == torch.result_type(x, y)


def test_every_handler_is_an_operator_of_its_own():
    assert all(isinstance(op, torch._ops.OpOverload) for op in HANDLERS)


@pytest.mark.parametrize("number", [True, 3, 2.7])
def test_copies_of_numbers(number: float):
    """In place, of an input and of what is none."""

    def function(x):
        x[:1].copy_(number)
        return x.clone().copy_(number)

    ours, theirs = torch.arange(3), torch.arange(3)
    compiled = torch.compile(function, backend="lpu_mlir", options={"fallback": "error"})
    assert torch.equal(compiled(ours), function(theirs))
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.float64])
def test_numbers_in_tensors_as_factors(dtype: torch.dtype):
    def function(x, number):
        added = x > 1 if dtype == torch.bool else x
        return torch.addcmul(x, x, x, value=number), torch.add(added, added, alpha=number)

    x, number = torch.arange(4.0), torch.tensor(1).to(dtype)
    compiled = torch.compile(function, backend="lpu_mlir", options={"fallback": "error"})
    for value in (number, 0 * number):
        for result, expected in zip(compiled(x, value), function(x, value), strict=True):
            torch.testing.assert_close(result, expected)


NUMBER_FIRST = {
    "and": aten.bitwise_and.Scalar_Tensor,
    "or": aten.bitwise_or.Scalar_Tensor,
    "xor": aten.bitwise_xor.Scalar_Tensor,
    "remainder": aten.remainder.Scalar_Tensor,
}
SHIFTS = {
    "left": aten.bitwise_left_shift.Scalar_Tensor,
    "right": aten.bitwise_right_shift.Scalar_Tensor,
}


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
@pytest.mark.parametrize("number", [300, 7, -5])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_numbers_before_tensors(dtype: torch.dtype, number: int, mode: str):
    for shape in SHAPES:
        x = sample(dtype, shape)
        for operator in NUMBER_FIRST.values():
            nonzero = torch.where(x == 0, 3, x).to(dtype)
            check(partial(operator, number), nonzero, exact=True, mode=mode)
        for operator in SHIFTS.values():
            places = x.abs().to(dtype) % 4
            check(partial(operator, number), places, exact=True, mode=mode)
            check(lambda x: x << x, places, exact=True, mode=mode)
        check(aten.__lshift__.Tensor, x, x.abs() % 4, exact=True, mode=mode)
        check(aten.__rshift__.Tensor, x, x.abs() % 4, exact=True, mode=mode)


@pytest.mark.parametrize("dtype", FLOATS)
def test_remainder_of_a_number(dtype: torch.dtype):
    x = sample(dtype, (5, 6), special=True)
    for number in (2.5, 300.7, -1, float("inf")):
        check(partial(aten.remainder.Scalar_Tensor, number), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_angle_of_real_numbers(dtype: torch.dtype):
    for shape in ((), (0, 3), (5, 6)):
        check(torch.angle, sample(dtype, shape, special=True), exact=True)


@pytest.mark.parametrize("decimals", [-6, -2, -1, 0, 1, 2, 3, 12])
@pytest.mark.parametrize("dtype", FLOATS)
def test_round_to_decimals(dtype: torch.dtype, decimals: int):
    x = torch.cat([sample(dtype, (300,), special=True) * 40, torch.arange(-9, 9).to(dtype) / 4])
    check(lambda x: torch.round(x, decimals=decimals), x, exact=True)
