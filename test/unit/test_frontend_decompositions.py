"""Our own decompositions against eager, and the table that AOTAutograd gets."""

import pytest
import torch
from frontend_checks import host_calls
from graph_evaluator import run
from torch._dynamo.backends.common import aot_autograd

from lpu_mlir.frontend import ImportedGraph, import_graph
from lpu_mlir.frontend.decompositions import KEPT, OWN, decompositions

aten = torch.ops.aten
attention = torch.nn.functional.scaled_dot_product_attention


def compiled(function, graphs: list[ImportedGraph]):
    def compiler(gm: torch.fx.GraphModule, _: object):
        graph = import_graph(gm)
        graph.module.verify()
        graphs.append(graph)

        def call(inputs: list[object]) -> list[object]:
            return run(graph, inputs)

        call._boxed_call = True
        return call

    backend = aot_autograd(fw_compiler=compiler, decompositions=decompositions())
    return torch.compile(function, backend=backend, fullgraph=True)


def masks() -> dict[str, dict[str, object]]:
    hidden = torch.zeros(5, 7).masked_fill(torch.arange(7) > 3, -float("inf"))
    return {
        "none": {},
        "causal": {"is_causal": True},
        "added": {"attn_mask": torch.randn(5, 7)},
        "hidden": {"attn_mask": hidden},
        "boolean": {"attn_mask": hidden == 0},
        "scale": {"scale": 0.3},
    }


@pytest.mark.parametrize("kind", masks())
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_of_attention(kind: str, dtype: torch.dtype):
    torch._dynamo.reset()  # the cases share the code of `loss`
    torch.manual_seed(0)
    shapes = [(2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8)]
    options = {
        name: value.to(dtype) if torch.is_tensor(value) and value.is_floating_point() else value
        for name, value in masks()[kind].items()
    }
    inputs = [torch.randn(s, dtype=dtype, requires_grad=True) for s in shapes]
    weights = torch.randn(2, 3, 5, 8, dtype=dtype)

    def loss(q, k, v):
        return (attention(q, k, v, **options) * weights).sum()

    expected = torch.autograd.grad(loss(*inputs), inputs)
    graphs: list[ImportedGraph] = []
    results = torch.autograd.grad(compiled(loss, graphs)(*inputs), inputs)
    tolerance = {"rtol": 5e-2, "atol": 5e-2} if dtype == torch.bfloat16 else {}
    torch.testing.assert_close(results, expected, **tolerance)
    assert [host_calls(graph) for graph in graphs] == [[], []]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("function", [torch.addcmul, torch.addcdiv])
def test_sums_with_a_product_or_quotient_round_once(function, dtype: torch.dtype):
    torch._dynamo.reset()
    torch.manual_seed(0)
    x, y, z = (torch.randn(shape).to(dtype) for shape in ((1,), (50, 1), (1, 50)))
    graphs: list[ImportedGraph] = []
    result = compiled(lambda x, y, z: function(x, y, z), graphs)(x, y, z)
    tolerance = {"rtol": 0, "atol": 0} if dtype == torch.bfloat16 else {}
    torch.testing.assert_close(result, function(x, y, z), **tolerance)
    assert host_calls(graphs[0]) == []


def test_the_table():
    table = decompositions()
    assert not set(KEPT) & set(table)
    assert all(table[op] is rule for op, rule in OWN.items())
    assert aten.silu.default in table
