"""The `lpu` dialect: what all three levels share.

Attributes for extents, layouts and symbols, the types built from them, and `lpu.host_call`, the
one operation that may stand at every level because it runs outside the LPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import ClassVar, Literal, TypeAlias

from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloatConstr,
    ArrayAttr,
    ComplexType,
    DictionaryAttr,
    FixedBitwidthType,
    IntAttr,
    IntegerType,
    MemRefLayoutAttr,
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
from xdsl.ir import Attribute, Block, Data, Dialect, ParametrizedAttribute, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from lpu_mlir.dialects.expr import Expr, Range, contiguous_strides, product

Extent: TypeAlias = Expr | int


# --- text ---------------------------------------------------------------------------------------


def parse_expr(parser: AttrParser) -> Expr:
    """`24 * s18 + min(3, (m floordiv 8))`; raises a parse error at the offending token."""
    total = -_parse_product(parser) if _accept(parser, "-") else _parse_product(parser)
    while True:
        if _accept(parser, "+"):
            total = total + _parse_product(parser)
        elif _accept(parser, "-"):
            total = total - _parse_product(parser)
        else:
            return total


def _accept(parser: AttrParser, token: Literal["+", "-", "*", "("]) -> bool:
    return parser.parse_optional_punctuation(token) is not None


def _parse_product(parser: AttrParser) -> Expr:
    total = _parse_factor(parser)
    while True:
        if _accept(parser, "*"):
            total = total * _parse_factor(parser)
        elif parser.parse_optional_keyword("floordiv"):
            total = total.floordiv(_parse_factor(parser))
        elif parser.parse_optional_keyword("mod"):
            total = total.mod(_parse_factor(parser))
        else:
            return total


def _parse_factor(parser: AttrParser) -> Expr:
    if _accept(parser, "("):
        inner = parse_expr(parser)
        parser.parse_punctuation(")")
        return inner
    value = parser.parse_optional_integer(allow_boolean=False, allow_negative=True)
    if value is not None:
        return Expr.const(value)
    name = parser.parse_optional_identifier()
    if name is None:
        parser.raise_error("expected an integer, a name or '(' in an lpu expression")
    if name not in ("min", "max"):
        return Expr.name(name)
    parser.parse_punctuation("(")
    lhs = parse_expr(parser)
    parser.parse_punctuation(",")
    rhs = parse_expr(parser)
    parser.parse_punctuation(")")
    return Expr.min(lhs, rhs) if name == "min" else Expr.max(lhs, rhs)


def parse_exprs(
    parser: AttrParser, delimiter: AttrParser.Delimiter = AttrParser.Delimiter.SQUARE
) -> tuple[Expr, ...]:
    return tuple(parser.parse_comma_separated_list(delimiter, lambda: parse_expr(parser)))


def print_exprs(printer: Printer, exprs: Iterable[Expr]) -> None:
    printer.print_string("[" + ", ".join(map(str, exprs)) + "]")


def parse_dims(parser: AttrParser) -> tuple[tuple[str, Expr], ...]:
    """`[d0 = 3, d1 = s18]`"""

    def parse_dim() -> tuple[str, Expr]:
        name = parser.parse_identifier()
        parser.parse_punctuation("=")
        return name, parse_expr(parser)

    return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parse_dim))


def print_dims(printer: Printer, dims: Iterable[tuple[str, Expr]]) -> None:
    printer.print_string("[" + ", ".join(f"{name} = {extent}" for name, extent in dims) + "]")


# --- attributes ---------------------------------------------------------------------------------


@irdl_attr_definition
class ExprAttr(Data[Expr]):
    """One canonical integer expression: `#lpu.expr<24 * s18 + 3>`."""

    name = "lpu.expr"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Expr:
        with parser.in_angle_brackets():
            return parse_expr(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


@irdl_attr_definition
class ShapeAttr(Data[tuple[Expr, ...]]):
    """A list of expressions: `#lpu.shape<[1, s18, 24]>`.

    The encoding of a tensor type with symbolic extents, and the type of index lists.
    """

    name = "lpu.shape"

    @staticmethod
    def of(exprs: Iterable[Extent]) -> ShapeAttr:
        return ShapeAttr(tuple(map(Expr.of, exprs)))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Expr, ...]:
        with parser.in_angle_brackets():
            return parse_exprs(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            print_exprs(printer, self.data)


@irdl_attr_definition
class IntsAttr(Data[tuple[int, ...]]):
    """A list of integers: dims, permutations, steps: `#lpu.ints<[0, 2, 1]>`."""

    name = "lpu.ints"

    @staticmethod
    def of(values: Iterable[int]) -> IntsAttr:
        return IntsAttr(tuple(values))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[int, ...]:
        with parser.in_angle_brackets():
            return tuple(
                parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
            )

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("[" + ", ".join(map(str, self.data)) + "]")


@irdl_attr_definition
class DimsAttr(Data[tuple[tuple[str, Expr], ...]]):
    """Named dimensions with their extents: `#lpu.dims<[d0 = 3, d1 = s18]>`."""

    name = "lpu.dims"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, Expr], ...]:
        with parser.in_angle_brackets():
            return parse_dims(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            print_dims(printer, self.data)


@irdl_attr_definition
class LayoutAttr(MemRefLayoutAttr, Data[tuple[tuple[Expr, ...], tuple[Expr, ...], Expr]]):
    """Symbolic shape, strides and offset of a memref, all in elements.

    `#lpu.layout<[1, s18, 24], [24 * s18, 24, 1], 0>`
    """

    name = "lpu.layout"

    @property
    def shape(self) -> tuple[Expr, ...]:
        return self.data[0]

    @property
    def strides(self) -> tuple[Expr, ...]:
        return self.data[1]

    @property
    def offset(self) -> Expr:
        return self.data[2]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[Expr, ...], tuple[Expr, ...], Expr]:
        with parser.in_angle_brackets():
            shape = parse_exprs(parser)
            parser.parse_punctuation(",")
            strides = parse_exprs(parser)
            parser.parse_punctuation(",")
            return shape, strides, parse_expr(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            print_exprs(printer, self.shape)
            printer.print_string(", ")
            print_exprs(printer, self.strides)
            printer.print_string(f", {self.offset}")

    def verify(self) -> None:
        if len(self.shape) != len(self.strides):
            raise VerifyException(
                f"a layout needs one stride for each extent, got {len(self.strides)} "
                f"for {len(self.shape)}"
            )

    def get_strides(self) -> Sequence[int | None]:
        return [stride.constant() for stride in self.strides]

    def get_affine_map(self) -> AffineMap:
        raise NotImplementedError("a symbolic layout has no affine map; use shape and strides")


@irdl_attr_definition
class SymbolAttr(ParametrizedAttribute):
    """A symbol of a function: name, smallest and largest value (-1: no bound), likely value.

    `#lpu.symbol<"s18", 2, -1, 64>`
    """

    name = "lpu.symbol"
    symbol: StringAttr
    lower: IntAttr
    upper: IntAttr
    hint: IntAttr

    @staticmethod
    def of(symbol: str, lower: int, upper: int, hint: int) -> SymbolAttr:
        return SymbolAttr(StringAttr(symbol), IntAttr(lower), IntAttr(upper), IntAttr(hint))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            symbol: Attribute = StringAttr(parser.parse_str_literal())
            numbers: list[Attribute] = []
            for _ in range(3):
                parser.parse_punctuation(",")
                numbers.append(IntAttr(parser.parse_integer()))
            return [symbol, *numbers]

    def print_parameters(self, printer: Printer) -> None:
        numbers = (self.lower.data, self.upper.data, self.hint.data)
        printer.print_string(f'<"{self.symbol.data}", ' + ", ".join(map(str, numbers)) + ">")

    def verify(self) -> None:
        if self.upper.data != -1 and self.upper.data < self.lower.data:
            raise VerifyException(
                f"symbol {self.symbol.data}: upper bound {self.upper.data} is below "
                f"the lower bound {self.lower.data}"
            )


@irdl_attr_definition
class OperandAttr(Data[int]):
    """Stands for the n-th operand in the arguments of a host call: `#lpu.operand<0>`."""

    name = "lpu.operand"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> int:
        with parser.in_angle_brackets():
            return parser.parse_integer(allow_boolean=False, allow_negative=False)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


@irdl_attr_definition
class TorchAttr(Data[str]):
    """A PyTorch constant by name in the arguments of a host call: `#lpu.torch<"float32">`."""

    name = "lpu.torch"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return parser.parse_str_literal()

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f'<"{self.data}">')


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


@cache
def _tensor_type(element: Attribute, shape: tuple[Expr, ...]) -> TensorType[Attribute]:
    static = _static_shape(shape)
    encoding = ShapeAttr(shape) if DYNAMIC_INDEX in static else NoneAttr()
    return TensorType(element, static, encoding)


def tensor_type(element: Attribute, shape: Iterable[Extent]) -> TensorType[Attribute]:
    """The tensor type with these extents; static ones carry no encoding."""
    return _tensor_type(element, tuple(map(Expr.of, shape)))


@cache
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


@cache
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


@cache
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

# --- the escape ---------------------------------------------------------------------------------


@irdl_op_definition
class HostCallOp(IRDLOperation):
    """Runs a PyTorch operator outside the LPU, in program order among its like.

    `overload` names it; `arguments` holds the positional arguments under "0", "1", … and the
    keyword arguments under their names, `#lpu.operand<n>` standing for the n-th operand.
    `reason` says why it is not native.  Tensors before bufferisation, memrefs with storage of
    their own after.

        %1 = "lpu.host_call"(%0) <{overload = "aten.sort.default",
               arguments = {"0" = #lpu.operand<0>, "1" = -1 : i64}, reason = "not supported"}>
               : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "lpu.host_call"

    inputs = var_operand_def()
    outputs = var_result_def()
    overload = prop_def(StringAttr)
    arguments = prop_def(DictionaryAttr)
    reason = prop_def(StringAttr)

    def __init__(
        self,
        overload: str,
        inputs: Sequence[SSAValue],
        arguments: Mapping[str, Attribute],
        reason: str,
        result_types: Sequence[Attribute],
    ):
        super().__init__(
            operands=[inputs],
            result_types=[result_types],
            properties={
                "overload": StringAttr(overload),
                "arguments": DictionaryAttr(dict(arguments)),
                "reason": StringAttr(reason),
            },
        )

    def verify_(self) -> None:
        if self.overload.data.count(".") != 2:
            raise VerifyException(
                f"{self.name}: '{self.overload.data}' is no overload, expected a name such as "
                "aten.sort.default"
            )
        unknown = [n for n in _operand_numbers(self.arguments) if n >= len(self.inputs)]
        if unknown:
            raise VerifyException(
                f"{self.name}: arguments name operand {unknown[0]}, got {len(self.inputs)} operands"
            )


def _operand_numbers(attr: Attribute) -> Iterator[int]:
    """The operands that the arguments of a host call name."""
    match attr:
        case OperandAttr():
            yield attr.data
        case DictionaryAttr():
            for value in attr.data.values():
                yield from _operand_numbers(value)
        case ArrayAttr():
            for value in attr:
                yield from _operand_numbers(value)
        case _:
            pass


def bound_late(block: Block) -> frozenset[str]:
    """Symbols whose values host calls determine while the function runs."""
    late: set[str] = set()
    for op in block.ops:
        if isinstance(op, HostCallOp):
            for result in op.outputs:
                late |= {name for extent in extents(result.type) for name in extent.names()}
            binds = op.attributes.get(BINDS)
            if isinstance(binds, ArrayAttr):
                late |= {name.data for name in binds.data if isinstance(name, StringAttr)}  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    known = {name for a in block.args for extent in extents(a.type) for name in extent.names()}
    return frozenset(late - known)


@irdl_op_definition
class RemFOp(IRDLOperation):
    """The remainder of truncated division of floats, exact, with the dividend's sign (C's fmod).

    `arith` has it in MLIR but not in xDSL.

        %2 = lpu.remf %0, %1 : f32
    """

    name = "lpu.remf"

    T: ClassVar = VarConstraint("T", AnyFloatConstr)

    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(T)
    fastmath = prop_def(FastMathFlagsAttr, default_value=FastMathFlagsAttr("none"))
    traits = traits_def(Pure())
    assembly_format = "$lhs `,` $rhs (`fastmath` `` $fastmath^)? attr-dict `:` type($result)"


Lpu = Dialect(
    "lpu",
    [HostCallOp, RemFOp],
    [ExprAttr, ShapeAttr, IntsAttr, DimsAttr, LayoutAttr, SymbolAttr, OperandAttr, TorchAttr],
)
