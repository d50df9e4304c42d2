"""Elementary functions of f32 on any number of lanes, as LLVM text.

The argument is brought near zero, where a polynomial is close to the function.  All are right for
NaN, infinities, both zeros and subnormal numbers; docs/numerics.md tells how far they are from the
true value elsewhere.

The coefficients are printed by `scripts/coefficients`: they minimise the largest relative error of
the result over the interval where they are used, given that each is an f32.  The other constants
are parts of log(2), pi and their reciprocals.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi

from lpu_mlir.interpreter.native.lanes import Lanes, fma, polynomial, where
from lpu_mlir.interpreter.native.library import unless_rare

INF, NAN = float("inf"), float("nan")


# --- exponentials -------------------------------------------------------------------------------

LOG2_E = 1.4426950408889634
LN_2, LN_2_REST = 0.6931471824645996, -1.9046542121259336e-09
"""log(2) as an f32, and what that lacks."""

ROUND = 12582912.0
"""1.5 * 2 ** 23: a smaller number added to it is rounded to an integer, by which the bits of the
sum are larger than those of this."""

# exp(r) = 1 + r + r^2 p(r) and exp(r) - 1 = r + r^2 p(r) for |r| < log(2) / 2, and
# 2^r - 1 = r p(r) for |r| < 1 / 2; relative errors 2^-28.2, 2^-26.1 and 2^-28.3.
EXP = (
    *(0.4999999403953552, 0.1666652113199234, 0.04166827350854874, 0.008368685841560364),
    0.001382013550028205,
)
EXPM1 = (
    *(0.4999999701976776, 0.1666654646396637, 0.04166743531823158, 0.00836627185344696),
    0.0013870695838704705,
)
EXP2 = (
    *(0.6931471824645996, 0.24022647738456726, 0.05550359562039375, 0.009618503041565418),
    *(0.0013390997191891074, 0.00015327802975662053),
)


def _rounded_to_integer(x: Lanes, factor: float, bias: int) -> tuple[Lanes, Lanes]:
    """The integer next to x * factor, as f32, and bits whose low ones are that of it plus bias."""
    shifted = fma(x, factor, ROUND + bias)
    return shifted - (ROUND + bias), shifted.bits()


def _without_multiple(x: Lanes, n: Lanes, part: float = 1.0) -> Lanes:
    """x - n * log(2) * part, for a power of two as part."""
    return fma(n, -LN_2_REST * part, fma(n, -LN_2 * part, x))


def _scaled(x: Lanes, bits: Lanes) -> Lanes:
    """x * 2^n where bits end in n + 254, by two powers of which each is a normal number."""
    first = bits << 22 & 0x7F800000
    second = (bits << 23) - first
    return x * first.as_float() * second.as_float()


def exp(x: Lanes) -> Lanes:
    x = x.clamped(-104.0, 89.0)
    n, bits = _rounded_to_integer(x, LOG2_E, 254)
    r = _without_multiple(x, n)
    return _scaled(polynomial(r, (1.0, 1.0, *EXP)), bits)


def exp2(x: Lanes) -> Lanes:
    x = x.clamped(-151.0, 129.0)
    n, bits = _rounded_to_integer(x, 1.0, 254)
    return _scaled(polynomial(x - n, (1.0, *EXP2)), bits)


def expm1(x: Lanes) -> Lanes:
    """2^n (exp(r) - 1) + (2^n - 1), of which half is computed: 2^128 is not a number."""
    clamped = x.clamped(-20.0, 89.0)
    n, bits = _rounded_to_integer(clamped, LOG2_E, 126)
    r = _without_multiple(clamped, n)
    half = (bits << 23).as_float()
    result = fma(half, fma(r * r, polynomial(r, EXPM1), r), half - 0.5)
    return where(x.magnitude() < 2.0**-25, x, result + result)


# sinh(x) = x + x^3 p(x^2) for |x| < 1; relative error 2^-31.6.
SINH = (0.1666666716337204, 0.00833331048488617, 0.00019842895562760532, 2.7822131869470468e-06)


def _half_exp(x: Lanes) -> Lanes:
    """exp(|x|) / 2, which is a number for some x for which exp(x) is not."""
    x = x.magnitude().at_most(90.0)
    n, bits = _rounded_to_integer(x, LOG2_E, 254)
    r = _without_multiple(x, n)
    return _scaled(polynomial(r, (0.5, 0.5, *(c / 2 for c in EXP))), bits)


def cosh(x: Lanes) -> Lanes:
    half = _half_exp(x)
    return half + half.like(0.25) / half


def sinh(x: Lanes) -> Lanes:
    half, square = _half_exp(x), x * x
    far = (half - half.like(0.25) / half).with_sign(x)
    return where(x.magnitude() < 1.0, fma(x * square, polynomial(square, SINH), x), far)


TANH_SMALL = 0.55

# tanh(x) = x + x^3 p(x^2) for |x| < 0.55; relative error 2^-24.7.
TANH = (-0.3333294689655304, 0.1332072913646698, -0.05267200991511345, 0.01643787883222103)


def tanh(x: Lanes) -> Lanes:
    """1 - 2 / (exp(2 |x|) + 1), by r as half of what is left of 2 |x|, but near 0."""
    size = x.magnitude().at_most(10.0)
    n, bits = _rounded_to_integer(size, 2 * LOG2_E, 127)
    r = _without_multiple(size, n, 0.5)
    coefficients = tuple(c * 2.0**k for k, c in enumerate((1.0, 1.0, *EXP)))
    power = fma((bits << 23).as_float(), polynomial(r, coefficients), 1.0)
    far = x.like(1.0) - x.like(2.0) / power
    square = size * size
    near = fma(size * square, polynomial(square, TANH), size)
    return where(size < TANH_SMALL, near, far).with_sign(x)


# -log2(1 - erf(x)) = x p(x) for 0 <= x < 3.95; relative error of erf 2^-27.4.
ERF = (
    *(1.6279070377349854, 0.9184474349021912, 0.14827924966812134, -0.027641579508781433),
    *(-0.00021148283849470317, 0.0023832162842154503, -0.0009002197184599936),
    *(0.00016594679618719965, -1.291435273742536e-05),
)


def erf(x: Lanes) -> Lanes:
    """1 - 2^(-y(|x|)) with y as a polynomial, as 1 - 2^n - 2^n (2^r - 1)."""
    size = x.magnitude().at_most(3.95)
    y = fma(size, ERF[0], size * size * polynomial(size, ERF[1:]))
    n, bits = _rounded_to_integer(y, -1.0, 127)
    r = y + n
    power = (bits << 23).as_float()
    coefficients = tuple(c * (-1.0) ** k for k, c in enumerate(EXP2))
    rest = fma(r, EXP2[0], r * r * polynomial(r, coefficients[1:]))
    return fma(power, rest, power.like(1.0) - power).with_sign(x)


# --- logarithms ---------------------------------------------------------------------------------

# log(1 + f) = f - f^2 / 2 + f^3 p(f) for sqrt(1 / 2) <= 1 + f < sqrt(2); relative error 2^-27.4.
LOG1P = (
    *(0.3333333134651184, -0.2500081956386566, 0.2000124156475067, -0.166234090924263),
    *(0.14201581478118896, -0.1315961331129074, 0.12762199342250824, -0.07636399567127228),
)
SQRT_HALF_BITS = 0x3F3504F3
"""Of the f32 next to sqrt(1 / 2)."""
SMALLEST_NORMAL = 2.0**-126


def _of_fraction(f: Lanes) -> Lanes:
    """What log(1 + f) is more than f."""
    return f * f * polynomial(f, (-0.5, *LOG1P))


def _fraction(bits: Lanes) -> tuple[Lanes, Lanes]:
    """A positive normal number as 2^e (1 + f) with 1 + f about 1: e as an integer, and f."""
    above = bits - SQRT_HALF_BITS
    mantissa = (above & 0x007FFFFF) + SQRT_HALF_BITS
    return above >> 23, mantissa.as_float() - 1.0


def _defined(x: Lanes, zero: float, result: Lanes) -> Lanes:
    """The logarithm of numbers above `zero`: -inf there, NaN below; NaN and inf stay."""
    below = where(x < zero, x.like(NAN), x)
    special = where(x.equals(zero), x.like(-INF), below)
    return where((x > zero) & (x < INF), result, special)


def _logarithm(x: Lanes, finish: Callable[[Lanes, Lanes], Lanes]) -> Lanes:
    """By a function of e and f where x = 2^e (1 + f)."""
    subnormal = x < SMALLEST_NORMAL
    e, f = _fraction(where(subnormal, x * 2.0**23, x).bits())
    e = e.to_float()
    return _defined(x, 0.0, finish(where(subnormal, e - 23.0, e), f))


def _natural(e: Lanes, f: Lanes) -> Lanes:
    return fma(e, LN_2, fma(e, LN_2_REST, _of_fraction(f)) + f)


def log(x: Lanes) -> Lanes:
    return _logarithm(x, _natural)


def log1p(x: Lanes) -> Lanes:
    """By 1 + x, and what is lost when that is rounded."""
    sum = x + 1.0
    e, f = _fraction(sum.bits())
    # From 2^24 on nothing is lost that matters, so the scale need not be right there.
    scale = (e.like(0x3F800000) - (e.at_most(100) << 23)).as_float()
    f = fma(x - (sum - 1.0), scale, f)
    return _defined(x, -1.0, _natural(e.to_float(), f)).with_sign(x)


LOG2_E_HIGH, LOG2_E_REST = 1.4426950216293335, 1.925963033500011e-08
LOG10_E, LOG10_E_REST = 0.4342944920063019, -1.0103049952192578e-08
LOG10_2, LOG10_2_REST = 0.3010300099849701, -1.432098883924482e-08
"""Logarithms to other bases as an f32 each, and what that lacks."""


def log2(x: Lanes) -> Lanes:
    def finish(e: Lanes, f: Lanes) -> Lanes:
        rest = fma(_of_fraction(f), LOG2_E_HIGH, f * LOG2_E_REST)
        return e + fma(f, LOG2_E_HIGH, rest)

    return _logarithm(x, finish)


def log10(x: Lanes) -> Lanes:
    def finish(e: Lanes, f: Lanes) -> Lanes:
        rest = fma(_of_fraction(f), LOG10_E, f * LOG10_E_REST)
        return fma(e, LOG10_2, fma(e, LOG10_2_REST, fma(f, LOG10_E, rest)))

    return _logarithm(x, finish)


# --- circular functions -------------------------------------------------------------------------

PI_HALF = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
"""pi / 2 as the sum of three f32."""

FAR = 1e5
"""As far as the remainder of a division by pi / 2 is accurate with that."""

# sin(r) = r + r^3 p(r^2) and cos(r) = 1 - r^2 / 2 + r^4 p(r^2) for |r| <= pi / 4; relative errors
# 2^-27.9 and 2^-33.0.
SIN = (-0.16666655242443085, 0.008332187309861183, -0.00019517907639965415)
COS = (0.04166664555668831, -0.0013887309469282627, 2.4432336431345902e-05)

SIGN = -(1 << 31)
"""The bit of the sign of an f32."""


def _sine_and_cosine(x: Lanes, quadrants: int) -> tuple[Lanes, Lanes, Lanes]:
    """Of what x is more than a multiple of pi / 2; and bits whose low ones are those of the
    multiple plus `quadrants`."""
    n, bits = _rounded_to_integer(x, 2 / pi, quadrants)
    r = x
    for part in PI_HALF:
        r = fma(n, -part, r)
    square = r * r
    sine = fma(r * square, polynomial(square, SIN), r)
    return sine, polynomial(square, (1.0, -0.5, *COS)), bits


def _sine(x: Lanes, quadrants: int) -> Lanes:
    """The sine of |x| + quadrants * pi / 2."""
    sine, cosine, bits = _sine_and_cosine(x.magnitude(), quadrants)
    result = where((bits & 1).equals(0), sine, cosine)
    return (result.bits() ^ (bits << 30 & SIGN)).as_float()


def sin(x: Lanes) -> Lanes:
    near = (_sine(x, 0).bits() ^ (x.bits() & SIGN)).as_float()
    return unless_rare(x.magnitude() > FAR, near, "sin", x)


def cos(x: Lanes) -> Lanes:
    return unless_rare(x.magnitude() > FAR, _sine(x, 1), "cos", x)


def tan(x: Lanes) -> Lanes:
    """In odd quadrants the negative reciprocal of the tangent of what is left."""
    sine, cosine, bits = _sine_and_cosine(x.magnitude(), 0)
    odd = (bits & 1).differs(0)
    near = where(odd, -cosine, sine) / where(odd, sine, cosine)
    near = (near.bits() ^ (x.bits() & SIGN)).as_float()
    return unless_rare(x.magnitude() > FAR, near, "tan", x)
