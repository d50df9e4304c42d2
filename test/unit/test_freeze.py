"""`options={"freeze": True}`: what is computed once, when it is computed anew, and what is not."""

import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import lpu_mlir
from lpu_mlir import Report

pytestmark = pytest.mark.sampled


@pytest.fixture(autouse=True)
def inference() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch.no_grad():
        yield
    torch._dynamo.reset()


def compiled(function: Callable[..., Any], freeze: bool = True, **options: Any) -> Any:
    chosen = {"fallback": "error", "freeze": freeze, **options}
    return torch.compile(function, backend="lpu_mlir", fullgraph=True, options=chosen)


class Convolution(nn.Module):
    """A convolution and a batch norm with statistics of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, bias=False)
        self.norm = nn.BatchNorm2d(4)
        for tensor in (*self.norm.parameters(), *self.norm.buffers()):
            if tensor.is_floating_point():
                tensor.uniform_(0.5, 1.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x)).relu()


class Scaled(nn.Module):
    """A product by the exponential of a parameter."""

    def __init__(self, size: int = 6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight.exp()


def freezes(run: Callable[[], object]) -> int:
    """How often a call computes anew what is kept; it must call compiled code."""
    with Report() as report:
        run()
    assert sum(graph.runs for graph in report.graphs) == 1
    return sum(graph.freezes for graph in report.graphs)


def check(run: Any, model: nn.Module, *inputs: Tensor) -> int:
    """Compares a call with eager; how often it computes anew what is kept."""

    def call() -> None:
        torch.testing.assert_close(run(*inputs), model(*inputs))

    return freezes(call)


# --- what is computed once ----------------------------------------------------------------------


def test_batch_norm_becomes_a_scale_and_a_shift():
    model, x = Convolution().eval(), torch.randn(2, 3, 8, 8)
    reports: list[Report] = []
    for freeze in (False, True):
        torch._dynamo.reset()
        run = compiled(model, freeze)
        with Report() as report:
            for _ in range(2):
                torch.testing.assert_close(run(x), model(x))
        reports.append(report)
    plain, frozen = reports
    assert (plain.kept_bytes, plain.freeze_kernels) == (0, [])
    assert plain.ir("hoist-frozen") == plain.ir("import")
    assert "lpu.frozen" not in plain.ir("import")
    main, freeze = frozen.ir("fuse").split("@freeze")
    assert main.count("lpu_loop.nest") == 1
    assert "math." not in main
    assert "math.rsqrt" in freeze
    assert frozen.kept_bytes == 2 * 4 * 4
    assert [graph.freezes for graph in frozen.graphs] == [1]
    # Of four vectors two are left, in each of two calls; each is read once.
    assert plain.dram_bytes - frozen.dram_bytes == 2 * 2 * 4 * 4
    assert [kernel.launches for kernel in frozen.kernels] == [2]
    assert all(kernel.launches == 1 for kernel in frozen.freeze_kernels)
    assert f"frozen: {frozen.kept_bytes} bytes kept, computed 1 time" in str(frozen)
    assert "frozen" not in str(plain)


def test_a_narrower_weight_is_kept_under_autocast():
    model, x = nn.Linear(16, 8), torch.randn(2, 16)

    def narrow(x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return model(x)

    run = compiled(narrow)
    with Report() as report:
        torch.testing.assert_close(run(x), narrow(x))
    assert report.kept_bytes == (16 * 8 + 8) * 2  # the weight and the bias
    assert [kernel.dram_read for kernel in report.kernels] == [2 * 16 * 4 + (16 * 8 + 8) * 2]


def test_equal_layers_stay_one_function():
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.scale = nn.Linear(8, 8), nn.Parameter(torch.randn(8))

        def forward(self, x: Tensor) -> Tensor:
            for _ in range(4):
                x = torch.tanh(x * self.scale.exp() + x.abs()) - x.sigmoid()
            return self.linear(x)

    model, x = nn.Sequential(*(Layer() for _ in range(3))), torch.randn(2, 8)
    run = compiled(model)
    with Report() as report:
        torch.testing.assert_close(run(x), model(x))
    main, *others = report.ir("outline").split("func.func")[1:]
    assert main.count("func.call @layer") == 3
    assert report.kept_bytes == 3 * 8 * 4
    assert "exp" not in "".join(part for part in others if "@freeze" not in part)


@pytest.mark.slow
def test_with_sizes_that_change():
    model = Convolution().eval()
    run = torch.compile(
        model, backend="lpu_mlir", dynamic=True, options={"freeze": True, "fallback": "error"}
    )
    counts = [check(run, model, torch.randn(2, 3, size, size)) for size in (8, 9, 12)]
    assert counts == [1, 0, 0]


def test_what_depends_on_sizes_is_computed_at_each_call():
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("frequency", torch.rand(4))

        def forward(self, x: Tensor) -> Tensor:
            angle = torch.arange(x.shape[0])[:, None] * self.frequency
            return x * angle.cos() + x.exp() * angle.cos() - angle.cos()

    model = Table()
    run = torch.compile(
        model, backend="lpu_mlir", dynamic=True, options={"freeze": True, "fallback": "error"}
    )
    for size in (3, 7):
        assert check(run, model, torch.randn(size, 4)) == 0


def test_results_and_inputs_of_the_graph_are_the_callers():
    """What is kept is not handed out: a caller may write to what it got."""

    class Given(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return self.weight.exp(), x + self.weight.exp(), self.weight

    model, x = Given(), torch.randn(4)
    run = compiled(model)
    for _ in range(2):
        results = run(x)
        torch.testing.assert_close(results, model(x))
        assert results[2] is model.weight
        results[0].fill_(7)


# --- when it is computed anew -------------------------------------------------------------------


def load(model: Scaled) -> None:
    model.load_state_dict({"weight": torch.randn(6)})


def assign(model: Scaled) -> None:
    model.load_state_dict({"weight": torch.randn(6)}, assign=True)


def edit(model: Scaled) -> None:
    model.weight.add_(1)


def edit_view(model: Scaled) -> None:
    model.weight.detach()[2:].mul_(0.5)


def step(model: Scaled) -> None:
    optimizer = torch.optim.SGD([model.weight], lr=0.5)
    with torch.enable_grad():
        model(torch.ones(6)).sum().backward()
    optimizer.step()


def new_data(model: Scaled) -> None:
    model.weight.data = torch.randn(6)


def new_parameter(model: Scaled) -> None:
    model.weight = nn.Parameter(torch.randn(6))


def edit_as_another_parameter(model: Scaled) -> None:
    """The same storage, with a count of changes of its own that has come to the same number."""
    before = model.weight._version
    data = model.weight.data
    for _ in range(2):  # the second may come to where the one before the first was
        model.weight = nn.Parameter(data)
    while model.weight._version < before:
        model.weight.add_(1)


@pytest.mark.parametrize(
    "change",
    [
        load,
        assign,
        edit,
        edit_view,
        step,
        new_data,
        new_parameter,
        edit_as_another_parameter,
    ],
    ids=lambda change: change.__name__,
)
def test_a_change_is_seen(change: Callable[[Scaled], None]):
    model, x = Scaled(), torch.randn(6)
    model.weight.mul_(2)
    run = compiled(model)
    assert [check(run, model, x) for _ in range(3)] == [1, 0, 0]
    for _ in range(3):
        change(model)
        assert [check(run, model, x) for _ in range(2)] == [1, 0]


def test_new_data_at_the_same_address_is_seen():
    """As when the memory of a weight that is gone is used again."""
    model, x, memory = Scaled(), torch.randn(6), bytearray(6 * 4)
    run = compiled(model)
    for _ in range(4):
        memory[:] = torch.randn(6).numpy().tobytes()
        model.weight.data = torch.frombuffer(memory, dtype=torch.float32)
        assert check(run, model, x) == 1


def test_a_write_that_pytorch_does_not_see_can_be_told():
    model, x = Scaled(), torch.randn(6)
    run = compiled(model)
    check(run, model, x)
    before = model(x)
    model.weight.data.add_(1)
    torch.testing.assert_close(run(x), before)  # as docs/options.md says
    torch.autograd.graph.increment_version(model.weight)
    assert check(run, model, x) == 1


def test_weights_without_a_version_are_never_kept():
    with torch.inference_mode():
        model, x = Scaled(), torch.randn(6)
        run = compiled(model)
        for _ in range(2):
            model.weight.add_(1)
            assert check(run, model, x) == 1


def test_inference_mode_keeps_what_other_calls_use():
    model, x = Scaled(), torch.randn(6)
    run = compiled(model)
    with torch.inference_mode():
        assert check(run, model, x) == 1
        assert check(run, model, x) == 0


class Counter(nn.Module):
    """A buffer that each call changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(6))
        self.weight = nn.Parameter(torch.randn(6))

    def tick(self) -> None:
        self.count.add_(1)

    def read(self, x: Tensor) -> Tensor:
        return x + self.count.exp()

    def forward(self, x: Tensor) -> Tensor:
        self.count.add_(1)
        return x + (self.weight * self.count).exp() + self.weight.exp()


def test_a_buffer_that_the_graph_changes_is_not_frozen():
    model, again, x = Counter(), Counter(), torch.randn(6)
    again.load_state_dict(model.state_dict())
    run = compiled(model)
    for _ in range(3):
        torch.testing.assert_close(run(x), again(x))
        torch.testing.assert_close(model.count, again.count)
    with Report() as report:
        run(x)
    assert report.kept_bytes == 6 * 4  # the exponential of the weight


def test_a_buffer_that_another_graph_changes_is_seen():
    model, x = Counter(), torch.randn(6)
    tick, read = compiled(model.tick), compiled(model.read)
    for count in range(3):
        assert freezes(lambda: torch.testing.assert_close(read(x), model.read(x))) == 1
        assert model.count[0] == count
        tick()


def test_modules_that_share_a_graph_keep_their_own():
    models, x = [Scaled() for _ in range(3)], torch.randn(6)
    runs = [compiled(model) for model in models]
    with Report() as report:
        for _ in range(2):
            for run, model in zip(runs, models, strict=True):
                torch.testing.assert_close(run(x), model(x))
    assert len(report.graphs) == 1
    assert (report.graphs[0].freezes, report.kept_bytes) == (3, 3 * 6 * 4)
    # When a module is gone, so is at the next chance what was kept for it.
    del run, model, runs[1:], models[1:]
    gc.collect()
    models[0].weight.add_(1)
    with Report() as report:
        torch.testing.assert_close(runs[0](x), models[0](x))
    assert report.kept_bytes == 6 * 4


def test_a_failure_is_raised_each_time():
    class Indexed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.randn(5, 3))
            self.register_buffer("index", torch.tensor([1, 7]))

        def forward(self, x: Tensor) -> Tensor:
            return x + self.table[self.index]

    model, x = Indexed(), torch.randn(2, 3)
    run = compiled(model)
    for _ in range(2):
        with pytest.raises(IndexError):
            run(x)
    model.index.fill_(4)
    assert [check(run, model, x) for _ in range(2)] == [1, 0]


@pytest.mark.slow
def test_threads():
    """Several at once: one computes what is kept, and none sees a mixture."""
    model, x = Convolution().eval(), torch.randn(2, 3, 8, 8)
    run = compiled(model)
    check(run, model, x)
    start = threading.Barrier(4)

    def call(_: int) -> tuple[Tensor, list[int]]:
        start.wait()
        with torch.no_grad(), Report() as report:
            return run(x), [graph.freezes for graph in report.graphs]

    # A thread that asks for the number of threads while kernels run elsewhere gets another, and
    # Dynamo compiles again for it: let all ask before.
    with ThreadPoolExecutor(4, initializer=torch.get_num_threads) as pool:
        for _ in range(6):
            model.norm.weight.add_(1)
            expected = model(x)
            answers = list(pool.map(call, range(4)))
            for answer, _ in answers:
                torch.testing.assert_close(answer, expected)
            assert sorted(times for _, times in answers) == [[0], [0], [0], [1]]


# --- what is refused, and the tools -------------------------------------------------------------


def test_training_is_refused():
    run = compiled(Scaled())
    with torch.enable_grad(), pytest.raises(Exception, match=r"is for inference.*no_grad"):
        run(torch.randn(6))


def test_nothing_outlives_a_call_by_default():
    model, x = Scaled(), torch.randn(6)
    run = compiled(model, freeze=False)
    check(run, model, x)
    model.weight.data.add_(1)
    assert check(run, model, x) == 0


def test_interpreter_compare():
    model, x = Convolution().eval(), torch.randn(2, 3, 8, 8)
    run = compiled(model, interpreter="compare")
    torch.testing.assert_close(run(x), model(x))
    model.norm.weight.add_(1)
    torch.testing.assert_close(run(x), model(x))
    comparison = lpu_mlir.compare(model, options={"freeze": True})(x)
    assert (comparison.ok, comparison.calls) == (True, 1)


# --- models -------------------------------------------------------------------------------------


def rms(x: Tensor, weight: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


class Block(nn.Module):
    """A decoder layer as in Llama, with tables of angles from a buffer."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.qkv, self.out = nn.Linear(width, 3 * width, False), nn.Linear(width, width, False)
        self.gate, self.up = nn.Linear(width, 48, False), nn.Linear(width, 48, False)
        self.down = nn.Linear(48, width, False)
        self.norms = nn.Parameter(torch.rand(2, width))
        self.register_buffer("frequency", 1e4 ** -torch.linspace(0, 1, self.size // 2))

    def rotate(self, x: Tensor) -> Tensor:
        positions = torch.arange(x.shape[-2], dtype=torch.float32)
        angles = torch.outer(positions, self.frequency)
        angles = torch.cat((angles, angles), -1)
        first, second = x.chunk(2, -1)
        return x * angles.cos() + torch.cat((-second, first), -1) * angles.sin()

    def forward(self, x: Tensor) -> Tensor:
        b, n, width = x.shape
        y = self.qkv(rms(x, 1 + self.norms[0])).view(b, n, 3, self.heads, self.size)
        q, k, v = y.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, width))
        y = rms(x, 1 + self.norms[1])
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


@pytest.mark.slow
def test_llama_block():
    model, x = nn.Sequential(Block(), Block()), torch.randn(1, 6, 32)
    run = compiled(model)
    assert check(run, model, x) == 1
    assert check(run, model, x) == 0
    with Report() as report:
        run(x)
    assert report.kept_bytes >= 4 * 32 * 4  # two gains for each of two layers
    model[1].norms.mul_(2)
    assert check(run, model, x) == 1
