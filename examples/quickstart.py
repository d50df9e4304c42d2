"""SmolLM2 answers a prompt through the LPU, then through eager PyTorch, and says what it took.

Usage: python examples/quickstart.py [--tokens N] [--layers N] [words of the prompt]
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import torch
from smollm2 import Step, Token, cache_directory, generate, load, make_cache, prepare
from torch import Tensor

import lpu_mlir

PROMPT = "The capital of France is"


@contextmanager
def progress(what: str) -> Iterator[list[str]]:
    """One line: what is going on, and when it is over what it gave and how long it took."""
    print(f"{what:10}", end="", flush=True)
    notes: list[str] = []
    start = perf_counter()
    yield notes
    print(f"{perf_counter() - start:6.1f} s  {', '.join(notes)}", flush=True)


def show(name: str, prompt: str, tokens: Iterator[Token], tokenizer: Any) -> list[Token]:
    """Prints the answer token by token, until the model ends it."""
    print(f"{name:10}{prompt}", end="", flush=True)
    shown: list[Token] = []
    for token in tokens:
        shown.append(token)
        if token.id == tokenizer.eos_token_id:
            break
        print(tokenizer.decode([token.id]).replace("\n", "\\n"), end="", flush=True)
    print()
    return shown


def compile_for(
    step: Callable[..., Tensor], prompt: Tensor, config: Any, room: int
) -> lpu_mlir.Report:
    """Calls the compiled model twice, which compiles it: once on the prompt, once on one token."""
    cache = make_cache(config, room)
    tokens = generate(step, prompt, cache, 2)
    with lpu_mlir.Report() as report:
        for what in (f"on {prompt.shape[1]} tokens", "on 1 token"):
            with progress("compile") as notes:
                next(tokens)
                graph = report.graphs[-1]
                notes += [
                    f"{what}: {graph.native_ops:,} operators native, {host_ops(graph)} on the host",
                    f"lpu_mlir {sum(graph.seconds.values()):.1f} s",
                    f"first run {graph.run_seconds:.1f} s",
                ]
    return report


def host_ops(graph: Any) -> int:
    return sum(fallback.count for fallback in graph.fallbacks)


def compare(ours: list[Token], theirs: list[Token]) -> str:
    """Whether the tokens are equal, and where not, how near eager was to the same choice."""
    for i, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        if a.id != b.id:
            gap = float(b.logits.max() - b.logits[a.id])
            return f"tokens differ from number {i + 1} on, where eager's logits differ by {gap:.1e}"
    difference = max(
        float((a.logits - b.logits).abs().max()) for a, b in zip(ours, theirs, strict=True)
    )
    return f"all {len(ours)} tokens equal; logits differ by {difference:.1e} at most"


def summary(report: lpu_mlir.Report, model: Any, cache: Any, seconds: float) -> str:
    """What one step took; its graph is the last of the report."""
    graph = report.graphs[-1]
    kernels, runs = graph.kernels, graph.runs
    read = sum(kernel.dram_read for kernel in kernels) // runs
    written = sum(kernel.dram_written for kernel in kernels) // runs
    weights = sum(p.nbytes for p in model.parameters())
    cached = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    return f"""One token, on a cache of {cache.layers[0].keys.shape[2]} positions:
  graphs     {len(report.graphs)} compiled for the prompt and its continuation
  operators  {graph.native_ops:,} native, {host_ops(graph)} on the host
  kernels    {len(kernels)} distinct, {sum(k.launches for k in kernels) // runs} launches
  DRAM       {read:,} bytes read, {written:,} written
             {read / (weights + cached):.3f} x weights ({weights:,}) + cache ({cached:,})
  time       {seconds * 1000:,.0f} ms as machine code on this CPU; not LPU time"""


def main() -> int:
    parser = argparse.ArgumentParser(description="SmolLM2 answers a prompt through lpu_mlir.")
    parser.add_argument("--tokens", type=int, default=12, help="how many at most (default: 12)")
    parser.add_argument("--layers", type=int, help="keep only the first few layers")
    parser.add_argument("prompt", nargs="*", help=f"default: {PROMPT}")
    args = parser.parse_args()
    if args.tokens < 2:
        parser.error("--tokens must be 2 or more: the first is the prompt's, the rest are steps")
    text = " ".join(args.prompt) or PROMPT
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is fetched: the weights are a package

    with progress("weights") as notes:
        notes += ["converted to" if prepare() else "found in", str(cache_directory())]
        notes[:] = [" ".join(notes)]
    with progress("load") as notes:
        model, tokenizer = load(layers=args.layers)
        count = sum(p.numel() for p in model.parameters())
        notes += [f"{count:,} parameters in float32"]
    prompt = torch.tensor([tokenizer.encode(text)])
    room = prompt.shape[1] + args.tokens
    step = torch.compile(Step(model), backend="lpu_mlir", fullgraph=True)
    report = compile_for(step, prompt, model.config, room)

    print()
    cache = make_cache(model.config, room)
    times = [perf_counter()]

    def timed(tokens: Iterator[Token]) -> Iterator[Token]:
        for token in tokens:
            times.append(perf_counter())
            yield token

    ours = show("LPU", text, timed(generate(step, prompt, cache, args.tokens)), tokenizer)
    eager = generate(Step(model), prompt, make_cache(model.config, room), args.tokens)
    theirs = show("eager", text, eager, tokenizer)
    print(f"{'':10}{compare(ours, theirs)}\n")
    steps = max(1, len(ours) - 1)  # the first token is the prompt's
    print(summary(report, model, cache, (times[-1] - times[1]) / steps))
    return 0


if __name__ == "__main__":
    sys.exit(main())
