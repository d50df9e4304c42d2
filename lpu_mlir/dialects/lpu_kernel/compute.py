"""Making tiles and computing them element by element. Everything here is pure."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
)
from xdsl.dialects.utils import (
    AbstractYieldOperation,
    DynamicIndexList,
    parse_dynamic_index_list_without_types,
    print_dynamic_index_list,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from lpu_mlir.dialects.lpu import RemFOp, scalar_type
from lpu_mlir.dialects.lpu_kernel.types import (
    INTS,
    Index,
    TileType,
    Word,
    dense,
    join_indices,
    split_indices,
    tile,
    verify_capacity,
    verify_dims,
    verify_indices,
    without,
)


@irdl_op_definition
class YieldOp(AbstractYieldOperation[Attribute]):
    """
    Ends the region of a map (its scalars) or of a for (its tiles).

    ```mlir
    lpu_kernel.yield %v : f32
    ```
    """

    name = "lpu_kernel.yield"
    traits = traits_def(IsTerminator(), Pure())


class TileOp(IRDLOperation, ABC):
    """An operation that yields one tile; `sram` is the byte offset given to it."""

    result = result_def(TileType)
    sram = opt_prop_def(INTS)
    traits = traits_def(Pure())
    custom_directives = (DynamicIndexList, Word)


@irdl_op_definition
class FillOp(TileOp):
    """
    A tile of these extents with every element equal to a constant.

    ```mlir
    %t = lpu_kernel.fill 0.0 : f32 [8, %n] -> !lpu_kernel.tile<8x64xf32>
    ```
    """

    name = "lpu_kernel.fill"
    value = prop_def(FloatAttr | IntegerAttr)
    sizes = var_operand_def(IndexType)
    static_sizes = prop_def(INTS)

    assembly_format = (
        "$value custom<DynamicIndexList>($sizes, $static_sizes) (`sram` $sram^)? attr-dict "
        "`->` type($result)"
    )

    def __init__(
        self,
        value: FloatAttr[AnyFloat] | IntegerAttr[IntegerType] | float | bool,
        sizes: Sequence[Index | Operation],
        result: TileType,
    ):
        """A Python number takes the result's element type, and must suit it."""
        dynamic, static = split_indices(sizes)
        super().__init__(
            operands=[dynamic],
            result_types=[result],
            properties={
                "value": constant(value, result.element_type)
                if isinstance(value, int | float)
                else value,
                "static_sizes": static,
            },
        )

    def verify_(self) -> None:
        type = tile(self.result)
        expected = scalar_type(type.element_type)
        if self.value.type != expected:
            raise VerifyException(f"fill value is {self.value.type}, expected {expected}")
        verify_indices("sizes", self.sizes, self.static_sizes, type.get_num_dims())
        verify_capacity("size", self.static_sizes, type.get_shape())


def constant(
    value: float | bool, element: Attribute
) -> FloatAttr[AnyFloat] | IntegerAttr[IntegerType]:
    """The attribute of a number as a scalar of this element type."""
    scalar = scalar_type(element)
    if isinstance(scalar, AnyFloat):
        return FloatAttr(float(value), scalar)
    assert isa(scalar, IntegerType)
    return IntegerAttr(int(value), scalar, truncate_bits=True)


@irdl_op_definition
class SliceOp(TileOp):
    """
    Part of a tile. The part must lie within the tile's extents. `drop` names dims of size 1 that
    the result lacks.

    ```mlir
    %s = lpu_kernel.slice %t[%o, 0] [1, %n]
           : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<1x64xf32>
    %l = lpu_kernel.slice %t[0, %last] [8, 1] drop [1]
           : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<8xf32>
    ```
    """

    name = "lpu_kernel.slice"
    source = operand_def(TileType)
    offsets = var_operand_def(IndexType)
    static_offsets = prop_def(INTS)
    sizes = var_operand_def(IndexType)
    static_sizes = prop_def(INTS)
    drop = opt_prop_def(INTS)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$source `` custom<DynamicIndexList>($offsets, $static_offsets) "
        "custom<DynamicIndexList>($sizes, $static_sizes) (`drop` $drop^)? (`sram` $sram^)? "
        "attr-dict "
        "`:` type($source) `->` type($result)"
    )

    def __init__(
        self,
        source: SSAValue | Operation,
        offsets: Sequence[Index | Operation],
        sizes: Sequence[Index | Operation],
        result: TileType,
        *,
        drop: Sequence[int] = (),
    ):
        dynamic_offsets, static_offsets = split_indices(offsets)
        dynamic_sizes, static_sizes = split_indices(sizes)
        super().__init__(
            operands=[source, dynamic_offsets, dynamic_sizes],
            result_types=[result],
            properties={
                "static_offsets": static_offsets,
                "static_sizes": static_sizes,
                "drop": dense(drop) if drop else None,
            },
        )

    @property
    def dropped(self) -> tuple[int, ...]:
        """The dims that the result lacks."""
        return () if self.drop is None else tuple(self.drop.get_values())

    def verify_(self) -> None:
        source, result = tile(self.source), tile(self.result)
        verify_same_element(source, result)
        rank, dropped = source.get_num_dims(), self.dropped
        verify_indices("offsets", self.offsets, self.static_offsets, rank)
        verify_indices("sizes", self.sizes, self.static_sizes, rank)
        verify_dims("dropped dims", dropped, rank)
        sizes = self.static_sizes.get_values()
        if any(sizes[dim] != 1 for dim in dropped):
            raise VerifyException(f"dropped dims {list(dropped)} must have size 1")
        if result.get_num_dims() != rank - len(dropped):
            raise VerifyException(
                f"expected a result of rank {rank - len(dropped)}, got {result.get_num_dims()}"
            )
        verify_capacity("size", dense(without(sizes, dropped)), result.get_shape())


@irdl_op_definition
class WindowsOp(IRDLOperation):
    """
    A tile seen through windows that may overlap: dim i of the result moves along dim `along[i]` of
    the tile by `steps[i]` elements. Several dims of the result may move along one of the tile.

    Nothing is moved and no SRAM is taken: it is a pattern of addresses, which an address generator
    between SRAM and the units steps through. So one copy of the input of a convolution in SRAM
    serves every place of its kernel. Every element named must lie within the tile's extents.

    ```mlir
    %w = lpu_kernel.windows %t along [0, 1, 1] steps [1, 2, 1] [8, %n, 3]
           : !lpu_kernel.tile<8x33xf32> -> !lpu_kernel.tile<8x16x3xf32>
    ```
    """

    name = "lpu_kernel.windows"
    source = operand_def(TileType)
    along = prop_def(INTS)
    steps = prop_def(INTS)
    sizes = var_operand_def(IndexType)
    static_sizes = prop_def(INTS)
    result = result_def(TileType)

    traits = traits_def(Pure())
    custom_directives = (DynamicIndexList,)
    assembly_format = (
        "$source `along` $along `steps` $steps custom<DynamicIndexList>($sizes, $static_sizes) "
        "attr-dict `:` type($source) `->` type($result)"
    )

    def __init__(
        self,
        source: SSAValue | Operation,
        along: Sequence[int],
        steps: Sequence[int],
        sizes: Sequence[Index | Operation],
        result: TileType,
    ):
        dynamic, static = split_indices(sizes)
        super().__init__(
            operands=[source, dynamic],
            result_types=[result],
            properties={
                "along": dense(along),
                "steps": dense(steps),
                "static_sizes": static,
            },
        )

    def verify_(self) -> None:
        source, result = tile(self.source), tile(self.result)
        along, steps = self.along.get_values(), self.steps.get_values()
        verify_same_element(source, result)
        if not len(along) == len(steps) == result.get_num_dims():
            raise VerifyException(
                f"{len(along)} dims and {len(steps)} steps for a result of rank "
                f"{result.get_num_dims()}"
            )
        if set(along) != set(range(source.get_num_dims())):
            raise VerifyException(
                f"the result moves along dims {sorted(set(along))}, expected every one of "
                f"0..{source.get_num_dims() - 1}"
            )
        if min(steps, default=1) < 1:
            raise VerifyException(f"steps {list(steps)} must be positive")
        verify_indices("sizes", self.sizes, self.static_sizes, result.get_num_dims())
        verify_capacity("size", self.static_sizes, result.get_shape())


def backing(value: SSAValue) -> SSAValue:
    """The tile whose SRAM a value is in: what a view looks at, else itself."""
    while isinstance(value.owner, WindowsOp):
        value = value.owner.source
    return value


def verify_same_element(source: TileType, result: TileType) -> None:
    if source.element_type != result.element_type:
        raise VerifyException(
            f"result element type {result.element_type} differs from the operand's "
            f"{source.element_type}"
        )


@irdl_op_definition
class MapOp(IRDLOperation):
    """
    Computes each element of its results from the elements of its inputs at the same position.

    The sizes are the extents of the map's dims. Each input names the map dim of each of its own
    dims, and is broadcast over the others. The region's arguments are one index per dim (its
    offset plus the local position) and one scalar per input; it holds arith and math operations
    and lpu.remf. Scalars defined outside may be used. Results have all the map's dims in order.

    ```mlir
    %r = lpu_kernel.map [8, %n] at [%c, 0]
        ins(%x as [0, 1], %g as [1] : !lpu_kernel.tile<8x576xf32>, !lpu_kernel.tile<576xf32>)
        -> (!lpu_kernel.tile<8x576xf32>) {
    ^bb0(%i : index, %k : index, %a : f32, %b : f32):
      %v = arith.mulf %a, %b : f32
      lpu_kernel.yield %v : f32
    }
    ```
    """

    name = "lpu_kernel.map"
    sizes = var_operand_def(IndexType)
    static_sizes = prop_def(INTS)
    offsets = var_operand_def(IndexType)
    static_offsets = prop_def(INTS)
    inputs = var_operand_def(TileType)
    input_dims = prop_def(ArrayAttr[DenseArrayBase[IntegerType]])
    outputs = var_result_def(TileType)
    sram = opt_prop_def(INTS)
    body = region_def("single_block")

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())

    def __init__(
        self,
        sizes: Sequence[Index | Operation],
        inputs: Sequence[tuple[SSAValue | Operation, Sequence[int]]],
        results: Sequence[TileType],
        body: Region | Block | None = None,
        *,
        offsets: Sequence[Index | Operation] | None = None,
    ):
        """
        `inputs` pairs each tile with its map dims. Offsets default to 0. Without a body, an empty
        block with the right arguments is made, to be filled by the caller.
        """
        dynamic_sizes, static_sizes = split_indices(sizes)
        dynamic_offsets, static_offsets = split_indices(
            [0] * len(sizes) if offsets is None else offsets
        )
        tiles = [SSAValue.get(value) for value, _ in inputs]
        if body is None:
            scalars = [scalar_type(tile(value).element_type) for value in tiles]
            body = Block(arg_types=[IndexType()] * len(sizes) + scalars)
        super().__init__(
            operands=[dynamic_sizes, dynamic_offsets, tiles],
            result_types=[results],
            properties={
                "static_sizes": static_sizes,
                "static_offsets": static_offsets,
                "input_dims": ArrayAttr(dense(dims) for _, dims in inputs),
            },
            regions=[Region(body) if isinstance(body, Block) else body],
        )

    @property
    def rank(self) -> int:
        return len(self.static_sizes)

    @property
    def index_args(self) -> Sequence[SSAValue]:
        """The region's index arguments, one per dim."""
        return self.body.block.args[: self.rank]

    @property
    def scalar_args(self) -> Sequence[SSAValue]:
        """The region's scalar arguments, one per input."""
        return self.body.block.args[self.rank :]

    @property
    def yield_op(self) -> YieldOp:
        last = self.body.block.last_op
        assert isinstance(last, YieldOp)
        return last

    def map_sizes(self) -> tuple[Index, ...]:
        return join_indices(self.sizes, self.static_sizes)

    def map_offsets(self) -> tuple[Index, ...]:
        return join_indices(self.offsets, self.static_offsets)

    def dims_of_inputs(self) -> tuple[tuple[int, ...], ...]:
        """The map dims of each input's dims."""
        return tuple(tuple(dims.get_values()) for dims in self.input_dims)

    def verify_(self) -> None:
        verify_indices("sizes", self.sizes, self.static_sizes, self.rank)
        verify_indices("offsets", self.offsets, self.static_offsets, self.rank)
        if len(self.input_dims) != len(self.inputs):
            raise VerifyException(f"{len(self.inputs)} inputs but dims for {len(self.input_dims)}")
        for value, dims in zip(self.inputs, self.dims_of_inputs(), strict=True):
            verify_dims("input dims", dims, self.rank)
            capacity = tile(value).get_shape()
            if len(dims) != len(capacity):
                raise VerifyException(f"input of rank {len(capacity)} names {len(dims)} map dims")
            sizes = self.static_sizes.get_values()
            verify_capacity("size", dense(sizes[dim] for dim in dims), capacity)
        self._verify_region()
        self._verify_results()

    def _verify_region(self) -> None:
        elements = [scalar_type(tile(value).element_type) for value in self.inputs]
        expected = [IndexType()] * self.rank + elements
        if list(self.body.block.arg_types) != expected:
            raise VerifyException(
                f"region arguments are ({', '.join(map(str, self.body.block.arg_types))}), "
                f"expected ({', '.join(map(str, expected))})"
            )
        *scalars, last = self.body.block.ops
        if not isinstance(last, YieldOp):
            raise VerifyException(f"the region must end in lpu_kernel.yield, not {last.name}")
        for op in scalars:
            if not op.name.startswith(("arith.", "math.")) and not isinstance(op, RemFOp):
                raise VerifyException(
                    f"{op.name} in the region, expected arith, math and lpu.remf only"
                )

    def _verify_results(self) -> None:
        yielded = list(self.yield_op.arguments.types)
        types = [tile(value) for value in self.outputs]
        expected = [scalar_type(type.element_type) for type in types]
        if yielded != expected:
            raise VerifyException(
                f"the region yields ({', '.join(map(str, yielded))}), "
                f"expected ({', '.join(map(str, expected))})"
            )
        for type in types:
            if type.get_num_dims() != self.rank:
                raise VerifyException(
                    f"expected results of rank {self.rank}, got {type.get_num_dims()}"
                )
            verify_capacity("size", self.static_sizes, type.get_shape())

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_dynamic_index_list(
            printer, DYNAMIC_INDEX, self.sizes, self.static_sizes.iter_values()
        )
        if any(self.static_offsets.iter_values()):
            printer.print_string(" at ")
            print_dynamic_index_list(
                printer, DYNAMIC_INDEX, self.offsets, self.static_offsets.iter_values()
            )
        if self.inputs:
            printer.print_string(" ins(")
            pairs = zip(self.inputs, self.dims_of_inputs(), strict=True)
            printer.print_list(pairs, lambda pair: _print_use(printer, *pair))
            printer.print_string(" : ")
            printer.print_list(self.inputs.types, printer.print_attribute)
            printer.print_string(")")
        printer.print_string(" -> (")
        printer.print_list(self.outputs.types, printer.print_attribute)
        printer.print_string(") ")
        if self.sram is not None:
            offsets = ", ".join(map(str, self.sram.iter_values()))
            printer.print_string(f"sram [{offsets}] ")
        printer.print_region(self.body)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> MapOp:
        sizes = _parse_indices(parser)
        offsets: list[Index] = [0] * len(sizes)
        if parser.parse_optional_keyword("at"):
            offsets = _parse_indices(parser)
        pairs: list[tuple[UnresolvedOperand, list[int]]] = []
        types: Sequence[Attribute] = ()
        position = parser.pos
        if parser.parse_optional_keyword("ins"):
            parser.parse_punctuation("(")
            pairs = parser.parse_comma_separated_list(
                parser.Delimiter.NONE, lambda: _parse_use(parser)
            )
            parser.parse_punctuation(":")
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
            parser.parse_punctuation(")")
        inputs = parser.resolve_operands([use for use, _ in pairs], types, position)
        parser.parse_punctuation("->")
        position = parser.pos
        results: list[TileType] = []
        for type in parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type):
            if not isinstance(type, TileType):
                parser.raise_error(f"expected a tile type, got {type}", position)
            results.append(type)
        sram = None
        if parser.parse_optional_keyword("sram"):
            sram = dense(
                parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
            )
        body = parser.parse_region()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        dims = [dims for _, dims in pairs]
        op = cls(sizes, list(zip(inputs, dims, strict=True)), results, body, offsets=offsets)
        if sram is not None:
            op.sram = sram
        if attributes is not None:
            op.attributes |= attributes.data
        return op


def _print_use(printer: Printer, value: SSAValue, dims: tuple[int, ...]) -> None:
    printer.print_operand(value)
    printer.print_string(f" as {list(dims)}")


def _parse_use(parser: Parser) -> tuple[UnresolvedOperand, list[int]]:
    operand = parser.parse_unresolved_operand()
    parser.parse_keyword("as")
    return operand, parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)


def _parse_indices(parser: Parser) -> list[Index]:
    operands, static = parse_dynamic_index_list_without_types(parser, DYNAMIC_INDEX)
    dynamic = [parser.resolve_operand(operand, IndexType()) for operand in operands]
    return list(join_indices(dynamic, dense(static)))
