"""What a call that fails in mid-run leaves: arguments as they were, and a function that works."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import lpu_mlir

pytestmark = pytest.mark.sampled

BAD = torch.tensor([0, 9, 1])
GOOD = torch.tensor([0, 2, 1])


@pytest.fixture(autouse=True)
def reset() -> None:
    torch._dynamo.reset()


@torch.library.custom_op("lpu_mlir_failed::positive", mutates_args=())
def positive(x: Tensor) -> Tensor:
    if (x < 0).any():
        raise ValueError("negative")
    return x.clone()


@positive.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def counted(x: Tensor, y: Tensor, i: Tensor) -> Tensor:
    rows = y[i]
    x.add_(1)
    return rows


def counted_before(x: Tensor, y: Tensor, i: Tensor) -> Tensor:
    x.add_(1)
    return y[i] * x


def from_itself(x: Tensor, y: Tensor, i: Tensor) -> Tensor:
    return x.copy_((x * 2)[i])


def added(x: Tensor, y: Tensor, i: Tensor) -> Tensor:
    return x.add_(y[i])


def from_the_end(x: Tensor, y: Tensor, i: Tensor) -> Tensor:
    x.mul_(2)
    return y[-i - 1] + y[i - 1]


def embedded(x: Tensor, y: Tensor, i: Tensor) -> Tensor:
    return x.add_(F.embedding(i, y))


def scattered(x: Tensor, y: Tensor, i: Tensor) -> Tensor:
    return x.index_copy_(0, i, y)


def assigned(x: Tensor, y: Tensor, i: Tensor) -> Tensor:
    x[i] = y
    return x.sum(0)


def accumulated(x: Tensor, y: Tensor, i: Tensor) -> Tensor:
    y.neg_()
    return x.index_put_((i,), y, accumulate=True)


def divided(x: Tensor, y: Tensor, i: Tensor) -> Tensor:
    x.add_(1)
    return (100 // (i - 9)) * x[:, 0]


def of_indices(x: Tensor, y: Tensor, i: Tensor) -> Tensor:
    x.zero_()
    return y[i][:, 0].long() + y[i[GOOD]][:, 0].long()


def computed(x: Tensor, y: Tensor, i: Tensor) -> Tensor:
    """The position comes out of a product, on which a call outside depends, too."""
    x.add_(1)
    return y[positive(y @ y.t()).sum().long() - 18 + i]


def chosen(x: Tensor, y: Tensor, i: Tensor) -> Tensor:
    x.add_(1)
    return torch.cond(i.sum() > 0, lambda y, i: y[i], lambda y, i: y[i + 1], (y, i))


def layers(x: Tensor, y: Tensor, i: Tensor) -> Tensor:
    """Two caches, of which the second is written when the first has been."""
    a, b = x[None].unbind(0)[0], y
    h = F.silu(F.rms_norm(a[i % 3] + 1, (2,))) * 3
    a[i] = h
    h = F.silu(F.rms_norm(a[i % 3] + h, (2,))) * 3
    b[i] = h
    return F.silu(F.rms_norm(b[i % 3] + h, (2,))) * 3


def moved(x: Tensor, y: Tensor, i: Tensor) -> Tensor:
    """What makes the position is stored, too: the row must not be read beside it, unchecked."""
    i.add_(1)
    return y[i - 1] * 2


def embedded_by_parts(x: Tensor, y: Tensor, i: Tensor) -> Tensor:
    rows = F.embedding(i // 1, y)
    i.copy_(i * 2)
    return rows


INDEXED = [
    moved, embedded_by_parts,
    counted, counted_before, from_itself, added, from_the_end, embedded, scattered, assigned,
    accumulated, divided, of_indices, computed, chosen, layers,
]  # fmt: skip


def arguments() -> tuple[Tensor, Tensor]:
    return torch.arange(6.0).view(3, 2), torch.ones(3, 2)


def state_after(function: Callable[..., Any], bad: Tensor) -> tuple[type[Exception], list[Tensor]]:
    """The exception, and the arguments then."""
    given = arguments()
    bad = bad.clone()
    with pytest.raises(Exception) as caught:  # noqa: PT011
        function(*given, bad)
    return caught.type, [*given, bad]


@pytest.mark.parametrize("interpreter", ["native", "reference", "compare"])
@pytest.mark.parametrize("function", INDEXED, ids=lambda f: f.__name__)
def test_a_bad_index_leaves_the_arguments(function, interpreter):
    with lpu_mlir.Report() as report:
        ours = torch.compile(function, backend="lpu_mlir", options={"interpreter": interpreter})
        error, state = state_after(ours, BAD)
        assert report.graphs
        assert error is state_after(function, BAD)[0]
        torch.testing.assert_close(state, [*arguments(), BAD])
        given, theirs = arguments(), arguments()
        torch.testing.assert_close(ours(*given, GOOD.clone()), function(*theirs, GOOD.clone()))
        torch.testing.assert_close(given, theirs)


def test_a_call_outside_that_fails_leaves_what_was_changed_before():
    def function(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        x.add_(1)
        z.copy_(y * 2)
        return positive(x.sum(0) - y) + z

    ours = torch.compile(function, backend="lpu_mlir")
    x, y, z = torch.zeros(3, 2), torch.full((3, 2), 9.0), torch.zeros(3, 2)
    with pytest.raises(ValueError, match="negative"):
        ours(x, y, z)
    assert not x.any()
    assert not z.any()
    torch.testing.assert_close(ours(x, y - 9, z), torch.full((3, 2), 3.0))
    assert (x == 1).all()


@pytest.mark.parametrize("interpreter", ["native", "reference"])
def test_an_error_tells_the_sizes_of_this_call(interpreter):
    ours = torch.compile(
        lambda x, i: (x * 2)[i], backend="lpu_mlir", options={"interpreter": interpreter}
    )
    for rows in (5, 7, 9):
        assert ours(torch.ones(rows, 2), torch.tensor([rows - 1])).shape == (1, 2)
    with pytest.raises(IndexError, match=r"dimension 0 with size s\d+ .*, where s\d+ = 11$"):
        ours(torch.ones(11, 2), torch.tensor([11]))


class Layer(nn.Module):
    """Attention over a cache that has a counter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, 4, 8))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        position = position + self.count
        self.count.add_(1)
        y = self.linear(F.rms_norm(x, (8,)))
        self.keys.index_copy_(1, position, y)
        self.values.index_copy_(1, position, y * 2)
        return x + F.silu((y @ self.keys.mT).softmax(-1) @ self.values)


@torch.no_grad()
def test_the_last_of_equal_layers_fails_before_the_first_is_changed():
    layers, x, position = nn.Sequential(*(Layer() for _ in range(4))), torch.randn(1, 1, 8), [0]

    def function(x: Tensor, position: Tensor) -> Tensor:
        for layer in layers:
            x = layer(x, position)
        return x

    ours, other = torch.compile(function, backend="lpu_mlir"), copy.deepcopy(layers)
    with lpu_mlir.Report() as report:
        result = ours(x, torch.tensor(position))
        assert report.ir("hoist-checks").count("func.call @layer") == 4
    for layer in other:
        x = layer(x, torch.tensor(position))
    torch.testing.assert_close(result, x)
    layers[3].count.fill_(9)
    before = copy.deepcopy(layers.state_dict())
    with pytest.raises(IndexError, match=r"out of range for dimension 1(?s:.)*test_failed_runs"):
        ours(x, torch.tensor(position))
    torch.testing.assert_close(layers.state_dict(), before, rtol=0, atol=0)


def test_a_cache_is_not_copied_for_a_check():
    def function(cache: Tensor, other: Tensor, position: Tensor, k: Tensor) -> Tensor:
        cache[position] = k
        other[position + 0] = cache[:4].sum(0)
        return other[:2]

    ours = torch.compile(function, backend="lpu_mlir")
    cache, other, k = torch.zeros(4096, 64), torch.zeros(4096, 64), torch.ones(64)
    with lpu_mlir.Report() as report:
        ours(cache, other, torch.tensor([3]), k)
    (graph,) = report.graphs
    assert sum(kernel.dram_written for kernel in graph.kernels) < 16 * k.nbytes
    before = cache.clone(), other.clone()
    with pytest.raises(IndexError, match="out of range"):
        ours(cache, other, torch.tensor([4096]), k + 1)
    assert torch.equal(before[0], cache)
    assert torch.equal(before[1], other)
