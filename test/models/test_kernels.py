"""What common functions become: how many kernels, and how many bytes these move."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import linear, silu

import lpu_mlir
from lpu_mlir import Report


def explained(fn, *inputs: Tensor) -> Report:
    """The report of one call whose result is eager's."""
    torch._dynamo.reset()
    with lpu_mlir.Report() as report:
        got = torch.compile(fn, backend="lpu_mlir", fullgraph=True)(*inputs)
    torch.testing.assert_close(got, fn(*inputs))
    assert len(report.graphs) == 1
    assert report.fallbacks == []
    return report


def moved(report: Report) -> list[tuple[int, int, int]]:
    """(launches, bytes read, bytes written) of each kernel."""
    return [(k.launches, k.dram_read, k.dram_written) for k in report.kernels]


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    variance = x.pow(2).mean(-1, keepdim=True)
    return weight * (x * torch.rsqrt(variance + 1e-5))


def test_norm_and_gated_projection_are_one_kernel():
    def fn(x, weight, gate, up):
        normed = rms_norm(x, weight)
        return silu(linear(normed, gate)) * linear(normed, up)

    torch.manual_seed(0)
    gate, up = (torch.randn(1536, 576) / 24 for _ in range(2))
    report = explained(fn, torch.randn(1, 576), torch.randn(576), gate, up)
    assert moved(report) == [(1, 7_082_496, 6_144)]
    assert 7_082_496 == 4 * (576 + 576 + 2 * 1536 * 576)


def test_elementwise_chain_is_one_kernel():
    def fn(x):
        return torch.tanh(torch.relu(x * 2 + 1) - x.abs()).exp() / 3

    report = explained(fn, torch.randn(64, 96))
    assert moved(report) == [(1, 4 * 64 * 96, 4 * 64 * 96)]


def test_elementwise_chain_on_two_inputs_reads_each_once():
    def fn(x, y):
        z = torch.sigmoid(x) * y
        return z + y * x

    report = explained(fn, torch.randn(64, 96), torch.randn(96))
    assert [(n, w) for n, _, w in moved(report)] == [(1, 4 * 64 * 96)]
    # The row of 96 goes to every core that has a part of the rows.
    assert 4 * (64 * 96 + 96) <= moved(report)[0][1] <= 4 * (64 * 96 + 32 * 96)


def test_views_cost_no_bytes():
    def fn(x):
        heads = x.view(8, 4, 16).transpose(0, 1)[1:3].unsqueeze(1).expand(2, 3, 8, 16)
        return heads.permute(0, 2, 1, 3).relu()

    report = explained(fn, torch.randn(8, 64))
    [(launches, read, written)] = moved(report)
    assert (launches, written) == (1, 4 * 2 * 8 * 3 * 16)
    assert read <= 4 * 2 * 8 * 3 * 16, "more than the elements that the result needs"


def test_a_function_of_views_launches_nothing():
    def fn(x):
        return x.view(4, 2, 8).transpose(0, 1)[1:].unsqueeze(0)

    report = explained(fn, torch.randn(8, 8))
    assert (moved(report), report.peak_bytes) == ([], 0)
    assert report.graphs[0].runs == 1


def test_softmax_is_one_kernel():
    report = explained(lambda x: torch.softmax(x, -1), torch.randn(32, 100))
    assert [n for n, _, _ in moved(report)] == [1]


def test_residual_joins_the_product():
    def fn(x, weight, residual):
        return residual + linear(x, weight)

    report = explained(fn, torch.randn(1, 64), torch.randn(96, 64), torch.randn(1, 96))
    assert moved(report) == [(1, 4 * (64 + 96 * 64 + 96), 4 * 96)]


def test_rows_times_matrices_that_data_choose_are_one_kernel():
    """The chosen matrices are read where they are used; every index is still checked."""

    def fn(x, weights, index):
        return torch.bmm(x[:, None], weights[index])[:, 0]

    torch.manual_seed(0)
    x, weights, index = torch.randn(6, 64), torch.randn(4, 64, 96), torch.tensor([3, 0, 0, 1, 2, 3])
    report = explained(fn, x, weights, index)
    assert len(moved(report)) == 1
    assert moved(report)[0][2] == 4 * 6 * 96
    index[4] = 4
    with pytest.raises(IndexError, match="out of range"):
        torch.compile(fn, backend="lpu_mlir", fullgraph=True)(x, weights, index)


FLATTENED = {
    "group norm": nn.GroupNorm(4, 16),
    "pool": nn.AdaptiveAvgPool2d(8),
    "softmax": nn.Softmax(-1),
    "norm": lambda x: torch.nn.functional.normalize(x, dim=-1),
}


@pytest.mark.parametrize("name", FLATTENED)
def test_sums_are_not_done_again_in_a_product_over_several_of_them(name: str):
    """What is before the product is stored once: its rows are no rows of the product."""
    before, weight = FLATTENED[name], torch.randn(1024, 10) / 32

    def fn(x):
        return before(x).flatten(1) @ weight

    side = 16 if name == "pool" else 8
    x = torch.randn(4, 16, side, side)
    with torch.no_grad():
        report = explained(fn, x)
    assert len(moved(report)) == 2
    stored = 4 * 4 * 1024
    assert sum(r + w for _, r, w in moved(report)) < 3 * x.nbytes + 2 * stored + 2 * weight.nbytes
