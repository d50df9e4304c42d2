"""What only a run tells: positions, bounds and sizes from data, by both interpreters, as eager."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import lpu_mlir

pytestmark = pytest.mark.sampled

X = torch.arange(64.0).view(8, 8)


@pytest.fixture(autouse=True)
def captured() -> Iterator[None]:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(
        capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True
    ):
        yield


def number(n: Tensor) -> int:
    """One that no guard knows: not of an input itself."""
    return (n + 0).item()


def from_there(x: Tensor, n: Tensor, m: Tensor) -> Tensor:
    return x[number(n) :] * 2


def up_to_there(x: Tensor, n: Tensor, m: Tensor) -> Tensor:
    return x[:, : number(m)].sum(1)


def between(x: Tensor, n: Tensor, m: Tensor) -> tuple[Tensor, Tensor]:
    return x[number(n) : number(m)], x[:, number(n) : number(m)].cos()


def in_place(x: Tensor, n: Tensor, m: Tensor) -> Tensor:
    part = x.clone()[:, number(n) :]
    part.add_(1)
    return part


def split(x: Tensor, n: Tensor, m: Tensor) -> tuple[Tensor, ...]:
    return torch.tensor_split(x, torch.stack([n, m]))


def selected(x: Tensor, n: Tensor, m: Tensor) -> Tensor:
    return x[number(n)] + x.select(1, number(m))


def written(x: Tensor, n: Tensor, m: Tensor) -> Tensor:
    x = x.clone()
    x[number(n)] = 7
    x.select(1, number(m)).add_(abs(number(n)))
    return x * 2


def narrowed(x: Tensor, n: Tensor, m: Tensor) -> tuple[Tensor, ...]:
    return x.narrow(0, n.clamp(-8, 6).item(), 2) * 2, x.narrow(1, abs(number(m)) - 1, 1).exp()


def decided(x: Tensor, n: Tensor, m: Tensor) -> tuple[Tensor, ...]:
    """Bools that Python reads, in arithmetic; with integers PyTorch refuses them."""
    above, both = (n > 0).item(), ((n > 0) & (m > 0)).item()
    return x + above, x.half() + both, x.sum(0) * both


def one_of_two(x: Tensor, n: Tensor, m: Tensor) -> Tensor:
    a, b = number(n), number(m)
    return x * torch.sym_ite(a > b, a, b) + torch.sym_ite((a == 3) | (b < 0), a, a - b)


def positive(x: Tensor, n: Tensor, m: Tensor) -> Tensor:
    return torch.nonzero(x > n) + 1


def masked(x: Tensor, n: Tensor, m: Tensor) -> Tensor:
    return x[x > n * 8].exp().sum() + x.masked_select(x < m).shape[0]


@pytest.mark.parametrize("interpreter", ["native", "reference"])
@pytest.mark.parametrize(
    "function",
    [
        from_there, up_to_there, between, in_place, split, selected, written, narrowed, decided,
        one_of_two, positive, masked,
    ],
)  # fmt: skip
def test_as_eager(function: Callable[..., Any], interpreter: str):
    compiled = torch.compile(
        function, backend="lpu_mlir", fullgraph=True, options={"interpreter": interpreter}
    )
    with lpu_mlir.Report() as report:
        for n, m in [(3, 5), (-2, 7), (0, -1), (5, 2), (-8, -3)]:
            given = X.clone(), torch.tensor(n), torch.tensor(m)
            torch.testing.assert_close(compiled(*given), function(*given))
    assert len(report.graphs) == 1
    assert report.native_ops > 0


@pytest.mark.parametrize("interpreter", ["native", "reference"])
@pytest.mark.parametrize("n", [8, -9, 1 << 40])
def test_a_position_out_of_range(n: int, interpreter: str):
    def function(x: Tensor, n: Tensor) -> Tensor:
        return x[number(n)] * 2

    compiled = torch.compile(
        function, backend="lpu_mlir", fullgraph=True, options={"interpreter": interpreter}
    )
    torch.testing.assert_close(compiled(X, torch.tensor(-8)), X[0] * 2)
    with pytest.raises(IndexError, match=r"out of range(?s:.)*test_data_dependent.py"):
        compiled(X, torch.tensor(n))


def of_floats(x: Tensor, factor: Tensor) -> tuple[Tensor, ...]:
    size = int((factor * 2).item())
    torch._check(size >= 0)
    rounded = round(factor.item()) + math.floor(factor.item()) * math.ceil(factor.item())
    return torch.zeros(size) + 1, x[:, :size] * 2, x * rounded, x[0] + size


@pytest.mark.parametrize("interpreter", ["native", "reference"])
def test_integers_of_floats(interpreter: str):
    compiled = torch.compile(
        of_floats, backend="lpu_mlir", fullgraph=True, options={"interpreter": interpreter}
    )
    with lpu_mlir.Report() as report:
        for number in (1.2, 2.5, 3.5, 0.0, 0.4):
            factor = torch.tensor(number)
            torch.testing.assert_close(compiled(X, factor), of_floats(X, factor))
    assert len(report.graphs) == 1
    with pytest.raises(ValueError, match="cannot convert float NaN to integer"):
        compiled(X, torch.tensor(float("nan")))
    with pytest.raises(OverflowError, match="infinity"):
        compiled(X, torch.tensor(float("inf")))
