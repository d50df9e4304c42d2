"""The host program laid flat: calls of functions replaced by what they do, launches in runs.

What is left for a call of the compiled function is a short list of steps: runs of launches, each of
which one native call does, and between them what only PyTorch can do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from xdsl.dialects import func
from xdsl.dialects.builtin import SymbolRefAttr
from xdsl.ir import Operation, SSAValue

from lpu_mlir.dialects import lpu_host
from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu import (
    HostCallOp,
    IfOp,
    WhileOp,
    element_bytes,
    element_type,
    offset,
)
from lpu_mlir.dialects.lpu_kernel import KernelOp
from lpu_mlir.runtime.describe.layout import layout_of
from lpu_mlir.runtime.layout import Layout


@dataclass(eq=False)
class Root:
    """Memory that gets its address anew for each call of the program: an argument, an arena, a
    buffer by itself, what a host call gave.  Steps `first` to `last` use it."""

    layout: Layout
    first: int = 0
    last: int = -1


@dataclass(eq=False)
class Arena:
    """The intermediates of one call of a function, `depth` calls below the first one."""

    root: Root
    size: Expr
    """In bytes."""
    depth: int


@dataclass(eq=False)
class Object:
    """What does not overlap with any other object that is in use at the same time."""

    root: Root
    offset: Expr
    """In bytes, from the root's address."""


@dataclass(frozen=True)
class Buffer:
    """Elements of a layout, from byte `start` of an object on."""

    object: Object
    start: Expr
    layout: Layout

    def byte_range(self) -> tuple[int, int] | None:
        """The first byte and one past the last, from the object's start; None if not known."""
        low, layout = self.start.constant(), self.layout
        shape = [extent.constant() for extent in layout.shape]
        steps = [stride.constant() for stride in layout.strides]
        if low is None or None in shape or None in steps:
            return None
        if 0 in shape:
            return low, low
        last = sum((n - 1) * s for n, s in zip(shape, steps, strict=True) if n and s)
        return low, low + layout.dtype.itemsize * (last + 1)

    def may_overlap(self, other: Buffer) -> bool:
        if self.object is not other.object:
            return False
        ours, theirs = self.byte_range(), other.byte_range()
        if ours is None or theirs is None:
            return True
        return max(ours[0], theirs[0]) < min(ours[1], theirs[1])


@dataclass(frozen=True)
class Launch:
    """A kernel, the buffers and the indices that it gets."""

    kernel: str
    buffers: tuple[Buffer, ...]
    indices: tuple[Expr, ...]


@dataclass
class Run:
    """Launches with nothing between them; `arenas` are those that nothing else uses."""

    launches: list[Launch] = field(default_factory=list[Launch])
    arenas: list[Arena] = field(default_factory=list[Arena])


@dataclass(frozen=True)
class HostCall:
    """A PyTorch operator on buffers; `results` are the roots of what it gives."""

    op: HostCallOp
    operands: tuple[Buffer, ...]
    results: tuple[Root, ...]


@dataclass(frozen=True)
class Copy:
    """Elements that kernels cannot move."""

    source: Buffer
    target: Buffer


@dataclass(frozen=True)
class Own:
    """Memory of its own for a root, made in mid-course."""

    root: Root


@dataclass(frozen=True)
class If:
    """One of two lists of steps."""

    flag: Buffer
    then: list[Step]
    otherwise: list[Step]


@dataclass(frozen=True)
class While:
    """Steps that are repeated as long as others put a true element there."""

    flag: Buffer
    condition: list[Step]
    body: list[Step]


Step: TypeAlias = "Run | HostCall | Copy | Own | If | While"


def walk(steps: Sequence[Step]) -> Iterator[Step]:
    """The steps, and those inside of them."""
    for step in steps:
        yield step
        match step:
            case If():
                yield from walk([*step.then, *step.otherwise])
            case While():
                yield from walk([*step.condition, *step.body])
            case _:
                pass


@dataclass
class FlatProgram:
    """What one function does, with everything that it calls."""

    arguments: list[Root] = field(default_factory=list[Root])
    steps: list[Step] = field(default_factory=list[Step])
    arenas: list[Arena] = field(default_factory=list[Arena])
    """Those that are used by more than one step."""
    owned: list[Root] = field(default_factory=list[Root])
    """Buffers by themselves, which the program makes; those of branches and loops are steps."""
    returned: list[Buffer] = field(default_factory=list[Buffer])

    def made(self) -> Iterator[Root]:
        """The roots that are made while it runs, beside arenas."""
        yield from self.owned
        for step in walk(self.steps):
            match step:
                case Own():
                    yield step.root
                case HostCall():
                    yield from step.results
                case _:
                    pass

    def launches(self) -> Iterator[Launch]:
        for step in walk(self.steps):
            if isinstance(step, Run):
                yield from step.launches


def flatten(entry: func.FuncOp, functions: Mapping[str, func.FuncOp]) -> FlatProgram:
    """The program of a function that has been lowered to kernels."""
    flat = FlatProgram()
    buffers: dict[SSAValue, Buffer] = {}
    for value in entry.body.block.args:
        buffers[value] = _whole(value)
        flat.arguments.append(buffers[value].object.root)
    flattener = _Flattener(flat, functions)
    flat.returned = flattener.function(entry, buffers, 0)
    for buffer in flat.returned:
        flattener.touch(buffer, len(flat.steps))
    flattener.finish()
    return flat


def aliases(flat: FlatProgram, kernel: KernelOp) -> set[tuple[int, int]]:
    """Pairs of a kernel's buffers, the lower one first, that may share bytes in some launch and of
    which it writes at least one."""
    written = [word.data != "ro" for word in kernel.access]
    found: set[tuple[int, int]] = set()
    for launch in flat.launches():
        if launch.kernel != kernel.sym_name.data:
            continue
        for j, second in enumerate(launch.buffers):
            for i, first in enumerate(launch.buffers[:j]):
                if (written[i] or written[j]) and first.may_overlap(second):
                    found.add((i, j))
    return found


def _whole(value: SSAValue) -> Buffer:
    """A buffer that is a root by itself."""
    layout = layout_of(value.type)
    return Buffer(Object(Root(layout), Expr.const(0)), Expr.const(0), layout)


@dataclass
class _Flattener:
    """Walks the functions in the order in which they run."""

    flat: FlatProgram
    functions: Mapping[str, func.FuncOp]
    arenas: list[Arena] = field(default_factory=list[Arena])
    inside: list[Step] | None = None
    """The steps of a branch or loop that is being walked."""

    @property
    def steps(self) -> list[Step]:
        return self.flat.steps if self.inside is None else self.inside

    @property
    def here(self) -> int:
        """The number of the step that is being added; of a branch or loop, for all inside of it."""
        return len(self.flat.steps) - (self.inside is None)

    def function(
        self, function: func.FuncOp, buffers: dict[SSAValue, Buffer], depth: int
    ) -> list[Buffer]:
        """Adds what a function does, given the buffers of its arguments; what it returns."""
        arenas: dict[SSAValue, Arena] = {}
        for op in function.body.block.ops:
            match op:
                case lpu_host.ArenaOp():
                    arenas[op.output] = self.arena(op, depth)
                case lpu_host.CarveOp():
                    place = Object(arenas[op.arena].root, op.offset.data)
                    buffers[op.output] = Buffer(place, Expr.const(0), layout_of(op.output.type))
                case func.CallOp():
                    self.call(op, buffers, depth)
                case IfOp():
                    self.choose(op, buffers, depth)
                case WhileOp():
                    self.repeat(op, buffers, depth)
                case func.ReturnOp():
                    return [buffers[value] for value in op.operands]
                case _:
                    STEPS[type(op)](self, op, buffers)
        return []

    def call(self, op: func.CallOp, buffers: dict[SSAValue, Buffer], depth: int) -> None:
        returned = self.called(op.callee, op.arguments, buffers, depth)
        buffers.update(zip(op.results, returned, strict=True))

    def called(
        self,
        ref: SymbolRefAttr,
        arguments: Sequence[SSAValue],
        buffers: dict[SSAValue, Buffer],
        depth: int,
    ) -> list[Buffer]:
        """Adds what a function does, given these values; what it returns."""
        callee = self.functions[ref.string_value()]
        parameters = callee.body.block.args
        for value, parameter in zip(arguments, parameters, strict=True):
            if value.type != parameter.type:
                name = callee.sym_name.data
                raise ValueError(f"@{name} takes {parameter.type}, got {value.type}")
        given = [buffers[value] for value in arguments]
        before = len(self.arenas)
        returned = self.function(callee, dict(zip(parameters, given, strict=True)), depth + 1)
        gone = [arena.root for arena in self.arenas[before:]]
        assert all(buffer.object.root not in gone for buffer in returned)
        return returned

    def choose(self, op: IfOp, buffers: dict[SSAValue, Buffer], depth: int) -> None:
        refs = (op.then_function, op.else_function)
        then, otherwise = (self.nested(ref, op.arguments, buffers, depth) for ref in refs)
        flag = buffers[op.flag]
        self.add(If(flag, then, otherwise), [flag])

    def repeat(self, op: WhileOp, buffers: dict[SSAValue, Buffer], depth: int) -> None:
        assert op.into is not None
        given = (*op.carried, *op.captured)
        condition = self.nested(op.condition, (*given, op.into), buffers, depth)
        body = self.nested(op.body, given, buffers, depth)
        flag = buffers[op.into]
        self.add(While(flag, condition, body), [flag])

    def nested(
        self,
        ref: SymbolRefAttr,
        arguments: Sequence[SSAValue],
        buffers: dict[SSAValue, Buffer],
        depth: int,
    ) -> list[Step]:
        """The steps of a function that is called in a branch or loop."""
        outer, self.inside = self.inside, []
        returned = self.called(ref, arguments, buffers, depth)
        assert not returned, "a branch or loop writes to what it is given"
        steps, self.inside = self.inside, outer
        return steps

    def arena(self, op: lpu_host.ArenaOp, depth: int) -> Arena:
        arena = Arena(Root(layout_of(op.output.type)), op.peak.data, depth)
        self.arenas.append(arena)
        return arena

    # --- steps ---
    def add(self, step: Step, buffers: Sequence[Buffer]) -> None:
        self.steps.append(step)
        self.touch_all(buffers)

    def touch_all(self, buffers: Sequence[Buffer]) -> None:
        for buffer in buffers:
            self.touch(buffer, self.here)

    def touch(self, buffer: Buffer, step: int) -> None:
        """Notes that a step uses a buffer."""
        root = buffer.object.root
        root.first, root.last = (step if root.last < 0 else root.first), step

    def launch(self, op: lpu_host.LaunchOp, buffers: dict[SSAValue, Buffer]) -> None:
        given = tuple(buffers[value] for value in op.buffers)
        if not self.steps or not isinstance(self.steps[-1], Run):
            self.steps.append(Run())
        run = self.steps[-1]
        assert isinstance(run, Run)
        run.launches.append(Launch(op.kernel.string_value(), given, tuple(op.indices.data)))
        self.touch_all(given)

    def host_call(self, op: HostCallOp, buffers: dict[SSAValue, Buffer]) -> None:
        results = [_whole(value) for value in op.outputs]
        buffers.update(zip(op.outputs, results, strict=True))
        operands = tuple(buffers[value] for value in op.inputs)
        made = tuple(result.object.root for result in results)
        self.add(HostCall(op, operands, made), [*operands, *results])

    def copy(self, op: lpu_host.CopyOp, buffers: dict[SSAValue, Buffer]) -> None:
        source, target = buffers[op.source], buffers[op.target]
        self.add(Copy(source, target), [source, target])

    def alloc(self, op: lpu_host.AllocOp, buffers: dict[SSAValue, Buffer]) -> None:
        buffers[op.output] = _whole(op.output)
        root = buffers[op.output].object.root
        if self.inside is None:
            self.flat.owned.append(root)
        else:
            self.inside.append(Own(root))

    def view(self, op: lpu_host.ViewOp, buffers: dict[SSAValue, Buffer]) -> None:
        source, type = buffers[op.source], op.output.type
        moved = (offset(type) - offset(op.source.type)) * element_bytes(element_type(type))
        buffers[op.output] = Buffer(source.object, source.start + moved, layout_of(type))

    def finish(self) -> None:
        """Gives each arena to the run that alone uses it, if there is one."""
        for arena in self.arenas:
            root = arena.root
            step = self.flat.steps[root.first] if root.first == root.last else None
            if isinstance(step, Run):
                step.arenas.append(arena)
            elif root.last >= 0:
                self.flat.arenas.append(arena)


STEPS: Mapping[type[Operation], Callable[[_Flattener, Any, dict[SSAValue, Buffer]], None]] = {
    lpu_host.AllocOp: _Flattener.alloc,
    lpu_host.ViewOp: _Flattener.view,
    lpu_host.CopyOp: _Flattener.copy,
    lpu_host.LaunchOp: _Flattener.launch,
    HostCallOp: _Flattener.host_call,
}
"""Operation of the host program -> how it is laid flat."""
