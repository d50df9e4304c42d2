"""The smallest part of a graph that still fails, as files that repeat the failure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx import traceback
from torch.fx.experimental.proxy_tensor import make_fx

from lpu_mlir.capture import Compiler
from lpu_mlir.debug.compare import Difference, Tester, watch
from lpu_mlir.debug.inputs import generate
from lpu_mlir.debug.parts import (
    Part,
    ancestors,
    copy_inputs,
    extract,
    is_getitem,
    random_numbers_kept,
    run_eager,
    source_call,
)
from lpu_mlir.debug.repro import Minified, write_files
from lpu_mlir.report import NO_GRAPH, unreported


def minify(
    fn: Callable[..., Any],
    directory: str | Path = "lpu_minified",
    *,
    compiler: Compiler | None = None,
    **compile_options: Any,
) -> Callable[..., Minified]:
    """`minify(fn, directory, **compile_options)(*args, **kwargs)` calls `fn` compiled, and cuts the
    first graph that fails down to few operators.

    A graph fails if it gives another result than eager PyTorch, see `compare`, or if compiling or
    running it raises an exception.  What is left is written to the directory: a script, and a file
    of IR that `lpu-run` takes.  ValueError if nothing fails.
    """

    def run(*args: Any, **kwargs: Any) -> Minified:
        failures: list[tuple[Tester, Part, Sequence[Difference]]] = []
        calls = count()

        def tell(tester: Tester, part: Part, found: Sequence[Difference]) -> None:
            next(calls)
            if found and not failures:
                failures.append((tester, part, found))

        watch(fn, tell, compiler, **compile_options)(*args, **kwargs)
        if not next(calls):
            raise ValueError(f"nothing to minify: {NO_GRAPH}")
        if not failures:
            raise ValueError("nothing to minify: all graphs give what eager PyTorch gives")
        with unreported(), random_numbers_kept():
            tester, part, found = failures[0]
            oracle = Oracle(tester, found[0])
            return write_files(Path(directory), *shrink(oracle, part, found), tester)

    return run


@dataclass(frozen=True)
class Oracle:
    """Whether a part still fails, and in the same way as the whole graph."""

    tester: Tester
    original: Difference

    def failure(self, part: Part) -> Difference | None:
        try:
            found = self.tester.differences(part)
        except Exception:  # eager itself cannot run what was cut out so
            return None
        return next((d for d in found if _kind(d) == _kind(self.original)), None)


def _kind(difference: Difference) -> str:
    """The type of the exception, or that there is none."""
    distance = difference.distance
    return distance.kind.partition(":")[0] if distance.raised else ""


def shrink(
    oracle: Oracle, part: Part, found: Sequence[Difference]
) -> tuple[Part, bool, Difference]:
    """A small part that fails like the whole, and whether its inputs come from seeds."""
    fixed = with_fixed_shapes(part)
    if fixed is not None and oracle.failure(fixed) is not None:
        part = fixed
        found = oracle.tester.differences(part)
    named = [node for node in part.gm.graph.nodes if node.op in ("call_function", "get_attr")]
    values = run_eager(part, copy_inputs(part), named)[1]
    cutter = Cutter(part, values, oracle)
    small = cutter.cut(cutter.reduce(cutter.start(found)))
    chosen = with_seeds(small)
    seeded = oracle.failure(chosen) is not None
    small = chosen if seeded else small
    failure = oracle.failure(small)
    if failure is None:
        raise RuntimeError("a part of the graph failed once, but does not fail again")
    return small, seeded, failure


def with_seeds(part: Part) -> Part:
    """The part with inputs that `generate` makes from seeds 0, 1, …"""
    seeds = count()
    inputs = [
        generate(value.dtype, value.shape, value.stride(), next(seeds))
        if isinstance(value, Tensor)
        else value
        for value in part.inputs
    ]
    return Part(part.gm, inputs)


def with_fixed_shapes(part: Part) -> Part | None:
    """The graph without symbols, for the sizes of these inputs; None if it has none, or must."""
    if not any(isinstance(n.meta.get("val"), torch.SymInt) for n in part.gm.graph.nodes):
        return None
    try:
        with torch.no_grad(), traceback.preserve_node_meta():
            run: Any = fx.Interpreter(part.gm).run
            gm = make_fx(run, tracing_mode="fake")(*copy_inputs(part))
    except Exception:
        return None
    return Part(gm, part.inputs)


@dataclass(frozen=True)
class Cutter:
    """Makes parts of a graph; what a part reads of the rest has the value that eager gave it.

    Calls stand for the `getitem` nodes of their results, too.
    """

    part: Part
    values: Mapping[fx.Node, Any]
    oracle: Oracle

    def cut(self, calls: Iterable[fx.Node]) -> Part:
        """The part with these calls; the results that nothing in it reads are its outputs."""
        kept = set(calls)
        kept |= {user for call in kept for user in call.users if is_getitem(user)}
        last = [
            node
            for node in self.part.calls
            if node in kept
            and isinstance(node.meta.get("val"), Tensor)
            and not any(user in kept for user in node.users)
        ]
        return extract(self.part, kept, last, self.values)

    def fails(self, calls: Sequence[fx.Node]) -> bool:
        return bool(calls) and self.oracle.failure(self.cut(calls)) is not None

    def start(self, found: Sequence[Difference]) -> list[fx.Node]:
        """What the first difference points to, if that fails by itself; or else all calls."""
        first = self.oracle.tester.locate(self.part, found)[0]
        calls = [node for node in self.part.calls if not is_getitem(node)]
        named = [node for node in self.part.calls if node.name == first.node]
        suspects = {source_call(node) for node in named}
        for wanted in (suspects, ancestors(named)):
            kept = [call for call in calls if call in wanted]
            if self.fails(kept):
                return kept
        return calls

    def reduce(self, calls: list[fx.Node]) -> list[fx.Node]:
        """Leaves out ever shorter runs of calls, as long as what is left fails."""
        length = len(calls) // 2
        while length:
            at = 0
            while at < len(calls):
                fewer = calls[:at] + calls[at + length :]
                if self.fails(fewer):
                    calls = fewer
                else:
                    at += length
            length //= 2
        return calls
