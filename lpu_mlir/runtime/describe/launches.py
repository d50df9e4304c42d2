"""Runs of launches as tables of slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lpu_mlir.dialects.expr import Expr, contiguous_strides
from lpu_mlir.dialects.lpu_host import ALIGNMENT
from lpu_mlir.interpreter.native.pool import ARENA, FIRST_ROOT
from lpu_mlir.runtime.describe.flat import Buffer, Launch, Root, Run
from lpu_mlir.runtime.host_program import Fixed, Ints, Kernel, Launches


def describe_launches(
    run: Run, kernels: Mapping[str, Kernel], numbers: Mapping[Root, int]
) -> Launches:
    """A run of launches; `numbers` are those of all roots.

    ValueError for a buffer that is not laid out as its kernel expects.
    """
    writer = _Writer(run)
    firsts = [writer.launch(launch, kernels[launch.kernel]) for launch in run.launches]
    works = [writer.place(_bytes_of(launch)) for launch in run.launches]
    sizes = [(a.depth, a.size.ceildiv(ALIGNMENT) * ALIGNMENT) for a in run.arenas]
    arenas = [(depth + 1, writer.place(size)) for depth, size in sizes]
    values, bases, depths = _table(writer.slots, 3).T.copy()
    return Launches(
        tuple(launch.kernel for launch in run.launches),
        tuple(firsts),
        tuple(works),
        tuple(numbers[root] for root in writer.roots),
        tuple(arenas),
        tuple(writer.places),
        values,
        bases,
        depths,
        _table(writer.equal, 4),
    )


class _Writer:
    """Lays out the arguments of launches."""

    def __init__(self, run: Run):
        self.places: dict[Expr, int] = {}
        self.roots: dict[Root, int] = {}
        self.depths = {arena.root: arena.depth + 1 for arena in run.arenas}
        self.slots: list[tuple[int, int, int]] = []
        self.equal: list[tuple[int, int, int, int]] = []

    def place(self, expr: Expr) -> int:
        """The number of an expression."""
        return self.places.setdefault(expr, len(self.places))

    def launch(self, launch: Launch, kernel: Kernel) -> int:
        """Adds the arguments of a launch; the number of the first slot."""
        first, buffers, indices = len(self.slots), iter(launch.buffers), iter(launch.indices)
        for fixed in kernel.arguments:
            if fixed is None:
                self.number(next(indices))
            else:
                self.buffer(next(buffers), fixed, kernel.name)
        return first

    def number(self, expr: Expr) -> None:
        self.slots.append((self.place(expr), 0, 0))

    def buffer(self, buffer: Buffer, fixed: Fixed, name: str) -> None:
        layout = buffer.layout
        root, address = buffer.object.root, self.place(buffer.object.offset + buffer.start)
        if root in self.depths:
            self.slots.append((address, ARENA, self.depths[root]))
        else:
            number = self.roots.setdefault(root, FIRST_ROOT + len(self.roots))
            self.slots.append((address, number, 0))
        for extent, known in zip(layout.shape, fixed.sizes, strict=True):
            if known is None:
                self.number(extent)
            elif extent != known:
                raise ValueError(f"@{name} takes extents {fixed.sizes}, got {layout}")
        expected = contiguous_strides(layout.shape) if fixed.strides is None else fixed.strides
        for extent, stride, known in zip(layout.shape, layout.strides, expected, strict=True):
            if known is None:
                self.number(stride)
            elif stride != known and extent not in (0, 1) and 0 not in layout.shape:
                if None not in (extent.constant(), stride.constant(), Expr.of(known).constant()):
                    raise ValueError(f"@{name} takes strides {fixed.strides}, got {layout}")
                place = self.place
                row = (place(layout.bytes), place(extent), place(stride), place(Expr.of(known)))
                self.equal.append(row)


def _table(rows: Sequence[tuple[int, ...]], columns: int) -> Ints:
    return np.array(rows, np.int64).reshape(-1, columns)


def _bytes_of(launch: Launch) -> Expr:
    """What the buffers of a launch hold, a measure of the work."""
    sizes = (buffer.layout.bytes for buffer in launch.buffers)
    return sum(sizes, Expr.const(0))
