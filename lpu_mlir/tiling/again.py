"""Values that are computed twice under different names of dims, as the exponentials of a softmax
are: for their sum, and for what is divided by it."""

from __future__ import annotations

from xdsl.dialects import math
from xdsl.ir import Operation

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.nests.scalar import Index, Load, Node, Op, is_dim

COSTLY: frozenset[type[Operation]] = frozenset(
    {
        math.AcosOp,
        math.AsinOp,
        math.Atan2Op,
        math.AtanOp,
        math.CosOp,
        math.ErfOp,
        math.Exp2Op,
        math.ExpM1Op,
        math.ExpOp,
        math.Log1pOp,
        math.Log2Op,
        math.LogOp,
        math.PowFOp,
        math.SinOp,
        math.TanhOp,
    }
)
"""What costs more to compute again than to keep a tile of in SRAM and read it."""


def is_costly(node: Node) -> bool:
    return isinstance(node, Op) and node.op in COSTLY


def pattern(node: Node) -> tuple[object, tuple[str, ...]]:
    """What a value is but for the names of its dims, and these in the order in which they occur.

    Two values with equal patterns are equal if the dims that correspond are.
    """
    names: dict[str, str] = {}
    found = _pattern(node, names)
    return found, tuple(names)


def _pattern(node: Node, names: dict[str, str]) -> object:
    match node:
        case Op():
            operands = tuple(_pattern(operand, names) for operand in node.operands)
            return (node.op, node.type, node.properties, operands)
        case Load():
            index = tuple(_renamed(expr, names) for expr in node.index)
            return (node.source, index, tuple(_pattern(n, names) for n in node.indirect))
        case Index():
            return _renamed(node.expr, names)
        case _:  # the same value, so the same dims
            return (node, tuple(_number(name, names) for name in sorted(node.free)))


def _renamed(expr: Expr, names: dict[str, str]) -> Expr:
    dims = sorted(name for name in expr.names() if is_dim(name))
    return expr.substitute({name: Expr.name(_number(name, names)) for name in dims})


def _number(name: str, names: dict[str, str]) -> str:
    return names.setdefault(name, f"#{len(names)}")
