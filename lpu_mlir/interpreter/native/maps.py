"""Tiles computed element by element: fills, maps and checks; and views of tiles."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from lpu_mlir.dialects.lpu_kernel import (
    ApplyOp,
    CheckOp,
    FillOp,
    MapOp,
    SliceOp,
    TileType,
    WindowsOp,
)
from lpu_mlir.dialects.lpu_kernel.types import join_indices, tile
from lpu_mlir.interpreter.native.elements import Filled, Mapped, Stored, Tile
from lpu_mlir.interpreter.native.frame import (
    FAIL,
    Frame,
    identity,
    index_expression,
    tile_readers,
)
from lpu_mlir.interpreter.native.llvm import FALSE, I1, I64, TRUE, Value, vector
from lpu_mlir.interpreter.native.scalar import emit_constant, emit_scalar
from lpu_mlir.interpreter.native.tile import View


def emit_apply(f: Frame, op: Operation) -> None:
    assert isinstance(op, ApplyOp)
    f.values[op.result] = index_expression(f.b, op.map.data, f.integers(list(op.operands_)))


def emit_constant_op(f: Frame, op: Operation) -> None:
    assert isinstance(op, arith.ConstantOp)
    f.values[op.result] = emit_constant(f.b, op.value, 1)


def emit_scalar_op(f: Frame, op: Operation) -> None:
    """Arithmetic outside of maps, on single values."""
    f.values[op.results[0]] = emit_scalar(f.b, op, [f.scalar(v) for v in op.operands])


def emit_fill(f: Frame, op: Operation) -> None:
    assert isinstance(op, FillOp)
    sizes = f.integers(join_indices(op.sizes, op.static_sizes))
    f.define(op.result, Filled(sizes, tile(op.result).element_type, op.value))


# --- maps -----------------------------------------------------------------------------------------


def emit_map(f: Frame, op: Operation) -> None:
    assert isinstance(op, MapOp)
    mapped = Mapped(
        f.integers(op.map_sizes()),
        tile(op.outputs[0]).element_type,
        op,
        tuple(f.tile(value) for value in op.inputs),
        f.integers(op.map_offsets()),
        {value: f.scalar(value) for value in _outer_values(op)},
    )
    if op in f.schedule.inlined:
        f.values[op.outputs[0]] = mapped
        return
    order = memory_order(mapped)
    first = _in_place(f, op, mapped, order)
    results = [first or f.new_tile(op.outputs[0], mapped.sizes, order)]
    results += [f.new_tile(value, mapped.sizes, order) for value in op.outputs[1:]]
    targets = [result.view for result in results]
    f.write(targets, mapped.sizes, mapped.views(), tile_readers(mapped))
    for value, result in zip(op.outputs, results, strict=True):
        f.values[value] = result


def _outer_values(op: MapOp) -> set[SSAValue]:
    """What the region uses of the values outside of it."""
    block = op.body.block
    inside = {*block.args, *(result for inner in block.ops for result in inner.results)}
    return {operand for inner in block.ops for operand in inner.operands} - inside


def memory_order(mapped: Mapped) -> tuple[int, ...]:
    """The order of a map's dims in the memory for its results: that of the largest input, so that
    a transposition costs its reader nothing."""
    natural = identity(len(mapped.sizes))
    for view, dims in mapped.views():
        strides = dict(zip(dims, view.strides, strict=True))
        if any(size != 1 and not strides.get(dim) for dim, size in enumerate(mapped.sizes)):
            continue
        known = {dim: stride for dim, stride in strides.items() if isinstance(stride, int)}
        if len(known) == len(strides) and len(set(dims)) == len(dims):
            return tuple(sorted(natural, key=lambda dim: -known.get(dim, 0)))
    return natural


def _in_place(f: Frame, op: MapOp, mapped: Mapped, order: Sequence[int]) -> Stored | None:
    """The memory of an input that is read for the last time, if the result fits it exactly."""
    result = op.outputs[0]
    if len(op.outputs) > 1:
        return None
    for value, dims in zip(op.inputs, op.dims_of_inputs(), strict=True):
        held = f.takes_over(value)
        if held is None or value.type != result.type or dims != identity(len(mapped.sizes)):
            continue
        readers = [view for view, _ in mapped.views() if view.base == held.view.base]
        if len(readers) == 1:
            return f.keep(held, result)
    return None


# --- views ----------------------------------------------------------------------------------------


def emit_slice(f: Frame, op: Operation) -> None:
    assert isinstance(op, SliceOp)
    source = f.in_memory(op.source)
    offsets = f.integers(join_indices(op.offsets, op.static_offsets))
    sizes = f.integers(join_indices(op.sizes, op.static_sizes))
    view = without_dims(source.view.moved(f.b, offsets, sizes), op.dropped)
    f.values[op.result] = Stored.of(view)


def without_dims(view: View, dropped: Sequence[int]) -> View:
    """The view at position 0 of some dims, which the result lacks."""
    kept = [dim for dim in range(view.rank) if dim not in dropped]
    sizes, strides = (tuple(of[dim] for dim in kept) for of in (view.sizes, view.strides))
    return View(view.base, view.element, sizes, strides)


def emit_windows(f: Frame, op: Operation) -> None:
    assert isinstance(op, WindowsOp)
    view = f.in_memory(op.source).view
    pairs = zip(op.along.get_values(), op.steps.get_values(), strict=True)
    strides = tuple(f.b.mul(view.strides[dim], step) for dim, step in pairs)
    sizes = f.integers(join_indices(op.sizes, op.static_sizes))
    f.values[op.result] = Stored.of(View(view.base, view.element, sizes, strides))


# --- checks ---------------------------------------------------------------------------------------


def emit_check(f: Frame, op: Operation) -> None:
    assert isinstance(op, CheckOp)
    b, number = f.b, len(f.checks)
    f.checks.append((op.error.data, op.message.data))
    failed = _any_false(f, op.condition)
    with b.when(failed):
        before = b.op(I64, f"load i64, {FAIL}")
        with b.when(b.op(I1, f"icmp eq {before}, 0")):
            b.emit(f"store i64 {number + 1}, {FAIL}")


def _any_false(f: Frame, condition: SSAValue) -> Value:
    b = f.b
    if not isinstance(condition.type, TileType):
        return b.op(I1, f"xor {f.scalar(condition)}, true")
    given: Tile = f.tile(condition)
    nest = f.nest(given.sizes, given.views())
    read = given.reader(nest, identity(len(given.sizes)))

    def body(carried: Sequence[Value]) -> Sequence[Value]:
        kind = vector(I1, nest.lanes)
        bad = b.op(kind, f"xor {read()}, {b.splat(TRUE, nest.lanes).text}")
        if nest.mask is not None:
            bad = b.op(kind, f"and {bad}, {nest.mask.text}")
        return [b.op(kind, f"or {carried[0]}, {bad.text}")]

    start = b.splat(FALSE, nest.lanes)
    (found,) = nest.each(nest.order([0] * len(given.sizes)), [start], body)
    return (
        found if nest.lanes == 1 else b.call(f"llvm.vector.reduce.or.v{nest.lanes}i1", I1, [found])
    )
