"""ATen operators that move elements: views, copies, concatenation, padding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
import torch._prims  # pyright: ignore[reportUnusedImport]  # registers torch.ops.prims
from xdsl.ir import SSAValue

from lpu_mlir.dialects.expr import Expr, contiguous_strides, nonnegative, product
from lpu_mlir.dialects.lpu import Extent
from lpu_mlir.frontend.builder import GraphBuilder, Number, Operand, Tensors, rank, shape_of
from lpu_mlir.frontend.errors import NotNative

aten = torch.ops.aten
prims = torch.ops.prims
Handler: TypeAlias = Callable[..., Tensors]


# --- the same elements --------------------------------------------------------------------------


def reshaped(b: GraphBuilder, x: SSAValue, *_: Any, **__: Any) -> SSAValue:
    """view, unsqueeze, squeeze: the result's extents say all."""
    return b.reshape(x, b.shape)


def converted(b: GraphBuilder, x: Operand, *_: Any, **__: Any) -> SSAValue:
    """clone, alias, _to_copy: values have no identity, only the dtype may change.  Under vmap
    PyTorch copies numbers, too."""
    return b.operand(x, b.dtype)


def permute(b: GraphBuilder, x: SSAValue, dims: Sequence[int]) -> SSAValue:
    return b.transpose(x, [dim % rank(x) for dim in dims])


def transpose(b: GraphBuilder, x: SSAValue, dim0: int, dim1: int) -> SSAValue:
    order = list(range(rank(x)))
    if order:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return b.transpose(x, order)


def t(b: GraphBuilder, x: SSAValue) -> SSAValue:
    return b.transpose(x, list(reversed(range(rank(x)))))


def expand(b: GraphBuilder, x: SSAValue, size: Sequence[Any], implicit: bool = False) -> SSAValue:
    return b.broadcast(x, b.shape)


def copy(b: GraphBuilder, x: SSAValue, source: Operand, non_blocking: bool = False) -> SSAValue:
    return b.broadcast(b.operand(source, b.dtype), b.shape)


def fill(b: GraphBuilder, x: SSAValue, value: Operand) -> SSAValue:
    return b.broadcast(b.fitting(value, b.dtype), b.shape)


def repeat(b: GraphBuilder, x: SSAValue, repeats: Sequence[Extent]) -> SSAValue:
    """[a, b] repeated [r, s, t] times: broadcast [1, 1, 1, a, 1, b] to [r, 1, s, a, t, b]."""
    missing = len(repeats) - rank(x)
    shape = [*[Expr.const(1)] * missing, *shape_of(x)]
    apart = [e for extent in shape for e in (Expr.const(1), extent)]
    whole = [e for pair in zip(repeats, shape, strict=True) for e in pair]
    return b.reshape(b.broadcast(b.reshape(x, apart), whole), b.shape)


# --- parts --------------------------------------------------------------------------------------


def slice_(
    b: GraphBuilder,
    x: SSAValue,
    dim: int = 0,
    start: Extent | None = None,
    end: Extent | None = None,
    step: int | Expr = 1,
) -> SSAValue:
    dim %= rank(x)
    first = b.slice_start(0 if start is None else start, shape_of(x)[dim])
    return b.slice_dim(x, dim, first, b.shape[dim], int(_fixed(step)))


def _fixed(value: int | Expr) -> int:
    fixed = Expr.of(value).constant()
    if fixed is None:
        raise NotNative("a step or a number of results that is known only when it runs")
    return fixed


def select(b: GraphBuilder, x: SSAValue, dim: int, index: Extent) -> SSAValue:
    """A position that only a run tells is checked then."""
    dim %= rank(x)
    size = shape_of(x)[dim]
    at = b.position(index, size)
    if nonnegative(at, b.ranges) and nonnegative(size - 1 - at, b.ranges):
        return b.reshape(b.slice_dim(x, dim, at, 1), b.shape)
    return b.reshape(b.gather(x, [b.number(at, torch.int64)], [dim], dim), b.shape)


def split_with_sizes(
    b: GraphBuilder, x: SSAValue, sizes: Sequence[Extent], dim: int = 0
) -> Tensors:
    parts: list[SSAValue] = []
    start = Expr.const(0)
    for size in sizes:
        parts.append(b.slice_dim(x, dim % rank(x), start, size))
        start = start + size
    return tuple(parts)


def unbind(b: GraphBuilder, x: SSAValue, dim: int = 0) -> Tensors:
    dim %= rank(x)
    kept = [e for axis, e in enumerate(shape_of(x)) if axis != dim]
    n = _fixed(shape_of(x)[dim])
    return tuple(b.reshape(b.slice_dim(x, dim, i, 1), kept) for i in range(n))


def flip(b: GraphBuilder, x: SSAValue, dims: Sequence[int]) -> SSAValue:
    shape, flipped = shape_of(x), {dim % max(rank(x), 1) for dim in dims}
    starts = [e - 1 if axis in flipped else Expr.const(0) for axis, e in enumerate(shape)]
    steps = [-1 if axis in flipped else 1 for axis in range(len(shape))]
    return b.slice(x, starts, shape, steps)


def diagonal(
    b: GraphBuilder, x: SSAValue, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> SSAValue:
    """Element i of the new last dim is element (i, i + offset) of the two dims."""
    positions = b.iota(0, b.shape[-1:])
    shifted = b.pointwise("add", positions, b.full(abs(offset), torch.int64)) if offset else None
    rows = positions if offset >= 0 or shifted is None else shifted
    columns = positions if offset <= 0 or shifted is None else shifted
    dims = [dim1 % rank(x), dim2 % rank(x)]
    return b.gather(x, [rows, columns], dims, rank(x) - 2)


def as_strided(b: GraphBuilder, x: SSAValue, strides: Sequence[Expr], offset: Expr) -> SSAValue:
    """Element (i, j) of the result is element offset + i * strides[0] + j * strides[1] of `x`.

    `x` is the storage as one dim; the importer provides it.
    """
    if (
        offset == 0
        and strides == contiguous_strides(b.shape)
        and product(b.shape) == shape_of(x)[0]
    ):
        return b.reshape(x, b.shape)
    return b.gather(x, [storage_index(b, b.shape, strides, offset)], [0], 0)


def storage_index(
    b: GraphBuilder, shape: Sequence[Expr], strides: Sequence[Expr], offset: Expr
) -> SSAValue:
    """Where the elements of a tensor are in its storage: i64 of these extents."""
    index = b.broadcast(b.number(offset, torch.int64), shape)
    for axis, stride in enumerate(strides):
        along = [e if i == axis else Expr.const(1) for i, e in enumerate(shape)]
        steps = b.pointwise("mul", b.iota(axis, along), b.number(stride, torch.int64))
        index = b.pointwise("add", index, steps)
    return index


# --- joined -------------------------------------------------------------------------------------


def cat(b: GraphBuilder, tensors: Sequence[SSAValue], dim: int = 0) -> SSAValue:
    """Tensors of extents [0] join nothing, whatever the rank of the others."""
    parts = [x for x in tensors if len(b.shape) == 1 or shape_of(x) != (0,)]
    if not parts:
        return b.full(0, b.dtype, b.shape)
    dim %= len(b.shape)
    # Data-dependent extents that PyTorch has checked to be equal may go by different names.
    shapes = [[*b.shape[:dim], shape_of(x)[dim], *b.shape[dim + 1 :]] for x in parts]
    alike = [
        b.reshape(b.convert(x, b.dtype), shape) for x, shape in zip(parts, shapes, strict=True)
    ]
    return b.concat(alike, dim)


def stack(b: GraphBuilder, tensors: Sequence[SSAValue], dim: int = 0) -> SSAValue:
    dim %= len(b.shape)
    one = [*b.shape[:dim], Expr.const(1), *b.shape[dim + 1 :]]
    return b.concat([b.reshape(b.convert(x, b.dtype), one) for x in tensors], dim)


def constant_pad_nd(
    b: GraphBuilder, x: SSAValue, pad: Sequence[Extent], value: Number = 0
) -> SSAValue:
    """`pad` holds (before, after) from the last dim on; negative amounts cut off."""
    amounts = {rank(x) - 1 - i // 2: (pad[i], pad[i + 1]) for i in range(0, len(pad), 2)}
    lows: list[Extent] = [0] * rank(x)
    cut = False
    starts, kept = list(lows), list(shape_of(x))
    for dim, (before, after) in amounts.items():
        front, back = (_cut(b, amount) for amount in (before, after))
        starts[dim], kept[dim] = front, kept[dim] - front - back
        lows[dim] = Expr.of(before) + front
        cut = cut or front != 0 or back != 0
    inner = b.slice(x, starts, kept) if cut else x
    if shape_of(inner) == b.shape:
        return inner
    number = b.fitting(value, b.dtype)
    if isinstance(value, int | float):
        return b.pad(inner, lows, b.shape, value)
    given = b.pad(b.full(True, torch.bool, shape_of(inner)), lows, b.shape, False)
    return b.select(given, b.pad(inner, lows, b.shape, 0), number)


def _cut(b: GraphBuilder, amount: Extent) -> Expr:
    """How many elements a padding amount removes."""
    return b.simplify(Expr.max(Expr.of(amount) * -1, 0))


def roll(
    b: GraphBuilder, x: SSAValue, shifts: Sequence[Extent], dims: Sequence[int] = ()
) -> SSAValue:
    """Each dim cut in two parts that change places; without dims, of the flattened tensor."""
    if not dims:
        flat = b.reshape(x, [product(shape_of(x))])
        return b.reshape(_rolled(b, flat, Expr.of(shifts[0]), 0), b.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        x = _rolled(b, x, Expr.of(shift), dim % rank(x))
    return x


def _rolled(b: GraphBuilder, x: SSAValue, shift: Expr, dim: int) -> SSAValue:
    size = shape_of(x)[dim]
    if size == 0:
        return x
    tail = b.simplify(shift.mod(size))
    if tail == 0:
        return x
    ends = b.slice_dim(x, dim, size - tail, tail), b.slice_dim(x, dim, 0, size - tail)
    return b.reshape(b.concat(ends, dim), shape_of(x))


def unfold(b: GraphBuilder, x: SSAValue, dim: int, size: Extent, step: Extent) -> SSAValue:
    """Windows along one dim, which stays in its place; their elements come last."""
    if not rank(x):
        return b.reshape(x, b.shape)
    if not isinstance(step, int):
        raise NotNative("windows with a step that is known only when it runs")
    dim %= rank(x)
    others = [d for d in range(rank(x)) if d != dim]
    last = b.transpose(x, [*others, dim])
    windows = b.windows(last, [b.shape[dim]], [b.shape[-1]], [step], [1])
    back = list(range(len(others)))
    back.insert(dim, len(others))
    return b.transpose(windows, [*back, rank(x)])


HANDLERS: Mapping[Any, Handler] = {
    **{
        overload: reshaped
        for overload in (
            aten.view.default,
            aten._unsafe_view.default,
            aten.unsqueeze.default,
            aten.squeeze.default,
            aten.squeeze.dim,
            aten.squeeze.dims,
        )
    },
    **{
        overload: converted
        for overload in (
            aten.alias.default,
            aten.detach.default,
            aten.clone.default,
            aten._to_copy.default,
            aten.lift_fresh_copy.default,
            prims.convert_element_type.default,
        )
    },
    aten.permute.default: permute,
    aten.transpose.int: transpose,
    aten.t.default: t,
    aten.expand.default: expand,
    aten.copy.default: copy,
    aten.fill.Scalar: fill,
    aten.fill.Tensor: fill,
    aten.repeat.default: repeat,
    aten.slice.Tensor: slice_,
    aten.select.int: select,
    aten.split_with_sizes.default: split_with_sizes,
    aten.unbind.int: unbind,
    aten.flip.default: flip,
    aten.diagonal.default: diagonal,
    aten.unfold.default: unfold,
    aten.cat.default: cat,
    aten.stack.default: stack,
    aten.constant_pad_nd.default: constant_pad_nd,
    aten.roll.default: roll,
}
