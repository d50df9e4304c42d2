"""Memory for results, used again when nobody has the old result any more.

Fresh memory costs a page fault for every 4 KB, which for a large result takes longer than computing
it.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from weakref import ref

import torch
from torch import Tensor

POOLED_BYTES = 1 << 20
"""Smaller results get memory from PyTorch: its allocator has them at hand."""

KEEP_SECONDS = 10.0
"""How long memory is kept that nobody uses, if programs run meanwhile."""

SWEEP_SECONDS = 1.0
"""How often it is looked for."""


def _idle_limit() -> int:
    """The most bytes that nobody uses: an eighth of the machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 8


class Block:
    """The storage of one result at a time."""

    def __init__(self, size: int):
        self.storage = torch.empty(size, dtype=torch.uint8, device="cpu").untyped_storage()
        self.size, self.address = size, self.storage.data_ptr()
        self.idle_since: float | None = None
        self._unused = self._references()

    def _references(self) -> tuple[int, int]:
        """How many hold the storage: tensors, views, arrays; and its Python object."""
        handle = self.storage._cdata  # pyright: ignore[reportPrivateUsage]
        users = torch._C._storage_Use_Count(handle)  # pyright: ignore[reportPrivateUsage]
        return users, sys.getrefcount(self.storage)

    def is_idle(self) -> bool:
        """Whether nobody else holds the storage."""
        return self._references() == self._unused

    def is_sound(self) -> bool:
        """Whether the storage is what it was: a user may have resized it, moved it to memory that
        processes share, lent it to NumPy for good, or made a lazy copy, which has the old memory as
        soon as we ask for it."""
        same = (self.storage.data_ptr(), self.storage.nbytes()) == (self.address, self.size)
        return same and self.storage.resizable()

    def tensor(self, sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> Tensor:
        empty = torch.empty(0, dtype=dtype, device="cpu")
        return empty.set_(self.storage, 0, sizes, strides)


class Buffers:
    """Blocks by size; any number of threads may ask at once."""

    def __init__(self, idle_limit: int | None = None):
        self._limit = _idle_limit() if idle_limit is None else idle_limit
        self.reset()

    def reset(self) -> None:
        """Starts over without blocks: after a fork a thread that is gone may hold the lock."""
        self._blocks: dict[int, list[Block]] = {}
        self._lock = threading.RLock()
        self._swept = time.monotonic()

    def empty(self, sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> Tensor:
        """A tensor like that of `torch.empty_strided`, whose errors it raises."""
        size = storage_bytes(sizes, strides, dtype.itemsize)
        if size < POOLED_BYTES:
            return torch.empty_strided(sizes, strides, dtype=dtype, device="cpu")
        with self._lock:
            now = time.monotonic()
            if now - self._swept > SWEEP_SECONDS:
                self._sweep(now)
            block = self._idle_block(size)
            if block is None:
                self._sweep(now)
                block = Block(size)
                self._blocks.setdefault(size, []).append(block)
            block.idle_since = None
            return block.tensor(sizes, strides, dtype)

    def _idle_block(self, size: int) -> Block | None:
        blocks = self._blocks.get(size, [])
        for block in list(reversed(blocks)):
            if block.is_idle():
                if block.is_sound():
                    return block
                blocks.remove(block)
        return None

    def _sweep(self, now: float) -> None:
        """Frees what has been idle for long, and beyond the limit what has been so longest."""
        self._swept = now
        idle = [b for blocks in self._blocks.values() for b in blocks if b.is_idle()]
        for block in idle:
            block.idle_since = now if block.idle_since is None else block.idle_since
        idle.sort(key=lambda block: -(block.idle_since or 0.0))
        total, gone = 0, set[int]()
        for block in idle:
            total += block.size
            if total > self._limit or now - (block.idle_since or 0.0) > KEEP_SECONDS:
                gone.add(id(block))
        kept = {
            size: [block for block in blocks if id(block) not in gone]
            for size, blocks in self._blocks.items()
        }
        self._blocks = {size: blocks for size, blocks in kept.items() if blocks}

    def release(self) -> None:
        """Frees the blocks that nobody uses."""
        with self._lock:
            used = {
                size: [block for block in blocks if not block.is_idle()]
                for size, blocks in self._blocks.items()
            }
            self._blocks = {size: blocks for size, blocks in used.items() if blocks}

    @property
    def kept_bytes(self) -> int:
        """The bytes of all blocks, in use or not."""
        with self._lock:
            return sum(size * len(blocks) for size, blocks in self._blocks.items())


def storage_bytes(sizes: Sequence[int], strides: Sequence[int], itemsize: int) -> int:
    """The bytes from the first to the last element of a tensor."""
    if 0 in sizes:
        return 0
    last = sum((n - 1) * stride for n, stride in zip(sizes, strides, strict=True))
    return (last + 1) * itemsize


class _Shared:
    """The buffers of this process, for as long as a program holds them."""

    def __init__(self) -> None:
        self._buffers: ref[Buffers] | None = None
        self._lock = threading.Lock()

    def get(self) -> Buffers:
        with self._lock:
            found = self._buffers() if self._buffers is not None else None
            if found is None:
                found = Buffers()
                self._buffers = ref(found)
            return found

    def release(self) -> None:
        """Frees the memory that nobody uses."""
        with self._lock:
            found = self._buffers() if self._buffers is not None else None
        if found is not None:
            found.release()

    def reset(self) -> None:
        """After a fork, in the child."""
        self._lock = threading.Lock()
        found = self._buffers() if self._buffers is not None else None
        if found is not None:
            found.reset()


SHARED = _Shared()
"""Programs share buffers, so that what one has left another can use."""

os.register_at_fork(after_in_child=SHARED.reset)


def release_memory() -> None:
    """Gives the system what nobody uses, around compiling, which takes the most: blocks, and what
    glibc keeps of freed memory, tens of megabytes after a model has been traced."""
    SHARED.release()
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
