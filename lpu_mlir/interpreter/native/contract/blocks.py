"""How an axis of the result is cut into blocks."""

from __future__ import annotations

from dataclasses import dataclass

from lpu_mlir.interpreter.native.llvm import Builder, Int, Value


@dataclass(frozen=True)
class Position:
    """One position of a block along an axis."""

    index: Int
    """In elements from where the loops are."""
    fresh: Value | None = None
    """Whether no other position stands for the same elements; always, if None."""
    stale: Int = 0
    """Leading lanes that an earlier vector stands for."""


@dataclass(frozen=True)
class Run:
    """Blocks of one size along an axis, `step` elements from each other."""

    first: Int
    blocks: Int
    step: int
    count: int
    """Positions of a block."""
    apart: Int
    """Elements between the positions."""
    size: Int
    """The extent of the axis."""
    width: int
    """Elements of a position."""
    exact: bool
    """Whether all positions are inside the axis; they then count from the start of their block,
    and otherwise from that of the axis."""

    def positions(self, b: Builder, start: Int) -> list[Position]:
        """The positions of the block that starts there."""
        if self.exact:
            return [Position(b.mul(n, self.apart)) for n in range(self.count)]
        found: list[Position] = []
        for n in range(self.count):
            wanted = b.add(start, b.mul(n, self.apart))
            index = b.minimum(wanted, b.sub(self.size, self.width))
            if self.width > 1:
                found.append(Position(index, stale=b.sub(wanted, index)))
            else:
                found.append(Position(index, None if n == 0 else b.less(wanted, self.size)))
        return found


def runs(b: Builder, size: Int, width: int, count: int, far_apart: bool) -> list[Run]:
    """
    Cut an axis into blocks of so many positions of so many elements, or nearly so: blocks of a
    known extent differ by one position at most. The positions of a block are far apart or next to
    each other.
    """
    if far_apart:
        blocks = b.floor_divide(b.add(size, count - 1), count)
        exact = isinstance(size, int) and size % count == 0
        return [Run(0, blocks, 1, count, blocks, size, width, exact)]
    exact = isinstance(size, int) and size % width == 0
    positions = b.floor_divide(b.add(size, width - 1), width)
    if isinstance(positions, int):
        return _even(positions, width, count, size, exact)
    if width > 1 or count == 1:
        blocks = b.floor_divide(b.add(positions, count - 1), count)
        return [Run(0, blocks, count * width, count, width, size, width, exact=width == 1)]
    whole = b.floor_divide(size, count)
    rest = b.sub(size, b.mul(whole, count))
    return [
        Run(0, whole, count, count, 1, size, 1, exact=True),
        Run(b.mul(whole, count), b.minimum(rest, 1), count, count, 1, size, 1, exact=False),
    ]


def _even(positions: int, width: int, count: int, size: Int, exact: bool) -> list[Run]:
    """Larger blocks, then smaller ones."""
    blocks = -(-positions // count)
    smaller, larger = positions // blocks, positions % blocks
    kinds = [(0, larger, smaller + 1), (larger * (smaller + 1), blocks - larger, smaller)]
    return [
        Run(first * width, number, n * width, n, width, size, width, exact)
        for first, number, n in kinds
        if number
    ]
