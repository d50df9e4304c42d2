"""Random operators under activation checkpointing: the backward pass computes the same numbers."""

import pytest
import torch
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


LAYOUTS = {
    "transposed": lambda x: x[0].transpose(1, 2),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "expanded": lambda x: x[0].expand(2, 3, 4, 5),
    "strided": lambda x: x[:, :, ::2],
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
        return DRAWS[draw](LAYOUTS[layout](x) * 2) + 1

    torch.manual_seed(1)
    expected = function(x)
    torch.manual_seed(1)
    with lpu_mlir.Report() as report:
        result = torch.compile(function, backend="lpu_mlir")(x)
    assert len(report.graphs) == 1
    torch.testing.assert_close(result, expected)
