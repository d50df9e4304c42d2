"""What callers of a compiled function rely on: values, identity, writes, lifetime, failures."""

import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lpu_mlir.backend import lpu_mlir
from lpu_mlir.report import Report

pytestmark = pytest.mark.sampled


class Counting:
    """The backend, counting its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, gm: Any, example_inputs: Any, *, options: Any = None) -> Any:
        self.calls += 1
        return lpu_mlir(gm, example_inputs, options={"target": "tiny", **(options or {})})


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function: Callable[..., Any], **options: Any) -> tuple[Any, Counting]:
    backend = Counting()
    return torch.compile(function, backend=backend, fullgraph=True, **options), backend


def storage(t: Tensor) -> int:
    return t.untyped_storage()._cdata


def check(function: Callable[..., Any], *inputs: Tensor) -> None:
    """Values, strides, aliases and writes, in a first and in a second call."""
    run, backend = compiled(function)
    for _ in range(2):
        given, again = copies(inputs), copies(inputs)
        got, want = list(run(*given)), list(function(*again))
        for mine, theirs in zip([*got, *given], [*want, *again], strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True)
        tensors = [(g, w) for g, w in zip(got, want, strict=True) if isinstance(w, Tensor)]
        assert [layout(g) for g, _ in tensors] == [layout(w) for _, w in tensors]
        mine, theirs = [g for g, _ in tensors], [w for _, w in tensors]
        assert sharing([*mine, *given]) == sharing([*theirs, *again])
        assert identical([*mine, *given]) == identical([*theirs, *again])
    assert backend.calls == 1


def copies(inputs: tuple[Tensor, ...]) -> list[Tensor]:
    """Copies that share storage as the originals do."""
    stores = {storage(t): t.untyped_storage().clone() for t in inputs}
    return [
        torch.empty(0, dtype=t.dtype).set_(
            stores[storage(t)], t.storage_offset(), t.shape, t.stride()
        )
        for t in inputs
    ]


def layout(t: Tensor) -> Any:
    """Strides and offset; they mean nothing without elements."""
    return (t.stride(), t.storage_offset()) if t.numel() else None


def sharing(tensors: list[Tensor]) -> list[int]:
    """For each tensor the first with the same storage."""
    stores = [storage(t) for t in tensors]
    return [stores.index(s) for s in stores]


def identical(tensors: list[Tensor]) -> list[int]:
    ids = [id(t) for t in tensors]
    return [ids.index(i) for i in ids]


# --- outputs --------------------------------------------------------------------------------------


def repeated(x: Tensor) -> list[Any]:
    y = x + 1
    return [y, y, None, y * 2, 3, x.shape[0], True]


def returned_input(x: Tensor) -> list[Any]:
    return [x, x + 1, x]


def views_of_one_result(x: Tensor) -> list[Any]:
    y = x * 2
    return [y[0], y[1:], y.t(), y]


def view_of_hidden_result(x: Tensor) -> list[Any]:
    y = x * 2
    return [y[1:, ::2], y.t()[0]]


def expanded_result(x: Tensor) -> list[Any]:
    return [(x.sum(0)).expand(3, *x.shape[1:]), (x + 1).t()]


def views_of_input(x: Tensor) -> list[Any]:
    return [x[1:], x.t(), x.reshape(-1)[2:], x + 1]


def only_views(x: Tensor) -> list[Any]:
    return [x.t(), x.unsqueeze(0)]


@pytest.mark.parametrize(
    "function",
    [
        repeated,
        returned_input,
        views_of_one_result,
        view_of_hidden_result,
        expanded_result,
        views_of_input,
    ],
)
def test_outputs(function: Callable[..., Any]):
    check(function, torch.randn(4, 6))


def test_result_whose_elements_overlap():
    def function(x: Tensor) -> list[Tensor]:
        windows = (x + 1).unfold(0, 3, 1)
        return [windows, windows[1:], windows.t()]

    run, _ = compiled(function)
    x = torch.arange(8.0)
    torch.testing.assert_close(run(x), function(x), check_stride=False)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_window_over_a_result_is_a_view_of_it(dynamic: bool):
    torch._dynamo.reset()

    def function(x: Tensor) -> Tensor:
        return torch.exp(x).unfold(0, 3, 1)

    x = torch.randn(8, 2)
    result = torch.compile(function, backend="lpu_mlir", dynamic=dynamic)(x)
    torch.testing.assert_close(result, function(x))
    assert result.untyped_storage().nbytes() == 8 * 2 * 4


def test_only_views_need_no_backend_or_are_right():
    x = torch.randn(4, 6)
    run, _ = compiled(only_views)
    got = run(x)
    assert [storage(g) for g in got] == [storage(x)] * 2
    assert torch.equal(got[0], x.t())


# --- writes ---------------------------------------------------------------------------------------


def transposed_update(x: Tensor) -> list[Any]:
    x.t().add_(1)
    return [x * 2]


def updated_and_returned(x: Tensor) -> list[Any]:
    before = x.clone()
    x.mul_(2)
    return [before, x, x[0]]


def part_updated(x: Tensor) -> list[Any]:
    x[1:, ::2] = 7
    x[0].add_(x[1])
    return [x.sum()]


def updated_twice(x: Tensor) -> list[Any]:
    x.add_(1)
    y = x * 3
    x.mul_(2)
    return [y]


@pytest.mark.parametrize(
    "function", [transposed_update, updated_and_returned, part_updated, updated_twice]
)
@pytest.mark.parametrize("layout", ["dense", "transposed", "strided"])
def test_updated_inputs(function: Callable[..., Any], layout: str):
    x = torch.arange(24.0).reshape(4, 6)
    laid_out = {
        "dense": x,
        "transposed": torch.arange(24.0).reshape(6, 4).t(),
        "strided": torch.arange(96.0).reshape(8, 12)[1::2, ::2],
    }
    check(function, laid_out[layout])


def swapped(x: Tensor, y: Tensor) -> list[Any]:
    old = x.clone()
    x.copy_(y)
    y.copy_(old)
    return [x + y]


def test_two_updated_inputs():
    check(swapped, torch.randn(3, 4), torch.randn(3, 4))


def one_of_two(x: Tensor, y: Tensor) -> list[Any]:
    x.mul_(2)
    return [x + 1, y + 1]


@pytest.mark.parametrize(
    "views",
    [
        lambda base: (base[0], base.reshape(-1)[3:9]),
        lambda base: (base[:2], base[2:]),
        lambda base: (base, base.t()[:4, :4]),
    ],
)
def test_inputs_that_share_storage(views: Callable[[Tensor], tuple[Tensor, Tensor]]):
    """`copies` makes tensors that do not know that they are views, as in inference mode."""
    check(one_of_two, *views(torch.arange(24.0).reshape(4, 6)))


@pytest.mark.parametrize("dynamic", [None, True])
def test_inputs_that_are_views_of_one_tensor(dynamic: bool | None):
    run, backend = compiled(one_of_two, dynamic=dynamic)
    mine, theirs = torch.arange(24.0).reshape(4, 6), torch.arange(24.0).reshape(4, 6)
    for _ in range(2):
        got = run(mine[1:3], mine.t()[:4, 1:3])
        want = one_of_two(theirs[1:3], theirs.t()[:4, 1:3])
        torch.testing.assert_close((got, mine), (want, theirs))
    assert backend.calls == 1


def test_one_tensor_given_twice():
    run, _ = compiled(one_of_two)
    x, y = torch.arange(6.0), torch.arange(6.0)
    got, want = run(x, x), one_of_two(y, y)
    torch.testing.assert_close(got, want)
    assert torch.equal(x, y)


def test_cache_is_written_in_place():
    def step(cache: Tensor, position: Tensor, k: Tensor) -> Tensor:
        cache.index_copy_(1, position, k)
        return cache.sum((0, 2))

    run, backend = compiled(step)
    cache, mirror = torch.zeros(2, 16, 8), torch.zeros(2, 16, 8)
    address = cache.data_ptr()
    for i in range(4):
        k, at = torch.randn(2, 1, 8), torch.tensor([i])
        torch.testing.assert_close(run(cache, at, k), step(mirror, at, k))
        assert torch.equal(cache, mirror)
        assert cache.data_ptr() == address
    assert backend.calls == 1


def test_failed_index_leaves_the_cache_usable():
    def step(cache: Tensor, position: Tensor) -> Tensor:
        cache[:, position] = 1
        return cache * 2

    run, _ = compiled(step)
    cache = torch.zeros(2, 4)
    with pytest.raises(IndexError):
        run(cache, torch.tensor([7]))
    run(cache, torch.tensor([2]))
    assert cache[:, 2].tolist() == [1, 1]


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.count.add_(x)
        return self.count, self.count * 2


def test_module_returns_the_buffer_it_changed():
    module, twin = Counter(), Counter()
    run, backend = compiled(module)
    for i in range(3):
        x = torch.full((3,), float(i))
        got, want = run(x), twin(x)
        torch.testing.assert_close(got, want)
        assert got[0] is module.count
    assert backend.calls == 1


# --- inputs ---------------------------------------------------------------------------------------


def test_lazily_negated_and_conjugated_inputs():
    z = torch.randn(3, 4, dtype=torch.complex64)
    negated = z.conj().imag
    assert negated.is_neg()
    run, _ = compiled(lambda x: x * 2 + 1)
    torch.testing.assert_close(run(negated), negated * 2 + 1)
    torch.testing.assert_close(run(negated.resolve_neg()), negated * 2 + 1)
    run, _ = compiled(lambda x: (x * 2).real + 1)
    torch.testing.assert_close(run(z.conj()), (z.conj() * 2).real + 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.arange(48.0).reshape(6, 8)[::2, 1::3],
        lambda: torch.arange(48.0).reshape(6, 8)[2:],
        lambda: torch.arange(8.0).expand(5, 8),
        lambda: torch.arange(5.0).unsqueeze(1).expand(5, 8),
        lambda: torch.tensor(3.0).expand(4, 5),
        lambda: torch.arange(48.0).as_strided((3, 4, 5), (7, 3, 1), 2),
        lambda: torch.arange(48.0).as_strided((4, 3), (1, 1), 5),
        lambda: torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1),
        lambda: torch.zeros(0, 4).t(),
        lambda: torch.tensor(2.0),
    ],
)
def test_layouts_of_inputs(make: Callable[[], Tensor]):
    check(lambda x: [x * 2, x.sum(), x.sum(-1), x.clone()], make())


def test_storage_offset_may_change_between_calls():
    run, backend = compiled(lambda x: x * 2)
    rows = torch.arange(40.0).reshape(10, 4)
    for i in range(7):
        torch.testing.assert_close(run(rows[i : i + 3]), rows[i : i + 3] * 2)
    assert backend.calls == 1


def test_extents_may_change_without_compiling_again():
    run, backend = compiled(lambda x: x * x.shape[0] + x.sum(1, keepdim=True), dynamic=True)
    for n, m in ((4, 6), (9, 3), (2, 2), (33, 5)):
        x = torch.arange(float(n * m)).reshape(n, m)
        torch.testing.assert_close(run(x), x * n + x.sum(1, keepdim=True))
    assert backend.calls == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(1)[: x.shape[1] // 2] * x.sum(1),
        lambda x: torch.fmin(x.narrow(-1, 1, 1), x.unfold(-1, 2, 2)),
    ],
)
def test_broadcast_of_an_extent_that_a_guard_fixes(function: Callable[[Tensor], Tensor]):
    """Its expression is no symbol, so PyTorch keeps it and guards that it is 1."""
    run, backend = compiled(function, dynamic=True)
    x = torch.arange(6.0).reshape(2, 3)
    torch.testing.assert_close(run(x), function(x))
    assert backend.calls == 1


def test_strides_whose_sign_nothing_proves():
    """Those of a buffer are not negative: its dims are walked in any order, and in pieces."""

    def joined(x: Tensor) -> Tensor:
        half, third = x.shape[1] // 2 - 2, x.shape[1] // 3 - 1
        return torch.cat([x[:, half:], x[:, third:] * 2], 1)

    run, backend = compiled(joined, dynamic=True)
    for rows, columns in ((4, 16), (3, 9), (2, 11)):
        x = torch.randn(rows, columns, 3)
        with Report() as report:
            torch.testing.assert_close(run(x), joined(x), rtol=0, atol=0)
        assert report.kernels
        assert not report.fallbacks
    assert backend.calls == 1


def test_reversed_view_with_symbolic_extents():
    def function(x: Tensor) -> Tensor:
        return x.reshape(-1, x.shape[-2]).flip(0)

    run, backend = compiled(function, dynamic=True)
    for shape in ((7, 4, 3), (2, 5, 6)):
        x = torch.randn(shape)
        assert torch.equal(run(x), function(x))
    assert backend.calls == 1


def test_weights_are_live():
    torch.manual_seed(0)
    module, other = nn.Linear(4, 3), nn.Linear(4, 3)
    run, backend = compiled(module)
    x = torch.randn(2, 4)
    with torch.no_grad():
        torch.testing.assert_close(run(x), module(x))
        module.load_state_dict(other.state_dict())
        torch.testing.assert_close(run(x), other(x))
        assert backend.calls == 1
        third = nn.Linear(4, 3)
        module.load_state_dict(third.state_dict(), assign=True)
        torch.testing.assert_close(run(x), third(x))
        module.weight.add_(1)
        torch.testing.assert_close(run(x), x @ module.weight.t() + module.bias)


def test_empty_view_that_would_start_before_its_storage():
    check(lambda x: [x.flip(0), x.flip(0, 1) + 1], torch.zeros(0, 3))


# --- threads --------------------------------------------------------------------------------------


def test_threads_share_a_compiled_function():
    def function(x: Tensor) -> Tensor:
        return torch.softmax(x @ x.t(), -1) + x.sum()

    run, _ = compiled(function)
    shapes = [(3, 4), (5, 2), (8, 8)]
    for shape in shapes:
        run(torch.ones(shape))
    barrier = threading.Barrier(4)

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        barrier.wait()
        for i in range(12):
            x = torch.randn(shapes[(i + seed) % 3], generator=generator)
            torch.testing.assert_close(run(x), function(x))

    with ThreadPoolExecutor(4) as pool:
        for job in [pool.submit(work, seed) for seed in range(4)]:
            job.result()


def test_compiling_while_another_function_runs():
    run, _ = compiled(lambda x: (x @ x).relu().sum(0))
    x = torch.randn(16, 16)
    want, stop, wrong = run(x), threading.Event(), []

    def work() -> None:
        while not stop.is_set():
            if not torch.equal(run(x), want):
                wrong.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for k in range(3):
            other, _ = compiled(lambda y, k=k: y * k + y.cumsum(0))
            y = torch.arange(5.0)
            torch.testing.assert_close(other(y), y * k + y.cumsum(0))
    finally:
        stop.set()
        thread.join()
    assert not wrong


# --- lifetime -------------------------------------------------------------------------------------


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def live_tensors() -> int:
    gc.collect()
    return sum(isinstance(o, Tensor) for o in gc.get_objects())


@pytest.mark.filterwarnings("ignore")
def test_nothing_is_kept_between_calls():
    run, _ = compiled(lambda x: (x * 2 + 1).sum(0))
    x = torch.randn(64, 64)
    for _ in range(50):
        run(x)
    tensors, memory = live_tensors(), resident_bytes()
    for _ in range(1000):
        run(x)
    assert live_tensors() <= tensors
    assert resident_bytes() - memory < 4 << 20


def test_inputs_and_outputs_die_with_their_last_reference():
    run, _ = compiled(lambda x, y: (x @ y, x.t()))
    x, y = torch.randn(3, 4), torch.randn(4, 5)
    out = run(x, y)
    alive = [weakref.ref(t) for t in (x, y, out[0])]
    del x, y, out
    gc.collect()
    assert [r() for r in alive] == [None] * 3


# --- failures -------------------------------------------------------------------------------------


def test_index_out_of_range():
    run, backend = compiled(lambda x, i: x[i] + 1)
    x = torch.randn(5)
    with pytest.raises(IndexError, match=r"out of (range|bounds)"):
        run(x, torch.tensor([1, 5]))
    torch.testing.assert_close(run(x, torch.tensor([1, -5])), x[[1, 0]] + 1)
    assert backend.calls == 1


def test_integer_division_by_zero():
    run, _ = compiled(lambda x, y: x // y)
    x, y = torch.tensor([4, 9]), torch.tensor([2, 0])
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        x // y
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run(x, y)
    assert run(x, torch.tensor([2, 3])).tolist() == [2, 3]


def test_failure_does_not_keep_inputs():
    run, _ = compiled(lambda x, i: x[i])
    x = torch.randn(5)
    alive = weakref.ref(x)
    with pytest.raises(IndexError):
        run(x, torch.tensor([9]))
    del x
    gc.collect()
    assert alive() is None


def test_refused_operator_is_named_with_its_line():
    def function(x: Tensor) -> Tensor:
        return torch.linalg.inv(x) + 1  # refused here

    run, _ = compiled(function, options={"fallback": "error"})
    with pytest.raises(Exception, match=r"aten\.linalg_inv_ex") as raised:
        run(torch.eye(3))
    line = function.__code__.co_firstlineno + 1
    assert f"{__file__}:{line}" in str(raised.value)
    assert "float32[3, 3]" in str(raised.value)


def test_the_captured_graph_is_not_kept():
    captured: list[weakref.ref[Any]] = []

    def backend(gm: Any, example_inputs: Any) -> Any:
        captured.append(weakref.ref(gm))
        return lpu_mlir(gm, example_inputs)

    run = torch.compile(nn.Linear(3, 3), backend=backend)
    run(torch.ones(2, 3)).sum().backward()
    gc.collect()
    assert [graph() for graph in captured] == [None]
    run(torch.ones(2, 3)).sum().backward()
    assert len(captured) == 1


LAZY = {
    "conjugated": lambda x: torch.complex(x, x + 1).conj(),
    "negated": torch._neg_view,
    "imaginary part of a conjugate": lambda x: torch.complex(x, x + 1).conj().imag,
}


@pytest.mark.parametrize("name", LAZY)
def test_lazy_arguments_are_written(name: str):
    def function(x):
        x.mul_(2)
        return x[1:], x + 1

    run, backend = compiled(function)
    for _ in range(2):
        given, again = LAZY[name](torch.arange(4.0)), LAZY[name](torch.arange(4.0))
        (view, more), (expected_view, expected) = run(given), function(again)
        assert torch.equal(given, again)
        assert torch.equal(more, expected)
        assert torch.equal(view, expected_view)
        assert storage(view) == storage(given)
        assert (given.is_conj(), given.is_neg()) == (again.is_conj(), again.is_neg())
    assert backend.calls == 1


AT_EXIT = """
import atexit
import torch

run = torch.compile(lambda x: torch.tanh(x) * 3, backend="lpu_mlir", dynamic=False)
run(torch.ones(3))
atexit.register(lambda: print(run(torch.zeros(5, 7)).shape))
"""


def test_compiling_while_the_interpreter_ends():
    environment = {**os.environ, "LPU_MLIR_CACHE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "torch.Size([5, 7])\n"), done.stderr


def test_a_backward_pass_may_run_again():
    """Nothing that was saved for it is overwritten, so that PyTorch need not forbid it."""
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.GELU(), torch.nn.Linear(3, 3))

    def gradients(function: Any) -> list[Tensor]:
        module.zero_grad()
        torch.manual_seed(0)
        loss = function(torch.randn(2, 3)).sum()
        loss.backward(retain_graph=True)
        loss.backward()
        return [p.grad.clone() for p in module.parameters() if p.grad is not None]

    torch._dynamo.reset()
    with Report() as report:
        found = gradients(torch.compile(module, backend="lpu_mlir"))
    assert [graph.runs for graph in report.graphs] == [1, 2]
    torch.testing.assert_close(found, gradients(module))
