"""Which dim of a nest to take in vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from lpu_mlir.dialects.lpu import element_bytes
from lpu_mlir.interpreter.native.llvm import Int
from lpu_mlir.interpreter.native.machine import Machine
from lpu_mlir.interpreter.native.nest import is_near
from lpu_mlir.interpreter.native.tile import View

Access: TypeAlias = tuple[View, Sequence[int]]
"""Memory that a nest reads or writes, with the nest's dim of each dim of the view."""

ARITHMETIC = 2.0
"""What computing an element costs, with one access of memory as the unit: a rough mean."""


def lanes_for(machine: Machine, accesses: Iterable[Access]) -> int:
    """Lanes of a nest: as many of its widest elements, or of 4 bytes, as fill a register."""
    widest = max((element_bytes(view.element) for view, _ in accesses), default=4)
    return machine.lanes(max(widest, 4))


def choose_vector(
    sizes: Sequence[Int], accesses: Sequence[Access], lanes: int, among: Iterable[int]
) -> int | None:
    """The dim that is cheapest in vectors; None if single elements are cheaper still."""
    best, dim_of_best = len(accesses) + ARITHMETIC, None
    for dim in among:
        cost = vector_cost(dim, sizes[dim], accesses, lanes)
        if cost <= best:
            best, dim_of_best = cost, dim
    return dim_of_best


def vector_cost(dim: int, size: Int, accesses: Sequence[Access], lanes: int) -> float:
    """What an element costs with this dim in vectors, of which the last may be filled in part."""
    cost = ARITHMETIC / lanes
    for view, dims in accesses:
        strides = [s for s, own in zip(view.strides, dims, strict=True) if own == dim]
        if not strides or strides == [0]:
            cost += 0.25 / lanes
        elif strides == [1]:
            cost += 1 / lanes
        elif len(strides) == 1 and is_near(strides[0]):
            cost += 2 * strides[0] / lanes
        else:
            cost += 1.0
    if not isinstance(size, int) or size == 0:
        return cost
    return cost * (-(-size // lanes) * lanes) / size
