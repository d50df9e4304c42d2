"""The passes on lpu_graph, on what the importer makes of a real decoder, against eager PyTorch."""

from collections import Counter

import pytest
import torch
from functorch.compile import make_boxed_func
from graph_evaluator import run
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache
from xdsl.context import Context
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.passes import PassPipeline
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination

from lpu_mlir.dialects.lpu_graph import TransposeOp, WriteBackOp
from lpu_mlir.frontend.importer import ImportedGraph, import_graph
from lpu_mlir.transforms.outline import OutlinePass
from lpu_mlir.transforms.verify_dominance import check_dominance
from lpu_mlir.transforms.verify_level import check_level

LAYERS = 3


def compile_with(passes: PassPipeline, graphs: list[ImportedGraph]):
    """A backend that runs the passes and evaluates what they leave; keeps the graphs."""

    def compiler(gm: torch.fx.GraphModule, _: object):
        imported = import_graph(gm, fallback="error")
        passes.apply(Context(), imported.module)
        imported.module.verify()
        check_dominance(imported.module)
        check_level(imported.module, "graph")
        graphs.append(imported)
        return make_boxed_func(lambda *inputs: run(imported, inputs))

    def backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]):
        return aot_autograd(
            fw_compiler=compiler,
            inference_compiler=compiler,
            decompositions=dict(core_aten_decompositions()),
            keep_inference_input_mutations=True,
        )(gm, inputs)

    return backend


class Step(torch.nn.Module):
    def __init__(self, model: LlamaForCausalLM):
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, positions: torch.Tensor, cache: StaticCache):
        out = self.model(ids, cache=cache, position_ids=positions, use_cache=True)
        return out.logits


@torch.no_grad()
def logits(step, config: LlamaConfig) -> list[torch.Tensor]:
    """Those of a prompt of three tokens and of two more, through one cache."""
    cache = StaticCache(config=config, max_cache_len=8)
    results = [step(torch.tensor([[5, 1, 7]]), torch.arange(3)[None], cache)]
    for token, position in ((11, 3), (2, 4)):
        results.append(step(torch.tensor([[token]]), torch.tensor([[position]]), cache))
    return results


@pytest.fixture(scope="module")
def config() -> LlamaConfig:
    return LlamaConfig(
        vocab_size=32,
        hidden_size=12,
        intermediate_size=20,
        num_hidden_layers=LAYERS,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=4,
        max_position_embeddings=16,
    )


@pytest.mark.slow
def test_outlined_decoder_with_a_cache_is_what_eager_gives(config: LlamaConfig):
    torch.manual_seed(0)
    step = Step(LlamaForCausalLM(config).eval())
    graphs: list[ImportedGraph] = []
    passes = (OutlinePass(), CanonicalizePass(), CommonSubexpressionElimination())
    backend = compile_with(PassPipeline(passes), graphs)
    compiled = torch.compile(step, backend=backend, fullgraph=True)

    torch.testing.assert_close(logits(compiled, config), logits(step, config))

    assert len(graphs) == 2
    for graph in graphs:
        main, layer = graph.module.ops
        assert isinstance(main, FuncOp)
        assert isinstance(layer, FuncOp)
        counts = Counter(type(op) for op in main.body.block.ops)
        assert counts[CallOp] == LAYERS
        assert counts[WriteBackOp] == 0
        assert sum(counts.values()) < 40
    # A step writes the position, the keys and the values of each layer. What is transposed is q, k,
    # v, the keys for the scores, and the result of the attention, but no weight.
    layer_of_step = Counter(type(op) for op in list(graphs[1].module.ops)[1].body.block.ops)
    assert layer_of_step[WriteBackOp] == 3
    assert layer_of_step[TransposeOp] == 5
