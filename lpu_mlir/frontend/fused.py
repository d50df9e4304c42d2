"""PyTorch's fused CPU operators, which are not core ATen, written in plain ones.

Each function takes what the operator takes and gives what it gives; eager is the reference for what
masks and modes mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from lpu_mlir.frontend.dtypes import opmath

aten = torch.ops.aten

# --- attention ----------------------------------------------------------------------------------


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """(output, weights) of query, key and value [batch, heads, length, features].

    The output is laid out as the operator's is, like the query: what follows may be a view that
    other strides do not allow. PyTorch's own decomposition has other strides.
    """
    output, weights = aten._scaled_dot_product_attention_math.default(
        query, key, value, attn_mask, dropout_p, is_causal,
        scale=scale, enable_gqa=query.shape[1] != key.shape[1],
    )  # fmt: skip
    return aten.copy.default(torch.empty_like(query), output), weights


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


def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """(output, attention weights if wanted) of inputs [batch, length, features].

    A mask hides what it covers where it is not 0; `mask_type` says over which dims it is: 0 for
    [queries, keys], 1 for [batch, keys], 2 for [batch, heads, queries, keys].
    """
    features = embed_dim // num_head

    def project(x: Tensor, position: int) -> Tensor:
        rows = slice(position * embed_dim, (position + 1) * embed_dim)
        heads = F.linear(x, qkv_weight[rows], qkv_bias[rows])
        return heads.reshape(*x.shape[:2], num_head, features).transpose(1, 2)

    q, k, v = project(query, 0), project(key, 1), project(value, 2)
    scores = torch.matmul(q / math.sqrt(features), k.transpose(-2, -1))
    if mask is not None:
        hidden = mask.to(torch.bool)
        if mask_type == 1:
            hidden = hidden[:, None, None, :]
        scores = scores.masked_fill(hidden, -math.inf)
    attention = torch.softmax(scores, -1)
    out = F.linear(torch.matmul(attention, v).transpose(1, 2).flatten(2), proj_weight, proj_bias)
    if not need_weights:
        return out, None
    return out, attention.mean(1) if average_attn_weights else attention


def transformer_encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """What nn.TransformerEncoderLayer computes in eval mode; `src` is [batch, length, features]."""

    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), weight, bias, eps)

    def attend(x: Tensor) -> Tensor:
        return multi_head_attention(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias,
            mask, need_weights=False, mask_type=mask_type,
        )[0]  # fmt: skip

    def feed_forward(x: Tensor) -> Tensor:
        inner = F.linear(x, ffn_weight_1, ffn_bias_1)
        inner = F.gelu(inner) if use_gelu else torch.relu(inner)
        return F.linear(inner, ffn_weight_2, ffn_bias_2)

    if norm_first:
        x = src + attend(norm(src, norm_weight_1, norm_bias_1))
        return x + feed_forward(norm(x, norm_weight_2, norm_bias_2))
    x = norm(src + attend(src), norm_weight_1, norm_bias_1)
    return norm(x + feed_forward(x), norm_weight_2, norm_bias_2)


# --- recurrent layers ---------------------------------------------------------------------------

LSTM = 2
"""The mode of `mkldnn_rnn_layer` that is an LSTM, the only one PyTorch uses it for."""


def recurrent_layer(
    x: Tensor,
    input_weight: Tensor,
    hidden_weight: Tensor,
    input_bias: Tensor,
    hidden_bias: Tensor,
    hidden: Tensor,
    cell: Tensor,
    reverse: bool,
    batch_sizes: Sequence[int],
    mode: int,
    hidden_size: int,
    num_layers: int,
    has_biases: bool,
    bidirectional: bool,
    batch_first: bool,
    train: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(outputs, last hidden, last cell, nothing) of an LSTM over `x` [steps, batch, features].

    Its steps are written one after the other, so their number must be known; NotImplemented, which
    leaves the operator as it is, if it is not, or for a form that PyTorch does not make.
    """
    one_layer = num_layers == 1 and not bidirectional and not batch_first and not batch_sizes
    if mode != LSTM or not one_layer or isinstance(x.shape[0], torch.SymInt):
        return NotImplemented
    inputs = F.linear(x, input_weight, input_bias if has_biases else None)
    bias = hidden_bias if has_biases else None
    h, c = hidden.squeeze(0), cell.squeeze(0)
    steps: list[Tensor] = list(inputs.unbind(0))
    outputs: list[Tensor] = []
    for step in reversed(steps) if reverse else steps:
        gates = step + F.linear(h, hidden_weight, bias)
        enter, forget, new, leave = gates.chunk(4, -1)
        c = torch.sigmoid(forget) * c + torch.sigmoid(enter) * torch.tanh(new)
        h = torch.sigmoid(leave) * torch.tanh(c)
        outputs.append(h)
    if reverse:
        outputs.reverse()
    return torch.stack(outputs), h.unsqueeze(0), c.unsqueeze(0), x.new_empty(0)
