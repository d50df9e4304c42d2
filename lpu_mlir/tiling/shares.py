"""How cores divide a dim among them, and how fewer cores divide the same dim.

The share of an extent that is a symbol has no known size, so that tiles of neighbouring cores
cannot be joined; but all that cores know of each other is how the dim is divided, which may as well
be by another number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu import ExprAttr
from lpu_mlir.dialects.lpu_kernel import ApplyOp, PhaseOp

CORE = Expr.name("core")


def share_start(extent: Expr, cores: int) -> Expr:
    """Where the share of a core begins."""
    return extent.ceildiv(cores) * CORE


def share_size(extent: Expr, cores: int) -> Expr:
    """How many positions there are in it; the last ones may be short or empty."""
    chunk = extent.ceildiv(cores)
    return Expr.max(0, Expr.min(chunk, extent - chunk * CORE))


def only_first() -> Expr:
    """The trips of a loop that only core 0 runs."""
    return Expr.max(0, Expr.const(1) - CORE)


FORMS: tuple[Callable[[Expr, int], Expr], ...] = (share_start, share_size)


def divided_again(phase: PhaseOp, cores: int, fewer: int) -> Mapping[ApplyOp, Expr] | None:
    """What becomes of all that depends on the core if a phase for so many cores is one for fewer;
    None if it depends on the core otherwise than by its share of some extents."""
    found: dict[ApplyOp, Expr] = {}
    for use in phase.core_id.uses:
        op = use.operation
        if not isinstance(op, ApplyOp) or list(op.operands).count(phase.core_id) != 1:
            return None
        name = f"d{use.index}"
        new = _divided_again(op.map.data.substitute({name: CORE}), cores, fewer)
        if new is None:
            return None
        found[op] = new.substitute({"core": Expr.name(name)})
    return found


def _divided_again(expr: Expr, cores: int, fewer: int) -> Expr | None:
    if expr == only_first():
        return expr
    divided = [call.lhs for call in expr.calls() if call.kind == "floordiv" and call.rhs == cores]
    for extent in (rounded_up - (cores - 1) for rounded_up in divided):
        for form in FORMS:
            if "core" not in extent.names() and form(extent, cores) == expr:
                return form(extent, fewer)
    return None


def divide_again(applies: Mapping[ApplyOp, Expr]) -> None:
    for op, expr in applies.items():
        op.map = ExprAttr(expr)
