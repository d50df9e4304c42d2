"""Results as tables: in text for a terminal, in markdown for README.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.goals import BEST_PEER, GOALS, LIMIT, Criterion
from bench.results import Results, Run, middle, worst
from bench.works import EVERY, NAMES, WORKS, Unit

UNKNOWN = "-"


def number(value: float | None, unit: Unit) -> str:
    """Three digits, or all before the point."""
    if value is None:
        return UNKNOWN
    scaled = value * unit.scale
    return f"{scaled:,.0f}" if scaled >= 100 else f"{scaled:.3g}"


def ratio(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.2f}"


def verdict(runs: Sequence[Run], criteria: Sequence[Criterion]) -> str:
    """Each criterion, and whether the worst run meets it, or by what factor it fails."""
    said: list[str] = []
    for criterion in criteria:
        margin = worst(run.margin(criterion) for run in runs)
        if margin is None:
            met = "not measured"
        else:
            met = "yes" if margin <= 1 else f"no, {margin:.2f} x that"
        said.append(f"{criterion}: {met}")
    return "; ".join(said) or UNKNOWN


COLUMNS: Sequence[tuple[str, Callable[[str, Sequence[Run]], str]]] = (
    ("work", lambda work, runs: f"{WORKS[work].title}, {WORKS[work].unit.name}"),
    *(
        (
            NAMES[system],
            lambda work, runs, system=system: number(
                middle(run.value(system) for run in runs), WORKS[work].unit
            ),
        )
        for system in EVERY
    ),
    (LIMIT, lambda work, runs: number(middle(r.value(LIMIT) for r in runs), WORKS[work].unit)),
    *(
        (f"/ {what}", lambda work, runs, what=what: ratio(worst(r.ratio(what) for r in runs)))
        for what in (BEST_PEER, "inductor", "eager", LIMIT)
    ),
    ("bar", lambda work, runs: verdict(runs, GOALS[work].bar)),
    ("goal", lambda work, runs: verdict(runs, GOALS[work].goal)),
)
"""Heading -> what a row has there."""


def rows(results: Results) -> list[list[str]]:
    """The table without its headings: one row for each work that was measured."""
    return [
        [cell(work, runs) for _, cell in COLUMNS] for work in WORKS if (runs := results.of(work))
    ]


def markdown(results: Results) -> str:
    """The table for README.md, and what it was measured on."""
    lines = [[heading for heading, _ in COLUMNS], ["---"] * len(COLUMNS), *rows(results)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{table}\n\n{conditions(results)}\n"


def text(results: Results) -> str:
    """The table for a terminal: figures first, then a line for each bar and goal."""
    headings = [heading for heading, _ in COLUMNS[:-2]]
    table = [headings, *(row[:-2] for row in rows(results))]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in table
    ]
    lines.append("")
    for row in rows(results):
        lines += [f"{row[0].ljust(widths[0])}  {name}: {said}" for name, said in verdicts(row)]
    failures = [
        f"{NAMES[system]}, {WORKS[run.work].title}, run {run.number}: {figure.failure}"
        for run in results.runs
        for system, figure in run.figures.items()
        if figure.failure
    ]
    return "\n".join([*lines, "", *failures, *([""] if failures else []), conditions(results)])


def verdicts(row: Sequence[str]) -> list[tuple[str, str]]:
    named = zip(("bar ", "goal"), row[-2:], strict=True)
    return [(name, said) for name, said in named if said != UNKNOWN]


def conditions(results: Results) -> str:
    """What was measured how: a paragraph."""
    count = max((run.number for run in results.runs), default=0)
    rates = [run.rates for run in results.runs if run.rates]
    busiest = max((run.load for run in results.runs), default=0.0)
    threads = results.settings["threads"]
    said = [
        f"{results.machine['processor']}, {threads} thread{'s' if threads > 1 else ''};"
        f" {results.machine['versions']}.",
        f"Times are medians, of {count} run{'s' if count > 1 else ''} the middle one; each ratio is"
        " ours to theirs turn by turn, of a run the median, of all runs the worst.",
    ]
    if rates:
        read, copy, fma = (
            f"{min(r[name] for r in rates) / 1e9:.0f} to {max(r[name] for r in rates) / 1e9:.0f}"
            for name in ("read", "copy", "fma")
        )
        said.append(
            f"Limits, measured in the same turns: memory read at {read} GB/s, copied at {copy} GB/s"
            f" (bytes read and written), {fma} GFLOP/s of multiply-adds in registers."
        )
    if busiest > 0.5:
        said.append(f"Other programs were running (load average {busiest:.1f}).")
    return " ".join(said)
