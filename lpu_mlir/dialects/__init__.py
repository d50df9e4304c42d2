"""The dialects, one module each; see ``DIALECTS``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pkgutil import resolve_name
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Dialect

DIALECTS = {
    "lpu": "lpu_mlir.dialects.lpu:Lpu",
    "lpu_graph": "lpu_mlir.dialects.lpu_graph:LpuGraph",
    "lpu_host": "lpu_mlir.dialects.lpu_host:LpuHost",
    "lpu_kernel": "lpu_mlir.dialects.lpu_kernel:LpuKernel",
    "lpu_loop": "lpu_mlir.dialects.lpu_loop:LpuLoop",
}
"""Dialect name -> where its ``Dialect`` object is defined."""


def get_all_dialects() -> dict[str, Callable[[], Dialect]]:
    """Factories for all our dialects by name; a dialect's module is imported by its factory."""
    return {name: partial(resolve_name, target) for name, target in DIALECTS.items()}
