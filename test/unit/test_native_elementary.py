"""The elementary functions that are computed on all lanes at once, and powers."""

from math import inf, nan, pi

import numpy as np
import pytest
import torch
from coefficients import PROBLEMS, Problem, largest_error, solve
from native_harness import Elementwise, compiled
from torch import Tensor
from ulp import TRUTH, errors, function, patterns
from xdsl.dialects.builtin import f32, f64

from lpu_mlir.interpreter.native import elementary
from lpu_mlir.interpreter.native.llvm import Builder, Module, Value, known, literal

# A little above what docs/numerics.md tells.
BOUNDS = {
    **{"exp": 0.95, "exp2": 0.9, "expm1": 1.6, "tanh": 1.6, "erf": 1.55, "log": 0.95},
    **{"log2": 1.15, "log10": 1.0, "log1p": 1.55, "sin": 1.55, "cos": 1.55},
}
LANES = (1, 4, 8, 16)


def near(center: float, width: float) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return center + width * torch.randn(100_000, generator=generator)


# Where functions are steep, change their formula, overflow or underflow.
PLACES = [
    *(near(0, 3), near(0, 1e-3), near(0, 1e-30), near(1, 0.2), near(0.55, 0.05), near(-1, 0.1)),
    *(near(88.7, 0.1), near(-103.9, 0.3), near(-87.3, 0.1), near(128, 0.1), near(-149.5, 0.3)),
    *(near(3.9, 0.1), near(9.0, 0.2), near(0, 3e4), near(0, 1e-40)),
]


@pytest.mark.parametrize("name", TRUTH)
def test_error_is_small_everywhere(name: str) -> None:
    run = function(name)
    multiples = (torch.arange(64_000) * (pi / 2)).float()
    for x in [*patterns(4001), *PLACES, multiples, -multiples]:
        error = errors(run(x), TRUTH[name](x.double()))
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


@pytest.mark.parametrize("name", TRUTH)
def test_special_numbers(name: str) -> None:
    arguments, results = zip(*SPECIAL[name], strict=True)
    actual, expected = function(name)(torch.tensor(arguments)), torch.tensor(results)
    assert actual.tolist() == pytest.approx(expected.tolist(), rel=0, abs=0, nan_ok=True)
    assert torch.equal(actual.signbit()[~expected.isnan()], expected.signbit()[~expected.isnan()])


@pytest.mark.parametrize("name", TRUTH)
def test_lanes_do_not_matter(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.cat(
        [
            torch.randn(1000, generator=generator) * 4,
            torch.tensor([nan, inf, -inf, 0.0, -0.0, 1e-40]),
        ]
    )
    expected = function(name, 1)(x).view(torch.int32)
    for lanes in LANES:
        assert torch.equal(function(name, lanes)(x).view(torch.int32), expected)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_lanes_far_from_zero(name: str) -> None:
    """Among others, so that the rare branch is taken with lanes that do not need it."""
    x = torch.linspace(-3, 3, 1000)
    x[::7] *= 1e30
    x[3::70] = inf
    for lanes in LANES:
        error = errors(function(name, lanes)(x), TRUTH[name](x.double()))
        assert error.max() <= BOUNDS[name]


@pytest.mark.parametrize("name", TRUTH)
def test_functions_of_f64(name: str) -> None:
    def emit(b: Builder, values: list[Value]) -> Value:
        return getattr(elementary, name)(b, values[0])

    x = torch.linspace(0.01, 0.99, 100, dtype=torch.float64)
    actual = compiled([Elementwise("f", (f64,), f64, 4, emit)])["f"](x)
    torch.testing.assert_close(actual, TRUTH[name](x), rtol=1e-15, atol=0)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_coefficients_are_those_of_the_script(problem: Problem) -> None:
    """But for what other versions of numpy make of the last bits."""
    used = getattr(elementary, problem.name)
    assert largest_error(problem, used) <= 1.05 * largest_error(problem, solve(problem))


# --- powers -------------------------------------------------------------------------------------

EXPONENTS = [-1.0, -0.5, 0.5, 1.0, 2.0, 3.0, 0.0, 1.5, -2.0, nan, inf]


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("lanes", [1, 8])
def test_power_with_a_known_exponent(exponent: float, lanes: int) -> None:
    def emit(b: Builder, values: list[Value]) -> Value:
        y = literal(values[0].type, exponent)
        assert known(y) == exponent or exponent != exponent
        return elementary.pow(b, values[0], y)

    special = torch.tensor([inf, -inf, 0.0, -0.0, nan, 1.0, -1.0, 1e-45, -1e-45, 3e38])
    x = torch.cat([special, torch.randn(1000, generator=torch.Generator().manual_seed(0)) * 3])
    actual = compiled([Elementwise("f", (f32,), f32, lanes, emit)])["f"](x)
    with np.errstate(all="ignore"):
        truth = torch.from_numpy(np.power(x.double().numpy(), np.full(x.shape, exponent)))
    assert errors(actual, truth).max() <= 1.5


@pytest.mark.parametrize("exponent", [2.0, 0.5])
def test_known_powers_call_nothing(exponent: float) -> None:
    module = Module()
    elementary.pow(Builder(module), Value("<8 x float>", "%x"), literal("<8 x float>", exponent))
    assert "powf" not in module.text()
    elementary.pow(Builder(module), Value("<8 x float>", "%x"), literal("<8 x float>", 1.7))
    assert "powf" in module.text()


def test_known_is_what_a_literal_was_made_of() -> None:
    assert known(literal("float", 0.1)) == float(np.float32(0.1))
    assert known(literal("<4 x double>", 0.1)) == 0.1
    assert known(Value("float", "%x")) is None
    assert known(literal("i32", 3)) is None
