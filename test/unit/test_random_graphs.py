"""A fixed set of random programs against eager; `scripts/fuzz` runs as many as wanted."""

import logging
from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from random_graphs import check_compiled, check_graph, programs
from random_program import (
    Program,
    Rejected,
    Shadow,
    Statement,
    Value,
    compare,
    minimised,
)


def fixed(examples: int) -> settings:
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(autouse=True)
def quietly(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """PyTorch logs what it cannot trace; what `Shadow` tries may warn."""
    monkeypatch.setattr(logging.getLogger("torch._subclasses.fake_tensor"), "disabled", True)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_graphs():
    compared: list[int] = []

    @fixed(60)
    @given(programs())
    def check(program: Program) -> None:
        compared.append(check_graph(program))

    check()
    assert sum(map(bool, compared)) > 45
    assert sum(compared) > 75


@pytest.mark.filterwarnings("ignore")
def test_compiled_by_dynamo():
    compared: list[int] = []

    @fixed(12)
    @given(programs(most=8, sharing=True))
    def check(program: Program) -> None:
        compared.append(check_compiled(program))

    check()
    assert sum(map(bool, compared)) > 8


# --- what makes the comparison strict -------------------------------------------------------------


def shadow_of(*statements: Statement, **inputs: torch.Tensor) -> Shadow:
    shadow = Shadow(inputs)
    for statement in statements:
        shadow.run(statement)
    return shadow


def test_correctly_rounded_arithmetic_has_no_error():
    x = torch.randn(9)
    shadow = shadow_of(Statement("y", "x * 3 + 1 / x", ("x",)), x=x)
    assert shadow.values["y"].error is None


def test_sums_of_small_whole_numbers_have_no_error_others_have():
    total = Statement("y", "x.sum()", ("x",), "sum")
    assert shadow_of(total, x=torch.arange(50.0)).values["y"].error is None
    error = shadow_of(total, x=torch.randn(50)).values["y"].error
    assert error is not None
    assert 0 < float(error) < 1e-3


def test_errors_grow_through_what_follows():
    x = torch.linspace(1, 2, 9)
    shadow = shadow_of(
        Statement("y", "x.exp()", ("x",), "approximate"), Statement("z", "y ** 4", ("y",)), x=x
    )
    y, z = shadow.values["y"], shadow.values["z"]
    assert ((z.error / z.value) > 2 * (y.error / y.value)).all()


def test_jumps_need_exact_operands():
    smooth = Statement("y", "x.exp()", ("x",), "approximate")
    with pytest.raises(Rejected, match="inexact"):
        shadow_of(smooth, Statement("z", "y > 1", ("y",), "jump"), x=torch.randn(3))


def test_undefined_conversions_are_rejected():
    to_int = Statement("y", "x.to(torch.int8)", ("x",), "integer")
    with pytest.raises(Rejected, match="out of range"):
        shadow_of(to_int, x=torch.tensor([1.0, 200.0]))


@pytest.mark.parametrize(
    "got",
    [
        torch.tensor([1.0, float("nan")], dtype=torch.float64),
        torch.tensor([[1.0, float("nan")]]),
        torch.tensor([1.0, 2.0]),
        torch.tensor([1.0000001, float("nan")]),
        [1.0, float("nan")],
    ],
)
def test_differences_are_found(got: object):
    with pytest.raises(AssertionError, match="output"):
        compare(got, Value(torch.tensor([1.0, float("nan")])), "output")


def test_minimised_keeps_what_fails():
    statements = tuple(Statement(f"v{i}", f"torch.neg(a{i % 2})", (f"a{i % 2}",)) for i in range(6))
    given = (("a0", "values(0, torch.float32, (3,))"), ("a1", "values(1, torch.float32, (2,))"))
    sizes = ({"A": 2, "B": 2, "C": 2},) * 3
    program = Program(given, statements, ("v1", "v4", "v5"), sizes, True, "tiny")
    least = minimised(program, lambda p: any(s.target == "v4" for s in p.statements))
    assert [s.target for s in least.statements] == ["v4"]
    assert (len(least.sizes), least.dynamic, least.inputs) == (1, False, given[:1])
    assert "v4 = torch.neg(a0)" in least.script()
