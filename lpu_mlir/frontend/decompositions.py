"""How ATen operators are written in simpler ones, where PyTorch's own table will not do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, cast

import torch
from torch import _decomp
from torch._decomp import core_aten_decompositions
from torch.fx.experimental.symbolic_shapes import statically_known_true

from lpu_mlir.frontend import fused
from lpu_mlir.frontend.dtypes import overflows

aten = torch.ops.aten


def _power_of_two(x: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    """As in eager, 2 is a number beside the default dtype and integers.

    PyTorch's decomposition has a tensor of f32 there, to which it promotes 0-d exponents.
    """
    other = x.is_floating_point() or x.is_complex()
    other = other and x.dtype != torch.get_default_dtype()
    return torch.pow(x.new_full((), 2.0) if other else 2.0, exponent)


def ldexp(x: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    return x * _power_of_two(x, exponent)


def ldexp_(x: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    return x.mul_(_power_of_two(x, exponent))


def index_fill(x: torch.Tensor, dim: int, index: torch.Tensor, value: Any) -> Any:
    """Negative positions count from the end, which they do not for `index_copy`, PyTorch's way."""
    if index.dtype != torch.int64 or index.ndim > 1:
        return NotImplemented  # eager refuses it
    if not x.ndim:
        return index_fill(x.unsqueeze(0), 0, index, value).squeeze(0)
    if isinstance(value, int | float) and overflows(value, x.dtype):
        return NotImplemented
    if not isinstance(value, torch.Tensor):
        value = torch.full((), value, dtype=x.dtype, device=x.device)
    return aten.index_put(x, [*[None] * (dim % x.ndim), index], value.to(x.dtype))


def copied(view: Any) -> Callable[..., Any]:
    """A view as new tensors."""

    def rule(*args: Any, **kwargs: Any) -> Any:
        result = view(*args, **kwargs)
        if isinstance(result, torch.Tensor):
            return result.clone(memory_format=torch.contiguous_format)
        return [part.clone(memory_format=torch.contiguous_format) for part in result]

    return rule


COPIES: Mapping[Any, Any] = {
    aten._reshape_copy.default: aten.reshape.default,
    aten.as_strided_copy.default: aten.as_strided.default,
    aten.detach_copy.default: aten.detach.default,
    aten.narrow_copy.default: aten.narrow.default,
    aten.permute_copy.default: aten.permute.default,
    aten.select_copy.int: aten.select.int,
    aten.slice_copy.Tensor: aten.slice.Tensor,
    aten.split_copy.Tensor: aten.split.Tensor,
    aten.unbind_copy.int: aten.unbind.int,
    aten.view_copy.default: aten.reshape.default,  # of what cannot be viewed, too
}
"""Operators that copy what others give a view of."""


def native_dropout(
    x: torch.Tensor, p: float, train: bool | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """(x with some elements dropped, which are kept), as eager draws and scales them.

    NotImplemented, which leaves the operator as it is, where eager gives an error.  An empty mask
    is of booleans, as PyTorch's rules say, where eager's kernel gives one of the dtype of `x`.
    """
    nothing = statically_known_true(x.numel() == 0)
    if nothing or (train is not None and not train):
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    if not x.is_floating_point() or isinstance(p, torch.SymFloat):
        return NotImplemented
    keep = 1 - p
    kept = _drawn(x, keep)
    scale = x.new_full((), 1 / keep if keep else 0.0)  # rounded, in half precision
    return x * kept * scale, kept


def _drawn(x: torch.Tensor, p: float) -> torch.Tensor:
    """True with that probability: drawn in the order in which `x` is in memory."""
    like = torch.empty_like(x, dtype=torch.bool)
    if like.is_contiguous():
        return torch.bernoulli(like, p)
    order = sorted(range(like.ndim), key=lambda dim: (like.stride(dim), like.size(dim)))[::-1]
    back = sorted(range(like.ndim), key=order.__getitem__)
    return torch.bernoulli(like.permute(order), p).permute(back)


def affine_grid_generator(theta: torch.Tensor, size: Sequence[int], align_corners: bool) -> Any:
    """PyTorch's rule, which makes a constant of its own, of which there must be none, for one
    position; eager then runs the operator."""
    if any(statically_known_true(extent == 1) for extent in size[2:]):
        return NotImplemented
    rule: Any = getattr(_decomp, "decomposition_table")[aten.affine_grid_generator.default]
    return rule(theta, size, align_corners)


OWN: Mapping[Any, Callable[..., Any]] = {
    aten._scaled_dot_product_flash_attention_for_cpu.default: fused.attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default: fused.attention_backward,
    aten._native_multi_head_attention.default: fused.multi_head_attention,
    aten._transformer_encoder_layer_fwd.default: fused.transformer_encoder_layer,
    aten.mkldnn_rnn_layer.default: fused.recurrent_layer,
    aten.native_dropout.default: native_dropout,
    aten.affine_grid_generator.default: affine_grid_generator,
    aten.ldexp.Tensor: ldexp,
    aten.ldexp_.default: ldexp_,
    aten.index_fill.int_Scalar: index_fill,
    aten.index_fill.int_Tensor: index_fill,
    **{copy: copied(view) for copy, view in COPIES.items()},
}
"""Decompositions beside, or instead of, PyTorch's."""

BEYOND_CORE: Sequence[Any] = (
    aten.rrelu_with_noise_backward.default,
    aten.tril_indices.default,
    aten.triu_indices.default,
)
"""Operators of PyTorch's table that are not in that of core ATen."""

KEPT: Sequence[Any] = (
    # One rounding instead of two in half precision.
    aten.baddbmm.default,
    aten.addcmul.default,
    aten.addcdiv.default,
    # Products that accumulate in f32, instead of sums of rounded products.
    aten.dot.default,
    aten.mv.default,
    # Negative positions are errors.
    aten.index_add.default,
    aten.index_copy.default,
    # Numbers that the dtype does not have are errors.
    aten.masked_fill.Scalar,
    # Positions that only a run tells.
    aten.select_scatter.default,
    # Windows that overlap are views here.
    aten.im2col.default,
    # Views as they are: there are thousands, and to trace other views in their place takes time.
    aten.t.default,
    aten.transpose.int,
    aten._unsafe_view.default,
)
"""Operators that PyTorch would decompose and that are translated as they are."""


@cache
def decompositions() -> Mapping[Any, Callable[..., Any]]:
    """The table for AOTAutograd: PyTorch's decompositions to core ATen, changed as said above."""
    core = cast("dict[Any, Callable[..., Any]]", dict(core_aten_decompositions()))
    core |= cast("Any", _decomp).get_decompositions(BEYOND_CORE)
    return {op: rule for op, rule in core.items() if op not in KEPT} | dict(OWN)


class Decompositions(Mapping[Any, Callable[..., Any]]):
    """The same table, made when it is first looked at: not for a graph that comes from a cache."""

    def __getitem__(self, op: Any) -> Callable[..., Any]:
        return decompositions()[op]

    def __iter__(self) -> Iterator[Any]:
        return iter(decompositions())

    def __len__(self) -> int:
        return len(decompositions())
