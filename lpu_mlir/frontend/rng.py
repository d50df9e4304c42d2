"""Random operators that are computed again in the backward pass (activation checkpointing).

PyTorch writes these as higher-order operators that keep the state of its generator, or run an
operator from a kept state.  Both are put in plain ones, which run on the host in program order:

    run_and_save_rng_state(op, x)        state = get_rng_state(); op(x)
    run_with_rng_state(state, op, x)     now = get_rng_state(); set_rng_state(state); op(x);
                                         set_rng_state(now)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, fx
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state

# The parts of torch.library and of FX that have no types.
_custom_op: Any = torch.library.custom_op
_LIBRARY = "lpu_mlir"


@_custom_op(f"{_LIBRARY}::get_rng_state", mutates_args=())
def get_rng_state() -> Tensor:
    """The state of the default CPU generator, u8."""
    return torch.get_rng_state()


@_custom_op(f"{_LIBRARY}::set_rng_state", mutates_args=())
def set_rng_state(state: Tensor) -> None:
    torch.set_rng_state(state)


GET: Any = torch.ops.lpu_mlir.get_rng_state.default
SET: Any = torch.ops.lpu_mlir.set_rng_state.default


def _call(
    graph: fx.Graph, like: fx.Node, val: Any, target: Any, args: Any, kwargs: Any = None
) -> fx.Node:
    """A call that gives `val` and comes from the source line of `like`."""
    node = graph.call_function(target, tuple(args), kwargs)
    node.meta = {**like.meta, "val": val}
    return node


def _save(graph: fx.Graph, node: fx.Node) -> None:
    """The partitioner describes the two parts, (state, result), not the node."""
    target, *args = node.args
    parts: dict[Any, fx.Node] = {user.args[1]: user for user in node.users}
    state, result = parts[0], parts[1]
    calls = {
        state: _call(graph, result, state.meta["val"], GET, ()),
        result: _call(graph, result, result.meta["val"], target, args, node.kwargs),
    }
    for part, call in calls.items():
        part.replace_all_uses_with(call)
        graph.erase_node(part)


def _restore(graph: fx.Graph, node: fx.Node) -> None:
    kept: Any
    kept, target, *args = node.args
    now = _call(graph, node, kept.meta["val"], GET, ())
    _call(graph, node, None, SET, (kept,))
    result = _call(graph, node, _value(kept, target, args, node.kwargs), target, args, node.kwargs)
    _call(graph, node, None, SET, (now,))
    node.replace_all_uses_with(result)


def _value(kept: fx.Node, target: Any, args: Any, kwargs: Any) -> Any:
    """What a call gives, as fake tensors: the partitioner leaves it out in a backward graph."""
    values = fx.map_arg((tuple(args), kwargs), lambda node: node.meta["val"])
    with kept.meta["val"].fake_mode:
        return target(*values[0], **values[1])


_PLAIN: Mapping[Any, Callable[[fx.Graph, fx.Node], None]] = {
    run_and_save_rng_state: _save,
    run_with_rng_state: _restore,
}


def plain_random_operators(graph: fx.Graph) -> None:
    """Rewrites, in place, the operators that keep or restore the generator's state."""
    for node in list(graph.nodes):
        rewrite = _PLAIN.get(node.target) if node.op == "call_function" else None
        if rewrite is not None:
            with graph.inserting_before(node):
                rewrite(graph, node)
            graph.erase_node(node)
