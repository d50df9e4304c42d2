"""What is asked of PyTorch's values and operators; nothing here knows of IR."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch


def readable(path: str) -> str:
    """Dynamo's name of a local as the user writes it: `L['x']` is `x`."""
    return re.sub(r"L\['(\w+)'\]", r"\1", path)


def described(value: Any) -> str:
    """A value in an error message."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return str(value)


def counts_in_storage(overload: Any) -> bool:
    """Whether an operator takes a position in the storage of its operand, as as_strided does."""
    schema: Any = overload._schema
    return any(argument.name == "storage_offset" for argument in schema.arguments)


def counts_by_strides(kwargs: Mapping[str, Any]) -> bool:
    """Whether a functionalized operator changes a view that is given by strides in a storage."""
    return any(name.endswith("_storage_offset") for name in kwargs)


def flattened(val: Any) -> Sequence[Any]:
    if isinstance(val, list | tuple):
        return val  # pyright: ignore[reportUnknownVariableType]
    return () if val is None else (val,)


def tensors_in(val: Any) -> list[torch.Tensor]:
    return [v for v in flattened(val) if isinstance(v, torch.Tensor)]
