"""Sorting and counting of ATen against eager."""

from functools import partial

import pytest
import torch
from frontend_checks import DTYPES, check, host_calls, imported, sample

pytestmark = pytest.mark.sampled

aten = torch.ops.aten


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("descending", [False, True])
def test_sort(dtype: torch.dtype, descending: bool):
    """Small whole numbers repeat, so stability shows in the positions."""
    x = sample(dtype, (5, 12), special=True)
    if dtype.is_floating_point:
        x = x.round()
    for dim in (0, 1, -1):
        options = {"dim": dim, "descending": descending}
        check(partial(torch.sort, **options), x, exact=True)
        check(partial(torch.sort, **options, stable=True), x, exact=True)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 3), (1,), (2, 1, 4)])
def test_sort_of_unusual_shapes(shape: tuple[int, ...]):
    check(lambda x: torch.sort(x), sample(torch.float32, shape), exact=True)


def test_sort_of_several_nans_keeps_their_order():
    x = torch.tensor([float("nan"), 1.0, float("nan"), float("inf"), -float("inf")])
    for descending in (False, True):
        check(partial(torch.sort, descending=descending), x, exact=True)


def test_a_large_sort_is_left_to_the_host():
    graph = imported(lambda x: torch.sort(x), [torch.zeros(3000)], "fake")
    assert host_calls(graph) == ["aten.sort.default"]
    assert "a sort of 3000 elements" in str(graph.module)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("bins", "lowest", "highest"), [(4, 0, 3), (7, -1.5, 2), (1, -3, 3)])
def test_histc(dtype: torch.dtype, bins: int, lowest: float, highest: float):
    x = sample(dtype, (6, 9))
    x[0, :4] = torch.tensor([lowest, highest, lowest - 1, highest + 1])
    check(lambda x: torch.histc(x, bins, lowest, highest), x, exact=True)
    whole = torch.arange(-4, 5, dtype=dtype).repeat(3)
    check(lambda x: torch.histc(x, bins, lowest, highest), whole, exact=True)


def test_histogram_over_the_range_of_its_data_is_left_to_the_host():
    graph = imported(lambda x: torch.histc(x, 4), [torch.zeros(3)], "fake")
    assert host_calls(graph) == ["aten.histc.default"]
