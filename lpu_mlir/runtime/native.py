"""A lowered module as machine code: runs of launches are native calls, with tables made before."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TypeAlias

import torch
from torch import Tensor
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from lpu_mlir.dialects.lpu import FREEZE, FROZEN, element_type, extents, strides
from lpu_mlir.dialects.lpu_kernel import KernelOp
from lpu_mlir.frontend.types import DTYPES
from lpu_mlir.interpreter.native.compile import loader
from lpu_mlir.interpreter.native.pool import as_bases, pool
from lpu_mlir.logs import logger
from lpu_mlir.runtime.buffers import SHARED
from lpu_mlir.runtime.flat import (
    Buffer,
    Copy,
    FlatProgram,
    HostCall,
    Run,
    aliases,
    flatten,
)
from lpu_mlir.runtime.host_call import make_host_call
from lpu_mlir.runtime.kernels import Emit, LoadedKernel, emit
from lpu_mlir.runtime.numbers import Symbols, number, numbers
from lpu_mlir.runtime.profile import is_profiling, profiled
from lpu_mlir.runtime.program import positions
from lpu_mlir.runtime.stats import KernelUse, RunStats
from lpu_mlir.runtime.tables import Bound, RunTable
from lpu_mlir.transforms.bufferize import RETURNED

KERNELS, HOST = logger("kernels"), logger("host")


@dataclass
class Call:
    """One call of a function: what its roots are this time."""

    symbols: Symbols
    tensors: list[Tensor | None]
    addresses: list[int]
    stats: RunStats | None

    def set(self, root: int, tensor: Tensor) -> None:
        self.tensors[root], self.addresses[root] = tensor, tensor.data_ptr()


Step: TypeAlias = Callable[[Call], None]


class Function:
    """A function, with all that it calls, as steps over numbered roots, the arguments first."""

    def __init__(self, flat: FlatProgram, kernels: Mapping[str, LoadedKernel]):
        made = [root for s in flat.steps if isinstance(s, HostCall) for root in s.results]
        arenas = [arena.root for arena in flat.arenas]
        roots = [*flat.arguments, *arenas, *flat.owned, *made]
        self.numbers = {root: n for n, root in enumerate(roots)}
        self.others = len(roots) - len(flat.arguments)
        self.buffers = SHARED.get()
        self.uses = Counter(launch.kernel for launch in flat.launches())
        self.steps: list[Step] = []
        for number_, step in enumerate(flat.steps):
            self.steps += self._allocations(flat, number_)
            self.steps.append(self._step(step, kernels))
            if gone := [self.numbers[r] for r in roots[len(flat.arguments) :] if r.last == number_]:
                self.steps.append(_forget(gone))
        self.returned = [self.reader(buffer) for buffer in flat.returned]

    def __call__(
        self, tensors: Sequence[Tensor], symbols: Symbols, stats: RunStats | None
    ) -> list[Tensor]:
        """Runs the function; gives the tensors that it returns."""
        addresses = [tensor.data_ptr() for tensor in tensors]
        none: list[Tensor | None] = [None] * self.others
        call = Call(symbols, [*tensors, *none], addresses + [0] * self.others, stats)
        for step in self.steps:
            step(call)
        return [read(call) for read in self.returned]

    # --- steps ---
    def _allocations(self, flat: FlatProgram, step: int) -> list[Step]:
        """What makes the memory that a step is the first to use."""
        found: list[Step] = []
        for arena in flat.arenas:
            if arena.root.first == step:
                found.append(self._arena(self.numbers[arena.root], number(arena.size)))
        for root in flat.owned:
            if root.first == step:
                found.append(self._owned(self.numbers[root], root.type))
        return found

    def _arena(self, root: int, size: Callable[[Symbols], int]) -> Step:
        def step(call: Call) -> None:
            bytes = size(call.symbols)
            call.set(root, self.buffers.empty((bytes,), (1,), torch.uint8))
            if call.stats is not None:
                call.stats.arena_bytes += bytes
                call.stats.peak_bytes = max(call.stats.peak_bytes, call.stats.arena_bytes)

        return step

    def _owned(self, root: int, type: Attribute) -> Step:
        dtype = DTYPES[element_type(type)]
        sizes, steps = numbers(extents(type)), numbers(strides(type))

        def step(call: Call) -> None:
            symbols = call.symbols
            call.set(root, self.buffers.empty(sizes(symbols), steps(symbols), dtype))

        return step

    def _step(self, step: Run | HostCall | Copy, kernels: Mapping[str, LoadedKernel]) -> Step:
        match step:
            case Run():
                return self._run(RunTable(step, kernels))
            case HostCall():
                return self._host_call(step)
            case Copy():
                return self._copy(step)

    def _run(self, table: RunTable) -> Step:
        roots = [self.numbers[root] for root in table.roots]
        workers, threads = pool(), torch.get_num_threads

        def step(call: Call) -> None:
            bound, addresses = table.bound(call.symbols), call.addresses
            given = [addresses[root] for root in roots]
            if call.stats is not None:
                peak = call.stats.arena_bytes + bound.arena_bytes
                call.stats.peak_bytes = max(call.stats.peak_bytes, peak)
            if is_profiling() or KERNELS.isEnabledFor(logging.DEBUG):
                one_by_one(bound, given)
                return
            failed = workers.run(bound.plan, as_bases(given), threads())
            if failed is not None:
                entry, check = failed
                raise table.kernel_of(entry).failure(check)

        return step

    def _host_call(self, host_call: HostCall) -> Step:
        call_operator, name = make_host_call(host_call.op), host_call.op.overload.data
        operands = [self.reader(buffer) for buffer in host_call.operands]
        results = [self.numbers[root] for root in host_call.results]

        def step(call: Call) -> None:
            HOST.debug(name)
            with torch.no_grad():
                given = [read(call) for read in operands]
                with profiled(f"lpu_mlir::host::{name}", inside=True):
                    made = call_operator(given, call.symbols)
            for root, tensor in zip(results, made, strict=True):
                call.set(root, tensor)

        return step

    def _copy(self, copy: Copy) -> Step:
        source, target = self.reader(copy.source), self.reader(copy.target)

        def step(call: Call) -> None:
            with torch.no_grad():
                target(call).copy_(source(call))

        return step

    # --- tensors ---
    def reader(self, buffer: Buffer) -> Callable[[Call], Tensor]:
        """What gives a buffer as a tensor."""
        place, root, type = buffer.object, buffer.object.root, buffer.type
        position, start = self.numbers[root], place.offset + buffer.start
        if start == 0 and type == root.type:
            return lambda call: _present(call.tensors[position])
        dtype, begin = DTYPES[element_type(type)], number(start)
        sizes, steps = numbers(extents(type)), numbers(strides(type))

        def read(call: Call) -> Tensor:
            base, symbols = _present(call.tensors[position]), call.symbols
            shape = sizes(symbols)
            if base.numel() == 0 or 0 in shape:  # it may start outside the storage
                return base.new_empty(shape, dtype=dtype)
            offset = int(base.storage_offset()) * base.itemsize + begin(symbols)
            empty = torch.empty(0, dtype=dtype)
            return empty.set_(
                base.untyped_storage(), offset // dtype.itemsize, shape, steps(symbols)
            )

        return read


def one_by_one(bound: Bound, given: Sequence[int]) -> None:
    """A run with a native call, a row in the profile and a line in the log for each launch."""
    arena = torch.empty(bound.arena_bytes, dtype=torch.uint8)
    bases = as_bases([*given, arena.data_ptr()])
    for kernel, plan in bound.launches:
        start = perf_counter()
        with profiled(f"lpu_mlir::{kernel.name}", inside=False):
            failed = pool().run(plan, bases, torch.get_num_threads())
        if failed is not None:
            raise kernel.failure(failed[1])
        KERNELS.debug("%s: %.6f s", kernel.name, perf_counter() - start)


def _present(tensor: Tensor | None) -> Tensor:
    assert tensor is not None
    return tensor


def _forget(roots: Sequence[int]) -> Step:
    """Lets go of memory that is not used any more."""

    def step(call: Call) -> None:
        for root in roots:
            call.tensors[root] = None

    return step


class NativeProgram:
    """All functions of a module that has been lowered to kernels; see `Runnable`.

    Raises NotImplementedError, which names the kernel, for what has no translation.
    """

    def __init__(self, module: ModuleOp, emit: Emit = emit):
        functions = {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}
        entries = {name: functions[name] for name in ("main", FREEZE) if name in functions}
        flats = {name: flatten(op, functions) for name, op in entries.items()}
        self.kernels = load_kernels(module, list(flats.values()), emit)
        self.functions = {name: Function(flat, self.kernels) for name, flat in flats.items()}
        self.argument_types: Mapping[str, Sequence[Attribute]] = {
            name: op.function_type.inputs.data for name, op in entries.items()
        }
        self.returned = positions(entries["main"], RETURNED)
        self.frozen = positions(entries[FREEZE], FROZEN) if FREEZE in entries else ()
        self.buffers = SHARED.get()

    def empty(self, sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> Tensor:
        return self.buffers.empty(sizes, strides, dtype)

    def execute(
        self,
        arguments: Sequence[Tensor],
        destinations: Sequence[Tensor],
        symbols: Symbols,
        stats: RunStats | None,
        entry: str = "main",
    ) -> list[Tensor]:
        """Runs @main, or @freeze; says in `stats` what it did.

        Raises the exception of the first check that fails; launches after it are not made.
        """
        function = self.functions[entry]
        if stats is None:
            return function([*arguments, *destinations], symbols, None)
        start = perf_counter()
        returned = function([*arguments, *destinations], symbols, stats)
        stats.seconds = perf_counter() - start
        for name, launches in function.uses.items():
            stats.add_launch(name, KernelUse(launches))
        return returned


def load_kernels(
    module: ModuleOp, flats: Sequence[FlatProgram], emit: Emit = emit
) -> dict[str, LoadedKernel]:
    """The kernels that are launched, by name."""
    launched = {launch.kernel for flat in flats for launch in flat.launches()}
    chosen, workers = loader(), torch.get_num_threads()
    found: dict[str, LoadedKernel] = {}
    for op in module.ops:
        if isinstance(op, KernelOp) and op.sym_name.data in launched:
            shared = set[tuple[int, int]]().union(*(aliases(flat, op) for flat in flats))
            native = emit(op, chosen.machine, shared, workers)
            found[op.sym_name.data] = LoadedKernel.load(op, native, chosen)
    return found
