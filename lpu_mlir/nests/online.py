"""Sums weighted by exponentials: which folds of a nest can be made in one walk over their scores.

    highest = fold max over s of score(s)
    total   = fold add over s of exp(score(s) - highest)
    out     = fold add over s of exp(score(s) - highest) * value(s)

Read as written, these are three walks, of which each computes the scores. What the sums are before
`highest` is known can be corrected when it rises: by exp(the one before - the new one).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Operation

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.nests.nest import Nest
from lpu_mlir.nests.scalar import Fold, Node, Op, Scalars


@dataclass(frozen=True, eq=False)
class Online:
    """Folds that one walk over the dims of `highest` makes."""

    highest: Fold
    weight: Node
    """exp(score - highest), over the dims of `highest`."""
    sums: Mapping[Fold, Fold]
    """Each sum -> the same over the dims of `highest`."""

    @property
    def score(self) -> Node:
        return self.highest.body


def operands_of(node: Node, op: type[Operation]) -> tuple[Node, ...]:
    """The operands of a scalar operation of that kind; none of another node."""
    return node.operands if isinstance(node, Op) and node.op is op else ()


def as_exponential(node: Node) -> tuple[Node, Fold] | None:
    """(score, highest) of exp(score - highest), with the guard for rows of -inf."""
    for difference in operands_of(node, math_dialect.ExpOp):
        match operands_of(difference, arith.SubfOp):
            case (score, shift):
                highest = _guarded(shift)
                return None if highest is None else (score, highest)
            case _:
                pass
    return None


def _guarded(shift: Node) -> Fold | None:
    """The fold of select(fold == -inf, 0, fold)."""
    match operands_of(shift, arith.SelectOp):
        case (condition, zero, Fold() as highest) if highest.kind == "max":
            pass
        case _:
            return None
    match operands_of(condition, arith.CmpfOp):
        case (compared, lowest) if compared is highest and _constant(lowest) == -math.inf:
            return highest if _constant(zero) == 0 else None
        case _:
            return None


def _constant(node: Node) -> float | None:
    if not isinstance(node, Op) or node.op is not arith.ConstantOp:
        return None
    value = dict(node.properties)["value"]
    return value.value.data if isinstance(value, FloatAttr) else None


def as_online(fold: Fold, scalars: Scalars) -> Online | None:
    """The walk that makes one sum, if its body is an exponential, or the product of one and another
    value, relative to the largest score over dims like the fold's own."""
    if fold.form != "fold" or fold.kind != "add":
        return None
    factors = operands_of(fold.body, arith.MulfOp) or (fold.body,)
    found = next((f for f in map(as_exponential, factors) if f is not None), None)
    if found is None:
        return None
    score, highest = found
    if highest.form != "fold" or [e for _, e in highest.dims] != [e for _, e in fold.dims]:
        return None
    if not {name for name, _ in highest.dims} <= highest.body.free:
        return None  # all scores of a row are one
    names = {
        own: Expr.name(theirs)
        for (own, _), (theirs, _) in zip(fold.dims, highest.dims, strict=True)
    }
    if scalars.rewrite(score, names) is not highest.body:
        return None
    weight = next(f for f in factors if as_exponential(f) is not None)
    body = scalars.rewrite(fold.body, names)
    aligned = replace(fold, dims=highest.dims, body=body)
    return Online(highest, scalars.rewrite(weight, names), {fold: aligned})


def find_online(nest: Nest, scalars: Scalars) -> Mapping[Fold, Online]:
    """Each fold of a nest that is made in a walk with others -> that walk."""
    every = frozenset(name for name, _ in nest.dims)
    walks: dict[Fold, Online] = {}
    for node in nest.nodes():
        # What is inside another fold is made for each of its points.
        if not isinstance(node, Fold) or not node.free <= every:
            continue
        made = as_online(node, scalars)
        if made is None or not made.highest.free <= every:
            continue
        known = walks.get(made.highest)
        sums = made.sums if known is None else {**known.sums, **made.sums}
        walks[made.highest] = replace(made, sums=sums)
    return {fold: walk for walk in walks.values() for fold in (walk.highest, *walk.sums)}
