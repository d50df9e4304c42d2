"""Layouts of values in IR."""

from __future__ import annotations

from functools import lru_cache

from xdsl.ir import Attribute

from lpu_mlir.dialects.lpu import element_type, extents, strides
from lpu_mlir.frontend.types import DTYPES
from lpu_mlir.memo import MEMO
from lpu_mlir.runtime.layout import Layout


@lru_cache(MEMO)
def layout_of(type: Attribute) -> Layout:
    """The layout of a tensor or memref."""
    return Layout(DTYPES[element_type(type)], extents(type), strides(type))
