"""Writes docs/dialects.md, docs/tour.md, docs/operators.md and the counts of operators in README.md
from the code. Run by scripts/docs."""

import inspect
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import fx
from xdsl.irdl import OpDef, OptionalDef, VariadicDef

from lpu_mlir import OperatorSupport, Report, supported_ops
from lpu_mlir.capture import compile_captured
from lpu_mlir.compile import compile_fx
from lpu_mlir.dialects import get_all_dialects
from lpu_mlir.model.target import get_target
from lpu_mlir.options import Options
from lpu_mlir.pipeline import Stage, stages
from lpu_mlir.support import KINDS

DOCS = Path(__file__).parent

# --- dialects.md --------------------------------------------------------------------------------


def plural(definition: object) -> str:
    """Whether an operand or result may be missing, or come in any number."""
    if isinstance(definition, OptionalDef):
        return " (may be missing)"
    return " (any number)" if isinstance(definition, VariadicDef) else ""


def names(defined: Sequence[tuple[str, object]]) -> str:
    return ", ".join(f"`{name}`{plural(definition)}" for name, definition in defined)


def fenced(documentation: str) -> str:
    """A docstring in which paragraphs of IR are code."""
    parts = re.split(r"(^```.*?^```$)", inspect.cleandoc(documentation), flags=re.M | re.S)
    for i, text in enumerate(parts):
        if not text.startswith("```"):
            paragraphs = text.split("\n\n")
            parts[i] = "\n\n".join(
                f"```mlir\n{p.strip()}\n```" if p.lstrip().startswith("%") else p
                for p in paragraphs
            )
    return "".join(parts)


def describe_operation(operation: type) -> str:
    definition: OpDef = operation.get_irdl_definition()
    traits = {type(trait).__name__ for trait in definition.traits.traits}
    parts = {
        "Operands": names(definition.operands),
        "Attributes": names(list({**definition.properties, **definition.attributes}.items())),
        "Regions": names(definition.regions),
        "Results": names(definition.results),
        "Traits": ", ".join(name for name in sorted(traits) if not name.startswith("_")),
    }
    said = [f"{name}: {value}." for name, value in parts.items() if value]
    return "\n\n".join([f"### `{definition.name}`", fenced(operation.__doc__), *said])


def describe_dialect(name: str) -> str:
    dialect = get_all_dialects()[name]()
    module = inspect.getmodule(next(iter(dialect.operations)))
    package = sys.modules[module.__name__.rpartition(".")[0]]
    about = package.__doc__ if package.__name__.endswith(name) else module.__doc__
    attributes = [
        f"### `{attribute.name}`\n\n{fenced(attribute.__doc__)}" for attribute in dialect.attributes
    ]
    operations = map(describe_operation, dialect.operations)
    return "\n\n".join([f"## {name}", inspect.cleandoc(about), *attributes, *operations])


def dialects() -> str:
    """docs/dialects.md."""
    head = (
        "# Dialects\n\nMade by `scripts/docs` from the definitions in "
        "[`lpu_mlir/dialects`](../lpu_mlir/dialects)."
    )
    order = ("lpu_graph", "lpu_loop", "lpu_kernel", "lpu_host", "lpu")
    assert set(order) == get_all_dialects().keys()
    return "\n\n".join([head, *map(describe_dialect, order)]) + "\n"


# --- tour.md ------------------------------------------------------------------------------------


def mlp(x, gate, up, down):
    return (torch.nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T


def captured() -> tuple[str, Report]:
    """The FX graph of `mlp`, and a report on compiling and running it once."""
    graphs: list[str] = []

    def compiler(gm: fx.GraphModule, inputs: Sequence[object]) -> Callable:
        graphs.append(re.sub(r";  [\w = ]+ = None", "", gm.code.strip()))
        return compile_fx(gm, inputs, Options(fallback="error"))

    torch._dynamo.reset()
    torch.manual_seed(0)
    x, gate, up, down = (torch.randn(size) / 8 for size in ((1, 64), (96, 64), (96, 64), (64, 96)))
    with torch.no_grad(), Report() as report:
        compiled = torch.compile(mlp, backend=partial(compile_captured, compiler=compiler))
        torch.testing.assert_close(compiled(x, gate, up, down), mlp(x, gate, up, down))
    return graphs[0], report


def describe_stage(stage: Stage, before: str, after: str) -> str:
    head = f"### `{stage.name}`: {stage.why}"
    if before == after:
        return f"{head}\n\nNothing to do here."
    return f"{head}\n\n```mlir\n{after.strip()}\n```"


LEVELS = {
    "graph": "## lpu_graph: what is computed",
    "loop": "## lpu_loop: how each element is computed",
    "kernel": "## lpu_kernel: cores, tiles and the movement of data",
}

TOUR = """\
# A tour of the pipeline

Made by `scripts/docs`. This function goes through every stage of
[`lpu_mlir/pipeline.py`](../lpu_mlir/pipeline.py); below is the IR after each stage that changes it.

```python
{source}
```

Dynamo and AOTAutograd make a graph of ATen operators of it:

```python
{graph}
```

The frontend translates each by a table. Extents are known here; with symbols they would be
expressions.

```mlir
{imported}
```

{stages}

## What ran

```text
{report}
```
"""


def tour() -> str:
    """docs/tour.md."""
    graph, report = captured()
    parts: list[str] = []
    before, level = report.graphs[0].ir("import"), ""
    for stage in stages(get_target(Options().target)):
        if stage.level != level:
            level = stage.level
            parts.append(LEVELS[level])
        after = report.graphs[0].ir(stage.name)
        parts.append(describe_stage(stage, before, after))
        before = after
    return TOUR.format(
        source=inspect.getsource(mlp).strip(),
        graph=graph,
        imported=report.graphs[0].ir("import").strip(),
        stages="\n\n".join(parts),
        report=report,
    )


# --- operators.md -------------------------------------------------------------------------------

DTYPES = {
    "float32": "f32",
    "bfloat16": "bf16",
    "float16": "f16",
    "float64": "f64",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint8": "u8",
    "bool": "bool",
}

OPERATORS = """\
# Operators

Made by `scripts/docs`. `lpu_mlir.supported_ops()` has the same as data.

What becomes of an operator is read from the compiler's tables. In which dtypes it was seen to be
right, and where, comes from runs of `scripts/conformance`: PyTorch's sample inputs gave eager's
values. **A blank says that no sample showed it, not that it fails.** A test imports a sample for
each entry below, so that the tables cannot go stale; what has no native form needs none.
Python's functions such as `linear` and `interpolate` are what PyTorch writes them in.

{kinds}

In the tables

- **native** lists the dtypes of the first tensor operand. *Emulated* ones are in italics: an LPU is
  not known to compute with them, the interpreters do.
- **on the host** lists those where some or all sample inputs ran in eager PyTorch, which reports
  say and `fallback="error"` refuses. A dtype in both columns is native for some arguments only.
  Complex numbers always stay on the host.
- **dynamic**: kernels with symbolic extents were seen to be right.
- **training**: a training step was.

## Core ATen

{counts}

{core}

Those of core ATen on the host, and why:

{reasons}

## Others

Operators outside core ATen that have a native form, or that conformance runs met. Why one has none
says `supported_ops()[name].reason`, and reports do.

{others}
"""


def dtypes(names: Sequence[str], support: OperatorSupport) -> str:
    known = [name for name in DTYPES if name in names]
    known += [name for name in names if name not in DTYPES and "complex" not in name]
    short = [(name, DTYPES.get(name, name)) for name in known]
    return " ".join(f"*{s}*" if name in support.emulated else s for name, s in short)


def operator_table(rows: Sequence[OperatorSupport]) -> str:
    lines = [
        "| operator | | native | on the host | dynamic | training |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        cells = [
            f"`{row.overload}`",
            row.kind,
            dtypes(row.native, row),
            " ".join(short for name, short in DTYPES.items() if name in row.host),
            "yes" if row.dynamic else "",
            "yes" if row.gradient else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


REACH = ("native", "host")


def counts() -> str:
    """How many of core ATen are what, in words."""
    core = [row for row in supported_ops().values() if row.core]
    found = Counter(row.kind for row in core)
    reach = sum(found[kind] for kind in REACH)
    rest = ", ".join(f"{found[kind]} are {kind}" for kind in KINDS if kind not in REACH)
    return (
        f"Of the {len(core)} overloads of core ATen {reach} reach the compiler: {found['native']} "
        f"are native and {found['host']} run on the host. The others do not: {rest}."
    )


def operators() -> str:
    """docs/operators.md."""
    rows = list(supported_ops().values())
    core = [row for row in rows if row.core]
    host = [row for row in core if row.kind == "host"]
    return OPERATORS.format(
        kinds="\n".join(f"- **{kind}**: it {what}." for kind, what in KINDS.items()),
        counts=counts(),
        core=operator_table(core),
        reasons="\n".join(f"- `{row.overload}`: {row.reason}." for row in host),
        others=operator_table([row for row in rows if not row.core]),
    )


# --- README.md ----------------------------------------------------------------------------------

MARKS = "<!-- counts of operators -->", "<!-- made by scripts/docs -->"


def readme() -> str:
    """README.md with the counts of today."""
    text = (DOCS / "../README.md").read_text()
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n{textwrap.fill(counts(), 105)}\n{MARKS[1]}{after}"


GENERATED = {
    "dialects.md": dialects,
    "tour.md": tour,
    "operators.md": operators,
    "../README.md": readme,
}

if __name__ == "__main__":
    for name, make in GENERATED.items():
        (DOCS / name).write_text(make())
