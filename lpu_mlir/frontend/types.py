"""PyTorch dtypes as element types."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

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
from lpu_mlir.frontend.dtypes import wrapped
from lpu_mlir.memo import MEMO

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


@lru_cache(MEMO)
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
