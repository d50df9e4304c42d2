"""Layouts of values in IR."""

from __future__ import annotations

from functools import cache

from xdsl.ir import Attribute

from lpu_mlir.dialects.lpu import element_type, extents, strides
from lpu_mlir.frontend.types import DTYPES
from lpu_mlir.runtime.layout import Layout


@cache
def layout_of(type: Attribute) -> Layout:
    """The layout of a tensor or memref."""
    return Layout(DTYPES[element_type(type)], extents(type), strides(type))
