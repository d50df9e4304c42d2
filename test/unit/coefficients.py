"""The polynomials of lpu_mlir/interpreter/native/elementary.py; `scripts/coefficients` runs this.

Each is close to a function over an interval, so that the largest weighted error is as small as it
can be with coefficients of that precision: the lowest is found with all others free, rounded, and
then the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
from numpy.typing import NDArray

Real = Callable[[mp.mpf], mp.mpf]
Numbers = NDArray[np.float64]

NODES, ROUNDS = 1500, 60


@dataclass(frozen=True)
class Problem:
    """`function` as `start` plus the sum of c * x**power; errors are multiplied by `weight`."""

    name: str
    function: Real
    start: Real
    weight: Real
    interval: tuple[float, float]
    powers: Sequence[int]
    precision: type[np.floating[Any]] = np.float32


def relative(function: Real) -> Real:
    return lambda x: 1 / function(x)


def two_to(x: mp.mpf) -> mp.mpf:
    return mp.mpf(2) ** x


def erf_exponent(x: mp.mpf) -> mp.mpf:
    return -mp.log(mp.erfc(x), 2)


def erf_weight(x: mp.mpf) -> mp.mpf:
    """How much an error of the exponent matters for erf, relative to it."""
    left = two_to(-erf_exponent(x))
    return mp.log(2) * left / (1 - left)


def log2_ratio(x: mp.mpf) -> mp.mpf:
    return mp.log((1 + x) / (1 - x), 2)


# A little further than the functions use them, as rounding moves the ends.
NEAR_0 = (-float(mp.log(2)) / 2 * 1.001, float(mp.log(2)) / 2 * 1.001)
NEAR_1 = (2**-0.5 - 1, 2**0.5 - 1)
QUARTER_PI = float(mp.pi) / 4 * 1.001
TINY = 1e-6
RATIO = (TINY, float((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)))
FROM_4 = range(4, 10, 2)

PROBLEMS = [
    Problem("EXP", mp.exp, lambda x: 1 + x, relative(mp.exp), NEAR_0, range(2, 7)),
    Problem("EXPM1", mp.expm1, lambda x: x, relative(mp.expm1), NEAR_0, range(2, 7)),
    Problem("EXP2", two_to, lambda x: mp.mpf(1), relative(two_to), (-0.5005, 0.5005), range(1, 7)),
    Problem("TANH", mp.tanh, lambda x: x, relative(mp.tanh), (TINY, 0.55), range(3, 11, 2)),
    Problem("ERF", erf_exponent, lambda x: mp.mpf(0), erf_weight, (TINY, 3.95), range(1, 10)),
    Problem("LOG1P", mp.log1p, lambda x: x - x * x / 2, relative(mp.log1p), NEAR_1, range(3, 11)),
    Problem("SIN", mp.sin, lambda x: x, relative(mp.sin), (TINY, QUARTER_PI), range(3, 9, 2)),
    Problem("SINH", mp.sinh, lambda x: x, relative(mp.sinh), (TINY, 1.0), range(3, 11, 2)),
    Problem("ASIN", mp.asin, lambda x: x, relative(mp.asin), (TINY, 0.5), range(3, 13, 2)),
    Problem("ATAN", mp.atan, lambda x: x, relative(mp.atan), (TINY, 1.0), range(3, 19, 2)),
    Problem(
        *("LOG2", log2_ratio, lambda x: mp.mpf(0), relative(log2_ratio)),
        *(RATIO, range(1, 11, 2), np.float64),
    ),
    Problem("COS", mp.cos, lambda x: 1 - x * x / 2, relative(mp.cos), (TINY, QUARTER_PI), FROM_4),
]


def minimax(terms: Numbers, values: Numbers, weights: Numbers) -> Numbers:
    """Coefficients whose largest error is least: least squares, where large errors count more from
    one round to the next (Lawson's algorithm)."""
    sizes = np.abs(terms).max(axis=0)
    terms = terms / sizes
    shares = np.ones(len(values)) / len(values)
    best, least = np.zeros(terms.shape[1]), np.inf
    for _ in range(ROUNDS):
        scale = np.sqrt(shares) * weights
        found = np.linalg.lstsq(terms * scale[:, None], values * scale, rcond=None)[0]
        error = np.abs((terms @ found - values) * weights)
        if error.max() < least:
            best, least = found, error.max()
        shares *= error
        shares /= shares.sum()
    return best / sizes


def samples(problem: Problem) -> tuple[Numbers, Numbers, Numbers]:
    """Points of the interval, dense at its ends, what the powers are to sum up to, and weights."""
    low, high = problem.interval
    x = (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    points = [mp.mpf(float(v)) for v in x]
    values = [float(problem.function(p) - problem.start(p)) for p in points]
    return x, np.array(values), np.array([float(problem.weight(p)) for p in points])


def solve(problem: Problem) -> list[float]:
    x, values, weights = samples(problem)
    coefficients: list[float] = []
    for done, power in enumerate(problem.powers):
        terms = np.stack([x**p for p in problem.powers[done:]], 1)
        coefficients.append(float(problem.precision(minimax(terms, values, weights)[0])))
        values = values - coefficients[-1] * x**power
    return coefficients


def largest_error(problem: Problem, coefficients: Sequence[float]) -> float:
    x, values, weights = samples(problem)
    total = sum(c * x**power for c, power in zip(coefficients, problem.powers, strict=True))
    return float(np.abs((total - values) * weights).max())


def main() -> None:
    for problem in PROBLEMS:
        coefficients = solve(problem)
        error = np.log2(largest_error(problem, coefficients))
        print(f"{problem.name} = {tuple(coefficients)}  # 2^{error:.1f}")


if __name__ == "__main__":
    main()
