"""Tensors become memrefs; nests, already destination-passing, get their destinations chosen.

Results become arguments that the caller provides.  A nest writes in place when nobody reads the old
value afterwards; a value that is written back to an argument is computed in the argument's buffer
when every read of the old value comes before, and all that may fail, else it is copied there at
the end: who called what fails finds its arguments as they were.  Only slices that nests store into
an argument are stored where they are made, or caches would have to be copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from lpu_mlir.dialects import lpu_loop
from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu import (
    COMPUTED,
    HostCallOp,
    IfOp,
    IntsAttr,
    ShapeAttr,
    WhileOp,
    bound_late,
    element_type,
    extents,
    i1,
    memref_type,
    tensor_type,
)
from lpu_mlir.dialects.lpu_host import AllocOp, CopyOp
from lpu_mlir.dialects.lpu_loop import Dim, LoadOp, NestOp, StoreOp, WriteBackOp
from lpu_mlir.nests.nest import Nest, Store, write
from lpu_mlir.nests.order import Order, fallible, number_of, root
from lpu_mlir.nests.scalar import Scalars

CALLS = (func.CallOp, IfOp, WhileOp)
"""Operations that are given the buffers of their results."""
STRIDES = "lpu.strides"
RETURNED = "lpu.returned"
"""Attribute of a function on memrefs: which results it returns; the others are arguments."""


def reads(nest: NestOp) -> set[SSAValue]:
    return {op.target for op in nest.body.walk() if isinstance(op, LoadOp)}


def is_fresh(tensor: SSAValue) -> bool:
    return isinstance(tensor.owner, lpu_loop.EmptyOp)


def is_final(result: SSAValue) -> bool:
    """Whether a value is needed at the end of its function only."""
    return all(isinstance(use.operation, WriteBackOp | func.ReturnOp) for use in result.uses)


def chain_end(value: SSAValue) -> SSAValue:
    """What the last nest makes of `value`, each nest storing into the result of the one before."""
    while True:
        nests = [use for use in value.uses if isinstance(use.operation, NestOp)]
        if len(nests) != 1:
            return value
        value = nests[0].operation.results[nests[0].index]


# --- what callers must know ---------------------------------------------------------------------


@dataclass(frozen=True)
class Contract:
    """How a function, still on tensors, will treat its arguments and results."""

    writes: tuple[int, ...]
    """Arguments whose buffers it changes."""
    whole: frozenset[int]
    """Those of them into which it does not only store slices."""
    kept: tuple[int, ...]
    """Results that it returns, for no caller can provide a destination: host calls made them, or
    determine their extents."""
    arguments: tuple[Attribute, ...]
    """The types of its arguments as memrefs."""

    @staticmethod
    def of(function: func.FuncOp) -> Contract:
        block = function.body.block
        arg_attrs = _dictionaries(function.arg_attrs, len(block.args))
        arguments = tuple(
            _memref(a.type, attr.get(STRIDES))
            for a, attr in zip(block.args, arg_attrs, strict=True)
        )
        written = {op.target: op.value for op in block.ops if isinstance(op, WriteBackOp)}
        writes = tuple(i for i, argument in enumerate(block.args) if argument in written)
        whole = frozenset(i for i in writes if root(written[block.args[i]]) is not block.args[i])
        returned = block.last_op.operands if block.last_op is not None else ()
        attrs = _dictionaries(function.res_attrs, len(returned))
        late = bound_late(block)
        kept = tuple(
            i
            for i, (value, attr) in enumerate(zip(returned, attrs, strict=True))
            if (isinstance(value.owner, HostCallOp) and STRIDES not in attr)
            or any(extent.names() & late for extent in extents(value.type))
        )
        return Contract(writes, whole, kept, arguments)


# --- the rewrite --------------------------------------------------------------------------------


class Bufferization:
    """Rebuilds one function on memrefs."""

    def __init__(
        self, function: func.FuncOp, contracts: Mapping[str, Contract], failing: AbstractSet[str]
    ):
        self.function, self.contracts, self.failing = function, contracts, failing
        self.kept = contracts[function.sym_name.data].kept
        self.old = function.body.block
        last = self.old.last_op
        if not isinstance(last, func.ReturnOp):
            message = "a function to bufferize must end in func.return"
            function.emit_error(message, PassFailedException(message))
        self.returned = list(self.old.last_op.operands) if self.old.last_op else []
        self.written = {op.target: op.value for op in self.old.ops if isinstance(op, WriteBackOp)}
        """Argument -> the value that its buffer must hold at the end."""
        self.block = Block(arg_types=self.argument_types())
        self.buffers: dict[SSAValue, SSAValue] = {}
        destinations = iter(self.block.args[len(self.old.args) :])
        self.destinations = {
            position: next(destinations)
            for position in range(len(self.returned))
            if position not in self.kept
        }
        """Position of a result -> the argument that it goes to."""
        for old, new in zip(self.old.args, self.block.args, strict=False):
            new.name_hint = old.name_hint
            self.buffers[old] = new
        self.aside: dict[SSAValue, SSAValue] = {}
        """Argument -> the buffer that holds it while something may still fail."""
        self.copies: list[tuple[SSAValue, SSAValue]] = []
        """(value, argument) pairs to copy at the end."""

    def argument_types(self) -> list[Attribute]:
        values = [*self.old.args, *self.returned]
        attrs = [
            *_dictionaries(self.function.arg_attrs, len(self.old.args)),
            *_dictionaries(self.function.res_attrs, len(self.returned)),
        ]
        types = [_memref(v.type, a.get(STRIDES)) for v, a in zip(values, attrs, strict=True)]
        kept = {len(self.old.args) + position for position in self.kept}
        return [type for position, type in enumerate(types) if position not in kept]

    # --- choosing destinations ---
    def sink_written(self) -> None:
        """Moves a nest whose results are only needed at the end, for an argument that holds one of
        them then, behind the argument's reads."""
        moved: set[SSAValue] = set()
        seen: set[NestOp] = set()
        for value in self.written.values():
            nest = value.owner
            if not isinstance(nest, NestOp) or nest in seen:
                continue
            seen.add(nest)
            if not all(is_fresh(out) for out in nest.outs) or reads(nest) & moved:
                continue
            if all(is_final(result) for result in nest.outputs):
                nest.detach()
                assert self.old.last_op is not None
                self.old.insert_op_before(nest, self.old.last_op)
                moved |= {target for target, v in self.written.items() if v.owner is nest}

    def choose(self) -> None:
        """Chooses the buffer of every value that has to be in a given one."""
        self.order = Order(self.old, self.failing)
        for target, value in self.written.items():
            if not self.place(value, self.buffers[target], target):
                self.copies.append((value, target))
        for position, buffer in self.destinations.items():
            self.place(self.returned[position], buffer, None)
        attrs = _dictionaries(self.function.res_attrs, len(self.returned))
        self.layouts = {
            self.chain_start(value): _memref(value.type, attr.get(STRIDES))
            for value, attr in zip(self.returned, attrs, strict=True)
        }
        """Values that are to be returned -> the types of their buffers."""

    def overwrites(self, tensor: SSAValue, result: SSAValue) -> bool:
        """Whether a nest makes `result` in the buffer of `tensor`, its operand in outs."""
        if isinstance(tensor.owner, Block) and self.written.get(tensor) is not chain_end(tensor):
            return False
        return self.order.is_free(tensor, result)

    def chain_start(self, value: SSAValue) -> SSAValue:
        """The value whose buffer a chain of nests, each in place, makes into that of `value`."""
        while isinstance(value.owner, NestOp):
            out = value.owner.operands[number_of(value)]
            if is_fresh(out) or not self.overwrites(out, value):
                break
            value = out
        return value

    def place(self, value: SSAValue, buffer: SSAValue, holds: SSAValue | None) -> bool:
        """Lets `value` be computed in `buffer`, which holds an argument's old value, if any."""
        first = self.chain_start(value)
        if first is holds:
            return True
        calls = isinstance(first.owner, CALLS)
        if first in self.buffers or not (calls or isinstance(first.owner, NestOp)):
            return False
        if calls and buffer.type != _memref(first.type, None):
            return False  # functions other than @main give dense results
        if holds is not None and not self.order.is_free(holds, first):
            return False
        if holds is not None and not self.order.is_safe(first.owner):
            return False
        self.buffers[first] = buffer
        return True

    # --- rebuilding ---
    def run(self) -> None:
        self.sink_written()
        self.choose()
        for op in list(self.old.ops):
            self.rebuild(op)
        function = self.function
        old = function.detach_region(function.body)
        function.add_region(Region(self.block))
        old.drop_all_references()
        types = [arg.type for arg in self.block.args]
        results = [self.buffers[self.returned[position]].type for position in self.kept]
        function.function_type = FunctionType.from_lists(types, results)
        if self.kept:
            function.attributes[RETURNED] = IntsAttr.of(self.kept)
        function.arg_attrs = None
        function.res_attrs = None

    def rebuild(self, op: Operation) -> None:
        match op:
            case lpu_loop.EmptyOp() | WriteBackOp():
                pass
            case NestOp():
                self.rebuild_nest(op)
            case func.CallOp():
                self.rebuild_call(op)
            case IfOp():
                self.rebuild_if(op)
            case WhileOp():
                self.rebuild_while(op)
            case HostCallOp():
                self.rebuild_host_call(op)
            case func.ReturnOp():
                self.finish()
            case _:
                message = f"'{op.name}' cannot be bufferized"
                op.emit_error(message, PassFailedException(message))

    def rebuild_host_call(self, op: HostCallOp) -> None:
        """Host calls keep their results: PyTorch gives them storage."""
        new = HostCallOp.create(
            operands=[self.buffers[i] for i in op.operands],
            result_types=[_memref(r.type, None) for r in op.results],
            properties=dict(op.properties),
            attributes=dict(op.attributes),
        )
        new.location = op.location
        self.block.add_op(new)
        self.buffers.update(zip(op.results, new.results, strict=True))

    def alloc(self, type: Attribute, layout: Attribute | None = None) -> SSAValue:
        op = AllocOp(_memref(type, None) if layout is None else layout)
        self.block.add_op(op)
        return op.output

    def destination(self, out: SSAValue, result: SSAValue) -> SSAValue:
        """The buffer that a nest stores into, holding the old elements it does not store."""
        if not is_fresh(out) and self.overwrites(out, result):
            return self.buffers[out]
        buffer = self.buffers.get(result)
        if buffer is None:
            buffer = self.alloc(out.type, self.layouts.get(result))
        if not is_fresh(out):
            self.copy(self.buffers[out], buffer)
        return buffer

    def rebuild_nest(self, nest: NestOp) -> None:
        if len(nest.outputs) != len(nest.outs):
            message = "the nest is on memrefs already"
            nest.emit_error(message, PassFailedException(message))
        outs = [
            self.destination(out, result)
            for out, result in zip(nest.outs, nest.outputs, strict=True)
        ]
        targets = dict(zip(nest.outs, outs, strict=True))
        body = nest.detach_region(nest.body)
        for inner in body.walk():
            if isinstance(inner, LoadOp):
                inner.operands[0] = self.buffers[inner.target]
            elif isinstance(inner, StoreOp):
                inner.operands[1] = targets[inner.target]
        new = NestOp(nest.dims.data, outs, body, [])
        new.location = nest.location
        self.block.add_op(new)
        self.buffers.update(zip(nest.outputs, outs, strict=True))

    def rebuild_call(self, call: func.CallOp) -> None:
        contract = self.contracts[call.callee.string_value()]
        given = [self.buffers[a] for a in call.arguments]
        operands = self.laid_out(given, contract.arguments)
        for position in contract.writes:
            argument = call.arguments[position]
            if position in contract.whole and not self.order.is_safe(call):
                operands[position] = self.set_aside(argument, operands[position])
            else:
                self.keep(argument, call)
        kept = [call.results[position] for position in contract.kept]
        for result in call.results:
            if result in kept:
                continue
            operands.append(self.provided(result))
        new = func.CallOp(call.callee, operands, [_memref(r.type, None) for r in kept])
        self.buffers.update(zip(kept, new.results, strict=True))
        new.location = call.location
        self.block.add_op(new)
        for position in contract.writes:
            if call.arguments[position] in self.aside or operands[position] is given[position]:
                continue
            self.copy(operands[position], given[position])

    def rebuild_if(self, op: IfOp) -> None:
        contract = self.contracts[op.then_function.string_value()]
        operands = self.laid_out([self.buffers[a] for a in op.arguments], contract.arguments)
        operands += [self.provided(result) for result in op.outputs]
        then, other = op.then_function.string_value(), op.else_function.string_value()
        self.add_at(op, IfOp(self.buffers[op.flag], then, other, operands, []))

    def rebuild_while(self, op: WhileOp) -> None:
        """The loop changes buffers of its own, into which its first values are copied."""
        contract = self.contracts[op.body.string_value()]
        carried: list[SSAValue] = []
        for value, result in zip(op.carried, op.outputs, strict=True):
            carried.append(self.provided(result))
            self.copy(self.buffers[value], carried[-1])
        given = [self.buffers[value] for value in op.captured]
        captured = self.laid_out(given, contract.arguments[len(carried) :])
        into = self.alloc(tensor_type(i1, ()))
        condition, body = op.condition.string_value(), op.body.string_value()
        self.add_at(op, WhileOp(condition, body, carried, captured, into))

    def provided(self, result: SSAValue) -> SSAValue:
        """The buffer that a call is given for a result."""
        if result not in self.buffers:
            self.buffers[result] = self.alloc(result.type)
        return self.buffers[result]

    def add_at(self, old: Operation, new: Operation) -> None:
        new.location = old.location
        self.block.add_op(new)

    def laid_out(self, buffers: Sequence[SSAValue], types: Sequence[Attribute]) -> list[SSAValue]:
        return [self.as_layout(b, t) for b, t in zip(buffers, types, strict=True)]

    def as_layout(self, buffer: SSAValue, type: Attribute) -> SSAValue:
        """The buffer, or a copy of it in the layout of `type`."""
        if buffer.type == type:
            return buffer
        copied = self.alloc(type, type)
        self.copy(buffer, copied)
        return copied

    def keep(self, tensor: SSAValue, call: func.CallOp) -> None:
        """Copies a tensor whose buffer the call is about to change, if its value is read later."""
        here = self.order.position[call]
        if all(self.order.position[op] <= here for op in self.order.readers(tensor, call)):
            return
        kept = self.alloc(tensor.type)
        self.copy(self.buffers[tensor], kept)
        self.buffers[tensor] = kept

    def set_aside(self, argument: SSAValue, buffer: SSAValue) -> SSAValue:
        """A buffer that a call may change instead of an argument's, while something may fail."""
        aside = self.aside[argument] = self.alloc(argument.type, buffer.type)
        self.copy(buffer, aside)
        return aside

    def finish(self) -> None:
        """Copies what could not be computed in place: results first, for they mean old values."""
        for position, buffer in self.destinations.items():
            value = self.returned[position]
            if self.buffers[value] is not buffer:
                self.copy(self.buffers[value], buffer)
        held = {value: self.buffers[value] for value, _ in self.copies}
        for value in held:
            if value in self.written:  # an argument that is overwritten itself
                held[value] = self.alloc(value.type)
                self.copy(self.buffers[value], held[value])
        for value, target in self.copies:
            self.copy(held[value], self.buffers[target])
        for argument, aside in self.aside.items():
            self.copy(aside, self.buffers[argument])
        self.block.add_op(func.ReturnOp(*(self.buffers[self.returned[p]] for p in self.kept)))

    def copy(self, source: SSAValue, target: SSAValue) -> None:
        if element_type(target.type) not in COMPUTED:
            self.block.add_op(CopyOp(source, target))
            return
        scalars = Scalars()
        dims: list[Dim] = []
        point: list[Expr] = []
        for extent in extents(target.type):
            if extent == 1:
                point.append(Expr.const(0))
            else:
                name = f"d{len(dims)}"
                dims.append((name, extent))
                point.append(Expr.name(name))
        store = Store("replace", 0, tuple(point), (), scalars.load(source, point))
        self.block.add_op(write(Nest(tuple(dims), (store,)), [target]))


def _dictionaries(
    attrs: ArrayAttr[DictionaryAttr] | None, count: int
) -> list[Mapping[str, Attribute]]:
    return [{}] * count if attrs is None else [attr.data for attr in attrs]


def _memref(type: Attribute, strides: Attribute | None) -> Attribute:
    steps = strides.data if isinstance(strides, ShapeAttr) else None
    return memref_type(element_type(type), extents(type), steps)


@dataclass(frozen=True)
class BufferizePass(ModulePass):
    """Turns the tensors of `lpu_loop` into memrefs.

    Before:
    ```mlir
    func.func @f(%x: tensor<4xf32>, %counter: tensor<i64>) -> tensor<4xf32> {
      %e = lpu_loop.empty : tensor<4xf32>
      %y = lpu_loop.nest [d0 = 4] outs(%e : tensor<4xf32>) { … } -> tensor<4xf32>
      func.return %y : tensor<4xf32>
    }
    ```
    After:
    ```mlir
    func.func @f(%x: memref<4xf32, "shared_dram">, …, %0: memref<4xf32, "shared_dram">) {
      lpu_loop.nest [d0 = 4] outs(%0 : memref<4xf32, "shared_dram">) { … }
      func.return
    }
    ```
    """

    name = "bufferize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = [f for f in op.ops if isinstance(f, func.FuncOp) and f.body.blocks]
        adopt_layouts(functions)
        contracts = {f.sym_name.data: Contract.of(f) for f in functions}
        failing = fallible(functions)
        for function in functions:
            Bufferization(function, contracts, failing).run()
        check_bufferized(op)


def adopt_layouts(functions: Sequence[func.FuncOp]) -> None:
    """Gives a called function's arguments the strides that all its callers pass them with."""
    strides: dict[SSAValue, Attribute | None] = {}
    passed: dict[tuple[str, int], set[Attribute | None]] = {}
    for function in functions:
        attrs = _dictionaries(function.arg_attrs, len(function.body.block.args))
        for argument, attr in zip(function.body.block.args, attrs, strict=True):
            strides[argument] = attr.get(STRIDES)
        for op in function.body.block.ops:
            if isinstance(op, func.CallOp):
                for position, operand in enumerate(op.arguments):
                    key = (op.callee.string_value(), position)
                    passed.setdefault(key, set()).add(strides.get(operand))
    for function in functions:
        name, count = function.sym_name.data, len(function.body.block.args)
        if (name, 0) not in passed:
            continue
        agreed = [next(iter(s)) if len(s := passed[name, i]) == 1 else None for i in range(count)]
        entries = [DictionaryAttr({} if a is None else {STRIDES: a}) for a in agreed]
        function.arg_attrs = ArrayAttr(entries)


def check_bufferized(module: ModuleOp) -> None:
    """Fails if an operation still has a tensor."""
    for op in module.walk():
        if any(isinstance(value.type, TensorType) for value in (*op.operands, *op.results)):
            message = f"'{op.name}' still has tensors after bufferize"
            op.emit_error(message, PassFailedException(message))
