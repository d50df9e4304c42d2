"""Formulas over the lanes of values, written with Python's operators."""

from __future__ import annotations

from dataclasses import dataclass

from lpu_mlir.interpreter.native.llvm import (
    I1,
    I32,
    I64,
    Builder,
    Value,
    element_of,
    literal,
    suffix,
)


@dataclass(frozen=True, eq=False)
class Lanes:
    """A value of floats, integers or i1 while its function is built: operators emit instructions.

    The other operand may be a number, of the same type.  Comparisons with NaN are false.
    """

    b: Builder
    value: Value

    @property
    def _float(self) -> bool:
        return element_of(self.value.type) in ("float", "double")

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

    def equals(self, other: Lanes | float) -> Lanes:
        name = "fcmp oeq" if self._float else "icmp eq"
        return Lanes(self.b, self.b.compare(name, self.value, self.operand(other)))

    def differs(self, other: Lanes | float) -> Lanes:
        """True if one is NaN."""
        name = "fcmp une" if self._float else "icmp ne"
        return Lanes(self.b, self.b.compare(name, self.value, self.operand(other)))

    def __neg__(self) -> Lanes:
        return Lanes(self.b, self.b.op(self.value.type, f"fneg {self.value}"))

    def _cast(self, name: str, element: str) -> Lanes:
        return Lanes(self.b, self.b.cast(name, self.value, element))

    def bits(self) -> Lanes:
        """Of a float as an integer."""
        return self._cast("bitcast", I32 if element_of(self.value.type) == "float" else I64)

    def as_float(self) -> Lanes:
        """The float with these bits."""
        return self._cast("bitcast", "float" if element_of(self.value.type) == I32 else "double")

    def high_bits(self, from_bit: int) -> Lanes:
        """Of an integer without a sign, from some bit on, as i32."""
        return self._binary("lshr", from_bit)._cast("trunc", I32)

    def to_float(self, element: str = "float") -> Lanes:
        """The integers as floats."""
        return self._cast("sitofp", element)

    def widened(self) -> Lanes:
        """f32 as f64."""
        return self._cast("fpext", "double")

    def narrowed(self) -> Lanes:
        """f64 as f32."""
        return self._cast("fptrunc", "float")

    def _intrinsic(self, name: str, *others: Lanes) -> Lanes:
        others_values = (other.value for other in others)
        return Lanes(self.b, self.b.intrinsic(name, self.value, *others_values))

    def magnitude(self) -> Lanes:
        return self._intrinsic("fabs")

    def truncated(self) -> Lanes:
        """The integer towards zero, as a float."""
        return self._intrinsic("trunc")

    def root(self) -> Lanes:
        return self._intrinsic("sqrt")

    def with_sign(self, other: Lanes) -> Lanes:
        return self._intrinsic("copysign", other)

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
