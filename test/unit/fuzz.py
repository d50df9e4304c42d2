"""Random programs by the thousand; `scripts/fuzz` runs this."""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from random_graphs import check_compiled, check_graph, programs
from random_program import Program, minimised

from lpu_mlir.options import CHOICES

CHUNK = 50


@dataclass
class Tally:
    """What the chunks so far have found."""

    programs: int = 0
    comparisons: int = 0
    failures: Counter[str] = field(default_factory=Counter[str])


def signature(error: BaseException) -> str:
    """What failures of one cause have in common."""
    text = f"{type(error).__name__}: {error}".split("Set TORCHDYNAMO_VERBOSE")[0]
    text = re.sub(r"/\S+|\d[\d.e-]*|\[[^]]*\]|\([^)]*\)|v\d+", "#", text)
    return " ".join(text.split())[:110]


def failure(check: Callable[[Program], int], program: Program) -> str | None:
    try:
        check(program)
    except Exception as error:
        return signature(error)
    return None


def run_chunk(number: int, check: Callable[[Program], int], tally: Tally, sharing: bool) -> None:
    @seed(number)
    @settings(
        max_examples=CHUNK,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(programs(sharing=sharing))
    def one(program: Program) -> None:
        tally.programs += 1
        try:
            tally.comparisons += check(program)
        except Exception as error:
            report(program, error, check, tally)

    one()


def report(
    program: Program, error: Exception, check: Callable[[Program], int], tally: Tally
) -> None:
    kind = signature(error)
    tally.failures[kind] += 1
    if tally.failures[kind] > 1:
        return
    least = minimised(program, lambda p: failure(check, p) == kind)
    try:
        check(least)
    except Exception as again:
        error = again
    print(f"# {'-' * 98}\n# {kind}\n# {str(error).strip()[:600]!r}\n{least.script()}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60, help="stop after so long")
    parser.add_argument(
        "--interpreter", choices=CHOICES["interpreter"], default="native", help="compare: both"
    )
    parser.add_argument("--dynamo", action="store_true", help="through torch.compile; slower")
    parser.add_argument(
        "--state", type=Path, help="a JSON file: what it says is done is not redone"
    )
    options = parser.parse_args()
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    check = partial(
        check_compiled if options.dynamo else check_graph, interpreter=options.interpreter
    )
    tally, first = Tally(), 0
    if options.state is not None and options.state.exists():
        state = json.loads(options.state.read_text())
        first, failures = state["chunks"], Counter(state["failures"])
        tally = Tally(state["programs"], state["comparisons"], failures)
    end = time.monotonic() + 60 * options.minutes
    for chunk in range(first, -(-options.examples // CHUNK)):
        if time.monotonic() > end:
            break
        run_chunk(options.seed * 1_000_000 + chunk, check, tally, options.dynamo)
        if options.state is not None:
            done = {"chunks": chunk + 1, **vars(tally)}
            options.state.write_text(json.dumps(done))
    failed = sum(tally.failures.values())
    print(f"# {tally.programs} programs, {tally.comparisons} comparisons, {failed} failures")
    for kind, count in tally.failures.most_common():
        print(f"#   {count}x {kind}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
