"""Raises rotary position embeddings from their halves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu import element_type, extents
from lpu_mlir.dialects.lpu_graph import ConcatOp, PointwiseOp, RopeOp, SliceOp
from lpu_mlir.dialects.lpu_graph.kinds import in_domain
from lpu_mlir.graphs.matching import (
    Match,
    Pattern,
    Var,
    anchors,
    match,
    point,
    replace_root,
)


@dataclass(frozen=True)
class Half(Pattern):
    """The first or second half of the last axis of a value."""

    operand: Pattern
    second: bool

    def matches(self, value: SSAValue, found: Match) -> Iterator[Match]:
        if not isinstance(op := value.owner, SliceOp):
            return
        shape, result = extents(op.input.type), extents(op.output.type)
        half = result[-1]
        starts = (*[Expr.const(0)] * (len(shape) - 1), half if self.second else Expr.const(0))
        taken = result == (*shape[:-1], half) and half + half == shape[-1]
        if taken and op.starts.data == starts and all(step == 1 for step in op.steps.data):
            yield from self.operand.matches(op.input, found.within(op))


@dataclass(frozen=True)
class Rotated(Pattern):
    """The negated second half of the last axis of a value, and then the first."""

    operand: Pattern

    def matches(self, value: SSAValue, found: Match) -> Iterator[Match]:
        op = value.owner
        if not isinstance(op, ConcatOp) or len(op.inputs) != 2:
            return
        if op.dim.value.data != len(extents(op.output.type)) - 1:
            return
        second, first = op.inputs
        negated = point("neg", Half(self.operand, second=True))
        for half in negated.matches(second, found.within(op)):
            yield from Half(self.operand, second=False).matches(first, half)


X = Var("x")
ROPE = point("add", point("mul", X, Var("cos")), point("mul", Rotated(X), Var("sin")))


def raise_rope(op: PointwiseOp) -> None:
    if op.kind.data != "add" or not in_domain(element_type(op.output.type), "float"):
        return
    found = match(ROPE, op)
    if found is None:
        return
    x, cos, sin = (found.values[name] for name in ("x", "cos", "sin"))
    last = extents(x.type)[-1].constant()
    if last is not None and last % 2 == 0 and x.type == op.output.type:
        replace_root(op, [RopeOp(x, cos, sin)])


@dataclass(frozen=True)
class RaiseRopePass(ModulePass):
    """Raises the rotation of the halves of the last axis.

    Before:
    ```mlir
    %0 = lpu_graph.pointwise "mul"(%x, %cos) : …
    %1 = lpu_graph.slice %x starts <[0, 0]> steps <[1, 1]> : tensor<7x12xf32> -> tensor<7x6xf32>
    %2 = lpu_graph.slice %x starts <[0, 6]> steps <[1, 1]> : tensor<7x12xf32> -> tensor<7x6xf32>
    %3 = lpu_graph.pointwise "neg"(%2) : …
    %4 = lpu_graph.concat %3, %1 dim 1 : …
    %5 = lpu_graph.pointwise "mul"(%4, %sin) : …
    %6 = lpu_graph.pointwise "add"(%0, %5) : …
    ```
    After:
    ```mlir
    %6 = lpu_graph.rope %x cos %cos sin %sin : …
    ```
    """

    name = "raise-rope"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for root in anchors(op, PointwiseOp):
            assert isinstance(root, PointwiseOp)
            raise_rope(root)
