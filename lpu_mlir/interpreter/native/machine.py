"""What code is made for: the width of vector registers, and what LLVM calls the processor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A processor: `vector_bytes` is the size of its vector registers, of which it has so many,
    `cache_bytes` that of its last cache.

    `streams` says that programs read more than that cache holds: what is read once then passes it
    by, and what is used again stays.
    """

    name: str
    triple: str
    cpu: str
    vector_bytes: int
    vector_registers: int
    features: str = ""
    cache_bytes: int = 32 << 20
    streams: bool = False

    def lanes(self, element_bytes: int) -> int:
        """Elements of that size in one register."""
        return self.vector_bytes // element_bytes


MACHINES: Mapping[str, Machine] = {
    machine.name: machine
    for machine in (
        Machine(
            name="x86-64-v3",
            triple="x86_64-unknown-linux-gnu",
            cpu="x86-64-v3",
            vector_bytes=32,
            vector_registers=16,
        ),
        Machine(
            name="x86-64-v4",
            triple="x86_64-unknown-linux-gnu",
            cpu="x86-64-v4",
            vector_bytes=64,
            vector_registers=32,
        ),
        Machine(
            name="aarch64",
            triple="aarch64-unknown-linux-gnu",
            cpu="generic",
            vector_bytes=16,
            vector_registers=32,
        ),
    )
}
"""The machines that code can be made for from anywhere; `host` in compile.py is this one."""
