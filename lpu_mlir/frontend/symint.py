"""SymPy expressions of PyTorch's SymInts as `Expr`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import sympy  # pyright: ignore[reportMissingTypeStubs]
import torch

from lpu_mlir.dialects.expr import Expr, product


class Inexpressible(ValueError):
    """A number that is no expression over the symbols of a graph; the message says why."""


def expr(value: int | torch.SymInt) -> Expr:
    """The value as an expression over symbols; Inexpressible if it has no such form."""
    if isinstance(value, int):
        return Expr.const(value)
    return from_sympy(sym_node(value).expr)


def sym_node(value: Any) -> Any:
    """The node of a SymInt, SymFloat or SymBool, which PyTorch leaves untyped."""
    return value.node


def from_sympy(value: Any) -> Expr:
    """Converts an integer-valued SymPy expression; Inexpressible if it has no such form."""
    if isinstance(value, sympy.Integer):
        return Expr.const(int(value))
    if isinstance(value, sympy.Symbol):
        return Expr.name(integer(value).name)
    rule = _RULES.get(type(value).__name__)
    if rule is None:
        raise Inexpressible(f"{value} is no integer expression that lpu_mlir knows")
    return rule(*value.args)


def integer(symbol: Any) -> Any:
    """The symbol; Inexpressible if it stands for a float."""
    if not symbol.is_integer:
        raise Inexpressible(
            f"an integer depends on {symbol}, a float that only a run tells; make it an integer of "
            "a tensor first: int(x.to(torch.int64).item())"
        )
    return symbol


def _power(base: Any, exponent: Any) -> Expr:
    if not isinstance(exponent, sympy.Integer) or int(exponent) < 0:
        raise Inexpressible(f"{base}**{exponent} is no integer expression that lpu_mlir knows")
    return product([from_sympy(base)] * int(exponent))


def _modular_indexing(base: Any, divisor: Any, modulus: Any) -> Expr:
    return from_sympy(base).floordiv(from_sympy(divisor)).mod(from_sympy(modulus))


def _fraction(value: Any) -> tuple[Expr, Expr]:
    """A rational-valued expression as numerator and positive constant or symbolic denominator."""
    name = type(value).__name__
    if name in ("IntTrueDiv", "FloatTrueDiv"):
        top, bottom = map(_fraction, value.args)
        return top[0] * bottom[1], top[1] * bottom[0]
    if name in ("ToFloat", "Identity"):
        return _fraction(value.args[0])
    if name == "Mul":
        parts = [_fraction(arg) for arg in value.args]
        return product(p[0] for p in parts), product(p[1] for p in parts)
    if isinstance(value, sympy.Float):
        top, bottom = float(value).as_integer_ratio()
        if bottom > 1 << 16 or abs(top) > 1 << 20:
            raise Inexpressible(f"products with {value} are rounded")
        return Expr.const(top), Expr.const(bottom)
    return from_sympy(value), Expr.const(1)


def _floor(value: Any) -> Expr:
    top, bottom = _fraction(value)
    return top.floordiv(bottom)


def _ceil(value: Any) -> Expr:
    top, bottom = _fraction(value)
    return top.ceildiv(bottom)


def _truncate(value: Any) -> Expr:
    return Expr.max(_floor(value), 0) + Expr.min(_ceil(value), 0)


def _extreme(combine: Callable[[Expr, Expr], Expr]) -> Callable[..., Expr]:
    return lambda *args: reduce(combine, map(from_sympy, args))


def _magnitude(value: Any) -> Expr:
    made = from_sympy(value)
    return Expr.max(made, -made)


def _add(*terms: Any) -> Expr:
    return sum(map(from_sympy, terms), Expr.const(0))


def _multiply(*factors: Any) -> Expr:
    return product(map(from_sympy, factors))


def _divide_up(lhs: Any, rhs: Any) -> Expr:
    return from_sympy(lhs).ceildiv(from_sympy(rhs))


def _shift_left(base: Any, shift: Any) -> Expr:
    return from_sympy(base) * _power(sympy.Integer(2), shift)


def _shift_right(base: Any, shift: Any) -> Expr:
    return from_sympy(base).floordiv(_power(sympy.Integer(2), shift))


def _divide(lhs: Any, rhs: Any) -> Expr:
    return from_sympy(lhs).floordiv(from_sympy(rhs))


def _modulo(lhs: Any, rhs: Any) -> Expr:
    return from_sympy(lhs).mod(from_sympy(rhs))


_RULES: Mapping[str, Callable[..., Expr]] = {
    "Abs": _magnitude,
    "Add": _add,
    "Mul": _multiply,
    "Pow": _power,
    "PowByNatural": _power,
    "FloorDiv": _divide,
    "CleanDiv": _divide,
    "CeilDiv": _divide_up,
    "Mod": _modulo,
    "PythonMod": _modulo,
    "ModularIndexing": _modular_indexing,
    "Min": _extreme(Expr.min),
    "Max": _extreme(Expr.max),
    "FloorToInt": _floor,
    "TruncToInt": _truncate,
    "CeilToInt": _ceil,
    "Identity": from_sympy,
    "LShift": _shift_left,
    "RShift": _shift_right,
}
"""SymPy class name -> rule on its arguments."""

UNBOUNDED = -1
LOWEST = -(1 << 63)


def bounds(symbol: Any, shape_env: Any) -> tuple[int, int, int]:
    """(smallest, largest or UNBOUNDED, likely) value of a symbol of the shape environment."""
    interval = shape_env.var_to_range.get(symbol)
    lower, upper = LOWEST, UNBOUNDED
    if interval is not None:
        lower = int(interval.lower) if isinstance(interval.lower, sympy.Integer) else LOWEST
        finite = isinstance(interval.upper, sympy.Integer) and 0 <= int(interval.upper) < 1 << 48
        upper = int(interval.upper) if finite else UNBOUNDED
    hint = shape_env.backed_var_to_val.get(symbol)
    return lower, upper, max(lower, 1) if hint is None else int(hint)
