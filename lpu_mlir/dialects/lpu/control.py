"""Control flow that depends on data: calls of functions, chosen or repeated by the host.

A branch and a loop's body are functions, as layers are: every pass that knows functions knows them.
They stand at every level above kernels; the host reads one element and decides.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import FlatSymbolRefAttrConstr, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import VerifyException

from lpu_mlir.dialects.lpu.types import element_type, extents, i1


class _ControlOp(IRDLOperation):
    """Helpers shared by the verifiers."""

    def check_flag(self, type: Attribute) -> None:
        if element_type(type) != i1 or extents(type):
            raise VerifyException(f"{self.name}: decides by {type}, expected one element of i1")

    def check_function(self, ref: SymbolRefAttr, given: Sequence[Attribute]) -> FuncOp:
        """The function of that name; it must take what it is given."""
        function = SymbolTable.lookup_symbol(self, ref)
        if not isinstance(function, FuncOp):
            raise VerifyException(f"{self.name}: no function is called {ref}")
        expected = tuple(function.function_type.inputs)
        if expected != tuple(given):
            told = [", ".join(map(str, types)) for types in (expected, given)]
            raise VerifyException(f"{self.name}: {ref} takes ({told[0]}), got ({told[1]})")
        return function


@irdl_op_definition
class IfOp(_ControlOp):
    """Calls one of two functions, as an element says; both take and give the same.

    Before bufferisation the results are tensors; after it their buffers are the last arguments.

    ```mlir
    %r = lpu.if %p then @f else @g(%x) : tensor<i1>, (tensor<4xf32>) -> (tensor<4xf32>)
    ```
    """

    name = "lpu.if"

    flag = operand_def()
    arguments = var_operand_def()
    outputs = var_result_def()
    then_function = prop_def(FlatSymbolRefAttrConstr, prop_name="then")
    else_function = prop_def(FlatSymbolRefAttrConstr, prop_name="else")
    assembly_format = (
        "$flag `then` $then `else` $else `(` $arguments `)` attr-dict"
        " `:` type($flag) `,` `(` type($arguments) `)` `->` `(` type($outputs) `)`"
    )

    def __init__(
        self,
        flag: SSAValue,
        then: str,
        otherwise: str,
        arguments: Sequence[SSAValue],
        result_types: Sequence[Attribute],
    ):
        super().__init__(
            operands=[flag, arguments],
            result_types=[result_types],
            properties={"then": SymbolRefAttr(then), "else": SymbolRefAttr(otherwise)},
        )

    def verify_(self) -> None:
        self.check_flag(self.flag.type)
        for ref in (self.then_function, self.else_function):
            function = self.check_function(ref, self.arguments.types)
            given = tuple(function.function_type.outputs)
            if given != tuple(self.outputs.types):
                raise VerifyException(f"{self.name}: {ref} gives {given}")


@irdl_op_definition
class WhileOp(_ControlOp):
    """Calls a function as long as another one says so.

    `condition` takes what is carried and what is captured, and gives an element of i1; `body` takes
    the same, writes the next values back to what is carried, and gives nothing.  Before
    bufferisation the results are what is carried in the end, and the operands stay as they are;
    after it the loop changes the buffers of what it carries, and the condition goes to `into`.

    ```mlir
    %n = lpu.while @c do @b(%x)(%w) : (tensor<i64>), (tensor<4xf32>) -> (tensor<i64>)
    ```
    """

    name = "lpu.while"

    carried = var_operand_def()
    captured = var_operand_def()
    into = opt_operand_def()
    outputs = var_result_def()
    condition = prop_def(FlatSymbolRefAttrConstr)
    body = prop_def(FlatSymbolRefAttrConstr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$condition `do` $body `(` $carried `)` `(` $captured `)` (`into` $into^ `:` type($into))?"
        " attr-dict `:` `(` type($carried) `)` `,` `(` type($captured) `)`"
        " `->` `(` type($outputs) `)`"
    )

    def __init__(
        self,
        condition: str,
        body: str,
        carried: Sequence[SSAValue],
        captured: Sequence[SSAValue],
        into: SSAValue | None = None,
    ):
        results: list[Attribute] = [] if into is not None else [v.type for v in carried]
        super().__init__(
            operands=[carried, captured, into],
            result_types=[results],
            properties={"condition": SymbolRefAttr(condition), "body": SymbolRefAttr(body)},
        )

    def verify_(self) -> None:
        given = (*self.carried.types, *self.captured.types)
        if self.into is None:
            function = self.check_function(self.condition, given)
            (flag,) = function.function_type.outputs.data or (None,)
            if flag is None:
                raise VerifyException(f"{self.name}: {self.condition} gives no condition")
            self.check_flag(flag)
            if tuple(self.outputs.types) != tuple(self.carried.types):
                raise VerifyException(f"{self.name}: gives other types than it carries")
        else:
            self.check_flag(self.into.type)
            self.check_function(self.condition, (*given, self.into.type))
        body = self.check_function(self.body, given)
        if body.function_type.outputs.data:
            raise VerifyException(f"{self.name}: {self.body} must give nothing")
