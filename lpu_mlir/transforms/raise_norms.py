"""Raises rms_norm and layer_norm from means, reciprocal roots and products."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from lpu_mlir.dialects.expr import product
from lpu_mlir.dialects.lpu import element_type, extents
from lpu_mlir.dialects.lpu_graph import LayerNormOp, PointwiseOp, RmsNormOp
from lpu_mlir.dialects.lpu_graph.composite import WIDE
from lpu_mlir.graphs.matching import (
    Match,
    Number,
    Pattern,
    Row,
    Var,
    anchors,
    match,
    point,
    replace_root,
)

X, WEIGHT, BIAS, COUNT = Var("x"), Var("weight"), Var("bias"), Number("count")


def _scale(squared: Pattern) -> Pattern:
    return point("rsqrt", point("add", point("div", Row("add", squared), COUNT), Number("eps")))


_RMS = point("mul", X, _scale(point("mul", X, X)))
_DEVIATION = point("sub", X, point("div", Row("add", X), COUNT))
_LAYER = point("mul", _DEVIATION, _scale(point("mul", _DEVIATION, _DEVIATION)))


def rms_norm(found: Match, rank: int) -> Operation:
    weight = found.values.get("weight")
    return RmsNormOp(found.values["x"], weight, rank, found.numbers["eps"])


def layer_norm(found: Match, rank: int) -> Operation:
    weight, bias = found.values.get("weight"), found.values.get("bias")
    return LayerNormOp(found.values["x"], weight, bias, rank, found.numbers["eps"])


FORMS: Mapping[str, Sequence[tuple[Callable[[Match, int], Operation], Pattern]]] = {
    "add": (
        (layer_norm, point("add", point("mul", _LAYER, WEIGHT), BIAS)),
        (layer_norm, point("add", _LAYER, BIAS)),
    ),
    "mul": (
        (layer_norm, point("mul", _LAYER, WEIGHT)),
        (layer_norm, _LAYER),
        (rms_norm, point("mul", _RMS, WEIGHT)),
        (rms_norm, _RMS),
    ),
}
"""Function at the root -> what is made from what, the larger forms first."""


def norm_rank(found: Match) -> int | None:
    """Over how many last axes a norm is, if it is one: the mean is over all of them, and weight
    and bias have just these."""
    shape = extents(found.values["x"].type)
    axes = found.axes or ()
    rank = len(axes)
    if not axes or axes != tuple(range(len(shape) - rank, len(shape))):
        return None
    inner = shape[len(shape) - rank :]
    if found.numbers["count"] != product(inner).constant():
        return None
    affine = [found.values[name] for name in ("weight", "bias") if name in found.values]
    return rank if all(extents(value.type) == inner for value in affine) else None


def raise_norm(op: PointwiseOp) -> None:
    if element_type(op.output.type) not in WIDE:
        return
    for make, pattern in FORMS.get(op.kind.data, ()):
        found = match(pattern, op)
        rank = norm_rank(found) if found is not None else None
        if found is not None and rank is not None:
            return replace_root(op, [make(found, rank)])


@dataclass(frozen=True)
class RaiseNormsPass(ModulePass):
    """Raises rms_norm and layer_norm over the last axes, in f32 or f64.

    Conversions around a norm stay where they are, so that a weight that is multiplied in half
    precision after a conversion is no part of it.

    Before:
    ```mlir
    %0 = lpu_graph.pointwise "mul"(%x, %x) : …
    %1 = lpu_graph.reduce "add" %0 dims <[1]> : tensor<3x8xf32> -> tensor<3xf32>
    %2 = lpu_graph.reshape %1 : tensor<3xf32> -> tensor<3x1xf32>
    %3 = lpu_graph.pointwise "div"(%2, %eight) : …
    %4 = lpu_graph.pointwise "add"(%3, %eps) : …
    %5 = lpu_graph.pointwise "rsqrt"(%4) : …
    %6 = lpu_graph.pointwise "mul"(%x, %5) : …
    %7 = lpu_graph.pointwise "mul"(%w, %6) : …
    ```
    After:
    ```mlir
    %7 = lpu_graph.rms_norm %x weight %w rank 1 eps 1.0e-6 : f32 : …
    ```
    """

    name = "raise-norms"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for root in anchors(op, PointwiseOp):
            assert isinstance(root, PointwiseOp)
            raise_norm(root)
