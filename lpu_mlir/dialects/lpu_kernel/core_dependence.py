"""Which values of a phase depend on the core id, so which windows are the same for all cores."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from xdsl.ir import Operation, Region, SSAValue

from lpu_mlir.dialects.lpu_kernel.movement import ReadWindowOp
from lpu_mlir.dialects.lpu_kernel.structure import ForOp
from lpu_mlir.dialects.lpu_kernel.types import TileType


def core_dependent_values(program: Region) -> set[SSAValue]:
    """
    The scalars of a phase's program that may differ between cores. Tiles are not among them: no
    scalar is computed from a tile.
    """
    dependent: set[SSAValue] = set(program.block.args)
    for op in program.walk():
        if any(operand in dependent for operand in op.operands):
            dependent.update(value for value in op.results if not isinstance(value.type, TileType))
            if isinstance(op, ForOp) and any(bound in dependent for bound in op.bounds):
                dependent.add(op.induction)
    return dependent


def depends_on_core(op: ReadWindowOp, dependent: AbstractSet[SSAValue]) -> bool:
    """
    Whether a window may differ between cores, or be read a different number of times: then it
    cannot be a multicast. A window indexed by a tile counts as such, since only cores have tiles.
    """
    if op.index is not None and isinstance(op.index.type, TileType):
        return True
    if any(operand in dependent for operand in op.operands):
        return True
    return any(bound in dependent for loop in enclosing_loops(op) for bound in loop.bounds)


def enclosing_loops(op: Operation) -> list[ForOp]:
    """The loops around an operation, innermost first."""
    loops: list[ForOp] = []
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, ForOp):
            loops.append(parent)
        parent = parent.parent_op()
    return loops
