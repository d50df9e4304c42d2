"""ATen operators that combine elements along dims: reductions, scans, softmax, normalisations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from xdsl.ir import SSAValue

from lpu_mlir.dialects.expr import Expr, nonnegative, product
from lpu_mlir.dialects.lpu_graph import LogSoftmaxOp, SoftmaxOp
from lpu_mlir.frontend.builder import GraphBuilder, Number, Tensors, Term, dtype_of, rank, shape_of
from lpu_mlir.frontend.dtypes import opmath
from lpu_mlir.frontend.errors import NotNative

aten = torch.ops.aten
Handler: TypeAlias = Callable[..., Tensors]
Dims: TypeAlias = int | Sequence[int] | None


def axes(x: SSAValue, dims: Dims) -> list[int]:
    """Sorted non-negative dims; none given, or an empty list, means all."""
    n = rank(x)
    if dims is None or (not isinstance(dims, int) and not dims):
        return list(range(n))
    listed = [dims] if isinstance(dims, int) else dims
    return sorted({dim % n if n else 0 for dim in listed} & set(range(n)))


def reduced(b: GraphBuilder, kind: str, x: SSAValue, dims: Dims, keepdim: bool = False) -> SSAValue:
    chosen = axes(x, dims)
    result = b.reduce(kind, x, chosen)
    return b.keep(result, shape_of(x), chosen) if keepdim else result


def _combined(b: GraphBuilder, kind: str, x: Term, dims: Sequence[int]) -> Term:
    """A reduction whose result broadcasts against `x`."""
    return Term(b, b.keep(b.reduce(kind, x.value, dims), shape_of(x.value), dims))


def count(x: SSAValue, dims: Sequence[int]) -> Expr:
    """How many elements of `x` one element of the result stands for."""
    shape = shape_of(x)
    return product(shape[dim] for dim in dims)


# --- sums, products, extremes -------------------------------------------------------------------


def accumulation(kind: str) -> Handler:
    """sum and prod: computed in the result's dtype."""

    def handler(
        b: GraphBuilder, x: SSAValue, dims: Dims = None, keepdim: bool = False, dtype: Any = None
    ) -> SSAValue:
        if b.dtype == torch.bool:  # only with dtype=torch.bool
            kind_bool = {"add": "or", "mul": "and"}[kind]
            return reduced(b, kind_bool, b.convert(x, torch.bool), dims, keepdim)
        return reduced(b, kind, b.convert(x, b.dtype), dims, keepdim)

    return handler


def whole(over_dims: Handler) -> Handler:
    """The overload that reduces all dims; the dtype argument shows in the result's dtype."""

    def handler(b: GraphBuilder, x: SSAValue, dtype: Any = None) -> Tensors:
        return over_dims(b, x)

    return handler


def mean(
    b: GraphBuilder, x: SSAValue, dims: Dims = None, keepdim: bool = False, dtype: Any = None
) -> SSAValue:
    value = b.convert(b.convert(x, b.dtype), opmath(b.dtype))
    total = Term(b, reduced(b, "add", value, dims, keepdim))
    return (total / count(x, axes(x, dims))).to(b.dtype).value


def truth(kind: str) -> Handler:
    """any and all; of uint8 they are uint8."""

    def handler(b: GraphBuilder, x: SSAValue, dims: Dims = None, keepdim: bool = False) -> SSAValue:
        return b.convert(reduced(b, kind, b.convert(x, torch.bool), dims, keepdim), b.dtype)

    return handler


_EXTREME_OF_BOOL = {"max": "or", "min": "and"}


def _extreme_kind(kind: str, x: SSAValue) -> str:
    return _EXTREME_OF_BOOL[kind] if dtype_of(x) == torch.bool else kind


def _require_some(b: GraphBuilder, x: SSAValue, dims: Dims) -> None:
    """Eager refuses to take the extreme of nothing, in its own words. Sizes of inputs are guarded
    where it would; of those that a host call has, only some may be 0."""
    size = count(x, axes(x, dims))
    from_data = any(b.ranges[name][0] == 0 for name in size.names())
    if size == 0 or (from_data and not nonnegative(size - 1, b.ranges)):
        raise NotNative("eager refuses it if there is no element")


def extreme(kind: str) -> Handler:
    """max and min of all elements, amax and amin."""

    def handler(b: GraphBuilder, x: SSAValue, dims: Dims = None, keepdim: bool = False) -> SSAValue:
        _require_some(b, x, dims)
        return reduced(b, _extreme_kind(kind, x), x, dims, keepdim)

    return handler


def _position(b: GraphBuilder, kind: str, x: SSAValue, dim: int, keepdim: bool) -> SSAValue:
    if not rank(x):
        return b.full(0, torch.int64)
    [axis] = axes(x, dim)
    _require_some(b, x, axis)
    ordered = b.convert(x, torch.uint8) if dtype_of(x) == torch.bool else x
    result = b.arg_reduce(kind, ordered, axis)
    return b.keep(result, shape_of(x), [axis]) if keepdim else result


def extreme_at(kind: str) -> Handler:
    """max.dim and min.dim: (values, indices)."""

    def handler(b: GraphBuilder, x: SSAValue, dim: int, keepdim: bool = False) -> Tensors:
        _require_some(b, x, dim)
        values = reduced(b, _extreme_kind(kind, x), x, dim, keepdim)
        return values, _position(b, kind, x, dim, keepdim)

    return handler


def position(kind: str) -> Handler:
    """argmax and argmin; without a dim, of the flattened tensor."""

    def handler(
        b: GraphBuilder, x: SSAValue, dim: int | None = None, keepdim: bool = False
    ) -> SSAValue:
        if dim is not None:
            return _position(b, kind, x, dim, keepdim)
        flat = b.reshape(x, [product(shape_of(x))])
        return b.reshape(_position(b, kind, flat, 0, False), b.shape)

    return handler


# --- variance -----------------------------------------------------------------------------------


def _moments(b: GraphBuilder, x: Term, dims: Sequence[int]) -> tuple[Term, Term]:
    """(mean, sum of squared deviations), broadcasting against `x`; in two passes."""
    average = _combined(b, "add", x, dims) / count(x.value, dims)
    deviation = x - average
    return average, _combined(b, "add", deviation * deviation, dims)


def _var_mean(
    b: GraphBuilder, x: SSAValue, dims: Dims, correction: Number | None, keepdim: bool
) -> tuple[SSAValue, SSAValue]:
    dtype = opmath(b.dtype)
    chosen = axes(x, dims)
    average, squares = _moments(b, Term(b, b.convert(x, dtype)), chosen)
    n = b.number(count(x, chosen), dtype)
    divisor = Term(b, n) - Term(b, b.number(1 if correction is None else correction, dtype))
    variance = squares / divisor.apply("maximum", 0.0)
    results = [variance.to(b.dtype).value, average.to(b.dtype).value]
    shape = [Expr.const(1) if axis in chosen else e for axis, e in enumerate(shape_of(x))]
    kept = shape if keepdim else [e for axis, e in enumerate(shape) if axis not in chosen]
    return b.reshape(results[0], kept), b.reshape(results[1], kept)


def var(
    b: GraphBuilder,
    x: SSAValue,
    dims: Dims = None,
    correction: Number | None = None,
    keepdim: bool = False,
) -> SSAValue:
    return _var_mean(b, x, dims, correction, keepdim)[0]


def var_mean(
    b: GraphBuilder,
    x: SSAValue,
    dims: Dims = None,
    correction: Number | None = None,
    keepdim: bool = False,
) -> Tensors:
    return _var_mean(b, x, dims, correction, keepdim)


# --- softmax ------------------------------------------------------------------------------------


def along_row(made: type[SoftmaxOp | LogSoftmaxOp]) -> Handler:
    """softmax and log_softmax: half precision runs in f32 and is rounded once."""

    def handler(b: GraphBuilder, x: SSAValue, dim: int, half_to_float: bool) -> SSAValue:
        if not b.dtype.is_floating_point:
            raise NotNative("eager refuses integers, unless there are none")
        wide = b.convert(x, opmath(dtype_of(x)))
        if not rank(x):
            wide = b.reshape(wide, [1])
        row = b.emit(made(wide, dim % max(1, rank(x))))
        return b.reshape(b.convert(row, b.dtype), shape_of(x))

    return handler


# --- scans --------------------------------------------------------------------------------------


def scan(kind: str) -> Handler:
    """cumsum and cumprod; half precision runs in f32 and every output is rounded once."""

    def handler(b: GraphBuilder, x: SSAValue, dim: int, dtype: Any = None) -> SSAValue:
        value = b.convert(b.convert(x, b.dtype), opmath(b.dtype))
        if not rank(x):
            return b.convert(value, b.dtype)
        return b.convert(b.scan(kind, value, axes(x, dim)[0]), b.dtype)

    return handler


# --- normalisations -----------------------------------------------------------------------------


def _affine(
    b: GraphBuilder, x: Term, weight: SSAValue | None, bias: SSAValue | None, shape: Sequence[Expr]
) -> Term:
    """x * weight + bias, both reshaped to `shape`."""
    dtype = dtype_of(x.value)
    if weight is not None:
        x = x * Term(b, b.reshape(b.convert(weight, dtype), shape))
    if bias is not None:
        x = x + Term(b, b.reshape(b.convert(bias, dtype), shape))
    return x


def layer_norm(
    b: GraphBuilder,
    x: SSAValue,
    normalized: Sequence[Any],
    weight: SSAValue | None,
    bias: SSAValue | None,
    eps: float,
) -> Tensors:
    """(normalised, mean, reciprocal standard deviation)."""
    first = rank(x) - len(normalized)
    dims = list(range(first, rank(x)))
    wide = Term(b, b.convert(x, opmath(dtype_of(x))))
    average, squares = _moments(b, wide, dims)
    scale = (squares / count(x, dims) + eps).apply("rsqrt")
    out = _affine(b, (wide - average) * scale, weight, bias, shape_of(x)[first:])
    statistics = b.result_dtypes[1]
    return out.to(b.dtype).value, average.to(statistics).value, scale.to(statistics).value


def group_norm(
    b: GraphBuilder,
    x: SSAValue,
    weight: SSAValue | None,
    bias: SSAValue | None,
    n: Any,
    channels: Any,
    area: Any,
    groups: int,
    eps: float,
) -> Tensors:
    """(normalised, mean, reciprocal standard deviation); x is [N, C, ...]."""
    shape = shape_of(x)
    size = product(shape[1:]).floordiv(groups)
    grouped = b.reshape(b.convert(x, opmath(dtype_of(x))), [shape[0], groups, size])
    average, squares = _moments(b, Term(b, grouped), [2])
    scale = (squares / size + eps).apply("rsqrt")
    flat = (Term(b, grouped) - average) * scale
    per_channel = [shape[1], *[Expr.const(1)] * (len(shape) - 2)]
    out = _affine(b, Term(b, b.reshape(flat.value, shape)), weight, bias, per_channel)
    dtype = b.result_dtypes[1]
    pair = [b.reshape(t.to(dtype).value, [shape[0], groups]) for t in (average, scale)]
    return out.to(b.dtype).value, pair[0], pair[1]


def _by_channel(
    b: GraphBuilder,
    x: SSAValue,
    average: Term,
    scale: Term,
    weight: SSAValue | None,
    bias: SSAValue | None,
) -> SSAValue:
    """[N, C, ...] times a factor plus a shift for each channel, which is how eager does it, too."""
    dtype = opmath(dtype_of(x))
    shape = [shape_of(x)[1], *[Expr.const(1)] * (rank(x) - 2)]
    if weight is not None:
        scale = scale * Term(b, b.convert(weight, dtype))
    shift = average * scale
    shift = shift.apply("neg") if bias is None else Term(b, b.convert(bias, dtype)) - shift
    factors = [Term(b, b.reshape(t.value, shape)) for t in (scale, shift)]
    return (Term(b, b.convert(x, dtype)) * factors[0] + factors[1]).to(b.dtype).value


def _by_running_statistics(
    b: GraphBuilder,
    x: SSAValue,
    weight: SSAValue | None,
    bias: SSAValue | None,
    running_mean: SSAValue,
    running_var: SSAValue,
    eps: float,
) -> SSAValue:
    dtype = opmath(dtype_of(x))
    scale = (Term(b, b.convert(running_var, dtype)) + eps).apply("rsqrt")
    return _by_channel(b, x, Term(b, b.convert(running_mean, dtype)), scale, weight, bias)


def batch_norm_inference(
    b: GraphBuilder,
    x: SSAValue,
    weight: SSAValue | None,
    bias: SSAValue | None,
    running_mean: SSAValue,
    running_var: SSAValue,
    momentum: float,
    eps: float,
) -> Tensors:
    """(normalised by the running statistics, nothing, nothing, …)."""
    out = _by_running_statistics(b, x, weight, bias, running_mean, running_var, eps)
    return out, *[b.full(0, d, [0]) for d in b.result_dtypes[1:]]


def _by_own_statistics(
    b: GraphBuilder, x: SSAValue, weight: SSAValue | None, bias: SSAValue | None, eps: float
) -> tuple[SSAValue, tuple[Term, Term, Term]]:
    """Normalised, and for each channel: mean, reciprocal standard deviation, unbiased variance."""
    dtype = opmath(dtype_of(x))
    dims = [dim for dim in range(rank(x)) if dim != 1]
    channels, n = shape_of(x)[1], count(x, dims)
    wide = Term(b, b.convert(x, dtype))
    average, squares = _moments(b, wide, dims)
    scale = (squares / n + eps).apply("rsqrt")
    average, scale, squares = (
        Term(b, b.reshape(t.value, [channels])) for t in (average, scale, squares)
    )
    out = _by_channel(b, x, average, scale, weight, bias)
    return out, (average, scale, squares / Term(b, b.number(n - 1, dtype)))


def _moved(
    b: GraphBuilder, running: Sequence[SSAValue], new: Sequence[Term], momentum: float
) -> list[SSAValue]:
    """Running statistics after a step of training, the last results of the operator."""
    moved: list[SSAValue] = []
    for old, term, dtype in zip(running, new, b.result_dtypes[-2:], strict=True):
        kept = Term(b, b.convert(old, dtype_of(term.value))) * (1 - momentum)
        moved.append((kept + term * momentum).to(dtype).value)
    return moved


def batch_norm_training(
    b: GraphBuilder,
    x: SSAValue,
    weight: SSAValue | None,
    bias: SSAValue | None,
    running_mean: SSAValue,
    running_var: SSAValue,
    training: bool,
    momentum: float,
    eps: float,
) -> Tensors:
    """(normalised, mean, reciprocal standard deviation, new running mean, new running variance)."""
    running = (running_mean, running_var)
    if not training:
        out = _by_running_statistics(b, x, weight, bias, *running, eps)
        kept = [b.convert(r, d) for r, d in zip(running, b.result_dtypes[-2:], strict=True)]
        return out, *[b.full(0, d, [0]) for d in b.result_dtypes[1:3]], *kept
    out, (average, scale, variance) = _by_own_statistics(b, x, weight, bias, eps)
    saved = [t.to(d).value for t, d in zip((average, scale), b.result_dtypes[1:], strict=False)]
    return out, *saved, *_moved(b, running, (average, variance), momentum)


def batch_norm_with_update(
    b: GraphBuilder,
    x: SSAValue,
    weight: SSAValue | None,
    bias: SSAValue | None,
    running_mean: SSAValue,
    running_var: SSAValue,
    momentum: float,
    eps: float,
) -> Tensors:
    """As `batch_norm_training`, with what another kernel would keep for itself before the last two
    results: nothing."""
    running = (running_mean, running_var)
    out, (average, scale, variance) = _by_own_statistics(b, x, weight, bias, eps)
    saved = [t.to(d).value for t, d in zip((average, scale), b.result_dtypes[1:], strict=False)]
    nothing = b.full(0, torch.uint8, [0])
    return out, *saved, nothing, *_moved(b, running, (average, variance), momentum)


def batch_norm_without_statistics(
    b: GraphBuilder,
    x: SSAValue,
    weight: SSAValue | None,
    bias: SSAValue | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Tensors:
    """(normalised, mean, reciprocal standard deviation)."""
    if not training:
        raise NotNative("eager refuses to normalise by statistics that it does not have")
    out, (average, scale, _) = _by_own_statistics(b, x, weight, bias, eps)
    rest = zip((average, scale), b.result_dtypes[1:], strict=True)
    return out, *[term.to(dtype).value for term, dtype in rest]


# --- norms --------------------------------------------------------------------------------------


def vector_norm(
    b: GraphBuilder,
    x: SSAValue,
    order: Number = 2,
    dims: Dims = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> SSAValue:
    """(sum of |x|^order)^(1 / order), and its limits for orders of 0 and infinity."""
    if not isinstance(order, int | float):
        raise NotNative("a norm whose order is known only when it runs")
    size = Term(b, b.convert(b.convert(x, b.dtype), opmath(b.dtype))).apply("abs")

    def total(kind: str, term: Term) -> Term:
        return Term(b, reduced(b, kind, term.value, dims, keepdim))

    if order in (math.inf, -math.inf):
        result = total("max" if order > 0 else "min", size)
    elif order == 0:
        result = total("add", size.apply("ne", 0).to(opmath(b.dtype)))
    elif order == 1:
        result = total("add", size)
    elif order == 2:
        result = total("add", size * size).apply("sqrt")
    else:
        result = total("add", size.apply("pow", order)).apply("pow", 1 / order)
    return result.to(b.dtype).value


HANDLERS: Mapping[Any, Handler] = {
    aten.sum.default: whole(accumulation("add")),
    aten.sum.dim_IntList: accumulation("add"),
    aten.prod.default: whole(accumulation("mul")),
    aten.prod.dim_int: accumulation("mul"),
    aten.mean.default: whole(mean),
    aten.mean.dim: mean,
    aten.any.default: truth("or"),
    aten.any.dim: truth("or"),
    aten.any.dims: truth("or"),
    aten.all.default: truth("and"),
    aten.all.dim: truth("and"),
    aten.all.dims: truth("and"),
    aten.amax.default: extreme("max"),
    aten.amin.default: extreme("min"),
    aten.max.default: extreme("max"),
    aten.min.default: extreme("min"),
    aten.max.dim: extreme_at("max"),
    aten.min.dim: extreme_at("min"),
    aten.argmax.default: position("max"),
    aten.argmin.default: position("min"),
    aten.var.correction: var,
    aten.var_mean.correction: var_mean,
    aten._softmax.default: along_row(SoftmaxOp),
    aten._log_softmax.default: along_row(LogSoftmaxOp),
    aten.cumsum.default: scan("add"),
    aten.cumprod.default: scan("mul"),
    aten.native_layer_norm.default: layer_norm,
    aten.native_group_norm.default: group_norm,
    aten._native_batch_norm_legit_no_training.default: batch_norm_inference,
    aten._native_batch_norm_legit_functional.default: batch_norm_training,
    aten._native_batch_norm_legit.no_stats: batch_norm_without_statistics,
    aten._batch_norm_with_update_functional.default: batch_norm_with_update,
    aten._batch_norm_no_update.default: batch_norm_inference,
    aten.linalg_vector_norm.default: vector_norm,
}
