"""Attention through torch.compile: what becomes one kernel, what it reads, and what it gives."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from lpu_mlir.report import Report

pytestmark = pytest.mark.sampled


def checked(function: Callable[..., Tensor], *inputs: Tensor | None) -> Report:
    """Compares a function with eager; everything must be native.

    Of eager's attention kernels the reference is the one that rounds where the decomposition does:
    the fused one rounds the weights of half precision before they are divided.
    """
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="lpu_mlir", options={"fallback": "error"})
    with torch.no_grad(), Report() as report:
        got = compiled(*inputs)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        expected = function(*inputs)
    torch.testing.assert_close(got, expected, equal_nan=True)
    return report


def launches(report: Report) -> int:
    return sum(kernel.launches for kernel in report.kernels)


def made(heads: int, rows: int, positions: int, dtype: torch.dtype, features: int = 8):
    torch.manual_seed(0)
    shapes = ((heads, rows, features), (heads, positions, features), (heads, positions, 8))
    return [torch.randn(2, *shape, dtype=dtype) for shape in shapes]


MASKS: dict[str, Callable[[int, int], Tensor | None]] = {
    "none": lambda rows, positions: None,
    "bool": lambda rows, positions: torch.rand(2, 1, rows, positions) > 0.3,
    "nothing in a row": lambda rows, positions: torch.arange(rows)[:, None] > torch.arange(1),
    "window": lambda rows, positions: torch.ones(rows, positions).tril(3).triu(1).bool(),
    "bias": torch.randn,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("rows", "positions"), [(1, 9), (5, 1), (5, 700)])
def test_scaled_dot_product(rows: int, positions: int, mask: str, dtype: torch.dtype):
    q, k, v = made(3, rows, positions, dtype)
    given = MASKS[mask](rows, positions)
    if given is not None and given.is_floating_point():
        given = given.to(dtype)
    report = checked(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), q, k, v, given)
    assert "lpu_graph.attention safe" in report.ir("raise-attention")
    assert launches(report) == 1
    tensors = [q, k, v] if given is None else [q, k, v, given]
    read = sum(t.numel() * t.element_size() for t in tensors)
    # Everything once, however many positions there are.
    assert sum(kernel.dram_read for kernel in report.kernels) == read


def test_causal():
    q, k, v = made(3, 40, 40, torch.float32)
    report = checked(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), q, k, v
    )
    assert launches(report) == 1
    assert sum(kernel.dram_read for kernel in report.kernels) == 4 * sum(
        t.numel() for t in (q, k, v)
    )


@pytest.mark.parametrize("rows", [1, 6])
def test_heads_that_share_keys_read_them_once(rows: int):
    """Each key and value is read for all query heads of its group together."""
    q, k, v = made(6, rows, 300, torch.float32)
    k, v = k[:, :2].contiguous(), v[:, :2].contiguous()

    def grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    report = checked(grouped, q, k, v)
    assert launches(report) == 1
    read = sum(kernel.dram_read for kernel in report.kernels)
    assert read == 4 * (q.numel() + k.numel() + v.numel())


def as_written(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """As models write it by hand: a soft cap, a bias, weights in f32 and back."""
    scores = torch.matmul(q, k.transpose(2, 3)) * 0.25
    scores = torch.tanh(scores / 20) * 20
    scores = scores - torch.arange(k.shape[2]).to(q.dtype) / 64
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
    return torch.matmul(weights, v)


@pytest.mark.parametrize("positions", [7, 700])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_decomposed_forms(dtype: torch.dtype, positions: int):
    report = checked(as_written, *made(3, 5, positions, dtype))
    assert "lpu_graph.attention %" in report.ir("raise-attention")


def test_a_row_of_nothing_is_nan_if_it_is_not_safe():
    q, k, v = made(1, 3, 5, torch.float32)

    def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        hidden = torch.arange(3)[:, None] == 1
        scores = (q @ k.mT).masked_fill(hidden, -torch.inf)
        return torch.softmax(scores, -1) @ v

    report = checked(plain, q, k, v)
    assert "lpu_graph.attention %" in report.ir("raise-attention")
    assert plain(q, k, v)[:, :, 1].isnan().all()


def test_weights_that_are_returned_are_not_computed_twice():
    def both(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        weights = torch.softmax(q @ k.mT, -1)
        return weights @ v, weights

    report = checked(both, *made(2, 5, 9, torch.float32))
    assert "lpu_graph.attention" not in report.ir("raise-attention")
    assert "lpu_graph.softmax" in report.ir("raise-attention")


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.slow
def test_training(masked: bool):
    """Gradients are those of eager; the forward pass keeps what the backward pass needs."""
    inputs = [t.requires_grad_() for t in made(2, 6, 6, torch.float32)]

    def loss(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=masked).square().sum()

    torch._dynamo.reset()
    compiled = torch.compile(loss, backend="lpu_mlir", options={"fallback": "error"})
    got = torch.autograd.grad(compiled(*inputs), inputs)
    torch.testing.assert_close(got, torch.autograd.grad(loss(*inputs), inputs))


@pytest.mark.slow
def test_lengths_that_change():
    """One program for a prompt of any length and its continuation on any cache."""
    torch._dynamo.reset()

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v)

    compiled = torch.compile(
        attend, backend="lpu_mlir", dynamic=True, options={"fallback": "error"}
    )
    with torch.no_grad(), Report() as report:
        for rows, positions in ((5, 9), (3, 600), (70, 70)):
            inputs = made(2, rows, positions, torch.float32)
            torch.testing.assert_close(compiled(*inputs), attend(*inputs))
    assert len(report.graphs) == 1
    assert launches(report) == 3


@pytest.mark.slow
def test_no_positions():
    q, k, v = made(2, 3, 0, torch.float32)
    checked(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), q, k, v)
    checked(lambda q, k, v: torch.softmax(q @ k.mT, -1) @ v, q, k, v)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.slow
def test_the_output_is_laid_out_like_the_query(dynamic: bool):
    """Else what follows may be a view that its strides do not allow."""

    def attend(x: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in x.chunk(3, -1))
        dense = F.scaled_dot_product_attention(q.contiguous(), k, v)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).view(-1, 16), dense

    torch._dynamo.reset()
    x = torch.randn(3, 5, 48)
    compiled = torch.compile(
        attend, backend="lpu_mlir", dynamic=dynamic, options={"fallback": "error"}
    )
    with torch.no_grad():
        got, expected = compiled(x), attend(x)
    torch.testing.assert_close(got, expected, check_stride=True)


@pytest.mark.parametrize("length", [5, 3_000_000])
@pytest.mark.slow
def test_a_walk_over_all_there_is(length: int):
    """The largest so far is one number, which is known in the loop over the positions only."""
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x: (x.softmax(0), x.log_softmax(0)),
        backend="lpu_mlir",
        dynamic=length == 5,
        options={"fallback": "error"},
    )
    for size in (length, length + 600):
        x = torch.randn(size)
        torch.testing.assert_close(compiled(x), (x.softmax(0), x.log_softmax(0)))
