"""Data movement between DRAM and tiles: windows of memrefs, as one step or through a channel."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import cast

from xdsl.dialects.builtin import (
    I64,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    i1,
    i64,
)
from xdsl.dialects.utils import DynamicIndexList
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    EffectInstance,
    MemoryEffect,
    MemoryEffectKind,
    MemoryReadEffect,
    MemoryWriteEffect,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from lpu_mlir.dialects.lpu_kernel.types import (
    INTS,
    Index,
    TileType,
    Word,
    dense,
    join_indices,
    memref_element,
    split_indices,
    tile,
    verify_capacity,
    verify_indices,
    verify_word,
    without,
)

DESTINATIONS = ("each", "all")
"""Whom a request serves: the core that top runs for, or every core at once."""

STORE_KINDS = ("replace", "add", "mul", "max", "min")
"""What a store does with the elements that are there."""

_INDEX_BY = "(`index` $index_dim^ `by` $index)?"


def index_shape(index: SSAValue) -> tuple[int, ...]:
    """The dims that an index puts in place of the one it selects: none for a scalar."""
    return index.type.get_shape() if isinstance(index.type, TileType) else ()


class WindowOp(IRDLOperation, ABC):
    """
    What addresses a window of a memref: one offset per dimension, and optionally one dimension
    whose positions come from an index: an index value or a tile of i64.

    The offset of an indexed dimension must be 0; its positions are those of the index, in order.
    In the tile the dims of the index (none for a scalar) stand in its place.
    """

    memref = operand_def(MemRefType)
    offsets = var_operand_def(IndexType)
    static_offsets = prop_def(INTS)
    index = opt_operand_def(IndexType | TileType)
    index_dim = opt_prop_def(IntegerAttr[I64])

    custom_directives = (DynamicIndexList, Word)

    @property
    def memref_type(self) -> MemRefType[Attribute]:
        return cast("MemRefType[Attribute]", self.memref.type)

    @property
    def indexed_dim(self) -> int | None:
        """The dimension whose positions come from the index, if there is one."""
        return None if self.index_dim is None else self.index_dim.value.data

    def window_offsets(self) -> tuple[Index, ...]:
        return join_indices(self.offsets, self.static_offsets)

    def verify_window(self) -> None:
        verify_indices(
            "offsets", self.offsets, self.static_offsets, self.memref_type.get_num_dims()
        )
        dim = self.indexed_dim
        if (self.index is None) != (dim is None):
            raise VerifyException("an index and the dimension it selects must be given together")
        if self.index is None or dim is None:
            return
        if not 0 <= dim < self.memref_type.get_num_dims():
            raise VerifyException(
                f"index dimension {dim} is outside the memref's rank "
                f"{self.memref_type.get_num_dims()}"
            )
        if isinstance(self.index.type, TileType) and self.index.type.element_type != i64:
            raise VerifyException(
                f"expected an index tile of i64, got one of {self.index.type.element_type}"
            )
        if self.static_offsets.get_values()[dim] != 0:
            raise VerifyException(f"the offset of the indexed dimension {dim} must be 0")

    def verify_tile(self, type: TileType) -> None:
        """Check the tile's element type and rank against the window."""
        if type.element_type != memref_element(self.memref_type):
            raise VerifyException(
                f"tile element type {type.element_type} does not match the memref's "
                f"{memref_element(self.memref_type)}"
            )
        rank = self.memref_type.get_num_dims()
        expected = rank if self.index is None else rank - 1 + len(index_shape(self.index))
        if type.get_num_dims() != expected:
            raise VerifyException(
                f"expected a tile of rank {expected}, the window's, got rank {type.get_num_dims()}"
            )


class ReadWindowOp(WindowOp, ABC):
    """A window that is read: it also has a size per dimension, 1 at an indexed one."""

    sizes = var_operand_def(IndexType)
    static_sizes = prop_def(INTS)

    def window_sizes(self) -> tuple[Index, ...]:
        return join_indices(self.sizes, self.static_sizes)

    def verify_read(self, type: TileType) -> None:
        """Check the window and that the tile can hold it."""
        self.verify_window()
        self.verify_tile(type)
        rank = self.memref_type.get_num_dims()
        verify_indices("sizes", self.sizes, self.static_sizes, rank)
        dim, capacity = self.indexed_dim, type.get_shape()
        if self.index is None or dim is None:
            return verify_capacity("size", self.static_sizes, capacity)
        if self.static_sizes.get_values()[dim] != 1:
            raise VerifyException(f"the size of the indexed dimension {dim} must be 1")
        shape = index_shape(self.index)
        if capacity[dim : dim + len(shape)] != shape:
            raise VerifyException(
                f"tile capacity {list(capacity)} must contain the index's {list(shape)} "
                f"from dimension {dim} on"
            )
        outer = without(capacity, range(dim, dim + len(shape)))
        verify_capacity("size", dense(without(self.static_sizes.get_values(), (dim,))), outer)


@irdl_op_definition
class LoadOp(ReadWindowOp):
    """
    Reads a window of a memref into a tile.

    ```mlir
    %t = lpu_kernel.load %m[%o, 0] [8, %n] : memref<64x?xf32, "shared_dram">
           -> !lpu_kernel.tile<8x576xf32>
    %g = lpu_kernel.load %m[0, 0] [1, 64] index 0 by %rows
           : memref<64x64xf32, "shared_dram">, !lpu_kernel.tile<4xi64> -> !lpu_kernel.tile<4x64xf32>
    ```
    """

    name = "lpu_kernel.load"
    result = result_def(TileType)
    sram = opt_prop_def(INTS)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect())
    assembly_format = (
        "$memref `` custom<DynamicIndexList>($offsets, $static_offsets) "
        f"custom<DynamicIndexList>($sizes, $static_sizes) {_INDEX_BY} (`sram` $sram^)? attr-dict "
        "`:` type($memref) (`,` type($index)^)? `->` type($result)"
    )

    def __init__(
        self,
        memref: SSAValue | Operation,
        offsets: Sequence[Index | Operation],
        sizes: Sequence[Index | Operation],
        result: TileType,
        *,
        index_dim: int | None = None,
        index: SSAValue | Operation | None = None,
    ):
        dynamic_offsets, static_offsets = split_indices(offsets)
        dynamic_sizes, static_sizes = split_indices(sizes)
        super().__init__(
            operands=[dynamic_sizes, memref, dynamic_offsets, index],
            result_types=[result],
            properties={
                "static_offsets": static_offsets,
                "static_sizes": static_sizes,
                "index_dim": None if index_dim is None else IntegerAttr(index_dim, i64),
            },
        )

    @property
    def result_type(self) -> TileType:
        return tile(self.result)

    def verify_(self) -> None:
        self.verify_read(self.result_type)


class StoreEffect(MemoryEffect):
    """Every store writes; one that combines reads what is there."""

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance]:
        effects = {EffectInstance(MemoryEffectKind.WRITE)}
        if isinstance(op, StoreOp) and op.combines:
            effects.add(EffectInstance(MemoryEffectKind.READ))
        return frozenset(effects)


@irdl_custom_directive
class StoreKind(CustomDirective):
    """The kind of a store as a bare word; `replace` is not written."""

    attr: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        word = parser.parse_optional_identifier()
        self.attr.set(state, StringAttr("replace" if word is None else word))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        value = self.attr.get(op)
        assert isinstance(value, StringAttr)
        if value.data != "replace":
            state.print_whitespace(printer)
            printer.print_string(value.data)


@irdl_op_definition
class StoreOp(WindowOp):
    """
    Writes a tile to the window of a memref at these offsets, as large as the tile's extents.

    An indexed dimension writes one slice per index, in order, so that of equal indices the last
    counts. A store that adds (or multiplies, or takes the greater or lesser) reads the window,
    computes in the memref's element type, and writes it back; slices of equal indices follow one
    another, each with its own rounding. What is read must have been written.

    ```mlir
    lpu_kernel.store %t, %m[%o, 0] : !lpu_kernel.tile<8x576xf32>, memref<64x?xf32, "shared_dram">
    lpu_kernel.store %t, %m[0, %o] index 0 by %pos
      : !lpu_kernel.tile<1x64xf32>, memref<64x64xf32, "shared_dram">, !lpu_kernel.tile<1xi64>
    lpu_kernel.store add %t, %m[0, %o] index 0 by %pos
      : !lpu_kernel.tile<4x64xf32>, memref<64x64xf32, "shared_dram">, !lpu_kernel.tile<4xi64>
    ```
    """

    name = "lpu_kernel.store"
    kind = prop_def(StringAttr)
    value = operand_def(TileType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(StoreEffect())
    custom_directives = (DynamicIndexList, StoreKind)
    assembly_format = (
        "custom<StoreKind>($kind) $value `,` "
        "$memref `` custom<DynamicIndexList>($offsets, $static_offsets) "
        f"{_INDEX_BY} attr-dict `:` type($value) `,` type($memref) (`,` type($index)^)?"
    )

    def __init__(
        self,
        value: SSAValue | Operation,
        memref: SSAValue | Operation,
        offsets: Sequence[Index | Operation],
        *,
        kind: str = "replace",
        index_dim: int | None = None,
        index: SSAValue | Operation | None = None,
    ):
        dynamic_offsets, static_offsets = split_indices(offsets)
        super().__init__(
            operands=[value, memref, dynamic_offsets, index],
            properties={
                "kind": StringAttr(kind),
                "static_offsets": static_offsets,
                "index_dim": None if index_dim is None else IntegerAttr(index_dim, i64),
            },
        )

    @property
    def combines(self) -> bool:
        """Whether it reads what is there."""
        return self.kind.data != "replace"

    def verify_(self) -> None:
        verify_word("store", self.kind, STORE_KINDS)
        self.verify_window()
        self.verify_tile(tile(self.value))
        if self.kind.data in ("add", "mul") and tile(self.value).element_type == i1:
            raise VerifyException(f"'{self.kind.data}' stores numbers, got elements of i1")
        dim = self.indexed_dim
        if self.index is None or dim is None:
            return
        shape, capacity = index_shape(self.index), tile(self.value).get_shape()
        if capacity[dim : dim + len(shape)] != shape:
            raise VerifyException(
                f"tile capacity {list(capacity)} must contain the index's {list(shape)} "
                f"from dimension {dim} on"
            )


@irdl_op_definition
class ChannelOp(IRDLOperation):
    """
    A queue of `depth` tiles in every core's SRAM, filled by requests and emptied by receives.

    It stands in a kernel before its phases and has exactly one request and one receive, in the two
    regions of one phase and under equal loops: the n-th receive of a core yields the window of the
    n-th request to it. `sram` is the byte offset of its `depth` consecutive buffers.

    ```mlir
    lpu_kernel.channel @ch0 depth 2 : !lpu_kernel.tile<8x576xf32>
    ```
    """

    name = "lpu_kernel.channel"
    sym_name = prop_def(SymbolNameConstraint())
    depth = prop_def(IntegerAttr[I64])
    tile_type = prop_def(TileType)
    sram = opt_prop_def(INTS)

    traits = traits_def(SymbolOpInterface())
    assembly_format = (
        "$sym_name `depth` $depth (`sram` $sram^)? attr-dict `:` qualified($tile_type)"
    )

    def __init__(self, name: str, depth: int, tile_type: TileType):
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "depth": IntegerAttr(depth, i64),
                "tile_type": tile_type,
            }
        )

    def byte_size(self) -> int:
        """Bytes of all its buffers."""
        return self.depth.value.data * self.tile_type.byte_size()

    def verify_(self) -> None:
        if self.depth.value.data < 1:
            raise VerifyException(f"channel depth {self.depth.value.data} must be at least 1")


@irdl_op_definition
class RequestOp(ReadWindowOp):
    """
    In `top`, asks for a window to be moved into a channel: `to each` serves the destination core
    that top's program is running for, `to all` is a multicast, one read of DRAM for all cores. A
    multicast's window and its enclosing loops may not depend on the core.

    ```mlir
    lpu_kernel.request @ch0 %m[%o, 0] [8, 576] to each : memref<64x576xf32, "shared_dram">
    ```
    """

    name = "lpu_kernel.request"
    channel = prop_def(SymbolRefAttr)
    destination = prop_def(StringAttr)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$channel $memref `` custom<DynamicIndexList>($offsets, $static_offsets) "
        f"custom<DynamicIndexList>($sizes, $static_sizes) {_INDEX_BY} `to` "
        "custom<Word>($destination) attr-dict `:` type($memref) (`,` type($index)^)?"
    )

    def __init__(
        self,
        channel: str,
        destination: str,
        memref: SSAValue | Operation,
        offsets: Sequence[Index | Operation],
        sizes: Sequence[Index | Operation],
        *,
        index_dim: int | None = None,
        index: SSAValue | Operation | None = None,
    ):
        dynamic_offsets, static_offsets = split_indices(offsets)
        dynamic_sizes, static_sizes = split_indices(sizes)
        super().__init__(
            operands=[dynamic_sizes, memref, dynamic_offsets, index],
            properties={
                "channel": SymbolRefAttr(channel),
                "destination": StringAttr(destination),
                "static_offsets": static_offsets,
                "static_sizes": static_sizes,
                "index_dim": None if index_dim is None else IntegerAttr(index_dim, i64),
            },
        )

    def verify_(self) -> None:
        verify_word("destination", self.destination, DESTINATIONS)
        if self.index is not None and isinstance(self.index.type, TileType):
            raise VerifyException(
                "a request cannot be indexed by a tile: top has none, expected an index value"
            )
        self.verify_window()


@irdl_op_definition
class ReceiveOp(IRDLOperation):
    """
    In a core, takes the next tile out of a channel, waiting until it has arrived.

    ```mlir
    %t = lpu_kernel.receive @ch0 : !lpu_kernel.tile<8x576xf32>
    ```
    """

    name = "lpu_kernel.receive"
    channel = prop_def(SymbolRefAttr)
    result = result_def(TileType)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$channel attr-dict `:` type($result)"

    def __init__(self, channel: str, result: TileType):
        super().__init__(properties={"channel": SymbolRefAttr(channel)}, result_types=[result])
