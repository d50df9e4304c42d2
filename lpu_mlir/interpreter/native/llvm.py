"""LLVM text, one function at a time: values, address arithmetic that folds, and loops.

A `Builder` knows nothing of kernels.  Integers known while emitting stay Python integers, so that
what is static in a kernel is a constant in its code.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
)
from xdsl.ir import Attribute

from lpu_mlir.dialects.lpu import element_bytes


@dataclass(frozen=True)
class Value:
    """An LLVM value: its type and how it is written."""

    type: str
    text: str

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


Int: TypeAlias = "int | Value"
"""An i64: known now, or a value."""

I1, I8, I32, I64, PTR = "i1", "i8", "i32", "i64", "ptr"
FALSE, TRUE = Value(I1, "false"), Value(I1, "true")


def register_type(element: Attribute) -> str:
    """The LLVM type of one element in a register; bf16 is `bfloat`, i1 is `i1`."""
    match element:
        case Float32Type():
            return "float"
        case Float64Type():
            return "double"
        case Float16Type():
            return "half"
        case BFloat16Type():
            return "bfloat"
        case IndexType():
            return I64
        case IntegerType():
            return f"i{element.width.data}"
        case _:
            raise NotImplementedError(f"kernels do not compute with {element}")


def memory_type(element: Attribute) -> str:
    """The LLVM type of one element in memory: as in a register, but a byte for i1."""
    return I8 if register_type(element) == I1 else register_type(element)


def vector(element: str, lanes: int) -> str:
    """So many elements in one register; a plain scalar for one lane."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


def element_of(type: str) -> str:
    """The element type of a vector type, or the scalar type itself."""
    return type.split(" x ")[1][:-1] if type.startswith("<") else type


def lanes_of(type: str) -> int:
    return int(type[1:].split(" ")[0]) if type.startswith("<") else 1


def retyped(type: str, element: str) -> str:
    """The type of as many lanes of another element."""
    return vector(element, lanes_of(type))


_INTRINSIC_SUFFIX = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64", "ptr": "p0"}


def suffix(type: str) -> str:
    """How the name of an intrinsic ends for a type: `v16f32`."""
    element, lanes = element_of(type), lanes_of(type)
    name = _INTRINSIC_SUFFIX.get(element, element)
    return name if lanes == 1 else f"v{lanes}{name}"


# --- literals -----------------------------------------------------------------------------------


def literal(type: str, number: float) -> Value:
    """A number in every lane, rounded to the type if it is one of floats."""
    element, lanes = element_of(type), lanes_of(type)
    text = (
        _FLOAT_TEXT[element](number) if element in _FLOAT_TEXT else _integer_text(element, number)
    )
    return Value(type, text if lanes == 1 else f"splat ({element} {text})")


def known(value: Value) -> float | None:
    """The number that a `literal` of floats was made of, as it was rounded."""
    element = element_of(value.type)
    text = value.text.removeprefix(f"splat ({element} ").removesuffix(")")
    if element not in _FLOAT_TEXT or not text.startswith("0x"):
        return None
    match element:
        case "half":
            return struct.unpack(">e", bytes.fromhex(text[3:]))[0]
        case "bfloat":
            return struct.unpack(">f", bytes.fromhex(f"{text[3:]}0000"))[0]
        case _:
            return struct.unpack(">d", bytes.fromhex(text[2:]))[0]


def _integer_text(element: str, number: float) -> str:
    """With its sign, wrapped around to the width."""
    if element == I1:
        return "true" if int(number) & 1 else "false"
    width = int(element[1:])
    return str((int(number) + (1 << width - 1)) % (1 << width) - (1 << width - 1))


def _rounded(number: float, code: str) -> bytes:
    """The bytes of a number in the format of `struct`; infinite if too large for it."""
    try:
        return struct.pack(f">{code}", number)
    except OverflowError:
        return struct.pack(f">{code}", float("inf") if number > 0 else float("-inf"))


def _bfloat(number: float) -> int:
    """The bits of the nearest bf16 to the nearest f32."""
    bits = int.from_bytes(_rounded(number, "f"))
    return bits >> 16 | 0x40 if number != number else bits + 0x7FFF + (bits >> 16 & 1) >> 16


_FLOAT_TEXT: dict[str, Callable[[float], str]] = {
    "half": lambda number: f"0xH{_rounded(number, 'e').hex().upper()}",
    "bfloat": lambda number: f"0xR{_bfloat(number):04X}",
    # LLVM writes f32 as the f64 that is equal to it.
    "float": lambda number: (
        f"0x{_rounded(struct.unpack('>f', _rounded(number, 'f'))[0], 'd').hex()}"
    ),
    "double": lambda number: f"0x{_rounded(number, 'd').hex()}",
}


@dataclass
class Module:
    """What the functions of one LLVM module share: declarations and helper functions, by name."""

    declarations: dict[str, str] = field(default_factory=dict[str, str])
    definitions: dict[str, str] = field(default_factory=dict[str, str])

    def text(self) -> str:
        parts = [*self.definitions.values(), *self.declarations.values()]
        return "\n\n".join(parts) + "\n"


class Loop:
    """A loop being built: its index, what it carries, and after it, the results."""

    def __init__(self, index: Value, carried: Sequence[Value]):
        self.index, self.carried = index, list(carried)
        self.next = list(carried)
        self.results: list[Value] = []

    def carry(self, values: Iterable[Value]) -> None:
        """What the next iteration gets, or what the loop results in."""
        self.next = list(values)


class Builder:
    """The body of one function."""

    def __init__(self, module: Module):
        self.module = module
        self.lines: list[str] = ["entry:"]
        self._block = "entry"
        self._count = 0

    # --- basics ---------------------------------------------------------------------------------

    def fresh(self, prefix: str = "v") -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def emit(self, line: str) -> None:
        self.lines.append(f"  {line}")

    def op(self, type: str, text: str) -> Value:
        """An instruction with a result of this type: `b.op("i64", "add i64 %a, %b")`."""
        name = f"%{self.fresh()}"
        self.emit(f"{name} = {text}")
        return Value(type, name)

    def declare(self, name: str, signature: str) -> None:
        """A function defined elsewhere, as in `b.declare("expf", "float (float)")`."""
        result, arguments = signature.split(" (", 1)
        self.module.declarations.setdefault(name, f"declare {result} @{name}({arguments}")

    def call(self, name: str, type: str, operands: Sequence[Value]) -> Value:
        """A call of a function with a result; declares LLVM's own."""
        if name.startswith("llvm."):
            self.declare(name, f"{type} ({', '.join(value.type for value in operands)})")
        return self.op(type, f"call {type} @{name}({', '.join(map(str, operands))})")

    def call_void(self, name: str, operands: Sequence[Value]) -> None:
        if name.startswith("llvm."):
            self.declare(name, f"void ({', '.join(value.type for value in operands)})")
        self.emit(f"call void @{name}({', '.join(map(str, operands))})")

    # --- all lanes at once ----------------------------------------------------------------------

    def binary(self, name: str, x: Value, y: Value) -> Value:
        """An instruction on two operands with a result of their type."""
        return self.op(x.type, f"{name} {x}, {y.text}")

    def cast(self, name: str, x: Value, element: str) -> Value:
        """A conversion of every lane: `b.cast("fpext", x, "float")`."""
        kind = retyped(x.type, element)
        return self.op(kind, f"{name} {x} to {kind}")

    def compare(self, comparison: str, x: Value, y: Value) -> Value:
        """An i1 for every lane: `b.compare("icmp eq", x, y)`."""
        return self.op(retyped(x.type, I1), f"{comparison} {x}, {y.text}")

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        return self.op(x.type, f"select {condition}, {x}, {y}")

    def intrinsic(self, name: str, *operands: Value) -> Value:
        """LLVM's own function of that name for the type of the first operand, and with that type
        as its result."""
        kind = operands[0].type
        return self.call(f"llvm.{name}.{suffix(kind)}", kind, operands)

    # --- integers -------------------------------------------------------------------------------

    def value(self, number: Int) -> Value:
        return number if isinstance(number, Value) else Value(I64, str(number))

    def _fold(self, name: str, a: Int, b: Int) -> Value:
        return self.op(I64, f"{name} i64 {self.value(a).text}, {self.value(b).text}")

    def add(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self._fold("add nsw", a, b)

    def sub(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if b == 0 else self._fold("sub nsw", a, b)

    def mul(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 0 or b == 0:
            return 0
        if a == 1 or b == 1:
            return b if a == 1 else a
        return self._fold("mul nsw", a, b)

    def minimum(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self.call("llvm.smin.i64", I64, [self.value(a), self.value(b)])

    def maximum(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return self.call("llvm.smax.i64", I64, [self.value(a), self.value(b)])

    def floor_divide(self, a: Int, b: Int) -> Int:
        """Rounds down; the divisor must not be 0."""
        if isinstance(a, int) and isinstance(b, int):
            return a // b
        if isinstance(b, int) and b < 0:
            return self.floor_divide(self.sub(0, a), -b)
        if b == 1:
            return a
        if isinstance(b, int) and b & (b - 1) == 0:
            return self._fold("ashr", a, b.bit_length() - 1)
        quotient, rest = self._fold("sdiv", a, b), self._fold("srem", a, b)
        signs = self._fold("xor", rest, b)
        differ, left = self.less(signs, 0), self.op(I1, f"icmp ne {rest}, 0")
        rounded = self.op(I1, f"and {differ}, {left.text}")
        return self.sub(quotient, self.op(I64, f"zext {rounded} to i64"))

    def round_down(self, a: Int, multiple: int) -> Int:
        """The largest multiple that is not above a number of 0 or more."""
        if isinstance(a, int):
            return a // multiple * multiple
        if multiple & (multiple - 1) == 0:
            return self._fold("and", a, -multiple)
        return self.mul(self._fold("udiv", a, multiple), multiple)

    def less(self, a: Int, b: Int) -> Value:
        return self.op(I1, f"icmp slt {self.value(a)}, {self.value(b).text}")

    # --- memory ---------------------------------------------------------------------------------

    def address(self, base: Value, offset: Int, element: Attribute) -> Value:
        """The address of an element, counted in elements from a base."""
        if offset == 0:
            return base
        kind, index = memory_type(element), self.value(offset)
        return self.op(PTR, f"getelementptr inbounds {kind}, ptr {base.text}, {index}")

    def load(
        self, address: Value, element: Attribute, lanes: int = 1, *, aligned: int = 0
    ) -> Value:
        """Consecutive elements, aligned to so many bytes, or to the element's own size."""
        kind = vector(memory_type(element), lanes)
        loaded = self.op(kind, f"load {kind}, {address}, align {aligned or element_bytes(element)}")
        return self.from_memory(loaded, element, lanes)

    def store(self, value: Value, address: Value, element: Attribute) -> None:
        stored = self.to_memory(value, element)
        self.emit(f"store {stored}, {address}, align {element_bytes(element)}")

    def store_past_caches(self, value: Value, address: Value, element: Attribute) -> None:
        """A store that does not read what it replaces, where the address is aligned to the whole
        vector; other threads see it after a `fence`."""
        stored, name = self.to_memory(value, element), self.fresh("store")
        size = element_bytes(element) * lanes_of(stored.type)
        self.module.declarations["!nontemporal"] = "!0 = !{i32 1}"
        low = self.op(I64, f"and i64 {self.op(I64, f'ptrtoint {address} to i64').text}, {size - 1}")
        aligned = self.op(I1, f"icmp eq {low}, 0")
        self.emit(f"br {aligned}, label %{name}.past, label %{name}.plain")
        self.start_block(f"{name}.past")
        self.emit(f"store {stored}, {address}, align {size}, !nontemporal !0")
        self.emit(f"br label %{name}.end")
        self.start_block(f"{name}.plain")
        self.emit(f"store {stored}, {address}, align {element_bytes(element)}")
        self.emit(f"br label %{name}.end")
        self.start_block(f"{name}.end")

    def fence(self) -> None:
        """What has been written past the caches comes before what follows; free if nothing has."""
        if "!nontemporal" in self.module.declarations:
            self.emit("fence seq_cst")

    def prefetch(self, address: Value, *, once: bool = False) -> None:
        """Bring memory that will be read soon nearer, in the caches only until then if it is read
        `once`; the address may lie outside of everything."""
        nearness = "0" if once else "2"  # of 3; 2 is L2
        how = [Value("i32", "0"), Value("i32", nearness), Value("i32", "1")]  # read, ..., data
        self.declare("llvm.prefetch.p0", "void (ptr, i32, i32, i32)")
        self.call_void("llvm.prefetch.p0", [address, *how])

    def from_memory(self, loaded: Value, element: Attribute, lanes: int) -> Value:
        """Elements as loaded to elements in registers."""
        if register_type(element) != I1:
            return loaded
        zero = "0" if lanes == 1 else "zeroinitializer"
        return self.op(vector(I1, lanes), f"icmp ne {loaded}, {zero}")

    def to_memory(self, value: Value, element: Attribute) -> Value:
        """Elements in registers to elements as stored."""
        if register_type(element) != I1:
            return value
        kind = vector(I8, lanes_of(value.type))
        return self.op(kind, f"zext {value} to {kind}")

    def opaque(self, value: Int) -> Value:
        """An i64 of which LLVM knows nothing."""
        return self.op(I64, f'call i64 asm "", "=r,0"(i64 {self.value(value).text})')

    # --- vectors --------------------------------------------------------------------------------

    def splat(self, value: Value, lanes: int) -> Value:
        """A scalar in every lane."""
        if lanes == 1 or lanes_of(value.type) == lanes:
            return value
        kind = vector(value.type, lanes)
        if not value.text.startswith("%"):
            return Value(kind, f"splat ({value})")
        first = self.op(kind, f"insertelement {kind} poison, {value}, i64 0")
        return self.op(
            kind,
            f"shufflevector {first}, {kind} poison, <{lanes} x i32> zeroinitializer",
        )

    def extract(self, value: Value, lane: int) -> Value:
        if lanes_of(value.type) == 1:
            return value
        return self.op(element_of(value.type), f"extractelement {value}, i64 {lane}")

    def insert(self, into: Value, value: Value, lane: int) -> Value:
        return self.op(into.type, f"insertelement {into}, {value}, i64 {lane}")

    def lane_numbers(self, lanes: int) -> Value:
        """0, 1, 2, ... as i64."""
        if lanes == 1:
            return Value(I64, "0")
        return Value(vector(I64, lanes), f"<{', '.join(f'i64 {n}' for n in range(lanes))}>")

    # --- control --------------------------------------------------------------------------------

    def start_block(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self._block = name

    @contextmanager
    def loop(
        self, lower: Int, upper: Int, step: Int = 1, carried: Sequence[Value] = ()
    ) -> Generator[Loop]:
        """A loop from `lower` to below `upper`; it may make no trip.

        ```python
        with b.loop(0, n, 16, [acc]) as loop:
            loop.carry([b.op(...loop.index... loop.carried[0]...)])
        total = loop.results[0]
        ```
        """
        name, before = self.fresh("loop"), self._block
        index = Value(I64, f"%{name}.i")
        inside = [Value(v.type, f"%{name}.c{n}") for n, v in enumerate(carried)]
        loop = Loop(index, inside)
        first = self.value(lower)
        self.emit(f"br label %{name}.head")
        self.start_block(f"{name}.head")
        head = len(self.lines)
        more = self.less(index, upper)
        self.emit(f"br {more}, label %{name}.body, label %{name}.end")
        self.start_block(f"{name}.body")
        yield loop
        following = self.add(index, step)
        last = self._block
        self.emit(f"br label %{name}.head")
        phis = [
            f"  %{name}.i = phi i64 [ {first.text}, %{before} ], "
            f"[ {self.value(following).text}, %{last} ]"
        ]
        for n, (start, value) in enumerate(zip(carried, loop.next, strict=True)):
            phis.append(
                f"  %{name}.c{n} = phi {start.type} [ {start.text}, %{before} ], "
                f"[ {value.text}, %{last} ]"
            )
        self.lines[head:head] = phis
        self.start_block(f"{name}.end")
        loop.results = inside

    @contextmanager
    def when(self, condition: Value) -> Generator[None]:
        """What is done only if the condition holds; values made inside do not leave."""
        name = self.fresh("if")
        self.emit(f"br {condition}, label %{name}.then, label %{name}.end")
        self.start_block(f"{name}.then")
        yield
        self.emit(f"br label %{name}.end")
        self.start_block(f"{name}.end")

    def unless(self, rare: Value, usual: Value, instead: Callable[[], Value]) -> Value:
        """A value, or what is computed instead of it if the condition holds."""
        name, before = self.fresh("unless"), self._block
        self.emit(f"br {rare}, label %{name}.then, label %{name}.end")
        self.start_block(f"{name}.then")
        other = instead()
        last = self._block
        self.emit(f"br label %{name}.end")
        self.start_block(f"{name}.end")
        sources = f"[ {usual.text}, %{before} ], [ {other.text}, %{last} ]"
        return self.op(usual.type, f"phi {usual.type} {sources}")

    def function(
        self,
        name: str,
        arguments: Sequence[Value],
        attributes: str = "",
        result: Value | None = None,
        linkage: str = "",
    ) -> str:
        """The text of the function, which returns the result if there is one."""
        taken, type = ", ".join(map(str, arguments)), result.type if result else "void"
        body = "\n".join([*self.lines, f"  ret {result or 'void'}"])
        head = f"{linkage} {type}".lstrip()
        return f"define {head} @{name}({taken}) {attributes}{{\n{body}\n}}"
