"""
Where the tiles of neighbours join: of cores side by side, or of trips of a loop that follow each
other.  Side by side, they must cover what lies side by side in DRAM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu_kernel import (
    ApplyOp,
    ArgFoldOp,
    CheckOp,
    ContractOp,
    FillOp,
    FoldOp,
    ForOp,
    Index,
    LoadOp,
    MapOp,
    ScanOp,
    SliceOp,
    StoreOp,
    TileType,
    WindowOp,
    WindowsOp,
    YieldOp,
    tile_type,
)
from lpu_mlir.dialects.lpu_kernel.movement import index_shape
from lpu_mlir.dialects.lpu_kernel.types import join_indices, split_indices, tile
from lpu_mlir.tiling.shares import CORE, only_first


class Unfit(Exception):
    """Why the tiles of neighbouring cores do not lie side by side."""


# --- legality -------------------------------------------------------------------------------------


@dataclass
class Seams:
    """
    Along which dim the tiles of neighbours join, for those that differ between them; "core" is the
    number of the core, or of the trip.

    What holds of one operation decides for others before and after it, so the rules are applied
    until nothing changes; the last time they only check.
    """

    dim: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    step: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """For tiles of windows that overlap or leave gaps: how far the next one's is."""
    exprs: dict[SSAValue, Expr] = field(default_factory=dict[SSAValue, Expr])
    names: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    changed: bool = True

    @staticmethod
    def of(block: Block, varying: SSAValue, position: Expr) -> Seams:
        """Those of what a block does for neighbours, which differ in a value, in "core" linear.

        Raises Unfit if there is an operation whose tiles cannot be joined.
        """
        seams = Seams()
        seams.exprs[varying] = position
        while seams.changed:
            seams.changed = False
            seams.visit(block)
        return seams

    def visit(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, YieldOp):
                continue
            if (rule := RULES.get(type(op))) is None:
                raise Unfit(f"{op.name} has no rule")
            rule(self, op)

    # --- scalars --------------------------------------------------------------------------------

    def expr(self, index: Index) -> Expr:
        """An index over the core and names for what does not depend on it."""
        if isinstance(index, int):
            return Expr.const(index)
        if index not in self.exprs:
            name = f"v{len(self.names)}"
            self.names[name] = index
            self.exprs[index] = Expr.name(name)
        return self.exprs[index]

    def same_for_all(self, what: str, indices: Sequence[Index]) -> None:
        for index in indices:
            if "core" in self.expr(index).names():
                raise Unfit(f"{what} {self.expr(index)}")

    def stride(self, index: Index) -> int:
        """How far an index moves from one core to the next."""
        factor = self.expr(index).coefficient("core")
        if factor is None or (step := factor.constant()) is None:
            raise Unfit(f"{self.expr(index)} is not linear in the core")
        return step

    def is_ragged(self, size: Index, step: int) -> bool:
        """Whether it is what is left of some extent for each core, who has `step` at most."""
        return self.left(size, step) is not None

    def left(self, size: Index, step: int) -> Expr | None:
        """N of min(N - step * core, step), which may be kept from being below 0."""
        whole = self.expr(size)
        outer = whole.as_call("max")
        if outer is not None and Expr.const(0) in (outer.lhs, outer.rhs):
            whole = outer.rhs if outer.lhs == 0 else outer.lhs
        inner = whole.as_call("min")
        for rest, most in ((inner.lhs, inner.rhs), (inner.rhs, inner.lhs)) if inner else ():
            extent = rest + step * CORE
            if most == step and "core" not in extent.names():
                return extent
        return None

    # --- tiles ----------------------------------------------------------------------------------

    def set(self, value: SSAValue, dim: int) -> None:
        if self.dim.get(value, dim) != dim:
            raise Unfit(f"a tile is joined along dims {self.dim[value]} and {dim}")
        if value not in self.dim:
            self.dim[value] = dim
            self.changed = True

    def require(self, value: SSAValue, dim: int) -> None:
        """A tile that must be joined along a dim; one that can be made so is."""
        is_free = isinstance(value.owner, FillOp | Block)
        if value not in self.dim and not is_free:
            raise Unfit("a tile that is the same for all cores is combined with one that is not")
        self.set(value, dim)

    def plain(self, value: SSAValue) -> int | None:
        """The dim along which a tile is joined, if it is, without overlap."""
        if value in self.step:
            raise Unfit("the tiles of neighbouring cores overlap")
        return self.dim.get(value)


def _one(dims: set[int]) -> int | None:
    if len(dims) > 1:
        raise Unfit(f"cores differ in dims {sorted(dims)}")
    return next(iter(dims), None)


def _apply(s: Seams, op: Operation) -> None:
    assert isinstance(op, ApplyOp)
    operands = {f"d{n}": s.expr(value) for n, value in enumerate(op.operands_)}
    s.exprs[op.result] = op.map.data.substitute(operands)


def _fill(s: Seams, op: Operation) -> None:
    assert isinstance(op, FillOp)
    sizes = join_indices(op.sizes, op.static_sizes)
    dim = _one({n for n, size in enumerate(sizes) if "core" in s.expr(size).names()})
    if dim is None:
        return
    if not s.is_ragged(sizes[dim], tile(op.result).get_shape()[dim]):
        raise Unfit(f"fill of size {s.expr(sizes[dim])}")
    s.set(op.result, dim)


def _tile_dim(op: WindowOp, dim: int) -> int:
    """The tile's dim of a dim of the memref."""
    if op.index is None or op.indexed_dim is None or dim < op.indexed_dim:
        return dim
    return dim - 1 + len(index_shape(op.index))


def _window_dim(s: Seams, op: WindowOp, sizes: Sequence[Index]) -> int | None:
    """The dim of the memref in which the windows of cores differ."""
    if op.index is not None:
        if op.index in s.dim:
            raise Unfit("cores have different indices")
        if not isinstance(op.index.type, TileType):
            s.same_for_all("index", [op.index])
    differing = {n for n, offset in enumerate(op.window_offsets()) if s.stride(offset)}
    differing |= {n for n, size in enumerate(sizes) if "core" in s.expr(size).names()}
    return _one(differing)


def _load(s: Seams, op: Operation) -> None:
    assert isinstance(op, LoadOp)
    dim = _window_dim(s, op, op.window_sizes())
    if dim is None:
        return
    size, step = op.window_sizes()[dim], s.stride(op.window_offsets()[dim])
    s.set(op.result, _tile_dim(op, dim))
    if isinstance(size, int):
        if step < 1:
            raise Unfit(f"windows move by {step} from core to core")
        if size != step:
            s.step[op.result] = step
    elif op.result_type.get_shape()[_tile_dim(op, dim)] != step or not s.is_ragged(size, step):
        raise Unfit(f"a window has size {s.expr(size)} in steps of {step}")


def _store(s: Seams, op: Operation) -> None:
    assert isinstance(op, StoreOp)
    dim, own = _window_dim(s, op, ()), s.plain(op.value)
    if dim is None or own is None:
        if dim is None and own is None and _only_first(s, op):
            return
        raise Unfit("cores do not store neighbouring windows")
    step = s.stride(op.window_offsets()[dim])
    if _tile_dim(op, dim) != own or tile(op.value).get_shape()[own] != step:
        raise Unfit(f"a tile joined along dim {own} is stored in steps of {step} in dim {dim}")


def _only_first(s: Seams, op: Operation) -> bool:
    parent = op.parent_op()
    return isinstance(parent, ForOp) and s.expr(parent.loop_bounds()[1]) == only_first()


def _map(s: Seams, op: Operation) -> None:
    assert isinstance(op, MapOp)
    sizes, offsets = op.map_sizes(), op.map_offsets()
    found = {n for n, size in enumerate(sizes) if "core" in s.expr(size).names()}
    found |= {n for n, o in enumerate(offsets) if s.stride(o) and op.index_args[n].uses}
    for value, dims in zip(op.inputs, op.dims_of_inputs(), strict=True):
        if (own := s.plain(value)) is not None:
            found.add(dims[own])
    found |= {s.dim[value] for value in op.outputs if value in s.dim}
    if not found:
        found |= {n for n, o in enumerate(offsets) if s.stride(o)}
    dim = _one(found)
    if dim is None:
        return
    step = tile(op.outputs[0]).get_shape()[dim]
    if sizes[dim] != step and not s.is_ragged(sizes[dim], step):
        raise Unfit(f"a map has size {s.expr(sizes[dim])} in steps of {step}")
    if op.index_args[dim].uses and s.stride(offsets[dim]) != step:
        raise Unfit("positions in a map do not go on from core to core")
    for value, dims in zip(op.inputs, op.dims_of_inputs(), strict=True):
        if dim in dims:
            s.require(value, dims.index(dim))
    for value in op.outputs:
        s.set(value, dim)


def _reduced(s: Seams, source: SSAValue, dims: Sequence[int], results: Sequence[SSAValue]) -> None:
    """For what lacks some dims of its source; results may be accumulators, too."""
    own = s.plain(source)
    if own is None:
        if any(value in s.dim for value in results):
            raise Unfit("an accumulator differs between cores, what is added to it does not")
        return
    if own in dims:
        raise Unfit("a fold joins what cores have")
    for value in results:
        s.require(value, own - sum(dim < own for dim in dims))


def _fold(s: Seams, op: Operation) -> None:
    assert isinstance(op, FoldOp)
    if (own := s.plain(op.source)) is not None and own not in op.dims.get_values():
        s.set(op.result, own - sum(dim < own for dim in op.dims.get_values()))
    acc = () if op.acc is None else (op.acc,)
    _reduced(s, op.source, op.dims.get_values(), [op.result, *acc])


def _arg_fold(s: Seams, op: Operation) -> None:
    assert isinstance(op, ArgFoldOp)
    s.same_for_all("position", join_indices(op.at, op.static_at))
    dim = op.dim.value.data
    if (own := s.plain(op.source)) is not None and own != dim:
        for value in op.results:
            s.set(value, own - (dim < own))
    _reduced(s, op.source, [dim], [*op.results, *op.acc])


def _scan(s: Seams, op: Operation) -> None:
    assert isinstance(op, ScanOp)
    dim = op.dim.value.data
    if (own := s.plain(op.source)) is None:
        return
    if own == dim:
        raise Unfit("a scan goes from core to core")
    s.set(op.result, own)
    if op.carry is not None:
        s.require(op.carry, own - (dim < own))


def _contract(s: Seams, op: Operation) -> None:
    assert isinstance(op, ContractOp)
    sides = [(op.lhs, op.lhs_dims.get_values()), (op.rhs, op.rhs_dims.get_values())]
    numbers = {dims[own] for value, dims in sides if (own := s.plain(value)) is not None}
    number = _one(numbers)
    if number is None:
        return
    if number >= tile(op.result).get_num_dims():
        raise Unfit("a contraction sums over what cores have")
    for value, dims in sides:
        if number in dims:
            s.require(value, dims.index(number))
    s.set(op.result, number)
    if op.acc is not None:
        s.require(op.acc, number)


def _slice(s: Seams, op: Operation) -> None:
    assert isinstance(op, SliceOp)
    offsets = join_indices(op.offsets, op.static_offsets)
    sizes = join_indices(op.sizes, op.static_sizes)
    s.same_for_all("slice", [*offsets, *sizes])
    if (own := s.plain(op.source)) is None:
        return
    if offsets[own] != 0 or sizes[own] != tile(op.source).get_shape()[own] or own in op.dropped:
        raise Unfit("a slice is of what cores have")
    s.set(op.result, own - sum(dim < own for dim in op.dropped))


def _windows(s: Seams, op: Operation) -> None:
    assert isinstance(op, WindowsOp)
    own = s.dim.get(op.source)
    sizes = join_indices(op.sizes, op.static_sizes)
    s.same_for_all("windows of size", sizes)
    if own is None:
        return
    step = s.step.get(op.source, tile(op.source).get_shape()[own])
    pairs = enumerate(zip(op.along.get_values(), op.steps.get_values(), strict=True))
    along = {n: by for n, (dim, by) in pairs if dim == own}
    moved = [
        n for n, by in along.items() if isinstance(size := sizes[n], int) and size * by == step
    ]
    if not moved or (len(along) > 1 and op.source not in s.step):
        raise Unfit("windows do not go on from core to core")
    s.set(op.result, moved[0])


def _check(s: Seams, op: Operation) -> None:
    return None


def _for(s: Seams, op: Operation) -> None:
    assert isinstance(op, ForOp)
    if s.expr(op.loop_bounds()[1]) != only_first():
        s.same_for_all("loop to", op.loop_bounds())
    s.visit(op.body.block)
    yields = op.yield_op.arguments
    for group in zip(op.iter_args, op.carried_args, yields, op.outputs, strict=True):
        dim = _one({s.dim[value] for value in group if value in s.dim})
        if dim is not None:
            for value in group[:3]:
                s.require(value, dim)
            s.set(group[3], dim)


RULES: Mapping[type[Operation], Callable[[Seams, Operation], None]] = {
    ApplyOp: _apply,
    FillOp: _fill,
    LoadOp: _load,
    StoreOp: _store,
    MapOp: _map,
    FoldOp: _fold,
    ArgFoldOp: _arg_fold,
    ScanOp: _scan,
    ContractOp: _contract,
    SliceOp: _slice,
    WindowsOp: _windows,
    CheckOp: _check,
    ForOp: _for,
}
"""Operation -> how the dims of its tiles determine each other; raises Unfit if they cannot."""


# --- mechanics ------------------------------------------------------------------------------------


def join(block: Block, seams: Seams, factor: int, first: SSAValue, unit: int) -> None:
    """Makes each tile of a block that differs between neighbours as large as those of `factor` of
    them, of which the first is at position `first`, and each next one `unit` further."""
    for op in list(block.walk()):
        if (sized := SIZED.get(type(op))) is not None:
            sized(_Joiner(seams, factor, first, unit), op)
    for value, dim in seams.dim.items():
        type_ = tile(value)
        shape = list(type_.get_shape())
        shape[dim] = _joined(seams, value, shape[dim], factor)
        new = tile_type(type_.element_type, shape, type_.space.data)
        Rewriter.replace_value_with_new_type(value, new)


def _joined(seams: Seams, value: SSAValue, size: int, factor: int) -> int:
    step = seams.step.get(value, size)
    return step * (factor - 1) + size


@dataclass
class _Joiner:
    """Enlarges the sizes that operations name.

    `first` is the position of the first of those that are joined, of which the next one is `unit`
    further.
    """

    seams: Seams
    factor: int
    first: SSAValue
    unit: int

    def sizes(
        self, op: Operation, value: SSAValue, dim: int | None, sizes: Sequence[Index]
    ) -> list[Index]:
        """The sizes of a tile with the one along its seam, their dim `dim`, enlarged."""
        new = list(sizes)
        if value not in self.seams.dim or dim is None:
            return new
        size = sizes[dim]
        if isinstance(size, int):
            new[dim] = _joined(self.seams, value, size, self.factor)
        else:
            step = tile(value).get_shape()[self.seams.dim[value]]
            new[dim] = self._ragged(op, size, step)
        return new

    def _ragged(self, op: Operation, size: SSAValue, step: int) -> SSAValue:
        extent = self.seams.left(size, step)
        assert extent is not None
        names = sorted(extent.names())
        operands = [self.first, *(self.seams.names[name] for name in names)]
        renamed = {name: Expr.name(f"d{n}") for n, name in enumerate(names, 1)}
        left = extent.substitute(renamed) - step // self.unit * Expr.name("d0")
        most = Expr.const(step * self.factor)
        apply = ApplyOp(Expr.max(Expr.min(left, most), 0), operands)
        Rewriter.insert_op(apply, InsertPoint.before(op))
        return apply.result


def _size_load(j: _Joiner, op: Operation) -> None:
    assert isinstance(op, LoadOp)
    own = j.seams.dim.get(op.result)
    dims = {_tile_dim(op, n): n for n in range(len(op.window_sizes())) if n != op.indexed_dim}
    dim = None if own is None else dims[own]
    _resize(op, j.sizes(op, op.result, dim, op.window_sizes()))


def _size_tile(j: _Joiner, op: Operation) -> None:
    assert isinstance(op, MapOp | FillOp | WindowsOp)
    value = op.results[0]
    sizes = join_indices(op.sizes, op.static_sizes)
    _resize(op, j.sizes(op, value, j.seams.dim.get(value), sizes))


def _size_slice(j: _Joiner, op: Operation) -> None:
    assert isinstance(op, SliceOp)
    sizes = join_indices(op.sizes, op.static_sizes)
    _resize(op, j.sizes(op, op.source, j.seams.dim.get(op.source), sizes))


def _resize(op: LoadOp | MapOp | FillOp | WindowsOp | SliceOp, sizes: list[Index]) -> None:
    """Give an operation other sizes, as many of them known as before."""
    dynamic, static = split_indices(sizes)
    op.properties["static_sizes"] = static
    for n, (old, new) in enumerate(zip(op.sizes, dynamic, strict=True)):
        if old is not new:  # a load or a map, whose sizes are its first operands
            op.operands[n] = new


SIZED: Mapping[type[Operation], Callable[[_Joiner, Operation], None]] = {
    LoadOp: _size_load,
    MapOp: _size_tile,
    FillOp: _size_tile,
    WindowsOp: _size_tile,
    SliceOp: _size_slice,
}
"""Operations that name the sizes of their tiles -> how these grow."""
