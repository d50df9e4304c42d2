"""Options and modes of the backend."""

from dataclasses import fields

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from lpu_mlir.backend import lpu_mlir
from lpu_mlir.compile import compile_fx
from lpu_mlir.options import CHOICES, MODES, Options, make_options


def test_defaults():
    assert make_options() == make_options("default", {}) == Options()


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_gives_valid_options(mode: str):
    assert isinstance(make_options(mode), Options)


def test_every_mode_that_torch_documents_is_known():
    for mode in torch._inductor.list_mode_options():
        if f'"{mode}"' in torch.compile.__doc__:
            assert mode in MODES


def test_every_choice_is_an_option_and_accepted():
    assert set(CHOICES) <= {field.name for field in fields(Options)}
    for name, words in CHOICES.items():
        for word in words:
            assert getattr(make_options(options={name: word}), name) == word


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"typo": 1},
            ValueError,
            "unknown option 'typo' .* expected some of interpreter, fallback",
        ),
        ({"seed": True}, TypeError, "'seed' of lpu_mlir must be int, got True"),
        ({"seed": 1.0}, TypeError, "must be int, got 1.0"),
        ({"verify": 0}, TypeError, "'verify' of lpu_mlir must be bool, got 0"),
        ({"tolerance": True}, TypeError, "'tolerance' of lpu_mlir must be float, got True"),
        ({"tolerance": -1}, ValueError, "'tolerance' of lpu_mlir is -1, expected 0 or more"),
        ({"tolerance": float("nan")}, ValueError, "is nan, expected 0 or more"),
        ({"fallback": "eager"}, ValueError, "is 'eager', expected one of 'host', 'error'"),
        ({"target": "tpu"}, ValueError, "expected one of 'bertha', 'tiny'"),
    ],
)
def test_wrong_options(options: dict[str, object], error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        make_options(options=options)


def test_tolerance_is_any_number():
    assert make_options(options={"tolerance": 2}).tolerance == 2
    assert make_options(options={"tolerance": 0}).tolerance == 0


def test_unknown_mode():
    with pytest.raises(ValueError, match=r"unknown mode 'fast' .* expected one of default, reduce"):
        make_options("fast")


def test_wrong_option_reaches_the_user():
    compiled = torch.compile(lambda x: x + 1, backend=lpu_mlir, options={"typo": 1})
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="unknown option 'typo'"):
        compiled(torch.ones(2))


@pytest.mark.parametrize("verify", [False, True])
def test_compile_fx_is_boxed_and_empties_its_inputs(verify: bool):
    x = torch.randn(3, 4)
    graph = make_fx(lambda x: [x * 2])(x)
    compiled = compile_fx(graph, [x], Options(target="tiny", verify=verify))
    inputs = [x]
    assert torch.equal(compiled(inputs)[0], x * 2)
    assert inputs == []


def test_training_step_matches_eager():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.GELU(), torch.nn.Linear(5, 2))
    x = torch.randn(3, 4)
    model(x).square().sum().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    compiled = torch.compile(model, backend=lpu_mlir, options={"target": "tiny"}, fullgraph=True)
    compiled(x).square().sum().backward()
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)
