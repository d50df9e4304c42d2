"""A training step: forward, backward and optimiser of a small llama."""

from __future__ import annotations

import copy
from time import perf_counter
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from bench.forward import difference
from bench.systems import BACKENDS
from bench.worker import Demand, Ready

BATCH, TOKENS, VOCABULARY = 4, 64, 1024
TOLERANCE = 1e-3
"""Largest difference of the loss and of gradients, as a part of the largest element."""


def small_llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=256,
            intermediate_size=688,
            num_hidden_layers=2,
            num_attention_heads=8,
            num_key_value_heads=4,
            max_position_embeddings=TOKENS,
            use_cache=False,
        )
    )


def loss_and_gradients(function: Any, model: Any, ids: Tensor) -> list[Tensor]:
    model.zero_grad()
    loss = function(input_ids=ids, labels=ids).loss
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in model.parameters())]


def step(system: str) -> Ready:
    """The model is compiled; the optimiser, AdamW, is PyTorch's own for every system."""
    model = small_llama()
    ids = torch.randint(VOCABULARY, (BATCH, TOKENS))
    twin = copy.deepcopy(model)
    with FlopCounterMode(display=False) as counter:
        expected = loss_and_gradients(twin, twin, ids)
    function = model
    if system in BACKENDS:
        function = torch.compile(model, backend=BACKENDS[system], dynamic=False)
    start = perf_counter()
    results = loss_and_gradients(function, model, ids)
    seconds = perf_counter() - start
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def run() -> object:
        optimiser.zero_grad()
        function(input_ids=ids, labels=ids).loss.backward()
        optimiser.step()
        return None

    weights = sum(p.nbytes for p in model.parameters())
    return Ready(
        run,
        seconds,
        difference(results, expected, TOLERANCE),
        Demand(weights, operations=counter.get_total_flops()),
    )
