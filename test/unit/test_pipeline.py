"""
The whole pipeline on functions of `lpu_graph`: lowered for two targets, run, compared with PyTorch.

Most functions are in pipeline/*.mlir, one for each case; `pipeline_harness` says how they are read.
"""

import math
import re
from pathlib import Path

import pytest
import torch
from pipeline_harness import Case, Compiled, check, make_inputs, read_case, read_cases
from xdsl.dialects.builtin import bf16, f16, f32, f64
from xdsl.ir import Attribute

from lpu_mlir.dialects.lpu import i1, i8, i16, i32, i64, ui8
from lpu_mlir.dialects.lpu_graph import POINTWISE, REDUCTIONS, SCANS, in_domain
from lpu_mlir.model.target import TARGETS

pytestmark = pytest.mark.sampled

FILES = sorted((Path(__file__).parent / "pipeline").glob("*.mlir"))
CASES = [case for path in FILES for case in read_cases(path)]


def test_every_function_is_a_case():
    text = "\n".join(path.read_text() for path in FILES)
    functions = re.findall(r"^func\.func @(\w+)", text, re.M)
    assert sorted(functions) == sorted(case.name for case in CASES)
    assert len(set(functions)) == len(functions)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_case(case: Case, target: str):
    check(case, target)


# --- element types ------------------------------------------------------------------------------

FLOATS, INTEGERS = (f16, bf16, f32, f64), (i8, i16, i32, i64, ui8)
ELEMENTS = (*FLOATS, *INTEGERS, i1)

ROUNDED = frozenset(
    "acos acosh asin asinh atan atan2 atanh cos cosh erf exp exp2 expm1 log log10 log1p log2 pow "
    "rsqrt sigmoid sin sinh sqrt tan tanh gelu gelu_tanh quick_gelu".split()
)
"""Functions of floats that may differ from PyTorch's in the last place."""

SMALL_SECOND = {"shl": (0, 7), "shr": (0, 7), "pow": (0, 4)}
NONZERO_SECOND = ("floordiv", "truncdiv", "remainder", "fmod")


def typed_case(name: str, arguments: str, operations: list[tuple[str, str]], **options) -> Case:
    """Every operation, given with its result type, is one result of the function."""
    body = "\n".join(f"  %r{i} = {op} -> {type_}" for i, (op, type_) in enumerate(operations))
    names = ", ".join(f"%r{i}" for i in range(len(operations)))
    types = ", ".join(type_ for _, type_ in operations)
    text = (
        f"func.func @{name}({arguments}) -> ({types}) {{\n{body}\n"
        f"  func.return {names} : {types}\n}}"
    )
    return Case(name, text, **options)


def pointwise_case(element: Attribute, kinds: list[str], **options) -> Case:
    x = f"tensor<3x5x{element}>"
    condition = "tensor<3x5xi1>"
    arguments = f"%a: {x}, %b: {x}, %c: {x}, %p: {condition}"
    operations: list[tuple[str, str]] = []
    for kind in kinds:
        names = "abc"[: POINTWISE[kind].arity]
        operands, types = [f"%{n}" for n in names], [x] * len(names)
        if kind == "select":
            operands[0], types[0] = "%p", condition
        result = condition if POINTWISE[kind].compares else x
        operation = f'lpu_graph.pointwise "{kind}"({", ".join(operands)}) : {", ".join(types)}'
        operations.append((operation, result))
    return typed_case("pointwise", arguments, operations, **options)


def kinds_on(element: Attribute) -> list[str]:
    return [kind for kind, row in POINTWISE.items() if in_domain(element, row.domain)]


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_pointwise_functions_of_floats(element: Attribute):
    kinds = kinds_on(element)
    exact = [kind for kind in kinds if kind not in ROUNDED]
    rounded = [kind for kind in kinds if kind in ROUNDED]
    assert len(exact) > 20
    assert len(rounded) > 20
    check(pointwise_case(element, exact), "tiny")
    check(pointwise_case(element, rounded, exact=False), "tiny")


SPECIAL = [
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    1e-7,
    6e4,
    -3,
    1,
    -1,
]


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_special_numbers(element: Attribute):
    """Infinities, NaN, signed zeros, halves: every pair of them."""
    kinds = [kind for kind in kinds_on(element) if kind not in ROUNDED and kind != "fma"]
    case = pointwise_case(element, kinds)
    n = len(SPECIAL)
    case = Case(case.name, case.text.replace("3x5x", f"{n}x{n}x"))
    inputs = make_inputs(case, {})
    column = torch.tensor(SPECIAL, dtype=inputs[0].dtype)
    inputs[0][:] = column[:, None]
    inputs[1][:] = column
    check(case, "tiny", inputs)


@pytest.mark.parametrize("element", [*INTEGERS, i1], ids=str)
def test_pointwise_functions_of_integers(element: Attribute):
    kinds = kinds_on(element)
    plain = [k for k in kinds if k not in SMALL_SECOND and k not in NONZERO_SECOND]
    check(pointwise_case(element, plain, ranges=((0, ("-128", "128")),)), "tiny")
    if element == i1:
        return
    check(pointwise_case(element, list(NONZERO_SECOND), ranges=((1, ("1", "6")),)), "tiny")
    for kind, (low, high) in SMALL_SECOND.items():
        check(pointwise_case(element, [kind], ranges=((1, (str(low), str(high))),)), "tiny")


def test_division_by_negative_integers():
    case = pointwise_case(i64, list(NONZERO_SECOND), ranges=((1, ("-5", "0")),))
    check(case, "tiny")


@pytest.mark.parametrize("source", ELEMENTS, ids=str)
def test_conversions(source: Attribute):
    x = f"tensor<3x5x{source}>"
    operations = [(f"lpu_graph.convert %x : {x}", f"tensor<3x5x{target}>") for target in ELEMENTS]
    check(typed_case("convert", f"%x: {x}", operations, ranges=((0, ("-100", "100")),)), "tiny")


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_reductions(element: Attribute):
    x, y = f"tensor<3x40x{element}>", f"tensor<3x{element}>"
    kinds = [
        kind
        for kind, domain in REDUCTIONS.items()
        if in_domain(element, domain) and (kind in ("add", "mul", "max", "min") or element == i1)
    ]
    operations = [(f'lpu_graph.reduce "{kind}" %x dims <[1]> : {x}', y) for kind in kinds]
    # Products of ones and twos are exact in every type until they overflow to infinity.
    check(typed_case("reduce", f"%x: {x}", operations, ranges=((0, ("1", "3")),)), "tiny")


@pytest.mark.parametrize("element", [*FLOATS, *INTEGERS], ids=str)
def test_positions_of_extremes(element: Attribute):
    x = f"tensor<5x40x{element}>"
    operations = [
        (f'lpu_graph.arg_reduce "{kind}" %x dim {dim} : {x}', f"tensor<{size}xi64>")
        for kind in ("max", "min")
        for dim, size in ((0, 40), (1, 5))
    ]
    check(typed_case("arg_reduce", f"%x: {x}", operations), "tiny")


@pytest.mark.parametrize("element", [*FLOATS, *INTEGERS], ids=str)
def test_running_sums_and_products(element: Attribute):
    x = f"tensor<5x6x{element}>"
    operations = [
        (f'lpu_graph.scan "{kind}" %x dim {dim} : {x}', x)
        for kind in SCANS
        for dim in (0, 1)
        if kind in ("add", "mul")
    ]
    check(typed_case("scan", f"%x: {x}", operations, ranges=((0, ("-2", "3")),)), "tiny")


@pytest.mark.parametrize("element", [*FLOATS, *INTEGERS], ids=str)
def test_products_of_matrices(element: Attribute):
    x, w = f"tensor<3x6x{element}>", f"tensor<5x6x{element}>"
    operation = f"lpu_graph.matmul %x, %w transpose [false, true] : {x}, {w}"
    check(
        typed_case("matmul", f"%x: {x}, %w: {w}", [(operation, f"tensor<3x5x{element}>")]), "tiny"
    )


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_movement(element: Attribute):
    x, i = f"tensor<4x6x{element}>", "tensor<3xi64>"
    u = f"tensor<3x6x{element}>"
    operations = [
        (f"lpu_graph.transpose %x <[1, 0]> : {x}", f"tensor<6x4x{element}>"),
        (f"lpu_graph.concat %x, %x dim 0 : {x}, {x}", f"tensor<8x6x{element}>"),
        (f"lpu_graph.gather %x[%i] dims <[0]> at 0 : {x}[{i}]", u),
        (f"lpu_graph.slice %x starts <[3, 0]> steps <[-1, 1]> : {x}", u),
    ]
    case = typed_case("move", f"%x: {x}, %i: {i}", operations, ranges=((1, ("0", "4")),))
    check(case, "tiny")


# --- what a program refuses ---------------------------------------------------------------------


GATHER = """
func.func @gather(%t: tensor<9x6xf32>, %i: tensor<4xi64>) -> tensor<4x6xf32> {
  %0 = lpu_graph.gather %t[%i] dims <[0]> at 0 : tensor<9x6xf32>[tensor<4xi64>] -> tensor<4x6xf32>
  func.return %0 : tensor<4x6xf32>
}
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("index", [-1, 9, 1 << 40])
def test_an_index_out_of_range(target: str, index: int):
    compiled = Compiled(read_case(GATHER), target)
    inputs = [torch.zeros(9, 6), torch.tensor([0, 8, index, 3])]
    with pytest.raises(IndexError, match="index out of range for dimension 0 with size 9"):
        compiled.run({}, inputs)
    compiled.run({}, [torch.zeros(9, 6), torch.tensor([0, 8, 1, 3])])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", NONZERO_SECOND)
def test_an_integer_divided_by_zero(target: str, kind: str):
    compiled = Compiled(pointwise_case(i32, [kind]), target)
    inputs = make_inputs(pointwise_case(i32, [kind], ranges=((1, ("1", "5")),)), {})
    compiled.run({}, inputs)
    inputs[1][2, 4] = 0
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled.run({}, inputs)


# --- what a program moves -----------------------------------------------------------------------


def named(name: str) -> Case:
    [case] = [case for case in CASES if case.name == name]
    return case


def moved(name: str, target: str) -> tuple[int, int, int]:
    """Launches, bytes read and bytes written by one run."""
    case = named(name)
    compiled = Compiled(case, target)
    compiled.run({}, make_inputs(case, {}))
    uses = compiled.stats.kernels.values()
    return (
        sum(use.launches for use in uses),
        sum(use.dram_read for use in uses),
        sum(use.dram_written for use in uses),
    )


def test_a_cache_is_written_in_place():
    """The position is checked, one slot of 3 x 8 floats is written, the cache is summed; it is not
    copied."""
    launches, _, written = moved("cache", "bertha")
    assert launches == 3
    assert written == 4 * (3 * 8 + 3 * 32)


def test_views_move_nothing_of_their_own():
    launches, read, written = moved("transpose_exp", "bertha")
    assert (launches, read, written) == (1, 4 * 12, 4 * 12)
