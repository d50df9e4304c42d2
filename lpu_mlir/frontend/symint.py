"""SymPy expressions of PyTorch's SymInts as `Expr`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import sympy  # pyright: ignore[reportMissingTypeStubs]

from lpu_mlir.dialects.expr import Expr, product


class Inexpressible(ValueError):
    """A number that is no expression over the symbols of a graph; the message says why."""


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


def is_expressible(value: Any) -> bool:
    """Whether `from_sympy` has a form for it."""
    try:
        from_sympy(value)
    except Inexpressible:
        return False
    return True


def is_rounded(value: Any) -> bool:
    """Whether it is an integer that Python makes of a float."""
    return type(value).__name__ in ("FloorToInt", "TruncToInt", "CeilToInt", "RoundToInt")


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


def _piecewise(*pieces: Any) -> Expr:
    """The value of the first piece whose condition holds."""
    result = Expr.const(0)
    for value, condition in reversed(pieces):
        holds = indicator(condition)
        result = from_sympy(value) * holds + result * (Expr.const(1) - holds)
    return result


def indicator(condition: Any) -> Expr:
    """1 where a condition on integers holds, else 0; Inexpressible if it has no such form."""
    if condition in (True, False):
        return Expr.const(int(bool(condition)))
    rule = _INDICATORS.get(type(condition).__name__)
    if rule is None:
        raise Inexpressible(f"{condition} is no condition on integers that lpu_mlir knows")
    return rule(*condition.args)


def _above(lhs: Any, rhs: Any) -> Expr:
    return Expr.min(Expr.max(from_sympy(lhs) - from_sympy(rhs), 0), 1)


def _other(lhs: Any, rhs: Any) -> Expr:
    distance = from_sympy(lhs) - from_sympy(rhs)
    return Expr.min(Expr.max(distance, -distance), 1)


def _equal(lhs: Any, rhs: Any) -> Expr:
    return Expr.const(1) - _other(lhs, rhs)


def _at_least(lhs: Any, rhs: Any) -> Expr:
    return Expr.const(1) - _above(rhs, lhs)


def _below(lhs: Any, rhs: Any) -> Expr:
    return _above(rhs, lhs)


def _at_most(lhs: Any, rhs: Any) -> Expr:
    return _at_least(rhs, lhs)


def _not(condition: Any) -> Expr:
    return Expr.const(1) - indicator(condition)


def _all(*conditions: Any) -> Expr:
    return product(map(indicator, conditions))


def _any(*conditions: Any) -> Expr:
    return Expr.const(1) - product(map(_not, conditions))


_INDICATORS: Mapping[str, Callable[..., Expr]] = {
    "And": _all,
    "Or": _any,
    "Not": _not,
    "Equality": _equal,
    "Unequality": _other,
    "StrictGreaterThan": _above,
    "StrictLessThan": _below,
    "GreaterThan": _at_least,
    "LessThan": _at_most,
}
"""SymPy class name of a condition -> its indicator."""

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
    "Piecewise": _piecewise,
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
