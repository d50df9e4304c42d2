"""The `lpu_host` dialect: the program around the kernels.

What the runtime does for a compiled function: buffers, views of one arena, and launches.  It
appears with bufferisation and remains to the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    FlatSymbolRefAttrConstr,
    MemRefType,
    SymbolRefAttr,
)
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
from xdsl.traits import (
    MemoryAllocEffect,
    MemoryReadEffect,
    MemoryWriteEffect,
    Pure,
    SymbolTable,
)
from xdsl.utils.exceptions import VerifyException

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu import (
    ExprAttr,
    Extent,
    ShapeAttr,
    element_type,
    extents,
    i8,
    memref_type,
    offset,
    strides,
    type_bytes,
)
from lpu_mlir.dialects.lpu_kernel import KernelOp

ALIGNMENT = 64
"""Bytes to whose multiples buffers in an arena are placed."""


class HostOp(IRDLOperation):
    """Helpers shared by the verifiers."""

    def expect(self, holds: bool, message: str) -> None:
        if not holds:
            raise VerifyException(f"{self.name}: {message}")


def _end(type: Attribute) -> int | None:
    """One past the last element that a memref reaches, from the start of its memory, if known."""
    shape = extents(type)
    if Expr.const(0) in shape:
        return 0
    steps = zip(shape, strides(type), strict=True)
    last = sum(((extent - 1) * stride for extent, stride in steps), offset(type))
    return (last + 1).constant()


@irdl_op_definition
class AllocOp(HostOp):
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
class ArenaOp(HostOp):
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

    def verify_(self) -> None:
        expected = memref_type(i8, [self.peak.data])
        self.expect(self.output.type == expected, f"gives {self.output.type}, expected {expected}")


@irdl_op_definition
class CarveOp(HostOp):
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

    def verify_(self) -> None:
        self.expect(isinstance(self.arena.owner, ArenaOp), "takes its buffer from lpu_host.arena")
        start, (size,) = self.offset.data, extents(self.arena.type)
        known, needed = start.constant(), type_bytes(self.output.type)
        self.expect(
            known is None or (known >= 0 and known % ALIGNMENT == 0),
            f"offset {start} is no multiple of {ALIGNMENT}",
        )
        left = (size - start - needed).constant()
        self.expect(
            left is None or left >= 0,
            f"{needed} bytes at {start} reach beyond the arena's {size}",
        )


@irdl_op_definition
class ViewOp(HostOp):
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

    def verify_(self) -> None:
        source, output = element_type(self.source.type), element_type(self.output.type)
        self.expect(source == output, f"views elements of {source} as {output}")
        given, seen = _end(self.source.type), _end(self.output.type)
        # A buffer without elements may be seen in any way: whoever does, reads none of them.
        self.expect(
            not given or seen is None or seen <= given,
            f"the view ends at element {seen}, the buffer at {given}",
        )


@irdl_op_definition
class CopyOp(HostOp):
    """Moves the elements of one buffer to another of the same extents, whatever their layouts.

    For elements that the LPU does not compute with; all others are moved by kernels.

    lpu_host.copy %0 to %1 : memref<4xcomplex<f32>, "shared_dram"> to memref<4xcomplex<f32>, …>
    """

    name = "lpu_host.copy"
    source = operand_def(MemRefType)
    target = operand_def(MemRefType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$source `to` $target attr-dict `:` type($source) `to` type($target)"

    def __init__(self, source: SSAValue, target: SSAValue):
        super().__init__(operands=[source, target])

    def verify_(self) -> None:
        source, target = self.source.type, self.target.type
        self.expect(
            element_type(source) == element_type(target) and extents(source) == extents(target),
            f"copies {source} to {target}, expected the same elements and extents",
        )


@irdl_op_definition
class LaunchOp(HostOp):
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
        kernel = SymbolTable.lookup_symbol(self, self.kernel)
        if not isinstance(kernel, KernelOp):
            raise VerifyException(f"{self.name}: no kernel is called {self.kernel}")
        given: list[Attribute] = [buffer.type for buffer in self.buffers]
        types: list[Attribute] = [argument.type for argument in kernel.body.block.args]
        taken = types[: len(kernel.access)]
        indices = len(types) - len(taken)
        self.expect(
            len(given) == len(taken),
            f"{self.kernel} takes {len(taken)} buffers, got {len(given)}",
        )
        self.expect(
            len(self.indices.data) == indices,
            f"{self.kernel} takes {indices} indices, got {len(self.indices.data)}",
        )
        for position, (type, expected) in enumerate(zip(given, taken, strict=True)):
            self.expect(
                _fits(type, expected),
                f"buffer {position} is {type}, {self.kernel} takes {expected}",
            )


def _fits(type: Attribute, expected: Attribute) -> bool:
    """Whether a buffer has the element type and the extents that a kernel's argument asks for."""
    same_element = element_type(type) == element_type(expected)
    assert isinstance(expected, MemRefType)
    shape, wanted = extents(type), expected.get_shape()
    return (
        same_element
        and len(shape) == len(wanted)
        and all(
            size in (DYNAMIC_INDEX, extent.constant())
            for extent, size in zip(shape, wanted, strict=True)
        )
    )


LpuHost = Dialect("lpu_host", [AllocOp, ArenaOp, CarveOp, ViewOp, CopyOp, LaunchOp])
