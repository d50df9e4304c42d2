"""Each operation of a program as a closure over the slots it reads and writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

import torch
from torch import Tensor
from xdsl.dialects import arith
from xdsl.ir import Attribute, Block, Operation, SSAValue

from lpu_mlir.dialects.lpu_kernel import (
    ApplyOp,
    ArgFoldOp,
    CheckOp,
    ContractOp,
    FillOp,
    FoldOp,
    ForOp,
    Index,
    LoadOp,
    MapOp,
    ReadWindowOp,
    ReceiveOp,
    RequestOp,
    ScanOp,
    SliceOp,
    StoreOp,
    TileType,
    WindowsOp,
    YieldOp,
)
from lpu_mlir.dialects.lpu_kernel.core_dependence import depends_on_core, enclosing_loops
from lpu_mlir.dialects.lpu_kernel.movement import index_shape
from lpu_mlir.dialects.lpu_kernel.types import join_indices, tile
from lpu_mlir.interpreter.reference import tiles
from lpu_mlir.interpreter.reference.arguments import Argument, window_bytes
from lpu_mlir.interpreter.reference.errors import ChannelError, ExtentError, SramClobberedError
from lpu_mlir.interpreter.reference.launch import Frame, Step
from lpu_mlir.interpreter.reference.maps import compile_map
from lpu_mlir.interpreter.reference.scalar import (
    DTYPES,
    constant_value,
    scalar_function,
)
from lpu_mlir.interpreter.reference.scope import Pick, Scope


def compile_block(block: Block, scope: Scope) -> list[Step]:
    """The steps of a block in order."""
    steps: list[Step] = []
    for op in block.ops:
        if isinstance(op, YieldOp):
            continue
        if isinstance(op, arith.ConstantOp):
            scope.template[scope.slot(op.result)] = constant_value(op.value)
            continue
        steps.append(_compile_op(op, scope))
    return steps


def _compile_op(op: Operation, scope: Scope) -> Step:
    step = STEPS.get(type(op), _scalar)(op, scope)
    if isinstance(op, ForOp):
        return step
    tile_operands = [value for value in op.operands if isinstance(value.type, TileType)]
    return _tracked(step, scope.reader(op, tile_operands), scope.writer(op.results))


def _tracked(
    step: Step, before: Callable[[Frame], None] | None, after: Callable[[Frame], None] | None
) -> Step:
    """A step between the bookkeeping of SRAM, where there is any."""
    if before is None and after is None:
        return step

    def run(frame: Frame) -> None:
        if before is not None:
            before(frame)
        step(frame)
        if after is not None:
            after(frame)

    return run


# --- scalars ------------------------------------------------------------------------------------


def _apply(op: Operation, scope: Scope) -> Step:
    assert isinstance(op, ApplyOp)
    names = ", ".join(f"d{n}" for n in range(len(op.operands_)))
    function = cast(
        "Callable[..., int]",
        eval(f"lambda {names}: {op.map.data.python()}", {"min": min, "max": max}),
    )
    operands, out = scope.pick(op.operands_), scope.slot(op.result)

    def step(frame: Frame) -> None:
        values = frame.values
        values[out] = function(*operands(values))

    return step


def _scalar(op: Operation, scope: Scope) -> Step:
    """Arithmetic outside maps, on single values."""
    function = scalar_function(op)
    dtypes = [DTYPES[type] for type in op.operand_types]
    operands, out = scope.pick(op.operands), scope.slot(op.results[0])

    def step(frame: Frame) -> None:
        values = operands(frame.values)
        tensors = [torch.tensor(v, dtype=d) for v, d in zip(values, dtypes, strict=True)]
        frame.values[out] = function(*tensors).item()

    return step


def _check(op: Operation, scope: Scope) -> Step:
    assert isinstance(op, CheckOp)
    condition, error, message = scope.slot(op.condition), op.error.data, op.message.data

    def step(frame: Frame) -> None:
        value = frame.values[condition]
        if not (bool(value.all()) if isinstance(value, Tensor) else value):
            frame.launch.failures.append((frame.phase, frame.core, error, message))

    return step


# --- loops --------------------------------------------------------------------------------------


def _for(op: Operation, scope: Scope) -> Step:
    assert isinstance(op, ForOp)
    site = scope.site(op)
    bounds, induction = scope.pick(op.loop_bounds()), scope.slot(op.induction)
    inits, yields = scope.pick(op.iter_args), scope.pick(op.yield_op.arguments)
    read_inits = scope.reader(op, op.iter_args)
    read_yields = scope.reader(op, op.yield_op.arguments)
    note = scope.writer([*op.carried_args, *op.outputs])
    args = [scope.slot(arg) for arg in op.carried_args]
    outputs = [scope.slot(value) for value in op.outputs]
    body = compile_block(op.body.block, scope)

    def step(frame: Frame) -> None:
        values = frame.values
        lower, upper, stride = bounds(values)
        if stride < 1:
            raise ExtentError(f"{site}: step {stride} must be at least 1")
        if read_inits is not None:
            read_inits(frame)
        carried = inits(values)
        if note is not None:
            note(frame)
        for position in range(lower, upper, stride):
            values[induction] = position
            for slot, value in zip(args, carried, strict=True):
                values[slot] = value
            for inner in body:
                inner(frame)
            if read_yields is not None:
                read_yields(frame)
            carried = yields(values)
            if note is not None:
                note(frame)
        for slot, value in zip(outputs, carried, strict=True):
            values[slot] = value

    return step


# --- movement -----------------------------------------------------------------------------------


_Read: TypeAlias = Callable[[Argument, Frame], Tensor]


def _reader(
    op: ReadWindowOp, type: TileType, scope: Scope, is_private: bool
) -> Callable[[Frame], Tensor]:
    """Reads a window, counting its bytes: once for all cores unless it is private to each."""
    number = scope.memrefs.index(op.memref)
    read = _plain_read(op, type, scope) if op.index is None else _indexed_read(op, type, scope)

    def run(frame: Frame) -> Tensor:
        launch = frame.launch
        window = read(launch.arguments[number], frame)
        if is_private or frame.core == 0:
            launch.dram_read += window_bytes(window)
        return window

    return run


def _plain_read(op: ReadWindowOp, type: TileType, scope: Scope) -> _Read:
    offsets, sizes = scope.pick(op.window_offsets()), scope.pick(op.window_sizes())
    fits, site = scope.capacity_check(op, op.window_sizes(), type), scope.site(op)

    def read(argument: Argument, frame: Frame) -> Tensor:
        values = frame.values
        extents = sizes(values)
        if fits is not None:
            fits(extents)
        return argument.read(offsets(values), extents, frame.turn, site)

    return read


def _indexed_read(op: ReadWindowOp, type: TileType, scope: Scope) -> _Read:
    assert op.index is not None
    assert op.indexed_dim is not None
    offsets, sizes = scope.pick(op.window_offsets()), scope.pick(op.window_sizes())
    dim, index, site = op.indexed_dim, scope.slot(op.index), scope.site(op)
    # The extents of an index tile are within its own capacity, which the result's contains.
    of_tile: list[Index] = list(op.window_sizes())
    of_tile[dim : dim + 1] = index_shape(op.index)
    fits = scope.capacity_check(op, of_tile, type)

    def read(argument: Argument, frame: Frame) -> Tensor:
        values = frame.values
        at, extents = offsets(values), sizes(values)
        window = argument.read_at(dim, values[index], at, extents, frame.turn, site)
        if fits is not None:
            fits(window.shape)
        return window

    return read


def _load(op: Operation, scope: Scope) -> Step:
    assert isinstance(op, LoadOp)
    is_private = depends_on_core(op, scope.core_dependent)
    read, out = _reader(op, tile(op.result), scope, is_private), scope.slot(op.result)

    def step(frame: Frame) -> None:
        frame.values[out] = read(frame)

    return step


def _loop_indices(op: Operation, scope: Scope) -> Pick:
    return scope.pick([loop.induction for loop in enclosing_loops(op)])


def _request(op: Operation, scope: Scope) -> Step:
    assert isinstance(op, RequestOp)
    name = op.channel.root_reference.data
    type, is_private = scope.kernel.channels()[name].tile_type, op.destination.data == "each"
    read = _reader(op, type, scope, is_private)
    loop_indices = _loop_indices(op, scope)

    def step(frame: Frame) -> None:
        frame.queues[name].append((read(frame), loop_indices(frame.values)))

    return step


def _receive(op: Operation, scope: Scope) -> Step:
    assert isinstance(op, ReceiveOp)
    name, site, out = op.channel.root_reference.data, scope.site(op), scope.slot(op.result)
    loop_indices = _loop_indices(op, scope)

    def step(frame: Frame) -> None:
        if out in frame.clobbered:
            raise SramClobberedError(f"{site}: a tile was written over the buffers of @{name}")
        queue = frame.queues[name]
        if not queue:
            raise ChannelError(
                f"{site}: core {frame.core} receives from @{name} more often than top requests"
            )
        window, requested = queue.popleft()
        if requested != (here := loop_indices(frame.values)):
            raise ChannelError(
                f"{site}: core {frame.core} receives from @{name} in iteration {list(here)} what "
                f"was requested in {list(requested)}"
            )
        frame.values[out] = window

    return step


def _store(op: Operation, scope: Scope) -> Step:
    assert isinstance(op, StoreOp)
    number, site = scope.memrefs.index(op.memref), scope.site(op)
    value, offsets = scope.slot(op.value), scope.pick(op.window_offsets())
    write, kind = _store_at(op, scope, site), op.kind.data
    combines = op.combines

    def step(frame: Frame) -> None:
        values = frame.values
        window: Tensor = values[value]
        argument = frame.launch.arguments[number]
        if write is None:
            argument.write(window, offsets(values), frame.turn, site, kind)
        else:
            write(argument, window, offsets(values), frame)
        moved = window_bytes(window)
        frame.launch.dram_written += moved
        if combines:
            frame.launch.dram_read += moved

    return step


def _store_at(
    op: StoreOp, scope: Scope, site: str
) -> Callable[[Argument, Tensor, tuple[int, ...], Frame], None] | None:
    """The write of an indexed store; None if the store is not indexed."""
    if op.index is None or op.indexed_dim is None:
        return None
    dim, index, kind = op.indexed_dim, scope.slot(op.index), op.kind.data

    def write(argument: Argument, window: Tensor, offsets: tuple[int, ...], frame: Frame) -> None:
        at: Tensor | int = frame.values[index]
        if isinstance(at, Tensor):
            part = window.shape[dim : dim + at.ndim]
            tiles.require_equal("the index", at.shape, part, site)
        argument.write_at(dim, at, window, offsets, frame.turn, site, kind)

    return write


# --- tiles --------------------------------------------------------------------------------------


def _torch_value(value: Attribute, dtype: torch.dtype) -> float | int | bool:
    number = constant_value(value)
    return int(number) & 0xFF if dtype == torch.uint8 else number


def _fill(op: Operation, scope: Scope) -> Step:
    assert isinstance(op, FillOp)
    type = tile(op.result)
    dtype = DTYPES[type.element_type]
    value = torch.tensor(_torch_value(op.value, dtype), dtype=dtype)
    sizes = join_indices(op.sizes, op.static_sizes)
    extents, fits = scope.pick(sizes), scope.capacity_check(op, sizes, type)
    out = scope.slot(op.result)

    def step(frame: Frame) -> None:
        actual = extents(frame.values)
        if fits is not None:
            fits(actual)
        # Tiles are values: nothing writes to one, so that a view of one element will do.
        frame.values[out] = value.expand(actual)

    return step


def _slice(op: Operation, scope: Scope) -> Step:
    assert isinstance(op, SliceOp)
    sizes = join_indices(op.sizes, op.static_sizes)
    offsets = scope.pick(join_indices(op.offsets, op.static_offsets))
    kept, dropped = [s for d, s in enumerate(sizes) if d not in op.dropped], op.dropped
    extents, kept_extents = scope.pick(sizes), scope.pick(kept)
    fits = scope.capacity_check(op, kept, tile(op.result))
    source, out, site = scope.slot(op.source), scope.slot(op.result), scope.site(op)

    def step(frame: Frame) -> None:
        values = frame.values
        if fits is not None:
            fits(kept_extents(values))
        part = tiles.slice_tile(values[source], offsets(values), extents(values), site)
        values[out] = part.squeeze(dropped) if dropped else part

    return step


def _windows(op: Operation, scope: Scope) -> Step:
    assert isinstance(op, WindowsOp)
    sizes = join_indices(op.sizes, op.static_sizes)
    extents, fits = scope.pick(sizes), scope.capacity_check(op, sizes, tile(op.result))
    view = tiles.windows(op.along.get_values(), op.steps.get_values(), scope.site(op))
    source, out = scope.slot(op.source), scope.slot(op.result)

    def step(frame: Frame) -> None:
        values = frame.values
        actual = extents(values)
        if fits is not None:
            fits(actual)
        values[out] = view(values[source], actual)

    return step


def _pure(function: Callable[..., Tensor], op: Operation, scope: Scope) -> Step:
    """A function of the operation's tiles, in the order of its operands."""
    operands, out = scope.pick(op.operands), scope.slot(op.results[0])

    def step(frame: Frame) -> None:
        values = frame.values
        values[out] = function(*operands(values))

    return step


def _fold(op: Operation, scope: Scope) -> Step:
    assert isinstance(op, FoldOp)
    dims = tuple(op.dims.get_values())
    return _pure(tiles.fold(op.kind.data, dims, scope.site(op)), op, scope)


def _scan(op: Operation, scope: Scope) -> Step:
    assert isinstance(op, ScanOp)
    return _pure(tiles.scan(op.kind.data, op.dim.value.data, scope.site(op)), op, scope)


def _contract(op: Operation, scope: Scope) -> Step:
    assert isinstance(op, ContractOp)
    type = tile(op.result)
    function = tiles.contract(
        tuple(op.lhs_dims.get_values()),
        tuple(op.rhs_dims.get_values()),
        type.get_num_dims(),
        DTYPES[type.element_type],
        scope.site(op),
    )
    return _pure(function, op, scope)


def _arg_fold(op: Operation, scope: Scope) -> Step:
    assert isinstance(op, ArgFoldOp)
    function = tiles.arg_fold(op.kind.data, op.dim.value.data, scope.site(op))
    (offset,) = join_indices(op.at, op.static_at)
    inputs: list[SSAValue | int] = [op.source, offset, *op.acc]
    operands = scope.pick(inputs)
    values_out, indices_out = scope.slot(op.values), scope.slot(op.indices)

    def step(frame: Frame) -> None:
        values = frame.values
        values[values_out], values[indices_out] = function(*operands(values))

    return step


def _map(op: Operation, scope: Scope) -> Step:
    assert isinstance(op, MapOp)
    return compile_map(op, scope)


STEPS: dict[type[Operation], Callable[[Operation, Scope], Step]] = {
    ApplyOp: _apply,
    ArgFoldOp: _arg_fold,
    CheckOp: _check,
    ContractOp: _contract,
    FillOp: _fill,
    FoldOp: _fold,
    ForOp: _for,
    LoadOp: _load,
    MapOp: _map,
    ReceiveOp: _receive,
    RequestOp: _request,
    ScanOp: _scan,
    SliceOp: _slice,
    StoreOp: _store,
    WindowsOp: _windows,
}
"""How each operation is compiled; whatever is not here is scalar arithmetic."""
