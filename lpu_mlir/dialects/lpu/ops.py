"""Operations that may stand at every level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import (
    AnyFloatConstr,
    ArrayAttr,
    DictionaryAttr,
    StringAttr,
)
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from lpu_mlir.dialects.lpu.attributes import OperandAttr
from lpu_mlir.dialects.lpu.types import BINDS, extents

# --- the escape ---------------------------------------------------------------------------------


@irdl_op_definition
class HostCallOp(IRDLOperation):
    """Runs a PyTorch operator outside the LPU, in program order among its like.

    `overload` names it; `arguments` holds the positional arguments under "0", "1", … and the
    keyword arguments under their names, `#lpu.operand<n>` standing for the n-th operand.
    `reason` says why it is not native.  Tensors before bufferisation, memrefs with storage of
    their own after.

        %1 = "lpu.host_call"(%0) <{overload = "aten.sort.default",
               arguments = {"0" = #lpu.operand<0>, "1" = -1 : i64}, reason = "not supported"}>
               : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "lpu.host_call"

    inputs = var_operand_def()
    outputs = var_result_def()
    overload = prop_def(StringAttr)
    arguments = prop_def(DictionaryAttr)
    reason = prop_def(StringAttr)

    def __init__(
        self,
        overload: str,
        inputs: Sequence[SSAValue],
        arguments: Mapping[str, Attribute],
        reason: str,
        result_types: Sequence[Attribute],
    ):
        super().__init__(
            operands=[inputs],
            result_types=[result_types],
            properties={
                "overload": StringAttr(overload),
                "arguments": DictionaryAttr(dict(arguments)),
                "reason": StringAttr(reason),
            },
        )

    def verify_(self) -> None:
        if self.overload.data.count(".") != 2:
            raise VerifyException(
                f"{self.name}: '{self.overload.data}' is no overload, expected a name such as "
                "aten.sort.default"
            )
        unknown = [n for n in _operand_numbers(self.arguments) if n >= len(self.inputs)]
        if unknown:
            raise VerifyException(
                f"{self.name}: arguments name operand {unknown[0]}, got {len(self.inputs)} operands"
            )


def _operand_numbers(attr: Attribute) -> Iterator[int]:
    """The operands that the arguments of a host call name."""
    match attr:
        case OperandAttr():
            yield attr.data
        case DictionaryAttr():
            for value in attr.data.values():
                yield from _operand_numbers(value)
        case ArrayAttr():
            for value in attr:
                yield from _operand_numbers(value)
        case _:
            pass


def bound_late(block: Block) -> frozenset[str]:
    """Symbols whose values host calls determine while the function runs."""
    late: set[str] = set()
    for op in block.ops:
        if isinstance(op, HostCallOp):
            for result in op.outputs:
                late |= {name for extent in extents(result.type) for name in extent.names()}
            binds = op.attributes.get(BINDS)
            if isinstance(binds, ArrayAttr):
                late |= {name.data for name in binds.data if isinstance(name, StringAttr)}  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    known = {name for a in block.args for extent in extents(a.type) for name in extent.names()}
    return frozenset(late - known)


@irdl_op_definition
class RemFOp(IRDLOperation):
    """The remainder of truncated division of floats, exact, with the dividend's sign (C's fmod).

    `arith` has it in MLIR but not in xDSL.

        %2 = lpu.remf %0, %1 : f32
    """

    name = "lpu.remf"

    T: ClassVar = VarConstraint("T", AnyFloatConstr)

    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(T)
    fastmath = prop_def(FastMathFlagsAttr, default_value=FastMathFlagsAttr("none"))
    traits = traits_def(Pure())
    assembly_format = "$lhs `,` $rhs (`fastmath` `` $fastmath^)? attr-dict `:` type($result)"
