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
from lpu_mlir.frontend.symint import UNBOUNDED, bounds, expr, integer, sym_node


@dataclass
class Symbols:
    """The symbols seen so far, with their ranges as attributes and for proofs."""

    declared: dict[str, SymbolAttr] = field(default_factory=dict[str, SymbolAttr])
    aliases: dict[str, Expr] = field(default_factory=dict[str, Expr])
    backed: dict[str, Range] = field(default_factory=dict[str, Range])
    """Ranges that need no check at run time: of sizes of inputs, and of results of host calls."""
    ranges: dict[str, Range] = field(default_factory=dict[str, Range])

    def expr(self, value: Any) -> Expr:
        """An int or SymInt as an expression, or Inexpressible; its symbols are declared."""
        if isinstance(value, int):
            return Expr.const(value)
        self.declare(sym_node(value))
        # A guard may say that a sum or quotient is 1: then the dim is broadcast.
        if sym_node(value).hint == 1 and statically_known_true(value == 1):
            return Expr.const(1)
        return expr(value).substitute(self.aliases)

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

    def declare(self, node: Any) -> None:
        """Declares the symbols of a SymNode."""
        for symbol in node.expr.free_symbols:
            if symbol.name not in self.declared and symbol.name not in self.aliases:
                lower, upper, hint = bounds(integer(symbol), node.shape_env)
                self.declared[symbol.name] = SymbolAttr.of(symbol.name, lower, upper, hint)
                most = None if upper == UNBOUNDED else Expr.const(upper)
                self.ranges[symbol.name] = (Expr.const(lower), most)

    def extents(self, values: Sequence[Any]) -> tuple[Expr, ...]:
        return tuple(map(self.expr, values))
