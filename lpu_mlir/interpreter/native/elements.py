"""Tiles as kernels are translated: elements in memory, or how to get them when they are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects import arith
from xdsl.ir import Attribute, SSAValue

from lpu_mlir.dialects.lpu_kernel import MapOp, YieldOp
from lpu_mlir.interpreter.native.llvm import Int, Value
from lpu_mlir.interpreter.native.nest import NO_DIM, Nest
from lpu_mlir.interpreter.native.scalar import emit_constant, emit_scalar
from lpu_mlir.interpreter.native.scratch import Buffer
from lpu_mlir.interpreter.native.tile import View

Reader: TypeAlias = Callable[[], Value]
"""Gives a tile's elements at the position of a nest, one for each lane."""


@dataclass(frozen=True, eq=False)
class Tile(ABC):
    """A tile of these extents."""

    sizes: tuple[Int, ...]
    element: Attribute

    @abstractmethod
    def reader(self, nest: Nest, dims: Sequence[int]) -> Reader:
        """Makes ready to read the tile in a nest, of which it has these dims."""

    @abstractmethod
    def views(self) -> list[tuple[View, tuple[int, ...]]]:
        """The memory that is read for it, each view with the tile's dim of each of its own."""


@dataclass(frozen=True, eq=False)
class Stored(Tile):
    """A tile in memory; in `buffer`, if it is in scratch memory and not in DRAM."""

    view: View
    buffer: Buffer | None = None

    @staticmethod
    def of(view: View, buffer: Buffer | None = None) -> Stored:
        return Stored(view.sizes, view.element, view, buffer)

    def reader(self, nest: Nest, dims: Sequence[int]) -> Reader:
        leaf = nest.leaf(self.view, dims)
        return lambda: nest.read(leaf)

    def views(self) -> list[tuple[View, tuple[int, ...]]]:
        return [(self.view, tuple(range(self.view.rank)))]


@dataclass(frozen=True, eq=False)
class Filled(Tile):
    """Every element is the same constant."""

    value: Attribute

    def reader(self, nest: Nest, dims: Sequence[int]) -> Reader:
        return lambda: emit_constant(nest.b, self.value, nest.lanes)

    def views(self) -> list[tuple[View, tuple[int, ...]]]:
        return []


@dataclass(frozen=True, eq=False)
class Gathered(Tile):
    """A window of DRAM whose positions along `dim` are what an index tile in memory says."""

    view: View
    dim: int
    index: View

    def reader(self, nest: Nest, dims: Sequence[int]) -> Reader:
        last = self.dim + self.index.rank
        own = [*dims[: self.dim], NO_DIM, *dims[last:]]
        leaf = nest.leaf(self.view, own, nest.leaf(self.index, dims[self.dim : last]), self.dim)
        return lambda: nest.read(leaf)

    def views(self) -> list[tuple[View, tuple[int, ...]]]:
        return []


@dataclass(frozen=True, eq=False)
class Mapped(Tile):
    """A map that computes its elements where they are read."""

    op: MapOp
    inputs: tuple[Tile, ...]
    offsets: tuple[Int, ...]
    scalars: Mapping[SSAValue, Value]
    """What the region uses of the values outside of it."""

    def reader(self, nest: Nest, dims: Sequence[int]) -> Reader:
        readers = map_readers(self, nest, dims)
        return lambda: readers()[0]

    def views(self) -> list[tuple[View, tuple[int, ...]]]:
        found: list[tuple[View, tuple[int, ...]]] = []
        for tile, dims in zip(self.inputs, self.op.dims_of_inputs(), strict=True):
            found += [(view, tuple(dims[d] for d in own)) for view, own in tile.views()]
        return found


def map_readers(tile: Mapped, nest: Nest, dims: Sequence[int]) -> Callable[[], list[Value]]:
    """Gives the elements of all results of a map."""
    op, b = tile.op, nest.b
    inputs = [
        given.reader(nest, [dims[d] for d in own])
        for given, own in zip(tile.inputs, op.dims_of_inputs(), strict=True)
    ]

    def read() -> list[Value]:
        values: dict[SSAValue, Value] = {
            outer: b.splat(value, nest.lanes) for outer, value in tile.scalars.items()
        }
        for dim, argument in enumerate(op.index_args):
            if argument.uses:
                values[argument] = nest.index(dims[dim], tile.offsets[dim])
        for argument, reader in zip(op.scalar_args, inputs, strict=True):
            values[argument] = reader()
        for inner in op.body.block.ops:
            if isinstance(inner, YieldOp):
                break
            if isinstance(inner, arith.ConstantOp):
                values[inner.result] = emit_constant(b, inner.value, nest.lanes)
                continue
            operands = [values[operand] for operand in inner.operands]
            values[inner.results[0]] = emit_scalar(b, inner, operands)
        return [values[value] for value in op.yield_op.arguments]

    return read
