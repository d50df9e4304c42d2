"""Every ATen overload that is native: overload -> the function that translates it.

To add one: an entry in its family's table, a function, a test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from lpu_mlir.frontend import (
    convolution,
    creation,
    distance,
    indexing,
    matmul,
    order,
    padding,
    pointwise,
    pooling,
    reduce,
    sampling,
    views,
)
from lpu_mlir.frontend.builder import Tensors

Handler: TypeAlias = Callable[..., Tensors]

HANDLERS: Mapping[Any, Handler] = {
    **pointwise.HANDLERS,
    **reduce.HANDLERS,
    **views.HANDLERS,
    **creation.HANDLERS,
    **matmul.HANDLERS,
    **indexing.HANDLERS,
    **order.HANDLERS,
    **convolution.HANDLERS,
    **pooling.HANDLERS,
    **distance.HANDLERS,
    **sampling.HANDLERS,
    **padding.HANDLERS,
}

BY_NAME: Mapping[str, Handler] = {
    "transformers.grouped_mm_fallback.default": matmul.grouped,
}
"""Operators of other libraries, which exist only once those have been imported."""
