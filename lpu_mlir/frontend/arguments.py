"""The arguments of a host call as attributes, and back.

Nothing here is pickled: the attributes print, parse and compare like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import torch
from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    f64,
)
from xdsl.ir import Attribute, SSAValue

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu import ExprAttr, OperandAttr, TorchAttr, i1, i64
from lpu_mlir.frontend.builder import FloatScalar, as_value
from lpu_mlir.frontend.calls import Comparison, Item, Operand, evaluate_all

ITEM, COMPLEX = "item", "complex"
"""Keys of the dictionaries that stand for the number in a 0-d operand and for a complex number."""

RELATIONS: Mapping[str, str] = {
    "Equality": "eq",
    "Unequality": "ne",
    "StrictLessThan": "lt",
    "LessThan": "le",
    "StrictGreaterThan": "gt",
    "GreaterThan": "ge",
}
"""SymPy class name -> key of the dictionary that stands for a comparison of two expressions."""


def encode_arguments(
    args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[SSAValue], dict[str, Attribute]]:
    """(operands, arguments) of a host call; TypeError for a value that has no encoding.

    Positional arguments stand under "0", "1", …, keyword arguments under their names.
    """
    operands: list[SSAValue] = []
    named = {**{str(i): a for i, a in enumerate(args)}, **kwargs}
    return operands, {name: _encode(value, operands) for name, value in named.items()}


def _operand(value: SSAValue, operands: list[SSAValue]) -> OperandAttr:
    operands.append(value)
    return OperandAttr(len(operands) - 1)


def _encode(value: Any, operands: list[SSAValue]) -> Attribute:
    match value:
        case None:
            return UnitAttr()
        case SSAValue():
            return _operand(as_value(value), operands)
        case FloatScalar():
            return DictionaryAttr({ITEM: _operand(value.value, operands)})
        case bool():
            return BoolAttr.from_bool(value)
        case int():
            return IntegerAttr(value, i64)
        case float():
            return FloatAttr(value, f64)
        case complex():
            parts = ArrayAttr([FloatAttr(value.real, f64), FloatAttr(value.imag, f64)])
            return DictionaryAttr({COMPLEX: parts})
        case str():
            return StringAttr(value)
        case Expr():
            fixed = value.constant()
            return ExprAttr(value) if fixed is None else IntegerAttr(fixed, i64)
        case Comparison():
            sides = ArrayAttr([ExprAttr(value.lhs), ExprAttr(value.rhs)])
            return DictionaryAttr({value.kind: sides})
        case list() | tuple():
            items = cast("Sequence[Any]", value)
            return ArrayAttr([_encode(item, operands) for item in items])
        case torch.dtype() | torch.layout() | torch.memory_format():
            return TorchAttr(str(value).removeprefix("torch."))
        case torch.device():
            return TorchAttr(f"device:{value}")
        case _:
            raise TypeError(f"a {type(value).__name__} cannot be an argument of a host call")


def plain_arguments(arguments: Mapping[str, Attribute]) -> dict[str, Any]:
    """The arguments of a host call as plain data, see `calls.py`."""
    return {name: _plain(attr) for name, attr in arguments.items()}


def decode_arguments(
    arguments: Mapping[str, Attribute],
    operands: Sequence[torch.Tensor],
    symbols: Mapping[str, int],
) -> tuple[list[Any], dict[str, Any]]:
    """(args, kwargs) for the operator, from the attributes, operands and values of the symbols."""
    return evaluate_all(plain_arguments(arguments), operands, symbols)


def _plain(attr: Attribute) -> Any:
    match attr:
        case UnitAttr():
            return None
        case OperandAttr():
            return Operand(attr.data)
        case ExprAttr() | StringAttr():
            return attr.data
        case IntegerAttr():
            return bool(attr.value.data) if attr.type == i1 else attr.value.data
        case FloatAttr():
            return attr.value.data
        case TorchAttr():
            return _torch_constant(attr.data)
        case ArrayAttr():
            return tuple(map(_plain, attr.data))
        case DictionaryAttr():
            [(key, inner)] = attr.data.items()
            return _PLAIN_DICTIONARY[key](_plain(inner))
        case _:
            raise TypeError(f"{attr} is no argument of a host call")


def _comparison(kind: str, sides: Sequence[Expr]) -> Comparison:
    return Comparison(kind, *sides)


_PLAIN_DICTIONARY: Mapping[str, Callable[[Any], Any]] = {
    ITEM: Item,
    COMPLEX: lambda parts: complex(*parts),
    **{kind: partial(_comparison, kind) for kind in RELATIONS.values()},
}


def _torch_constant(name: str) -> Any:
    """A dtype, layout, memory format or device by name; ValueError for anything else."""
    kind, _, rest = name.partition(":")
    if kind == "device":
        return torch.device(rest)
    value = getattr(torch, name, None)
    if not isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        raise ValueError(f"'{name}' is no dtype, layout, memory format or device of torch")
    return value
