"""Builds lpu_graph operations: what the handlers of ATen operators write their translation with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from typing import Any, TypeAlias

import torch
from xdsl.dialects.builtin import LocationAttr, StringAttr, TensorType, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, SSAValue

from lpu_mlir.dialects.expr import Expr, Range, nonnegative, simplify
from lpu_mlir.dialects.lpu import (
    Extent,
    IntsAttr,
    element_type,
    extents,
    i1,
    tensor_type,
)
from lpu_mlir.dialects.lpu_graph import (
    POINTWISE,
    ArgReduceOp,
    BroadcastOp,
    ConcatOp,
    ConvertOp,
    ConvOp,
    ExtentOp,
    FullOp,
    GatherOp,
    IotaOp,
    MatmulOp,
    PadOp,
    PointwiseOp,
    ReduceOp,
    ReshapeOp,
    ScanOp,
    ScatterOp,
    SliceOp,
    TransposeOp,
    WindowsOp,
    broadcast_extents,
    in_domain,
)
from lpu_mlir.frontend.calls import All, Comparison
from lpu_mlir.frontend.dtypes import DIMENSIONED, NUMBER, ZERO_DIM, number_dtype, overflows, promote
from lpu_mlir.frontend.errors import NotNative
from lpu_mlir.frontend.types import DTYPES, ELEMENTS, constant
from lpu_mlir.memo import MEMO


@dataclass(frozen=True)
class FloatScalar:
    """A symbolic Python float: a 0-d f64 tensor that takes part in promotion as a number."""

    value: SSAValue


Number: TypeAlias = bool | int | float | Expr | Comparison | All | FloatScalar
Operand: TypeAlias = SSAValue | Number
Tensors: TypeAlias = SSAValue | tuple[SSAValue | None, ...]
"""What a handler returns: one tensor, or one for each output of the operator."""


@lru_cache(MEMO)
def _string(text: str) -> StringAttr:
    return StringAttr(text)


def as_value(value: Any) -> SSAValue:
    """A value found by isinstance, whose type parameter pyright does not know."""
    return value


def rank(value: SSAValue) -> int:
    return len(extents(value.type))


def shape_of(value: SSAValue) -> tuple[Expr, ...]:
    return extents(value.type)


def dtype_of(value: SSAValue) -> torch.dtype:
    return DTYPES[element_type(value.type)]


def promoted(*operands: Operand) -> torch.dtype:
    """The dtype to which PyTorch promotes the operands."""
    return promote(*map(_strength, operands))


def _strength(operand: Operand) -> tuple[torch.dtype, int]:
    if isinstance(operand, SSAValue):
        return dtype_of(operand), DIMENSIONED if extents(operand.type) else ZERO_DIM
    if isinstance(operand, Expr):
        return torch.int64, NUMBER
    if isinstance(operand, Comparison | All):
        return torch.bool, NUMBER
    if isinstance(operand, FloatScalar):
        return torch.get_default_dtype(), NUMBER
    return number_dtype(operand), NUMBER


@lru_cache(MEMO)
def _pointwise_type(kind: str, *types: Attribute) -> TensorType[Attribute]:
    element = element_type(types[-1])
    operands = [element_type(type_) for type_ in (types[1:] if kind == "select" else types)]
    if len(set(operands)) != 1:
        elements = ", ".join(map(str, operands))
        raise TypeError(f"'{kind}' of {elements}: convert all operands to one dtype first")
    if not in_domain(element, POINTWISE[kind].domain):
        raise NotNative(f"'{kind}' is not defined on {element}")
    shape = broadcast_extents(*map(extents, types))
    return tensor_type(i1 if POINTWISE[kind].compares else element, shape)


class GraphBuilder:
    """Appends operations to a block, for one FX node after the other.

    `location`, `shape` and `dtype` describe the node that is being translated: where it comes from
    and its first tensor; `result_shapes` and `result_dtypes` have all its tensors, and `original`
    is the name of the operator that it is part of.  All methods return the new value, or the
    operand where nothing is to do.
    """

    def __init__(self, block: Block, ranges: Mapping[str, Range]):
        self.block = block
        self.ranges = ranges
        self.location: LocationAttr = UnknownLoc()
        self.original = ""
        self.shape: tuple[Expr, ...] = ()
        self.dtype: torch.dtype = torch.float32
        self.result_shapes: tuple[tuple[Expr, ...], ...] = ()
        self.result_dtypes: tuple[torch.dtype, ...] = ()

    @property
    def element(self) -> Attribute:
        return ELEMENTS[self.dtype]

    def emit(self, op: Operation) -> SSAValue:
        op.location = self.location
        self.block.add_op(op)
        return op.results[0]

    # --- creation ---------------------------------------------------------------------------
    def full(
        self, value: bool | float, dtype: torch.dtype, shape: Sequence[Extent] = ()
    ) -> SSAValue:
        element = ELEMENTS[dtype]
        return self.emit(
            FullOp.create(
                properties={"value": constant(value, element)},
                result_types=[tensor_type(element, shape)],
            )
        )

    def number(self, value: Number, dtype: torch.dtype) -> SSAValue:
        """A number as a 0-d tensor of that dtype."""
        if isinstance(value, FloatScalar):
            return self.convert(value.value, dtype)
        if isinstance(value, Comparison | All):
            return self.convert(self.condition(value), dtype)
        if not isinstance(value, Expr):
            return self.full(value, dtype)
        fixed = value.constant()
        if fixed is not None:
            return self.full(fixed, dtype)
        return self.convert(self.emit(ExtentOp(value)), dtype)

    def condition(self, value: Comparison | All) -> SSAValue:
        """A relation of extents as a 0-d tensor of bool."""
        if isinstance(value, All):
            return reduce(partial(self.pointwise, "and"), map(self.condition, value.parts))
        sides = (self.number(side, torch.int64) for side in (value.lhs, value.rhs))
        return self.pointwise(value.kind, *sides)

    def iota(self, dim: int, shape: Sequence[Extent]) -> SSAValue:
        """i64 positions along `dim`."""
        return self.emit(IotaOp(dim, shape))

    # --- element by element -----------------------------------------------------------------
    def pointwise(self, kind: str, *inputs: SSAValue) -> SSAValue:
        try:
            result = _pointwise_type(kind, *[i.type for i in inputs])
        except ValueError:
            inputs = self.unified(inputs)
            result = _pointwise_type(kind, *[i.type for i in inputs])
        return self.emit(
            PointwiseOp.create(
                operands=inputs,
                properties={"kind": _string(kind)},
                result_types=[result],
            )
        )

    def unified(self, inputs: Sequence[SSAValue]) -> tuple[SSAValue, ...]:
        """Operands of a broadcast whose extents PyTorch has found equal, but which are written
        differently (by a guard, or because they depend on data): all written as the first one."""
        first: dict[int, Expr] = {}
        for value in inputs:
            for place, extent in enumerate(reversed(shape_of(value))):
                if extent != 1:
                    first.setdefault(place, extent)
        unified: list[SSAValue] = []
        for value in inputs:
            shape = shape_of(value)
            places = range(len(shape) - 1, -1, -1)
            written = [e if e == 1 else first[p] for e, p in zip(shape, places, strict=True)]
            unified.append(self.reshape(value, written))
        return tuple(unified)

    def convert(self, value: SSAValue, dtype: torch.dtype) -> SSAValue:
        element = ELEMENTS[dtype]
        if element_type(value.type) == element:
            return value
        result = tensor_type(element, extents(value.type))
        return self.emit(ConvertOp.create(operands=[value], result_types=[result]))

    def operand(self, value: Operand, dtype: torch.dtype) -> SSAValue:
        """A tensor or number as a tensor of that dtype."""
        if isinstance(value, SSAValue):
            return self.convert(value, dtype)
        return self.number(value, dtype)

    def fitting(self, value: Operand, dtype: torch.dtype) -> SSAValue:
        """`operand`, but NotNative for a number that eager refuses to convert."""
        if isinstance(value, Expr):
            fixed = value.constant()
            value = value if fixed is None else fixed
        if isinstance(value, int | float) and overflows(value, dtype):
            raise NotNative(f"eager refuses {value}, which {dtype} does not have")
        return self.operand(value, dtype)

    def select(self, condition: SSAValue, then: SSAValue, otherwise: SSAValue) -> SSAValue:
        return self.pointwise("select", condition, then, otherwise)

    # --- along dimensions -------------------------------------------------------------------
    def reduce(self, kind: str, value: SSAValue, dims: Sequence[int]) -> SSAValue:
        return self.emit(ReduceOp(kind, value, dims)) if dims else value

    def keep(self, value: SSAValue, shape: Sequence[Expr], dims: Sequence[int]) -> SSAValue:
        """A reduction's result with extents of 1 in place of the reduced dims of `shape`."""
        one = Expr.const(1)
        return self.reshape(value, [one if axis in dims else e for axis, e in enumerate(shape)])

    def arg_reduce(self, kind: str, value: SSAValue, dim: int) -> SSAValue:
        return self.emit(ArgReduceOp(kind, value, dim))

    def scan(self, kind: str, value: SSAValue, dim: int) -> SSAValue:
        return self.emit(ScanOp(kind, value, dim))

    def matmul(self, lhs: SSAValue, rhs: SSAValue, dtype: torch.dtype | None = None) -> SSAValue:
        """Batched product, in `dtype` if given; a transposed operand becomes a flag."""
        if dtype_of(lhs) == torch.bool:
            raise NotNative("eager refuses booleans, unless there are none")
        if dtype_of(lhs) != dtype_of(rhs):
            raise NotNative("eager refuses operands of different dtypes")
        lhs, flip_lhs = _untransposed(lhs)
        rhs, flip_rhs = _untransposed(rhs)
        if dtype is not None:
            lhs, rhs = self.convert(lhs, dtype), self.convert(rhs, dtype)
        *batch, _, k = swapped(shape_of(lhs), flip_lhs)
        n = swapped(shape_of(rhs), flip_rhs)[-1]
        rhs = self.reshape(rhs, swapped([*batch, k, n], flip_rhs))
        return self.emit(MatmulOp(lhs, rhs, flip_lhs, flip_rhs))

    def conv(
        self,
        x: SSAValue,
        weight: SSAValue,
        counts: Sequence[Extent],
        strides: Sequence[int],
        dilations: Sequence[int],
        groups: int,
        dtype: torch.dtype,
    ) -> SSAValue:
        """In `dtype`: that of the operands or, not rounded, f32."""
        element = ELEMENTS[dtype]
        return self.emit(ConvOp(x, weight, counts, strides, dilations, groups, element))

    # --- views ------------------------------------------------------------------------------
    def reshape(self, value: SSAValue, shape: Sequence[Extent]) -> SSAValue:
        result = tensor_type(element_type(value.type), shape)
        if result == value.type:
            return value
        return self.emit(ReshapeOp.create(operands=[value], result_types=[result]))

    def transpose(self, value: SSAValue, permutation: Sequence[int]) -> SSAValue:
        if list(permutation) == list(range(len(permutation))):
            return value
        shape = extents(value.type)
        result = tensor_type(element_type(value.type), [shape[p] for p in permutation])
        order: Mapping[str, Attribute] = {"permutation": IntsAttr.of(permutation)}
        return self.emit(
            TransposeOp.create(operands=[value], properties=order, result_types=[result])
        )

    def broadcast(self, value: SSAValue, shape: Sequence[Extent]) -> SSAValue:
        result = tensor_type(element_type(value.type), shape)
        if result == value.type:
            return value
        return self.emit(BroadcastOp.create(operands=[value], result_types=[result]))

    def slice(
        self,
        value: SSAValue,
        starts: Sequence[Extent],
        shape: Sequence[Extent],
        steps: Sequence[int] | None = None,
    ) -> SSAValue:
        """Nothing is emitted for a slice that is the whole tensor."""
        if tuple(shape) == extents(value.type) and all(start == 0 for start in starts):
            if steps is None or all(step == 1 for step in steps):
                return value
        return self.emit(SliceOp(value, starts, shape, steps))

    def slice_dim(
        self, value: SSAValue, dim: int, start: Extent, extent: Extent, step: int = 1
    ) -> SSAValue:
        """`extent` elements along one dim, from `start` on."""
        shape: list[Extent] = list(extents(value.type))
        shape[dim] = Expr.of(extent)
        starts: list[Extent] = [Expr.const(0)] * len(shape)
        starts[dim] = start
        steps = [1] * len(shape)
        steps[dim] = step
        return self.slice(value, starts, shape, steps)

    def windows(
        self,
        value: SSAValue,
        counts: Sequence[Extent],
        sizes: Sequence[Extent],
        strides: Sequence[int],
        dilations: Sequence[int],
    ) -> SSAValue:
        """[..., counts, sizes] of the last dims."""
        return self.emit(WindowsOp(value, counts, sizes, strides, dilations))

    def pad(
        self,
        value: SSAValue,
        low: Sequence[Extent],
        shape: Sequence[Extent],
        fill: bool | float,
    ) -> SSAValue:
        return self.emit(PadOp(value, low, shape, constant(fill, element_type(value.type))))

    def concat(self, values: Sequence[SSAValue], dim: int) -> SSAValue:
        return values[0] if len(values) == 1 else self.emit(ConcatOp(values, dim))

    # --- by index ---------------------------------------------------------------------------
    def gather(
        self,
        value: SSAValue,
        indices: Sequence[SSAValue],
        dims: Sequence[int],
        at: int,
        *,
        error: str | None = None,
    ) -> SSAValue:
        return self.emit(GatherOp(value, indices, dims, at, error))

    def scatter(
        self,
        kind: str,
        value: SSAValue,
        updates: SSAValue,
        indices: Sequence[SSAValue],
        dims: Sequence[int],
        at: int,
        *,
        error: str | None = None,
    ) -> SSAValue:
        return self.emit(ScatterOp(kind, value, updates, indices, dims, at, error))

    def from_end(self, index: SSAValue, extent: Extent) -> SSAValue:
        """i64 indices with the negative ones counted from the end of a dim."""
        index = self.convert(index, torch.int64)
        zero, size = self.full(0, torch.int64), self.number(Expr.of(extent), torch.int64)
        shifted = self.pointwise("add", index, size)
        return self.select(self.pointwise("lt", index, zero), shifted, index)

    def zero_if(self, holds: SSAValue, error: str) -> SSAValue:
        """A 0-d i64 of 0 if a 0-d condition holds; the error, by name, if it does not."""
        wrong = self.convert(self.pointwise("not", holds), torch.int64)
        return self.gather(self.full(0, torch.int64, [1]), [wrong], [0], 0, error=error)

    # --- extents ----------------------------------------------------------------------------
    def simplify(self, value: Expr) -> Expr:
        """The expression with the minima and maxima resolved that the symbols' ranges decide."""
        return simplify(value, self.ranges)

    def slice_start(self, start: Extent, size: Expr) -> Expr:
        """The start of a slice counted from 0 and clamped to the dim, as Python does."""
        start = self.position(start, size)
        if not nonnegative(start, self.ranges):
            start = Expr.max(start, 0)
        return self.simplify(Expr.min(start, size))

    def slice_length(self, start: Extent | None, end: Extent | None, step: int, size: Expr) -> Expr:
        """How many elements a slice has."""
        first = self.slice_start(0 if start is None else start, size)
        last = size if end is None else self.slice_start(end, size)
        return self.simplify(Expr.max(last - first, 0).ceildiv(step))

    def position(self, index: Extent, size: Expr) -> Expr:
        """An index into a dim, counted from 0: below 0 it counts from the end."""
        index = Expr.of(index)
        if nonnegative(index, self.ranges):
            return index
        if nonnegative(-1 - index, self.ranges):
            return index + size
        below = Expr.min(Expr.max(-index, 0), 1)  # 1 or 0, which a run will tell
        return index + size * below


@dataclass(frozen=True)
class Term:
    """A tensor in arithmetic notation; numbers take the tensor's dtype."""

    b: GraphBuilder
    value: SSAValue

    def apply(self, kind: str, *others: Term | Number) -> Term:
        """A pointwise function of this and the other terms, this one first."""
        dtype = dtype_of(self.value)
        values = [o.value if isinstance(o, Term) else self.b.number(o, dtype) for o in others]
        return Term(self.b, self.b.pointwise(kind, self.value, *values))

    def to(self, dtype: torch.dtype) -> Term:
        return Term(self.b, self.b.convert(self.value, dtype))

    def __add__(self, other: Term | float | Expr) -> Term:
        return self.apply("add", other)

    def __sub__(self, other: Term | float | Expr) -> Term:
        return self.apply("sub", other)

    def __mul__(self, other: Term | Number) -> Term:
        return self.apply("mul", other)

    def __truediv__(self, other: Term | float | Expr) -> Term:
        return self.apply("div", other)


def either(condition: Term, then: Term | float, otherwise: Term | float) -> Term:
    """A choice element by element; a number takes the dtype of the other side."""
    like = then if isinstance(then, Term) else otherwise
    if not isinstance(like, Term):
        raise TypeError("one of the sides has to be a tensor")
    b, dtype = like.b, dtype_of(like.value)
    sides = [t if isinstance(t, Term) else Term(b, b.full(t, dtype)) for t in (then, otherwise)]
    return condition.apply("select", *sides)


def swapped(shape: Sequence[Expr], swap: bool) -> list[Expr]:
    """The extents with the last two changing places, if asked."""
    return [*shape[:-2], shape[-1], shape[-2]] if swap else list(shape)


def _untransposed(value: SSAValue) -> tuple[SSAValue, bool]:
    """(operand, whether it is stored transposed) for one side of a matrix product."""
    op = value.owner
    if not isinstance(op, TransposeOp):
        return value, False
    order = op.permutation.data
    n = len(order)
    if order != (*range(n - 2), n - 1, n - 2):
        return value, False
    return op.input, True
