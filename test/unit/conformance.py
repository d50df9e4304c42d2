"""
Tries PyTorch's test databases through the backend; run by scripts/conformance.

    conformance.py sweep results.jsonl --dtypes float32,int64 --shard 0/2
    conformance.py sweep modules.jsonl --database module --gradients
    conformance.py summary results.jsonl

A sweep appends one line of JSON for each pair of entry and dtype, and leaves out pairs that the
file has. Pairs run in another process, so that one which hangs or dies costs only itself: its
verdict is "timeout" or "died".
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import logging
import multiprocessing
from collections import Counter, defaultdict
from contextlib import closing, suppress
from dataclasses import asdict, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from databases import DATABASES, Entry, entries
from verdicts import GOOD, VERDICTS, Record, Settings, try_pair

from lpu_mlir.options import CHOICES

FAULTS = ("wrong", "died", "timeout", "failed", "refused")
"""Verdicts that a summary lists one by one."""


# --- the sweep ----------------------------------------------------------------------------------


def recorded(path: Path) -> list[dict[str, Any]]:
    """What a file has; a line that was cut off when a sweep was stopped does not count."""
    records: list[dict[str, Any]] = []
    for line in path.read_text().splitlines() if path.exists() else []:
        with suppress(json.JSONDecodeError):
            records.append(json.loads(line))
    return records


def _resumed(path: Path, database: str, settings: Settings) -> set[tuple[str, str]]:
    """The pairs that a file has; SystemExit if it is of another sweep."""
    records = recorded(path)
    wanted = {"database": database, **asdict(settings)}
    for record in records:
        has = {"database": record["database"], **record["settings"]}
        if has != wanted:
            other = [
                f"{name}={has[name]} ({wanted[name]})" for name in has if has[name] != wanted[name]
            ]
            raise SystemExit(f"conformance: {path} is of a sweep with {', '.join(other)}")
    return {(record["op"], record["dtype"]) for record in records}


def _todo(options: argparse.Namespace) -> list[tuple[Entry, torch.dtype]]:
    """The pairs of this shard, dtype by dtype; SystemExit if a name or pattern means nothing."""
    found = entries(options.database)
    names = {pattern: fnmatch.filter(found, pattern) for pattern in options.ops.split(",")}
    for pattern in (pattern for pattern in names if not names[pattern]):
        close = [name for name in found if pattern.strip("*") in name]
        hint = f"; there is {', '.join(close[:8])}" if close else ""
        raise SystemExit(f"conformance: no entry matches '{pattern}'{hint}")
    wanted = set[str]().union(*names.values())
    pairs = [
        (entry, dtype)
        for dtype in options.dtypes
        for name, entry in found.items()
        if name in wanted
        if dtype in (entry.differentiable if options.gradients else entry.dtypes)
    ]
    if not pairs:
        raise SystemExit("conformance: none of these entries has samples of these dtypes")
    part, parts = map(int, options.shard.split("/"))
    return pairs[part::parts]


def dtypes_of(names: str) -> list[torch.dtype]:
    """Of names as torch has them, separated by commas."""
    found = [getattr(torch, name, None) for name in names.split(",")]
    for name, dtype in zip(names.split(","), found, strict=True):
        if not isinstance(dtype, torch.dtype):
            raise argparse.ArgumentTypeError(f"torch has no dtype '{name}'")
    return [dtype for dtype in found if dtype]


class Apart:
    """Tries pairs of a database in a process forked from this one, which has everything loaded.

    Another takes its place when it hangs or dies, or after `PAIRS`, so that what they leave behind
    does not pile up.
    """

    PAIRS = 32
    """A new process is slow at first: the first pair costs as much as four more."""

    def __init__(self, database: str, seconds: float):
        self._entries = entries(database)
        self._seconds = seconds
        self._left = 0
        self._end: Connection | None = None
        self._process: BaseProcess | None = None

    def tried(self, entry: Entry, dtype: torch.dtype, settings: Settings) -> Record:
        """The record of a pair; "no sample" where eager itself dies."""
        record = self._ask(entry, dtype, settings)
        if record.verdict == "died":
            eager = self._ask(entry, dtype, replace(settings, backend="eager"))
            if eager.verdict == "died":
                eager.verdict, eager.detail = "no sample", "eager dies"
                return eager
        return record

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._end = self._process = None

    def _ask(self, entry: Entry, dtype: torch.dtype, settings: Settings) -> Record:
        end = self._worker()
        end.send((entry.name, dtype, settings))
        try:
            if end.poll(self._seconds):
                return end.recv()
            verdict = "timeout"
        except EOFError:
            verdict = "died"
        self.close()
        return Record(entry.name, str(dtype).removeprefix("torch."), verdict)

    def _worker(self) -> Connection:
        """The end of a process that can take a pair."""
        if self._end is None or self._left == 0:
            self.close()
            context = multiprocessing.get_context("fork")
            self._end, theirs = context.Pipe()
            self._process = context.Process(target=self._serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
            self._left = self.PAIRS
        self._left -= 1
        return self._end

    def _serve(self, end: Connection) -> None:
        assert self._end is not None
        self._end.close()  # the last one that is open is to be the parent's
        while True:
            try:
                name, dtype, settings = end.recv()
            except EOFError:  # the parent is gone
                return
            try:
                record = try_pair(self._entries[name], dtype, settings)
            except Exception as error:  # of the database: making its samples
                record = Record(name, str(dtype).removeprefix("torch."), detail=repr(error))
            end.send(record)


def sweep(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    dynamic = {"no": False, "yes": True, "auto": None}[options.dynamic]
    settings = Settings(
        samples=options.samples,
        dynamic=dynamic,
        fullgraph=options.fullgraph,
        gradients=options.gradients,
        variants=options.variants,
        interpreter=options.interpreter,
    )
    todo, done = _todo(options), _resumed(options.results, options.database, settings)
    torch._logging.set_logs(dynamo=logging.ERROR)  # says where it breaks graphs
    # Loads what forks will need.
    warm = torch.compile(lambda x: (x.exp() @ x).sum(), backend="lpu_mlir", dynamic=dynamic)
    warm(torch.ones(3, 3, requires_grad=options.gradients))
    if options.gradients:
        warm(torch.ones(3, 3, requires_grad=True)).backward()
    apart = Apart(options.database, options.timeout)
    with closing(apart), options.results.open("a", buffering=1) as file:
        file.write("\n")  # in case that the last line was cut off
        for entry, dtype in todo:
            if (entry.name, str(dtype).removeprefix("torch.")) in done:
                continue
            record = apart.tried(entry, dtype, settings)
            record.database, record.settings = options.database, settings
            file.write(json.dumps(asdict(record)) + "\n")


# --- the summary --------------------------------------------------------------------------------


def summary(options: argparse.Namespace) -> None:
    """Pairs by dtype and verdict; how many of the right ones had no host call; of those that
    aot_eager passes and that reached the backend, the part that is good; then the faults."""
    records = recorded(options.results)
    if not records:
        raise SystemExit(f"conformance: {options.results} has no results")
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        table[record["dtype"]][record["verdict"]] += 1
        if record["verdict"] == "right" and not record["host_calls"]:
            table[record["dtype"]]["(all native)"] += 1
    order = dict.fromkeys((*FAULTS, *VERDICTS))
    columns = [v for v in order if any(row[v] for row in table.values())]
    if "right" in columns:
        columns.insert(columns.index("right") + 1, "(all native)")
    print(f"{'':12}" + "".join(f"{column:>14}" for column in columns))
    for dtype, row in table.items():
        print(f"{dtype:12}" + "".join(f"{row[column]:>14}" for column in columns))
    good = sum(row[v] for row in table.values() for v in GOOD)
    bad = sum(row[v] for row in table.values() for v in FAULTS)
    print(f"\n{good} of {good + bad} good, {good / max(good + bad, 1):.2%}")
    for verdict in (*FAULTS, "as aot_eager", "known", "noise", "not called"):
        found = [record for record in records if record["verdict"] == verdict]
        print(f"\n{verdict}: {len(found)}" if found else "", end="\n" if found else "")
        for record in found:
            detail = " ".join(record["detail"].split())[:160]
            print(f"  {record['op']} {record['dtype']}  {detail}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    commands = parser.add_subparsers(required=True)
    parse = commands.add_parser("sweep")
    parse.set_defaults(run=sweep)
    parse.add_argument("results", type=Path)
    parse.add_argument("--database", choices=DATABASES, default="op")
    parse.add_argument("--dtypes", type=dtypes_of, default="float32,bfloat16,int64,bool")
    parse.add_argument("--ops", default="*", help="names or patterns, separated by commas")
    parse.add_argument("--samples", type=int, default=6, help="the most per pair")
    parse.add_argument("--dynamic", choices=("no", "yes", "auto"), default="no")
    parse.add_argument("--fullgraph", action="store_true", help="captures what depends on data")
    parse.add_argument("--gradients", action="store_true", help="only of what has gradients")
    parse.add_argument("--variants", action="store_true", help="layouts and values, variants.py")
    parse.add_argument("--interpreter", choices=CHOICES["interpreter"], default="native")
    parse.add_argument("--timeout", type=float, default=60, help="seconds for one pair")
    parse.add_argument("--shard", default="0/1", help="I/N: each N-th pair from the I-th on")
    parse = commands.add_parser("summary")
    parse.set_defaults(run=summary)
    parse.add_argument("results", type=Path)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
