"""From an FX graph of ATen operators to a module with one function of `lpu_graph` operations.

The function's arguments are the graph's tensor inputs in order, then its tensor constants.  A
SymInt is no argument: it is an expression over the symbols that the function declares in
`lpu.symbols`.  What the graph returns is described by `lpu.outputs`, see `outputs.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy  # pyright: ignore[reportMissingTypeStubs]
import torch
from torch import fx
from torch._functorch._aot_autograd.descriptors import SyntheticBaseAOTInput
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    ModuleOp,
    StringAttr,
    UnitAttr,
    f64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.traits import is_side_effect_free

from lpu_mlir.dialects.expr import Expr, contiguous_strides
from lpu_mlir.dialects.lpu import (
    FROZEN,
    SYMBOLS,
    HostCallOp,
    ShapeAttr,
    element_type,
    extents,
    tensor_type,
)
from lpu_mlir.dialects.lpu_graph import WriteBackOp
from lpu_mlir.frontend import frozen, symfloat
from lpu_mlir.frontend.arguments import RELATIONS, encode_arguments
from lpu_mlir.frontend.builder import FloatScalar, GraphBuilder, as_value
from lpu_mlir.frontend.calls import All, Comparison
from lpu_mlir.frontend.control import HIGHER_ORDER, attribute, constants_of
from lpu_mlir.frontend.errors import WAY_OUT, NotNative, Unsupported
from lpu_mlir.frontend.flex import write_out_attention
from lpu_mlir.frontend.interface import (
    ExtentInput,
    FloatInput,
    IgnoredInput,
    Input,
    TensorInput,
)
from lpu_mlir.frontend.nodes import (
    all_native,
    locate,
    source_of,
)
from lpu_mlir.frontend.outputs import (
    OUTPUTS,
    STRIDES,
    OutputWriter,
    layout_attrs,
    unusual_strides,
)
from lpu_mlir.frontend.rng import plain_random_operators
from lpu_mlir.frontend.special import SPECIAL
from lpu_mlir.frontend.symbols import Symbols
from lpu_mlir.frontend.symint import Inexpressible, from_sympy, indicator, sym_node
from lpu_mlir.frontend.table import BY_NAME, HANDLERS, Handler, why_on_host
from lpu_mlir.frontend.types import ELEMENTS, NATIVE
from lpu_mlir.frontend.uses import Use, counted, describe_use
from lpu_mlir.frontend.values import (
    counts_by_strides,
    counts_in_storage,
    described,
    flattened,
    tensors_in,
)

aten = torch.ops.aten

BINDS = "lpu.binds"
"""Attribute of a host call: names of the symbols that its integer results bind, in order."""
STORAGE = "lpu.storage"
"""Attribute of a host call that finds its operand in the operand's own storage, as PyTorch does."""
FUNCTIONALIZED = "lpu.functionalized"
"""Attribute of a host call of an operator that changes arguments: of copies, which it gives."""


@dataclass(frozen=True)
class ImportedGraph:
    """A module and how its function relates to the FX graph.

    `inputs` has one entry for each placeholder; `constants` are the tensors to pass after the
    tensor inputs.  The function's attribute `lpu.outputs` says what the graph returns.  `uses` are
    the operators that the graph calls, also in the graphs of its higher-order operators.
    """

    module: ModuleOp
    func: FuncOp
    inputs: tuple[Input, ...]
    constants: tuple[torch.Tensor, ...]
    uses: tuple[Use, ...]


def import_graph(
    gm: fx.GraphModule,
    name: str = "main",
    fallback: str = "host",
    handlers: Mapping[Any, Handler] = HANDLERS,
) -> ImportedGraph:
    """Imports a graph of ATen operators whose nodes carry their values in `meta["val"]`.

    What has no translation becomes an `lpu.host_call`; with `fallback="error"`, or where that
    cannot be, `Unsupported` is raised.
    """
    plain_random_operators(gm.graph)
    write_out_attention(gm)
    return Importer(gm, fallback, handlers).run(name)


class Importer:
    def __init__(self, gm: fx.GraphModule, fallback: str, handlers: Mapping[Any, Handler]):
        self.gm = gm
        self.handlers = handlers
        self.fallback = fallback
        self.symbols = Symbols()
        self.environment: dict[fx.Node, Any] = {}
        self.arguments: dict[fx.Node, int] = {}
        self.argument_types: list[Attribute] = []
        self.argument_attrs: list[DictionaryAttr] = []
        self.constants: list[torch.Tensor] = []
        self.floats: dict[str, SSAValue] = {}
        self.written: dict[fx.Node, SSAValue] = {}
        self.bound: set[str] = set()
        self.foreign = False
        self.functions: list[FuncOp] = []
        """What higher-order operators call."""
        self.uses: Counter[Use] = Counter()
        self.on_host: set[fx.Node] = set()
        self.block = Block()
        self.b = GraphBuilder(self.block, self.symbols.ranges)

    # --- the walk ---------------------------------------------------------------------------
    def run(self, name: str) -> ImportedGraph:
        nodes = list(self.gm.graph.nodes)
        inputs = [self._placeholder(node) for node in nodes if node.op == "placeholder"]
        for node in nodes:
            if node.op == "get_attr":
                self._constant(node)
        self._bind_arguments()
        self.given = frozenset(self.symbols.declared)
        """The symbols that inputs tell."""
        self.bound |= self.given
        self.symbols.backed |= self.symbols.ranges
        return self._finish(name, tuple(inputs), self._calls(nodes))

    def _calls(self, nodes: Sequence[fx.Node]) -> Sequence[Any]:
        """Translates all calls; the arguments of the output node."""
        outputs: Sequence[Any] = ()
        for node in nodes:
            if node.op == "call_function":
                try:
                    self._call(node)
                except Inexpressible as error:
                    raise self.unsupported(node, str(error)) from error
                if use := describe_use(node, node not in self.on_host):
                    self.uses[use] += 1
            elif node.op == "output":
                outputs = node.args[0] if isinstance(node.args[0], list | tuple) else node.args
            elif node.op not in ("placeholder", "get_attr"):
                raise self.unsupported(node, f"a node of kind {node.op}")
        return outputs

    def inner(
        self,
        gm: fx.GraphModule,
        block: Block,
        values: Sequence[Any],
        constants: Mapping[fx.Node, SSAValue] | None = None,
    ) -> list[Any]:
        """What a graph that a higher-order operator has gives for its inputs, in a block.

        `constants` are the values there of tensors that are attributes of graphs; without them,
        those that they have here.
        """
        inside = Importer(gm, self.fallback, self.handlers)
        inside.symbols, inside.bound = self.symbols, set(self.bound)
        inside.floats, inside.functions = dict(self.floats), self.functions
        inside.uses = self.uses
        inside.foreign, inside.block = self.foreign, block
        inside.b = GraphBuilder(block, self.symbols.ranges)
        inside.environment.update(self.environment if constants is None else constants)
        nodes = list(gm.graph.nodes)
        taken = [node for node in nodes if node.op == "placeholder"]
        for node, value in zip(taken, values, strict=True):
            inside.environment[node] = inside.taken(node, value)
        for node in nodes:
            if node.op == "get_attr" and node not in inside.environment:
                inside.environment[node] = attribute(gm, node)
        return [inside.value(output) for output in inside._calls(nodes)]

    def taken(self, node: fx.Node, value: Any) -> Any:
        """What a placeholder stands for inside, with the extents that it has there."""
        val = node.meta.get("val")
        if isinstance(val, torch.SymFloat) and isinstance(value, FloatScalar):
            self.floats[str(sym_node(val).expr)] = value.value
        if not isinstance(val, torch.Tensor):
            return value
        return self.b.reshape(as_value(value), extents(self.type_of(node, val)))

    def scalar_tensor(self, value: Any) -> SSAValue | None:
        """The tensor that a value of a node is, or is kept in."""
        if isinstance(value, FloatScalar):
            return value.value
        return as_value(value) if isinstance(value, SSAValue) else None

    def with_tensor(self, value: Any, tensors: Iterator[SSAValue]) -> Any:
        """The value with the next tensor in place of its own, if it has one."""
        if isinstance(value, FloatScalar):
            return FloatScalar(next(tensors))
        return next(tensors) if isinstance(value, SSAValue) else value

    def _finish(
        self, name: str, inputs: tuple[Input, ...], outputs: Sequence[Any]
    ) -> ImportedGraph:
        self._mark_frozen()
        for target, value in self.written.items():
            self.block.add_op(WriteBackOp(value, self.block.args[self.arguments[target]]))
        extents, given = self.symbols.extents, self.given
        writer = OutputWriter(self.environment, self.arguments, self.b, extents, given)
        described = writer.write(outputs)
        self.block.add_op(ReturnOp(*writer.results))
        _erase_dead(self.block)
        func = FuncOp(
            name,
            FunctionType.from_lists(self.argument_types, [r.type for r in writer.results]),
            Region(self.block),
            arg_attrs=ArrayAttr(self.argument_attrs),
            res_attrs=ArrayAttr(writer.result_attrs),
        )
        for function in (func, *self.functions):
            function.attributes[SYMBOLS] = ArrayAttr(list(self.symbols.declared.values()))
        func.attributes[OUTPUTS] = described
        module = ModuleOp([func, *self.functions])
        uses = tuple(counted(self.uses))
        return ImportedGraph(module, func, inputs, tuple(self.constants), uses)

    def _mark_frozen(self) -> None:
        """What the graph writes to, such as a cache, may be other at the next call."""
        for node, index in self.arguments.items():
            if frozen.is_marked(node) and node not in self.written:
                attrs = self.argument_attrs[index].data
                self.argument_attrs[index] = DictionaryAttr({**attrs, FROZEN: UnitAttr()})

    # --- inputs -----------------------------------------------------------------------------
    def _placeholder(self, node: fx.Node) -> Input:
        val = node.meta.get("val")
        if isinstance(val, torch.Tensor):
            self.symbols.name_sizes((*val.shape, *val.stride()))
            longer = isinstance(node.meta.get("desc"), SyntheticBaseAOTInput)
            return TensorInput(self._tensor_argument(node, val), longer)
        if isinstance(val, torch.SymFloat):
            self.argument_types.append(tensor_type(f64, ()))
            self.argument_attrs.append(DictionaryAttr({}))
            self.arguments[node] = len(self.argument_types) - 1
            return FloatInput(self.arguments[node])
        if isinstance(val, int | torch.SymInt) and not isinstance(val, bool):
            self.symbols.name_sizes([val])
            self.environment[node] = self.symbols.expr(val)
            return ExtentInput(self.environment[node])
        self.environment[node] = val
        return IgnoredInput()

    def _tensor_argument(self, node: fx.Node, val: torch.Tensor) -> int:
        type_ = self.type_of(node, val)
        self.argument_types.append(type_)
        strides = self.symbols.extents(val.stride())
        self.argument_attrs.append(layout_attrs(extents(type_), strides))
        self.arguments[node] = len(self.argument_types) - 1
        return self.arguments[node]

    def _constant(self, node: fx.Node) -> None:
        value = attribute(self.gm, node)
        if isinstance(value, torch.Tensor):
            self._tensor_constant(node, value)
            return
        self.environment[node] = value
        if isinstance(value, fx.GraphModule):
            for inner, tensor in constants_of(value):
                self._tensor_constant(inner, tensor)

    def _tensor_constant(self, node: fx.Node, value: torch.Tensor) -> None:
        if isinstance(value, FakeTensor):  # a token that AOTAutograd gives, and takes away again
            value = torch.empty(value.shape, dtype=value.dtype, device="cpu")
        node.meta.setdefault("val", value)
        self._tensor_argument(node, value)
        self.constants.append(value.detach())

    def _bind_arguments(self) -> None:
        for type_ in self.argument_types:
            self.block.insert_arg(type_, len(self.block.args))
        for node, index in self.arguments.items():
            argument = self.block.args[index]
            argument.name_hint = node.name
            val = node.meta["val"]
            if isinstance(val, torch.SymFloat):
                self.environment[node] = FloatScalar(argument)
                self.floats[str(sym_node(val).expr)] = argument
            else:
                self.environment[node] = argument

    def type_of(self, node: fx.Node, val: torch.Tensor) -> Attribute:
        if val.layout != torch.strided or val.is_quantized:
            raise self.unsupported(node, f"a tensor of layout {val.layout}")
        element = ELEMENTS.get(val.dtype)
        if element is None:
            raise self.unsupported(node, f"a tensor of dtype {val.dtype}")
        self.foreign = self.foreign or val.dtype not in NATIVE
        return tensor_type(element, self.symbols.extents(val.shape))

    # --- calls ------------------------------------------------------------------------------
    def value(self, argument: Any) -> Any:
        """An argument of a node with values in place of nodes."""
        if isinstance(argument, fx.Node):
            return self.environment[argument]
        if isinstance(argument, list | tuple):
            return [self.value(item) for item in flattened(argument)]
        return self.symbols.expr(argument) if isinstance(argument, torch.SymInt) else argument

    def _call(self, node: fx.Node) -> None:
        special = SPECIAL.get(node.target) or HIGHER_ORDER.get(node.target)
        self.b.location = locate(node)
        self.b.original = str(node.meta.get("original_aten") or node.target)
        if special is not None:
            special(self, node)
            return
        val = node.meta.get("val")
        if isinstance(val, _NUMBERS):
            self.environment[node] = self.number(node, val)
            return
        listed = flattened(val)
        if listed and all(isinstance(v, _NUMBERS) for v in listed):
            self.environment[node] = [self.number(node, v) for v in listed]
            return
        args = [self.value(a) for a in node.args]
        kwargs = {key: self.value(a) for key, a in node.kwargs.items()}
        self._check_told(node, *args, *kwargs.values())
        self.environment[node] = self._translate(node, val, args, kwargs)

    def number(self, node: fx.Node, val: Any) -> Any:
        """What a node gives that is a number for Python."""
        if isinstance(val, torch.SymInt):
            return self.symbols.expr(val)
        if isinstance(val, torch.SymBool):
            return self._condition(val)
        if isinstance(val, torch.SymFloat):
            return FloatScalar(symfloat.emit(self.b, sym_node(val).expr, self.floats))
        return Expr.const(val) if type(val) is int else val

    def _translate(self, node: fx.Node, val: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        before = len(self.symbols.declared)
        if node.target is aten.slice.Tensor:
            self._name_slice(node, *args)
        if node.target is aten.select.int:
            self._name_select(node, *args)
        results = self._results(node, val)
        handler = self.handlers.get(node.target) or BY_NAME.get(str(node.target))
        try:
            if len(self.symbols.declared) > before:
                raise NotNative("extents of the result depend on data")
            if handler is None:
                raise NotNative(why_on_host(node.target))
            if self.foreign and not all_native(args, kwargs, results):
                raise NotNative("a dtype that the LPU does not compute with")
            self.b.result_shapes = tuple(map(extents, results))
            self.b.shape = self.b.result_shapes[0] if results else ()
            self.b.result_dtypes = tuple(v.dtype for v in tensors_in(val))
            self.b.dtype = self.b.result_dtypes[0]
            value = handler(self.b, *args, **kwargs)
        except NotNative as reason:
            return self.host_call(node, val, args, kwargs, str(reason))
        except Inexpressible:
            raise
        except (ValueError, TypeError, KeyError, IndexError) as error:
            error.add_note(f"while importing {node.format_node()} at {source_of(node)}")
            raise
        if isinstance(value, SSAValue):
            return self._conforming(node, value, results[0])
        # A gradient that nobody asked for is None, in what PyTorch expects and in what comes.
        types = iter(results)
        expected = [next(types) if isinstance(v, torch.Tensor) else None for v in flattened(val)]
        return tuple(
            None if v is None or type_ is None else self._conforming(node, v, type_)
            for v, type_ in zip(value, expected, strict=True)
        )

    def _name_slice(
        self,
        node: fx.Node,
        x: SSAValue,
        dim: int = 0,
        start: Any = None,
        end: Any = None,
        step: int = 1,
    ) -> None:
        """PyTorch gives the length of a slice with data-dependent bounds, and where it begins in
        the storage, new symbols: they are expressions over those that there are."""
        val, base = node.meta["val"], node.all_input_nodes[0].meta["val"]
        size = extents(x.type)[dim]
        if self.symbols.is_new(val.shape[dim]):
            length = self.b.slice_length(start, end, step, size)
            self.symbols.name(val.shape[dim], length)
        if self.symbols.is_new(val.storage_offset()):
            first = self.b.slice_start(0 if start is None else start, size)
            before, stride = self.symbols.extents((base.storage_offset(), base.stride(dim)))
            self.symbols.name(val.storage_offset(), before + first * stride)

    def _name_select(self, node: fx.Node, x: SSAValue, dim: int, index: Any) -> None:
        """The same for where a row begins whose position only data tells."""
        val, base = node.meta["val"], node.all_input_nodes[0].meta["val"]
        if self.symbols.is_new(val.storage_offset()):
            at = self.b.position(index, extents(x.type)[dim])
            before, stride = self.symbols.extents((base.storage_offset(), base.stride(dim)))
            self.symbols.name(val.storage_offset(), before + at * stride)

    def _results(self, node: fx.Node, val: Any) -> list[Attribute]:
        return [self.type_of(node, v) for v in tensors_in(val)]

    def _conforming(self, node: fx.Node, value: SSAValue, expected: Attribute) -> SSAValue:
        """The value with the extents that PyTorch knows; a name for it, too."""
        if value.type != expected:
            if element_type(value.type) != element_type(expected):
                raise AssertionError(f"{node.format_node()} became {value.type}, not {expected}")
            value = self.b.reshape(value, extents(expected))
        if value.name_hint is None:
            value.name_hint = node.name
        return value

    # --- calls outside ----------------------------------------------------------------------
    def host_call(
        self,
        node: fx.Node,
        val: Any,
        args: list[Any],
        kwargs: dict[str, Any],
        reason: str,
        other: Any = None,
        functionalized: bool = False,
    ) -> Any:
        """Runs the node's operator, or the other one, in eager; one that changes arguments only
        functionalized."""
        target: Any = other or node.target
        if not isinstance(target, OpOverload):
            raise self.unsupported(node, f"{reason}, and it is no operator of eager PyTorch")
        schema: Any = target._schema  # pyright: ignore[reportPrivateUsage]
        if schema.is_mutable and not functionalized:
            raise self.unsupported(node, f"{reason}, and it changes its arguments in place")
        if self.fallback == "error":
            raise self.unsupported(node, reason, "error")
        types = self._results(node, val)
        numbers = {id(v): self.number(node, v) for v in flattened(val) if isinstance(v, _SYMBOLIC)}
        binds = [n.lhs if isinstance(n, Comparison) else n for n in numbers.values()]
        if not all(isinstance(symbol, Expr) for symbol in binds):
            raise self.unsupported(node, f"{reason}, and one of its results is no number")
        self._check_told(node, *args, *kwargs.values())
        self._check_bound(node, types, binds)
        if functionalized:
            whole = counts_by_strides(kwargs)
        else:
            whole = counts_in_storage(target) and self._is_whole(node, args[0])
        try:
            operands, arguments = encode_arguments(args, kwargs)
        except TypeError as error:
            raise self.unsupported(node, f"{reason}, and {error}") from error
        name = str(other or node.target)
        op = HostCallOp(name, operands, arguments, reason, types)
        if whole:
            op.attributes[STORAGE] = UnitAttr()
        if functionalized:
            op.attributes[FUNCTIONALIZED] = UnitAttr()
        if (strides := self._strides(node, operands)) is not None:
            op.attributes[STRIDES] = strides
        if binds:
            op.attributes[BINDS] = ArrayAttr([StringAttr(str(symbol)) for symbol in binds])
        op.location = self.b.location
        self.block.add_op(op)
        self.on_host.add(node)
        for symbol in {str(extent) for type_ in types for extent in extents(type_)}:
            self.symbols.backed.setdefault(symbol, (Expr.const(0), None))
        results = iter(op.results)
        values = [
            next(results) if isinstance(v, torch.Tensor) else numbers.get(id(v), v)
            for v in flattened(val)
        ]
        return tuple(values) if isinstance(val, list | tuple) else values[0] if values else None

    def _strides(self, node: fx.Node, operands: Sequence[SSAValue]) -> ArrayAttr | None:
        """How eager has the operands in memory; None if that is row by row."""
        rows = [contiguous_strides(extents(operand.type)) for operand in operands]
        strides = dict(zip(operands, rows, strict=True))
        for source in node.all_input_nodes:
            val = source.meta.get("val")
            if isinstance(val, torch.Tensor):
                shape, used = (self.symbols.extents(v) for v in (val.shape, val.stride()))
                if all(stride.names() <= self.bound for stride in used):
                    value = self.environment[source]
                    strides[value] = unusual_strides(shape, used) or contiguous_strides(shape)
        found = [strides[operand] for operand in operands]
        return None if found == rows else ArrayAttr(map(ShapeAttr.of, found))

    def _is_whole(self, node: fx.Node, value: Any) -> bool:
        """Whether an operand comes with its storage, being an argument; any other must be dense."""
        source: Any = node.args[0]
        val = source.meta["val"]
        if value in self.block.args:
            return True
        shape, strides = (self.symbols.extents(v) for v in (val.shape, val.stride()))
        if val.storage_offset() != 0 or unusual_strides(shape, strides) is not None:
            raise self.unsupported(node, "it counts in the storage of a tensor that is not dense")
        return False

    def _check_bound(
        self, node: fx.Node, types: Sequence[Attribute], binds: Sequence[Expr]
    ) -> None:
        """Every new symbol must be an extent or integer of the results, so that a run knows it."""
        shapes = [extent for type_ in types for extent in extents(type_)]
        self.bound |= {str(e) for e in (*shapes, *binds)}
        used = {name for extent in (*shapes, *binds) for name in extent.names()}
        unknown = sorted(used - self.bound)
        if unknown:
            names = ", ".join(unknown)
            raise self.unsupported(node, f"its results do not tell the value of {names}")

    def _check_told(self, node: fx.Node, *given: Any) -> None:
        """Every symbol in the numbers that a node is given must be known when it runs."""
        for argument in given:
            if isinstance(argument, list | tuple):
                self._check_told(node, *argument)
            elif isinstance(argument, Comparison):
                self._check_told(node, argument.lhs, argument.rhs)
            elif isinstance(argument, Expr) and not argument.names() <= self.bound:
                names = ", ".join(sorted(argument.names() - self.bound))
                raise self.unsupported(node, f"nothing tells the value of {names}")

    def unsupported(self, node: fx.Node, reason: str, way_out: str = "graph") -> Unsupported:
        operands = [
            described(a.meta.get("val") if isinstance(a, fx.Node) else a) for a in node.args
        ]
        return Unsupported(str(node.target), reason, operands, source_of(node), WAY_OUT[way_out])

    # --- conditions -----------------------------------------------------------------------------
    def _condition(self, condition: torch.SymBool) -> Comparison | All | bool:
        """A SymBool as a comparison of two expressions, or some."""
        relation = self.symbols.declare(sym_node(condition))
        parts = relation.args if isinstance(relation, sympy.And) else (relation,)
        if relation in (True, False):
            return bool(relation)
        if any(type(part).__name__ not in RELATIONS for part in parts):
            holds = indicator(relation).substitute(self.symbols.aliases)
            return Comparison("ne", holds, Expr.const(0))
        compared = tuple(map(self._comparison, parts))
        return compared[0] if len(compared) == 1 else All(compared)

    def _comparison(self, relation: Any) -> Comparison:
        sides = (from_sympy(arg) for arg in relation.args)
        lhs, rhs = (side.substitute(self.symbols.aliases) for side in sides)
        return Comparison(RELATIONS[type(relation).__name__], lhs, rhs)


_SYMBOLIC = (torch.SymInt, torch.SymBool)
_NUMBERS = (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)


def _erase_dead(block: Block) -> None:
    """Erases operations without effect whose results nobody uses, last first."""
    op = block.last_op
    while op is not None:
        previous = op.prev_op
        if not any(result.uses for result in op.results) and is_side_effect_free(op):
            op.detach()
            op.erase()
        op = previous
