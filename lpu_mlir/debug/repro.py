"""The files that repeat a failure: a Python script, and IR for `lpu-run`."""

from __future__ import annotations

import re
import runpy
import shlex
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, fields
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx

from lpu_mlir.debug.compare import Difference, Tester
from lpu_mlir.debug.inputs import save
from lpu_mlir.debug.parts import Part, copy_inputs, is_getitem, run_eager, written_inputs
from lpu_mlir.options import Options
from lpu_mlir.report import Report, plural
from lpu_mlir.runtime.describe.signature import describe_signature
from lpu_mlir.tools import lpu_run

SCRIPT = '''\
"""Made by lpu_mlir.minify. Exits with 1 as long as the graph fails:

{failure}
"""

import math
from pathlib import Path

import torch
from torch import device, inf, nan

import lpu_mlir
from lpu_mlir.debug.inputs import generate, load

HERE = Path(__file__).parent
OPTIONS = {options}


{graph}

def inputs():
    return [
{inputs}
    ]


def check(**how):
    return lpu_mlir.compare_graph(graph, inputs(), {dynamic}options=OPTIONS, **how)


if __name__ == "__main__":
    comparison = check()
    print(comparison)
    raise SystemExit(not comparison.ok)
'''

MODULE = """\
// RUN: lpu-run %s {arguments}
// Made by lpu_mlir.minify. `lpu-run` exits with 1 as long as the graph fails:
//
{failure}

{module}
"""


@dataclass(frozen=True)
class Minified:
    """A part of a graph that fails, and the files that repeat it.

    `module` is None if the frontend fails, so that there is no IR.  `verified` is whether each of
    the files was run and did fail.
    """

    operators: int
    failure: Difference
    script: Path
    module: Path | None
    verified: bool

    def __str__(self) -> str:
        files = [f"python {self.script}"]
        if self.module is not None:
            files.append(f"{run_line(self.module)}")
        return "\n".join(
            [
                f"{plural(self.operators, 'operator')} of the graph left:",
                str(self.failure),
                "to repeat:" if self.verified else "files that do not repeat it:",
                *(f"  {file}" for file in files),
            ]
        )


def run_line(module: Path) -> str:
    """The command in the first line of a file of IR."""
    line = module.read_text().splitlines()[0].removeprefix("// RUN: ")
    return line.replace("%s", str(module)).replace("%S", str(module.parent))


def write_files(
    directory: Path, part: Part, seeded: bool, failure: Difference, tester: Tester
) -> Minified:
    """Writes script and IR; `seeded` if the inputs are those of `generate` with seeds 0, 1, …"""
    directory.mkdir(parents=True, exist_ok=True)
    tensors = [value for value in part.inputs if isinstance(value, Tensor)]
    if not seeded:
        save(directory / "inputs.npz", {str(i): value for i, value in enumerate(tensors)})
    script = directory / "repro.py"
    script.write_text(_script(part, seeded, failure, tester.options))
    module = _write_module(directory, part, seeded, failure, tester)
    return Minified(
        sum(not is_getitem(node) for node in part.calls),
        failure,
        script,
        module,
        _script_fails(script, tester) and (module is None or _module_fails(module)),
    )


# --- the script ---------------------------------------------------------------------------------


def _script(part: Part, seeded: bool, failure: Difference, options: Options) -> str:
    default = Options()
    changed = {
        field.name: getattr(options, field.name)
        for field in fields(options)
        if getattr(options, field.name) != getattr(default, field.name)
    }
    symbolic = any(isinstance(n.meta.get("val"), torch.SymInt) for n in part.gm.graph.nodes)
    return SCRIPT.format(
        failure=failure,
        options=repr(changed),
        graph=_function(part.gm),
        inputs="\n".join(_input_lines(part.inputs, seeded)),
        dynamic="dynamic=True, " if symbolic else "",
    )


def _function(gm: fx.GraphModule) -> str:
    """The graph as a Python function of its inputs."""
    source = gm.graph.python_code("self").src
    source = re.sub(r"def forward\(self(, )?", "def graph(", source)
    source = re.sub(r";  [\w = ]+ = None", "", source)
    source = re.sub(r" -> .*:\n", ":\n", source, count=1)
    return source.strip() + "\n"


def _input_lines(inputs: Sequence[Any], seeded: bool) -> list[str]:
    lines: list[str] = []
    position = 0
    for value in inputs:
        if not isinstance(value, Tensor):
            lines.append(f"        {value!r},")
            continue
        layout = f"{value.dtype}, {list(value.shape)}, {list(value.stride())}"
        made = f"generate({layout}, seed={position})"
        stored = f'load(HERE / "inputs.npz", "{position}", {layout})'
        lines.append(f"        {made if seeded else stored},")
        position += 1
    return lines


def _script_fails(script: Path, tester: Tester) -> bool:
    names = runpy.run_path(str(script))
    return not names["check"](compiler=tester.compiler).ok


# --- the IR -------------------------------------------------------------------------------------


def _write_module(
    directory: Path, part: Part, seeded: bool, failure: Difference, tester: Tester
) -> Path | None:
    text = imported_ir(part, tester)
    if text is None:
        return None
    given = copy_inputs(part)
    expected = {f"output{i}": v for i, v in enumerate(run_eager(part, given)[0])}
    tensors = [position for position, v in enumerate(part.inputs) if isinstance(v, Tensor)]
    written = written_inputs(part)
    expected |= {f"input{i}": given[p] for i, p in enumerate(tensors) if p in written}
    save(directory / "expected.npz", expected)
    path = directory / "repro.mlir"
    path.write_text(text)
    signature = describe_signature(lpu_run.parse(path))
    values = signature.bind([part.inputs[position] for position in tensors])
    arguments = [
        *(["--inputs %S/inputs.npz"] if not seeded else []),
        "--expect %S/expected.npz",
        *([f"--target {tester.options.target}"] if tester.options.target != "bertha" else []),
        *(["--interpreter reference"] if tester.options.interpreter == "reference" else []),
        *([f"--symbols {','.join(f'{n}={v}' for n, v in values.items())}"] if values else []),
    ]
    said = "\n".join(f"// {line}".rstrip() for line in str(failure).splitlines())
    path.write_text(MODULE.format(arguments=" ".join(arguments), failure=said, module=text))
    return path


def imported_ir(part: Part, tester: Tester) -> str | None:
    """The graph as the frontend gives it to the passes; None if it does not get so far."""
    with Report() as report:
        try:
            tester.compiler(part.gm, part.inputs)
        except Exception:
            pass  # after the import, it may be
    make = report.graphs[0].compiled.ir if report.graphs else None
    return make and make("import")


def _module_fails(module: Path) -> bool:
    with redirect_stderr(StringIO()):  # what it says is known
        return lpu_run.main(shlex.split(run_line(module))[1:]) != 0
