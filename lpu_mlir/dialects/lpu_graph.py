"""The `lpu_graph` dialect: what is computed, on tensors.

The operations stand at StableHLO's granularity, with NumPy broadcasting in `pointwise`.  Dtype
promotion has been done by the importer: the operands of a pointwise operation have one element
type. Results that a graph writes back to its arguments are named by `write_back`, wherever it
stands: when the function has returned, the buffer of the argument holds the new value; every read
of the argument in the function means the old one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    BoolAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
)
from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import Attribute, Block, Dialect, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.pattern_rewriter import RewritePattern
from xdsl.traits import MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from lpu_mlir.dialects.expr import Expr, product
from lpu_mlir.dialects.lpu import (
    ExprAttr,
    Extent,
    IntsAttr,
    ShapeAttr,
    element_type,
    extents,
    i1,
    i64,
    tensor_type,
)

# --- tables -------------------------------------------------------------------------------------

Domain: TypeAlias = Literal["any", "number", "float", "integer", "bits"]


@dataclass(frozen=True)
class PointwiseKind:
    """What a pointwise function takes: operand count, element types, and what it gives."""

    arity: int
    domain: Domain
    compares: bool = False


def _kinds(names: str, arity: int, domain: Domain, compares: bool = False):
    return {name: PointwiseKind(arity, domain, compares) for name in names.split()}


POINTWISE: Mapping[str, PointwiseKind] = {
    **_kinds(
        "acos acosh asin asinh atan atanh ceil cos cosh erf exp exp2 expm1 floor log log10 log1p "
        "log2 reciprocal round rsqrt sigmoid sin sinh sqrt tan tanh trunc",
        1,
        "float",
    ),
    **_kinds("abs neg sign", 1, "number"),
    **_kinds("not", 1, "bits"),
    **_kinds("maximum minimum", 2, "any"),
    **_kinds("add sub mul floordiv remainder fmod pow", 2, "number"),
    **_kinds("div atan2 copysign", 2, "float"),
    **_kinds("truncdiv shl shr", 2, "integer"),
    **_kinds("and or xor", 2, "bits"),
    **_kinds("eq ne lt le gt ge", 2, "any", compares=True),
    **_kinds("select", 3, "any"),
    **_kinds("fma", 3, "float"),
}
"""Every pointwise function.  `select` takes an i1 condition first.  Integer `floordiv` and
`remainder` round to minus infinity, `truncdiv` and `fmod` to zero; `pow` of integers wraps."""

REDUCTIONS: Mapping[str, Domain] = {
    "add": "number",
    "mul": "number",
    "max": "any",
    "min": "any",
    "and": "bits",
    "or": "bits",
    "xor": "bits",
}
SCANS: Mapping[str, Domain] = {kind: REDUCTIONS[kind] for kind in ("add", "mul", "max", "min")}
SCATTERS: Mapping[str, Domain] = {"replace": "any", "add": "number"}


def _in_domain(element: Attribute, domain: Domain) -> bool:
    is_float = "f" in str(element)
    match domain:
        case "any":
            return True
        case "number":
            return element != i1
        case "float":
            return is_float
        case "integer":
            return not is_float and element != i1
        case "bits":
            return not is_float


def is_negative(expr: Expr) -> bool:
    """Whether a number is below zero whatever the symbols are; only constants are decided."""
    value = expr.constant()
    return value is not None and value < 0


def broadcast_extents(*shapes: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """NumPy broadcasting; raises ValueError naming the first pair of extents that differ."""
    rank = max((len(shape) for shape in shapes), default=0)
    result = [Expr.const(1)] * rank
    for shape in shapes:
        for axis, extent in enumerate(shape, rank - len(shape)):
            if result[axis] == 1:
                result[axis] = extent
            elif extent != 1 and extent != result[axis]:
                raise ValueError(f"extents {result[axis]} and {extent} of axis {axis} differ")
    return tuple(result)


class GraphOp(IRDLOperation, HasCanonicalizationPatternsInterface):
    """An operation on tensors; helpers shared by the verifiers."""

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from lpu_mlir.transforms.canonicalization_patterns.lpu_graph import PATTERNS

        return PATTERNS.get(cls, ())

    def expect(self, holds: bool, message: str) -> None:
        if not holds:
            raise VerifyException(f"{self.name}: {message}")

    def expect_shape(self, got: Attribute, expected: Sequence[Expr], what: str) -> None:
        shape = extents(got)
        self.expect(
            shape == tuple(expected),
            f"{what} has extents [{', '.join(map(str, shape))}], "
            f"expected [{', '.join(map(str, expected))}]",
        )

    def expect_element(self, got: Attribute, expected: Attribute, what: str) -> None:
        element = element_type(got)
        self.expect(element == expected, f"{what} element is {element}, expected {expected}")

    def expect_kind(self, kind: str, known: Mapping[str, Domain], element: Attribute) -> None:
        """`known` lists kinds and the element types they are defined on."""
        domain = known.get(kind)
        if domain is None:
            raise VerifyException(
                f"{self.name}: unknown kind '{kind}', expected one of {', '.join(known)}"
            )
        self.expect(_in_domain(element, domain), f"'{kind}' is not defined on {element}")

    def expect_value(self, value: IntegerAttr | FloatAttr, element: Attribute) -> None:
        self.expect(value.type == element, f"value is of type {value.type}, expected {element}")

    def expect_axes(self, axes: Sequence[int], rank: int, what: str) -> None:
        self.expect(
            all(0 <= axis < rank for axis in axes) and len(set(axes)) == len(axes),
            f"{what} {list(axes)} must be distinct and in [0, {rank})",
        )


class UnaryGraphOp(GraphOp):
    """One tensor in, one out."""

    input = operand_def(TensorType)
    output = result_def(TensorType)
    traits = traits_def(Pure())

    def expect_same_element(self) -> None:
        self.expect_element(self.output.type, element_type(self.input.type), "result")


# --- creation -----------------------------------------------------------------------------------


@irdl_op_definition
class FullOp(GraphOp):
    """Every element equals `value`.

    %0 = lpu_graph.full 1.0 : f32 : tensor<2x3xf32>
    """

    name = "lpu_graph.full"
    value = prop_def(IntegerAttr | FloatAttr)
    output = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($output)"

    def __init__(self, value: IntegerAttr | FloatAttr, shape: Sequence[Extent], element: Attribute):
        super().__init__(properties={"value": value}, result_types=[tensor_type(element, shape)])

    def verify_(self) -> None:
        extents(self.output.type)
        self.expect_value(self.value, element_type(self.output.type))


@irdl_op_definition
class ExtentOp(GraphOp):
    """An expression over the function's symbols as a 0-d tensor.

    %0 = lpu_graph.extent <24 * s18> : tensor<i64>
    """

    name = "lpu_graph.extent"
    value = prop_def(ExprAttr)
    output = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($output)"

    def __init__(self, value: Expr):
        super().__init__(properties={"value": ExprAttr(value)}, result_types=[tensor_type(i64, ())])

    def verify_(self) -> None:
        self.expect_shape(self.output.type, (), "result")
        self.expect_element(self.output.type, i64, "result")


@irdl_op_definition
class IotaOp(GraphOp):
    """The position along `dim`.

    %0 = lpu_graph.iota 0 : tensor<8xi64>
    """

    name = "lpu_graph.iota"
    dim = prop_def(IntegerAttr[I64])
    output = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$dim attr-dict `:` type($output)"

    def __init__(self, dim: int, shape: Sequence[Extent]):
        super().__init__(
            properties={"dim": IntegerAttr(dim, i64)}, result_types=[tensor_type(i64, shape)]
        )

    def verify_(self) -> None:
        self.expect_axes([self.dim.value.data], len(extents(self.output.type)), "dim")
        self.expect_element(self.output.type, i64, "result")


# --- element by element -------------------------------------------------------------------------


@irdl_op_definition
class PointwiseOp(GraphOp):
    """A function of the table `POINTWISE`, element by element, with NumPy broadcasting.

    %2 = lpu_graph.pointwise "add"(%0, %1) : tensor<3x4xf32>, tensor<4xf32> -> tensor<3x4xf32>
    """

    name = "lpu_graph.pointwise"
    kind = prop_def(StringAttr)
    inputs = var_operand_def(TensorType)
    output = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$kind `(` $inputs `)` attr-dict `:` type($inputs) `->` type($output)"

    def __init__(self, kind: str, *inputs: SSAValue):
        shape = broadcast_extents(*(extents(i.type) for i in inputs))
        element = i1 if POINTWISE[kind].compares else element_type(inputs[-1].type)
        super().__init__(
            operands=[inputs],
            properties={"kind": StringAttr(kind)},
            result_types=[tensor_type(element, shape)],
        )

    def verify_(self) -> None:
        kind = POINTWISE.get(self.kind.data)
        if kind is None:
            raise VerifyException(
                f"{self.name}: unknown function '{self.kind.data}', expected one of "
                f"{', '.join(sorted(POINTWISE))}"
            )
        self.expect(
            len(self.inputs) == kind.arity,
            f"'{self.kind.data}' takes {kind.arity} operands, got {len(self.inputs)}",
        )
        elements = [element_type(i.type) for i in self.inputs]
        if self.kind.data == "select":
            self.expect(elements[0] == i1, f"the condition must be i1, got {elements[0]}")
            elements = elements[1:]
        self.expect(
            len(set(elements)) == 1,
            f"operands have element types {', '.join(map(str, elements))}, expected one type",
        )
        self.expect(
            _in_domain(elements[0], kind.domain),
            f"'{self.kind.data}' is not defined on {elements[0]}",
        )
        self.expect_element(self.output.type, i1 if kind.compares else elements[0], "result")
        try:
            shape = broadcast_extents(*(extents(i.type) for i in self.inputs))
        except ValueError as error:
            raise VerifyException(f"{self.name}: {error}") from error
        self.expect_shape(self.output.type, shape, "result")


@irdl_op_definition
class ConvertOp(UnaryGraphOp):
    """Converts the element type as PyTorch's `to` does: floats to integers toward zero, to i1 by
    comparing with 0.

    %1 = lpu_graph.convert %0 : tensor<4xi64> -> tensor<4xf32>
    """

    name = "lpu_graph.convert"
    assembly_format = "$input attr-dict `:` type($input) `->` type($output)"

    def __init__(self, input: SSAValue, element: Attribute):
        result = tensor_type(element, extents(input.type))
        super().__init__(operands=[input], result_types=[result])

    def verify_(self) -> None:
        self.expect_shape(self.output.type, extents(self.input.type), "result")


# --- along dimensions ---------------------------------------------------------------------------


@irdl_op_definition
class ReduceOp(UnaryGraphOp):
    """Combines the elements along `dims`, which disappear; max and min propagate NaN.

    The dims ascend.  Narrow floats accumulate in f32.

    %1 = lpu_graph.reduce "add" %0 dims <[1]> : tensor<3x4xf32> -> tensor<3xf32>
    """

    name = "lpu_graph.reduce"
    kind = prop_def(StringAttr)
    dims = prop_def(IntsAttr)
    assembly_format = "$kind $input `dims` $dims attr-dict `:` type($input) `->` type($output)"

    def __init__(self, kind: str, input: SSAValue, dims: Sequence[int]):
        kept = [e for axis, e in enumerate(extents(input.type)) if axis not in dims]
        super().__init__(
            operands=[input],
            properties={"kind": StringAttr(kind), "dims": IntsAttr.of(dims)},
            result_types=[tensor_type(element_type(input.type), kept)],
        )

    def verify_(self) -> None:
        shape, dims = extents(self.input.type), self.dims.data
        self.expect_kind(self.kind.data, REDUCTIONS, element_type(self.input.type))
        self.expect_axes(dims, len(shape), "dims")
        self.expect(list(dims) == sorted(dims), f"dims {list(dims)} must ascend")
        kept = [e for axis, e in enumerate(shape) if axis not in dims]
        self.expect_shape(self.output.type, kept, "result")
        self.expect_same_element()


@irdl_op_definition
class ArgReduceOp(UnaryGraphOp):
    """The first position along `dim` of the largest or smallest element; a NaN wins.

    %1 = lpu_graph.arg_reduce "max" %0 dim 1 : tensor<3x4xf32> -> tensor<3xi64>
    """

    name = "lpu_graph.arg_reduce"
    kind = prop_def(StringAttr)
    dim = prop_def(IntegerAttr[I64])
    assembly_format = "$kind $input `dim` $dim attr-dict `:` type($input) `->` type($output)"

    def __init__(self, kind: str, input: SSAValue, dim: int):
        kept = [e for axis, e in enumerate(extents(input.type)) if axis != dim]
        super().__init__(
            operands=[input],
            properties={"kind": StringAttr(kind), "dim": IntegerAttr(dim, i64)},
            result_types=[tensor_type(i64, kept)],
        )

    def verify_(self) -> None:
        shape, dim = extents(self.input.type), self.dim.value.data
        self.expect(
            self.kind.data in ("max", "min"),
            f"unknown kind '{self.kind.data}', expected max or min",
        )
        self.expect_axes([dim], len(shape), "dim")
        kept = [e for axis, e in enumerate(shape) if axis != dim]
        self.expect_shape(self.output.type, kept, "result")
        self.expect_element(self.output.type, i64, "result")


@irdl_op_definition
class ScanOp(UnaryGraphOp):
    """The inclusive running combination along `dim`.

    %1 = lpu_graph.scan "add" %0 dim 1 : tensor<3x4xf32> -> tensor<3x4xf32>
    """

    name = "lpu_graph.scan"
    kind = prop_def(StringAttr)
    dim = prop_def(IntegerAttr[I64])
    assembly_format = "$kind $input `dim` $dim attr-dict `:` type($input) `->` type($output)"

    def __init__(self, kind: str, input: SSAValue, dim: int):
        super().__init__(
            operands=[input],
            properties={"kind": StringAttr(kind), "dim": IntegerAttr(dim, i64)},
            result_types=[input.type],
        )

    def verify_(self) -> None:
        self.expect_kind(self.kind.data, SCANS, element_type(self.input.type))
        self.expect_axes([self.dim.value.data], len(extents(self.input.type)), "dim")
        self.expect(self.output.type == self.input.type, "result type must be the operand's")


@irdl_op_definition
class MatmulOp(GraphOp):
    """Batched matrix product [..., M, K] x [..., K, N] -> [..., M, N]; equal batch extents.

    A transposed operand is stored as [..., K, M] or [..., N, K].  Narrow floats accumulate in f32.

    %2 = lpu_graph.matmul %0, %1 transpose [false, true]
           : tensor<3x24xf32>, tensor<64x24xf32> -> tensor<3x64xf32>
    """

    name = "lpu_graph.matmul"
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    transpose = prop_def(ArrayAttr[BoolAttr])
    output = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$lhs `,` $rhs `transpose` $transpose attr-dict "
        "`:` type($lhs) `,` type($rhs) `->` type($output)"
    )

    def __init__(
        self, lhs: SSAValue, rhs: SSAValue, transpose_lhs: bool = False, transpose_rhs: bool = False
    ):
        *batch, m, _ = _swapped(extents(lhs.type), transpose_lhs)
        n = _swapped(extents(rhs.type), transpose_rhs)[-1]
        flags = ArrayAttr([BoolAttr.from_bool(transpose_lhs), BoolAttr.from_bool(transpose_rhs)])
        super().__init__(
            operands=[lhs, rhs],
            properties={"transpose": flags},
            result_types=[tensor_type(element_type(lhs.type), [*batch, m, n])],
        )

    @property
    def transposes(self) -> tuple[bool, bool]:
        lhs, rhs = self.transpose.data
        return bool(lhs.value.data), bool(rhs.value.data)

    def verify_(self) -> None:
        lhs, rhs = extents(self.lhs.type), extents(self.rhs.type)
        self.expect(len(self.transpose.data) == 2, "transpose needs two flags")
        self.expect(
            len(lhs) == len(rhs) >= 2, f"operands need one rank of at least 2, got {lhs}, {rhs}"
        )
        *batch, m, k = _swapped(lhs, self.transposes[0])
        *batch_rhs, k_rhs, n = _swapped(rhs, self.transposes[1])
        self.expect(batch == batch_rhs, f"batch extents {batch} and {batch_rhs} differ")
        self.expect(k == k_rhs, f"contracted extents {k} and {k_rhs} differ")
        elements = {element_type(v.type) for v in (self.lhs, self.rhs, self.output)}
        self.expect(len(elements) == 1, f"element types differ: {', '.join(map(str, elements))}")
        self.expect_shape(self.output.type, [*batch, m, n], "result")


def _swapped(shape: Sequence[Expr], transpose: bool) -> list[Expr]:
    return [*shape[:-2], shape[-1], shape[-2]] if transpose else list(shape)


# --- views --------------------------------------------------------------------------------------


@irdl_op_definition
class ReshapeOp(UnaryGraphOp):
    """The same elements in row-major order under other extents.

    %1 = lpu_graph.reshape %0 : tensor<1x3x24xf32> -> tensor<3x24xf32>
    """

    name = "lpu_graph.reshape"
    assembly_format = "$input attr-dict `:` type($input) `->` type($output)"

    def __init__(self, input: SSAValue, shape: Sequence[Extent]):
        result = tensor_type(element_type(input.type), shape)
        super().__init__(operands=[input], result_types=[result])

    def verify_(self) -> None:
        self.expect_same_element()
        counts = [product(extents(v.type)) for v in (self.input, self.output)]
        difference = (counts[0] - counts[1]).constant()
        self.expect(
            difference in (0, None),
            f"the operand has {counts[0]} elements, the result {counts[1]}",
        )


@irdl_op_definition
class TransposeOp(UnaryGraphOp):
    """Axis i of the result is axis permutation[i] of the operand.

    %1 = lpu_graph.transpose %0 <[1, 0]> : tensor<3x4xf32> -> tensor<4x3xf32>
    """

    name = "lpu_graph.transpose"
    permutation = prop_def(IntsAttr)
    assembly_format = "$input $permutation attr-dict `:` type($input) `->` type($output)"

    def __init__(self, input: SSAValue, permutation: Sequence[int]):
        shape = extents(input.type)
        super().__init__(
            operands=[input],
            properties={"permutation": IntsAttr.of(permutation)},
            result_types=[tensor_type(element_type(input.type), [shape[p] for p in permutation])],
        )

    def verify_(self) -> None:
        shape, order = extents(self.input.type), self.permutation.data
        self.expect(sorted(order) == list(range(len(shape))), f"{order} is no permutation")
        self.expect_shape(self.output.type, [shape[p] for p in order], "result")
        self.expect_same_element()


@irdl_op_definition
class BroadcastOp(UnaryGraphOp):
    """NumPy broadcasting to the result's extents (aligned at the last axis).

    %1 = lpu_graph.broadcast %0 : tensor<1x4xf32> -> tensor<2x3x4xf32>
    """

    name = "lpu_graph.broadcast"
    assembly_format = "$input attr-dict `:` type($input) `->` type($output)"

    def __init__(self, input: SSAValue, shape: Sequence[Extent]):
        result = tensor_type(element_type(input.type), shape)
        super().__init__(operands=[input], result_types=[result])

    def verify_(self) -> None:
        shape, result = extents(self.input.type), extents(self.output.type)
        tail = result[len(result) - len(shape) :] if len(shape) <= len(result) else None
        self.expect(
            tail is not None and all(e == r or e == 1 for e, r in zip(shape, tail, strict=True)),
            f"{self.input.type} does not broadcast to {self.output.type}",
        )
        self.expect_same_element()


@irdl_op_definition
class SliceOp(UnaryGraphOp):
    """Element i along an axis is element start + step * i of the operand; steps may be negative.

    %1 = lpu_graph.slice %0 starts <[0, 4]> steps <[1, 1]> : tensor<3x8xf32> -> tensor<3x4xf32>
    """

    name = "lpu_graph.slice"
    starts = prop_def(ShapeAttr)
    steps = prop_def(IntsAttr)
    assembly_format = (
        "$input `starts` $starts `steps` $steps attr-dict `:` type($input) `->` type($output)"
    )

    def __init__(
        self,
        input: SSAValue,
        starts: Sequence[Extent],
        shape: Sequence[Extent],
        steps: Sequence[int] | None = None,
    ):
        steps = [1] * len(starts) if steps is None else steps
        super().__init__(
            operands=[input],
            properties={"starts": ShapeAttr.of(starts), "steps": IntsAttr.of(steps)},
            result_types=[tensor_type(element_type(input.type), shape)],
        )

    def verify_(self) -> None:
        shape, result = extents(self.input.type), extents(self.output.type)
        starts, steps = self.starts.data, self.steps.data
        ranks = {len(starts), len(steps), len(result), len(shape)}
        self.expect(
            len(ranks) == 1, f"starts, steps and result need the operand's rank {len(shape)}"
        )
        self.expect(0 not in steps, "a step of 0")
        self.expect_same_element()
        for axis, (extent, start, step, count) in enumerate(
            zip(shape, starts, steps, result, strict=True)
        ):
            if count == 0:
                continue
            for position in (start, start + step * (count - 1)):
                inside = not is_negative(position) and not is_negative(extent - 1 - position)
                self.expect(
                    inside,
                    f"axis {axis} reads element {position} of an operand of extent {extent}",
                )


@irdl_op_definition
class PadOp(UnaryGraphOp):
    """`value` around the operand: `low` elements before it along each axis, the rest after.

    %1 = lpu_graph.pad %0 low <[0, 1]> value 0.0 : f32 : tensor<3x4xf32> -> tensor<3x6xf32>
    """

    name = "lpu_graph.pad"
    low = prop_def(ShapeAttr)
    value = prop_def(IntegerAttr | FloatAttr)
    assembly_format = (
        "$input `low` $low `value` $value attr-dict `:` type($input) `->` type($output)"
    )

    def __init__(
        self,
        input: SSAValue,
        low: Sequence[Extent],
        shape: Sequence[Extent],
        value: IntegerAttr | FloatAttr,
    ):
        super().__init__(
            operands=[input],
            properties={"low": ShapeAttr.of(low), "value": value},
            result_types=[tensor_type(element_type(input.type), shape)],
        )

    def verify_(self) -> None:
        shape, result, low = extents(self.input.type), extents(self.output.type), self.low.data
        same = len(low) == len(result) == len(shape)
        self.expect(same, f"low and result need the operand's rank {len(shape)}")
        self.expect_same_element()
        self.expect_value(self.value, element_type(self.output.type))
        for axis, before in enumerate(low):
            self.expect(not is_negative(before), f"axis {axis} has {before} elements before it")


@irdl_op_definition
class ConcatOp(GraphOp):
    """The operands one after another along `dim`.

    %2 = lpu_graph.concat %0, %1 dim 1 : tensor<3x4xf32>, tensor<3x2xf32> -> tensor<3x6xf32>
    """

    name = "lpu_graph.concat"
    inputs = var_operand_def(TensorType)
    dim = prop_def(IntegerAttr[I64])
    output = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$inputs `dim` $dim attr-dict `:` type($inputs) `->` type($output)"

    def __init__(self, inputs: Sequence[SSAValue], dim: int):
        shape = list(extents(inputs[0].type))
        shape[dim] = sum((extents(i.type)[dim] for i in inputs), Expr.const(0))
        super().__init__(
            operands=[inputs],
            properties={"dim": IntegerAttr(dim, i64)},
            result_types=[tensor_type(element_type(inputs[0].type), shape)],
        )

    def verify_(self) -> None:
        self.expect(len(self.inputs) > 0, "needs an operand")
        shape, dim = list(extents(self.output.type)), self.dim.value.data
        self.expect_axes([dim], len(shape), "dim")
        shape[dim] = sum((extents(i.type)[dim] for i in self.inputs), Expr.const(0))
        self.expect_shape(self.output.type, shape, "result")
        for operand in self.inputs:
            expected = [*shape[:dim], extents(operand.type)[dim], *shape[dim + 1 :]]
            self.expect_shape(operand.type, expected, "operand")
            self.expect_element(operand.type, element_type(self.output.type), "operand")


# --- by index -----------------------------------------------------------------------------------


class IndexedOp(GraphOp):
    """Shared by gather and scatter: index tensors of one shape address the axes `dims`.

    The addressed window has the axes of the indexed tensor that are not in `dims`, with the axes of
    the index tensors inserted at position `at`.  An index out of [0, extent) is an IndexError.
    """

    indices = var_operand_def(TensorType)
    dims = prop_def(IntsAttr)
    at = prop_def(IntegerAttr[I64])

    def window(self, indexed: Attribute) -> list[Expr]:
        """Extents of what the indices address in a tensor of type `indexed`."""
        dims = self.dims.data
        kept = [e for axis, e in enumerate(extents(indexed)) if axis not in dims]
        at = self.at.value.data
        return [*kept[:at], *extents(self.indices[0].type), *kept[at:]]

    def verify_indices(self, indexed: Attribute) -> None:
        rank, dims = len(extents(indexed)), self.dims.data
        self.expect(len(dims) == len(self.indices) > 0, "needs one index tensor for each dim")
        self.expect_axes(dims, rank, "dims")
        for index in self.indices:
            self.expect(element_type(index.type) == i64, f"indices must be i64, got {index.type}")
            self.expect_shape(index.type, extents(self.indices[0].type), "index")
        self.expect(
            0 <= self.at.value.data <= rank - len(dims), f"at {self.at.value.data} is out of range"
        )


@irdl_op_definition
class GatherOp(IndexedOp):
    """Reads the elements that the index tensors address.

    %2 = lpu_graph.gather %table[%ids] dims <[0]> at 0
           : tensor<96x24xf32>[tensor<1x3xi64>] -> tensor<1x3x24xf32>
    """

    name = "lpu_graph.gather"
    input = operand_def(TensorType)
    output = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$input `[` $indices `]` `dims` $dims `at` $at attr-dict "
        "`:` type($input) `[` type($indices) `]` `->` type($output)"
    )

    def __init__(self, input: SSAValue, indices: Sequence[SSAValue], dims: Sequence[int], at: int):
        kept = [e for axis, e in enumerate(extents(input.type)) if axis not in dims]
        shape = [*kept[:at], *extents(indices[0].type), *kept[at:]]
        super().__init__(
            operands=[input, indices],
            properties={"dims": IntsAttr.of(dims), "at": IntegerAttr(at, i64)},
            result_types=[tensor_type(element_type(input.type), shape)],
        )

    def verify_(self) -> None:
        self.verify_indices(self.input.type)
        self.expect_shape(self.output.type, self.window(self.input.type), "result")
        self.expect_element(self.output.type, element_type(self.input.type), "result")


@irdl_op_definition
class ScatterOp(IndexedOp):
    """`input` with `updates` written (or added) where the index tensors point.

    %3 = lpu_graph.scatter "replace" %updates, %cache[%ids] dims <[2]> at 2
           : tensor<1x3x1x8xf32>, tensor<1x3x32x8xf32>[tensor<1xi64>] -> tensor<1x3x32x8xf32>
    """

    name = "lpu_graph.scatter"
    kind = prop_def(StringAttr)
    updates = operand_def(TensorType)
    input = operand_def(TensorType)
    output = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$kind $updates `,` $input `[` $indices `]` `dims` $dims `at` $at attr-dict "
        "`:` type($updates) `,` type($input) `[` type($indices) `]` `->` type($output)"
    )

    def __init__(
        self,
        kind: str,
        input: SSAValue,
        updates: SSAValue,
        indices: Sequence[SSAValue],
        dims: Sequence[int],
        at: int,
    ):
        super().__init__(
            operands=[updates, input, indices],
            properties={
                "kind": StringAttr(kind),
                "dims": IntsAttr.of(dims),
                "at": IntegerAttr(at, i64),
            },
            result_types=[input.type],
        )

    def verify_(self) -> None:
        self.expect_kind(self.kind.data, SCATTERS, element_type(self.input.type))
        self.verify_indices(self.input.type)
        self.expect_shape(self.updates.type, self.window(self.input.type), "updates")
        self.expect_element(self.updates.type, element_type(self.input.type), "updates")
        self.expect(self.output.type == self.input.type, "result type must be the input's")


# --- effects ------------------------------------------------------------------------------------


@irdl_op_definition
class WriteBackOp(GraphOp):
    """When the function has returned, the buffer of argument `target` holds `value`.

    lpu_graph.write_back %new, %cache : tensor<1x3x32x8xf32>, tensor<1x3x32x8xf32>
    """

    name = "lpu_graph.write_back"
    value = operand_def(TensorType)
    target = operand_def(TensorType)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$value `,` $target attr-dict `:` type($value) `,` type($target)"

    def __init__(self, value: SSAValue, target: SSAValue):
        super().__init__(operands=[value, target])

    def verify_(self) -> None:
        self.expect(
            self.value.type == self.target.type,
            f"value {self.value.type} and target {self.target.type} differ",
        )
        self.expect(
            isinstance(self.target.owner, Block), "the target must be an argument of the function"
        )
        uses = [use for use in self.target.uses if isinstance(use.operation, WriteBackOp)]
        self.expect(
            sum(use.index == 1 for use in uses) == 1, "the target is written back more than once"
        )


LpuGraph = Dialect(
    "lpu_graph",
    [
        FullOp,
        ExtentOp,
        IotaOp,
        PointwiseOp,
        ConvertOp,
        ReduceOp,
        ArgReduceOp,
        ScanOp,
        MatmulOp,
        ReshapeOp,
        TransposeOp,
        BroadcastOp,
        SliceOp,
        PadOp,
        ConcatOp,
        GatherOp,
        ScatterOp,
        WriteBackOp,
    ],
)
