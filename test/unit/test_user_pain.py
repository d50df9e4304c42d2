"""What users of such backends complain about, a kind each: our answer to it, on several inputs."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.exc import BackendCompilerFailed
from torch.nn import functional as F

import lpu_mlir
from lpu_mlir.frontend.errors import Unsupported

pytestmark = pytest.mark.sampled


@pytest.fixture(autouse=True)
def reset() -> None:
    torch._dynamo.reset()


class Counting:
    """The backend, and how many graphs it was given."""

    def __init__(self, **options: Any):
        self.options, self.graphs = options, 0

    def __call__(self, gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.graphs += 1
        return lpu_mlir.lpu_mlir(gm, inputs, options=self.options)


def compiled(function: Callable[..., Any], **options: Any) -> tuple[Any, Counting]:
    backend = Counting(**options)
    return torch.compile(function, backend=backend), backend


def check(function: Callable[..., Any], *inputs: Tensor) -> None:
    """Results, on inputs with just these strides."""
    ours, backend = compiled(function)
    result, expected = ours(*inputs), function(*inputs)
    assert backend.graphs > 0
    torch.testing.assert_close(result, expected, equal_nan=True)


# --- 1: recompiles on every new shape -----------------------------------------------------------


def scaled_sum(x: Tensor) -> Tensor:
    return x.sum(0) * x.shape[0]


def table(x: Tensor) -> Tensor:
    return torch.full((x.shape[0], x.shape[0]), 2.5) + x


def rows_and_columns(x: Tensor) -> Tensor:
    return F.softmax(x, -1).reshape(x.shape[1], -1).cumsum(0)


@pytest.mark.parametrize("function", [scaled_sum, table])
def test_01_sizes(function):
    ours, backend = compiled(function)
    for n in (2, 3, 5, 7, 11):
        torch.testing.assert_close(ours(torch.ones(n)), function(torch.ones(n)))
    assert backend.graphs == 2
    for n in (1, 0, 1, 0, 64):
        torch.testing.assert_close(ours(torch.ones(n)), function(torch.ones(n)))
    assert backend.graphs <= 4


def test_01_sizes_in_the_order_of_the_complaint():
    ours, backend = compiled(scaled_sum)
    for n in (1, 2, 3, 5, 0, 7):
        x = torch.randn(n, 3)
        torch.testing.assert_close(ours(x), scaled_sum(x))
    assert backend.graphs == 3


@pytest.mark.parametrize("function", [scaled_sum, table, rows_and_columns])
def test_01_sizes_that_are_marked(function):
    ours, backend = compiled(function)
    for n in (2, 3, 5, 64):
        x = torch.randn(n) if function is not rows_and_columns else torch.randn(n, n + 1)
        torch._dynamo.mark_dynamic(x, 0, min=2, max=128)
        if x.dim() > 1:
            torch._dynamo.mark_dynamic(x, 1)
        torch.testing.assert_close(ours(x), function(x))
    assert backend.graphs == 1


# --- 2: strided, offset, expanded, transposed ---------------------------------------------------

T = torch.randn(8, 10)
BUFFER = torch.randn(200)
VIEWS = {
    "every other row": T[1::2, :],
    "every other column": T[:, ::2],
    "strides": BUFFER.as_strided((3, 4, 5), (40, 10, 2), 1),
    "expanded": torch.randn(3, 1).expand(3, 5),
    "transposed": T.t(),
    "permuted": torch.randn(2, 3, 4).permute(2, 0, 1),
    "overlapping": BUFFER.as_strided((4, 6), (3, 1), 7),
    "no element": T[3:3],
    "one element": T[2, 3],
}


@pytest.mark.parametrize("view", VIEWS)
def test_02_views_as_inputs(view):
    check(lambda x: (x * 2, x.sum(), x.reshape(-1).flip(0), x + x), VIEWS[view])


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x[1::2, :],
        lambda x: x[:, ::2].contiguous(),
        lambda x: x.as_strided((3, 2), (2, 1), 5),
        lambda x: x[:1].expand(4, -1),
        lambda x: x.t()[2:, 1:],
        lambda x: x.unfold(1, 4, 3),
        lambda x: x.diagonal(1),
    ],
)
def test_02_views_inside(make):
    check(lambda x: make(x) * 2 + 1, torch.randn(8, 10))
    check(lambda x: make(x + 1), torch.randn(8, 10))


# --- 3: missing operators -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.any(x > 1),
        lambda x: torch.all(x > -9, 1),
        lambda x: torch.cumsum(x, 0),
        lambda x: torch.diag(x[0]) @ x.t(),
        lambda x: torch.linalg.svdvals(x),
        lambda x: torch.histc(x, 5),
    ],
)
def test_03_operators(function):
    check(function, torch.randn(4, 6))


@torch.library.custom_op("lpu_mlir_pain::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    return x * 2


@twice.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


@pytest.mark.parametrize(
    ("function", "name", "types"),
    [
        (lambda x: torch.linalg.svdvals(x) + 1, "aten._linalg_svd", "float32[4, 6]"),
        (lambda x: twice(x + 1), "lpu_mlir_pain.twice.default", "float32[4, 6]"),
    ],
)
def test_03_a_refusal_names_what_and_where(function, name, types):
    with pytest.raises((Unsupported, BackendCompilerFailed)) as caught:
        torch.compile(function, backend="lpu_mlir", options={"fallback": "error"})(
            torch.randn(4, 6)
        )
    told = str(caught.value)
    assert name in told
    assert types in told
    assert "test_user_pain.py" in told
    assert "fallback" in told


# --- 4: dtypes ----------------------------------------------------------------------------------

WHOLE = torch.arange(1, 7)
TRUE = torch.tensor([True, False, True] * 2)
HALF = torch.randn(6).bfloat16()


@pytest.mark.parametrize(
    "function",
    [
        lambda: torch.where(TRUE, HALF, HALF * 2),
        lambda: WHOLE.double() * 2,
        lambda: WHOLE + HALF.float(),
        lambda: TRUE.sum(),
        lambda: WHOLE / WHOLE,
        lambda: WHOLE // 4,
        lambda: HALF * 2.5,
        lambda: HALF + WHOLE,
        lambda: TRUE + TRUE,
        lambda: WHOLE.int() * torch.tensor(2.5),
        lambda: HALF.half() * HALF.float(),
        lambda: torch.stack([HALF, HALF]).mean(),
        lambda: WHOLE.to(torch.uint8) - 7,
    ],
)
def test_04_dtypes(function):
    def with_input(x: Tensor) -> tuple[Tensor, Tensor]:
        return function(), x + 1

    check(with_input, torch.ones(2))


def test_04_products_of_two_dtypes_are_refused_as_in_eager():
    x, y = torch.randn(3, 3), torch.randn(3, 3).bfloat16()
    with pytest.raises(Exception, match="dtype"):
        torch.compile(lambda x, y: x @ y, backend="lpu_mlir")(x, y)


# --- 5: in place --------------------------------------------------------------------------------


def returns_what_it_changes(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x.clone()
    x.mul_(2)
    return y, x


def transposed_in_place(x: Tensor) -> Tensor:
    x.t().add_(1)
    return x * 2


def slice_in_place(x: Tensor) -> Tensor:
    x[1:, ::2] = 7
    return x[:2]


def diagonal_in_place(x: Tensor) -> Tensor:
    x.diagonal().zero_()
    return x.sum(0)


@pytest.mark.parametrize(
    "function", [returns_what_it_changes, transposed_in_place, slice_in_place, diagonal_in_place]
)
def test_05_in_place(function):
    for make in (torch.randn(4, 4), torch.randn(4, 8)[:, ::2], torch.randn(4, 4).t()):
        ours, backend = compiled(function)
        a, b = (
            make.clone(memory_format=torch.preserve_format),
            make.clone(memory_format=torch.preserve_format),
        )
        result, expected = ours(a), function(b)
        assert backend.graphs
        torch.testing.assert_close(result, expected)
        torch.testing.assert_close(a, b)


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.count += x
        return self.count


def test_05_a_buffer_that_is_changed_and_returned():
    model = Counter()
    ours, backend = compiled(model)
    first = ours(torch.ones(3))
    second = ours(torch.ones(3))
    assert backend.graphs == 1
    assert torch.equal(model.count, torch.full((3,), 2.0))
    assert first.data_ptr() == second.data_ptr() == model.count.data_ptr()


@pytest.mark.parametrize("overlap", [0, 4, 8])
def test_05_inputs_that_share_memory(overlap):
    def function(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        return x + y

    ours, backend = compiled(function)
    results = []
    for call in (ours, function):
        base = torch.arange(16.0)
        results.append((call(base[:8], base[overlap : overlap + 8]), base))
    assert backend.graphs
    torch.testing.assert_close(results[0], results[1])


# --- 6: caches of keys and values ---------------------------------------------------------------


@pytest.mark.parametrize("how", ["index_copy_", "index_put", "slice"])
def test_06_a_step_writes_its_slice(how):
    def function(cache: Tensor, position: Tensor, k: Tensor) -> Tensor:
        if how == "index_copy_":
            cache.index_copy_(2, position, k)
        elif how == "index_put":
            cache[:, :, position] = k
        else:
            cache[:, :, 5:6] = k
        return cache[:, :, :8].sum()

    ours, backend = compiled(function)
    cache, k, position = torch.zeros(1, 2, 4096, 64), torch.randn(1, 2, 1, 64), torch.tensor([5])
    expected = cache.clone()
    place = cache.data_ptr()
    with lpu_mlir.Report() as report:
        result = ours(cache, position, k)
    assert backend.graphs == 1
    torch.testing.assert_close(result, function(expected, position, k))
    torch.testing.assert_close(cache, expected)
    assert cache.data_ptr() == place
    assert sum(kernel.dram_written for kernel in report.kernels) < 16 * k.nbytes


# --- 7: compile time and caches: see test_stored.py, test_cache.py ------------------------------

TWO_PROCESSES = """
import torch, lpu_mlir
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
with torch.no_grad():
    torch.compile(model, backend="lpu_mlir", options={options})(torch.ones(2, 16))
print(lpu_mlir.cache_info().hits.get("program", 0))
"""


@pytest.mark.slow
def test_07_a_second_process_does_not_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LPU_MLIR_CACHE_DIR", str(tmp_path / "ours"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "pytorch"))
    monkeypatch.setenv("LPU_MLIR_CACHE", "1")

    def hits(options: str) -> int:
        program = TWO_PROCESSES.replace("{options}", options)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    assert [hits("{}"), hits("{}"), hits("{'target': 'tiny'}")] == [0, 1, 0]


# --- 8: fallbacks -------------------------------------------------------------------------------


FOREIGN = {
    "aten.lgamma.default": torch.lgamma,
    "aten.cholesky_solve.default": lambda x: torch.cholesky_solve(x, x),
    "lpu_mlir_pain.twice.default": twice,
}
"""Operators that run on the host."""


def with_one_foreign(name: str) -> Callable[[Tensor], Tensor]:
    def function(x: Tensor) -> Tensor:
        y = (x @ x).relu() + 1
        z = FOREIGN[name](y)
        return (z @ x).softmax(-1) * 2

    return function


@pytest.mark.parametrize("interpreter", ["native", "reference"])
@pytest.mark.parametrize("name", FOREIGN)
def test_08_one_call_outside_is_seen(name, interpreter):
    function = with_one_foreign(name)
    ours, _ = compiled(function, interpreter=interpreter)
    x = torch.eye(4) + 0.1
    with lpu_mlir.Report() as report:
        torch.testing.assert_close(ours(x), function(x))
    (graph,) = report.graphs
    (fallback,) = graph.fallbacks
    assert (fallback.overload, fallback.count) == (name, 1)
    assert "test_user_pain.py" in fallback.source
    assert report.partitions == 2
    assert "native in 2 partitions, 1 on the host" in str(report)


@pytest.mark.parametrize("name", FOREIGN)
def test_08_calls_outside_can_be_errors(name):
    ours = torch.compile(with_one_foreign(name), backend="lpu_mlir", options={"fallback": "error"})
    with pytest.raises(Exception, match=rf"{name}(?s:.)*test_user_pain.py"):
        ours(torch.eye(4))


# --- 9: what depends on data --------------------------------------------------------------------


def masked_in_place(x: Tensor) -> Tensor:
    x = x.clone()
    x[x > 0] = 0.0
    return x


def up_to(x: Tensor) -> Tensor:
    n = (x > 0).sum().item()
    torch._check(n <= x.shape[0])
    return x[:n] * 2


@pytest.mark.parametrize(
    "function",
    [
        masked_in_place,
        lambda x: torch.nonzero(x > 0) + 1,
        lambda x: x[x > 0] * 2,
        lambda x: x[x > 0].sum() + torch.nonzero(x < 0).shape[0],
        up_to,
        lambda x: x.masked_select(x < 0).exp(),
    ],
)
def test_09_data(function):
    ours, backend = compiled(function)
    captured = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
    with torch._dynamo.config.patch(**captured):
        for x in (torch.randn(9), torch.ones(9), -torch.ones(9), torch.randn(9)):
            torch.testing.assert_close(ours(x), function(x))
    assert backend.graphs


# --- 10: masked softmax -------------------------------------------------------------------------

INF = float("inf")


@pytest.mark.parametrize(
    "row", [[-INF, -INF], [-INF, INF], [INF, INF], [1e14, -1e14], [float("nan"), 1.0]]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_10_softmax(row, dtype):
    x = torch.tensor([row, [1.0, 2.0]], dtype=dtype)
    check(lambda x: (x.softmax(-1), x.log_softmax(-1), x.logsumexp(-1), x.softmax(0)), x)


@pytest.mark.parametrize("masked", ["none", "one row", "all"])
def test_10_attention_of_masked_rows(masked):
    q, k, v = (torch.randn(1, 2, 4, 8) for _ in range(3))
    mask = torch.ones(4, 4, dtype=torch.bool).tril()
    if masked != "none":
        mask[1 if masked == "one row" else slice(None)] = False
    check(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m), q, k, v, mask)


# --- 11: weights ---------------------------------------------------------------------------------


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("freeze", [False, True])
def test_11_weights_are_alive(assign, freeze):
    model, other = nn.Linear(4, 4), nn.Linear(4, 4)
    ours = torch.compile(model, backend="lpu_mlir", options={"freeze": freeze})
    x = torch.randn(2, 4)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), model(x))
        model.load_state_dict({k: v.clone() for k, v in other.state_dict().items()}, assign=assign)
        torch.testing.assert_close(ours(x), other(x))
        model.weight.add_(1)
        torch.testing.assert_close(ours(x), model(x))


def test_11_adapters_and_ties():
    class Adapted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base = nn.Linear(4, 4, bias=False)
            self.tied = nn.Linear(4, 4, bias=False)
            self.tied.weight = self.base.weight
            self.down, self.up = nn.Parameter(torch.randn(2, 4)), nn.Parameter(torch.zeros(4, 2))

        def forward(self, x: Tensor) -> Tensor:
            return self.base(x) + x @ self.down.t() @ self.up.t() + self.tied(x)

    model = Adapted()
    ours, backend = compiled(model)
    x = torch.randn(2, 4)
    torch.testing.assert_close(ours(x), model(x))
    with torch.no_grad():
        model.up.normal_()
        model.base.weight.mul_(2)
    torch.testing.assert_close(ours(x), model(x))
    model.base.weight.requires_grad_(False)
    torch.testing.assert_close(ours(x), model(x))
    assert backend.graphs >= 1


# --- 12: training -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.pow(x, 2).sum(),
        lambda x: x.cumprod(0).sum(),
        lambda x: F.layer_norm(x, (4,)).square().sum(),
        lambda x: torch.where(x > 0, x.sqrt(), x.exp()).sum(),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_12_gradients(function, dtype):
    grads = []
    for call in (torch.compile(function, backend="lpu_mlir"), function):
        x = (torch.arange(1, 9).view(2, 4) / 4).to(dtype).requires_grad_()
        call(x).backward()
        grads.append(x.grad)
    torch.testing.assert_close(grads[0], grads[1])


class Broken(torch.autograd.Function):
    """Its backward has an operator that is refused."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return twice(grad) * x


@pytest.mark.filterwarnings("ignore:.*autograd.function.Function:DeprecationWarning")
def test_12_an_error_in_backward_names_its_line():
    function = torch.compile(
        lambda x: Broken.apply(x).sum(), backend="lpu_mlir", options={"fallback": "error"}
    )
    x = torch.randn(3, requires_grad=True)
    with pytest.raises((Unsupported, BackendCompilerFailed)) as caught:
        function(x).backward()
    told = str(caught.value)
    assert "lpu_mlir_pain.twice.default" in told
    assert "test_user_pain.py" in told


# --- 13: memory ---------------------------------------------------------------------------------

WEIGHT_MEMORY = """
import resource, torch, lpu_mlir
def resident():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) >> 10
torch.compile(lambda x: x + 1, backend="lpu_mlir")(torch.ones(3))
model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(6)))
compiled = torch.compile(model, backend="lpu_mlir")
before = resident()
with torch.no_grad():
    for _ in range(3):
        compiled(torch.ones(4, 2048))
print(resident() - before)
"""


@pytest.mark.slow
def test_13_no_second_copy_of_weights():
    done = subprocess.run([sys.executable, "-c", WEIGHT_MEMORY], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 60  # MB; the weights are 96


# --- 14: options --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"typo": 1}, "expected some of"),
        ({"freeze": "no"}, "must be bool"),
        ({"fallback": "hosts"}, "expected one of"),
        ({"interpreter": None}, "must be str"),
    ],
)
def test_14_wrong_options_are_told(options, message):
    with pytest.raises(Exception, match=message):
        torch.compile(lambda x: x + 1, backend="lpu_mlir", options=options)(torch.ones(2))


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", None])
def test_14_modes(mode):
    function = torch.compile(lambda x: x + 1, backend="lpu_mlir", mode=mode)
    torch.testing.assert_close(function(torch.ones(2)), torch.full((2,), 2.0))


# --- 15: threads --------------------------------------------------------------------------------


def test_15_threads_with_shapes_of_their_own():
    def function(x: Tensor) -> Tensor:
        return (x.softmax(-1) @ x.t()).sum(0) + x.shape[0]

    ours, backend = compiled(function)
    shapes = [(3, 4), (5, 4), (8, 4)]
    for shape in shapes:
        ours(torch.ones(shape))
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        try:
            for turn in range(60):
                x = torch.randn(shapes[turn % 3], generator=generator)
                torch.testing.assert_close(ours(x), function(x))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert backend.graphs <= 2
