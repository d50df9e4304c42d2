"""Kernels in memory: where their functions are, and what calls must know."""

from __future__ import annotations

import builtins
from dataclasses import dataclass

from lpu_mlir.interpreter.native.compile import Code, Loader
from lpu_mlir.runtime.host_program import Kernel


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel in memory."""

    kernel: Kernel
    phases: tuple[tuple[int, int], ...]
    """The address of each phase's function and its number of cores."""
    code: Code
    """What owns the functions."""

    @staticmethod
    def load(kernel: Kernel, loader: Loader) -> LoadedKernel:
        """Loads a kernel, unless one with the same code is there under whatever name."""
        code = loader.load_image(kernel.image, [name for name, _ in kernel.phases])
        phases = tuple((code.addresses[name], cores) for name, cores in kernel.phases)
        return LoadedKernel(kernel, phases, code)

    @property
    def name(self) -> str:
        return self.kernel.name

    @property
    def scratch(self) -> int:
        """Bytes for each worker."""
        return self.kernel.scratch

    def failure(self, check: int) -> Exception:
        """The exception of a failed check."""
        error, message = self.kernel.checks[check]
        exception: type[Exception] = vars(builtins)[error]
        return exception(message)
