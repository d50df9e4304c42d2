"""Programs as machine code: what they leave to PyTorch, memory, failures, threads."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import lpu_mlir
from lpu_mlir.compile import compile_fx
from lpu_mlir.interpreter.native.pool import pool
from lpu_mlir.options import Options
from lpu_mlir.reproducer import CompileError
from lpu_mlir.runtime import native
from lpu_mlir.runtime.describe import kernels
from lpu_mlir.runtime.executable import Executable

pytestmark = pytest.mark.sampled

NATIVE = {"interpreter": "native"}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    return torch.compile(function, backend="lpu_mlir", options=NATIVE, fullgraph=True, **options)


def graph(function: Callable[..., Any], *inputs: Tensor) -> Executable:
    """A function of ATen operators compiled as it is."""
    return compile_fx(make_fx(function)(*inputs), inputs, Options(interpreter="native"))


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("count", [1, 3, 64])
def test_the_sign_of_a_double_in_half_precision(count: int):
    """LLVM must not need a function to narrow f64 to f16 in one step: there is none."""
    x, y = torch.linspace(-2, 3, count).half(), torch.linspace(3, -2, count).double()
    result = compiled(lambda x, y: torch.copysign(x, y).half())(x, y)
    assert torch.equal(result, torch.copysign(x, y).half())


# --- what is left to PyTorch --------------------------------------------------------------------


class Seen(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.operators: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operators.add(str(func))
        return func(*args, **(kwargs or {}))


ALLOCATIONS = {
    "aten.empty.memory_format",
    "aten.empty_strided.default",
    "aten.set_.source_Storage_storage_offset",
}


def layers(x: Tensor, w: Tensor) -> list[Tensor]:
    for _ in range(3):
        x = torch.tanh(x @ w) + x.softmax(-1)
    return [x, x.sum(0)]


def test_pytorch_is_asked_for_memory_alone():
    x, w = torch.randn(600, 512), torch.randn(512, 512) / 50
    run = graph(layers, x, w)
    for _ in range(2):
        with Seen() as seen:
            got = run([x, w])
        assert seen.operators <= ALLOCATIONS
        assert "aten.empty_strided.default" in seen.operators
    torch.testing.assert_close(got, layers(x, w), rtol=1e-5, atol=1e-4)


def test_host_calls_are_pytorchs():
    x = torch.rand(4, 4)
    run = graph(lambda x: [torch.i0(x + 1) * 2], x)
    with Seen() as seen:
        run([x])
    assert "aten.i0.default" in seen.operators
    assert seen.operators <= {*ALLOCATIONS, "aten.i0.default"}


# --- memory -------------------------------------------------------------------------------------


def test_large_results_are_never_given_twice():
    x = torch.randn(1024, 1024)
    run = compiled(lambda x: (x + 1, x * 2))
    first, second = run(x)
    again, view = run(x)[0], run(x)[1][5]
    for _ in range(5):
        run(-x)
    torch.testing.assert_close(first, x + 1)
    torch.testing.assert_close(second, x * 2)
    torch.testing.assert_close(again, x + 1)
    torch.testing.assert_close(view, x[5] * 2)


def test_what_backward_needs_is_kept():
    model = nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 512), nn.Tanh())
    xs = [torch.randn(1024, 64, requires_grad=True) for _ in range(3)]
    run = compiled(model)
    losses = [run(x).square().sum() for x in xs]  # several graphs wait for their backward pass
    for loss in reversed(losses):
        loss.backward()
    found = [x.grad for x in xs] + [p.grad for p in model.parameters()]
    for tensor in [*xs, *model.parameters()]:
        tensor.grad = None
    for x in xs:
        model(x).square().sum().backward()
    wanted = [x.grad for x in xs] + [p.grad for p in model.parameters()]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-3)


def test_results_that_do_not_fit_are_pytorchs_error():
    x = torch.ones(1).expand(1 << 46)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        compiled(lambda x: x + 1)(x)


def test_a_program_leaves_with_its_last_reference():
    x = torch.randn(512, 1024)
    run = graph(lambda x: [x + 1], x)
    code = next(iter(run.program.functions["main"].steps[0].__closure__)).cell_contents
    assert code is not None
    run([x])
    del run, code
    gc.collect()
    again = graph(lambda x: [x + 1], x)
    torch.testing.assert_close(again([x])[0], x + 1)


# --- failures -----------------------------------------------------------------------------------


def gathers(x: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return x[i] + x.t()[j]


def test_the_check_that_fails_first_is_raised(threads: int):
    x = torch.randn(64, 64)
    run = compiled(gathers)
    good, bad = torch.arange(64), torch.arange(64)
    bad[50] = 64
    for _ in range(3):
        torch.testing.assert_close(run(x, good, good), gathers(x, good, good))
        for i, j in [(bad, good), (good, bad), (bad, bad)]:
            with pytest.raises(IndexError, match="out of"):
                run(x, i, j)


def test_division_by_zero():
    run = compiled(lambda x, y: x // y)
    x = torch.arange(8)
    torch.testing.assert_close(run(x, x + 1), x // (x + 1))
    with pytest.raises((ZeroDivisionError, RuntimeError), match="ZeroDivisionError"):
        run(x, x)


def test_a_kernel_without_machine_code_is_named(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: Any) -> Any:
        raise NotImplementedError("lpu_kernel.strange has no native form")

    monkeypatch.setattr(kernels, "emit_kernel", refuse)
    with pytest.raises(
        CompileError, match=r"no machine code for kernel @main_0: lpu_kernel\.strange"
    ):
        graph(lambda x: [x + 1], torch.ones(3))


# --- sizes --------------------------------------------------------------------------------------


def test_many_sizes(threads: int):
    def function(x: Tensor, w: Tensor) -> Tensor:
        y = (x @ w).relu()
        return torch.cat([y, y.flip(0)]).softmax(0) + x.sum()

    w = torch.randn(48, 40)
    run = compiled(function, dynamic=True)
    for rows in [5, 1000, *range(2, 150, 7), 5]:
        x = torch.randn(rows, 48)
        torch.testing.assert_close(run(x, w), function(x, w), rtol=1e-4, atol=1e-4)


def test_layers_whose_functions_are_called(threads: int):
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.norm = nn.Linear(48, 96), nn.Linear(96, 48), nn.LayerNorm(48)

        def forward(self, x: Tensor) -> Tensor:
            return x + self.b(torch.nn.functional.gelu(self.a(self.norm(x))))

    model = nn.Sequential(*(Layer() for _ in range(6)))
    x = torch.randn(7, 48)
    with torch.no_grad(), lpu_mlir.Report() as report:
        torch.testing.assert_close(compiled(model)(x), model(x), rtol=1e-4, atol=1e-4)
    assert "func.call" in report.ir("outline")
    assert max(kernel.launches for kernel in report.kernels) == 6


# --- threads ------------------------------------------------------------------------------------


FUNCTIONS: list[tuple[Callable[..., Any], tuple[int, ...]]] = [
    (lambda x: torch.tanh(x @ x.t()).softmax(-1), (96, 64)),
    (lambda x: (x + 1, (x * 2).sum(0), x.flip(0)), (700, 800)),
    (lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]).cumsum(-1), (33, 129)),
]


def test_threads_call_while_another_compiles():
    runs = [compiled(function, dynamic=False) for function, _ in FUNCTIONS]
    for run, (_, shape) in zip(runs, FUNCTIONS, strict=True):
        run(torch.randn(shape))
    done = threading.Event()
    more = [
        (x, make_fx(lambda x: [(x @ x.t()).tanh() * 2])(x))
        for x in (torch.randn(rows, 30) for rows in (20, 21, 22))
    ]

    def work(seed: int) -> int:
        generator = torch.Generator().manual_seed(seed)
        calls = 0
        while not done.is_set() or calls < 30:
            run, (function, shape) = runs[calls % 3], FUNCTIONS[calls % 3]
            x = torch.randn(shape, generator=generator)
            torch.testing.assert_close(run(x), function(x), rtol=1e-4, atol=1e-4)
            calls += 1
        return calls

    def compile_more() -> None:
        try:
            for x, traced in more:
                run = compile_fx(traced, [x], Options(interpreter="native"))
                torch.testing.assert_close(run([x])[0], (x @ x.t()).tanh() * 2)
        finally:
            done.set()

    with ThreadPoolExecutor(9) as executor:
        compiling = executor.submit(compile_more)
        working = [executor.submit(work, seed) for seed in range(8)]
        compiling.result()
        assert all(future.result() >= 30 for future in working)


def test_the_number_of_threads_may_change_between_calls():
    x = torch.randn(700, 800)
    run = graph(lambda x: [x.exp() + 1], x)
    before = torch.get_num_threads()
    try:
        for count in (1, 3, 2, 1, 4):
            torch.set_num_threads(count)
            torch.testing.assert_close(run([x])[0], x.exp() + 1)
            assert count == 1 or pool().helpers >= count - 1
    finally:
        torch.set_num_threads(before)


def test_a_result_may_be_used_by_another_thread_while_the_next_is_made():
    x = torch.zeros(1024, 1024)
    run = graph(lambda x: [x + 1], x)
    with ThreadPoolExecutor(1) as executor:
        for n in range(20):
            [y] = run([x + n])
            check = executor.submit(lambda y, n: bool((y == n + 1).all()), y, n)
            del y
            run([x - 1])
            assert check.result()


def test_logs_and_profiles_show_each_kernel(caplog: pytest.LogCaptureFixture):
    x = torch.randn(8, 8)
    run = graph(lambda x: [(x @ x).softmax(0)], x)
    expected = run([x])[0]
    with caplog.at_level("DEBUG", logger=native.KERNELS.name):
        got = run([x])[0]
    assert [r.message.split(":")[0] for r in caplog.records] == ["main_0", "main_1"]
    torch.testing.assert_close(got, expected, rtol=0, atol=0)


# --- inputs and memory of other kinds -----------------------------------------------------------


@pytest.mark.parametrize("rows", [3, 3000], ids=["small", "pooled"])
def test_a_default_device_is_not_where_programs_work(rows: int):
    def function(x: Tensor) -> list[Tensor]:
        return [x * 2 + 1, x.sum(1)]

    x = torch.randn(rows, 200)
    made = compiled(function)
    with torch.device("meta"):
        results = made(x)
    for result, expected in zip(results, function(x), strict=True):
        torch.testing.assert_close(result, expected)


def test_zeros_that_have_no_memory():
    made = compiled(lambda x: x * 2 + 1)
    zeros = torch._efficientzerotensor((5, 7))
    assert torch.equal(made(zeros), torch.ones(5, 7))
