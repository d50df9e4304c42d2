"""Views of inputs that are changed, and of storages: what is returned, and what memory holds."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import lpu_mlir

pytestmark = pytest.mark.sampled


@pytest.fixture(autouse=True)
def captured() -> Any:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        yield


def check(
    function: Callable[..., Any],
    makers: Sequence[Callable[[Tensor], Sequence[Any]]],
    **options: Any,
) -> None:
    """Results, their strides and places, and the memory around, for inputs made of 60 numbers."""
    dynamic = options.pop("dynamic", None)
    for interpreter in ("native", "reference"):
        torch._dynamo.reset()
        ours = torch.compile(
            function,
            backend="lpu_mlir",
            fullgraph=True,
            dynamic=dynamic,
            options={"interpreter": interpreter},
        )
        with lpu_mlir.Report() as report:
            for make in makers:
                bases = torch.arange(60.0), torch.arange(60.0)
                got, want = (f(*make(b)) for f, b in zip((ours, function), bases, strict=True))
                torch.testing.assert_close(got, want)
                torch.testing.assert_close(*bases)
                for x, y in zip(*map(tensors, (got, want)), strict=True):
                    assert (x.stride(), x.storage_offset()) == (y.stride(), y.storage_offset())
        assert report.graphs


def tensors(value: Any) -> Sequence[Tensor]:
    return [value] if isinstance(value, Tensor) else value


def row(x: Tensor, n: int) -> Tensor:
    v = x[n]
    x.add_(1)
    return v


def rows(x: Tensor, n: int) -> Tensor:
    v = x[n:]
    v.add_(1)
    return v


def half(x: Tensor, n: int) -> Tensor:
    v = x[x.shape[0] // 2 :].t()
    x.mul_(2)
    return v


def flat(x: Tensor, n: int) -> Tensor:
    v = x.view(-1)[n : 2 * n]
    x.mul_(2)
    return v


def chunk(x: Tensor, n: int) -> Tensor:
    v = x.chunk(2)[1]
    x.neg_()
    return v


def windows(x: Tensor, n: int) -> Tensor:
    v = x.unfold(0, 2, 1)[n - 1]
    x.neg_()
    return v


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("function", [row, rows, half, flat, chunk, windows])
def test_a_view_of_a_changed_input_at_a_symbolic_place(function, dynamic):
    makers = [lambda b, n=n: (b[:12].view(4, 3), n) for n in (2, 3, 1)]
    check(function, makers, dynamic=dynamic)


def returns_the_other(x: Tensor, y: Tensor) -> Tensor:
    x.mul_(2)
    return y


def changes_both(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    x.mul_(2)
    y.add_(1)
    return x, y


@pytest.mark.parametrize("function", [returns_the_other, changes_both])
def test_inputs_that_overlap(function):
    places = [(0, 3), (5, 8), (8, 5), (2, 2), (0, 6)]
    for i, j in places:
        check(function, [lambda b, i=i, j=j: (b[i : i + 6].view(2, 3), b[j : j + 6].view(2, 3))])


def part_added(x: Tensor) -> Tensor:
    z = x.as_strided((2, 2), (3, 1), 6)
    z.add_(100)
    return z + 0


def part_returned(x: Tensor) -> Tensor:
    z = x.as_strided((2, 2), (3, 1), 6)
    z.add_(100)
    return z


def part_read(x: Tensor) -> Tensor:
    return x.as_strided((2, 2), (3, 1), 6) * 2


def part_viewed(x: Tensor) -> Tensor:
    return x.as_strided((2, 2), (3, 1), 6)[1]


def from_its_start(x: Tensor) -> Tensor:
    return x.as_strided((2, 2), (3, 1)) + 0


def changed_from_its_start(x: Tensor) -> Tensor:
    z = x.as_strided((2, 2), (3, 1))
    z.mul_(2)
    return z + 1


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "function",
    [part_added, part_returned, part_read, part_viewed, from_its_start, changed_from_its_start],
)
def test_parts_of_a_storage(function, dynamic):
    """Dynamo has one graph for all offsets."""
    for first in (0, 3):
        makers = [lambda b, o=o: (b[o : o + 12].view(4, 3),) for o in (first, 3, 0, 5, 1)]
        check(function, makers, dynamic=dynamic)


def row_from_data(x: Tensor, i: Tensor) -> Tensor:
    return x[i[0].item()]


def row_of_a_sum(x: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
    y = x + 1
    return y, y.select(1, i[0].item())


@pytest.mark.parametrize("function", [row_from_data, row_of_a_sum])
def test_a_row_that_data_tells(function):
    makers = [lambda b, n=n: (b[:12].view(4, 3), torch.tensor([n])) for n in (2, 0, -1, 1)]
    check(function, makers)
    with pytest.raises(IndexError):
        torch.compile(function, backend="lpu_mlir", fullgraph=True)(
            torch.zeros(4, 3), torch.tensor([-5])
        )
