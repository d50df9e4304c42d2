"""Dtypes, extents and strides: of what programs take, make and return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._C._dynamo.guards import TensorGuards

from lpu_mlir.dialects.expr import Expr, product
from lpu_mlir.runtime.numbers import Symbols, numbers


@dataclass(frozen=True)
class Layout:
    """The layout that the program was compiled for: dtype, extents and strides."""

    dtype: torch.dtype
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]

    @property
    def bytes(self) -> Expr:
        """What the elements take, each counted once."""
        return product(self.shape) * self.dtype.itemsize

    def bound(self, values: Symbols) -> BoundLayout:
        """The layout for these values of the symbols."""
        return BoundLayout(self.dtype, numbers(self.shape)(values), numbers(self.strides)(values))


@dataclass(frozen=True)
class BoundLayout:
    """A layout in numbers."""

    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    def empty(self) -> Tensor:
        return torch.empty_strided(self.sizes, self.strides, dtype=self.dtype, device="cpu")

    def lay_out(self, tensor: Tensor) -> Tensor:
        """The tensor in this layout: a copy if it is in another."""
        return tensor if self.matches(tensor) else self.empty().copy_(tensor)

    def matches(self, tensor: Tensor) -> bool:
        """Whether a tensor is laid out so; strides of extents below 2 do not matter."""
        if tensor.shape != self.sizes or tensor.dtype != self.dtype:
            return False
        pairs = zip(self.sizes, self.strides, tensor.stride(), strict=True)
        return 0 in self.sizes or all(size < 2 or want == got for size, want, got in pairs)

    def as_compiled(self, tensor: Tensor, position: int) -> Tensor:
        """Argument `position` with its own values in memory: without lazy conjugation, negation or
        zeros; ValueError if it is laid out otherwise."""
        if tensor.is_neg() or tensor.is_conj() or is_zero(tensor):
            return self.empty().copy_(tensor.resolve_conj().resolve_neg())
        if not self.matches(tensor):
            raise ValueError(
                f"argument {position} is {tensor.dtype} {tuple(tensor.shape)} with strides "
                f"{tensor.stride()}; the program was compiled for {self.dtype} {self.sizes} "
                f"with strides {self.strides}"
            )
        return tensor


class ArgumentLayouts:
    """The layouts of all arguments of a program."""

    def __init__(self, layouts: Sequence[BoundLayout]):
        self._layouts = layouts
        self._accepted: TensorGuards | None = None

    def __getitem__(self, position: int) -> BoundLayout:
        return self._layouts[position]

    def accept(self, tensors: list[Tensor]) -> list[Tensor]:
        """The tensors as the program takes them, those that are lazy with memory of their own.

        ValueError for one that is laid out otherwise.
        """
        accepted = self._accepted
        if accepted is not None and accepted.check(*tensors):
            return tensors
        pairs = zip(tensors, self._layouts, strict=True)
        with torch.no_grad():
            taken = [layout.as_compiled(t, n) for n, (t, layout) in enumerate(pairs)]
        if all(mine is given for mine, given in zip(taken, tensors, strict=True)):
            self._accepted = guards_of(tensors)
        return taken


def guards_of(tensors: Sequence[Tensor]) -> TensorGuards:
    """What Dynamo compares at once of many tensors, twenty times as fast as Python: types, dtypes,
    sizes, strides, and dispatch keys, which tell lazy ones."""
    # PyTorch's annotations have neither the tensors nor the lists for each.
    make: Any = TensorGuards
    return make(
        *tensors,
        dynamic_dims_sizes=[list(tensor.shape) for tensor in tensors],
        dynamic_dims_strides=[list(tensor.stride()) for tensor in tensors],
    )


def is_zero(tensor: Tensor) -> bool:
    """Whether it is one of PyTorch's tensors of zeros that have no memory."""
    return tensor._is_zerotensor()
