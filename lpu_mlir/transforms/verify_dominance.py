"""SSA dominance, which xDSL's own verifier does not check."""

from collections.abc import Iterator
from typing import NoReturn

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue
from xdsl.irdl.dominance import DominanceInfo
from xdsl.passes import ModulePass
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException


def check_dominance(op: Operation) -> None:
    """
    Check that every operand inside ``op`` is defined where it is used: by an earlier operation or
    block argument of the same block, of a dominating block, or of an enclosing block that is not
    cut off by an isolated operation.

    Raises VerifyException at the first offending operation.
    """
    for region in op.regions:
        _check_region(region, set())


def _check_region(region: Region, visible: set[SSAValue]) -> None:
    """Check one region; ``visible`` holds what may be used at its start and is left unchanged."""
    blocks = tuple(region.blocks)
    if len(blocks) == 1:
        visible.difference_update(_check_block(blocks[0], visible))
        return
    dominance = DominanceInfo(region)
    for block in blocks:
        dominators = (b for b in blocks if dominance.strictly_dominates(b, block))
        _check_block(block, visible.union(*map(_definitions, dominators)))


def _definitions(block: Block) -> Iterator[SSAValue]:
    yield from block.args
    for op in block.ops:
        yield from op.results


def _check_block(block: Block, visible: set[SSAValue]) -> list[SSAValue]:
    """Check one block, adding the values it defines to ``visible``; returns those values."""
    defined: list[SSAValue] = list(block.args)
    visible.update(defined)
    for op in block.ops:
        for operand in op.operands:
            if operand not in visible:
                _fail(op, operand)
        if op.regions:
            inner: set[SSAValue] = set() if op.has_trait(IsolatedFromAbove) else visible
            for region in op.regions:
                _check_region(region, inner)
        visible.update(op.results)
        defined.extend(op.results)
    return defined


def _fail(op: Operation, operand: SSAValue) -> NoReturn:
    index = list(op.operands).index(operand)
    name = f" (%{operand.name_hint})" if operand.name_hint else ""
    owner = (
        f"a result of '{operand.op.name}'" if isinstance(operand, OpResult) else "a block argument"
    )
    message = f"operand {index}{name} of '{op.name}', {owner}, does not dominate this use"
    op.emit_error(message, VerifyException(message))


class VerifyDominancePass(ModulePass):
    """
    Fails on IR in which a value is used where it is not defined, and changes nothing.

    Rejected, since ``%b`` is used before its definition:
    ```mlir
    %c = arith.addi %a, %b : i32
    %b = arith.constant 1 : i32
    ```
    """

    name = "verify-dominance"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        check_dominance(op)
