"""The memref arguments of one launch: windows of DRAM, checked and counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from lpu_mlir.interpreter.reference.errors import (
    OutOfBoundsError,
    RaceError,
    UnwrittenReadError,
)
from lpu_mlir.interpreter.reference.memory import Memory, byte_window
from lpu_mlir.interpreter.reference.tiles import COMBINE

_NOBODY = torch.iinfo(torch.int16).max
"""The turn of bytes that no core has touched in a phase; above the turn of every core."""


class Accesses:
    """
    The first core to write, and the first to read, each of the bytes from `low` to `high` of a
    storage in the current phase.

    Cores are known by their turn, which rises while a phase runs: another core was there before
    exactly if the turn found is lower. Elements are the unit where one argument has the bytes to
    itself, single bytes where arguments overlap.
    """

    def __init__(self, low: int, high: int, itemsize: int):
        self.low, self.high, self.itemsize = low, high, itemsize
        self.reset()

    def reset(self) -> None:
        """Start a phase."""
        self._writers: Tensor | None = None
        self._readers: Tensor | None = None

    def writers(
        self, sizes: tuple[int, ...], strides: tuple[int, ...], start: int, itemsize: int
    ) -> Tensor:
        """Who first wrote a window, given as for `byte_window`."""
        if self._writers is None:
            self._writers = self._nobody()
        return self._window(self._writers, sizes, strides, start, itemsize)

    def readers(
        self, sizes: tuple[int, ...], strides: tuple[int, ...], start: int, itemsize: int
    ) -> Tensor:
        """Who first read a window."""
        if self._readers is None:
            self._readers = self._nobody()
        return self._window(self._readers, sizes, strides, start, itemsize)

    def is_read(self) -> bool:
        """Whether anything was read in this phase."""
        return self._readers is not None

    def _nobody(self) -> Tensor:
        return torch.full(((self.high - self.low) // self.itemsize,), _NOBODY, dtype=torch.int16)

    def _window(
        self,
        turns: Tensor,
        sizes: tuple[int, ...],
        strides: tuple[int, ...],
        start: int,
        itemsize: int,
    ) -> Tensor:
        if self.itemsize == itemsize:
            return turns.as_strided(sizes, strides, start - self.low // itemsize)
        byte_strides = [stride * itemsize for stride in strides]
        return turns.as_strided((*sizes, itemsize), (*byte_strides, 1), start * itemsize - self.low)


def _by_others(turns: Tensor, turn: int) -> bool:
    """Whether a core before this one is among the turns."""
    return turns.numel() > 0 and int(turns.amin()) < turn


def byte_range(tensor: Tensor) -> tuple[int, int]:
    """First and one past the last byte that a view covers in its storage."""
    if tensor.numel() == 0:
        return 0, 0
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    start = int(tensor.storage_offset())
    return start * tensor.itemsize, (start + last + 1) * tensor.itemsize


@dataclass(frozen=True)
class _Slices:
    """What is stored to a window: all of it, or slices at distinct positions of one dim."""

    tile: Tensor
    dim: int = 0
    positions: Tensor | None = None

    def window_sizes(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The window of a memref of this shape in which the positions count."""
        sizes = tuple(self.tile.shape)
        if self.positions is None:
            return sizes
        return (*sizes[: self.dim], shape[self.dim], *sizes[self.dim + 1 :])

    def of(self, window: Tensor) -> Tensor:
        """Their places in something that has an entry for each element or byte of the window."""
        return window if self.positions is None else window.index_select(self.dim, self.positions)

    def fill(self, window: Tensor, value: int | bool) -> None:
        if self.positions is None:
            window.fill_(value)
        else:
            window.index_fill_(self.dim, self.positions, value)

    def put(self, window: Tensor, kind: str) -> None:
        combine = COMBINE.get(kind)
        new = combine(self.of(window), self.tile) if combine else self.tile
        if self.positions is None:
            window.copy_(new)
        else:
            window.index_copy_(self.dim, self.positions, new)


def _without_repeats(positions: Tensor) -> Iterator[Tensor]:
    """
    The numbers of a vector's entries in groups: the first of each position, the second of those
    that are there more than once, and so on.
    """
    if positions.numel() == 0:
        return
    order = positions.argsort(stable=True)
    ordered = positions[order]
    repeats = torch.arange(len(ordered)) - torch.searchsorted(ordered, ordered)
    for repeat in range(int(repeats.max()) + 1):
        yield order[repeats == repeat]


@dataclass
class Argument:
    """
    One memref during one launch. `is_overwritten`: some argument that is written overlaps it.
    `turn`, where it is taken, is the running core's, for the detection of races.
    """

    tensor: Tensor
    is_overwritten: bool
    shadow: Tensor | None
    accesses: Accesses | None = None

    def __post_init__(self) -> None:
        self.shape = tuple(self.tensor.shape)
        self.strides = self.tensor.stride()
        self.base = int(self.tensor.storage_offset())
        self.itemsize = self.tensor.itemsize

    def _start(self, offsets: Sequence[int], sizes: Sequence[int], site: str) -> int:
        """Where a window starts in the storage, in elements; raises OutOfBoundsError.

        A window without elements touches nothing and may lie anywhere.
        """
        if 0 in sizes and min(sizes) >= 0:
            return self.base
        start = self.base
        for offset, size, extent, stride in zip(
            offsets, sizes, self.shape, self.strides, strict=True
        ):
            if offset < 0 or size < 0 or offset + size > extent:
                raise OutOfBoundsError(
                    f"{site}: window {list(offsets)}{list(sizes)} reaches outside the memref's "
                    f"{list(self.shape)}"
                )
            start += offset * stride
        return start

    # --- reading --------------------------------------------------------------------------------

    def read(
        self, offsets: tuple[int, ...], sizes: tuple[int, ...], turn: int, site: str
    ) -> Tensor:
        """The elements of a window. A copy only where a store of this launch could change them."""
        start = self._start(offsets, sizes, site)
        if self.accesses is not None:
            window = (sizes, self.strides, start, self.itemsize)
            if _by_others(self.accesses.writers(*window), turn):
                raise RaceError(self._race(site, offsets, sizes, "wrote"))
            self.accesses.readers(*window).clamp_(max=turn)
        if self.shadow is not None:
            written = byte_window(self.shadow, sizes, self.strides, start, self.itemsize)
            self._require_written(written, offsets, sizes, site)
        elements = self.tensor.as_strided(sizes, self.strides, start)
        return elements.clone() if self.is_overwritten else elements

    def read_at(
        self,
        dim: int,
        index: Tensor | int,
        offsets: tuple[int, ...],
        sizes: tuple[int, ...],
        turn: int,
        site: str,
    ) -> Tensor:
        """A window whose positions in one dim come from an index; the index's dims replace it.

        An index may be anything where no element is read.
        """
        if 0 in (*sizes[:dim], *sizes[dim + 1 :]):
            selected = () if isinstance(index, int) else index.shape
            return self.tensor.new_empty((*sizes[:dim], *selected, *sizes[dim + 1 :]))
        if isinstance(index, int):
            offsets = (*offsets[:dim], index, *offsets[dim + 1 :])
            return self.read(offsets, sizes, turn, site).squeeze(dim)
        sizes = (*sizes[:dim], self.shape[dim], *sizes[dim + 1 :])
        start = self._start(offsets, sizes, site)
        positions = self._positions(dim, index, site)
        if self.accesses is not None:
            window = (sizes, self.strides, start, self.itemsize)
            if _by_others(self.accesses.writers(*window).index_select(dim, positions), turn):
                raise RaceError(self._race(site, offsets, sizes, "wrote"))
            readers = self.accesses.readers(*window)
            first = readers.index_select(dim, positions).clamp_(max=turn)
            readers.index_copy_(dim, positions, first)
        if self.shadow is not None:
            written = byte_window(self.shadow, sizes, self.strides, start, self.itemsize)
            self._require_written(written.index_select(dim, positions), offsets, sizes, site)
        elements = self.tensor.as_strided(sizes, self.strides, start).index_select(dim, positions)
        return elements.reshape((*sizes[:dim], *index.shape, *sizes[dim + 1 :]))

    def _require_written(
        self, written: Tensor, offsets: Sequence[int], sizes: Sequence[int], site: str
    ) -> None:
        if not written.all():
            missing = written.numel() - int(written.sum())
            raise UnwrittenReadError(
                f"{site}: {missing} of {written.numel()} bytes of window "
                f"{list(offsets)}{list(sizes)} have not been written"
            )

    def _positions(self, dim: int, index: Tensor, site: str) -> Tensor:
        """The index as a vector, every position of it within the dim."""
        positions = index.flatten()
        if positions.numel():
            low, high = map(int, positions.aminmax())
            if low < 0 or high >= self.shape[dim]:
                raise OutOfBoundsError(
                    f"{site}: index from {low} to {high} into dim {dim} of the memref's "
                    f"{list(self.shape)}"
                )
        return positions

    # --- writing --------------------------------------------------------------------------------

    def write(
        self, tile: Tensor, offsets: tuple[int, ...], turn: int, site: str, kind: str
    ) -> None:
        """Put a tile at an offset, or combine it with what is there."""
        self._write(_Slices(tile), offsets, turn, site, kind)

    def write_at(
        self,
        dim: int,
        index: Tensor | int,
        tile: Tensor,
        offsets: tuple[int, ...],
        turn: int,
        site: str,
        kind: str,
    ) -> None:
        """
        Put the slices of a tile at the positions of an index, or combine them, in order: of equal
        positions the last slice stays, or each meets what those before have left.  An index may
        be anything where no element is written.
        """
        if not tile.numel():
            return None
        if isinstance(index, int):
            offsets = (*offsets[:dim], index, *offsets[dim + 1 :])
            return self.write(tile.unsqueeze(dim), offsets, turn, site, kind)
        positions = self._positions(dim, index, site)
        outer = (*tile.shape[:dim], *tile.shape[dim + index.ndim :])
        slices = tile.reshape((*outer[:dim], positions.numel(), *outer[dim:]))
        for turns in _without_repeats(positions):
            part = _Slices(slices.index_select(dim, turns), dim, positions[turns])
            self._write(part, offsets, turn, site, kind)
        return None

    def _write(
        self, slices: _Slices, offsets: tuple[int, ...], turn: int, site: str, kind: str
    ) -> None:
        sizes = slices.window_sizes(self.shape)
        window = (sizes, self.strides, self._start(offsets, sizes, site), self.itemsize)
        if self.accesses is not None:
            writers = self.accesses.writers(*window)
            if _by_others(slices.of(writers), turn):
                raise RaceError(self._race(site, offsets, sizes, "wrote"))
            if self.accesses.is_read() and _by_others(
                slices.of(self.accesses.readers(*window)), turn
            ):
                raise RaceError(self._race(site, offsets, sizes, "read"))
            slices.fill(writers, turn)
        written = None if self.shadow is None else byte_window(self.shadow, *window)
        if kind != "replace" and written is not None:
            self._require_written(slices.of(written), offsets, sizes, site)
        slices.put(self.tensor.as_strided(*window[:3]), kind)
        if written is not None:
            slices.fill(written, True)

    def _race(self, site: str, offsets: Sequence[int], sizes: Sequence[int], deed: str) -> str:
        return (
            f"{site}: window {list(offsets)}{list(sizes)} has bytes that another core {deed} in "
            "the same phase"
        )


def bind_arguments(
    tensors: Sequence[Tensor],
    written: Sequence[bool],
    memory: Memory,
    check_races: bool,
) -> list[Argument]:
    """The arguments of a launch. `written` says which of them the kernel may write."""
    ranges = [(t.untyped_storage().data_ptr(), *byte_range(t)) for t in tensors]
    targets = [n for n, is_written in enumerate(written) if is_written]
    arguments: list[Argument] = []
    for tensor, own in zip(tensors, ranges, strict=True):
        overlaps = any(_overlap(own, ranges[n]) for n in targets)
        arguments.append(Argument(tensor, overlaps, memory.shadow(tensor)))
    if check_races:
        exposed = [n for n, argument in enumerate(arguments) if argument.is_overwritten]
        _share_accesses(arguments, [(n, ranges[n]) for n in exposed])
    return arguments


def _overlap(a: tuple[int, int, int], b: tuple[int, int, int]) -> bool:
    return a[0] == b[0] and a[1] < b[2] and b[1] < a[2]


def _share_accesses(
    arguments: list[Argument], exposed: list[tuple[int, tuple[int, int, int]]]
) -> None:
    """Give arguments the accesses to their bytes, one object for those that overlap."""
    groups: list[tuple[tuple[int, int, int], list[int]]] = []
    for number, span in sorted(exposed, key=lambda entry: entry[1]):
        if groups and _overlap(groups[-1][0], span):
            storage, low, high = groups[-1][0]
            groups[-1] = ((storage, low, max(high, span[2])), [*groups[-1][1], number])
        else:
            groups.append((span, [number]))
    for (_, low, high), members in groups:
        itemsize = arguments[members[0]].itemsize if len(members) == 1 else 1
        accesses = Accesses(low, high, itemsize)
        for number in members:
            arguments[number].accesses = accesses


def window_bytes(tile: Tensor) -> int:
    """What moving a tile costs DRAM."""
    return prod(tile.shape) * tile.itemsize
