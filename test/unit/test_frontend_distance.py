"""Distances between rows, and their gradients, against eager."""

import math
from collections.abc import Sequence

import pytest
import torch
from frontend_checks import check, host_calls, imported, sample

pytestmark = pytest.mark.sampled

aten = torch.ops.aten

ORDERS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf)
BATCHES = (((5, 3), (4, 3)), ((2, 1, 5, 3), (3, 4, 3)), ((1, 2, 3), (1, 1, 3)), ((6, 1), (2, 7, 1)))


def rows(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return sample(dtype, shape, seed)


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("left", "right"), BATCHES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_between_two_sets(
    left: Sequence[int], right: Sequence[int], order: float, dtype: torch.dtype, mode: str
):
    x, y = rows(*left, dtype=dtype), rows(*right, dtype=dtype, seed=1)
    check(lambda x, y: aten._cdist_forward(x, y, order, None), x, y, mode=mode)
    distance = aten._cdist_forward(x, y, order, None)
    gradient = sample(dtype, distance.shape, 2)
    check(
        lambda g, x, y, d: aten._cdist_backward(g, x, y, order, d),
        gradient, x, y, distance, mode=mode,
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
@pytest.mark.parametrize("compute", [None, 0, 1, 2])
@pytest.mark.parametrize("count", [3, 26])
def test_euclidean_by_product(count: int, compute: int | None, mode: str):
    x, y = rows(2, count, 4), rows(5, 4, seed=1)
    x[0, 0, 0] = math.inf
    x[0, 1, 0] = math.nan

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return aten._cdist_forward(x, y, 2.0, compute)

    check(function, x, y, mode=mode, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("count", [0, 1, 2, 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_within_one_set(count: int, order: float, dtype: torch.dtype, mode: str):
    x = rows(count, 3, dtype=dtype)
    check(lambda x: aten._pdist_forward(x, order), x, mode=mode)
    if not count:
        return  # eager reads beyond the gradient then
    distance = aten._pdist_forward(x, order)
    gradient = sample(dtype, distance.shape, 2)
    check(lambda g, x, d: aten._pdist_backward(g, x, order, d), gradient, x, distance, mode=mode)


@pytest.mark.parametrize("order", ORDERS)
def test_what_is_not_finite(order: float):
    """And rows that are equal, or equal in some places."""
    inf, nan = math.inf, math.nan
    x = torch.tensor([[1.0, 2, 3, 4, 5, 6, 7, 8, 9], [1.0, 0, 3, 4, 5, 6, -7, 8, 9]])
    x = torch.cat([x, x[:1], x[:1], x[:1], -x[:1]])
    x[3, 1], x[4, 8], x[4, 2] = inf, nan, -inf
    with_nan, gradient = x[:, :], sample(torch.float32, (6, 6), 3)
    check(lambda x: aten._cdist_forward(x, x, order, None), with_nan)
    check(lambda x: aten._pdist_forward(x, order), with_nan)
    distance = aten._cdist_forward(x, x, order, None)
    check(lambda g, x, d: aten._cdist_backward(g, x, x, order, d), gradient, x, distance)
    distance = aten._pdist_forward(x, order)
    gradient = sample(torch.float32, distance.shape, 3)
    check(lambda g, x, d: aten._pdist_backward(g, x, order, d), gradient, x, distance)


@pytest.mark.parametrize("shapes", [((0, 3), (4, 3)), ((2, 3, 0), (2, 4, 0)), ((0, 2, 3), (4, 3))])
def test_empty(shapes: Sequence[Sequence[int]]):
    x, y = (rows(*shape) for shape in shapes)
    for order in ORDERS:
        check(lambda x, y: aten._cdist_forward(x, y, order, None), x, y)
        distance = aten._cdist_forward(x, y, order, None)
        check(lambda g, x, y: aten._cdist_backward(g, x, y, order, g), distance, x, y)
    check(lambda x: aten._pdist_forward(x, 2.0), rows(4, 0))


def test_dtypes_that_eager_refuses_stay_with_it():
    """It computes in half precision only of what is empty."""
    x = rows(0, 3, dtype=torch.bfloat16)
    graph = imported(lambda x: aten._cdist_forward(x, x, 1.0, None), [x], "fake")
    assert host_calls(graph) == ["aten._cdist_forward.default"]
