"""How the inputs of an FX graph become arguments of its function."""

from __future__ import annotations

from dataclasses import dataclass

from lpu_mlir.dialects.expr import Expr


@dataclass(frozen=True)
class TensorInput:
    """A tensor placeholder: argument number `argument` of the function.

    `longer` if what comes at run time may be longer: AOTAutograd passes the whole storage that
    inputs share, but traces with as much of it as the views need.
    """

    argument: int
    longer: bool = False


@dataclass(frozen=True)
class ExtentInput:
    """An integer placeholder: its run-time value is that of `value`, a symbol or a constant."""

    value: Expr


@dataclass(frozen=True)
class FloatInput:
    """A float placeholder: argument number `argument`, as a 0-d f64 tensor."""

    argument: int


@dataclass(frozen=True)
class IgnoredInput:
    """A placeholder that the program does not read."""


Input = TensorInput | ExtentInput | FloatInput | IgnoredInput
