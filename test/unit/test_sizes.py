"""Sizes and numbers that change from call to call: how many graphs, and eager's values."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo import mark_dynamic, maybe_mark_dynamic
from torch._dynamo.decorators import mark_unbacked
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn import functional as F

import lpu_mlir

pytestmark = pytest.mark.sampled

INTERPRETERS = ("native", "reference")
Marker = Callable[[Tensor], None] | None


@pytest.fixture(autouse=True)
def reset() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def whole(*shape: int) -> Tensor:
    """Numbers whose sums are exact in any order."""
    return torch.randint(-9, 10, shape).float()


def ours(interpreter: str) -> Callable[..., Any]:
    def backend(gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        return lpu_mlir.lpu_mlir(gm, inputs, options={"interpreter": interpreter})

    return backend


# --- how many graphs ----------------------------------------------------------------------------


def scaled_sum(x: Tensor) -> Tensor:
    return x.sum(0) * x.shape[0]


def graphs(backend: Any, sizes: tuple[int, ...], mark: Marker, dynamic: bool | None) -> list[int]:
    """How many graphs there are after each size; results are eager's."""
    torch._dynamo.reset()
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(scaled_sum, backend=counter, dynamic=dynamic)
    counts: list[int] = []
    for n in sizes:
        x = whole(n, 3)
        if mark is not None:
            mark(x)
        torch.testing.assert_close(compiled(x), scaled_sum(x))
        counts.append(counter.frame_count)
    return counts


def bounded(x: Tensor) -> None:
    mark_dynamic(x, 0, min=2, max=64)


COMPLAINT = (1, 2, 3, 5, 0, 7)
"""Dynamo makes graphs of their own for 1 and 0, also where they are marked as dynamic."""
COUNTS: dict[str, tuple[tuple[int, ...], Marker, bool | None, list[int]]] = {
    "plain": (COMPLAINT, None, None, [1, 2, 2, 2, 3, 3]),
    "dynamic": (COMPLAINT, None, True, [1, 2, 2, 2, 3, 3]),
    "marked": (COMPLAINT, lambda x: mark_dynamic(x, 0), None, [1, 2, 2, 2, 3, 3]),
    "maybe marked": (COMPLAINT, lambda x: maybe_mark_dynamic(x, 0), None, [1, 2, 2, 2, 3, 3]),
    "marked, from 2": ((2, 3, 5, 7), lambda x: mark_dynamic(x, 0), None, [1, 1, 1, 1]),
    "marked, 1 and 0 last": ((2, 7, 1, 0), lambda x: mark_dynamic(x, 0), None, [1, 1, 2, 3]),
    "bounded": ((2, 3, 64, 5), bounded, None, [1, 1, 1, 1]),
    "unbacked": (COMPLAINT, lambda x: mark_unbacked(x, 0), None, [1, 1, 1, 1, 1, 1]),
}


@pytest.mark.parametrize("interpreter", INTERPRETERS)
@pytest.mark.parametrize("case", COUNTS)
def test_as_many_graphs_as_aot_eager(case: str, interpreter: str):
    sizes, mark, dynamic, expected = COUNTS[case]
    assert graphs(ours(interpreter), sizes, mark, dynamic) == expected
    assert graphs("aot_eager", sizes, mark, dynamic) == expected


# --- what programs do with sizes ----------------------------------------------------------------


def arithmetic(x: Tensor) -> Tensor:
    n, m = x.shape
    return x * (n // 3 - m % 4) + n**2 + min(n, m) - max(n, 2 * m)


def true_division(x: Tensor) -> Tensor:
    n, m = x.shape
    return x / (n / m) + n**0.5 + float(n) / 3


def extents(x: Tensor) -> tuple[Tensor, ...]:
    n, m = x.shape
    smaller = min(n, m)
    return x[: n // 2], x[n % 3 :], x[:smaller, :smaller].t(), x.new_ones(n**2 % 7 + 1, max(n, m))


def pieces(x: Tensor) -> tuple[Tensor, ...]:
    return *x.split(x.shape[0] // 2 + 1), *x.chunk(2, 1)


def shaped(x: Tensor) -> Tensor:
    n, m = x.shape
    return x.reshape(m, n).flatten()[::2].unsqueeze(0).expand(n, -1).sum(1)


def padded(x: Tensor) -> Tensor:
    n, _ = x.shape
    return F.pad(x, (n % 4, 1, 0, -(-n // 4) * 4 - n)).cumsum(0)


def ranges(x: Tensor) -> Tensor:
    n, m = x.shape
    causal = torch.arange(n)[:, None] >= torch.arange(m)[None] - m // 2
    return x.masked_fill(~causal, -torch.inf).softmax(-1) @ torch.eye(m).roll(n // 2, 0)


def unused(x: Tensor) -> Tensor:
    return torch.ones(3) * 2


def sizes_alone(x: Tensor) -> tuple[int, int, Tensor]:
    return x.shape[0] * 2, x.numel() // 3, torch.zeros(x.shape[1])


def grown(x: Tensor) -> Tensor:
    return torch.cat([x, x[:1], torch.zeros(x.shape[0], x.shape[1])]).repeat(2, 1)


SIZED = [
    arithmetic,
    true_division,
    extents,
    pieces,
    shaped,
    padded,
    ranges,
    unused,
    sizes_alone,
    grown,
]


@pytest.mark.parametrize("interpreter", INTERPRETERS)
@pytest.mark.parametrize("function", SIZED)
def test_what_is_made_of_sizes(function: Callable[..., Any], interpreter: str):
    def calls(backend: Any) -> int:
        torch._dynamo.reset()
        counter = CompileCounterWithBackend(backend)
        compiled = torch.compile(function, backend=counter)
        for n, m in [(4, 6), (5, 7), (8, 12), (19, 31), (70, 90)]:
            x = whole(n, m)
            mark_dynamic(x, [0, 1])
            torch.testing.assert_close(compiled(x), function(x))
        return counter.frame_count

    assert 0 < calls(ours(interpreter)) <= calls("aot_eager")


@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_far_beyond_the_first_size(interpreter: str):
    """Buffers and tiles are as large as the size of each call asks for, not as the first one's."""

    def function(x: Tensor) -> Tensor:
        return (x @ x.t()).softmax(-1) @ x.cumsum(0)

    counter = CompileCounterWithBackend(ours(interpreter))
    compiled = torch.compile(function, backend=counter)
    for n in (2, 3, 300, 2, 700 if interpreter == "native" else 130):
        x = torch.randn(n, 5)
        mark_dynamic(x, 0, min=2, max=1 << 20)
        torch.testing.assert_close(compiled(x), function(x), rtol=1e-4, atol=1e-4)
    assert counter.frame_count == 1


@pytest.mark.parametrize("interpreter", INTERPRETERS)
@pytest.mark.parametrize(
    ("mode", "factor", "reads"),
    [
        ("nearest", 2, 0),
        ("nearest", 1.5, 0),
        ("nearest", 0.5, 0),
        ("nearest", 1.3, 1),
        pytest.param("bicubic", 2, 0, marks=pytest.mark.slow),
        pytest.param("bicubic", 0.7, 1, marks=pytest.mark.slow),
    ],
)
def test_what_a_factor_makes_of_sizes(mode: str, factor: float, reads: int, interpreter: str):
    """Only products that are rounded make eager tell the size; its gradients know it then."""
    upsample = torch.nn.Upsample(scale_factor=factor, mode=mode)
    compiled = torch.compile(upsample, backend=ours(interpreter), dynamic=True)
    with lpu_mlir.Report() as report:
        for h, w in ((6, 7), (8, 5)):
            x = torch.randn(1, 2, h, w, requires_grad=True)
            y = x.detach().requires_grad_()
            actual, expected = compiled(x), upsample(y)
            torch.testing.assert_close(actual, expected)
            actual.backward(torch.ones_like(actual))
            expected.backward(torch.ones_like(expected))
            torch.testing.assert_close(x.grad, y.grad)
    forward, backward = report.graphs
    assert {f.reason for f in report.fallbacks} <= {
        "an integer made of a float is known when it runs"
    }
    assert [sum(f.count for f in g.fallbacks) for g in (forward, backward)] == [2 * reads, 0]


# --- numbers ------------------------------------------------------------------------------------


def scaled(x: Tensor, scale: Any) -> Tensor:
    return x * scale + x.shape[0] * scale


def compared(x: Tensor, scale: Any) -> Tensor:
    return torch.where(x > scale, x / scale, scale)


def powers(x: Tensor, scale: Any) -> Tensor:
    return torch.full((x.shape[0],), 2.0) ** scale + (scale * 2 - 1) / 3


@pytest.mark.parametrize("interpreter", INTERPRETERS)
@pytest.mark.parametrize("make", [float, torch.tensor, lambda s: torch.tensor(s).double()])
@pytest.mark.parametrize("function", [scaled, compared, powers])
def test_numbers(function: Callable[..., Any], make: Callable[[float], Any], interpreter: str):
    def calls(backend: Any) -> int:
        torch._dynamo.reset()
        counter = CompileCounterWithBackend(backend)
        compiled = torch.compile(function, backend=counter, fullgraph=True)
        for n, scale in [(2, 0.5), (3, 1.5), (7, -2.25), (9, 3.0), (11, 1e-3)]:
            x, number = torch.randn(n, 4), make(scale)
            torch.testing.assert_close(compiled(x, number), function(x, number))
        return counter.frame_count

    assert 0 < calls(ours(interpreter)) <= calls("aot_eager")


NUMBERED: dict[str, Callable[[Tensor, int], Tensor]] = {
    "pad": lambda x, n: F.pad(x, (1, n), value=n),
    "pad by a factor": lambda x, n: F.pad(x, (1, 2), value=n / 2),
    "pad integers": lambda x, n: F.pad(x.long(), (n, -1), value=n),
    "average": lambda x, n: F.avg_pool2d(x[None], 2, divisor_override=n),
    "average of halves": lambda x, n: F.avg_pool2d(x[None].half(), 2, divisor_override=n),
    "variance": lambda x, n: x.var(1, correction=n),
}


@pytest.mark.parametrize("interpreter", INTERPRETERS)
@pytest.mark.parametrize("case", NUMBERED)
def test_integers_beside_tensors(case: str, interpreter: str):
    x = torch.randn(6, 8)

    def calls(backend: Any) -> int:
        torch._dynamo.reset()
        counter = CompileCounterWithBackend(backend)
        compiled = torch.compile(NUMBERED[case], backend=counter, dynamic=True)
        for n in (3, 5, 4):
            torch.testing.assert_close(compiled(x, n), NUMBERED[case](x, n))
        return counter.frame_count

    with lpu_mlir.Report() as report:
        assert 0 < calls(ours(interpreter)) <= calls("aot_eager")
    assert report.fallbacks == []


@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_a_number_from_a_tensor(interpreter: str):
    """A float that only a run tells, in the program and as what it returns."""

    def function(x: Tensor) -> tuple[Tensor, float]:
        largest = x.max().item()
        return x / largest + 1, largest * 2

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        counter = CompileCounterWithBackend(ours(interpreter))
        compiled = torch.compile(function, backend=counter, fullgraph=True, dynamic=True)
        for n in (2, 5, 9):
            x = torch.rand(n, 3) + 0.5
            torch.testing.assert_close(compiled(x), function(x))
    assert counter.frame_count == 1
