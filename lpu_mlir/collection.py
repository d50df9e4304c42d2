"""Garbage collection while graphs are compiled."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager

MANY = 100_000
"""So many new objects are worth not looking at: a collection among them takes a tenth of a
second."""


class Collection:
    """Python's garbage collection, which is off while any thread compiles.

    Among the objects of PyTorch's tracing it takes most of a second, more than all stages for
    thirty layers.  The garbage of a large graph is left to the next full collection; `make_room`
    is that one if a second large graph comes before it.
    """

    def __init__(self) -> None:
        self._lock, self._pauses, self._was_enabled = threading.Lock(), 0, False
        self._left: int | None = None
        """How many full collections there had been when garbage was last left; None if none is."""

    @contextmanager
    def paused(self) -> Generator[None]:
        with self._lock:
            if self._pauses == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._pauses += 1
        try:
            yield
        finally:
            with self._lock:
                self._pauses = max(self._pauses - 1, 0)
                if self._pauses == 0 and self._was_enabled:
                    self._leave()
                    gc.enable()

    def _leave(self) -> None:
        """Many new objects join the old ones, which the next collection of new ones skips."""
        if gc.get_count()[0] < MANY or gc.get_freeze_count():  # what a user froze stays frozen
            return
        gc.freeze()
        gc.unfreeze()
        self._left = _full_collections()

    def make_room(self) -> None:
        """Collects what a large graph left, unless Python did in the meantime."""
        with self._lock:
            due, self._left = self._left == _full_collections(), None
        if due:
            gc.collect()

    def reset(self) -> None:
        """After a fork, in the child, where no other thread goes on compiling."""
        self._lock = threading.Lock()
        if self._pauses and self._was_enabled:
            gc.enable()
        self._pauses = 0


def _full_collections() -> int:
    return gc.get_stats()[-1]["collections"]


COLLECTION = Collection()
"""That of this process."""

os.register_at_fork(after_in_child=COLLECTION.reset)
