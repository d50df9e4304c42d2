"""What the compiler must know of a machine.

The figures of the Bertha preset that HyperAccel has not published are assumptions and say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PUBLISHED_DTYPES = ("float16", "bfloat16", "int8")
"""Those of PyTorch's dtypes that HyperAccel names for its products (beside FP8, FP4 and INT4).

What else kernels compute with is emulated: nothing is known of how an LPU would do it.
"""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A machine of `cores` equal cores.  Sizes are in bytes."""

    name: str
    cores: int
    sram_bytes: int
    """Scratchpad of one core: everything a phase has in tiles must fit."""
    tile_bytes: int
    """Largest tile that is computed rather than moved; larger windows are walked in slices."""
    channel_depth: int = 2
    """How many windows of one channel may be in SRAM at once: 2 is double buffering."""
    launch_bytes: int = 64 << 10
    """What starting a kernel costs, in bytes that could have moved meanwhile (assumption)."""


TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        # 32 cores: public (Legato's sample configuration); 8 MB: 256 MB of SRAM in equal parts, an
        # assumption.
        Target(name="bertha", cores=32, sram_bytes=8 << 20, tile_bytes=32 << 10),
        # Not a product: small enough that every limit is met in tests.
        Target(name="tiny", cores=4, sram_bytes=64 << 10, tile_bytes=4 << 10),
    )
}
"""The targets by name."""


def get_target(name: str) -> Target:
    """The target of that name; ValueError lists the known ones."""
    if name not in TARGETS:
        raise ValueError(f"unknown target '{name}', expected one of {', '.join(TARGETS)}")
    return TARGETS[name]
