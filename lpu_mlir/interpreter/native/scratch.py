"""The memory of one worker, in which tiles lie that are neither views of DRAM nor computed on
reading."""

from __future__ import annotations

from dataclasses import dataclass, field

ALIGNMENT = 64
"""Bytes at whose multiples buffers start."""


@dataclass(eq=False)
class Buffer:
    """Bytes from `offset` on that are taken up to and with position `end` of the schedule."""

    offset: int
    size: int
    end: int


@dataclass
class Scratch:
    """Hands out buffers, each at the lowest place that is free while it is needed."""

    taken: list[Buffer] = field(default_factory=list[Buffer])
    bytes: int = 0
    """As many as were ever needed at once."""

    def allocate(self, size: int, position: int, end: int) -> Buffer:
        """A buffer that is used from one position to another."""
        self.taken = [buffer for buffer in self.taken if buffer.end >= position]
        offset = 0
        for other in sorted(self.taken, key=lambda buffer: buffer.offset):
            if offset + size <= other.offset:
                break
            offset = max(offset, _aligned(other.offset + other.size))
        buffer = Buffer(offset, size, max(position, end))
        self.taken.append(buffer)
        self.bytes = max(self.bytes, offset + size)
        return buffer


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
