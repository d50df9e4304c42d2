"""How ATen operators are written in simpler ones, where PyTorch's own table will not do."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor
from torch._decomp import core_aten_decompositions

from lpu_mlir.frontend.types import opmath

aten = torch.ops.aten


def attention_backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value; all are [batch, heads, length, features], and each head of
    key and value may serve several of the query.

    `logsumexp` is not used: PyTorch's decomposition of the forward operator gives something else
    in its place, which its own backward kernel then misreads.
    """
    dtype = opmath(query.dtype)
    heads = key.shape[1]
    q, k, v, o, d = (_grouped(t.to(dtype), heads) for t in (query, key, value, out, gradient))
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = torch.matmul(q, k.transpose(-2, -1)) * factor
    if is_causal:
        rows = torch.arange(query.shape[-2], device=query.device)
        columns = torch.arange(key.shape[-2], device=query.device)
        scores = scores.masked_fill(columns > rows.unsqueeze(-1), -math.inf)
    if attn_mask is not None:
        whole = attn_mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        scores = scores + _grouped(whole, heads)
    weights = torch.softmax(scores, -1)
    # A row that is masked out altogether has weights of 0.
    weights = torch.where((scores == -math.inf).all(-1, keepdim=True), 0.0, weights)
    through = torch.matmul(d, v.transpose(-2, -1)) - (d * o).sum(-1, keepdim=True)
    inner = weights * through * factor
    gradients = (
        torch.matmul(inner, k).flatten(1, 2),
        torch.matmul(inner.transpose(-2, -1), q).sum(2),
        torch.matmul(weights.transpose(-2, -1), d).sum(2),
    )
    q_grad, k_grad, v_grad = (g.to(query.dtype) for g in gradients)
    return q_grad, k_grad, v_grad


def _grouped(tensor: Tensor, heads: int) -> Tensor:
    """[batch, all heads, …] as [batch, heads of the key, query heads that share one, …]."""
    batch, total, *rest = tensor.shape
    return tensor.reshape(batch, heads, total // heads, *rest)


OWN: Mapping[Any, Callable[..., Any]] = {
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default: attention_backward,
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
)
"""Operators that PyTorch would decompose and that are translated as they are."""


@cache
def decompositions() -> Mapping[Any, Callable[..., Any]]:
    """The table for AOTAutograd: PyTorch's decompositions to core ATen, changed as said above."""
    core = cast("dict[Any, Callable[..., Any]]", dict(core_aten_decompositions()))
    return {op: rule for op, rule in core.items() if op not in KEPT} | dict(OWN)
