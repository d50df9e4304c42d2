"""Tensors that a file can name: made from a seed, or stored as plain bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor


def generate(dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int], seed: int) -> Tensor:
    """A tensor with this layout: normal numbers, or 0 and 1 if the dtype is not of floats."""
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point or dtype.is_complex:
        values = torch.randn(list(shape), generator=generator, dtype=torch.float64).to(dtype)
    else:
        values = torch.randint(0, 2, list(shape), generator=generator).to(dtype)
    return with_strides(values, strides)


def with_strides(values: Tensor, strides: Sequence[int]) -> Tensor:
    """The same values with other strides; elements that overlap have that of one of them."""
    if values.numel() == 0:
        return values.new_empty_strided(values.shape, list(strides))
    ends = zip(values.shape, strides, strict=True)
    storage = values.new_zeros(1 + sum((size - 1) * stride for size, stride in ends))
    view = storage.as_strided(values.shape, list(strides))
    index = torch.arange(storage.numel()).as_strided(values.shape, list(strides))
    storage[index.reshape(-1)] = values.reshape(-1)
    return view


def save(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes the elements of tensors, in row-major order, to an .npz file of bytes."""
    arrays = {name: _bytes(tensor) for name, tensor in tensors.items()}
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def _bytes(tensor: Tensor) -> Any:
    dense = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return dense.reshape(-1).view(torch.uint8).numpy()


def load(
    path: Path, name: str, dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int]
) -> Tensor:
    """The tensor that was saved under a name, in this layout; KeyError if there is none."""
    with np.load(path, allow_pickle=False) as arrays:
        if 0 in shape:
            return torch.empty_strided(list(shape), list(strides), dtype=dtype)
        data = torch.frombuffer(bytearray(arrays[name].tobytes()), dtype=torch.uint8)
    return with_strides(data.view(dtype).reshape(list(shape)), strides)
