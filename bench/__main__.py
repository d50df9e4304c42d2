"""The command line of `scripts/bench`."""

from __future__ import annotations

import argparse
import fnmatch
import importlib.metadata
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.plot import draw
from bench.report import markdown, text
from bench.results import OtherSettings, Results, load
from bench.turns import Conditions, measure
from bench.works import EVERY, WORKS

TURNS, QUICK_TURNS = 15, 3
PACKAGES = ("torch", "onnxruntime", "openvino", "iree-base-compiler", "transformers", "llvmlite")


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench")
    parser.add_argument("--work", nargs="+", default=["*"], metavar="PATTERN")
    parser.add_argument("--systems", nargs="+", default=list(EVERY), choices=EVERY)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one run of few turns")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    parser.add_argument("--readme", type=Path, metavar="FILE")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args(given)


def systems_of(work: str, wanted: Sequence[str]) -> list[str]:
    """The systems of a work, as far as wanted; those that only one work has are always wanted.

    A system's name may be followed by another dtype than the work's.
    """
    plain = {system: system.partition(" ")[0] for system in WORKS[work].systems}
    return [s for s, name in plain.items() if name in wanted or name not in EVERY]


def processor() -> str:
    """The name that Linux gives, else what Python knows."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def versions() -> str:
    found: list[str] = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def commit() -> str:
    """Of this repository; empty where it is none."""
    command = ["git", "describe", "--always", "--dirty"]
    root = Path(__file__).parent
    return subprocess.run(command, cwd=root, capture_output=True, text=True).stdout.strip()


def run_all(options: argparse.Namespace, works: Sequence[str], results: Results) -> None:
    """Every work once in every run; those that the file has are left out."""
    conditions = Conditions(options.threads, results.settings["turns"])
    for number in range(1, options.runs + 1):
        for work in works:
            systems = systems_of(work, options.systems)
            if not results.has(work, number, systems):
                print(f"{WORKS[work].title}, run {number} of {options.runs}", flush=True)
                results.add(measure(work, number, systems, conditions))


def main(given: Sequence[str] | None = None) -> int:
    """0, or 2 for a file with results of other settings."""
    options = arguments(given)
    works = [w for w in WORKS if any(fnmatch.fnmatch(w, p) for p in options.work)]
    if options.list:
        print("\n".join(f"{work:16}{WORKS[work].title}" for work in works))
        return 0
    if options.readme:
        print(markdown(load(options.readme)), end="")
        return 0
    if options.quick:
        options.runs = 1
    settings: dict[str, Any] = {
        "threads": options.threads,
        "turns": QUICK_TURNS if options.quick else TURNS,
        "commit": commit(),
    }
    machine = {"processor": processor(), "versions": versions()}
    results = Results(settings, machine, path=options.json)
    try:
        results = results.resumed()
    except OtherSettings as error:
        print(error, file=sys.stderr)
        return 2
    run_all(options, works, results)
    print(text(results))
    if options.plot:
        draw(results, options.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
