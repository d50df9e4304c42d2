"""A map's region, evaluated on whole tiles at once: scalars become tensors that broadcast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from xdsl.dialects import arith
from xdsl.ir import SSAValue

from lpu_mlir.dialects.lpu import ui8
from lpu_mlir.dialects.lpu_kernel import MapOp
from lpu_mlir.dialects.lpu_kernel.types import tile
from lpu_mlir.interpreter.reference.errors import ExtentError
from lpu_mlir.interpreter.reference.launch import Frame, Step
from lpu_mlir.interpreter.reference.scalar import DTYPES, constant_tensor, scalar_function
from lpu_mlir.interpreter.reference.scope import Pick, Scope, pick
from lpu_mlir.interpreter.reference.tiles import arranged


@dataclass
class _Region:
    """A region while it is compiled: a slot per scalar, constants in place."""

    template: list[Any] = field(default_factory=list[Any])
    slots: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])

    def slot(self, value: SSAValue, content: Tensor | None = None) -> int:
        if value not in self.slots:
            self.slots[value] = len(self.template)
            self.template.append(content)
        return self.slots[value]


def compile_map(op: MapOp, scope: Scope) -> Step:
    """The step of a map."""
    region = _Region()
    for arg in op.body.block.args:
        region.slot(arg)
    captured = _captured(op, region, scope)
    body: list[tuple[Callable[..., Tensor], Pick, int]] = []
    for inner in list(op.body.block.ops)[:-1]:
        if isinstance(inner, arith.ConstantOp):
            region.slot(inner.result, constant_tensor(inner))
            continue
        operands = pick([region.slot(value) for value in inner.operands])
        body.append((scalar_function(inner), operands, region.slot(inner.results[0])))
    yielded = pick([region.slot(value) for value in op.yield_op.arguments])
    bind = _binder(op, scope, region)
    outputs = [scope.slot(value) for value in op.outputs]
    is_ui8 = [tile(value).element_type == ui8 for value in op.outputs]
    sizes = scope.pick(op.map_sizes())
    checks = [scope.capacity_check(op, op.map_sizes(), tile(value)) for value in op.outputs]
    fits = [check for check in checks if check is not None]

    def step(frame: Frame) -> None:
        values = frame.values
        extents = sizes(values)
        for check in fits:
            check(extents)
        scalars = region.template.copy()
        bind(values, extents, scalars)
        for outer, inner, dtype in captured:
            scalars[inner] = torch.tensor(values[outer], dtype=dtype)
        for function, operands, out in body:
            scalars[out] = function(*operands(scalars))
        for slot, unsigned, result in zip(outputs, is_ui8, yielded(scalars), strict=True):
            if result.shape != extents:
                result = result.expand(extents)
            values[slot] = result.view(torch.uint8) if unsigned else result

    return step


def _captured(op: MapOp, region: _Region, scope: Scope) -> list[tuple[int, int, torch.dtype]]:
    """The scalars from outside that the region uses: slot there, slot here, dtype."""
    inside: set[SSAValue] = {*op.body.block.args}
    for inner in op.body.block.ops:
        inside.update(inner.results)
    used = {value for inner in op.body.block.ops for value in inner.operands} - inside
    return [(scope.slot(v), region.slot(v), DTYPES[v.type]) for v in used]


def _binder(
    op: MapOp, scope: Scope, region: _Region
) -> Callable[[list[Any], Sequence[int], list[Any]], None]:
    """What sets the region's arguments: inputs lined up with the dims, and indices if used."""
    site = scope.site(op)
    inputs: list[tuple[int, int, tuple[int, ...], Callable[[Tensor], Tensor] | None, bool]] = []
    for value, arg, dims in zip(op.inputs, op.scalar_args, op.dims_of_inputs(), strict=True):
        view = arranged(dims, op.rank)
        unsigned = tile(value).element_type == ui8
        inputs.append((scope.slot(value), region.slot(arg), dims, view, unsigned))
    offsets = scope.pick(op.map_offsets())
    indices = [(dim, region.slot(arg)) for dim, arg in enumerate(op.index_args) if arg.uses]
    rank = op.rank

    def bind(values: list[Any], extents: Sequence[int], scalars: list[Any]) -> None:
        for slot, arg, dims, view, unsigned in inputs:
            source: Tensor = values[slot]
            for dim, size in zip(dims, source.shape, strict=True):
                if size != extents[dim]:
                    raise ExtentError(
                        f"{site}: input of extents {list(source.shape)} as {list(dims)} does "
                        f"not match the map's {list(extents)}"
                    )
            if unsigned:
                source = source.view(torch.int8)
            scalars[arg] = source if view is None else view(source)
        if not indices:
            return
        starts = offsets(values)
        for dim, arg in indices:
            positions = torch.arange(starts[dim], starts[dim] + extents[dim])
            scalars[arg] = positions.view([-1 if d == dim else 1 for d in range(rank)])

    return bind
