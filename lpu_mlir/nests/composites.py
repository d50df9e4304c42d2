"""The composites of `lpu_graph` at one point: what their decomposed forms compute there."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.ir import Attribute, Operation, SSAValue

from lpu_mlir.dialects import lpu_graph
from lpu_mlir.dialects.expr import Expr, product
from lpu_mlir.dialects.lpu import element_type, extents
from lpu_mlir.dialects.lpu_loop import Dim
from lpu_mlir.nests.body import Body, Point, wide_type
from lpu_mlir.nests.pointwise import Numbers, convert, pointwise
from lpu_mlir.nests.scalar import Node

# --- softmax ------------------------------------------------------------------------------------


def exponential(numbers: Numbers, score: Node, highest: Node) -> Node:
    """exp(score - highest), but 0 where all scores are -inf, of which the difference is NaN."""
    nothing = is_nothing(numbers, highest)
    shift = numbers.select(nothing, numbers.const(0), highest)
    return numbers.float(math_dialect.ExpOp, numbers.float(arith.SubfOp, score, shift))


def is_nothing(numbers: Numbers, highest: Node) -> Node:
    """Whether every score of a row is -inf."""
    return numbers.compare("eq", highest, numbers.const(-math.inf))


def _row(
    op: lpu_graph.SoftmaxOp | lpu_graph.LogSoftmaxOp, body: Body, point: Point
) -> tuple[Numbers, Node, Node, Node]:
    """The element, and the largest and the sum of exponentials of its row; with their type."""
    dim, element = op.dim.value.data, element_type(op.input.type)
    position, bound = body.along(extents(op.input.type)[dim])
    numbers = body.numbers(element)
    score = body.load(op.input, (*point[:dim], position, *point[dim + 1 :]))
    highest = body.fold("max", bound, score, element)
    total = body.fold("add", bound, exponential(numbers, score, highest), element)
    return numbers, body.load(op.input, point), highest, total


def _softmax(op: lpu_graph.SoftmaxOp, body: Body, point: Point) -> Node:
    numbers, score, highest, total = _row(op, body, point)
    return numbers.float(arith.DivfOp, exponential(numbers, score, highest), total)


def _log_softmax(op: lpu_graph.LogSoftmaxOp, body: Body, point: Point) -> Node:
    numbers, score, highest, total = _row(op, body, point)
    shifted = numbers.float(arith.SubfOp, score, highest)
    return numbers.float(arith.SubfOp, shifted, numbers.float(math_dialect.LogOp, total))


# --- norms --------------------------------------------------------------------------------------


def _average(
    op: lpu_graph.RmsNormOp | lpu_graph.LayerNormOp, body: Body, value: Callable[[Node], Node]
) -> Callable[[Point], Node]:
    """The mean of a function of the elements over the axes that a norm is over, at a point."""
    shape, rank = extents(op.input.type), op.rank.value.data
    element = element_type(op.input.type)
    numbers = body.numbers(element)

    def at(point: Point) -> Node:
        places = [body.along(extent) for extent in shape[len(shape) - rank :]]
        bound = [dim for _, dims in places for dim in dims]
        inner = (*point[: len(shape) - rank], *(position for position, _ in places))
        total = body.fold("add", bound, value(body.load(op.input, inner)), element)
        return numbers.float(arith.DivfOp, total, _count(body, shape[len(shape) - rank :], element))

    return at


def _count(body: Body, shape: Sequence[Expr], element: Attribute) -> Node:
    size = product(shape).constant()
    if size is not None:
        return body.numbers(element).const(size)
    return body.scalars.op(arith.SIToFPOp, (body.scalars.index(product(shape)),), element)


def _scale(numbers: Numbers, average: Node, eps: float) -> Node:
    """The reciprocal of a standard deviation."""
    return numbers.float(
        math_dialect.RsqrtOp, numbers.float(arith.AddfOp, average, numbers.const(eps))
    )


def _rms_norm(op: lpu_graph.RmsNormOp, body: Body, point: Point) -> Node:
    numbers = body.numbers(element_type(op.input.type))
    average = _average(op, body, lambda x: numbers.float(arith.MulfOp, x, x))(point)
    scale = _scale(numbers, average, op.eps.value.data)
    value = numbers.float(arith.MulfOp, body.load(op.input, point), scale)
    return _affine(numbers, body, point, value, op.weight, None)


def _layer_norm(op: lpu_graph.LayerNormOp, body: Body, point: Point) -> Node:
    numbers = body.numbers(element_type(op.input.type))
    mean = _average(op, body, lambda x: x)(point)

    def squared(x: Node) -> Node:
        deviation = numbers.float(arith.SubfOp, x, mean)
        return numbers.float(arith.MulfOp, deviation, deviation)

    scale = _scale(numbers, _average(op, body, squared)(point), op.eps.value.data)
    deviation = numbers.float(arith.SubfOp, body.load(op.input, point), mean)
    value = numbers.float(arith.MulfOp, deviation, scale)
    return _affine(numbers, body, point, value, op.weight, op.bias)


def _affine(
    numbers: Numbers,
    body: Body,
    point: Point,
    value: Node,
    weight: SSAValue | None,
    bias: SSAValue | None,
) -> Node:
    if weight is not None:
        value = numbers.float(arith.MulfOp, value, body.load(weight, point))
    if bias is not None:
        value = numbers.float(arith.AddfOp, value, body.load(bias, point))
    return value


# --- rope ---------------------------------------------------------------------------------------


def _rope(op: lpu_graph.RopeOp, body: Body, point: Point) -> Node:
    element = element_type(op.input.type)
    *before, last = point
    half = extents(op.input.type)[-1].floordiv(2)

    def apply(kind: str, *operands: Node) -> Node:
        return pointwise(body.scalars, kind, list(operands), element)

    second = apply("neg", body.load(op.input, (*before, last + half)))
    rotated = body.scalars.pieces(
        last, [half], [second, body.load(op.input, (*before, last - half))]
    )
    straight = apply("mul", body.load(op.input, point), body.load(op.cos, point))
    return apply("add", straight, apply("mul", rotated, body.load(op.sin, point)))


# --- attention ----------------------------------------------------------------------------------


def _attention(op: lpu_graph.AttentionOp, body: Body, point: Point) -> Node:
    *before, column = point
    position, along = body.along(extents(op.key.type)[-2])
    element, target = element_type(op.scored.type), element_type(op.value.type)
    numbers, wide = body.numbers(element), wide_type(target, "add")
    score = _score(op, body, (*before, position))
    highest = body.fold("max", along, score, element)
    weight = exponential(numbers, score, highest)
    total = body.fold("add", along, weight, element)
    nothing = is_nothing(numbers, highest)

    def normalised(value: Node) -> Node:
        quotient = numbers.float(arith.DivfOp, value, total)
        return numbers.select(nothing, value, quotient) if op.safe is not None else quotient

    value = body.load(op.value, (*before[:-1], position, column))
    value = convert(body.scalars, value, target, wide)
    if target == element:
        # The division after the sum: once for each row, and the sum need not wait for the total.
        return normalised(_weighted(body, along, weight, value, wide))
    weight = convert(body.scalars, normalised(weight), element, target)
    weight = convert(body.scalars, weight, target, wide)
    return convert(body.scalars, _weighted(body, along, weight, value, wide), wide, target)


def _weighted(
    body: Body, along: Sequence[Dim], weight: Node, value: Node, element: Attribute
) -> Node:
    return body.fold(
        "add", along, body.numbers(element).float(arith.MulfOp, weight, value), element
    )


def _score(op: lpu_graph.AttentionOp, body: Body, point: Point) -> Node:
    """The score of a query row and a position, the last two of the point."""
    *before, row, position = point
    element = element_type(op.query.type)
    wide = wide_type(element, "add")
    k, along = body.along(extents(op.query.type)[-1])
    factors = [
        convert(body.scalars, body.load(operand, (*before, at, k)), element, wide)
        for operand, at in ((op.query, row), (op.key, position))
    ]
    made = body.fold("add", along, body.numbers(wide).float(arith.MulfOp, *factors), wide)
    block = op.score.block
    values: dict[SSAValue, Node] = {block.args[0]: convert(body.scalars, made, wide, element)}
    for argument, other in zip(block.args[1:], op.others, strict=True):
        values[argument] = body.load(other, point)
    for inner in block.ops:
        if not isinstance(inner, lpu_graph.YieldOp):
            operands = [values[operand] for operand in inner.operands]
            values[inner.results[0]] = _scalar(inner, operands, body)
    return values[op.scored]


def _scalar(op: Operation, operands: list[Node], body: Body) -> Node:
    """An operation of a score's region."""
    match op:
        case lpu_graph.FullOp():
            return body.numbers(element_type(op.output.type)).const(op.value.value.data)
        case lpu_graph.ConvertOp():
            source, target = (element_type(v.type) for v in (op.input, op.output))
            return convert(body.scalars, operands[0], source, target)
        case lpu_graph.PointwiseOp():
            element = element_type(op.inputs[-1].type)
            return pointwise(body.scalars, op.kind.data, operands, element)
        case _:
            raise TypeError(f"unexpected {op.name} in a score")


COMPOSITES: Mapping[type[Operation], Callable[..., Node]] = {
    lpu_graph.AttentionOp: _attention,
    lpu_graph.LayerNormOp: _layer_norm,
    lpu_graph.LogSoftmaxOp: _log_softmax,
    lpu_graph.RmsNormOp: _rms_norm,
    lpu_graph.RopeOp: _rope,
    lpu_graph.SoftmaxOp: _softmax,
}
"""Operation -> the value of its result at a point."""
