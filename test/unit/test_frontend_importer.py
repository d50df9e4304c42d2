"""The importer itself: inputs, outputs, symbols, locations, host calls, errors, speed."""

import time
from collections.abc import Callable, Sequence

import pytest
import sympy
import torch
from frontend_checks import check, host_calls, imported, sample
from graph_evaluator import run
from torch._dynamo.backends.common import aot_autograd
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._sympy import functions as sympy_functions
from xdsl.context import Context
from xdsl.dialects import test
from xdsl.dialects.builtin import Builtin, DictionaryAttr, FileLineColLoc
from xdsl.dialects.func import Func
from xdsl.parser import Parser

from lpu_mlir.dialects.expr import Expr, nesting
from lpu_mlir.dialects.location import describe_location
from lpu_mlir.dialects.lpu import Lpu, symbols, tensor_type
from lpu_mlir.dialects.lpu_graph import LpuGraph, WriteBackOp
from lpu_mlir.frontend.arguments import decode_arguments, encode_arguments
from lpu_mlir.frontend.builder import FloatScalar
from lpu_mlir.frontend.calls import Comparison
from lpu_mlir.frontend.errors import Unsupported
from lpu_mlir.frontend.importer import ImportedGraph, import_graph
from lpu_mlir.frontend.interface import ExtentInput, FloatInput, IgnoredInput, TensorInput
from lpu_mlir.frontend.outputs import OUTPUTS
from lpu_mlir.frontend.symint import from_sympy
from lpu_mlir.frontend.types import NATIVE

pytestmark = pytest.mark.sampled

aten = torch.ops.aten
X = sample(torch.float32, (3, 4))


def compiled(function: Callable, graphs: list[ImportedGraph], **options: object) -> Callable:
    """torch.compile with the evaluator as the backend; collects what it imported."""

    def compiler(gm: torch.fx.GraphModule, _: object):
        graph = import_graph(gm)
        graph.module.verify()
        graphs.append(graph)

        def call(inputs: list[object]) -> list[object]:
            return run(graph, inputs)

        call._boxed_call = True
        return call

    backend = aot_autograd(fw_compiler=compiler, keep_inference_input_mutations=True)
    return torch.compile(function, backend=backend, fullgraph=True, **options)


def kinds(graph: ImportedGraph) -> list[str]:
    return [entry.data["kind"].data for entry in graph.func.attributes[OUTPUTS]]


# --- inputs and outputs -------------------------------------------------------------------------


def test_symbols_come_from_inputs_and_not_as_arguments():
    graphs: list[ImportedGraph] = []
    function = compiled(lambda x, n: x.sum(0) * x.shape[0] + n, graphs, dynamic=True)
    for rows in (3, 5, 9):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(function(x, 7), x.sum(0) * rows + 7)
    [graph] = graphs
    assert len(graph.func.args) == 1
    assert {type(i) for i in graph.inputs} == {ExtentInput, TensorInput}
    names = {s.symbol.data for s in symbols(graph.func)}
    assert names == set().union(*(i.value.names() for i in graph.inputs if type(i) is ExtentInput))


def test_float_inputs_are_zero_dim_tensors():
    graphs: list[ImportedGraph] = []
    function = compiled(lambda x, s: x * s, graphs, dynamic=True)
    for scale in (0.3, 1.7):
        torch.testing.assert_close(function(X, scale), X * scale)
    kinds_of_inputs = {type(i) for graph in graphs for i in graph.inputs}
    assert kinds_of_inputs <= {TensorInput, ExtentInput, FloatInput, IgnoredInput}


def test_outputs_of_every_kind():
    def function(x, y):
        z = x + y
        return z, y, x[1:], z, None, x.shape[0], True, 2.5, z.expand(2, 3, 4)

    graph = import_graph(make_fx(function, tracing_mode="symbolic")(X, X + 1))
    assert kinds(graph)[:5] == ["result", "argument", "view", "result", "none"]
    assert len(graph.func.function_type.outputs) == 1
    x, y = X.clone(), X.clone()
    results = run(graph, (x, y))
    assert results[0] is results[3]
    assert results[1] is y
    assert results[2].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert results[5:8] == [3, True, 2.5]
    assert results[8].stride() == (0, 4, 1)
    assert results[8].untyped_storage().data_ptr() == results[0].untyped_storage().data_ptr()


def test_outputs_that_share_an_intermediate_share_its_storage():
    def function(x):
        y = x * 2
        return y.t(), y[1:], y.view(-1)[3:5]

    graph = check(function, X)
    assert kinds(graph) == ["view"] * 3
    results = run(graph, (X,))
    assert len({r.untyped_storage().data_ptr() for r in results}) == 1


def test_results_have_the_strides_of_eager():
    graph = check(lambda x: (x * 2).t(), X)
    assert graph.func.res_attrs is not None
    assert str(graph.func.res_attrs) == "[{lpu.strides = #lpu.shape<[1, 4]>}]"


def test_strided_inputs_are_described():
    graph = imported(lambda x: x + 1, (torch.ones(4, 6)[:, ::2],), "fake")
    assert str(graph.func.arg_attrs) == "[{lpu.strides = #lpu.shape<[6, 2]>}]"
    graph = imported(lambda x: x + 1, (torch.ones(1, 6).t().t()[:, :3],), "fake")
    assert str(graph.func.arg_attrs) == "[{}]"


def test_constants_are_appended_arguments():
    constant = torch.tensor([1.0, 2.0, 3.0, 4.0])
    graph = import_graph(make_fx(lambda x: x * constant)(X))
    assert len(graph.inputs) == 1
    assert len(graph.constants) == 1
    torch.testing.assert_close(run(graph, (X,))[0], X * constant)


def test_writes_to_inputs():
    graphs: list[ImportedGraph] = []

    def function(cache, position, value):
        cache.index_copy_(0, position, value)
        position.add_(1)
        return cache.sum(), position * 2

    compiled_function = compiled(function, graphs)
    states = [(torch.zeros(4, 3), torch.tensor([1])) for _ in range(2)]
    for _ in range(2):
        for call, state in zip((function, compiled_function), states, strict=True):
            with torch.no_grad():
                call(*state, torch.ones(1, 3))
    torch.testing.assert_close(states[0], states[1])
    writes = [op for op in graphs[0].func.walk() if isinstance(op, WriteBackOp)]
    assert len(writes) == 2


def test_views_and_mutation_of_one_input():
    graphs: list[ImportedGraph] = []

    def function(x):
        y = x.clone()
        x.t().add_(1)
        return y, x, x[0]

    x, z = X.clone(), X.clone()
    torch.testing.assert_close(compiled(function, graphs)(x), function(z))
    torch.testing.assert_close(x, z)


@pytest.mark.parametrize(
    ("shape", "strides", "order"),
    [
        ((2, 3), (3, 1), [0, 1]),
        ((2, 3), (1, 2), [1, 0]),
        ((2, 3), (0, 1), None),
        ((3, 2), (1, 1), None),
        ((2, 1, 3), (5, 0, 1), [1, 0, 2]),
    ],
)
def test_nesting_of_strides(shape, strides, order):
    found = nesting([Expr.const(s) for s in shape], [Expr.const(s) for s in strides], {})
    assert found == order


# --- names and places ---------------------------------------------------------------------------


def test_operations_know_the_line_that_caused_them():
    graphs: list[ImportedGraph] = []

    def function(x):
        y = x.exp()
        return y.sum()

    compiled(function, graphs)(X)
    first = function.__code__.co_firstlineno
    locations = [op.location for op in list(graphs[0].func.body.block.ops)[:-1]]
    assert all(isinstance(location, FileLineColLoc) for location in locations)
    assert [location.line.data for location in locations] == [first + 1, first + 2]
    assert locations[0].filename.data == __file__


def first_location(function, *inputs) -> str:
    graphs: list[ImportedGraph] = []
    torch._dynamo.reset()
    compiled(function, graphs)(*inputs)
    return describe_location(graphs[0].func.body.block.first_op.location)


def test_where_dynamo_saw_no_line_the_function_is_named():
    assert first_location(torch.sort, X) == "function sort"
    assert first_location(torch.nn.functional.softmax, X, -1) == "function softmax"


def test_where_dynamo_saw_no_line_the_module_is_named():
    model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Softmax(-1))
    assert first_location(model, X) == "fn.0 (ReLU)"


def test_the_text_of_a_module_parses_to_itself():
    def function(x, i):
        y = aten.index.Tensor(x, [i]).softmax(-1)
        return *y.topk(2), x.shape[0], y.to(torch.complex64)

    graph = imported(function, (X, torch.tensor([1, -1])), "symbolic")
    context = Context()
    for dialect in (Builtin, Func, Lpu, LpuGraph):
        context.load_dialect(dialect)
    text = str(graph.module)
    assert str(Parser(context, text).parse_module()) == text


# --- what runs outside --------------------------------------------------------------------------


def test_host_calls_keep_dtypes_and_lists():
    graph = check(lambda x: (*aten.topk.default(x, 2, largest=False), x + 1), X, native=False)
    assert host_calls(graph) == ["aten.topk.default"]
    check(lambda x: aten.view.dtype(x, torch.int32) + 1, X, native=False)


def test_complex_numbers_pass_through():
    graph = check(lambda x: aten.mul.Tensor(torch.complex(x, x), 2j).real + 1, X, native=False)
    assert "aten.mul.Tensor" in host_calls(graph)


def test_data_dependent_extents_bind_symbols():
    def function(x):
        positions = aten.nonzero.default(x)
        return positions, positions.sum(0) + positions.shape[0]

    graphs: list[ImportedGraph] = []
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        got = compiled(function, graphs)(X.gt(0))
    torch.testing.assert_close(got, function(X.gt(0)))
    assert host_calls(graphs[0])[0] == "aten.nonzero.default"


def test_numbers_read_by_python():
    def function(x, n, s):
        return x[: n.item()], x * s.item(), n.item() + 1

    graphs: list[ImportedGraph] = []
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        got = compiled(function, graphs)(X, torch.tensor(2), torch.tensor(0.5))
    expected = function(X, torch.tensor(2), torch.tensor(0.5))
    torch.testing.assert_close(got[:2], expected[:2])
    assert got[2] == 3
    assert "aten._local_scalar_dense.default" in host_calls(graphs[0])


def test_assertions_on_data_are_checked():
    graph = make_fx(_asserting, tracing_mode="symbolic")(torch.tensor(3))
    imported_graph = import_graph(graph)
    assert "aten._assert_scalar.default" in host_calls(imported_graph)
    assert run(imported_graph, (torch.tensor(3),))[0].shape == (3,)
    with pytest.raises(RuntimeError, match="too large"):
        run(imported_graph, (torch.tensor(9),))


def _asserting(n):
    count = n.item()
    torch._check(count >= 0)
    aten._assert_scalar.default(count <= 7, "too large")
    return torch.ones(count)


def test_booleans_read_by_python():
    graph = check(lambda x: (x.item(), torch.ones(2)), torch.tensor(True), mode="symbolic",
                  native=False)  # fmt: skip
    assert kinds(graph) == ["condition", "result"]


def arguments() -> Sequence[object]:
    return [
        None, True, False, 7, -(2**40), 2.5, float("-inf"), "text", 1 + 2j, [1, 2], [], [None, 3],
        torch.float32, torch.strided, torch.channels_last, torch.device("cpu"),
    ]  # fmt: skip


def test_arguments_survive_encoding():
    operands, attributes = encode_arguments(arguments(), {"key": 3, "dtype": torch.bool})
    assert operands == []
    args, kwargs = decode_arguments(attributes, [], {})
    assert args == arguments()
    assert [type(a) for a in args] == [type(a) for a in arguments()]
    assert kwargs == {"key": 3, "dtype": torch.bool}
    context = Context()
    for dialect in (Builtin, Lpu):
        context.load_dialect(dialect)
    text = str(DictionaryAttr(attributes))
    assert Parser(context, text).parse_attribute() == DictionaryAttr(attributes)


def test_arguments_refer_to_operands_and_symbols():
    types = [tensor_type(NATIVE[torch.float64], ()) for _ in range(2)]
    value, scalar = test.TestOp(result_types=types).results
    condition = Comparison("le", Expr.name("u0"), Expr.const(7))
    operands, attributes = encode_arguments(
        [[None, value], FloatScalar(scalar), Expr.name("s1") + 1, condition], {}
    )
    assert operands == [value, scalar]
    tensors = [torch.ones(()), torch.tensor(2.5)]
    args, _ = decode_arguments(attributes, tensors, {"s1": 4, "u0": 8})
    assert args[0][1] is tensors[0]
    assert args[1:] == [2.5, 5, False]


def test_only_known_names_of_torch_are_decoded():
    _, attributes = encode_arguments([torch.float32], {})
    bad = type(attributes["0"])("save")
    with pytest.raises(ValueError, match="'save' is no dtype"):
        decode_arguments({"0": bad}, [], {})


# --- errors -------------------------------------------------------------------------------------


def test_fallback_error_names_everything():
    graphs: list[str] = []

    def compiler(gm: torch.fx.GraphModule, _: object):
        with pytest.raises(Unsupported) as raised:
            import_graph(gm, fallback="error")
        graphs.append(str(raised.value))
        return gm

    backend = aot_autograd(fw_compiler=compiler)
    torch.compile(lambda x: x.topk(2).values, backend=backend)(X)
    [message] = graphs
    for part in ("aten.topk", "float32[3, 4]", f"{__file__}:", "options={'fallback': 'host'}"):
        assert part in message


def test_in_place_operators_are_refused():
    with pytest.raises(Unsupported, match="changes its arguments in place"):
        import_graph(make_fx(lambda x: x.clone().relu_())(X))


def test_other_higher_order_operators_are_refused():
    from torch._higher_order_ops.out_dtype import out_dtype

    x = torch.ones(3, 3, dtype=torch.int8)
    product = torch.ops.aten.mm.default
    graph = make_fx(lambda x: out_dtype(product, torch.int32, x, x), tracing_mode="fake")(x)
    assert any(node.target is out_dtype for node in graph.graph.nodes)
    with pytest.raises(Unsupported, match="no operator of eager PyTorch"):
        import_graph(graph)


# --- expressions --------------------------------------------------------------------------------

s, t = sympy.Symbol("s", integer=True, positive=True), sympy.Symbol("t", integer=True)
f = sympy_functions


@pytest.mark.parametrize(
    "value",
    [
        3 * s + t - 2,
        s * s * t,
        s**3,
        f.FloorDiv(s + 3, 2),
        f.CleanDiv(s * 4, 2),
        f.CeilDiv(s, 3),
        f.PythonMod(t, 3),
        f.Mod(s, 3),
        f.ModularIndexing(s, 2, 3),
        f.Min(s, 5),
        f.Max(s, t, 5),
        f.FloorToInt(f.IntTrueDiv(t, 4)),
        f.CeilToInt(f.IntTrueDiv(t, 4)),
        f.TruncToInt(f.IntTrueDiv(t, 4)),
        f.FloorToInt(sympy.Float(1.5) * f.ToFloat(t)),
        f.Identity(s + 1),
        f.LShift(s, 2),
        f.RShift(s, 1),
        f.PowByNatural(s, 2),
    ],
)
def test_symbolic_integers(value):
    converted = from_sympy(value)
    for s_value in (1, 2, 7):
        for t_value in (-5, 0, 6):
            expected = int(value.subs({s: s_value, t: t_value}))
            assert converted.evaluate({"s": s_value, "t": t_value}) == expected


@pytest.mark.parametrize("value", [sympy.sin(s), f.TruncToInt(1.7 * f.ToFloat(s)), s**t])
def test_expressions_that_are_refused(value):
    with pytest.raises(ValueError, match=r"no integer expression|are rounded"):
        from_sympy(value)


# --- speed --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_import_time_grows_with_the_graph_only_linearly():
    def chain(length: int) -> float:
        def function(x):
            for _ in range(length):
                x = aten.add.Tensor(aten.view.default(x, [4, 3]), 1.0).view(3, 4)
            return x

        graph = make_fx(function, tracing_mode="fake")(X)
        start = time.perf_counter()
        import_graph(graph)
        return time.perf_counter() - start

    chain(10)
    short, long = min(chain(100) for _ in range(3)), min(chain(800) for _ in range(3))
    assert long < 8 * short * 3
