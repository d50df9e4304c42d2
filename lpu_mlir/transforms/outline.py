"""
Makes equal parts of a flat function, such as decoder layers, calls of one function.

The operations of a function are a sequence of signatures (everything about an operation but which
values it takes); a repetition in the program is a stretch of that sequence which equals itself a
period later. Constants are left out of the sequence and cloned to where they are used: a function
needs no parameter for a number, and it does not matter where the importer has put it.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import (
    Attribute,
    Block,
    BlockArgument,
    Operation,
    OpResult,
    ParametrizedAttribute,
    Region,
    SSAValue,
)
from xdsl.passes import ModulePass
from xdsl.traits import is_side_effect_free

from lpu_mlir.dialects.lpu import SYMBOLS, DimsAttr, ExprAttr, ShapeAttr, symbols
from lpu_mlir.dialects.lpu_graph import (
    BroadcastOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
    WriteBackOp,
)
from lpu_mlir.memo import MEMO

_VIEWS = (BroadcastOp, ReshapeOp, SliceOp, TransposeOp)

# --- what a function consists of ----------------------------------------------------------------


class FlatFunction:
    """A function of one block, as a sequence in which repetition can be found."""

    func: FuncOp
    block: Block
    ops: list[Operation]
    """In program order, without constants, write-backs and the terminator."""
    constants: dict[Operation, Hashable]
    """With their signatures."""
    write_backs: list[WriteBackOp]
    signatures: NDArray[np.int64]
    """One number for each of ``ops``; equal numbers mean equal but for the operands."""

    def __init__(self, func: FuncOp):
        self.func = func
        self.block = func.body.block
        self.ops, self.constants, self.write_backs = [], {}, []
        for op in self.block.ops:
            if isinstance(op, WriteBackOp):
                self.write_backs.append(op)
            elif _is_constant(op):
                self.constants[op] = own_signature(op)
            elif op.next_op is not None:
                self.ops.append(op)
        numbers: dict[Hashable, int] = {}
        self.signatures = np.array(
            [numbers.setdefault(self._signature(op), len(numbers)) for op in self.ops], np.int64
        )
        self._positions = {op: position for position, op in enumerate(self.ops)}

    def _signature(self, op: Operation) -> Hashable:
        # What is inside a region is not compared: an operation with regions equals only itself.
        if op.regions:
            return op
        operands = tuple(
            v.type if (c := self.constant_of(v)) is None else self.constants[c] for v in op.operands
        )
        return (own_signature(op), operands)

    def constant_of(self, value: SSAValue) -> Operation | None:
        """The constant that defines the value, if one does."""
        if isinstance(value, OpResult) and value.op in self.constants:
            return value.op
        return None

    def position(self, user: Operation) -> int:
        """Index in ``ops`` of the operation or of the one it is in; the end for write-backs and
        the terminator, which read their operands last."""
        outer = user
        while outer.parent is not self.block:
            parent = outer.parent_op()
            assert parent is not None, "a user outside of the function"
            outer = parent
        return self._positions.get(outer, len(self.ops))

    def crossing(self) -> NDArray[np.int64]:
        """For each index, and for the end, how many results of earlier operations are still used
        there or later."""
        end = len(self.ops)
        change = np.zeros(end + 2, np.int64)
        for index, op in enumerate(self.ops):
            for result in op.results:
                users = (
                    u.operation for u in result.uses if not isinstance(u.operation, WriteBackOp)
                )
                last = max(map(self.position, users), default=index)
                change[index + 1] += 1
                change[last + 1] -= 1
        return np.cumsum(change)[: end + 1]


def _is_constant(op: Operation) -> bool:
    return not op.operands and not op.regions and bool(op.results) and is_side_effect_free(op)


def own_signature(op: Operation) -> Hashable:
    """Equal for operations that are equal but for their operands; what is in regions left out."""
    return (
        op.name,
        frozenset(op.properties.items()),
        frozenset(op.attributes.items()),
        op.result_types,
    )


# --- where it repeats ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """``length`` operations from ``start`` on, each equal to the one ``period`` later, if any."""

    start: int
    length: int
    period: int

    @property
    def count(self) -> int:
        return self.length // self.period

    @property
    def saved(self) -> int:
        """How many operations fewer there are when all repetitions share one function."""
        return (self.count - 1) * self.period


def find_run(signatures: NDArray[np.int64], min_ops: int) -> Run | None:
    """The run of at least two repetitions of at least ``min_ops`` operations that saves most."""
    total, best = len(signatures), None
    for period in range(min_ops, total // 2 + 1):
        if best is not None and total - period <= best.saved:
            break
        differs = np.flatnonzero(signatures[:-period] != signatures[period:])
        edges = np.concatenate(([-1], differs, [total - period]))
        longest = int(np.argmax(np.diff(edges)))
        start, stop = int(edges[longest]) + 1, int(edges[longest + 1])
        run = Run(start, stop - start + period, period)
        if run.count >= 2 and (best is None or run.saved > best.saved):
            best = run
    return best


def find_windows(function: FlatFunction, min_ops: int) -> Iterator[range]:
    """Disjoint ranges of the function's operations that are equal but for their operands to at
    least one other."""
    crossing = function.crossing()
    pending = [range(len(function.ops))]
    while pending:
        part = pending.pop()
        run = find_run(function.signatures[part.start : part.stop], min_ops)
        if run is None:
            continue
        # What is left beside whole repetitions is freedom where to cut: few values shall cross.
        begin, covered = part.start + run.start, run.count * run.period
        shifts = range(run.length - covered + 1)
        cuts = [crossing[begin + s : begin + s + covered + 1 : run.period].sum() for s in shifts]
        begin += int(np.argmin(cuts))
        yield from (range(i, i + run.period) for i in range(begin, begin + covered, run.period))
        pending += [range(part.start, begin), range(begin + covered, part.stop)]


# --- one repetition -----------------------------------------------------------------------------


class Repetition:
    """A window of a function's operations as the body of a function to be."""

    ops: list[Operation]
    parameters: list[SSAValue]
    """Values from outside, in the order of their first use."""
    results: list[SSAValue]
    """Values used outside."""
    write_backs: list[WriteBackOp]
    """Those that may become the function's own."""
    key: Hashable
    """Equal for repetitions that can share a function."""

    def __init__(self, function: FlatFunction, window: range):
        self.ops = function.ops[window.start : window.stop]
        made: list[SSAValue] = [result for op in self.ops for result in op.results]
        defined = {value: n for n, value in enumerate(made)}
        parameters: dict[SSAValue, int] = {}

        def reference(value: SSAValue) -> tuple[str, int] | None:
            if function.constant_of(value) is not None:
                return None  # Part of the signature.
            if value in defined:
                return ("inside", defined[value])
            return ("parameter", parameters.setdefault(value, len(parameters)))

        dataflow = [tuple(map(reference, op.operands)) for op in self.ops]
        self.write_backs = sorted(
            (
                write_back
                for write_back in function.write_backs
                if write_back.value in defined and _can_sink(function, write_back, window)
            ),
            key=lambda write_back: defined[write_back.value],
        )
        writes = [(defined[w.value], reference(w.target)) for w in self.write_backs]
        inside = {*self.ops, *self.write_backs}
        self.parameters = list(parameters)
        self.results = [v for v in made if any(u.operation not in inside for u in v.uses)]
        self.key = (
            tuple(function.signatures[window.start : window.stop].tolist()),
            tuple(dataflow),
            tuple(defined[v] for v in self.results),
            tuple(writes),
        )


def _can_sink(function: FlatFunction, write_back: WriteBackOp, window: range) -> bool:
    """
    Whether the write may happen at the end of the window instead of the end of the function: every
    other read of the argument must come before the window or be in it.
    """
    target = write_back.target
    if not isinstance(target, BlockArgument) or target.owner is not function.block:
        return False
    pending: list[SSAValue] = [target]
    while pending:
        for use in pending.pop().uses:
            user = use.operation
            if user is not write_back and function.position(user) >= window.stop:
                return False
            # A view may share the argument's buffer, so reading it later is no different.
            if isinstance(user, _VIEWS):
                pending.append(user.output)
    return True


# --- rewriting ----------------------------------------------------------------------------------


@lru_cache(MEMO)
def symbol_names(attribute: Attribute) -> frozenset[str]:
    """The names of all symbols in an attribute or type."""
    match attribute:
        case ExprAttr():
            return attribute.data.names()
        case ShapeAttr():
            return frozenset[str]().union(*(expr.names() for expr in attribute.data))
        case DimsAttr():
            return frozenset[str]().union(*(extent.names() for _, extent in attribute.data))
        case ArrayAttr():
            parts = attribute.data
        case DictionaryAttr():
            parts = tuple(attribute.data.values())
        case ParametrizedAttribute():
            parts = attribute.parameters
        case _:
            return frozenset()
    return frozenset[str]().union(*map(symbol_names, parts))


def make_function(name: str, function: FlatFunction, repetition: Repetition) -> FuncOp:
    """A private function that does what the repetition does."""
    block = Block(arg_types=[value.type for value in repetition.parameters])
    values: dict[SSAValue, SSAValue] = dict(zip(repetition.parameters, block.args, strict=True))
    for op in repetition.ops:
        for operand in op.operands:
            constant = function.constant_of(operand)
            if constant is not None and operand not in values:
                block.add_op(constant.clone(values))
        block.add_op(op.clone(values))
    for write_back in repetition.write_backs:
        block.add_op(write_back.clone(values))
    block.add_op(ReturnOp(*(values[result] for result in repetition.results)))

    types = (block.arg_types, [result.type for result in repetition.results])
    outlined = FuncOp(name, types, Region(block), "private")
    used = _used_symbols(block)
    if declared := [s for s in symbols(function.func) if s.symbol.data in used]:
        outlined.attributes[SYMBOLS] = ArrayAttr(declared)
    return outlined


def _used_symbols(block: Block) -> set[str]:
    attributes: set[Attribute] = set(block.arg_types)
    for op in block.ops:
        attributes.update(op.result_types, op.properties.values(), op.attributes.values())
    return set[str]().union(*map(symbol_names, attributes))


def replace_by_call(
    name: str,
    function: FlatFunction,
    repetition: Repetition,
    replaced: dict[SSAValue, SSAValue],
) -> None:
    """
    Put a call of the function ``name`` in the place of the repetition. ``replaced`` maps results of
    repetitions that are gone to those of their calls.
    """
    arguments = [replaced.get(value, value) for value in repetition.parameters]
    call = CallOp(name, arguments, [result.type for result in repetition.results])
    function.block.insert_op_before(call, repetition.ops[0])
    for old, new in zip(repetition.results, call.results, strict=True):
        old.replace_all_uses_with(new)
        replaced[old] = new
    for op in (*repetition.write_backs, *reversed(repetition.ops)):
        function.block.erase_op(op)


def outline(func: FuncOp, names: Iterator[str], min_ops: int) -> list[FuncOp]:
    """
    Outline what repeats in ``func``, a function of one block; returns the new functions, named by
    ``names``. A repetition has at least ``min_ops`` operations, constants not counted.
    """
    function = FlatFunction(func)
    groups: dict[Hashable, list[Repetition]] = {}
    for window in find_windows(function, min_ops):
        repetition = Repetition(function, window)
        groups.setdefault(repetition.key, []).append(repetition)
    # Repetitions of a run may differ in their dataflow; one that is like no other stays.
    shared = [group for group in groups.values() if len(group) > 1]
    outlined = [make_function(next(names), function, group[0]) for group in shared]
    replaced: dict[SSAValue, SSAValue] = {}
    for new, group in zip(outlined, shared, strict=True):
        for repetition in group:
            replace_by_call(new.sym_name.data, function, repetition, replaced)
    for constant in function.constants:
        if not any(result.uses for result in constant.results):
            function.block.erase_op(constant)
    return outlined


@dataclass(frozen=True)
class OutlinePass(ModulePass):
    """
    Makes equal parts of a function calls of one private function.

    Values from outside become parameters, values used outside become results, constants are cloned
    into the function, and so are the symbols it needs. A write-back moves along with the value it
    writes, unless the old value of the argument is read later. Operations with regions stay where
    they are. Before:
    ```mlir
    func.func @main(%x: tensor<4xf32>, %a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
      %0 = lpu_graph.pointwise "add"(%x, %a) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
      %1 = lpu_graph.pointwise "exp"(%0) : tensor<4xf32> -> tensor<4xf32>
      %2 = lpu_graph.pointwise "add"(%1, %b) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
      %3 = lpu_graph.pointwise "exp"(%2) : tensor<4xf32> -> tensor<4xf32>
      lpu_graph.write_back %0, %a : tensor<4xf32>, tensor<4xf32>
      lpu_graph.write_back %2, %b : tensor<4xf32>, tensor<4xf32>
      func.return %3 : tensor<4xf32>
    }
    ```
    After ``outline{min-ops=2}``:
    ```mlir
    func.func @main(%x: tensor<4xf32>, %a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
      %0 = func.call @layer(%x, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %1 = func.call @layer(%0, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      func.return %1 : tensor<4xf32>
    }
    func.func private @layer(%0: tensor<4xf32>, %1: tensor<4xf32>) -> tensor<4xf32> {
      %2 = lpu_graph.pointwise "add"(%0, %1) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
      %3 = lpu_graph.pointwise "exp"(%2) : tensor<4xf32> -> tensor<4xf32>
      lpu_graph.write_back %2, %1 : tensor<4xf32>, tensor<4xf32>
      func.return %3 : tensor<4xf32>
    }
    ```
    """

    name = "outline"

    min_ops: int = 16
    """Fewer operations than this are not worth a function, across which nothing fuses."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = [f for f in op.ops if isinstance(f, FuncOp) and len(f.body.blocks) == 1]
        symbols_ = (o.get_attr_or_prop("sym_name") for o in op.ops)
        taken = {symbol.data for symbol in symbols_ if isinstance(symbol, StringAttr)}
        names = (name for name in _candidate_names() if name not in taken)
        for function in functions:
            if outlined := outline(function, names, self.min_ops):
                op.body.block.insert_ops_after(outlined, function)


def _candidate_names() -> Iterator[str]:
    yield "layer"
    yield from (f"layer_{n}" for n in count(1))
