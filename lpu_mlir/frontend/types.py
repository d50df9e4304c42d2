"""PyTorch dtypes as element types, and PyTorch's type promotion."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache

import torch
from xdsl.dialects.builtin import (
    BoolAttr,
    ComplexType,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    bf16,
    f16,
    f32,
    f64,
)
from xdsl.ir import Attribute

from lpu_mlir.dialects.lpu import i1, i8, i16, i32, i64, ui8

NATIVE: Mapping[torch.dtype, Attribute] = {
    torch.float32: f32,
    torch.float64: f64,
    torch.bfloat16: bf16,
    torch.float16: f16,
    torch.bool: i1,
    torch.int8: i8,
    torch.int16: i16,
    torch.int32: i32,
    torch.int64: i64,
    torch.uint8: ui8,
}
"""What the LPU computes with."""

HOST_ONLY: Mapping[torch.dtype, Attribute] = {
    torch.complex32: ComplexType(f16),
    torch.complex64: ComplexType(f32),
    torch.complex128: ComplexType(f64),
    torch.uint16: IntegerType(16, Signedness.UNSIGNED),
    torch.uint32: IntegerType(32, Signedness.UNSIGNED),
    torch.uint64: IntegerType(64, Signedness.UNSIGNED),
}
"""What may pass through a program, from and to host calls."""

ELEMENTS: Mapping[torch.dtype, Attribute] = {**NATIVE, **HOST_ONLY}
DTYPES: Mapping[Attribute, torch.dtype] = {e: d for d, e in ELEMENTS.items()}
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


@cache
def _constant(
    value: bool | float, kind: type, sign: bool, element: Attribute
) -> IntegerAttr | FloatAttr:
    del kind, sign  # part of the key: 1 == 1.0 == True and 0.0 == -0.0
    dtype = DTYPES[element]
    if dtype == torch.bool:
        return BoolAttr.from_bool(bool(value))
    if dtype.is_floating_point:
        return FloatAttr(float(value), element)  # pyright: ignore[reportArgumentType, reportCallIssue]
    return IntegerAttr(wrapped(value, dtype), element)  # pyright: ignore[reportArgumentType, reportCallIssue]


def constant(value: bool | float, element: Attribute) -> IntegerAttr | FloatAttr:
    """The attribute of a number converted to an element type; integers wrap as in `Tensor.to`."""
    return _constant(value, type(value), str(value).startswith("-"), element)


def wrapped(value: bool | float, dtype: torch.dtype) -> int:
    """The number converted to an integer dtype."""
    info = torch.iinfo(dtype)
    if not math.isfinite(value):
        return info.min if info.bits >= 32 else 0  # what x86 makes of it
    value = int(value)
    return (value - info.min) % (1 << info.bits) + info.min
