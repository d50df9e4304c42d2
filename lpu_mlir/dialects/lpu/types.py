"""Tensor and memref types with symbolic extents, and what can be read off them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    ComplexType,
    FixedBitwidthType,
    IntegerType,
    MemRefType,
    NoneAttr,
    Signedness,
    StringAttr,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from lpu_mlir.dialects.expr import Expr, Range, contiguous_strides, product
from lpu_mlir.dialects.lpu.attributes import Extent, LayoutAttr, ShapeAttr, SymbolAttr
from lpu_mlir.memo import MEMO

# --- types --------------------------------------------------------------------------------------

i1, i8, i16, i32, i64 = (IntegerType(width) for width in (1, 8, 16, 32, 64))
ui8 = IntegerType(8, Signedness.UNSIGNED)

COMPUTED = frozenset((f16, bf16, f32, f64, i1, i8, i16, i32, i64, ui8))
"""Element types that the LPU computes with; others pass through a program, between host calls."""


def element_bytes(element: Attribute) -> int:
    """Bytes of one element in memory; a boolean takes one."""
    if isinstance(element, ComplexType):
        return 2 * element_bytes(element.get_element_type())  # pyright: ignore[reportUnknownArgumentType]
    if not isinstance(element, FixedBitwidthType):
        raise TypeError(f"element type {element} has no size in memory")
    return max(1, element.bitwidth // 8)


@cache
def scalar_type(element: Attribute) -> Attribute:
    """The type of an element as a scalar of a nest or map: signless."""
    return i8 if element == ui8 else element


def _static_shape(shape: tuple[Expr, ...]) -> list[int]:
    return [DYNAMIC_INDEX if (c := extent.constant()) is None else c for extent in shape]


@lru_cache(MEMO)
def _tensor_type(element: Attribute, shape: tuple[Expr, ...]) -> TensorType[Attribute]:
    static = _static_shape(shape)
    encoding = ShapeAttr(shape) if DYNAMIC_INDEX in static else NoneAttr()
    return TensorType(element, static, encoding)


def tensor_type(element: Attribute, shape: Iterable[Extent]) -> TensorType[Attribute]:
    """The tensor type with these extents; static ones carry no encoding."""
    return _tensor_type(element, tuple(map(Expr.of, shape)))


@lru_cache(MEMO)
def _memref_type(
    element: Attribute,
    shape: tuple[Expr, ...],
    strides: tuple[Expr, ...],
    offset: Expr,
    space: str,
) -> MemRefType[Attribute]:
    static = _static_shape(shape)
    plain = DYNAMIC_INDEX not in static and offset == 0 and strides == contiguous_strides(shape)
    layout = NoneAttr() if plain else LayoutAttr((shape, strides, offset))
    return MemRefType(element, static, layout, StringAttr(space))


def memref_type(
    element: Attribute,
    shape: Iterable[Extent],
    strides: Iterable[Extent] | None = None,
    offset: Extent = 0,
    space: str = "shared_dram",
) -> MemRefType[Attribute]:
    """The memref type with this symbolic layout; dense by default."""
    extents_ = tuple(map(Expr.of, shape))
    steps = contiguous_strides(extents_) if strides is None else tuple(map(Expr.of, strides))
    return _memref_type(element, extents_, steps, Expr.of(offset), space)


@lru_cache(MEMO)
def extents(type: Attribute) -> tuple[Expr, ...]:
    """The extents of a tensor or memref type; VerifyException if it does not say them all."""
    symbolic = _symbolic_extents(type)
    if not isinstance(type, TensorType | MemRefType):
        raise TypeError(f"expected a tensor or memref type, got {type}")
    static = type.get_shape()
    if symbolic is None:
        if DYNAMIC_INDEX in static:
            raise VerifyException(f"{type} has a dynamic dimension but no symbolic extents")
        return tuple(map(Expr.const, static))
    if tuple(_static_shape(symbolic)) != static:
        listed = ", ".join(map(str, symbolic))
        raise VerifyException(f"the extents [{listed}] in {type} do not fit its shape")
    return symbolic


def _symbolic_extents(type: Attribute) -> tuple[Expr, ...] | None:
    if isinstance(type, MemRefType) and isinstance(type.layout, LayoutAttr):
        return type.layout.shape
    if isinstance(type, TensorType) and isinstance(type.encoding, ShapeAttr):
        return type.encoding.data
    return None


@lru_cache(MEMO)
def strides(type: Attribute) -> tuple[Expr, ...]:
    """The strides of a memref type, in elements."""
    shape = extents(type)
    if isinstance(type, MemRefType) and isinstance(type.layout, LayoutAttr):
        return type.layout.strides
    return contiguous_strides(shape)


def offset(type: Attribute) -> Expr:
    """The offset of a memref type, in elements."""
    if isinstance(type, MemRefType) and isinstance(type.layout, LayoutAttr):
        return type.layout.offset
    return Expr.const(0)


def element_type(type: Attribute) -> Attribute:
    """The element type of a tensor or memref type."""
    if not isinstance(type, TensorType | MemRefType):
        raise TypeError(f"expected a tensor or memref type, got {type}")
    element: Attribute = type.get_element_type()  # pyright: ignore[reportUnknownVariableType]
    return element  # pyright: ignore[reportUnknownVariableType]


def type_bytes(type: Attribute) -> Expr:
    """Bytes of a dense value of that type."""
    return product(extents(type)) * element_bytes(element_type(type))


# --- symbols ------------------------------------------------------------------------------------

SYMBOLS = "lpu.symbols"


def symbols(func: FuncOp) -> tuple[SymbolAttr, ...]:
    """The symbols that a function declares."""
    declared = func.attributes.get(SYMBOLS)
    if declared is None:
        return ()
    if not isinstance(declared, ArrayAttr):
        raise VerifyException(f"{SYMBOLS} must be an array of #lpu.symbol, got {declared}")
    found: list[SymbolAttr] = []
    for symbol in declared:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(symbol, SymbolAttr):
            raise VerifyException(f"{SYMBOLS} must hold #lpu.symbol only, got {symbol}")
        found.append(symbol)
    return tuple(found)


def symbol_ranges(func: FuncOp) -> Mapping[str, Range]:
    """The declared range of every symbol, for `expr.simplify` and `expr.nonnegative`."""
    return {
        s.symbol.data: (
            Expr.const(s.lower.data),
            None if s.upper.data == -1 else Expr.const(s.upper.data),
        )
        for s in symbols(func)
    }


FREEZE, FROZEN = "freeze", "lpu.frozen"
"""A function, which computes what is kept between calls, and an attribute: a mark of @main's
arguments that are the same at every call, and on @freeze the positions of those that it takes."""

BINDS = "lpu.binds"
"""Attribute of a host call: names of the symbols that its integer results bind, in order."""
