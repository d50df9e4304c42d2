"""The line on the terminal while something is compiled."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable

import pytest
import torch

from lpu_mlir import capture
from lpu_mlir.progress import Line, doing, progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        return self.getvalue().split("\r\x1b[K")


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_what_takes_long_is_shown_and_cleared():
    terminal = Terminal()
    with progress("compiling 3 operators", terminal, after=0):
        wait_for(terminal.getvalue)
        doing("kernel 1 of 2")
        doing("kernel 2 of 2")
    doing("too late")
    title = "lpu_mlir: compiling 3 operators"
    assert terminal.lines() == ["", title, f"{title}: kernel 1 of 2", f"{title}: kernel 2 of 2", ""]


def test_what_is_quick_is_not_shown():
    terminal = Terminal()
    with progress("compiling 3 operators", terminal, after=3600):
        doing("kernel 1 of 2")
    assert terminal.getvalue() == ""


def test_a_file_gets_nothing():
    file = io.StringIO()
    with progress("compiling 3 operators", file, after=0):
        time.sleep(0.01)
        doing("kernel 1 of 2")
    assert file.getvalue() == ""


def test_there_is_one_line():
    terminal = Terminal()
    with progress("outer", terminal, after=0):
        wait_for(terminal.getvalue)
        with progress("inner", terminal, after=0):
            doing("kernel 1 of 2")
        doing("done")
    assert terminal.lines()[1:] == [
        "lpu_mlir: outer",
        "lpu_mlir: outer: kernel 1 of 2",
        "lpu_mlir: outer: done",
        "",
    ]


def test_it_is_cleared_after_an_exception():
    terminal = Terminal()

    def fail() -> None:
        with progress("compiling", terminal, after=0):
            wait_for(terminal.getvalue)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert terminal.lines()[-1] == ""


def test_a_line_that_has_ended_is_not_shown():
    terminal = Terminal()
    line = Line("compiling", terminal)
    line.end()
    line.show()
    line.step("kernel")
    assert terminal.getvalue() == ""


def test_it_fits_the_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "20")
    terminal = Terminal()
    line = Line("compiling 2,279 operators", terminal)
    line.show()
    assert terminal.lines()[1] == "lpu_mlir: compiling"


def test_a_compilation_shows_it(monkeypatch: pytest.MonkeyPatch):
    terminal = Terminal()

    def at_once(title: str):
        return progress(title, terminal, after=0)

    monkeypatch.setattr(capture, "progress", at_once)
    torch._dynamo.reset()
    torch.compile(lambda x: torch.softmax(x, -1) * 2, backend="lpu_mlir")(torch.randn(3, 4))
    said = "\n".join(terminal.lines())
    assert re.search(r"^lpu_mlir: compiling 2 operators: kernel 1 of 1$", said, re.M)
    assert terminal.lines()[-1] == ""
