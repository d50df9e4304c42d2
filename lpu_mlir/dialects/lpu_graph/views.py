"""Operations that rearrange: views, pad and concat."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    I64,
    FloatAttr,
    IntegerAttr,
    TensorType,
)
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from lpu_mlir.dialects.expr import Expr, product
from lpu_mlir.dialects.lpu import (
    Extent,
    IntsAttr,
    ShapeAttr,
    element_type,
    extents,
    i64,
    tensor_type,
)
from lpu_mlir.dialects.lpu_graph.base import GraphOp, UnaryGraphOp, is_negative


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
class WindowsOp(UnaryGraphOp):
    """Windows along the last axes, which may overlap: n positions along each, then the n places in
    a window.  Axis [..., p, q] of n = 1 is element p * stride + q * dilation; the result's extents
    say how many there are.

    %1 = lpu_graph.windows %0 strides <[2]> dilations <[1]> : tensor<3x9xf32> -> tensor<3x4x3xf32>
    """

    name = "lpu_graph.windows"
    strides = prop_def(IntsAttr)
    dilations = prop_def(IntsAttr)
    assembly_format = (
        "$input `strides` $strides `dilations` $dilations attr-dict "
        "`:` type($input) `->` type($output)"
    )

    def __init__(
        self,
        input: SSAValue,
        counts: Sequence[Extent],
        sizes: Sequence[Extent],
        strides: Sequence[int],
        dilations: Sequence[int],
    ):
        outer = extents(input.type)[: -len(strides)]
        super().__init__(
            operands=[input],
            properties={"strides": IntsAttr.of(strides), "dilations": IntsAttr.of(dilations)},
            result_types=[tensor_type(element_type(input.type), [*outer, *counts, *sizes])],
        )

    def verify_(self) -> None:
        shape, result = extents(self.input.type), extents(self.output.type)
        n = len(self.strides.data)
        self.expect_same_element()
        self.expect(0 < n <= len(shape), f"{n} strides for an operand of rank {len(shape)}")
        self.expect(
            len(result) == len(shape) + n,
            f"result has rank {len(result)}, expected {len(shape) + n}",
        )
        outer = len(shape) - n
        self.expect(result[:outer] == shape[:outer], "the first axes must be the operand's")
        self.expect_windows(
            shape[outer:], result[outer:-n], result[-n:], self.strides.data, self.dilations.data
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
