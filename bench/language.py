"""Works of SmolLM2-135M with its trained weights and a static cache.

Systems that take any PyTorch program get the model as users write it: the cache is changed in
place.  Exporters get a function without side effects: caches in, caches out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from smollm2 import Step, load
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from bench.forward import difference, tensor_bytes
from bench.systems import BACKENDS, EXPORTERS
from bench.worker import Demand, Ready

TEXT = "The capital of France is Paris, and the capital of Italy is Rome. " * 20
PROMPT, TOKENS = 64, 8
LENGTH = PROMPT + TOKENS
"""Positions of a cache: a turn decodes TOKENS after a prompt of PROMPT."""

OTHERS = (7, 8)
"""Lengths of the prompts that a graph for any length was compiled with."""

TOLERANCES = {torch.float32: 1e-3, torch.bfloat16: 5e-2}
"""Largest difference of logits, as a part of the largest: rounding goes through 30 layers."""


@dataclass(frozen=True)
class Language:
    """The model, a prompt, and a cache."""

    model: Any
    prompt: Tensor
    cache: Any

    @staticmethod
    def make(dtype: torch.dtype = torch.float32, prompt: int = PROMPT) -> Language:
        from transformers import StaticCache

        model, tokenizer = load()
        model = model.to(dtype)
        tokens = torch.tensor([tokenizer.encode(TEXT)[:prompt]])
        config = model.config
        cache = StaticCache(config=config, max_cache_len=prompt + TOKENS)
        size = config.hidden_size // config.num_attention_heads
        cache.early_initialization(1, config.num_key_value_heads, size, dtype, torch.device("cpu"))
        return Language(model, tokens, cache)

    def rewind(self, position: int) -> None:
        """The cache as it was when it held so many positions; what lies behind is masked."""
        for layer in self.cache.layers:
            layer.cumulative_length.fill_(position)

    def caches(self) -> list[Tensor]:
        return [t for layer in self.cache.layers for t in (layer.keys, layer.values)]

    def weights(self) -> int:
        return tensor_bytes([*self.model.parameters()])


class Functional(nn.Module):
    """A step without side effects: token ids, the position of the first, and the caches give
    logits and new caches."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, start: Tensor, *caches: Tensor) -> tuple[Tensor, ...]:
        from transformers import StaticCache

        config = self.model.config
        cache: Any = StaticCache(config=config, max_cache_len=LENGTH)
        pairs = zip(caches[::2], caches[1::2], strict=True)
        for layer, (keys, values) in zip(cache.layers, pairs, strict=True):
            layer.lazy_initialization(keys, values)
            layer.keys, layer.values = keys.clone(), values.clone()
            layer.cumulative_length = start.clone()
        positions = (torch.arange(ids.shape[1]) + start)[None]
        logits = self.model(ids, cache=cache, position_ids=positions, use_cache=True).logits
        return (logits, *(t for layer in cache.layers for t in (layer.keys, layer.values)))


# --- steps --------------------------------------------------------------------------------------

Stepper = Callable[[Tensor, int], Tensor]
"""From token ids and the position of the first to logits; keeps the cache."""


def in_place(system: str, language: Language, dynamic: bool | None = False) -> Stepper:
    """By eager or a backend of torch.compile."""
    step: Any = Step(language.model)
    if system in BACKENDS:
        step = torch.compile(step, backend=BACKENDS[system], dynamic=dynamic)

    def call(ids: Tensor, start: int) -> Tensor:
        positions = torch.arange(start, start + ids.shape[1])[None]
        with torch.no_grad():
            return step(ids, positions, language.cache)

    return call


def exported(system: str, language: Language, ids: Tensor, half: bool) -> Stepper:
    """By an exporter, for so many tokens as `ids` has."""
    inputs = (ids, torch.tensor(0), *language.caches())
    with torch.no_grad():
        program = EXPORTERS[system](Functional(language.model), inputs, half)
    caches = [program.place(tensor.clone()) for tensor in language.caches()]

    def call(ids: Tensor, start: int) -> Tensor:
        given = (program.place(ids), program.place(torch.tensor(start)))
        logits, *new = program.call(*given, *caches)
        caches[:] = map(program.place, new)
        return logits

    return call


def stepper(system: str, language: Language, ids: Tensor, half: bool) -> Stepper:
    if system in EXPORTERS:
        return exported(system, language, ids, half)
    return in_place(system, language)


def decode(dtype: torch.dtype, label: str) -> Ready:
    """Steps of one token after a prompt, on the tokens that eager chooses.

    A label may name another dtype than the work's, after a space.
    """
    system, _, other = label.partition(" ")
    dtype = getattr(torch, other) if other else dtype
    # Exporters get float32: their runtimes know how to compute in halves, and torch's hosts do not.
    language = Language.make(torch.float32 if system in EXPORTERS else dtype)
    logits = in_place("eager", language)
    expected = [logits(language.prompt, 0)]
    tokens: list[Tensor] = []
    for k in range(TOKENS):
        tokens.append(expected[-1][:, -1:].argmax(-1))
        expected.append(logits(tokens[-1], PROMPT + k))
    language.rewind(PROMPT)
    start = perf_counter()
    step = stepper(system, language, tokens[0], dtype == torch.bfloat16)
    results = [step(tokens[0], PROMPT)]
    seconds = perf_counter() - start
    results += [step(tokens[k], PROMPT + k) for k in range(1, TOKENS)]

    def run() -> object:
        return [step(token, PROMPT + k) for k, token in enumerate(tokens)]

    return Ready(
        run,
        seconds,
        difference(results, expected[1:], TOLERANCES[dtype]),
        Demand(language.weights()),
        TOKENS,
        lambda: language.rewind(PROMPT),
    )


def by_eager(language: Language) -> tuple[Tensor, Demand]:
    """The logits for a whole prompt, and what they take."""
    with FlopCounterMode(display=False) as counter:
        logits = in_place("eager", language)(language.prompt, 0)
    language.rewind(0)
    return logits, Demand(language.weights(), logits.nbytes, counter.get_total_flops())


def prefill(system: str) -> Ready:
    """The first call, of a whole prompt."""
    language = Language.make()
    expected, demand = by_eager(language)
    start = perf_counter()
    step = stepper(system, language, language.prompt, False)
    result = step(language.prompt, 0)
    return Ready(
        lambda: step(language.prompt, 0),
        perf_counter() - start,
        difference([result], [expected], TOLERANCES[torch.float32]),
        demand,
        reset=lambda: language.rewind(0),
    )


def any_length(prompt: int, label: str) -> Ready:
    """A prompt, by what was compiled for other lengths; after a space, "static": for its own."""
    system, _, static = label.partition(" ")
    language = Language.make(prompt=prompt)
    expected, demand = by_eager(language)
    start = perf_counter()
    step = in_place(system, language, dynamic=False if static else None)
    for length in () if static else OTHERS:
        language.rewind(0)
        step(language.prompt[:, :length], 0)
    language.rewind(0)
    result = step(language.prompt, 0)
    return Ready(
        lambda: step(language.prompt, 0),
        perf_counter() - start,
        difference([result], [expected], TOLERANCES[torch.float32]),
        demand,
        reset=lambda: language.rewind(0),
    )


any_64, any_256 = partial(any_length, 64), partial(any_length, 256)
decode_f32 = partial(decode, torch.float32)
decode_bf16 = partial(decode, torch.bfloat16)


# --- figures from processes of their own --------------------------------------------------------


def first_calls(system: str) -> float:
    """Seconds of the first call for a prompt and the first step."""
    language = Language.make()
    start = perf_counter()
    step = in_place(system, language)
    step(language.prompt, 0)
    step(language.prompt[:, :1], PROMPT)
    return perf_counter() - start


compile_cold = compile_cached = first_calls


def memory(system: str) -> float:
    """The most bytes that the process ever had, after a prompt and some steps."""
    language = Language.make()
    step = in_place(system, language)
    step(language.prompt, 0)
    for k in range(TOKENS):
        step(language.prompt[:, :1], PROMPT + k)
    status = Path("/proc/self/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return float(line.split()[1]) * 1024
