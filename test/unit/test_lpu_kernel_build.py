"""The Python constructors of the kernel dialect, against the text that they should print as."""

import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import IndexType, f32, i1, i64
from xdsl.ir import Attribute, Operation, SSAValue

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu import memref_type
from lpu_mlir.dialects.lpu_kernel import (
    ApplyOp,
    ArgFoldOp,
    ChannelOp,
    CheckOp,
    ContractOp,
    FillOp,
    FoldOp,
    ForOp,
    KernelOp,
    LoadOp,
    MapOp,
    PhaseOp,
    ReceiveOp,
    RequestOp,
    ScanOp,
    SliceOp,
    StoreOp,
    YieldOp,
    tile_type,
)

MATRIX = tile_type(f32, [8, 4])
ROW = tile_type(f32, [8])


def value(type: Attribute, name: str) -> SSAValue:
    result = test.TestOp(result_types=[type]).results[0]
    result.name_hint = name
    return result


M = value(memref_type(f32, [64, 4]), "m")
T, S, A = value(MATRIX, "t"), value(ROW, "s"), value(ROW, "a")
POS, N = value(tile_type(i64, [8]), "i"), value(IndexType(), "n")

BUILT: list[tuple[Operation, str]] = [
    (
        ApplyOp(Expr.name("d0") * 2 + 1, [N]),
        "%0 = lpu_kernel.apply <2 * d0 + 1>(%n)",
    ),
    (
        LoadOp(M, [N, 0], [8, N], MATRIX),
        '%0 = lpu_kernel.load %m[%n, 0] [8, %n] : memref<64x4xf32, "shared_dram"> -> '
        "!lpu_kernel.tile<8x4xf32>",
    ),
    (
        LoadOp(M, [0, N], [1, 4], MATRIX, index_dim=0, index=POS),
        '%0 = lpu_kernel.load %m[0, %n] [1, 4] index 0 by %i : memref<64x4xf32, "shared_dram">, '
        "!lpu_kernel.tile<8xi64> -> !lpu_kernel.tile<8x4xf32>",
    ),
    (
        StoreOp(T, M, [N, 0]),
        "lpu_kernel.store %t, %m[%n, 0] : !lpu_kernel.tile<8x4xf32>, "
        'memref<64x4xf32, "shared_dram">',
    ),
    (
        StoreOp(T, M, [0, 0], index_dim=0, index=POS),
        "lpu_kernel.store %t, %m[0, 0] index 0 by %i : !lpu_kernel.tile<8x4xf32>, "
        'memref<64x4xf32, "shared_dram">, !lpu_kernel.tile<8xi64>',
    ),
    (
        StoreOp(T, M, [N, 0], kind="add"),
        "lpu_kernel.store add %t, %m[%n, 0] : !lpu_kernel.tile<8x4xf32>, "
        'memref<64x4xf32, "shared_dram">',
    ),
    (
        RequestOp("ch", "each", M, [0, N], [1, 4], index_dim=0, index=N),
        "lpu_kernel.request @ch %m[0, %n] [1, 4] index 0 by %n to each : "
        'memref<64x4xf32, "shared_dram">, index',
    ),
    (ReceiveOp("ch", ROW), "%0 = lpu_kernel.receive @ch : !lpu_kernel.tile<8xf32>"),
    (ChannelOp("ch", 2, ROW), "lpu_kernel.channel @ch depth 2 : !lpu_kernel.tile<8xf32>"),
    (
        FillOp(0.0, [N, 4], MATRIX),
        "%0 = lpu_kernel.fill 0.000000e+00 : f32 [%n, 4] -> !lpu_kernel.tile<8x4xf32>",
    ),
    (
        FillOp(True, [4], tile_type(i1, [4])),
        "%0 = lpu_kernel.fill true [4] -> !lpu_kernel.tile<4xi1>",
    ),
    (
        SliceOp(T, [N, 0], [1, 4], tile_type(f32, [1, 4])),
        "%0 = lpu_kernel.slice %t[%n, 0] [1, 4] : !lpu_kernel.tile<8x4xf32> -> "
        "!lpu_kernel.tile<1x4xf32>",
    ),
    (
        SliceOp(T, [N, 3], [8, 1], ROW, drop=[1]),
        "%0 = lpu_kernel.slice %t[%n, 3] [8, 1] drop [1] : !lpu_kernel.tile<8x4xf32> -> "
        "!lpu_kernel.tile<8xf32>",
    ),
    (
        FoldOp("add", T, [1], ROW),
        "%0 = lpu_kernel.fold add %t [1] : !lpu_kernel.tile<8x4xf32> -> !lpu_kernel.tile<8xf32>",
    ),
    (
        FoldOp("max", T, [1], ROW, acc=A),
        "%0 = lpu_kernel.fold max %t [1] acc(%a : !lpu_kernel.tile<8xf32>) : "
        "!lpu_kernel.tile<8x4xf32> -> !lpu_kernel.tile<8xf32>",
    ),
    (
        ArgFoldOp("max", T, 1, ROW, tile_type(i64, [8]), at=N, acc=(A, POS)),
        "%0, %1 = lpu_kernel.arg_fold max %t dim 1 at [%n] "
        "acc(%a, %i : !lpu_kernel.tile<8xf32>, !lpu_kernel.tile<8xi64>) : "
        "!lpu_kernel.tile<8x4xf32> -> !lpu_kernel.tile<8xf32>, !lpu_kernel.tile<8xi64>",
    ),
    (
        ScanOp("add", T, 1, carry=A),
        "%0 = lpu_kernel.scan add %t dim 1 carry(%a : !lpu_kernel.tile<8xf32>) : "
        "!lpu_kernel.tile<8x4xf32> -> !lpu_kernel.tile<8x4xf32>",
    ),
    (
        ContractOp(T, [0, 1], A, [0], ROW, acc=S),
        "%0 = lpu_kernel.contract %t as [0, 1], %a as [0] acc(%s : !lpu_kernel.tile<8xf32>) : "
        "!lpu_kernel.tile<8x4xf32>, !lpu_kernel.tile<8xf32> -> !lpu_kernel.tile<8xf32>",
    ),
    (
        CheckOp(value(i1, "ok"), "IndexError", "out of range"),
        'lpu_kernel.check %ok, "IndexError", "out of range" : i1',
    ),
]


@pytest.mark.parametrize(("op", "text"), BUILT, ids=lambda x: getattr(x, "name", ""))
def test_constructor(op: Operation, text: str) -> None:
    op.verify()
    assert str(op) == text


def test_map_with_the_block_it_makes() -> None:
    op = MapOp([8, N], [(T, [0, 1]), (A, [0])], [MATRIX], offsets=[N, 0])
    assert [str(arg.type) for arg in op.index_args] == ["index", "index"]
    assert [str(arg.type) for arg in op.scalar_args] == ["f32", "f32"]
    op.body.block.add_op(YieldOp(op.scalar_args[1]))
    op.verify()
    assert "map [8, %n] at [%n, 0] ins(%t as [0, 1], %a as [0] :" in str(op)
    assert op.map_sizes() == (8, N)
    assert op.map_offsets() == (N, 0)
    assert op.dims_of_inputs() == ((0, 1), (0,))


def test_loops_with_the_block_they_make() -> None:
    carrying = ForOp("reduction", 0, N, 8, [A])
    carrying.body.block.add_op(YieldOp(*carrying.carried_args))
    carrying.verify()
    assert carrying.loop_bounds() == (0, N, 8)
    bare = ForOp("parallel", 0, 4, 1)
    bare.end_body()
    bare.end_body()
    bare.verify()
    assert len(bare.body.block.ops) == 1


def test_kernel_with_the_blocks_it_makes() -> None:
    kernel = KernelOp("k", ["rw"], 8, [M.type, IndexType()])
    phase = PhaseOp()
    kernel.body.block.add_op(phase)
    memref, n = kernel.args
    load = LoadOp(memref, [phase.core_id, 0], [1, n], tile_type(f32, [1, 4]))
    phase.cores.block.add_ops([load, StoreOp(load, memref, [phase.core_id, 0])])
    kernel.verify()
    assert kernel.access_of(memref) == "rw"
    assert list(kernel.phases()) == [phase]
    assert kernel.cores == 8
