"""The pure tile operations as functions of torch tensors that have exactly the tiles' extents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lpu_mlir.interpreter.reference.errors import ExtentError, OutOfBoundsError


def require_equal(what: str, actual: Sequence[int], expected: Sequence[int], site: str) -> None:
    """Raise ExtentError unless extents are as expected."""
    if tuple(actual) != tuple(expected):
        raise ExtentError(f"{site}: {what} has extents {list(actual)}, expected {list(expected)}")


def same_extents(tensor: Tensor, expected: Tensor, site: str) -> None:
    """Raise ExtentError unless a carried tile is as large as what it is combined with."""
    if tensor.shape != expected.shape:
        require_equal("the tile carried in", tensor.shape, expected.shape, site)


# --- folds --------------------------------------------------------------------------------------

COMBINE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "mul": torch.mul,
    "max": torch.maximum,
    "min": torch.minimum,
    "and": torch.bitwise_and,
    "or": torch.bitwise_or,
    "xor": torch.bitwise_xor,
}
"""How two elements combine; max and min yield NaN if either is."""


def lowest(dtype: torch.dtype) -> float | int | bool:
    """The identity of max."""
    if dtype == torch.bool:
        return False
    return -torch.inf if dtype.is_floating_point else torch.iinfo(dtype).min


def highest(dtype: torch.dtype) -> float | int | bool:
    """The identity of min."""
    if dtype == torch.bool:
        return True
    return torch.inf if dtype.is_floating_point else torch.iinfo(dtype).max


def _sum(tile: Tensor, dims: tuple[int, ...]) -> Tensor:
    return tile.sum(dims, dtype=tile.dtype)


def _product(tile: Tensor, dims: tuple[int, ...]) -> Tensor:
    for dim in sorted(dims, reverse=True):
        tile = tile.prod(dim, dtype=tile.dtype)
    return tile


def _without(shape: Sequence[int], dims: tuple[int, ...]) -> list[int]:
    return [size for dim, size in enumerate(shape) if dim not in dims]


def _largest(tile: Tensor, dims: tuple[int, ...]) -> Tensor:
    if tile.numel():
        return tile.amax(dims)
    return tile.new_full(_without(tile.shape, dims), lowest(tile.dtype))


def _smallest(tile: Tensor, dims: tuple[int, ...]) -> Tensor:
    if tile.numel():
        return tile.amin(dims)
    return tile.new_full(_without(tile.shape, dims), highest(tile.dtype))


def _bitwise(function: Any, logical: Any) -> Callable[[Tensor, tuple[int, ...]], Tensor]:
    def fold(tile: Tensor, dims: tuple[int, ...]) -> Tensor:
        chosen = logical if tile.dtype == torch.bool else function
        array: Any = np.asarray(tile)
        return torch.as_tensor(np.asarray(chosen.reduce(array, axis=dims), dtype=array.dtype))

    return fold


FOLD: dict[str, Callable[[Tensor, tuple[int, ...]], Tensor]] = {
    "add": _sum,
    "mul": _product,
    "max": _largest,
    "min": _smallest,
    "and": _bitwise(np.bitwise_and, np.logical_and),
    "or": _bitwise(np.bitwise_or, np.logical_or),
    "xor": _bitwise(np.bitwise_xor, np.logical_xor),
}


def fold(kind: str, dims: tuple[int, ...], site: str) -> Callable[..., Tensor]:
    """A function of the tile and, if there is one, the accumulator."""
    reduce, combine = FOLD[kind], COMBINE[kind]
    if not dims:
        # For torch no dims are all dims.
        reduce = _keep

    def run(tile: Tensor, acc: Tensor | None = None) -> Tensor:
        result = reduce(tile, dims)
        if acc is None:
            return result
        same_extents(acc, result, site)
        return combine(acc, result)

    return run


def _keep(tile: Tensor, dims: tuple[int, ...]) -> Tensor:
    return tile


# --- arg_fold and scan --------------------------------------------------------------------------


def arg_fold(kind: str, dim: int, site: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """A function of the tile, its offset and, if there is one, the accumulated pair."""
    largest = kind == "max"

    def run(
        tile: Tensor, offset: int, values: Tensor | None = None, indices: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        if tile.shape[dim] == 0:
            if values is None or indices is None:
                raise ExtentError(f"{site}: the extreme of nothing has no position")
            return values, indices
        # torch has no argmax of bool.
        keys = tile.to(torch.uint8) if tile.dtype == torch.bool else tile
        where = (keys.argmax if largest else keys.argmin)(dim, keepdim=True)
        here, position = tile.gather(dim, where).squeeze(dim), where.squeeze(dim) + offset
        if values is None or indices is None:
            return here, position
        same_extents(values, here, site)
        same_extents(indices, here, site)
        better = _is_better(largest, here, position, values, indices)
        return torch.where(better, here, values), torch.where(better, position, indices)

    return run


def _is_better(
    largest: bool, new: Tensor, new_index: Tensor, old: Tensor, old_index: Tensor
) -> Tensor:
    """NaN beats every number, then the extreme counts, then the lower index."""
    new_nan, old_nan = new != new, old != old
    beats = new > old if largest else new < old
    ties = (new == old) | (new_nan & old_nan)
    return (new_nan & ~old_nan) | (beats & ~old_nan) | (ties & (new_index < old_index))


SCAN: dict[str, Callable[[Tensor, int], Tensor]] = {
    "add": lambda tile, dim: tile.cumsum(dim, dtype=tile.dtype),
    "mul": lambda tile, dim: tile.cumprod(dim, dtype=tile.dtype),
    "max": lambda tile, dim: tile.cummax(dim).values,
    "min": lambda tile, dim: tile.cummin(dim).values,
}


def scan(kind: str, dim: int, site: str) -> Callable[..., Tensor]:
    """A function of the tile and, if there is one, the carry."""
    prefixes, combine = SCAN[kind], COMBINE[kind]

    def run(tile: Tensor, carry: Tensor | None = None) -> Tensor:
        result = prefixes(tile, dim)
        if carry is None:
            return result
        require_equal("the carry", carry.shape, _without(tile.shape, (dim,)), site)
        return combine(carry.unsqueeze(dim), result)

    return run


# --- contract -----------------------------------------------------------------------------------


def contract(
    lhs_dims: tuple[int, ...],
    rhs_dims: tuple[int, ...],
    rank: int,
    dtype: torch.dtype,
    site: str,
) -> Callable[..., Tensor]:
    """A function of the two operands and, if there is one, the accumulator."""
    multiply = _matrix_product(lhs_dims, rhs_dims, rank) or _einsum(lhs_dims, rhs_dims, rank)
    shared = [
        (lhs_dims.index(dim), rhs_dims.index(dim), dim) for dim in lhs_dims if dim in rhs_dims
    ]

    def run(lhs: Tensor, rhs: Tensor, acc: Tensor | None = None) -> Tensor:
        for of_lhs, of_rhs, dim in shared:
            if lhs.shape[of_lhs] != rhs.shape[of_rhs]:
                raise ExtentError(
                    f"{site}: dim {dim} has extent {lhs.shape[of_lhs]} in the first operand "
                    f"and {rhs.shape[of_rhs]} in the second"
                )
        result = multiply(lhs.to(dtype), rhs.to(dtype))
        if acc is None:
            return result
        same_extents(acc, result, site)
        return torch.add(acc, result)

    return run


def _matrix_product(
    lhs_dims: tuple[int, ...], rhs_dims: tuple[int, ...], rank: int
) -> Callable[[Tensor, Tensor], Tensor] | None:
    """The plain product of two matrices, for which einsum costs more than the arithmetic."""
    plain: dict[tuple[tuple[int, ...], tuple[int, ...]], Callable[[Tensor, Tensor], Tensor]] = {
        ((0, 2), (2, 1)): torch.mm,
        ((0, 2), (1, 2)): lambda a, b: torch.mm(a, b.t()),
        ((2, 0), (2, 1)): lambda a, b: torch.mm(a.t(), b),
        ((2, 0), (1, 2)): lambda a, b: torch.mm(a.t(), b.t()),
    }
    return plain.get((lhs_dims, rhs_dims)) if rank == 2 else None


def _einsum(
    lhs_dims: tuple[int, ...], rhs_dims: tuple[int, ...], rank: int
) -> Callable[[Tensor, Tensor], Tensor]:
    letters = {dim: chr(ord("a") + n) for n, dim in enumerate({*lhs_dims, *rhs_dims})}
    lhs = "".join(letters[dim] for dim in lhs_dims)
    rhs = "".join(letters[dim] for dim in rhs_dims)
    equation = f"{lhs},{rhs}->{''.join(letters[dim] for dim in range(rank))}"
    return lambda a, b: torch.einsum(equation, a, b)


# --- slices and arrangement ---------------------------------------------------------------------


def slice_tile(tile: Tensor, offsets: tuple[int, ...], sizes: tuple[int, ...], site: str) -> Tensor:
    """Part of a tile; raises OutOfBoundsError if it reaches beyond the extents."""
    shape = tile.shape
    for dim, (offset, size) in enumerate(zip(offsets, sizes, strict=True)):
        if offset < 0 or size < 0 or offset + size > shape[dim]:
            raise OutOfBoundsError(
                f"{site}: slice {list(offsets)}{list(sizes)} reaches outside the tile's "
                f"extents {list(shape)}"
            )
        if size != shape[dim]:
            tile = tile.narrow(dim, offset, size)
    return tile


def windows(
    along: Sequence[int], steps: Sequence[int], site: str
) -> Callable[[Tensor, tuple[int, ...]], Tensor]:
    """A function of a tile and extents: the view whose dims move along dims of the tile by steps;
    raises OutOfBoundsError if it reaches beyond the tile's extents."""

    def view(tile: Tensor, sizes: tuple[int, ...]) -> Tensor:
        needed = [1] * tile.dim()
        for size, dim, step in zip(sizes, along, steps, strict=True):
            needed[dim] += (size - 1) * step
        if min(sizes) > 0 and any(n > e for n, e in zip(needed, tile.shape, strict=True)):
            raise OutOfBoundsError(
                f"{site}: windows of {list(sizes)} need extents {needed} of a tile with "
                f"{list(tile.shape)}"
            )
        own = tile.stride()
        strides = [own[dim] * step for dim, step in zip(along, steps, strict=True)]
        return tile.as_strided(sizes, strides)

    return view


def arranged(dims: tuple[int, ...], rank: int) -> Callable[[Tensor], Tensor] | None:
    """
    How to view a tile so that its dims line up with those of a map of this rank by broadcasting;
    None if they do as they are.
    """
    order = sorted(range(len(dims)), key=lambda n: dims[n])
    present = [dims[n] for n in order]
    # Broadcasting adds the leading ones.
    missing = [dim for dim in range(min(present, default=rank), rank) if dim not in present]
    permuted = order != list(range(len(dims)))
    if not permuted and not missing:
        return None
    lead = min(present, default=rank)

    def arrange(tile: Tensor) -> Tensor:
        if permuted:
            tile = tile.permute(order)
        for dim in missing:
            tile = tile.unsqueeze(dim - lead)
        return tile

    return arrange
