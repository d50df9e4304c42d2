"""What a failed compile leaves behind: the IR before the failing stage and the command for it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from lpu_mlir.pipeline import PipelineError, Stage, run_stages


class CompileError(RuntimeError):
    """The compiler failed on a graph; the message names a file and a command that repeat it."""


def write_reproducer(
    make_module: Callable[[], ModuleOp], todo: Sequence[Stage], error: PipelineError
) -> CompileError:
    """The error to raise for a failed stage.

    The stages change their module, so the IR before the failure is made once more: `make_module`
    imports the graph again, and the stages before the failing one run again.
    """
    position = list(todo).index(error.stage)
    module = make_module()
    run_stages(module, todo[:position])
    directory = Path(tempfile.mkdtemp(prefix="lpu_mlir_"))
    path = directory / f"before-{error.stage.name}.mlir"
    path.write_text(str(module) + "\n")
    return CompileError(
        f"lpu_mlir: {error}\n"
        f"  IR before the stage: {path}\n"
        f"  to repeat: lpu-opt -p '{error.stage.spec}' {path}"
    )
