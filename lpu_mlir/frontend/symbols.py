"""The symbols of a graph: their ranges, and sizes as expressions over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy  # pyright: ignore[reportMissingTypeStubs]
import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from lpu_mlir.dialects.expr import Expr, Range
from lpu_mlir.dialects.lpu import SymbolAttr
from lpu_mlir.frontend.symint import (
    LOWEST,
    UNBOUNDED,
    bounds,
    from_sympy,
    integer,
    is_expressible,
    is_rounded,
    sym_node,
)


@dataclass
class Symbols:
    """The symbols seen so far, with their ranges as attributes and for proofs."""

    declared: dict[str, SymbolAttr] = field(default_factory=dict[str, SymbolAttr])
    aliases: dict[str, Expr] = field(default_factory=dict[str, Expr])
    integers: dict[Any, Any] = field(default_factory=dict[Any, Any])
    """What Python makes of floats that have no expression here -> the symbols for it."""
    backed: dict[str, Range] = field(default_factory=dict[str, Range])
    """Ranges that need no check at run time: of sizes of inputs, and of results of host calls."""
    ranges: dict[str, Range] = field(default_factory=dict[str, Range])

    def expr(self, value: Any) -> Expr:
        """An int or SymInt as an expression, or Inexpressible; its symbols are declared."""
        if isinstance(value, int):
            return Expr.const(value)
        # A guard may say that a sum or quotient is 1: then the dim is broadcast.
        if sym_node(value).hint == 1 and statically_known_true(value == 1):
            self.declare(sym_node(value))
            return Expr.const(1)
        return from_sympy(self.declare(sym_node(value))).substitute(self.aliases)

    def is_new(self, value: Any) -> bool:
        """Whether a size is a symbol that was not seen before."""
        return (
            isinstance(value, torch.SymInt)
            and isinstance(symbol := sym_node(value).expr, sympy.Symbol)
            and symbol.name not in self.declared
            and symbol.name not in self.aliases
        )

    def name(self, value: Any, meaning: Expr) -> None:
        """Lets a new symbol stand for an expression over others."""
        self.aliases[sym_node(value).expr.name] = meaning

    def name_integer(self, made: Any, lowest: int = LOWEST) -> None:
        """Lets a new symbol stand for what Python makes of a float, as a SymPy expression."""
        name = f"i{len(self.integers)}"
        self.integers[made] = sympy.Symbol(name, integer=True)
        self.declared[name] = SymbolAttr.of(name, lowest, UNBOUNDED, 1)
        self.ranges[name] = (Expr.const(lowest), None)

    def name_sizes(self, values: Sequence[Any]) -> None:
        """Lets new symbols stand for what sizes of an argument have of integers made of floats.

        The argument tells them, so that they need no expression: 1.3 times a size is rounded.
        """
        for value in values:
            if isinstance(value, torch.SymInt):
                for part in sorted(sym_node(value).expr.find(is_rounded), key=str):
                    if part not in self.integers and not is_expressible(part):
                        self.name_integer(part, lowest=0)

    def declare(self, node: Any) -> Any:
        """The expression of a SymNode in SymPy; its symbols are declared."""
        value = node.expr.xreplace(self.integers) if self.integers else node.expr
        for symbol in value.free_symbols:
            if symbol.name not in self.declared and symbol.name not in self.aliases:
                lower, upper, hint = bounds(integer(symbol), node.shape_env)
                self.declared[symbol.name] = SymbolAttr.of(symbol.name, lower, upper, hint)
                most = None if upper == UNBOUNDED else Expr.const(upper)
                self.ranges[symbol.name] = (Expr.const(lower), most)
        return value

    def extents(self, values: Sequence[Any]) -> tuple[Expr, ...]:
        return tuple(map(self.expr, values))
