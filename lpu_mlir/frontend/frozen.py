"""Which inputs of a graph have the same elements at every call: parameters and buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx
from torch._guards import TracingContext

_MARK = "lpu.frozen"


def mark_frozen(gm: fx.GraphModule) -> None:
    """Marks what Dynamo knows to be a module's own tensors, and the graph's constants.

    To be called while AOTAutograd compiles `gm`.  Not all of it need be constant: the graph may
    write to a buffer, which the importer sees.
    """
    context: Any = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    for position in metadata.static_input_indices if metadata is not None else ():
        placeholders[position].meta[_MARK] = True
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            node.meta[_MARK] = True


def is_marked(node: fx.Node) -> bool:
    return _MARK in node.meta


def refuse_training(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
    """Stands in for the compiler of a graph whose inputs require gradients; raises ValueError.

    A step of training changes all that would be kept, and to leave the option without effect would
    hide that the caller forgot to switch gradients off.
    """
    raise ValueError(
        "options={'freeze': True} of lpu_mlir is for inference, and gradients are recorded here: "
        "call the compiled function under torch.no_grad() or torch.inference_mode(), or leave the "
        "option away"
    )
