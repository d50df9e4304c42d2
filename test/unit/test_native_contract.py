"""Native contractions against float64: any layout, any extents, nothing touched outside."""

from __future__ import annotations

import random
from dataclasses import replace
from math import prod

import pytest
import torch
from contract_harness import (
    SCRATCH_BYTES,
    Compiled,
    Guarded,
    Layout,
    Problem,
    arguments,
    expected,
    strided,
    with_vectors,
)
from xdsl.dialects.builtin import bf16, f16, f32, f64, i1, i8, i16, i32, i64
from xdsl.ir import Attribute

from lpu_mlir.dialects.lpu import element_bytes
from lpu_mlir.dialects.lpu_kernel.types import ui8

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


def check(problem: Problem, vector_bytes: int, seed: int = 0, compiled: Compiled | None = None):
    """Run with memory ending, and starting, at a page that may not be touched, and compare."""
    compiled = compiled or Compiled.of(problem, with_vectors(vector_bytes))
    scratch = torch.empty(SCRATCH_BYTES // 64, dtype=torch.uint8)
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
@pytest.mark.parametrize("seed", range(12))
def test_random(seed: int, vector_bytes: int):
    rng = random.Random(seed)
    for _ in range(4):
        check(random_problem(rng), vector_bytes, seed)
