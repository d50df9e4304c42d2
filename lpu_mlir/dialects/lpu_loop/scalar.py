"""Scalars of a nest's body: index values, folds, scans, pieces and checks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from xdsl.dialects.builtin import I64, IntegerType, StringAttr
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_region_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    MemoryWriteEffect,
    Pure,
    RecursiveMemoryEffect,
)
from xdsl.utils.exceptions import VerifyException

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu import (
    DimsAttr,
    ExprAttr,
    ShapeAttr,
    i64,
    parse_dims,
    parse_expr,
    parse_exprs,
    print_dims,
    print_exprs,
)
from lpu_mlir.dialects.lpu_loop.base import (
    CHECKS,
    FOLDS,
    SCANS,
    Dim,
    DimsOp,
    LoopOp,
)


@irdl_op_definition
class IndexOp(LoopOp):
    """An index expression as a number.

    %0 = lpu_loop.index 2 * d0 + s18 : i64
    """

    name = "lpu_loop.index"
    value = prop_def(ExprAttr)
    output = result_def(I64)
    traits = traits_def(Pure())

    def __init__(self, value: Expr):
        super().__init__(properties={"value": ExprAttr(value)}, result_types=[i64])

    def verify_(self) -> None:
        self.expect_names([self.value.data], self.dims_in_scope())

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.value.data} : i64")

    @classmethod
    def parse(cls, parser: Parser) -> IndexOp:
        value = parse_expr(parser)
        parser.parse_punctuation(":")
        parser.parse_characters("i64")
        return IndexOp(value)


class RegionOverDims(DimsOp):
    """Shared by fold, arg_fold and scan: a kind, further dims, a region that yields a scalar."""

    kind = prop_def(StringAttr)
    output = result_def()
    body = region_def("single_block")
    traits = traits_def(RecursiveMemoryEffect())

    def __init__(self, kind: str, dims: Sequence[Dim], body: Region, result: Attribute):
        super().__init__(
            properties={"kind": StringAttr(kind), "dims": DimsAttr(tuple(dims))},
            regions=[body],
            result_types=[result],
        )

    def verify_dims(self, known: Sequence[str]) -> None:
        self.expect_kind(self.kind.data, known)
        outer = self.dims_in_scope()
        self.expect_dims(self.dims.data, "r", outer)
        for name, _ in self.dims.data:
            self.expect(name not in outer, f"dim '{name}' hides one around it")

    def print(self, printer: Printer) -> None:
        printer.print_string(f' "{self.kind.data}" ')
        print_dims(printer, self.dims.data)
        self.print_clause(printer)
        printer.print_string(" : ")
        printer.print_attribute(self.output.type)
        printer.print_string(" ")
        printer.print_region(self.body)

    def print_clause(self, printer: Printer) -> None:
        """What stands between the dims and the type; nothing by default."""


@irdl_op_definition
class FoldOp(RegionOverDims):
    """Combines the yielded scalar over all points of further dims; the result type accumulates.

    %0 = lpu_loop.fold "add" [r0 = 24] : f32 { …; lpu_loop.yield %v : f32 }
    """

    name = "lpu_loop.fold"

    def verify_(self) -> None:
        self.verify_dims(FOLDS)
        self.expect_yields(self.body, self.output.type)
        result: Attribute = self.output.type
        bits = self.kind.data in ("and", "or", "xor")
        message = f"'{self.kind.data}' is not defined on {result}"
        self.expect(not bits or isinstance(result, IntegerType), message)

    @classmethod
    def parse(cls, parser: Parser) -> FoldOp:
        kind, dims = parser.parse_str_literal(), parse_dims(parser)
        parser.parse_punctuation(":")
        result = parser.parse_type()
        return FoldOp(kind, dims, parser.parse_region(), result)


@irdl_op_definition
class ArgFoldOp(RegionOverDims):
    """The first position along one further dim at which the yielded scalar is extreme; a NaN wins.

    %0 = lpu_loop.arg_fold "max" [r0 = 24] : i64 { …; lpu_loop.yield %v : f32 }
    """

    name = "lpu_loop.arg_fold"

    def verify_(self) -> None:
        self.verify_dims(("max", "min"))
        self.expect(len(self.dims.data) == 1, "takes one dim")
        self.expect(self.output.type == i64, f"gives {self.output.type}, expected i64")
        self.expect_yield(self.body)

    @classmethod
    def parse(cls, parser: Parser) -> ArgFoldOp:
        kind, dims = parser.parse_str_literal(), parse_dims(parser)
        parser.parse_punctuation(":")
        result = parser.parse_type()
        return ArgFoldOp(kind, dims, parser.parse_region(), result)


@irdl_op_definition
class ScanOp(RegionOverDims):
    """The inclusive running combination of the yielded scalar: r0 from 0 up to the dim `along`.

    %0 = lpu_loop.scan "add" [r0 = 8] along d1 : f32 { …; lpu_loop.yield %v : f32 }
    """

    name = "lpu_loop.scan"
    along = prop_def(StringAttr)

    def __init__(self, kind: str, dims: Sequence[Dim], along: str, body: Region, result: Attribute):
        super().__init__(kind, dims, body, result)
        self.along = StringAttr(along)

    def verify_(self) -> None:
        self.verify_dims(SCANS)
        self.expect(len(self.dims.data) == 1, "takes one dim")
        extent = self.dims_in_scope().get(self.along.data)
        if extent is None:
            raise VerifyException(f"{self.name}: '{self.along.data}' is no dim in scope")
        ((name, own),) = self.dims.data
        self.expect(own == extent, f"'{name}' has extent {own}, '{self.along.data}' has {extent}")
        self.expect_yields(self.body, self.output.type)

    def print_clause(self, printer: Printer) -> None:
        printer.print_string(f" along {self.along.data}")

    @classmethod
    def parse(cls, parser: Parser) -> ScanOp:
        kind, dims = parser.parse_str_literal(), parse_dims(parser)
        parser.parse_keyword("along")
        along = parser.parse_identifier()
        parser.parse_punctuation(":")
        result = parser.parse_type()
        return ScanOp(kind, dims, along, parser.parse_region(), result)


@irdl_op_definition
class PiecesOp(LoopOp):
    """A scalar given piecewise: region i where bounds[i-1] <= `position` < bounds[i].

    Only the region of the piece is evaluated, so its loads need be in bounds only there: this is
    what concat and pad become.

    %0 = lpu_loop.pieces d1 at [4] : f32 { …yield %a } { …yield %b }
    """

    name = "lpu_loop.pieces"
    position = prop_def(ExprAttr)
    bounds = prop_def(ShapeAttr)
    output = result_def()
    pieces = var_region_def("single_block")
    traits = traits_def(RecursiveMemoryEffect())

    def __init__(
        self, position: Expr, bounds: Sequence[Expr], pieces: Sequence[Region], result: Attribute
    ):
        super().__init__(
            properties={"position": ExprAttr(position), "bounds": ShapeAttr(tuple(bounds))},
            regions=[pieces],
            result_types=[result],
        )

    def verify_(self) -> None:
        needed = len(self.bounds.data) + 1
        self.expect(len(self.pieces) == needed, f"needs {needed} regions, got {len(self.pieces)}")
        bounds = self.bounds.data
        self.expect_names([self.position.data, *bounds], self.dims_in_scope())
        for before, after in pairwise(bounds):
            ascends = ((after - before).constant() or 0) >= 0
            self.expect(ascends, f"bound {after} follows {before}")
        for piece in self.pieces:
            self.expect_yields(piece, self.output.type)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.position.data} at ")
        print_exprs(printer, self.bounds.data)
        printer.print_string(" : ")
        printer.print_attribute(self.output.type)
        for piece in self.pieces:
            printer.print_string(" ")
            printer.print_region(piece)

    @classmethod
    def parse(cls, parser: Parser) -> PiecesOp:
        position = parse_expr(parser)
        parser.parse_keyword("at")
        bounds = parse_exprs(parser)
        parser.parse_punctuation(":")
        result = parser.parse_type()
        pieces: list[Region] = []
        while (piece := parser.parse_optional_region()) is not None:
            pieces.append(piece)
        return PiecesOp(position, bounds, pieces, result)


@irdl_op_definition
class CheckOp(LoopOp):
    """Raises `error` with `message` when the launch is over, if `condition` is false anywhere.

    lpu_loop.check %ok, "IndexError", "index out of range"
    """

    name = "lpu_loop.check"
    condition = operand_def(IntegerType(1))
    error = prop_def(StringAttr)
    message = prop_def(StringAttr)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$condition `,` $error `,` $message attr-dict"

    def __init__(self, condition: SSAValue, error: str, message: str):
        super().__init__(
            operands=[condition],
            properties={"error": StringAttr(error), "message": StringAttr(message)},
        )

    def verify_(self) -> None:
        self.expect_kind(self.error.data, CHECKS)
        parent = self.parent_op()
        inside = isinstance(parent, DimsOp) and parent.PARALLEL
        self.expect(inside, "must stand directly in a nest or a part of one")
