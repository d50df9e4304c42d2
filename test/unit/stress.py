"""Threads, forks and processes at once; `scripts/stress` runs this.

Eight threads call three compiled functions with shapes of their own while another thread compiles
new ones; between calls the process forks.  Then two processes compile the same functions with one
empty cache.  Every result is compared with eager's, also those of before, which must not change.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

THREADS, FORK_SECONDS = 8, 2.0


def normalised(x: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:]).exp()


def product(x: Tensor) -> Tensor:
    return torch.relu(x @ x.mT) + 1


def shifted(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.flip(-1).cumsum(-1), x.amax(0)


FUNCTIONS: Sequence[Callable[[Tensor], Any]] = (normalised, product, shifted)
SHAPES = ((3, 5), (64, 300), (700, 1000), (1, 4096))


def compiled() -> list[Callable[[Tensor], Any]]:
    return [torch.compile(f, backend="lpu_mlir", dynamic=False) for f in FUNCTIONS]


def same(got: Any, expected: Any) -> None:
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


class Stress:
    """What the threads share."""

    def __init__(self, seconds: float):
        self.end = time.monotonic() + seconds
        self.functions = compiled()
        self.failures: list[str] = []
        self.calls = self.compiles = self.forks = 0
        self.lock = threading.Lock()
        self.inside = threading.Semaphore(THREADS + 1)
        """Taken by who is inside of PyTorch, whose locks a child would find taken."""

    def guarded(self, work: Callable[[int], None], number: int) -> None:
        try:
            work(number)
        except Exception as error:
            self.failures.append(f"{work.__name__}: {type(error).__name__}: {error}"[:300])

    def call(self, number: int) -> None:
        generator = torch.Generator().manual_seed(number)
        held: list[tuple[Any, Any]] = []
        while time.monotonic() < self.end and not self.failures:
            for function, run in zip(FUNCTIONS, self.functions, strict=True):
                x = torch.randn(SHAPES[(number + self.calls) % len(SHAPES)], generator=generator)
                with self.inside:
                    held.append((run(x), function(x)))
                with self.lock:
                    self.calls += 1
            with self.inside:
                for got, expected in held:
                    same(got, expected)
            del held[:-4]

    def compile(self, number: int) -> None:
        while time.monotonic() < self.end and not self.failures:
            number += 1
            x, constant = torch.randn(number % 50 + 2, 7), float(number)
            function = eval(f"lambda x: (x * {constant}).tanh().sum(-1) - {constant}")
            with self.inside:
                same(torch.compile(function, backend="lpu_mlir", dynamic=False)(x), function(x))
            self.compiles += 1

    def fork(self) -> None:
        """A child that calls what its parent has compiled; eager's own threads would hang in it."""
        x = torch.randn(SHAPES[0])
        expected = [function(x) for function in FUNCTIONS]
        for _ in range(THREADS + 1):
            self.inside.acquire()
        child = os.fork()
        if child:
            self.inside.release(THREADS + 1)
        else:
            try:
                for run, value in zip(self.functions, expected, strict=True):
                    same(run(x), value)
            except BaseException:
                os._exit(1)
            os._exit(0)
        for _ in range(600):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            time.sleep(0.1)
        else:
            os.kill(child, 9)
            status = os.waitpid(child, 0)[1]
        self.forks += 1
        if status:
            self.failures.append(f"fork: status {status}")

    def run(self) -> None:
        torch._dynamo.config.recompile_limit = 1 << 20
        for run in self.functions:
            for shape in SHAPES:
                run(torch.ones(shape))
        work = [(self.call, n) for n in range(THREADS)] + [(self.compile, 0)]
        threads = [threading.Thread(target=self.guarded, args=w, daemon=True) for w in work]
        for thread in threads:
            thread.start()
        while time.monotonic() < self.end and not self.failures:
            time.sleep(FORK_SECONDS)
            self.fork()
        for thread in threads:
            thread.join(120)
            if thread.is_alive():
                self.failures.append("a thread hangs")


def fill() -> None:
    """What each of two processes does with their cache."""
    for function, run in zip(FUNCTIONS, compiled(), strict=True):
        for shape in SHAPES:
            x = torch.randn(shape)
            same(run(x), function(x))


def two_processes() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        places = {
            "LPU_MLIR_CACHE_DIR": f"{folder}/ours",
            "TORCHINDUCTOR_CACHE_DIR": f"{folder}/pytorch",
        }
        command = [sys.executable, str(Path(__file__)), "--fill"]
        processes = [subprocess.Popen(command, env={**os.environ, **places}) for _ in range(2)]
        codes = [process.wait(600) for process in processes]
    return [f"a process that fills the cache: {code}" for code in codes if code]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--fill", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fill:
        fill()
        return 0
    stress = Stress(options.seconds)
    stress.run()
    failures = [*stress.failures, *two_processes()]
    print(f"{stress.calls} calls, {stress.compiles} compiles, {stress.forks} forks", end=", ")
    print(f"2 processes on one cache: {len(failures)} failures")
    for failure in failures:
        print(f"  {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
