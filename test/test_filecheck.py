"""
Runs the RUN lines of every file in test/filecheck in this process.

Starting Python costs most of a second for each command of a RUN line, so ``lit`` on the same files
takes minutes where this takes seconds. Only ``lpu-opt ARGS | ... | filecheck ARGS`` is understood;
anything else is an error, here as under ``lit``.
"""

import io
import re
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from filecheck.parser import Parser

from lpu_mlir.tools.lpu_opt import LpuOptMain

ROOT = Path(__file__).parent / "filecheck"
FILES = sorted(ROOT.rglob("*.mlir"))

# This option patches xDSL for the rest of the process.
FORBIDDEN = {"--disable-verify"}


def run_lines(text: str) -> list[str]:
    """The commands of a file's RUN lines, those continued with a backslash joined."""
    lines: list[str] = []
    continued = False
    for part in re.findall(r"//\s*RUN:\s*(.*?)\s*$", text, flags=re.MULTILINE):
        if continued:
            lines[-1] = lines[-1].removesuffix("\\") + part
        else:
            lines.append(part)
        continued = part.endswith("\\")
    return lines


def pipeline(line: str, path: Path) -> list[list[str]]:
    """The commands of one RUN line, split at its pipes, as lists of words."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|")
    lexer.whitespace_split = True
    commands: list[list[str]] = [[]]
    for word in lexer:
        if word == "|":
            commands.append([])
        else:
            commands[-1].append(word.replace("%s", str(path)))
    return commands


def lpu_opt(args: list[str], text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Standard output of ``lpu-opt ARGS`` with ``text`` as its standard input."""
    assert not FORBIDDEN.intersection(args), f"{FORBIDDEN} cannot be used in a RUN line"
    stdout = io.StringIO()
    with monkeypatch.context() as patch, redirect_stdout(stdout):
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        LpuOptMain(args).run()
    return stdout.getvalue()


def filecheck(args: list[str], text: str) -> None:
    """Fail unless ``filecheck ARGS`` accepts ``text``."""
    options = parse_argv_options(["filecheck", *args])
    file = FInput("-", FInput.canonicalize_line_ends(text))
    stderr = io.StringIO()
    with redirect_stderr(stderr):
        code = Matcher(options, file, Parser.from_opts(options)).run()
    if code != 0:
        pytest.fail(f"{stderr.getvalue()}\nThe whole output:\n{text}", pytrace=False)


def test_files_found() -> None:
    assert FILES


@pytest.mark.parametrize("path", [pytest.param(f, id=str(f.relative_to(ROOT))) for f in FILES])
def test_filecheck(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = run_lines(path.read_text())
    assert lines, "no RUN line"
    for line in lines:
        *producers, (checker, *checker_args) = pipeline(line, path)
        assert producers, f"nothing to check in '{line}'"
        assert checker == "filecheck", f"the output is not checked in '{line}'"
        text = ""
        for tool, *args in producers:
            assert tool == "lpu-opt", f"unknown command '{tool}'"
            text = lpu_opt(args, text, monkeypatch)
        filecheck(checker_args, text)
