"""Makes one trip of a loop of several that follow each other: their tiles side by side in one."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from lpu_mlir.dialects.lpu_kernel import ContractOp, ForOp, KernelOp
from lpu_mlir.dialects.lpu_kernel.types import split_indices, tile
from lpu_mlir.logs import logger
from lpu_mlir.tiling.seams import Seams, Unfit, join
from lpu_mlir.tiling.shares import CORE

LOG = logger("kernels")

POSITIONS = 32
"""Of so many a product is made at a time, or of more."""

LARGE = 256 << 10
"""Bytes that no tile may grow beyond: half of a second-level cache of today's processors."""


# --- legality -------------------------------------------------------------------------------------


def seams_of(loop: ForOp) -> Seams:
    """Where the tiles of trips that follow each other join; raises Unfit if they do not."""
    lower, _, step = loop.loop_bounds()
    if loop.kind.data != "parallel" or lower != 0 or not isinstance(step, int):
        raise Unfit("it is no parallel loop from 0 with a known step")
    induction = loop.body.block.args[0]
    seams = Seams.of(loop.body.block, induction, step * CORE)
    if seams.step:
        raise Unfit("windows overlap")
    if any(tile(value).get_shape()[dim] % step for value, dim in seams.dim.items()):
        raise Unfit(f"tiles are no multiples of a step of {step}")
    return seams


# --- policy ---------------------------------------------------------------------------------------


def is_candidate(loop: ForOp, positions: int) -> bool:
    """Whether a loop over a dim of unknown extent makes products of few positions at a time."""
    _, upper, step = loop.loop_bounds()
    products = any(isinstance(op, ContractOp) for op in loop.walk())
    return products and not isinstance(upper, int) and isinstance(step, int) and step < positions


def factor_of(loop: ForOp, seams: Seams, positions: int) -> int:
    """How many trips to join for at least so many positions, if tiles stay small enough."""
    _, _, step = loop.loop_bounds()
    assert isinstance(step, int)
    largest = max((tile(value).byte_size() for value in seams.dim), default=LARGE)
    return min(-(-positions // step), LARGE // largest)


# --- mechanics ------------------------------------------------------------------------------------


def lengthen(loop: ForOp, seams: Seams, factor: int) -> None:
    lower, upper, step = loop.loop_bounds()
    assert isinstance(step, int)
    join(loop.body.block, seams, factor, loop.body.block.args[0], step)
    _, static = split_indices([lower, upper, step * factor])
    loop.properties["static_bounds"] = static


def coalesce_trips(kernel: KernelOp, positions: int) -> None:
    """Lengthens the outermost loops of a kernel that can be and that it pays for."""
    for loop in [op for op in kernel.walk() if isinstance(op, ForOp)]:
        if not is_candidate(loop, positions):
            continue
        try:
            seams = seams_of(loop)
        except Unfit as reason:
            LOG.debug("a loop of @%s is left as it is: %s", kernel.sym_name.data, reason)
            continue
        factor = factor_of(loop, seams, positions)
        if factor > 1:
            lengthen(loop, seams, factor)


@dataclass(frozen=True)
class CoalesceTripsPass(ModulePass):
    """
    Makes one trip of several of a parallel loop over a dim of unknown extent, if products are made
    there of fewer than ``positions`` positions: for machines with large caches, which would read
    the other factor for each of these trips. Loads must not have been split; SRAM must be
    allocated again.

    Before:
    ```mlir
    lpu_kernel.for parallel %i = 0 to %n step 8 {
      %s = lpu_kernel.apply <min(-d0 + d1, 8)>(%i, %n)
      %x = lpu_kernel.load %a[%i, 0] [%s, 64] : memref<?x64xf32> -> !lpu_kernel.tile<8x64xf32>
      %y = lpu_kernel.contract %x as [0, 2], %w as [1, 2] : … -> !lpu_kernel.tile<8x16xf32>
    }
    ```
    After:
    ```mlir
    lpu_kernel.for parallel %i = 0 to %n step 32 {
      %s = lpu_kernel.apply <max(0, min(-d0 + d1, 32))>(%i, %n)
      %x = lpu_kernel.load %a[%i, 0] [%s, 64] : memref<?x64xf32> -> !lpu_kernel.tile<32x64xf32>
      %y = lpu_kernel.contract %x as [0, 2], %w as [1, 2] : … -> !lpu_kernel.tile<32x16xf32>
    }
    ```
    """

    name = "coalesce-trips"

    positions: int = POSITIONS
    """Of so many a product is made at a time, or of more."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.walk():
            if isinstance(kernel, KernelOp):
                coalesce_trips(kernel, self.positions)
