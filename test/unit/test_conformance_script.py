"""The script that tries databases: what it leaves out, what it refuses, who it tries apart."""

import os
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from time import sleep

import conformance
import pytest
import torch
from conformance import Apart
from databases import Entry, entries
from verdicts import Settings

Command = Callable[..., list[str]]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    def run(*arguments: str) -> list[str]:
        """The operators and dtypes in the file afterwards."""
        results = tmp_path / "results.jsonl"
        monkeypatch.setattr(
            sys, "argv", ["conformance", arguments[0], str(results), *arguments[1:]]
        )
        conformance.main()
        return [f"{r['op']} {r['dtype']}" for r in conformance.recorded(results)]

    return run


SWEEP = ("sweep", "--samples", "1", "--ops", "add,abs", "--dtypes")


def test_goes_on_where_it_was(command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert command(*SWEEP, "float32") == ["abs float32", "add float32"]
    results = tmp_path / "results.jsonl"
    results.write_text(results.read_text()[:-20])  # stopped while it wrote
    assert command(*SWEEP, "float32") == ["abs float32", "add float32"]
    assert command(*SWEEP, "int64")[2:] == ["abs int64", "add int64"]
    command("summary")
    assert "4 of 4 good, 100.00%" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ops", "layer_norm"], "no entry matches 'layer_norm'; there is native_layer_norm, "),
        (["--ops", "fft.*", "--dtypes", "bool", "--gradients"], "none of these entries"),
        (["--gradients"], r"of a sweep with samples=1 \(6\), gradients=False \(True\)"),
        (["--dtypes", "f32"], "2"),
    ],
)
def test_a_sweep_of_nothing_is_an_error(command: Command, arguments: list[str], message: str):
    command(*SWEEP, "float32")
    with pytest.raises(SystemExit, match=message):
        command("sweep", *arguments)


def test_a_summary_of_nothing_is_an_error(command: Command):
    with pytest.raises(SystemExit, match="has no results"):
        command("summary")


def test_dtypes():
    assert conformance.dtypes_of("float32,bool") == [torch.float32, torch.bool]
    with pytest.raises(ArgumentTypeError, match="torch has no dtype 'f32'"):
        conformance.dtypes_of("f32")


def test_what_dies_or_hangs_costs_only_itself(monkeypatch: pytest.MonkeyPatch):
    add = entries("op")["add"]
    die = replace(add, name="die", calls=lambda *_: os._exit(1))
    hang = replace(add, name="hang", calls=lambda *_: sleep(60))
    monkeypatch.setattr(conformance, "entries", lambda _: {"add": add, "die": die, "hang": hang})

    def verdicts(seconds: float, *tried: Entry) -> list[str]:
        with closing(Apart("op", seconds)) as apart:
            return [apart.tried(e, torch.float32, Settings(samples=1)).verdict for e in tried]

    assert verdicts(60, add, die, add) == ["right", "no sample", "right"]  # eager dies, too
    assert verdicts(1, hang) == ["timeout"]
