"""What the native interpreter runs, as data: kernels, and steps over numbered roots.

A root is memory that gets its address anew for each call: an argument, an arena, a buffer by
itself, what a host call gave.  The arguments come first.  Nothing here is IR, a closure or an
address, so that a program can be kept on disk and run by another process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.runtime.host_call import Operator
from lpu_mlir.runtime.layout import Layout

Ints: TypeAlias = NDArray[np.int64]

MAIN, FREEZE = "main", "freeze"
"""The functions that can be called, see `Runnable`."""


# --- kernels ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fixed:
    """Which sizes and strides of a memref are fixed in a kernel; None for those it is told."""

    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...] | None
    """None for a dense memref: they follow from the sizes."""

    @property
    def slots(self) -> int:
        """How many a memref takes: one for its address, and those that it is told."""
        return 1 + self.sizes.count(None) + (self.strides or ()).count(None)


@dataclass(frozen=True)
class Kernel:
    """A kernel as machine code that is not loaded yet."""

    name: str
    image: bytes
    """The object file."""
    phases: tuple[tuple[str, int], ...]
    """The function of each phase and its number of cores."""
    scratch: int
    """Bytes for each worker."""
    checks: tuple[tuple[str, str], ...]
    """Exception and message of each check, in order."""
    arguments: tuple[Fixed | None, ...]
    """What is fixed of memrefs, in order; None for an index."""
    worker_bytes: int
    """Another worker is worth it for so many bytes of the kernel's buffers."""
    moved: tuple[int, int] | str
    """Bytes that a launch reads and writes; the text of a kernel that is to be asked for them, as
    they depend on its index arguments."""


# --- steps --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Access:
    """Elements of a root, from byte `start` on; without a layout the tensor as it is."""

    root: int
    start: Expr
    layout: Layout | None


@dataclass(frozen=True)
class MakeArena:
    """Memory for intermediates that several steps use."""

    root: int
    size: Expr
    """In bytes."""


@dataclass(frozen=True)
class MakeBuffer:
    root: int
    layout: Layout


@dataclass(frozen=True)
class Forget:
    """The roots are not used any more."""

    roots: tuple[int, ...]


@dataclass(frozen=True)
class Launches:
    """A run of launches, which is one native call.

    Arguments are laid out in slots: slot i is the value of expression `values[i]`, plus the address
    of root `bases[i]`, as `Plan` counts them, plus the start of the run's own arena of depth
    `depths[i]`, counted from 1.
    """

    kernels: tuple[str, ...]
    firsts: tuple[int, ...]
    """The first slot of each launch."""
    works: tuple[int, ...]
    """The expression for the bytes of its buffers."""
    roots: tuple[int, ...]
    """The roots that the call gives to the plan, in order."""
    arenas: tuple[tuple[int, int], ...]
    """Depth, and the expression for its bytes, of arenas that only this run uses."""
    expressions: tuple[Expr, ...]
    values: Ints
    bases: Ints
    depths: Ints
    equal: Ints
    """Rows of four expressions: bytes of a buffer, an extent, a stride, and what the stride must be
    if there are bytes and the extent is above 1."""


@dataclass(frozen=True)
class HostCall:
    """A PyTorch operator; `results` are the roots of what it gives."""

    operator: Operator
    operands: tuple[Access, ...]
    results: tuple[int, ...]


@dataclass(frozen=True)
class Copy:
    """Elements that kernels cannot move."""

    source: Access
    target: Access


@dataclass(frozen=True)
class If:
    """One of two lists of steps, as a bool in memory says."""

    flag: Access
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...]


@dataclass(frozen=True)
class While:
    """Steps that are repeated as long as `condition` leaves a true bool in memory."""

    flag: Access
    condition: tuple[Step, ...]
    body: tuple[Step, ...]


Step: TypeAlias = "MakeArena | MakeBuffer | Forget | Launches | HostCall | Copy | If | While"
STEPS = (MakeArena, MakeBuffer, Forget, Launches, HostCall, Copy, If, While)


@dataclass(frozen=True)
class HostFunction:
    """What one function does, with everything that it calls."""

    arguments: int
    others: int
    """How many roots there are beside the arguments."""
    steps: tuple[Step, ...]
    returned: tuple[Access, ...]


@dataclass(frozen=True)
class HostProgram:
    """All of a graph's program; `kept` and `frozen` are about @freeze, see `Runnable`."""

    kernels: tuple[Kernel, ...]
    functions: dict[str, HostFunction]
    returned: tuple[int, ...]
    frozen: tuple[int, ...]
    kept: tuple[Layout, ...]
