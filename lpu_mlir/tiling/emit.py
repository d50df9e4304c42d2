"""Writes the parts of a nest as the tile program of one phase.

Every dim has a state: where its tile starts and how many positions it has, both known at some loop
level.  A value is a tile over the dims it depends on, made once, at the outermost level that knows
their states; a load is known by its window, so what several folds read is moved once.  Parts that
begin with the same loop share it, and the values that depend on it and on what is outside only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.hints import isa

from lpu_mlir.dialects import lpu_kernel
from lpu_mlir.dialects.expr import Expr, nonnegative
from lpu_mlir.dialects.lpu import element_type, i1, i64
from lpu_mlir.dialects.lpu_kernel import Index as KernelIndex
from lpu_mlir.dialects.lpu_kernel import TileType, tile_type
from lpu_mlir.model.target import Target
from lpu_mlir.nests.nest import Nest, Store
from lpu_mlir.nests.pointwise import Numbers, constant_attr
from lpu_mlir.nests.scalar import Fold, Load, Node, Scalars, as_contraction
from lpu_mlir.tiling.access import INDEXED, INDEXED_STEPS, Access, Axis, make_access
from lpu_mlir.tiling.again import is_costly, pattern
from lpu_mlir.tiling.online import Held, OnlineWriter, level_of
from lpu_mlir.tiling.plan import Plan, scans, strip_widening
from lpu_mlir.tiling.region import MapRegion, is_worth_hoisting
from lpu_mlir.tiling.scope import DimState, Running, Scope, Step, TileValue, identity
from lpu_mlir.tiling.shares import only_first, share_size, share_start
from lpu_mlir.tiling.writer import KernelArguments, Writer


class Emitter(Writer):
    """Fills one phase with what some parts of a nest do."""

    def __init__(
        self,
        parts: Sequence[tuple[Nest, Plan]],
        scalars: Scalars,
        target: Target,
        outs: Sequence[SSAValue],
        phase: lpu_kernel.PhaseOp,
        cores: int,
        arguments: KernelArguments,
    ):
        super().__init__(phase.cores.block, arguments)
        self.parts, self.scalars, self.target = parts, scalars, target
        self.outs, self.core, self.cores = outs, phase.core_id, cores
        self.made: dict[object, TileValue] = {}
        self.costly: dict[object, TileValue] = {}
        """Tiles of costly values by their patterns; dims are positions among the pattern's."""
        self.carried: dict[Fold, SSAValue] = {}
        """In the loop along the dim that scans run along: what they carry into the tile."""
        dims = dict.fromkeys(name for nest, _ in parts for name, _ in nest.dims)
        self.order = {name: i for i, name in enumerate(dims)}
        self.ranges = dict(scalars.ranges)
        for nest, _ in parts:
            self.ranges.update(nest.ranges())

    # --- the nest's dims --------------------------------------------------------------------
    def run(self) -> None:
        running = [self.start(nest, plan) for nest, plan in self.parts]
        # Those of one core come last: what others have made is there for them.
        self.walk(sorted(running, key=lambda part: part.plan.shared is None))

    def start(self, nest: Nest, plan: Plan) -> Running:
        dims = {name: self.part(name, extent, plan) for name, extent in nest.dims}
        extents = dict(nest.dims)
        loops = tuple(n for n in plan.order if self.is_looped(dims[n], extents[n], plan, n))
        return Running(nest, plan, dims, loops)

    def part(self, name: str, extent: Expr, plan: Plan) -> DimState:
        """What one core does of a dim: all of it, or its share of the shared one."""
        capacity = plan.sizes[name]
        if name != plan.shared:
            return DimState(0, self.number(extent, {}, 0), capacity, 0)
        size = extent.constant()
        cores = self.target.cores
        values: dict[str, KernelIndex] = {"core": self.core}
        start = self.number(share_start(extent, cores), values, 0)
        whole = extent.ceildiv(cores).constant()
        if size is not None and whole and size % whole == 0 and size // whole == self.cores:
            return DimState(start, whole, capacity, 0)
        count = self.number(share_size(extent, cores), values, 0)
        return DimState(start, count, capacity, 0)

    def walk(self, parts: Sequence[Running]) -> None:
        """Opens the loops over tiles, outermost first, and fills the innermost; parts whose next
        loop is the same share it."""
        pending: list[Running] = list(parts)
        while pending:
            first = pending[0]
            if not first.loops:
                self.body(pending.pop(0))
                continue
            together = [part for part in pending if self.same_loop(first, part)]
            pending = [part for part in pending if part not in together]
            self.open(first.loops[0], first.dims[first.loops[0]], together)

    def same_loop(self, first: Running, other: Running) -> bool:
        if other is first:
            return True
        if other.loops[:1] != first.loops[:1]:
            return False
        name = first.loops[0]
        ordered = first.plan.walk.sequential | other.plan.walk.sequential
        return name not in ordered and other.dims[name] == first.dims[name]

    def open(self, name: str, state: DimState, parts: Sequence[Running]) -> None:
        """Opens a loop that some parts share; scans run in loops of their own part only."""
        level, first = len(self.levels) - 1, parts[0]
        kind = "sequential" if name in first.plan.walk.sequential else "parallel"
        running = scans(first.nest) if name in first.plan.walk.scanned else []
        scope = Scope(first.dims, self.ranges, first.plan)
        start = [self.scan_start(fold, name, scope, level) for fold in running]
        with self.loop(kind, state.size, state.capacity, level, start) as loop:
            self.carried.update(zip(running, loop.carried_args, strict=True))
            tile = self.tile_of(state, loop.induction, level + 1)
            self.walk([replace(p, dims={**p.dims, name: tile}, loops=p.loops[1:]) for p in parts])
            carry = [self.carried.pop(fold) for fold in running]
            loop.body.block.add_op(lpu_kernel.YieldOp(*carry))

    def is_looped(self, state: DimState, extent: Expr, plan: Plan, name: str) -> bool:
        if isinstance(state.size, int):
            return state.size > state.capacity
        size = extent.constant()
        if size is None:
            return True
        part = ceil(size / self.target.cores) if name == plan.shared else size
        return part > state.capacity

    def tile_of(self, state: DimState, variable: SSAValue, level: int) -> DimState:
        """One trip's tile of a dim walked in steps of its capacity."""
        values: dict[str, KernelIndex] = {
            "i": variable,
            "start": state.offset,
            "size": state.size,
        }
        i, capacity = Expr.name("i"), Expr.const(state.capacity)
        offset = self.number(Expr.name("start") + i, values, level)
        if isinstance(state.size, int) and state.size % state.capacity == 0:
            return DimState(offset, state.capacity, state.capacity, level)
        size = self.number(Expr.min(capacity, Expr.name("size") - i), values, level)
        return DimState(offset, size, state.capacity, level)

    def body(self, part: Running) -> None:
        """Writes a part where all its loops are open; for one core only, if none of its dims is
        divided."""
        scope = Scope(part.dims, self.ranges, part.plan)
        if part.plan.shared is not None or self.cores == 1:
            return self.fill_body(part.nest, scope)
        level = len(self.levels) - 1
        count = self.number(only_first(), {"core": self.core}, 0)
        with self.loop("parallel", count, 1, level, []) as loop:
            self.fill_body(part.nest, replace(scope, guard=loop.induction, base=level + 1))
            loop.body.block.add_op(lpu_kernel.YieldOp())
        return None

    def fill_body(self, nest: Nest, scope: Scope) -> None:
        scope = self.in_walks(scope)
        for check in nest.checks:
            condition = self.tile(self.checked(nest, check.condition, scope), scope)
            level = scope.level(condition.dims)
            self.levels[level].add(lpu_kernel.CheckOp(condition.value, check.error, check.message))
        # All loads come before the stores: one may go where another store's value comes from.
        for op in [self.store(store, scope) for store in nest.stores]:
            self.levels[-1].add(op)

    def in_walks(self, scope: Scope) -> Scope:
        """The scope inside the loops that a walk over scores is in, if not all of its folds depend
        on these: what is made of them is known there only."""
        level = max((level_of(online, scope) for online in scope.plan.online.values()), default=0)
        if level <= min((scope.level(fold.free) for fold in scope.plan.online), default=level):
            return scope
        return replace(scope, guard=self.levels[level].block.args[0], base=level)

    def checked(self, nest: Nest, condition: Node, scope: Scope) -> Node:
        """A condition of a check, true also where the nest has no points for it to fail at."""
        numbers, flags = Numbers(self.scalars, i64), Numbers(self.scalars, i1)
        for name, extent in nest.dims:
            if name not in condition.free and not nonnegative(extent - 1, scope.ranges):
                none = numbers.compare("eq", self.scalars.index(extent), numbers.const(0))
                condition = flags.int(arith.OrIOp, condition, none)
        return condition

    # --- values -----------------------------------------------------------------------------
    def sorted_dims(self, names: frozenset[str]) -> tuple[str, ...]:
        return tuple(sorted(names, key=lambda n: (self.order.get(n, len(self.order)), n)))

    def tile(self, node: Node, scope: Scope) -> TileValue:
        """The tile of a scalar's values over the dims it depends on."""
        key = self.key(node, scope)
        found = self.known(key, scope)
        if found is None:
            match node:
                case Load():
                    found = self.load(node, scope)
                case Fold():
                    found = self.fold(node, scope)
                case _:
                    dims = self.sorted_dims(node.free)
                    found = self.map(node, dims, scope, node.type)
            self.made[scope.guard, *key] = found
        return found

    def hold(self, node: Node, value: SSAValue, dims: tuple[str, ...], scope: Scope) -> None:
        """Notes that a node's tile has been made."""
        self.made[scope.guard, *self.key(node, scope)] = TileValue(value, dims)

    def key(self, node: Node, scope: Scope) -> tuple[object, ...]:
        """By what a node's tile in a scope is known."""
        return (node, *(scope.dims[name] for name in sorted(node.free)))

    def known(self, key: tuple[object, ...], scope: Scope) -> TileValue | None:
        """A value that was made here, or outside of the loop that keeps a part to one core."""
        return self.made.get((None, *key)) or self.made.get((scope.guard, *key))

    def type_of(self, element: Attribute, dims: Sequence[str], scope: Scope) -> TileType:
        return tile_type(element, [scope.dims[name].capacity for name in dims])

    def load(self, node: Load, scope: Scope) -> TileValue:
        access = make_access(node, node.source, scope.ranges, self.scalars)
        index = self.tile(access.index, scope) if access.index is not None else None
        states = tuple(scope.dims.get(dim) for dim in access.dims)
        dims = window_dims(access, index)
        key = (replace(access, index=None), states, index, index and dims)
        known = self.known(_nameless(key), scope)
        if known is not None:
            return TileValue(known.value, dims)
        level = scope.level(dims)
        spans = [self.span(axis, scope, level) for axis in access.axes]
        capacities: list[int] = []
        for axis, (_, _, capacity) in zip(access.axes, spans, strict=True):
            inner = index.dims if index is not None and axis.steps == INDEXED_STEPS else None
            of_index = [scope.dims[name].capacity for name in inner or ()]
            capacities += [capacity] if inner is None else of_index
        op = lpu_kernel.LoadOp(
            self.arguments.view(access, "ro"),
            [offset for offset, _, _ in spans],
            [size for _, size, _ in spans],
            tile_type(element_type(access.buffer.type), capacities),
            index_dim=access.indexed_axis,
            index=None if index is None else index.value,
        )
        made = TileValue(self.windows(access, self.add(op, level), scope, level), dims)
        self.made[scope.guard, *_nameless(key)] = made
        return made

    def span(self, axis: Axis, scope: Scope, level: int) -> tuple[KernelIndex, KernelIndex, int]:
        """Offset, size and capacity of a window along an axis."""
        if axis.steps == INDEXED_STEPS:
            return 0, 1, 1
        states = [(scope.dims[dim], step) for dim, step in axis.steps]
        if len(states) == 1:
            return states[0][0].offset, states[0][0].size, states[0][0].capacity
        capacity = 1 + sum(step * (state.capacity - 1) for state, step in states)
        offsets = {f"o{i}": state.offset for i, (state, _) in enumerate(states)}
        sizes = {f"n{i}": state.size for i, (state, _) in enumerate(states)}
        offset = size = Expr.const(0)
        for i, (_, step) in enumerate(states):
            offset = offset + step * Expr.name(f"o{i}")
            size = size + step * (Expr.name(f"n{i}") - 1)
        size = size + 1
        unsure = [
            i
            for i, (state, _) in enumerate(states)
            if not (isinstance(state.size, int) and state.size)
        ]
        for i in unsure:  # without positions along a dim, there is no element
            size = Expr.max(0, Expr.min(size, capacity * Expr.name(f"n{i}")))
        return self.number(offset, offsets, level), self.number(size, sizes, level), capacity

    def windows(self, access: Access, loaded: SSAValue, scope: Scope, level: int) -> SSAValue:
        """A loaded tile with an axis for each dim, if several move along one of its axes."""
        if all(len(axis.steps) == 1 for axis in access.axes):
            return loaded
        moves = [(i, *move) for i, axis in enumerate(access.axes) for move in axis.steps]
        states = [scope.dims[dim] for _, dim, _ in moves]
        op = lpu_kernel.WindowsOp(
            loaded,
            [axis for axis, _, _ in moves],
            [step for _, _, step in moves],
            [state.size for state in states],
            tile_type(element_type(access.buffer.type), [state.capacity for state in states]),
        )
        return self.add(op, level)

    def store(self, store: Store, scope: Scope) -> lpu_kernel.StoreOp:
        """The store of a part's tile, which is still to be put where it belongs."""
        target = self.outs[store.out]
        every = frozenset(scope.dims)
        access = make_access(store, target, scope.ranges, self.scalars, every)
        index = None
        if access.index is not None:
            # Points that differ in no dim of the address have a place each in the index.
            index_dims = self.sorted_dims(every - {*access.dims})
            index = TileValue(self.arranged(access.index, index_dims, scope, i64), index_dims)
        dims = window_dims(access, index)
        value = self.arranged(store.value, dims, scope, element_type(target.type))
        return lpu_kernel.StoreOp(
            value,
            self.arguments.view(access, "wo" if store.kind == "replace" else "rw"),
            [0 if dim == INDEXED else scope.dims[dim].offset for dim in access.dims],
            kind=store.kind,
            index_dim=access.indexed_axis,
            index=None if index is None else index.value,
        )

    def arranged(
        self, node: Node, dims: tuple[str, ...], scope: Scope, element: Attribute
    ) -> SSAValue:
        """The node's tile with its axes in the order of `dims`."""
        if isinstance(node, Load | Fold | Held):
            made = self.tile(node, scope)
            assert isinstance(made.value.type, TileType)
            if made.dims == dims and made.value.type.element_type == element:
                return made.value
        return self.map(node, dims, scope, element).value

    # --- folds ------------------------------------------------------------------------------
    def fold(self, fold: Fold, scope: Scope) -> TileValue:
        level = scope.level(fold.free)
        dims = self.sorted_dims(fold.free)
        if fold in scope.plan.online:
            made = OnlineWriter(self, scope.plan.online[fold], scope).run()
            for other, value in made.items():
                self.hold(other, value, self.sorted_dims(other.free), scope)
            return TileValue(made[fold], dims)
        if fold.form == "scan":
            return self.scan(fold, scope)
        if fold.form == "arg_fold":
            return self.arg_fold(fold, dims, scope, level)
        carried: tuple[SSAValue, ...] = ()
        chunked = [(n, e) for n, e in fold.dims if self.is_chunked(fold, n, e, scope)]
        if chunked:
            carried = (self.fill(identity(fold.kind, fold.type), dims, scope, level, fold.type),)

        def step(inner: Scope, acc: Sequence[SSAValue], at: int) -> list[SSAValue]:
            return [self.fold_step(fold, dims, inner, acc[0] if acc else None, at)]

        return TileValue(self.over(fold, chunked, scope, level, carried, step)[0], dims)

    def is_chunked(self, fold: Fold, name: str, extent: Expr, scope: Scope) -> bool:
        size = extent.constant()
        return size is None or size > scope.plan.sizes[fold, name]

    def over(
        self,
        fold: Fold,
        chunked: Sequence[tuple[str, Expr]],
        scope: Scope,
        level: int,
        carried: Sequence[SSAValue],
        step: Step,
    ) -> list[SSAValue]:
        """Runs `step` over all chunks of a fold's dims, carrying what it gives."""
        states = dict(scope.dims)
        for name, extent in fold.dims:
            if (name, extent) not in chunked:
                size = self.number(extent, {}, 0)
                states[name] = DimState(0, size, scope.plan.sizes[fold, name], 0)
        bound = {name: (Expr.const(0), extent - 1) for name, extent in fold.dims}
        inner = replace(scope, dims=states, ranges={**scope.ranges, **bound})
        return self._nested(fold, list(chunked), inner, level, list(carried), step)

    def _nested(
        self,
        fold: Fold,
        chunked: list[tuple[str, Expr]],
        scope: Scope,
        level: int,
        carried: list[SSAValue],
        step: Step,
    ) -> list[SSAValue]:
        if not chunked:
            return step(scope, carried, level)
        (name, extent), rest = chunked[0], chunked[1:]
        whole = DimState(0, self.number(extent, {}, 0), scope.plan.sizes[fold, name], 0)
        with self.loop("reduction", whole.size, whole.capacity, level, carried) as loop:
            states = {**scope.dims, name: self.tile_of(whole, loop.induction, level + 1)}
            inner, acc = replace(scope, dims=states), list(loop.carried_args)
            results = self._nested(fold, rest, inner, level + 1, acc, step)
            loop.body.block.add_op(lpu_kernel.YieldOp(*results))
        return list(loop.results)

    def fold_step(
        self, fold: Fold, dims: tuple[str, ...], scope: Scope, acc: SSAValue | None, level: int
    ) -> SSAValue:
        bound = tuple(name for name, _ in fold.dims)
        result = self.type_of(fold.type, dims, scope)
        factors = as_contraction(fold)
        if factors is not None:
            position = {name: i for i, name in enumerate((*dims, *bound))}
            lhs, rhs = (self.whole_tile(strip_widening(factor), scope) for factor in factors)
            return self.add(
                lpu_kernel.ContractOp(
                    lhs.value,
                    [position[n] for n in lhs.dims],
                    rhs.value,
                    [position[n] for n in rhs.dims],
                    result,
                    acc=acc,
                ),
                level,
            )
        every = (*dims, *bound)
        body = self.folded_tile(fold, dims, scope)
        if body is None:
            body = TileValue(self.arranged(fold.body, every, scope, fold.body.type), every)
        folded = [i for i, name in enumerate(body.dims) if name in bound]
        return self.add(lpu_kernel.FoldOp(fold.kind, body.value, folded, result, acc=acc), level)

    def folded_tile(self, fold: Fold, dims: tuple[str, ...], scope: Scope) -> TileValue | None:
        """The tile of a fold's body as it is, if a fold of it gives `dims` in their order."""
        bound = {name for name, _ in fold.dims}
        if not isinstance(fold.body, Load | Fold | Held) or set(fold.body.free) != bound | set(
            dims
        ):
            return None
        body = self.tile(fold.body, scope)
        assert isinstance(body.value.type, TileType)
        fits = body.value.type.element_type == fold.type and frozenset(body.dims) == fold.body.free
        return body if fits and tuple(n for n in body.dims if n not in bound) == dims else None

    def whole_tile(self, node: Node, scope: Scope) -> TileValue:
        """A tile over every dim of a scalar, also those in which its window does not step."""
        made = self.tile(node, scope)
        if frozenset(made.dims) == node.free:
            return made
        return self.map(node, self.sorted_dims(node.free), scope, node.type)

    def arg_fold(self, fold: Fold, dims: tuple[str, ...], scope: Scope, level: int) -> TileValue:
        ((name, extent),) = fold.dims
        value_type = fold.body.type
        carried: list[SSAValue] = []
        chunked = [(name, extent)] if self.is_chunked(fold, name, extent, scope) else []
        if chunked:
            start = identity(fold.kind, value_type)
            carried = [
                self.fill(start, dims, scope, level, value_type),
                self.fill(constant_attr(0, i64), dims, scope, level, i64),
            ]

        def step(inner: Scope, acc: Sequence[SSAValue], at: int) -> list[SSAValue]:
            every = (*dims, name)
            body = self.arranged(fold.body, every, inner, value_type)
            op = lpu_kernel.ArgFoldOp(
                fold.kind,
                body,
                len(dims),
                self.type_of(value_type, dims, inner),
                self.type_of(i64, dims, inner),
                at=inner.dims[name].offset,
                acc=(acc[0], acc[1]) if acc else None,
            )
            self.add(op, at)
            return list(op.results)

        return TileValue(self.over(fold, chunked, scope, level, carried, step)[1], dims)

    # --- scans ------------------------------------------------------------------------------
    def scan_start(self, fold: Fold, along: str, scope: Scope, level: int) -> SSAValue:
        """What a scan carries into its first tile."""
        dims = self.sorted_dims(self.scan_dims(fold, scope) - {along})
        return self.fill(identity(fold.kind, fold.type), dims, scope, level, fold.type)

    def scan_dims(self, fold: Fold, scope: Scope) -> frozenset[str]:
        """A scan's dims among those of the nest; a scan of a scan runs along the same."""
        along = scope.plan.walk.scanned
        return frozenset(name if name in self.order else along[0] for name in fold.free)

    def scan(self, fold: Fold, scope: Scope) -> TileValue:
        """The running fold along a dim of the nest, on from the tile before if there is one."""
        ((name, _),) = fold.dims
        state = scope.dims[fold.along]
        ranges = {**scope.ranges, name: scope.ranges[fold.along]}
        inner = replace(scope, dims={**scope.dims, name: state}, ranges=ranges)
        dims = self.sorted_dims(fold.free)
        axis, level = dims.index(fold.along), scope.level(dims)
        every = (*dims[:axis], name, *dims[axis + 1 :])
        body = self.arranged(fold.body, every, inner, fold.body.type)
        carry = self.carried.get(fold)
        op = lpu_kernel.ScanOp(fold.kind, body, axis, carry=carry)
        result = TileValue(self.add(op, level), dims)
        if carry is not None:
            self.carried[fold] = self.last_of(result, axis, scope, level)
        return result

    def last_of(self, scanned: TileValue, axis: int, scope: Scope, level: int) -> SSAValue:
        """A tile's last positions along one dim, which the result lacks."""
        states = [scope.dims[name] for name in scanned.dims]
        offsets: list[KernelIndex] = [0] * len(states)
        offsets[axis] = self.number(Expr.name("n") - 1, {"n": states[axis].size}, level)
        sizes = [state.size for state in states]
        sizes[axis] = 1
        kept = (*scanned.dims[:axis], *scanned.dims[axis + 1 :])
        assert isinstance(scanned.value.type, TileType)
        type = self.type_of(scanned.value.type.element_type, kept, scope)
        op = lpu_kernel.SliceOp(scanned.value, offsets, sizes, type, drop=[axis])
        return self.add(op, level)

    def fill(
        self, value: Attribute, dims: Sequence[str], scope: Scope, level: int, type: Attribute
    ) -> SSAValue:
        assert isa(value, FloatAttr[AnyFloat]) or isa(value, IntegerAttr[IntegerType])
        sizes = [scope.dims[name].size for name in dims]
        return self.add(lpu_kernel.FillOp(value, sizes, self.type_of(type, dims, scope)), level)

    # --- maps -------------------------------------------------------------------------------
    def map(self, node: Node, dims: tuple[str, ...], scope: Scope, element: Attribute) -> TileValue:
        """A map that computes a scalar from tiles, over `dims` in that order."""
        for leaf in self.leaves(node, frozenset(dims), scope):
            if isinstance(leaf, Fold):  # it may make tiles of what else the map would compute
                self.tile(leaf, scope)
        leaves = {
            leaf: self.tile(leaf, scope) for leaf in self.leaves(node, frozenset(dims), scope)
        }
        states = [scope.dims[name] for name in dims]
        op = lpu_kernel.MapOp(
            [state.size for state in states],
            [(leaf.value, [dims.index(n) for n in leaf.dims]) for leaf in leaves.values()],
            [self.type_of(element, dims, scope)],
            offsets=[state.offset for state in states],
        )
        values: dict[Node, SSAValue] = dict(zip(leaves, op.scalar_args, strict=True))
        names = dict(zip(dims, op.index_args, strict=True))
        region = MapRegion(op.body.block, values, names, self.arguments)
        region.block.add_op(lpu_kernel.YieldOp(region.value(node)))
        made = TileValue(self.add(op, scope.level(dims)), dims)
        if element == node.type:
            self.remember(node, made, scope)
        return made

    def remember(self, node: Node, made: TileValue, scope: Scope) -> None:
        """Notes that there is a tile of a value, if computing it again would cost more."""
        if is_costly(node):
            key, names = self.pattern_key(node, scope)
            if set(made.dims) <= set(names):  # not so where it varies only with what it is beside
                dims = tuple(str(names.index(name)) for name in made.dims)
                self.costly[key] = TileValue(made.value, dims)

    def pattern_key(self, node: Node, scope: Scope) -> tuple[object, tuple[str, ...]]:
        """By what a costly value is known whatever its dims are called, and what they are here."""
        found, names = pattern(node)
        return (scope.guard, found, tuple(scope.dims[name] for name in names)), names

    def computed(self, node: Node, scope: Scope) -> bool:
        """Whether there is a tile of a costly value, under other names of its dims perhaps."""
        if not is_costly(node):
            return False
        key, names = self.pattern_key(node, scope)
        if (known := self.costly.get(key)) is None:
            return False
        self.hold(node, known.value, tuple(names[int(n)] for n in known.dims), scope)
        return True

    def leaves(self, root: Node, dims: frozenset[str], scope: Scope) -> list[Node]:
        """What a map takes from tiles: loads, folds, and values that vary over fewer dims."""
        found: dict[Node, None] = {}
        seen: set[Node] = set()

        def visit(node: Node) -> None:
            if node in seen:
                return
            seen.add(node)
            hoisted = node is not root and node.free < dims and is_worth_hoisting(node)
            again = node is not root and self.computed(node, scope)
            if isinstance(node, Load | Fold | Held) or hoisted or again:
                found[node] = None
                return
            for child in node.children:
                visit(child)

        visit(root)
        return list(found)


def window_dims(access: Access, index: TileValue | None) -> tuple[str, ...]:
    """The dims of a window's axes; those of the index tile stand for the indexed axis."""
    dims: list[str] = []
    for dim in access.dims:
        if dim != INDEXED:
            dims.append(dim)
        elif index is not None:
            dims += index.dims
    return tuple(dims)


def _nameless(key: tuple[object, ...]) -> tuple[object, ...]:
    """A window's key without the names of its dims: two folds may walk one window."""
    access, *rest = key
    assert isinstance(access, Access)
    axes = tuple((a.extent, a.stride, *(step for _, step in a.steps)) for a in access.axes)
    return ("window", access.buffer, access.offset, axes, *rest)
