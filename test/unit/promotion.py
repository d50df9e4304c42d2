"""
The dtype and the value of operators over all pairs of dtypes and Python numbers, beside eager; run
by scripts/promotion.

A graph has many cases: operators with their arguments.  What eager refuses is not in the graphs;
what changes a tensor in place must then be refused by torch.compile, too.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import islice, product
from random import Random
from typing import Any
from unittest.mock import patch

import torch
from promotion_operators import ALONG, BINARY, INPLACE, TIMES, UNARY, Function
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.testing._internal import common_methods_invocations as database
from torch.utils._pytree import tree_leaves

import lpu_mlir
from lpu_mlir.options import CHOICES

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
DTYPES = (torch.bool, *INTEGERS, *FLOATS)
NUMBERS = (True, 3, 2.7, 300, 2**40)
"""2.7 is another number in each dtype; 300 and 2**40 are beyond some."""

OPERATORS: Mapping[str, Function] = {**BINARY, **INPLACE, **UNARY, **ALONG}

REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, AttributeError)
"""What eager raises for what it does not take."""

TOLERANCES = {torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float32: 2e-6, torch.float64: 1e-13}
"""Relative: the last place in half precision."""


PARTLY: Mapping[str, str] = {
    "cosine_similarity(*float32*)": "the norm of each argument, in its own dtype",
}
"""Cases of which eager computes a part in f32, a coarser dtype than that of the result."""


# --- cases --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    name: str
    function: Function
    arguments: Sequence[Any]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(_written, self.arguments))})"

    def run(self) -> Any:
        return self.function(*self.arguments)


def _written(argument: Any) -> str:
    if not isinstance(argument, Tensor):
        return str(argument)
    dtype = str(argument.dtype).removeprefix("torch.")
    return dtype if argument.dim() else f"0-d {dtype}"


def _vector(dtype: torch.dtype, turn: int, times: int = TIMES) -> Tensor:
    fractions = ([-1.3, 2.7, 0.0, 5.2], [2.1, 0.6, 1.9, 3.3])
    integers = ([-3, 2, 0, 5], [2, 1, 2, 3])
    return torch.tensor((fractions if dtype in FLOATS else integers)[turn] * times).to(dtype)


def _pairs() -> Iterator[Sequence[Any]]:
    """Tensors by tensors, and by numbers in both orders; tensors with a dim and without."""
    left = [x for d in DTYPES for x in (_vector(d, 0), _vector(d, 0)[1])]
    right = [x for d in DTYPES for x in (_vector(d, 1), _vector(d, 1)[2])]
    yield from product(left, right)
    yield from product(left, NUMBERS)
    yield from product(NUMBERS, right)


def _alone(times: int) -> Iterator[Sequence[Any]]:
    for dtype in DTYPES:
        x, y = (_vector(dtype, turn, times) for turn in (0, 1))
        yield from ((x,), (y,), (y[0],))


def cases(name: str) -> Iterator[Case]:
    """What an operator is tried with."""
    two = name in BINARY or name in INPLACE
    for given in _pairs() if two else _alone(1 if name in ALONG else TIMES):
        if "polynomial" not in name or given[-1] is not NUMBERS[-1]:  # eager counts to the degree
            yield Case(name, OPERATORS[name], given)


def _traceable() -> Any:
    """Random operators of the database do not set the seed, which Dynamo does not trace."""
    return patch.object(database, "wrapper_set_seed", lambda op, *args, **kw: op(*args, **kw))


def _takes(case: Case) -> bool:
    """Whether eager takes the case."""
    try:
        with _traceable():
            case.run()
    except REFUSALS:
        return False
    return True


def taken(name: str, most: int | None = None) -> Sequence[Case]:
    """The cases of an operator that eager takes, or so many of them, chosen by chance."""
    tried = list(cases(name))
    if most is not None:
        Random(name).shuffle(tried)
    found = list(islice(filter(_takes, tried), most))
    assert found, f"eager takes no case of {name}"
    return found


# --- beside eager -------------------------------------------------------------------------------


def compiled(chosen: Sequence[Case], backend: str, **options: Any) -> Sequence[Any]:
    """The results of the cases in one graph."""

    def all_of(tensors: list[Tensor]) -> list[Any]:
        given = iter(tensors)
        return [
            case.function(*(next(given) if isinstance(v, Tensor) else v for v in case.arguments))
            for case in chosen
        ]

    tensors = [v for case in chosen for v in case.arguments if isinstance(v, Tensor)]
    torch._dynamo.reset()
    with _traceable():
        run = torch.compile(all_of, backend=backend, fullgraph=True, options=options or None)
        return run(tensors)


def differences(chosen: Sequence[Case], **options: Any) -> Mapping[Case, tuple[Any, str]]:
    """What is not as in eager: the result and what is wrong with it.

    AssertionError if the backend was not called, or for more than one graph.
    """
    with lpu_mlir.Report() as report:
        results = compiled(chosen, "lpu_mlir", **options)
    assert len(report.graphs) == 1
    with _traceable():
        expected = [case.run() for case in chosen]
    coarse = [listed(PARTLY, case) is not None for case in chosen]
    compared = zip(chosen, results, map(difference, results, expected, coarse), strict=True)
    return {case: (result, told) for case, result, told in compared if told}


def refuses(case: Case, backend: str) -> bool:
    """Whether torch.compile raises something for the case."""
    try:
        compiled([case], backend)
    except Exception:
        return True
    return False


def difference(got: Any, want: Any, coarse: bool = False) -> str:
    told: list[str] = []
    for x, y in zip(tree_leaves(got), tree_leaves(want), strict=True):
        if type(x) is not type(y) or not isinstance(x, Tensor):
            told += [] if type(x) is type(y) and x == y else [f"{x}, eager {y}"]
        elif (x.dtype, x.shape) != (y.dtype, y.shape):
            told.append(f"{x.dtype} {list(x.shape)}, eager {y.dtype} {list(y.shape)}")
        else:
            tolerance = TOLERANCES.get(torch.float32 if coarse else y.dtype, 0.0)
            same = torch.isclose(x, y, rtol=tolerance, atol=0, equal_nan=True)
            found = [f"{p}, eager {q}" for p, q in zip(x[~same].tolist(), y[~same].tolist())]
            told += found[:1]
    return "; ".join(told)


# --- what is PyTorch's --------------------------------------------------------------------------

_ITEM = "Dynamo does not trace the number in a 0-d tensor, unless it is i64 or f64"

UNTRACED: Mapping[str, str] = {
    "operator ?shift(bool, *)": "fake tensors refuse to shift booleans, and by them",
    "operator ?shift(0-d bool, *)": "the same",
    "operator ?shift(*int*, *bool)": "the same",
    "full_like(*, 0-d *[!4])": _ITEM,
    "threshold(*, 0-d *[!4])": _ITEM,
    "clamp to numbers(*, 0-d *[!4])": _ITEM,
    "clamp of([!0bfiu]*, 0-d *[!4])": _ITEM,
    "polygamma.polygamma_n_? in place(*)": "functionalization has no polygamma_",
    "pow in place(*bool, True)": "fake tensors make integers of it",
}
"""Cases that torch.compile refuses with backend="aot_eager", too, and why."""

DECOMPOSED: Mapping[str, str] = {
    "xlogy*(*float16, 1099511627776)": "the number is not rounded to the dtype, where it is inf",
    "special.xlog1py*(*float16, 1099511627776)": "the same",
    "huber_loss(*)": "promoted to the dtype of both, and not to that of the input",
    "binary_cross_entropy_with_logits(*)": "the target is promoted before it is subtracted from 1",
    "kl_div(*)": "the target is promoted before its logarithm is taken",
    "addr(*float16)": "the product is not rounded",
    "log_softmax(*float16)": "the logarithm of the sum is not rounded",
    "sum out f64(*)": "computed in the dtype of the input, and not in that of `out`",
}
"""Cases with another result, which backend="aot_eager_decomp_partition" gives, too, and why."""


FAKED: Mapping[str, str] = {
    "*pow(*bool, True)": "integers, where eager has booleans",
}
"""Cases of which fake tensors, the types of any graph, say another dtype than eager gives."""


def listed(table: Mapping[str, str], case: Case) -> str | None:
    """The pattern for a case."""
    return next((pattern for pattern in table if fnmatch(str(case), pattern)), None)


def fake_dtypes(case: Case) -> list[Any]:
    """The dtypes that fake tensors have."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        return [leaf.dtype for leaf in tree_leaves(case.run())]


def unexplained(chosen: Sequence[Case], **options: Any) -> Mapping[Case, str]:
    """What is not as in eager, unless it is listed above and true of PyTorch alone."""
    traced = [case for case in chosen if listed(UNTRACED, case) is None]
    found = differences(traced, **options) if traced else {}
    told = {case: text for case, (_, text) in found.items()}
    explained = [case for case in found if listed(DECOMPOSED, case)]
    if explained:
        theirs = compiled(explained, "aot_eager_decomp_partition")
        for case, result in zip(explained, theirs, strict=True):
            if not difference(found[case][0], result):
                del told[case]
    for case in [case for case in told if listed(FAKED, case)]:
        if fake_dtypes(case) == [leaf.dtype for leaf in tree_leaves(found[case][0])]:
            del told[case]
    return told


def untrue(name: str) -> Iterator[str]:
    """What is said above of an operator that is not so."""
    chosen = taken(name)
    for case in chosen:
        if listed(UNTRACED, case) and not refuses(case, "aot_eager"):
            yield f"{case}: listed as untraced, but aot_eager takes it"
        if listed(FAKED, case) and fake_dtypes(case) == [t.dtype for t in tree_leaves(case.run())]:
            yield f"{case}: listed as faked, but fake tensors have the dtypes of eager"
    explained = [case for case in chosen if listed(DECOMPOSED, case)]
    theirs = compiled(explained, "aot_eager_decomp_partition") if explained else ()
    with _traceable():
        others = {
            listed(DECOMPOSED, case)
            for case, result in zip(explained, theirs, strict=True)
            if difference(result, case.run())
        }
    for pattern in {listed(DECOMPOSED, case) for case in explained} - others:
        yield f"{pattern}: listed as decomposed, but is as in eager"


def too_much(name: str) -> Iterator[str]:
    """Cases of an operator in place that eager and aot_eager refuse, but the backend takes.

    Functionalization makes `x.mul_(2.5)` on integers a product that is converted afterwards: what
    eager refuses then, aot_eager takes, too.
    """
    for case in cases(name) if name in INPLACE else ():
        if isinstance(case.arguments[0], Tensor) and not _takes(case):
            if not refuses(case, "lpu_mlir") and refuses(case, "aot_eager"):
                yield f"{case}: eager refuses it"


def attempted(chosen: Sequence[Case], interpreter: str) -> Iterator[str]:
    """What is wrong with the cases, also where one of them stops the program."""
    try:
        found = unexplained(chosen, interpreter=interpreter)
    except Exception as error:
        if len(chosen) == 1:
            yield f"{chosen[0]}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
            return
        yield from attempted(chosen[: len(chosen) // 2], interpreter)
        yield from attempted(chosen[len(chosen) // 2 :], interpreter)
        return
    for case, text in found.items():
        yield f"{case}: {text}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", default="*", help="names or patterns, separated by commas")
    parser.add_argument("--most", type=int, help="so many cases of each, chosen by chance")
    parser.add_argument(
        "--interpreter", choices=CHOICES["interpreter"], default="native", help="compare: both"
    )
    parser.add_argument("--refusals", action="store_true", help="also what eager refuses in place")
    parser.add_argument("--minutes", type=float, default=1e9, help="begins no operator after that")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)  # PyTorch's, of the cases that Dynamo does not trace
    patterns = options.ops.split(",")
    end = time.monotonic() + 60 * options.minutes
    count = faults = 0
    for name in OPERATORS:
        if not any(fnmatch(name, pattern) for pattern in patterns) or time.monotonic() > end:
            continue
        start = time.monotonic()
        chosen = taken(name, options.most)
        told = list(attempted(chosen, options.interpreter))
        told += untrue(name) if options.most is None else ()
        told += too_much(name) if options.refusals else ()
        count, faults = count + len(chosen), faults + len(told)
        took = time.monotonic() - start
        print(f"{name}: {len(chosen)} cases, {len(told)} differences, {took:.1f} s", flush=True)
        print(*(f"    {text}\n" for text in told), sep="", end="", flush=True)
    print(f"# {count} cases, {faults} differences")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
