"""Model checks through lpu_mlir against eager PyTorch; a JSON line for each, resumable.

Four kinds: `forward/` has model families with random weights, `training/` five steps with AdamW,
`trained/` models with trained weights and the answers they must give, `generate/` the text that
Hugging Face's generate() makes with SmolLM2.

Usage: python test/models/check_models.py results.jsonl [--only PATTERN ...] [--markdown]
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from catalogue import FAMILIES
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils import _pytree as pytree
from trained import TRAINED
from training import TRAININGS, compare, train

import lpu_mlir

BACKEND = "lpu_mlir"


@dataclass
class Record:
    """What one check found; `verdict` is "right" or says what went wrong."""

    case: str
    verdict: str = "right"
    seconds: float = 0.0
    graphs: int = 0
    eager_graphs: int | None = None
    """As many as backend="aot_eager" gets, where that was asked."""
    runs: int = 0
    native_operators: int = 0
    host: dict[str, int] = field(default_factory=dict)
    """Operators that ran in eager, and how many of them the graphs have."""
    launches: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    findings: dict[str, Any] = field(default_factory=dict)


# --- the kinds ----------------------------------------------------------------------------------


def tensors(outputs: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(outputs) if isinstance(leaf, Tensor)]


def forward(name: str, record: Record) -> None:
    """Outputs equal eager's, in as many graphs as aot_eager has."""
    family = FAMILIES[name]
    model, inputs = family.make()
    with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=True):
        record.eager_graphs = graphs_of(model, inputs)
        expected = tensors(model(**inputs))
        with watched(record):
            results = tensors(torch.compile(model, backend=BACKEND)(**inputs))
    assert record.graphs == record.eager_graphs, (record.graphs, record.eager_graphs)
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        torch.testing.assert_close(result, wanted, rtol=family.relative, atol=family.absolute)
    record.findings = {"largest difference": largest_difference(results, expected)}


def largest_difference(results: list[Tensor], expected: list[Tensor]) -> float:
    differences = [
        (result.double() - wanted.double()).abs().max().item()
        for result, wanted in zip(results, expected, strict=True)
        if result.numel()
    ]
    return max(differences, default=0.0)


def graphs_of(model: nn.Module, inputs: dict[str, Any]) -> int:
    counter = CompileCounterWithBackend("aot_eager")
    torch.compile(model, backend=counter)(**inputs)
    torch._dynamo.reset()
    return counter.frame_count


def training(name: str, record: Record) -> None:
    """Gradients, buffers and parameters equal eager's."""
    case = TRAININGS[name]
    model, inputs = case.make()
    eager = train(case, model, inputs, None)
    with watched(record):
        ours = train(case, model, inputs, BACKEND)
    record.findings = {"largest difference": compare(case, ours, eager), "losses": ours.losses}


def trained(name: str, record: Record) -> None:
    with torch.no_grad(), watched(record):
        record.findings = TRAINED[name](lambda f: torch.compile(f, backend=BACKEND))


def generate(name: str, record: Record) -> None:
    """HF generate() on a static cache, the forward compiled: eager's tokens."""
    from smollm2 import load

    model, tokenizer = load()
    ids = torch.tensor([tokenizer.encode("The capital of France is")])
    settings = GENERATIONS[name]
    eager_forward, answers = model.forward, list[Tensor]()
    with watched(record):
        for compiled in (False, True):
            wrapped = torch.compile(eager_forward, backend=BACKEND)
            model.forward = wrapped if compiled else eager_forward
            torch.manual_seed(5)
            answers.append(
                model.generate(ids, max_new_tokens=12, cache_implementation="static", **settings)
            )
    texts = [tokenizer.decode(answer[0]) for answer in answers]
    record.findings = {"text": texts[1]}
    assert torch.equal(*answers), texts


GENERATIONS: Mapping[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampling": {"do_sample": True, "temperature": 0.8, "top_k": 20},
}

KINDS: Mapping[str, tuple[Mapping[str, Any], Callable[[str, Record], None]]] = {
    "forward": (FAMILIES, forward),
    "training": (TRAININGS, training),
    "trained": (TRAINED, trained),
    "generate": (GENERATIONS, generate),
}
"""Kind -> its cases by name, and what checks one."""


# --- running ------------------------------------------------------------------------------------


@contextmanager
def watched(record: Record) -> Iterator[None]:
    """Notes what lpu_mlir did meanwhile; AssertionError if it was not called at all."""
    torch._dynamo.reset()
    with lpu_mlir.Report() as report:
        yield
    record.graphs = len(report.graphs)
    record.runs = sum(graph.runs for graph in report.graphs)
    record.native_operators = report.native_ops
    host = Counter[str]()
    for fallback in report.fallbacks:
        host[fallback.op] += fallback.count
    record.host = dict(host)
    record.launches = sum(kernel.launches for kernel in report.kernels)
    record.bytes_read = sum(kernel.dram_read for kernel in report.kernels)
    record.bytes_written = sum(kernel.dram_written for kernel in report.kernels)
    assert record.runs, "no graph reached the backend"


def cases() -> dict[str, Callable[[Record], None]]:
    return {
        f"{kind}/{name}": partial(check, name)
        for kind, (names, check) in KINDS.items()
        for name in names
    }


def run(case: str) -> Record:
    """One check; a failure is in the verdict."""
    record, start = Record(case), perf_counter()
    try:
        cases()[case](record)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}:{last.lineno}"
        record.verdict = f"{type(error).__name__} at {place}: {error}"[:1000]
    record.seconds = round(perf_counter() - start, 1)
    return record


def recorded(results: Path) -> list[Record]:
    if not results.exists():
        return []
    return [Record(**json.loads(line)) for line in results.read_text().splitlines()]


def markdown(records: list[Record]) -> str:
    lines = [
        "| case | graphs | native operators | on the host | launches | read | written |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in records:
        host = ", ".join(f"{name} ({count})" for name, count in r.host.items()) or "none"
        numbers = f"{r.launches:,} | {r.bytes_read:,} | {r.bytes_written:,}"
        name = r.case if r.verdict == "right" else f"**{r.case}: wrong**"
        lines.append(f"| {name} | {r.graphs} | {r.native_operators:,} | {host} | {numbers} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="cases that it has are not run again")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="PATTERN")
    parser.add_argument("--markdown", action="store_true", help="print a table of all results")
    options = parser.parse_args()
    wanted = [c for c in cases() if any(fnmatch.fnmatch(c, p) for p in options.only)]
    warnings.filterwarnings("ignore")
    done = {record.case for record in recorded(options.results)}
    with options.results.open("a", buffering=1) as file:
        for case in wanted:
            if case not in done:
                record = run(case)
                file.write(json.dumps(asdict(record)) + "\n")
                print(f"{case:45} {record.seconds:7.1f} s  {record.verdict}", flush=True)
    records = [record for record in recorded(options.results) if record.case in wanted]
    if options.markdown:
        print(markdown(records))
    wrong = [record.case for record in records if record.verdict != "right"]
    print(f"{len(records) - len(wrong)} of {len(records)} right")
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
