"""Host calls: PyTorch operators run in eager between the launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor
from xdsl.dialects.builtin import ArrayAttr, StringAttr

from lpu_mlir.dialects.lpu import HostCallOp, IntsAttr, element_type, extents
from lpu_mlir.frontend.arguments import decode_arguments
from lpu_mlir.frontend.importer import BINDS, ORDERS, STORAGE
from lpu_mlir.frontend.types import DTYPES
from lpu_mlir.frontend.values import counts_in_storage

HostCall: TypeAlias = Callable[[Sequence[Tensor], dict[str, int]], list[Tensor]]


def find_overload(name: str) -> Callable[..., Any]:
    """The operator overload that prints as `name`, such as aten.sort.default.

    Raises LookupError if this PyTorch has none of that name.
    """
    namespace, operator, overload = name.split(".")
    packet = getattr(getattr(torch.ops, namespace), operator, None)
    if packet is None or overload not in packet.overloads():
        raise LookupError(f"PyTorch {torch.__version__} has no operator {name}")
    return getattr(packet, overload)


def make_host_call(op: HostCallOp) -> HostCall:
    """What runs a host call on tensors; it binds the symbols that its results determine."""
    overload = find_overload(op.overload.data)
    arguments = dict(op.arguments.data)
    integers = bound_symbols(op)
    shapes = [extents(result.type) for result in op.outputs]
    dtypes = [DTYPES[element_type(result.type)] for result in op.outputs]
    used = [bool(result.uses) for result in op.outputs]
    counted, whole = counts_in_storage(overload), STORAGE in op.attributes
    orders = memory_orders(op)

    def call(operands: Sequence[Tensor], symbols: dict[str, int]) -> list[Tensor]:
        # Some kernels take dense operands for granted: PyTorch's graph has copies, which are no
        # operations here. Where positions count in the storage, there must be nothing around.
        if counted and not whole:
            operands = [
                operand.clone(memory_format=torch.contiguous_format) for operand in operands
            ]
        elif not whole:
            operands = [operand.contiguous() for operand in operands]
        if orders:
            operands = [arranged(o, order) for o, order in zip(operands, orders, strict=True)]
        args, kwargs = decode_arguments(arguments, operands, symbols)
        values = list(_flat(overload(*args, **kwargs)))
        numbers = [int(v) for v in values if isinstance(v, int)]  # a bool binds as 0 or 1
        symbols.update(zip(integers, numbers, strict=bool(integers)))
        found = [v for v in values if not isinstance(v, int)]
        if len(found) > len(shapes):  # None where the graph knows that there is no tensor
            found = [v for v in found if v is not None]
        tensors: list[Tensor] = []
        for value, shape, dtype, read in zip(found, shapes, dtypes, used, strict=True):
            if not read:  # what eager does not need, its kernels may leave out
                tensors.append(torch.empty(0) if value is None else value)
                continue
            tensor = own(value, operands)
            tensors.append(tensor)
            for size, extent in zip(tensor.shape, shape, strict=True):
                symbols.setdefault(str(extent), size)
            expected = tuple(extent.evaluate(symbols) for extent in shape)
            if tensor.dtype != dtype or tuple(tensor.shape) != expected:
                raise RuntimeError(
                    f"{op.overload.data} gave {tensor.dtype} {tuple(tensor.shape)}, "
                    f"the program was compiled for {dtype} {expected}"
                )
        return tensors

    return call


def memory_orders(op: HostCallOp) -> list[tuple[int, ...]]:
    """How a random operator's operands lie in memory; nothing for other operators."""
    orders = op.attributes.get(ORDERS)
    if not isinstance(orders, ArrayAttr):
        return []
    return [order.data for order in orders.data if isinstance(order, IntsAttr)]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


def arranged(operand: Tensor, order: Sequence[int]) -> Tensor:
    """The tensor with its dims in memory in this order, the outermost first."""
    inverse = sorted(range(len(order)), key=order.__getitem__)
    return operand.permute(*order).contiguous().permute(*inverse)


def bound_symbols(op: HostCallOp) -> list[str]:
    """The symbols that the integers among a host call's results bind, in order."""
    bound = op.attributes.get(BINDS)
    if not isinstance(bound, ArrayAttr):
        return []
    return [s.data for s in bound.data if isinstance(s, StringAttr)]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


def _flat(value: Any) -> Sequence[Any]:
    if isinstance(value, list | tuple):
        return cast("Sequence[Any]", value)
    return (value,)


def own(result: Tensor, operands: Sequence[Tensor]) -> Tensor:
    """A dense tensor with storage of its own: operands live in memory that will be used again."""
    dense = result.resolve_conj().resolve_neg().contiguous()
    storage = dense.untyped_storage().data_ptr()
    if any(operand.untyped_storage().data_ptr() == storage for operand in operands):
        return dense.clone()
    return dense
