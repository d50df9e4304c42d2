"""Writes docs/dialects.md and docs/tour.md from the code. Run by scripts/docs."""

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import fx
from xdsl.irdl import OpDef, OptionalDef, VariadicDef

from lpu_mlir import Report
from lpu_mlir.capture import compile_captured
from lpu_mlir.compile import compile_fx
from lpu_mlir.dialects import get_all_dialects
from lpu_mlir.model.target import get_target
from lpu_mlir.options import Options
from lpu_mlir.pipeline import Stage, stages

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


GENERATED = {"dialects.md": dialects, "tour.md": tour}

if __name__ == "__main__":
    for name, make in GENERATED.items():
        (DOCS / name).write_text(make())
