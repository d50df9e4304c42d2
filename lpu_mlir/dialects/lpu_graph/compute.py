"""Operations that compute: creation, element by element, along dimensions, products."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    BoolAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    bf16,
    f16,
    f32,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu import (
    ExprAttr,
    Extent,
    IntsAttr,
    element_type,
    extents,
    i1,
    i64,
    tensor_type,
)
from lpu_mlir.dialects.lpu_graph.base import GraphOp, UnaryGraphOp, broadcast_extents
from lpu_mlir.dialects.lpu_graph.kinds import POINTWISE, REDUCTIONS, SCANS, in_domain


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
            in_domain(elements[0], kind.domain),
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


@irdl_op_definition
class ConvOp(GraphOp):
    """Convolution of [N, G * C, ...] with [O, C, ...] into [N, O, ...], without padding.

    Result [n, o, p] is the sum over c and q of weight [o, c, q] times
    input [n, g * C + c, p * stride + q * dilation], where g is the group of o: `groups` runs of
    O / groups.  The result's extents say how many positions there are, no more than fit.  Narrow
    floats accumulate in f32; the result may be that, not rounded.

    %2 = lpu_graph.conv %0, %1 strides <[1, 1]> dilations <[1, 1]> groups 1
           : tensor<1x8x9x9xf32>, tensor<16x8x3x3xf32> -> tensor<1x16x7x7xf32>
    """

    name = "lpu_graph.conv"
    input = operand_def(TensorType)
    weight = operand_def(TensorType)
    strides = prop_def(IntsAttr)
    dilations = prop_def(IntsAttr)
    groups = prop_def(IntegerAttr[I64])
    output = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$input `,` $weight `strides` $strides `dilations` $dilations `groups` $groups attr-dict "
        "`:` type($input) `,` type($weight) `->` type($output)"
    )

    def __init__(
        self,
        input: SSAValue,
        weight: SSAValue,
        counts: Sequence[Extent],
        strides: Sequence[int],
        dilations: Sequence[int],
        groups: int = 1,
        element: Attribute | None = None,
    ):
        """`element` is the result's, the operands' by default."""
        element = element_type(input.type) if element is None else element
        batch, channels = extents(input.type)[0], extents(weight.type)[0]
        super().__init__(
            operands=[input, weight],
            properties={
                "strides": IntsAttr.of(strides),
                "dilations": IntsAttr.of(dilations),
                "groups": IntegerAttr(groups, i64),
            },
            result_types=[tensor_type(element, [batch, channels, *counts])],
        )

    def verify_(self) -> None:
        x, w, y = (extents(v.type) for v in (self.input, self.weight, self.output))
        groups = self.groups.value.data
        self.expect(
            len(x) == len(w) == len(y) >= 3, f"operands and result need one rank, got {x}, {w}, {y}"
        )
        self.expect(groups > 0, f"{groups} groups")
        self.expect(
            x[1] == w[1] * groups, f"the input has {x[1]} channels, expected {w[1] * groups}"
        )
        self.expect(
            not w[0].divmod(Expr.const(groups))[1].terms,
            f"{w[0]} output channels cannot be divided into {groups} groups",
        )
        self.expect(y[:2] == (x[0], w[0]), f"result has batch and channels {y[:2]}")
        element = element_type(self.input.type)
        self.expect_element(self.weight.type, element, "weight")
        if element not in (f16, bf16) or element_type(self.output.type) != f32:
            self.expect_element(self.output.type, element, "result")
        self.expect_windows(x[2:], y[2:], w[2:], self.strides.data, self.dilations.data)


def _swapped(shape: Sequence[Expr], transpose: bool) -> list[Expr]:
    return [*shape[:-2], shape[-1], shape[-2]] if transpose else list(shape)
