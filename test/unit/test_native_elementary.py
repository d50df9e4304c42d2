"""The elementary functions that are computed on all lanes at once, and powers."""

from collections.abc import Callable, Sequence
from math import inf, nan, pi

import numpy as np
import pytest
import torch
from coefficients import PROBLEMS, Problem, largest_error, solve
from native_harness import Elementwise, Emit, compiled
from torch import Tensor
from ulp import FUNCTIONS, compiled_function, errors, patterns, truth
from xdsl.dialects import math, test
from xdsl.dialects.builtin import f32, f64
from xdsl.ir import Operation

from lpu_mlir.interpreter.native import elementary, inverse, powers
from lpu_mlir.interpreter.native.lanes import Lanes
from lpu_mlir.interpreter.native.llvm import Builder, Module, Value, known, literal
from lpu_mlir.interpreter.native.scalar import emit_scalar

pytestmark = pytest.mark.sampled

# A little above what docs/numerics.md tells.
BOUNDS = {
    **{"exp": 0.95, "exp2": 0.9, "expm1": 1.6, "tanh": 1.6, "erf": 1.55, "log": 0.95},
    **{"log2": 1.15, "log10": 1.0, "log1p": 1.55, "sin": 1.55, "cos": 1.55, "tan": 3.5},
    **{"sinh": 1.7, "cosh": 1.4, "asin": 2.0, "acos": 1.5, "atan": 1.6, "asinh": 2.0},
    **{"acosh": 2.0, "atanh": 2.3, "cbrt": 0.56},
}
LANES = (1, 4, 8, 16)


def near(center: float, width: float) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return center + width * torch.randn(20_000, generator=generator)


# Where functions are steep, change their formula, overflow or underflow.
PLACES = [
    *(near(0, 3), near(0, 1e-3), near(0, 1e-30), near(1, 0.2), near(0.55, 0.05), near(-1, 0.1)),
    *(near(88.7, 0.1), near(-103.9, 0.3), near(-87.3, 0.1), near(128, 0.1), near(-149.5, 0.3)),
    *(near(3.9, 0.1), near(9.0, 0.2), near(0, 3e4), near(0, 1e-40)),
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_is_small_everywhere(name: str) -> None:
    run = compiled_function(FUNCTIONS[name])
    multiples = (torch.arange(20_000) * (pi / 2)).float()
    for x in [*patterns(20_011), *PLACES, multiples, -multiples]:
        error = errors(run(x), truth(name, x.double()))
        worst = int(error.argmax())
        assert error[worst] <= BOUNDS[name], f"{name}({x[worst]:.9g}) = {run(x)[worst]:.9g}"


SPECIAL: dict[str, list[tuple[float, float]]] = {
    "exp": [(inf, inf), (-inf, 0.0), (nan, nan), (-0.0, 1.0), (88.73, inf), (-104.0, 0.0)],
    "exp2": [(inf, inf), (-inf, 0.0), (nan, nan), (3.0, 8.0), (128.0, inf), (-149.0, 2.0**-149)],
    "expm1": [(inf, inf), (-inf, -1.0), (nan, nan), (-0.0, -0.0), (88.73, inf), (1e-45, 1e-45)],
    "tanh": [(inf, 1.0), (-inf, -1.0), (nan, nan), (-0.0, -0.0), (-1e-45, -1e-45)],
    "erf": [(inf, 1.0), (-inf, -1.0), (nan, nan), (-0.0, -0.0), (0.0, 0.0)],
    "log": [
        (inf, inf),
        (0.0, -inf),
        (-0.0, -inf),
        (-1.0, nan),
        (-inf, nan),
        (nan, nan),
        (1.0, 0.0),
    ],
    "log2": [(inf, inf), (0.0, -inf), (-1.0, nan), (nan, nan), (2.0**-149, -149.0), (8.0, 3.0)],
    "log10": [(inf, inf), (-0.0, -inf), (-1.0, nan), (nan, nan), (1.0, 0.0), (1000.0, 3.0)],
    "log1p": [(inf, inf), (-1.0, -inf), (-1.5, nan), (nan, nan), (-0.0, -0.0), (-1e-45, -1e-45)],
    "sin": [(inf, nan), (-inf, nan), (nan, nan), (-0.0, -0.0), (0.0, 0.0), (1e-45, 1e-45)],
    "cos": [(inf, nan), (-inf, nan), (nan, nan), (-0.0, 1.0), (1e-45, 1.0)],
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_numbers(name: str) -> None:
    arguments, results = zip(*SPECIAL[name], strict=True)
    actual, expected = (
        compiled_function(FUNCTIONS[name])(torch.tensor(arguments)),
        torch.tensor(results),
    )
    assert actual.tolist() == pytest.approx(expected.tolist(), rel=0, abs=0, nan_ok=True)
    assert torch.equal(actual.signbit()[~expected.isnan()], expected.signbit()[~expected.isnan()])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_lanes_do_not_matter(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.cat(
        [
            torch.randn(1000, generator=generator) * 4,
            torch.tensor([nan, inf, -inf, 0.0, -0.0, 1e-40]),
        ]
    )
    expected = compiled_function(FUNCTIONS[name], 1)(x).nan_to_num(1234.0).view(torch.int32)
    for lanes in LANES:
        actual = compiled_function(FUNCTIONS[name], lanes)(x).nan_to_num(1234.0).view(torch.int32)
        assert torch.equal(actual, expected)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_lanes_far_from_zero(name: str) -> None:
    """Among others, so that the rare branch is taken with lanes that do not need it."""
    x = torch.linspace(-3, 3, 1000)
    x[::7] *= 1e30
    x[3::70] = inf
    for lanes in LANES:
        error = errors(compiled_function(FUNCTIONS[name], lanes)(x), truth(name, x.double()))
        assert error.max() <= BOUNDS[name]


def emitting(op: Operation) -> Emit:
    return lambda b, values: emit_scalar(b, op, values)


def test_functions_of_f64_are_those_of_the_library() -> None:
    value = test.TestOp(result_types=[f64]).results[0]
    op = math.ExpOp(value)
    run = compiled([Elementwise("f", (f64,), f64, 4, emitting(op))])["f"]
    x = torch.linspace(0.01, 0.99, 100, dtype=torch.float64)
    torch.testing.assert_close(run(x), x.exp(), rtol=1e-15, atol=0)
    module = Module()
    emit_scalar(Builder(module), op, [Value("<4 x double>", "%x")])
    assert "@exp(double)" in module.text()


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_coefficients_are_those_of_the_script(problem: Problem) -> None:
    """But for what other versions of numpy make of the last bits."""
    home = {"ASIN": inverse, "ATAN": inverse, "LOG2": powers}.get(problem.name, elementary)
    used = getattr(home, problem.name)
    assert largest_error(problem, used) <= 1.05 * largest_error(problem, solve(problem))


# --- functions of two numbers -------------------------------------------------------------------


def some_pairs() -> tuple[Tensor, Tensor]:
    """All pairs of special numbers, pairs of any numbers, and pairs of moderate ones."""
    generator = torch.Generator().manual_seed(0)
    tiny, huge = 2.0**-149, 3.4028234663852886e38
    special = [0.0, tiny, 1e-39, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 1e5, 2.0**24, huge, inf]
    special = torch.tensor([*special, *(-x for x in special), nan])
    any_x, any_y = (
        torch.randint(-(1 << 31), 1 << 31, (200_000,), generator=generator)
        .int()
        .view(torch.float32)
        for _ in range(2)
    )
    x, y = (torch.randn(200_000, generator=generator) for _ in range(2))
    scaled = [(x, y), (1 + x * 1e-3, y * 1e4), (x * 100, y * 9), (x * 1e3, y), (x, (y * 5).round())]
    pairs = [(special.repeat_interleave(len(special)), special.repeat(len(special)))]
    pairs += [(any_x, any_y), *scaled]
    x, y = (torch.cat(side) for side in zip(*pairs, strict=True))
    quiet = (torch.where(side.isnan(), nan, side) for side in (x, y))
    return tuple(quiet)


@pytest.mark.parametrize(
    ("function", "bound"), [(powers.pow, 0.6), (inverse.atan2, 2.0), (powers.fmod, 0.0)]
)
def test_functions_of_two_numbers(function: Callable[..., Lanes], bound: float) -> None:
    x, y = some_pairs()
    expected = truth(function.__name__, x.double(), y.double())
    for lanes in LANES:
        actual = compiled_function(function, lanes, 2)(x, y)
        error = errors(actual, expected)
        worst = int(error.argmax())
        case = f"{function.__name__}({x[worst]:.9g}, {y[worst]:.9g}) = {actual[worst]:.9g}"
        assert error[worst] <= bound, case


# --- powers -------------------------------------------------------------------------------------

POWER = math.PowFOp(*(test.TestOp(result_types=[f32]).results[0] for _ in range(2)))
EXPONENTS = [-1.0, -0.5, 0.5, 1.0, 2.0, 3.0, 0.0, 1.5, -2.0, nan, inf]


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("lanes", [1, 8])
def test_power_with_a_known_exponent(exponent: float, lanes: int) -> None:
    def emit(b: Builder, values: Sequence[Value]) -> Value:
        y = literal(values[0].type, exponent)
        assert known(y) == exponent or exponent != exponent
        return emit_scalar(b, POWER, [values[0], y])

    special = torch.tensor([inf, -inf, 0.0, -0.0, nan, 1.0, -1.0, 1e-45, -1e-45, 3e38])
    generator = torch.Generator().manual_seed(0)
    x = torch.cat([special, torch.randn(1000, generator=generator) * 3])
    actual = compiled([Elementwise("f", (f32,), f32, lanes, emit)])["f"](x)
    expected = truth("pow", x.double(), torch.full(x.shape, exponent, dtype=torch.float64))
    assert errors(actual, expected).max() <= 1.5


@pytest.mark.parametrize("exponent", [2.0, 0.5])
def test_known_powers_need_no_logarithm(exponent: float) -> None:
    b = Builder(Module())
    emit_scalar(b, POWER, [Value("<8 x float>", "%x"), literal("<8 x float>", exponent)])
    assert len(b.lines) < 6
    emit_scalar(b, POWER, [Value("<8 x float>", "%x"), literal("<8 x float>", 1.7)])
    assert len(b.lines) > 40


def test_known_is_what_a_literal_was_made_of() -> None:
    assert known(literal("float", 0.1)) == float(np.float32(0.1))
    assert known(literal("<4 x double>", 0.1)) == 0.1
    assert known(Value("float", "%x")) is None
    assert known(literal("i32", 3)) is None
