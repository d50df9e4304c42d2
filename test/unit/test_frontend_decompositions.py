"""Our own decompositions against eager, and the table that AOTAutograd gets."""

import pytest
import torch
from frontend_checks import host_calls
from graph_evaluator import run
from torch._dynamo.backends.common import aot_autograd

from lpu_mlir.frontend.decompositions import KEPT, OWN, decompositions
from lpu_mlir.frontend.importer import ImportedGraph, import_graph

pytestmark = pytest.mark.sampled

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


def hidden_by(kind: str) -> dict[str, torch.Tensor]:
    """Masks for 2 sequences of 5: True hides."""
    padding = torch.zeros(2, 5, dtype=torch.bool)
    padding[1, 3:] = True
    future = torch.ones(5, 5, dtype=torch.bool).triu(1)
    return {
        "none": {},
        "padding": {"padding": padding},
        "future": {"mask": future},
        "both": {"padding": padding, "mask": future},
        "added": {"mask": torch.zeros(5, 5).masked_fill(future, -float("inf"))},
    }[kind]


@pytest.mark.parametrize("kind", ["none", "padding", "future", "both", "added"])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_layer_in_eval_mode(kind: str, norm_first: bool, activation: str):
    torch._dynamo.reset()
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(
        16, 4, 32, batch_first=True, norm_first=norm_first, activation=activation
    ).eval()
    for parameter in layer.parameters():  # norms are the identity when they are new
        torch.nn.init.normal_(parameter, std=0.3)
    x, given = torch.randn(2, 5, 16), hidden_by(kind)

    def function(x, mask=None, padding=None):
        return layer(x, src_mask=mask, src_key_padding_mask=padding)

    graphs: list[ImportedGraph] = []
    with torch.no_grad():
        result = compiled(function, graphs)(x, **given)
        torch.testing.assert_close(result, function(x, **given), rtol=1e-5, atol=1e-5)
    assert [host_calls(graph) for graph in graphs] == [[]]


@pytest.mark.parametrize("kind", ["none", "padding", "future", "both"])
@pytest.mark.parametrize("average", [True, False])
def test_multi_head_attention_in_eval_mode(kind: str, average: bool):
    torch._dynamo.reset()
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(16, 4, batch_first=True).eval()
    torch.nn.init.normal_(layer.in_proj_bias)
    torch.nn.init.normal_(layer.out_proj.bias)
    x, given = torch.randn(2, 5, 16), hidden_by(kind)

    def function(x, mask=None, padding=None):
        return layer(
            x, x, x, attn_mask=mask, key_padding_mask=padding, average_attn_weights=average
        )

    graphs: list[ImportedGraph] = []
    with torch.no_grad():
        result = compiled(function, graphs)(x, **given)
        torch.testing.assert_close(result, function(x, **given))
    assert [host_calls(graph) for graph in graphs] == [[]]


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(torch.nn.LSTM, marks=pytest.mark.slow),
        pytest.param(torch.nn.GRU, marks=pytest.mark.slow),
        torch.nn.RNN,
    ],
)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_recurrent_layers(kind, bias: bool, bidirectional: bool):
    torch._dynamo.reset()
    torch.manual_seed(0)
    layer = kind(3, 4, num_layers=2, bias=bias, bidirectional=bidirectional).eval()
    x = torch.randn(6, 2, 3)
    graphs: list[ImportedGraph] = []
    with torch._dynamo.config.patch(allow_rnn=True), torch.no_grad():
        result = compiled(lambda x: layer(x), graphs)(x)
        torch.testing.assert_close(result, layer(x))
    assert [host_calls(graph) for graph in graphs] == [[]]


FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@pytest.mark.parametrize("exponent", [*FLOATS, torch.int32])
@pytest.mark.parametrize("dtype", [*FLOATS, torch.int16])
def test_ldexp_promotes_as_eager(dtype: torch.dtype, exponent: torch.dtype):
    """The power of 2 is of another dtype beside each of them, and with a 0-d exponent."""

    def function(x, y):
        changed = [x.clone().ldexp_(y[0])] if x.is_floating_point() else []
        return [x.ldexp(y), x.ldexp(y[0]), *changed]

    x, y = torch.tensor([-1.3, 2.7]).to(dtype), torch.tensor([1.9, 0.3]).to(exponent)
    graphs = []
    torch._dynamo.reset()
    for result, expected in zip(compiled(function, graphs)(x, y), function(x, y), strict=True):
        torch.testing.assert_close(result, expected)
    assert not host_calls(*graphs)


X = torch.arange(24.0).view(4, 6)
COPYING = {
    "_reshape_copy": lambda x: aten._reshape_copy(x.t(), [6, 4]),
    "as_strided_copy": lambda x: aten.as_strided_copy(x + 1, [2, 3], [6, 2], 1),
    "detach_copy": lambda x: aten.detach_copy(x.t()),
    "narrow_copy": lambda x: aten.narrow_copy(x, 1, 1, 2),
    "permute_copy": lambda x: aten.permute_copy(x, [1, 0]),
    "select_copy": lambda x: aten.select_copy(x, -1, 2),
    "slice_copy": lambda x: aten.slice_copy(x, 1, -4, 5, 2),
    "split_copy": lambda x: aten.split_copy(x, 4, 1),
    "unbind_copy": lambda x: aten.unbind_copy(x, 1),
    "view_copy": lambda x: aten.view_copy(x, [3, 8]),
    "view_copy of what cannot be viewed": lambda x: aten.view_copy(x.t(), [3, 8]),
}


@pytest.mark.parametrize("name", COPYING)
def test_copies_of_views(name: str):
    torch._dynamo.reset()
    graphs: list[ImportedGraph] = []
    results, expected = compiled(COPYING[name], graphs)(X), COPYING[name](X)
    torch.testing.assert_close(results, expected)
    assert host_calls(graphs[0]) == []


@pytest.mark.parametrize("function", [torch.tril_indices, torch.triu_indices])
@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (1, 1), (0, 3), (3, 0), (300, 200)])
def test_indices_of_triangles(function, shape: tuple[int, int]):
    for offset in (0, 1, -2, 9, -9):
        for dtype in (torch.int64, torch.int32):
            torch._dynamo.reset()
            graphs: list[ImportedGraph] = []

            def indices(x, offset=offset, dtype=dtype):
                return function(*shape, offset, dtype=dtype), x + 1

            result, _ = compiled(indices, graphs)(X)
            assert torch.equal(result, function(*shape, offset, dtype=dtype))
            assert host_calls(graphs[0]) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_positions_to_fill_count_from_the_end(dtype: torch.dtype):
    x, index = X.to(dtype), torch.tensor([0, -1, 2, -4])

    def fill(x: torch.Tensor, index: torch.Tensor):
        one = torch.ones((), dtype=dtype)
        filled = [x.index_fill(d, index, v) for d in (0, -1) for v in (3, one)]
        return *filled, x.index_fill(1, index[1], 0), x[0, 0].index_fill(0, index[1], 1)

    torch._dynamo.reset()
    graphs: list[ImportedGraph] = []
    function = compiled(fill, graphs)
    assert all(map(torch.equal, function(x, index), fill(x, index)))
    assert host_calls(graphs[0]) == []
    with pytest.raises(IndexError):
        function(x, index - 1)
