"""Compiled graphs beside eager PyTorch, and where the first difference comes from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

from lpu_mlir.capture import Boxed, Compiler, compile_captured, compile_function
from lpu_mlir.compile import compile_fx
from lpu_mlir.debug.kernels import side_by_side
from lpu_mlir.debug.measure import Distance, MismatchError, distance
from lpu_mlir.debug.parts import (
    Part,
    ancestors,
    copy_inputs,
    extract,
    is_getitem,
    random_numbers_kept,
    run_compiled,
    run_eager,
    source_call,
    written_inputs,
)
from lpu_mlir.debug.precise import in_float64, is_rounding
from lpu_mlir.frontend.nodes import source_of, with_effects
from lpu_mlir.frontend.outputs import storage_base
from lpu_mlir.frontend.values import described
from lpu_mlir.options import Options, make_options
from lpu_mlir.report import NO_GRAPH, plural, unreported

aten = torch.ops.aten

UNDEFINED = (aten.empty.memory_format, aten.empty_strided.default, aten.new_empty.default)
"""Operators whose result is whatever was in memory."""

MOST_SHOWN = 10
"""How many differences are listed when a comparison is printed."""


@dataclass(frozen=True)
class Difference:
    """A value of a graph on which the compiled program and eager PyTorch do not agree.

    `node` is the value's name in the FX graph, `operator` what made it of the `operands`, `source`
    the user's line for that.  `alone` is whether the operator by itself differs, too, on the
    operands that eager has for it; None if that was not tried.
    """

    graph: str
    node: str
    operator: str
    source: str
    result: str
    operands: tuple[str, ...]
    distance: Distance
    alone: bool | None = None

    def __str__(self) -> str:
        source = f"\n  at {self.source}" if self.source else ""
        alone = f"\n  {_ALONE[self.alone]}" if self.alone is not None else ""
        return (
            f"{self.operator}({', '.join(self.operands)}) -> {self.result}, "
            f"%{self.node} of {self.graph}{source}\n  {self.distance}{alone}"
        )


_ALONE = {
    True: "the operator alone, on eager's operands, differs too",
    False: "the operator alone, on eager's operands, agrees: it is wrong only beside others, or "
    "rounding has added up",
}


@dataclass(repr=False)
class Comparison:
    """What `compare` found."""

    calls: int = 0
    """Calls of compiled graphs that were compared."""
    differences: list[Difference] = field(default_factory=list[Difference])
    """Of each graph that differs, at its first call that does, the values in graph order."""

    @property
    def ok(self) -> bool:
        """Whether graphs were compared, and gave what eager does."""
        return self.calls > 0 and not self.differences

    @property
    def first(self) -> Difference | None:
        """The first difference of the first graph that has one."""
        return self.differences[0] if self.differences else None

    def add(self, tester: Tester, part: Part, found: Sequence[Difference]) -> None:
        """A call of a graph, and what differs after it."""
        self.calls += 1
        if found and all(known.graph != tester.name for known in self.differences):
            self.differences += tester.locate(part, found)

    def to_json(self) -> str:
        return json.dumps({"ok": self.ok, **asdict(self)}, indent=2)

    def __str__(self) -> str:
        if not self.calls:
            return f"nothing was compared: {NO_GRAPH}"
        calls = f"{plural(self.calls, 'graph call')} compared with eager: "
        if self.first is None:
            return calls + "all results agree"
        count = len(self.differences)
        differ = "1 value differs" if count == 1 else f"{count} values differ, first"
        more = count - MOST_SHOWN
        return "\n".join(
            [
                f"{calls}{differ}",
                *map(str, self.differences[:MOST_SHOWN]),
                *([f"and {more} more"] if more > 0 else []),
            ]
        )


# --- one graph ----------------------------------------------------------------------------------


def is_defined(node: fx.Node) -> bool:
    """Whether PyTorch says what the value is; tokens, which order side effects, mean nothing."""
    token = is_getitem(node) and source_call(node).target is with_effects and node.args[1] == 0
    return storage_base(node).target not in UNDEFINED and not token


def is_shown(node: fx.Node) -> bool:
    """Whether a call's result can be looked at: a tensor that the graph does not write to."""
    writes = getattr(getattr(node.target, "_schema", None), "is_mutable", False)
    return isinstance(node.meta.get("val"), Tensor) and not writes and is_defined(node)


def beginning(part: Part, nodes: Sequence[fx.Node]) -> Part:
    """The part that computes some nodes and returns those that the others do not read."""
    kept = ancestors(nodes)
    last = [node for node in nodes if not any(user in kept for user in node.users)]
    return extract(part, kept, last, {})


@dataclass(frozen=True)
class Tester:
    """Runs a graph, or a part of it, compiled and in eager PyTorch."""

    compiler: Compiler
    options: Options
    name: str = "graph0"

    def differences(self, part: Part) -> list[Difference]:
        """Of the outputs, then of the inputs that the graph changes.

        An exception that eager does not raise is one, too.
        """
        return self.run(part, copy_inputs(part), self.compiler)[1]

    def run(
        self, part: Part, given: Sequence[Any], compiler: Compiler
    ) -> tuple[list[Any], list[Difference]]:
        """What eager returns for the inputs `given`, which it may change, and the differences.

        Eager runs last, so that it leaves the generator of random numbers as it should be.
        """
        copies, before = (copy_inputs(Part(part.gm, given)) for _ in range(2))
        actual = _attempt(part, copies, compiler)
        expected = run_eager(part, given)[0]
        if isinstance(actual, Exception):
            return expected, [self._failure(part, actual)]
        written = written_inputs(part)
        nodes = [*part.outputs, *(part.placeholders[i] for i in written)]
        ours = [*actual, *(copies[i] for i in written)]
        theirs = [*expected, *(given[i] for i in written)]
        return expected, list(self._judge(Part(part.gm, before), nodes, ours, theirs))

    def _judge(
        self, part: Part, nodes: Sequence[Any], ours: Sequence[Any], theirs: Sequence[Any]
    ) -> Iterable[Difference]:
        """The nodes' values that differ by more than rounding; `part` has the inputs as given."""
        values = list(zip(nodes, ours, theirs, strict=True))
        allowed = self.options.tolerance
        found = [
            distance(a, e, allowed) if isinstance(n, fx.Node) and is_defined(n) else None
            for n, a, e in values
        ]
        precise = in_float64(part) if any(found) else None
        for i, (node, a, e) in enumerate(values):
            difference = found[i]
            excused = precise and is_rounding(a, e, precise[i], allowed)
            if difference is not None and not excused:
                yield _difference(self.name, node, e, difference)

    def _failure(self, part: Part, error: Exception) -> Difference:
        nodes = [node for node in part.outputs if isinstance(node, fx.Node)] or part.calls
        found = Distance(f"{type(error).__name__}: {error}", raised=True)
        return _difference(self.name, nodes[-1], None, found)

    # --- where it comes from --------------------------------------------------------------------
    def locate(self, part: Part, found: Sequence[Difference]) -> list[Difference]:
        """Differences of intermediate values, first the first one; `found` are of the outputs.

        The graph is compiled with all intermediate values as outputs.  That changes what is fused,
        so the fault may go away: then the shortest beginning of the graph is sought that has it.
        """
        with unreported(), random_numbers_kept():
            shown = [node for node in part.calls if is_shown(node)]
            open_part = extract(part, ancestors(shown), shown, {})
            everything = self.differences(open_part) if shown else []
            if any(difference.distance.raised for difference in everything):
                everything = []
            first = everything[0] if everything else self._shortest(part, found[0])
            if first is None:
                return list(found)
            node = next(n for n in part.gm.graph.nodes if n.name == first.node)
            first = replace(first, alone=self._alone(part, node))
            # An exception of the whole graph, which has no place, is that of the first.
            others = [d for d in found if d.node != first.node and not d.distance.raised]
            return [first, *(everything[1:] or others)]

    def _shortest(self, part: Part, found: Difference) -> Difference | None:
        """The difference of the shortest beginning of the graph that has one, by bisection."""
        last = next(node for node in part.gm.graph.nodes if node.name == found.node)
        chain = [node for node in part.calls if is_shown(node)]
        if last.op == "call_function" and not found.distance.raised:
            needed = ancestors([last])
            chain = [node for node in chain if node in needed]
        best = self._first(beginning(part, chain)) if chain else None
        low, high = 0, len(chain)  # a beginning of `low` nodes agrees, one of `high` differs
        while best is not None and high - low > 1:
            middle = (low + high) // 2
            shorter = self._first(beginning(part, chain[:middle]))
            if shorter is None:
                low = middle
            else:
                best, high = shorter, middle
        return best

    def _first(self, part: Part) -> Difference | None:
        return next(iter(self.differences(part)), None)

    def _alone(self, part: Part, node: fx.Node) -> bool | None:
        """Whether the node's operator differs on the values that eager has for its operands."""
        call = source_call(node)
        if call.op != "call_function":
            return None
        values = run_eager(part, copy_inputs(part), call.all_input_nodes)[1]
        return bool(self.differences(extract(part, {call, node}, [node], values)))


def _difference(graph: str, node: fx.Node, expected: Any, found: Distance) -> Difference:
    value: Any = node.meta.get("val") if expected is None else expected
    call = source_call(node)
    return Difference(
        graph=graph,
        node=node.name,
        operator=str(call.target) if call.op == "call_function" else call.op,
        source=source_of(node) or "",
        result=described(value),
        operands=tuple(described(operand.meta.get("val")) for operand in call.all_input_nodes),
        distance=found,
    )


def _attempt(part: Part, inputs: Sequence[Any], compiler: Compiler) -> list[Any] | Exception:
    try:
        return run_compiled(part, inputs, compiler)
    except MismatchError:  # in a kernel: it says which
        raise
    except Exception as error:
        return error


class Checked:
    """A graph that runs in eager PyTorch, and compiled on copies of the same inputs.

    `tell` gets what differs, if anything does, and what to look for it in.
    """

    def __init__(
        self,
        gm: fx.GraphModule,
        tester: Tester,
        whole: Compiler,
        tell: Callable[[Tester, Part, Sequence[Difference]], None],
    ):
        self.gm, self.tester, self.whole, self.tell = gm, tester, whole, tell

    def __call__(self, inputs: list[Any]) -> list[Any]:
        given = list(inputs)
        inputs.clear()
        before = Part(self.gm, copy_inputs(Part(self.gm, given)))
        outputs, found = self.tester.run(before, given, self.whole)
        self.tell(self.tester, before, found)
        return outputs


# --- the tools ----------------------------------------------------------------------------------


def compile_checked(gm: fx.GraphModule, example_inputs: Sequence[Any], options: Options) -> Boxed:
    """What `interpreter="compare"` makes of a graph; MismatchError when it runs and differs."""
    compiled = compile_fx(gm, example_inputs, options, make=side_by_side)
    tester = Tester(partial(compile_fx, options=options, reproducer=False), options)
    return Checked(gm, tester, lambda gm, inputs: compiled, _refuse)


def _refuse(tester: Tester, part: Part, found: Sequence[Difference]) -> None:
    if found:
        first = tester.locate(part, found)[0]
        raise MismatchError(f"lpu_mlir and eager PyTorch differ, first in\n{first}")


def compare(
    fn: Callable[..., Any], *, compiler: Compiler | None = None, **compile_options: Any
) -> Callable[..., Comparison]:
    """`compare(fn, **compile_options)(*args, **kwargs)` calls `fn` compiled and says what differs.

    Each graph runs compiled and in eager PyTorch on the same inputs, with the same random numbers;
    what eager computes goes on to the next.  If `fn` calls `backward`, so do the graphs of the
    backward pass.  `compile_options` are those of `torch.compile` without `backend`; `compiler`
    stands in for that of this package.
    """

    def run(*args: Any, **kwargs: Any) -> Comparison:
        comparison = Comparison()
        watch(fn, comparison.add, compiler, **compile_options)(*args, **kwargs)
        return comparison

    return run


def compare_graph(
    graph: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    dynamic: bool = False,
    compiler: Compiler | None = None,
    options: Mapping[str, Any] | None = None,
) -> Comparison:
    """`compare` for a function of ATen operators, which is compiled as it is.

    Neither Dynamo nor AOTAutograd has a part in it.  With `dynamic`, sizes are symbols.
    """
    made = make_options(options=options)
    chosen = compiler or partial(compile_fx, options=made, reproducer=False)
    with torch.no_grad():
        trace: Any = make_fx(graph, tracing_mode="symbolic" if dynamic else "fake")
        part = Part(trace(*inputs), inputs)
    tester, comparison = Tester(chosen, made), Comparison()
    comparison.add(tester, part, tester.differences(part))
    return comparison


def watch(
    fn: Callable[..., Any],
    tell: Callable[[Tester, Part, Sequence[Difference]], None],
    compiler: Compiler | None,
    **compile_options: Any,
) -> Callable[..., Any]:
    """`fn` compiled so that `tell` hears of every call of a graph."""
    numbers = count()

    def backend(
        gm: fx.GraphModule,
        example_inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Callable[..., Any]:
        made = make_options(mode, options)
        chosen = compiler or partial(compile_fx, options=made, reproducer=False)

        def checked(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Boxed:
            tester = Tester(chosen, made, f"graph{next(numbers)}")
            return Checked(gm, tester, _Once(chosen), tell)

        return compile_captured(gm, example_inputs, checked, freeze=made.freeze)

    return compile_function(fn, backend, **compile_options)


class _Once:
    """A compiler for one graph, which it compiles when it is first needed."""

    def __init__(self, compiler: Compiler):
        self.compiler = compiler
        self.compiled: Boxed | None = None

    def __call__(self, gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Boxed:
        if self.compiled is None:
            self.compiled = self.compiler(gm, example_inputs)
        return self.compiled
