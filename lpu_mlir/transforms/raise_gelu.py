"""Raises the three forms of gelu from the functions that they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi, sqrt

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from lpu_mlir.dialects.lpu import element_type
from lpu_mlir.dialects.lpu_graph import PointwiseOp
from lpu_mlir.dialects.lpu_graph.composite import WIDE
from lpu_mlir.graphs.matching import Pattern, Var, anchors, match, point, replace_root

X = Var("x")
_CUBES = (
    point("mul", point("mul", X, X), X),
    point("pow", X, 3.0),
)
_ERF = (
    point("erf", point("mul", X, sqrt(0.5))),
    point("erf", point("div", X, sqrt(2))),
)
_TANH = tuple(
    point("tanh", point("mul", point("add", X, point("mul", cube, 0.044715)), sqrt(2 / pi)))
    for cube in _CUBES
)


def _halves(like: Pattern) -> Sequence[Pattern]:
    """x / 2 * (1 + like), multiplied in any order."""
    above = point("add", like, 1.0)
    return (
        point("mul", point("mul", X, 0.5), above),
        point("mul", X, point("mul", above, 0.5)),
        point("mul", point("mul", X, above), 0.5),
    )


FORMS: Sequence[tuple[str, Pattern]] = (
    *(("gelu", form) for erf in _ERF for form in _halves(erf)),
    *(("gelu_tanh", form) for tanh in _TANH for form in _halves(tanh)),
    ("quick_gelu", point("mul", X, point("sigmoid", point("mul", X, 1.702)))),
)
"""The function that is made, and from what; a product is at every root."""


def raise_gelu(op: PointwiseOp) -> None:
    # In half precision every step is rounded, which the function as a whole is not.
    if op.kind.data != "mul" or element_type(op.output.type) not in WIDE:
        return
    for kind, pattern in FORMS:
        found = match(pattern, op)
        if found is not None and found.values["x"].type == op.output.type:
            return replace_root(op, [PointwiseOp(kind, found.values["x"])])


@dataclass(frozen=True)
class RaiseGeluPass(ModulePass):
    """Raises gelu, its approximation by tanh and the one by a sigmoid.

    Before:
    ```mlir
    %0 = lpu_graph.pointwise "mul"(%x, %root_of_half) : …
    %1 = lpu_graph.pointwise "erf"(%0) : …
    %2 = lpu_graph.pointwise "add"(%1, %one) : …
    %3 = lpu_graph.pointwise "mul"(%x, %half) : …
    %4 = lpu_graph.pointwise "mul"(%3, %2) : …
    ```
    After:
    ```mlir
    %4 = lpu_graph.pointwise "gelu"(%x) : tensor<3x4xf32> -> tensor<3x4xf32>
    ```
    """

    name = "raise-gelu"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for root in anchors(op, PointwiseOp):
            assert isinstance(root, PointwiseOp)
            raise_gelu(root)
