"""Numbers that a dtype does not have: refused where eager refuses them."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lpu_mlir.frontend.dtypes import overflows
from lpu_mlir.report import Report

OPERATORS = {
    "full": lambda x, n: torch.full((2,), n, dtype=x.dtype) + x,
    "full_like": torch.full_like,
    "fill_": lambda x, n: x.clone().fill_(n),
    "masked_fill": lambda x, n: x.masked_fill(x > 0, n),
    "pow_": lambda x, n: x.clone().pow_(n),
    "clamp": lambda x, n: x.clamp(max=n),
    "scatter": lambda x, n: x.scatter(0, torch.tensor([0]), n),
    "index_fill": lambda x, n: x.index_fill(0, torch.tensor([0]), n),
    "pad": lambda x, n: F.pad(x, (1, 1), value=n),
}
NUMBERS = [
    (torch.uint8, 300),
    (torch.uint8, 255),
    (torch.int16, 2**40),
    (torch.int64, math.inf),
    (torch.bool, 300),
    (torch.float32, 1e40),
    (torch.float16, -1e9),
    (torch.bfloat16, 1e9),
    (torch.float16, -math.inf),
]


@pytest.mark.parametrize(("dtype", "number"), NUMBERS)
@pytest.mark.parametrize("name", OPERATORS)
def test_numbers_are_refused_as_in_eager(name: str, dtype: torch.dtype, number: float):
    def function(x: Tensor) -> Tensor:
        return OPERATORS[name](x, number)

    x = torch.ones(2, dtype=dtype)
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="lpu_mlir")
    try:
        expected = function(x)
    except (RuntimeError, TypeError):
        with pytest.raises((RuntimeError, TypeError)):
            compiled(x)
        return
    with Report() as report:
        torch.testing.assert_close(compiled(x), expected)
    assert len(report.graphs) == 1


@pytest.mark.parametrize(
    ("number", "dtype", "expected"),
    [
        (-255, torch.uint8, False),
        (-256, torch.uint8, True),
        (-128, torch.int8, False),
        (-129, torch.int8, True),
        (math.nan, torch.int64, True),
        (2.0**63, torch.int64, True),
        (300, torch.bool, False),
        (math.inf, torch.float16, False),
        (65505.0, torch.float16, True),
        (1e308, torch.float64, False),
    ],
)
def test_which_numbers_overflow(number: float, dtype: torch.dtype, expected: bool):
    assert overflows(number, dtype) == expected
