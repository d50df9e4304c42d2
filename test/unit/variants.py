"""Other layouts and other values of a tensor: what operators must take like any other input."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

Variant = Callable[[Tensor], Tensor | None]
"""A tensor like the given one, or None where that makes no difference."""

UNUSUAL = (float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1.0, -1.5)


def _placed(x: Tensor, strides: list[int], offset: int, length: int) -> Tensor:
    """The values of x at other places of a new storage, whose other elements are 1."""
    made = x.new_ones(length).as_strided(x.shape, strides, offset)
    return made.copy_(x)


def _dense(shape: tuple[int, ...]) -> list[int]:
    """Strides of a contiguous tensor."""
    strides, size = list[int](), 1
    for extent in reversed(shape):
        strides.insert(0, size)
        size *= extent
    return strides


def strided(x: Tensor) -> Tensor | None:
    """Every second element of the storage, from the fourth on."""
    if x.layout != torch.strided or not x.numel() or not x.dim():
        return None
    return _placed(x, [2 * s for s in _dense(x.shape)], 3, 2 * x.numel() + 3)


def transposed(x: Tensor) -> Tensor | None:
    """The first dim is the innermost."""
    if x.layout != torch.strided or x.dim() < 2 or not x.numel():
        return None
    strides = list(reversed(_dense(tuple(reversed(x.shape)))))
    return _placed(x, strides, 0, x.numel())


def offset(x: Tensor) -> Tensor | None:
    """In the middle of a storage."""
    if x.layout != torch.strided:
        return None
    return _placed(x, _dense(x.shape), 5, x.numel() + 9)


def expanded(x: Tensor) -> Tensor | None:
    """All rows are the first, in one place of memory."""
    if x.layout != torch.strided or not x.dim() or x.shape[0] < 2:
        return None
    return x[:1].clone().expand(x.shape)


def empty(x: Tensor) -> Tensor | None:
    if x.layout != torch.strided or not x.dim():
        return None
    return x[:0].clone()


def zero_dim(x: Tensor) -> Tensor | None:
    if x.layout != torch.strided or not x.dim() or not x.numel():
        return None
    return x.flatten()[0].clone()


def non_finite(x: Tensor) -> Tensor | None:
    """NaN, infinities and zeros of both signs in every second place."""
    if x.layout != torch.strided or not x.is_floating_point() or not x.numel():
        return None
    made = x.detach().clone(memory_format=torch.contiguous_format)
    places = made.view(-1)[::2]
    values = torch.tensor(UNUSUAL, dtype=x.dtype)
    places.copy_(values.repeat(len(places) // len(values) + 1)[: len(places)])
    return made


VARIANTS: Mapping[str, Variant] = {
    "strided": strided,
    "transposed": transposed,
    "offset": offset,
    "expanded": expanded,
    "empty": empty,
    "0-d": zero_dim,
    "non-finite": non_finite,
}
