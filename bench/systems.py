"""The systems: each makes of a module what can be called again and again.

Inputs are put in place beforehand; results are tensors in host memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bench.works import OURS

Inputs = tuple[Tensor, ...]


@dataclass(frozen=True)
class Program:
    """`place` gives an input the form in which `call` takes it."""

    call: Callable[..., list[Tensor]]
    place: Callable[[Tensor], Any] = lambda tensor: tensor


Builder = Callable[[nn.Module, Inputs, bool], Program]
"""Builds a program for a module and inputs like those to come, in half precision or not."""


def tensors(outputs: Any) -> list[Tensor]:
    return [outputs] if isinstance(outputs, Tensor) else list(outputs)


def eager(module: nn.Module, inputs: Inputs, half: bool) -> Program:
    return Program(lambda *given: tensors(module(*given)))


def compiled(backend: str) -> Builder:
    """A backend of torch.compile."""

    def build(module: nn.Module, inputs: Inputs, half: bool) -> Program:
        function = torch.compile(module, backend=backend, dynamic=False)
        return Program(lambda *given: tensors(function(*given)))

    return build


def onnxruntime(module: nn.Module, inputs: Inputs, half: bool) -> Program:
    import onnxruntime

    if half:
        raise NotImplementedError("ONNX Runtime has no bfloat16 kernels for CPUs")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        torch.onnx.export(module, inputs, file, dynamo=True, external_data=True, verbose=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]

    def call(*given: Any) -> list[Tensor]:
        results = session.run(None, dict(zip(names, given, strict=True)))
        return [torch.from_numpy(result) for result in results]

    return Program(call, Tensor.numpy)


def openvino(module: nn.Module, inputs: Inputs, half: bool) -> Program:
    """With `half` OpenVINO computes in bfloat16; inputs and outputs stay as they are."""
    import openvino

    settings = {
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "INFERENCE_PRECISION_HINT": "bf16" if half else "f32",
    }
    exported = torch.export.export(module, inputs)
    model = openvino.Core().compile_model(openvino.convert_model(exported), "CPU", settings)
    request = model.create_infer_request()

    def call(*given: Any) -> list[Tensor]:
        # Results stay where the request has them; a step that takes them as inputs needs copies.
        results = request.infer(list(given), share_inputs=True, share_outputs=len(given) == 1)
        return [torch.from_numpy(results[i]) for i in range(len(results))]

    return Program(call, Tensor.numpy)


def iree(module: nn.Module, inputs: Inputs, half: bool) -> Program:
    import iree.compiler
    import iree.runtime
    import numpy
    from iree.turbine import aot

    exported = aot.export(module, *inputs)
    code = iree.compiler.compile_str(
        exported.mlir_module.get_asm(),
        target_backends=["llvm-cpu"],
        input_type="torch",
        extra_args=["--iree-llvmcpu-target-cpu=host"],
    )
    iree.runtime.flags.parse_flags(f"--task_topology_max_group_count={torch.get_num_threads()}")
    config = iree.runtime.Config("local-task")
    context = iree.runtime.SystemContext(config=config)
    context.add_vm_module(iree.runtime.VmModule.copy_buffer(context.instance, code))
    function = context.modules.module["main"]

    def call(*given: Any) -> list[Tensor]:
        results = function(*given)
        arrays = results if isinstance(results, list | tuple) else [results]
        return [torch.from_numpy(numpy.array(array.to_host())) for array in arrays]

    return Program(call, lambda tensor: iree.runtime.asdevicearray(config.device, tensor.numpy()))


BACKENDS: Mapping[str, str] = {
    OURS: OURS,
    "inductor": "inductor",
    "aot_eager": "aot_eager",
    "dynamo": "eager",
}
"""System -> the backend of torch.compile that it is."""

EXPORTERS: Mapping[str, Builder] = {
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "iree": iree,
}
"""Systems that take a module without side effects, not any PyTorch program."""

BUILDERS: Mapping[str, Builder] = {
    "eager": eager,
    **{system: compiled(backend) for system, backend in BACKENDS.items()},
    **EXPORTERS,
}
"""All systems."""
