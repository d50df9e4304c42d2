"""Bags of embeddings against eager."""

from functools import partial

import pytest
import torch
from frontend_checks import FLOATS, check, host_calls, imported, sample
from graph_evaluator import run

pytestmark = pytest.mark.sampled

aten = torch.ops.aten
SUM, MEAN, MAX = range(3)
MODES = ["fake", "symbolic"]
INDICES = torch.tensor([1, 2, 4, 5, 4, 3, 2, 0, 4])
OFFSETS = torch.tensor([0, 4, 4, 6, 8])
"""The second bag is empty."""
BAG = torch.tensor([0, 0, 0, 0, 2, 2, 3, 3, 4])


def bag_of(weight, indices, offsets, *rest, mode: int, results: int = 4, **options):
    """Strided tables have all results; other sums have no bags of indices."""
    factors = rest[0] if rest else None
    options = {"padding_idx": -1, "include_last_offset": False, **options}
    found = aten._embedding_bag(weight, indices, offsets, False, mode, False, factors, **options)
    return found[:results]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", [SUM, MEAN, MAX])
@pytest.mark.parametrize("how", MODES)
def test_embedding_bag(dtype: torch.dtype, mode: int, how: str):
    weight = sample(dtype, (6, 3), special=True)
    strided = sample(dtype, (3, 6), special=True).t()
    for padding in (-1, 4):
        function = partial(bag_of, mode=mode, padding_idx=padding)
        check(function, strided, INDICES, OFFSETS, mode=how)
        check(partial(function, results=1), weight, INDICES, OFFSETS, mode=how)
        check(partial(function, results=1), weight, INDICES.int(), OFFSETS.int(), mode=how)


@pytest.mark.parametrize("dtype", FLOATS)
def test_embedding_bag_with_a_factor_for_each_index(dtype: torch.dtype):
    weight, factors = sample(dtype, (6, 3), special=True), sample(dtype, (9,), 1)
    for padding in (-1, 4):
        function = partial(bag_of, mode=SUM, results=1, padding_idx=padding)
        check(function, weight, INDICES, OFFSETS, factors)
        check(function, weight, INDICES, OFFSETS, factors.repeat(2)[::2])


@pytest.mark.parametrize("mode", [SUM, MEAN, MAX])
def test_the_last_offset_may_be_where_the_last_bag_ends(mode: int):
    """Which eager's quick sum alone takes account of; of its means only the sum does."""
    for end in (9, 8) if mode != MEAN else (9,):
        offsets = torch.tensor([0, 4, 4, 6, end])
        for weight in (torch.randn(6, 3), torch.randn(3, 6).t()):
            function = partial(bag_of, mode=mode, include_last_offset=True)
            check(function, weight, INDICES, offsets)
    graph = imported(function, (weight, INDICES, offsets), "fake")
    if mode == MEAN:
        with pytest.raises(RuntimeError):
            run(graph, (weight, INDICES, torch.tensor([0, 4, 4, 6, 8])))


@pytest.mark.parametrize("mode", [SUM, MEAN])
def test_bags_of_nothing(mode: int):
    function = partial(bag_of, mode=mode)
    check(function, torch.randn(3, 6).t(), INDICES[:0], torch.tensor([0, 0]))


@pytest.mark.parametrize("mode", [SUM, MEAN, MAX])
def test_wrong_bags_are_errors(mode: int):
    """Eager lets descending offsets pass, and its kernels then differ."""
    weight = torch.randn(6, 3)
    graph = imported(partial(bag_of, mode=mode, results=1), (weight, INDICES, OFFSETS), "fake")
    assert host_calls(graph) == []
    wrong = [
        (INDICES + 1, OFFSETS),
        (INDICES - 1, OFFSETS),
        (INDICES, OFFSETS + 1),
        (INDICES, OFFSETS * 2),
        (INDICES, torch.tensor([0, 4, 2, 6, 8])),
    ]
    for indices, offsets in wrong:
        with pytest.raises(RuntimeError):
            run(graph, (weight, indices, offsets))


def backwards(mode: int, padding: int):
    """The gradient of the table, with offsets and without."""

    def back(g, i, o, b, s, m, *factors):
        return aten._embedding_bag_backward(
            g, i, o, b, s, m, 6, False, mode, False, *(factors or [None]), padding
        )

    def dense(g, i, b, s, m):
        return aten._embedding_bag_dense_backward(g, i, b, s, m, 6, False, mode, None, padding)

    return back, dense


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", [SUM, MEAN, MAX])
@pytest.mark.parametrize("how", MODES)
def test_gradients_of_embedding_bag(dtype: torch.dtype, mode: int, how: str):
    grad, weight = sample(dtype, (5, 3)), sample(dtype, (3, 6)).t()
    for padding in (-1, 4):
        _, bags, sizes, greatest = bag_of(weight, INDICES, OFFSETS, mode=mode, padding_idx=padding)
        back, dense = backwards(mode, padding)
        check(back, grad, INDICES, OFFSETS, bags, sizes, greatest, mode=how)
        check(dense, grad, INDICES, bags, sizes, greatest, mode=how)
        if mode == SUM:
            check(back, grad, INDICES, OFFSETS, bags[:0], sizes, greatest, mode=how)


@pytest.mark.parametrize("dtype", FLOATS)
def test_gradients_of_factors(dtype: torch.dtype):
    grad, weight, factors = sample(dtype, (5, 3)), sample(dtype, (6, 3), 1), sample(dtype, (9,), 2)
    for padding in (-1, 4):
        function = partial(
            aten._embedding_bag_per_sample_weights_backward, mode=SUM, padding_idx=padding
        )
        check(function, grad, weight, INDICES, OFFSETS, BAG)
        sizes = torch.zeros(5, dtype=torch.int64)
        back, _ = backwards(SUM, padding)
        check(back, grad, INDICES, OFFSETS, BAG, sizes, sizes, factors)
