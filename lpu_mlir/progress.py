"""A line on the terminal while a graph is compiled that takes long; it is gone when that is done.

lpu_mlir: compiling 2,279 operators: kernel 7 of 18
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO

AFTER = 2.0
"""Seconds before the line appears."""

_CURRENT: ContextVar[Line | None] = ContextVar("line of the compilation", default=None)


class Line:
    """The line of one compilation; nothing is written before `show`, or after `end`."""

    def __init__(self, title: str, stream: TextIO):
        self.title, self.stream = title, stream
        self._doing = ""
        self._shown = self._ended = False
        self._lock = threading.Lock()

    def step(self, doing: str) -> None:
        """What is done from now on."""
        with self._lock:
            self._doing = doing
            self._draw()

    def show(self) -> None:
        with self._lock:
            self._shown = not self._ended
            self._draw()

    def end(self) -> None:
        with self._lock:
            if self._shown:
                self._write("")
            self._shown, self._ended = False, True

    def _draw(self) -> None:
        if self._shown:
            doing = f": {self._doing}" if self._doing else ""
            width = shutil.get_terminal_size().columns
            self._write(f"lpu_mlir: {self.title}{doing}"[: width - 1])

    def _write(self, text: str) -> None:
        """Replaces the line."""
        self.stream.write(f"\r\x1b[K{text}")
        self.stream.flush()


@contextmanager
def progress(title: str, stream: TextIO | None = None, after: float = AFTER) -> Generator[None]:
    """Shows a line while the body runs for longer than `after` seconds.

    Nothing is shown where standard error is no terminal, nor a second line inside of another.
    """
    stream = sys.stderr if stream is None else stream
    if stream is None or not stream.isatty() or _CURRENT.get() is not None:
        yield
        return
    line = Line(title, stream)
    timer = threading.Timer(after, line.show)
    timer.daemon = True
    token = _CURRENT.set(line)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        line.end()
        _CURRENT.reset(token)


def doing(what: str) -> None:
    """Says what is done from now on, where a line is shown."""
    line = _CURRENT.get()
    if line is not None:
        line.step(what)
