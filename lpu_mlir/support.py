"""Which operators of PyTorch there are kernels for, and what is known of the others.

What the compiler does with an operator is read from its own tables; with which dtypes that was
seen to be right, from `operators.json`, which scripts/operators makes of conformance runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any

import torch
from torch._ops import OpOverload

from lpu_mlir.frontend.control import HIGHER_ORDER
from lpu_mlir.frontend.decompositions import decompositions
from lpu_mlir.frontend.special import SPECIAL
from lpu_mlir.frontend.table import BY_NAME, HANDLERS, ON_HOST, why_on_host
from lpu_mlir.model.target import PUBLISHED_DTYPES

_TORCH: Any = import_module("torch._C")

KINDS: Mapping[str, str] = {
    "native": "becomes part of kernels, or a view",
    "host": "runs in eager PyTorch, between kernels",
    "decomposed": "is written in other operators before the compiler sees it",
    "functionalized": "changes an argument, and is replaced by an operator that does not",
    "symbolic": "is arithmetic on sizes, of which no kernel is made",
}


@dataclass(frozen=True)
class OperatorSupport:
    """What becomes of one overload.

    `kind` is one of `KINDS`.  Dtypes are those of its first tensor operand, by PyTorch's names: in
    `native` it was seen to be right as part of kernels, in `host` beside them, in eager PyTorch; in
    some dtypes it depends on the arguments, which then are in both.  Of a decomposed operator it is
    what it is written in that counts.  `emulated` are those of `native` that no LPU is said to
    compute with: the interpreters do.  `dynamic` says whether kernels of it were seen to be right
    where extents are symbolic, `gradient` whether a training step with it was.
    """

    overload: str
    kind: str
    core: bool
    """Whether PyTorch counts it among core ATen."""
    native: tuple[str, ...] = ()
    host: tuple[str, ...] = ()
    dynamic: bool = False
    gradient: bool = False
    reason: str = ""
    """Why it is on the host, as reports say; empty for other kinds."""

    @property
    def emulated(self) -> tuple[str, ...]:
        return tuple(dtype for dtype in self.native if dtype not in PUBLISHED_DTYPES)


def supported_ops() -> Mapping[str, OperatorSupport]:
    """What becomes of every overload of core ATen, of all that has a native form, and of all that
    conformance runs met; by its name, such as `aten.add.Tensor`."""
    seen = _seen()
    names = {*_overloads(), *seen}
    return {name: _describe(name, seen.get(name, {})) for name in sorted(names)}


@cache
def _seen() -> Mapping[str, Mapping[str, Any]]:
    return json.loads(files("lpu_mlir").joinpath("operators.json").read_text())


@cache
def _overloads() -> Mapping[str, Any]:
    """Core ATen and what the compiler's tables name."""
    named = (*HANDLERS, *SPECIAL, *ON_HOST)
    overloads: list[Any] = [op for op in named if isinstance(op, OpOverload)]
    return {str(op): op for op in (*_core(), *overloads)}


def _core() -> Iterator[Any]:
    names: list[str] = _TORCH._dispatch_get_all_op_names()
    for name in names:
        if name.startswith("aten::"):
            overload = _find(name.replace("::", "."))
            if overload is not None and torch.Tag.core in overload.tags:
                yield overload


def _describe(name: str, seen: Mapping[str, Any]) -> OperatorSupport:
    overload = _overloads().get(name) or _find(name)
    kind = kind_of(name)
    if kind == "native" and seen.get("host") and not seen.get("native"):
        kind = "host"
    return OperatorSupport(
        name,
        kind,
        core=overload is not None and torch.Tag.core in overload.tags,
        native=tuple(seen.get("native", ())),
        host=tuple(seen.get("host", ())),
        dynamic=bool(seen.get("dynamic")),
        gradient=bool(seen.get("gradient")),
        reason=why_on_host(overload) if kind == "host" else "",
    )


def _find(name: str) -> Any:
    """The overload of that name; None for operators of other kinds and of other libraries."""
    namespace, _, rest = name.partition(".")
    packet, _, overload = rest.partition(".")
    found = getattr(getattr(torch.ops, namespace), packet, None) if packet else None
    return getattr(found, overload or "default", None)


def kind_of(name: str) -> str:
    """What the compiler does with an overload, as its tables say."""
    overload = _overloads().get(name) or _find(name)
    if overload is None:
        return "native" if name in _NAMED else "host"
    tensors = any("Tensor" in str(result.type) for result in overload._schema.returns)
    if overload in ON_HOST:
        return "host"
    if overload in decompositions():
        return "decomposed" if tensors else "symbolic"
    if overload in HANDLERS or (overload in SPECIAL and tensors):
        return "native"
    if overload in SPECIAL or (not tensors and "sym_" in name):
        return "symbolic"
    if overload._schema.is_mutable:
        return "functionalized"
    composite = _TORCH.DispatchKey.CompositeImplicitAutograd
    if overload.has_kernel_for_dispatch_key(composite):
        return "decomposed"
    return "host"


_NAMED = {*BY_NAME, *(str(op) for op in HIGHER_ORDER)}
