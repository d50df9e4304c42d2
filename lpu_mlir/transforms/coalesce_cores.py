"""Makes one core of several neighbouring ones: their tiles side by side in one."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu_kernel import (
    ApplyOp,
    ContractOp,
    FoldOp,
    KernelOp,
    MapOp,
    PhaseOp,
)
from lpu_mlir.dialects.lpu_kernel.types import tile
from lpu_mlir.logs import logger
from lpu_mlir.tiling.seams import Seams, Unfit, join
from lpu_mlir.tiling.shares import CORE, divide_again, divided_again

LOG = logger("kernels")

# --- policy ---------------------------------------------------------------------------------------

SMALL = 32 << 10
"""Bytes of a tile that may grow by joining although no product gains from it."""


def pays(kernel: KernelOp, factor: int) -> bool:
    """Whether larger tiles are better: for products, and for tiles that are small even then."""
    if any(isinstance(op, ContractOp) for op in kernel.walk()):
        return True
    computed = [op for op in kernel.walk() if isinstance(op, MapOp | FoldOp)]
    sizes = [tile(value).byte_size() for op in computed for value in op.results]
    return max(sizes, default=0) * factor <= SMALL


# --- mechanics ------------------------------------------------------------------------------------


def join_cores(phase: PhaseOp, seams: Seams, factor: int) -> None:
    """Makes one core of `factor` of them."""
    first = ApplyOp(factor * Expr.name("d0"), [phase.core_id])
    phase.core_id.replace_uses_with_if(first.result, lambda use: use.operation is not first)
    start = phase.cores.block.first_op
    assert start is not None
    Rewriter.insert_op(first, InsertPoint.before(start))
    join(phase.cores.block, seams, factor, first.result, 1)


def coalesce(kernel: KernelOp, cores: int) -> None:
    """Leave at least `cores` cores of a kernel, if its tiles can be joined, or what each core does
    is a share of an unknown extent, and it pays."""
    divisors = [n for n in range(cores, kernel.cores) if kernel.cores % n == 0]
    if not divisors or not pays(kernel, kernel.cores // divisors[0]):
        return
    phases, fewer = list(kernel.phases()), divisors[0]
    again = [divided_again(phase, kernel.cores, fewer) for phase in phases]
    try:
        # All are tried before any is changed.
        seams = [
            a or Seams.of(phase.cores.block, phase.core_id, CORE)
            for a, phase in zip(again, phases, strict=True)
        ]
    except Unfit as reason:
        LOG.debug("@%s is left as it is: %s", kernel.sym_name.data, reason)
        return
    for phase, found in zip(phases, seams, strict=True):
        if isinstance(found, Seams):
            join_cores(phase, found, kernel.cores // fewer)
        else:
            divide_again(found)
    kernel.num_cores = IntegerAttr(fewer, i64)


@dataclass(frozen=True)
class CoalesceCoresPass(ModulePass):
    """
    Makes one core of several neighbouring ones, whose tiles become one: side by side, they cover
    what lies side by side in DRAM. For machines with few cores and large caches, on which one
    large product is better than many small ones. Kernels whose tiles do not join, and those that
    gain nothing, stay. Loads must not have been split; SRAM must be allocated again. Of a dim whose
    extent is a symbol, the cores that are left have larger shares, in tiles as they were.

    Before, with 8 cores:
    ```mlir
    lpu_kernel.phase cores(%c) {
      %o = lpu_kernel.apply <4 * d0>(%c)
      %x = lpu_kernel.load %a[%o, 0] [4, 64] : memref<32x64xf32> -> !lpu_kernel.tile<4x64xf32>
      %y = lpu_kernel.contract %x as [0, 2], %w as [1, 2] : … -> !lpu_kernel.tile<4x16xf32>
    }
    ```
    After, with 2:
    ```mlir
    lpu_kernel.phase cores(%c) {
      %f = lpu_kernel.apply <4 * d0>(%c)
      %o = lpu_kernel.apply <4 * d0>(%f)
      %x = lpu_kernel.load %a[%o, 0] [16, 64] : memref<32x64xf32> -> !lpu_kernel.tile<16x64xf32>
      %y = lpu_kernel.contract %x as [0, 2], %w as [1, 2] : … -> !lpu_kernel.tile<16x16xf32>
    }
    ```
    """

    name = "coalesce-cores"

    cores: int = 2
    """How many cores are wanted: a kernel keeps the next larger divisor of its own number."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.walk():
            if isinstance(kernel, KernelOp):
                coalesce(kernel, self.cores)
