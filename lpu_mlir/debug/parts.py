"""Parts of an FX graph with the inputs of one call, run in eager PyTorch or compiled."""

from __future__ import annotations

import operator
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, fx

from lpu_mlir.capture import Compiler
from lpu_mlir.frontend.values import flattened


@dataclass(frozen=True)
class Part:
    """A graph that AOTAutograd made, or a piece of one, and a value for each placeholder."""

    gm: fx.GraphModule
    inputs: Sequence[Any]

    @property
    def placeholders(self) -> list[fx.Node]:
        return [node for node in self.gm.graph.nodes if node.op == "placeholder"]

    @property
    def calls(self) -> list[fx.Node]:
        return [node for node in self.gm.graph.nodes if node.op == "call_function"]

    @property
    def outputs(self) -> Sequence[Any]:
        """What the graph returns: nodes and constants."""
        [node] = [node for node in self.gm.graph.nodes if node.op == "output"]
        return node.args[0] if isinstance(node.args[0], list | tuple) else node.args


# --- running ------------------------------------------------------------------------------------


class _Eager(fx.Interpreter):
    """Runs a graph as PyTorch does and keeps the values of some nodes.

    Some operators give another dtype in eager than the graph says: `native_layer_norm` of bfloat16
    with float32 weights has its statistics in float32, and in bfloat16 by the graph.  A program has
    to keep to the graph, as do the graphs that go on from there, so such values are converted.
    """

    def __init__(self, gm: fx.GraphModule, kept: Collection[fx.Node]):
        super().__init__(gm)
        self.kept = kept
        self.values: dict[fx.Node, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        value = as_described(super().run_node(n), n.meta.get("val"))
        if n in self.kept:
            self.values[n] = value
        return value


def as_described(value: Any, described: Any) -> Any:
    """A node's value in the dtypes that the graph says; of several results, each."""
    if isinstance(value, list | tuple) and isinstance(described, list | tuple):
        values, types = cast("Sequence[Any]", value), cast("Sequence[Any]", described)
        return tuple(map(as_described, values, types))
    if isinstance(value, Tensor) and isinstance(described, Tensor):
        return value.to(described.dtype)
    return cast("Any", value)


def run_eager(
    part: Part, inputs: Sequence[Any], kept: Collection[fx.Node] = ()
) -> tuple[list[Any], dict[fx.Node, Any]]:
    """What the graph returns for these inputs, which it may change, and the kept nodes' values."""
    eager = _Eager(part.gm, kept)
    with torch.no_grad():
        outputs: Any = eager.run(*inputs)
    return list(flattened(outputs)), eager.values


def run_compiled(part: Part, inputs: Sequence[Any], compiler: Compiler) -> list[Any]:
    """The same by a compiler; the generator of random numbers is left as it was."""
    with random_numbers_kept():
        return compiler(part.gm, inputs)(list(inputs))


@contextmanager
def random_numbers_kept() -> Generator[None]:
    """What is drawn inside is drawn again after."""
    state = torch.random.get_rng_state()
    try:
        yield
    finally:
        torch.random.set_rng_state(state)


def written_inputs(part: Part) -> list[int]:
    """The positions of the inputs that the graph changes."""
    targets: set[Any] = set()
    for node in part.calls:
        schema = getattr(node.target, "_schema", None)
        for argument, value in zip(schema.arguments if schema else (), node.args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                targets.add(_written(value))
    return [i for i, node in enumerate(part.placeholders) if node in targets]


def _written(value: Any) -> Any:
    """The placeholder behind a write: copies into it may be chained."""
    while isinstance(value, fx.Node) and value.target is torch.ops.aten.copy_.default:
        value = value.args[0]
    return value


def copy_inputs(part: Part) -> list[Any]:
    """The inputs, with storage of their own where the graph writes; what is shared stays shared."""
    given = part.inputs
    copies = {
        given[i].untyped_storage().data_ptr(): given[i].untyped_storage().clone()
        for i in written_inputs(part)
    }
    return [_moved(value, copies) if isinstance(value, Tensor) else value for value in given]


def _moved(tensor: Tensor, copies: Mapping[int, torch.UntypedStorage]) -> Tensor:
    storage = copies.get(tensor.untyped_storage().data_ptr()) if copies else None
    if storage is None:
        return tensor
    view: Any = tensor.new_empty(0)
    return view.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())


# --- cutting ------------------------------------------------------------------------------------


def is_symbol(node: fx.Node) -> bool:
    """Whether a node is a number that symbols stand for."""
    return isinstance(node.meta.get("val"), torch.SymInt | torch.SymFloat)


def ancestors(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """The calls that some nodes need, themselves among them."""
    found: set[fx.Node] = set()
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += node.all_input_nodes
    return {node for node in found if node.op == "call_function"}


def extract(
    part: Part,
    kept: Collection[fx.Node],
    outputs: Sequence[Any],
    values: Mapping[fx.Node, Any],
) -> Part:
    """The part of a graph that consists of the `kept` calls and returns `outputs`.

    What these read of other calls becomes an input: its value is among `values`.  Inputs that
    nothing reads are left out, but for the extents that shapes are made of.
    """
    graph = fx.Graph()
    environment: dict[fx.Node, fx.Node] = {}
    wanted = [node for node in part.calls if node in kept]
    read = {source for node in wanted for source in node.all_input_nodes}
    read |= {output for output in outputs if isinstance(output, fx.Node)}
    inputs: list[Any] = []
    given = dict(zip(part.placeholders, part.inputs, strict=True))
    for node in part.gm.graph.nodes:
        inside = node in kept
        if node.op == "get_attr" and node in read and node not in values:
            environment[node] = graph.node_copy(node)
        elif (node in read and not inside) or (node in given and is_symbol(node)):
            environment[node] = graph.placeholder(node.name)
            inputs.append(given[node] if node in given else values[node])
            environment[node].meta = {"val": inputs[-1], **node.meta}
    for node in wanted:
        environment[node] = graph.node_copy(node, environment.__getitem__)
    graph.output(tuple(environment.get(o, o) if isinstance(o, fx.Node) else o for o in outputs))
    return Part(fx.GraphModule(part.gm, graph), inputs)


def source_call(node: fx.Node) -> fx.Node:
    """The call that a result is of: itself, or the one of several results."""
    source = node.args[0] if is_getitem(node) else node
    return source if isinstance(source, fx.Node) else node


def is_getitem(node: fx.Node) -> bool:
    return node.target is operator.getitem
