"""LPU_MLIR_LOGS, and PyTorch's own switch for loggers by name."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lpu_mlir.logs import LOGS, configure

ROOT = Path(__file__).parents[2]
PROGRAM = """
import torch
compiled = torch.compile(lambda x: torch.i0(torch.exp(x) * 2), backend="lpu_mlir")
compiled(torch.randn(4, 3))
"""


TYPOS = ("fuze", "ir.fuze", "graph;fuse")


def run(check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=check,
    )


@pytest.mark.slow
def test_all_logs():
    said = run(LPU_MLIR_LOGS="graph, fuse,kernels,host,ir.fuse,ir.import").stderr
    assert "[lpu_mlir.graph] 2 operators native, 1 on the host; seconds: import 0." in said
    assert "Options(interpreter='native'" in said
    assert re.search(r"\[lpu_mlir.fuse\] fused nest \d+ .*at .* into nest \d+ .*at .*: saves", said)
    assert "[lpu_mlir.kernels] main_0: 48 bytes read, 48 written, 0." in said
    assert "[lpu_mlir.host] aten.i0.default(f32[4, 3]) 1x" in said
    assert "[lpu_mlir.host] aten.i0.default\n" in said
    assert said.count("builtin.module") == 2
    assert "lpu_graph." in said
    assert "lpu_loop." in said


@pytest.mark.slow
def test_ir_of_every_stage():
    said = run(LPU_MLIR_LOGS="ir").stderr
    assert "[lpu_mlir.ir.import]" in said
    assert "[lpu_mlir.ir.allocate-sram]" in said


@pytest.mark.slow
def test_nothing_is_said_unasked():
    assert "lpu_mlir" not in run().stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", TYPOS)
def test_a_typo_lists_the_names(name: str):
    failed = run(check=False, LPU_MLIR_LOGS=name)
    assert failed.returncode == 1
    assert_lists_the_names(name, failed.stderr)


@pytest.mark.parametrize("name", TYPOS)
def test_a_typo_is_an_error(name: str):
    with pytest.raises(ValueError, match="there is no log") as error:
        configure(name)
    assert_lists_the_names(name, str(error.value))


def assert_lists_the_names(name: str, said: str) -> None:
    assert f"there is no log '{name}', expected some of graph, fuse, ir, host" in said
    assert all(known in said for known in LOGS)


def test_what_a_logger_says(caplog: pytest.LogCaptureFixture):
    torch._dynamo.reset()
    caplog.set_level("DEBUG", logger="lpu_mlir.graph")
    torch.compile(lambda x: torch.i0(torch.exp(x) * 2), backend="lpu_mlir")(torch.randn(4, 3))
    [said] = [r.getMessage() for r in caplog.records if r.name == "lpu_mlir.graph"]
    assert "2 operators native, 1 on the host; seconds: import 0." in said


@pytest.mark.slow
def test_the_switch_of_pytorch():
    said = run(TORCH_LOGS="lpu_mlir").stderr
    assert "2 operators native, 1 on the host" in said
    assert "builtin.module" not in said
    assert "builtin.module" in run(TORCH_LOGS="+lpu_mlir").stderr
