"""
The `lpu_kernel` dialect: what the LPU runs.

A kernel is a list of phases; a phase is one program that every core runs on tiles in its SRAM.
Tiles are values: `load` and `store` move windows of DRAM, the rest computes.
"""

from xdsl.ir import Dialect

from lpu_mlir.dialects.lpu_kernel.compute import (
    FillOp,
    MapOp,
    SliceOp,
    WindowsOp,
    YieldOp,
    backing,
)
from lpu_mlir.dialects.lpu_kernel.movement import (
    ChannelOp,
    LoadOp,
    ReadWindowOp,
    ReceiveOp,
    RequestOp,
    StoreOp,
    WindowOp,
)
from lpu_mlir.dialects.lpu_kernel.reduce import (
    ARG_FOLD_KINDS,
    FOLD_KINDS,
    SCAN_KINDS,
    ArgFoldOp,
    ContractOp,
    FoldOp,
    ScanOp,
)
from lpu_mlir.dialects.lpu_kernel.structure import (
    ACCESSES,
    CHECK_ERRORS,
    LOOP_KINDS,
    ApplyOp,
    CheckOp,
    ForOp,
    KernelOp,
    PhaseOp,
)
from lpu_mlir.dialects.lpu_kernel.types import Index, TileType, tile_type

LpuKernel = Dialect(
    "lpu_kernel",
    [
        KernelOp,
        PhaseOp,
        ApplyOp,
        ForOp,
        YieldOp,
        CheckOp,
        ChannelOp,
        LoadOp,
        StoreOp,
        RequestOp,
        ReceiveOp,
        FillOp,
        SliceOp,
        WindowsOp,
        MapOp,
        FoldOp,
        ArgFoldOp,
        ScanOp,
        ContractOp,
    ],
    [TileType],
)

__all__ = [
    "ACCESSES",
    "ARG_FOLD_KINDS",
    "CHECK_ERRORS",
    "FOLD_KINDS",
    "LOOP_KINDS",
    "SCAN_KINDS",
    "ApplyOp",
    "ArgFoldOp",
    "ChannelOp",
    "CheckOp",
    "ContractOp",
    "FillOp",
    "FoldOp",
    "ForOp",
    "Index",
    "KernelOp",
    "LoadOp",
    "LpuKernel",
    "MapOp",
    "PhaseOp",
    "ReadWindowOp",
    "ReceiveOp",
    "RequestOp",
    "ScanOp",
    "SliceOp",
    "StoreOp",
    "TileType",
    "WindowOp",
    "WindowsOp",
    "YieldOp",
    "backing",
    "tile_type",
]
