"""Kernels from text, on the reference interpreter and as machine code."""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from xdsl.context import Context
from xdsl.dialects import arith, builtin, math
from xdsl.dialects.builtin import DYNAMIC_INDEX, NoneAttr, StridedLayoutAttr
from xdsl.ir import SSAValue
from xdsl.parser import Parser

from lpu_mlir.dialects.lpu import Lpu
from lpu_mlir.dialects.lpu_kernel import KernelOp, LpuKernel
from lpu_mlir.interpreter.native.compile import Loader, host
from lpu_mlir.interpreter.native.kernel import emit_kernel, prepare_kernel
from lpu_mlir.interpreter.native.machine import Machine
from lpu_mlir.interpreter.reference import CompiledKernel, InterpreterParams, LaunchStats, Memory
from lpu_mlir.model.traffic import moved_bytes

TOLERANCE = {
    torch.float16: (1e-2, 1e-2),
    torch.bfloat16: (4e-2, 4e-2),
    torch.float32: (2e-5, 2e-5),
    torch.float64: (1e-12, 1e-12),
}
"""Relative and absolute: sums are joined in another order, functions are rounded otherwise."""

_FUNCTION = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
)


def parse_kernel(text: str) -> KernelOp:
    """The one kernel of a text, verified. `!t<...>` and `#m` abbreviate tile and memory space."""
    context = Context()
    for dialect in (builtin.Builtin, arith.Arith, math.Math, Lpu, LpuKernel):
        context.load_dialect(dialect)
    text = text.replace("!t<", "!lpu_kernel.tile<").replace("#m", '"shared_dram"')
    module = Parser(context, text).parse_module()
    module.verify()
    (op,) = module.body.block.ops
    assert isinstance(op, KernelOp)
    return op


def launch(
    text: str, *args: Tensor | int, memory: Memory | None = None, **params: Any
) -> LaunchStats:
    """Runs a kernel on the reference interpreter and, where that raises nothing, as machine code on
    copies of the arguments, which must come out alike; and counts what it moves without running."""
    op = parse_kernel(text)
    copies = [
        as_typed(arg, parameter) for arg, parameter in zip(copied(args), op.args, strict=True)
    ]
    stats = CompiledKernel(op).launch(args, memory or Memory(), InterpreterParams(**params))
    launch_native(op, copies)
    assert_alike(copies, args)
    indices = [arg for arg in args if isinstance(arg, int)]
    assert moved_bytes(op, indices) == (stats.dram_read, stats.dram_written)
    return stats


def copied(args: Sequence[Tensor | int]) -> list[Tensor | int]:
    """The arguments on other storages; those that share one still do."""
    storages: dict[int, Any] = {}

    def copy(tensor: Tensor) -> Tensor:
        own = tensor.untyped_storage()
        storage = storages.setdefault(own._cdata, own.clone())
        empty = torch.empty(0, dtype=tensor.dtype)
        return empty.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())

    return [copy(arg) if isinstance(arg, Tensor) else arg for arg in args]


def as_typed(arg: Tensor | int, parameter: SSAValue) -> Tensor | int:
    """The argument, made dense where the kernel's type says so: the reference takes any layout."""
    type: Any = parameter.type
    if isinstance(arg, int) or isinstance(type.layout, StridedLayoutAttr):
        return arg
    return arg.contiguous()


def assert_alike(actual: Sequence[Tensor | int], expected: Sequence[Tensor | int]) -> None:
    for got, wanted in zip(actual, expected, strict=True):
        if isinstance(got, Tensor) and isinstance(wanted, Tensor):
            rtol, atol = TOLERANCE.get(got.dtype, (0, 0))
            torch.testing.assert_close(got, wanted, rtol=rtol, atol=atol, equal_nan=True)


def launch_native(
    op: KernelOp, args: Sequence[Tensor | int], machine: Machine | None = None, cores: int = 2
) -> list[tuple[str, str]]:
    """Runs a kernel as machine code on this thread; the first check that failed, if one did.

    Arguments may overlap: their memory is not copied, and the kernel is told that it may be shared.
    """
    prepared = prepare_kernel(op, cores)
    prepared.verify()
    native = emit_kernel(prepared, machine or host(), lambda a, b: True)
    code = Loader(machine or host()).load(native.text, [name for name, _ in native.phases])
    block = np.array([*argument_block(op, args), 0], np.int64)
    scratch = np.full(native.scratch_bytes + 64, 0xFF, np.uint8)
    fail = np.zeros(2, np.int64)
    start = -(-scratch.ctypes.data // 64) * 64
    for name, count in native.phases:
        function = _FUNCTION(code.addresses[name])
        for low in range(count):  # one core at a time, as any worker may get any range
            function(block.ctypes.data, start, low, low + 1, fail.ctypes.data)
    return [native.checks[int(fail[0]) - 1]] if fail[0] else []


def argument_block(op: KernelOp, args: Sequence[Tensor | int]) -> list[int]:
    """What the functions of a kernel take as their first argument."""
    block: list[int] = []
    for arg, parameter in zip(args, op.args, strict=True):
        if isinstance(arg, int):
            block.append(arg)
            continue
        type: Any = parameter.type
        block.append(arg.data_ptr())
        pairs = zip(arg.shape, type.get_shape(), strict=True)
        block += [size for size, static in pairs if static == DYNAMIC_INDEX]
        if isinstance(type.layout, StridedLayoutAttr):
            pairs = zip(arg.stride(), type.layout.strides.data, strict=True)
            block += [stride for stride, static in pairs if isinstance(static, NoneAttr)]
    return block
