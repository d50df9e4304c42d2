"""A process that does one work on one system, a turn at a time, as `turns` tells it."""

from __future__ import annotations

import logging
import os
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pkgutil import resolve_name
from time import perf_counter
from typing import Any

from bench.works import WORKS

LIMITS = "limits"
"""The name under which the machine itself takes part in the turns."""

TURN_SECONDS, SAMPLE_SECONDS = 0.2, 0.002
"""What a turn and a sample aim at: quick calls are measured several at a time."""


@dataclass(frozen=True)
class Demand:
    """What a work cannot do without."""

    weight_bytes: int = 0
    """Read once."""
    moved_bytes: int = 0
    """Of inputs and outputs."""
    operations: int = 0
    """Two for each multiply-add."""

    def seconds(self, rates: Mapping[str, float]) -> float:
        """The time at the rates of a machine, if everything else came free."""
        return max(
            self.weight_bytes / rates["read"],
            self.moved_bytes / rates["copy"],
            self.operations / rates["fma"],
        )


@dataclass(frozen=True)
class Ready:
    """A work that has been built, called and checked."""

    run: Callable[[], object]
    compile_seconds: float
    difference: float
    demand: Demand
    parts: int = 1
    """A figure is for one of so many parts of a run, such as tokens."""
    reset: Callable[[], None] = lambda: None
    """Before each run, untimed."""

    def turn(self) -> dict[str, list[float]]:
        """Seconds of some runs in a row; one more comes first, which finds its data again."""
        self.reset()
        start = perf_counter()
        self.run()
        once = perf_counter() - start
        inner = max(1, int(SAMPLE_SECONDS / once))
        count = min(20, max(1, int(TURN_SECONDS / once / inner)))
        return {"seconds": [self.sample(inner) for _ in range(count)]}

    def sample(self, inner: int) -> float:
        self.reset()
        start = perf_counter()
        for _ in range(inner):
            self.run()
        return (perf_counter() - start) / inner / self.parts


def serve(
    connection: Connection, work: str, system: str, threads: int, environment: Mapping[str, str]
) -> None:
    """Gets ready, says so, and answers each request with a turn, until there are no more.

    A work with figures from fresh processes sends its figure instead.
    """
    os.environ.update(environment)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    try:
        import torch

        torch.set_num_threads(threads)
        torch.manual_seed(0)
        ready: Any = prepare(work, system, threads)
        if isinstance(ready, float):
            connection.send(ready)
            return
        demand = getattr(ready, "demand", Demand())
        seconds = getattr(ready, "compile_seconds", 0.0)
        connection.send((seconds, getattr(ready, "difference", 0.0), demand))
        while connection.recv():
            connection.send(ready.turn())
    except EOFError:
        pass  # the driver is gone
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {error}".split("\n")[0]
        connection.send(f"{said[:300]} ({os.path.basename(last.filename)}:{last.lineno})")


def prepare(work: str, system: str, threads: int) -> Any:
    if system == LIMITS:
        return resolve_name("bench.limits:Machine")(threads)
    return resolve_name(WORKS[work].target)(system)
