"""What happened to a function: graphs, operators, kernels, bytes, IR; and `explain`, which asks."""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar, Token
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from torch import fx
from torch._dynamo.utils import counters

from lpu_mlir.frontend.uses import Use
from lpu_mlir.logs import logger
from lpu_mlir.runtime.stats import KernelUse, RunStats

_OPEN: ContextVar[tuple[Report, ...]] = ContextVar("open reports", default=())
"""The reports that are open in this thread: each is told everything."""


HOST = logger("host")

NO_GRAPH = """no graph was compiled or run in this thread.
Either another thread made the calls, which can open a report of its own, or Dynamo left it all to
eager PyTorch.  It does so with nn.LSTM, unless torch._dynamo.config.allow_rnn is set, and with a
frame that it has given up on: torch._dynamo.reset() lets it try again; TORCH_LOGS=graph_breaks says
why"""

MOST_KERNELS = 16
"""How many rows the table of kernels has when a report is printed."""


@dataclass(frozen=True)
class Fallback:
    """An operator that runs in eager PyTorch, and why.

    `dtypes` and `shapes` are those of its tensor operands; `source` is the user's line, or the
    module or function where no line is known.
    """

    op: str
    overload: str
    dtypes: tuple[str, ...]
    shapes: tuple[str, ...]
    source: str
    reason: str
    count: int = 1


@dataclass(frozen=True)
class KernelReport:
    """What the launches of one kernel moved, in bytes."""

    name: str
    launches: int
    dram_read: int
    dram_written: int


class CompiledGraph:
    """What is known of a graph since it was compiled."""

    def __init__(self, keep_ir: bool, from_cache: bool = False):
        self.from_cache = from_cache
        """Whether another process, or an earlier call of this one, compiled it."""
        self.uses: tuple[Use, ...] = ()
        self.fallbacks: list[Fallback] = []
        self.seconds: dict[str, float] = {}
        """What each stage took, "import" first and "prepare", the making of closures, last; or
        "load", if the graph comes from the cache."""
        self.keep_ir = keep_ir
        self.ir: Callable[[str], str] | None = None
        """Makes the IR after a stage; None without `keep_ir`, and of a graph from the cache."""

    @property
    def native_ops(self) -> int:
        return sum(use.count for use in self.uses if use.native)

    def imported(self, uses: Sequence[Use], fallbacks: Sequence[Fallback]) -> None:
        """The operators, and those of them that did not become part of the program."""
        self.uses, self.fallbacks = tuple(uses), list(fallbacks)
        for fallback in fallbacks:
            HOST.info(_describe_fallback(fallback))

    def staged(self, name: str, module: object, seconds: float) -> None:
        """A stage is done, with this module as its result."""
        self.seconds[name] = seconds
        log = logger(f"ir.{name}")
        if log.isEnabledFor(logging.DEBUG):
            log.debug("\n%s", module)

    def __str__(self) -> str:
        host = sum(fallback.count for fallback in self.fallbacks)
        took = ", ".join(f"{name} {seconds:.3f}" for name, seconds in self.seconds.items())
        native = plural(self.native_ops, "operator")
        origin = ", from the cache" if self.from_cache else ""
        return f"{native} native, {host} on the host{origin}; seconds: {took}"

    def prepared(self, seconds: float) -> None:
        self.seconds["prepare"] = seconds

    def listener(self) -> Callable[[RunStats], None] | None:
        """What tells the reports that are open in this thread of a run; None if none is."""
        told = [report.graph(self).ran for report in _OPEN.get()]
        if len(told) < 2:
            return told[0] if told else None

        def ran(stats: RunStats) -> None:
            for one in told:
                one(stats)

        return ran


class GraphReport:
    """What one compiled graph did while a report was open."""

    def __init__(self, name: str, compiled: CompiledGraph):
        self.name, self.compiled = name, compiled
        self.runs = 0
        self.run_seconds = 0.0
        """Wall time of the runs on this machine."""
        self.peak_bytes = 0
        self.partitions = 0
        """The most runs of launches in one run, with host calls between them."""
        self.freezes = 0
        """How often it was computed anew what is kept between runs; see the option `freeze`."""
        self.kept_bytes = 0
        """What was kept after the last run."""
        self._kernels: dict[str, KernelUse] = {}
        self._freeze_kernels: dict[str, KernelUse] = {}
        self._lock = threading.Lock()

    def ran(self, stats: RunStats) -> None:
        with self._lock:
            self.runs += 1
            self.run_seconds += stats.seconds
            self.peak_bytes = max(self.peak_bytes, stats.peak_bytes)
            self.partitions = max(self.partitions, stats.partitions)
            self.kept_bytes = stats.kept_bytes
            _add(self._kernels, stats.kernels)
            if stats.freeze is not None:
                self.freezes += 1
                self.peak_bytes = max(self.peak_bytes, stats.freeze.peak_bytes)
                _add(self._freeze_kernels, stats.freeze.kernels)

    @property
    def from_cache(self) -> bool:
        """Whether it was not compiled, but loaded; see docs/caches.md."""
        return self.compiled.from_cache

    @property
    def native_ops(self) -> int:
        return self.compiled.native_ops

    @property
    def uses(self) -> Sequence[Use]:
        """The operators by overload and dtype, each with how often the graph calls it."""
        return self.compiled.uses

    @property
    def fallbacks(self) -> list[Fallback]:
        return self.compiled.fallbacks

    @property
    def seconds(self) -> Mapping[str, float]:
        """What each stage of the compiler took."""
        return self.compiled.seconds

    @property
    def kernels(self) -> list[KernelReport]:
        """The kernels that ran, in the order of their first launch."""
        return self._rows(self._kernels)

    @property
    def freeze_kernels(self) -> list[KernelReport]:
        """The kernels that computed what is kept between runs; they are not among `kernels`."""
        return self._rows(self._freeze_kernels)

    def _rows(self, kernels: Mapping[str, KernelUse]) -> list[KernelReport]:
        with self._lock:
            return [
                KernelReport(f"{self.name}.{name}", u.launches, u.dram_read, u.dram_written)
                for name, u in kernels.items()
            ]

    def ir(self, stage: str) -> str:
        """The IR after a stage; KeyError lists the stages that there are."""
        if self.from_cache:
            raise KeyError(
                f"{self.name} comes from the cache, which has no IR: LPU_MLIR_CACHE=0 compiles anew"
            )
        if self.compiled.ir is None:
            raise KeyError(f"{self.name} was compiled before the report was opened: no IR was kept")
        return self.compiled.ir(stage)


def _add(totals: dict[str, KernelUse], kernels: Mapping[str, KernelUse]) -> None:
    for name, use in kernels.items():
        totals.setdefault(name, KernelUse()).add(use)


@dataclass(repr=False)
class Report:
    """What this thread's calls of compiled functions did while the report was open.

    ```python
    with lpu_mlir.Report() as report:
        compiled(x)
        compiled(y)
    print(report)
    ```
    All counts are sums over these calls; bytes are what kernels moved between DRAM and cores.
    """

    graphs: list[GraphReport] = field(default_factory=list[GraphReport])
    """The graphs that were compiled or ran, in the order in which they came up."""
    graph_breaks: dict[str, int] = field(default_factory=dict[str, int])
    """Why Dynamo split the function, and how often."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._exit = ExitStack()

    def __enter__(self) -> Self:
        before = Counter[str](counters["graph_break"])
        token = _OPEN.set((*_OPEN.get(), self))
        self._exit.callback(self._close, before, token)
        return self

    def __exit__(self, *error: object) -> None:
        self._exit.close()

    def _close(self, before: Counter[str], token: Token[tuple[Report, ...]]) -> None:
        """Adds the breaks that Dynamo counted, but for those that graphs named themselves."""
        _OPEN.reset(token)
        found = Counter[str](counters["graph_break"]) - before
        for why, count in found.items():
            if not any(
                why.startswith(known) or known.startswith(why) for known in self.graph_breaks
            ):
                self.graph_breaks[why] = count

    def graph_ends(self, why: str) -> None:
        """A graph ended because Dynamo could not go on."""
        with self._lock:
            self.graph_breaks[why] = self.graph_breaks.get(why, 0) + 1

    def graph(self, compiled: CompiledGraph) -> GraphReport:
        """The report of a compiled graph, made when it is first asked for."""
        with self._lock:
            for graph in self.graphs:
                if graph.compiled is compiled:
                    return graph
            self.graphs.append(GraphReport(f"graph{len(self.graphs)}", compiled))
            return self.graphs[-1]

    @property
    def native_ops(self) -> int:
        """Operators that became part of kernels or views."""
        return sum(graph.native_ops for graph in self.graphs)

    @property
    def partitions(self) -> int:
        """Runs of launches with host calls between them, each graph run once."""
        return sum(graph.partitions for graph in self.graphs)

    @property
    def fallbacks(self) -> list[Fallback]:
        return [fallback for graph in self.graphs for fallback in graph.fallbacks]

    @property
    def kernels(self) -> list[KernelReport]:
        return [kernel for graph in self.graphs for kernel in graph.kernels]

    @property
    def freeze_kernels(self) -> list[KernelReport]:
        """The kernels that computed what the option `freeze` keeps; they are not in `kernels`."""
        return [kernel for graph in self.graphs for kernel in graph.freeze_kernels]

    @property
    def kept_bytes(self) -> int:
        """What is kept between calls with the option `freeze`."""
        return sum(graph.kept_bytes for graph in self.graphs)

    @property
    def dram_bytes(self) -> int:
        """Bytes read from and written to DRAM by all launches of `kernels`."""
        return sum(k.dram_read + k.dram_written for k in self.kernels)

    @property
    def peak_bytes(self) -> int:
        """The most bytes that intermediates took at once."""
        return max((graph.peak_bytes for graph in self.graphs), default=0)

    def ir(self, stage: str) -> str:
        """The IR of all graphs after a stage; KeyError lists the stages."""
        return "\n".join(f"// {graph.name}\n{graph.ir(stage)}" for graph in self.graphs)

    def to_json(self) -> str:
        """The report without IR."""
        summary: Mapping[str, Any] = {
            "graphs": [
                {
                    "name": graph.name,
                    "native_ops": graph.native_ops,
                    "uses": [asdict(use) for use in graph.uses],
                    "partitions": graph.partitions,
                    "from_cache": graph.from_cache,
                    "runs": graph.runs,
                    "run_seconds": graph.run_seconds,
                    "peak_bytes": graph.peak_bytes,
                    "kept_bytes": graph.kept_bytes,
                    "freezes": graph.freezes,
                    "compile_seconds": dict(graph.seconds),
                }
                for graph in self.graphs
            ],
            "graph_breaks": self.graph_breaks,
            "native_ops": self.native_ops,
            "fallbacks": [asdict(fallback) for fallback in self.fallbacks],
            "kernels": [asdict(kernel) for kernel in self.kernels],
            "freeze_kernels": [asdict(kernel) for kernel in self.freeze_kernels],
            "dram_bytes": self.dram_bytes,
            "peak_bytes": self.peak_bytes,
            "kept_bytes": self.kept_bytes,
        }
        return json.dumps(summary, indent=2)

    def __repr__(self) -> str:
        launches = sum(kernel.launches for kernel in self.kernels)
        return f"<Report: {plural(len(self.graphs), 'graph')}, {launches} launches>"

    def __str__(self) -> str:
        host = sum(fallback.count for fallback in self.fallbacks)
        if not self.graphs:
            return NO_GRAPH
        loaded = sum(graph.from_cache for graph in self.graphs)
        origin = f" ({loaded} from the cache)" if loaded else ""
        parts = f" in {plural(self.partitions, 'partition')}" if host else ""
        lines = [
            f"{plural(len(self.graphs), 'graph')}{origin}, "
            f"{plural(sum(self.graph_breaks.values()), 'graph break')}, "
            f"{plural(self.native_ops, 'operator')} native{parts}, {host} on the host",
            *(f"  break: {_headline(why)} ({n}x)" for why, n in self.graph_breaks.items()),
            *(f"  host: {_describe_fallback(f)}" for f in self.fallbacks),
            f"{plural(sum(k.launches for k in self.kernels), 'kernel launch', 'es')}, "
            f"{self.dram_bytes:,} bytes of DRAM traffic, "
            f"{self.peak_bytes:,} bytes of intermediates at most",
            *_kernel_table(self.kernels),
            *self._frozen(),
        ]
        return "\n".join(lines)

    def _frozen(self) -> list[str]:
        """What the option `freeze` did."""
        times, kernels = sum(graph.freezes for graph in self.graphs), self.freeze_kernels
        if not times and not self.kept_bytes:
            return []
        moved = sum(k.dram_read + k.dram_written for k in kernels)
        launches = plural(sum(k.launches for k in kernels), "kernel launch", "es")
        return [
            f"frozen: {self.kept_bytes:,} bytes kept, computed {plural(times, 'time')} meanwhile: "
            f"{launches}, {moved:,} bytes of DRAM traffic",
            *_kernel_table(kernels),
        ]


def plural(count: int, noun: str, ending: str = "s") -> str:
    """The number and the noun: `1 graph`, `2 graphs`."""
    return f"{count} {noun}{'' if count == 1 else ending}"


def _headline(why: str) -> str:
    """The first line of one of Dynamo's explanations, and the sentence that explains it."""
    first, *rest = why.splitlines()
    explanation = next((line for line in rest if "Explanation:" in line), "")
    return f"{first}{explanation.replace('  Explanation:', ':')}"


def _describe_fallback(fallback: Fallback) -> str:
    operands = zip(fallback.dtypes, fallback.shapes, strict=True)
    types = ", ".join(f"{dtype}{shape}" for dtype, shape in operands)
    source = f" at {fallback.source}" if fallback.source else ""
    return f"{fallback.overload}({types}) {fallback.count}x{source}: {fallback.reason}"


def _kernel_table(kernels: Sequence[KernelReport]) -> list[str]:
    """All kernels; of many, those that moved most, and the sum of the others."""
    if not kernels:
        return []
    if len(kernels) > MOST_KERNELS:
        kernels = sorted(kernels, key=lambda k: k.dram_read + k.dram_written, reverse=True)
        rest = kernels[MOST_KERNELS - 1 :]
        others = KernelReport(
            f"{len(rest)} others",
            sum(k.launches for k in rest),
            sum(k.dram_read for k in rest),
            sum(k.dram_written for k in rest),
        )
        kernels = [*kernels[: MOST_KERNELS - 1], others]
    width = max(len(kernel.name) for kernel in kernels)
    rows = [f"  {'kernel':{width}}  launches  {'bytes read':>14}  {'bytes written':>14}"]
    rows += [
        f"  {k.name:{width}}  {k.launches:8}  {k.dram_read:14,}  {k.dram_written:14,}"
        for k in kernels
    ]
    return rows


def note_break(gm: fx.GraphModule) -> None:
    """Tells the open reports why Dynamo ended a graph early, if it did."""
    reason: Any = getattr(gm, "compile_subgraph_reason", None)
    if reason is not None and reason.graph_break:
        for report in _OPEN.get():
            report.graph_ends(str(reason.reason))


@contextmanager
def unreported() -> Generator[None]:
    """What is compiled or runs inside is told to no report."""
    token = _OPEN.set(())
    try:
        yield
    finally:
        _OPEN.reset(token)


def begin_graph(from_cache: bool = False) -> CompiledGraph:
    """The record of a graph that is about to be compiled, or comes from the cache.

    It keeps IR if a report is open.
    """
    reports = _OPEN.get()
    compiled = CompiledGraph(bool(reports), from_cache)
    for report in reports:
        report.graph(compiled)
    return compiled
