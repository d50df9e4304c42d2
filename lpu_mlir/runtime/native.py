"""Programs as machine code: runs of launches are native calls, with tables made before."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_bool
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeAlias

import torch
from torch import Tensor

from lpu_mlir.interpreter.native.compile import loader
from lpu_mlir.interpreter.native.pool import as_bases, pool
from lpu_mlir.logs import logger
from lpu_mlir.runtime.buffers import SHARED
from lpu_mlir.runtime.host_program import (
    MAIN,
    Access,
    Copy,
    Forget,
    HostCall,
    HostFunction,
    HostProgram,
    If,
    Launches,
    MakeArena,
    MakeBuffer,
    While,
)
from lpu_mlir.runtime.kernels import LoadedKernel
from lpu_mlir.runtime.numbers import Symbols, number, numbers
from lpu_mlir.runtime.profile import is_profiling, profiled
from lpu_mlir.runtime.stats import LAUNCHED, RunStats
from lpu_mlir.runtime.tables import Bound, RunTable

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

    def inside(self, steps: Sequence[Step]) -> None:
        """Takes the steps of a branch, or once those of a loop; they may bind symbols anew."""
        before = self.symbols
        self.symbols = dict(before)
        for step in steps:
            step(self)
        self.symbols = before


Step: TypeAlias = Callable[[Call], None]


class Function:
    """A function, with all that it calls, as closures."""

    def __init__(self, described: HostFunction, kernels: Mapping[str, LoadedKernel]):
        self.kernels, self.others = kernels, described.others
        self.buffers = SHARED.get()
        self.arenas = {step.root for step in described.steps if isinstance(step, MakeArena)}
        self.steps = self.closures(described.steps)
        self.returned = [self.reader(access) for access in described.returned]

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

    def closures(self, steps: Sequence[Any]) -> list[Step]:
        return [_STEPS[type(step)](self, step) for step in steps]

    # --- steps ---
    def make_arena(self, arena: MakeArena) -> Step:
        root, size = arena.root, number(arena.size)

        def step(call: Call) -> None:
            bytes = size(call.symbols)
            call.set(root, self.buffers.empty((bytes,), (1,), torch.uint8))
            if call.stats is not None:
                call.stats.arena_bytes += bytes
                call.stats.peak_bytes = max(call.stats.peak_bytes, call.stats.arena_bytes)

        return step

    def make_buffer(self, buffer: MakeBuffer) -> Step:
        root, dtype = buffer.root, buffer.layout.dtype
        sizes, steps = numbers(buffer.layout.shape), numbers(buffer.layout.strides)

        def step(call: Call) -> None:
            symbols = call.symbols
            call.set(root, self.buffers.empty(sizes(symbols), steps(symbols), dtype))

        return step

    def forget(self, forget: Forget) -> Step:
        arenas = [root for root in forget.roots if root in self.arenas]

        def step(call: Call) -> None:
            if call.stats is not None:
                call.stats.arena_bytes -= sum(_present(call.tensors[r]).nbytes for r in arenas)
            for root in forget.roots:
                call.tensors[root] = None

        return step

    def launches(self, run: Launches) -> Step:
        table, roots = RunTable(run, self.kernels), run.roots
        workers, threads = pool(), torch.get_num_threads

        def step(call: Call) -> None:
            bound, addresses = table.bound(call.symbols), call.addresses
            given = [addresses[root] for root in roots]
            if call.stats is not None:
                peak = call.stats.arena_bytes + bound.arena_bytes
                call.stats.peak_bytes = max(call.stats.peak_bytes, peak)
                for name, use in bound.uses.items():
                    call.stats.add_launch(name, use)
            if bound.arena_bytes:
                arena = self.buffers.empty((bound.arena_bytes,), (1,), torch.uint8)
                bases = as_bases(given, arena.data_ptr())
            else:
                bases = as_bases(given)
            if is_profiling() or KERNELS.isEnabledFor(logging.DEBUG):
                one_by_one(bound, bases)
                return
            failed = workers.run(bound.plan, bases, threads())
            if failed is not None:
                entry, check = failed
                raise table.kernel_of(entry).failure(check)

        return step

    def host_call(self, host_call: HostCall) -> Step:
        run, name = host_call.operator.maker(), host_call.operator.overload
        operands, results = list(map(self.reader, host_call.operands)), host_call.results

        def step(call: Call) -> None:
            HOST.debug(name)
            if call.stats is not None:
                call.stats.add_host_call()
            with torch.no_grad():
                given = [read(call) for read in operands]
                with profiled(f"lpu_mlir::host::{name}", inside=True):
                    made = run(given, call.symbols)
            for root, tensor in zip(results, made, strict=True):
                call.set(root, tensor)

        return step

    def copy(self, copy: Copy) -> Step:
        source, target = self.reader(copy.source), self.reader(copy.target)

        def step(call: Call) -> None:
            with torch.no_grad():
                target(call).copy_(source(call))

        return step

    def choose(self, step: If) -> Step:
        flag = self.flag(step.flag)
        then, otherwise = self.closures(step.then), self.closures(step.otherwise)

        def choose(call: Call) -> None:
            call.inside(then if flag(call) else otherwise)

        return choose

    def repeat(self, step: While) -> Step:
        flag = self.flag(step.flag)
        condition, body = self.closures(step.condition), self.closures(step.body)

        def repeat(call: Call) -> None:
            call.inside(condition)
            while flag(call):
                call.inside(body)
                call.inside(condition)

        return repeat

    # --- tensors ---
    def flag(self, access: Access) -> Callable[[Call], bool]:
        """What reads a bool where it lies."""
        root, start = access.root, number(access.start)
        return lambda call: c_bool.from_address(call.addresses[root] + start(call.symbols)).value

    def reader(self, access: Access) -> Callable[[Call], Tensor]:
        """What gives elements of a root as a tensor."""
        root, layout, begin = access.root, access.layout, number(access.start)
        if layout is None:
            return lambda call: _present(call.tensors[root])
        dtype, sizes, steps = layout.dtype, numbers(layout.shape), numbers(layout.strides)

        def read(call: Call) -> Tensor:
            base, symbols = _present(call.tensors[root]), call.symbols
            shape = sizes(symbols)
            if base.numel() == 0 or 0 in shape:  # it may start outside the storage
                return base.new_empty(shape, dtype=dtype)
            offset = int(base.storage_offset()) * base.itemsize + begin(symbols)
            empty = torch.empty(0, dtype=dtype, device="cpu")
            return empty.set_(
                base.untyped_storage(), offset // dtype.itemsize, shape, steps(symbols)
            )

        return read


_STEPS: Mapping[type[Any], Callable[[Function, Any], Step]] = {
    MakeArena: Function.make_arena,
    MakeBuffer: Function.make_buffer,
    Forget: Function.forget,
    Launches: Function.launches,
    HostCall: Function.host_call,
    Copy: Function.copy,
    If: Function.choose,
    While: Function.repeat,
}
"""Step of the host program -> what makes the closure that does it."""


def one_by_one(bound: Bound, bases: bytes) -> None:
    """A run with a native call, a row in the profile and a line in the log for each launch."""
    for (kernel, plan), first in zip(bound.launches, bound.firsts, strict=True):
        start = perf_counter()
        with profiled(f"lpu_mlir::{kernel.name}", inside=False):
            failed = pool().run(plan, bases, torch.get_num_threads())
        if failed is not None:
            raise kernel.failure(failed[1])
        seconds = perf_counter() - start
        if KERNELS.isEnabledFor(logging.DEBUG):
            read, written = kernel.moved(bound.slots[first:])
            KERNELS.debug(LAUNCHED, kernel.name, read, written, seconds)


def _present(tensor: Tensor | None) -> Tensor:
    assert tensor is not None
    return tensor


class NativeProgram:
    """A program with its kernels loaded; see `Runnable`."""

    def __init__(self, described: HostProgram):
        self.described = described
        self.returned, self.frozen = described.returned, described.frozen
        self.kept = described.kept
        loaded = {kernel.name: LoadedKernel.load(kernel, loader()) for kernel in described.kernels}
        functions = described.functions.items()
        self.functions = {name: Function(function, loaded) for name, function in functions}
        self.buffers = SHARED.get()

    def empty(self, sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> Tensor:
        return self.buffers.empty(sizes, strides, dtype)

    def execute(
        self,
        arguments: Sequence[Tensor],
        destinations: Sequence[Tensor],
        symbols: Symbols,
        stats: RunStats | None,
        entry: str = MAIN,
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
        return returned
