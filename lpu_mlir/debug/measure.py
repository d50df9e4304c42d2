"""How far a value is from the one that eager PyTorch computed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

TOLERANCES = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1.3e-6, 1e-5),
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.complex128: (1e-7, 1e-7),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex32: (1e-3, 1e-5),
}
"""(relative, absolute) tolerance, as in `torch.testing.assert_close`; other dtypes are exact."""


class MismatchError(RuntimeError):
    """A compiled graph gave another result than eager PyTorch, or machine code another than the
    reference interpreter; see `options.interpreter`."""


@dataclass(frozen=True)
class Distance:
    """How a value is wrong: in kind, or by how much.

    `absolute` and `relative` are the largest errors of the `count` elements that differ by more
    than the tolerance, of `total`.  `nans` is how many are NaN on one side only.  `kind` says that
    the values cannot be compared at all, as when their shapes differ; it is empty otherwise.
    `raised` if there is no value: `kind` is the exception then.
    """

    kind: str = ""
    raised: bool = False
    absolute: float = math.inf
    relative: float = math.inf
    count: int = 0
    total: int = 0
    nans: int = 0

    def __str__(self) -> str:
        if self.kind:
            return self.kind
        nans = f", {self.nans:,} NaN on one side only" if self.nans else ""
        return (
            f"{self.count:,} of {self.total:,} elements differ, by at most {self.absolute:.3g} "
            f"absolute, {self.relative:.3g} relative{nans}"
        )


def distance(
    actual: Any,
    expected: Any,
    tolerance: float = 1.0,
    unit: float = 1.0,
    computed: Iterable[torch.dtype] = (),
) -> Distance | None:
    """None if the values agree, within `tolerance` times what `TOLERANCES` says.

    Tensors may differ by the absolute tolerance for every `unit`, and by as much as the coarsest of
    the dtypes in which they were `computed` may.
    """
    if isinstance(expected, Tensor) and isinstance(actual, Tensor):
        dtypes = (expected.dtype, *computed)
        allowed = max(TOLERANCES.get(dtype, (0.0, 0.0)) for dtype in dtypes)
        return _between_tensors(actual, expected, allowed, tolerance, unit)
    if isinstance(expected, float) and isinstance(actual, float):
        sides = [torch.tensor(value, dtype=torch.float64) for value in (actual, expected)]
        allowed = TOLERANCES[torch.float64]
        return _between_tensors(sides[0], sides[1], allowed, tolerance, unit)
    if type(actual) is type(expected) and actual == expected:
        return None
    return Distance(f"{actual!r} instead of {expected!r}")


def _between_tensors(
    actual: Tensor, expected: Tensor, allowed: tuple[float, float], tolerance: float, unit: float
) -> Distance | None:
    found, wanted = (f"{t.dtype} {tuple(t.shape)}" for t in (actual, expected))
    if found != wanted:
        return Distance(f"{found} instead of {wanted}")
    a, e = _exact(actual), _exact(expected)
    relative, absolute = allowed
    if e.is_floating_point() or e.is_complex():
        rtol, atol = relative * tolerance, absolute * tolerance * unit
        near = torch.isclose(a, e, rtol=rtol, atol=atol, equal_nan=True)
    else:
        near = a == e
    if bool(near.all()):
        return None
    a, e = a[~near], e[~near]
    error = (a - e).abs().to(torch.float64).nan_to_num(nan=0.0, posinf=math.inf)
    size = e.abs().to(torch.float64)
    return Distance(
        absolute=float(error.max()),
        relative=float((error / size).nan_to_num(nan=0.0, posinf=math.inf).max()),
        count=a.numel(),
        total=expected.numel(),
        nans=int((a.isnan() != e.isnan()).sum()),
    )


def _exact(tensor: Tensor) -> Tensor:
    """In a dtype in which differences can be taken."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    if tensor.is_floating_point():
        return tensor.to(torch.float64)
    return tensor.to(torch.int64) if tensor.dtype != torch.uint64 else tensor.view(torch.int64)
