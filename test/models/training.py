"""Training with and without the compiler: gradients, buffers, and parameters after some steps."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from catalogue import FAMILIES, Inputs, gpt2
from torch import Tensor, nn
from torch.utils import _pytree as pytree

EPSILON = 1e-3
"""Of AdamW: what a gradient must exceed to be taken for more than rounding.  The gradient of a
bias before a batch norm, or of a key's bias, is 0 but for rounding, which AdamW would otherwise
enlarge to steps of full size."""


@dataclass(frozen=True)
class Training:
    """A family to train; `build` replaces the family's, for instance to leave out dropout."""

    family: str
    build: Callable[[], nn.Module] | None = None
    autocast: bool = False
    """Mixed precision with bf16."""
    checkpointing: bool = False
    compiled_optimiser: bool = False
    steps: int = 5
    relative: float = 1e-4
    absolute: float = 1e-5
    """Of gradients, buffers and parameters; the absolute one is a part of the largest element."""

    def make(self) -> tuple[nn.Module, Inputs]:
        family = FAMILIES[self.family]
        torch.manual_seed(0)
        model = (self.build or family.build)().train()
        if self.checkpointing:
            options = {"use_reentrant": False}
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)  # pyright: ignore
        return model, family.inputs()


@dataclass(frozen=True)
class Outcome:
    """What training leaves: losses, the first gradients, and the model's state at the end."""

    losses: list[float]
    gradients: dict[str, Tensor]
    state: dict[str, Tensor]


def loss_of(outputs: Any) -> Tensor:
    """The mean square of every output that depends on parameters."""
    tensors = [t for t in pytree.tree_leaves(outputs) if isinstance(t, Tensor) and t.requires_grad]
    return torch.stack([t.float().square().mean() for t in tensors]).sum()


def train(training: Training, model: nn.Module, inputs: Inputs, backend: str | None) -> Outcome:
    """Trains a copy of the model with the same random numbers each time."""
    model = copy.deepcopy(model)
    rate = torch.tensor(1e-2) if training.compiled_optimiser else 1e-2
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, eps=EPSILON, foreach=False)
    forward = model if backend is None else torch.compile(model, backend=backend)
    step = optimiser.step
    if training.compiled_optimiser and backend is not None:
        step = torch.compile(optimiser.step, backend=backend)
    torch.manual_seed(3)
    losses: list[float] = []
    gradients: dict[str, Tensor] = {}
    for _ in range(training.steps):
        optimiser.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=training.autocast):
            loss = loss_of(forward(**inputs))
        loss.backward()
        losses.append(loss.item())
        if not gradients:
            named = model.named_parameters()
            gradients = {n: p.grad.clone() for n, p in named if p.grad is not None}
        step()
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return Outcome(losses, gradients, {name: t.detach() for name, t in state.items()})


def compare(training: Training, ours: Outcome, eager: Outcome) -> float:
    """The largest difference, as a part of the largest element of its tensor.

    Raises AssertionError where a gradient, buffer or parameter is off.
    """
    assert ours.gradients.keys() == eager.gradients.keys()
    scale = max(g.abs().max().item() for g in eager.gradients.values())
    largest = 0.0
    for kind, mine, theirs, unit in (
        ("gradient", ours.gradients, eager.gradients, scale),
        ("state", ours.state, eager.state, 1.0),
    ):
        for name, expected in theirs.items():
            torch.testing.assert_close(
                mine[name],
                expected,
                rtol=training.relative,
                atol=training.absolute * unit,
                msg=lambda text, kind=kind, name=name: f"{kind} of {name}: {text}",
            )
            if expected.is_floating_point():
                largest = max(largest, (mine[name] - expected).abs().max().item() / unit)
    return largest


NO_DROPOUT: Mapping[str, float] = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
HALF: Mapping[str, float] = {"relative": 2e-2, "absolute": 2e-2}
"""Tolerances where products are rounded to bf16."""

TRAININGS: Mapping[str, Training] = {
    "gpt2": Training("gpt2", lambda: gpt2(**NO_DROPOUT)),
    "gpt2_dropout": Training("gpt2"),
    "gpt2_dropout_checkpointing": Training("gpt2", checkpointing=True),
    "gpt2_autocast": Training("gpt2", lambda: gpt2(**NO_DROPOUT), autocast=True, **HALF),
    "llama": Training("llama"),
    "llama_checkpointing": Training("llama", checkpointing=True),
    "llama_autocast": Training("llama", autocast=True, **HALF),
    "vit": Training("vit"),
    "resnet": Training("resnet"),
    # Its many ReLUs and maxima may fall the other way by rounding, after which steps differ.
    "unet": Training("unet", steps=2),
    "mlp_batch_norm": Training("mlp_batch_norm"),
    "mlp_batch_norm_compiled_optimiser": Training("mlp_batch_norm", compiled_optimiser=True),
}
