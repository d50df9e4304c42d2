"""Higher-order operators: their graphs become functions that `lpu.if` and `lpu.while` call.

`scan`, `associative_scan` and `map` are loops that count: they read a row of each input and write a
row of each output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._higher_order_ops._invoke_quant import InvokeQuant, invoke_quant_packed
from torch._higher_order_ops.associative_scan import associative_scan_op
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op, while_loop_stack_output_op
from torch._ops import OpOverload
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from lpu_mlir.dialects.expr import Expr, contiguous_strides
from lpu_mlir.dialects.lpu import IfOp, ShapeAttr, WhileOp, extents, i1, tensor_type
from lpu_mlir.dialects.lpu_graph import WriteBackOp
from lpu_mlir.frontend.builder import GraphBuilder, as_value
from lpu_mlir.frontend.calls import All, Comparison
from lpu_mlir.frontend.nodes import with_effects
from lpu_mlir.frontend.outputs import STRIDES
from lpu_mlir.frontend.table import ON_HOST
from lpu_mlir.frontend.values import flattened, tensors_in

if TYPE_CHECKING:
    from lpu_mlir.frontend.importer import Importer


aten = torch.ops.aten


def constants_of(gm: fx.GraphModule) -> Iterator[tuple[fx.Node, torch.Tensor]]:
    """The tensors that a graph has as attributes, and those of the graphs in it."""
    for node in gm.graph.nodes:
        if node.op != "get_attr":
            continue
        value: Any = attribute(gm, node)
        if isinstance(value, torch.Tensor):
            yield node, value
        elif isinstance(value, fx.GraphModule):
            yield from constants_of(value)


def attribute(gm: fx.GraphModule, node: fx.Node) -> Any:
    """What a `get_attr` node stands for."""
    value: Any = gm
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return value


def given_to(node: fx.Node) -> list[Any]:
    """The arguments of a call, those by name last."""
    return [*node.args, *node.kwargs.values()]


# --- operators ----------------------------------------------------------------------------------


def cond(importer: Importer, node: fx.Node) -> None:
    given, then, otherwise, operands = given_to(node)
    graphs = [graph_of(importer, graph) for graph in (then, otherwise)]
    expected = [importer.type_of(node, v) for v in tensors_in(node.meta["val"])]
    if len(expected) < len(flattened(node.meta["val"])):
        raise importer.unsupported(node, "a branch gives something that is no tensor")
    if late := {n for t in expected for e in extents(t) for n in e.names()} - importer.bound:
        raise importer.unsupported(
            node, f"its branches tell only when they run what {min(late)} is"
        )
    callee = Callee(importer, node, [importer.value(v) for v in operands], graphs)
    names: list[str] = []
    for graph, suffix in zip(graphs, ("then", "else"), strict=True):
        block, outputs = callee.body(graph)
        results = [callee.conforming(v, t) for v, t in zip(outputs, expected, strict=True)]
        names.append(callee.finish(suffix, block, results))
    flag = element_of(importer, importer.value(given))
    op = IfOp(flag, names[0], names[1], callee.arguments, expected)
    importer.environment[node] = tuple(emit(importer, op))


def while_loop(importer: Importer, node: fx.Node) -> None:
    if node.kwargs.get("mutated_arg_indices"):
        raise importer.unsupported(node, "it changes in place what it is given")
    test, body, carried, additional = given_to(node)
    values = [importer.value(v) for v in (*carried, *additional)]
    if not all(isinstance(value, SSAValue) for value in values[: len(carried)]):
        raise importer.unsupported(node, "it carries a number; make it a tensor of one element")
    graphs = [graph_of(importer, graph) for graph in (test, body)]
    callee = Callee(importer, node, values, graphs)
    block, outputs = callee.body(graphs[0])
    condition = callee.finish("condition", block, [callee.element_of(outputs[0])])
    block, outputs = callee.body(graphs[1])
    callee.write_back(block, outputs)
    function = callee.finish("body", block, [])
    importer.environment[node] = tuple(loop(importer, callee, len(carried), condition, function))


def while_loop_stack_output(importer: Importer, node: fx.Node) -> None:
    """What each turn carried on, which gradients need.

    How many turns there are only the loop tells: it runs once to count them, and once more to write
    their rows.  Without a turn there is one row, of what the loop began with.
    """
    test, body, carried, additional = given_to(node)
    if any(draws(graph_of(importer, graph)) for graph in (test, body)):
        raise importer.unsupported(node, "it draws random numbers, and would draw them twice")
    begin, more = ([importer.value(v) for v in part] for part in (carried, additional))
    b, turns = importer.b, importer.b.full(0, torch.int64)
    count = counted(importer, node, (test, body), [turns, *begin], [], more)[0]
    val: torch.Tensor = node.meta["val"][0]
    rows = b.pointwise("maximum", count, b.full(1, torch.int64))
    reason, read = ON_HOST[aten._local_scalar_dense.default], aten._local_scalar_dense.default
    extent = importer.host_call(node, val.shape[0], [rows], {}, reason, read)
    importer.symbols.backed[str(extent)] = (Expr.const(1), None)
    stacks = [b.broadcast(as_value(x), [extent, *extents(as_value(x).type)]) for x in begin]
    results = counted(importer, node, (test, body), [turns, *begin], stacks, more)
    importer.environment[node] = tuple(results[1 + len(begin) :])


def draws(gm: fx.GraphModule) -> bool:
    """Whether a graph, or one in it, draws numbers from a generator, or has another side effect."""
    graphs = [inner.graph for inner in gm.modules() if isinstance(inner, fx.GraphModule)]
    called: set[Any] = {node.target for graph in graphs for node in graph.nodes}
    return with_effects in called or any(
        torch.Tag.nondeterministic_seeded in target.tags
        for target in called
        if isinstance(target, OpOverload)
    )


def counted(
    importer: Importer,
    node: fx.Node,
    graphs: Sequence[Any],
    carried: Sequence[Any],
    stacks: Sequence[SSAValue],
    additional: Sequence[Any],
) -> Sequence[SSAValue]:
    """A loop whose first carried value is the number of its turns; those write rows of `stacks`.

    Gives what is carried in the end, and the stacks.
    """
    test, body = (graph_of(importer, graph) for graph in graphs)
    callee = Callee(importer, node, [*carried, *stacks, *additional], [test, body])
    counts = (1, len(carried) - 1, len(stacks))

    block = callee.block()
    _, kept, _ = split(block.args, *counts)
    more = callee.tensors(block)[sum(counts) :]
    [going_on] = callee.inline(test, block, [*kept, *more])
    condition = callee.finish("condition", block, [callee.element_of(going_on)])

    block = callee.block()
    inner = callee.builder(block)
    at, kept, written = split(block.args, *counts)
    more = callee.tensors(block)[sum(counts) :]
    made = callee.inline(body, block, [*kept, *more])
    lines = [
        inner.scatter("replace", stack, as_value(row), [at[0]], [0], 0)
        for stack, row in zip(written, made if stacks else (), strict=True)
    ]
    following = inner.pointwise("add", at[0], inner.full(1, torch.int64))
    callee.write_back(block, [following, *made, *lines])
    function = callee.finish("body", block, [])
    return loop(importer, callee, sum(counts), condition, function)


def scan(importer: Importer, node: fx.Node) -> None:
    graph, init, rows, additional = given_to(node)
    begin = [importer.value(v) for v in init]
    outputs = blank(importer, node, len(begin))
    results = over_rows(importer, node, graph, begin, rows, additional, outputs)
    importer.environment[node] = tuple(results)


def map_(importer: Importer, node: fx.Node) -> None:
    graph, rows, additional = given_to(node)
    outputs = blank(importer, node, 0)
    results = over_rows(importer, node, graph, [], rows, additional, outputs)
    importer.environment[node] = tuple(results)


def associative_scan(importer: Importer, node: fx.Node) -> None:
    """The first row stays; to each other the graph adds all before it, which is carried, too."""
    graph, rows, additional = given_to(node)
    b, whole = importer.b, [as_value(importer.value(v)) for v in rows]
    if extents(whole[0].type)[0] == 0:
        importer.environment[node] = tuple(whole)
        return
    first = [b.gather(x, [b.full(0, torch.int64)], [0], 0) for x in whole]
    results = over_rows(importer, node, graph, first, rows, additional, whole, start=1)
    importer.environment[node] = tuple(results[len(first) :])


def blank(importer: Importer, node: fx.Node, carried: int) -> list[SSAValue]:
    """Tensors for the rows to be written: of all results but the first, which are carried."""
    results = tensors_in(node.meta["val"])[carried:]
    types = [importer.type_of(node, v) for v in results]
    pairs = zip(results, types, strict=True)
    return [importer.b.full(0, v.dtype, extents(type_)) for v, type_ in pairs]


def over_rows(
    importer: Importer,
    node: fx.Node,
    graph: Any,
    begin: Sequence[Any],
    rows: Sequence[Any],
    additional: Sequence[Any],
    outputs: Sequence[SSAValue],
    start: int = 0,
) -> Sequence[SSAValue]:
    """A loop over the rows of tensors, each time with what the last one carried.

    The last results of the graph become rows of `outputs`.  Gives what is carried in the end, and
    the outputs.
    """
    gm, b = graph_of(importer, graph), importer.b
    read, more = ([importer.value(v) for v in part] for part in (rows, additional))
    if not all(isinstance(value, SSAValue) for value in (*begin, *read)):
        raise importer.unsupported(node, "it goes over numbers; make them tensors")
    count = extents(read[0].type)[0]
    carried = [b.full(start, torch.int64), *begin, *outputs]
    callee = Callee(importer, node, [*carried, *read, *more], [gm])

    block = callee.block()
    test = callee.builder(block)
    going_on = test.pointwise("lt", block.args[0], test.number(count, torch.int64))
    condition = callee.finish("condition", block, [going_on])

    block = callee.block()
    inner = callee.builder(block)
    at, kept, written = split(block.args, 1, len(begin), len(outputs))
    taken = callee.tensors(block)[len(carried) :]
    picked = [inner.gather(as_value(x), [at[0]], [0], 0) for x in taken[: len(read)]]
    made = callee.inline(gm, block, [*kept, *picked, *taken[len(read) :]])
    lines = [
        inner.scatter("replace", out, as_value(row), [at[0]], [0], 0)
        for out, row in zip(written, made[len(made) - len(outputs) :], strict=True)
    ]
    following = inner.pointwise("add", at[0], inner.full(1, torch.int64))
    callee.write_back(block, [following, *made[: len(begin)], *lines])
    body = callee.finish("body", block, [])
    return loop(importer, callee, len(carried), condition, body)[1:]


def in_place(importer: Importer, node: fx.Node) -> None:
    """What the graph does, in its place: `outline` finds equal ones again."""
    graph, _, *operands = given_to(node)
    gm = graph_of(importer, graph)
    inner = importer.inner(gm, importer.block, [importer.value(v) for v in operands])
    importer.environment[node] = tuple(inner)


def in_low_precision(importer: Importer, node: fx.Node) -> None:
    """A graph that the user marks as quantized, in its own dtypes."""
    inner = importer.inner(
        graph_of(importer, node.args[0]),
        importer.block,
        [importer.value(v) for v in node.args[1:]],
    )
    importer.environment[node] = tuple(inner)


def nothing(importer: Importer, node: fx.Node) -> None:
    """A description for another compiler."""
    importer.environment[node] = None


HIGHER_ORDER: Mapping[Any, Callable[[Importer, fx.Node], None]] = {
    cond_op: cond,
    while_loop_op: while_loop,
    while_loop_stack_output_op: while_loop_stack_output,
    scan_op: scan,
    associative_scan_op: associative_scan,
    map_impl: map_,
    invoke_subgraph: in_place,
    invoke_quant_packed: in_low_precision,
    InvokeQuant: nothing,
}
"""Higher-order operator -> what imports a node of it."""


# --- functions ----------------------------------------------------------------------------------


class Callee:
    """The functions that one node calls: all take the same arguments.

    `values` are what the graphs take, tensors or numbers; functions take the tensors among them,
    and the constants of all graphs.
    """

    def __init__(
        self,
        importer: Importer,
        node: fx.Node,
        values: Sequence[Any],
        graphs: Sequence[fx.GraphModule],
    ):
        self.importer, self.node, self.values = importer, node, values
        self.constants = [found for gm in graphs for found, _ in constants_of(gm)]
        tensors = [importer.scalar_tensor(v) for v in values]
        held = [importer.environment[found] for found in self.constants]
        self.arguments: list[SSAValue] = [v for v in (*tensors, *held) if v is not None]

    def block(self) -> Block:
        """A body without operations."""
        return Block(arg_types=[argument.type for argument in self.arguments])

    def builder(self, block: Block) -> GraphBuilder:
        made = GraphBuilder(block, self.importer.symbols.ranges)
        made.location = self.importer.b.location
        return made

    def tensors(self, block: Block) -> list[Any]:
        """The values as they are inside."""
        arguments = iter(block.args)
        return [self.importer.with_tensor(v, arguments) for v in self.values]

    def inline(self, gm: fx.GraphModule, block: Block, values: Sequence[Any]) -> list[Any]:
        """What a graph gives for values in the block of a function."""
        held = block.args[len(block.args) - len(self.constants) :]
        known = dict(zip(self.constants, held, strict=True))
        return self.importer.inner(gm, block, values, known)

    def body(self, gm: fx.GraphModule) -> tuple[Block, list[Any]]:
        """A graph as the body of a function, and what it gives."""
        block = self.block()
        return block, self.inline(gm, block, self.tensors(block))

    def conforming(self, value: Any, expected: Attribute) -> SSAValue:
        """A value of a body with the extents that PyTorch knows."""
        if not isinstance(value, SSAValue):
            raise self.importer.unsupported(self.node, "a graph in it gives something else")
        made = as_value(value)
        block = made.owner if isinstance(made.owner, Block) else made.owner.parent
        assert block is not None
        return self.builder(block).reshape(made, extents(expected))

    def element_of(self, value: Any) -> SSAValue:
        """A condition in a body as an element of i1."""
        if not isinstance(value, SSAValue):
            raise self.importer.unsupported(self.node, "its condition is no tensor")
        return self.conforming(value, tensor_type(i1, ()))

    def write_back(self, block: Block, values: Sequence[Any]) -> None:
        """Lets the first arguments have these values at the end of a body."""
        for value, argument in zip(values, block.args, strict=False):
            block.add_op(WriteBackOp(self.conforming(value, argument.type), argument))

    def finish(self, suffix: str, block: Block, results: Sequence[SSAValue]) -> str:
        """The name of a function with that body."""
        block.add_op(ReturnOp(*results))
        name = f"{self.node.name}_{suffix}_{len(self.importer.functions)}"
        types = FunctionType.from_lists(block.arg_types, [r.type for r in results])
        dense = [ShapeAttr(contiguous_strides(extents(r.type))) for r in results]
        attrs = ArrayAttr([DictionaryAttr({STRIDES: steps}) for steps in dense])
        function = FuncOp(name, types, Region(block), res_attrs=attrs)
        self.importer.functions.append(function)
        return name


def loop(
    importer: Importer, callee: Callee, carried: int, condition: str, body: str
) -> Sequence[SSAValue]:
    given = callee.arguments
    return emit(importer, WhileOp(condition, body, given[:carried], given[carried:]))


def emit(importer: Importer, op: Operation) -> Sequence[SSAValue]:
    importer.b.emit(op)
    return op.results


def graph_of(importer: Importer, argument: Any) -> fx.GraphModule:
    value = importer.value(argument)
    assert isinstance(value, fx.GraphModule), f"{argument} is no graph"
    return value


def element_of(importer: Importer, value: Any) -> SSAValue:
    """A condition as an element of i1: a tensor of one element, or a relation of extents."""
    b = importer.b
    if isinstance(value, SSAValue):
        return b.reshape(as_value(value), ())
    if isinstance(value, Comparison | All):
        return b.condition(value)
    return b.full(bool(value), torch.bool)


def split(values: Sequence[SSAValue], *counts: int) -> list[Sequence[SSAValue]]:
    """So many values, then so many, and so on."""
    parts: list[Sequence[SSAValue]] = []
    for count in counts:
        parts.append(values[:count])
        values = values[count:]
    return parts
