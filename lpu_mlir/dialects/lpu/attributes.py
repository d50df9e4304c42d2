"""Attributes: expressions, extents, layouts, symbols, and the arguments of host calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from xdsl.dialects.builtin import (
    IntAttr,
    MemRefLayoutAttr,
    StringAttr,
)
from xdsl.ir import Attribute, Data, ParametrizedAttribute
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    irdl_attr_definition,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from lpu_mlir.dialects.expr import Expr

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
