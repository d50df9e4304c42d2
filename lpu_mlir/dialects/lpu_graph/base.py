"""What the operations on tensors share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import (
    FloatAttr,
    IntegerAttr,
    TensorType,
)
from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.pattern_rewriter import RewritePattern
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu import (
    element_type,
    extents,
)
from lpu_mlir.dialects.lpu_graph.kinds import Domain, in_domain


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

    def expect_broadcast(self, value: SSAValue, shape: Sequence[Expr], what: str) -> None:
        """A value may broadcast against `shape` without widening it."""
        try:
            fits = broadcast_extents(extents(value.type), tuple(shape)) == tuple(shape)
        except ValueError:
            fits = False
        listed = ", ".join(map(str, shape))
        self.expect(fits, f"{what} is {value.type}, which does not broadcast to [{listed}]")

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
        self.expect(in_domain(element, domain), f"'{kind}' is not defined on {element}")

    def expect_value(self, value: IntegerAttr | FloatAttr, element: Attribute) -> None:
        self.expect(value.type == element, f"value is of type {value.type}, expected {element}")

    def expect_axes(self, axes: Sequence[int], rank: int, what: str) -> None:
        self.expect(
            all(0 <= axis < rank for axis in axes) and len(set(axes)) == len(axes),
            f"{what} {list(axes)} must be distinct and in [0, {rank})",
        )

    def expect_windows(
        self,
        shape: Sequence[Expr],
        counts: Sequence[Expr],
        sizes: Sequence[Expr],
        strides: Sequence[int],
        dilations: Sequence[int],
    ) -> None:
        """Along each axis, `counts` windows of `sizes` elements must lie within `shape`."""
        self.expect(
            len(strides) == len(dilations) == len(shape),
            f"{len(strides)} strides and {len(dilations)} dilations for {len(shape)} axes",
        )
        self.expect(min((*strides, *dilations)) > 0, "strides and dilations must be positive")
        for axis, (extent, count, size, stride, dilation) in enumerate(
            zip(shape, counts, sizes, strides, dilations, strict=True)
        ):
            if count == 0 or size == 0:
                continue
            last = (count - 1) * stride + (size - 1) * dilation
            self.expect(
                not is_negative(extent - 1 - last),
                f"windows along axis {axis} reach element {last} of an extent of {extent}",
            )


class UnaryGraphOp(GraphOp):
    """One tensor in, one out."""

    input = operand_def(TensorType)
    output = result_def(TensorType)
    traits = traits_def(Pure())

    def expect_same_element(self) -> None:
        self.expect_element(self.output.type, element_type(self.input.type), "result")
