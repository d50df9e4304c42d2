"""The host program: functions laid flat, as steps over numbered roots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import torch
from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from lpu_mlir.dialects import lpu
from lpu_mlir.dialects.lpu_kernel import KernelOp
from lpu_mlir.interpreter.native.compile import Loader, loader
from lpu_mlir.interpreter.native.kernel import NativeKernel
from lpu_mlir.progress import doing
from lpu_mlir.runtime import host_program
from lpu_mlir.runtime.describe.flat import (
    Buffer,
    Copy,
    FlatProgram,
    HostCall,
    If,
    Own,
    Root,
    Run,
    While,
    aliases,
    flatten,
)
from lpu_mlir.runtime.describe.flat import Step as FlatStep
from lpu_mlir.runtime.describe.host_call import describe_host_call
from lpu_mlir.runtime.describe.kernels import Emit, describe_kernel, emit
from lpu_mlir.runtime.describe.launches import describe_launches
from lpu_mlir.runtime.describe.layout import layout_of
from lpu_mlir.runtime.host_program import (
    FREEZE,
    MAIN,
    Access,
    Forget,
    HostFunction,
    HostProgram,
    Kernel,
    MakeArena,
    MakeBuffer,
    Step,
)
from lpu_mlir.transforms.bufferize import RETURNED

FUNCTIONS: Mapping[str, str] = {MAIN: "main", FREEZE: lpu.FREEZE}
"""Function of the program -> its name in the module; @freeze may be missing."""


def describe_program(module: ModuleOp, emit: Emit = emit) -> HostProgram:
    """The program of a module that has been lowered to kernels.

    Kernels are compiled for this machine and as many threads as PyTorch uses.  Raises
    NotImplementedError, which names the kernel, for what has no translation.
    """
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}
    entries = {n: functions[own] for n, own in FUNCTIONS.items() if own in functions}
    flats = {name: flatten(entry, functions) for name, entry in entries.items()}
    read = argument_bytes(entries[MAIN])
    kernels = compile_kernels(module, list(flats.values()), read, emit)
    frozen = positions(entries[FREEZE], lpu.FROZEN) if FREEZE in entries else ()
    kept = entries[FREEZE].function_type.inputs.data[len(frozen) :] if frozen else ()
    return HostProgram(
        tuple(kernels.values()),
        {name: describe_function(flat, kernels) for name, flat in flats.items()},
        positions(entries[MAIN], RETURNED),
        frozen,
        tuple(map(layout_of, kept)),
    )


def argument_bytes(function: func.FuncOp) -> int:
    """The bytes of a function's arguments, as far as they are known."""
    types = [t for t in function.function_type.inputs if isa(t, MemRefType[Attribute])]
    return sum(layout_of(type).bytes.constant() or 0 for type in types)


def positions(function: func.FuncOp, name: str) -> tuple[int, ...]:
    """The integers in an attribute of a function; none if it is missing."""
    found = function.attributes.get(name)
    return found.data if isinstance(found, lpu.IntsAttr) else ()


def compile_kernels(
    module: ModuleOp, flats: Sequence[FlatProgram], read: int, emit: Emit = emit
) -> dict[str, Kernel]:
    """The kernels that are launched, by name, of a program whose arguments have so many bytes.

    LLVM compiles one while the next is emitted.
    """
    launched = {launch.kernel for flat in flats for launch in flat.launches()}
    chosen, workers = loader(), torch.get_num_threads()
    machine = replace(chosen.machine, streams=read > chosen.machine.cache_bytes)
    found: list[tuple[KernelOp, NativeKernel, Future[bytes]]] = []
    with ThreadPoolExecutor(1, "lpu_mlir LLVM") as llvm:
        for op in module.ops:
            if isinstance(op, KernelOp) and op.sym_name.data in launched:
                doing(f"kernel {len(found) + 1} of {len(launched)}")
                shared = set[tuple[int, int]]().union(*(aliases(flat, op) for flat in flats))
                native = emit(op, machine, shared, workers)
                found.append((op, native, submitted(llvm, chosen, native.text)))
    kernels = [describe_kernel(op, native, image.result()) for op, native, image in found]
    return {kernel.name: kernel for kernel in kernels}


def submitted(llvm: ThreadPoolExecutor, loader: Loader, text: str) -> Future[bytes]:
    """The object file for a module of LLVM text, made in another thread if there can be one."""
    try:
        return llvm.submit(loader.image, text)
    except RuntimeError:  # the interpreter ends
        made = Future[bytes]()
        made.set_result(loader.image(text))
        return made


def describe_function(flat: FlatProgram, kernels: Mapping[str, Kernel]) -> HostFunction:
    """A function's steps, with those between them that make memory and let go of it."""
    others = [*(arena.root for arena in flat.arenas), *flat.made()]
    describer = _Describer(flat, kernels, [*flat.arguments, *others])
    steps: list[Step] = []
    for number, step in enumerate(flat.steps):
        steps += describer.allocations(number)
        steps.append(describer.step(step))
        gone = [describer.numbers[root] for root in others if root.last == number]
        steps += [Forget(tuple(gone))] if gone else []
    returned = tuple(map(describer.access, flat.returned))
    return HostFunction(len(flat.arguments), len(others), tuple(steps), returned)


class _Describer:
    def __init__(self, flat: FlatProgram, kernels: Mapping[str, Kernel], roots: Sequence[Root]):
        self.flat, self.kernels = flat, kernels
        self.numbers = {root: n for n, root in enumerate(roots)}

    def allocations(self, number: int) -> list[Step]:
        """What makes the memory that a step is the first to use."""
        arenas = [a for a in self.flat.arenas if a.root.first == number]
        owned = [root for root in self.flat.owned if root.first == number]
        return [
            *(MakeArena(self.numbers[arena.root], arena.size) for arena in arenas),
            *(MakeBuffer(self.numbers[root], root.layout) for root in owned),
        ]

    def steps(self, steps: Sequence[FlatStep]) -> tuple[Step, ...]:
        return tuple(map(self.step, steps))

    def step(self, step: FlatStep) -> Step:
        match step:
            case Run():
                return describe_launches(step, self.kernels, self.numbers)
            case HostCall():
                operands = tuple(map(self.access, step.operands))
                results = tuple(self.numbers[root] for root in step.results)
                return host_program.HostCall(describe_host_call(step.op), operands, results)
            case Copy():
                return host_program.Copy(self.access(step.source), self.access(step.target))
            case Own():
                return MakeBuffer(self.numbers[step.root], step.root.layout)
            case If():
                branches = self.steps(step.then), self.steps(step.otherwise)
                return host_program.If(self.access(step.flag), *branches)
            case While():
                parts = self.steps(step.condition), self.steps(step.body)
                return host_program.While(self.access(step.flag), *parts)

    def access(self, buffer: Buffer) -> Access:
        root, start = buffer.object.root, buffer.object.offset + buffer.start
        whole = start == 0 and buffer.layout == root.layout
        return Access(self.numbers[root], start, None if whole else buffer.layout)
