"""A lowered module interpreted: the host program as closures over torch tensors.

Nothing here changes while a program runs but the frames, one for each call of each function, so any
number of threads may run one program at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from lpu_mlir.dialects import lpu_host
from lpu_mlir.dialects.lpu import (
    FREEZE,
    FROZEN,
    HostCallOp,
    IfOp,
    WhileOp,
    element_bytes,
    element_type,
    extents,
    offset,
    strides,
)
from lpu_mlir.dialects.lpu_kernel import KernelOp
from lpu_mlir.interpreter.reference import CompiledKernel, InterpreterParams, LaunchStats, Memory
from lpu_mlir.interpreter.reference.scalar import DTYPES
from lpu_mlir.logs import logger
from lpu_mlir.runtime.describe.host_call import describe_host_call
from lpu_mlir.runtime.describe.layout import layout_of
from lpu_mlir.runtime.describe.program import positions
from lpu_mlir.runtime.layout import Layout
from lpu_mlir.runtime.numbers import Symbols, number, numbers
from lpu_mlir.runtime.profile import profiled
from lpu_mlir.runtime.stats import LAUNCHED, KernelUse, RunStats
from lpu_mlir.transforms.bufferize import RETURNED

KERNELS, HOST = logger("kernels"), logger("host")


@dataclass
class Run:
    """What the frames of one run share."""

    symbols: Symbols
    memory: Memory
    stats: RunStats

    def inside(self) -> Run:
        """That of a branch, or of a loop's body once: they may bind symbols anew."""
        return replace(self, symbols=dict(self.symbols))


@dataclass
class Frame:
    """One call of one function: a tensor for each of its values."""

    run: Run
    values: list[Any]


Step: TypeAlias = Callable[[Frame], None]


@dataclass
class Function:
    """A function as steps over numbered values."""

    slots: int
    steps: list[Step]
    returned: list[int]

    def call(self, run: Run, arguments: Sequence[Tensor]) -> list[Tensor]:
        """Runs the function; gives the tensors that it returns."""
        frame = Frame(run, [*arguments, *[None] * (self.slots - len(arguments))])
        arena = run.stats.arena_bytes
        for step in self.steps:
            step(frame)
        run.stats.arena_bytes = arena
        return [frame.values[slot] for slot in self.returned]


class Launchable(Protocol):
    """A kernel that can be launched as `CompiledKernel` can."""

    name: str

    def launch(
        self, args: Sequence[Tensor | int], memory: Memory, params: InterpreterParams
    ) -> LaunchStats: ...


class Program:
    """All functions of a module that has been lowered to kernels, which are interpreted: a
    `Runnable`.
    """

    def __init__(
        self,
        module: ModuleOp,
        params: InterpreterParams,
        make_kernel: Callable[[KernelOp], Launchable] = CompiledKernel,
    ):
        self.params = params
        ops = list(module.ops)
        self.kernels = {op.sym_name.data: make_kernel(op) for op in ops if isinstance(op, KernelOp)}
        self.functions: dict[str, Function] = {}
        self.returned: tuple[int, ...] = ()
        self.frozen: tuple[int, ...] = ()
        self.kept: tuple[Layout, ...] = ()
        for op in ops:
            if isinstance(op, func.FuncOp):
                name = op.sym_name.data
                self.functions[name] = _Builder(self, op).build()
                if name == "main":
                    self.returned = positions(op, RETURNED)
                elif name == FREEZE:
                    self.frozen = positions(op, FROZEN)
                    made = op.function_type.inputs.data[len(self.frozen) :]
                    self.kept = tuple(map(layout_of, made))

    def empty(self, sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> Tensor:
        return torch.empty_strided(sizes, strides, dtype=dtype, device="cpu")

    def execute(
        self,
        arguments: Sequence[Tensor],
        destinations: Sequence[Tensor],
        symbols: Symbols,
        stats: RunStats | None,
        entry: str = "main",
    ) -> list[Tensor]:
        """Runs @main, or @freeze, on destinations whose bytes nobody has written.

        RuntimeError if one of them is left out.
        """
        memory, stats, start = Memory(), stats or RunStats(), perf_counter()
        with torch.no_grad():
            for tensor in destinations:
                memory.poison(tensor)
            returned = self.run([*arguments, *destinations], symbols, memory, stats, entry)
        check_written(destinations, memory)
        stats.seconds = perf_counter() - start
        return returned

    def run(
        self,
        arguments: Sequence[Tensor],
        symbols: Symbols,
        memory: Memory,
        stats: RunStats,
        entry: str = "main",
    ) -> list[Tensor]:
        """Runs a function on all its arguments."""
        return self.functions[entry].call(Run(symbols, memory, stats), arguments)


def check_written(results: Sequence[Tensor], memory: Memory) -> None:
    """RuntimeError if a byte of a result was left out."""
    for position, result in enumerate(results):
        if not memory.is_written(result):
            raise RuntimeError(
                f"result {position} of the program was not written completely; "
                "this is a bug in lpu_mlir"
            )


@dataclass
class _Builder:
    """Turns one function into steps."""

    program: Program
    function: func.FuncOp
    slots: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])

    def slot(self, value: SSAValue) -> int:
        return self.slots.setdefault(value, len(self.slots))

    def build(self) -> Function:
        block = self.function.body.block
        for argument in block.args:
            self.slot(argument)
        steps = [step for op in block.ops if (step := STEPS[type(op)](self, op)) is not None]
        last = block.last_op
        returned = [self.slot(value) for value in last.operands] if last is not None else []
        return Function(len(self.slots), steps, returned)


def _arena(b: _Builder, op: lpu_host.ArenaOp) -> Step:
    peak, out = number(op.peak.data), b.slot(op.output)

    def step(frame: Frame) -> None:
        size = peak(frame.run.symbols)
        frame.values[out] = torch.empty(size, dtype=torch.uint8, device="cpu")
        stats = frame.run.stats
        stats.arena_bytes += size
        stats.peak_bytes = max(stats.peak_bytes, stats.arena_bytes)

    return step


def _alloc(b: _Builder, op: lpu_host.AllocOp) -> Step:
    out, type = b.slot(op.output), op.output.type
    dtype = DTYPES[element_type(type)]
    shape, steps = numbers(extents(type)), numbers(strides(type))

    def step(frame: Frame) -> None:
        symbols = frame.run.symbols
        tensor = torch.empty_strided(shape(symbols), steps(symbols), dtype=dtype, device="cpu")
        frame.run.memory.poison(tensor)
        frame.values[out] = tensor

    return step


def _carve(b: _Builder, op: lpu_host.CarveOp) -> Step:
    arena, out, start = b.slot(op.arena), b.slot(op.output), number(op.offset.data)
    type = op.output.type
    dtype, size = DTYPES[element_type(type)], element_bytes(element_type(type))
    shape, steps = numbers(extents(type)), numbers(strides(type))

    def step(frame: Frame) -> None:
        symbols = frame.run.symbols
        sizes = shape(symbols)
        begin = start(symbols)
        end = begin + size * _count(sizes)
        flat = frame.values[arena][begin:end].view(dtype)
        tensor = flat.as_strided(sizes, steps(symbols), flat.storage_offset())
        frame.run.memory.poison(tensor)
        frame.values[out] = tensor

    return step


def _count(sizes: Sequence[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def _view(b: _Builder, op: lpu_host.ViewOp) -> Step:
    source, out, type = b.slot(op.source), b.slot(op.output), op.output.type
    shape, steps = numbers(extents(type)), numbers(strides(type))
    shift = number(offset(type) - offset(op.source.type))

    def step(frame: Frame) -> None:
        symbols, base = frame.run.symbols, frame.values[source]
        sizes, strides_ = shape(symbols), steps(symbols)
        if base.numel() and 0 not in sizes:
            start = base.storage_offset() + shift(symbols)
            frame.values[out] = base.as_strided(sizes, strides_, start)
        else:  # it may start outside the storage; whoever gets the view does nothing with it
            frame.values[out] = base.new_empty_strided(sizes, strides_)

    return step


def _copy(b: _Builder, op: lpu_host.CopyOp) -> Step:
    source, target = b.slot(op.source), b.slot(op.target)

    def step(frame: Frame) -> None:
        into = frame.values[target]
        into.copy_(frame.values[source])
        frame.run.memory.mark_written(into)

    return step


@contextmanager
def plain_pytorch() -> Generator[None]:
    """What kernels are interpreted in: PyTorch on one thread, without dispatch modes.

    On tiles, waking other threads costs far more than the arithmetic, most of all on a busy
    machine.  A dispatch mode, such as the one that AOTAutograd enters for the first call of a graph
    to watch custom operators, would call Python for each operation on a tile.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch._C._DisableTorchDispatch():  # pyright: ignore[reportPrivateUsage]
            yield
    finally:
        torch.set_num_threads(before)


def _launch(b: _Builder, op: lpu_host.LaunchOp) -> Step:
    kernel = b.program.kernels[op.kernel.string_value()]
    name, params = kernel.name, b.program.params
    buffers, indices = [b.slot(v) for v in op.buffers], numbers(op.indices.data)

    def step(frame: Frame) -> None:
        run, start = frame.run, perf_counter()
        arguments = [frame.values[slot] for slot in buffers]
        with profiled(f"lpu_mlir::{name}", inside=False), plain_pytorch():
            moved = kernel.launch([*arguments, *indices(run.symbols)], run.memory, params)
        read, written = moved.dram_read, moved.dram_written
        run.stats.add_launch(name, KernelUse(1, read, written))
        if KERNELS.isEnabledFor(logging.DEBUG):
            seconds = perf_counter() - start
            KERNELS.debug(LAUNCHED, name, read, written, seconds)

    return step


def _call(b: _Builder, op: func.CallOp) -> Step:
    functions, callee = b.program.functions, op.callee.string_value()
    operands, results = [b.slot(v) for v in op.arguments], [b.slot(v) for v in op.results]

    def step(frame: Frame) -> None:
        given = [frame.values[slot] for slot in operands]
        returned = functions[callee].call(frame.run, given)
        for slot, tensor in zip(results, returned, strict=True):
            frame.values[slot] = tensor

    return step


def _if(b: _Builder, op: IfOp) -> Step:
    functions, flag = b.program.functions, b.slot(op.flag)
    then, otherwise = op.then_function.string_value(), op.else_function.string_value()
    arguments = [b.slot(v) for v in op.arguments]

    def step(frame: Frame) -> None:
        chosen = then if frame.values[flag].item() else otherwise
        given = [frame.values[slot] for slot in arguments]
        functions[chosen].call(frame.run.inside(), given)

    return step


def _while(b: _Builder, op: WhileOp) -> Step:
    assert op.into is not None
    functions, flag = b.program.functions, b.slot(op.into)
    condition, body = op.condition.string_value(), op.body.string_value()
    arguments = [b.slot(v) for v in (*op.carried, *op.captured)]

    def step(frame: Frame) -> None:
        given = [frame.values[slot] for slot in arguments]
        functions[condition].call(frame.run.inside(), [*given, frame.values[flag]])
        while frame.values[flag].item():
            functions[body].call(frame.run.inside(), given)
            functions[condition].call(frame.run.inside(), [*given, frame.values[flag]])

    return step


def _host_call(b: _Builder, op: HostCallOp) -> Step:
    call, name = describe_host_call(op).maker(), op.overload.data
    operands, results = [b.slot(v) for v in op.inputs], [b.slot(v) for v in op.outputs]

    def step(frame: Frame) -> None:
        HOST.debug(name)
        frame.run.stats.add_host_call()
        tensors = [frame.values[slot] for slot in operands]
        with profiled(f"lpu_mlir::host::{name}", inside=True):
            made = call(tensors, frame.run.symbols)
        for slot, tensor in zip(results, made, strict=True):
            frame.values[slot] = tensor

    return step


def _return(b: _Builder, op: func.ReturnOp) -> None:
    return None


STEPS: Mapping[type[Operation], Callable[[_Builder, Any], Step | None]] = {
    lpu_host.AllocOp: _alloc,
    lpu_host.ArenaOp: _arena,
    lpu_host.CarveOp: _carve,
    lpu_host.ViewOp: _view,
    lpu_host.CopyOp: _copy,
    lpu_host.LaunchOp: _launch,
    func.CallOp: _call,
    func.ReturnOp: _return,
    HostCallOp: _host_call,
    IfOp: _if,
    WhileOp: _while,
}
"""Operation of the host program -> the step that does it."""
