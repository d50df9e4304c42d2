"""Loads and stores as strided views whose axes are the dims of the nest.

The address of an access is a polynomial in the dims.  Each dim with a coefficient becomes an axis
of the view with that stride, so whatever a reshape, transpose, broadcast or slice left in the index
is gone.  An address that is no such sum, or that falls along a dim, goes through one axis whose
position comes from an index tile.

Dims whose steps along one axis interleave, as the places of a convolution and those of its kernel
do, stay one axis: a window of it holds each element once, and the tile is seen through windows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IntegerAttr,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
    StringAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.hints import isa

from lpu_mlir.dialects.expr import (
    Call,
    Expr,
    Range,
    contiguous_strides,
    nesting,
    nonnegative,
    product,
    simplify,
)
from lpu_mlir.dialects.lpu import (
    element_type,
    extents,
    i64,
    memref_type,
    offset,
    strides,
)
from lpu_mlir.nests.nest import Store
from lpu_mlir.nests.pointwise import Numbers
from lpu_mlir.nests.scalar import Index, Load, Node, Op, Scalars, indirect_names, is_dim

INDEXED = ""
"""The dim of an axis whose positions come from an index tile."""


@dataclass(frozen=True)
class Axis:
    """One axis of a view: the dims that move along it, each by how many positions (INDEXED alone
    for an indexed axis), its extent, and its stride in elements."""

    steps: tuple[tuple[str, int], ...]
    extent: Expr
    stride: Expr

    @staticmethod
    def of(dim: str, extent: Expr, stride: Expr) -> Axis:
        return Axis(((dim, 1),), extent, stride)

    @property
    def dims(self) -> tuple[str, ...]:
        return tuple(dim for dim, _ in self.steps)


INDEXED_STEPS = ((INDEXED, 1),)


@dataclass(frozen=True)
class Access:
    """A view of a buffer and, if one axis is indexed, the scalar that gives its position."""

    buffer: SSAValue
    offset: Expr
    axes: tuple[Axis, ...]
    index: Node | None

    @property
    def dims(self) -> tuple[str, ...]:
        return tuple(dim for axis in self.axes for dim in axis.dims)

    @property
    def indexed_axis(self) -> int | None:
        return next((i for i, a in enumerate(self.axes) if a.steps == INDEXED_STEPS), None)

    def view_type(self) -> MemRefType[Attribute]:
        """The type of the view, over the function's symbols."""
        return memref_type(
            element_type(self.buffer.type),
            [axis.extent for axis in self.axes],
            [axis.stride for axis in self.axes],
            self.offset,
        )

    def kernel_type(self) -> MemRefType[Attribute]:
        """The type of the view as a kernel's argument: what depends on symbols is dynamic."""
        shape = [axis.extent for axis in self.axes]
        steps = [axis.stride for axis in self.axes]
        sizes = [DYNAMIC_INDEX if (c := e.constant()) is None else c for e in shape]
        dense = tuple(steps) == contiguous_strides(shape)
        layout = NoneAttr() if dense else StridedLayoutAttr([s.constant() for s in steps])
        return MemRefType(element_type(self.buffer.type), sizes, layout, StringAttr("shared_dram"))


def address(target: SSAValue, index: Sequence[Expr], ranges: Mapping[str, Range]) -> Expr:
    """The element of the buffer that an index means, in elements from the memref's base."""
    total = _offset(target)
    for position, stride in zip(index, strides(target.type), strict=True):
        total = total + position * stride
    return simplify(total, ranges)


def _offset(target: SSAValue) -> Expr:
    if not isa(target.type, MemRefType):
        raise NotImplementedError(f"a nest on {target.type}: 'bufferize' comes before this pass")
    return offset(target.type)


def _highest(target: SSAValue) -> Expr:
    """The last element of a buffer, in elements from the memref's base."""
    total = _offset(target)
    for extent, stride in zip(extents(target.type), strides(target.type), strict=True):
        total = total + (extent - 1) * stride
    return total


def make_access(
    where: Load | Store,
    target: SSAValue,
    ranges: Mapping[str, Range],
    scalars: Scalars,
    every: frozenset[str] = frozenset(),
) -> Access:
    """
    The view for a load or store; `ranges` must have every dim in scope, `every` those that must
    be in the address: a store lists all dims of its nest.

    Raises IndexError for an address that is outside the buffer whatever the symbols are.
    """
    index, scalar = _known_index(where, target, ranges)
    flat = address(target, index, ranges)
    if scalar:
        found = _by_one_axis(index, scalar, target, ranges)
        return found or _flat(target, flat, scalar, ranges, scalars)
    axes = _axes(flat, ranges, index)
    if axes is None or not every <= _dims(axes):
        return _flat(target, flat, scalar, ranges, scalars)
    if every and where.indirect and _may_overlap(axes, ranges):
        return _flat(target, flat, scalar, ranges, scalars)
    base = flat.substitute({dim: Expr.const(0) for dim in _dims(axes)})
    if not every:
        axes = _interleaved(axes, index, target, ranges)
    _require_inside(target, base, axes, ranges)
    return Access(target, base, axes, None)


def _dims(axes: Sequence[Axis]) -> set[str]:
    return {dim for axis in axes for dim in axis.dims}


def _known_index(
    where: Load | Store, target: SSAValue, ranges: Mapping[str, Range]
) -> tuple[tuple[Expr, ...], dict[str, Node]]:
    """The index with positions that are arithmetic on dims in place, and the scalars that remain
    by name.  An arithmetic position that may be out of bounds remains a scalar."""
    arithmetic: dict[str, Expr] = {}
    scalar = indirect_names(where.indirect)
    for name, node in indirect_names(where.indirect).items():
        expr = as_arithmetic(node)
        sizes = [
            size
            for size, e in zip(extents(target.type), where.index, strict=True)
            if e == Expr.name(name)
        ]
        if expr is not None and sizes and nonnegative(expr, ranges):
            if all(nonnegative(size - 1 - expr, ranges) for size in sizes):
                arithmetic[name] = expr
                del scalar[name]
    return tuple(e.substitute(arithmetic) for e in where.index), scalar


def as_arithmetic(node: Node) -> Expr | None:
    """The index expression that an i64 scalar is, if it is one."""
    if isinstance(node, Index):
        return node.expr
    if not isinstance(node, Op) or node.type != i64:
        return None
    if node.op is arith.ConstantOp:
        value = dict(node.properties)["value"]
        assert isa(value, IntegerAttr)
        return Expr.const(value.value.data)
    combine = _ARITHMETIC.get(node.op)
    if combine is None:
        return None
    lhs, rhs = map(as_arithmetic, node.operands)
    return None if lhs is None or rhs is None else combine(lhs, rhs)


_ARITHMETIC: Mapping[type[Operation], Callable[[Expr, Expr], Expr]] = {
    arith.AddiOp: lambda lhs, rhs: lhs + rhs,
    arith.SubiOp: lambda lhs, rhs: lhs - rhs,
    arith.MuliOp: lambda lhs, rhs: lhs * rhs,
}


def _require_inside(
    target: SSAValue, base: Expr, axes: Sequence[Axis], ranges: Mapping[str, Range]
) -> None:
    """Raise IndexError if a view that has elements certainly leaves a buffer that has some."""
    counts = [*extents(target.type), *(axis.extent for axis in axes)]
    if not all(nonnegative(count - 1, ranges) for count in counts):
        return
    last = base
    for axis in axes:
        last = last + (axis.extent - 1) * axis.stride
    lowest, highest = _offset(target), _highest(target)
    if nonnegative(lowest - 1 - base, ranges) or nonnegative(last - 1 - highest, ranges):
        raise IndexError(
            f"elements {base} to {last} are accessed of a buffer with elements {lowest} to "
            f"{highest}: {target.type}"
        )


def _axes(
    flat: Expr, ranges: Mapping[str, Range], index: Sequence[Expr]
) -> tuple[Axis, ...] | None:
    """One axis for each dim in an address that is a sum of dims with factors that are not negative:
    provably, or as the strides of a buffer, which are products of extents."""
    dims = sorted(name for name in flat.names() if is_dim(name))
    found: list[Axis] = []
    for dim in dims:
        stride = flat.coefficient(dim)
        if stride is None or any(is_dim(n) for n in stride.names()):
            return None
        if not nonnegative(stride, ranges) and not _counts_up(index, dim, ranges):
            return None
        upper = ranges[dim][1]
        assert upper is not None
        found.append(Axis.of(dim, upper + 1, stride))
    order = {name: i for i, e in reversed(list(enumerate(index))) for name in e.names()}
    return tuple(sorted(found, key=lambda axis: (order.get(axis.dims[0], 0), axis.dims)))


def _counts_up(index: Sequence[Expr], dim: str, ranges: Mapping[str, Range]) -> bool:
    """Whether no position falls along a dim."""
    steps = [position.coefficient(dim) for position in index]
    return all(step is not None and nonnegative(step, ranges) for step in steps)


def _interleaved(
    axes: Sequence[Axis], index: Sequence[Expr], target: SSAValue, ranges: Mapping[str, Range]
) -> tuple[Axis, ...]:
    """The axes with those joined that step among each other's positions in one index."""
    joined = list(axes)
    for position, (expr, stride) in enumerate(zip(index, strides(target.type), strict=True)):
        rest = {n for i, e in enumerate(index) if i != position for n in e.names()}
        steps = [(expr.coefficient(a.dims[0]), a) for a in axes if a.dims[0] not in rest]
        known = [(s.constant() or 0, a) for s, a in steps if s is not None and s != 0]
        for group in _groups([(step, axis) for step, axis in known if step > 0], ranges):
            unit = gcd(*(step for step, _ in group))
            together = sorted((axis.dims[0], step // unit) for step, axis in group)
            last = sum((e.extent * s - s for s, e in ((s // unit, a) for s, a in group)), _ZERO)
            at = min(joined.index(axis) for _, axis in group)
            for _, axis in group:
                joined.remove(axis)
            joined.insert(at, Axis(tuple(together), last + 1, stride * unit))
    return tuple(joined)


_ZERO = Expr.const(0)


def _groups(
    steps: Sequence[tuple[int, Axis]], ranges: Mapping[str, Range]
) -> list[list[tuple[int, Axis]]]:
    """Runs of several axes where each steps over less than what those of smaller steps span."""
    groups: list[list[tuple[int, Axis]]] = []
    reach = _ZERO
    for step, axis in sorted(steps, key=lambda pair: pair[0]):
        if groups and nonnegative(reach - step, ranges):
            groups[-1].append((step, axis))
        else:
            groups.append([(step, axis)])
            reach = _ZERO
        reach = reach + (axis.extent - 1) * step
    return [group for group in groups if len(group) > 1]


def _may_overlap(axes: Sequence[Axis], ranges: Mapping[str, Range]) -> bool:
    """Whether two points may be one element: a computed index need not be one to one."""
    return nesting([a.extent for a in axes], [a.stride for a in axes], ranges) is None


def _by_one_axis(
    index: Sequence[Expr],
    scalar: Mapping[str, Node],
    target: SSAValue,
    ranges: Mapping[str, Range],
) -> Access | None:
    """The view that keeps the indexed axis, when its index shares no dim with the others."""
    if len(scalar) != 1:
        return None
    ((name, position),) = scalar.items()
    placeholder = Expr.name(name)
    indexed = [axis for axis, e in enumerate(index) if e == placeholder]
    others = [e for e in index if name in e.names() and e != placeholder]
    if len(indexed) != 1 or others:
        return None
    direct = list(index)
    direct[indexed[0]] = Expr.const(0)
    flat = address(target, direct, ranges)
    axes = _axes(flat, ranges, direct)
    if axes is None or position.free & _dims(axes):
        return None
    base = flat.substitute({dim: Expr.const(0) for dim in _dims(axes)})
    axis = Axis.of(INDEXED, extents(target.type)[indexed[0]], strides(target.type)[indexed[0]])
    before = sum(1 for a in axes if _first_axis(a.dims[0], direct) < indexed[0])
    return Access(target, base, (*axes[:before], axis, *axes[before:]), position)


def _first_axis(dim: str, index: Sequence[Expr]) -> int:
    return next(i for i, e in enumerate(index) if dim in e.names())


def _flat(
    target: SSAValue,
    flat: Expr,
    names: Mapping[str, Node],
    ranges: Mapping[str, Range],
    scalars: Scalars,
) -> Access:
    """The view with one axis over the whole buffer, addressed element by element."""
    base = _offset(target)
    extent = _highest(target) - base + 1
    if not all(nonnegative(e - 1, ranges) for e in extents(target.type)):
        # Without elements it has no last one, whatever its strides say.
        extent = Expr.max(0, extent) * Expr.min(1, product(extents(target.type)))
    index = to_node(flat - base, names, scalars)
    return Access(target, base, (Axis.of(INDEXED, extent, Expr.const(1)),), index)


def to_node(expr: Expr, names: Mapping[str, Node], scalars: Scalars) -> Node:
    """An expression as an i64 scalar, with some names standing for scalars."""
    if not expr.names() & names.keys():
        return scalars.index(expr)
    numbers = Numbers(scalars, i64)
    total: Node | None = None
    for monomial, coefficient in expr.terms:
        term = numbers.const(coefficient)
        for atom in monomial:
            factor = (
                _call_node(atom, names, scalars)
                if isinstance(atom, Call)
                else names.get(atom) or scalars.index(Expr.name(atom))
            )
            term = numbers.int(arith.MuliOp, term, factor)
        total = term if total is None else numbers.int(arith.AddiOp, total, term)
    return total if total is not None else numbers.const(0)


def _call_node(call: Call, names: Mapping[str, Node], scalars: Scalars) -> Node:
    op = {"floordiv": arith.FloorDivSIOp, "min": arith.MinSIOp, "max": arith.MaxSIOp}[call.kind]
    lhs, rhs = (to_node(e, names, scalars) for e in (call.lhs, call.rhs))
    return Numbers(scalars, i64).int(op, lhs, rhs)
