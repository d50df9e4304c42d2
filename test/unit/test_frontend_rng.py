"""Random operators under activation checkpointing: the backward pass computes the same numbers."""

import pytest
import torch
from frontend_checks import FLOATS
from torch.utils.checkpoint import checkpoint

import lpu_mlir

pytestmark = pytest.mark.sampled


def block(x, weight):
    hidden = torch.dropout(torch.tanh(x @ weight), 0.4, True)
    return torch.rand_like(hidden) * hidden


def twice(x, weight):
    x = checkpoint(block, x, weight, use_reentrant=False)
    return checkpoint(block, x, weight, use_reentrant=False)


def gradients(function) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(7)
    x, weight = (torch.randn(6, 6, requires_grad=True) for _ in range(2))
    out = function(x, weight)
    out.square().sum().backward()
    assert x.grad is not None
    assert weight.grad is not None
    return out.detach(), x.grad, weight.grad, torch.rand(3)


@pytest.mark.slow
def test_gradients_and_the_generator_after():
    torch._dynamo.reset()
    with lpu_mlir.Report() as report:
        ours = gradients(torch.compile(twice, backend="lpu_mlir", fullgraph=True))
    expected = gradients(twice)
    for result, wanted in zip(ours, expected, strict=True):
        torch.testing.assert_close(result, wanted)
    host = {fallback.op: fallback.count for fallback in report.fallbacks}
    assert len(report.graphs) == 2
    assert host["lpu_mlir.get_rng_state"] > 0
    assert host["lpu_mlir.set_rng_state"] > 0


aten = torch.ops.aten

CASES = ((0.3, True), (0.0, True), (1.0, None), (0.1, None), (0.5, False))
LAYOUTS = {
    "transposed": lambda x: x[0].transpose(1, 2),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "expanded": lambda x: x[0].expand(2, 3, 4, 5),
    "strided": lambda x: x[:, :, ::2],
    "strided and transposed": lambda x: x[:, :, ::2, :3].transpose(1, 3),
    "windows that overlap": lambda x: x.unfold(3, 2, 1),
    "without dims": lambda x: x.sum(),
}
DRAWS = {
    "dropout": lambda x: torch.dropout(x, 0.5, True),
    "rand": torch.rand_like,
    "randn": torch.randn_like,
    "bernoulli": lambda x: torch.bernoulli(torch.sigmoid(x)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("draw", DRAWS)
def test_numbers_are_drawn_in_the_order_of_memory(layout: str, draw: str):
    torch._dynamo.reset()
    x = torch.randn(2, 3, 4, 5)

    def function(x):
        return DRAWS[draw](LAYOUTS[layout](x * 2)) + 1

    torch.manual_seed(1)
    expected, state = function(x), torch.get_rng_state()
    torch.manual_seed(1)
    with lpu_mlir.Report() as report:
        result = torch.compile(function, backend="lpu_mlir")(x)
    assert len(report.graphs) == 1
    torch.testing.assert_close(result, expected)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("layout", ["transposed", "channels last", "without dims"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_dropout_draws_outside_and_scales_natively(dtype: torch.dtype, layout: str):
    """Bit by bit, the state of the generator afterwards included."""
    torch._dynamo.reset()
    x = LAYOUTS[layout](torch.randn(2, 3, 4, 5)).to(dtype)

    def function(x):
        drawn = [aten.native_dropout(x, p, train) for p, train in CASES]
        return [part for pair in drawn for part in pair]

    torch.manual_seed(1)
    expected = [*function(x), torch.rand(3)]
    torch.manual_seed(1)
    with lpu_mlir.Report() as report:
        results = [*torch.compile(function, backend="lpu_mlir")(x), torch.rand(3)]
    assert {fallback.op for fallback in report.fallbacks} == {"aten.bernoulli"}
    for result, wanted in zip(results, expected, strict=True):
        torch.testing.assert_close(result, wanted, rtol=0, atol=0, check_stride=True)


def test_dropout_of_what_is_not_finite_or_known():
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x: aten.native_dropout(x, 0.3, True), backend="lpu_mlir", dynamic=True
    )
    for count in (50, 7):
        x = torch.tensor([float("inf"), float("nan"), -0.0] * count)
        torch.manual_seed(1)
        expected = aten.native_dropout(x, 0.3, True)
        torch.manual_seed(1)
        for result, wanted in zip(compiled(x), expected, strict=True):
            torch.testing.assert_close(result, wanted, rtol=0, atol=0, equal_nan=True)


def test_dropout_of_nothing():
    torch._dynamo.reset()
    with lpu_mlir.Report() as report:
        compiled = torch.compile(lambda x: aten.native_dropout(x, 0.3, True), backend="lpu_mlir")
        result, kept = compiled(torch.ones(0, 3))
    assert report.graphs
    assert (result.shape, kept.shape, kept.dtype) == ((0, 3), (0, 3), torch.bool)
