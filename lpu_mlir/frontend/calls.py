"""The arguments of host calls as plain data, and their values for a call.

An argument is a number, a string, None, a dtype, layout, memory format or device of PyTorch, an
expression over symbols, one of the classes below, or a list of arguments.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor

from lpu_mlir.dialects.expr import Expr


@dataclass(frozen=True)
class Operand:
    """The tensor at a position among the operands."""

    position: int


@dataclass(frozen=True)
class Item:
    """The number in a 0-d tensor."""

    operand: Operand


@dataclass(frozen=True)
class Comparison:
    """A condition on extents: `kind` is a name of the module `operator`."""

    kind: str
    lhs: Expr
    rhs: Expr


@dataclass(frozen=True)
class All:
    """Conditions that must hold together; no argument of a host call, but of an assertion."""

    parts: tuple[Comparison, ...]


def evaluate(argument: Any, operands: Sequence[Tensor], symbols: Mapping[str, int]) -> Any:
    """An argument's value for these operands and values of the symbols."""
    match argument:
        case Operand():
            return operands[argument.position]
        case Item():
            return operands[argument.operand.position].item()
        case Expr():
            return argument.evaluate(symbols)
        case Comparison():
            sides = (side.evaluate(symbols) for side in (argument.lhs, argument.rhs))
            return getattr(operator, argument.kind)(*sides)
        case list() | tuple():
            items = cast("Sequence[Any]", argument)
            return [evaluate(item, operands, symbols) for item in items]
        case _:
            return argument


def evaluate_all(
    arguments: Mapping[str, Any], operands: Sequence[Tensor], symbols: Mapping[str, int]
) -> tuple[list[Any], dict[str, Any]]:
    """(args, kwargs) for an operator; positional arguments stand under "0", "1", …"""
    values = {name: evaluate(value, operands, symbols) for name, value in arguments.items()}
    count = sum(name.isdigit() for name in values)
    positional = [values[str(i)] for i in range(count)]
    return positional, {name: v for name, v in values.items() if not name.isdigit()}
