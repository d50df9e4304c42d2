"""How ATen operators are written in simpler ones, where PyTorch's own table will not do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, cast

import torch
from torch._decomp import core_aten_decompositions

from lpu_mlir.frontend import fused

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


OWN: Mapping[Any, Callable[..., Any]] = {
    aten._scaled_dot_product_flash_attention_for_cpu.default: fused.attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default: fused.attention_backward,
    aten._native_multi_head_attention.default: fused.multi_head_attention,
    aten._transformer_encoder_layer_fwd.default: fused.transformer_encoder_layer,
    aten.mkldnn_rnn_layer.default: fused.recurrent_layer,
    aten.ldexp.Tensor: ldexp,
    aten.ldexp_.default: ldexp_,
}
"""Decompositions beside, or instead of, PyTorch's."""

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
    return {op: rule for op, rule in core.items() if op not in KEPT} | dict(OWN)


class Decompositions(Mapping[Any, Callable[..., Any]]):
    """The same table, made when it is first looked at: not for a graph that comes from a cache."""

    def __getitem__(self, op: Any) -> Callable[..., Any]:
        return decompositions()[op]

    def __iter__(self) -> Iterator[Any]:
        return iter(decompositions())

    def __len__(self) -> int:
        return len(decompositions())
