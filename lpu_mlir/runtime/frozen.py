"""What depends on parameters and buffers alone: computed by @freeze, and kept between calls."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TypeAlias
from weakref import ref

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from lpu_mlir.runtime.host_program import FREEZE
from lpu_mlir.runtime.stats import Runnable, RunStats

Stamp: TypeAlias = tuple[int, int, int]
"""A tensor's storage, where its elements are, and how often PyTorch has seen them change."""


def stamps(tensors: Sequence[Tensor]) -> list[Stamp] | None:
    """A stamp for each tensor; None if one was made in inference mode: such have no count."""
    if any(map(torch.is_inference, tensors)):
        return None
    return [(t.untyped_storage()._cdata, t.data_ptr(), t._version) for t in tensors]  # pyright: ignore[reportPrivateUsage]


class Kept:
    """What was computed from some tensors, none of which it keeps alive.

    Of their storages it keeps what tells them from others that come to the same address.
    """

    def __init__(self, tensors: Sequence[Tensor], found: list[Stamp], values: list[Tensor]):
        self.tensors = [ref(tensor) for tensor in tensors]
        self.stamps, self.values = found, values
        self.storages = [StorageWeakRef(tensor.untyped_storage()) for tensor in tensors]
        self.size = sum(value.nbytes for value in values)

    def is_of(self, tensors: Sequence[Tensor], found: list[Stamp] | None) -> bool:
        same = all(old() is new for old, new in zip(self.tensors, tensors, strict=True))
        return same and self.stamps == found

    def is_over(self) -> bool:
        """Whether one of the tensors is gone."""
        return any(tensor() is None for tensor in self.tensors)


class Frozen:
    """The results of @freeze for the tensors of a call; threads may ask at once.

    Modules of one class may share a graph, so results are kept for each set of tensors, until one
    of the set is gone.
    """

    def __init__(self, program: Runnable):
        self.program = program
        self._kept: dict[tuple[int, ...], Kept] = {}
        self._lock = threading.Lock()

    @property
    def kept_bytes(self) -> int:
        with self._lock:
            return sum(kept.size for kept in self._kept.values())

    def values(self, arguments: Sequence[Tensor]) -> tuple[list[Tensor], RunStats | None]:
        """The results for @main's arguments; what computing them took, unless they were kept."""
        taken = [arguments[position] for position in self.program.frozen]
        if not taken:
            return [], None
        key = tuple(map(id, taken))
        with self._lock:
            now, kept = stamps(taken), self._kept.get(key)
            if kept is not None and kept.is_of(taken, now):
                return kept.values, None
            values, stats = self._compute(taken)
            if now is not None:
                self._kept = {k: v for k, v in self._kept.items() if not v.is_over()}
                self._kept[key] = Kept(taken, now, values)
            return values, stats

    def _compute(self, taken: Sequence[Tensor]) -> tuple[list[Tensor], RunStats]:
        values = [layout.bound({}).empty() for layout in self.program.kept]
        stats = RunStats()
        self.program.execute(taken, values, {}, stats, FREEZE)
        return values, stats
