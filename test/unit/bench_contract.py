"""Times native contractions on one thread beside what PyTorch computes the same with.

CPU time, the peers taking turns; medians. Operands are in the caches if they fit, or with `--cold`
every call has a right operand that is in none. Products also tell the share of the machine's peak
of multiply-adds, and products of a matrix and a vector, of a plain read of the matrix.
"""

from __future__ import annotations

import argparse
import ctypes
import fnmatch
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from math import prod
from statistics import median
from time import process_time, process_time_ns
from typing import Any

import numpy as np
import torch
from contract_harness import DTYPES, Compiled, Layout, Problem, arguments, contiguous, expected
from contract_harness import strided as view_of
from torch import Tensor
from xdsl.dialects.builtin import bf16, f32

from lpu_mlir.interpreter.native.compile import Loader, host

Step = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """A problem, and what PyTorch calls for it, given both operands and the result."""

    name: str
    problem: Problem
    peer: Callable[[Tensor, Tensor, Tensor], Any]
    is_read: bool = False
    """Whether reading the right operand is what takes the time."""

    @property
    def work(self) -> int:
        return 2 * prod(self.problem.extents.values())


# --- cases --------------------------------------------------------------------------------------

PRODUCTS = (
    (64, 1152, 768),
    (128, 3072, 768),
    (64, 768, 3072),
    (64, 576, 576),
    (64, 1536, 576),
    (64, 576, 1536),
    (128, 576, 1536),
    (512, 1536, 576),
    (4, 1152, 768),
    (32, 3072, 768),
)
MATRIX_VECTOR = ((576, 576), (1536, 576), (576, 1536), (2304, 768), (768, 3072), (49152, 576))
ATTENTION = ((12, 4, 128, 64), (12, 64, 128, 64), (9, 1, 128, 64), (12, 128, 512, 64))


def products() -> Iterator[Case]:
    for m, n, k in PRODUCTS:
        x, y = contiguous(f32, (0, 2), (m, k)), contiguous(f32, (0, 1), (m, n))
        rows, columns = contiguous(f32, (1, 2), (n, k)), contiguous(f32, (2, 1), (k, n))
        size = f"{m}x{n}x{k}"
        yield Case(f"nt {size}", Problem(x, rows, y), lambda a, w, c: torch.mm(a, w.t(), out=c))
        narrow = Problem(contiguous(bf16, (0, 2), (m, k)), contiguous(bf16, (1, 2), (n, k)), y)
        yield Case(f"nt-bf16 {size}", narrow, lambda a, w, c: torch.mm(a, w.t()))
        yield Case(f"nn {size}", Problem(x, columns, y), lambda a, w, c: torch.mm(a, w, out=c))
        x_t = contiguous(f32, (2, 0), (k, m))
        yield Case(
            f"tn {size}", Problem(x_t, columns, y), lambda a, w, c: torch.mm(a.t(), w, out=c)
        )


def matrix_vector() -> Iterator[Case]:
    for element in (f32, bf16):
        for n, k in MATRIX_VECTOR:
            x, y = contiguous(element, (1,), (k,)), contiguous(f32, (0,), (n,))
            rows = contiguous(element, (0, 1), (n, k))
            name = "mv" if element == f32 else "mv-bf16"
            yield Case(f"{name} {n}x{k}", Problem(x, rows, y), lambda a, w, c: torch.mv(w, a), True)
    for n, k in MATRIX_VECTOR:
        x, y = contiguous(f32, (1,), (k,)), contiguous(f32, (0,), (n,))
        columns = contiguous(f32, (1, 0), (k, n))
        yield Case(f"vm {n}x{k}", Problem(x, columns, y), lambda a, w, c: torch.mv(w.t(), a), True)


def attention() -> Iterator[Case]:
    for heads, queries, keys, width in ATTENTION:
        q = contiguous(f32, (0, 1, 3), (heads, queries, width))
        k = contiguous(f32, (0, 2, 3), (heads, keys, width))
        k_t = contiguous(f32, (0, 3, 2), (heads, width, keys))
        p = contiguous(f32, (0, 1, 2), (heads, queries, keys))
        size = f"{heads}x{queries}x{keys}x{width}"
        yield Case(f"qk {size}", Problem(q, k, p), lambda a, w, c: torch.bmm(a, w.mT, out=c))
        yield Case(f"qkt {size}", Problem(q, k_t, p), lambda a, w, c: torch.bmm(a, w, out=c))
        weights = contiguous(f32, (0, 1, 3), (heads, queries, keys))
        v = contiguous(f32, (0, 3, 2), (heads, keys, width))
        o = contiguous(f32, (0, 1, 2), (heads, queries, width))
        yield Case(f"pv {size}", Problem(weights, v, o), lambda a, w, c: torch.bmm(a, w, out=c))


def convolution(name: str, c_in: int, c_out: int, size: int, kernel: int, step: int) -> Case:
    """An image with its margin, as windows that overlap, by a kernel."""
    wide = (size - 1) * step + kernel
    strides = (wide * wide, step * wide, wide, step, 1)
    image = Layout(f32, (3, 1, 4, 2, 5), (c_in, size, kernel, size, kernel), strides)
    kernels = contiguous(f32, (0, 3, 4, 5), (c_out, c_in, kernel, kernel))
    out = contiguous(f32, (0, 1, 2), (c_out, size, size))

    def peer(windows: Tensor, weight: Tensor, c: Tensor) -> Tensor:
        image = torch.as_strided(windows, (1, c_in, wide, wide), (0, wide * wide, wide, 1))
        return torch.conv2d(image, weight, stride=step)

    return Case(f"conv {name}", Problem(image, kernels, out), peer)


def convolutions() -> Iterator[Case]:
    yield convolution("64 to 64, 128x128, 3x3", 64, 64, 128, 3, 1)
    yield convolution("32 to 64, 128x128, 3x3", 32, 64, 128, 3, 1)
    yield convolution("3 to 32, 128x128, 3x3", 3, 32, 128, 3, 1)
    yield convolution("64 to 64, 56x56, 1x1", 64, 64, 56, 1, 1)
    yield convolution("64 to 128, 28x28, 1x1 step 2", 64, 128, 28, 1, 2)
    yield convolution("64 to 128, 28x28, 3x3 step 2", 64, 128, 28, 3, 2)
    yield convolution("256 to 256, 14x14, 3x3", 256, 256, 14, 3, 1)
    yield convolution("512 to 512, 7x7, 3x3", 512, 512, 7, 3, 1)


def cases() -> Iterator[Case]:
    yield from products()
    yield from matrix_vector()
    yield from attention()
    yield from convolutions()


# --- limits -------------------------------------------------------------------------------------


def _peak_text(lanes: int, accumulators: int) -> str:
    kind = f"<{lanes} x float>"
    numbers = range(accumulators)
    lines = [
        f"declare {kind} @llvm.fma.v{lanes}f32({kind}, {kind}, {kind})",
        "define void @peak(ptr %memory, i64 %trips, ptr %unused) {",
        "entry:",
        f"  %a = load {kind}, ptr %memory, align 4",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
        *(f"  %c{n} = phi {kind} [ zeroinitializer, %entry ], [ %d{n}, %loop ]" for n in numbers),
        *(
            f"  %d{n} = call {kind} @llvm.fma.v{lanes}f32({kind} %a, {kind} %a, {kind} %c{n})"
            for n in numbers
        ),
        "  %next = add i64 %i, 1",
        "  %more = icmp ult i64 %next, %trips",
        "  br i1 %more, label %loop, label %end",
        "end:",
    ]
    for n in numbers:
        lines += [
            f"  %p{n} = getelementptr {kind}, ptr %memory, i64 {n}",
            f"  store {kind} %d{n}, ptr %p{n}, align 4",
        ]
    return "\n".join([*lines, "  ret void", "}"])


def _read_text(lanes: int, streams: int, unroll: int) -> str:
    """The sum of all elements of so many streams of `length` elements, one after another."""
    kind = f"<{lanes} x float>"
    pairs = [(s, u) for s in range(streams) for u in range(unroll)]
    lines = [
        "define void @read(ptr %memory, i64 %length, ptr %sum) {",
        "entry:",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
        *(
            f"  %c{s}.{u} = phi {kind} [ zeroinitializer, %entry ], [ %d{s}.{u}, %loop ]"
            for s, u in pairs
        ),
    ]
    for s, u in pairs:
        lines += [
            f"  %s{s}.{u} = mul i64 %length, {s}",
            f"  %o{s}.{u} = add i64 %s{s}.{u}, %i",
            f"  %q{s}.{u} = getelementptr float, ptr %memory, i64 %o{s}.{u}",
            f"  %p{s}.{u} = getelementptr {kind}, ptr %q{s}.{u}, i64 {u}",
            f"  %v{s}.{u} = load {kind}, ptr %p{s}.{u}, align 4",
            f"  %d{s}.{u} = fadd {kind} %c{s}.{u}, %v{s}.{u}",
        ]
    lines += [
        f"  %next = add i64 %i, {lanes * unroll}",
        "  %more = icmp ult i64 %next, %length",
        "  br i1 %more, label %loop, label %end",
        "end:",
    ]
    total = f"%d{pairs[0][0]}.{pairs[0][1]}"
    for s, u in pairs[1:]:
        lines.append(f"  %t{s}.{u} = fadd {kind} {total}, %d{s}.{u}")
        total = f"%t{s}.{u}"
    lines += [
        f"  %one = extractelement {kind} {total}, i64 0",
        "  store float %one, ptr %sum",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)


@cache
def _function(text: str, name: str) -> tuple[object, Callable[..., None]]:
    code = Loader(host()).load(text, [name])
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
    return code, prototype(code.addresses[name])


def peak() -> float:
    """Multiply-adds in independent accumulators, in operations a second."""
    lanes, trips = host().vector_bytes // 4, 200_000
    _, function = _function(_peak_text(lanes, 12), "peak")
    memory = np.zeros(12 * lanes, np.float32)
    seconds = timed([lambda: function(memory.ctypes.data, trips, None)], 20)[0]
    return 2 * lanes * 12 * trips / seconds


def reader(memory: Tensor) -> Step:
    """Reads all of the memory, in four streams."""
    lanes, streams, unroll = host().vector_bytes // 4, 4, 4
    _, function = _function(_read_text(lanes, streams, unroll), "read")
    length = memory.numel() * memory.element_size() // 4 // (streams * unroll * lanes)
    total = torch.empty(1)
    return lambda: function(memory.data_ptr(), length * unroll * lanes, total.data_ptr())


def timed(steps: list[Step], rounds: int) -> list[float]:
    """Seconds of CPU time of each, taking turns: medians."""
    calls: list[int] = []
    for step in steps:
        step()
        start = process_time()
        step()
        calls.append(max(1, int(300e-6 / max(process_time() - start, 1e-7))))
    taken: list[list[float]] = [[] for _ in steps]
    for _ in range(rounds):
        for step, count, times in zip(steps, calls, taken, strict=True):
            start = process_time_ns()
            for _ in range(count):
                step()
            times.append((process_time_ns() - start) * 1e-9 / count)
    return [median(times) for times in taken]


# --- the table ----------------------------------------------------------------------------------


def tensor(layout: Layout) -> Tensor:
    return torch.randn(layout.span).to(DTYPES[layout.element])


COLD_BYTES = 128 << 20
"""Right operands that no cache holds."""


def run(case: Case, limit: float, rounds: int, cold: bool) -> str:
    """A line of the table."""
    problem = case.problem
    start = process_time()
    compiled = Compiled.of(problem, host())
    compile_ms = (process_time() - start) * 1e3
    flat_lhs, flat_out = tensor(problem.lhs), tensor(problem.out)
    size = problem.rhs.span * DTYPES[problem.rhs.element].itemsize
    copies = [tensor(problem.rhs) for _ in range(max(2, COLD_BYTES // size) if cold else 1)]
    lhs, out = view_of(flat_lhs, problem.lhs), view_of(flat_out, problem.out)
    others = [view_of(flat, problem.rhs) for flat in copies]
    peer_out = torch.empty_like(out)
    scratch = torch.empty(64 << 20, dtype=torch.uint8)
    slots = [
        arguments(problem, [flat_lhs.data_ptr(), flat.data_ptr(), flat_out.data_ptr()])
        for flat in copies
    ]
    here, there = [slot.ctypes.data for slot in slots], scratch.data_ptr()
    readers = [reader(flat) for flat in copies] if case.is_read else []
    steps: list[Step] = [
        lambda: [compiled.function(address, there) for address in here],
        lambda: [case.peer(lhs, rhs, peer_out) for rhs in others],
        lambda: [read() for read in readers],
    ]
    native, peer, read = (seconds / len(copies) for seconds in timed(steps, rounds))
    wanted = expected(problem, lhs, others[-1], out)
    error = ((out - wanted).abs().max() / wanted.abs().max()).item()
    assert error < 1e-4, f"{case.name}: error {error}"
    rate = case.work / native
    if case.is_read:
        share = f"{size / native / 1e9:6.1f} GB/s {read / native:5.0%} of read"
    else:
        share = f"{rate / 1e9:6.1f} GFLOP/s {rate / limit:5.0%} of peak"
    return (
        f"{case.name:34} {native * 1e6:9.1f} us {share} "
        f"{peer / native:6.2f} x torch, compiled in {compile_ms:4.0f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["*"], help="such as 'nt *': which cases")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--cold", action="store_true", help="right operands from memory")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    limit = peak()
    print(f"peak {limit / 1e9:.0f} GFLOP/s")
    for case in cases():
        if any(fnmatch.fnmatch(case.name, name) for name in options.names):
            print(run(case, limit, options.rounds, options.cold), flush=True)


if __name__ == "__main__":
    main()
