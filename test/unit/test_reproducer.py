"""A failed compile says which stage failed, and leaves what repeats the failure."""

import re
import shlex
import tempfile
from pathlib import Path

import pytest
import torch
from xdsl.utils.exceptions import PassFailedException

import lpu_mlir
from lpu_mlir.tools.lpu_opt import LpuOptMain
from lpu_mlir.transforms.bufferize import BufferizePass


def compile_and_run():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: torch.exp(x) * 2, backend="lpu_mlir")
    return compiled(torch.randn(4, 3))


@pytest.fixture(autouse=True)
def files_of_the_test(monkeypatch, tmp_path):
    """Reproducers go where pytest cleans up."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def broken_bufferize(monkeypatch):
    def fail(self, ctx, op):
        raise PassFailedException("deliberately broken")

    monkeypatch.setattr(BufferizePass, "apply", fail)


def test_a_failed_stage_leaves_the_ir_before_it(broken_bufferize):
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as failure:
        compile_and_run()
    message = str(failure.value)
    assert "stage 'bufferize' failed: deliberately broken" in message
    path = Path(re.search(r"IR before the stage: (\S+)", message).group(1))
    text = path.read_text()
    assert "lpu_loop.nest" in text
    assert "memref" not in text


def test_the_command_of_a_reproducer_repeats_the_failure(broken_bufferize, capsys):
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as failure:
        compile_and_run()
    command = re.search(r"to repeat: lpu-opt (.*)", str(failure.value)).group(1)
    with pytest.raises(PassFailedException, match="deliberately broken"):
        LpuOptMain(args=shlex.split(command)).run()


def test_the_file_of_a_reproducer_compiles_once_the_stage_works(monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr(BufferizePass, "apply", lambda self, ctx, op: 1 / 0)
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as failure:
            compile_and_run()
    command = re.search(r"to repeat: lpu-opt (.*)", str(failure.value)).group(1)
    LpuOptMain(args=shlex.split(command)).run()
    assert "memref<4x3xf32" in capsys.readouterr().out


def test_compile_errors_are_public():
    assert issubclass(lpu_mlir.CompileError, RuntimeError)
