"""What the importer asks about FX nodes and their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
import torch._higher_order_ops.effects  # pyright: ignore[reportUnusedImport]  # registers with_effects
from torch import fx
from torch._functorch._aot_autograd.descriptors import (
    BackwardTokenAOTInput,
    ForwardTokenAOTInput,
)
from xdsl.dialects.builtin import (
    FileLineColLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import SSAValue

from lpu_mlir.dialects.location import describe_location
from lpu_mlir.dialects.lpu import COMPUTED, element_type
from lpu_mlir.frontend.builder import as_value
from lpu_mlir.frontend.values import flattened, readable
from lpu_mlir.memo import MEMO

with_effects = torch.ops.higher_order.with_effects


def locate(node: fx.Node) -> LocationAttr:
    """The user's line that a node comes from.

    Where Dynamo saw none, as in a compiled `Sequential` or `torch.sort`, what it was compiling: the
    module's path and class, or the function.
    """
    stack_trace = node.meta.get("stack_trace")
    found = _innermost(stack_trace) if stack_trace else None
    if found is not None:
        return found
    name = _module_of(node) or _function_of(node)
    return NameLoc(StringAttr(name), NoneAttr()) if name else UnknownLoc()


@lru_cache(MEMO)
def _innermost(stack_trace: str) -> LocationAttr | None:
    """The innermost frame of a stack trace."""
    for line in reversed(stack_trace.splitlines()):
        if (text := line.strip()).startswith('File "'):
            path, _, rest = text[6:].partition('", line ')
            number = rest.partition(",")[0]
            return FileLineColLoc(StringAttr(path), IntAttr(int(number)), IntAttr(0))
    return None


def _of_forward(node: fx.Node, key: str) -> Any:
    """What a node, or the one of the forward pass whose gradient it is part of, was traced from."""
    return node.meta.get(key) or node.meta.get(f"fwd_{key}")


def _module_of(node: fx.Node) -> str:
    """Such as `fn.0 (Linear)`: `fn` is what torch.compile was given."""
    stack = _of_forward(node, "nn_module_stack")
    if not stack:
        return ""
    path, kind = list(stack.values())[-1]
    return f"{readable(path)} ({getattr(kind, '__name__', kind)})"


def _function_of(node: fx.Node) -> str:
    """Such as `function softmax`."""
    stack = _of_forward(node, "source_fn_stack")
    if not stack:
        return ""
    target = stack[-1][1]
    return f"function {getattr(target, '__name__', target)}"


def source_of(node: fx.Node) -> str | None:
    return describe_location(locate(node)) or None


def drop_tokens(gm: fx.GraphModule) -> None:
    """Takes the tokens out of a graph that AOTAutograd has left there, where only operators of
    branches could take them: it passes none, and wants none back."""
    kinds = ForwardTokenAOTInput | BackwardTokenAOTInput
    taken = gm.graph.find_nodes(op="placeholder")
    tokens = [node for node in taken if isinstance(node.meta.get("desc"), kinds)]
    if not tokens:
        return
    (output,) = gm.graph.find_nodes(op="output")
    given: Any = output.args[0]
    output.args = (tuple(given)[len(tokens) :],)
    for token in tokens:
        gm.graph.erase_node(token)
    gm.recompile()


def all_native(args: Sequence[Any], kwargs: Mapping[str, Any], results: Sequence[Any]) -> bool:
    items = [item for value in (*args, *kwargs.values()) for item in flattened(value)]
    types = [as_value(item).type for item in items if isinstance(item, SSAValue)]
    return all(element_type(type_) in COMPUTED for type_ in (*results, *types))
