"""Scalar functions as machine code, applied to tensors element by element."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import llvmlite.binding as llvm
import torch
from torch import Tensor
from xdsl.dialects.builtin import IndexType, i64
from xdsl.ir import Attribute

from lpu_mlir.interpreter.native.llvm import I64, PTR, Builder, Module, Value
from lpu_mlir.interpreter.reference.scalar import DTYPES

Emit = Callable[[Builder, Sequence[Value]], Value]
Compiled = Callable[..., Tensor]


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


def target_machine(triple: str = "", cpu: str = "") -> llvm.TargetMachine:
    """Of this machine, unless a triple is given."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    features = ""
    if not triple:
        cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_triple(triple or llvm.get_default_triple()).create_target_machine(
        cpu=cpu, features=features, opt=2, codemodel="small" if triple else "jitdefault"
    )


def optimized(text: str, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    # Code for one lane is to stay so.
    options.loop_vectorization = options.slp_vectorization = False
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    return module


def module_text(functions: Sequence[Elementwise]) -> str:
    module = Module()
    bodies = [function.text(module) for function in functions]
    return "\n".join([*bodies, module.text()])


def compiled(functions: Sequence[Elementwise]) -> dict[str, Compiled]:
    """Machine code for each, as functions of tensors of any but equal sizes."""
    machine = target_machine()
    engine = llvm.create_mcjit_compiler(optimized(module_text(functions), machine), machine)
    engine.finalize_object()

    def bind(function: Elementwise) -> Compiled:
        kinds = [ctypes.c_void_p] * (len(function.operands) + 1)
        entry = ctypes.CFUNCTYPE(None, *kinds, ctypes.c_int64)(
            engine.get_function_address(function.name)
        )

        def run(*operands: Tensor, keep: llvm.ExecutionEngine = engine) -> Tensor:
            size = operands[0].numel()
            total = -(-size // function.lanes) * function.lanes
            inputs = [
                _padded(x, total, t) for x, t in zip(operands, function.operands, strict=True)
            ]
            out = torch.empty(total, dtype=DTYPES[function.result])
            entry(*(x.data_ptr() for x in inputs), out.data_ptr(), total)
            return out[:size]

        return run

    return {function.name: bind(function) for function in functions}


def _padded(x: Tensor, total: int, type: Attribute) -> Tensor:
    assert x.dtype == DTYPES[type]
    padded = torch.ones(total, dtype=x.dtype)
    padded[: x.numel()] = x.reshape(-1)
    return padded
