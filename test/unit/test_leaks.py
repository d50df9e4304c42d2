"""What stays in memory after many calls and many compiles: nothing that grows."""

import gc
import os
import subprocess
import sys
from ctypes import CFUNCTYPE, c_int64
from weakref import ref

import pytest
import torch

import lpu_mlir
from lpu_mlir.interpreter.native.compile import LINKS, Code, Loader, host
from lpu_mlir.interpreter.native.pool import pool
from lpu_mlir.runtime.executable import Executable
from lpu_mlir.runtime.native import NativeProgram
from lpu_mlir.runtime.program import Program

PRELUDE = """
import ctypes, gc, torch, lpu_mlir

def resident():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
"""

CALLS = """
layers = torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)
compiled = torch.compile(torch.nn.Sequential(*layers), backend="lpu_mlir")
wide = torch.compile(lambda x: (x @ x.t()).softmax(-1).sum(0), backend="lpu_mlir")

def calls(count):
    for n in range(count):
        x = torch.randn(1 + n % 7, 32, requires_grad=n % 2 == 0)
        y = compiled(x).square().sum() + wide(torch.randn(520 + n % 5, 16)).sum()
        if n % 2 == 0:
            y.backward()

calls(200)
before = resident()
calls(1000)
print(resident() / before)
"""

COMPILES = """
from torch._guards import TracingContext, tracing
from torch._subclasses import FakeTensorMode

def compiles(count):
    # Without Dynamo, of whose guards 0.1 MB stay for each function, whatever the backend.
    for n in range(count):
        width = 16 + n % 100  # more kernels than are kept
        x, first, last = torch.rand(3, 32) / 8, torch.rand(32, width) / 8, torch.rand(width, 8)
        graph = torch.fx.symbolic_trace(
            lambda x, first, last: ((x @ first).relu() @ last,)
        )
        fake = FakeTensorMode()
        with tracing(TracingContext(fake)):
            compiled = lpu_mlir.lpu_mlir(graph, [fake.from_tensor(t) for t in (x, first, last)])
        torch.testing.assert_close(compiled(x, first, last), graph(x, first, last))

compiles(100)
before = resident()
compiles(200)
print(resident() / before)
"""


POOLED = """
from weakref import ref
from lpu_mlir.runtime.buffers import SHARED

compiled = torch.compile(lambda x: x.exp() + 1, backend="lpu_mlir")
x = torch.randn(1024, 1024)
compiled(x)
assert SHARED.get().kept_bytes >= x.nbytes
buffers = ref(SHARED.get())
del compiled
torch._dynamo.reset()
gc.collect()
print(buffers() is None)
"""


def said(program: str) -> str:
    """What a program prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + program],
        env={**os.environ, "LPU_MLIR_CACHE": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize("work", [CALLS, COMPILES], ids=["calls", "compiles"])
def test_memory_stays(work: str):
    assert float(said(work)) < 1.02


def test_pooled_memory_is_freed():
    """With the last program, though nobody asks for a result any more."""
    assert said(POOLED) == "True"


def alive(*kinds: type) -> set[int]:
    gc.collect()
    return {id(o) for o in gc.get_objects() if isinstance(o, kinds)}


@pytest.mark.parametrize("cached", [False, True], ids=["compiled", "cached"])
@pytest.mark.parametrize("interpreter", ["native", "reference"])
def test_what_is_reset_is_freed(interpreter: str, cached: bool, monkeypatch: pytest.MonkeyPatch):
    """Programs, machine code and pooled memory, of forward and backward."""
    kinds = Executable, NativeProgram, Program, Code
    pool()  # has code of its own, for good
    torch._dynamo.reset()
    before, seen = alive(*kinds), 0
    for _ in range(2 if cached else 1):

        def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return (x @ w).sigmoid().square() * 1.75

        compiled = torch.compile(function, backend="lpu_mlir", options={"interpreter": interpreter})
        with lpu_mlir.Report() as report:
            x = torch.randn(40, 32, requires_grad=True)
            y = compiled(x, torch.randn(32, 48))
            y.sum().backward()
        assert report.native_ops > 0
        seen = len(alive(*kinds) - before)
        weak = ref(compiled)
        del compiled, function, x, y, report
        torch._dynamo.reset()
    assert seen >= (4 if interpreter == "native" else 3)
    assert weak() is None
    assert not alive(*kinds) - before


def test_code_is_unloaded():
    """Of more libraries than a JIT links; what is held stays callable when there is a new JIT."""

    def text(n: int) -> str:
        return f"define i64 @f(i64 %x) {{\n%y = add i64 %x, {n}\nret i64 %y\n}}"

    loader = Loader(host())
    kept = loader.load(text(7), ["f"])
    others = [ref(loader.load(text(n), ["f"])) for n in range(100, 100 + 2 * LINKS)]
    assert all(code() is None for code in others)
    assert CFUNCTYPE(c_int64, c_int64)(kept.addresses["f"])(5) == 12
