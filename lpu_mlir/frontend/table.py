"""Every ATen overload that is native: overload -> the function that translates it.

To add one: an entry in its family's table, a function, a test.  What cannot have one says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch

from lpu_mlir.frontend import (
    bags,
    convolution,
    creation,
    distance,
    indexing,
    masks,
    matmul,
    order,
    padding,
    pointwise,
    pooling,
    reduce,
    sampling,
    scattering,
    searching,
    views,
)
from lpu_mlir.frontend.builder import Tensors

aten = torch.ops.aten
Handler: TypeAlias = Callable[..., Tensors]

HANDLERS: Mapping[Any, Handler] = {
    **pointwise.HANDLERS,
    **reduce.HANDLERS,
    **views.HANDLERS,
    **creation.HANDLERS,
    **matmul.HANDLERS,
    **indexing.HANDLERS,
    **scattering.HANDLERS,
    **masks.HANDLERS,
    **bags.HANDLERS,
    **order.HANDLERS,
    **searching.HANDLERS,
    **convolution.HANDLERS,
    **pooling.HANDLERS,
    **distance.HANDLERS,
    **sampling.HANDLERS,
    **padding.HANDLERS,
}

_DRAWS = "it draws from PyTorch's generator, so that a seed gives the numbers that it gives eager"
_TIES = "which of equal values it takes is known to eager alone"
_COMPLEX = "complex numbers are kept and computed on the host"

ON_HOST: Mapping[Any, str] = {
    aten._local_scalar_dense.default: "a number read by Python",
    aten.nonzero.default: "how many elements it finds depends on data",
    aten.topk.default: _TIES,
    aten.kthvalue.default: _TIES,
    aten.mode.default: _TIES,
    aten.rand.default: _DRAWS,
    aten.randn.default: _DRAWS,
    aten.randperm.default: _DRAWS,
    aten._fft_r2c.default: _COMPLEX,
    aten._fft_c2r.default: _COMPLEX,
    aten._fft_c2c.default: _COMPLEX,
}
"""Overloads that have no native form on principle -> the reason."""


def why_on_host(target: Any) -> str:
    """Why an operator without a handler runs in eager PyTorch."""
    draws = torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())
    return ON_HOST.get(target, _DRAWS if draws else "no native form of this operator")


BY_NAME: Mapping[str, Handler] = {
    "transformers.grouped_mm_fallback.default": matmul.grouped,
}
"""Operators of other libraries, which exist only once those have been imported."""
