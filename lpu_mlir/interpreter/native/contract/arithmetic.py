"""Multiplying and adding vectors of the accumulator's type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute

from lpu_mlir.dialects.lpu import element_bytes
from lpu_mlir.dialects.lpu_kernel.types import is_float, ui8
from lpu_mlir.interpreter.native.llvm import (
    Builder,
    Value,
    element_of,
    lanes_of,
    register_type,
    suffix,
    vector,
)


@dataclass(frozen=True)
class Arithmetic:
    """Sums of products in one element type, which operands are widened to exactly."""

    b: Builder
    element: Attribute

    @property
    def type(self) -> str:
        return register_type(self.element)

    def zero(self, lanes: int) -> Value:
        kind = vector(self.type, lanes)
        return Value(kind, "zeroinitializer" if lanes > 1 else "0.0" if self._float else "0")

    @property
    def _float(self) -> bool:
        return is_float(self.element)

    def widen(self, value: Value, element: Attribute) -> Value:
        """A value of the type of an operand, in the accumulator's type."""
        kind = vector(self.type, lanes_of(value.type))
        if value.type == kind:
            return value
        unsigned = element in (i1, ui8)
        how = "fpext" if self._float else "zext" if unsigned else "sext"
        return self.b.op(kind, f"{how} {value} to {kind}")

    def add(self, a: Value, z: Value) -> Value:
        return self.b.op(a.type, f"{'fadd' if self._float else 'add'} {a}, {z.text}")

    def multiply_add(self, a: Value, z: Value, acc: Value) -> Value:
        if self._float:
            return self.b.call(f"llvm.fma.{suffix(acc.type)}", acc.type, [a, z, acc])
        return self.add(acc, self.b.op(acc.type, f"mul {a}, {z.text}"))

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        return self.b.op(yes.type, f"select {condition}, {yes}, {no}")

    def shuffle(self, a: Value, z: Value, lanes: Sequence[int]) -> Value:
        kind = vector(element_of(a.type), len(lanes))
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        return self.b.op(kind, f"shufflevector {a}, {z}, <{len(lanes)} x i32> <{mask}>")

    def interleaved(self, values: Sequence[Value]) -> list[Value]:
        """The first lane of each value, then the second of each, ...: as many vectors as values, a
        power of two of them that is at most the number of lanes."""
        lanes, half = lanes_of(values[0].type), len(values) // 2
        order = [
            n for pair in zip(range(lanes), range(lanes, 2 * lanes), strict=True) for n in pair
        ]
        halves = (order[:lanes], order[lanes:])
        values = list(values)
        for _ in range(len(values).bit_length() - 1):
            pairs = zip(values[:half], values[half:], strict=True)
            values = [self.shuffle(a, z, part) for a, z in pairs for part in halves]
        return values

    # --- sums of lanes --------------------------------------------------------------------------

    def lane_sums(self, values: Sequence[Value]) -> list[Value]:
        """
        The sum of the lanes of each value, as vectors of several sums in order where a group of
        values fills 16 bytes, and as scalars.
        """
        group = 16 // element_bytes(self.element)
        if group > 4 or group > lanes_of(values[0].type):
            return [self._lane_sum(value) for value in values]
        whole = len(values) // group * group
        grouped = [self._group(values[at : at + group]) for at in range(0, whole, group)]
        return [*grouped, *(self._lane_sum(value) for value in values[whole:])]

    def _group(self, values: Sequence[Value]) -> Value:
        """As many vectors as 16 bytes have elements: a vector of the sums of the lanes of each."""
        count = 1
        values = list(values)
        while len(values) > 1:
            pairs = zip(values[::2], values[1::2], strict=True)
            values = [self._interleaved(a, z, count) for a, z in pairs]
            count *= 2
        (total,) = values
        while (lanes := lanes_of(total.type)) > count:
            low = self.shuffle(total, total, range(lanes // 2))
            total = self.add(low, self.shuffle(total, total, range(lanes // 2, lanes)))
        return total

    def _interleaved(self, a: Value, z: Value, count: int) -> Value:
        """
        Two vectors of partial sums of `count` things each, repeating: one of both, within every 16
        bytes: [a0 a1 a0 a1], [z0 z1 z0 z1] become [a0 a1 z0 z1].
        """
        lanes = lanes_of(a.type)
        group = 16 // element_bytes(self.element)
        first: list[int] = []
        for start in range(0, lanes, group):
            for at in range(0, group, 2 * count):
                first += range(start + at // 2, start + at // 2 + count)
                first += range(lanes + start + at // 2, lanes + start + at // 2 + count)
        second = [lane + group // 2 for lane in first]
        return self.add(self.shuffle(a, z, first), self.shuffle(a, z, second))

    def _lane_sum(self, value: Value) -> Value:
        if lanes_of(value.type) == 1:
            return value
        name, start = ("fadd", f"{self.type} -0.0, ") if self._float else ("add", "")
        intrinsic = f"llvm.vector.reduce.{name}.{suffix(value.type)}"
        taken = f"{self.type}, {value.type}" if self._float else value.type
        self.b.declare(intrinsic, f"{self.type} ({taken})")
        flag = "reassoc " if self._float else ""
        return self.b.op(self.type, f"call {flag}{self.type} @{intrinsic}({start}{value})")

    def total(self, values: Sequence[Value]) -> Value:
        return reduce(self.add, values)
