"""Inputs that no program can take, refused before PyTorch's internals trip over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from lpu_mlir.frontend.dtypes import TAKEN
from lpu_mlir.frontend.errors import Unsupported
from lpu_mlir.frontend.values import described, readable


@dataclass(frozen=True)
class Refusal:
    """A kind of tensor that is not taken: how it is told, why, and what the user can do."""

    applies: Callable[[Tensor], bool]
    reason: Callable[[Tensor], str]
    way_out: str


def _dispatches(value: Tensor) -> bool:
    """Whether operators on it run code of its class that AOTAutograd does not take apart."""
    kind: Any = type(value)
    plain: Any = torch.Tensor
    return (
        kind.__torch_dispatch__ is not plain.__torch_dispatch__
        and not isinstance(value, FakeTensor | FunctionalTensor)
        and not is_traceable_wrapper_subclass(value)
    )


REFUSALS: Sequence[Refusal] = (
    Refusal(
        lambda value: value.is_nested,
        lambda value: "a nested tensor",
        "pad it with torch.nested.to_padded_tensor",
    ),
    Refusal(
        _dispatches,
        lambda value: f"a tensor of class {type(value).__name__}, which has a __torch_dispatch__",
        "pass a plain tensor",
    ),
    Refusal(
        lambda value: value.is_meta,
        lambda value: "a meta tensor, which has no data",
        "give it data with to_empty(device='cpu')",
    ),
    Refusal(
        lambda value: value.device.type != "cpu",
        lambda value: f"a tensor on {value.device}; programs take tensors on the CPU",
        "move it with .cpu()",
    ),
    Refusal(
        lambda value: value.layout != torch.strided,
        lambda value: f"a tensor of layout {value.layout}",
        "make it dense with .to_dense()",
    ),
    Refusal(
        lambda value: value.is_quantized,
        lambda value: "a quantized tensor",
        "make it plain with .dequantize()",
    ),
    Refusal(
        lambda value: value.dtype not in TAKEN,
        lambda value: f"a tensor of dtype {value.dtype}",
        "convert it before",
    ),
)
"""The first that applies is the one that is named."""


def check_inputs(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> None:
    """Raises Unsupported for the first input of a graph of Dynamo's that cannot be taken."""
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    for node, value in zip(placeholders, example_inputs, strict=True):
        if not isinstance(value, Tensor):
            continue
        for refusal in REFUSALS:
            if refusal.applies(value):
                raise Unsupported(
                    f"argument {_name(node)}",
                    refusal.reason(value),
                    [described(value)],
                    None,
                    refusal.way_out,
                )


def _name(node: fx.Node) -> str:
    """The user's name of an input, such as `x` or `model.weight`."""
    source = getattr(node.meta.get("grapharg"), "source", None)
    return readable(str(source.name)) if source is not None else node.name
