"""Joins a nest into the nests that read its result, so that the result need not exist.

Legality says whether the result's definition can stand where it is read; policy whether that
moves fewer bytes; mechanics replaces the loads.  A matrix product is never computed twice, so it
joins only a nest that reads each of its elements once: its epilogue.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from lpu_mlir.dialects import lpu_loop
from lpu_mlir.dialects.expr import Expr, contiguous_strides, product
from lpu_mlir.dialects.lpu import extents, symbol_ranges, symbols
from lpu_mlir.dialects.lpu_loop import NestOp
from lpu_mlir.logs import logger
from lpu_mlir.nests.nest import Label, Nest, read_parts, write_body
from lpu_mlir.nests.scalar import Fold, Load, Node, Op, Pieces, Scalars, as_contraction, is_dim
from lpu_mlir.nests.traffic import Traffic

LOG = logger("fuse")

MAX_RECOMPUTATIONS = 2
"""How many readers may each evaluate a transcendental function again."""


@dataclass(frozen=True)
class Definition:
    """A tensor given element by element: `value` in terms of one dim for each axis that has one."""

    nest: Nest
    axes: tuple[str | None, ...]

    @property
    def value(self) -> Node:
        return self.nest.stores[0].value

    def names(self, index: Iterable[Expr]) -> dict[str, Expr]:
        """The substitution that moves the definition to another point."""
        return {
            axis: position
            for axis, position in zip(self.axes, index, strict=True)
            if axis is not None
        }


def definition(op: NestOp, nest: Nest) -> Definition | None:
    """The definition of a nest's only result, if it has one."""
    if len(nest.stores) != 1 or not isinstance(op.outs[0].owner, lpu_loop.EmptyOp):
        return None
    store = nest.stores[0]
    if store.kind != "replace" or store.indirect:
        return None
    axes = [None if e.constant() == 0 else str(e) for e in store.index]
    dims = [axis for axis in axes if axis is not None]
    if sorted(dims) != sorted(name for name, _ in nest.dims):
        return None
    return Definition(nest, tuple(axes))


# --- legality -----------------------------------------------------------------------------------


def has_contraction(nest: Nest) -> bool:
    return any(as_contraction(node) is not None for node in nest.nodes())


def has_order(nest: Nest) -> bool:
    """Whether a value depends on its place in a sequence (a scan, the position of an extreme)."""
    return any(isinstance(node, Fold) and node.form != "fold" for node in nest.nodes())


def visits_all_once(load: Load, consumer: Nest) -> bool:
    """Whether the consumer's points and the loaded elements correspond one to one.

    The element's row-major number must count through the consumer's dims like an odometer: each
    dim steps over all positions of the dims inside it.
    """
    if load.indirect or not load.free <= {name for name, _ in consumer.dims}:
        return False
    shape = extents(load.source.type)
    number = sum(
        (e * s for e, s in zip(load.index, contiguous_strides(shape), strict=True)),
        Expr.const(0),
    )
    left = dict(consumer.dims)
    step = Expr.const(1)
    while left:
        dim = next((name for name in left if number.coefficient(name) == step), None)
        if dim is None:
            return False
        number = number - step * Expr.name(dim)
        step = step * left.pop(dim)
    return number == 0 and step == product(shape)


def covers_checks(made: Definition, loads: Sequence[Load], consumer: Nest) -> bool:
    """Whether a load takes every dim on which the definition's checks depend over the whole of a
    dim of the consumer, so that none of them is missed and none is made up."""
    extents_made, extents_here = dict(made.nest.dims), dict(consumer.dims)
    depends = frozenset[str]().union(*(check.condition.free for check in made.nest.checks))
    if not depends:
        return True
    names = made.names(loads[0].index)
    taken = [str(names[dim]) for dim in depends]
    return (
        len(loads) == 1
        and len(set(taken)) == len(taken)
        and all(extents_here.get(str(names[d])) == extents_made[d] for d in depends)
    )


def visits_none_twice(load: Load, consumer: Nest) -> bool:
    """Whether no two points of the consumer load one element: each of its dims moves along an axis
    of its own.  So reads a pad, which has further points at which it loads nothing."""
    if load.indirect or not load.free <= {name for name, _ in consumer.dims}:
        return False
    moving: list[str] = []
    for position in load.index:
        dims = [name for name in position.names() if is_dim(name)]
        steps = [position.coefficient(name) for name in dims]
        if len(dims) > 1 or any(s is None or (s.constant() or 0) <= 0 for s in steps):
            return False
        moving += dims
    return sorted(moving) == sorted(name for name, _ in consumer.dims)


def splits_at_a_dim(position: Expr, consumer: Nest) -> bool:
    """Whether a piecewise value changes at fixed points of one dim of the consumer, on which no
    place that it stores to depends through data."""
    names = [name for name in position.names() if is_dim(name)]
    if len(names) != 1 or names[0] not in dict(consumer.dims):
        return False
    if any(names[0] in index.free for store in consumer.stores for index in store.indirect):
        return False  # the stores along it have an order, which pieces would break
    coefficient = position.coefficient(names[0])
    return coefficient is not None and coefficient == 1


def reason_against(made: Definition, loads: Iterable[Load], consumer: Nest) -> str | None:
    """Why a definition cannot stand in for these loads of one consumer; None if it can."""
    loads = list(loads)
    if has_order(made.nest):
        return "its elements depend on one another"
    all_once = len(loads) == 1 and visits_all_once(loads[0], consumer)
    once = all_once or (len(loads) == 1 and visits_none_twice(loads[0], consumer))
    if not once and has_contraction(made.nest):
        return "a matrix product would be computed more than once"
    if not all_once and not covers_checks(made, loads, consumer):
        return "its checks would not cover every element"
    for load in loads:
        if load.indirect:
            return "it is read at positions that come from data"
        names = made.names(load.index)
        for node in made.nest.nodes():
            if isinstance(node, Pieces) and not splits_at_a_dim(
                node.position.substitute(names), consumer
            ):
                return "a piecewise value would be read inside a fold or across its pieces"
    return None


# --- policy -------------------------------------------------------------------------------------


def is_computed(value: Node) -> bool:
    """Whether a value is more than an element from elsewhere, perhaps widened, or a number."""
    if isinstance(value, Op) and value.op is arith.ExtFOp:
        return is_computed(value.operands[0])
    return bool(value.children)


def runs_backwards(nest: Nest) -> bool:
    """Whether a load counts down along a dim."""
    return any(
        (step := e.coefficient(name)) is not None and (step.constant() or 0) < 0
        for node in nest.nodes()
        if isinstance(node, Load)
        for e in node.index
        for name in node.free
    )


@dataclass(frozen=True)
class Policy:
    """Compares the bytes that move with and without a tensor, at the likely symbol values."""

    traffic: Traffic
    launch_bytes: int
    """What starting a kernel costs, in bytes that could have moved meanwhile."""

    def is_expensive(self, nest: Nest) -> bool:
        """Whether a transcendental function is evaluated for every element."""
        dims = {name for name, extent in nest.dims if self.traffic.number(extent) > 1}
        return any(
            isinstance(node, Op) and node.op.name.startswith("math.") and dims <= node.free
            for node in nest.nodes()
        )

    def meets_again(self, tensor: SSAValue, consumer: Nest) -> bool:
        """Whether one load of a consumer meets elements several times: in windows that overlap."""
        sizes = self.traffic.sizes(consumer)
        elements = self.traffic.elements(tensor)
        return any(
            isinstance(node, Load)
            and node.source is tensor
            and any(sum(map(is_dim, e.names())) > 1 for e in node.index)
            and prod(sizes[name] for name in node.free) > elements
            for node in consumer.nodes()
        )

    def folds_again(self, tensor: SSAValue, made: Definition, consumer: Nest) -> bool:
        """Whether a fold of the definition would be done at each step of a fold of the consumer,
        and so more often than it is now: for several steps that share one result, or, in an operand
        of a product, for every tile of the product."""
        folds = [node for node in made.nest.nodes() if isinstance(node, Fold)]
        outer = {name for name, _ in consumer.dims}
        sizes, own = self.traffic.sizes(consumer), self.traffic.sizes(made.nest)
        for load in consumer.nodes() if folds else ():
            if not isinstance(load, Load) or load.source is not tensor:
                continue
            names = made.names(load.index)
            for fold in folds:
                dims = fold.free & names.keys()
                along = {n for dim in dims for n in names[dim].names() if is_dim(n)}
                if along <= outer:
                    continue
                more = prod(sizes[n] for n in along) > prod(own[dim] for dim in dims)
                if more or has_contraction(consumer):
                    return True
        return False

    def reason_against(
        self, tensor: SSAValue, made: Definition, consumers: list[Nest]
    ) -> str | None:
        """Why it does not pay to compute `tensor` where it is read; None if it does."""
        if any(self.folds_again(tensor, made, c) for c in consumers):
            return "a fold would be done again at each step of a fold"
        if is_computed(made.value) and any(self.meets_again(tensor, c) for c in consumers):
            return "overlapping windows would compute its elements several times"
        if runs_backwards(made.nest) and any(map(has_contraction, consumers)):
            return "a matrix product would read its operand backwards, element by element"
        if not self.traffic.reads(made.nest):
            return None
        if len(consumers) > MAX_RECOMPUTATIONS and self.is_expensive(made.nest):
            return f"{len(consumers)} nests would each evaluate an expensive function"
        saved = self.saved(tensor, made, consumers)
        return None if saved >= 0 else f"the readers would read {-saved:,} bytes more"

    def saved(self, tensor: SSAValue, made: Definition, consumers: list[Nest]) -> int:
        """The bytes that need not be moved if `tensor` is computed where it is read."""
        inputs = self.traffic.reads(made.nest)
        size = self.traffic.tensor_bytes(tensor)
        kept = self.launch_bytes + size * (1 + len(consumers)) + sum(inputs.values())
        joined = 0
        for consumer in consumers:
            already = self.traffic.reads(consumer)
            joined += sum(max(0, read - already.get(source, 0)) for source, read in inputs.items())
        return kept - joined


# --- mechanics ----------------------------------------------------------------------------------


def join(made: Definition, tensor: SSAValue, consumer: Nest, scalars: Scalars) -> Nest:
    """The consumer with every load of `tensor` replaced by its definition there."""
    scalars.ranges.update(consumer.ranges())

    def on_load(load: Load) -> Node | None:
        if load.source is not tensor:
            return None
        return scalars.rewrite(made.value, made.names(load.index))

    joined = consumer.rewrite(scalars, {}, on_load)
    if not made.nest.checks:
        return joined
    load = next(n for n in consumer.nodes() if isinstance(n, Load) and n.source is tensor)
    moved = made.nest.rewrite(scalars, made.names(load.index)).checks
    checks = dict.fromkeys((*joined.checks, *moved))  # each load brings them along
    return Nest(joined.dims, joined.stores, tuple(checks))


# --- the pass -----------------------------------------------------------------------------------


def nest_of(load: Operation) -> NestOp:
    """The nest that a load is in."""
    while not isinstance(load, NestOp):
        parent = load.parent_op()
        assert parent is not None
        load = parent
    return load


class Fusion:
    """All nests of one block as expressions, and who reads what."""

    def __init__(self, block: Block, scalars: Scalars, policy: Policy):
        self.scalars, self.policy = scalars, policy
        nests = {op: read_parts(op, scalars) for op in block.ops if isinstance(op, NestOp)}
        self.labels = {op: Label(op, i) for i, op in enumerate(block.ops) if op in nests}
        self.nests = {op: parts[0] for op, parts in nests.items() if len(parts) == 1}
        self.in_parts = nests.keys() - self.nests.keys()
        self.readers: dict[SSAValue, dict[NestOp, None]] = {}
        self.changed: dict[NestOp, None] = {}
        for op in self.nests:
            self.note_reads(op)

    def loads(self, op: NestOp) -> list[Load]:
        return [node for node in self.nests[op].nodes() if isinstance(node, Load)]

    def note_reads(self, op: NestOp) -> None:
        for load in self.loads(op):
            self.readers.setdefault(load.source, {})[op] = None

    def run(self) -> None:
        """Joins to a fixpoint: a product's readers may become one when they have been joined."""
        order = list(self.nests)
        while any([self.try_join(op) for op in list(self.nests) if len(op.outputs) == 1]):
            pass
        for op in self.changed:
            self.rewrite(op)
        for op in reversed([op for op in order if op not in self.nests]):
            empty = op.outs[0].owner
            Rewriter.erase_op(op)
            if isinstance(empty, lpu_loop.EmptyOp) and not empty.output.uses:
                Rewriter.erase_op(empty)

    def try_join(self, op: NestOp) -> bool:
        tensor = op.outputs[0]
        why_not = self.reason_against(op, tensor)
        if why_not is not None:
            LOG.debug("not fused %s into its readers: %s", self.labels[op], why_not)
            return False
        made = definition(op, self.nests[op])
        assert made is not None
        readers = self.readers.pop(tensor)
        saved = self.policy.saved(tensor, made, [self.nests[reader] for reader in readers])
        if LOG.isEnabledFor(logging.DEBUG):
            names = ", ".join(str(self.labels[reader]) for reader in readers)
            LOG.debug("fused %s into %s: saves %s bytes", self.labels[op], names, f"{saved:,}")
        for load in self.loads(op):
            self.readers[load.source].pop(op, None)
        for reader in readers:
            self.nests[reader] = join(made, tensor, self.nests[reader], self.scalars)
            self.changed[reader] = None
            self.note_reads(reader)
        del self.nests[op]
        self.changed.pop(op, None)
        return True

    def reason_against(self, op: NestOp, tensor: SSAValue) -> str | None:
        made = definition(op, self.nests[op])
        if made is None:
            return "it is written in parts"
        if not all(isinstance(use.operation, lpu_loop.LoadOp) for use in tensor.uses):
            return "it is needed as a tensor"
        if self.in_parts and any(nest_of(u.operation) in self.in_parts for u in tensor.uses):
            return "a nest in parts reads it"
        readers = list(self.readers.get(tensor, ()))
        if not readers:
            return "nobody reads it"
        if len(readers) > 1 and has_contraction(made.nest):
            return "a matrix product with several readers"
        for reader in readers:
            loads = [load for load in self.loads(reader) if load.source is tensor]
            why_not = reason_against(made, loads, self.nests[reader])
            if why_not is not None:
                return why_not
        return self.policy.reason_against(tensor, made, [self.nests[r] for r in readers])

    def rewrite(self, op: NestOp) -> None:
        """Gives the operation its new body; the operation stays, for others name its result."""
        _, body = write_body([self.nests[op]], list(op.outs))
        op.detach_region(0).drop_all_references()
        op.add_region(body)


def fuse_block(function: func.FuncOp, launch_bytes: int) -> None:
    hints = {s.symbol.data: s.hint.data for s in symbols(function)}
    scalars = Scalars(dict(symbol_ranges(function)))
    fusion = Fusion(function.body.block, scalars, Policy(Traffic(hints), launch_bytes))
    fusion.run()


@dataclass(frozen=True)
class FusePass(ModulePass):
    """Fuses nests of `lpu_loop` vertically: producers into their readers.

    Before:
    ```mlir
    %1 = lpu_loop.nest [d0 = 8] outs(%e0 : tensor<8xf32>) {
      %x = lpu_loop.load %a[d0] : tensor<8xf32>
      %y = math.exp %x : f32
      lpu_loop.store "replace" %y, %e0[d0] : f32, tensor<8xf32>
    } -> tensor<8xf32>
    %2 = lpu_loop.nest [d0 = 8] outs(%e1 : tensor<8xf32>) {
      %x = lpu_loop.load %1[d0] : tensor<8xf32>
      %y = arith.negf %x : f32
      lpu_loop.store "replace" %y, %e1[d0] : f32, tensor<8xf32>
    } -> tensor<8xf32>
    ```
    After:
    ```mlir
    %2 = lpu_loop.nest [d0 = 8] outs(%e1 : tensor<8xf32>) {
      %x = lpu_loop.load %a[d0] : tensor<8xf32>
      %y = math.exp %x : f32
      %z = arith.negf %y : f32
      lpu_loop.store "replace" %z, %e1[d0] : f32, tensor<8xf32>
    } -> tensor<8xf32>
    ```
    """

    name = "fuse"

    launch_bytes: int = 65536
    """What one more kernel costs, in bytes moved."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, func.FuncOp) and function.body.blocks:
                fuse_block(function, self.launch_bytes)
