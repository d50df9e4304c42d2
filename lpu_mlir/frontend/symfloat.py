"""SymPy expressions of PyTorch's SymFloats as 0-d f64 tensors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import sympy  # pyright: ignore[reportMissingTypeStubs]
import torch
from xdsl.ir import SSAValue

from lpu_mlir.frontend.builder import GraphBuilder
from lpu_mlir.frontend.symint import from_sympy

_KINDS: Mapping[str, str] = {
    "Add": "add",
    "Mul": "mul",
    "IntTrueDiv": "div",
    "FloatTrueDiv": "div",
    "Pow": "pow",
    "FloatPow": "pow",
    "Min": "minimum",
    "Max": "maximum",
    "OpaqueUnaryFn_sqrt": "sqrt",
    "OpaqueUnaryFn_exp": "exp",
    "OpaqueUnaryFn_log": "log",
    "OpaqueUnaryFn_log2": "log2",
    "OpaqueUnaryFn_sin": "sin",
    "OpaqueUnaryFn_cos": "cos",
    "OpaqueUnaryFn_tanh": "tanh",
    "Abs": "abs",
    "TruncToFloat": "trunc",
}
"""SymPy class name -> pointwise function, folded over the arguments."""


def emit(b: GraphBuilder, value: Any, floats: Mapping[str, SSAValue]) -> SSAValue:
    """Emits the value; `floats` has the arguments that stand for float inputs, by symbol.

    Inexpressible if a part of the expression is not known.
    """
    if isinstance(value, sympy.Symbol) and value.name in floats:
        return floats[value.name]
    if isinstance(value, sympy.Float | sympy.Rational):
        return b.full(float(value), torch.float64)
    kind = _KINDS.get(type(value).__name__)
    if kind is not None and not value.is_integer:
        parts = [emit(b, arg, floats) for arg in value.args]
        if len(parts) == 1:
            return b.pointwise(kind, parts[0])
        return reduce(lambda lhs, rhs: b.pointwise(kind, lhs, rhs), parts)
    if type(value).__name__ in ("ToFloat", "Identity"):
        return emit(b, value.args[0], floats)
    return b.number(from_sympy(value), torch.float64)
