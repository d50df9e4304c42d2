"""The state in which a phase is translated: values so far, scratch memory, and how tiles are put
into it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from lpu_mlir.dialects.expr import Call, Expr
from lpu_mlir.dialects.lpu_kernel import (
    ContractOp,
    Index,
    KernelOp,
    LoadOp,
    SliceOp,
    StoreOp,
    TileType,
    WindowsOp,
)
from lpu_mlir.interpreter.native.elements import Mapped, Stored, Tile, map_readers
from lpu_mlir.interpreter.native.llvm import Builder, Int, Value
from lpu_mlir.interpreter.native.machine import Machine
from lpu_mlir.interpreter.native.nest import Nest
from lpu_mlir.interpreter.native.schedule import Schedule
from lpu_mlir.interpreter.native.scratch import Buffer, Scratch
from lpu_mlir.interpreter.native.tile import View
from lpu_mlir.interpreter.native.vectors import Access, choose_vector, lanes_for

SCRATCH, FAIL = Value("ptr", "%scratch"), Value("ptr", "%fail")


@dataclass
class Frame:
    """One phase of a kernel being translated."""

    b: Builder
    kernel: KernelOp
    machine: Machine
    schedule: Schedule
    checks: list[tuple[str, str]]
    """Exception and message of each check of the kernel so far."""
    memrefs: dict[SSAValue, View]
    values: dict[SSAValue, Tile | Int] = field(default_factory=dict[SSAValue, "Tile | Int"])
    scratch: Scratch = field(default_factory=Scratch)
    position: int = 0
    """Where in the schedule the operation is that is being translated."""

    # --- values ---------------------------------------------------------------------------------

    def tile(self, value: SSAValue) -> Tile:
        tile = self.values[value]
        assert isinstance(tile, Tile)
        return tile

    def integer(self, index: Index) -> Int:
        """An index, known now or an SSA value."""
        if isinstance(index, int):
            return index
        value = self.values[index]
        assert not isinstance(value, Tile)
        return value

    def integers(self, indices: Sequence[Index]) -> tuple[Int, ...]:
        return tuple(self.integer(index) for index in indices)

    def scalar(self, value: SSAValue) -> Value:
        """A scalar, or an index as i64."""
        return self.b.value(self.integer(value))

    # --- memory ---------------------------------------------------------------------------------

    def allocate(self, size: int, end: int) -> tuple[Value, Buffer]:
        """Scratch memory from now to a position of the schedule."""
        buffer = self.scratch.allocate(size, self.position, end)
        return self.place(buffer), buffer

    def place(self, buffer: Buffer) -> Value:
        return self.b.op("ptr", f"getelementptr i8, {SCRATCH}, i64 {buffer.offset}")

    def temporary(self, size: int) -> Value:
        """Scratch memory for the current operation alone."""
        return self.allocate(size, self.position)[0]

    def new_tile(self, value: SSAValue, sizes: Sequence[Int], order: Sequence[int] = ()) -> Stored:
        """Memory for a tile's elements; `order` are its dims from the outermost in memory on."""
        type = value.type
        assert isinstance(type, TileType)
        base, buffer = self.allocate(type.byte_size(), self.schedule.end[value])
        strides = dense_strides(type.get_shape(), order or range(len(sizes)))
        return Stored.of(View(base, type.element_type, tuple(sizes), strides), buffer)

    def like(self, tile: Stored, value: SSAValue) -> Stored:
        """Memory of the same shape as a tile's, for the current operation alone."""
        type = value.type
        assert isinstance(type, TileType)
        base, buffer = self.allocate(type.byte_size(), self.position)
        view = View(base, tile.element, tile.sizes, tile.view.strides)
        return Stored.of(view, buffer)

    def takes_over(self, value: SSAValue | None) -> Stored | None:
        """The memory of a tile that is not read any more after the current operation."""
        if value is None or self.schedule.end[value] > self.position:
            return None
        tile = self.tile(value)
        return tile if isinstance(tile, Stored) and tile.buffer is not None else None

    def keep(self, tile: Stored, value: SSAValue) -> Stored:
        """The tile, whose memory now holds another value."""
        assert tile.buffer is not None
        tile.buffer.end = max(tile.buffer.end, self.schedule.end[value])
        return tile

    def define(self, value: SSAValue, tile: Tile) -> None:
        """Gives an operation's result its tile; puts it into memory here if a reader wants it
        there, who may be in a loop that is never entered."""
        if not isinstance(tile, Stored) and reads_memory(value):
            stored = self.new_tile(value, tile.sizes)
            self.fill(stored, tile)
            tile = stored
        self.values[value] = tile

    def in_memory(self, value: SSAValue) -> Stored:
        """A tile for a reader that wants its elements in memory; see `reads_memory`."""
        tile = self.tile(value)
        assert isinstance(tile, Stored)
        return tile

    # --- elements -------------------------------------------------------------------------------

    def fill(self, into: Stored, tile: Tile) -> None:
        """Writes the elements of a tile to another's memory."""
        self.write([into.view], tile.sizes, tile.views(), tile_readers(tile))

    def write(
        self,
        targets: Sequence[View],
        sizes: tuple[Int, ...],
        sources: Sequence[Access],
        make: Callable[[Nest], Callable[[], list[Value]]],
    ) -> None:
        """Computes elements and writes them to views of the same sizes."""
        nest = self.nest(sizes, [*sources, *((view, identity(view.rank)) for view in targets)])
        leaves = [nest.target(view, identity(view.rank)) for view in targets]
        read = make(nest)

        def body(carried: Sequence[Value]) -> Sequence[Value]:
            for leaf, value in zip(leaves, read(), strict=True):
                nest.write(leaf, value)
            return carried

        dims = nest.order(targets[0].strides)
        last = [dim for dim in dims if dim in nest.reread(sources)]
        nest.each([dim for dim in dims if dim not in last] + last, (), body)

    def nest(
        self, sizes: tuple[Int, ...], accesses: Sequence[Access], among: Sequence[int] | None = None
    ) -> Nest:
        """Loops over sizes, in vectors along the dim that suits the memory accessed best."""
        lanes = lanes_for(self.machine, accesses)
        vector = choose_vector(
            sizes, accesses, lanes, range(len(sizes)) if among is None else among
        )
        return Nest(self.b, sizes, vector, lanes)


def reads_memory(value: SSAValue) -> bool:
    """Whether a reader of a tile does not take its elements one by one: a contraction, a view, or
    what selects by it."""
    for use in value.uses:
        match use.operation:
            case ContractOp():
                if use.index < 2:  # not the accumulator
                    return True
            case SliceOp() | WindowsOp():
                return True
            case LoadOp() | StoreOp():
                if use.operation.index is value:
                    return True
            case _:
                pass
    return False


def identity(rank: int) -> tuple[int, ...]:
    return tuple(range(rank))


def tile_readers(tile: Tile) -> Callable[[Nest], Callable[[], list[Value]]]:
    """For `Frame.write`: what reads all elements of a tile, or of all results of a map."""

    def make(nest: Nest) -> Callable[[], list[Value]]:
        dims = identity(len(tile.sizes))
        if isinstance(tile, Mapped):
            return map_readers(tile, nest, dims)
        read = tile.reader(nest, dims)
        return lambda: [read()]

    return make


def dense_strides(capacity: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense array whose dims are in this order in memory, outermost first."""
    strides = [0] * len(capacity)
    step = 1
    for dim in reversed(order):
        strides[dim] = step
        step *= capacity[dim]
    return tuple(strides)


def index_expression(b: Builder, expr: Expr, operands: Sequence[Int]) -> Int:
    """The value of an expression over d0, d1, ..."""
    total: Int = 0
    for monomial, factor in expr.terms:
        product: Int = factor
        for atom in monomial:
            value = _call(b, atom, operands) if isinstance(atom, Call) else operands[int(atom[1:])]
            product = b.mul(product, value)
        total = b.add(total, product)
    return total


def _call(b: Builder, call: Call, operands: Sequence[Int]) -> Int:
    lhs, rhs = (index_expression(b, side, operands) for side in (call.lhs, call.rhs))
    function = {"floordiv": b.floor_divide, "min": b.minimum, "max": b.maximum}[call.kind]
    return function(lhs, rhs)
