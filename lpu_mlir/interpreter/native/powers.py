"""Roots, powers and remainders of f32 on any number of lanes."""

from __future__ import annotations

from collections.abc import Callable

from lpu_mlir.interpreter.native.elementary import EXP2, INF, NAN
from lpu_mlir.interpreter.native.lanes import Lanes, fma, polynomial, where
from lpu_mlir.interpreter.native.library import unless_rare


def rsqrt(x: Lanes) -> Lanes:
    """1 / sqrt(x), both rounded; also of f64."""
    return _reciprocal(x.root())


# --- powers with a known exponent ---------------------------------------------------------------


def _root(x: Lanes) -> Lanes:
    """sqrt, but that of -0 is 0 and that of -inf is inf."""
    return where(x.equals(-INF), x.like(INF), x.root() + 0.0)


def _reciprocal(x: Lanes) -> Lanes:
    return x.like(1.0) / x


KNOWN_POWERS: dict[float, Callable[[Lanes], Lanes]] = {
    -1.0: _reciprocal,
    -0.5: lambda x: _reciprocal(_root(x)),
    0.5: _root,
    1.0: lambda x: x,
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
}
"""Powers that need at most two roundings, also of f64, by their exponent."""


# --- by logarithms ------------------------------------------------------------------------------

# log2((1 + s) / (1 - s)) = s p(s^2) for |s| < 0.1716, in f64; relative error 2^-35.0.
LOG2 = (
    *(2.8853900817118556, 0.9617967510611107, 0.5770716813633728, 0.4122755010427249),
    0.33099470983807006,
)

ROUND = 1.5 * 2.0**52
"""The same for f64 as that of elementary.py."""

ONE_BITS = 1023 << 52
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
MANTISSA = (1 << 52) - 1
"""Of f64."""


def _log2(x: Lanes) -> Lanes:
    """Of |x| in f64, which holds every f32 as a normal number."""
    size = x.magnitude().widened()
    above = size.bits() - (SQRT_HALF_BITS - ONE_BITS)
    e = (above.high_bits(52) - 1023).to_float("double")
    f = ((above & MANTISSA) + SQRT_HALF_BITS).as_float() - 1.0
    s = f / (f + 2.0)
    result = fma(s, polynomial(s * s, LOG2), e)
    special = where(size.equals(0.0), size.like(-INF), size)
    return where((size > 0.0) & (size < INF), result, special)


def _exp2(x: Lanes) -> Lanes:
    """As f32, of f64."""
    x = x.clamped(-200.0, 200.0)
    shifted = x + (ROUND + 1023)
    r = x - (shifted - (ROUND + 1023))
    power = (shifted.bits() << 52).as_float()
    return (polynomial(r, (1.0, *EXP2)) * power).narrowed()


def pow(x: Lanes, y: Lanes) -> Lanes:
    """2^(y log2(|x|)), of which f64 leaves enough digits for f32."""
    size = _exp2(_log2(x) * y.widened())
    size = where(x.magnitude().equals(1.0) | y.equals(0.0), x.like(1.0), size)
    half, whole = y * 0.5, y.truncated().equals(y)
    odd = whole & half.truncated().differs(half)
    result = where(odd, size.with_sign(x), size)
    undefined = (x < 0.0) & (x > -INF) & y.truncated().differs(y)
    return where(undefined, x.like(NAN), result)


def cbrt(x: Lanes) -> Lanes:
    return _exp2(_log2(x) * (1 / 3)).with_sign(x)


# --- remainders ---------------------------------------------------------------------------------


def fmod(x: Lanes, y: Lanes) -> Lanes:
    """Exact: what an integer times the divisor leaves is a number, and fma rounds only that."""
    size, divisor = x.magnitude(), y.magnitude()
    quotient = size / divisor
    rest = fma(quotient.truncated(), -divisor, size)
    # The quotient may have been rounded up to the next integer.
    rest = where(rest < 0.0, rest + divisor, rest).with_sign(x)
    usual = (quotient < 2.0**22) & (divisor < INF)
    return unless_rare(usual ^ -1, rest, "fmod", x, y)
