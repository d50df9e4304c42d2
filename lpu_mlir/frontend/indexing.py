"""ATen operators that address elements by tensors of positions.

For a position outside [0, extent) gather and scatter raise IndexError, or what eager does instead.
Where eager counts negative positions from the end, they are normalised here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from xdsl.ir import SSAValue

from lpu_mlir.dialects.lpu import Extent
from lpu_mlir.dialects.lpu_graph import broadcast_extents
from lpu_mlir.frontend.builder import (
    GraphBuilder,
    Operand,
    Tensors,
    dtype_of,
    rank,
    shape_of,
)
from lpu_mlir.frontend.dtypes import opmath
from lpu_mlir.frontend.errors import NotNative
from lpu_mlir.frontend.masks import masked_put

aten = torch.ops.aten
Handler: TypeAlias = Callable[..., Tensors]
MASKS = (torch.bool, torch.uint8)
RAISES_OTHERS = (
    "aten.gather.default",
    "aten.scatter.src",
    "aten.scatter.value",
    "aten.scatter_add.default",
    "aten.scatter.reduce",
    "aten.scatter.value_reduce",
    "aten.scatter_reduce.two",
)
"""Operators of eager that raise RuntimeError instead of IndexError."""
OF_BOOL = {"add": "max", "mul": "min"}
"""Of booleans the sum is whether any is true, the product whether all are."""


def _error(b: GraphBuilder) -> str | None:
    """What eager raises for a position out of range, if that is not IndexError."""
    return "RuntimeError" if b.original in RAISES_OTHERS else None


def kind_for(kind: str, dtype: torch.dtype) -> str:
    """How `scatter` combines elements of that dtype."""
    return OF_BOOL.get(kind, kind) if dtype == torch.bool else kind


# --- one dim ------------------------------------------------------------------------------------


def embedding(b: GraphBuilder, weight: SSAValue, indices: SSAValue, *_: Any, **__: Any) -> SSAValue:
    return b.gather(weight, [b.convert(indices, torch.int64)], [0], 0)


def index_select(b: GraphBuilder, x: SSAValue, dim: int, index: SSAValue) -> SSAValue:
    positions = b.convert(index, torch.int64)
    if not rank(x):
        flat = b.gather(b.reshape(x, [1]), [b.reshape(positions, [1])], [0], 0)
        return b.reshape(flat, b.shape)
    dim %= rank(x)
    found = b.gather(x, [positions], [dim], dim, error="RuntimeError" if dim else None)
    return b.reshape(found, b.shape)


def index_add(
    b: GraphBuilder,
    x: SSAValue,
    dim: int,
    index: SSAValue,
    source: SSAValue,
    *,
    alpha: float = 1,
) -> SSAValue:
    """Half precision is rounded once, as in eager, but for vectors and with a factor each time."""
    source = b.convert(source, b.dtype)
    if alpha != 1 and b.dtype == torch.bool:
        raise NotNative("booleans times a number")
    if any(extent == 0 for extent in shape_of(x)):
        raise NotNative("what eager does with positions in nothing depends on its form")
    if alpha != 1:
        source = b.pointwise("mul", source, b.number(alpha, b.dtype))
    elif rank(x) > 1:
        dtype = opmath(b.dtype)
        x, source = b.convert(x, dtype), b.convert(source, dtype)
    error = "RuntimeError" if rank(x) > 1 else None  # eager has a form of its own for one dim
    return b.convert(at_positions(b, "add", x, dim, index, source, error), b.dtype)


def index_copy(
    b: GraphBuilder, x: SSAValue, dim: int, index: SSAValue, source: SSAValue
) -> SSAValue:
    if dtype_of(index) != torch.int64:
        raise NotNative("eager takes no other positions than int64")
    return at_positions(b, "replace", x, dim, index, b.convert(source, b.dtype))


def at_positions(
    b: GraphBuilder,
    kind: str,
    x: SSAValue,
    dim: int,
    index: SSAValue,
    source: SSAValue,
    error: str | None = None,
) -> SSAValue:
    """x with the slices of a source at positions of one dim; `error` is as in `GraphBuilder`."""
    kind = kind_for(kind, dtype_of(x))
    x, index = at_least_1d(b, x), at_least_1d(b, b.convert(index, torch.int64))
    dim %= rank(x)
    window = [*shape_of(x)[:dim], *shape_of(index), *shape_of(x)[dim + 1 :]]
    updates = b.reshape(source, window)
    return b.reshape(b.scatter(kind, x, updates, [index], [dim], dim, error=error), b.shape)


# --- advanced indexing --------------------------------------------------------------------------


def _positions(
    b: GraphBuilder, x: SSAValue, indices: Sequence[SSAValue | None]
) -> tuple[list[SSAValue], list[int], int]:
    """Index tensors of one shape, the dims they address, and where their dims go in the result."""
    dims = [dim for dim, index in enumerate(indices) if index is not None]
    chosen = [index for index in indices if index is not None]
    if any(dtype_of(index) in MASKS for index in chosen):
        raise NotNative("the number of elements that a mask selects depends on data")
    shape = broadcast_extents(*map(shape_of, chosen))
    extents = shape_of(x)
    positions = [
        b.broadcast(b.from_end(index, extents[dim]), shape)
        for index, dim in zip(chosen, dims, strict=True)
    ]
    adjacent = dims == list(range(dims[0], dims[0] + len(dims)))
    return positions, dims, dims[0] if adjacent else 0


def index(b: GraphBuilder, x: SSAValue, indices: Sequence[SSAValue | None]) -> SSAValue:
    return b.gather(x, *_positions(b, x, indices))


def index_put(
    b: GraphBuilder,
    x: SSAValue,
    indices: Sequence[SSAValue | None],
    values: SSAValue,
    accumulate: bool = False,
) -> SSAValue:
    masks = [i for i in indices if i is not None and dtype_of(i) in MASKS]
    if masks:
        if len(masks) != sum(i is not None for i in indices) or len(masks) > 1:
            raise NotNative("a mask combined with other indices")
        if not rank(x):
            raise NotNative("eager refuses a mask of a 0-d tensor")
        return masked_put(b, x, masks[0], list(indices).index(masks[0]), values, accumulate)
    positions, dims, at = _positions(b, x, indices)
    kept = [e for dim, e in enumerate(shape_of(x)) if dim not in dims]
    window = [*kept[:at], *shape_of(positions[0]), *kept[at:]]
    updates = b.broadcast(b.convert(values, b.dtype), window)
    kind = kind_for("add", b.dtype) if accumulate else "replace"
    return b.scatter(kind, x, updates, positions, dims, at)


# --- gather and scatter along one dim -----------------------------------------------------------


def grid(b: GraphBuilder, index: SSAValue, dim: int) -> list[SSAValue]:
    """For every element of `index` its own position in each dim, except `dim`: its value."""
    shape = shape_of(index)
    return [
        b.convert(index, torch.int64) if axis == dim else b.iota(axis, shape)
        for axis in range(len(shape))
    ]


def at_least_1d(b: GraphBuilder, x: SSAValue) -> SSAValue:
    return x if rank(x) else b.reshape(x, [1])


def gather(
    b: GraphBuilder, x: SSAValue, dim: int, index: SSAValue, *, sparse_grad: bool = False
) -> SSAValue:
    if any(extent == 0 for extent in b.shape):
        return b.full(0, b.dtype, b.shape)  # then PyTorch takes an index of any rank
    x, index = at_least_1d(b, x), at_least_1d(b, index)
    if rank(index) != rank(x):  # eager allows it of an empty index
        return b.full(0, b.dtype, b.shape)
    axes = list(range(rank(x)))
    found = b.gather(x, grid(b, index, dim % rank(x)), axes, 0, error=_error(b))
    return b.reshape(found, b.shape)


def scattered(
    b: GraphBuilder, kind: str, x: SSAValue, dim: int, index: SSAValue, source: Operand
) -> SSAValue:
    """x with elements of the source, or a number, where the index says; in half precision what is
    combined is rounded once."""
    if any(extent == 0 for extent in shape_of(index)):
        return x  # then PyTorch takes an index of any rank
    shape, dtype = shape_of(x), dtype_of(x)
    x, index = at_least_1d(b, x), at_least_1d(b, index)
    if rank(index) != rank(x):  # eager allows it of an empty index
        return b.reshape(x, shape)
    if isinstance(source, SSAValue):
        updates = b.slice(at_least_1d(b, source), [0] * rank(index), shape_of(index))
    else:
        updates = b.broadcast(b.fitting(source, dtype), shape_of(index))
    if kind in ("add", "mul"):
        x, updates = b.convert(x, opmath(dtype)), b.convert(updates, opmath(dtype))
    positions, axes = grid(b, index, dim % rank(x)), list(range(rank(x)))
    kind = kind_for(kind, dtype)
    written = b.scatter(kind, x, updates, positions, axes, 0, error=_error(b))
    return b.reshape(b.convert(written, dtype), shape)


def scatter(kind: str) -> Handler:
    """scatter.src, scatter.value and scatter_add."""

    def handler(
        b: GraphBuilder, x: SSAValue, dim: int, index: SSAValue, source: Operand
    ) -> SSAValue:
        return scattered(b, kind, x, dim, index, source)

    return handler


# --- writing parts ------------------------------------------------------------------------------


def slice_scatter(
    b: GraphBuilder,
    x: SSAValue,
    source: SSAValue,
    dim: int = 0,
    start: Extent | None = None,
    end: Extent | None = None,
    step: int = 1,
) -> SSAValue:
    dim %= rank(x)
    size, given = shape_of(x)[dim], shape_of(source)[dim]
    first = b.slice_start(0 if start is None else start, size)
    wrong = (b.slice_length(start, end, step, size) - given).constant()
    if wrong not in (0, None):
        raise NotNative("the source has another size than the slice, which eager tells")
    positions = b.iota(0, [given])
    if step != 1:
        positions = b.pointwise("mul", positions, b.number(step, torch.int64))
    if first != 0:
        positions = b.pointwise("add", positions, b.number(first, torch.int64))
    return b.scatter("replace", x, b.convert(source, b.dtype), [positions], [dim], dim)


def select_scatter(
    b: GraphBuilder, x: SSAValue, source: SSAValue, dim: int, index: Extent
) -> SSAValue:
    dim %= rank(x)
    at = b.number(b.position(index, shape_of(x)[dim]), torch.int64)
    return b.scatter("replace", x, b.convert(source, b.dtype), [at], [dim], dim)


def diagonal_scatter(
    b: GraphBuilder, x: SSAValue, source: SSAValue, offset: int = 0, first: int = 0, second: int = 1
) -> SSAValue:
    """x with its diagonal along two dims, which is the last dim of the source, written."""
    dims = [first % rank(x), second % rank(x)]
    along = b.iota(0, shape_of(source)[-1:])
    places = [
        b.pointwise("add", along, b.full(start, torch.int64)) if start else along
        for start in (max(-offset, 0), max(offset, 0))
    ]
    return b.scatter("replace", x, b.convert(source, b.dtype), places, dims, rank(x) - 2)


HANDLERS: Mapping[Any, Handler] = {
    aten.embedding.default: embedding,
    aten.index_select.default: index_select,
    aten.index_add.default: index_add,
    aten.index_copy.default: index_copy,
    aten.index.Tensor: index,
    aten.index_put.default: index_put,
    aten._unsafe_index.Tensor: index,
    aten._unsafe_index_put.default: index_put,
    aten.gather.default: gather,
    aten.scatter.src: scatter("replace"),
    aten.scatter.value: scatter("replace"),
    aten.scatter_add.default: scatter("add"),
    aten.slice_scatter.default: slice_scatter,
    aten.select_scatter.default: select_scatter,
    aten.diagonal_scatter.default: diagonal_scatter,
}
