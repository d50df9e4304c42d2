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


@pytest.mark.parametrize("name", ["conformance", "check-models", "test", "docs", "figures"])
@pytest.mark.parametrize("argument", ["--help", "-h"])
def test_help(scripts: Path, name: str, argument: str):
    said = run(scripts / name, argument)
    comment = []
    for line in (scripts / name).read_text().splitlines()[1:]:
        if not line.startswith("#"):
            break
        comment.append(line.removeprefix("# "))
    assert said.splitlines() == comment
    assert f"Usage: scripts/{name}" in said


def test_the_models_are_listed_without_results(scripts: Path):
    said = run(scripts / "check-models", "--list", "--only", "forward/*")
    assert said == "test/models/check_models.py /dev/null --list --only forward/*\n"


def test_the_models_are_checked_with_results(scripts: Path, tmp_path: Path):
    results = tmp_path / "results.jsonl"
    said = run(scripts / "check-models", str(results), "--markdown")
    assert said == f"test/models/check_models.py {results} --markdown\n"
