"""The threads that run kernels: the caller's own, and helpers that wait in native code."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from lpu_mlir.interpreter.native.compile import Code, loader
from lpu_mlir.interpreter.native.driver import (
    ENTRY_WORDS,
    MAILBOX,
    MAX_HELPERS,
    RECORD,
    can_share,
    driver,
)

ALIGNMENT = 64
"""Bytes at whose multiples each worker's scratch memory starts."""

ARENA, FIRST_ROOT = 1, 2
"""The numbers of the arena's root, and of the first one of the others."""

_INT, _POINTER = ctypes.c_int64, ctypes.c_void_p
_RUN = ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER, _POINTER, _POINTER, _INT)
_HELP = ctypes.CFUNCTYPE(None, _POINTER)
_NEW = ctypes.CFUNCTYPE(_POINTER)


class Plan:
    """What one native call does: kernels in order, with their arguments.

    `entries` has a row of four for each phase of each kernel: the address of its function, the
    number of its first slot, its cores, and the most workers that it is worth.  Slot i is
    `slots[i]` plus the address of root `roots[i]`: root 0 stands for no address, 1 for the arena,
    the others for whatever the call gives.  Each worker needs `scratch` bytes.  Helpers that sleep
    are woken if `wakes`; others help in any case.  `keep` is what owns the functions.
    """

    def __init__(
        self,
        entries: NDArray[np.int64],
        slots: NDArray[np.int64],
        roots: NDArray[np.int64],
        *,
        scratch: int = 0,
        wakes: bool = True,
        keep: object,
    ):
        assert entries.shape[1:] == (ENTRY_WORDS,)
        assert slots.shape == roots.shape
        assert all(array.flags.c_contiguous for array in (entries, slots, roots))
        first, second, third = (array.ctypes.data for array in (entries, slots, roots))
        worker = _aligned(scratch)
        words = np.array([first, len(entries), second, third, len(slots), worker, wakes], np.int64)
        self._keep = (entries, slots, roots, words, keep)
        self.address: int = words.ctypes.data
        self.worker_bytes, self.slot_bytes = RECORD + worker, 8 * len(slots)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class _Memory(threading.local):
    """Memory of the calling thread, for the workers of one call at a time."""

    size = 0
    address = 0
    _array: NDArray[np.uint8] | None = None

    def grow(self, size: int) -> None:
        """MemoryError if there is not so much."""
        self._array, self.size = None, 0
        self._array = np.empty(size + ALIGNMENT, np.uint8)
        start: int = self._array.ctypes.data
        self.address, self.size = _aligned(start), size


class Pool:
    """Runs plans.  Any number of threads may do so at once: each entry gets helpers if no other
    thread has them, and else is run by its caller alone."""

    def __init__(self, code: Code, shares: bool):
        self._code, self._shares = code, shares
        addresses: Mapping[str, int] = code.addresses
        self._run = _RUN(addresses["lpu.run"])
        self._help = _HELP(addresses["lpu.help"])
        self._new = _NEW(addresses["lpu.pool"])
        self._memory = _Memory()
        self.reset()

    def reset(self) -> None:
        """Starts over without helpers: after a fork they are not there."""
        self._lock = threading.RLock()
        self._helpers = 0
        self._address: int | None = self._new() if self._shares else None
        if self._address is None:
            self._shares = False

    @property
    def helpers(self) -> int:
        return self._helpers

    def run(self, plan: Plan, bases: bytes, workers: int) -> tuple[int, int] | None:
        """Runs a plan on the roots with these addresses; the first failure as entry and check.

        At most `workers` threads work, the caller's included.  Other Python threads run meanwhile.
        MemoryError if there is no memory to work in.
        """
        if workers > self._helpers + 1:
            workers = self._hire(workers)
        memory, needed = self._memory, workers * plan.worker_bytes + plan.slot_bytes
        if needed > memory.size:
            memory.grow(needed)
        code = self._run(self._address, plan.address, bases, memory.address, workers)
        return None if code == 0 else (code >> 32, (code & 0xFFFFFFFF) - 1)

    def _hire(self, workers: int) -> int:
        """Starts helpers as needed; how many threads there can be."""
        with self._lock:
            while self._shares and self._helpers + 1 < min(workers, MAX_HELPERS + 1):
                assert self._address is not None
                mail = self._address + MAILBOX * (self._helpers + 1)
                name = f"lpu_mlir helper {self._helpers + 1}"
                try:
                    threading.Thread(
                        target=self._help, args=(mail,), name=name, daemon=True
                    ).start()
                except RuntimeError:  # there can be no more threads
                    break
                self._helpers += 1
            return self._helpers + 1


def as_bases(addresses: Sequence[int], arena: int = 0) -> bytes:
    """The addresses of the roots from number 2 on, and of the arena, as `Pool.run` takes them."""
    return _packer(FIRST_ROOT + len(addresses)).pack(0, arena, *addresses)


@cache
def _packer(count: int) -> Struct:
    return Struct(f"{count}q")


@cache
def pool() -> Pool:
    """The pool of this process."""
    machine = loader().machine
    code = loader().load(driver(machine), ["lpu.run", "lpu.help", "lpu.pool"])
    made = Pool(code, can_share(machine))
    os.register_at_fork(after_in_child=made.reset)
    return made
