"""Works that are one call of a module: what each needs, and how it is checked against eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from time import perf_counter

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from bench.systems import BUILDERS, Inputs
from bench.worker import Demand, Ready

TOLERANCE = 1e-3
"""Largest difference from eager, as a part of eager's largest element, in float32."""

Make = Callable[[], tuple[nn.Module, Inputs]]


class WrongResult(Exception):
    """A system's result is not eager's."""


def difference(results: Sequence[Tensor], expected: Sequence[Tensor], allowed: float) -> float:
    """The largest difference, as a part of the largest element; WrongResult if it is too large."""
    worst = 0.0
    for result, wanted in zip(results, expected, strict=True):
        scale = wanted.float().abs().max().item() or 1.0
        off = (result.float() - wanted.float()).abs().max().item() / scale
        if not off <= allowed:  # nor is NaN
            raise WrongResult(f"differs from eager by {off:.1e} of the largest element")
        worst = max(worst, off)
    return worst


def tensor_bytes(tensors: Sequence[Tensor]) -> int:
    return sum(t.nbytes for t in {id(t): t for t in tensors}.values())


def demand(module: nn.Module, inputs: Inputs) -> Demand:
    """What a call must read, write and compute."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        output: Tensor = module(*inputs)
    weights = tensor_bytes([*module.parameters(), *module.buffers()])
    return Demand(weights, tensor_bytes([*inputs, output]), counter.get_total_flops())


def forward(make: Make) -> Callable[[str], Ready]:
    """One call in inference."""

    def prepare(system: str) -> Ready:
        module, inputs = make()
        module.eval()
        with torch.no_grad():
            expected = [module(*inputs)]
            start = perf_counter()
            program = BUILDERS[system](module, inputs, False)
            placed = [program.place(tensor) for tensor in inputs]
            results = program.call(*placed)
            seconds = perf_counter() - start

            def run() -> object:
                with torch.no_grad():
                    return program.call(*placed)

            off = difference(results, expected, TOLERANCE)
        return Ready(run, seconds, off, demand(module, inputs))

    return prepare


# --- element-wise -------------------------------------------------------------------------------

FLOATS = 16 << 20


class Chain(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x * 1.5 + 0.5) * torch.sigmoid(x) + x


class Gelu(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x * 1.1 + 0.1, approximate="tanh") * x


class Rows(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        return F.softmax(self.norm(x), -1)


class Successor(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


chain = forward(lambda: (Chain(), (torch.randn(FLOATS),)))
gelu = forward(lambda: (Gelu(), (torch.randn(FLOATS),)))
rows = forward(lambda: (Rows(1024), (torch.randn(8192, 1024),)))
call = forward(lambda: (Successor(), (torch.randn(8),)))


# --- transformer --------------------------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.inward, self.outward = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        split = self.inward(x).unflatten(-1, (3, self.heads, -1))
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind()
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.outward(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(width), Attention(width, heads))
        self.inner = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(x)
        return x + self.inner(x)


def gpt(tokens: int) -> tuple[nn.Module, Inputs]:
    """GPT-2's 12 layers, without its embeddings."""
    return nn.Sequential(*(Block(768, 12) for _ in range(12))), (torch.randn(1, tokens, 768),)


gpt_token = forward(lambda: gpt(1))
gpt_prompt = forward(lambda: gpt(128))


# --- pictures -----------------------------------------------------------------------------------


def normed(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """A convolution that keeps the size but for its stride, and a batch norm."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    )


def settled(*layers: nn.Module, size: int) -> tuple[nn.Module, Inputs]:
    """A network whose batch norms have the statistics of its input, as trained ones have: with
    others, differences would vanish on the way."""
    module, x = nn.Sequential(*layers), torch.randn(1, 3, size, size)
    for norm in module.modules():
        if isinstance(norm, nn.BatchNorm2d):
            norm.momentum = 1.0
    with torch.no_grad():
        module.train()(x)
    return module, (x,)


def convolution_stack() -> tuple[nn.Module, Inputs]:
    widths = (3, 32, 64, 64, 32)
    layers = [nn.Sequential(normed(a, b, 3), nn.ReLU()) for a, b in pairwise(widths)]
    return settled(*layers, size=128)


class Residual(nn.Module):
    """ResNet's basic block."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.body = nn.Sequential(
            normed(inputs, outputs, 3, stride), nn.ReLU(), normed(outputs, outputs, 3)
        )
        same = inputs == outputs and stride == 1
        self.skip = nn.Identity() if same else normed(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.skip(x))


def resnet_18() -> tuple[nn.Module, Inputs]:
    layers: list[nn.Module] = [normed(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Residual(inputs, outputs, stride), Residual(outputs, outputs, 1)]
        inputs = outputs
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)]
    return settled(*layers, size=224)


class Inverted(nn.Module):
    """MobileNetV2's block: widen, filter each channel, narrow."""

    def __init__(self, inputs: int, outputs: int, stride: int, factor: int):
        super().__init__()
        inner = inputs * factor
        widen = [normed(inputs, inner, 1), nn.ReLU6()] if factor > 1 else []
        filtered = [normed(inner, inner, 3, stride, groups=inner), nn.ReLU6()]
        self.body = nn.Sequential(*widen, *filtered, normed(inner, outputs, 1))
        self.same = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.same else self.body(x)


MOBILENET = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Factor, channels, blocks and first stride of each stage, as published."""


def mobilenet_v2() -> tuple[nn.Module, Inputs]:
    layers: list[nn.Module] = [normed(3, 32, 3, 2), nn.ReLU6()]
    inputs = 32
    for factor, outputs, blocks, stride in MOBILENET:
        for i in range(blocks):
            layers.append(Inverted(inputs, outputs, stride if i == 0 else 1, factor))
            inputs = outputs
    layers += [normed(320, 1280, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return settled(*layers, nn.Linear(1280, 1000), size=224)


convolutions = forward(convolution_stack)
resnet = forward(resnet_18)
mobilenet = forward(mobilenet_v2)
