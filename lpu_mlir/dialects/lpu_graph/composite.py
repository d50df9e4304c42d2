"""Composites: computations of several steps that have a name, and hardware that knows them.

Passes raise them from their decomposed form. Each is computed as its parts would be, in the element
type, which is f32 or f64 where there is a sum of exponentials or squares: conversions around it
stay operations of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import I64, FloatAttr, IntegerAttr, TensorType, UnitAttr, f32, f64
from xdsl.dialects.utils import AbstractYieldOperation
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsTerminator, Pure

from lpu_mlir.dialects.lpu import element_type, extents, i64, tensor_type
from lpu_mlir.dialects.lpu_graph.base import GraphOp, UnaryGraphOp
from lpu_mlir.dialects.lpu_graph.compute import ConvertOp, FullOp, PointwiseOp
from lpu_mlir.dialects.lpu_graph.kinds import in_domain

WIDE = (f32, f64)
"""Element types that sums of exponentials and squares are computed in."""


class RowOp(UnaryGraphOp):
    """Shared by softmax and log_softmax: the result depends on a whole row along `dim`."""

    dim = prop_def(IntegerAttr[I64])

    def __init__(self, input: SSAValue, dim: int):
        super().__init__(
            operands=[input],
            properties={"dim": IntegerAttr(dim, i64)},
            result_types=[input.type],
        )

    def verify_(self) -> None:
        self.expect_axes([self.dim.value.data], len(extents(self.input.type)), "dim")
        self.expect(self.output.type == self.input.type, "result type must be the operand's")
        element = element_type(self.input.type)
        self.expect(element in WIDE, f"is computed in f32 or f64, got {element}")


@irdl_op_definition
class SoftmaxOp(RowOp):
    """exp(x - max) / sum(exp(x - max)) along `dim`; a row of -inf gives NaN.

    %1 = lpu_graph.softmax %0 dim 1 : tensor<3x4xf32> -> tensor<3x4xf32>
    """

    name = "lpu_graph.softmax"
    assembly_format = "$input `dim` $dim attr-dict `:` type($input) `->` type($output)"


@irdl_op_definition
class LogSoftmaxOp(RowOp):
    """x - max - log(sum(exp(x - max))) along `dim`; a row of -inf gives NaN.

    %1 = lpu_graph.log_softmax %0 dim 1 : tensor<3x4xf32> -> tensor<3x4xf32>
    """

    name = "lpu_graph.log_softmax"
    assembly_format = "$input `dim` $dim attr-dict `:` type($input) `->` type($output)"


class NormOp(GraphOp):
    """Shared by the norms: over the last `rank` axes, which are those of the weight."""

    rank = prop_def(IntegerAttr[I64])
    eps = prop_def(FloatAttr)
    output = result_def(TensorType)
    traits = traits_def(Pure())

    def verify_norm(self, input: SSAValue, *affine: SSAValue | None) -> None:
        shape, rank = extents(input.type), self.rank.value.data
        self.expect(0 < rank <= len(shape), f"normalises {rank} of {len(shape)} axes")
        self.expect(self.output.type == input.type, "result type must be the operand's")
        element = element_type(input.type)
        self.expect(element in WIDE, f"is computed in f32 or f64, got {element}")
        self.expect(self.eps.type == element, f"eps is {self.eps.type}, expected {element}")
        for value in affine:
            if value is not None:
                self.expect_shape(value.type, shape[len(shape) - rank :], "weight or bias")
                self.expect_element(value.type, element, "weight or bias")


@irdl_op_definition
class RmsNormOp(NormOp):
    """x * rsqrt(mean(x * x) + eps) over the last `rank` axes, times a weight if there is one.

    %1 = lpu_graph.rms_norm %0 weight %w rank 1 eps 1.0e-6 : f32
           : tensor<3x8xf32>, tensor<8xf32> -> tensor<3x8xf32>
    """

    name = "lpu_graph.rms_norm"
    input = operand_def(TensorType)
    weight = opt_operand_def(TensorType)
    assembly_format = (
        "$input (`weight` $weight^)? `rank` $rank `eps` $eps attr-dict "
        "`:` type($input) (`,` type($weight)^)? `->` type($output)"
    )

    def __init__(self, input: SSAValue, weight: SSAValue | None, rank: int, eps: float):
        super().__init__(
            operands=[input, weight],
            properties=_norm_properties(input, rank, eps),
            result_types=[input.type],
        )

    def verify_(self) -> None:
        self.verify_norm(self.input, self.weight)


@irdl_op_definition
class LayerNormOp(NormOp):
    """(x - mean) * rsqrt(mean((x - mean)^2) + eps) over the last `rank` axes, times a weight, plus
    a bias, where there are.

    %1 = lpu_graph.layer_norm %0 weight %w bias %b rank 1 eps 1.0e-5 : f32
           : tensor<3x8xf32> weight tensor<8xf32> bias tensor<8xf32> -> tensor<3x8xf32>
    """

    name = "lpu_graph.layer_norm"
    input = operand_def(TensorType)
    weight = opt_operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$input (`weight` $weight^)? (`bias` $bias^)? `rank` $rank `eps` $eps attr-dict "
        "`:` type($input) (`weight` type($weight)^)? (`bias` type($bias)^)? "
        "`->` type($output)"
    )

    def __init__(
        self,
        input: SSAValue,
        weight: SSAValue | None,
        bias: SSAValue | None,
        rank: int,
        eps: float,
    ):
        super().__init__(
            operands=[input, weight, bias],
            properties=_norm_properties(input, rank, eps),
            result_types=[input.type],
        )

    def verify_(self) -> None:
        self.verify_norm(self.input, self.weight, self.bias)


def _norm_properties(input: SSAValue, rank: int, eps: float) -> dict[str, Attribute]:
    element = element_type(input.type)
    assert element in (f32, f64)
    number = FloatAttr(eps, f32) if element == f32 else FloatAttr(eps, f64)
    return {"rank": IntegerAttr(rank, i64), "eps": number}


@irdl_op_definition
class RopeOp(GraphOp):
    """x * cos + rotated(x) * sin, where `rotated` is the negated second half of the last axis and
    then the first. Every product and the sum are rounded to the element type.

    %1 = lpu_graph.rope %0 cos %c sin %s
           : tensor<4x7x12xf32>, tensor<7x12xf32>, tensor<7x12xf32> -> tensor<4x7x12xf32>
    """

    name = "lpu_graph.rope"
    input = operand_def(TensorType)
    cos = operand_def(TensorType)
    sin = operand_def(TensorType)
    output = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$input `cos` $cos `sin` $sin attr-dict "
        "`:` type($input) `,` type($cos) `,` type($sin) `->` type($output)"
    )

    def __init__(self, input: SSAValue, cos: SSAValue, sin: SSAValue):
        super().__init__(operands=[input, cos, sin], result_types=[input.type])

    def verify_(self) -> None:
        shape, element = extents(self.input.type), element_type(self.input.type)
        self.expect(in_domain(element, "float"), f"is not defined on {element}")
        last = shape[-1].constant() if shape else None
        self.expect(last is not None and last % 2 == 0, "the last extent must be known and even")
        for factor in (self.cos, self.sin):
            self.expect_element(factor.type, element, "factor")
            self.expect_broadcast(factor, shape, "factor")
        self.expect(self.output.type == self.input.type, "result type must be the operand's")


@irdl_op_definition
class YieldOp(AbstractYieldOperation[Attribute]):
    """Ends the region of an attention: the score that it computed, a 0-d tensor.

    lpu_graph.yield %0 : tensor<f32>
    """

    name = "lpu_graph.yield"
    traits = traits_def(IsTerminator(), Pure())


@irdl_op_definition
class AttentionOp(GraphOp):
    """softmax(score(query x key^T)) x value, for [..., L, E], [..., S, E] and [..., S, D].

    The region makes a score of one element of the product (in the operands' element type,
    accumulated as by `matmul`) and the elements of `others` at that place, which broadcast against
    [..., L, S]: scales, masks, biases, soft caps. The softmax is along S, in the region's type;
    with `safe`, a row of which every score is -inf has weights of 0 instead of NaN. The weights are
    converted to the element type of `value` before they are multiplied.

    %0 = lpu_graph.attention safe %q, %k, %v with %mask
        : tensor<4x7x12xf32>, tensor<4x9x12xf32>, tensor<4x9x16xf32>, (tensor<7x9xf32>)
        -> tensor<4x7x16xf32> {
    ^bb0(%s: tensor<f32>, %m: tensor<f32>):
      %1 = lpu_graph.full 0.25 : f32 : tensor<f32>
      %2 = lpu_graph.pointwise "mul"(%s, %1) : tensor<f32>, tensor<f32> -> tensor<f32>
      %3 = lpu_graph.pointwise "add"(%2, %m) : tensor<f32>, tensor<f32> -> tensor<f32>
      lpu_graph.yield %3 : tensor<f32>
    }
    """

    name = "lpu_graph.attention"
    query = operand_def(TensorType)
    key = operand_def(TensorType)
    value = operand_def(TensorType)
    others = var_operand_def(TensorType)
    safe = opt_prop_def(UnitAttr)
    score = region_def("single_block")
    output = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "(`safe` $safe^)? $query `,` $key `,` $value (`with` $others^)? "
        "`:` type($query) `,` type($key) `,` type($value) `,` `(` type($others) `)` "
        "`->` type($output) $score attr-dict"
    )

    def __init__(
        self,
        query: SSAValue,
        key: SSAValue,
        value: SSAValue,
        others: Sequence[SSAValue],
        score: Block,
        *,
        safe: bool = False,
    ):
        shape = [*extents(query.type)[:-1], extents(value.type)[-1]]
        super().__init__(
            operands=[query, key, value, others],
            properties={"safe": UnitAttr() if safe else None},
            regions=[Region(score)],
            result_types=[tensor_type(element_type(value.type), shape)],
        )

    def verify_(self) -> None:
        q, k, v = (extents(t.type) for t in (self.query, self.key, self.value))
        self.expect(len(q) == len(k) == len(v) >= 2, "operands need one rank of at least 2")
        self.expect_shape(self.key.type, [*q[:-2], k[-2], q[-1]], "key")
        self.expect_shape(self.value.type, [*q[:-2], k[-2], v[-1]], "value")
        self.expect_shape(self.output.type, [*q[:-1], v[-1]], "result")
        self.expect_element(self.key.type, element_type(self.query.type), "key")
        self.expect_element(self.output.type, element_type(self.value.type), "result")
        for other in self.others:
            self.expect_broadcast(other, [*q[:-1], k[-2]], "operand of the score")
        self.verify_score()

    def verify_score(self) -> None:
        elements = [element_type(v.type) for v in (self.query, *self.others)]
        expected = [tensor_type(element, ()) for element in elements]
        block = self.score.block
        got = list(block.arg_types)
        self.expect(got == expected, f"region arguments are {_types(got)}, not {_types(expected)}")
        *inner, last = block.ops
        for op in inner:
            known = isinstance(op, FullOp | PointwiseOp | ConvertOp)
            self.expect(known, f"{op.name} in the region, expected full, pointwise or convert")
        assert isinstance(last, YieldOp), "the region ends in a yield"
        wide = [tensor_type(element, ()) for element in WIDE]
        yields = list(last.arguments.types)
        self.expect(
            len(yields) == 1 and yields[0] in wide,
            f"the region yields {_types(yields)}, expected an f32 or f64",
        )

    @property
    def scored(self) -> SSAValue:
        """The score that the region yields."""
        last = self.score.block.last_op
        assert isinstance(last, YieldOp)
        return last.arguments[0]


def _types(types: Sequence[Attribute]) -> str:
    return f"({', '.join(map(str, types))})"


COMPOSITES: Sequence[type[Operation]] = (
    SoftmaxOp,
    LogSoftmaxOp,
    RmsNormOp,
    LayerNormOp,
    RopeOp,
    AttentionOp,
    YieldOp,
)
"""The operations of this file."""
