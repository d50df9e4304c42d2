"""PyTorch's dtypes and its type promotion."""

from __future__ import annotations

import math
from functools import cache

import torch

TAKEN = frozenset(
    (
        *(torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.bool),
        *(torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8),
        *(torch.complex32, torch.complex64, torch.complex128),
        *(torch.uint16, torch.uint32, torch.uint64),
    )
)
"""What programs take; `types.ELEMENTS` has the types in IR."""
HALVES = frozenset((torch.bfloat16, torch.float16))
INTEGERS = frozenset((torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8))

DIMENSIONED, ZERO_DIM, NUMBER = 0, 1, 2
"""How strongly an operand takes part in promotion: tensors, 0-d tensors, Python numbers."""


def opmath(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which eager's kernels compute: f32 for half precision."""
    return torch.float32 if dtype in HALVES else dtype


def number_dtype(value: bool | float) -> torch.dtype:
    """The dtype with which a Python number takes part in promotion."""
    if isinstance(value, bool):
        return torch.bool
    return torch.int64 if isinstance(value, int) else torch.get_default_dtype()


@cache
def promote(*operands: tuple[torch.dtype, int]) -> torch.dtype:
    """`torch.result_type` of operands given as (dtype, DIMENSIONED | ZERO_DIM | NUMBER).

    A weaker group counts only if its kind (bool, integer, float) is higher than the stronger one's.
    """
    result: torch.dtype | None = None
    for strength in (DIMENSIONED, ZERO_DIM, NUMBER):
        group: torch.dtype | None = None
        for dtype, operand_strength in operands:
            if operand_strength == strength:
                group = dtype if group is None else torch.promote_types(group, dtype)
        if group is not None:
            result = group if result is None else _combine(result, group)
    if result is None:
        raise ValueError("promotion needs an operand")
    return result


def _combine(stronger: torch.dtype, weaker: torch.dtype) -> torch.dtype:
    if stronger.is_complex or (stronger.is_floating_point and not weaker.is_complex):
        return stronger
    if stronger == torch.bool or weaker.is_floating_point or weaker.is_complex:
        return torch.promote_types(stronger, weaker)
    return stronger


def wrapped(value: bool | float, dtype: torch.dtype) -> int:
    """The number converted to an integer dtype."""
    info = torch.iinfo(dtype)
    if not math.isfinite(value):
        return info.min if info.bits >= 32 else 0  # what x86 makes of it
    value = int(value)
    return (value - info.min) % (1 << info.bits) + info.min


def overflows(value: bool | float, dtype: torch.dtype) -> bool:
    """Whether eager refuses to convert a number to a dtype.

    Negative ones wrap in unsigned integers, as far as these go.
    """
    if dtype == torch.bool:
        return False
    if dtype.is_floating_point:
        return math.isfinite(value) and abs(value) > torch.finfo(dtype).max
    info = torch.iinfo(dtype)
    return not (info.min or -info.max) <= value <= info.max
