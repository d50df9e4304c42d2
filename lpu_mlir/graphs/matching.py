"""Patterns over `lpu_graph`: small expressions that say what a value is computed from.

`match` finds what a pattern's variables stand for. An operation inside what matched must have no
reader outside of it, or else to replace its root would compute some of it twice; constants do not
count.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import isclose

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, f64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from lpu_mlir.dialects.lpu import element_type, extents
from lpu_mlir.dialects.lpu_graph import (
    FullOp,
    GraphOp,
    PointwiseOp,
    ReduceOp,
    ReshapeOp,
)

COMMUTES = frozenset({"add", "mul", "maximum", "minimum", "and", "or", "xor", "eq", "ne"})


@dataclass(frozen=True)
class Match:
    """What the variables stand for, the numbers of constants, the axes of the rows, and the
    operations in between."""

    values: Mapping[str, SSAValue]
    numbers: Mapping[str, float]
    axes: tuple[int, ...] | None
    inside: frozenset[Operation]

    def bind(self, name: str, value: SSAValue) -> Match | None:
        """A variable stands for one value wherever it is."""
        known = self.values.get(name, value)
        if known is not value:
            return None
        return Match({**self.values, name: value}, self.numbers, self.axes, self.inside)

    def count(self, name: str, number: float) -> Match:
        return Match(self.values, {**self.numbers, name: number}, self.axes, self.inside)

    def over(self, axes: tuple[int, ...]) -> Match | None:
        """All rows of a pattern are along the same axes."""
        if self.axes not in (None, axes):
            return None
        return Match(self.values, self.numbers, axes, self.inside)

    def within(self, *ops: Operation) -> Match:
        return Match(self.values, self.numbers, self.axes, self.inside.union(ops))


class Pattern(ABC):
    """A description of a value."""

    @abstractmethod
    def matches(self, value: SSAValue, found: Match) -> Iterator[Match]:
        """Every way in which the value is as described, given what has been found before."""


@dataclass(frozen=True)
class Var(Pattern):
    """Any value, and the same wherever the name is."""

    name: str

    def matches(self, value: SSAValue, found: Match) -> Iterator[Match]:
        bound = found.bind(self.name, value)
        if bound is not None:
            yield bound


@dataclass(frozen=True)
class Number(Pattern):
    """A constant: any, to be known by a name, or one that is close to `wanted`."""

    name: str = ""
    wanted: float | None = None

    def matches(self, value: SSAValue, found: Match) -> Iterator[Match]:
        if not isinstance(full := value.owner, FullOp):
            return
        number = full.value.value.data
        near = 1e-9 if element_type(value.type) == f64 else 1e-7
        if self.wanted is None or isclose(number, self.wanted, rel_tol=near):
            yield found.count(self.name, number) if self.name else found


@dataclass(frozen=True)
class Point(Pattern):
    """A pointwise function of operands, in either order where that is the same."""

    kind: str
    operands: tuple[Pattern, ...]

    def matches(self, value: SSAValue, found: Match) -> Iterator[Match]:
        op = value.owner
        if not isinstance(op, PointwiseOp) or op.kind.data != self.kind:
            return
        orders = permutations(op.inputs) if self.kind in COMMUTES else [tuple(op.inputs)]
        for inputs in orders:
            yield from _all(self.operands, inputs, found.within(op))


@dataclass(frozen=True)
class Row(Pattern):
    """A reduction whose result has been given its axes back, with extents of 1."""

    kind: str
    operand: Pattern

    def matches(self, value: SSAValue, found: Match) -> Iterator[Match]:
        if not isinstance(kept := value.owner, ReshapeOp):
            return
        op = kept.input.owner
        if not isinstance(op, ReduceOp) or op.kind.data != self.kind:
            return
        axes = op.dims.data
        shape = tuple(1 if i in axes else e for i, e in enumerate(extents(op.input.type)))
        over = found.within(kept, op).over(tuple(axes))
        if over is not None and extents(kept.output.type) == shape:
            yield from self.operand.matches(op.input, over)


def _all(patterns: Sequence[Pattern], values: Sequence[SSAValue], found: Match) -> Iterator[Match]:
    if not patterns:
        yield found
        return
    for first in patterns[0].matches(values[0], found):
        yield from _all(patterns[1:], values[1:], first)


def point(kind: str, *operands: Pattern | float) -> Point:
    """A pointwise function; numbers stand for constants close to them."""
    return Point(kind, tuple(o if isinstance(o, Pattern) else Number(wanted=o) for o in operands))


def match(pattern: Pattern, root: Operation) -> Match | None:
    """The first way in which the result of `root` is as described and nobody else needs a part."""
    for found in pattern.matches(root.results[0], Match({}, {}, None, frozenset())):
        if not has_readers_outside(found.inside - {root}, found.inside):
            return found
    return None


def has_readers_outside(ops: frozenset[Operation], inside: frozenset[Operation]) -> bool:
    """Whether a result of `ops` is used by an operation that is not `inside`."""
    return any(
        use.operation not in inside for op in ops for value in op.results for use in value.uses
    )


# --- rewriting ----------------------------------------------------------------------------------


def anchors(module: ModuleOp, *types: type[Operation]) -> Iterator[Operation]:
    """The operations of some types of all functions, last first: the largest that matches is met
    before its parts. Those that were erased meanwhile are left out."""
    for function in module.ops:
        if isinstance(function, func.FuncOp) and function.body.blocks:
            for op in reversed(list(function.body.block.ops)):
                if isinstance(op, types) and op.parent is not None:
                    yield op


def replace_root(root: Operation, new: Sequence[Operation]) -> None:
    """Puts operations in the place of `root`; the last one gives its result. What nobody needs any
    more goes."""
    operands = list(root.operands)
    for op in new:
        op.location = root.location
    new[-1].results[0].name_hint = root.results[0].name_hint
    Rewriter.replace_op(root, list(new))
    erase_unused(operands)


def erase_unused(values: Sequence[SSAValue]) -> None:
    """Erases the operations of values that are not used, and what only these used."""
    todo = list(values)
    while todo:
        op = todo.pop().owner
        if not isinstance(op, GraphOp) or op.parent is None or any(v.uses for v in op.results):
            continue
        todo += op.operands
        Rewriter.erase_op(op)
