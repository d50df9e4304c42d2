"""Searches, medians and what is greatest so far against eager."""

from functools import partial

import pytest
import torch
from frontend_checks import DTYPES, FLOATS, check, host_calls, imported, sample

pytestmark = pytest.mark.sampled

aten = torch.ops.aten
NAN, INF = float("nan"), float("inf")
NUMBERS = DTYPES[:-1]
MODES = ["fake", "symbolic"]


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(dtype: torch.dtype, right: bool):
    """In one row or in one for each, in order or not; many are equal."""
    rows, values = sample(dtype, (3, 7)), sample(dtype, (3, 20), 1, special=True)
    rows, values = (x.round() if dtype.is_floating_point else x for x in (rows, values))
    for row in (rows, rows.sort()[0]):
        find = partial(torch.searchsorted, right=right)
        check(find, row, values)
        check(find, row[0], values)
        check(find, row[0], values[0, 0].clone())
        check(lambda r: torch.searchsorted(r, 1, side="right" if right else None), row[0])
        check(lambda r, v: torch.bucketize(v, r, right=right, out_int32=True), row[0], values)
        check(lambda r: torch.bucketize(2, r, right=right), row[0])
    check(lambda r, v, s: torch.searchsorted(r, v, sorter=s), rows, values, rows.sort()[1])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("right", [False, True])
def test_searchsorted_with_what_is_not_finite(dtype: torch.dtype, right: bool):
    row = torch.tensor([-INF, -1, 0, 0, 2, INF, NAN, NAN], dtype=dtype)
    values = torch.tensor([NAN, INF, -INF, 0, 1, 3], dtype=dtype)
    for n in range(len(row) + 1):
        check(partial(torch.searchsorted, right=right), row[:n].clone(), values)
        check(partial(torch.searchsorted, right=right), row.flip(0)[:n].clone(), values)


@pytest.mark.parametrize("length", [1, 2, 31, 32, 33])
def test_searchsorted_of_several_lengths(length: int):
    row, values = torch.arange(length), torch.arange(-1, length + 2)
    check(torch.searchsorted, row, values)
    check(lambda r, v: torch.searchsorted(r, v.view(1, -1)), row, values[:0])


def test_searchsorted_of_any_length():
    for right in (False, True):
        row, values = torch.randn(9).sort()[0], torch.randn(3, 5)
        check(partial(torch.searchsorted, right=right), row, values, mode="symbolic")
        check(lambda r, v: torch.bucketize(v, r), row, values, mode="symbolic")


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_median(dtype: torch.dtype, name: str):
    """Positions of many equal values, and with some or only NaN."""
    function = getattr(torch, name)
    x = sample(dtype, (6, 9), special=True)
    if dtype.is_floating_point:
        x = x.round()
        x[4] = NAN
        x[5, 3:] = NAN
    for dim in (0, 1):
        check(lambda x: function(x, dim), x, exact=True)
        check(lambda x: function(x, dim, keepdim=True), x[:, :8], exact=True)
    check(lambda x: function(x), x, exact=True)
    check(lambda x: function(x), x[5:], exact=True)
    check(lambda x: function(x), x[0, 0].clone(), exact=True)
    check(lambda x: function(x, 0), x[0, 0].clone(), exact=True)
    check(lambda x: function(x, 1), x[:0], exact=True)


def test_medians_that_are_left_to_the_host():
    graph = imported(lambda x: x.median(), [torch.zeros(3000)], "fake")
    assert host_calls(graph) == ["aten.median.default"]
    graph = imported(lambda x: x.median(), [torch.zeros(0)], "fake")
    assert host_calls(graph) == ["aten.median.default"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_extremes_so_far(dtype: torch.dtype, mode: str, name: str):
    function = getattr(torch, name)
    x = sample(dtype, (12, 5), special=True)
    if dtype.is_floating_point:
        x = x.round()
        x[:4, 4] = torch.tensor([-0.0, 0.0, -0.0, 0.0])
        x[3:, 3] = torch.tensor([NAN, 1, NAN, INF, 2, -INF, NAN, 1, 3])
    for dim in (0, -1):
        for y in (x, x.flip(0).contiguous()):
            check(lambda y: function(y, dim), y, exact=True, mode=mode)
    check(lambda x: function(x, 0), x[0, 0].clone())
    check(lambda x: function(x, 0), x[:0])
    check(lambda x: function(x, 1), x[:, :0])


def test_the_sign_of_zero_is_that_of_the_last():
    x = torch.tensor([0.0, -0.0, 0.0, -0.0])
    for function in (torch.cummax, torch.cummin):
        check(lambda x: torch.signbit(function(x, 0)[0]), x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_logcumsumexp(dtype: torch.dtype):
    x = sample(dtype, (9, 6), special=True) * 20
    x[:, 0] = torch.tensor([-INF, -INF, 1, INF, INF, 2, -INF, NAN, 3])
    x[:, 1] = torch.tensor([-INF, 1e4, -1e4, 3, 1e4, -INF, 2, -INF, 3])
    for dim in (0, -1):
        check(lambda x: torch.logcumsumexp(x, dim), x)
        check(lambda x: torch.logcumsumexp(x, dim), x.t())
    check(lambda x: torch.logcumsumexp(x, 0), x[0, 0].clone())
    check(lambda x: torch.logcumsumexp(x, 0), x[:0])
    graph = imported(lambda x: torch.logcumsumexp(x, 0), [torch.zeros(3000)], "fake")
    assert host_calls(graph) == ["aten.logcumsumexp.default"]
