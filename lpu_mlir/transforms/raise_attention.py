"""Raises attention from a product, what is made of its elements, a softmax and another product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from lpu_mlir.dialects.expr import Expr, Range, nonnegative
from lpu_mlir.dialects.lpu import element_type, extents, symbol_ranges, tensor_type
from lpu_mlir.dialects.lpu_graph import (
    AttentionOp,
    ConvertOp,
    FullOp,
    MatmulOp,
    PointwiseOp,
    ReshapeOp,
    SoftmaxOp,
    TransposeOp,
    YieldOp,
)
from lpu_mlir.graphs.matching import (
    Match,
    Number,
    Row,
    Var,
    anchors,
    has_readers_outside,
    point,
    replace_root,
)

_SCORE = Var("score")
_NOTHING = point("not", Row("or", point("not", point("eq", _SCORE, Number(wanted=-inf)))))
SAFE = point("select", _NOTHING, Number(wanted=0), Var("weights"))
"""How PyTorch writes weights of which a row without any score is 0."""


def keeps_rows(op: ReshapeOp) -> bool:
    """Whether a reshape changes leading axes only: the last two are the same."""
    source, result = extents(op.input.type), extents(op.output.type)
    return len(source) >= 2 and len(result) >= 2 and source[-2:] == result[-2:]


@dataclass
class Raising:
    """One attention as far as it has been found, from the product with the values upwards."""

    block: Block
    """The region of the score that is being made; its first argument is the product's element."""
    inside: set[Operation] = field(default_factory=set[Operation])
    others: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """What the score takes from outside -> the region's argument."""
    made: dict[SSAValue, SSAValue | None] = field(default_factory=dict[SSAValue, SSAValue | None])
    """What the score is computed from -> the same in the region; None: nothing of the product."""
    product: MatmulOp | None = None

    # --- the weights ---
    def before_reshapes(self, value: SSAValue) -> SSAValue:
        while isinstance(op := value.owner, ReshapeOp) and keeps_rows(op):
            self.inside.add(op)
            value = op.input
        return value

    def softmax(self, weights: SSAValue) -> tuple[SoftmaxOp, bool] | None:
        """The softmax along the last axis that weights come from, and whether it is safe."""
        value = self.before_reshapes(weights)
        if isinstance(op := value.owner, ConvertOp):
            self.inside.add(op)
            value = self.before_reshapes(op.input)
        scores = None
        for found in SAFE.matches(value, Match({}, {}, None, frozenset())):
            self.inside |= found.inside
            value, scores = found.values["weights"], found.values["score"]
            if found.axes != (len(extents(scores.type)) - 1,):
                return None
        op = value.owner
        if not isinstance(op, SoftmaxOp) or scores not in (None, op.input):
            return None
        self.inside.add(op)
        along_last = op.dim.value.data == len(extents(op.output.type)) - 1
        return (op, scores is not None) if along_last else None

    # --- the score ---
    def score(self, value: SSAValue, shape: Sequence[Expr]) -> SSAValue | None:
        """The value as the region computes it; None if it does not rest on the product."""
        if value not in self.made:
            self.made[value] = self.make(value, shape)
        return self.made[value]

    def make(self, value: SSAValue, shape: Sequence[Expr]) -> SSAValue | None:
        op = value.owner
        if extents(value.type) != tuple(shape):
            return None
        if self.is_product(value):
            return self.block.args[0]
        if not isinstance(op, PointwiseOp | ConvertOp):
            return None
        operands = [self.score(operand, shape) for operand in op.operands]
        if all(operand is None for operand in operands):
            return None
        inputs = [
            self.other(outer) if inner is None else inner
            for outer, inner in zip(op.operands, operands, strict=True)
        ]
        if isinstance(op, PointwiseOp):
            new: Operation = PointwiseOp(op.kind.data, *inputs)
        else:
            new = ConvertOp(inputs[0], element_type(op.output.type))
        new.location = op.location
        self.block.add_op(new)
        self.inside.add(op)
        return new.results[0]

    def is_product(self, value: SSAValue) -> bool:
        """Whether a value is the one product, seen through reshapes of its leading axes."""
        passed: list[Operation] = []
        while isinstance(op := value.owner, ReshapeOp) and keeps_rows(op):
            passed.append(op)
            value = op.input
        if not isinstance(op := value.owner, MatmulOp) or self.product not in (None, op):
            return False
        if self.product is None:
            self.product = op
            self.block.insert_arg(tensor_type(element_type(op.output.type), ()), 0)
        self.inside |= {op, *passed}
        return True

    def other(self, value: SSAValue) -> SSAValue:
        """A value from outside in the region: a constant once more, all else an argument."""
        if value not in self.others:
            if isinstance(full := value.owner, FullOp):
                constant = FullOp(full.value, (), element_type(value.type))
                self.block.add_op(constant)
                self.others[value] = constant.output
            else:
                type = tensor_type(element_type(value.type), ())
                self.others[value] = self.block.insert_arg(type, len(self.block.args))
        return self.others[value]

    def arguments(self) -> list[SSAValue]:
        """What the region's arguments after the first stand for."""
        return [value for value in self.others if not isinstance(value.owner, FullOp)]


# --- the rewrite --------------------------------------------------------------------------------


def with_leading(
    value: SSAValue, transposed: bool, leading: Sequence[Expr], new: list[Operation]
) -> SSAValue:
    """A factor as [leading..., rows, columns], through views that are added to `new`."""
    if transposed:
        rank = len(extents(value.type))
        new.append(TransposeOp(value, [*range(rank - 2), rank - 1, rank - 2]))
        value = new[-1].results[0]
    shape = [*leading, *extents(value.type)[-2:]]
    if extents(value.type) != tuple(shape):
        new.append(ReshapeOp(value, shape))
        value = new[-1].results[0]
    return value


def raise_attention(op: MatmulOp, ranges: Mapping[str, Range]) -> None:
    """Replaces the product of weights and values, if it is that of an attention."""
    if op.transposes[0]:
        return
    raising = Raising(Block())
    found = raising.softmax(op.lhs)
    if found is None:
        return
    softmax, safe = found
    shape = extents(softmax.output.type)
    # Without positions the product with no weights is 0, which no softmax knows that is not safe.
    if not safe and not nonnegative(shape[-1] - 1, ranges):
        return
    score = raising.score(softmax.input, shape)
    inside = frozenset(raising.inside)
    if raising.product is None or score is None or has_readers_outside(inside, inside | {op}):
        return
    raising.block.add_op(YieldOp(score))
    replace_root(op, attention(op, raising.product, raising, shape[:-2], safe))


def attention(
    op: MatmulOp, product: MatmulOp, raising: Raising, leading: Sequence[Expr], safe: bool
) -> list[Operation]:
    """The attention and the views around it; the last one gives the result of `op`."""
    new: list[Operation] = []
    query = with_leading(product.lhs, product.transposes[0], leading, new)
    key = with_leading(product.rhs, not product.transposes[1], leading, new)
    value = with_leading(op.rhs, op.transposes[1], leading, new)
    made = AttentionOp(query, key, value, raising.arguments(), raising.block, safe=safe)
    new.append(made)
    if made.output.type != op.output.type:
        new.append(ReshapeOp(made.output, extents(op.output.type)))
    return new


@dataclass(frozen=True)
class RaiseAttentionPass(ModulePass):
    """Raises softmax(score(Q x K^T)) x V, where the score is computed element by element.

    Weights that anybody else needs, such as a backward pass, are left as they are.

    Before:
    ```mlir
    %0 = lpu_graph.matmul %q, %k transpose [false, true] : …
    %1 = lpu_graph.pointwise "mul"(%0, %scale) : …
    %2 = lpu_graph.pointwise "add"(%1, %mask) : …
    %3 = lpu_graph.softmax %2 dim 2 : tensor<4x7x9xf32> -> tensor<4x7x9xf32>
    %4 = lpu_graph.matmul %3, %v transpose [false, false] : …
    ```
    After:
    ```mlir
    %4 = lpu_graph.attention %q, %k, %v with %mask : … {
    ^bb0(%s: tensor<f32>, %m: tensor<f32>):
      %5 = lpu_graph.full 0.25 : f32 : tensor<f32>
      %6 = lpu_graph.pointwise "mul"(%s, %5) : …
      %7 = lpu_graph.pointwise "add"(%6, %m) : …
      lpu_graph.yield %7 : tensor<f32>
    }
    ```
    """

    name = "raise-attention"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for root in anchors(op, MatmulOp):
            function = root.parent_op()
            assert isinstance(root, MatmulOp)
            assert isinstance(function, func.FuncOp)
            raise_attention(root, symbol_ranges(function))
