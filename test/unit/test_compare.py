"""`compare` and `interpreter="compare"`: a wrong operator is found, what is right passes."""

import inspect
import json
import warnings
from functools import partial

import pytest
import torch
from broken import aten, broken_compiler, compiler_with, failing_compiler, sigmoid_as_tanh
from torch._dynamo.exc import BackendCompilerFailed
from torch.fx.experimental.proxy_tensor import make_fx

import lpu_mlir
import lpu_mlir.debug.compare
from lpu_mlir.compile import compile_fx
from lpu_mlir.debug.kernels import rounded_to
from lpu_mlir.debug.measure import distance
from lpu_mlir.debug.precise import is_rounding
from lpu_mlir.dialects.lpu_kernel import KernelOp
from lpu_mlir.frontend.importer import import_graph
from lpu_mlir.frontend.table import HANDLERS
from lpu_mlir.model.target import get_target
from lpu_mlir.pipeline import run_stages, stages

pytestmark = pytest.mark.sampled

X = torch.linspace(-2, 2, 12).view(3, 4)


def line_of(function, text: str) -> str:
    """`file:line` of the line of a function that has this text."""
    lines, start = inspect.getsourcelines(function)
    [offset] = [i for i, line in enumerate(lines) if text in line]
    return f"{__file__}:{start + offset}"


def layers(x):
    y = torch.exp(x) @ x.T
    gate = torch.sigmoid(y)
    return (gate * y).sum(-1) + 1


def test_a_right_function():
    comparison = lpu_mlir.compare(layers)(X)
    assert comparison.ok
    assert comparison.first is None
    assert comparison.calls == 1
    assert str(comparison) == "1 graph call compared with eager: all results agree"


def test_a_wrong_operator_is_named():
    comparison = lpu_mlir.compare(layers, compiler=broken_compiler)(X)
    assert not comparison.ok
    first = comparison.first
    assert first.operator == "aten.sigmoid.default"
    assert first.source == line_of(layers, "torch.sigmoid")
    assert (first.result, first.operands) == ("float32[3, 3]", ("float32[3, 3]",))
    assert first.alone
    y = torch.exp(X) @ X.T
    error = (y.tanh() - y.sigmoid()).abs()
    assert first.distance.absolute == pytest.approx(error.max().item())
    assert first.distance.relative == pytest.approx((error / y.sigmoid()).max().item())
    beyond = error > 1e-5 + 1.3e-6 * y.sigmoid()
    assert (first.distance.count, first.distance.total) == (beyond.sum(), 9)
    # What is made of it differs, too; what comes before does not.
    assert [d.operator for d in comparison.differences[1:]] == [
        "aten.mul.Tensor",
        "aten.sum.dim_IntList",
        "aten.add.Tensor",
    ]
    assert line_of(layers, "torch.sigmoid") in str(comparison)
    assert json.loads(comparison.to_json())["differences"][0]["operator"] == first.operator


def test_a_fault_that_goes_away_when_more_is_kept():
    def compiler(gm, inputs):
        [output] = [node for node in gm.graph.nodes if node.op == "output"]
        alone = len(output.args[0]) == 1
        return (broken_compiler if alone else compile_fx)(gm, inputs)

    comparison = lpu_mlir.compare(layers, compiler=compiler)(X)
    assert comparison.first.operator == "aten.sigmoid.default"
    assert comparison.first.alone


def test_a_fault_in_company():
    def compiler(gm, inputs):
        exp = any(node.target is aten.exp.default for node in gm.graph.nodes)
        return (broken_compiler if exp else compile_fx)(gm, inputs)

    comparison = lpu_mlir.compare(layers, compiler=compiler)(X)
    assert comparison.first.operator == "aten.sigmoid.default"
    assert comparison.first.alone is False
    assert "wrong only beside others" in str(comparison)


def test_an_exception_of_the_compiler():
    comparison = lpu_mlir.compare(layers, compiler=failing_compiler)(X)
    assert comparison.first.operator == "aten.sigmoid.default"
    assert comparison.first.source == line_of(layers, "torch.sigmoid")
    assert "ValueError: deliberately broken" in comparison.first.distance.kind


def test_several_graphs_each_go_on_from_eager():
    def function(x):
        y = torch.sigmoid(x)
        torch._dynamo.graph_break()
        z = y + 1
        torch._dynamo.graph_break()
        return torch.sigmoid(z)

    comparison = lpu_mlir.compare(function, compiler=broken_compiler)(X)
    assert comparison.calls == 3
    assert [(d.graph, d.operator) for d in comparison.differences] == [
        ("graph0", "aten.sigmoid.default"),
        ("graph2", "aten.sigmoid.default"),
    ]


def test_inputs_that_change():
    def function(cache, x):
        cache[1:].copy_(torch.sigmoid(x[1:]))
        return cache.sum()

    cache = torch.zeros(3, 4)
    assert lpu_mlir.compare(function)(cache, X).ok
    expected = torch.zeros(3, 4)
    function(expected, X)
    assert torch.equal(cache, expected)
    comparison = lpu_mlir.compare(function, compiler=broken_compiler)(cache, X)
    assert comparison.first.operator == "aten.sigmoid.default"
    assert torch.equal(cache, expected)


def test_only_a_changed_input_differs():
    def function(x):
        x.copy_(torch.sigmoid(x))

    comparison = lpu_mlir.compare(function, compiler=broken_compiler)(X.clone())
    assert comparison.first.operator == "aten.sigmoid.default"


def test_random_numbers_are_the_same():
    def function(x):
        return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x)

    torch.manual_seed(1)
    assert lpu_mlir.compare(function)(X).ok
    after = torch.rand(1)
    torch.manual_seed(1)
    function(X)
    assert torch.equal(torch.rand(1), after)


def test_looking_for_a_difference_draws_no_random_numbers():
    def function(x):
        return torch.nn.functional.dropout(torch.sigmoid(x), 0.5)

    torch.manual_seed(1)
    function(X)
    after = torch.rand(1)
    torch.manual_seed(1)
    comparison = lpu_mlir.compare(function, compiler=broken_compiler)(X)
    assert comparison.first.operator == "aten.sigmoid.default"
    assert torch.equal(torch.rand(1), after)


def test_operators_with_side_effects():
    comparison = lpu_mlir.compare(lambda x: torch.linalg.inv(x) + 1)(torch.eye(3) * 2)
    assert comparison.ok
    assert comparison.calls == 1


def test_one_of_several_results():
    def descending(b, x, dim):
        return HANDLERS[aten.max.dim](b, b.pointwise("neg", x), dim)

    compiler = compiler_with(descending, aten.max.dim)
    comparison = lpu_mlir.compare(lambda x: x.max(1).values + 1, compiler=compiler)(X)
    assert comparison.first.operator == "aten.max.dim"
    assert comparison.first.operands == ("float32[3, 4]",)
    assert comparison.first.alone


@pytest.mark.slow
def test_backward():
    def step(model, x):
        loss = model(x).square().sum()
        loss.backward()

    def model():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))

    right = lpu_mlir.compare(step)(model(), X)
    assert right.ok
    assert right.calls == 2
    compiler = compiler_with(lambda b, x: HANDLERS[aten.exp.default](b, x), aten.tanh.default)
    wrong = lpu_mlir.compare(step, compiler=compiler)(model(), X)
    assert wrong.first.operator == "aten.tanh.default"
    # The backward graph starts from what eager computed.
    assert {d.graph for d in wrong.differences} == {"graph0"}


def test_symbolic_shapes():
    comparison = lpu_mlir.compare(layers, compiler=broken_compiler, dynamic=True)(X)
    assert comparison.first.operator == "aten.sigmoid.default"
    assert comparison.first.alone
    assert lpu_mlir.compare(layers, dynamic=True)(X).ok


def test_exceptions_of_eager_are_the_users():
    with pytest.raises(IndexError):
        lpu_mlir.compare(lambda x, i: x[i] + 1)(X, torch.tensor([7]))


def test_the_option_passes_what_is_right():
    with lpu_mlir.Report() as report:
        torch._dynamo.reset()
        compiled = torch.compile(layers, backend="lpu_mlir", options={"interpreter": "compare"})
        torch.testing.assert_close(compiled(X), layers(X))
    assert report.kernels


def test_the_option_raises(monkeypatch: pytest.MonkeyPatch):
    torch._dynamo.reset()
    wrong = {**HANDLERS, aten.sigmoid.default: sigmoid_as_tanh}
    monkeypatch.setattr(lpu_mlir.debug.compare, "compile_fx", partial(compile_fx, handlers=wrong))
    compiled = torch.compile(layers, backend="lpu_mlir", options={"interpreter": "compare"})
    with pytest.raises(lpu_mlir.MismatchError, match=r"differ, first in\naten\.sigmoid"):
        compiled(X)


def test_a_kernel_that_machine_code_gets_wrong_is_named():
    """Rounding is enough if nothing is allowed."""
    torch._dynamo.reset()
    options = {"interpreter": "compare", "tolerance": 0.0}
    compiled = torch.compile(lambda x: x.softmax(-1).log(), backend="lpu_mlir", options=options)
    said = (
        r"machine code and the reference interpreter differ in kernel @main_0, argument 1: [\d,]+ "
    )
    with pytest.raises(lpu_mlir.MismatchError, match=said):
        compiled(torch.randn(64, 999))


def test_the_option_leaves_random_numbers_and_writes_as_they_are():
    def draws(x, counter):
        counter.add_(1)
        return torch.nn.functional.dropout(x * counter, 0.5, True)

    torch._dynamo.reset()
    compiled = torch.compile(draws, backend="lpu_mlir", options={"interpreter": "compare"})
    results: list[torch.Tensor] = []
    for run in (compiled, draws):
        counter = torch.ones(())
        torch.manual_seed(3)
        results += [run(X, counter), run(X, counter), counter]
    for mine, theirs in zip(results[:3], results[3:], strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)


def test_exceptions_of_the_kernels_are_the_same_twice():
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x, i: x[i] * 2, backend="lpu_mlir", options={"interpreter": "compare"}
    )
    with pytest.raises(IndexError):
        compiled(X, torch.tensor([7]))


def deep(x, w):
    for _ in range(6):
        x = torch.tanh(x @ w) + x
    return x


def deep_inputs():
    generator = torch.Generator().manual_seed(0)
    sizes = ((16, 256), (256, 256))
    x, w = (torch.randn(size, generator=generator) for size in sizes)
    return x, w


@pytest.mark.slow
def test_rounding_that_adds_up_is_no_difference():
    inputs = deep_inputs()
    result = torch.compile(deep, backend="lpu_mlir")(*inputs)
    assert distance(result, deep(*inputs)) is not None
    assert lpu_mlir.compare(deep)(*inputs).ok


@pytest.mark.slow
def test_rounding_does_not_hide_a_fault():
    def function(x, w):
        return deep(torch.sigmoid(x), w)

    comparison = lpu_mlir.compare(function, compiler=broken_compiler)(*deep_inputs())
    assert comparison.first.operator == "aten.sigmoid.default"


@pytest.mark.parametrize("factor", [3.0, 5.0])
def test_what_is_rounding(factor):
    precise = torch.tensor([1.0, 2.0, torch.inf], dtype=torch.float64)
    expected = precise.add(1e-3).float()
    actual = precise.add(factor * 1e-3).float()
    assert is_rounding(actual, expected, precise, 1.0) == (factor < 4)
    assert not is_rounding(actual.neg(), expected, precise, 1.0)


@pytest.mark.parametrize(
    ("actual", "expected", "count"),
    [
        (torch.ones(3), torch.ones(3) + 1e-5, None),
        (torch.ones(3), torch.tensor([1, 1, 1.1]), 1),
        (torch.ones(3, dtype=torch.int64), torch.tensor([1, 1, 2]), 1),
        (torch.tensor([torch.nan, 1]), torch.tensor([torch.nan, torch.nan]), 1),
        (torch.tensor([torch.inf, -torch.inf]), torch.tensor([torch.inf, torch.inf]), 1),
        (torch.tensor([1 + 1j]), torch.tensor([1 - 1j]), 1),
        (True, True, None),
        (1.0, 1.5, 1),
        (torch.zeros(0), torch.zeros(0), None),
    ],
)
def test_distance(actual, expected, count):
    found = distance(actual, expected)
    assert (found.count if found else None) == count


def test_the_distance_of_what_was_computed_in_a_coarser_dtype():
    actual, expected = torch.ones(3).double() + 1e-6, torch.ones(3).double()
    assert distance(actual, expected) is not None
    assert distance(actual, expected, computed=[torch.float32]) is None
    assert distance(actual + 1e-3, expected, computed=[torch.float32]) is not None


def test_distance_in_kind():
    assert str(distance(torch.ones(3), torch.ones(1, 3))) == (
        "torch.float32 (3,) instead of torch.float32 (1, 3)"
    )
    assert str(distance(2, 3)) == "2 instead of 3"
    assert distance(torch.tensor([1.0]), torch.tensor([torch.nan])).nans == 1


def test_nothing_compiled_is_not_right():
    comparison = lpu_mlir.compare(lambda x: x)(X)
    assert comparison.calls == 0
    assert comparison.first is None
    assert not comparison.ok
    assert not json.loads(comparison.to_json())["ok"]
    assert str(comparison).startswith("nothing was compared: no graph was compiled or run")


def test_eager_in_another_dtype_than_the_graph_says():
    def step(norm, x):
        norm(x).square().sum().backward()

    x = X.bfloat16().requires_grad_()
    statistics = torch.native_layer_norm(x, (4,), torch.ones(4), torch.zeros(4), 1e-5)[1:]
    assert [value.dtype for value in statistics] == [torch.float32, torch.float32]
    comparison = lpu_mlir.compare(step)(torch.nn.LayerNorm(4), x)
    assert comparison.calls == 2
    assert comparison.ok, comparison


def test_an_exception_is_reported_where_it_comes_from_only():
    def function(x):
        return torch.softmax(torch.sigmoid(x) * 2, -1), x + 1

    comparison = lpu_mlir.compare(function, compiler=failing_compiler)(X)
    assert [d.operator for d in comparison.differences] == ["aten.sigmoid.default"]
    assert str(comparison).startswith(
        "1 graph call compared with eager: 1 value differs\naten.sigmoid.default("
    )


def test_errors_name_the_backend():
    with pytest.raises(BackendCompilerFailed, match="backend='lpu_mlir' raised") as caught:
        lpu_mlir.explain(lambda x: x.topk(1), options={"fallback": "error"})(X)
    assert isinstance(caught.value.inner_exception, lpu_mlir.Unsupported)


def test_parameters_are_rounded_without_a_warning():
    expected = torch.ones(2, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        is_rounding(torch.ones(2, requires_grad=True), expected, torch.ones(2).double(), 1.0)


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float64]
)
def test_kernels_of_every_dtype_agree(dtype):
    def function(x):
        return x.T.contiguous(), x.isnan(), x.float() * 2

    x = torch.arange(12).view(3, 4).to(dtype)
    options = {"interpreter": "compare"}
    with lpu_mlir.Report() as report:
        got = torch.compile(function, backend="lpu_mlir", options=options)(x)
    assert len(report.graphs) == 1
    torch.testing.assert_close(got, function(x), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("function", "dtypes"),
    [
        (lambda x: (x.float().exp() * 2).double() + x, {torch.float32, torch.float64}),
        (lambda x: x.float().double() + x, {torch.float32, torch.float64}),
        (lambda x: x.half().float().sum(0), {torch.float16, torch.float32}),
        (lambda x: x.sum(1) - x[0].exp(), {torch.float64}),
        (lambda x: x.flip(0), set()),
    ],
)
def test_the_dtypes_that_a_kernel_rounds_to(function, dtypes):
    x = torch.ones(4, 4, dtype=torch.float64)
    module = import_graph(make_fx(function, tracing_mode="fake")(x)).module
    run_stages(module, stages(get_target("bertha")))
    kernels = [op for op in module.ops if isinstance(op, KernelOp)]
    assert kernels
    assert frozenset[torch.dtype]().union(*map(rounded_to, kernels)) == dtypes
