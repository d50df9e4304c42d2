"""The tile type, and what the kernel dialect's operations share: words and index lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import TypeAlias

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    BFloat16Type,
    ContainerType,
    DenseArrayBase,
    Float16Type,
    Float32Type,
    Float64Type,
    IntAttr,
    IntegerType,
    MemRefType,
    ShapedType,
    StringAttr,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.dialects.utils import get_dynamic_index_list, split_dynamic_index_list
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import IRDLOperation, irdl_attr_definition
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from lpu_mlir.dialects.lpu import element_bytes, ui8
from lpu_mlir.memo import MEMO

Index: TypeAlias = "int | SSAValue"
"""A position or size: known now, or an index value."""

FLOATS = (f16, bf16, f32, f64)
INTEGERS = (i8, i16, i32, i64)
ELEMENTS = (*FLOATS, i1, *INTEGERS, ui8)
"""The element types of tiles."""

TILE_SPACES = ("sram", "mpu_buffer")
MEMORY_SPACES = ("shared_dram", "private_dram", "mpu_dram")

NOT_IN_SRAM = -1
"""The SRAM offset of a tile that lives in another space."""


@irdl_attr_definition
class TileType(ParametrizedAttribute, TypeAttribute, ShapedType, ContainerType[Attribute]):
    """
    An array in a core's memory: `!lpu_kernel.tile<8x576xf32>`, `!lpu_kernel.tile<f32>`,
    `!lpu_kernel.tile<64x64xf32, "mpu_buffer">`.

    The shape is the capacity. The extents are run-time values, each at most the capacity of its
    dimension, and nothing ever reads beyond them.
    """

    name = "lpu_kernel.tile"

    shape: ArrayAttr[IntAttr]
    element_type: Attribute
    space: StringAttr

    def __init__(self, element_type: Attribute, shape: Iterable[int], space: str = "sram"):
        super().__init__(ArrayAttr(map(IntAttr, shape)), element_type, StringAttr(space))

    def get_num_dims(self) -> int:
        return len(self.shape.data)

    def get_shape(self) -> tuple[int, ...]:
        return tuple(dim.data for dim in self.shape.data)

    def get_element_type(self) -> Attribute:
        return self.element_type

    def byte_size(self) -> int:
        """Bytes at full capacity."""
        return prod(self.get_shape()) * element_bytes(self.element_type)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            shape, element = parser.parse_ranked_shape()
            space = "sram"
            if parser.parse_optional_punctuation(","):
                space = parser.parse_str_literal()
        return (ArrayAttr(map(IntAttr, shape)), element, StringAttr(space))

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("".join(f"{dim}x" for dim in self.get_shape()))
            printer.print_attribute(self.element_type)
            if self.space.data != "sram":
                printer.print_string(f', "{self.space.data}"')

    def verify(self) -> None:
        if self.element_type not in ELEMENTS:
            expected = ", ".join(map(str, ELEMENTS))
            raise VerifyException(
                f"tile element type {self.element_type} is not supported, expected {expected}"
            )
        if any(dim < 0 for dim in self.get_shape()):
            raise VerifyException(
                f"a tile's shape is its capacity and must be static, got {list(self.get_shape())}"
            )
        if self.space.data not in TILE_SPACES:
            raise VerifyException(
                f'tile space "{self.space.data}" is unknown, expected one of {list(TILE_SPACES)}'
            )


@lru_cache(MEMO)
def _tile_type(element: Attribute, shape: tuple[int, ...], space: str) -> TileType:
    return TileType(element, shape, space)


def tile_type(element: Attribute, shape: Iterable[int], space: str = "sram") -> TileType:
    """The tile type with this capacity; one object for equal arguments."""
    return _tile_type(element, tuple(shape), space)


def tile(value: SSAValue) -> TileType:
    """The type of a value known to be a tile."""
    assert isinstance(value.type, TileType), f"expected a tile, got {value.type}"
    return value.type


def memref_element(type: MemRefType[Attribute]) -> Attribute:
    return type.element_type


def is_float(element: Attribute) -> bool:
    return isinstance(element, Float16Type | BFloat16Type | Float32Type | Float64Type)


@irdl_custom_directive
class Word(CustomDirective):
    """A string property written as a bare word."""

    attr: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.attr.set(state, StringAttr(parser.parse_identifier()))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        value = self.attr.get(op)
        assert isinstance(value, StringAttr)
        state.print_whitespace(printer)
        printer.print_string(value.data)


def verify_word(what: str, word: StringAttr, known: Iterable[str]) -> None:
    """Check that a word is one of those known."""
    if word.data not in known:
        raise VerifyException(f"unknown {what} '{word.data}', expected one of {', '.join(known)}")


INTS = DenseArrayBase.constr(i64)
"""The constraint of a property that is a list of integers."""


# --- index lists --------------------------------------------------------------------------------


@lru_cache(MEMO)
def _dense(values: tuple[int, ...]) -> DenseArrayBase[IntegerType]:
    return DenseArrayBase.from_list(i64, values)


def dense(values: Iterable[int]) -> DenseArrayBase[IntegerType]:
    """An array of i64; one object for equal values."""
    return _dense(tuple(values))


def split_indices(
    values: Sequence[Index | Operation],
) -> tuple[list[SSAValue], DenseArrayBase[IntegerType]]:
    """The operands and the static array that together spell a list of `Index`."""
    resolved = [v if isinstance(v, int) else SSAValue.get(v) for v in values]
    static, dynamic = split_dynamic_index_list(resolved, DYNAMIC_INDEX)
    return dynamic, dense(static)


def join_indices(
    dynamic: Sequence[SSAValue], static: DenseArrayBase[IntegerType]
) -> tuple[Index, ...]:
    """The list of `Index` that `split_indices` was given."""
    return tuple(get_dynamic_index_list(static.get_values(), dynamic, DYNAMIC_INDEX))


def verify_indices(
    what: str, dynamic: Sequence[SSAValue], static: DenseArrayBase[IntegerType], rank: int
) -> None:
    """Check the length of an index list and that operands and markers agree."""
    values = static.get_values()
    if len(values) != rank:
        raise VerifyException(f"expected {rank} {what}, one per dimension, got {len(values)}")
    if values.count(DYNAMIC_INDEX) != len(dynamic):
        raise VerifyException(
            f"{len(dynamic)} operands for {values.count(DYNAMIC_INDEX)} dynamic {what}"
        )


def verify_capacity(
    what: str, static: DenseArrayBase[IntegerType], capacity: Sequence[int]
) -> None:
    """Check that sizes known now fit the capacity of the tile they describe."""
    for dim, (size, limit) in enumerate(zip(static.get_values(), capacity, strict=True)):
        if size == DYNAMIC_INDEX:
            continue
        if size < 0 or size > limit:
            raise VerifyException(
                f"{what} {size} of dimension {dim} is outside the tile's capacity of {limit}"
            )


def verify_dims(what: str, dims: Sequence[int], rank: int) -> None:
    """Check that dims are distinct and within the rank."""
    if len(set(dims)) != len(dims) or any(not 0 <= dim < rank for dim in dims):
        raise VerifyException(f"{what} {list(dims)} must be distinct and within 0..{rank - 1}")


def without(values: Sequence[int], dims: Iterable[int]) -> tuple[int, ...]:
    """The values at the positions that are not in dims."""
    dropped = set(dims)
    return tuple(value for dim, value in enumerate(values) if dim not in dropped)
