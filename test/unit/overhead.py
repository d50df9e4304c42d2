"""What a call costs beside the arithmetic; `scripts/overhead` runs this."""

from __future__ import annotations

import argparse
import statistics
import time
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch._dynamo.backends.common import aot_autograd
from torch.fx.experimental.proxy_tensor import make_fx

from lpu_mlir.compile import compile_fx
from lpu_mlir.interpreter.native.compile import loader
from lpu_mlir.interpreter.native.pool import Plan, as_bases, pool
from lpu_mlir.options import Options

# A kernel that adds 1 to an i64 for each of its cores, one after the other.
TEXT = """
define void @add.p0(ptr %args, ptr %scratch, i64 %lo, i64 %hi, ptr %fail) {
entry:
  %x = load ptr, ptr %args
  br label %head
head:
  %i = phi i64 [ %lo, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %hi
  br i1 %more, label %body, label %end
body:
  %at = getelementptr i64, ptr %x, i64 %i
  %old = load volatile i64, ptr %at
  %new = add i64 %old, 1
  store volatile i64 %new, ptr %at
  %next = add i64 %i, 1
  br label %head
end:
  ret void
}
"""


def best(run: Callable[[], Any], repeat: int = 200, number: int = 50) -> float:
    """Microseconds a call, the best of many rounds: the machine may be busy."""
    return min(timeit.repeat(run, number=number, repeat=repeat)) / number * 1e6


def add_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def without_program(x: torch.Tensor) -> Callable[..., Any]:
    """What Dynamo and AOTAutograd cost: the graph is not run at all."""
    result = [x + 1]

    def compiler(gm: Any, example_inputs: Any) -> Any:
        def run(inputs: list[Any]) -> list[Any]:
            inputs.clear()
            return result

        setattr(run, "_boxed_call", True)
        return run

    backend = aot_autograd(fw_compiler=compiler, inference_compiler=compiler)
    return torch.compile(add_one, backend=backend)


def calls() -> None:
    """A call of x + 1 on 8 floats, from outside to inside."""
    x = torch.randn(8)
    compiled, alone = torch.compile(add_one, backend="lpu_mlir"), without_program(x)
    executable = compile_fx(make_fx(lambda x: [x + 1])(x), [x], Options())
    program, made = executable.program, torch.empty(8)
    with torch.no_grad():
        rows = {
            "compiled": lambda: compiled(x),
            "the same, but the graph is not run": lambda: alone(x),
            "the graph": lambda: executable([x]),
            "  memory for the result": lambda: program.empty((8,), (1,), torch.float32),
            "  the program": lambda: program.execute([x], [made], {}, None),
            "eager": lambda: add_one(x),
        }
        times = {name: (run(), best(run))[1] for name, run in rows.items()}
    print("x + 1 on 8 floats, us a call")
    for name, microseconds in times.items():
        print(f"  {name:36} {microseconds:6.2f}")


def make_plan(cores: int, entries: int, workers: int) -> tuple[Plan, bytes, np.ndarray]:
    code, x = loader().load(TEXT, ["add.p0"]), np.zeros(cores, np.int64)
    row = [code.addresses["add.p0"], 0, cores, workers]
    slots, roots = np.zeros(1, np.int64), np.array([2], np.int64)
    plan = Plan(np.array([row] * entries, np.int64), slots, roots, keep=code)
    return plan, as_bases([x.ctypes.data]), x


def entries(workers: int) -> None:
    """Entries of a native call on 1 and on several threads, by how long they take."""
    print(f"\nentries of a native call, us each: alone, and on {workers} threads")
    for cores in (1, 64, 1024, 4096, 16384, 65536, 262144):
        count = max(10, min(200, 400_000 // cores))
        row = [
            best(lambda plan=made[0], bases=made[1], w=w: pool().run(plan, bases, w), 100, 1)
            for w in (1, workers)
            if (made := make_plan(cores, count, w))
        ]
        print(f"  {row[0] / count:9.3f} {row[1] / count:9.3f}")


def waking(workers: int) -> None:
    """A call of one small entry after the helpers have gone to sleep."""
    print("\nfirst call after 3 ms without any, us (median): alone, and with helpers to wake")
    medians: list[float] = []
    for w in (1, workers):
        plan, bases, _ = make_plan(64, 1, w)
        times: list[float] = []
        for _ in range(200):
            time.sleep(0.003)
            start = time.perf_counter()
            pool().run(plan, bases, w)
            times.append(time.perf_counter() - start)
        medians.append(statistics.median(times) * 1e6)
    print(f"  {medians[0]:9.2f} {medians[1]:9.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    threads = parser.parse_args().threads
    torch.set_num_threads(threads)
    calls()
    entries(threads)
    waking(threads)
