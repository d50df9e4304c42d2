"""Rows for torch.profiler: one for each launch and each host call."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch

_autograd: Any = getattr(torch._C, "_autograd")  # pyright: ignore[reportPrivateUsage]


def is_profiling() -> bool:
    """Whether a profile is being made."""
    return _autograd._profiler_enabled()


@contextmanager
def profiled(name: str, inside: bool) -> Generator[None]:
    """A row `name` in a profile, if one is being made.

    Operators that PyTorch runs meanwhile get rows of their own only if `inside`: those that
    interpret a kernel are thousands, and no part of the program.
    """
    if not is_profiling():
        yield
        return
    with torch.profiler.record_function(name):
        _autograd._enable_record_function(inside)
        try:
            yield
        finally:
            _autograd._enable_record_function(True)
