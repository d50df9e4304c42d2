"""The scripts say how they are used, before anything is installed or run."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


def run(script: Path, *arguments: str) -> str:
    return subprocess.run([script, *arguments], check=True, capture_output=True, text=True).stdout


def stand_in(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """The scripts in a place of their own, where Python prints the arguments that it gets."""
    copied = Path(shutil.copytree(SCRIPTS, tmp_path / "scripts"))
    stand_in(copied / "setup-env", "exit 0")
    stand_in(tmp_path / ".venv/bin/python", 'test "$2" = pip || echo "$@"')
    return copied


def installs_nothing(scripts: Path) -> None:
    """From now on a script fails if it makes the environment or uses it."""
    stand_in(scripts / "setup-env", "exit 1")
    stand_in(scripts.parent / ".venv/bin/python", "exit 1")


NAMES = sorted(
    path.name
    for path in SCRIPTS.iterdir()
    if path.name not in ("setup-env", "usage")  # what the others run first
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("argument", ["--help", "-h"])
def test_help(scripts: Path, name: str, argument: str):
    installs_nothing(scripts)
    said = run(scripts / name, argument)
    comment = []
    for line in (scripts / name).read_text().splitlines()[1:]:
        if not line.startswith("#"):
            break
        comment.append(line.removeprefix("# "))
    assert said.splitlines() == comment
    assert f"Usage: scripts/{name}" in said


def test_the_models_are_listed_without_results(scripts: Path, tmp_path: Path):
    shutil.copytree(SCRIPTS.parent / "test/models", tmp_path / "test/models")
    installs_nothing(scripts)
    names = run(scripts / "check-models", "--list").split()
    assert {name.partition("/")[0] for name in names} == {
        "forward",
        "training",
        "trained",
        "generate",
    }
    said = run(scripts / "check-models", "--list", "--only", "forward/l*", "*/llama*")
    chosen = said.split()
    assert chosen == [n for n in names if n.startswith("forward/l") or "/llama" in n]
    assert {"forward/llama", "forward/lstm", "training/llama"} < set(chosen)


def test_the_models_are_checked_with_results(scripts: Path, tmp_path: Path):
    results = tmp_path / "results.jsonl"
    said = run(scripts / "check-models", str(results), "--markdown")
    assert said == f"test/models/check_models.py {results} --markdown\n"
