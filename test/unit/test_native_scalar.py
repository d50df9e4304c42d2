"""The native interpreter's scalar operations against those of the reference interpreter."""

import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import product
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
import torch
from native_harness import Elementwise, compiled, module_text
from torch import Tensor
from xdsl.dialects import arith, builtin, math, test
from xdsl.dialects.builtin import IndexType, bf16, f16, f32, f64, i1, i8, i16, i32, i64
from xdsl.ir import Attribute, Operation

from lpu_mlir.dialects.lpu import RemFOp, ui8
from lpu_mlir.interpreter.native import scalar as native
from lpu_mlir.interpreter.native.llvm import Builder, Module, Value, known, literal, vector
from lpu_mlir.interpreter.native.machine import MACHINES, Machine
from lpu_mlir.interpreter.reference import scalar as reference
from lpu_mlir.interpreter.reference.tiles import COMBINE, FOLD

pytestmark = pytest.mark.sampled

LANES = (1, 4, 8, 16)
NAN, INF = float("nan"), float("inf")
FLOATS = (f16, bf16, f32, f64)
INTEGERS = (i1, i8, i16, i32, i64, IndexType())
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

Signature = tuple[tuple[Attribute, ...], Attribute]


# --- the operations and their types -------------------------------------------------------------


def same_types(types: Iterable[Attribute], operands: int) -> list[Signature]:
    return [((type,) * operands, type) for type in types]


def width(type: Attribute) -> int:
    return 64 if type == IndexType() else type.bitwidth


def pairs(sources: Iterable[Any], targets: Iterable[Any], keep: Callable[..., bool]) -> Any:
    return [((a,), b) for a, b in product(sources, targets) if keep(width(a), width(b))]


UNARY_FLOATS = same_types(FLOATS, 1)
BINARY_FLOATS = same_types(FLOATS, 2)
UNARY_INTEGERS = same_types(INTEGERS, 1)
BINARY_INTEGERS = same_types(INTEGERS, 2)
FIXED = [type for type in INTEGERS if type != IndexType()]
ANY = (*FLOATS, *INTEGERS)

SIGNATURES: dict[type[Operation], list[Signature]] = {
    RemFOp: BINARY_FLOATS,
    arith.CmpiOp: [((type, type), i1) for type in INTEGERS],
    arith.CmpfOp: [((type, type), i1) for type in FLOATS],
    arith.SelectOp: [((i1, type, type), type) for type in ANY],
    arith.NegfOp: UNARY_FLOATS,
    arith.ExtFOp: pairs(FLOATS, FLOATS, lambda a, b: a < b),
    arith.TruncFOp: pairs(FLOATS, FLOATS, lambda a, b: a > b),
    arith.ExtSIOp: pairs(FIXED, FIXED, lambda a, b: a < b),
    arith.ExtUIOp: pairs(FIXED, FIXED, lambda a, b: a < b),
    arith.TruncIOp: pairs(FIXED, FIXED, lambda a, b: a > b),
    arith.IndexCastOp: [
        *(((type,), IndexType()) for type in FIXED),
        *(((IndexType(),), type) for type in FIXED),
    ],
    arith.SIToFPOp: [((a,), b) for a, b in product(FIXED, FLOATS)],
    arith.UIToFPOp: [((a,), b) for a, b in product(FIXED, FLOATS)],
    arith.FPToSIOp: [((a,), b) for a, b in product(FLOATS, FIXED)],
    arith.FPToUIOp: [((a,), b) for a, b in product(FLOATS, FIXED)],
    arith.BitcastOp: pairs(ANY, ANY, lambda a, b: a == b),
    # Of f64 the reference rounds twice.
    math.FmaOp: same_types((f16, bf16, f32), 3),
    math.AbsIOp: UNARY_INTEGERS,
    math.CtPopOp: UNARY_INTEGERS,
    math.CountLeadingZerosOp: UNARY_INTEGERS,
    math.CountTrailingZerosOp: UNARY_INTEGERS,
    math.IPowIOp: BINARY_INTEGERS,
    math.FPowIOp: [((a, b), a) for a, b in product(FLOATS, (i1, i32, i64))],
    math.Atan2Op: BINARY_FLOATS,
    math.CopySignOp: BINARY_FLOATS,
    math.PowFOp: BINARY_FLOATS,
}


def signatures(op: type[Operation]) -> list[Signature]:
    """The types that an operation takes, and gives."""
    if op in SIGNATURES:
        return SIGNATURES[op]
    if issubclass(op, arith.SignlessIntegerBinaryOperation):
        return BINARY_INTEGERS
    if issubclass(op, arith.FloatingPointLikeBinaryOperation):
        return BINARY_FLOATS
    assert issubclass(op, math.FloatingPointLikeUnaryMathOperation), f"{op.name} has no signature"
    return UNARY_FLOATS


PREDICATES = {arith.CmpiOp: range(10), arith.CmpfOp: range(16)}


def instances(op: type[Operation]) -> list[Operation]:
    made: list[Operation] = []
    for operands, result in signatures(op):
        for predicate in PREDICATES.get(op, (None,)):
            properties = (
                {} if predicate is None else {"predicate": builtin.IntegerAttr(predicate, i64)}
            )
            made.append(
                op.create(
                    operands=[test.TestOp(result_types=[type]).results[0] for type in operands],
                    result_types=[result],
                    properties=properties,
                )
            )
    return made


def elementwise(op: Operation, lanes: int, name: str) -> Elementwise:
    return Elementwise(
        name,
        tuple(operand.type for operand in op.operands),
        op.results[0].type,
        lanes,
        lambda b, values: native.emit_scalar(b, op, values),
    )


# --- the numbers --------------------------------------------------------------------------------


def edges(type: Attribute) -> Tensor:
    dtype = reference.DTYPES[type]
    if dtype == torch.bool:
        return torch.tensor([False, True])
    if dtype.is_floating_point:
        info = torch.finfo(dtype)
        tiny = info.smallest_normal
        positive = [0.0, tiny * info.eps, tiny / 2, tiny, 1e-3, 0.25, 0.5, 0.75, 1.0, 1 + info.eps]
        positive += [1.5, 2.0, 2.5, 3.0, 10.0, 88.5, 104.0, 127.5, 300.0, 2.0**15, 2.0**31]
        positive += [2.0**40, 2.0**63, 2.0**64, info.max, INF, NAN]
        values = torch.tensor(positive, dtype=torch.float64)
        return torch.cat([values, -values]).to(dtype)
    half = 1 << 8 * dtype.itemsize - 1
    numbers = [
        -half,
        -half + 1,
        -100,
        -9,
        -7,
        -2,
        -1,
        0,
        1,
        2,
        3,
        7,
        8,
        15,
        16,
        31,
        32,
        63,
        64,
        100,
    ]
    return torch.tensor([*numbers, half - 2, half - 1], dtype=dtype)


def random_bits(type: Attribute, count: int, generator: torch.Generator) -> Tensor:
    dtype = reference.DTYPES[type]
    bits = torch.randint(-(1 << 63), (1 << 63) - 1, (count,), generator=generator)
    if dtype == torch.bool:
        return (bits & 1).bool()
    values = bits.to(BITS[dtype.itemsize]).view(dtype)
    # Of a signalling NaN some functions of the C library make another NaN than of a quiet one.
    return torch.where(values.isnan(), NAN, values) if dtype.is_floating_point else values


def operands_of(op: Operation) -> list[Tensor]:
    """All combinations of edge values, then random bit patterns, then numbers about 1."""
    generator = torch.Generator().manual_seed(0)
    types = [operand.type for operand in op.operands]
    corners = [edges(type) for type in types]
    if len(types) == 3 and types[0] != i1:
        corners = [edge[::2] for edge in corners]
    chosen = torch.cartesian_prod(*(torch.arange(len(corner)) for corner in corners))
    chosen = chosen.reshape(-1, len(corners)).unbind(1)
    columns = [
        [corner[where], random_bits(type, 3000, generator)]
        for corner, where, type in zip(corners, chosen, types, strict=True)
    ]
    for column, type in zip(columns, types, strict=True):
        dtype = reference.DTYPES[type]
        if dtype.is_floating_point:
            column.append((torch.randn(3000, generator=generator) * 4).to(dtype))
        else:
            column.append(torch.randint(-9, 9, (3000,), generator=generator).to(dtype))
    return [torch.cat(column) for column in columns]


# --- comparisons --------------------------------------------------------------------------------

ZERO_SIGN_OPEN = {arith.MaximumfOp, arith.MinimumfOp, arith.MaxnumfOp, arith.MinnumfOp}

STEPS: dict[type[Operation], int] = {
    **dict.fromkeys(
        (
            *(math.AcosOp, math.AcoshOp, math.AsinOp, math.AsinhOp, math.Atan2Op, math.AtanOp),
            *(math.AtanhOp, math.CbrtOp, math.CosOp, math.CoshOp, math.ErfOp, math.Exp2Op),
            *(math.ExpM1Op, math.ExpOp, math.Log10Op, math.Log1pOp, math.Log2Op, math.LogOp),
            *(math.PowFOp, math.SinOp, math.SinhOp, math.TanOp, math.TanhOp, math.FPowIOp),
        ),
        3,
    ),
    math.FmaOp: 1,
    math.SqrtOp: 0,
}
"""Operations whose expected result is the reference's in f64, rounded, as PyTorch's functions of
f32 are not right to the last bit: how many numbers away from it the result may be."""


RIGHT: dict[type[Operation], Callable[..., Any]] = {
    math.SqrtOp: np.sqrt,
    math.Log1pOp: np.log1p,
}
"""Where PyTorch's f64 is not right: the last bit of a root, the logarithm near -0."""


def expected_result(op: Operation, operands: list[Tensor]) -> Tensor:
    function, dtype = reference.scalar_function(op), reference.DTYPES[op.results[0].type]
    if type(op) not in STEPS:
        return function(*operands)
    wide = [x.double() if x.dtype.is_floating_point else x for x in operands]
    if type(op) in RIGHT:
        with np.errstate(all="ignore"):
            return torch.from_numpy(RIGHT[type(op)](wide[0].numpy())).to(dtype)
    return function(*wide).to(dtype)


def steps_apart(actual: Tensor, expected: Tensor) -> Tensor:
    """How many numbers lie between, counted over zero, as integers."""

    def position(x: Tensor) -> Tensor:
        bits = x.view(BITS[x.itemsize]).to(torch.int64)
        return torch.where(bits < 0, (-(1 << 8 * x.itemsize - 1)) - bits, bits)

    distance = (position(actual) - position(expected)).abs()
    return torch.where(actual.isnan() & expected.isnan(), 0, distance)


def check(op: Operation, actual: Tensor, expected: Tensor, operands: list[Tensor]) -> None:
    assert actual.dtype == expected.dtype
    if actual.dtype.is_floating_point:
        wrong = steps_apart(actual, expected) > STEPS.get(type(op), 0)
        wrong |= actual.isnan() != expected.isnan()
        if type(op) not in ZERO_SIGN_OPEN:
            wrong |= (actual.signbit() != expected.signbit()) & ~expected.isnan()
    else:
        wrong = actual != expected
    if wrong.any():
        where = wrong.nonzero()[:5, 0]
        pytest.fail(
            f"{op}: {int(wrong.sum())} differ; of {[x[where].tolist() for x in operands]} "
            f"{actual[where].tolist()} instead of {expected[where].tolist()}"
        )


TABLE = [*reference._PLAIN, *reference._BY_TYPE]


@pytest.mark.parametrize("op", TABLE, ids=lambda op: op.name)
def test_operation(op: type[Operation]) -> None:
    made = instances(op)
    functions = [
        elementwise(instance, lanes, f"f{number}.{lanes}")
        for number, instance in enumerate(made)
        for lanes in LANES
    ]
    code = compiled(functions)
    for number, instance in enumerate(made):
        operands = operands_of(instance)
        expected = expected_result(instance, operands)
        for lanes in LANES:
            check(instance, code[f"f{number}.{lanes}"](*operands), expected, operands)


# --- what a comparison with the reference does not show -----------------------------------------


def test_tables_have_the_operations_of_the_reference() -> None:
    assert {*native.PLAIN, *native.BY_TYPE} == set(TABLE)


def test_unknown_operation() -> None:
    op = test.TestOp(operands=[test.TestOp(result_types=[f32]).results[0]], result_types=[f32])
    with pytest.raises(NotImplementedError, match=r"test\.op is not a scalar operation"):
        native.emit_scalar(Builder(Module()), op, [Value("float", "%x")])


@pytest.mark.parametrize("type", [f32, f64], ids=str)
def test_fma_rounds_once(type: Attribute) -> None:
    op = math.FmaOp(*(test.TestOp(result_types=[type]).results[0] for _ in range(3)))
    run = compiled([elementwise(op, 4, "fma")])["fma"]
    generator = torch.Generator().manual_seed(1)
    dtype = reference.DTYPES[type]
    a, b = (torch.randn(500, generator=generator, dtype=dtype) for _ in range(2))
    c = -(a * b) * (1 + torch.finfo(dtype).eps * torch.randint(3, (500,), generator=generator))
    exact = [
        Fraction(x) * Fraction(y) + Fraction(z) for x, y, z in zip(*map(Tensor.tolist, (a, b, c)))
    ]
    expected = torch.tensor([float(e) for e in exact], dtype=dtype)
    assert torch.equal(run(a, b, c), expected)
    assert not torch.equal(a * b + c, expected)


def test_an_operand_of_one_lane_is_used_for_all() -> None:
    op = arith.AddfOp(*(test.TestOp(result_types=[f32]).results[0] for _ in range(2)))

    def emit(b: Builder, values: Any) -> Value:
        return native.emit_scalar(b, op, [values[0], literal("float", 2.5)])

    run = compiled([Elementwise("add", (f32,), f32, 8, emit)])["add"]
    assert run(torch.arange(8.0)).tolist() == (torch.arange(8.0) + 2.5).tolist()


@pytest.mark.parametrize("type", FLOATS, ids=str)
def test_of_two_zeros_the_operand_that_is_no_number_is_kept(type: Attribute) -> None:
    """As in relu and clamp of eager."""
    op = arith.MaximumfOp(*(test.TestOp(result_types=[type]).results[0] for _ in range(2)))

    def emit(b: Builder, values: Any) -> Value:
        return native.emit_scalar(b, op, [values[0], literal(values[0].type, 0.0)])

    run = compiled([Elementwise("relu", (type,), type, 4, emit)])["relu"]
    given = torch.tensor([-0.0, 0.0, -1.0, NAN] * 2, dtype=reference.DTYPES[type])
    assert list(map(str, run(given).tolist())) == ["-0.0", "0.0", "0.0", "nan"] * 2


@pytest.mark.parametrize("type", ["half", "bfloat", "float", "double"])
@pytest.mark.parametrize("lanes", [1, 4])
def test_known_is_what_a_literal_was_made_of(type: str, lanes: int) -> None:
    for number in (0.0, -0.0, 1.5, -3.0, INF):
        assert str(known(literal(vector(type, lanes), number))) == str(number)
    assert known(Value(type, "%x")) is None


CONSTANTS = [
    *(builtin.FloatAttr(x, type) for x in (0.1, -0.0, 1e-42, -INF, NAN) for type in FLOATS),
    *(builtin.FloatAttr(x, type) for x in (3e38, -7.0) for type in (bf16, f32, f64)),
    *(builtin.IntegerAttr(x, type) for x in (-1, 0, 1, 100) for type in (i8, i16, i32, i64)),
    *(builtin.IntegerAttr(x, i1) for x in (-1, 0, 1)),
    builtin.IntegerAttr(200, i8),
    builtin.IntegerAttr(1 << 63, i64),
    builtin.IntegerAttr(-1 << 63, i64),
    builtin.IntegerAttr(1 << 40, IndexType()),
]


@pytest.mark.parametrize("lanes", [1, 4])
def test_constants(lanes: int) -> None:
    code = compiled(
        [
            Elementwise(
                f"c{n}", (i8,), c.type, lanes, lambda b, _, c=c: native.emit_constant(b, c, lanes)
            )
            for n, c in enumerate(CONSTANTS)
        ]
    )
    for n, constant in enumerate(CONSTANTS):
        expected = reference.constant_tensor(arith.ConstantOp(constant)).expand(lanes)
        actual = code[f"c{n}"](torch.zeros(lanes, dtype=torch.int8))
        assert actual.dtype == expected.dtype
        assert torch.equal(actual, expected) or bool((actual.isnan() & expected.isnan()).all())
        assert torch.equal(actual.signbit(), expected.signbit()) or expected.isnan().all()


ELEMENTS = (*FLOATS, i1, i8, ui8, i16, i32, i64)
KINDS = [
    (kind, element)
    for element in ELEMENTS
    for kind in COMBINE
    if kind not in ("and", "or", "xor") or element not in FLOATS
]


def test_combine_and_identity() -> None:
    functions: list[Elementwise] = []
    for kind, element in KINDS:

        def emit(b: Builder, values: Any, kind: str = kind, element: Any = element) -> Value:
            return native.combine(b, kind, element, *values)

        def start(b: Builder, _: Any, kind: str = kind, element: Any = element) -> Value:
            return b.splat(native.identity(kind, element), 4)

        name = f"{kind}.{element}"
        functions.append(Elementwise(name, (element, element), element, 4, emit))
        functions.append(Elementwise(f"{name}.start", (i8,), element, 4, start))
    code = compiled(functions)
    for kind, element in KINDS:
        dtype = reference.DTYPES[element]
        numbers = edges(i8 if element == ui8 else element).to(dtype)
        x, y = numbers.repeat_interleave(len(numbers)), numbers.repeat(len(numbers))
        actual, expected = code[f"{kind}.{element}"](x, y), COMBINE[kind](x, y)
        torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
        nothing = FOLD[kind](torch.empty(0, dtype=dtype), (0,))
        assert code[f"{kind}.{element}.start"](torch.zeros(1, dtype=torch.int8)).item() == nothing


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.slow
def test_other_machines_call_nothing_but_the_c_library(machine: Machine) -> None:
    functions = [
        elementwise(instance, machine.lanes(4), f"f{n}.{k}")
        for n, op in enumerate(TABLE)
        for k, instance in enumerate(instances(op))
    ]
    text = module_text(functions)
    known = set(re.findall(r"^(?:declare|define) .*? @([\w.]+)\(", text, re.M))
    called = set(
        re.findall(r"^\s+(?:callq?|jmp|bl?)\s+([A-Za-z_][\w.]*)", assembly(text, machine), re.M)
    )
    assert "sinf" in called
    # LLVM may turn a loop into memset.
    assert called <= {*known, "memset"}


def assembly(text: str, machine: Machine) -> str:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(machine.triple).create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=2, codemodel="small"
    )
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = tuning.slp_vectorization = False
    passes = llvm.create_pass_builder(target, tuning)
    passes.getModulePassManager().run(module, passes)
    return target.emit_assembly(module)
