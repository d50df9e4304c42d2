"""The README is current: its code runs and prints what it says, its tables list what exists."""

import contextlib
import io
import json
import re
import shlex
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from lpu_mlir.options import CHOICES, MODES, Options
from lpu_mlir.tools.lpu_opt import LpuOptMain

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
OPTIONS = (ROOT / "docs/options.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
COMMANDS = [text for language, text in BLOCKS if language == "console"]


def options_table() -> str:
    """The table as it should be."""
    rows = ["| option | default | values | |", "|---|---|---|---|"]
    source = (ROOT / "lpu_mlir/options.py").read_text()
    for field in fields(Options):
        choices = [f"`{json.dumps(choice)}`" for choice in CHOICES.get(field.name, ())]
        values = ", ".join(choices) or f"any {type(field.default).__name__}"
        [text] = re.findall(rf'^    {field.name}: .*?\n    """(.*?)"""$', source, re.S | re.M)
        meaning = " ".join(text.replace('"', "`").split())
        default = json.dumps(field.default) if field.type == "str" else field.default
        rows.append(f"| `{field.name}` | `{default}` | {values} | {meaning} |")
    return "\n".join(rows)


def run_python_blocks() -> list[tuple[str, str]]:
    """(printed, what the README says is printed) for each block of Python followed by text."""
    torch._dynamo.reset()
    names: dict[str, object] = {"__name__": "example"}
    found = []
    for i, (language, text) in enumerate(BLOCKS):
        if language != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, "example.py", "exec"), names)
        if BLOCKS[i + 1][0] == "text":
            found.append((printed.getvalue(), BLOCKS[i + 1][1]))
    return found


def run_command(line: str) -> str:
    """What `lpu-opt ...` prints."""
    program, *arguments = shlex.split(line)
    assert program == "lpu-opt"
    arguments[-1] = str(ROOT / arguments[-1])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        LpuOptMain(arguments).run()
    return printed.getvalue().rstrip() + "\n"


def test_python_blocks_print_what_they_say():
    results = run_python_blocks()
    assert len(results) == 2
    for printed, said in results:
        assert printed == said


@pytest.mark.parametrize("block", COMMANDS)
def test_lpu_opt_prints_what_the_readme_says(block: str):
    command, said = block.split("\n", 1)
    assert run_command(command.removeprefix("$ ")) == said


def test_all_levels_are_shown():
    assert ["lpu_graph." in block for block in COMMANDS] == [True, False, False]
    assert ["lpu_loop." in block for block in COMMANDS] == [False, True, False]
    assert ["lpu_kernel." in block for block in COMMANDS] == [False, False, True]


def test_table_of_options():
    assert options_table() in OPTIONS


def test_modes():
    assert ", ".join(f"`{mode}`" for mode in MODES) in OPTIONS


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^:)]+)\)", README))))
def test_links_lead_somewhere(link: str):
    path, _, heading = link.partition("#")
    assert (ROOT / path).exists()
    text = (ROOT / path).read_text() if path and heading else README
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    assert not heading or heading in [h.lower().replace(" ", "-") for h in headings]


@pytest.mark.parametrize("script", sorted(set(re.findall(r"scripts/[\w-]+", README))))
def test_scripts_parse(script: str):
    subprocess.run(["bash", "-n", str(ROOT / script)], check=True)
