"""Scalar functions as machine code, applied to tensors element by element."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from xdsl.dialects.builtin import IndexType, i64
from xdsl.ir import Attribute

from lpu_mlir.interpreter.native.compile import Code, loader
from lpu_mlir.interpreter.native.llvm import I64, PTR, Builder, Module, Value
from lpu_mlir.interpreter.reference.scalar import DTYPES

Emit = Callable[[Builder, Sequence[Value]], Value]


@dataclass(frozen=True)
class Elementwise:
    """A function of tensors to be: what it computes for so many elements at a time."""

    name: str
    operands: tuple[Attribute, ...]
    result: Attribute
    lanes: int
    emit: Emit

    def text(self, module: Module) -> str:
        """`void name(ptr in, ..., ptr out, i64 elements)`; elements in multiples of the lanes."""
        b = Builder(module)
        *taken, given = [_stored(element) for element in (*self.operands, self.result)]
        pointers = [Value(PTR, f"%p{n}") for n in range(len(self.operands) + 1)]
        count = Value(I64, "%n")
        with b.loop(0, count, self.lanes) as loop:
            values: list[Value] = []
            for pointer, element in zip(pointers, taken, strict=False):
                values.append(b.load(b.address(pointer, loop.index, element), element, self.lanes))
            result = self.emit(b, values)
            b.store(result, b.address(pointers[-1], loop.index, given), given)
        return b.function(self.name, [*pointers, count])


def _stored(element: Attribute) -> Attribute:
    """Memory has no elements of type index."""
    return i64 if element == IndexType() else element


def module_text(functions: Sequence[Elementwise]) -> str:
    module = Module()
    bodies = [function.text(module) for function in functions]
    return "\n".join([*bodies, module.text()])


@dataclass(frozen=True)
class Compiled:
    """Machine code as a function of tensors of any but equal sizes."""

    function: Elementwise
    code: Code  # which is there as long as somebody holds it

    def __call__(self, *operands: Tensor) -> Tensor:
        lanes, size = self.function.lanes, operands[0].numel()
        out = torch.empty(-(-size // lanes) * lanes, dtype=DTYPES[self.function.result])
        types = self.function.operands
        inputs = [_padded(x, len(out), type) for x, type in zip(operands, types, strict=True)]
        self.call(*inputs, out)()
        return out[:size]

    def call(self, *tensors: Tensor) -> Callable[[], None]:
        """A call on contiguous operands and a result, of equal sizes that are multiples of the
        lanes; the caller keeps them, and this."""
        kinds = [ctypes.c_void_p] * len(tensors)
        entry = ctypes.CFUNCTYPE(None, *kinds, ctypes.c_int64)(
            self.code.addresses[self.function.name]
        )
        return partial(entry, *(x.data_ptr() for x in tensors), tensors[-1].numel())


def compiled(functions: Sequence[Elementwise]) -> dict[str, Compiled]:
    """Machine code for each, by name."""
    code = loader().load(module_text(functions), [function.name for function in functions])
    return {function.name: Compiled(function, code) for function in functions}


def _padded(x: Tensor, total: int, type: Attribute) -> Tensor:
    """Of ones at the end, if it does not have so many elements."""
    assert x.dtype == DTYPES[type]
    if x.numel() == total and x.is_contiguous():
        return x
    padded = torch.ones(total, dtype=x.dtype)
    padded[: x.numel()] = x.reshape(-1)
    return padded
