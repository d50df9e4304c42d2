"""ATen operators that make tensors from numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from xdsl.ir import SSAValue

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.frontend.builder import GraphBuilder, Number, Tensors, Term, dtype_of, rank, shape_of
from lpu_mlir.frontend.errors import NotNative

aten = torch.ops.aten
Handler: TypeAlias = Callable[..., Tensors]


def filled(b: GraphBuilder, value: Number) -> SSAValue:
    """The node's shape and dtype, one value."""
    return b.broadcast(b.fitting(value, b.dtype), b.shape)


def full(b: GraphBuilder, shape: Sequence[Any], value: Number, **_: Any) -> SSAValue:
    return filled(b, value)


def full_like(b: GraphBuilder, x: SSAValue, value: Number, **_: Any) -> SSAValue:
    return filled(b, value)


def new_full(
    b: GraphBuilder, x: SSAValue, shape: Sequence[Any], value: Number, **_: Any
) -> SSAValue:
    return filled(b, value)


def scalar_tensor(b: GraphBuilder, value: Number, **_: Any) -> SSAValue:
    return b.number(value, b.dtype)


def constantly(value: int) -> Handler:
    """zeros, ones; also empty, whose values may be anything."""

    def handler(b: GraphBuilder, *_: Any, **__: Any) -> SSAValue:
        return filled(b, value)

    return handler


def arange(b: GraphBuilder, start: Number, end: Number, step: Number = 1, **_: Any) -> SSAValue:
    """Floats are computed in f64 and rounded once."""
    whole = all(isinstance(n, int | Expr) for n in (start, end, step))
    dtype = torch.int64 if whole else torch.float64
    positions = b.convert(b.iota(0, b.shape), dtype)
    if step != 1:
        positions = b.pointwise("mul", positions, b.number(step, dtype))
    if start != 0:
        positions = b.pointwise("add", positions, b.number(start, dtype))
    return b.convert(positions, b.dtype)


def eye(b: GraphBuilder, *_: Any, **__: Any) -> SSAValue:
    rows = b.iota(0, [b.shape[0], Expr.const(1)])
    columns = b.iota(1, [Expr.const(1), b.shape[1]])
    return b.convert(b.pointwise("eq", rows, columns), b.dtype)


def repeated(b: GraphBuilder, repeats: SSAValue, *, output_size: Any = None) -> SSAValue:
    """Each position as many times as `repeats` says: how many repetitions end up to each place."""
    if output_size is None:
        raise NotNative("how many there are depends on data")
    if rank(repeats) != 1 or dtype_of(repeats) not in (torch.int64, torch.int32):
        raise NotNative("eager refuses such numbers of repetitions")
    count = Term(b, b.number(b.shape[0], torch.int64))
    times = Term(b, b.convert(repeats, torch.int64))
    total = Term(b, b.reduce("add", times.value, [0]))
    some = Term(b, b.reduce("and", times.apply("ge", 0).value, [0]))
    right = total.apply("eq", count).apply("and", some)
    ends = Term(b, b.scan("add", times.value, 0)) + Term(b, b.zero_if(right.value, "RuntimeError"))
    ones = b.full(1, torch.int64, shape_of(repeats))
    none = b.full(0, torch.int64, [b.shape[0] + 1])
    ends = b.scatter("add", none, ones, [ends.value], [0], 0, error="RuntimeError")
    ended = b.scan("add", ends, 0)
    return b.convert(b.slice(ended, [0], b.shape), b.dtype)


HANDLERS: Mapping[Any, Handler] = {
    aten.full.default: full,
    aten.full_like.default: full_like,
    aten.new_full.default: new_full,
    aten.scalar_tensor.default: scalar_tensor,
    aten.zeros.default: constantly(0),
    aten.zeros_like.default: constantly(0),
    aten.new_zeros.default: constantly(0),
    aten._efficientzerotensor.default: constantly(0),  # has no storage in eager
    aten.ones.default: constantly(1),
    aten.ones_like.default: constantly(1),
    aten.new_ones.default: constantly(1),
    aten.empty.memory_format: constantly(0),
    aten.empty_like.default: constantly(0),
    aten.empty_strided.default: constantly(0),
    aten.empty_permuted.default: constantly(0),
    aten.new_empty.default: constantly(0),
    aten.new_empty_strided.default: constantly(0),
    aten.arange.start_step: arange,
    aten.eye.default: eye,
    aten.eye.m: eye,
    aten.repeat_interleave.Tensor: repeated,
}
