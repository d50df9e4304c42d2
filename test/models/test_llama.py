"""Llama on a static cache: random weights with two layers, then SmolLM2 with its trained ones."""

from dataclasses import dataclass

import pytest
import torch
from smollm2 import Step, generate, load, make_cache
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

import lpu_mlir

pytestmark = pytest.mark.slow

ROOM = 24


@pytest.fixture(autouse=True, scope="module")
def inference():
    """Dynamo compiles again when gradients are switched on or off."""
    with torch.no_grad():
        yield


@dataclass
class Compiled:
    """A model and its compiled step, with the graphs that there are after two prompts."""

    model: LlamaForCausalLM
    step: object
    warm_up: lpu_mlir.Report

    def eager(self):
        return Step(self.model)

    def cache(self):
        return make_cache(self.model.config, ROOM)


def compile_and_warm_up(model) -> Compiled:
    torch._dynamo.reset()
    step = torch.compile(Step(model), backend="lpu_mlir", fullgraph=True)
    with lpu_mlir.Report() as report:
        for length in (5, 3):
            list(generate(step, prompt(length), make_cache(model.config, ROOM), 2))
    return Compiled(model, step, report)


def prompt(length: int) -> Tensor:
    return torch.arange(length)[None] * 7 % 61 + 3


@pytest.fixture(scope="module")
def llama() -> Compiled:
    """Six query heads for two of keys and values, so that these are shared by three."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=101,
        hidden_size=96,
        intermediate_size=160,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    return compile_and_warm_up(LlamaForCausalLM(config).eval().requires_grad_(False))


def state(cache) -> list[tuple[Tensor, Tensor, Tensor]]:
    return [(layer.keys, layer.values, layer.cumulative_length) for layer in cache.layers]


def test_three_graphs_serve_every_length(llama: Compiled):
    assert len(llama.warm_up.graphs) == 3
    assert [graph.runs for graph in llama.warm_up.graphs] == [1, 2, 1]
    assert llama.warm_up.fallbacks == []
    assert llama.warm_up.graph_breaks == {}
    symbolic = ["#lpu.symbol<" in graph.ir("import") for graph in llama.warm_up.graphs]
    assert symbolic == [False, False, True]


def test_equal_layers_are_compiled_once(llama: Compiled):
    for graph in llama.warm_up.graphs:
        assert graph.ir("outline").count("func.func") == 2
        assert graph.ir("outline").count("func.call") == 2


@pytest.mark.parametrize("length", [5, 3, 2, 17, 1])
def test_prefill_equals_eager(llama: Compiled, length: int):
    ours, theirs = llama.cache(), llama.cache()
    ids, positions = prompt(length), torch.arange(length)[None]
    with lpu_mlir.Report() as report:
        got = llama.step(ids, positions, ours)
    torch.testing.assert_close(got, llama.eager()(ids, positions, theirs))
    torch.testing.assert_close(state(ours), state(theirs))
    [graph] = report.graphs
    assert any(graph.compiled is known.compiled for known in llama.warm_up.graphs)
    assert graph.runs == 1


def test_steps_equal_eager(llama: Compiled):
    ours, theirs = llama.cache(), llama.cache()
    with lpu_mlir.Report() as report:
        got = list(generate(llama.step, prompt(4), ours, 8))
    ids = [token.id for token in got]
    expected = list(generate(llama.eager(), prompt(4), theirs, 8, forced=ids))
    assert ids == [token.id for token in expected]
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a.logits, b.logits)
    torch.testing.assert_close(state(ours), state(theirs))
    assert sorted(graph.runs for graph in report.graphs) == [1, 7]


def test_step_writes_one_slice_in_place(llama: Compiled):
    cache, length = llama.cache(), 6
    list(generate(llama.step, prompt(length), cache, 1))
    tensors = [tensor for entry in state(cache) for tensor in entry]
    before, places = [t.clone() for t in tensors], [t.data_ptr() for t in tensors]
    llama.step(prompt(1), torch.tensor([[length]]), cache)
    after = [tensor for entry in state(cache) for tensor in entry]
    assert [t.data_ptr() for t in after] == places
    others = torch.arange(ROOM) != length
    for old, new in zip(before, after, strict=True):
        if new.ndim == 4:
            assert torch.equal(new[:, :, others], old[:, :, others])
            assert not torch.equal(new[:, :, length], old[:, :, length])
        else:
            # Read for the index of the slice, then overwritten.
            assert int(new) == int(old) + 1 == length + 1


def test_step_launches_few_kernels(llama: Compiled):
    step = llama.warm_up.graphs[1]
    assert sum(kernel.launches for kernel in step.kernels) // step.runs <= 6 * 2 + 4


def answers(
    model, tokenizer, text: str, count: int
) -> tuple[list[int], list[int], lpu_mlir.Report]:
    """Tokens of the compiled model and of eager, and what the former did."""
    torch._dynamo.reset()
    step = torch.compile(Step(model), backend="lpu_mlir", fullgraph=True)
    ids = torch.tensor([tokenizer.encode(text)])
    with lpu_mlir.Report() as report:
        ours = [t.id for t in generate(step, ids, make_cache(model.config, ROOM), count)]
    theirs = [t.id for t in generate(Step(model), ids, make_cache(model.config, ROOM), count)]
    return ours, theirs, report


@pytest.mark.parametrize("layers", [2, 30])
def test_smollm2_answers_as_eager(layers: int):
    model, tokenizer = load(layers=layers)
    ours, theirs, report = answers(model, tokenizer, "The capital of France is", 4)
    assert ours == theirs
    assert [graph.runs for graph in report.graphs] == [1, 3]
    assert report.fallbacks == []
    step = report.graphs[1]
    assert sum(kernel.launches for kernel in step.kernels) // 3 <= 6 * layers + 4
    weights = sum(p.nbytes for p in model.parameters())
    assert sum(kernel.dram_read for kernel in step.kernels) // 3 <= 1.01 * weights
    if layers == 30:
        assert tokenizer.decode(ours).startswith(" Paris")
