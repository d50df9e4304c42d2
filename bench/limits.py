"""What this machine can do at best: the rates of reading and copying memory and of multiply-adds.

Measured by code made for it, on as many threads as the systems have, in turns with them: such rates
change from minute to minute where other machines share the memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

import torch

from lpu_mlir.interpreter.native.compile import host, loader

READ_BYTES = 512 << 20
COPY_BYTES = 64 << 20
FMA_ROUNDS = 1 << 21
STREAMS = 4
"""Places far apart at which a thread reads at once, each of which the prefetcher follows."""
UNROLL = 2
AHEAD = 1024
"""Bytes from where memory is read to where it is asked for, not to be kept in the caches."""
ACCUMULATORS = 12
"""Independent sums: the latency of a multiply-add, 4 cycles, times at least 2 of them a cycle."""


def _loop(setup: Sequence[str], phis: Sequence[str], body: Sequence[str], step: int) -> str:
    """The text of a function's blocks: a loop of %i from 0 to %n by `step`."""
    return "\n  ".join(
        [
            "entry:",
            *setup,
            "br label %loop",
            "loop:",
            "%i = phi i64 [0, %entry], [%next, %loop]",
            *phis,
            *body,
            f"%next = add i64 %i, {step}",
            "%more = icmp ult i64 %next, %n",
            "br i1 %more, label %loop, label %end",
            "end:",
        ]
    )


def program(lanes: int) -> str:
    """LLVM text of three functions.

    `read(p, n, out)` sums 4 n vectors and keeps the sum; `copy(p, n, q)` moves n vectors past the
    caches; `fma(p, n, out)` does 12 n multiply-adds of vectors.
    """
    vector = f"<{lanes} x float>"
    size = lanes * 4

    def total(count: int, names: str) -> list[str]:
        lines = [f"%t0 = fadd {vector} %{names}0, %{names}1"]
        lines += [f"%t{k} = fadd {vector} %t{k - 1}, %{names}{k + 1}" for k in range(1, count - 1)]
        return [*lines, f"store {vector} %t{count - 2}, ptr %q", "ret void"]

    reads = [(s, u) for s in range(STREAMS) for u in range(UNROLL)]
    read = _loop(
        [
            line
            for s in range(STREAMS)
            for line in (
                f"%o{s} = mul i64 %n, {s}",
                f"%p{s} = getelementptr {vector}, ptr %p, i64 %o{s}",
            )
        ],
        [
            f"%s{k} = phi {vector} [zeroinitializer, %entry], [%a{k}, %loop]"
            for k in range(len(reads))
        ],
        [
            line
            for k, (s, u) in enumerate(reads)
            for line in (
                f"%j{k} = add i64 %i, {u}",
                f"%g{k} = getelementptr {vector}, ptr %p{s}, i64 %j{k}",
                f"%f{k} = getelementptr i8, ptr %g{k}, i64 {AHEAD}",
                f"call void @llvm.prefetch.p0(ptr %f{k}, i32 0, i32 0, i32 1)",
                f"%v{k} = load {vector}, ptr %g{k}, align {size}",
                f"%a{k} = fadd {vector} %s{k}, %v{k}",
            )
        ],
        UNROLL,
    )
    copy = _loop(
        [],
        [],
        [
            f"%g = getelementptr {vector}, ptr %p, i64 %i",
            f"%v = load {vector}, ptr %g, align {size}",
            f"%h = getelementptr {vector}, ptr %q, i64 %i",
            f"store {vector} %v, ptr %h, align {size}, !nontemporal !0",
        ],
        1,
    )
    fma = _loop(
        [f"%x = load {vector}, ptr %p"],
        [f"%s{k} = phi {vector} [%x, %entry], [%a{k}, %loop]" for k in range(ACCUMULATORS)],
        [
            f"%a{k} = call {vector} @llvm.fma({vector} %s{k}, {vector} %x, {vector} %x)"
            for k in range(ACCUMULATORS)
        ],
        1,
    )
    ends = {
        "read": (read, total(len(reads), "a")),
        "copy": (copy, ["fence seq_cst", "ret void"]),
        "fma": (fma, total(ACCUMULATORS, "a")),
    }
    functions = [
        f"define void @{name}(ptr %p, i64 %n, ptr %q) {{\n{body}\n  " + "\n  ".join(end) + "\n}"
        for name, (body, end) in ends.items()
    ]
    declared = [
        f"declare {vector} @llvm.fma({vector}, {vector}, {vector})",
        "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)",
    ]
    return "\n".join([*functions, *declared, "!0 = !{i32 1}"])


class Machine:
    """The three measurements, ready to be repeated."""

    def __init__(self, threads: int):
        lanes = host().lanes(4)
        self.threads = threads
        self.pool = ThreadPoolExecutor(threads)
        self.code = loader().load(program(lanes), ["read", "copy", "fma"])
        self.vector_bytes = lanes * 4
        self.source = torch.ones(READ_BYTES // 4)
        self.target = torch.zeros(COPY_BYTES // 4)
        self.sums = torch.zeros(threads, 1024)
        self.measures: Mapping[str, Callable[[], float]] = {
            "read": self.read,
            "copy": self.copy,
            "fma": self.fma,
        }

    def run(self, name: str, calls: Sequence[tuple[int, int, int]]) -> float:
        """Seconds of one call of a function on each thread."""
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
        function: Any = prototype(self.code.addresses[name])
        start = perf_counter()
        list(self.pool.map(lambda given: function(*given), calls))
        return perf_counter() - start

    def read(self) -> float:
        """Bytes read in a second."""
        share = READ_BYTES // self.threads // (STREAMS * UNROLL * self.vector_bytes) * UNROLL
        size = share * STREAMS * self.vector_bytes
        start = self.source.data_ptr()
        calls = [(start + t * size, share, self.sums[t].data_ptr()) for t in range(self.threads)]
        return size * self.threads / self.run("read", calls)

    def copy(self) -> float:
        """Bytes read and written in a second."""
        share = COPY_BYTES // self.threads // self.vector_bytes
        size = share * self.vector_bytes
        source, target = self.source.data_ptr(), self.target.data_ptr()
        calls = [(source + t * size, share, target + t * size) for t in range(self.threads)]
        return 2 * size * self.threads / self.run("copy", calls)

    def fma(self) -> float:
        """Operations, two for each multiply-add of floats, in a second."""
        place = [self.sums[t].data_ptr() for t in range(self.threads)]
        seconds = self.run("fma", [(p, FMA_ROUNDS, p) for p in place])
        done = 2 * ACCUMULATORS * FMA_ROUNDS * self.vector_bytes // 4
        return done * self.threads / seconds

    def turn(self) -> dict[str, list[float]]:
        """Each rate, measured some times in a row; a run first wakes the threads."""
        return {name: [measure() for _ in range(3)] for name, measure in self.measures.items()}
