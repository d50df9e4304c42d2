"""Compiles one contraction and runs it on memory that ends where its operands end."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor
from xdsl.dialects.builtin import bf16, f16, f32, f64, i1, i8, i16, i32, i64
from xdsl.ir import Attribute

from lpu_mlir.dialects.lpu_kernel.types import ui8
from lpu_mlir.interpreter.native.compile import Code, Loader, host
from lpu_mlir.interpreter.native.contract import emit_contract
from lpu_mlir.interpreter.native.llvm import I64, PTR, Builder, Int, Module, Value
from lpu_mlir.interpreter.native.machine import Machine
from lpu_mlir.interpreter.native.tile import View

DTYPES: dict[Attribute, torch.dtype] = {
    f32: torch.float32,
    f64: torch.float64,
    f16: torch.float16,
    bf16: torch.bfloat16,
    i1: torch.bool,
    i8: torch.int8,
    ui8: torch.uint8,
    i16: torch.int16,
    i32: torch.int32,
    i64: torch.int64,
}

SCRATCH_BYTES = 64 << 20


@dataclass(frozen=True)
class Layout:
    """Extents and strides, which of them the code does not know, and what the dims are called."""

    element: Attribute
    dims: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    unknown_sizes: frozenset[int] = frozenset()
    unknown_strides: frozenset[int] = frozenset()

    @property
    def span(self) -> int:
        """Elements of memory from the first to the last."""
        if 0 in self.sizes:
            return 0
        return 1 + sum((n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True))


def contiguous(element: Attribute, dims: Sequence[int], sizes: Sequence[int]) -> Layout:
    strides = [prod(sizes[n + 1 :]) for n in range(len(sizes))]
    return Layout(element, tuple(dims), tuple(sizes), tuple(strides))


@dataclass(frozen=True)
class Problem:
    lhs: Layout
    rhs: Layout
    out: Layout
    accumulate: bool = False

    @property
    def layouts(self) -> tuple[Layout, Layout, Layout]:
        return self.lhs, self.rhs, self.out

    @property
    def extents(self) -> dict[int, int]:
        """The extent of each dim."""
        pairs = (zip(layout.dims, layout.sizes, strict=True) for layout in self.layouts)
        return dict(chain.from_iterable(pairs))


def text(problem: Problem, machine: Machine, emit: Callable[..., None] = emit_contract) -> str:
    """LLVM text of `void contract(ptr args, ptr scratch)`: pointers, unknown sizes and strides."""
    module = Module()
    b = Builder(module)
    slots = 0
    scratch_at = 0

    def argument(type: str) -> Value:
        nonlocal slots
        address = b.address(Value(PTR, "%args"), slots, i64)
        slots += 1
        return b.op(type, f"load {type}, {address}, align 8")

    def scratch(size: int) -> Value:
        nonlocal scratch_at
        at, scratch_at = scratch_at, scratch_at + -(-size // 64) * 64
        assert scratch_at <= SCRATCH_BYTES
        return b.address(Value(PTR, "%scratch"), at, i8)

    views: list[View] = []
    for layout in problem.layouts:
        base = argument(PTR)
        sizes: list[Int] = [
            argument(I64) if dim in layout.unknown_sizes else size
            for dim, size in zip(layout.dims, layout.sizes, strict=True)
        ]
        strides: list[Int] = [
            argument(I64) if dim in layout.unknown_strides else stride
            for dim, stride in zip(layout.dims, layout.strides, strict=True)
        ]
        views.append(View(base, layout.element, tuple(sizes), tuple(strides)))
    lhs, rhs, out = views
    emit(
        b,
        machine,
        lhs,
        problem.lhs.dims,
        rhs,
        problem.rhs.dims,
        out,
        accumulate=problem.accumulate,
        scratch=scratch,
    )
    function = b.function("contract", [Value(PTR, "%args"), Value(PTR, "%scratch")])
    return f"{function}\n\n{module.text()}"


@dataclass(frozen=True)
class Compiled:
    """A contraction in memory, to be called with its arguments and scratch."""

    code: Code
    function: Any

    @classmethod
    def of(
        cls, problem: Problem, machine: Machine, emit: Callable[..., None] = emit_contract
    ) -> Compiled:
        code = Loader(host()).load(text(problem, machine, emit), ["contract"])
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
        return cls(code, prototype(code.addresses["contract"]))


def with_vectors(vector_bytes: int) -> Machine:
    """This machine, with registers of that size used only."""
    registers = 16 if vector_bytes == 32 else 32
    return replace(host(), vector_bytes=vector_bytes, vector_registers=registers)


LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass
class Guarded:
    """Memory of a number of bytes right before, or right after, a page that may not be touched."""

    size: int
    at_end: bool
    map: mmap.mmap = field(init=False)
    address: int = field(init=False)

    def __post_init__(self) -> None:
        page = mmap.PAGESIZE
        inner = -(-max(self.size, 1) // page) * page
        self.map = mmap.mmap(-1, inner + 2 * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        for guard in (start, start + page + inner):
            assert LIBC.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0) == 0
        self.address = start + page + (inner - self.size if self.at_end else 0)

    def array(self) -> np.ndarray:
        return np.frombuffer((ctypes.c_char * self.size).from_address(self.address), dtype=np.uint8)

    def tensor(self, layout: Layout) -> Tensor:
        """The elements there, all of them, in order of memory."""
        raw = torch.from_numpy(self.array())
        return raw.view(DTYPES[layout.element])


def arguments(problem: Problem, addresses: Sequence[int]) -> np.ndarray:
    slots: list[int] = []
    for layout, address in zip(problem.layouts, addresses, strict=True):
        slots.append(address)
        dims = list(enumerate(layout.dims))
        slots += [layout.sizes[n] for n, dim in dims if dim in layout.unknown_sizes]
        slots += [layout.strides[n] for n, dim in dims if dim in layout.unknown_strides]
    return np.array(slots, dtype=np.int64)


def strided(flat: Tensor, layout: Layout) -> Tensor:
    return torch.as_strided(flat, layout.sizes, layout.strides)


def expected(problem: Problem, lhs: Tensor, rhs: Tensor, acc: Tensor) -> Tensor:
    """The sums as the dialect defines them, in float64 or int64."""
    wide = torch.float64 if acc.dtype.is_floating_point else torch.int64
    names = {d: chr(ord("a") + n) for n, d in enumerate({*problem.lhs.dims, *problem.rhs.dims})}
    spelled = ["".join(names[d] for d in layout.dims) for layout in problem.layouts]
    equation = f"{spelled[0]},{spelled[1]}->{spelled[2]}"
    result = torch.einsum(equation, lhs.to(wide), rhs.to(wide))
    return result + acc.to(wide) if problem.accumulate else result
