"""What must hold of SmolLM2 through lpu_mlir, measured and checked.

Greedy tokens of three prompts are compared with eager's, on static caches of one length.  After two
prompts nothing may be compiled any more; a step may write one slice of each cache, may launch few
kernels and may read little more than the weights and the cache.

Usage: python examples/smollm2_check.py [--tokens N] [--layers N] [--json FILE] [--markdown]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import torch
from smollm2 import Step, Token, generate, load, make_cache
from torch import Tensor
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import BlockArgument, SSAValue
from xdsl.parser import Parser

import lpu_mlir
from lpu_mlir.dialects.lpu import type_bytes
from lpu_mlir.dialects.lpu_host import LaunchOp, ViewOp
from lpu_mlir.dialects.lpu_kernel import KernelOp
from lpu_mlir.pipeline import make_context
from lpu_mlir.report import GraphReport

PROMPTS = (
    "The capital of France is",
    "A compiler is a program that translates what people write into what machines run. Its first"
    " task is to read the text, and its second is to",
    "Once",
)
"""Of 5, more than 20, and 1 tokens: the last one needs no graph but the step's."""

TOLERANCE = 2e-4
"""How far logits may be from eager's.  Both compute in float32 but add in different orders.  The
largest logits are below 64, where a float32 step is 4e-6; a difference of some 50 steps is what
some 200 products in a row, each rounded differently, may add up to.  A wrong element anywhere
shows as 1e-2 or more."""

KERNELS_PER_LAYER, KERNELS_BESIDE = 6, 4
READ_LIMIT = 1.01
"""Bytes that a step may read, as a multiple of weights + cache."""
COMPILE_LIMIT = 10.0
"""Seconds that compiling all graphs may take beyond backend="aot_eager"."""


@dataclass(frozen=True)
class Answer:
    """What one prompt gave."""

    prompt_tokens: int
    tokens: int
    equal: int
    """Tokens that are eager's own first choice on the same context."""
    largest_difference: float
    """Of logits, from eager's on the same context."""
    largest_gap: float
    """How much eager preferred its own choice, where the tokens differ."""
    seconds_per_token: float
    """Of steps: the median."""
    eager_seconds_per_token: float
    text: str


@dataclass
class Figures:
    """All that was measured.  Counts of a step are of one call."""

    layers: int
    answers: list[Answer] = field(default_factory=list[Answer])
    graphs: int = 0
    """After two prompts: at most one of fixed length, one of any length, and the step's."""
    later_graphs: int = 0
    host_calls: int = 0
    native_ops: int = 0
    launches: int = 0
    distinct_kernels: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    weight_bytes: int = 0
    cache_bytes: int = 0
    slice_bytes: int = 0
    """Keys and values of one position in all layers."""
    cache_bytes_stored: int = 0
    """Written by the kernels that store to a cache."""
    caches_moved: int = 0
    """Caches whose data_ptr is another after a step."""
    caches_changed_elsewhere: int = 0
    """Caches that a step changed at another position than its own."""
    compile_seconds: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """Backend -> CPU seconds for a prompt, a step, and a prompt of another length."""
    stage_seconds: dict[str, float] = field(default_factory=dict[str, float])
    """Stage of lpu_mlir -> seconds, over all graphs."""


# --- measuring ----------------------------------------------------------------------------------


def first_calls(backend: str, model: Any, prompts: Sequence[Tensor], room: int) -> list[float]:
    """CPU seconds that compiling takes for a prompt, for a step and for another prompt: a first
    call less a second one."""
    torch._dynamo.reset()
    step = torch.compile(Step(model), backend=backend, fullgraph=True)
    cache = make_cache(model.config, room)

    def call(ids: Tensor, start: int) -> float:
        cache.reset()
        positions = torch.arange(start, start + ids.shape[1])[None]
        begin = process_time()
        with torch.no_grad():
            step(ids, positions, cache)
        return process_time() - begin

    calls = ((prompts[0], 0), (prompts[0][:, :1], prompts[0].shape[1]), (prompts[1], 0))
    return [call(*given) - call(*given) for given in calls]


def timed(tokens: Iterator[Token]) -> tuple[list[Token], float]:
    """All tokens, and the median of the seconds between two."""
    found: list[Token] = []
    times: list[float] = []
    for token in tokens:
        found.append(token)
        times.append(perf_counter())
    return found, median(b - a for a, b in pairwise(times))


def answer(
    step: Callable[..., Tensor], model: Any, tokenizer: Any, prompt: Tensor, room: int, count: int
) -> Answer:
    """Greedy tokens of the compiled model, against eager's logits on the same contexts."""
    ours, seconds = timed(generate(step, prompt, make_cache(model.config, room), count))
    ids = [token.id for token in ours]
    cache = make_cache(model.config, room)
    theirs, eager_seconds = timed(generate(Step(model), prompt, cache, count, forced=ids))
    pairs = list(zip(ours, theirs, strict=True))
    return Answer(
        prompt_tokens=prompt.shape[1],
        tokens=len(ids),
        equal=sum(a.id == b.id for a, b in pairs),
        largest_difference=max(float((a.logits - b.logits).abs().max()) for a, b in pairs),
        largest_gap=max(float(b.logits.max() - b.logits[a.id]) for a, b in pairs),
        seconds_per_token=seconds,
        eager_seconds_per_token=eager_seconds,
        text=tokenizer.decode(ids),
    )


def measure_step(figures: Figures, step: Callable[..., Tensor], model: Any, room: int) -> None:
    """One more step, on a cache that is looked at before and after."""
    cache, position = make_cache(model.config, room), 3
    step_ids = [torch.tensor([[i + 1]]) for i in range(position + 1)]

    def call(position: int) -> None:
        with torch.no_grad():
            step(step_ids[position], torch.tensor([[position]]), cache)

    for earlier in range(position):
        call(earlier)
    caches = [t for layer in cache.layers for t in (layer.keys, layer.values)]
    before, places = [t.clone() for t in caches], [t.data_ptr() for t in caches]
    with lpu_mlir.Report() as report:
        call(position)
    caches = [t for layer in cache.layers for t in (layer.keys, layer.values)]
    figures.caches_moved = sum(t.data_ptr() != p for t, p in zip(caches, places, strict=True))
    others = torch.arange(room) != position
    figures.caches_changed_elsewhere = sum(
        not torch.equal(t[:, :, others], old[:, :, others])
        for t, old in zip(caches, before, strict=True)
    )
    [graph] = report.graphs
    figures.native_ops = graph.native_ops
    figures.launches = sum(k.launches for k in graph.kernels)
    figures.distinct_kernels = len(graph.kernels)
    figures.bytes_read = sum(k.dram_read for k in graph.kernels)
    figures.bytes_written = sum(k.dram_written for k in graph.kernels)
    figures.weight_bytes = sum(p.nbytes for p in model.parameters())
    figures.cache_bytes = sum(t.nbytes for t in caches)
    figures.slice_bytes = figures.cache_bytes // room


def measure_stores(graph: GraphReport, room: int) -> int:
    """Bytes that the kernels of one step write to caches: all that they write, without the other
    tensors that they make, each of which is written once."""
    writers = cache_writers(Parser(make_context(), graph.ir("allocate-sram")).parse_module(), room)
    kernels = {kernel.name.split(".")[-1]: kernel for kernel in graph.kernels}
    stored = sum(
        kernels[name].dram_written - kernels[name].launches * others
        for name, others in writers.items()
    )
    return stored // graph.runs


def cache_writers(module: ModuleOp, room: int) -> dict[str, int]:
    """Kernels that write to an argument of @main with the shape of a cache, and the bytes of the
    other tensors that they write."""
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    access = {
        op.sym_name.data: [word.data for word in op.access]
        for op in module.ops
        if isinstance(op, KernelOp)
    }
    found: dict[str, int] = {}

    def visit(function: FuncOp, is_cache: Sequence[bool]) -> None:
        def of_cache(value: SSAValue) -> bool:
            while isinstance(value.owner, ViewOp):
                value = value.owner.source
            return isinstance(value, BlockArgument) and is_cache[value.index]

        for op in function.body.block.ops:
            if isinstance(op, CallOp):
                visit(functions[op.callee.string_value()], [of_cache(v) for v in op.arguments])
            elif isinstance(op, LaunchOp):
                kernel = op.kernel.string_value()
                words = zip(op.buffers, access[kernel], strict=True)
                written = [value for value, word in words if word != "ro"]
                others = [value for value in written if not of_cache(value)]
                if len(others) < len(written):
                    sizes = [type_bytes(value.type).constant() for value in others]
                    found[kernel] = sum(size for size in sizes if size is not None)

    main = functions["main"]
    shapes = [t.get_shape() for t in main.function_type.inputs if isinstance(t, MemRefType)]
    visit(main, [len(shape) == 4 and shape[2] == room for shape in shapes])
    return found


def measure_compile_time(
    figures: Figures, model: Any, prompts: Sequence[Tensor], room: int
) -> None:
    small, _ = load(layers=1)
    for backend in ("aot_eager", "lpu_mlir"):  # imports and caches are nobody's share
        first_calls(backend, small, prompts, room)
    for backend in ("aot_eager", "lpu_mlir"):
        figures.compile_seconds[backend] = first_calls(backend, model, prompts, room)


def measure(layers: int | None, count: int, compile_times: bool = True) -> Figures:
    """All figures; `count` tokens for each prompt."""
    model, tokenizer = load(layers=layers)
    prompts = [torch.tensor([tokenizer.encode(text)]) for text in PROMPTS]
    figures = Figures(model.config.num_hidden_layers)
    room = max(p.shape[1] for p in prompts) + max(count, 4)
    if compile_times:
        measure_compile_time(figures, model, prompts, room)
    torch._dynamo.reset()
    step = torch.compile(Step(model), backend="lpu_mlir", fullgraph=True)
    with lpu_mlir.Report() as warm_up:
        for prompt in prompts[:2]:
            list(generate(step, prompt, make_cache(model.config, room), 2))
    figures.graphs = len(warm_up.graphs)
    figures.host_calls = sum(f.count for f in warm_up.fallbacks)
    stages = Counter[str]()
    for graph in warm_up.graphs:
        stages.update(graph.seconds)
    figures.stage_seconds = dict(stages)
    figures.cache_bytes_stored = measure_stores(warm_up.graphs[1], room)
    with lpu_mlir.Report() as report:
        for prompt in prompts:
            figures.answers.append(answer(step, model, tokenizer, prompt, room, count))
    known = [graph.compiled for graph in warm_up.graphs]
    figures.later_graphs = sum(graph.compiled not in known for graph in report.graphs)
    measure_step(figures, step, model, room)
    return figures


# --- judging ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A figure with what it must be; `holds` is None for what is only reported."""

    what: str
    value: str
    limit: str = ""
    holds: bool | None = None


def rows(f: Figures) -> list[Row]:
    """The table: every figure, its limit and whether it holds."""
    launches = KERNELS_PER_LAYER * f.layers + KERNELS_BESIDE
    moved = f.weight_bytes + f.cache_bytes
    table: list[Row] = []

    def add(what: str, value: str, limit: str = "", holds: bool | None = None) -> None:
        table.append(Row(what, value, limit, holds))

    for a in f.answers:
        name = f"prompt of {a.prompt_tokens} tokens"
        gap = f", eager prefers its own by {a.largest_gap:.1e}" if a.equal < a.tokens else ""
        # Two sets of logits that are within t of each other can differ in their maximum only where
        # the gap is below 2 t.
        same = a.equal == a.tokens or a.largest_gap <= 2 * TOLERANCE
        add(f"{name}: eager's choice", f"{a.equal} of {a.tokens}{gap}", "all, or near", same)
        near = a.largest_difference <= TOLERANCE
        add(f"{name}: logits off by", f"{a.largest_difference:.1e}", f"{TOLERANCE:.0e}", near)
    add("graphs after two prompts", str(f.graphs), "1 to 3", 1 <= f.graphs <= 3)
    add("graphs compiled later", str(f.later_graphs), "0", f.later_graphs == 0)
    add("host calls", str(f.host_calls), "0", f.host_calls == 0)
    add("step: operators, all native", f"{f.native_ops:,}")
    add("step: distinct kernels", str(f.distinct_kernels))
    add("step: launches", str(f.launches), f"{launches}", f.launches <= launches)
    most = int(READ_LIMIT * moved)
    add("step: bytes read", f"{f.bytes_read:,}", f"{most:,}", f.bytes_read <= most)
    add("  / (weights + cache)", f"{f.bytes_read / moved:.4f}", f"{READ_LIMIT}")
    add("step: bytes written", f"{f.bytes_written:,}")
    stored = f.cache_bytes_stored == f.slice_bytes
    add("step: stored to caches", f"{f.cache_bytes_stored:,}", f"{f.slice_bytes:,}", stored)
    add("step: caches moved", str(f.caches_moved), "0", f.caches_moved == 0)
    changed = f.caches_changed_elsewhere
    add("step: changed elsewhere", str(changed), "0", changed == 0)
    add("s/token (this CPU)", f"{median(a.seconds_per_token for a in f.answers):.2f}")
    add("s/token of eager", f"{median(a.eager_seconds_per_token for a in f.answers):.2f}")
    if f.compile_seconds:
        for backend, seconds in f.compile_seconds.items():
            parts = " + ".join(f"{s:.1f}" for s in seconds)
            add(f"compile, {backend}, CPU s", f"{sum(seconds):.1f} = {parts}")
        beyond = sum(f.compile_seconds["lpu_mlir"]) - sum(f.compile_seconds["aot_eager"])
        limit = f"{COMPILE_LIMIT}"
        add("compile, beyond aot_eager", f"{beyond:.1f}", limit, beyond <= COMPILE_LIMIT)
    add("compile, our stages, s", f"{sum(f.stage_seconds.values()):.2f}")
    for stage, seconds in sorted(f.stage_seconds.items(), key=lambda item: -item[1]):
        add(f"  {stage}", f"{seconds:.2f}")
    return table


VERDICT = {True: "ok", False: "FAILED", None: ""}


def as_text(table: Sequence[Row]) -> str:
    widths = [max(len(cell(row)) for row in table) for cell in COLUMNS[:3]]
    return "\n".join(
        "  ".join(
            cell(row).ljust(w) for cell, w in zip(COLUMNS, [*widths, 0], strict=True)
        ).rstrip()
        for row in table
    )


def as_markdown(table: Sequence[Row]) -> str:
    lines = ["| figure | value | limit |", "|---|---|---|"]
    return "\n".join(lines + [f"| {r.what.strip()} | {r.value} | {r.limit} |" for r in table])


COLUMNS: Sequence[Callable[[Row], str]] = (
    lambda row: row.what,
    lambda row: row.value,
    lambda row: row.limit,
    lambda row: VERDICT[row.holds],
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks SmolLM2 through lpu_mlir against eager.")
    parser.add_argument("--tokens", type=int, default=64, help="for each prompt (default: 64)")
    parser.add_argument("--layers", type=int, help="keep only the first few layers")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--markdown", action="store_true", help="print the table as markdown")
    parser.add_argument("--no-compile-times", action="store_true", help="leave out aot_eager")
    args = parser.parse_args()
    if args.tokens < 2:
        parser.error("--tokens must be 2 or more: the first is the prompt's, the rest are steps")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    figures = measure(args.layers, args.tokens, not args.no_compile_times)
    table = rows(figures)
    print(as_markdown(table) if args.markdown else as_text(table))
    failed = [row.what for row in table if row.holds is False]
    if args.json is not None:
        args.json.write_text(json.dumps({**asdict(figures), "failed": failed}, indent=2) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
