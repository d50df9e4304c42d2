"""Indexing and matrix products of ATen against eager."""

from functools import partial

import pytest
import torch
from frontend_checks import check, host_calls, imported, sample
from graph_evaluator import run

from lpu_mlir.dialects.lpu_graph import MatmulOp

pytestmark = pytest.mark.sampled

aten = torch.ops.aten
X = sample(torch.float32, (4, 5, 6))
I = torch.tensor([2, -1, 0])  # noqa: E741
J = torch.tensor([[1], [-4]])
MODES = ["fake", "symbolic"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "indices", [[I], [None, I], [None, None, J], [I, J], [I, None, J], [None, J, I], [J, J, J]]
)
def test_index(indices: list[torch.Tensor | None], mode: str):
    given = [i for i in indices if i is not None]

    def pick(*tensors: torch.Tensor) -> list[torch.Tensor | None]:
        rest = iter(tensors)
        return [None if i is None else next(rest) for i in indices]

    check(lambda x, *t: aten.index.Tensor(x, pick(*t)), X, *given, mode=mode)
    window = X[tuple(slice(None) if i is None else i for i in indices)]
    for values in (torch.tensor(2.5), torch.randn(window.shape), torch.randn(window.shape[-1:])):
        check(lambda x, v, *t: aten.index_put.default(x, pick(*t), v), X, values, *given, mode=mode)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.int8])
def test_accumulating_index_put(dtype: torch.dtype):
    x, values = sample(dtype, (4, 3)), sample(dtype, (5, 3), 1)
    index = torch.tensor([0, 2, 2, -1, 2], dtype=torch.int64)
    check(lambda x, i, v: aten.index_put.default(x, [i], v, True), x, index, values)


def test_narrow_indices():
    check(lambda x, i: aten.index.Tensor(x, [None, i]), X, I.to(torch.int32))
    check(
        lambda w, i: aten.embedding.default(w, i), X[0], torch.tensor([[1, 4]], dtype=torch.int32)
    )


@pytest.mark.parametrize(
    ("mask", "value"),
    [
        (sample(torch.bool, (4,), 1), torch.tensor(9.0)),
        (sample(torch.bool, (4, 5), 1), torch.tensor([9.0])),
        (sample(torch.bool, (4, 5, 6), 1), torch.tensor(9.0)),
        (sample(torch.bool, (4,), 1), torch.randn(1, 5, 6)),
        (sample(torch.bool, (4,), 1), torch.randn(5, 6)),
        (sample(torch.bool, (4,), 1), torch.randn(6)),
    ],
)
def test_a_mask_with_one_value_is_a_selection(mask: torch.Tensor, value: torch.Tensor):
    check(lambda x, m, v: aten.index_put.default(x, [m], v), X, mask, value)


def test_a_mask_after_a_whole_dim_is_a_selection():
    mask = sample(torch.bool, (5,), 1)
    for value in (torch.tensor(9.0), torch.randn(6), torch.randn(1, 6)):
        check(lambda x, m, v: aten.index_put.default(x, [None, m], v), X, mask, value)


def test_what_depends_on_a_mask_runs_outside():
    mask = sample(torch.bool, (4,), 1)
    graph = check(lambda x, m: aten.index.Tensor(x, [m]), X, mask, native=False, mode="symbolic")
    assert host_calls(graph) == ["aten.index.Tensor"]


@pytest.mark.parametrize("mode", MODES)
def test_along_one_dim(mode: str):
    index = torch.randint(0, 3, (2, 5, 4))
    check(lambda x, i: aten.gather.default(x, -1, i), X, index, mode=mode)
    check(lambda x, i: aten.index_select.default(x, 1, i), X, torch.tensor([3, 0]), mode=mode)
    check(lambda x, i: aten.scatter_add.default(x, 2, i, x), X, index, mode=mode)
    distinct = torch.tensor([[[2], [0], [1]]])
    check(lambda x, i: aten.scatter.src(x, 2, i, x), X, distinct, mode=mode)
    check(lambda x, i: aten.scatter.value(x, 0, i, 7), X, index, mode=mode)


def test_zero_dim_operands_of_indexing():
    x, i = torch.tensor(3.0), torch.tensor(0)
    check(lambda x, i: aten.gather.default(x, 0, i), x, i)
    check(lambda x, i: aten.scatter.value(x, 0, i, 2.0), x, i)
    check(lambda x, i: aten.index_select.default(x, 0, i), x, i)
    check(lambda x, i: aten.index_select.default(x, 0, i), X, i)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bounds", [(1, 3, 1), (-3, None, 1), (0, 5, 2), (None, None, 3)])
def test_writing_parts(bounds: tuple[int | None, int | None, int], mode: str):
    part = X[:, slice(*bounds)].neg()
    check(lambda x, p: aten.slice_scatter.default(x, p, 1, *bounds), X, part, mode=mode)
    for index in (2, -1):
        part = X[:, :, index].neg()
        check(lambda x, p: aten.select_scatter.default(x, p, 2, index), X, part, mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_writing_a_diagonal(mode: str):
    x = torch.randn(4, 6, 5)
    for dims in ((0, 1), (1, 0), (-1, 0), (1, 2)):
        for offset in (0, 1, -2):
            source = torch.randn(x.diagonal(offset, *dims).shape)
            write = partial(
                aten.diagonal_scatter.default, offset=offset, dim1=dims[0], dim2=dims[1]
            )
            check(write, x, source, mode=mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_repeated_positions(mode: str, dtype: torch.dtype):
    repeats = torch.tensor([2, 0, 0, 3, 1, 0], dtype=dtype)
    check(lambda r: aten.repeat_interleave(r, output_size=6), repeats, mode=mode)
    check(lambda r: aten.repeat_interleave(r, output_size=0), repeats[:0])
    graph = imported(lambda r: aten.repeat_interleave(r, output_size=6), [repeats], mode)
    for wrong in ([2, 0, 0, 3, 1, 1], [2, 0, 0, 3, 0, 0], [2, -1, 1, 3, 1, 0], [9, 0, 0, 0, 0, 0]):
        with pytest.raises(RuntimeError):
            run(graph, [torch.tensor(wrong, dtype=dtype)])


@pytest.mark.parametrize(
    ("function", "index"),
    [
        (lambda x, i: aten.index.Tensor(x, [i]), 4),
        (lambda x, i: aten.index.Tensor(x, [i]), -5),
        (lambda x, i: aten.gather.default(x, 0, i), -1),
        (lambda x, i: aten.embedding.default(x[0], i), -1),
        (lambda x, i: aten.index_select.default(x, 0, i), -1),
        (lambda x, i: aten.index_put.default(x, [i], torch.tensor(0.0)), 4),
    ],
)
def test_positions_outside_are_errors(function, index: int):
    good, bad = torch.zeros(1, 1, 1, dtype=torch.int64), torch.full((1, 1, 1), index)
    if "index_select" in str(function.__code__.co_names):
        good, bad = good.view(1), bad.view(1)
    graph = imported(function, (X, good), "fake")
    run(graph, (X, good))
    with pytest.raises((IndexError, RuntimeError)):
        run(graph, (X, bad))


# --- matrix products ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.int8])
@pytest.mark.parametrize("mode", MODES)
def test_products(dtype: torch.dtype, mode: str):
    x, y = sample(dtype, (3, 4)), sample(dtype, (4, 5), 1)
    check(aten.mm.default, x, y, mode=mode)
    check(lambda x, y: aten.bmm.default(x[None], y[None]), x, y, mode=mode)
    check(aten.mm.default, x[:, :0], y[:0], mode=mode)
    check(lambda x, y: aten.mv.default(x, y[:, 0]), x, y, mode=mode)
    check(lambda x, y: aten.dot.default(x[0], y[:, 0]), x, y, mode=mode)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (0, 1), (2, 0.5), (0, 3)])
def test_products_with_addition(dtype: torch.dtype, beta: float, alpha: float):
    x, y = sample(dtype, (3, 8)), sample(dtype, (8, 5), 1)
    for bias in (sample(dtype, (5,), 2), torch.full((3, 5), float("nan"), dtype=dtype)):
        check(lambda b, x, y: aten.addmm.default(b, x, y, beta=beta, alpha=alpha), bias, x, y)
        check(
            lambda b, x, y: aten.baddbmm.default(b, x[None], y[None], beta=beta, alpha=alpha),
            bias,
            x,
            y,
        )


def test_half_precision_products_round_once():
    x, y, bias = (sample(torch.bfloat16, s, i) for i, s in enumerate([(9, 64), (64, 9), (9,)]))
    exact = (bias.double() + x.double() @ y.double()).to(torch.bfloat16)
    graph = imported(aten.addmm.default, (bias, x, y), "fake")
    assert torch.equal(run(graph, (bias, x, y))[0], exact)


def test_transposed_operands_become_flags():
    graph = imported(lambda x, y: aten.mm.default(x.t(), y.t()), (X[0], X[1, :, :5].t()), "fake")
    ops = list(graph.func.body.block.ops)
    [product] = [op for op in ops if isinstance(op, MatmulOp)]
    assert product.transposes == (True, True)
    assert "lpu_graph.transpose" not in {op.name for op in ops}


def test_empty_index_of_another_rank():
    x, index = sample(torch.float32, (3, 4)), torch.zeros(0, dtype=torch.int64)
    check(lambda x, i: x.gather(1, i), x, index)
    check(lambda x, i: x.scatter(1, i, 1.0), x, index)
    check(lambda x, i: x.scatter_add(0, i, x), x, index)


def test_product_of_no_booleans_runs_in_eager():
    x = torch.zeros(0, 0, dtype=torch.bool)
    assert host_calls(check(lambda x: x @ x, x, native=False)) == ["aten.mm.default"]


@pytest.mark.parametrize("ends", [[2, 2, 5, 8], [0, 0, 0, 9], [1, 2, 3, 4]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_grouped_product(ends: list[int], dtype: torch.dtype):
    """Rows [s, k] in groups, each times its own matrix; rows after the last group give 0."""
    pytest.importorskip("transformers.integrations.moe")
    x, weights = sample(dtype, (9, 5)), sample(dtype, (4, 5, 6), 1)
    operator = torch.ops.transformers.grouped_mm_fallback
    check(lambda x, w, e: operator(x, w, e), x, weights, torch.tensor(ends, dtype=torch.int32))


@pytest.mark.parametrize("other", [torch.float64, torch.bfloat16, torch.int64])
def test_products_of_different_dtypes_are_refused_as_in_eager(other: torch.dtype):
    x, y = torch.ones(3, 3), torch.ones(3, 3).to(other)
    for function in (torch.mm, lambda x, y: torch.addmm(y, x, x)):
        with pytest.raises(RuntimeError, match=r"dtype|same"):
            function(x, y)
        torch._dynamo.reset()
        with pytest.raises(RuntimeError, match=r"dtype|same"):
            torch.compile(function, backend="lpu_mlir")(x, y)


def test_a_source_of_another_size_than_its_slice_raises_what_eager_does():
    function = torch.compile(
        lambda x, y: torch.slice_scatter(x, y, 0, 4, 9), backend="lpu_mlir", dynamic=False
    )
    with pytest.raises(RuntimeError, match="size equal to the slice"):
        function(torch.zeros(6), torch.ones(3))
    assert torch.equal(function(torch.zeros(6), torch.ones(2))[4:], torch.ones(2))


# --- positions out of range -----------------------------------------------------------------------

ADDRESSING = {
    "gather": lambda x, i: x.gather(0, i[None]),
    "scatter": lambda x, i: x.scatter(0, i[None], 1.0),
    "scatter from a tensor": lambda x, i: x.scatter(0, i[None], x),
    "scatter_add": lambda x, i: x.scatter_add(0, i[None], x),
    "index_select of rows": lambda x, i: x.index_select(0, i),
    "index_select of columns": lambda x, i: x.index_select(1, i),
    "index_add": lambda x, i: x.index_add(0, i, x[:1]),
    "index_add of a vector": lambda x, i: x[:, 0].index_add(0, i, x[:1, 0]),
    "index_copy": lambda x, i: x.index_copy(0, i, x[:1]),
    "index_fill": lambda x, i: x.index_fill(0, i, 1.0),
    "indexing": lambda x, i: x[:, i],
    "index_put": lambda x, i: x.index_put((i,), torch.tensor(1.0)),
    "embedding": lambda x, i: torch.nn.functional.embedding(i, x),
    "nll_loss": lambda x, i: torch.nn.functional.nll_loss(x[:1], i),
}


@pytest.mark.parametrize("position", [0, -1, 7, -7])
@pytest.mark.parametrize("name", ADDRESSING)
def test_positions_out_of_range_raise_what_eager_does(name: str, position: int):
    function, x, index = ADDRESSING[name], torch.randn(3, 4), torch.tensor([position])
    torch._dynamo.reset()
    options = {"fallback": "error"}
    compiled = torch.compile(function, backend="lpu_mlir", dynamic=False, options=options)
    try:
        expected = function(x, index)
    except (IndexError, RuntimeError) as error:
        with pytest.raises(type(error), match="index out of range for dimension"):
            compiled(x, index)
    else:
        assert torch.equal(compiled(x, index), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, y, i: x.scatter_add(0, i[:, None].expand(90, 3), y),
        lambda x, y, i: x[:, 0].scatter_add(0, i, y[:, 0]),
        lambda x, y, i: x.index_add(0, i, y),
        lambda x, y, i: x[:, 0].index_add(0, i, y[:, 0]),
        lambda x, y, i: x.index_put((i,), y, accumulate=True),
    ],
)
def test_sums_at_positions_are_rounded_as_often_as_in_eager(function, dtype: torch.dtype):
    x, y, index = torch.randn(5, 3).to(dtype), torch.randn(90, 3).to(dtype), torch.arange(90) % 5
    compiled = torch.compile(function, backend="lpu_mlir", options={"fallback": "error"})
    assert torch.equal(compiled(x, y, index), function(x, y, index))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.index_fill(1, torch.tensor([-1, 0]), 2.0),
        lambda x: x[0, 0].index_fill(0, torch.tensor([-1]), 2.0),
        lambda x: x.index_add(1, torch.tensor([0, 2, 0]), x[:, :3], alpha=2),
        lambda x: x.bfloat16().index_add(0, torch.tensor([1, 1]), x[:2].bfloat16(), alpha=3),
        lambda x: x[0, 0].index_add(0, torch.tensor(0), x[0, 0]),
        lambda x: x.index_copy(0, torch.tensor([2, 0]), x[:2]),
        lambda x: x[0, 0].index_copy(0, torch.tensor([0]), x[1, 1]),
    ],
)
def test_slices_at_positions(function):
    x = torch.randn(3, 4)
    compiled = torch.compile(function, backend="lpu_mlir", options={"fallback": "error"})
    torch.testing.assert_close(compiled(x), function(x))
