"""Formulas over the lanes of values, written with Python's operators."""

from __future__ import annotations

from dataclasses import dataclass

from lpu_mlir.interpreter.native.llvm import I1, I32, Builder, Value, element_of, literal, suffix


@dataclass(frozen=True, eq=False)
class Lanes:
    """A value of f32, i32 or i1 while its function is built: operators emit instructions.

    The other operand may be a number, of the same type.  Comparisons with NaN are false.
    """

    b: Builder
    value: Value

    @property
    def _float(self) -> bool:
        return element_of(self.value.type) == "float"

    def like(self, number: float) -> Lanes:
        """That number in as many lanes, of the same type."""
        return Lanes(self.b, literal(self.value.type, number))

    def operand(self, other: Lanes | float) -> Value:
        return other.value if isinstance(other, Lanes) else literal(self.value.type, other)

    def _binary(self, name: str, other: Lanes | float) -> Lanes:
        return Lanes(self.b, self.b.binary(name, self.value, self.operand(other)))

    def _compare(self, name: str, other: Lanes | float) -> Lanes:
        name = f"fcmp o{name}" if self._float else f"icmp s{name}"
        return Lanes(self.b, self.b.compare(name, self.value, self.operand(other)))

    def __add__(self, other: Lanes | float) -> Lanes:
        return self._binary("fadd" if self._float else "add", other)

    def __sub__(self, other: Lanes | float) -> Lanes:
        return self._binary("fsub" if self._float else "sub", other)

    def __mul__(self, other: Lanes | float) -> Lanes:
        return self._binary("fmul" if self._float else "mul", other)

    def __truediv__(self, other: Lanes | float) -> Lanes:
        return self._binary("fdiv", other)

    def __and__(self, other: Lanes | float) -> Lanes:
        return self._binary("and", other)

    def __or__(self, other: Lanes | float) -> Lanes:
        return self._binary("or", other)

    def __xor__(self, other: Lanes | float) -> Lanes:
        return self._binary("xor", other)

    def __lshift__(self, other: int) -> Lanes:
        return self._binary("shl", other)

    def __rshift__(self, other: int) -> Lanes:
        return self._binary("ashr", other)

    def __lt__(self, other: Lanes | float) -> Lanes:
        return self._compare("lt", other)

    def __gt__(self, other: Lanes | float) -> Lanes:
        return self._compare("gt", other)

    def equals(self, other: float) -> Lanes:
        name = "fcmp oeq" if self._float else "icmp eq"
        return Lanes(self.b, self.b.compare(name, self.value, self.like(other).value))

    def bits(self) -> Lanes:
        """Of f32 as i32."""
        return Lanes(self.b, self.b.cast("bitcast", self.value, I32))

    def as_float(self) -> Lanes:
        """The f32 with these bits."""
        return Lanes(self.b, self.b.cast("bitcast", self.value, "float"))

    def to_float(self) -> Lanes:
        """The integers as f32."""
        return Lanes(self.b, self.b.cast("sitofp", self.value, "float"))

    def magnitude(self) -> Lanes:
        return Lanes(self.b, self.b.intrinsic("fabs", self.value))

    def with_sign(self, other: Lanes) -> Lanes:
        return Lanes(self.b, self.b.intrinsic("copysign", self.value, other.value))

    def clamped(self, low: float, high: float) -> Lanes:
        """Between two numbers; NaN stays."""
        return self.at_most(high).at_least(low)

    def at_most(self, high: float) -> Lanes:
        return where(self.like(high) < self, self.like(high), self)

    def at_least(self, low: float) -> Lanes:
        return where(self.like(low) > self, self.like(low), self)

    def any(self) -> Value:
        """Whether one of these i1 holds."""
        if self.value.type == I1:
            return self.value
        return self.b.call(f"llvm.vector.reduce.or.{suffix(self.value.type)}", I1, [self.value])


def where(condition: Lanes, then: Lanes, otherwise: Lanes) -> Lanes:
    """Chosen lane by lane."""
    return Lanes(then.b, then.b.select(condition.value, then.value, otherwise.value))


def fma(x: Lanes, y: Lanes | float, z: Lanes | float) -> Lanes:
    """x * y + z, rounded once."""
    return Lanes(x.b, x.b.intrinsic("fma", x.value, x.operand(y), x.operand(z)))


def polynomial(x: Lanes, coefficients: tuple[float, ...]) -> Lanes:
    """c[0] + c[1] * x + c[2] * x * x + ..., from the highest power on."""
    *rest, highest = coefficients
    total = x.like(highest)
    for coefficient in reversed(rest):
        total = fma(total, x, coefficient)
    return total
