"""What eager refuses is refused, with the same kind of error; and what it takes at the edges."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from lpu_mlir import Report

X = torch.arange(6.0).reshape(2, 3)
INT32 = torch.tensor([0, 1], dtype=torch.int32)


def repeated(x: torch.Tensor, repeats: torch.Tensor) -> torch.Tensor:
    return x.repeat_interleave(repeats, 0, output_size=2)


def outcome(function: Callable[..., Any], inputs: tuple[Any, ...]) -> Any:
    try:
        return function(*inputs)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (repeated, (torch.arange(4.0), torch.tensor([-1, 1, 1, 1]))),
        (repeated, (torch.arange(4.0), torch.tensor([2, 1, 0, 1]))),
        (repeated, (torch.arange(4.0), torch.tensor([1, 0, 1, 0]))),
        (lambda r: torch.repeat_interleave(r, output_size=2), (torch.tensor(2),)),
        (lambda r: torch.repeat_interleave(r, output_size=2), (torch.ones(2),)),
        (lambda x, i: x.index_copy(0, i, x), (X, INT32)),
        (lambda x, i: x.index_add(1, i, X), (torch.ones(2, 0), torch.tensor([0, 0, 0]))),
        (torch.searchsorted, (torch.tensor(1.0), X)),
        (lambda x, m: x.index_put((m,), x), (torch.tensor(1.0), torch.tensor(True))),
        (lambda x, i: x.index_reduce(0, i, x, "amax"), (torch.tensor(1.0), torch.tensor([0, 0]))),
        (lambda x: torch.clamp(x, x, x), (torch.tensor([True, False]),)),
        (lambda x: x.relu(), (torch.tensor([True, False]),)),
        (lambda t: functional.affine_grid(t, [2, 2, 1, 3], False), (X.expand(2, 2, 3),)),
        (lambda x: functional.dropout(x, 0.5), (torch.empty(0, 3),)),
    ],
)
def test_edges(function: Callable[..., Any], inputs: tuple[Any, ...]):
    torch._dynamo.reset()
    with Report() as report:
        ours = outcome(torch.compile(function, backend="lpu_mlir"), inputs)
    theirs = outcome(function, inputs)
    assert report.graphs
    if isinstance(theirs, type):
        assert ours == theirs
    else:
        torch.testing.assert_close(ours, theirs)
