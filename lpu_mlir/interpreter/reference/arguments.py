"""The memref arguments of one launch: windows of DRAM, checked and counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from lpu_mlir.interpreter.reference.errors import (
    OutOfBoundsError,
    UnwrittenReadError,
    WriteRaceError,
)
from lpu_mlir.interpreter.reference.memory import Memory, byte_window

_NOBODY = torch.iinfo(torch.int16).max
"""The owner of bytes that no core has written in a phase; above the turn of every core."""


class Owners:
    """
    Which core has written the bytes from `low` to `high` (in a storage) in the current phase.

    Cores are known by their turn, which rises while a phase runs. Elements are the unit where one
    argument has the bytes to itself, single bytes where arguments overlap.
    """

    def __init__(self, low: int, high: int, itemsize: int):
        self.low, self.high, self.itemsize = low, high, itemsize
        self._owner: Tensor | None = None

    def reset(self) -> None:
        """Start a phase."""
        self._owner = None

    def window(
        self, sizes: tuple[int, ...], strides: tuple[int, ...], start: int, itemsize: int
    ) -> Tensor:
        """The turns of who wrote a window, given as for `byte_window`."""
        if self._owner is None:
            count = (self.high - self.low) // self.itemsize
            self._owner = torch.full((count,), _NOBODY, dtype=torch.int16)
        if self.itemsize == itemsize:
            return self._owner.as_strided(sizes, strides, start - self.low // itemsize)
        byte_strides = [stride * itemsize for stride in strides]
        return self._owner.as_strided(
            (*sizes, itemsize), (*byte_strides, 1), start * itemsize - self.low
        )


def byte_range(tensor: Tensor) -> tuple[int, int]:
    """First and one past the last byte that a view covers in its storage."""
    if tensor.numel() == 0:
        return 0, 0
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    start = int(tensor.storage_offset())
    return start * tensor.itemsize, (start + last + 1) * tensor.itemsize


@dataclass
class Argument:
    """One memref during one launch. `is_overwritten`: some argument that is written overlaps it."""

    tensor: Tensor
    is_overwritten: bool
    shadow: Tensor | None
    owners: Owners | None = None

    def __post_init__(self) -> None:
        self.shape = tuple(self.tensor.shape)
        self.strides = self.tensor.stride()
        self.base = int(self.tensor.storage_offset())
        self.itemsize = self.tensor.itemsize

    def _start(self, offsets: Sequence[int], sizes: Sequence[int], site: str) -> int:
        """Where a window starts in the storage, in elements; raises OutOfBoundsError."""
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

    def read(self, offsets: tuple[int, ...], sizes: tuple[int, ...], site: str) -> Tensor:
        """The elements of a window. A copy only where a store of this launch could change them."""
        start = self._start(offsets, sizes, site)
        if self.shadow is not None:
            written = byte_window(self.shadow, sizes, self.strides, start, self.itemsize)
            self._require_written(written, offsets, sizes, site)
        window = self.tensor.as_strided(sizes, self.strides, start)
        return window.clone() if self.is_overwritten else window

    def read_at(
        self,
        dim: int,
        index: Tensor | int,
        offsets: tuple[int, ...],
        sizes: tuple[int, ...],
        site: str,
    ) -> Tensor:
        """A window whose positions in one dim come from an index; the index's dims replace it."""
        if isinstance(index, int):
            offsets = (*offsets[:dim], index, *offsets[dim + 1 :])
            return self.read(offsets, sizes, site).squeeze(dim)
        sizes = (*sizes[:dim], self.shape[dim], *sizes[dim + 1 :])
        start = self._start(offsets, sizes, site)
        positions = self._positions(dim, index, site)
        if self.shadow is not None:
            written = byte_window(self.shadow, sizes, self.strides, start, self.itemsize)
            self._require_written(written.index_select(dim, positions), offsets, sizes, site)
        window = self.tensor.as_strided(sizes, self.strides, start).index_select(dim, positions)
        return window.reshape(*sizes[:dim], *index.shape, *sizes[dim + 1 :])

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

    def write(self, tile: Tensor, offsets: tuple[int, ...], turn: int, site: str) -> None:
        """Put a tile at an offset. `turn` is the running core's, for the detection of races."""
        sizes = tuple(tile.shape)
        start = self._start(offsets, sizes, site)
        if self.owners is not None:
            owner = self.owners.window(sizes, self.strides, start, self.itemsize)
            self._require_own(owner, turn, offsets, sizes, site)
            owner.fill_(turn)
        self.tensor.as_strided(sizes, self.strides, start).copy_(tile)
        if self.shadow is not None:
            byte_window(self.shadow, sizes, self.strides, start, self.itemsize).fill_(True)

    def write_at(
        self,
        dim: int,
        index: Tensor | int,
        tile: Tensor,
        offsets: tuple[int, ...],
        turn: int,
        site: str,
    ) -> None:
        """Put the slices of a tile at the positions of an index; of equal ones the last stays."""
        if isinstance(index, int):
            offsets = (*offsets[:dim], index, *offsets[dim + 1 :])
            return self.write(tile.unsqueeze(dim), offsets, turn, site)
        positions = self._positions(dim, index, site)
        outer = (*tile.shape[:dim], *tile.shape[dim + index.ndim :])
        slices = tile.reshape(*outer[:dim], positions.numel(), *outer[dim:])
        for number, position in enumerate(map(int, positions)):
            at = (*offsets[:dim], position, *offsets[dim + 1 :])
            self.write(slices.narrow(dim, number, 1), at, turn, site)

    def _require_own(
        self,
        owner: Tensor,
        turn: int,
        offsets: Sequence[int],
        sizes: Sequence[int],
        site: str,
    ) -> None:
        if owner.numel() and int(owner.amin()) < turn:
            raise WriteRaceError(
                f"{site}: window {list(offsets)}{list(sizes)} has bytes that another core "
                "wrote in the same phase"
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
        _share_owners(arguments, [(n, ranges[n]) for n in targets])
    return arguments


def _overlap(a: tuple[int, int, int], b: tuple[int, int, int]) -> bool:
    return a[0] == b[0] and a[1] < b[2] and b[1] < a[2]


def _share_owners(
    arguments: list[Argument], targets: list[tuple[int, tuple[int, int, int]]]
) -> None:
    """Give every written argument the owners of its bytes, one object for those that overlap."""
    groups: list[tuple[tuple[int, int, int], list[int]]] = []
    for number, span in sorted(targets, key=lambda target: target[1]):
        if groups and _overlap(groups[-1][0], span):
            storage, low, high = groups[-1][0]
            groups[-1] = ((storage, low, max(high, span[2])), [*groups[-1][1], number])
        else:
            groups.append((span, [number]))
    for (_, low, high), members in groups:
        itemsize = arguments[members[0]].itemsize if len(members) == 1 else 1
        owners = Owners(low, high, itemsize)
        for number in members:
            arguments[number].owners = owners


def window_bytes(tile: Tensor) -> int:
    """What moving a tile costs DRAM."""
    return prod(tile.shape) * tile.itemsize
