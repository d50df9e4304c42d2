"""How many bytes a kernel moves between DRAM and its cores: counted without running it.

What a kernel moves depends on its index arguments alone: neither windows nor loops depend on data.
The reference interpreter counts the same while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin, IndexType
from xdsl.dialects.math import Math
from xdsl.ir import Block, Operation, SSAValue
from xdsl.parser import Parser

from lpu_mlir.dialects.expr import Call, Expr
from lpu_mlir.dialects.lpu import Lpu, element_bytes
from lpu_mlir.dialects.lpu_kernel import (
    ApplyOp,
    ArgFoldOp,
    ContractOp,
    FillOp,
    FoldOp,
    ForOp,
    Index,
    KernelOp,
    LoadOp,
    LpuKernel,
    MapOp,
    ReadWindowOp,
    ReceiveOp,
    RequestOp,
    ScanOp,
    SliceOp,
    StoreOp,
    TileType,
    WindowsOp,
)
from lpu_mlir.dialects.lpu_kernel.core_dependence import core_dependent_values, depends_on_core
from lpu_mlir.dialects.lpu_kernel.types import join_indices, tile, without
from lpu_mlir.memo import MEMO

Numbers: TypeAlias = "NDArray[np.int64]"
"""A value for every core (axis 0), and for each loop around (an axis each) in its first and in its
last iteration: all others are like the first, since loops go over something in tiles."""
Extents: TypeAlias = "tuple[Numbers, ...]"


def moved_bytes(kernel: KernelOp, indices: Sequence[int] = ()) -> tuple[int, int]:
    """Bytes that a launch with these index arguments reads from DRAM, and that it writes."""
    given = iter(indices)
    values = {arg: next(given) for arg in kernel.args if arg.type == IndexType()}
    read = written = 0
    for phase in kernel.phases():
        requested: dict[str, Extents] = {}
        for region in (phase.top, phase.cores):
            if region is None:
                continue
            count = _Count(kernel, core_dependent_values(region), _depth(region.block), requested)
            count.start(values, region.block.args[0])
            count.visit(region.block, 1)
            read, written = read + count.read, written + count.written
    return read, written


@lru_cache(MEMO)
def moved_bytes_of(text: str, indices: tuple[int, ...]) -> tuple[int, int]:
    """The same for the text of a kernel."""
    context = Context()
    for dialect in (Builtin, Arith, Math, Lpu, LpuKernel):
        context.load_dialect(dialect)
    kernel = Parser(context, text).parse_op()
    assert isinstance(kernel, KernelOp)
    return moved_bytes(kernel, indices)


def _depth(block: Block) -> int:
    """How many loops lie within each other."""
    return max((1 + _depth(op.body.block) for op in block.ops if isinstance(op, ForOp)), default=0)


@dataclass
class _Count:
    """Goes through one program of a phase, all cores at once."""

    kernel: KernelOp
    dependent: set[SSAValue]
    depth: int
    requested: dict[str, Extents]
    """The extents of what was requested, by channel."""
    numbers: dict[SSAValue, Numbers] = field(default_factory=dict[SSAValue, Numbers])
    extents: dict[SSAValue, Extents] = field(default_factory=dict[SSAValue, Extents])
    weights: list[Numbers] = field(default_factory=list[Numbers])
    """Of each loop around: how many iterations a position on its axis stands for."""
    read: int = 0
    written: int = 0

    def start(self, values: Mapping[SSAValue, int], core: SSAValue) -> None:
        self.numbers.update({value: self.constant(number) for value, number in values.items()})
        self.numbers[core] = self.along(0, np.arange(self.kernel.cores, dtype=np.int64))

    def constant(self, number: int) -> Numbers:
        return np.full((1,) * (self.depth + 1), number, dtype=np.int64)

    def along(self, axis: int, numbers: Numbers) -> Numbers:
        """Numbers that differ along one axis."""
        shape = [1] * (self.depth + 1)
        shape[axis] = len(numbers)
        return numbers.reshape(shape)

    def index(self, index: Index) -> Numbers:
        return self.constant(index) if isinstance(index, int) else self.numbers[index]

    def indices(self, indices: Sequence[Index]) -> Extents:
        return tuple(map(self.index, indices))

    def visit(self, block: Block, axis: int) -> None:
        for op in block.ops:
            if isinstance(op, ForOp):
                self._loop(op, axis)
            elif (rule := RULES.get(type(op))) is not None:
                rule(self, op)

    def _loop(self, op: ForOp, axis: int) -> None:
        lower, upper, step = self.indices(op.loop_bounds())
        trips = np.maximum(upper - lower + step - 1, 0) // step
        first = self.along(axis, np.array([1, 0], dtype=np.int64))
        turns = (1 - first) * (trips - 1)
        self.numbers[op.induction] = lower + turns * step
        for value, argument in zip(op.iter_args, op.carried_args, strict=True):
            self.extents[argument] = self.extents[value]
        last = np.minimum(trips, 1)
        self.weights.append(first * (trips - last) + (1 - first) * last)
        self.visit(op.body.block, axis + 1)
        self.weights.pop()
        for value, result in zip(op.iter_args, op.outputs, strict=True):
            self.extents[result] = self.extents[value]

    # --- bytes ----------------------------------------------------------------------------------

    def bytes(self, extents: Extents, element: int, *, private: bool) -> int:
        """What moving a tile of these extents costs, over all iterations: by every core, or once
        for all."""
        moved = self.constant(element)
        for factor in (*extents, *self.weights):
            moved = moved * factor
        if not private:
            moved = moved[:1]
        elif len(moved) == 1:
            moved = moved * self.kernel.cores
        return int(moved.sum())

    def reads(self, op: ReadWindowOp, extents: Extents, *, private: bool) -> None:
        size = element_bytes(op.memref_type.element_type)
        self.read += self.bytes(extents, size, private=private)


# --- the extents of tiles -------------------------------------------------------------------------


def _value(c: _Count, expr: Expr, operands: Sequence[Numbers]) -> Numbers:
    """An expression over d0, d1, ..."""
    total = c.constant(0)
    for monomial, factor in expr.terms:
        product = c.constant(factor)
        for atom in monomial:
            if isinstance(atom, Call):
                sides = (_value(c, side, operands) for side in (atom.lhs, atom.rhs))
                product = product * CALLS[atom.kind](*sides)
            else:
                product = product * operands[int(atom[1:])]
        total = total + product
    return total


CALLS: Mapping[str, Callable[[Numbers, Numbers], Numbers]] = {
    "floordiv": np.floor_divide,
    "min": np.minimum,
    "max": np.maximum,
}


def _apply(c: _Count, op: Operation) -> None:
    assert isinstance(op, ApplyOp)
    c.numbers[op.result] = _value(c, op.map.data, c.indices(list(op.operands_)))


def _window(c: _Count, op: ReadWindowOp) -> Extents:
    """The extents of what is read: those of an index stand in place of the dim that it selects."""
    sizes, dim = c.indices(op.window_sizes()), op.indexed_dim
    if op.index is None or dim is None:
        return sizes
    of_index = c.extents[op.index] if isinstance(op.index.type, TileType) else ()
    return (*sizes[:dim], *of_index, *sizes[dim + 1 :])


def _load(c: _Count, op: Operation) -> None:
    assert isinstance(op, LoadOp)
    c.extents[op.result] = extents = _window(c, op)
    c.reads(op, extents, private=depends_on_core(op, c.dependent))


def _request(c: _Count, op: Operation) -> None:
    assert isinstance(op, RequestOp)
    extents = _window(c, op)
    # Its loops are those of the receive, so the axes are the same, too.
    c.requested[op.channel.root_reference.data] = extents
    c.reads(op, extents, private=op.destination.data == "each")


def _receive(c: _Count, op: Operation) -> None:
    assert isinstance(op, ReceiveOp)
    extents = c.requested[op.channel.root_reference.data]
    c.extents[op.result] = tuple(e.reshape(_padded(e.shape, c.depth + 1)) for e in extents)


def _padded(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """With as many axes as this program has: what exceeds them has length 1."""
    return (*shape, *[1] * rank)[:rank]


def _store(c: _Count, op: Operation) -> None:
    assert isinstance(op, StoreOp)
    size = element_bytes(tile(op.value).element_type)
    moved = c.bytes(c.extents[op.value], size, private=True)
    c.written += moved
    if op.combines:
        c.read += moved


def _sized(c: _Count, op: Operation) -> None:
    """Operations that name the extents of their results."""
    assert isinstance(op, MapOp | FillOp | WindowsOp)
    for result in op.results:
        c.extents[result] = c.indices(join_indices(op.sizes, op.static_sizes))


def _slice(c: _Count, op: Operation) -> None:
    assert isinstance(op, SliceOp)
    sizes = c.indices(join_indices(op.sizes, op.static_sizes))
    c.extents[op.result] = _without(sizes, op.dropped)


def _without(extents: Extents, dims: Sequence[int]) -> Extents:
    kept = without(range(len(extents)), dims)
    return tuple(extents[dim] for dim in kept)


def _fold(c: _Count, op: Operation) -> None:
    assert isinstance(op, FoldOp)
    c.extents[op.result] = _without(c.extents[op.source], op.dims.get_values())


def _arg_fold(c: _Count, op: Operation) -> None:
    assert isinstance(op, ArgFoldOp)
    for result in op.results:
        c.extents[result] = _without(c.extents[op.source], [op.dim.value.data])


def _scan(c: _Count, op: Operation) -> None:
    assert isinstance(op, ScanOp)
    c.extents[op.result] = c.extents[op.source]


def _contract(c: _Count, op: Operation) -> None:
    assert isinstance(op, ContractOp)
    found: dict[int, Numbers] = {}
    for value, dims in ((op.lhs, op.lhs_dims), (op.rhs, op.rhs_dims)):
        found.update(zip(dims.get_values(), c.extents[value], strict=True))
    c.extents[op.result] = tuple(found[dim] for dim in range(tile(op.result).get_num_dims()))


RULES: Mapping[type[Operation], Callable[[_Count, Operation], None]] = {
    ApplyOp: _apply,
    LoadOp: _load,
    RequestOp: _request,
    ReceiveOp: _receive,
    StoreOp: _store,
    MapOp: _sized,
    FillOp: _sized,
    WindowsOp: _sized,
    SliceOp: _slice,
    FoldOp: _fold,
    ArgFoldOp: _arg_fold,
    ScanOp: _scan,
    ContractOp: _contract,
}
"""Operation -> what it moves and how large its tiles are; others do neither."""
