"""Native contractions against float64: any layout, any extents, nothing touched outside."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import pytest
import torch
from contract_harness import (
    SCRATCH_BYTES,
    Compiled,
    Guarded,
    Layout,
    Problem,
    arguments,
    contiguous,
    expected,
    strided,
    text,
    with_vectors,
)
from xdsl.dialects.builtin import bf16, f16, f32, f64, i1, i8, i16, i32, i64
from xdsl.ir import Attribute

from lpu_mlir.dialects.lpu import element_bytes
from lpu_mlir.dialects.lpu_kernel.types import ui8
from lpu_mlir.interpreter.native.compile import object_for
from lpu_mlir.interpreter.native.contract import emit_contract
from lpu_mlir.interpreter.native.contract.axes import axes_of
from lpu_mlir.interpreter.native.contract.emit import Product
from lpu_mlir.interpreter.native.contract.loops import Scratch
from lpu_mlir.interpreter.native.contract.plan import Plan, plans
from lpu_mlir.interpreter.native.llvm import Builder
from lpu_mlir.interpreter.native.machine import MACHINES, Machine
from lpu_mlir.interpreter.native.tile import View

pytestmark = pytest.mark.sampled

Emit = Callable[..., None]

OPERANDS: dict[Attribute, tuple[Attribute, ...]] = {
    f32: (f32, f32, f32, bf16, f16),
    f64: (f64, f32),
    i64: (i64, i32, i8, i1, ui8),
    i32: (i32, i16, i8, ui8),
    i16: (i16, i8),
    i8: (i8,),
}


def fill(flat: torch.Tensor, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    if flat.dtype.is_floating_point:
        flat.copy_(torch.randn(flat.shape, generator=generator, dtype=torch.float64))
    elif flat.dtype == torch.bool:
        flat.copy_(torch.randint(0, 2, flat.shape, generator=generator))
    else:
        low, high = torch.iinfo(flat.dtype).min, torch.iinfo(flat.dtype).max
        flat.copy_(torch.randint(low, high, flat.shape, generator=generator, dtype=torch.int64))


def check(problem: Problem, vector_bytes: int, seed: int = 0, emit: Emit = emit_contract) -> None:
    """Run with memory ending, and starting, at a page that may not be touched, and compare."""
    compiled = Compiled.of(problem, with_vectors(vector_bytes), emit)
    scratch = torch.empty(SCRATCH_BYTES, dtype=torch.uint8)
    for at_end in (True, False):
        memory = [
            Guarded(layout.span * element_bytes(layout.element), at_end)
            for layout in problem.layouts
        ]
        flats = [m.tensor(layout) for m, layout in zip(memory, problem.layouts, strict=True)]
        for n, flat in enumerate(flats):
            fill(flat, seed + n)
        lhs, rhs, out = (
            strided(flat, layout) for flat, layout in zip(flats, problem.layouts, strict=True)
        )
        wanted = expected(problem, lhs, rhs, out)
        # What lies between the elements of the result stays as it was.
        whole = flats[2].clone()
        strided(whole, problem.out).copy_(wanted.to(whole.dtype))
        slots = arguments(problem, [m.address for m in memory])
        compiled.function(slots.ctypes.data, scratch.data_ptr())
        if not out.dtype.is_floating_point:
            assert torch.equal(flats[2], whole)
            continue
        magnitude = expected(
            replace(problem, accumulate=False), lhs.abs(), rhs.abs(), torch.zeros_like(out)
        )
        bound = torch.zeros_like(whole, dtype=torch.float64)
        terms = prod(s for d, s in problem.extents.items() if d not in problem.out.dims)
        strided(bound, problem.out).copy_(magnitude * (4 + terms / 2) + wanted.abs())
        error = (flats[2].to(torch.float64) - whole.to(torch.float64)).abs()
        assert bool((error <= bound * torch.finfo(whole.dtype).eps).all())


# --- random problems ----------------------------------------------------------------------------


def random_layout(
    rng: random.Random, element: Attribute, dims: list[int], sizes: dict[int, int], is_out: bool
) -> Layout:
    """Dims in some order in memory, some apart; operands may repeat, and windows may overlap."""
    order = rng.sample(dims, len(dims))
    stride = 1
    strides: dict[int, int] = {}
    for dim in order:
        if stride == 1 and rng.random() < 0.15:
            stride = rng.choice((2, 3))
        strides[dim] = stride
        stride *= max(sizes[dim], 1)
        if rng.random() < 0.3:
            stride += rng.randrange(5)
    if not is_out:
        for dim in dims:
            if rng.random() < 0.1:
                strides[dim] = 0
        if len(dims) >= 2 and rng.random() < 0.25:
            window, along = rng.sample(dims, 2)
            strides[window] = strides[along] * rng.choice((1, 2))
    unknown_sizes = frozenset(dim for dim in dims if rng.random() < 0.2)
    unknown_strides = frozenset(dim for dim in dims if rng.random() < 0.05)
    if rng.random() < 0.5:
        unknown_sizes, unknown_strides = frozenset[int](), frozenset[int]()
    return Layout(
        element,
        tuple(dims),
        tuple(sizes[d] for d in dims),
        tuple(strides[d] for d in dims),
        unknown_sizes,
        unknown_strides,
    )


def random_problem(rng: random.Random) -> Problem:
    acc = rng.choice((f32, f32, f32, f32, f64, i64, i32, i16, i8))
    roles = {"m": 5, "n": 5, "k": 5, "b": 2, "kl": 0.5, "kr": 0.5}
    kinds = rng.choices([*roles], [*roles.values()], k=rng.randint(0, 6))
    kinds.sort(key=lambda kind: kind.startswith("k"))
    extents = (0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 18, 24, 31, 33, 40, 64, 70)
    weights = (0.3, 1, *([1] * (len(extents) - 2)))
    sizes = {dim: rng.choices(extents, weights)[0] for dim in range(len(kinds))}
    # Few large dims, so that the sums stay small.
    total = 1
    for dim in rng.sample(range(len(kinds)), len(kinds)):
        if total * max(sizes[dim], 1) > 60_000:
            sizes[dim] = rng.choice((1, 2, 3))
        total *= max(sizes[dim], 1)
    lhs = [dim for dim, kind in enumerate(kinds) if kind in ("m", "k", "b", "kl")]
    rhs = [dim for dim, kind in enumerate(kinds) if kind in ("n", "k", "b", "kr")]
    out = [dim for dim, kind in enumerate(kinds) if not kind.startswith("k")]
    lhs_element, rhs_element = rng.choices(OPERANDS[acc], k=2)
    return Problem(
        random_layout(rng, lhs_element, rng.sample(lhs, len(lhs)), sizes, False),
        random_layout(rng, rhs_element, rng.sample(rhs, len(rhs)), sizes, False),
        random_layout(rng, acc, out, sizes, True),
        accumulate=rng.random() < 0.5,
    )


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("seed", range(8))
def test_random(seed: int, vector_bytes: int):
    rng = random.Random(seed)
    for _ in range(4):
        check(random_problem(rng), vector_bytes, seed)


def by(pick: Callable[[list[Plan]], Plan]) -> Emit:
    """Emits by one of all plans, instead of the one estimated to be the best."""

    def emit(
        b: Builder,
        machine: Machine,
        lhs: View,
        lhs_dims: Sequence[int],
        rhs: View,
        rhs_dims: Sequence[int],
        out: View,
        *,
        accumulate: bool,
        scratch: Scratch,
    ) -> None:
        axes = axes_of(b, lhs, lhs_dims, rhs, rhs_dims, out)
        if any(axis.size == 0 for axis in axes):
            emit_contract(
                b,
                machine,
                lhs,
                lhs_dims,
                rhs,
                rhs_dims,
                out,
                accumulate=accumulate,
                scratch=scratch,
            )
            return
        lanes = machine.lanes(element_bytes(out.element))
        found = [
            plan
            for plan in plans(axes, lanes, machine.vector_registers)
            if plan.vector is None or isinstance(plan.vector.size, int)
        ]
        Product(b, machine, lhs, rhs, out, scratch).by(pick(found), accumulate)

    return emit


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("seed", range(100, 108))
def test_any_plan(seed: int, vector_bytes: int):
    rng = random.Random(seed)
    for _ in range(4):
        problem = random_problem(rng)
        check(problem, vector_bytes, seed, by(rng.choice))


@pytest.mark.parametrize(
    ("form", "dot", "packed"), [("nt", True, False), ("nn", False, False), ("nt", False, True)]
)
@pytest.mark.parametrize("seed", range(3))
def test_kinds_of_plan(form: str, dot: bool, packed: bool, seed: int):
    def pick(found: list[Plan]) -> Plan:
        return random.Random(seed).choice(
            [p for p in found if p.lanes > 1 and p.dot == dot and p.packed == packed]
        )

    check(replace(product(19, 37, 41, form), accumulate=True), 64, emit=by(pick))


# --- products -----------------------------------------------------------------------------------


def product(
    m: int, n: int, k: int, form: str, element: Attribute = f32, acc: Attribute = f32
) -> Problem:
    """x[m, k] or x[k, m] ("t" first) by w[k, n] or w[n, k] ("t" last)."""
    left = contiguous(element, (2, 0), (k, m)) if form[0] == "t" else None
    right = contiguous(element, (1, 2), (n, k)) if form[1] == "t" else None
    return Problem(
        left or contiguous(element, (0, 2), (m, k)),
        right or contiguous(element, (2, 1), (k, n)),
        contiguous(acc, (0, 1), (m, n)),
    )


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("form", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("size", [(65, 200, 137), (5, 70, 3079), (16, 48, 4096), (33, 257, 768)])
def test_product(size: tuple[int, int, int], form: str, accumulate: bool):
    check(replace(product(*size, form), accumulate=accumulate), 64)


@pytest.mark.parametrize("element", [bf16, f16])
@pytest.mark.parametrize("form", ["nn", "nt", "tn"])
def test_narrow_floats(form: str, element: Attribute):
    check(product(31, 100, 300, form, element), 64)


@pytest.mark.parametrize("rows", [1, 3, 4, 7, 18, 97])
@pytest.mark.parametrize("element", [f32, bf16])
def test_matrix_vector(rows: int, element: Attribute):
    x, y = contiguous(element, (1,), (300,)), contiguous(f32, (0,), (rows,))
    for accumulate in (False, True):
        check(Problem(x, contiguous(element, (0, 1), (rows, 300)), y, accumulate), 64)
        check(Problem(x, contiguous(element, (1, 0), (300, rows)), y, accumulate), 64)


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("columns", [31, 32, 33, 47, 64, 79, 95, 130, 577])
@pytest.mark.parametrize("other", [bf16, f32])
def test_pairs_of_bf16(columns: int, other: Attribute, vector_bytes: int):
    """Elements that are read again for the last, partly filled vector count once."""
    x, y = contiguous(other, (1,), (columns,)), contiguous(f32, (0,), (18,))
    problem = Problem(x, contiguous(bf16, (0, 1), (18, columns)), y, accumulate=True)
    check(problem, vector_bytes)
    check(product(3, 5, columns, "nt", bf16), vector_bytes)
    words = f"load <{vector_bytes // 4} x i32>"
    paired = columns >= vector_bytes // 2
    assert (words in text(problem, with_vectors(vector_bytes))) == paired


def streaming(emit: Emit) -> Emit:
    def emitted(b: Builder, machine: Machine, *views: Any, **how: Any) -> None:
        emit(b, replace(machine, streams=True), *views, **how)

    return emitted


@pytest.mark.parametrize("element", [f32, bf16])
def test_matrices_that_are_read_once_are_streamed(element: Attribute):
    rows, columns = 130, 300
    x, y = contiguous(element, (1,), (columns,)), contiguous(f32, (0,), (rows,))
    problem = Problem(x, contiguous(element, (0, 1), (rows, columns)), y)
    check(problem, 64, emit=streaming(emit_contract))
    machine = with_vectors(64)
    once = "i32 0, i32 0, i32 1)"  # read, not to be kept, data
    assert once in text(problem, replace(machine, streams=True))
    assert once not in text(problem, machine)
    # Rows that several columns meet are read again; small matrices may stay.
    for other in (product(64, rows, columns, "nt", element), product(1, 4, 64, "nt", element)):
        assert once not in text(other, replace(machine, streams=True))


def test_dot_and_outer_product():
    a, z = contiguous(f32, (0,), (1001,)), contiguous(f32, (0,), (1001,))
    check(Problem(a, z, contiguous(f32, (), ())), 64)
    check(Problem(a, contiguous(f32, (1,), (77,)), contiguous(f32, (0, 1), (1001, 77))), 64)


@pytest.mark.parametrize(("step", "kernel"), [(1, 3), (2, 3), (2, 1), (3, 2)])
@pytest.mark.parametrize("channels", [(3, 5), (16, 24)])
@pytest.mark.parametrize("size", [7, 20])
def test_convolution(size: int, channels: tuple[int, int], step: int, kernel: int):
    c_in, c_out = channels
    wide = (size - 1) * step + kernel
    windows = Layout(
        f32,
        (3, 1, 4, 2, 5),
        (c_in, size, kernel, size, kernel),
        (wide * wide, step * wide, wide, step, 1),
    )
    weights = contiguous(f32, (0, 3, 4, 5), (c_out, c_in, kernel, kernel))
    check(Problem(windows, weights, contiguous(f32, (0, 1, 2), (c_out, size, size))), 64)


@pytest.mark.parametrize("unknown", [{0}, {1}, {2}, {0, 1, 2}])
@pytest.mark.parametrize("size", [(1, 1, 1), (3, 20, 15), (70, 33, 64), (0, 5, 3), (4, 40, 0)])
def test_extents_known_at_run_time(size: tuple[int, int, int], unknown: set[int]):
    for form in ("nn", "nt"):
        problem = product(*size, form)
        layouts = [replace(layout, unknown_sizes=frozenset(unknown)) for layout in problem.layouts]
        check(Problem(*layouts, accumulate=True), 64)


def test_products_add_up_to_nothing_over_no_extent():
    problem = product(5, 20, 0, "nt")
    check(problem, 64)
    check(replace(problem, accumulate=True), 64)


# --- other machines -----------------------------------------------------------------------------


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES.keys())
@pytest.mark.parametrize("element", [f32, bf16])
def test_compiles_for_other_machines(machine: Machine, element: Attribute):
    for form in ("nn", "nt"):
        source = text(product(64, 96, 128, form, element), machine)
        lanes = f"<{machine.lanes(4)} x float>"
        assert f"llvm.fma.v{machine.lanes(4)}f32" in source
        assert lanes in source
        assert object_for(source, machine)
