"""Configuration of lit: the files of test/filecheck, one process per command of a RUN line."""

import sys
from pathlib import Path

import lit.formats

root = Path(__file__).parent

config.name = "lpu_mlir"
config.test_format = lit.formats.ShTest()
config.suffixes = [".mlir"]
config.test_source_root = str(root)
config.test_exec_root = str(root / "build" / "lit")
config.environment["PYTHONPATH"] = str(root)


def command(name: str) -> str:
    """A regular expression for ``name`` as a command, not as a part of a path."""
    return rf"(?<![-/\w]){name}(?![-/\w])"


config.substitutions += [
    (command("lpu-run"), f"{sys.executable} -m lpu_mlir.tools.lpu_run"),
    (command("lpu-opt"), f"{sys.executable} -m lpu_mlir.tools.lpu_opt"),
    (command("filecheck"), f"{sys.executable} -m filecheck"),
]
