"""How far elementary functions of f32 are from the true value, and how long they take.

`scripts/ulp` runs this and writes the table in docs/numerics.md.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from native_harness import Compiled, Elementwise, compiled
from torch import Tensor
from xdsl.dialects.builtin import f32

from lpu_mlir.interpreter.native import elementary

LANES = 16
CHUNK = 1 << 17
DOCS = Path(__file__).parents[2] / "docs" / "numerics.md"


def _numpy(name: str) -> Callable[[Tensor], Tensor]:
    def run(x: Tensor) -> Tensor:
        with np.errstate(all="ignore"):
            return torch.from_numpy(getattr(np, name)(x.numpy()))

    return run


TRUTH: dict[str, Callable[[Tensor], Tensor]] = {
    **{name: _numpy(name) for name in ("exp", "exp2", "expm1", "tanh")},
    "erf": torch.erf,
    **{name: _numpy(name) for name in ("log", "log2", "log10", "log1p", "sin", "cos")},
}
"""The functions that are computed on all lanes at once, in f64."""


def function(name: str, lanes: int = LANES) -> Compiled:
    def emit(b: Any, values: Any) -> Any:
        return getattr(elementary, name)(b, values[0])

    return compiled([Elementwise("f", (f32,), f32, lanes, emit)])["f"]


def errors(actual: Tensor, truth: Tensor) -> Tensor:
    """The distance of f32 from f64 in units of the last place that the true value has as f32.

    Infinite where only one is NaN and where the signs differ; 0 where both are too large for f32.
    """
    nearest = truth.float()
    exponent = truth.abs().clamp(min=2.0**-126).log2().floor()
    distance = (actual.double() - truth).abs() / 2.0 ** (exponent - 23)
    same = (actual == nearest) & nearest.isinf() | actual.isnan() & nearest.isnan()
    wrong = distance.isnan() | (actual.signbit() != nearest.signbit()) & ~nearest.isnan()
    return torch.where(same, 0.0, torch.where(wrong, torch.inf, distance))


def patterns(stride: int) -> Iterator[Tensor]:
    """Every so many-th f32, by its bits, in parts."""
    for start in range(-(1 << 31), 1 << 31, CHUNK * stride):
        end = min(start + CHUNK * stride, 1 << 31)
        yield torch.arange(start, end, stride).to(torch.int32).view(torch.float32)


def largest_errors(name: str, stride: int) -> tuple[float, float]:
    """Of the compiled function and of PyTorch's."""
    ours, theirs = 0.0, 0.0
    run = function(name)
    for x in patterns(stride):
        truth = TRUTH[name](x.double())
        ours = max(ours, float(errors(run(x), truth).max()))
        theirs = max(theirs, float(errors(getattr(torch, name)(x), truth).max()))
    return ours, theirs


def nanoseconds(name: str) -> tuple[float, float]:
    """For an element, of processor time of one thread, with arguments in the nearest cache."""
    x = torch.rand(4096, generator=torch.Generator().manual_seed(0)) * 4 + 0.1
    x = x if name.startswith("log") else x - 2
    y, run = torch.empty_like(x), function(name)
    calls = (run.call(x, y), lambda: getattr(torch, name)(x, out=y))
    best = [float("inf")] * 2
    for _ in range(30):
        for which, call in enumerate(calls):
            start = time.process_time_ns()
            for _ in range(100):
                call()
            spent = (time.process_time_ns() - start) / 100 / x.numel()
            best[which] = min(best[which], spent)
    return best[0], best[1]


def table(stride: int) -> str:
    lines = [
        f"Over every {stride}th f32; ns per element with {LANES} lanes and one thread.\n",
        "| function | largest error, ULP | eager's | ns | eager's |",
        "|---|---|---|---|---|",
    ]
    for name in TRUTH:
        cells = [f"{n:.2f}" for n in (*largest_errors(name, stride), *nanoseconds(name))]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stride", type=int, default=17, help="1 for every f32")
    stride = parser.parse_args().stride
    torch.set_num_threads(1)
    begin, end = "<!-- scripts/ulp -->\n", "\n<!-- end -->"
    text = re.sub(f"(?s)(?<={begin}).*(?={end})", lambda _: table(stride), DOCS.read_text())
    DOCS.write_text(text)


if __name__ == "__main__":
    main()
