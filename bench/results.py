"""What was measured, in one JSON file to which every measurement is added at once."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench.goals import BEST_PEER, LIMIT, Criterion
from bench.works import OURS, PEERS


@dataclass(frozen=True)
class Figure:
    """What one system took for one work in one run: the median, in seconds or bytes; or why there
    is none."""

    value: float | None = None
    best: float | None = None
    samples: int = 0
    compile_seconds: float | None = None
    """From the model to the end of its first call."""
    difference: float | None = None
    """Largest difference from eager's result, as a part of its largest element."""
    failure: str = ""
    turns: Sequence[float] = ()
    """The median of each turn."""


@dataclass(frozen=True)
class Run:
    """One work in one run: every figure comes of the same minutes."""

    work: str
    number: int
    figures: Mapping[str, Figure]
    """By system."""
    rates: Mapping[str, float] = field(default_factory=dict[str, float])
    """What the machine could do meanwhile: see `limits`."""
    limits: Sequence[float] = ()
    """Seconds of the work at the rates of each turn."""
    load: float = 0.0
    """Load average when it began: more than a few tenths, and other programs were running."""

    def value(self, what: str) -> float | None:
        """The figure of a system, of the best peer, or the limit."""
        if what == LIMIT:
            return middle(self.limits)
        if what == BEST_PEER:
            return middle([self.value(peer) for peer in self._best_peer()])
        return self.figures[what].value if what in self.figures else None

    def turns(self, what: str) -> Sequence[float]:
        """The figures of its turns; none if it has no figure."""
        if what == LIMIT:
            return self.limits
        if what == BEST_PEER:
            return [value for peer in self._best_peer() for value in self.turns(peer)]
        return self.figures[what].turns if what in self.figures else ()

    def _best_peer(self) -> list[str]:
        """The quickest of the peers that have a figure, if there is one."""
        values = {peer: v for peer in PEERS if (v := self.value(peer)) is not None}
        return sorted(values, key=lambda peer: values[peer])[:1]

    def ratio(self, what: str) -> float | None:
        """Ours as a multiple of another figure."""
        return self.margin(Criterion(what))

    def margin(self, criterion: Criterion) -> float | None:
        """Ours as a multiple of what a criterion allows: it is met up to 1.

        The median over the turns: what is compared was measured within seconds, as the rate of
        memory may change from minute to minute.
        """
        ours, others = self.turns(OURS), self.turns(criterion.against)
        if not ours or not others:
            return None
        pairs = zip(ours, others, strict=True)
        return median(a / (criterion.factor * z + criterion.plus) for a, z in pairs)


def worst(values: Iterable[float | None]) -> float | None:
    """The largest of several runs' ratios; None if one of them has none."""
    known = list(values)
    return None if not known or None in known else max(v for v in known if v is not None)


def middle(values: Iterable[float | None]) -> float | None:
    """The median of several runs' figures, as far as there are some."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


class OtherSettings(Exception):
    """A file has results that were measured in another way."""


@dataclass
class Results:
    """The runs of one file; `settings` is what must be equal for runs to be compared."""

    settings: Mapping[str, Any]
    machine: Mapping[str, Any]
    """What it was measured on, to be told."""
    runs: list[Run] = field(default_factory=list[Run])
    path: Path | None = None

    def of(self, work: str) -> list[Run]:
        return [run for run in self.runs if run.work == work]

    def has(self, work: str, number: int, systems: Iterable[str]) -> bool:
        """Whether that run has been done with all these systems; their ratios need one run."""
        done = [run for run in self.of(work) if run.number == number]
        return any(set(systems) <= run.figures.keys() for run in done)

    def add(self, run: Run) -> None:
        """Keeps a run in place of an earlier one, and saves."""
        key = (run.work, run.number)
        self.runs = [r for r in self.runs if (r.work, r.number) != key] + [run]
        self.save()

    def save(self) -> None:
        if self.path is None:
            return
        runs = [asdict(run) for run in self.runs]
        content = {"settings": self.settings, "machine": self.machine, "runs": runs}
        new = self.path.with_name(self.path.name + ".new")
        new.write_text(json.dumps(content, indent=1))
        os.replace(new, self.path)  # whole at any time

    def resumed(self) -> Results:
        """These with the runs that the file has; OtherSettings if they cannot be compared."""
        if self.path is None or not self.path.exists():
            return self
        earlier = load(self.path)
        for name, value in self.settings.items():
            if (had := earlier.settings.get(name)) != value:
                raise OtherSettings(
                    f"{self.path} was measured with {name} {had}, and this would be {value}: "
                    "name another file"
                )
        return Results(self.settings, self.machine, earlier.runs, self.path)


def load(path: Path) -> Results:
    """The results in a file."""
    content = json.loads(path.read_text())
    runs = [_run(run) for run in content["runs"]]
    return Results(content["settings"], content["machine"], runs, path)


def _run(content: Mapping[str, Any]) -> Run:
    figures = {
        system: Figure(**{**figure, "turns": tuple(figure["turns"])})
        for system, figure in content["figures"].items()
    }
    return Run(**{**content, "figures": figures, "limits": tuple(content["limits"])})
