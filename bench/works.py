"""What is measured: the works, the systems, and which system can do which work.

Imports nothing heavy, so that the driver stays small; the works themselves are in the modules that
`Work.target` names, which the workers import.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

OURS = "lpu_mlir"
PEERS = ("eager", "inductor", "onnxruntime", "openvino", "iree")
"""What a user may take instead; the best of these is the "best peer"."""

STATIC = "lpu_mlir static"

COMPILERS = (OURS, "eager", "inductor")
"""The systems that take any PyTorch program."""

EVERY = (OURS, *PEERS)

NAMES: Mapping[str, str] = {
    OURS: "lpu_mlir",
    "eager": "eager",
    "inductor": "Inductor",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "iree": "IREE",
    "aot_eager": "aot_eager",
    "dynamo": "Dynamo alone",
    "lpu_mlir float32": "lpu_mlir in float32",
    STATIC: "lpu_mlir for this length",
}
"""System -> how it is called in tables."""

MODULES: Mapping[str, tuple[str, ...]] = {
    "onnxruntime": ("onnxruntime", "onnxscript"),
    "openvino": ("openvino",),
    "iree": ("iree.compiler", "iree.runtime", "iree.turbine"),
}
"""Peer -> the Python modules that it needs."""


@dataclass(frozen=True)
class Unit:
    """How figures are shown: `scale` of these make one second, or one byte."""

    name: str
    scale: float


MILLISECONDS = Unit("ms", 1e3)
MICROSECONDS = Unit("µs", 1e6)
SECONDS = Unit("s", 1.0)
MEGABYTES = Unit("MB", 1e-6)


@dataclass(frozen=True)
class Work:
    """One row of the table."""

    title: str
    target: str
    """What makes the work ready in a worker, as `module:name`."""
    systems: tuple[str, ...] = EVERY
    unit: Unit = MILLISECONDS


WORKS: Mapping[str, Work] = {
    "chain": Work("element-wise chain (relu, sigmoid), 16M floats", "bench.forward:chain"),
    "gelu": Work("element-wise chain (gelu), 16M floats", "bench.forward:gelu"),
    "rows": Work("layer norm + softmax, 8192 x 1024", "bench.forward:rows"),
    "gpt-1": Work("12-layer GPT stack, 1 token", "bench.forward:gpt_token"),
    "gpt-128": Work("12-layer GPT stack, 128 tokens", "bench.forward:gpt_prompt"),
    "decode-f32": Work("SmolLM2 decode, float32, per token", "bench.language:decode_f32"),
    "decode-bf16": Work(
        "SmolLM2 decode, bfloat16, per token",
        "bench.language:decode_bf16",
        (OURS, "lpu_mlir float32", "eager", "inductor", "onnxruntime", "openvino"),
    ),
    "prefill": Work("SmolLM2 prefill, 64 tokens", "bench.language:prefill"),
    "any-64": Work(
        "SmolLM2 prefill, any length: 64 tokens", "bench.language:any_64", (*COMPILERS, STATIC)
    ),
    "any-256": Work(
        "SmolLM2 prefill, any length: 256 tokens", "bench.language:any_256", (*COMPILERS, STATIC)
    ),
    "conv": Work("4 x (conv + BN + ReLU), 128 x 128", "bench.forward:convolutions"),
    "mobilenet": Work("MobileNetV2, 224 x 224", "bench.forward:mobilenet"),
    "resnet": Work("ResNet-18, 224 x 224", "bench.forward:resnet"),
    "train": Work("llama training step (2 layers, hidden 256)", "bench.training:step", COMPILERS),
    "call": Work("call of x + 1 on 8 floats", "bench.forward:call", unit=MICROSECONDS),
    "compile-cold": Work(
        "SmolLM2 cold compile, prefill + step",
        "bench.language:compile_cold",
        (OURS, "inductor", "aot_eager"),
        SECONDS,
    ),
    "compile-cached": Work(
        "the same in a second process, cached",
        "bench.language:compile_cached",
        (OURS, "inductor", "dynamo"),
        SECONDS,
    ),
    "memory": Work("SmolLM2 peak memory", "bench.language:memory", COMPILERS, MEGABYTES),
}
"""Name -> work, in the order of the table."""

FRESH: Mapping[str, tuple[str, ...]] = {
    "compile-cold": ("compile-cold",),
    "compile-cached": ("compile-cold", "compile-cached"),
    "memory": ("memory",),
}
"""Works of which every figure takes a process of its own: what these processes do, one after the
other with one set of caches, which are empty at first.  The last one's figure counts."""


def why_not(system: str) -> str | None:
    """Why a system cannot run here, or None."""
    if system == "inductor" and not (os.environ.get("CXX") or shutil.which("g++")):
        return "Inductor needs a C++ compiler, and there is none"
    for module in MODULES.get(system, ()):
        try:
            found = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            found = None
        if found is None:
            return f"{NAMES[system]} is not installed: there is no module {module}"
    return None
