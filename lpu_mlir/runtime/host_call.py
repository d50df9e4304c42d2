"""Host calls: PyTorch operators run in eager between the launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.frontend.calls import evaluate_all
from lpu_mlir.frontend.values import counts_in_storage
from lpu_mlir.runtime.layout import Layout

Run: TypeAlias = Callable[[Sequence[Tensor], dict[str, int]], list[Tensor]]
"""From operands and the symbols' values, to which it adds those that it determines, to results."""


FUNCTIONALIZE: Callable[..., Any] = torch.ops.higher_order.auto_functionalized_v2


@dataclass(frozen=True)
class Operator:
    """A call of a PyTorch operator, as data."""

    overload: str
    """As it prints, such as aten.sort.default."""
    arguments: dict[str, Any]
    """See `evaluate_all`."""
    integers: tuple[str, ...]
    """The symbols that the integers among its results bind, in order."""
    results: tuple[Layout, ...]
    """What tensors it gives."""
    read: tuple[bool, ...]
    """Which of them are read; of others only extents may matter, if they are there at all."""
    whole: bool
    """Whether it gets its operands as they lie in memory, gaps included."""
    strides: tuple[tuple[Expr, ...], ...]
    """How eager has the operands in memory; nothing if that is row by row. See `laid_out`."""
    source: str
    """The user's line, or the module or function where no line is known."""
    functionalized: bool = False
    """Whether it changes arguments, but is to change copies, which it gives after its results."""

    def maker(self) -> Run:
        """What runs the call on tensors.

        Raises LookupError if this PyTorch has no operator of that name.
        """
        overload, arguments = find_overload(self.overload), self.arguments
        counted = counts_in_storage(overload) and not self.functionalized
        called = partial(FUNCTIONALIZE, overload) if self.functionalized else overload

        def run(operands: Sequence[Tensor], symbols: dict[str, int]) -> list[Tensor]:
            given = self._arrange(operands, counted, symbols)
            args, kwargs = evaluate_all(arguments, given, symbols)
            try:
                values = called(*args, **kwargs)
            except Exception as error:
                where = f", {self.source}" if self.source else ""
                error.add_note(f"while lpu_mlir ran {self.overload} on the host{where}")
                raise
            return self._results(list(_flat(values)), given, symbols)

        return run

    def _arrange(
        self, operands: Sequence[Tensor], counted: bool, symbols: dict[str, int]
    ) -> Sequence[Tensor]:
        # Some kernels take dense operands for granted: PyTorch's graph has copies, which are no
        # operations here. Where positions count in the storage, there must be nothing around.
        if counted and not self.whole:
            operands = [o.clone(memory_format=torch.contiguous_format) for o in operands]
        elif self.strides and not self.whole:
            pairs = zip(operands, self.strides, strict=True)
            operands = [laid_out(o, [e.evaluate(symbols) for e in strides]) for o, strides in pairs]
        elif not self.whole:
            operands = [operand.contiguous() for operand in operands]
        return operands

    def _results(
        self, values: list[Any], operands: Sequence[Tensor], symbols: dict[str, int]
    ) -> list[Tensor]:
        """The tensors among the results, with storage of their own; binds symbols."""
        # A bool binds as 0 or 1, a float, which is rounded already, as in Python.
        numbers = [int(v) for v in values if isinstance(v, int | float)]
        symbols.update(zip(self.integers, numbers, strict=bool(self.integers)))
        found = [v for v in values if not isinstance(v, int | float)]
        if len(found) > len(self.results):  # None where the graph knows that there is no tensor
            found = [v for v in found if v is not None]
        tensors: list[Tensor] = []
        for value, layout, read in zip(found, self.results, self.read, strict=True):
            if not read:  # what eager does not need, its kernels may leave out
                value = torch.empty(0, device="cpu") if value is None else value
                tensors.append(value)
                if value.dim() == len(layout.shape):
                    bind(value, layout, symbols)
                continue
            tensor = own(value, operands)
            tensors.append(tensor)
            bind(tensor, layout, symbols)
            expected = tuple(extent.evaluate(symbols) for extent in layout.shape)
            if tensor.dtype != layout.dtype or tuple(tensor.shape) != expected:
                raise RuntimeError(
                    f"{self.overload} gave {tensor.dtype} {tuple(tensor.shape)}, "
                    f"the program was compiled for {layout.dtype} {expected}"
                )
        return tensors


def bind(tensor: Tensor, layout: Layout, symbols: dict[str, int]) -> None:
    """Gives symbols without a value that of an extent that they are."""
    for size, extent in zip(tensor.shape, layout.shape, strict=True):
        symbols.setdefault(str(extent), size)


def find_overload(name: str) -> Callable[..., Any]:
    """The operator overload that prints as `name`, such as aten.sort.default.

    Raises LookupError if this PyTorch has none of that name.
    """
    namespace, packet_name, overload = name.split(".")
    packet = getattr(getattr(torch.ops, namespace), packet_name, None)
    if packet is None or overload not in packet.overloads():
        raise LookupError(f"PyTorch {torch.__version__} has no operator {name}")
    return getattr(packet, overload)


def laid_out(operand: Tensor, strides: Sequence[int]) -> Tensor:
    """The tensor with these strides, of which those of extents below 2 do not matter.

    Operators look at them: LAPACK takes a matrix or its transpose, generators draw in the order of
    memory, and what is not dense in another.
    """
    pairs = zip(operand.shape, operand.stride(), strides, strict=True)
    if all(extent < 2 or has == wanted for extent, has, wanted in pairs):
        return operand
    if not _overlaps(operand.shape, strides):
        made = torch.empty_strided(operand.shape, strides, dtype=operand.dtype, device="cpu")
        return made.copy_(operand)
    places = torch.zeros(operand.shape, dtype=torch.int64)
    for dim, (extent, stride) in enumerate(zip(operand.shape, strides, strict=True)):
        places += torch.arange(extent).mul_(stride).view(-1, *[1] * (operand.dim() - dim - 1))
    memory = torch.empty(int(places.max()) + 1, dtype=operand.dtype, device="cpu")
    memory[places] = operand
    return memory.as_strided(operand.shape, strides)


def _overlaps(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements may share memory: there are some, and dims are not one inside the other."""
    if 0 in shape:
        return False
    end = 0
    for stride, extent in sorted((s, n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if stride <= end:
            return True
        end += stride * (extent - 1)
    return False


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
