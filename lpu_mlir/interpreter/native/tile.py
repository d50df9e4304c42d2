"""What a tile is while code is made for it: memory, or how to compute its elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import Attribute

from lpu_mlir.interpreter.native.llvm import Builder, Int, Value


@dataclass(frozen=True)
class View:
    """Elements in memory: element [i, j, ...] is at `base` + i * strides[0] + j * strides[1] + ...

    Sizes and strides are counted in elements.  A stride may be 0 (broadcast) or anything else that
    the memory allows; nothing is aligned beyond the element's own size.  `passing` is memory so
    large that what is written to it passes the caches by.
    """

    base: Value
    element: Attribute
    sizes: tuple[Int, ...]
    strides: tuple[Int, ...]
    passing: bool = False

    @property
    def rank(self) -> int:
        return len(self.sizes)

    def at(self, b: Builder, position: Sequence[Int]) -> Value:
        """The address of an element."""
        offset: Int = 0
        for index, stride in zip(position, self.strides, strict=True):
            offset = b.add(offset, b.mul(index, stride))
        return b.address(self.base, offset, self.element)

    def moved(self, b: Builder, position: Sequence[Int], sizes: Sequence[Int]) -> View:
        """The part that starts at a position."""
        return replace(self, base=self.at(b, position), sizes=tuple(sizes))
