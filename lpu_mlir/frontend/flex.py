"""flex_attention, written out: scores, the user's function of them, its mask, a softmax.

PyTorch hands the operator over whole, with the graphs of the user's functions of one score.  It is
replaced by what PyTorch itself computes in eager, in core ATen, where attention is found again.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import fx
from torch._higher_order_ops.flex_attention import (
    flex_attention,
    math_attention,  # pyright: ignore[reportUnknownVariableType]
)
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from lpu_mlir.frontend.control import attribute
from lpu_mlir.frontend.decompositions import decompositions


def write_out_attention(gm: fx.GraphModule) -> None:
    """Replaces flex_attention in place.  PyTorch has no gradients of it on CPUs."""
    for node in gm.graph.find_nodes(op="call_function", target=flex_attention):
        _write_out(gm, node)


def _write_out(gm: fx.GraphModule, node: fx.Node) -> None:
    leaves, spec = tree_flatten((node.args, node.kwargs))
    inputs = [leaf for leaf in leaves if isinstance(leaf, fx.Node) and leaf.op != "get_attr"]

    def compute(*given: Any) -> Any:
        values = iter(given)

        def value(leaf: Any) -> Any:
            if not isinstance(leaf, fx.Node):
                return leaf
            return attribute(gm, leaf) if leaf.op == "get_attr" else next(values)

        args, kwargs = tree_unflatten([value(leaf) for leaf in leaves], spec)
        return math_attention(*args, **kwargs)

    given = [leaf.meta["val"] for leaf in inputs]
    with next(value for value in given if isinstance(value, FakeTensor)).fake_mode:
        traced = make_fx(compute, dict(decompositions()))(*given)
    _replace(gm, node, traced, inputs)


def _replace(
    gm: fx.GraphModule, node: fx.Node, traced: fx.GraphModule, inputs: Sequence[fx.Node]
) -> None:
    """Puts a traced graph in the place of a node whose results are items of a tuple."""
    places = [inner for inner in traced.graph.nodes if inner.op == "placeholder"]
    mapped: dict[fx.Node, Any] = dict(zip(places, inputs, strict=True))
    for inner in traced.graph.nodes:
        if inner.op == "get_attr":
            name = f"{node.name}_{inner.target}"
            gm.register_buffer(name, attribute(traced, inner))
            with gm.graph.inserting_before(node):
                mapped[inner] = gm.graph.get_attr(name)
    with gm.graph.inserting_before(node):
        for inner in traced.graph.nodes:
            if inner.op == "call_function":
                copied = gm.graph.node_copy(inner, lambda n: mapped[n])
                copied.meta = {**node.meta, "val": inner.meta.get("val")}
                mapped[inner] = copied
    (results,) = cast("tuple[Any, ...]", traced.graph.output_node().args)
    _replace_items(node, torch.fx.map_arg(results, lambda n: mapped[n]))
    gm.graph.erase_node(node)


def _replace_items(node: fx.Node, results: Any) -> None:
    for user in list(node.users):
        assert user.target is operator.getitem
        result = results[user.args[1]]
        if isinstance(result, tuple | list):
            _replace_items(user, result)
        elif isinstance(result, fx.Node):
            result.meta["val"] = user.meta.get("val", result.meta["val"])
            user.replace_all_uses_with(result)
        user.graph.erase_node(user)
