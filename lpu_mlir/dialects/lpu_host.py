"""The `lpu_host` dialect: the program around the kernels.

What the runtime does for a compiled function: buffers, views of one arena, and launches.  It
appears with bufferisation and remains to the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import FlatSymbolRefAttrConstr, MemRefType, SymbolRefAttr
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryAllocEffect, MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu import ExprAttr, Extent, ShapeAttr, extents, i8, memref_type

ALIGNMENT = 64
"""Bytes to whose multiples buffers in an arena are placed."""


@irdl_op_definition
class AllocOp(IRDLOperation):
    """A buffer that lives from its first to its last use in the function.

    %0 = lpu_host.alloc : memref<3x64xf32, "shared_dram">
    """

    name = "lpu_host.alloc"
    output = result_def(MemRefType)
    traits = traits_def(MemoryAllocEffect())
    assembly_format = "attr-dict `:` type($output)"

    def __init__(self, type: Attribute):
        super().__init__(result_types=[type])


@irdl_op_definition
class ArenaOp(IRDLOperation):
    """The memory for all intermediates of one call of a function.

    `peak` bytes are reserved; at no moment are more than `lower_bound` bytes live at the likely
    symbol values, which no plan could undercut.

    %0 = lpu_host.arena <768 * s18> lower_bound <1024> : memref<?xi8, …>
    """

    name = "lpu_host.arena"
    peak = prop_def(ExprAttr)
    lower_bound = prop_def(ExprAttr)
    output = result_def(MemRefType)
    traits = traits_def(MemoryAllocEffect())
    assembly_format = "$peak `lower_bound` $lower_bound attr-dict `:` type($output)"

    def __init__(self, peak: Expr, lower_bound: int):
        bound = ExprAttr(Expr.const(lower_bound))
        super().__init__(
            properties={"peak": ExprAttr(peak), "lower_bound": bound},
            result_types=[memref_type(i8, [peak])],
        )


@irdl_op_definition
class CarveOp(IRDLOperation):
    """A buffer in the arena, from byte `offset` on; its contents are undefined at first.

    %1 = lpu_host.carve %0 at <64 * s18> : memref<?xi8, …> -> memref<3x64xf32, "shared_dram">
    """

    name = "lpu_host.carve"
    arena = operand_def(MemRefType)
    offset = prop_def(ExprAttr)
    output = result_def(MemRefType)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$arena `at` $offset attr-dict `:` type($arena) `->` type($output)"

    def __init__(self, arena: SSAValue, offset: Expr, type: Attribute):
        super().__init__(
            operands=[arena], properties={"offset": ExprAttr(offset)}, result_types=[type]
        )


@irdl_op_definition
class ViewOp(IRDLOperation):
    """Other extents, strides and offset on the elements of a buffer: those of the result's layout.

    %1 = lpu_host.view %0 : memref<24xf32, "shared_dram"> -> memref<4x6xf32, "shared_dram">
    """

    name = "lpu_host.view"
    source = operand_def(MemRefType)
    output = result_def(MemRefType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($output)"

    def __init__(self, source: SSAValue, type: Attribute):
        super().__init__(operands=[source], result_types=[type])


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """Runs a kernel on buffers; its index arguments are expressions over the function's symbols.

    lpu_host.launch @k(%0, %1) indices <[s18]> : memref<…>, memref<…>
    """

    name = "lpu_host.launch"
    kernel = prop_def(FlatSymbolRefAttrConstr)
    buffers = var_operand_def(MemRefType)
    indices = prop_def(ShapeAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$kernel `(` $buffers `)` `indices` $indices attr-dict `:` type($buffers)"

    def __init__(self, kernel: str, buffers: Sequence[SSAValue], indices: Sequence[Extent]):
        super().__init__(
            operands=[buffers],
            properties={"kernel": SymbolRefAttr(kernel), "indices": ShapeAttr.of(indices)},
        )

    def verify_(self) -> None:
        for buffer in self.buffers:
            try:
                extents(buffer.type)
            except TypeError as error:
                raise VerifyException(f"{self.name}: {error}") from error


LpuHost = Dialect("lpu_host", [AllocOp, ArenaOp, CarveOp, ViewOp, LaunchOp])
