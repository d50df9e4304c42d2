"""Compiled graphs from the cache: when they come from there, when not, and what may go wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters

import lpu_mlir
from lpu_mlir import backend, stored
from lpu_mlir.cache import DiskCache
from lpu_mlir.interpreter.native import compile as native
from lpu_mlir.options import Options

pytestmark = pytest.mark.sampled

ROOT = Path(__file__).parents[2]


# --- in one process -----------------------------------------------------------------------------


def softmax(x: Tensor, y: Tensor) -> Tensor:
    return torch.softmax(x @ y, -1) * 2


INPUTS = (torch.randn(4, 8), torch.randn(8, 16))


class Caches:
    """Our cache and PyTorch's, empty at first."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.ours, self.torchs = DiskCache(directory / "ours", 1 << 30), directory / "torchs"

    def programs(self) -> list[Path]:
        return sorted((self.ours.root / "program").iterdir())

    def entries(self) -> list[Path]:
        """PyTorch's files."""
        return sorted(self.torchs.rglob("aotautograd/*/*"))

    def compile(
        self, fn: Callable[..., Any] = softmax, *args: Any, **options: Any
    ) -> lpu_mlir.Report:
        """Compiles and calls a function as a process would that has just begun."""
        torch._dynamo.reset()
        counters.clear()
        args = args or INPUTS
        with lpu_mlir.Report() as report:
            made = torch.compile(
                fn, backend="lpu_mlir", options={"interpreter": "native", **options}
            )
            torch.testing.assert_close(made(*args), fn(*args))
        return report

    def hits(self, fn: Callable[..., Any] = softmax, *args: Any, **options: Any) -> bool:
        """Whether all graphs of a function come from the cache."""
        return all(graph.from_cache for graph in self.compile(fn, *args, **options).graphs)


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Caches:
    found = Caches(tmp_path)
    found.torchs.mkdir()
    native.loader().image.cache_clear()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(found.torchs))
    for module in (stored, native):
        monkeypatch.setattr(module, "disk_cache", lambda: found.ours)
    return found


def test_a_second_compilation_is_loaded(caches: Caches):
    assert not caches.hits()
    assert counters["aot_autograd"]["autograd_cache_saved"] == 1
    assert len(caches.entries()) == len(caches.programs()) == 1
    assert caches.hits()
    assert counters["aot_autograd"]["autograd_cache_hit"] == 1
    assert caches.ours.hits["program"] == 1


def inverted(x: Tensor, y: Tensor) -> Tensor:
    """The operator that checks for errors has a side effect, which a token orders."""
    return (
        torch.linalg.inv(x @ x.mT + torch.eye(4)) @ torch.linalg.cholesky(torch.eye(4)) + x[:, :4]
    )


def changed(x: Tensor, y: Tensor) -> Tensor:
    rows = x[x.shape[0] // 2 :]
    x.mul_(2)
    return rows


@pytest.mark.parametrize("function", [inverted, changed])
def test_what_is_loaded_does_the_same(caches: Caches, function: Callable[..., Any]):
    def fresh(x: Tensor, y: Tensor) -> Tensor:
        return function(x.clone(), y)

    for fn in (function, fresh):
        x = torch.zeros(4, 8)
        assert [caches.hits(fn, x, INPUTS[1]) for _ in range(2)] == [False, True]


def test_another_function_is_another_program(caches: Caches):
    caches.compile()
    assert not caches.hits(lambda x, y: torch.softmax(x @ y, -1) * 3)
    assert not caches.hits(softmax, torch.randn(5, 8), torch.randn(8, 16))


@pytest.mark.parametrize(
    "options", [{"target": "tiny"}, {"fallback": "error"}, {"seed": 1}, {"verify": True}], ids=str
)
def test_other_options_are_another_program(caches: Caches, options: dict[str, Any]):
    caches.compile()
    assert not caches.hits(**options)
    assert caches.hits(**options)
    assert caches.hits()


def detached(x: Tensor) -> tuple[Tensor, Tensor]:
    return x, x.detach()


def viewed(x: Tensor) -> tuple[Tensor, Tensor]:
    return x, x.view(4, 8)


def sliced(x: Tensor) -> tuple[Tensor, Tensor]:
    return x[:], x[:]


@pytest.mark.parametrize("first", [detached, viewed, sliced])
@pytest.mark.parametrize("second", [detached, viewed, sliced])
def test_how_inputs_share_memory_decides(
    caches: Caches, first: Callable[..., Any], second: Callable[..., Any]
):
    def function(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        return y * 2

    for make in (first, second):
        torch._dynamo.reset()
        given = make(torch.ones(4, 8))
        with lpu_mlir.Report() as report:
            result = torch.compile(function, backend="lpu_mlir")(*given)
        assert report.graphs
        assert torch.equal(result, torch.full((4, 8), 4.0))
        assert torch.equal(given[0], torch.full((4, 8), 2.0))


def test_inputs_that_share_memory_are_another_program(caches: Caches):
    def mutating(x: Tensor, y: Tensor) -> Tensor:
        x.add_(y)
        y.mul_(2)
        return x + y

    def run(x: Tensor, y: Tensor) -> Tensor:
        torch._dynamo.reset()
        return torch.compile(mutating, backend="lpu_mlir", dynamic=False)(x, y)

    one, other, shared = (torch.arange(64.0) for _ in range(3))
    assert torch.equal(run(one[:50], other[:50]), 4 * torch.arange(50.0))
    assert torch.equal(run(shared[:50], shared[:50]), 8 * torch.arange(50.0))


@pytest.mark.parametrize("name", ["compiler_version", "code_version", "host"])
def test_each_part_of_the_key_counts(caches: Caches, monkeypatch: pytest.MonkeyPatch, name: str):
    caches.compile()
    with monkeypatch.context() as patch:
        patch.setattr(stored, name, lambda: "another")
        assert not caches.hits()
        assert caches.hits()
    assert caches.hits()


def test_the_number_of_threads_counts(caches: Caches):
    before = torch.get_num_threads()
    caches.compile()
    try:
        torch.set_num_threads(before + 1)
        assert not caches.hits()
    finally:
        torch.set_num_threads(before)
    assert caches.hits()


def test_a_tag_of_the_users_own_counts(caches: Caches):
    caches.compile()
    with torch.compiler.config.patch(cache_key_tag="mine"):
        assert not caches.hits()
        assert caches.hits()
        assert torch.compiler.config.cache_key_tag == "mine"
    assert caches.hits()


@pytest.mark.parametrize("interpreter", ["reference", "compare"])
def test_interpreted_graphs_are_compiled_each_time(caches: Caches, interpreter: str):
    assert not caches.hits(interpreter=interpreter)
    assert not caches.hits(interpreter=interpreter)
    assert caches.entries() == []
    assert not any(name.startswith("autograd_cache") for name in counters["aot_autograd"])


def test_off(caches: Caches):
    caches.ours.enabled = False
    assert not caches.hits()
    assert not caches.hits()
    assert caches.entries() == []


def test_torchs_own_switch(caches: Caches):
    with torch._functorch.config.patch(enable_autograd_cache=False):
        assert not caches.hits()
        assert not caches.hits()
    assert caches.entries() == []


@pytest.mark.parametrize("log", ["lpu_mlir.ir", "lpu_mlir.ir.cse", "lpu_mlir.fuse", "lpu_mlir"])
def test_what_the_compiler_is_to_say_it_says(
    caches: Caches, caplog: pytest.LogCaptureFixture, log: str
):
    caches.compile()
    with caplog.at_level("DEBUG", log), caplog.at_level("INFO", "lpu_mlir.cache"):
        assert not caches.hits()
    assert "graphs are compiled anew: the compiler is to say what it does" in caplog.text
    assert caches.hits()


def test_what_cannot_be_written_is_compiled_each_time(
    caches: Caches, caplog: pytest.LogCaptureFixture
):
    caches.ours.bound = 100
    with caplog.at_level("INFO", "lpu_mlir.cache"):
        assert not caches.hits()
        assert not caches.hits()
    assert "is not kept: it has" in caplog.text
    assert caches.entries() == []


def test_a_report_says_so(caches: Caches, caplog: pytest.LogCaptureFixture):
    first = caches.compile()
    with caplog.at_level("INFO", "lpu_mlir.graph"), caplog.at_level("INFO", "lpu_mlir.cache"):
        second = caches.compile()
    assert str(first).startswith("1 graph, 0 graph breaks")
    assert str(second).startswith("1 graph (1 from the cache), 0 graph breaks")
    assert str(second).partition("breaks")[2] == str(first).partition("breaks")[2]
    assert [g["from_cache"] for g in json.loads(second.to_json())["graphs"]] == [True]
    assert list(second.graphs[0].seconds) == ["load"]
    assert "on the host, from the cache; seconds: load 0." in caplog.text
    assert "a graph comes from the cache: its program is " in caplog.text
    with pytest.raises(KeyError, match="graph0 comes from the cache, which has no IR"):
        second.ir("fuse")


# --- damage -------------------------------------------------------------------------------------


def test_a_program_that_is_gone_is_compiled_and_kept_again(
    caches: Caches, caplog: pytest.LogCaptureFixture
):
    caches.compile()
    [program] = caches.programs()
    program.unlink()
    with caplog.at_level("INFO", "lpu_mlir.cache"):
        assert not caches.hits()
    assert f"a graph is compiled anew: its program {program.name} is gone" in caplog.text
    assert caches.programs() == [program]
    assert caches.hits()


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:40],
        lambda data: data[:-1],
        lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
        lambda data: b"\x7fELF" + bytes(1000),
    ],
)
def test_a_damaged_program_is_compiled(caches: Caches, damage: Callable[[bytes], bytes]):
    caches.compile()
    [program] = caches.programs()
    program.write_bytes(damage(program.read_bytes()))
    assert not caches.hits()
    assert caches.hits()


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", bytes(8), (6).to_bytes(8, "little") + b'["o",9]']
)
def test_a_program_that_means_nothing_is_compiled(caches: Caches, content: bytes):
    caches.compile()
    [program] = caches.programs()
    caches.ours.put("program", program.name, content)
    assert not caches.hits()


@pytest.mark.filterwarnings("ignore")
def test_a_damaged_file_of_torchs_is_written_again(caches: Caches):
    caches.compile()
    [entry] = caches.entries()
    entry.write_bytes(entry.read_bytes()[:-50])
    assert not caches.hits()
    assert caches.hits()


def test_torchs_file_has_a_key_and_no_code(caches: Caches):
    caches.compile()
    [entry], [program] = caches.entries(), caches.programs()
    data = entry.read_bytes()
    assert program.name.encode() in data
    assert b"StoredGraph" in data
    assert b"\x7fELF" in program.read_bytes()
    for ours in (b"\x7fELF", b"host_program", b"Executable", b"CompiledGraph"):
        assert ours not in data


def test_an_object_is_damaged(caches: Caches):
    caches.compile()
    for path in (caches.ours.root / "object").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    for path in (*caches.entries(), *caches.programs()):
        path.unlink()
    native.loader().image.cache_clear()
    assert not caches.hits()


# --- trust --------------------------------------------------------------------------------------


def test_whose_directories_are_trusted(caches: Caches, caplog: pytest.LogCaptureFixture):
    caches.compile()
    caches.torchs.chmod(0o1777)
    with caplog.at_level("INFO", "lpu_mlir.cache"):
        assert not caches.hits()
    assert f"{caches.torchs} is writable by everybody" in caplog.text
    caches.torchs.chmod(0o775)
    assert caches.hits()
    if os.geteuid() == 0:
        os.chown(caches.torchs, 65534, -1)
        assert not caches.hits()


# --- training -----------------------------------------------------------------------------------


def test_frozen_weights(caches: Caches):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)).eval()
    x = torch.randn(1, 3, 8, 8)
    with torch.no_grad():
        assert not caches.hits(model, x, freeze=True)
        report = caches.compile(model, x, freeze=True)
        assert [graph.from_cache for graph in report.graphs] == [True]
        assert report.kept_bytes > 0
        assert caches.hits(model, x, freeze=True)
        model[1].running_var.mul_(4)
        assert caches.hits(model, x, freeze=True)
        assert not caches.hits(model, x)
    with pytest.raises(Exception, match="is for inference, and gradients are recorded here"):
        caches.compile(model, x, freeze=True)


def test_a_backward_pass_that_cannot_be_compiled_matters_when_it_runs(
    caches: Caches, monkeypatch: pytest.MonkeyPatch
):
    def fail(*graph: Any) -> stored.StoredGraph:
        return stored.FailedGraph(error=RuntimeError("no backward pass"))

    monkeypatch.setattr(backend, "compile_backward", fail)
    x = torch.randn(4, requires_grad=True)
    assert not caches.hits(torch.sin, x)
    assert caches.entries() == []
    made = torch.compile(torch.cos, backend="lpu_mlir", options={"interpreter": "native"})
    with pytest.raises(RuntimeError, match="no backward pass"):
        made(x).sum().backward()


def test_an_error_of_the_backward_compiler_is_kept_for_the_run(monkeypatch: pytest.MonkeyPatch):
    def fail(*graph: Any) -> stored.StoredGraph:
        raise RuntimeError("no backward pass")

    monkeypatch.setattr(stored, "compile_stored", fail)
    graph = stored.compile_backward(Options(), torch.fx.symbolic_trace(lambda x: x.sin()), [])
    with pytest.raises(RuntimeError, match="no backward pass"):
        graph([])


# --- between processes --------------------------------------------------------------------------

PRELUDE = """
import json, sys
import torch
from torch._dynamo.utils import counters
import lpu_mlir

torch.manual_seed(0)
GRAPHS, IR = [], []

def compiled(fn, **options):
    return torch.compile(fn, backend="lpu_mlir", options={"interpreter": "native"}, **options)

def note(report):
    GRAPHS.append([[g.from_cache, g.runs, g.native_ops, len(g.fallbacks)] for g in report.graphs])

def check(fn, *calls, **options):
    with lpu_mlir.Report() as report:
        made = compiled(fn, **options)
        for args in calls:
            torch.testing.assert_close(made(*args), fn(*args))
    note(report)
    IR.append("xdsl" in sys.modules)

def end():
    info = lpu_mlir.cache_info()
    print(json.dumps({
        "graphs": GRAPHS, "hits": info.hits, "misses": info.misses,
        "torch": dict(counters["aot_autograd"]),
        "compiler": "lpu_mlir.compile" in sys.modules, "ir": IR[0],
    }))
"""


def start(directory: Path, program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", PRELUDE + program],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "LPU_MLIR_CACHE": "1",
            "LPU_MLIR_CACHE_DIR": str(directory / "ours"),
            "TORCHINDUCTOR_CACHE_DIR": str(directory / "torchs"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    said, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert errors == ""
    return json.loads(said)


def assert_loaded(first: dict[str, Any], second: dict[str, Any]) -> None:
    """The second process did what the first did, and compiled nothing."""
    assert first["compiler"]
    assert first["misses"]["program"] >= sum(map(len, first["graphs"]))
    assert not any(graph[0] for graphs in first["graphs"] for graph in graphs)
    assert first["torch"].get("autograd_cache_bypass", 0) == 0
    assert all(graph[0] for graphs in second["graphs"] for graph in graphs)
    assert not second["compiler"]
    assert not second["ir"]  # later reports count bytes that depend on sizes
    assert second["misses"] == {}
    for before, after in zip(first["graphs"], second["graphs"], strict=True):
        assert [facts for _, *facts in before] == [facts for _, *facts in after]


KINDS = """
def ranked(x):
    return torch.softmax(x, -1).topk(3).values * 100, x.size(0), x.amax().item()

class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(8)

    def forward(self, x):
        return self.norm(x) + torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0])

def written(x, cache):
    cache[:, 1:3] = x[:, :2]
    return cache * 2, cache, x.view(-1)[3:], x.t(), None, 1.5, True

x = torch.randn(4, 8)
check(ranked, (x,), fullgraph=True)
check(lambda x, y: (x @ y).exp(), (x, torch.randn(8, 5)), (torch.randn(7, 8), torch.randn(8, 9)),
      dynamic=True)
check(lambda x: torch.nonzero(x > 0).sum(0) * 2, (x,), (x - 1,), fullgraph=True)
check(lambda x, s: x * s, (x, 2.5), (x, 3.5), dynamic=True)
with torch.no_grad():
    check(Norm().eval(), (x,))
    check(lambda x: torch.complex(x, x).abs() + x.to(torch.bfloat16).float(), (x,))
    check(lambda x, i: x[i] + torch.arange(8), (x, torch.tensor([0, 3, 3])))
    with lpu_mlir.Report() as report:
        out = compiled(written)(x, given := torch.zeros(4, 8))
    expected = written(x, other := torch.zeros(4, 8))
    torch.testing.assert_close(given, other)
    torch.testing.assert_close(out[:4], expected[:4])
    assert out[4:] == expected[4:]
    assert out[1] is given
    note(report)
end()
"""


@pytest.mark.slow
def test_all_kinds_of_graphs(tmp_path: Path):
    first, second = (finish(start(tmp_path, KINDS)) for _ in range(2))
    assert_loaded(first, second)
    assert len(second["graphs"]) == 8
    assert sum(graph[3] for graphs in second["graphs"] for graph in graphs) > 0  # host calls


TRAINING = """
def grads(fn, model, x):
    model.zero_grad()
    fn(x).square().sum().backward()
    return [p.grad.clone() for p in model.parameters()]

model = torch.nn.Sequential(
    torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 2)
)
check(torch.sin, (torch.randn(4),))
for dynamic in (False, True):
    torch._dynamo.reset()
    with lpu_mlir.Report() as report:
        fn = compiled(model, dynamic=dynamic)
        for size in (4, 4, 6):
            x = torch.randn(size, 8)
            expected = grads(model, model, x)
            for a, b in zip(grads(fn, model, x), expected):
                torch.testing.assert_close(a, b)
    note(report)
end()
"""


@pytest.mark.slow
def test_training(tmp_path: Path):
    first, second = (finish(start(tmp_path, TRAINING)) for _ in range(2))
    assert_loaded(first, second)
    assert [len(graphs) for graphs in second["graphs"]] == [1, 4, 2]  # forward and backward


@pytest.mark.slow
def test_a_program_has_the_same_key_in_every_process(tmp_path: Path):
    """So that one that is gone is found again once it was compiled anew."""
    directories = [tmp_path / name for name in ("a", "b")]
    for process in [start(directory, KINDS) for directory in directories]:
        finish(process)
    one, other = (
        {path.name for path in (directory / "ours" / "compiled" / "program").iterdir()}
        for directory in directories
    )
    assert one == other
    assert len(one) == 8


@pytest.mark.slow
def test_processes_fill_one_cache(tmp_path: Path):
    together = [start(tmp_path, KINDS) for _ in range(2)]
    for process in together:
        finish(process)
    assert finish(start(tmp_path, KINDS))["torch"]["autograd_cache_hit"] == 8
