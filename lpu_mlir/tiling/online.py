"""Writes the walk that makes a largest score and the sums weighted by exponentials of scores.

A loop over chunks of the walked dims carries the largest score so far and the sums relative to it;
each chunk corrects the sums by how much the largest has risen. Nothing of the size of the scores
leaves the chunk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from lpu_mlir.dialects import lpu_kernel
from lpu_mlir.nests.online import Online
from lpu_mlir.nests.pointwise import Numbers, constant_attr
from lpu_mlir.nests.scalar import Fold, Node, as_contraction
from lpu_mlir.tiling.scope import Scope, TileValue

if TYPE_CHECKING:
    from lpu_mlir.tiling.emit import Emitter


@dataclass(frozen=True, eq=False)
class Held(Node):
    """A scalar whose tile has been made: it stands for an expression in the rest of another."""

    @staticmethod
    def of(node: Node) -> Held:
        return Held(node.type, node.free, node.height)


def level_of(online: Online, scope: Scope) -> int:
    """The level that a walk is in: that of all dims that any of its folds depends on."""
    folds = (online.highest, *online.sums)
    return scope.level(frozenset[str]().union(*(fold.free for fold in folds)))


@dataclass
class OnlineWriter:
    """Writes one walk with the help of the emitter of its nest."""

    emitter: Emitter
    online: Online
    scope: Scope

    def __post_init__(self) -> None:
        highest = self.online.highest
        self.rows = self.emitter.sorted_dims(highest.free)
        self.every = (*self.rows, *(name for name, _ in highest.dims))
        self.score, self.highest = Held.of(self.online.score), Held.of(highest)
        self.weight = Held.of(self.online.weight)

    def run(self) -> Mapping[Fold, SSAValue]:
        """The tile of each fold of the walk, over its sorted dims."""
        highest, sums = self.online.highest, self.online.sums
        level = level_of(self.online, self.scope)
        chunked = [
            (n, e) for n, e in highest.dims if self.emitter.is_chunked(highest, n, e, self.scope)
        ]
        carried: list[SSAValue] = []
        if chunked:
            carried = [self.fill(highest, float("-inf"), level)]
            carried += [self.fill(fold, 0, level) for fold in sums]
        made = self.emitter.over(highest, chunked, self.scope, level, carried, self.chunk)
        return dict(zip((highest, *sums), made, strict=True))

    def fill(self, fold: Fold, value: float, level: int) -> SSAValue:
        dims = self.emitter.sorted_dims(fold.free)
        start = constant_attr(value, fold.type)
        return self.emitter.fill(start, dims, self.scope, level, fold.type)

    def chunk(self, inner: Scope, carried: Sequence[SSAValue], level: int) -> list[SSAValue]:
        """What one chunk makes of what is carried; of nothing, if it is the only one."""
        emitter, highest = self.emitter, self.online.highest
        # What rests on the carried tiles is known where they are, whatever its dims are, if any.
        here = inner.at(level)
        if carried:
            here = replace(here, guard=emitter.levels[level].block.args[0], base=level)
        scores = emitter.arranged(self.online.score, self.every, inner, highest.type)
        folded = range(len(self.rows), len(self.every))
        type = emitter.type_of(highest.type, self.rows, inner)
        before = carried[0] if carried else None
        peak = lpu_kernel.FoldOp("max", scores, list(folded), type, acc=before)
        emitter.hold(self.score, scores, self.every, here)
        emitter.hold(self.highest, emitter.add(peak, level), self.rows, here)
        weight = self.put(self.online.weight, {})
        weights = emitter.map(weight, self.every, here, highest.type).value
        for scope in (inner, here):
            emitter.hold(self.weight, weights, self.every, scope)
        if not carried:  # with the largest of all scores: what the weights are in the end
            emitter.remember(self.online.weight, TileValue(weights, self.every), inner)
        sums = [None] * len(self.online.sums) if before is None else self.corrected(carried, here)
        results: list[SSAValue] = [peak.result]
        for fold, acc in zip(self.online.sums.values(), sums, strict=True):
            body = self.put(fold.body, {self.online.weight: self.weight})
            dims = emitter.sorted_dims(fold.free)
            step = replace(fold, body=body)
            scope = inner if as_contraction(step) is not None else here
            results.append(emitter.fold_step(step, dims, scope, acc, level))
        return results

    def corrected(self, carried: Sequence[SSAValue], here: Scope) -> list[SSAValue]:
        """The carried sums relative to the new largest score."""
        emitter, highest = self.emitter, self.online.highest
        before = Held.of(highest)
        emitter.hold(before, carried[0], self.rows, here)
        factor = self.put(self.online.weight, {self.online.score: before})
        factors = emitter.map(factor, self.rows, here, highest.type).value
        emitter.hold(before, factors, self.rows, here)
        results: list[SSAValue] = []
        for fold, value in zip(self.online.sums, carried[1:], strict=True):
            dims, sum_ = emitter.sorted_dims(fold.free), Held.of(fold)
            emitter.hold(sum_, value, dims, here)
            scaled = Numbers(emitter.scalars, fold.type).float(arith.MulfOp, sum_, before)
            results.append(emitter.map(scaled, dims, here, fold.type).value)
        return results

    def put(self, node: Node, instead: Mapping[Node, Node]) -> Node:
        """A node with what is held in the place of what it was computed from."""
        held = {self.online.score: self.score, self.online.highest: self.highest, **instead}
        return self.emitter.scalars.replace(node, held.get)
