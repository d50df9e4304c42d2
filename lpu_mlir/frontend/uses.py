"""Which operators a graph calls: those that became part of the program, and those that did not."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from lpu_mlir.frontend.values import tensors_in


@dataclass(frozen=True)
class Use:
    """How often a graph calls an overload on tensors of a dtype.

    `original` is the operator that AOTAutograd wrote it for, itself if it was not decomposed.
    `dtype` is that of the first tensor operand that is not bool, or of the results if there is no
    operand, as PyTorch calls it.  `dynamic` says whether a tensor has a symbolic extent, `native`
    whether the operator became part of the program; if not, it runs on the host.
    """

    overload: str
    original: str
    dtype: str
    dynamic: bool
    native: bool
    count: int = 1


def counted(uses: Counter[Use]) -> Iterator[Use]:
    for use, count in uses.items():
        yield replace(use, count=count)


def describe_use(node: fx.Node, native: bool) -> Use | None:
    """None for what is no operator: parts of results, arithmetic on sizes, assertions on them."""
    results = tensors_in(node.meta.get("val"))
    if node.target is operator.getitem or (native and not results):
        return None
    operands = [v for given in node.all_input_nodes for v in tensors_in(given.meta.get("val"))]
    dtypes = [tensor.dtype for tensor in operands or results]
    dtype = next((d for d in dtypes if d != torch.bool), torch.bool)
    extents: list[Any] = [extent for tensor in (*operands, *results) for extent in tensor.shape]
    return Use(
        overload=str(node.target),
        original=str(node.meta.get("original_aten") or node.target),
        dtype=str(dtype).removeprefix("torch."),
        dynamic=any(isinstance(extent, torch.SymInt) for extent in extents),
        native=native,
    )
