"""Raises softmax and log_softmax from exponentials, sums and the largest element."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from lpu_mlir.dialects.lpu import element_type
from lpu_mlir.dialects.lpu_graph import LogSoftmaxOp, PointwiseOp, SoftmaxOp
from lpu_mlir.dialects.lpu_graph.composite import WIDE, RowOp
from lpu_mlir.graphs.matching import Pattern, Row, Var, anchors, match, point, replace_root

X = Var("x")
_SHIFTED = point("sub", X, Row("max", X))
_EXPONENTIAL = point("exp", _SHIFTED)

FORMS: Mapping[str, tuple[type[RowOp], Pattern]] = {
    "div": (SoftmaxOp, point("div", _EXPONENTIAL, Row("add", _EXPONENTIAL))),
    "sub": (LogSoftmaxOp, point("sub", _SHIFTED, point("log", Row("add", _EXPONENTIAL)))),
}
"""Function at the root -> what it makes, and from what."""


def raise_softmax(op: PointwiseOp) -> None:
    if op.kind.data not in FORMS or element_type(op.output.type) not in WIDE:
        return
    made, pattern = FORMS[op.kind.data]
    found = match(pattern, op)
    if found is not None and found.axes is not None and len(found.axes) == 1:
        replace_root(op, [made(found.values["x"], found.axes[0])])


@dataclass(frozen=True)
class RaiseSoftmaxPass(ModulePass):
    """Raises softmax and log_softmax along one axis.

    Before:
    ```mlir
    %0 = lpu_graph.reduce "max" %x dims <[1]> : tensor<3x4xf32> -> tensor<3xf32>
    %1 = lpu_graph.reshape %0 : tensor<3xf32> -> tensor<3x1xf32>
    %2 = lpu_graph.pointwise "sub"(%x, %1) : …
    %3 = lpu_graph.pointwise "exp"(%2) : …
    %4 = lpu_graph.reduce "add" %3 dims <[1]> : tensor<3x4xf32> -> tensor<3xf32>
    %5 = lpu_graph.reshape %4 : tensor<3xf32> -> tensor<3x1xf32>
    %6 = lpu_graph.pointwise "div"(%3, %5) : …
    ```
    After:
    ```mlir
    %6 = lpu_graph.softmax %x dim 1 : tensor<3x4xf32> -> tensor<3x4xf32>
    ```
    """

    name = "raise-softmax"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for root in anchors(op, PointwiseOp):
            assert isinstance(root, PointwiseOp)
            raise_softmax(root)
