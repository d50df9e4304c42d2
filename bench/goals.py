"""What must come of each work: the bars and the goals of this project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

BEST_PEER = "best peer"
LIMIT = "limit"
"""What a work would take if it moved every byte once at the measured rate of memory, or did nothing
but its multiply-adds at the measured peak: see `worker.Demand`."""


@dataclass(frozen=True)
class Criterion:
    """Ours is at most `factor` times another system's figure, and `plus` (seconds, bytes)."""

    against: str
    factor: float = 1.0
    plus: float = 0.0

    def __str__(self) -> str:
        against = self.against if self.factor == 1 else f"{self.factor:.3g} x {self.against}"
        if not self.plus:
            return f"≤ {against}"
        more = f"{self.plus:g} s" if self.plus >= 1 else f"{self.plus * 1e6:g} µs"
        return f"≤ {against} + {more}"


@dataclass(frozen=True)
class Goals:
    """What has to hold of a work, and what would be good."""

    bar: tuple[Criterion, ...]
    goal: tuple[Criterion, ...] = ()


_CHAIN = Goals(
    (Criterion("inductor", 0.8), Criterion(BEST_PEER)),
    (Criterion(LIMIT, 1.6),),
)
_PICTURES = Goals((Criterion("eager"),), (Criterion("inductor", 1.1),))

_ANY_LENGTH = Goals((Criterion("lpu_mlir static", 1.2),), (Criterion("inductor"),))

GOALS: Mapping[str, Goals] = {
    "chain": _CHAIN,
    "gelu": _CHAIN,
    "rows": Goals((Criterion(BEST_PEER, 0.9),), (Criterion(LIMIT, 1.7),)),
    "gpt-1": Goals((Criterion(BEST_PEER),), (Criterion(LIMIT, 1.15),)),
    "gpt-128": Goals((Criterion("eager"), Criterion("inductor")), (Criterion(BEST_PEER),)),
    "decode-f32": Goals((Criterion("inductor", 0.45),), (Criterion(LIMIT, 1.2),)),
    "decode-bf16": Goals(
        (Criterion("lpu_mlir float32", 0.6), Criterion(BEST_PEER)), (Criterion(LIMIT, 1.25),)
    ),
    "prefill": Goals((Criterion("inductor"),), (Criterion("inductor", 0.8),)),
    "any-64": _ANY_LENGTH,
    "any-256": _ANY_LENGTH,
    "conv": _PICTURES,
    "mobilenet": _PICTURES,
    "resnet": _PICTURES,
    "train": Goals((Criterion("eager", 1.1),), (Criterion("inductor"),)),
    "call": Goals((Criterion("inductor", plus=10e-6),), (Criterion("inductor"),)),
    "compile-cold": Goals(
        (Criterion("aot_eager", plus=8.0), Criterion("inductor", 1 / 3)),
        (Criterion("aot_eager", plus=4.0),),
    ),
    "compile-cached": Goals((Criterion("inductor"),), (Criterion("dynamo", plus=1.0),)),
    "memory": Goals((Criterion("eager", 1.15),)),
}
"""Work -> its goals."""
