"""Loads as views of DRAM, and stores."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from lpu_mlir.dialects.lpu_kernel import LoadOp, StoreOp, TileType
from lpu_mlir.dialects.lpu_kernel.movement import WindowOp
from lpu_mlir.interpreter.native.elements import Gathered, Stored, Tile
from lpu_mlir.interpreter.native.frame import Frame, identity
from lpu_mlir.interpreter.native.llvm import Int, Value
from lpu_mlir.interpreter.native.maps import without_dims
from lpu_mlir.interpreter.native.nest import NO_DIM, within
from lpu_mlir.interpreter.native.scalar import combine
from lpu_mlir.interpreter.native.tile import View


def emit_load(f: Frame, op: Operation) -> None:
    assert isinstance(op, LoadOp)
    tile = _window(f, op, f.integers(op.window_sizes()))
    if op in f.schedule.copied:
        stored = f.new_tile(op.result, tile.sizes)
        f.fill(stored, tile)
        tile = stored
    f.define(op.result, tile)


def _window(f: Frame, op: WindowOp, sizes: Sequence[Int]) -> Tile:
    """A window of these sizes, of which the one of an indexed dim does not count."""
    memref, dim = f.memrefs[op.memref], op.indexed_dim
    offsets = f.integers(op.window_offsets())
    if op.index is None or dim is None:
        return Stored.of(memref.moved(f.b, offsets, sizes))
    memref = _with_memory(f, memref, dim)
    if (at := single_index(f, op.index)) is not None:
        position = within(f.b, f.b.value(at), memref.sizes[dim])
        at_position = (*offsets[:dim], position, *offsets[dim + 1 :])
        return Stored.of(without_dims(memref.moved(f.b, at_position, sizes), [dim]))
    index = f.in_memory(op.index).view
    # Along the indexed dim all of the memref is in view.
    view = memref.moved(f.b, offsets, (*sizes[:dim], memref.sizes[dim], *sizes[dim + 1 :]))
    extents = (*sizes[:dim], *index.sizes, *sizes[dim + 1 :])
    return Gathered(extents, memref.element, view, dim, index)


def single_index(f: Frame, index: SSAValue) -> Int | None:
    """The position that an index selects, unless it selects several."""
    if not isinstance(index.type, TileType):
        return f.integer(index)
    if index.type.get_num_dims():
        return None
    view = f.in_memory(index).view
    return f.b.load(view.base, view.element)


def _with_memory(f: Frame, memref: View, dim: int) -> View:
    """The memref, or where its indexed dim is empty and any index out of range, other memory."""
    size = memref.sizes[dim]
    if isinstance(size, int) and size > 0:
        return memref
    b = f.b
    # One element is enough: the other extents are not larger than the window that is written.
    spare = f.temporary(SPARE_BYTES)
    empty = b.less(size, 1)
    base = b.op("ptr", f"select {empty}, {spare}, {memref.base}")
    steps = tuple(
        b.op("i64", f"select {empty}, i64 0, {b.value(stride)}") for stride in memref.strides
    )
    return View(base, memref.element, memref.sizes, steps)


SPARE_BYTES = 4096
"""Memory for what has no place: vectors of it are read and written at one address."""


# --- stores ---------------------------------------------------------------------------------------


def emit_store(f: Frame, op: Operation) -> None:
    assert isinstance(op, StoreOp)
    value, dim = f.tile(op.value), op.indexed_dim
    if op.index is None or dim is None:
        _store_window(f, op, value, _window(f, op, value.sizes))
        return
    if single_index(f, op.index) is not None:
        sizes = (*value.sizes[:dim], 1, *value.sizes[dim:])
        _store_window(f, op, value, _window(f, op, sizes))
        return
    rank = f.in_memory(op.index).view.rank
    window = _window(f, op, (*value.sizes[:dim], 1, *value.sizes[dim + rank :]))
    assert isinstance(window, Gathered)
    _store_slices(f, op, value, window)


def _store_window(f: Frame, op: StoreOp, value: Tile, window: Tile) -> None:
    assert isinstance(window, Stored)
    if not op.combines:
        f.fill(window, value)
        return
    nest = f.nest(value.sizes, [*value.views(), *window.views()])
    dims = identity(len(value.sizes))
    new, old, target = (
        value.reader(nest, dims),
        window.reader(nest, dims),
        nest.target(window.view, dims),
    )

    def body(carried: Sequence[Value]) -> Sequence[Value]:
        nest.write(target, combine(f.b, op.kind.data, window.element, old(), new()))
        return carried

    nest.each(nest.order(window.view.strides), (), body)


def _store_slices(f: Frame, op: StoreOp, value: Tile, window: Gathered) -> None:
    """One slice for each index, in order; slices of equal indices follow each other."""
    b, dim, rank = f.b, window.dim, window.index.rank
    indexed = list(range(dim, dim + rank))
    others = [d for d in range(len(value.sizes)) if d not in indexed]
    own = [*range(dim), NO_DIM, *range(dim + rank, len(value.sizes))]
    nest = f.nest(value.sizes, [*value.views(), (window.view, own)], among=others)
    read = value.reader(nest, identity(len(value.sizes)))
    index = nest.leaf(window.index, indexed)
    target = nest.target(window.view, own, index, dim)

    def body(carried: Sequence[Value]) -> Sequence[Value]:
        new = read()
        if op.combines:
            # Read here, not as a leaf: the slice before may have gone to the same place.
            new = combine(b, op.kind.data, window.element, nest.load(target), new)
        nest.write(target, new)
        return carried

    nest.each([*indexed, *(d for d in nest.order([0] * len(value.sizes)) if d in others)], (), body)
