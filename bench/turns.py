"""Runs the systems in turns, each in a process of its own, and collects their figures."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench.report import number
from bench.results import Figure, Run
from bench.worker import LIMITS, Demand, serve
from bench.works import FRESH, OURS, WORKS, why_not

BUILD_SECONDS, TURN_SECONDS = 1200.0, 300.0
"""How long a system may take to get ready, and for a turn."""

FRESH_TURNS = 3
"""How often a work is measured that takes processes of its own."""

PAUSE_SECONDS = 0.02
"""Between turns: threads that wait for more work by spinning give up meanwhile."""

WEIGHTS = "smollm2-135m-instruct"
"""Where below LPU_MLIR_CACHE_DIR the converted weights are, which are kept for the next time."""


class Failed(Exception):
    """A system cannot do a work; the message says why."""


class Rival:
    """One system in its process."""

    def __init__(self, work: str, system: str, threads: int, environment: Mapping[str, str]):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        arguments = (theirs, work, system, threads, dict(environment))
        self.process = context.Process(target=serve, args=arguments, daemon=False)
        self.process.start()
        theirs.close()

    def answer(self, seconds: float) -> Any:
        """What it says next; Failed if that is an error, or nothing in time."""
        try:
            said = self.connection.recv() if self.connection.poll(seconds) else None
        except EOFError:
            self.process.join(10)
            raise Failed(f"the process ended with code {self.process.exitcode}") from None
        if said is None:
            raise Failed(f"no answer within {seconds:.0f} s")
        if isinstance(said, str):
            raise Failed(said)
        return said

    def turn(self) -> dict[str, list[float]]:
        self.connection.send(True)
        return self.answer(TURN_SECONDS)

    def stop(self) -> None:
        self.connection.close()
        self.process.join(10)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


@dataclass
class Entrant:
    """A rival that is ready, and what it has shown so far."""

    rival: Rival
    compile_seconds: float
    difference: float
    demand: Demand
    turns: list[dict[str, list[float]]] = field(default_factory=list[dict[str, list[float]]])

    def turn(self) -> None:
        self.turns.append(self.rival.turn())

    def figure(self) -> Figure:
        turns = [turn["seconds"] for turn in self.turns]
        seconds = [value for turn in turns for value in turn]
        return Figure(
            median(seconds),
            min(seconds),
            len(seconds),
            self.compile_seconds,
            self.difference,
            turns=tuple(map(median, turns)),
        )

    def rates(self) -> list[dict[str, float]]:
        """The medians of each turn, by name."""
        return [{name: median(values) for name, values in turn.items()} for turn in self.turns]


@dataclass(frozen=True)
class Conditions:
    """How every work is measured."""

    threads: int
    turns: int
    tell: Callable[[str], None] = print

    def environment(self, caches: Path) -> dict[str, str]:
        """Variables of a worker's process; compilers keep what they make in `caches`."""
        count = str(self.threads)
        ours = caches / "lpu_mlir"
        ours.mkdir(parents=True, exist_ok=True)
        if not (ours / WEIGHTS).exists():  # converting weights is nobody's work
            known = Path(os.environ.get("LPU_MLIR_CACHE_DIR") or Path.home() / ".cache/lpu_mlir")
            (known / WEIGHTS).mkdir(parents=True, exist_ok=True)
            (ours / WEIGHTS).symlink_to((known / WEIGHTS).resolve(), target_is_directory=True)
        return {
            "OMP_NUM_THREADS": count,
            "MKL_NUM_THREADS": count,
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_VERBOSITY": "error",
            "LPU_MLIR_CACHE_DIR": str(ours),
            "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        }


def measure(work: str, number: int, systems: Sequence[str], conditions: Conditions) -> Run:
    """One run of a work on all these systems; those that fail have no figure."""
    load = os.getloadavg()[0]
    figures: dict[str, Figure] = {}
    able: list[str] = []
    for system in systems:
        if why := why_not(system.partition(" ")[0]):
            figures[system] = Figure(failure=why)
        else:
            able.append(system)
    if work in FRESH:
        figures |= afresh(work, able, conditions)
        return Run(work, number, figures, load=load)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        return in_turns(work, number, able, figures, load, Path(folder), conditions)


def afresh(work: str, systems: Sequence[str], conditions: Conditions) -> dict[str, Figure]:
    """Figures of new processes, each system a few times in turn with the others."""
    values: dict[str, list[float]] = {system: [] for system in systems}
    figures: dict[str, Figure] = {}
    for _ in range(FRESH_TURNS):
        for system in systems:
            if system in figures:
                continue
            try:
                values[system].append(fresh(work, system, conditions))
            except Failed as error:
                figures[system] = Figure(failure=str(error))
    for system in systems:
        if system not in figures:
            turns = values[system]
            figures[system] = Figure(median(turns), min(turns), len(turns), turns=tuple(turns))
        conditions.tell(describe(work, system, figures[system]))
    return figures


def fresh(work: str, system: str, conditions: Conditions) -> float:
    """The figure of the last of the processes that the work takes; Failed if there is none."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        environment = conditions.environment(Path(folder))
        value = 0.0
        for step in FRESH[work]:
            rival = Rival(step, system, conditions.threads, environment)
            try:
                value = rival.answer(BUILD_SECONDS)
            finally:
                rival.stop()
    return value


def in_turns(
    work: str,
    number: int,
    systems: Sequence[str],
    figures: dict[str, Figure],
    load: float,
    caches: Path,
    conditions: Conditions,
) -> Run:
    """Builds one after the other, then goes round; `figures` has those that cannot take part."""
    entrants: dict[str, Entrant] = {}
    environment = conditions.environment(caches)
    try:
        for system in (LIMITS, *systems):
            rival = Rival(work, system, conditions.threads, environment)
            try:
                entrants[system] = Entrant(rival, *rival.answer(BUILD_SECONDS))
            except Failed as error:
                figures[system] = Figure(failure=str(error))
                conditions.tell(describe(work, system, figures[system]))
                rival.stop()
        go_round(entrants, figures, conditions)
    finally:
        for entrant in entrants.values():
            entrant.rival.stop()
    rates = entrants.pop(LIMITS).rates()
    typical = {name: median(rate[name] for rate in rates) for name in rates[0]}
    for system, entrant in entrants.items():
        figures[system] = entrant.figure()
        conditions.tell(describe(work, system, figures[system]))
    # Ours, if it took part: other systems may have chosen another precision.
    chosen = entrants.get(OURS) or next(iter(entrants.values()), None)
    limits = tuple(map(chosen.demand.seconds, rates)) if chosen else ()
    ordered = {system: figures[system] for system in (*systems, *figures)}
    return Run(work, number, ordered, typical, limits, load)


def go_round(
    entrants: dict[str, Entrant], figures: dict[str, Figure], conditions: Conditions
) -> None:
    """Gives each its turn, again and again, beginning with another each time."""
    for turn in range(conditions.turns):
        names = list(entrants)
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            time.sleep(PAUSE_SECONDS)
            try:
                entrants[name].turn()
            except Failed as error:
                figures[name] = Figure(failure=str(error))
                entrants.pop(name).rival.stop()


def describe(work: str, system: str, figure: Figure) -> str:
    """A line for one figure as soon as it is known."""
    if figure.value is None:
        return f"  {system:18}{figure.failure}"
    unit = WORKS[work].unit
    said = f"  {system:18}{number(figure.value, unit):>8} {unit.name:2}"
    if figure.compile_seconds is None:
        return said
    compiled = f"compiled in {figure.compile_seconds:.1f} s, off by {figure.difference:.0e}"
    return f"{said}  {figure.samples} samples, {compiled}"
