"""Which bytes of the buffers of one program run have been written."""

from __future__ import annotations

import torch
from torch import Tensor

_PATTERN = 0xA5


class Memory:
    """
    One shadow byte per byte of every storage that was ever poisoned. A storage that never was
    counts as written: inputs and weights cost nothing.

    An object belongs to one run of one program, and so to one thread. It keeps the storages it
    tracks alive, so that no address is reused while it is known as unwritten.
    """

    def __init__(self) -> None:
        self._shadows: dict[int, tuple[torch.UntypedStorage, Tensor]] = {}

    def poison(self, tensor: Tensor) -> None:
        """
        Mark the bytes of a view unwritten and fill it with what shows up when it is read all the
        same: NaN, the byte 0xA5 repeated, True.
        """
        if tensor.numel() == 0:
            return
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._shadows:
            shadow = torch.ones(storage.nbytes(), dtype=torch.bool)
            self._shadows[storage.data_ptr()] = (storage, shadow)
        tensor.fill_(_poison_value(tensor.dtype))
        self._bytes(tensor).fill_(False)

    def mark_written(self, tensor: Tensor) -> None:
        """Say that the bytes of a view have been written by something that is not a kernel."""
        if tensor.numel() and self.shadow(tensor) is not None:
            self._bytes(tensor).fill_(True)

    def is_written(self, tensor: Tensor) -> bool:
        """Whether every byte of a view has been written."""
        untracked = tensor.numel() == 0 or self.shadow(tensor) is None
        return untracked or bool(self._bytes(tensor).all())

    def forget(self, tensor: Tensor) -> None:
        """Stop tracking a view's storage, which from then on counts as written."""
        self._shadows.pop(tensor.untyped_storage().data_ptr(), None)

    def shadow(self, tensor: Tensor) -> Tensor | None:
        """The shadow of a view's whole storage, bool per byte, or None if it is not tracked."""
        entry = self._shadows.get(tensor.untyped_storage().data_ptr())
        return None if entry is None else entry[1]

    def _bytes(self, tensor: Tensor) -> Tensor:
        """The shadow of exactly a view's bytes: its shape with the bytes of an element last."""
        shadow = self.shadow(tensor)
        assert shadow is not None
        return byte_window(
            shadow, tensor.shape, tensor.stride(), int(tensor.storage_offset()), tensor.itemsize
        )


def byte_window(
    shadow: Tensor,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    start: int,
    itemsize: int,
) -> Tensor:
    """
    The part of a per-byte tensor that belongs to a strided window of elements. Strides and start
    are in elements; the result has one more dim, the bytes of each element.
    """
    byte_strides = [stride * itemsize for stride in strides]
    return shadow.as_strided((*sizes, itemsize), (*byte_strides, 1), start * itemsize)


def _poison_value(dtype: torch.dtype) -> float | int | bool:
    if dtype.is_floating_point or dtype.is_complex:
        return float("nan")
    if dtype == torch.bool:
        return True
    value = int.from_bytes(bytes([_PATTERN] * dtype.itemsize))
    return value if value <= torch.iinfo(dtype).max else value - (1 << 8 * dtype.itemsize)
