"""Models over many lengths and batch sizes: few graphs, and eager's values."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import torch
from catalogue import FAMILIES, VOCABULARY
from smollm2 import Step, make_cache
from torch._dynamo.testing import CompileCounterWithBackend

import lpu_mlir

pytestmark = [
    pytest.mark.slow,
    # Of the libraries that are used: transformers' and PyTorch's own deprecations.
    pytest.mark.filterwarnings("ignore"),
]

SIZES = 20
"""How many pairs of a batch size and a length a model is called with."""


def text(batch: int, length: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(3, VOCABULARY, (batch, length)), "use_cache": False}


def masked(batch: int, length: int) -> dict[str, Any]:
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[0, length // 2 :] = 0
    return {"input_ids": torch.randint(3, VOCABULARY, (batch, length)), "attention_mask": mask}


def speech(batch: int, length: int) -> dict[str, Any]:
    return {
        "input_features": torch.randn(batch, 8, 40),
        "decoder_input_ids": torch.randint(3, VOCABULARY, (batch, length)),
        "use_cache": False,
    }


INPUTS: dict[str, Callable[[int, int], dict[str, Any]]] = {
    "gpt2": text,
    "llama": text,
    "bert": masked,
    "whisper": speech,
}


def sizes(seed: int) -> list[tuple[int, int]]:
    random = Random(seed)
    return [(random.randint(1, 5), random.randint(1, 20)) for _ in range(SIZES)]


def run(name: str, backend: Callable[..., Any]) -> tuple[list[torch.Tensor], int]:
    """The results for all sizes by one backend, and how many graphs it compiled."""
    graphs: list[int] = []

    def counting(gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        graphs.append(len(gm.graph.nodes))
        return backend(gm, inputs)

    torch._dynamo.reset()
    model, _ = FAMILIES[name].make()
    compiled = torch.compile(model, backend=counting)
    torch.manual_seed(1)
    with torch.no_grad():
        results = [compiled(**INPUTS[name](*size))[0] for size in sizes(len(name))]
    return results, len(graphs)


@pytest.mark.parametrize("name", INPUTS)
def test_many_lengths(name: str):
    expected, most = run(name, torch._dynamo.backends.registry.lookup_backend("aot_eager"))
    results, graphs = run(name, lpu_mlir.lpu_mlir)
    assert 0 < graphs <= most
    family = FAMILIES[name]
    for result, value in zip(results, expected, strict=True):
        torch.testing.assert_close(result, value, rtol=family.relative, atol=family.absolute)


@torch.no_grad()
def test_prompts_of_any_length():
    """Into a static cache: a graph for one token, and one for all other lengths."""
    torch._dynamo.reset()
    family = FAMILIES["llama"]
    model, _ = family.make()
    counter = CompileCounterWithBackend(lpu_mlir.lpu_mlir)
    compiled = torch.compile(Step(model), backend=counter, fullgraph=True)

    def call(step: Callable[..., torch.Tensor], ids: torch.Tensor) -> torch.Tensor:
        length = ids.shape[1]
        return step(ids, torch.arange(length)[None], make_cache(model.config, 64))

    counts: list[int] = []
    for length in (1, 8, 64, 2, 63, *range(3, 60, 7), 1):
        ids = torch.randint(3, VOCABULARY, (1, length))
        torch.testing.assert_close(
            call(compiled, ids),
            call(Step(model), ids),
            rtol=family.relative,
            atol=family.absolute,
        )
        counts.append(counter.frame_count)
    assert counts == [1, *[2] * (len(counts) - 1)]
