"""The movements of a kernel, read off its operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, MemRefType
from xdsl.ir import Block, Operation, Region, SSAValue

from lpu_mlir.dialects.expr import Expr, product
from lpu_mlir.dialects.lpu import element_bytes
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
from lpu_mlir.dialects.lpu_kernel.types import join_indices
from lpu_mlir.runtime.traffic import Loop, Move, argument

Extents: TypeAlias = tuple[Expr, ...]

CORE = "core"


def describe_traffic(kernel: KernelOp) -> tuple[Move, ...]:
    """All loads and stores of a kernel.  What is the same for all cores is read once, whether it
    has been split into a multicast or not."""
    known: dict[SSAValue, Expr] = {}
    indices = [arg for arg in kernel.args if not isinstance(arg.type, MemRefType)]
    for position, value in enumerate(indices):
        known[value] = Expr.name(argument(position))
    moves: list[Move] = []
    for phase in kernel.phases():
        requested: dict[str, Extents] = {}
        for program in (phase.top, phase.cores):
            if program is not None:
                _Walk(kernel, program, dict(known), requested, moves).run()
    return tuple(moves)


@dataclass
class _Walk:
    """A program of one phase: its indices as expressions, the extents of its tiles.

    Loops are named after their depth, so that what `top` requests means the same to the core that
    receives it under equal loops.
    """

    kernel: KernelOp
    program: Region
    indices: dict[SSAValue, Expr]
    requested: dict[str, Extents]
    """Channel -> the extents of its tiles."""
    moves: list[Move]
    tiles: dict[SSAValue, Extents] = field(default_factory=dict[SSAValue, Extents])
    loops: list[Loop] = field(default_factory=list[Loop])

    def run(self) -> None:
        self.dependent = core_dependent_values(self.program)
        self.indices[self.program.block.args[0]] = Expr.name(CORE)
        self.block(self.program.block)

    def block(self, block: Block) -> None:
        for op in block.ops:
            step = STEPS.get(type(op))
            if step is not None:
                step(self, op)
            elif type(op) in EXTENTS:
                extents = EXTENTS[type(op)](self, op)
                self.tiles.update((r, extents) for r in op.results)

    def index(self, given: Index) -> Expr:
        return Expr.const(given) if isinstance(given, int) else self.indices[given]

    def all(self, given: Sequence[Index]) -> Extents:
        return tuple(map(self.index, given))

    # --- indices and loops ---
    def constant(self, op: arith.ConstantOp) -> None:
        if isinstance(op.value, IntegerAttr):
            self.indices[op.result] = Expr.const(op.value.value.data)

    def apply(self, op: ApplyOp) -> None:
        names = {f"d{n}": self.indices[value] for n, value in enumerate(op.operands_)}
        self.indices[op.result] = op.map.data.substitute(names)

    def loop(self, op: ForOp) -> None:
        loop = Loop(f"i{len(self.loops)}", *self.all(op.loop_bounds()))
        self.indices[op.induction] = Expr.name(loop.name)
        for init, inside, result in zip(op.iter_args, op.carried_args, op.outputs, strict=True):
            self.tiles[inside] = self.tiles[result] = self.tiles[init]
        self.loops.append(loop)
        self.block(op.body.block)
        self.loops.pop()

    # --- movements ---
    def window(self, op: ReadWindowOp) -> Extents:
        """The extents of a tile that is read."""
        sizes = list(self.all(op.window_sizes()))
        if op.index is not None and op.indexed_dim is not None:
            of_index = self.tiles[op.index] if isinstance(op.index.type, TileType) else ()
            sizes[op.indexed_dim : op.indexed_dim + 1] = of_index
        return tuple(sizes)

    def load(self, op: LoadOp) -> None:
        self.tiles[op.result] = self.window(op)
        self.move(op, self.tiles[op.result], depends_on_core(op, self.dependent))

    def request(self, op: RequestOp) -> None:
        extents = self.requested[op.channel.root_reference.data] = self.window(op)
        self.move(op, extents, op.destination.data == "each")

    def receive(self, op: ReceiveOp) -> None:
        self.tiles[op.result] = self.requested[op.channel.root_reference.data]

    def store(self, op: StoreOp) -> None:
        self.move(op, self.tiles[op.value], True, written=True)

    def move(
        self, op: ReadWindowOp | StoreOp, extents: Extents, private: bool, written: bool = False
    ) -> None:
        """Bytes that each core moves, or all of them once."""
        size = product(extents) * element_bytes(op.memref_type.element_type)
        zero, one = Expr.const(0), Expr.const(1)
        cores = Loop(CORE, zero, Expr.const(self.kernel.cores) if private else one, one)
        read = not written or (isinstance(op, StoreOp) and op.adds)
        self.moves.append(Move(read, written, size, (cores, *self.loops)))


STEPS: Mapping[type[Operation], Callable[[_Walk, Any], None]] = {
    arith.ConstantOp: _Walk.constant,
    ApplyOp: _Walk.apply,
    ForOp: _Walk.loop,
    LoadOp: _Walk.load,
    RequestOp: _Walk.request,
    ReceiveOp: _Walk.receive,
    StoreOp: _Walk.store,
}
"""Operation -> what it means for movements."""


def _without(extents: Extents, dims: Sequence[int]) -> Extents:
    return tuple(extent for dim, extent in enumerate(extents) if dim not in dims)


def _slice(walk: _Walk, op: SliceOp) -> Extents:
    sizes = walk.all(join_indices(op.sizes, op.static_sizes))
    return _without(sizes, op.drop.get_values() if op.drop is not None else ())


def _sizes(walk: _Walk, op: FillOp | WindowsOp | MapOp) -> Extents:
    return walk.all(join_indices(op.sizes, op.static_sizes))


def _contract(walk: _Walk, op: ContractOp) -> Extents:
    extents: dict[int, Expr] = {}
    for value, dims in ((op.lhs, op.lhs_dims), (op.rhs, op.rhs_dims)):
        extents.update(zip(dims.get_values(), walk.tiles[value], strict=True))
    return tuple(extents[dim] for dim in range(len(op.result.type.get_shape())))


EXTENTS: Mapping[type[Operation], Callable[[_Walk, Any], Extents]] = {
    FillOp: _sizes,
    WindowsOp: _sizes,
    MapOp: _sizes,
    SliceOp: _slice,
    ContractOp: _contract,
    FoldOp: lambda walk, op: _without(walk.tiles[op.source], op.dims.get_values()),
    ArgFoldOp: lambda walk, op: _without(walk.tiles[op.source], [op.dim.value.data]),
    ScanOp: lambda walk, op: walk.tiles[op.source],
}
"""Operation -> the extents of the tiles that it makes."""
