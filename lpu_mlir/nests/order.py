"""In which order the operations of a block read and write tensors, and which of them may fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.ir import Block, Operation, OpResult, SSAValue

from lpu_mlir.dialects.lpu import HostCallOp, IfOp, WhileOp
from lpu_mlir.dialects.lpu_loop import CheckOp, LoadOp, NestOp, OverOp, StoreOp, WriteBackOp

# --- what may fail ------------------------------------------------------------------------------


def callees(op: Operation) -> tuple[str, ...]:
    """The functions that an operation calls."""
    match op:
        case func.CallOp():
            refs = (op.callee,)
        case IfOp():
            refs = (op.then_function, op.else_function)
        case WhileOp():
            refs = (op.condition, op.body)
        case _:
            refs = ()
    return tuple(ref.string_value() for ref in refs)


def fails_itself(op: Operation) -> bool:
    """Whether an operation may fail in what it does without calling functions."""
    if isinstance(op, NestOp):
        return any(isinstance(inner, CheckOp) for inner in op.body.walk())
    return isinstance(op, HostCallOp)


def fallible(functions: Sequence[func.FuncOp]) -> frozenset[str]:
    """The functions that may fail."""
    inside = {f.sym_name.data: list(f.body.block.ops) for f in functions}
    found = {name for name, ops in inside.items() if any(map(fails_itself, ops))}
    called = {name: {c for op in ops for c in callees(op)} for name, ops in inside.items()}
    while new := {name for name in called.keys() - found if called[name] & found}:
        found |= new
    return frozenset(found)


# --- the order of reads and writes --------------------------------------------------------------


def number_of(result: SSAValue) -> int:
    """Which result of its operation a value is."""
    assert isinstance(result, OpResult)
    return result.index


def root(value: SSAValue) -> SSAValue:
    """The tensor into whose elements nests store, one after the other, to make `value`."""
    while isinstance(value.owner, NestOp):
        value = value.owner.outs[number_of(value)]
    return value


def top_level(op: Operation, block: Block) -> Operation:
    """The operation of `block` that contains `op`."""
    while op.parent is not block:
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op


@dataclass
class Order:
    """Positions of a block's operations, and who reads a tensor when."""

    block: Block
    failing: AbstractSet[str]
    """Functions that may fail."""

    def __post_init__(self) -> None:
        self.position = {op: i for i, op in enumerate(self.block.ops)}
        # What is written back is needed at the end, wherever that is said.
        end = len(self.position)
        self.position |= {op: end for op in self.position if isinstance(op, WriteBackOp)}
        failures = [i for op, i in self.position.items() if self.may_fail(op)]
        self.last_failure = max(failures, default=-1)
        """The position of the last operation that may fail."""

    def readers(self, tensor: SSAValue, writer: Operation) -> Iterator[Operation]:
        """Operations that read the tensor's elements; a nest having it in outs reads nothing."""
        for use in tensor.uses:
            user = use.operation
            if isinstance(user, StoreOp) or (user is writer and isinstance(user, NestOp)):
                continue
            if isinstance(user, WriteBackOp) and use.index == 1:
                continue
            yield top_level(user, self.block)

    def may_fail(self, op: Operation) -> bool:
        return fails_itself(op) or any(name in self.failing for name in callees(op))

    def is_safe(self, writer: Operation | Block) -> bool:
        """Whether nothing may fail any more when an operation writes."""
        return isinstance(writer, Operation) and self.position[writer] > self.last_failure

    def is_free(self, tensor: SSAValue, result: SSAValue) -> bool:
        """Whether the operation that makes `result` may destroy the tensor with it: nobody reads
        it later, nor the operation itself elsewhere than at the element it stores."""
        writer = result.owner
        assert isinstance(writer, Operation)
        here = self.position[writer]
        last = max((self.position[op] for op in self.readers(tensor, writer)), default=-1)
        if last < here:
            return True
        if last > here or not isinstance(writer, NestOp):
            return False
        return reads_in_step(writer, tensor, writer.outs[number_of(result)])


def reads_in_step(nest: NestOp, tensor: SSAValue, out: SSAValue) -> bool:
    """Whether a nest reads `tensor` only at the element of `out` that it stores then."""
    inside = list(nest.body.walk())
    stores = [op for op in inside if isinstance(op, StoreOp) and op.target is out]
    for op in inside:
        if not isinstance(op, LoadOp) or op.target is not tensor:
            continue
        # A fold reads more than one element; another part runs on other cores.
        if op.indirect or any(op.parent is not store.parent for store in stores):
            return False
        if feeds_parts(op):
            return False
        if any(store.indirect or store.index != op.index for store in stores):
            return False
    return True


def feeds_parts(op: Operation) -> bool:
    """Whether a part inside of the block of `op` uses what comes of it."""
    block, pending, seen = op.parent, [op], {op}
    assert block is not None
    while pending:
        for use in [use for result in pending.pop().results for use in result.uses]:
            user = top_level(use.operation, block)
            if isinstance(user, OverOp):
                return True
            if user not in seen:
                seen.add(user)
                pending.append(user)
    return False
