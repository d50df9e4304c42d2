"""Nests, their destinations, and the loads and stores in them."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import ClassVar

from xdsl.dialects.builtin import I64, MemRefType, StringAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    EffectInstance,
    MemoryEffect,
    MemoryEffectKind,
    MemoryWriteEffect,
    NoTerminator,
    Pure,
)

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu import (
    DimsAttr,
    Extent,
    ShapeAttr,
    element_type,
    extents,
    i64,
    parse_dims,
    parse_exprs,
    print_dims,
    print_exprs,
    scalar_type,
    tensor_type,
)
from lpu_mlir.dialects.lpu_loop.base import (
    STORES,
    Dim,
    DimsOp,
    LoadEffect,
    LoopOp,
)
from lpu_mlir.dialects.lpu_loop.scalar import CheckOp


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


class ParallelOp(DimsOp):
    """Shared by a nest and its parts: dims for whose points a body runs."""

    PARALLEL: ClassVar = True

    body = region_def("single_block")

    def verify_body(self) -> None:
        """The body is values and checks, then stores and parts."""
        self.expect_dims(self.dims.data, "d", ())
        self.expect(not self.body.block.args, "the body takes no arguments")
        ends = [isinstance(op, StoreOp | OverOp) for op in self.body.block.ops]
        self.expect(ends == sorted(ends), "stores and parts must come last")


@irdl_op_definition
class NestOp(ParallelOp):
    """Runs its body for every point of `dims`; see the module for an example.

    With tensors it has one result for each `outs` operand; with memrefs none.  The body is values
    and checks, then stores and parts (`over`): at each point, loads come before stores.
    """

    OUTERMOST: ClassVar = True

    name = "lpu_loop.nest"
    outs = var_operand_def(TensorType | MemRefType)
    outputs = var_result_def(TensorType)
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
        self.verify_body()
        self.expect(len(set(self.outs)) == len(self.outs), "the operands in outs must differ")
        on_tensors = all(isinstance(out.type, TensorType) for out in self.outs)
        on_memrefs = all(isinstance(out.type, MemRefType) for out in self.outs)
        self.expect(on_tensors or on_memrefs, "outs must be all tensors or all memrefs")
        expected = [out.type for out in self.outs] if on_tensors else []
        self.expect(
            [r.type for r in self.outputs] == expected,
            "needs one result for each tensor in outs and none for memrefs",
        )
        names = [n for op in self.walk() if isinstance(op, ParallelOp) for n, _ in op.dims.data]
        self.expect(len(set(names)) == len(names), f"dims {names} of the parts are not distinct")

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


@irdl_op_definition
class OverOp(ParallelOp):
    """A part of a nest: runs its body for every point of further parallel dims.

    So the stores of one nest can have different dims; what depends on the dims around only is
    there once, for all parts.  Parts are independent: none reads what another stores.

    %q, %k = lpu_loop.nest [d0 = 5] outs(%e, %f : tensor<5x576xf32>, tensor<5x192xf32>) {
      %0 = …
      lpu_loop.over [d1 = 576] { …; lpu_loop.store "replace" %1, %e[d0, d1] : f32, … }
      lpu_loop.over [d2 = 192] { …; lpu_loop.store "replace" %2, %f[d0, d2] : f32, … }
    } -> tensor<5x576xf32>, tensor<5x192xf32>
    """

    name = "lpu_loop.over"
    traits = traits_def(NoTerminator(), MemoryWriteEffect())

    def __init__(self, dims: Sequence[Dim], body: Region):
        super().__init__(properties={"dims": DimsAttr(tuple(dims))}, regions=[body])

    def verify_(self) -> None:
        parent = self.parent_op()
        inside = isinstance(parent, DimsOp) and parent.PARALLEL
        self.expect(inside, "must stand directly in a nest or a part of one")
        self.expect(len(self.dims.data) > 0, "needs a dim")
        self.verify_body()

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_dims(printer, self.dims.data)
        printer.print_string(" ")
        printer.print_region(self.body)

    @classmethod
    def parse(cls, parser: Parser) -> OverOp:
        return OverOp(parse_dims(parser), parser.parse_region())


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
    """Writes one element of a destination, or combines it with what is there ("add", "mul", …).

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
        while isinstance(nest, OverOp):
            nest = nest.parent_op()
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
