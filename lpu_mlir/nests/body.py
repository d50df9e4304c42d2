"""What a tensor operation computes at one point: operands seen through views, and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.dialects.builtin import BFloat16Type, Float16Type, f32, i16
from xdsl.ir import Attribute, SSAValue

from lpu_mlir.dialects.expr import Expr, Range, simplify
from lpu_mlir.dialects.lpu import extents, scalar_type, ui8
from lpu_mlir.dialects.lpu_loop import Dim
from lpu_mlir.nests.nest import Check
from lpu_mlir.nests.pointwise import Numbers
from lpu_mlir.nests.scalar import Node, Scalars

Point: TypeAlias = tuple[Expr, ...]


@dataclass(frozen=True)
class View:
    """A tensor seen through index expressions over the view's own axes, named v0, v1, …"""

    source: SSAValue
    index: tuple[Expr, ...]
    shape: tuple[Expr, ...]

    @staticmethod
    def of(tensor: SSAValue) -> View:
        shape = extents(tensor.type)
        return View(tensor, axes_of(shape), shape)

    def ranges(self) -> dict[str, Range]:
        return {f"v{i}": (Expr.const(0), extent - 1) for i, extent in enumerate(self.shape)}

    def runs_backwards(self) -> bool:
        """Whether a position counts down along an axis."""
        steps = [e.coefficient(name) for e in self.index for name in e.names()]
        return any(step is not None and (step.constant() or 0) < 0 for step in steps)

    def is_whole(self) -> bool:
        return self.shape == extents(self.source.type) and self.index == axes_of(self.shape)


def axes_of(shape: Sequence[Expr]) -> Point:
    """The point of a view's own axes; an axis of extent 1 has only position 0."""
    return tuple(Expr.const(0) if e == 1 else Expr.name(f"v{i}") for i, e in enumerate(shape))


def at_axes(point: Sequence[Expr]) -> dict[str, Expr]:
    return {f"v{i}": position for i, position in enumerate(point)}


@dataclass
class Body:
    """The nest being made for one operation: where its operands are and what it must check."""

    scalars: Scalars
    views: Mapping[SSAValue, View]
    location: str = ""
    checks: list[Check] = field(default_factory=list[Check])

    def load(self, tensor: SSAValue, point: Sequence[Expr]) -> Node:
        """An element of a tensor; `point` may be shorter or longer by NumPy broadcasting."""
        view = self.views[tensor]
        aligned = list(point)[len(point) - len(view.shape) :]
        aligned = [Expr.const(0) if e == 1 else p for e, p in zip(view.shape, aligned, strict=True)]
        at = at_axes(aligned)
        index = [simplify(e.substitute(at), self.scalars.ranges) for e in view.index]
        return self.scalars.load(view.source, index)

    def along(self, extent: Expr) -> tuple[Expr, list[Dim]]:
        """A position that runs over an extent, and the dims that a fold over it binds."""
        if extent == 1:
            return Expr.const(0), []
        name = self.scalars.fresh(extent)
        return Expr.name(name), [(name, extent)]

    def fold(self, kind: str, dims: Sequence[Dim], value: Node, element: Attribute) -> Node:
        """The value combined over some dims; itself, if there are none."""
        if not dims:
            return value
        return self.scalars.fold(kind, dims, value, scalar_type(element))

    def numbers(self, element: Attribute) -> Numbers:
        return Numbers(self.scalars, element)

    def check(self, condition: Node, error: str, message: str) -> None:
        where = f" ({self.location})" if self.location else ""
        self.checks.append(Check(condition, error, message + where))


def wide_type(element: Attribute, kind: str) -> Attribute:
    """The element type in which a reduction accumulates; integers are compared with their sign."""
    if element == ui8 and kind in ("max", "min"):
        return i16
    half = isinstance(element, BFloat16Type | Float16Type)
    return f32 if half and kind in ("add", "mul") else element
