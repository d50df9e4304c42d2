"""Results as a picture: for each work, every system's figure as a multiple of ours."""

from __future__ import annotations

from pathlib import Path

from bench.goals import LIMIT
from bench.results import Results, middle
from bench.works import EVERY, NAMES, OURS, WORKS


def draw(results: Results, path: Path) -> None:
    """Writes a PNG; needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    works = [work for work in WORKS if middle(r.ratio("eager") for r in results.of(work))]
    figure, axes = pyplot.subplots(figsize=(9, 1.5 + 0.55 * len(works)), layout="constrained")
    others = [system for system in EVERY if system != OURS]
    height = 0.8 / len(others)
    for i, system in enumerate(others):
        # How many times as long as ours each takes: bars to the right of 1 are slower.
        ratios = [middle(r.ratio(system) for r in results.of(work)) for work in works]
        places = [row - 0.4 + (i + 0.5) * height for row in range(len(works))]
        lengths = [1 / ratio - 1 if ratio else 0 for ratio in ratios]
        axes.barh(places, lengths, height, left=1, label=NAMES[system])
    limits = [middle(r.ratio(LIMIT) for r in results.of(work)) for work in works]
    known = [(1 / ratio, row) for row, ratio in enumerate(limits) if ratio]
    if known:
        axes.plot(*zip(*known, strict=True), "k|", markersize=24, label="limit")
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.set_yticks(range(len(works)), [WORKS[work].title for work in works])
    axes.invert_yaxis()
    axes.set_xlabel("time (or bytes) as a multiple of ours")
    figure.legend(loc="outside lower center", ncols=len(EVERY), fontsize="small")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
