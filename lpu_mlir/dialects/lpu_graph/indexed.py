"""Operations that address tensors by index, and the write to an argument."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    I64,
    IntegerAttr,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryWriteEffect, Pure

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu import (
    IntsAttr,
    element_type,
    extents,
    i64,
    tensor_type,
)
from lpu_mlir.dialects.lpu_graph.base import GraphOp
from lpu_mlir.dialects.lpu_graph.kinds import SCATTERS


class IndexedOp(GraphOp):
    """Shared by gather and scatter: index tensors of one shape address the axes `dims`.

    The addressed window has the axes of the indexed tensor that are not in `dims`, with the axes of
    the index tensors inserted at position `at`.  An index out of [0, extent) is an
    `error`: IndexError, if there is none.
    """

    indices = var_operand_def(TensorType)
    dims = prop_def(IntsAttr)
    at = prop_def(IntegerAttr[I64])
    error = opt_prop_def(StringAttr)

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
        "$input `[` $indices `]` `dims` $dims `at` $at (`error` $error^)? attr-dict "
        "`:` type($input) `[` type($indices) `]` `->` type($output)"
    )

    def __init__(
        self,
        input: SSAValue,
        indices: Sequence[SSAValue],
        dims: Sequence[int],
        at: int,
        error: str | None = None,
    ):
        kept = [e for axis, e in enumerate(extents(input.type)) if axis not in dims]
        shape = [*kept[:at], *extents(indices[0].type), *kept[at:]]
        super().__init__(
            operands=[input, indices],
            properties={
                "dims": IntsAttr.of(dims),
                "at": IntegerAttr(at, i64),
                "error": None if error is None else StringAttr(error),
            },
            result_types=[tensor_type(element_type(input.type), shape)],
        )

    def verify_(self) -> None:
        self.verify_indices(self.input.type)
        self.expect_shape(self.output.type, self.window(self.input.type), "result")
        self.expect_element(self.output.type, element_type(self.input.type), "result")


@irdl_op_definition
class ScatterOp(IndexedOp):
    """`input` with `updates` written where the index tensors point, or combined with what is
    there ("add", "mul", "max", "min"): one element after the other, each with its own rounding.

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
        "$kind $updates `,` $input `[` $indices `]` `dims` $dims `at` $at (`error` $error^)? "
        "attr-dict "
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
        error: str | None = None,
    ):
        super().__init__(
            operands=[updates, input, indices],
            properties={
                "kind": StringAttr(kind),
                "dims": IntsAttr.of(dims),
                "at": IntegerAttr(at, i64),
                "error": None if error is None else StringAttr(error),
            },
            result_types=[input.type],
        )

    def verify_(self) -> None:
        self.expect_kind(self.kind.data, SCATTERS, element_type(self.input.type))
        self.verify_indices(self.input.type)
        self.expect_shape(self.updates.type, self.window(self.input.type), "updates")
        self.expect_element(self.updates.type, element_type(self.input.type), "updates")
        self.expect(self.output.type == self.input.type, "result type must be the input's")


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
