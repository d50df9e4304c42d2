"""Reductions that would keep most cores idle, in two phases.

A core folds by itself, so that a sum over everything runs on one, or on each for itself.  Here each
of several parts of the fold is a point of a nest of its own, which stores partial results; the nest
that had the fold folds those, in their order.  Being tensors, they need no memory of another kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from lpu_mlir.dialects import lpu_loop
from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu import symbol_ranges, symbols
from lpu_mlir.dialects.lpu_loop import Dim, NestOp
from lpu_mlir.nests.nest import Nest, Store, read_parts, write, write_body
from lpu_mlir.nests.online import Online, find_online
from lpu_mlir.nests.pointwise import pointwise
from lpu_mlir.nests.scalar import Fold, Node, Pieces, Scalars, walk

FEW = 4
"""One part of so many cores in use counts as most cores idle."""

_COMBINE = {"max": "maximum", "min": "minimum"}


def points(fold: Fold, nest: Nest) -> list[Dim]:
    """The dims of a nest for each of whose points a fold has another value."""
    return [(name, extent) for name, extent in nest.dims if name in fold.free]


def has_fold(online: Online) -> bool:
    """Whether the scores of a walk are folds themselves, as are those of an attention."""
    return any(isinstance(node, Fold) for node in walk([online.score]))


@dataclass(frozen=True)
class Splitter:
    """Splits the folds of one function's nests into `parts` each, if they have `least` elements."""

    scalars: Scalars
    hints: Mapping[str, int]
    parts: int
    least: int

    def likely(self, extent: Expr) -> int:
        return max(0, extent.evaluate(self.hints))

    def elements(self, fold: Fold) -> int:
        return prod(self.likely(extent) for _, extent in fold.dims)

    # --- what to split ---
    def keeps_busy(self, points: Sequence[Dim]) -> bool:
        """Whether the cores have enough to divide among them as it is."""
        widest = max((self.likely(extent) for _, extent in points), default=1)
        return widest * FEW > self.parts

    def candidate(self, nest: Nest) -> Fold | None:
        """The innermost fold to split, if there is one."""
        nodes = nest.nodes()
        # What a check guards, or what is in bounds only in its piece, stays where it is.
        if nest.checks or any(isinstance(node, Pieces) for node in nodes):
            return None
        # The parts of a walk over products would each compute all of them.
        whole = [fold for fold, made in find_online(nest, self.scalars).items() if has_fold(made)]
        return next(
            (
                node
                for node in nodes
                if isinstance(node, Fold) and node not in whole and self.is_large(node, nest)
            ),
            None,
        )

    def is_large(self, fold: Fold, nest: Nest) -> bool:
        """Whether a fold has more to divide than its points, and nothing large to compute again
        for each part."""
        if fold.form != "fold" or not fold.free <= {name for name, _ in nest.dims}:
            return False
        if self.keeps_busy(points(fold, nest)):
            return False
        inner = [node for node in walk([fold.body]) if isinstance(node, Fold)]
        again = sum(self.elements(node) for node in inner) * self.parts
        longest = max(self.likely(extent) for _, extent in fold.dims)
        size = self.elements(fold)
        return size >= self.least and longest >= self.parts and again <= size

    # --- how ---
    def run(self, op: NestOp) -> None:
        parts, changed = list(read_parts(op, self.scalars)), False
        for i in range(len(parts)):
            while (fold := self.candidate(parts[i])) is not None:
                parts[i], changed = self.split(op, parts[i], fold), True
        if changed:
            _, body = write_body(parts, list(op.outs))
            op.detach_region(0).drop_all_references()
            op.add_region(body)

    def split(self, op: NestOp, nest: Nest, fold: Fold) -> Nest:
        """Puts the nest of the partial results before `op`; returns what `op` is to do then."""
        dims, body = self.scalars.open(fold)
        name, extent = max(dims, key=lambda dim: self.likely(dim[1]))
        others = [dim for dim in dims if dim[0] != name]
        length = extent.floordiv(self.parts)
        outer = points(fold, nest)
        taken = {dim for dim, _ in outer}
        part = next(f"d{i}" for i in range(len(taken) + 1) if f"d{i}" not in taken)
        self.scalars.ranges[part] = (Expr.const(0), Expr.const(self.parts - 1))
        within = self.scalars.fresh(length)
        position = length * Expr.name(part) + Expr.name(within)
        partial = self.fold(fold, [*others, (within, length)], body, {name: position})
        results = self.store(op, [*outer, (part, Expr.const(self.parts))], partial, fold.type)
        # What the parts leave at the end is folded with them.
        number = self.scalars.fresh(Expr.const(self.parts))
        point = [Expr.name(dim) for dim, _ in outer]
        loaded = self.scalars.load(results, [*point, Expr.name(number)])
        whole: Node = self.scalars.fold(
            fold.kind, [(number, Expr.const(self.parts))], loaded, fold.type
        )
        rest = extent - length * self.parts
        if rest != 0:
            last = self.scalars.fresh(rest)
            position = length * self.parts + Expr.name(last)
            left = self.fold(fold, [*others, (last, rest)], body, {name: position})
            kind = _COMBINE.get(fold.kind, fold.kind)
            whole = pointwise(self.scalars, kind, [whole, left], fold.type)
        return nest.map(
            lambda node: self.scalars.replace(node, lambda n: whole if n is fold else None)
        )

    def fold(self, fold: Fold, dims: list[Dim], body: Node, moved: Mapping[str, Expr]) -> Node:
        """The fold of its body over other dims."""
        return self.scalars.fold(fold.kind, dims, self.scalars.rewrite(body, moved), fold.type)

    def store(self, op: NestOp, dims: Sequence[Dim], value: Node, element: Attribute) -> SSAValue:
        """A tensor with the value at every point of some dims, made before `op`."""
        empty = lpu_loop.EmptyOp([extent for _, extent in dims], element)
        point = tuple(Expr.name(name) for name, _ in dims)
        store = Store("replace", 0, point, (), value)
        made = write(Nest(tuple(dims), (store,)), [empty.output])
        made.location = op.location
        new: list[Operation] = [empty, made]
        Rewriter.insert_op(new, InsertPoint.before(op))
        return made.outputs[0]


@dataclass(frozen=True)
class SplitReductionsPass(ModulePass):
    """Divides large folds in nests with few points among the cores.

    Before, for 4 parts:
    ```mlir
    %y = lpu_loop.nest [] outs(%e : tensor<f32>) {
      %0 = lpu_loop.fold "add" [r0 = 4002] : f32 { … lpu_loop.load %x[r0] … }
      lpu_loop.store "replace" %0, %e[] : f32, tensor<f32>
    } -> tensor<f32>
    ```
    After:
    ```mlir
    %p = lpu_loop.nest [d0 = 4] outs(%f : tensor<4xf32>) {
      %0 = lpu_loop.fold "add" [r0 = 1000] : f32 { … lpu_loop.load %x[1000 * d0 + r0] … }
      lpu_loop.store "replace" %0, %f[d0] : f32, tensor<4xf32>
    } -> tensor<4xf32>
    %y = lpu_loop.nest [] outs(%e : tensor<f32>) {
      %0 = lpu_loop.fold "add" [r0 = 4] : f32 { … lpu_loop.load %p[r0] … }
      %1 = lpu_loop.fold "add" [r0 = 2] : f32 { … lpu_loop.load %x[r0 + 4000] … }
      %2 = arith.addf %0, %1 : f32
      lpu_loop.store "replace" %2, %e[] : f32, tensor<f32>
    } -> tensor<f32>
    ```
    """

    name = "split-reductions"

    parts: int = 32
    """How many: the target's cores."""

    least: int = 1 << 16
    """Elements of a fold for which another launch pays."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, func.FuncOp) and function.body.blocks:
                hints = {s.symbol.data: s.hint.data for s in symbols(function)}
                scalars = Scalars(dict(symbol_ranges(function)))
                splitter = Splitter(scalars, hints, self.parts, self.least)
                for nest in list(function.body.block.ops):
                    if isinstance(nest, NestOp):
                        splitter.run(nest)
