"""Sums of a million terms lose no more than eager's: both beside the same in f64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from lpu_mlir import Report

pytestmark = pytest.mark.sampled

TERMS = 1_000_000
FLOATS = (torch.float32, torch.bfloat16, torch.float16)
FACTOR, ROUNDINGS = 3, 2
"""An error may be so many times eager's, by the luck of the order, and so many roundings of the
largest result; sums one after the other have 10 to 60 times eager's."""
SCALE = 2.0**-5
"""So that f16 holds the results."""

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(),
    "var": lambda x: x.var(),
    "norm": lambda x: x.norm(),
    "norm of order 3": lambda x: x.norm(3),
    "logsumexp": lambda x: x.logsumexp(0),
    "softmax": lambda x: x.softmax(0),
    "cumsum": lambda x: x.cumsum(0),
    "cumsum of columns": lambda x: x.view(-1, 10).cumsum(0),
    "rows": lambda x: x.view(4, -1).sum(1),
    "10 columns": lambda x: x.view(-1, 10).sum(0),
    "1000 columns": lambda x: x.view(-1, 1000).sum(0),
    "the middle of three": lambda x: x.view(10, 1000, 100).sum(1),
    "dot": lambda x: x @ x,
    "matrix and vector": lambda x: x.view(4, -1) @ x[: TERMS // 4],
    "matrices": lambda x: x.view(10, -1) @ x.view(-1, 10),
    "convolution": lambda x: functional.conv2d(
        x[:204800].view(1, 800, 16, 16), x[: 16 * 800 * 9].view(16, 800, 3, 3)
    ),
    "layer norm": lambda x: functional.layer_norm(x, (TERMS,)),
    "batch norm": lambda x: functional.batch_norm(x.view(-1, 4), None, None, training=True),
    "pooling": lambda x: functional.adaptive_avg_pool2d(x.view(1, 1, 1000, 1000), 1),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("make", [torch.randn, torch.rand], ids=["both signs", "one sign"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_long_sum(name: str, make: Callable[..., Tensor], dtype: torch.dtype):
    function: Any = FUNCTIONS[name]
    x = (make(TERMS, generator=torch.Generator().manual_seed(1)) * SCALE).to(dtype)
    torch._dynamo.reset()
    with Report() as report:
        ours = torch.compile(function, backend="lpu_mlir", dynamic=False)(x)
    assert report.native_ops
    exact, eager = function(x.double()), function(x)
    error, theirs = ((y.double() - exact).abs().max() for y in (ours, eager))
    unit = torch.finfo(dtype).eps / 2 * exact.abs().max()
    assert error <= FACTOR * theirs + ROUNDINGS * unit
