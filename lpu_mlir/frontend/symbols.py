"""The symbols of a graph: their ranges, and sizes as expressions over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from lpu_mlir.dialects.expr import Expr, Range
from lpu_mlir.dialects.lpu import SymbolAttr
from lpu_mlir.frontend.symint import UNBOUNDED, bounds, expr, from_sympy, sym_node

MOST_TRIED = 4096
"""Values of a symbol for which an extent is tried."""


@dataclass
class Symbols:
    """The symbols seen so far, with their ranges as attributes and for proofs."""

    declared: dict[str, SymbolAttr] = field(default_factory=dict[str, SymbolAttr])
    aliases: dict[str, Expr] = field(default_factory=dict[str, Expr])
    backed: dict[str, Range] = field(default_factory=dict[str, Range])
    """Ranges that need no check at run time: of sizes of inputs, and of results of host calls."""
    ranges: dict[str, Range] = field(default_factory=dict[str, Range])
    _least: dict[str, int] = field(default_factory=dict[str, int])
    _learnt: set[Any] = field(default_factory=set[Any])

    def expr(self, value: Any) -> Expr:
        """An int or SymInt as an expression; its symbols are declared."""
        if isinstance(value, int):
            return Expr.const(value)
        self.declare(sym_node(value))
        # A guard may say that a sum or quotient is 1: then the dim is broadcast.
        if sym_node(value).hint == 1 and statically_known_true(value == 1):
            return Expr.const(1)
        return expr(value).substitute(self.aliases)

    def declare(self, node: Any) -> None:
        """Declares the symbols of a SymNode."""
        for symbol in node.expr.free_symbols:
            if symbol.name not in self.declared and symbol.name not in self.aliases:
                lower, upper, hint = bounds(symbol, node.shape_env)
                lower = self._least.get(symbol.name, lower)
                self.declared[symbol.name] = SymbolAttr.of(symbol.name, lower, upper, hint)
                most = None if upper == UNBOUNDED else Expr.const(upper)
                self.ranges[symbol.name] = (Expr.const(lower), most)

    def extents(self, values: Sequence[Any]) -> tuple[Expr, ...]:
        return tuple(map(self.expr, values))

    # --- what a shape tells -----------------------------------------------------------------
    def learn(self, shape: Sequence[Any]) -> None:
        """Raises the least values of symbols to those at which no extent of `shape` is negative.

        No tensor has a negative extent, so PyTorch's guards exclude smaller values; but it keeps
        the guards to itself.  To be called before anything is declared.
        """
        for size in shape:
            if isinstance(size, torch.SymInt) and sym_node(size).expr not in self._learnt:
                self._learnt.add(sym_node(size).expr)
                self._learn(sym_node(size))

    def _learn(self, node: Any) -> None:
        symbols = list(node.expr.free_symbols)
        if len(symbols) != 1 or symbols[0] not in node.shape_env.backed_var_to_val:
            return
        [symbol] = symbols
        try:
            extent = from_sympy(node.expr)
        except ValueError:
            return  # whoever needs it says so
        lower, _, hint = bounds(symbol, node.shape_env)
        least = self._least.get(symbol.name, lower)
        for value in range(least, min(hint, least + MOST_TRIED)):
            if extent.evaluate({symbol.name: value}) >= 0:
                break
            self._least[symbol.name] = value + 1
