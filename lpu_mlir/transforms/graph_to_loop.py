"""Lowers tensors operations to loop nests: one nest for each operation that computes.

Views compute nothing: a reshape, transpose, broadcast or slice is kept as index expressions into
the tensor it looks at, and the loads of whoever reads it are written in those terms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.context import Context
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from lpu_mlir.dialects import lpu_graph, lpu_loop
from lpu_mlir.dialects.expr import Expr, contiguous_strides, product, simplify
from lpu_mlir.dialects.location import describe_location
from lpu_mlir.dialects.lpu import (
    HostCallOp,
    IfOp,
    WhileOp,
    element_type,
    extents,
    i1,
    scalar_type,
    symbol_ranges,
)
from lpu_mlir.dialects.lpu_loop import Dim, indirect_name
from lpu_mlir.nests.body import Body, Point, View, at_axes, axes_of, wide_type
from lpu_mlir.nests.composites import COMPOSITES
from lpu_mlir.nests.nest import Nest, Store, write
from lpu_mlir.nests.pointwise import INTEGER_DIVISION, convert, pointwise
from lpu_mlir.nests.scalar import Node, Scalars
from lpu_mlir.transforms.verify_level import check_level

# --- views --------------------------------------------------------------------------------------


def reshape_index(source: Sequence[Expr], result: Sequence[Expr]) -> Point:
    """For each axis of `source`, its position in terms of the axes v0, … of `result`.

    Axes are taken in groups of equal product, so that only axes that are really merged or split
    meet in one expression.
    """
    index: list[Expr] = []
    i = j = 0
    while i < len(source) or j < len(result):
        end_i, end_j = _group(source, i, result, j)
        strides = contiguous_strides(result[j:end_j])
        axes = axes_of(result)[j:end_j]
        linear = sum((a * s for a, s in zip(axes, strides, strict=True)), Expr.const(0))
        for extent, stride in zip(
            source[i:end_i], contiguous_strides(source[i:end_i]), strict=True
        ):
            position = linear.floordiv(stride) if stride != 0 else Expr.const(0)
            first = stride * extent == product(source[i:end_i])
            index.append(position if first or extent == 0 else position.mod(extent))
        i, j = end_i, end_j
    return tuple(index)


def _group(source: Sequence[Expr], i: int, result: Sequence[Expr], j: int) -> tuple[int, int]:
    """The shortest next runs of axes with equal products (and the trailing ones)."""
    end_i, end_j = min(i + 1, len(source)), min(j + 1, len(result))
    while end_i < len(source) or end_j < len(result):
        lhs, rhs = product(source[i:end_i]), product(result[j:end_j])
        if lhs == rhs and lhs != 0:
            break
        if end_i < len(source) and (end_j == len(result) or _divides(lhs, rhs)):
            end_i += 1
        elif end_j < len(result):
            end_j += 1
    return end_i, end_j


def _divides(small: Expr, large: Expr) -> bool:
    """Whether `small` divides `large`: the run with the smaller product grows first."""
    if small == 0 or large == 0:
        return small != 0
    return not large.divmod(small)[1].terms


def _reshape(op: lpu_graph.ReshapeOp) -> Point:
    return reshape_index(extents(op.input.type), extents(op.output.type))


def _transpose(op: lpu_graph.TransposeOp) -> Point:
    index = [Expr.const(0)] * len(op.permutation.data)
    for axis, source in zip(axes_of(extents(op.output.type)), op.permutation.data, strict=True):
        index[source] = axis
    return tuple(index)


def _broadcast(op: lpu_graph.BroadcastOp) -> Point:
    shape, axes = extents(op.input.type), axes_of(extents(op.output.type))
    tail = axes[len(axes) - len(shape) :]
    return tuple(Expr.const(0) if e == 1 else a for e, a in zip(shape, tail, strict=True))


def _slice(op: lpu_graph.SliceOp) -> Point:
    axes = axes_of(extents(op.output.type))
    steps = op.steps.data
    return tuple(s + a * k for s, a, k in zip(op.starts.data, axes, steps, strict=True))


def _windows(op: lpu_graph.WindowsOp) -> Point:
    axes = axes_of(extents(op.output.type))
    steps = list(zip(op.strides.data, op.dilations.data, strict=True))
    outer, n = len(axes) - 2 * len(steps), len(steps)
    along = zip(axes[outer : outer + n], axes[outer + n :], steps, strict=True)
    return (*axes[:outer], *(p * stride + q * dilation for p, q, (stride, dilation) in along))


VIEWS: Mapping[type[Operation], Callable[..., Point]] = {
    lpu_graph.ReshapeOp: _reshape,
    lpu_graph.TransposeOp: _transpose,
    lpu_graph.BroadcastOp: _broadcast,
    lpu_graph.SliceOp: _slice,
    lpu_graph.WindowsOp: _windows,
}
"""View -> for each axis of the operand, its position in terms of the result's axes."""


# --- what computes ------------------------------------------------------------------------------


def _full(op: lpu_graph.FullOp, body: Body, point: Point) -> Node:
    element = element_type(op.output.type)
    return body.numbers(element).const(op.value.value.data)


def _extent(op: lpu_graph.ExtentOp, body: Body, point: Point) -> Node:
    return body.scalars.index(op.value.data)


def _iota(op: lpu_graph.IotaOp, body: Body, point: Point) -> Node:
    return body.scalars.index(point[op.dim.value.data])


def _pointwise(op: lpu_graph.PointwiseOp, body: Body, point: Point) -> Node:
    kind = op.kind.data
    element = element_type(op.inputs[-1].type)
    operands = [body.load(i, point) for i in op.inputs]
    if kind in INTEGER_DIVISION and not isinstance(element, AnyFloat):
        numbers = body.numbers(element)
        nonzero = numbers.compare("ne", operands[1], numbers.const(0))
        body.check(nonzero, "RuntimeError", "ZeroDivisionError")
    return pointwise(body.scalars, kind, operands, element)


def _convert(op: lpu_graph.ConvertOp, body: Body, point: Point) -> Node:
    source, target = element_type(op.input.type), element_type(op.output.type)
    return convert(body.scalars, body.load(op.input, point), source, target)


def _reduce(op: lpu_graph.ReduceOp, body: Body, point: Point) -> Node:
    shape, dims = extents(op.input.type), op.dims.data
    element = element_type(op.input.type)
    bound = [(body.scalars.fresh(shape[d]), shape[d]) for d in dims if shape[d] != 1]
    names = iter([Expr.name(name) for name, _ in bound])
    kept = iter(point)
    inner = [
        (Expr.const(0) if e == 1 else next(names)) if axis in dims else next(kept)
        for axis, e in enumerate(shape)
    ]
    wide = wide_type(element, op.kind.data)
    value = convert(body.scalars, body.load(op.input, inner), element, wide)
    if bound:
        value = body.scalars.fold(op.kind.data, bound, value, scalar_type(wide))
    return convert(body.scalars, value, wide, element)


def _with_axis(point: Point, axis: int, position: Expr) -> Point:
    return (*point[:axis], position, *point[axis:])


def _arg_reduce(op: lpu_graph.ArgReduceOp, body: Body, point: Point) -> Node:
    dim = op.dim.value.data
    extent = extents(op.input.type)[dim]
    if extent == 1:
        return body.scalars.index(Expr.const(0))
    name = body.scalars.fresh(extent)
    element = element_type(op.input.type)
    value = body.load(op.input, _with_axis(point, dim, Expr.name(name)))
    value = convert(body.scalars, value, element, wide_type(element, op.kind.data))
    result = scalar_type(element_type(op.output.type))
    return body.scalars.fold(op.kind.data, [(name, extent)], value, result, "arg_fold")


def _scan(op: lpu_graph.ScanOp, body: Body, point: Point) -> Node:
    dim, element = op.dim.value.data, element_type(op.input.type)
    extent = extents(op.input.type)[dim]
    if extent == 1:
        return body.load(op.input, point)
    name = body.scalars.fresh(extent)
    inner = (*point[:dim], Expr.name(name), *point[dim + 1 :])
    wide = wide_type(element, op.kind.data)
    value = convert(body.scalars, body.load(op.input, inner), element, wide)
    along, result = str(point[dim]), scalar_type(wide)
    value = body.scalars.fold(op.kind.data, [(name, extent)], value, result, "scan", along)
    return convert(body.scalars, value, wide, element)


def _matmul(op: lpu_graph.MatmulOp, body: Body, point: Point) -> Node:
    element = element_type(op.output.type)
    wide = wide_type(element, "add")
    transposed = op.transposes
    extent = extents(op.lhs.type)[-2 if transposed[0] else -1]
    k = Expr.const(0) if extent == 1 else Expr.name(body.scalars.fresh(extent))
    *batch, m, n = point
    lhs = [*batch, k, m] if transposed[0] else [*batch, m, k]
    rhs = [*batch, n, k] if transposed[1] else [*batch, k, n]
    factors = [
        convert(body.scalars, body.load(operand, at), element, wide)
        for operand, at in ((op.lhs, lhs), (op.rhs, rhs))
    ]
    value = pointwise(body.scalars, "mul", factors, wide)
    if extent != 1:
        value = body.scalars.fold("add", [(str(k), extent)], value, scalar_type(wide))
    return convert(body.scalars, value, wide, element)


def _conv(op: lpu_graph.ConvOp, body: Body, point: Point) -> Node:
    element = element_type(op.input.type)
    wide = wide_type(element, "add")
    outputs, *inner = extents(op.weight.type)
    bound = [(body.scalars.fresh(e), e) for e in inner if e != 1]
    names = iter([Expr.name(name) for name, _ in bound])
    c, *taps = [Expr.const(0) if e == 1 else next(names) for e in inner]
    n, o, *places = point
    group = o.floordiv(outputs.floordiv(op.groups.value.data))
    steps = zip(places, op.strides.data, taps, op.dilations.data, strict=True)
    at = [n, group * inner[0] + c, *(p * s + q * d for p, s, q, d in steps)]
    factors = [
        convert(body.scalars, body.load(operand, where), element, wide)
        for operand, where in ((op.input, at), (op.weight, [o, c, *taps]))
    ]
    value = pointwise(body.scalars, "mul", factors, wide)
    if bound:
        value = body.scalars.fold("add", bound, value, scalar_type(wide))
    return convert(body.scalars, value, wide, element_type(op.output.type))


def _pad(op: lpu_graph.PadOp, body: Body, point: Point) -> Node:
    shape, result = extents(op.input.type), extents(op.output.type)
    low = op.low.data
    value = body.load(op.input, [p - before for p, before in zip(point, low, strict=True)])
    fill = body.numbers(element_type(op.output.type)).const(op.value.value.data)
    for position, before, inner, outer in zip(point, low, shape, result, strict=True):
        bounds, parts = [before, before + inner], [fill, value, fill]
        if (before + inner - outer).constant() in (0, None) and before + inner == outer:
            bounds, parts = bounds[:1], parts[:2]
        if before == 0:
            bounds, parts = bounds[1:], parts[1:]
        value = body.scalars.pieces(position, bounds, parts)
    return value


def _concat(op: lpu_graph.ConcatOp, body: Body, point: Point) -> Node:
    dim = op.dim.value.data
    start, bounds, parts = Expr.const(0), list[Expr](), list[Node]()
    for operand in op.inputs:
        extent = extents(operand.type)[dim]
        if extent == 0:
            continue
        if parts:
            bounds.append(start)
        inner = (*point[:dim], point[dim] - start, *point[dim + 1 :])
        parts.append(body.load(operand, inner))
        start = start + extent
    if not parts:
        return body.numbers(element_type(op.output.type)).const(0)
    return body.scalars.pieces(point[dim], bounds, parts)


def _indexed(
    op: lpu_graph.GatherOp | lpu_graph.ScatterOp, body: Body, point: Point
) -> tuple[Point, list[Node]]:
    """Where a point of the window lies in the indexed tensor, and the scalars it names."""
    at, dims = op.at.value.data, op.dims.data
    index_rank = len(extents(op.indices[0].type))
    index_point = point[at : at + index_rank]
    kept = iter((*point[:at], *point[at + index_rank :]))
    shape = extents(op.input.type)
    indices = [body.load(index, index_point) for index in op.indices]
    numbers = body.numbers(element_type(op.indices[0].type))
    for dim, index in zip(dims, indices, strict=True):
        inside = body.numbers(i1).int(
            arith.AndIOp,
            numbers.compare("ge", index, numbers.const(0)),
            numbers.compare("lt", index, body.scalars.index(shape[dim])),
        )
        message = f"index out of range for dimension {dim} with size {shape[dim]}"
        body.check(inside, op.error.data if op.error else "IndexError", message)
    where = [
        Expr.name(indirect_name(dims.index(axis))) if axis in dims else next(kept)
        for axis in range(len(shape))
    ]
    return tuple(where), indices


def _gather(op: lpu_graph.GatherOp, body: Body, point: Point) -> Node:
    where, indices = _indexed(op, body, point)
    view = body.views[op.input]
    at = at_axes([Expr.const(0) if e == 1 else w for e, w in zip(view.shape, where, strict=True)])
    index = [simplify(e.substitute(at), body.scalars.ranges) for e in view.index]
    return body.scalars.load(view.source, index, indices)


COMPUTES: Mapping[type[Operation], Callable[..., Node]] = {
    **COMPOSITES,
    lpu_graph.ArgReduceOp: _arg_reduce,
    lpu_graph.ConcatOp: _concat,
    lpu_graph.ConvOp: _conv,
    lpu_graph.ConvertOp: _convert,
    lpu_graph.ExtentOp: _extent,
    lpu_graph.FullOp: _full,
    lpu_graph.GatherOp: _gather,
    lpu_graph.IotaOp: _iota,
    lpu_graph.MatmulOp: _matmul,
    lpu_graph.PadOp: _pad,
    lpu_graph.PointwiseOp: _pointwise,
    lpu_graph.ReduceOp: _reduce,
    lpu_graph.ScanOp: _scan,
}
"""Operation -> the value of its result at a point."""


# --- the pass -----------------------------------------------------------------------------------

OPAQUE = (func.CallOp, func.ReturnOp, HostCallOp, IfOp, WhileOp)
"""Operations that take whole tensors."""


class Lowering:
    """Rebuilds one function, operation by operation."""

    def __init__(self, function: func.FuncOp, block: Block):
        self.scalars = Scalars(dict(symbol_ranges(function)))
        self.block = block
        self.views: dict[SSAValue, View] = {}
        for old, new in zip(function.body.block.args, block.args, strict=True):
            self.views[old] = View.of(new)

    def lower(self, op: Operation) -> None:
        if type(op) in VIEWS:
            self.look(op)
        elif type(op) in COMPUTES:
            if isinstance(op, lpu_graph.ConvOp | lpu_graph.MatmulOp):
                self.turn_around(op)
            out = op.results[0]
            value = self.nest(op, extents(out.type), partial(COMPUTES[type(op)], op))
            self.views[out] = View.of(value)
        elif isinstance(op, lpu_graph.ScatterOp):
            self.scatter(op)
        elif isinstance(op, lpu_graph.WriteBackOp):
            value, target = self.whole(op.value), self.views[op.target].source
            self.block.add_op(lpu_loop.WriteBackOp(value, target))
        elif isinstance(op, OPAQUE):
            self.opaque(op)
        else:
            message = f"'{op.name}' has no lowering to lpu_loop"
            op.emit_error(message, PassFailedException(message))

    def look(self, op: Operation) -> None:
        """A view of a view: its index expressions substituted into those of its operand."""
        inner, shape = self.views[op.operands[0]], extents(op.results[0].type)
        outer = View(inner.source, VIEWS[type(op)](op), shape)
        at, ranges = at_axes(outer.index), {**self.scalars.ranges, **outer.ranges()}
        index = tuple(simplify(e.substitute(at), ranges) for e in inner.index)
        self.views[op.results[0]] = View(inner.source, index, shape)

    def turn_around(self, op: Operation) -> None:
        """Copies operands of a product that would be read backwards, element by element."""
        for operand in op.operands:
            if self.views[operand].runs_backwards():
                self.whole(operand)

    def point(self, shape: Sequence[Expr]) -> tuple[tuple[Dim, ...], Point]:
        """The dims of a nest over that shape and the point they form; unit axes have no dim."""
        dims: list[Dim] = []
        point: list[Expr] = []
        for extent in shape:
            if extent == 1:
                point.append(Expr.const(0))
                continue
            name = f"d{len(dims)}"
            dims.append((name, extent))
            point.append(Expr.name(name))
            self.scalars.ranges[name] = (Expr.const(0), extent - 1)
        return tuple(dims), tuple(point)

    def nest(
        self, op: Operation, shape: Sequence[Expr], value: Callable[[Body, Point], Node]
    ) -> SSAValue:
        """A nest that stores `value` at every point of a new tensor."""
        empty = lpu_loop.EmptyOp(shape, element_type(op.results[0].type))
        dims, point = self.point(shape)
        body = Body(self.scalars, self.views, describe_location(op.location))
        store = Store("replace", 0, point, (), value(body, point))
        nest = write(Nest(dims, (store,), tuple(body.checks)), [empty.output])
        nest.location = op.location
        self.block.add_ops([empty, nest])
        return nest.results[0]

    def scatter(self, op: lpu_graph.ScatterOp) -> None:
        dims, point = self.point(extents(op.updates.type))
        body = Body(self.scalars, self.views, describe_location(op.location))
        where, indices = _indexed(op, body, point)
        value = body.load(op.updates, point)
        kind = op.kind.data
        store = Store(kind, 0, where, tuple(indices), value)
        nest = write(Nest(dims, (store,), tuple(body.checks)), [self.whole(op.input)])
        nest.location = op.location
        self.block.add_op(nest)
        self.views[op.output] = View.of(nest.results[0])

    def whole(self, value: SSAValue) -> SSAValue:
        """The tensor itself, copied out of the tensor it is a view of if need be."""
        view = self.views[value]
        if view.is_whole():
            return view.source
        empty = lpu_loop.EmptyOp(view.shape, element_type(value.type))
        dims, point = self.point(view.shape)
        loaded = Body(self.scalars, self.views).load(value, point)
        nest = write(Nest(dims, (Store("replace", 0, point, (), loaded),)), [empty.output])
        self.block.add_ops([empty, nest])
        self.views[value] = View.of(nest.results[0])
        return nest.results[0]

    def opaque(self, op: Operation) -> None:
        """What takes whole tensors."""
        new = op.clone(value_mapper={o: self.whole(o) for o in op.operands})
        self.block.add_op(new)
        for old, result in zip(op.results, new.results, strict=True):
            self.views[old] = View.of(result)


def lower_function(function: func.FuncOp) -> None:
    old = function.body.block
    block = Block(arg_types=[arg.type for arg in old.args])
    for old_arg, new_arg in zip(old.args, block.args, strict=True):
        new_arg.name_hint = old_arg.name_hint
    lowering = Lowering(function, block)
    for op in old.ops:
        lowering.lower(op)
    function.detach_region(function.body)
    function.add_region(Region(block))


@dataclass(frozen=True)
class GraphToLoopPass(ModulePass):
    """Lowers `lpu_graph` to `lpu_loop`.

    Before:
    ```mlir
    %0 = lpu_graph.transpose %x <[1, 0]> : tensor<3x4xf32> -> tensor<4x3xf32>
    %1 = lpu_graph.pointwise "exp"(%0) : tensor<4x3xf32> -> tensor<4x3xf32>
    ```
    After:
    ```mlir
    %e = lpu_loop.empty : tensor<4x3xf32>
    %1 = lpu_loop.nest [d0 = 4, d1 = 3] outs(%e : tensor<4x3xf32>) {
      %2 = lpu_loop.load %x[d1, d0] : tensor<3x4xf32>
      %3 = math.exp %2 : f32
      lpu_loop.store "replace" %3, %e[d0, d1] : f32, tensor<4x3xf32>
    } -> tensor<4x3xf32>
    ```
    """

    name = "graph-to-loop"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in list(op.ops):
            if isinstance(function, func.FuncOp) and function.body.blocks:
                lower_function(function)
        check_level(op, "loop")
