"""
Moves what depends on frozen arguments alone out of @main, into a function that runs once.

Legality says which values only frozen arguments and numbers determine; policy which of them to keep
rather than compute at every call; mechanics makes the function.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import is_side_effect_free

from lpu_mlir.dialects.lpu import (
    FREEZE,
    FROZEN,
    IntsAttr,
    element_bytes,
    element_type,
    type_bytes,
)
from lpu_mlir.dialects.lpu_graph import (
    ArgReduceOp,
    BroadcastOp,
    ConvertOp,
    ConvOp,
    GatherOp,
    GraphOp,
    MatmulOp,
    PointwiseOp,
    ReduceOp,
    ReshapeOp,
    ScanOp,
    ScatterOp,
    SliceOp,
    TransposeOp,
    WindowsOp,
)
from lpu_mlir.transforms.fuse import MAX_RECOMPUTATIONS
from lpu_mlir.transforms.outline import own_signature, symbol_names

VIEWS = (BroadcastOp, ReshapeOp, SliceOp, TransposeOp, WindowsOp)
"""Operations that cost a reader nothing: they become part of its index expressions."""

FOLDS = (ArgReduceOp, ConvOp, MatmulOp, ReduceOp, ScanOp, ScatterOp)
"""Operations that look at many elements for one: a call would compute them into memory."""

CHEAP = frozenset(
    "abs neg sign not maximum minimum add sub mul floordiv remainder fmod copysign truncdiv "
    "shl shr and or xor eq ne lt le gt ge select fma floor ceil round trunc".split()
)
"""Pointwise functions that may be evaluated again by any number of readers."""


# --- legality -----------------------------------------------------------------------------------


def is_frozen_argument(attrs: DictionaryAttr, type: Attribute) -> bool:
    return FROZEN in attrs.data and not symbol_names(type)


def can_move(op: Operation) -> bool:
    """Whether an operation gives the same for the same operands at every call: host calls may not,
    and extents may differ from call to call."""
    if not isinstance(op, GraphOp) or op.regions or not is_side_effect_free(op):
        return False
    attributes = (*op.result_types, *op.properties.values())
    return not any(map(symbol_names, attributes))


# --- policy -------------------------------------------------------------------------------------


def size_of(value: SSAValue) -> int:
    """Bytes of a value without symbols in its type."""
    size = type_bytes(value.type).constant()
    assert size is not None
    return size


@dataclass(frozen=True)
class Cost:
    """What a call does to compute a value from its arguments."""

    reads: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """Argument -> how many of its bytes are read."""
    expensive: bool = False
    """Whether each element takes a transcendental function."""

    @property
    def total(self) -> int:
        return sum(self.reads.values())

    def of_part(self, part: SSAValue) -> Cost:
        """When only a part of the elements is looked at."""
        count = size_of(part) // element_bytes(element_type(part.type))
        reads = {
            a: min(n, count * element_bytes(element_type(a.type))) for a, n in self.reads.items()
        }
        return Cost(reads, self.expensive)

    @staticmethod
    def of_all(costs: Sequence[Cost], expensive: bool) -> Cost:
        reads: dict[SSAValue, int] = {}
        for cost in costs:
            for argument, size in cost.reads.items():
                reads[argument] = max(size, reads.get(argument, 0))
        return Cost(reads, expensive or any(cost.expensive for cost in costs))


def cost_of(op: Operation, costs: Sequence[Cost]) -> Cost:
    """The cost of an operation's results, from those of its operands."""
    if isinstance(op, SliceOp):
        return costs[0].of_part(op.output)
    if isinstance(op, GatherOp):
        position = list(op.operands).index(op.input)
        table = costs[position].of_part(op.output)
        return Cost.of_all([table, *costs[:position], *costs[position + 1 :]], False)
    cost = Cost.of_all(costs, isinstance(op, PointwiseOp) and op.kind.data not in CHEAP)
    return Cost(cost.reads) if isinstance(op, FOLDS) else cost


def widens(op: Operation) -> bool:
    """Whether an operation gives the same elements a wider type."""
    if not isinstance(op, ConvertOp):
        return False
    before, after = (element_bytes(element_type(v.type)) for v in (op.input, op.output))
    return before < after


def reason_against(op: Operation, costs: Sequence[Cost], readers: int) -> str | None:
    """Why it does not pay to keep an operation's results for so many readers; None if it does."""
    cost = cost_of(op, costs)
    if not cost.reads:
        return "a number"
    if isinstance(op, VIEWS) or widens(op):
        return "a view, or a wider type, costs its readers nothing"
    if isinstance(op, GatherOp) and cost.total <= size_of(op.output):
        return "the rows would be read either way"
    if isinstance(op, FOLDS) or (cost.expensive and readers > MAX_RECOMPUTATIONS):
        return None
    size = sum(map(size_of, op.results))
    if size > cost.total:
        return f"to read {size} bytes takes longer than to compute them from {cost.total}"
    return None


class Hoisting:
    """What to move out of a function of one block."""

    def __init__(self, function: FuncOp):
        self.block = function.body.block
        attrs = function.arg_attrs.data if function.arg_attrs is not None else ()
        self.costs: dict[SSAValue, Cost] = {
            argument: Cost({argument: size_of(argument)})
            for argument, attr in zip(self.block.args, attrs)
            if is_frozen_argument(attr, argument.type)
        }
        """The values that only frozen arguments and numbers determine."""
        self.same: dict[SSAValue, SSAValue] = {}
        """Those that are computed again, as layers do, each for itself -> the first of the kind."""
        self.kept: list[Operation] = []
        """Operations whose results are kept between calls, in program order."""
        if self.costs:
            self.find()
            self.choose()

    def first(self, value: SSAValue) -> SSAValue:
        return self.same.get(value, value)

    def find(self) -> None:
        known: dict[Hashable, Operation] = {}
        for op in self.block.ops:
            if not can_move(op) or any(v not in self.costs for v in op.operands):
                continue
            cost = cost_of(op, [self.costs[v] for v in op.operands])
            self.costs.update(dict.fromkeys(op.results, cost))
            first = known.setdefault((own_signature(op), tuple(map(self.first, op.operands))), op)
            if first is not op:
                self.same.update(zip(op.results, first.results, strict=True))

    def choose(self) -> None:
        """From the last operation on: what is not kept stays, and needs its operands."""
        readers: dict[SSAValue, int] = {}
        for op in reversed(self.block.ops):
            if any(result in self.same for result in op.results):
                continue  # its readers count for the first of the kind
            here = sum(readers.get(result, 0) for result in op.results)
            if op.results and all(result in self.costs for result in op.results):
                if here == 0:
                    continue  # at most a part of what is kept
                if reason_against(op, [self.costs[v] for v in op.operands], here) is None:
                    self.kept.insert(0, op)
                    continue
            count = max(1, here) if isinstance(op, (*VIEWS, ConvertOp)) else 1
            for operand in map(self.first, op.operands):
                readers[operand] = readers.get(operand, 0) + count

    def sources(self) -> list[Operation]:
        """The operations that what is kept is computed by, in program order."""
        needed: set[Operation] = set()
        pending = list(self.kept)
        while pending:
            op = pending.pop()
            if op not in needed:
                needed.add(op)
                pending += [v.owner for v in op.operands if isinstance(v.owner, Operation)]
        return [op for op in self.block.ops if op in needed]


# --- mechanics ----------------------------------------------------------------------------------


def make_function(main: FuncOp, hoisting: Hoisting) -> FuncOp:
    """The function that computes what is kept, from those of @main's arguments that it needs."""
    sources = hoisting.sources()
    used = {v for op in sources for v in op.operands if isinstance(v, BlockArgument)}
    arguments = [argument for argument in main.body.block.args if argument in used]
    block = Block(arg_types=[argument.type for argument in arguments])
    values: dict[SSAValue, SSAValue] = dict(zip(arguments, block.args, strict=True))
    for old, new in values.items():
        new.name_hint = old.name_hint
    for op in sources:
        block.add_op(op.clone(values))
    results = [values[result] for op in hoisting.kept for result in op.results]
    block.add_op(ReturnOp(*results))
    positions = [argument.index for argument in arguments]
    types = (block.arg_types, [result.type for result in results])
    attrs = main.arg_attrs
    assert attrs is not None
    kept_attrs = ArrayAttr([_without_mark(attrs.data[position]) for position in positions])
    function = FuncOp(FREEZE, types, Region(block), arg_attrs=kept_attrs)
    function.attributes[FROZEN] = IntsAttr.of(positions)
    return function


def _without_mark(attrs: DictionaryAttr) -> DictionaryAttr:
    return DictionaryAttr({name: attr for name, attr in attrs.data.items() if name != FROZEN})


def take_as_arguments(main: FuncOp, hoisting: Hoisting) -> None:
    """Makes further arguments of what is kept, and erases what nobody needs any more."""
    block, attrs = main.body.block, main.arg_attrs
    assert attrs is not None
    added: dict[SSAValue, SSAValue] = {}
    for value in (result for op in hoisting.kept for result in op.results):
        added[value] = block.insert_arg(value.type, len(block.args))
        added[value].name_hint = value.name_hint
    for value in hoisting.costs:
        if (first := hoisting.first(value)) in added:
            value.replace_all_uses_with(added[first])
    for op in reversed(list(block.ops)):
        if op.results and all(r in hoisting.costs and not r.uses for r in op.results):
            block.erase_op(op)
    main.function_type = FunctionType.from_lists(block.arg_types, main.function_type.outputs.data)
    main.arg_attrs = ArrayAttr([*attrs.data, *[DictionaryAttr({})] * len(added)])


@dataclass(frozen=True)
class HoistFrozenPass(ModulePass):
    """
    Moves what depends on frozen arguments alone out of @main, where that pays.

    Arguments with the attribute ``lpu.frozen`` have the same elements at every call, until the
    runtime sees that they have not. What is computed from them and from numbers becomes a result of
    the function @freeze, and a further argument of @main. ``lpu.frozen`` of @freeze says which of
    @main's arguments it takes. A value is kept if it has no more bytes than a call would read to
    compute it, if a sum or a product gives it, or if several operations read it and each element
    takes a transcendental function. Views stay with their readers; host calls and what has symbols
    stay where they are. Before:
    ```mlir
    func.func @main(%x: tensor<8x4xf32>, %var: tensor<4xf32> {lpu.frozen}) -> tensor<8x4xf32> {
      %0 = lpu_graph.pointwise "rsqrt"(%var) : tensor<4xf32> -> tensor<4xf32>
      %1 = lpu_graph.pointwise "mul"(%x, %0) : tensor<8x4xf32>, tensor<4xf32> -> tensor<8x4xf32>
      func.return %1 : tensor<8x4xf32>
    }
    ```
    After:
    ```mlir
    func.func @main(%x: tensor<8x4xf32>, %var: tensor<4xf32> {lpu.frozen}, %0: tensor<4xf32>)
        -> tensor<8x4xf32> {
      %1 = lpu_graph.pointwise "mul"(%x, %0) : tensor<8x4xf32>, tensor<4xf32> -> tensor<8x4xf32>
      func.return %1 : tensor<8x4xf32>
    }
    func.func @freeze(%var: tensor<4xf32>) -> tensor<4xf32>
        attributes {lpu.frozen = #lpu.ints<[1]>} {
      %0 = lpu_graph.pointwise "rsqrt"(%var) : tensor<4xf32> -> tensor<4xf32>
      func.return %0 : tensor<4xf32>
    }
    ```
    """

    name = "hoist-frozen"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in list(op.ops):
            if not isinstance(function, FuncOp) or function.sym_name.data != "main":
                continue
            hoisting = Hoisting(function)
            if hoisting.kept:
                freeze = make_function(function, hoisting)
                take_as_arguments(function, hoisting)
                op.body.block.insert_op_after(freeze, function)
