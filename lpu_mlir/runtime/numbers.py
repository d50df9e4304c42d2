"""Expressions over symbols, evaluated for a call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from lpu_mlir.dialects.expr import Expr

Symbols: TypeAlias = dict[str, int]
Number: TypeAlias = Callable[[Symbols], int]
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def number(expr: Expr) -> Number:
    """An expression as a function of the symbols' values."""
    constant = expr.constant()
    if constant is not None:
        return lambda symbols: constant
    return expr.evaluate


def numbers(exprs: Sequence[Expr]) -> Callable[[Symbols], tuple[int, ...]]:
    """Several expressions at once; free when all are constants."""
    constants = [expr.constant() for expr in exprs]
    if None not in constants:
        fixed = tuple(c for c in constants if c is not None)
        return lambda symbols: fixed
    return lambda symbols: tuple(expr.evaluate(symbols) for expr in exprs)


def evaluator(exprs: Sequence[Expr]) -> Callable[[Symbols], NDArray[np.int64]]:
    """What gives the values of all expressions in an array."""
    known = np.array([expr.constant() or 0 for expr in exprs], np.int64)
    unknown = [(n, expr) for n, expr in enumerate(exprs) if expr.names()]
    places = [n for n, _ in unknown]

    def evaluate(symbols: Symbols) -> NDArray[np.int64]:
        values = known.copy()
        if places:
            values[places] = [expr.evaluate(symbols) for _, expr in unknown]
        return values

    return evaluate


class Bounded(Generic[Key, Value]):
    """What was made for the last keys that came up; threads may ask at once."""

    def __init__(self, make: Callable[[Key], Value], limit: int):
        self._make, self._limit = make, limit
        self._made: dict[Key, Value] = {}
        self._lock = threading.RLock()

    def get(self, key: Key) -> Value:
        made = self._made.get(key)
        return self._add(key) if made is None else made

    def _add(self, key: Key) -> Value:
        made = self._make(key)
        with self._lock:
            self._made[key] = made
            while len(self._made) > self._limit:
                del self._made[next(iter(self._made))]
        return made
