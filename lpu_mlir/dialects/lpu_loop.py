"""The `lpu_loop` dialect: how each element is computed.

A `nest` is a set of parallel dims and a body on scalars.  Dims are names in the same expression
language as extents: an index is an expression over the nest's dims, the dims of the folds around
it and the function's symbols, so views, broadcasts and offsets are arithmetic in attributes and
cost no operation.  The body is loads, `arith` and `math` operations, folds that combine a scalar
over further dims, and stores.  Nests are destination-passing: `outs` are the tensors (later
memrefs) that the stores go to; a result is its `outs` operand with the stores applied.

    %y = lpu_loop.nest [d0 = 3, d1 = 64] outs(%e : tensor<3x64xf32>) {
      %0 = lpu_loop.fold "add" [r0 = 24] : f32 {
        %1 = lpu_loop.load %x[d0, r0] : tensor<3x24xf32>
        %2 = lpu_loop.load %w[d1, r0] : tensor<64x24xf32>
        %3 = arith.mulf %1, %2 : f32
        lpu_loop.yield %3 : f32
      }
      lpu_loop.store "replace" %0, %e[d0, d1] : f32, tensor<3x64xf32>
    } -> tensor<3x64xf32>
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import TypeAlias

from xdsl.dialects.builtin import I64, IntegerType, MemRefType, StringAttr, TensorType
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    EffectInstance,
    IsTerminator,
    MemoryEffect,
    MemoryEffectKind,
    MemoryWriteEffect,
    NoTerminator,
    Pure,
    RecursiveMemoryEffect,
)
from xdsl.utils.exceptions import VerifyException

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu import (
    DimsAttr,
    ExprAttr,
    Extent,
    ShapeAttr,
    element_type,
    extents,
    i64,
    parse_dims,
    parse_expr,
    parse_exprs,
    print_dims,
    print_exprs,
    scalar_type,
    tensor_type,
)

Dim: TypeAlias = tuple[str, Expr]
FOLDS = ("add", "mul", "max", "min", "and", "or", "xor")
SCANS = ("add", "mul", "max", "min")
STORES = ("replace", "add")
CHECKS = ("IndexError", "ZeroDivisionError", "RuntimeError")


_DIM = re.compile(r"[drt]\d+")
"""Names of dims: of nests, of folds, and those handed out while expressions are rewritten."""


def indirect_name(position: int) -> str:
    """The name by which an index expression refers to its operation's n-th index operand."""
    return f"_{position}"


class LoadEffect(MemoryEffect):
    """A load reads memory once its operand is a memref; a tensor is a value."""

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance] | None:
        if isinstance(op.operands[0].type, TensorType):
            return frozenset()
        return frozenset({EffectInstance(MemoryEffectKind.READ)})


class NestEffect(MemoryEffect):
    """A nest on memrefs writes memory; on tensors only a check is an effect: its stores make the
    results."""

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance] | None:
        write = EffectInstance(MemoryEffectKind.WRITE)
        if any(not isinstance(out.type, TensorType) for out in op.operands):
            return frozenset({write, EffectInstance(MemoryEffectKind.READ)})
        checks = any(isinstance(inner, CheckOp) for inner in op.regions[0].walk())
        return frozenset({write}) if checks else frozenset()


class LoopOp(IRDLOperation):
    """Helpers shared by the operations of a nest's body."""

    def expect(self, holds: bool, message: str) -> None:
        if not holds:
            raise VerifyException(f"{self.name}: {message}")

    def expect_kind(self, kind: str, known: Sequence[str]) -> None:
        self.expect(kind in known, f"unknown kind '{kind}', expected one of {', '.join(known)}")

    def dims_in_scope(self) -> dict[str, Expr]:
        """The dims of the nest and of the folds around this operation, and their extents."""
        dims: dict[str, Expr] = {}
        parent = self.parent_op()
        while parent is not None:
            if isinstance(parent, NestOp | FoldOp | ArgFoldOp | ScanOp):
                dims.update(parent.dims.data)
            if isinstance(parent, NestOp):
                return dims
            parent = parent.parent_op()
        raise VerifyException(f"{self.name}: must be inside lpu_loop.nest")

    def expect_names(
        self, exprs: Sequence[Expr], known: Collection[str], indirect: int = 0
    ) -> None:
        """Every dim-like name must be known; other names are symbols of the function."""
        indices = {indirect_name(i) for i in range(indirect)}
        for expr in exprs:
            for name in expr.names() - indices - set(known):
                self.expect(
                    not name.startswith("_") and not _DIM.fullmatch(name),
                    f"'{name}' in [{expr}] is no dim or index in scope",
                )

    def expect_dims(self, dims: Sequence[Dim], letter: str, outer: Collection[str]) -> None:
        """Dims are named by a letter and a number; their extents are known outside."""
        names = [name for name, _ in dims]
        self.expect(len(set(names)) == len(names), f"dims {names} are not distinct")
        for name, extent in dims:
            well_named = name[0] == letter and _DIM.fullmatch(name) is not None
            self.expect(well_named, f"dim '{name}' must be named {letter}0, {letter}1, …")
            self.expect((extent.constant() or 0) >= 0, f"dim '{name}' has extent {extent}")
        self.expect_names([extent for _, extent in dims], outer)

    def expect_yield(self, region: Region) -> Attribute:
        """The type of what a region without arguments yields."""
        self.expect(not region.block.args, "a region takes no arguments")
        last = region.block.last_op
        if not isinstance(last, YieldOp):
            raise VerifyException(f"{self.name}: a region must end in lpu_loop.yield")
        return last.value.type

    def expect_yields(self, region: Region, expected: Attribute) -> None:
        yielded = self.expect_yield(region)
        self.expect(yielded == expected, f"yields {yielded}, expected {expected}")


# --- tensors ------------------------------------------------------------------------------------


@irdl_op_definition
class EmptyOp(LoopOp):
    """A destination whose elements are all still to be stored.

    %0 = lpu_loop.empty : tensor<3x64xf32>
    """

    name = "lpu_loop.empty"
    output = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($output)"

    def __init__(self, shape: Sequence[Extent], element: Attribute):
        super().__init__(result_types=[tensor_type(element, shape)])


@irdl_op_definition
class WriteBackOp(LoopOp):
    """When the function has returned, the buffer of argument `target` holds `value`.

    lpu_loop.write_back %new, %cache : tensor<4xf32>, tensor<4xf32>
    """

    name = "lpu_loop.write_back"
    value = operand_def(TensorType)
    target = operand_def(TensorType)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$value `,` $target attr-dict `:` type($value) `,` type($target)"

    def __init__(self, value: SSAValue, target: SSAValue):
        super().__init__(operands=[value, target])

    def verify_(self) -> None:
        self.expect(
            self.value.type == self.target.type,
            f"value {self.value.type} and target {self.target.type} differ",
        )
        self.expect(
            isinstance(self.target.owner, Block), "the target must be an argument of the function"
        )


@irdl_op_definition
class NestOp(LoopOp):
    """Runs its body for every point of `dims`; see the module for an example.

    With tensors it has one result for each `outs` operand; with memrefs none.
    """

    name = "lpu_loop.nest"
    dims = prop_def(DimsAttr)
    outs = var_operand_def(TensorType | MemRefType)
    outputs = var_result_def(TensorType)
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), NestEffect())

    def __init__(
        self,
        dims: Sequence[Dim],
        outs: Sequence[SSAValue],
        body: Region,
        result_types: Sequence[Attribute] | None = None,
    ):
        types = [out.type for out in outs] if result_types is None else result_types
        super().__init__(
            operands=[outs],
            result_types=[types],
            properties={"dims": DimsAttr(tuple(dims))},
            regions=[body],
        )

    def verify_(self) -> None:
        self.expect_dims(self.dims.data, "d", ())
        self.expect(not self.body.block.args, "the body takes no arguments")
        self.expect(len(set(self.outs)) == len(self.outs), "the operands in outs must differ")
        on_tensors = all(isinstance(out.type, TensorType) for out in self.outs)
        on_memrefs = all(isinstance(out.type, MemRefType) for out in self.outs)
        self.expect(on_tensors or on_memrefs, "outs must be all tensors or all memrefs")
        expected = [out.type for out in self.outs] if on_tensors else []
        self.expect(
            [r.type for r in self.outputs] == expected,
            "needs one result for each tensor in outs and none for memrefs",
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_dims(printer, self.dims.data)
        printer.print_string(" outs(")
        printer.print_list(self.outs, printer.print_ssa_value)
        if self.outs:
            printer.print_string(" : ")
            printer.print_list([out.type for out in self.outs], printer.print_attribute)
        printer.print_string(") ")
        printer.print_region(self.body)
        if self.outputs:
            printer.print_string(" -> ")
            printer.print_list([r.type for r in self.outputs], printer.print_attribute)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> NestOp:
        dims = parse_dims(parser)
        parser.parse_keyword("outs")
        parser.parse_punctuation("(")
        names = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        outs: Sequence[SSAValue] = []
        if names:
            parser.parse_punctuation(":")
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
            outs = parser.resolve_operands(names, types, parser.pos)
        parser.parse_punctuation(")")
        body = parser.parse_region()
        results: Sequence[Attribute] = []
        if parser.parse_optional_punctuation("->"):
            results = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        nest = NestOp(dims, outs, body, results)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        if attributes is not None:
            nest.attributes.update(attributes.data)
        return nest


# --- memory -------------------------------------------------------------------------------------


def _parse_access(parser: Parser) -> tuple[tuple[Expr, ...], Sequence[SSAValue]]:
    """`[d0, _0](%i)`: index expressions and the i64 scalars they name `_0`, `_1`, …"""
    index = parse_exprs(parser)
    indirect = parser.parse_optional_comma_separated_list(
        parser.Delimiter.PAREN, lambda: parser.parse_operand(i64)
    )
    return index, indirect or ()


def _print_access(printer: Printer, index: ShapeAttr, indirect: Sequence[SSAValue]) -> None:
    print_exprs(printer, index.data)
    if indirect:
        with printer.in_parens():
            printer.print_list(indirect, printer.print_ssa_value)


class AccessOp(LoopOp):
    """Shared by load and store: one index expression for each axis of `target`."""

    target = operand_def(TensorType | MemRefType)
    indirect = var_operand_def(I64)
    index = prop_def(ShapeAttr)

    def verify_access(self) -> None:
        rank = len(extents(self.target.type))
        self.expect(
            len(self.index.data) == rank,
            f"{len(self.index.data)} index expressions for {self.target.type} of rank {rank}",
        )
        self.expect_names(self.index.data, self.dims_in_scope(), len(self.indirect))


@irdl_op_definition
class LoadOp(AccessOp):
    """One element of a tensor or memref.  An index out of bounds is an error of the program;
    indices that come from data are checked with `check` beforehand.

    %0 = lpu_loop.load %x[d0, 2 * d1 + 1] : tensor<3x8xf32>
    %1 = lpu_loop.load %table[_0, d1](%i) : tensor<96x24xf32>
    """

    name = "lpu_loop.load"
    output = result_def()
    traits = traits_def(LoadEffect())

    def __init__(self, target: SSAValue, index: Sequence[Expr], indirect: Sequence[SSAValue] = ()):
        super().__init__(
            operands=[target, indirect],
            properties={"index": ShapeAttr(tuple(index))},
            result_types=[scalar_type(element_type(target.type))],
        )

    def verify_(self) -> None:
        self.verify_access()
        expected = scalar_type(element_type(self.target.type))
        self.expect(self.output.type == expected, f"gives {self.output.type}, expected {expected}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.target)
        _print_access(printer, self.index, self.indirect)
        printer.print_string(" : ")
        printer.print_attribute(self.target.type)

    @classmethod
    def parse(cls, parser: Parser) -> LoadOp:
        target = parser.parse_unresolved_operand()
        index, indirect = _parse_access(parser)
        parser.parse_punctuation(":")
        return LoadOp(parser.resolve_operand(target, parser.parse_type()), index, indirect)


@irdl_op_definition
class StoreOp(AccessOp):
    """Writes one element of a destination, or adds to it ("add").

    lpu_loop.store "replace" %v, %out[d0, d1] : f32, tensor<3x64xf32>
    """

    name = "lpu_loop.store"
    kind = prop_def(StringAttr)
    value = operand_def()
    traits = traits_def(MemoryWriteEffect())

    def __init__(
        self,
        kind: str,
        value: SSAValue,
        target: SSAValue,
        index: Sequence[Expr],
        indirect: Sequence[SSAValue] = (),
    ):
        super().__init__(
            operands=[value, target, indirect],
            properties={"kind": StringAttr(kind), "index": ShapeAttr(tuple(index))},
        )

    def verify_(self) -> None:
        self.expect_kind(self.kind.data, STORES)
        self.verify_access()
        expected = scalar_type(element_type(self.target.type))
        self.expect(self.value.type == expected, f"stores {self.value.type}, expected {expected}")
        nest = self.parent_op()
        inside = isinstance(nest, NestOp) and self.target in nest.outs
        self.expect(inside, "must stand directly in a nest that has its target in outs")

    def print(self, printer: Printer) -> None:
        printer.print_string(f' "{self.kind.data}" ')
        printer.print_ssa_value(self.value)
        printer.print_string(", ")
        printer.print_ssa_value(self.target)
        _print_access(printer, self.index, self.indirect)
        printer.print_string(" : ")
        printer.print_attribute(self.value.type)
        printer.print_string(", ")
        printer.print_attribute(self.target.type)

    @classmethod
    def parse(cls, parser: Parser) -> StoreOp:
        kind = parser.parse_str_literal()
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        target = parser.parse_unresolved_operand()
        index, indirect = _parse_access(parser)
        parser.parse_punctuation(":")
        value = parser.resolve_operand(value, parser.parse_type())
        parser.parse_punctuation(",")
        target = parser.resolve_operand(target, parser.parse_type())
        return StoreOp(kind, value, target, index, indirect)


# --- scalars ------------------------------------------------------------------------------------


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


class RegionOverDims(LoopOp):
    """Shared by fold, arg_fold and scan: a kind, further dims, a region that yields a scalar."""

    kind = prop_def(StringAttr)
    dims = prop_def(DimsAttr)
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
        self.expect(isinstance(self.parent_op(), NestOp), "must stand directly in a nest")


@irdl_op_definition
class YieldOp(LoopOp):
    """Ends the region of a fold, scan or piece with its scalar."""

    name = "lpu_loop.yield"
    value = operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "$value attr-dict `:` type($value)"

    def __init__(self, value: SSAValue):
        super().__init__(operands=[value])


LpuLoop = Dialect(
    "lpu_loop",
    [
        EmptyOp,
        WriteBackOp,
        NestOp,
        LoadOp,
        StoreOp,
        IndexOp,
        FoldOp,
        ArgFoldOp,
        ScanOp,
        PiecesOp,
        CheckOp,
        YieldOp,
    ],
)
