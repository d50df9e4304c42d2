"""Garbage collection while graphs are compiled."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager


class Collection:
    """Python's garbage collection, which is off while any thread compiles.

    Among the objects of PyTorch's tracing it takes most of a second, more than all stages for
    thirty layers, and compiling leaves little garbage behind.
    """

    def __init__(self) -> None:
        self._lock, self._pauses, self._was_enabled = threading.Lock(), 0, False

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
                    gc.enable()

    def reset(self) -> None:
        """After a fork, in the child, where no other thread goes on compiling."""
        self._lock = threading.Lock()
        if self._pauses and self._was_enabled:
            gc.enable()
        self._pauses = 0


COLLECTION = Collection()
"""That of this process."""

os.register_at_fork(after_in_child=COLLECTION.reset)
