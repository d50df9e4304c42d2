"""The `lpu_loop` dialect: how each element is computed.

A `nest` is a set of parallel dims and a body on scalars.  Dims are names in the same expression
language as extents: an index is an expression over the nest's dims, the dims of the folds around
it and the function's symbols, so views, broadcasts and offsets are arithmetic in attributes and
cost no operation.  The body is loads, `arith` and `math` operations, folds that combine a scalar
over further dims, and stores.  Nests are destination-passing: `outs` are the tensors (later
memrefs) that the stores go to; a result is its `outs` operand with the stores applied.

    %y = lpu_loop.nest [d0 = 3, d1 = 64] outs(%e : tensor<3x64xf32>) {
      %0 = lpu_loop.fold "add" [r0 = 24] : f32 {
        %1 = lpu_loop.load %x[d0, r0] : tensor<3x24xf32>
        %2 = lpu_loop.load %w[d1, r0] : tensor<64x24xf32>
        %3 = arith.mulf %1, %2 : f32
        lpu_loop.yield %3 : f32
      }
      lpu_loop.store "replace" %0, %e[d0, d1] : f32, tensor<3x64xf32>
    } -> tensor<3x64xf32>

A nest may have several destinations, and parts with dims of their own (`over`); what it loads is
what was there before any of its stores.
"""

from xdsl.ir import Dialect

from lpu_mlir.dialects.lpu_loop.base import (
    CHECKS,
    FOLDS,
    SCANS,
    STORES,
    Dim,
    DimsOp,
    LoadEffect,
    LoopOp,
    YieldOp,
    indirect_name,
)
from lpu_mlir.dialects.lpu_loop.nest import (
    AccessOp,
    EmptyOp,
    LoadOp,
    NestEffect,
    NestOp,
    OverOp,
    ParallelOp,
    StoreOp,
    WriteBackOp,
)
from lpu_mlir.dialects.lpu_loop.scalar import (
    ArgFoldOp,
    CheckOp,
    FoldOp,
    IndexOp,
    PiecesOp,
    RegionOverDims,
    ScanOp,
)

LpuLoop = Dialect(
    "lpu_loop",
    [
        EmptyOp,
        WriteBackOp,
        NestOp,
        OverOp,
        LoadOp,
        StoreOp,
        IndexOp,
        FoldOp,
        ArgFoldOp,
        ScanOp,
        PiecesOp,
        CheckOp,
        YieldOp,
    ],
)

__all__ = [
    "CHECKS",
    "FOLDS",
    "SCANS",
    "STORES",
    "AccessOp",
    "ArgFoldOp",
    "CheckOp",
    "Dim",
    "DimsOp",
    "EmptyOp",
    "FoldOp",
    "IndexOp",
    "LoadEffect",
    "LoadOp",
    "LoopOp",
    "LpuLoop",
    "NestEffect",
    "NestOp",
    "OverOp",
    "ParallelOp",
    "PiecesOp",
    "RegionOverDims",
    "ScanOp",
    "StoreOp",
    "WriteBackOp",
    "YieldOp",
    "indirect_name",
]
