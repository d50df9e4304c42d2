"""
Canonicalization of lpu_graph: what holds for every input, bit for bit (but for a NaN's payload).

The operations name their patterns through the table ``PATTERNS``; xDSL's ``canonicalize`` applies
them.
"""

import math
from collections.abc import Mapping

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from lpu_mlir.dialects.lpu import element_type, extents, i1, i8, i16, i32, i64, ui8
from lpu_mlir.dialects.lpu_graph import (
    BroadcastOp,
    ConcatOp,
    ConvertOp,
    FullOp,
    GraphOp,
    MatmulOp,
    PadOp,
    PointwiseOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
    UnaryGraphOp,
)

# --- helpers ------------------------------------------------------------------------------------


def constant(value: SSAValue) -> int | float | None:
    """The number that every element of the value equals, if it is made by ``full``; a boolean is 0
    or 1."""
    if not isinstance(full := value.owner, FullOp):
        return None
    number, element = full.value.value.data, element_type(value.type)
    if element == i1:
        return int(number != 0)
    return number if isinstance(element, IntegerType) else float(number)


def replace_by_op(rewriter: PatternRewriter, op: Operation, new: Operation) -> None:
    """Replace an operation by another one that stems from the same source line."""
    new.location = op.location
    rewriter.replace(op, new)


def replace_by_value(rewriter: PatternRewriter, op: PointwiseOp, value: SSAValue) -> None:
    """Replace an operation by one of its operands, which it may have broadcast."""
    if value.type == op.output.type:
        rewriter.replace(op, (), (value,))
    else:
        replace_by_op(rewriter, op, BroadcastOp(value, extents(op.output.type)))


# --- views and conversions ----------------------------------------------------------------------


class RemoveIdentity(RewritePattern):
    """An operation that gives its operand."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: UnaryGraphOp, rewriter: PatternRewriter, /) -> None:
        if op.input.type == op.output.type and _is_identity(op):
            rewriter.replace(op, (), (op.input,))


def _is_identity(op: UnaryGraphOp) -> bool:
    """Whether an operation that keeps the type keeps every element in its place."""
    match op:
        case ReshapeOp() | BroadcastOp() | ConvertOp():
            return True
        case TransposeOp():
            return list(op.permutation.data) == sorted(op.permutation.data)
        case SliceOp():
            # From 0 on, only steps of 1 stay in range.
            return all(start == 0 for start in op.starts.data)
        case PadOp():
            return all(low == 0 for low in op.low.data)
        case _:
            return False


class JoinReshapes(RewritePattern):
    """``reshape(reshape(x))`` is one reshape."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp, rewriter: PatternRewriter, /) -> None:
        if isinstance(inner := op.input.owner, ReshapeOp):
            replace_by_op(rewriter, op, ReshapeOp(inner.input, extents(op.output.type)))


class JoinBroadcasts(RewritePattern):
    """``broadcast(broadcast(x))`` is one broadcast."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BroadcastOp, rewriter: PatternRewriter, /) -> None:
        if isinstance(inner := op.input.owner, BroadcastOp):
            replace_by_op(rewriter, op, BroadcastOp(inner.input, extents(op.output.type)))


class JoinTransposes(RewritePattern):
    """``transpose(transpose(x))`` is one transpose: axis i is axis inner[outer[i]] of x."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter, /) -> None:
        if isinstance(inner := op.input.owner, TransposeOp):
            order = [inner.permutation.data[axis] for axis in op.permutation.data]
            replace_by_op(rewriter, op, TransposeOp(inner.input, order))


class JoinSlices(RewritePattern):
    """``slice(slice(x))`` is one slice: element i is start' + step' * (start + step * i) of x."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SliceOp, rewriter: PatternRewriter, /) -> None:
        if not isinstance(inner := op.input.owner, SliceOp):
            return
        outer = zip(op.starts.data, op.steps.data, strict=True)
        both = list(zip(inner.starts.data, inner.steps.data, outer, strict=True))
        starts = [inner_start + start * inner_step for inner_start, inner_step, (start, _) in both]
        steps = [inner_step * step for _, inner_step, (_, step) in both]
        shape = extents(op.output.type)
        replace_by_op(rewriter, op, SliceOp(inner.input, starts, shape, steps))


class JoinConverts(RewritePattern):
    """``convert(convert(x))`` is one conversion if the first of them loses nothing."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConvertOp, rewriter: PatternRewriter, /) -> None:
        if not isinstance(inner := op.input.owner, ConvertOp):
            return
        source, middle, target = (element_type(v.type) for v in (inner.input, op.input, op.output))
        if not holds(source, middle):
            return
        # Out of range, an integer wraps, but what a float gives is undefined.
        through_float = source in MAGNITUDE and middle in SIGNIFICAND and target in MAGNITUDE
        if not through_float or holds(source, target):
            replace_by_op(rewriter, op, ConvertOp(inner.input, target))


SIGNIFICAND: Mapping[Attribute, int] = {
    BFloat16Type(): 8,
    Float16Type(): 11,
    Float32Type(): 24,
    Float64Type(): 53,
}
"""Bits of a float's significand, the leading one included."""

MAGNITUDE: Mapping[Attribute, int] = {ui8: 8, i8: 7, i16: 15, i32: 31, i64: 63}
"""Bits of an integer without its sign; all but ui8 have one."""


def holds(source: Attribute, target: Attribute) -> bool:
    """Whether the target type has every value of the source type."""
    if source in (target, i1):
        return True
    if source in MAGNITUDE and target in MAGNITUDE:
        return target != ui8 and MAGNITUDE[source] <= MAGNITUDE[target]
    if source in MAGNITUDE and target in SIGNIFICAND:
        return MAGNITUDE[source] <= SIGNIFICAND[target]
    # From f32 on, the exponent grows with the significand.
    return source in SIGNIFICAND and SIGNIFICAND.get(target, 0) >= max(24, SIGNIFICAND[source])


class FoldViewOfFull(RewritePattern):
    """A view of equal elements is equal elements."""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: ReshapeOp | BroadcastOp | TransposeOp | SliceOp, rewriter: PatternRewriter, /
    ) -> None:
        if isinstance(full := op.input.owner, FullOp):
            shape, element = extents(op.output.type), element_type(op.output.type)
            replace_by_op(rewriter, op, FullOp(full.value, shape, element))


class RemoveSingleConcat(RewritePattern):
    """A concatenation of one tensor is that tensor."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConcatOp, rewriter: PatternRewriter, /) -> None:
        if len(op.inputs) == 1:
            rewriter.replace(op, (), op.inputs)


class FoldTransposeIntoMatmul(RewritePattern):
    """A matmul reads a transposed operand as it is stored."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MatmulOp, rewriter: PatternRewriter, /) -> None:
        lhs, swaps_lhs = _stored(op.lhs)
        rhs, swaps_rhs = _stored(op.rhs)
        if not (swaps_lhs or swaps_rhs):
            return
        flags = (op.transposes[0] != swaps_lhs, op.transposes[1] != swaps_rhs)
        replace_by_op(rewriter, op, MatmulOp(lhs, rhs, *flags))


def _stored(value: SSAValue) -> tuple[SSAValue, bool]:
    """What a matmul may read instead of the value, and whether its last two axes are swapped."""
    if isinstance(op := value.owner, TransposeOp):
        *batch, row, column = op.permutation.data
        rank = len(batch)
        if batch == list(range(rank)) and (row, column) == (rank + 1, rank):
            return op.input, True
    return value, False


# --- element by element -------------------------------------------------------------------------


def _is_neutral(kind: str, number: float, on_the_right: bool) -> bool:
    """Whether the function ``kind`` with this number as one operand gives the other operand."""
    match kind:
        case "mul":
            return number == 1
        case "div":
            return number == 1 and on_the_right
        case "add":
            # Of the float zeros, only the negative one keeps a negative zero.
            return number == 0 and (isinstance(number, int) or math.copysign(1, number) < 0)
        case "sub":
            return (
                number == 0
                and on_the_right
                and (isinstance(number, int) or math.copysign(1, number) > 0)
            )
        case _:
            return False


def _is_neutral_for_bool(kind: str, number: float) -> bool:
    return (kind, number) in (("and", 1), ("or", 0))


def _is_absorbing_for_bool(kind: str, number: float) -> bool:
    return (kind, number) in (("and", 0), ("or", 1))


class FoldConstantOperand(RewritePattern):
    """``x * 1``, ``x / 1``, ``x + 0``, ``x - 0`` where exact; ``and`` and ``or`` of a boolean."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: PointwiseOp, rewriter: PatternRewriter, /) -> None:
        if len(op.inputs) != 2:
            return
        kind, is_bool = op.kind.data, element_type(op.inputs[0].type) == i1
        for index, value in enumerate(op.inputs):
            number = constant(value)
            if number is None:
                continue
            other = op.inputs[1 - index]
            if _is_neutral(kind, number, index == 1) or (
                is_bool and _is_neutral_for_bool(kind, number)
            ):
                return replace_by_value(rewriter, op, other)
            if is_bool and _is_absorbing_for_bool(kind, number):
                return replace_by_value(rewriter, op, value)


class FoldSelect(RewritePattern):
    """A select whose condition is constant, or between a value and itself."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: PointwiseOp, rewriter: PatternRewriter, /) -> None:
        if op.kind.data != "select":
            return
        condition, if_true, if_false = op.inputs
        number = constant(condition)
        if number is None and if_true is not if_false:
            return
        replace_by_value(rewriter, op, if_false if number == 0 else if_true)


_VIEW = (RemoveIdentity(), FoldViewOfFull())

PATTERNS: Mapping[type[GraphOp], tuple[RewritePattern, ...]] = {
    ReshapeOp: (*_VIEW, JoinReshapes()),
    BroadcastOp: (*_VIEW, JoinBroadcasts()),
    TransposeOp: (*_VIEW, JoinTransposes()),
    SliceOp: (*_VIEW, JoinSlices()),
    PadOp: (RemoveIdentity(),),
    ConvertOp: (RemoveIdentity(), JoinConverts()),
    ConcatOp: (RemoveSingleConcat(),),
    MatmulOp: (FoldTransposeIntoMatmul(),),
    PointwiseOp: (FoldConstantOperand(), FoldSelect()),
}
"""Operation -> its patterns, in the order in which they are tried."""
