"""Merges nests into one with several results, so that they are one kernel.

Nests that load the same become parts of one nest, which shares the loads and what depends on them;
so does a nest that reads another one's result only where it stores its own, and then the value need
not be loaded again.  Fusion by recomputation (`fuse`) comes first: what it leaves are results that
several need, or that must exist.

Legality says whether two nests can be in one place; policy whether anything is saved; the mechanics
are in `lpu_mlir.nests.group`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from lpu_mlir.dialects import lpu_loop
from lpu_mlir.dialects.lpu import HostCallOp, bound_late, symbol_ranges, symbols
from lpu_mlir.dialects.lpu_loop import NestOp, WriteBackOp
from lpu_mlir.logs import logger
from lpu_mlir.nests.group import Group, has_scan, merge, tidy
from lpu_mlir.nests.nest import Nest, read_parts, write_parts
from lpu_mlir.nests.scalar import Load, Scalars, as_contraction
from lpu_mlir.nests.traffic import Traffic

LOG = logger("fuse")

MAX_PARTS = 8
"""Parts of one nest: a kernel's tiles share the SRAM of a core."""

NEIGHBOURS = 4
"""How many nests before it a small one may join without having anything in common."""

CALLS = (func.CallOp, HostCallOp)
"""Operations that may overwrite what they take."""

READERS = 3
"""With how many readers of the same tensor, the nearest before it, a nest is compared."""


def has_indirection(nest: Nest) -> bool:
    """Whether a nest loads or stores at positions from data."""
    stores = any(store.indirect for store in nest.stores)
    return stores or any(isinstance(n, Load) and n.indirect for n in nest.nodes())


# --- the pass -----------------------------------------------------------------------------------


class Merging:
    """All nests of one block, who uses what, and where."""

    def __init__(self, block: Block, scalars: Scalars, traffic: Traffic, launch_bytes: int):
        self.scalars, self.traffic, self.launch_bytes = scalars, traffic, launch_bytes
        self.position: dict[Operation, int] = {op: i for i, op in enumerate(block.ops)}
        self.late = bound_late(block)
        self.written: dict[SSAValue, list[SSAValue]] = {}
        """Value -> the arguments that it is written back to."""
        self.order: list[Group] = []
        """The groups by position."""
        self.alive: set[Group] = set()
        self.maker: dict[SSAValue, Group] = {}
        self.readers: dict[SSAValue, dict[Group, None]] = {}
        """Groups that load a tensor."""
        self.holders: dict[SSAValue, dict[Group, None]] = {}
        """Groups that store into a copy of a tensor, or in its place."""
        self.others: dict[SSAValue, list[Operation]] = {}
        """Other operations that take a tensor."""
        self.changed: dict[Group, None] = {}
        for op in block.ops:
            if isinstance(op, WriteBackOp):
                self.written.setdefault(op.value, []).append(op.target)
            if isinstance(op, NestOp):
                self.add(self.group(op))
                continue
            for operand in op.operands:
                self.others.setdefault(operand, []).append(op)

    def group(self, op: NestOp) -> Group:
        parts = list(read_parts(op, self.scalars))
        loads = {load: n for part in parts for load, n in self.traffic.loads(part).items()}
        return Group([op], self.position[op], parts, list(op.outs), list(op.outputs), loads)

    def add(self, group: Group) -> None:
        self.alive.add(group)
        insort(self.order, group, key=lambda g: g.position)
        self.maker.update((result, group) for result in group.results)
        for load in group.loads:
            self.readers.setdefault(load.source, {})[group] = None
        for out in group.outs:
            self.holders.setdefault(out, {})[group] = None

    def index(self, group: Group) -> int:
        return bisect_left(self.order, group.position, key=lambda g: g.position)

    def remove(self, group: Group) -> None:
        self.alive.discard(group)
        del self.order[self.index(group)]
        for users in (self.readers, self.holders):
            for tensor in (*group.sources(), *group.outs):
                users.get(tensor, {}).pop(group, None)

    # --- who uses what when ---
    def uses(self, tensor: SSAValue) -> Iterator[tuple[int, Group | None]]:
        """Where a tensor is used, and by which group."""
        for users in (self.readers, self.holders):
            for group in users.get(tensor, ()):
                yield group.position, group
        for op in self.others.get(tensor, ()):
            yield self.position[op], None

    def reads(self, tensor: SSAValue) -> Iterator[tuple[int, Group | None]]:
        """Where a tensor's elements are read, and by which group."""
        for group in self.readers.get(tensor, ()):
            yield group.position, group
        for op in self.others.get(tensor, ()):
            if not isinstance(op, WriteBackOp) or op.value is tensor:
                yield self.position[op], None

    def made_at(self, tensor: SSAValue) -> int:
        """The position of what makes a tensor; an empty destination can be made anywhere."""
        if tensor in self.maker:
            return self.maker[tensor].position
        owner = tensor.owner
        if isinstance(owner, Block) or isinstance(owner, lpu_loop.EmptyOp):
            return -1
        return self.position[owner]

    def overwritten(self, group: Group) -> list[SSAValue]:
        """The tensors in whose place a group stores, if nobody reads them any more."""
        held = [out for out in group.outs if not isinstance(out.owner, lpu_loop.EmptyOp)]
        return held + [t for r in group.results for t in self.written.get(r, ())]

    def overwriters(self, tensor: SSAValue) -> list[Group]:
        """The groups that store in the place of a tensor, if nobody reads it any more."""
        written = [op.value for op in self.others.get(tensor, ()) if isinstance(op, WriteBackOp)]
        makers = [self.maker[value] for value in written if value in self.maker]
        return [*makers, *self.holders.get(tensor, ())]

    def sinks(self, group: Group) -> bool:
        """Whether a group's results are needed at the end only, so that it can run there."""
        if any(not isinstance(out.owner, lpu_loop.EmptyOp) for out in group.outs):
            return False
        if any(self.readers.get(r) or self.holders.get(r) for r in group.results):
            return False
        others = [op for r in group.results for op in self.others.get(r, ())]
        return all(isinstance(op, WriteBackOp | func.ReturnOp) for op in others)

    # --- legality ---
    def place(self, first: Group, second: Group) -> Group | None:
        """Which of two groups, of which `first` comes first, is where both can be: after all that
        they need and before all that need them."""
        needed = [p for r in first.results for p, user in self.uses(r) if user is not second]
        # What only checks is needed by all that follows.
        if first.results and all(position > second.position for position in needed):
            return second
        sources = [t for t in (*second.sources(), *second.outs) if t not in first.results]
        if not self.late and all(self.made_at(tensor) < first.position for tensor in sources):
            return first
        return None

    def breaks_order(self, first: Group, second: Group, at: Group) -> bool:
        """Whether a tensor that one of them overwrites would be read afterwards or at once, or one
        that they read be overwritten before: it would have to be copied."""
        both = (first, second)
        for mine, its in (both, both[::-1]):
            for tensor in self.overwritten(mine):
                for position, reader in self.reads(tensor):
                    if reader is its or (reader is not mine and position > at.position):
                        return True
        if at is first:
            return False
        for tensor in first.sources():
            for group in self.overwriters(tensor):
                inside = first.position < group.position < at.position
                if inside and group not in both and not self.sinks(group):
                    return True
            calls = [op for op in self.others.get(tensor, ()) if isinstance(op, CALLS)]
            if any(first.position < self.position[op] < at.position for op in calls):
                return True
        return False

    def reason_against(self, first: Group, second: Group) -> str | None:
        """Why two groups, of which `first` comes first, cannot be one; None if they can."""
        if len(first.parts) + len(second.parts) > MAX_PARTS:
            return f"a nest would have more than {MAX_PARTS} parts"
        if any(has_scan(part) for part in (*first.parts, *second.parts)):
            return "a running fold needs the order of its own loop"
        if bool(first.outs) != bool(second.outs):
            return "what only checks must be over before anything is stored"
        if any(out in first.results for out in second.outs):
            return "it stores into the result"
        if set(first.outs) & set(second.outs):
            return "both store into a copy of one tensor"
        at = self.place(first, second)
        if at is None:
            return "something between needs the one and makes what the other needs"
        if self.breaks_order(first, second, at):
            return "what is overwritten would be read at once or later"
        if at is first and self.passes_check(first, second):
            return "a position from data would be used before it is checked"
        return None

    def passes_check(self, first: Group, second: Group) -> bool:
        """Whether a group would move up past checks, although it goes where data says."""
        if not any(has_indirection(part) for part in second.parts):
            return False
        between = self.order[self.index(first) + 1 : self.index(second)]
        return any(not group.outs for group in between)

    # --- policy ---
    def is_small(self, group: Group) -> bool:
        moved = sum(group.loads.values()) + sum(map(self.traffic.tensor_bytes, group.results))
        return moved <= self.launch_bytes

    def saved(self, first: Group, second: Group, merged: Group) -> int:
        """The bytes that need not be loaded again."""
        before = sum(first.loads.values()) + sum(second.loads.values())
        return before - sum(merged.loads.values())

    def wasteful(self, first: Group, merged: Group) -> bool:
        """Whether a matrix product of one part would be made again for the points of another."""
        made = {n for part in first.parts for n in part.nodes() if as_contraction(n) is not None}
        places = Counter(node for part in merged.parts for node in part.nodes() if node in made)
        before = Counter(node for part in first.parts for node in part.nodes() if node in made)
        return any(places[node] > before[node] for node in made)

    # --- merging ---
    def try_merge(self, first: Group, second: Group, small: bool) -> Group | None:
        """The merged group, if there can be one and anything is saved."""
        why_not = self.reason_against(first, second)
        merged = None
        if why_not is None:
            merged = merge(first, second, self.scalars, self.traffic)
            why_not = self.reason_against_merged(first, second, merged, small)
        if merged is None or why_not is not None:
            LOG.debug("not fused %s with %s: %s", second.name, first.name, why_not)
            return None
        saved = self.saved(first, second, merged) + self.launch_bytes
        LOG.debug("fused %s with %s: saves %s bytes", second.name, first.name, f"{saved:,}")
        at = self.place(first, second)
        assert at is not None
        other = second if at is first else first
        merged.ops, merged.position = [*at.ops, *other.ops], at.position
        for old in (first, second):
            self.remove(old)
            self.changed.pop(old, None)
        self.add(merged)
        self.changed[merged] = None
        return merged

    def reason_against_merged(
        self, first: Group, second: Group, merged: Group, small: bool
    ) -> str | None:
        if any(load.source in first.results for load in merged.loads):
            return "it reads the result elsewhere than where it stores its own"
        if self.wasteful(first, merged):
            return "a matrix product would be made for each point of another part"
        if small and (self.is_small(first) or self.is_small(second)):
            return None
        in_common = first.sources().keys() & second.sources().keys()
        if not in_common and self.saved(first, second, merged) <= 0:
            return "they load nothing in common"
        return None

    def candidates(self, group: Group, small: bool) -> list[Group]:
        """Groups before this one that it may have something in common with, those with most bytes
        first, and then the nearest."""
        if small:
            at = self.index(group)
            return self.order[max(0, at - NEIGHBOURS) : at][::-1]
        common = Counter[Group]()
        for tensor, loads in group.sources().items():
            size = max(group.loads[load] for load in loads)
            if tensor in self.maker:
                common[self.maker[tensor]] += size
            before = [g for g in self.readers[tensor] if g.position < group.position]
            for other in sorted(before, key=lambda g: -g.position)[:READERS]:
                common[other] += size
        return sorted(common, key=lambda g: (-common[g], -g.position))

    def merge_with_any(self, group: Group, small: bool) -> Group | None:
        """What a group becomes with the first candidate that it can be merged with."""
        for other in self.candidates(group, small):
            merged = self.try_merge(other, group, small)
            if merged is not None:
                return merged
        return None

    def run(self) -> None:
        for small in (False, True):
            for group in list(self.order):
                current = group if group in self.alive else None
                while current is not None:
                    current = self.merge_with_any(current, small)
        self.rewrite()

    # --- the operations ---
    def drop_dead(self, group: Group) -> None:
        """Forgets results that nobody needs now that their values are."""
        dead = {
            i
            for i, result in enumerate(group.results)
            if isinstance(group.outs[i].owner, lpu_loop.EmptyOp) and not any(self.uses(result))
        }
        kept = [i for i in range(len(group.results)) if i not in dead]
        group.outs = [group.outs[i] for i in kept]
        group.results = [group.results[i] for i in kept]
        parts: list[Nest] = []
        for part in group.parts:
            stores = tuple(
                replace(s, out=kept.index(s.out)) for s in part.stores if s.out not in dead
            )
            if stores or part.checks:
                parts.append(replace(part, stores=stores))
        group.parts = parts

    def rewrite(self) -> None:
        replaced: list[tuple[SSAValue, SSAValue]] = []
        for group in self.changed:
            self.drop_dead(group)
            new = self.write(group)
            replaced += zip(group.results, new.outputs, strict=True)
        for old, new in replaced:
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        for op in [op for group in self.changed for op in group.ops]:
            op.detach()
            op.drop_all_references()

    def write(self, group: Group) -> NestOp:
        """Puts the nest of a group, and the empty tensors that it needs, in its place."""
        place = InsertPoint.before(group.ops[0])
        for out in group.outs:
            if isinstance(out.owner, lpu_loop.EmptyOp):
                out.owner.detach()
                Rewriter.insert_op(out.owner, place)
        new = write_parts(tidy(group, self.scalars), group.outs)
        new.location = group.ops[0].location
        Rewriter.insert_op(new, place)
        return new


def merge_block(function: func.FuncOp, launch_bytes: int) -> None:
    hints = {s.symbol.data: s.hint.data for s in symbols(function)}
    scalars = Scalars(dict(symbol_ranges(function)))
    Merging(function.body.block, scalars, Traffic(hints), launch_bytes).run()


@dataclass(frozen=True)
class MergeNestsPass(ModulePass):
    """Merges nests of `lpu_loop` that load the same, or of which one reads the other's result in
    step, into nests with several results.

    Before:
    ```mlir
    %1 = lpu_loop.nest [d0 = 8, d1 = 4] outs(%e : tensor<8x4xf32>) {
      %x = lpu_loop.load %a[d0] : tensor<8xf32>
      %y = lpu_loop.load %b[d1] : tensor<4xf32>
      %z = arith.mulf %x, %y : f32
      lpu_loop.store "replace" %z, %e[d0, d1] : f32, tensor<8x4xf32>
    } -> tensor<8x4xf32>
    %2 = lpu_loop.nest [d0 = 8] outs(%f : tensor<8xf32>) {
      %x = lpu_loop.load %a[d0] : tensor<8xf32>
      %y = arith.negf %x : f32
      lpu_loop.store "replace" %y, %f[d0] : f32, tensor<8xf32>
    } -> tensor<8xf32>
    ```
    After:
    ```mlir
    %1, %2 = lpu_loop.nest [d0 = 8] outs(%e, %f : tensor<8x4xf32>, tensor<8xf32>) {
      %x = lpu_loop.load %a[d0] : tensor<8xf32>
      %w = arith.negf %x : f32
      lpu_loop.store "replace" %w, %f[d0] : f32, tensor<8xf32>
      lpu_loop.over [d1 = 4] {
        %y = lpu_loop.load %b[d1] : tensor<4xf32>
        %z = arith.mulf %x, %y : f32
        lpu_loop.store "replace" %z, %e[d0, d1] : f32, tensor<8x4xf32>
      }
    } -> tensor<8x4xf32>, tensor<8xf32>
    ```
    """

    name = "merge-nests"

    launch_bytes: int = 65536
    """What one more kernel costs, in bytes moved."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, func.FuncOp) and function.body.blocks:
                merge_block(function, self.launch_bytes)
