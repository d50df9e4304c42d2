"""The operators of promotion.py: functions of one tensor, or of two tensors or numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.nn import functional as F
from torch.testing._internal import common_methods_invocations as database
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, ReductionOpInfo, UnaryUfuncInfo

Function = Callable[..., Any]

TIMES = 16
"""How often a vector repeats its four values.  Kernels of eager that compute several elements at
once round less often than those for the rest, and than those for scalars."""
CONDITION = torch.tensor([True, False, True, False] * TIMES)
FIRST = torch.tensor([1, 0, 0, 2] * TIMES)


def listed(kind: type, inplace: bool = False) -> Iterator[tuple[str, Function]]:
    """Those of a kind in PyTorch's database, with the arguments that they cannot do without."""
    for op in database.op_db:
        function = op.inplace_variant if inplace else op.op
        if not isinstance(op, kind) or not function or op.name.startswith(("__", "jiterator")):
            continue
        if {torch.float32, torch.int64}.isdisjoint(op.supported_dtypes("cpu")):
            continue
        given = getattr(op, "sample_kwargs", None)
        named = given("cpu", torch.float32, torch.ones(4))[0] if given else {}
        if "training" in named:
            named = {**named, "training": False}  # which would draw random numbers
        name = ".".join(filter(None, (op.name, op.variant_test_name)))
        if inplace:
            yield f"{name} in place", _inplace(function, named)
        else:
            yield name, _named(function, named) if named else function


def _named(function: Function, named: Mapping[str, Any]) -> Function:
    return lambda *args: function(*args, **named)


def _inplace(function: Function, named: Mapping[str, Any]) -> Function:
    return lambda a, *args: function(a.clone(), *args, **named)


BINARY: Mapping[str, Function] = {
    **dict(listed(BinaryUfuncInfo)),
    # Python's operators take numbers on the left, too.
    **{
        f"operator {name}": getattr(operator, name)
        for name in (
            "add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift eq ne lt le gt ge"
        ).split()
    },
    "add alpha": lambda a, b: torch.add(a, b, alpha=2),
    "add alpha 2.5": lambda a, b: torch.add(a, b, alpha=2.5),
    "sub alpha": lambda a, b: torch.sub(a, b, alpha=3),
    "rsub alpha": lambda a, b: torch.rsub(a, b, alpha=3),
    "where": lambda a, b: torch.where(CONDITION, a, b),
    "where on a": lambda a, b: torch.where(a > 1, a, b),
    "clamp": lambda a, b: torch.clamp(a, min=b, max=b),
    "clamp of": lambda a, b: torch.clamp(b, min=a, max=b),
    "clamp to numbers": lambda a, b: torch.clamp(a, min=1, max=b),
    "lerp": lambda a, b: torch.lerp(a, b, 0.25),
    "lerp by": lambda a, b: torch.lerp(a, a, b),
    "addcmul": lambda a, b: torch.addcmul(a, a, b, value=2),
    "addcmul to": lambda a, b: torch.addcmul(b, a, a),
    "addcdiv": lambda a, b: torch.addcdiv(a, a, b, value=2),
    "addcdiv to": lambda a, b: torch.addcdiv(b, b, a),
    "addcmul value": lambda a, b: torch.addcmul(a, a, a, value=b),
    "threshold": lambda a, b: F.threshold(a, 1, b),
    "prelu": lambda a, b: F.prelu(a, b[:1]),
    "full_like": torch.full_like,
    "masked_fill": lambda a, b: a.masked_fill(CONDITION, b),
    "masked_scatter": lambda a, b: a.masked_scatter(CONDITION, b),
    "index_put": lambda a, b: a.index_put((FIRST[:1],), b),
    "index_put accumulate": lambda a, b: a.index_put((FIRST,), b, accumulate=True),
    "index_add": lambda a, b: a.index_add(0, FIRST, b),
    "index_fill": lambda a, b: a.index_fill(0, FIRST, b),
    "scatter": lambda a, b: a.scatter(0, FIRST[:1], b),
    "scatter_add": lambda a, b: a.scatter_add(0, FIRST, b),
    "scatter_reduce": lambda a, b: a.scatter_reduce(0, FIRST, b, "amax"),
    "isin": torch.isin,
    "bucketize": lambda a, b: torch.bucketize(a, b),
    "cat": lambda a, b: torch.cat([a, b]),
    "stack": lambda a, b: torch.stack([a, b]),
    "hstack": lambda a, b: torch.hstack([a, b]),
    "mse_loss": F.mse_loss,
    "l1_loss": F.l1_loss,
    "smooth_l1_loss": F.smooth_l1_loss,
    "huber_loss": F.huber_loss,
    "binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits,
    "kl_div": F.kl_div,
    "cosine_similarity": lambda a, b: F.cosine_similarity(a, b, dim=0),
    "dist": torch.dist,
    "cross": lambda a, b: torch.linalg.cross(a[:3], b[:3]),
    "trapezoid": torch.trapezoid,
    # Products of matrices.
    "dot": torch.dot,
    "vdot": torch.vdot,
    "vecdot": torch.linalg.vecdot,
    "inner": torch.inner,
    "outer": torch.outer,
    "kron": torch.kron,
    "tensordot": lambda a, b: torch.tensordot(a, b, 1),
    "matmul": operator.matmul,
    "mv": lambda a, b: torch.mv(a[None], b),
    "mm": lambda a, b: a[None] @ b[:, None],
    "bmm": lambda a, b: torch.bmm(a[None, None], b[None, :, None]),
    "addmm": lambda a, b: torch.addmm(a[None, :1], a[None], b[:, None]),
    "addmm to": lambda a, b: torch.addmm(b[None, :1], a[None], a[:, None]),
    "addmm 2 3": lambda a, b: torch.addmm(b[None, :1], a[None], b[:, None], beta=2, alpha=3),
    "addmm 2.5": lambda a, b: torch.addmm(b[None, :1], a[None], b[:, None], beta=2.5, alpha=0.1),
    "addmv": lambda a, b: torch.addmv(a[:1], a[None], b),
    "addr": lambda a, b: torch.addr(a[None], a, b),
    "addbmm": lambda a, b: torch.addbmm(a[None, :1], a[None, None], b[None, :, None]),
    "baddbmm": lambda a, b: torch.baddbmm(a[None, None, :1], a[None, None], b[None, :, None]),
    "chain_matmul": lambda a, b: torch.linalg.multi_dot([a, b[:, None], a[None]]),
    "linear": lambda a, b: F.linear(a, b[None]),
    "bilinear": lambda a, b: F.bilinear(a[None], a[None], b.expand(1, len(b), len(b))),
    "einsum": lambda a, b: torch.einsum("i,j->ij", a, b),
    "cdist": lambda a, b: torch.cdist(a[:, None], b[:, None]),
    "sum of products": lambda a, b: (a * b).sum(),
}
"""Operators of two tensors, or a tensor and a number."""

INPLACE: Mapping[str, Function] = {
    **dict(listed(BinaryUfuncInfo, inplace=True)),
    "add_ alpha": lambda a, b: a.clone().add_(b, alpha=2.5),
    "clamp_": lambda a, b: a.clone().clamp_(b, b),
    "lerp_": lambda a, b: a.clone().lerp_(b, 0.25),
    "addcmul_": lambda a, b: a.clone().addcmul_(b, b),
    "addcdiv_": lambda a, b: a.clone().addcdiv_(b, b),
    "masked_fill_": lambda a, b: a.clone().masked_fill_(CONDITION, b),
    "copy_": lambda a, b: a.clone().copy_(b),
    "fill_": lambda a, b: a.clone().fill_(b),
    "add out": lambda a, b: torch.add(a, b, out=_like(a * b, a)),
    "div out f16": lambda a, b: torch.div(a, b, out=_like(a * b, torch.float16)),
    "sub out i32": lambda a, b: torch.sub(a, b, out=_like(a * b, torch.int32)),
    "where out": lambda a, b: torch.where(CONDITION, a, b, out=_like(CONDITION, a)),
    "sum out f64": lambda a, b: torch.sum(
        (a * b).reshape(-1)[:2], 0, out=torch.empty((), dtype=torch.float64)
    ),
    "part of": lambda a, b: _set_part(a.clone(), b),
}
"""Operators whose result has the dtype of the first tensor, or of one that is given."""


def _like(shaped: Any, dtype: Any) -> Any:
    dtype = dtype.dtype if isinstance(dtype, torch.Tensor) else dtype
    return torch.empty(shaped.shape, dtype=dtype)


def _set_part(a: Any, b: Any) -> Any:
    a[1:] = b if not isinstance(b, torch.Tensor) or not b.dim() else b[1:]
    return a


UNARY: Mapping[str, Function] = {
    **dict(listed(UnaryUfuncInfo)),
    **dict(listed(UnaryUfuncInfo, inplace=True)),
    **{
        name: getattr(F, name)
        for name in (
            "gelu leaky_relu hardswish softplus tanhshrink silu logsigmoid mish softsign selu celu"
        ).split()
    },
    "gelu tanh": lambda a: F.gelu(a, approximate="tanh"),
    "pow 2": lambda a: a**2,
    "pow -1": lambda a: a**-1,
    "pow 0.5": lambda a: a**0.5,
    "2 pow": lambda a: 2**a,
    "2.5 pow": lambda a: 2.5**a,
    "not": lambda a: ~a,
    "clamp low": lambda a: a.clamp(min=1.5),
    "clamp mixed": lambda a: a.clamp(1, 2.5),
    "clamp bool": lambda a: a.clamp(True, 3),
    "nan_to_num to": lambda a: torch.nan_to_num(a, nan=1.5, posinf=3),
    "where numbers": lambda a: torch.where(a > 1, 1, 2.5),
    "where integers": lambda a: torch.where(a > 1, 1, True),
    "ones_like": torch.ones_like,
    "frexp mantissa": lambda a: torch.frexp(a)[0],
}

ALONG: Mapping[str, Function] = {
    **dict(listed(ReductionOpInfo)),
    "logsumexp": lambda a: a.logsumexp(0),
    "max": torch.max,
    "min": torch.min,
    "max along": lambda a: a.max(0),
    "min along": lambda a: a.min(0),
    "aminmax": torch.aminmax,
    "median": torch.median,
    "median along": lambda a: a.median(0),
    "nanmedian": torch.nanmedian,
    "mode": torch.mode,
    "kthvalue": lambda a: a.kthvalue(1),
    "topk": lambda a: a.topk(1),
    "quantile": lambda a: a.quantile(0.4),
    "std_mean": torch.std_mean,
    "var_mean": torch.var_mean,
    "var 0": lambda a: a.var(correction=0),
    "cumsum": lambda a: a.cumsum(0),
    "cumprod": lambda a: a.cumprod(0),
    "cummax": lambda a: a.cummax(0),
    "cummin": lambda a: a.cummin(0),
    "logcumsumexp": lambda a: a.logcumsumexp(0),
    "diff": torch.diff,
    "softmax": lambda a: a.softmax(0),
    "softmax to": lambda a: a.softmax(0, dtype=torch.float64),
    "log_softmax": lambda a: a.log_softmax(0),
    "sort": lambda a: a.sort(),
    "argsort": lambda a: a.argsort(),
    "norm": torch.linalg.vector_norm,
    "norm 1": lambda a: torch.linalg.vector_norm(a, 1),
    "norm inf": lambda a: torch.linalg.vector_norm(a, torch.inf),
    "torch.norm": torch.norm,
    "normalize": lambda a: F.normalize(a, dim=0),
    "layer_norm": lambda a: F.layer_norm(a, a.shape),
    "trace": lambda a: torch.trace(a[None]),
    "sum keepdim": lambda a: a.sum(0, keepdim=True),
    "mean along": lambda a: a.mean(0),
    "all along": lambda a: a.all(0),
    "any along": lambda a: a.any(0),
    **{
        f"{name} to {dtype}".replace("torch.", ""): _named(function, {"dtype": dtype})
        for name, function, dtypes in (
            ("sum", torch.sum, (torch.float64, torch.float16, torch.int32, torch.bool)),
            ("mean", torch.mean, (torch.float32, torch.bfloat16)),
            ("prod", torch.prod, (torch.float32, torch.uint8)),
            ("nansum", torch.nansum, (torch.float64,)),
            ("cumsum", lambda a, dtype: a.cumsum(0, dtype=dtype), (torch.float16, torch.int8)),
            ("cumprod", lambda a, dtype: a.cumprod(0, dtype=dtype), (torch.float32,)),
            ("norm", torch.linalg.vector_norm, (torch.float64,)),
        )
        for dtype in dtypes
    },
}
"""Operators of one tensor that reduce, scan or order."""
