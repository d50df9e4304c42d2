"""The gradients of ATen's paddings that repeat what is at the edges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from xdsl.ir import SSAValue

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu import Extent
from lpu_mlir.frontend.builder import GraphBuilder, Tensors, dtype_of, rank, shape_of
from lpu_mlir.frontend.dtypes import HALVES
from lpu_mlir.frontend.errors import NotNative

aten = torch.ops.aten
Handler: TypeAlias = Callable[..., Tensors]


def replication_pad_backward(
    n: int, b: GraphBuilder, gradient: SSAValue, x: SSAValue, padding: Sequence[Extent]
) -> SSAValue:
    """Each of the last n dims in turn: what lies before an edge is added to the element there."""
    if b.dtype in HALVES:
        raise NotNative("eager rounds half precision after each element that it adds")
    if dtype_of(gradient) != dtype_of(x) or not b.dtype.is_floating_point:
        raise NotNative("eager refuses integers and operands of different dtypes")
    for place in range(n):
        dim = rank(x) - 1 - place
        gradient = _folded(b, gradient, dim, shape_of(x)[dim], padding[2 * place])
    return gradient


def _folded(b: GraphBuilder, x: SSAValue, dim: int, size: Expr, before: Extent) -> SSAValue:
    """One dim of `x` with element i added to element i - before, or the nearest that there is."""
    shape = list(shape_of(x))
    positions = b.pointwise("sub", b.iota(0, [shape[dim]]), b.number(before, torch.int64))
    low, last = b.full(0, torch.int64), b.number(size - 1, torch.int64)
    nearest = b.pointwise("minimum", b.pointwise("maximum", positions, low), last)
    shape[dim] = size
    return b.scatter("add", b.full(0, b.dtype, shape), x, [nearest], [dim], dim)


HANDLERS: Mapping[Any, Handler] = {
    aten.replication_pad1d_backward.default: partial(replication_pad_backward, 1),
    aten.replication_pad2d_backward.default: partial(replication_pad_backward, 2),
    aten.replication_pad3d_backward.default: partial(replication_pad_backward, 3),
}
