"""What kernels move between DRAM and cores, counted without running them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.runtime.numbers import Symbols


@dataclass(frozen=True)
class Loop:
    """A loop around a movement: the name that its index has in expressions, and its bounds."""

    name: str
    lower: Expr
    upper: Expr
    step: Expr


@dataclass(frozen=True)
class Move:
    """A load or a store: in every iteration of its loops, outermost first, so many bytes.

    Names are those of loops, and `argument(n)` for the n-th index argument of the kernel.
    """

    read: bool
    written: bool
    """A store that adds reads, too."""
    bytes: Expr
    loops: tuple[Loop, ...]


def argument(position: int) -> str:
    """The name of an index argument of a kernel."""
    return f"a{position}"


def traffic(moves: Sequence[Move], indices: Sequence[int]) -> tuple[int, int]:
    """Bytes read and written by one launch with these index arguments."""
    values = {argument(n): value for n, value in enumerate(indices)}
    totals = [(move, _total(move, 0, dict(values))) for move in moves]
    read = sum(total for move, total in totals if move.read)
    return read, sum(total for move, total in totals if move.written)


def _total(move: Move, depth: int, values: Symbols) -> int:
    """The bytes of all iterations of the loops from a depth on."""
    if depth == len(move.loops):
        return move.bytes.evaluate(values)
    loop = move.loops[depth]
    bounds = (expr.evaluate(values) for expr in (loop.lower, loop.upper, loop.step))
    iterations = range(*bounds)
    if loop.name not in _names(move, depth + 1):
        return len(iterations) * _total(move, depth + 1, values) if iterations else 0
    total = 0
    for position in iterations:
        values[loop.name] = position
        total += _total(move, depth + 1, values)
    return total


def _names(move: Move, depth: int) -> frozenset[str]:
    """The names in what comes at a depth and below."""
    exprs = [move.bytes]
    for loop in move.loops[depth:]:
        exprs += [loop.lower, loop.upper, loop.step]
    return frozenset[str]().union(*(expr.names() for expr in exprs))
