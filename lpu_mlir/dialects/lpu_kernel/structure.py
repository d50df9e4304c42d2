"""Kernels, their phases and loops, index arithmetic, and checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I64,
    ArrayAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    SymbolNameConstraint,
    i1,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    opt_region_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import (
    IsolatedFromAbove,
    MemoryWriteEffect,
    NoTerminator,
    Pure,
    RecursiveMemoryEffect,
    SingleBlockImplicitTerminator,
    SymbolOpInterface,
    SymbolTable,
    ensure_terminator,
)
from xdsl.utils.exceptions import VerifyException

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu import ExprAttr
from lpu_mlir.dialects.lpu_kernel.compute import YieldOp
from lpu_mlir.dialects.lpu_kernel.movement import ChannelOp
from lpu_mlir.dialects.lpu_kernel.types import (
    INTS,
    Index,
    TileType,
    dense,
    join_indices,
    split_indices,
    verify_indices,
    verify_word,
)

ACCESSES = ("ro", "wo", "rw")
LOOP_KINDS = ("parallel", "reduction", "sequential")
CHECK_ERRORS = ("IndexError", "ZeroDivisionError", "RuntimeError")


@irdl_op_definition
class ApplyOp(IRDLOperation):
    """
    Index arithmetic: an expression over `d0`, `d1`, ... that stand for the operands.

    ```mlir
    %o = lpu_kernel.apply <24 * d0 + min(3, d1)>(%c, %i)
    ```
    """

    name = "lpu_kernel.apply"
    map = prop_def(ExprAttr)
    operands_ = var_operand_def(IndexType)
    result = result_def(IndexType)

    traits = traits_def(Pure())
    assembly_format = "$map `` `(` $operands_ `)` attr-dict"

    def __init__(self, expr: Expr, operands: Sequence[SSAValue | Operation] = ()):
        super().__init__(
            operands=[operands],
            result_types=[IndexType()],
            properties={"map": ExprAttr(expr)},
        )

    def verify_(self) -> None:
        known = {f"d{n}" for n in range(len(self.operands_))}
        if unknown := self.map.data.names() - known:
            raise VerifyException(
                f"expression names {sorted(unknown)}, expected only d0.. for the "
                f"{len(known)} operands"
            )


@irdl_op_definition
class CheckOp(IRDLOperation):
    """
    Every element (or the scalar) must be true. Where it is not, the program raises that exception
    after the launch; the kernel itself runs on.

    ```mlir
    lpu_kernel.check %ok, "IndexError", "index out of range" : !lpu_kernel.tile<8xi1>
    ```
    """

    name = "lpu_kernel.check"
    condition = operand_def(TileType | IntegerType)
    error = prop_def(StringAttr)
    message = prop_def(StringAttr)

    # It must neither be removed nor be moved across a phase.
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$condition `,` $error `,` $message attr-dict `:` type($condition)"

    def __init__(self, condition: SSAValue | Operation, error: str, message: str):
        super().__init__(
            operands=[condition],
            properties={"error": StringAttr(error), "message": StringAttr(message)},
        )

    def verify_(self) -> None:
        verify_word("error", self.error, CHECK_ERRORS)
        type = self.condition.type
        element = type.element_type if isinstance(type, TileType) else type
        if element != i1:
            raise VerifyException(f"expected a condition of i1, got {element}")


@irdl_op_definition
class ForOp(IRDLOperation):
    """
    A counted loop; it may make no trip. Tiles are carried through `iter_args`.

    `parallel` iterations do not depend on each other and carry nothing; `reduction` iterations
    combine into what they carry in any order; `sequential` ones run in order. `sram` gives each
    carried tile a buffer of its own, into which its initial and yielded values are copied.

    ```mlir
    %s = lpu_kernel.for reduction %i = 0 to %n step 64 iter_args(%a = %zero)
        -> (!lpu_kernel.tile<8xf32>) {
      lpu_kernel.yield %b : !lpu_kernel.tile<8xf32>
    }
    ```
    """

    name = "lpu_kernel.for"
    kind = prop_def(StringAttr)
    bounds = var_operand_def(IndexType)
    static_bounds = prop_def(INTS)
    iter_args = var_operand_def(TileType)
    outputs = var_result_def(TileType)
    sram = opt_prop_def(INTS)
    body = region_def("single_block")

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(SingleBlockImplicitTerminator(YieldOp), RecursiveMemoryEffect())

    def __init__(
        self,
        kind: str,
        lower: Index | Operation,
        upper: Index | Operation,
        step: Index | Operation,
        iter_args: Sequence[SSAValue | Operation] = (),
        body: Region | Block | None = None,
    ):
        """
        Without a body, a block with the right arguments is made: the loop index, then one tile
        per `iter_args`. The caller fills it and ends it with a yield (or with `end_body`).
        """
        dynamic, static = split_indices([lower, upper, step])
        carried = [SSAValue.get(value) for value in iter_args]
        types = [value.type for value in carried]
        if body is None:
            body = Block(arg_types=[IndexType(), *types])
        super().__init__(
            operands=[dynamic, carried],
            result_types=[types],
            properties={"kind": StringAttr(kind), "static_bounds": static},
            regions=[Region(body) if isinstance(body, Block) else body],
        )

    def loop_bounds(self) -> tuple[Index, Index, Index]:
        """Lower bound, upper bound (exclusive), step."""
        lower, upper, step = join_indices(self.bounds, self.static_bounds)
        return lower, upper, step

    def end_body(self) -> None:
        """Append the empty yield of a loop that carries nothing, unless it is there."""
        for trait in self.get_traits_of_type(SingleBlockImplicitTerminator):
            ensure_terminator(self, trait)

    @property
    def induction(self) -> SSAValue:
        """The loop index inside the body."""
        return self.body.block.args[0]

    @property
    def carried_args(self) -> Sequence[SSAValue]:
        """The carried tiles inside the body."""
        return self.body.block.args[1:]

    @property
    def yield_op(self) -> YieldOp:
        last = self.body.block.last_op
        assert isinstance(last, YieldOp)
        return last

    def verify_(self) -> None:
        verify_word("loop kind", self.kind, LOOP_KINDS)
        verify_indices("bounds", self.bounds, self.static_bounds, 3)
        step = self.static_bounds.get_values()[2]
        if step != DYNAMIC_INDEX and step < 1:
            raise VerifyException(f"step {step} must be at least 1")
        if self.kind.data == "parallel" and self.iter_args:
            raise VerifyException("a parallel loop carries nothing, expected reduction")
        carried = self.iter_args.types
        for what, types in (
            ("results", self.outputs.types),
            ("region arguments after the index", self.body.block.arg_types[1:]),
            ("yielded values", self.yield_op.arguments.types),
        ):
            if tuple(types) != tuple(carried):
                raise VerifyException(
                    f"{what} are ({', '.join(map(str, types))}), expected the types of "
                    f"iter_args ({', '.join(map(str, carried))})"
                )
        if not self.body.block.arg_types or self.body.block.arg_types[0] != IndexType():
            raise VerifyException("the first region argument is the loop index, of type index")

    def print(self, printer: Printer) -> None:
        lower, upper, step = self.loop_bounds()
        printer.print_string(f" {self.kind.data} ")
        printer.print_ssa_value(self.induction)
        for word, bound in ((" = ", lower), (" to ", upper), (" step ", step)):
            printer.print_string(word)
            _print_index(printer, bound)
        if self.iter_args:
            printer.print_string(" iter_args(")
            pairs = zip(self.carried_args, self.iter_args, strict=True)
            printer.print_list(pairs, lambda pair: _print_pair(printer, *pair))
            printer.print_string(") -> (")
            printer.print_list(self.outputs.types, printer.print_attribute)
            printer.print_string(")")
            if self.sram is not None:
                offsets = ", ".join(map(str, self.sram.iter_values()))
                printer.print_string(f" sram [{offsets}]")
        printer.print_string(" ")
        printer.print_region(
            self.body,
            print_entry_block_args=False,
            print_empty_block=False,
            print_block_terminators=bool(self.iter_args),
        )
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> ForOp:
        kind = parser.parse_identifier()
        induction = parser.parse_argument(expect_type=False)
        bounds: list[Index] = []
        for word in ("=", "to", "step"):
            parser.parse_characters(word)
            bounds.append(_parse_index(parser))
        pairs: list[tuple[Parser.UnresolvedArgument, UnresolvedOperand]] = []
        types: Sequence[Attribute] = ()
        sram = None
        position = parser.pos
        if parser.parse_optional_keyword("iter_args"):
            pairs = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: _parse_pair(parser)
            )
            parser.parse_punctuation("->")
            types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
            if parser.parse_optional_keyword("sram"):
                sram = dense(
                    parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
                )
        inits = parser.resolve_operands([value for _, value in pairs], types, position)
        arguments = [induction.resolve(IndexType())]
        arguments += [arg.resolve(type) for (arg, _), type in zip(pairs, types, strict=True)]
        body = parser.parse_region(arguments)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op = cls(kind, *bounds, iter_args=inits, body=body)
        if not inits:
            op.end_body()
        if sram is not None:
            op.sram = sram
        if attributes is not None:
            op.attributes |= attributes.data
        return op


def _print_index(printer: Printer, index: Index) -> None:
    if isinstance(index, int):
        printer.print_string(str(index))
    else:
        printer.print_operand(index)


def _parse_index(parser: Parser) -> Index:
    operand = parser.parse_optional_unresolved_operand()
    if operand is None:
        return parser.parse_integer(allow_boolean=False)
    return parser.resolve_operand(operand, IndexType())


def _print_pair(printer: Printer, inner: SSAValue, outer: SSAValue) -> None:
    printer.print_ssa_value(inner)
    printer.print_string(" = ")
    printer.print_ssa_value(outer)


def _parse_pair(parser: Parser) -> tuple[Parser.UnresolvedArgument, UnresolvedOperand]:
    inner = parser.parse_argument(expect_type=False)
    parser.parse_punctuation("=")
    return inner, parser.parse_unresolved_operand()


@irdl_op_definition
class PhaseOp(IRDLOperation):
    """
    A program that every core runs, with its core id, up to a barrier at its end. Values do not
    cross phases. After split-movement a second program, `top`, feeds the channels; its argument
    is the core it feeds.

    ```mlir
    lpu_kernel.phase top(%d) {
      %r = lpu_kernel.apply <8 * d0>(%d)
      lpu_kernel.request @ch0 %x[%r, 0] [8, 576] to each : memref<64x576xf32, "shared_dram">
    } cores(%c) {
      %t = lpu_kernel.receive @ch0 : !lpu_kernel.tile<8x576xf32>
    }
    ```
    """

    name = "lpu_kernel.phase"
    cores = region_def("single_block")
    top = opt_region_def("single_block")

    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())

    def __init__(self, cores: Region | Block | None = None, top: Region | Block | None = None):
        """Without `cores`, an empty block with the core id as its argument is made."""
        body = Block(arg_types=[IndexType()]) if cores is None else cores
        super().__init__(
            regions=[
                Region(body) if isinstance(body, Block) else body,
                Region(top) if isinstance(top, Block) else top,
            ]
        )

    @property
    def core_id(self) -> SSAValue:
        return self.cores.block.args[0]

    def add_top(self, block: Block) -> None:
        """Give a phase without one the program that feeds its channels."""
        assert self.top is None
        self.add_region(Region(block))

    def verify_(self) -> None:
        for region in self.regions:
            if list(region.block.arg_types) != [IndexType()]:
                raise VerifyException("a phase's region has one argument, the core, of type index")

    def print(self, printer: Printer) -> None:
        if self.top is not None:
            _print_program(printer, "top", self.top)
        _print_program(printer, "cores", self.cores)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> PhaseOp:
        top = None
        if parser.parse_optional_keyword("top"):
            top = _parse_program(parser)
        parser.parse_keyword("cores")
        op = cls(_parse_program(parser), top)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        if attributes is not None:
            op.attributes |= attributes.data
        return op


def _print_program(printer: Printer, word: str, region: Region) -> None:
    printer.print_string(f" {word}(")
    printer.print_ssa_value(region.block.args[0])
    printer.print_string(") ")
    printer.print_region(region, print_entry_block_args=False, print_empty_block=False)


def _parse_program(parser: Parser) -> Region:
    parser.parse_punctuation("(")
    core = parser.parse_argument(expect_type=False)
    parser.parse_punctuation(")")
    return parser.parse_region([core.resolve(IndexType())])


@irdl_op_definition
class KernelOp(IRDLOperation):
    """
    A program for `cores` cores: channels, then phases in order. Its arguments are memrefs, each
    with what the kernel may do with it (`ro`, `wo`, `rw`), and index values.

    ```mlir
    lpu_kernel.kernel @double(%x: memref<8x64xf32, "shared_dram">,
                              %y: memref<8x64xf32, "shared_dram">, %n: index)
        access [ro, wo] cores 8 {
      lpu_kernel.phase cores(%c) {
        %t = lpu_kernel.load %x[%c, 0] [1, %n]
          : memref<8x64xf32, "shared_dram"> -> !lpu_kernel.tile<1x64xf32>
        ...
      }
    }
    ```
    """

    name = "lpu_kernel.kernel"
    sym_name = prop_def(SymbolNameConstraint())
    access = prop_def(ArrayAttr[StringAttr])
    num_cores = prop_def(IntegerAttr[I64])
    body = region_def("single_block")

    traits = traits_def(SymbolOpInterface(), SymbolTable(), IsolatedFromAbove(), NoTerminator())

    def __init__(
        self,
        name: str,
        access: Sequence[str],
        cores: int,
        body: Region | Block | Sequence[Attribute],
    ):
        """
        `access` is one word per memref argument in order. `body` may be just the argument types:
        an empty block with these is made, to be filled with channels and phases.
        """
        if isinstance(body, Sequence):
            body = Block(arg_types=body)
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "access": ArrayAttr(map(StringAttr, access)),
                "num_cores": IntegerAttr(cores, i64),
            },
            regions=[Region(body) if isinstance(body, Block) else body],
        )

    @property
    def args(self) -> Sequence[SSAValue]:
        return self.body.block.args

    @property
    def cores(self) -> int:
        return self.num_cores.value.data

    def access_of(self, memref: SSAValue) -> str:
        """What the kernel may do with one of its memref arguments."""
        memrefs = [arg for arg in self.args if isinstance(arg.type, MemRefType)]
        return self.access.data[memrefs.index(memref)].data

    def channels(self) -> dict[str, ChannelOp]:
        """The channels by name."""
        ops = self.body.block.ops
        return {op.sym_name.data: op for op in ops if isinstance(op, ChannelOp)}

    def phases(self) -> Iterator[PhaseOp]:
        return (op for op in self.body.block.ops if isinstance(op, PhaseOp))

    def verify_(self) -> None:
        from lpu_mlir.dialects.lpu_kernel.verify_kernel import verify_kernel

        verify_kernel(self)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name)
        printer.print_string("(")
        printer.print_list(self.args, lambda arg: _print_argument(printer, arg))
        words = ", ".join(word.data for word in self.access)
        printer.print_string(f") access [{words}] cores {self.cores} ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> KernelOp:
        name = parser.parse_symbol_name()
        arguments = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parser.parse_argument(expect_type=True)
        )
        parser.parse_keyword("access")
        access = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parser.parse_identifier()
        )
        parser.parse_keyword("cores")
        cores = parser.parse_integer(allow_boolean=False)
        body = parser.parse_region(arguments)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op = cls(name.data, access, cores, body)
        if attributes is not None:
            op.attributes |= attributes.data
        return op


def _print_argument(printer: Printer, argument: SSAValue) -> None:
    printer.print_ssa_value(argument)
    printer.print_string(": ")
    printer.print_attribute(argument.type)
