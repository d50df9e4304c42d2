"""Random operators under activation checkpointing: the backward pass computes the same numbers."""

import torch
from torch.utils.checkpoint import checkpoint

import lpu_mlir


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
