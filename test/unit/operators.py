"""
Makes the table of operators from results of conformance runs; run by scripts/operators.

    operators.py static.jsonl gradients.jsonl dynamic.jsonl

The table (lpu_mlir/operators.json) says in which dtypes an overload was native and in which it was
on the host. For each such claim one sample of PyTorch's databases is kept that shows it
(witnesses.json), unless the overload has no native form, so that it is on the host for certain.
The samples are imported again to see what they show today, which takes
some minutes; a conformance run, which also looks at values, takes hours. New results add to what
there is. What no sample shows any more is printed and left out.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
from conformance import recorded
from databases import entries, plain
from functorch.compile import make_boxed_func
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily
from verdicts import FAULTS

from lpu_mlir.capture import FUNCTORCH, Boxed, compile_captured
from lpu_mlir.frontend.importer import import_graph
from lpu_mlir.frontend.nodes import drop_tokens
from lpu_mlir.frontend.uses import Use
from lpu_mlir.support import kind_of

TABLE = Path(__file__).parents[2] / "lpu_mlir" / "operators.json"
WITNESSES = Path(__file__).parent / "witnesses.json"

Claim = tuple[str, str, str]
"""An overload, then "native" or "host" and a dtype, or "dynamic" or "gradient" and nothing."""


class Witness(NamedTuple):
    """A sample of a database, and how to compile it."""

    database: str
    op: str
    dtype: str
    gradients: bool
    dynamic: bool | None
    sample: int


# --- claims -------------------------------------------------------------------------------------


def claims_of(uses: Iterable[Use], dtype: str, gradients: bool) -> Iterator[Claim]:
    """What uses say in graphs of a function of that dtype.

    Of what a decomposed operator is written in, only what computes in the dtype counts.
    """
    for use in uses:
        yield from _claims(use.overload, use, gradients)
        if use.original != use.overload and use.dtype == dtype:
            if kind_of(use.original) == "decomposed":
                yield from _claims(use.original, use, gradients)


def _claims(name: str, use: Use, gradients: bool) -> Iterator[Claim]:
    yield name, "native" if use.native else "host", use.dtype
    if use.native and use.dynamic:
        yield name, "dynamic", ""
    if use.native and gradients:
        yield name, "gradient", ""


def table_of(claims: Iterable[Claim]) -> Mapping[str, Mapping[str, Any]]:
    """What operators.json has of each overload."""
    table: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, what, dtype in sorted(set(claims)):
        if dtype:
            table[name].setdefault(what, []).append(dtype)
        else:
            table[name][what] = True
    return dict(sorted(table.items()))


def claims_in(table: Mapping[str, Mapping[str, Any]]) -> Iterator[Claim]:
    """What `table_of` made a table of."""
    for name, row in table.items():
        for what, found in row.items():
            yield from ((name, what, dtype) for dtype in ([""] if found is True else found))


# --- witnesses ----------------------------------------------------------------------------------


def read(paths: Sequence[Path]) -> Mapping[Witness, set[Claim]]:
    """What each good sample of some results shows."""
    shown: dict[Witness, set[Claim]] = defaultdict(set)
    for record in (record for path in paths for record in recorded(path)):
        if record["verdict"] in FAULTS:
            continue
        dtype, settings = record["dtype"], record["settings"]
        gradients, dynamic = settings["gradients"], settings["dynamic"]
        first = record.get("database", "op"), record["op"]
        for *use, sample in record["uses"]:
            witness = Witness(*first, dtype, gradients, dynamic, sample)
            shown[witness].update(claims_of([Use(*use)], dtype, gradients))
    return shown


def chosen(shown: Mapping[Witness, set[Claim]]) -> list[Witness]:
    """A few that show all that is shown: always the one that shows most of the rest."""
    left, rest = set[Claim]().union(*shown.values()), {w: c for w, c in shown.items() if c}
    found: list[Witness] = []
    while left:
        best = max(rest, key=lambda witness: (len(rest[witness] & left), _simplicity(witness)))
        left -= rest.pop(best)
        rest = {witness: claims for witness, claims in rest.items() if claims & left}
        found.append(best)
    return sorted(found, key=str)


def _simplicity(witness: Witness) -> tuple[bool, bool, int]:
    return not witness.gradients, not witness.dynamic, -witness.sample


def imported(witness: Witness) -> set[Claim]:
    """What a sample shows now; nothing is compiled beyond the frontend."""
    uses: list[Use] = []

    def compiler(gm: fx.GraphModule, _: Sequence[Any]) -> Boxed:
        drop_tokens(gm)
        with unset_fake_temporarily():
            uses.extend(import_graph(gm).uses)
        return make_boxed_func(gm)

    torch._dynamo.reset()
    backend = partial(compile_captured, compiler=compiler)
    calls = entries(witness.database)[witness.op].calls(
        getattr(torch, witness.dtype), witness.gradients
    )
    _, call = next(islice(calls, witness.sample, None))
    # Graphs of backward passes, too, which do not run where no gradients are asked for.
    at_once = FUNCTORCH.patch(force_non_lazy_backward_lowering=True)
    with warnings.catch_warnings(), plain(), at_once:
        warnings.simplefilter("ignore")
        call.run(partial(torch.compile, backend=backend, dynamic=witness.dynamic), 0)
    return set(claims_of(uses, witness.dtype, witness.gradients))


def witnesses() -> list[Witness]:
    return [Witness(*fields) for fields in json.loads(WITNESSES.read_text())]


def is_certain(claim: Claim) -> bool:
    """Whether it needs no sample to be known."""
    name, what, _ = claim
    return what == "host" and kind_of(name) == "host"


# --- the command --------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("results", type=Path, nargs="*")
    options = parser.parse_args()
    known = witnesses()
    print(f"importing {len(known):,} samples")
    shown = {witness: imported(witness) for witness in known}
    for witness, claims in read(options.results).items():
        shown.setdefault(witness, claims)
    before = set(claims_in(json.loads(TABLE.read_text())))
    every = set[Claim]().union(filter(is_certain, before), *shown.values())
    for claim in sorted(before - every):
        print("no sample shows any more:", *claim)
    unsure = {w: {c for c in claims if not is_certain(c)} for w, claims in shown.items()}
    WITNESSES.write_text(_lines(map(json.dumps, chosen(unsure)), "[]"))
    rows = table_of(every).items()
    TABLE.write_text(_lines((f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows), "{}"))


def _lines(items: Iterable[str], brackets: str) -> str:
    """JSON with a line for each item."""
    return "\n".join((brackets[0], ",\n".join(items), brackets[1], ""))


if __name__ == "__main__":
    main()
