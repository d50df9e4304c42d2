"""Compiled operators against eager PyTorch, on the samples of PyTorch's own operator database.

A pair of operator and dtype ends in one verdict. From the worst of its samples:

    wrong       another value, shape or dtype than eager's, also of inputs that are changed in place
    failed      compiling or running raised something
    refused     `Unsupported` was raised
    rounding    further from eager than PyTorch's tolerance, but no further from the result in f64
                than eager is at worst
    not called  right, but torch.compile never called the backend
    random      the values depend on the seed and are others than eager's; shapes and dtypes agree
    right
    no sample   eager refuses all samples, or there are none
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.testing._internal import common_methods_invocations as database
from torch.testing._internal.common_device_type import toleranceOverride
from torch.utils._pytree import tree_leaves, tree_map

from lpu_mlir import Report, Unsupported

VERDICTS = (
    "wrong", "failed", "refused", "rounding", "not called", "random", "right", "no sample",
)  # fmt: skip
"""From the worst to the best."""
ROUNDED = (torch.bfloat16, torch.float16, torch.float32)


def operators() -> dict[str, Any]:
    """The database by name; variants are called name.variant."""
    return {".".join(filter(None, (o.name, o.variant_test_name))): o for o in database.op_db}


@dataclass(frozen=True)
class Settings:
    """How a pair is tried: at most `samples` samples; the rest as in torch.compile."""

    samples: int = 6
    dynamic: bool | None = False
    fullgraph: bool = False
    gradients: bool = False
    interpreter: str = "native"


@dataclass
class Record:
    """What became of one operator with one dtype."""

    op: str
    dtype: str
    verdict: str = "no sample"
    samples: dict[str, int] = field(default_factory=dict[str, int])
    graphs: int = 0
    host_calls: list[str] = field(default_factory=list[str])
    """Operators that ran in eager beside the kernels."""
    detail: str = ""
    """The worst sample: its number and what was wrong with it."""


@dataclass(frozen=True)
class Call:
    """One sample of an operator as a function of nothing that leaves the sample unchanged."""

    function: Callable[..., Any]
    sample: Any
    gradients: bool

    def run(self, compiler: Callable[..., Any], seed: int, dtype: torch.dtype | None = None) -> Any:
        """Results, the inputs after the call, and gradients; computed in `dtype` if given."""
        inputs = tree_map(
            lambda leaf: _copied(leaf, dtype) if isinstance(leaf, Tensor) else leaf,
            (self.sample.input, self.sample.args, self.sample.kwargs),
        )
        torch.manual_seed(seed)
        x, args, kwargs = inputs
        result = compiler(lambda x, args, kwargs: self.function(x, *args, **kwargs))(*inputs)
        given = [leaf for leaf in tree_leaves((x, args, kwargs)) if isinstance(leaf, Tensor)]
        return result, [leaf.detach() for leaf in given], self._gradients(result, given)

    def _gradients(self, result: Any, given: list[Tensor]) -> list[Tensor | None]:
        wanted = [leaf for leaf in given if leaf.requires_grad and leaf.is_leaf]
        outputs = [
            leaf.abs() if leaf.is_complex() else leaf
            for leaf in tree_leaves(self.sample.output_process_fn_grad(result))
            if isinstance(leaf, Tensor) and leaf.requires_grad
        ]
        if not self.gradients or not wanted or not outputs:
            return []
        total = [output.sum() for output in outputs]
        return list(torch.autograd.grad(total, wanted, allow_unused=True))


def _copied(tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    """A copy laid out as the tensor is, with its own copy of all of its storage."""
    if dtype is not None and tensor.is_floating_point():
        copied = tensor.detach().to(dtype, copy=True)
    elif tensor.layout != torch.strided:
        copied = tensor.detach().clone()
    else:
        copied = torch.empty(0, dtype=tensor.dtype).set_(
            tensor.untyped_storage().clone(), tensor.storage_offset(), tensor.shape, tensor.stride()
        )
        copied = copied.conj() if tensor.is_conj() else copied
        copied = torch._neg_view(copied) if tensor.is_neg() else copied
    return copied.requires_grad_(tensor.requires_grad)


def _tolerance(op: Any, dtype: torch.dtype) -> Mapping[str, float]:
    """PyTorch's default for the dtype, or what the database asks for where that is more."""
    relative, absolute = torch.testing._comparison.default_tolerances(dtype)
    for entry in (*op.decorators, *op.skips):
        for decorator in getattr(entry, "decorators", None) or [entry]:
            if isinstance(decorator, toleranceOverride) and entry.device_type in (None, "cpu"):
                if dtype in decorator.d:
                    absolute = max(absolute, decorator.d[dtype].atol)
                    relative = max(relative, decorator.d[dtype].rtol)
    return {"rtol": relative, "atol": absolute}


def _difference(got: Any, want: Any, tolerance: Mapping[str, float], dtype: torch.dtype) -> str:
    """What is different, or nothing; `tolerance` is for tensors of that dtype."""
    ours, theirs = tree_leaves(got), tree_leaves(want)
    if len(ours) != len(theirs):
        return f"{len(ours)} results instead of {len(theirs)}"
    for x, y in zip(ours, theirs, strict=True):
        allowed = tolerance if isinstance(y, Tensor) and y.dtype == dtype else {}
        try:
            if isinstance(y, Tensor | int | float | complex):
                torch.testing.assert_close(x, y, equal_nan=True, **allowed)
            elif x != y:
                return f"{x} instead of {y}"
        except AssertionError as error:
            return str(error)
    return ""


def _alike(got: Any, want: Any) -> bool:
    """Whether shapes and dtypes agree."""
    ours, theirs = ([_kind(leaf) for leaf in tree_leaves(tree)] for tree in (got, want))
    return ours == theirs


def _kind(leaf: Any) -> object:
    return (leaf.shape, leaf.dtype) if isinstance(leaf, Tensor) else type(leaf)


def _only_rounding(call: Call, got: Any, want: Any) -> bool:
    """Whether results are as close to those in f64 as eager's are at worst."""
    try:
        exact = call.run(lambda function: function, 0, torch.float64)
    except (RuntimeError, TypeError, ValueError):
        return False
    for x, y, z in zip(*map(tree_leaves, (got, want, exact)), strict=True):
        if isinstance(y, Tensor) and y.dtype in ROUNDED:
            ours, theirs = ((t.double() - z).abs().nan_to_num().max().item() for t in (x, y))
            if x.dtype != y.dtype or ours > theirs:
                return False
        elif _difference(x, y, {}, torch.bool):
            return False
    return True


def _try_sample(call: Call, op: Any, dtype: torch.dtype, settings: Settings, record: Record) -> str:
    """The verdict on one sample; what is wrong goes into the record."""
    try:
        want = call.run(lambda function: function, 0)
        other = call.run(lambda function: function, 1)
    except Exception:
        return "no sample"
    torch._dynamo.reset()
    compiler = torch.compile(
        backend="lpu_mlir",
        dynamic=settings.dynamic,
        fullgraph=settings.fullgraph,
        options={"interpreter": settings.interpreter},
    )
    try:
        with Report() as report:
            got = call.run(compiler, 0)
    except Exception as error:
        refused = isinstance(error, Unsupported) or "Unsupported: " in str(error)
        record.detail = f"{type(error).__name__}: {str(error)[:800]}"
        return "refused" if refused else "failed"
    record.graphs += len(report.graphs)
    record.host_calls = sorted({*record.host_calls, *(f.overload for f in report.fallbacks)})
    difference = _difference(got, want, _tolerance(op, dtype), dtype)
    if not difference:
        return "right" if report.graphs else "not called"
    depends_on_chance = "empty" in op.name or _difference(other, want, {}, dtype)
    if depends_on_chance and _alike(got, want):
        return "random"
    record.detail = difference[:800]
    return "rounding" if dtype in ROUNDED and _only_rounding(call, got, want) else "wrong"


def try_pair(name: str, op: Any, dtype: torch.dtype, settings: Settings) -> Record:
    """Tries the first samples of an operator."""
    record = Record(name, str(dtype).removeprefix("torch."))
    grads = settings.gradients and op.supports_autograd
    grads = grads and dtype in op.supported_backward_dtypes("cpu")
    found = Counter[str]()
    detail = ""
    # The wrapper keeps the generator's state, at which torch.compile would break the graph.
    plain = patch.object(database, "wrapper_set_seed", lambda op, *args, **kw: op(*args, **kw))
    with warnings.catch_warnings(), plain:
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        samples = op.sample_inputs("cpu", dtype, requires_grad=grads)
        for number, sample in enumerate(islice(samples, settings.samples)):
            call = Call(op.get_op(), sample, grads)
            verdict = _try_sample(call, op, dtype, settings, record)
            found[verdict] += 1
            if record.detail and min(found, key=VERDICTS.index) == verdict and found[verdict] == 1:
                detail = f"sample {number}: {record.detail}"
            record.detail = ""
    record.samples, record.detail = dict(found), detail
    record.verdict = min(found, key=VERDICTS.index, default="no sample")
    return record
