"""How far elementary functions of f32 are from the true value, and how long they take.

`scripts/ulp` runs this and writes the table in docs/numerics.md.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from native_harness import Compiled, Elementwise, compiled
from torch import Tensor
from xdsl.dialects.builtin import f32

from lpu_mlir.interpreter.native import elementary, inverse, powers
from lpu_mlir.interpreter.native.lanes import Lanes
from lpu_mlir.interpreter.native.llvm import Builder, Value

LANES = 16
CHUNK = 1 << 17
DOCS = Path(__file__).parents[2] / "docs" / "numerics.md"


FUNCTIONS: dict[str, Callable[..., Lanes]] = {
    function.__name__: function
    for function in (
        *(elementary.exp, elementary.exp2, elementary.expm1, elementary.tanh, elementary.erf),
        *(elementary.log, elementary.log2, elementary.log10, elementary.log1p),
        *(elementary.sin, elementary.cos, elementary.tan, elementary.sinh, elementary.cosh),
        *(inverse.asin, inverse.acos, inverse.atan, inverse.asinh, inverse.acosh, inverse.atanh),
        powers.cbrt,
    )
}
"""Functions of one number."""


def truth(name: str, *x: Tensor) -> Tensor:
    """A function of f64."""
    if name == "erf":
        return torch.erf(*x)
    other = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2"}
    other |= {"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "pow": "power"}
    with np.errstate(all="ignore"):
        return torch.from_numpy(getattr(np, other.get(name, name))(*(v.numpy() for v in x)))


def compiled_function(
    function: Callable[..., Lanes], lanes: int = LANES, operands: int = 1
) -> Compiled:
    def emit(b: Builder, values: Sequence[Value]) -> Value:
        return function(*(Lanes(b, value) for value in values)).value

    return compiled([Elementwise("f", (f32,) * operands, f32, lanes, emit)])["f"]


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


def eager(name: str) -> Callable[..., Tensor] | None:
    """PyTorch's function, if it has it."""
    return getattr(torch, name, None)


def largest_errors(name: str, stride: int) -> list[float]:
    """Of the compiled function, and of PyTorch's."""
    functions = [compiled_function(FUNCTIONS[name])]
    if other := eager(name):
        functions.append(other)
    worst = [0.0] * len(functions)
    for x in patterns(stride):
        expected = truth(name, x.double())
        for n, function in enumerate(functions):
            worst[n] = max(worst[n], float(errors(function(x), expected).max()))
    return worst


def nanoseconds(name: str) -> list[float]:
    """For an element, of processor time of one thread, with arguments in the nearest cache."""
    x = torch.rand(4096, generator=torch.Generator().manual_seed(0)) * 4 + 0.1
    x = x / 4.2 if name.startswith("a") else x if name.startswith("log") else x - 2
    x = x + 1 if name == "acosh" else x
    y, run = torch.empty_like(x), compiled_function(FUNCTIONS[name])
    calls = [run.call(x, y)]
    if other := eager(name):
        calls.append(partial(other, x, out=y))
    best = [float("inf")] * len(calls)
    for _ in range(30):
        for which, call in enumerate(calls):
            start = time.process_time_ns()
            for _ in range(100):
                call()
            spent = (time.process_time_ns() - start) / 100 / x.numel()
            best[which] = min(best[which], spent)
    return best


def table(stride: int) -> str:
    lines = [
        f"Over every {stride}th f32; ns per element with {LANES} lanes and one thread; "
        "inf: an infinity for a number.\n",
        "| function | largest error, ULP | eager's | ns | eager's |",
        "|---|---|---|---|---|",
    ]
    for name in FUNCTIONS:
        pairs = (largest_errors(name, stride), nanoseconds(name))
        cells = [" | ".join([*(f"{n:.2f}" for n in pair), ""][:2]) for pair in pairs]
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
