"""What the importer asks about FX nodes and their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch
import torch._higher_order_ops.effects  # pyright: ignore[reportUnusedImport]  # registers with_effects
from torch import fx
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, LocationAttr, StringAttr, UnknownLoc
from xdsl.ir import SSAValue

from lpu_mlir.dialects.lpu import COMPUTED, element_type
from lpu_mlir.frontend.builder import as_value

with_effects = torch.ops.higher_order.with_effects


@cache
def locate(stack_trace: str | None) -> LocationAttr:
    """The innermost frame of a stack trace: the user's line."""
    for line in reversed(stack_trace.splitlines() if stack_trace else ()):
        if (text := line.strip()).startswith('File "'):
            path, _, rest = text[6:].partition('", line ')
            number = rest.partition(",")[0]
            return FileLineColLoc(StringAttr(path), IntAttr(int(number)), IntAttr(0))
    return UnknownLoc()


def source_of(node: fx.Node) -> str | None:
    location = locate(node.meta.get("stack_trace"))
    if not isinstance(location, FileLineColLoc):
        return None
    return f"{location.filename.data}:{location.line.data}"


def described(value: Any) -> str:
    """A value in an error message."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return str(value)


def counts_in_storage(overload: Any) -> bool:
    """Whether an operator takes a position in the storage of its operand, as as_strided does."""
    schema: Any = overload._schema
    return any(argument.name == "storage_offset" for argument in schema.arguments)


def is_token(node: fx.Node) -> bool:
    """Whether a placeholder only orders operators with side effects."""
    users = list(node.users)
    return bool(users) and all(u.target is with_effects and u.args[0] is node for u in users)


def flattened(val: Any) -> Sequence[Any]:
    if isinstance(val, list | tuple):
        return val  # pyright: ignore[reportUnknownVariableType]
    return () if val is None else (val,)


def tensors_in(val: Any) -> list[torch.Tensor]:
    return [v for v in flattened(val) if isinstance(v, torch.Tensor)]


def all_native(args: Sequence[Any], kwargs: Mapping[str, Any], results: Sequence[Any]) -> bool:
    items = [item for value in (*args, *kwargs.values()) for item in flattened(value)]
    types = [as_value(item).type for item in items if isinstance(item, SSAValue)]
    return all(element_type(type_) in COMPUTED for type_ in (*results, *types))
