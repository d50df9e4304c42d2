"""
Moves checks before everything that may be left half done, where a program changes its arguments.

A check that fails ends the program after its launch, and what was written to an argument by then
stays written.  So what is checked comes first, and `bufferize` writes no argument as a whole before
the last of what may still fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from lpu_mlir.dialects.expr import nonnegative
from lpu_mlir.dialects.lpu import HostCallOp, bound_late, symbol_ranges
from lpu_mlir.dialects.lpu_loop import CheckOp, Dim, EmptyOp, FoldOp, LoadOp, NestOp, WriteBackOp
from lpu_mlir.nests.nest import Nest, read, write
from lpu_mlir.nests.scalar import Node, Scalars
from lpu_mlir.transforms.outline import symbol_names

# --- legality -----------------------------------------------------------------------------------


def has_checks(op: Operation) -> bool:
    return isinstance(op, NestOp) and any(isinstance(i, CheckOp) for i in op.body.block.ops)


def is_pure(op: Operation) -> bool:
    """Whether an operation makes tensors of tensors and does nothing else, so that it can stand
    wherever it has these."""
    if isinstance(op, NestOp):
        return not has_checks(op) and all(isinstance(out.owner, EmptyOp) for out in op.outs)
    return isinstance(op, EmptyOp)


def sources(op: Operation) -> Iterator[SSAValue]:
    """The tensors that an operation takes, with those that are read inside of a nest."""
    yield from op.operands
    if isinstance(op, NestOp):
        yield from (inner.target for inner in op.body.walk() if isinstance(inner, LoadOp))


def made_by(value: SSAValue) -> Operation:
    assert isinstance(value.owner, Operation)
    return value.owner


def symbols_of(op: Operation) -> frozenset[str]:
    """The symbols that the extents and positions of an operation depend on."""
    inside = list(op.walk())
    properties = [attr for inner in inside for attr in inner.properties.values()]
    types = [type for inner in inside for type in inner.result_types]
    return frozenset[str]().union(*map(symbol_names, (*properties, *types)))


# --- policy -------------------------------------------------------------------------------------


def is_cheap(op: Operation) -> bool:
    """Whether a caller may compute the same once more."""
    return is_pure(op) and not any(isinstance(inner, FoldOp) for inner in op.walk())


# --- mechanics ----------------------------------------------------------------------------------


Known: TypeAlias = set[tuple[tuple[Dim, ...], Node, str]]
"""The dims, condition and exception of checks."""


def split(op: NestOp, scalars: Scalars, known: Known) -> list[NestOp]:
    """The checks of a nest as a nest of their own, but for those that are known, and the rest."""
    nest = read(op, scalars)
    free = frozenset[str]().union(*(check.condition.free for check in nest.checks))
    # Where a dim may be empty, there may be nothing to check.
    dims = tuple(
        (name, extent)
        for name, extent in nest.dims
        if name in free or not nonnegative(extent - 1, scalars.ranges)
    )
    new = {(dims, check.condition, check.error): check for check in nest.checks}
    checks = tuple(check for key, check in new.items() if key not in known)
    known.update(new)
    made = [write(Nest(dims, (), checks), [])] if checks else []
    made += [write(Nest(nest.dims, nest.stores), list(op.outs))] if nest.stores else []
    for one in made:
        one.location = op.location
    return made


TELLERS = (HostCallOp, func.CallOp)
"""Operations that may determine the values of symbols."""


@dataclass
class Function:
    """One function, in which each check moves up as far as it can."""

    block: Block
    scalars: Scalars
    callees: Mapping[str, Function]
    leaves_to_callers: bool
    preconditions: list[NestOp] = field(default_factory=list[NestOp])
    """The checks that callers are to make, and nests for what they are computed by before them."""

    def __post_init__(self) -> None:
        calls = [op for op in self.block.ops if isinstance(op, func.CallOp)]
        called = [self.callees[call.callee.string_value()] for call in calls]
        self.late = bound_late(self.block).union(*(callee.late for callee in called))
        """Symbols that are known only when the function has run for a while."""
        self.take_over(zip(calls, called, strict=True))
        known: Known = set()
        for op in [op for op in self.block.ops if isinstance(op, NestOp) and has_checks(op)]:
            made = split(op, self.scalars, known)
            self.block.insert_ops_before(made, op)
            for old, new in zip(op.results, made[-1].results if made else (), strict=True):
                new.name_hint = old.name_hint
                old.replace_all_uses_with(new)
            self.block.erase_op(op)
        self.move_up()

    def take_over(self, calls: Iterable[tuple[func.CallOp, Function]]) -> None:
        """Puts what functions that are called leave to their callers before the calls; each nest
        once, if several calls pass the same."""
        known: dict[tuple[NestOp, tuple[SSAValue, ...]], NestOp] = {}
        for call, callee in calls:
            values = dict[SSAValue, SSAValue](zip(callee.block.args, call.arguments, strict=True))
            for nest in callee.preconditions:
                given = tuple(values.get(v, v) for v in sources(nest))
                if (nest, given) not in known:
                    empties = [op.clone(values) for op in map(made_by, nest.outs)]
                    known[nest, given] = nest.clone(values)
                    self.block.insert_ops_before([*empties, known[nest, given]], call)
                values.update(zip(nest.results, known[nest, given].results, strict=True))

    # --- moving ---
    def move_up(self) -> None:
        """Puts each check, and what it is computed by, behind the last thing that both need; or
        leaves it to the callers, if they can compute what it needs."""
        self.position = {op: i for i, op in enumerate(self.block.ops)}
        place = {op: (i, 0, 0) for op, i in self.position.items()}
        left: set[Operation] = set()
        for check in [op for op in self.block.ops if has_checks(op)]:
            ops, barrier = self.slice(check)
            if barrier < 0 and self.leaves_to_callers and all(map(is_cheap, ops[:-1])):
                left.update(ops)
                continue
            for op in ops:
                if self.position[op] > barrier:
                    place[op] = min(place[op], (barrier, 1, self.position[op]))
        self.preconditions = [op for op in self.block.ops if op in left and isinstance(op, NestOp)]
        for op in sorted(self.block.ops, key=place.__getitem__):
            op.detach()
            if not (op in left and has_checks(op)):
                self.block.add_op(op)

    def forget(self) -> None:
        """Drops the checks that callers have taken over."""
        for op in self.preconditions:
            if op.parent is None:
                op.drop_all_references()

    def slice(self, check: Operation) -> tuple[list[Operation], int]:
        """What a nest of checks is computed by, the nest last, and the position of what they cannot
        pass; -1 if there is nothing."""
        barrier, found = -1, {check}
        pending = [check]
        while pending:
            op = pending.pop()
            barrier = max(barrier, self.told_at(op))
            for owner in [v.owner for v in sources(op) if isinstance(v.owner, Operation)]:
                if not is_pure(owner):
                    barrier = max(barrier, self.position[owner])
                elif owner not in found:
                    found.add(owner)
                    pending.append(owner)
        return sorted(found, key=self.position.__getitem__), barrier

    def told_at(self, op: Operation) -> int:
        """The position behind which all symbols of an operation are known; -1 for the start."""
        if not symbols_of(op) & self.late:
            return -1
        here = self.position[op]
        tellers = (i for t, i in self.position.items() if isinstance(t, TELLERS) and i < here)
        return max(tellers, default=-1)


@dataclass(frozen=True)
class HoistChecksPass(ModulePass):
    """
    Moves the checks of nests to nests of their own, each as early as it can be, out of called
    functions too; but not out of the branches and bodies of control flow.  A module in which
    nothing is written back stays as it is.

    Before:
    ```mlir
    func.func @f(%x: tensor<8xf32>, %i: tensor<4xi64>, %counter: tensor<i64>) -> tensor<4xf32> {
      …
      lpu_loop.write_back %next, %counter : tensor<i64>, tensor<i64>
      %y = lpu_loop.nest [d0 = 4] outs(%e : tensor<4xf32>) {
        %0 = lpu_loop.load %i[d0] : tensor<4xi64>
        %ok = …
        lpu_loop.check %ok, "IndexError", "index out of range"
        %1 = lpu_loop.load %x[_0](%0) : tensor<8xf32>
        lpu_loop.store "replace" %1, %e[d0] : f32, tensor<4xf32>
      } -> tensor<4xf32>
      func.return %y : tensor<4xf32>
    }
    ```
    After:
    ```mlir
    func.func @f(%x: tensor<8xf32>, %i: tensor<4xi64>, %counter: tensor<i64>) -> tensor<4xf32> {
      lpu_loop.nest [d0 = 4] outs() {
        %0 = lpu_loop.load %i[d0] : tensor<4xi64>
        %ok = …
        lpu_loop.check %ok, "IndexError", "index out of range"
      }
      …
      lpu_loop.write_back %next, %counter : tensor<i64>, tensor<i64>
      %y = lpu_loop.nest [d0 = 4] outs(%e : tensor<4xf32>) {
        %0 = lpu_loop.load %i[d0] : tensor<4xi64>
        %1 = lpu_loop.load %x[_0](%0) : tensor<8xf32>
        lpu_loop.store "replace" %1, %e[d0] : f32, tensor<4xf32>
      } -> tensor<4xf32>
      func.return %y : tensor<4xf32>
    }
    ```
    """

    name = "hoist-checks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = {f.sym_name.data: f for f in op.ops if isinstance(f, func.FuncOp)}
        inside = [op for f in functions.values() for block in f.body.blocks for op in block.ops]
        if not any(isinstance(op, WriteBackOp) for op in inside):
            return
        called = {op.callee.string_value() for op in inside if isinstance(op, func.CallOp)}
        done: dict[str, Function] = {}

        def do(name: str) -> None:
            """One function, after all that it calls."""
            function = functions[name]
            if name in done or not function.body.blocks:
                return
            for op in function.body.block.ops:
                if isinstance(op, func.CallOp):
                    do(op.callee.string_value())
            scalars = Scalars(dict(symbol_ranges(function)))
            done[name] = Function(function.body.block, scalars, done, name in called)

        for name in functions:
            do(name)
        for function in done.values():
            function.forget()
