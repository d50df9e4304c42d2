"""What is known while a nest is being written: the tile of each dim, and tiles that were made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from xdsl.dialects.builtin import AnyFloat, IntegerAttr, IntegerType
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.hints import isa

from lpu_mlir.dialects.expr import Range
from lpu_mlir.dialects.lpu_kernel import Index as KernelIndex
from lpu_mlir.nests.nest import Nest
from lpu_mlir.nests.pointwise import constant_attr
from lpu_mlir.tiling.plan import Plan


@dataclass(frozen=True)
class DimState:
    """The tile of a dim: start, positions, capacity, and the loop level that knows them."""

    offset: KernelIndex
    size: KernelIndex
    capacity: int
    level: int


@dataclass(frozen=True)
class Scope:
    """The dims in scope and what they may be."""

    dims: Mapping[str, DimState]
    ranges: Mapping[str, Range]
    plan: Plan
    guard: SSAValue | None = None
    """The variable of a loop that values rest on whatever their dims: one that keeps a part to one
    core, or that a walk over scores is in."""
    base: int = 0
    """The level in that loop."""

    def level(self, names: Sequence[str] | frozenset[str]) -> int:
        return max([self.base, *(self.dims[name].level for name in names)])

    def at(self, level: int) -> Scope:
        """The scope with every dim known at that level at the earliest."""
        moved = {n: replace(s, level=max(s.level, level)) for n, s in self.dims.items()}
        return replace(self, dims=moved)


@dataclass(frozen=True)
class Running:
    """A part of the nest that is being written: what is known of its dims, and the loops that are
    still to be opened, outermost first."""

    nest: Nest
    plan: Plan
    dims: Mapping[str, DimState]
    loops: tuple[str, ...]


@dataclass(frozen=True)
class TileValue:
    """A tile and the dims that its axes follow."""

    value: SSAValue
    dims: tuple[str, ...]


Step: TypeAlias = Callable[[Scope, Sequence[SSAValue], int], list[SSAValue]]
"""One chunk of a fold: the scope, what is carried, and the level to write at."""

_IDENTITIES = {"add": 0, "mul": 1, "or": 0, "xor": 0}


def identity(kind: str, type: Attribute) -> Attribute:
    """The neutral element of a fold or scan."""
    if kind in _IDENTITIES:
        return constant_attr(_IDENTITIES[kind], type)
    if isinstance(type, AnyFloat):
        return constant_attr(float("-inf") if kind == "max" else float("inf"), type)
    assert isa(type, IntegerType)
    width = type.bitwidth
    if kind == "and":
        return IntegerAttr(-1 if width > 1 else 1, type)
    if width == 1:
        return IntegerAttr(0 if kind == "max" else 1, type)
    return IntegerAttr(-(1 << (width - 1)) if kind == "max" else (1 << (width - 1)) - 1, type)
