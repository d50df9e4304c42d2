"""Compiled functions against eager PyTorch, on the samples of PyTorch's own databases.

A pair of an entry and a dtype ends in one verdict. From the worst of its samples:

    wrong       another value, shape or dtype than eager's, also of inputs that are changed in place
    failed      compiling or running raised something
    refused     `Unsupported` was raised
    as aot_eager  one of these, and the backend aot_eager does no better with the same sample
    known       wrong, and known.py says why
    noise       the same as rounding, but of many operators in half precision: the root of the mean
                square of the distance is up to `NOISE` times eager's
    rounding    further from eager than PyTorch's tolerance, but no further from the result in f64
                than eager is at worst
    random      the values depend on the seed and are others than eager's; shapes and dtypes agree
    right
    not called  right, but torch.compile never called the backend
    no sample   eager refuses all samples, or there are none
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import torch
from databases import Call, Entry, plain
from known import known
from torch import Tensor
from torch.utils._pytree import tree_leaves

from lpu_mlir import Report, Unsupported

FAULTS = ("wrong", "failed", "refused")
GOOD = ("rounding", "random", "right")
VERDICTS = (*FAULTS, "as aot_eager", "known", "noise", *GOOD, "not called", "no sample")
"""From the worst to the best."""
ROUNDED = (torch.bfloat16, torch.float16, torch.float32)
NOISE = 3.0
"""As PyTorch's own benchmarks allow for half precision: `same` in torch/_dynamo/utils.py."""


@dataclass(frozen=True)
class Settings:
    """How a pair is tried: at most `samples` samples, or the variants of the first; the rest as in
    torch.compile."""

    samples: int = 6
    dynamic: bool | None = False
    fullgraph: bool = False
    gradients: bool = False
    variants: bool = False
    interpreter: str = "native"
    backend: str = "lpu_mlir"


@dataclass
class Record:
    """What became of one entry with one dtype."""

    op: str
    dtype: str
    verdict: str = "no sample"
    samples: dict[str, int] = field(default_factory=dict[str, int])
    graphs: int = 0
    host_calls: list[str] = field(default_factory=list[str])
    """Operators that ran in eager beside the kernels."""
    database: str = "op"
    settings: Settings = field(default_factory=Settings)
    uses: list[list[Any]] = field(default_factory=list[list[Any]])
    """The fields of each `Use` in graphs of good samples, but for the count, and which sample was
    the first to have it."""
    detail: str = ""
    """The worst sample: what it is called and what was wrong with it."""


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


def _rounded(
    call: Call, got: Any, want: Any, tolerance: Mapping[str, float], dtype: torch.dtype
) -> str:
    """The verdict on what is beyond the tolerance by the distances from the result in f64: nothing
    if it is more than rounding."""
    try:
        exact = call.run(lambda function: function, 0, torch.float64)
    except (RuntimeError, TypeError, ValueError):
        return ""
    noise = False
    for x, y, z in zip(*map(tree_leaves, (got, want, exact)), strict=True):
        if _difference(x, y, tolerance, dtype):
            if not isinstance(y, Tensor) or y.dtype not in ROUNDED or x.dtype != y.dtype:
                return ""
            if not torch.equal(x.isnan(), y.isnan()):
                return ""
            ours, theirs = ((t.double() - z).abs().nan_to_num() for t in (x, y))
            if ours.max() > theirs.max():
                noise = True
                if ours.square().mean().sqrt() > NOISE * theirs.square().mean().sqrt():
                    return ""
    return "noise" if noise else "rounding"


def _compiler(backend: str, settings: Settings) -> Any:
    torch._dynamo.reset()
    options = {"options": {"interpreter": settings.interpreter}} if backend == "lpu_mlir" else {}
    return partial(
        torch.compile,
        backend=backend,
        dynamic=settings.dynamic,
        fullgraph=settings.fullgraph,
        **options,
    )


def note_uses(record: Record, report: Report, sample: int) -> None:
    """What the graphs of a good sample consist of."""
    seen = {tuple(use[:-1]) for use in record.uses}
    for graph in report.graphs:
        for use in map(astuple, graph.uses):
            if use[:-1] not in seen:
                seen.add(use[:-1])
                record.uses.append([*use[:-1], sample])


def _try_sample(
    call: Call,
    entry: Entry,
    dtype: torch.dtype,
    settings: Settings,
    record: Record,
    report: Report,
) -> str:
    """The verdict on one sample; what is wrong goes into the record."""
    try:
        want = call.run(lambda function: function, 0)
        other = call.run(lambda function: function, 1)
    except Exception:
        return "no sample"
    tolerance = entry.tolerances.get(dtype, {})
    try:
        with report:
            got = call.run(_compiler(settings.backend, settings), 0)
    except Exception as error:
        refused = isinstance(error, Unsupported) or "Unsupported: " in str(error)
        record.detail = f"{type(error).__name__}: {str(error)[:800]}"
        verdict = "refused" if refused else "failed"
        return "as aot_eager" if _peer(call, want, tolerance, dtype, settings) else verdict
    record.graphs += len(report.graphs)
    record.host_calls = sorted({*record.host_calls, *(f.overload for f in report.fallbacks)})
    difference = _difference(got, want, tolerance, dtype)
    if not difference:
        return "right" if report.graphs else "not called"
    exactly = {"rtol": 0.0, "atol": 0.0}
    depends_on_chance = entry.undefined or _difference(other, want, exactly, dtype)
    if depends_on_chance and _alike(got, want):
        return "random"
    record.detail = difference[:800]
    rounded = _rounded(call, got, want, tolerance, dtype) if dtype in ROUNDED else ""
    if rounded == "rounding" or (rounded and entry.many):
        return rounded
    return "as aot_eager" if _peer(call, want, tolerance, dtype, settings) == "wrong" else "wrong"


def _peer(
    call: Call, want: Any, tolerance: Mapping[str, float], dtype: torch.dtype, settings: Settings
) -> str:
    """What is amiss with the same call when aot_eager compiles it: wrong, failed, or nothing."""
    try:
        got = call.run(_compiler("aot_eager", settings), 0)
    except Exception:
        return "failed"
    return "wrong" if _difference(got, want, tolerance, dtype) else ""


def try_pair(entry: Entry, dtype: torch.dtype, settings: Settings) -> Record:
    """Tries the first samples of an entry, or variants of the first."""
    record = Record(entry.name, str(dtype).removeprefix("torch."), settings=settings)
    found = Counter[str]()
    detail = ""
    with warnings.catch_warnings(), plain():
        warnings.simplefilter("ignore")
        if settings.variants:
            calls = entry.variants(dtype) if entry.variants else iter(())
        else:
            calls = islice(entry.calls(dtype, settings.gradients), settings.samples)
        for number, (name, call) in enumerate(calls):
            report = Report()
            verdict = _try_sample(call, entry, dtype, settings, record, report)
            if verdict == "wrong" and (reason := known(entry.name, name)):
                verdict, record.detail = "known", reason
            if verdict in GOOD:
                note_uses(record, report, number)
            found[verdict] += 1
            if record.detail and min(found, key=VERDICTS.index) == verdict and found[verdict] == 1:
                detail = f"{name}: {record.detail}"
            record.detail = ""
    record.samples, record.detail = dict(found), detail
    record.verdict = min(found, key=VERDICTS.index, default="no sample")
    return record
