"""Inverse circular and hyperbolic functions of f32 on any number of lanes, as in elementary.py."""

from __future__ import annotations

from lpu_mlir.interpreter.native.elementary import LN_2, NAN, PI_HALF, log1p
from lpu_mlir.interpreter.native.lanes import Lanes, fma, polynomial, where

# --- circular -----------------------------------------------------------------------------------

# asin(x) = x + x^3 p(x^2) for |x| < 1 / 2 and atan(x) = x + x^3 p(x^2) for |x| < 1; relative
# errors 2^-27.6 and 2^-25.8.
ASIN = (
    *(0.16666752099990845, 0.0749531015753746, 0.045469019562006, 0.024185502901673317),
    0.04215701296925545,
)
ATAN = (
    *(-0.33333152532577515, 0.19993767142295837, -0.14211003482341766, 0.10665785521268845),
    *(-0.07551723718643188, 0.043205857276916504, -0.01636413298547268, 0.0029197228141129017),
)


def _from_quarter(x: Lanes, factor: float) -> Lanes:
    """pi / 2 + factor * x"""
    return fma(x, factor, PI_HALF[0]) + PI_HALF[1]


def _from_half(x: Lanes, factor: float) -> Lanes:
    """pi + factor * x"""
    return fma(x, factor, 2 * PI_HALF[0]) + 2 * PI_HALF[1]


def _asin_reduced(x: Lanes) -> tuple[Lanes, Lanes]:
    """Whether |x| is above 1 / 2, and asin(y) with y = |x| or else sqrt((1 - |x|) / 2)."""
    size = x.magnitude()
    large = size > 0.5
    square = where(large, (size.like(1.0) - size) * 0.5, size * size)
    y = where(large, square.root(), size)
    return large, fma(y * square, polynomial(square, ASIN), y)


def asin(x: Lanes) -> Lanes:
    large, y = _asin_reduced(x)
    return where(large, _from_quarter(y, -2.0), y).with_sign(x)


def acos(x: Lanes) -> Lanes:
    large, y = _asin_reduced(x)
    far = where(x < 0.0, _from_half(y, -2.0), y + y)
    return where(large, far, _from_quarter(y.with_sign(x), -1.0))


def _atan_of_fraction(x: Lanes) -> Lanes:
    square = x * x
    return fma(x * square, polynomial(square, ATAN), x)


def atan(x: Lanes) -> Lanes:
    """pi / 2 - atan(1 / |x|) above 1."""
    size = x.magnitude()
    large = size > 1.0
    y = _atan_of_fraction(where(large, size.like(1.0) / size, size))
    return where(large, _from_quarter(y, -1.0), y).with_sign(x)


def atan2(y: Lanes, x: Lanes) -> Lanes:
    """The angle of the point (x, y), of which the octant decides."""
    height, width = y.magnitude(), x.magnitude()
    steep = height > width
    smaller, larger = where(steep, width, height), where(steep, height, width)
    # Neither 0 / 0 nor inf / inf is to be NaN.
    fraction = where(larger.equals(smaller), larger.like(1.0), smaller / larger)
    angle = _atan_of_fraction(where(larger.equals(0.0), larger, fraction))
    angle = where(steep, _from_quarter(angle, -1.0), angle)
    angle = where(x.bits() < 0, _from_half(angle, -1.0), angle).with_sign(y)
    return where(x.equals(x) & y.equals(y), angle, x + y)


# --- hyperbolic ---------------------------------------------------------------------------------

HUGE = 2.0**60
"""From here on the square of a number is nearly infinite, and 1 nothing beside it."""


def asinh(x: Lanes) -> Lanes:
    """log(x + sqrt(x^2 + 1))"""
    size = x.magnitude()
    huge = size > HUGE
    more = size * size / (fma(size, size, 1.0).root() + 1.0)
    result = log1p(where(huge, size, size + more))
    return where(huge, result + LN_2, result).with_sign(x)


def acosh(x: Lanes) -> Lanes:
    """log(x + sqrt(x^2 - 1)), by how much x is above 1."""
    huge, above = x > HUGE, x - 1.0
    result = log1p(where(huge, x, above + fma(above, above, above + above).root()))
    return where(x < 1.0, x.like(NAN), where(huge, result + LN_2, result))


def atanh(x: Lanes) -> Lanes:
    """log((1 + |x|) / (1 - |x|)) / 2"""
    size = x.magnitude()
    return (log1p((size + size) / (size.like(1.0) - size)) * 0.5).with_sign(x)
