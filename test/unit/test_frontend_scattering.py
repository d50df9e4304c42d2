"""What combines elements at one position against eager."""

from functools import partial

import pytest
import torch
from frontend_checks import DTYPES, check, host_calls, imported, sample
from graph_evaluator import run

pytestmark = pytest.mark.sampled

aten = torch.ops.aten
REDUCES = ("sum", "prod", "mean", "amax", "amin")
MODES = ["fake", "symbolic"]
SHAPES = [((), (), ()), ((4, 3), (9, 3), (9, 3)), ((4, 3), (7, 2), (9, 4)), ((3,), (0,), (2,))]
"""Of the tensor, the index and the source."""


def defined(reduce: str, dtype: torch.dtype) -> bool:
    return dtype != torch.bool or reduce != "mean"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduce", REDUCES)
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce(dtype: torch.dtype, reduce: str, include_self: bool):
    """The first elements of the source are NaN and infinite; many go to one position."""
    if not defined(reduce, dtype):
        return
    for x, index, source in SHAPES:
        places = torch.randint(0, x[0] if x else 1, index)
        check(
            lambda x, i, s: x.scatter_reduce(0, i, s, reduce, include_self=include_self),
            sample(dtype, x),
            places,
            sample(dtype, source, 1, special=True),
        )


@pytest.mark.parametrize("reduce", REDUCES)
def test_scatter_reduce_of_any_shape(reduce: str):
    x, index = torch.randn(4, 5), torch.randint(0, 4, (6, 5))
    check(
        lambda x, i, s: x.scatter_reduce(-2, i, s, reduce),
        *(x, index, torch.randn(6, 5)),
        mode="symbolic",
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.filterwarnings("ignore:The reduce argument")
@pytest.mark.parametrize("reduce", ["add", "multiply"])
def test_scatter_with_a_reduction(dtype: torch.dtype, reduce: str):
    x, index = sample(dtype, (4, 3)), torch.randint(0, 4, (9, 3))
    source = sample(dtype, (9, 3), 1, special=True)
    for mode in MODES:
        check(lambda x, i, s: x.scatter(0, i, s, reduce=reduce), x, index, source, mode=mode)
        check(lambda x, i: x.scatter(0, i, 3, reduce=reduce), x, index, mode=mode)


@pytest.mark.parametrize("shape", [(4,), (4, 3), (2, 4, 3)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduce", REDUCES[1:])
@pytest.mark.parametrize("include_self", [True, False])
def test_index_reduce(shape: tuple[int, ...], dtype: torch.dtype, reduce: str, include_self: bool):
    dim = shape.index(4)
    index = torch.randint(0, 3, (7,), dtype=torch.int32)
    source = sample(dtype, (*shape[:dim], 7, *shape[dim + 1 :]), 1, special=True)
    function = partial(aten.index_reduce.default, reduce=reduce, include_self=include_self)
    native = dtype != torch.bool
    for mode in MODES:
        try:
            check(
                lambda x, i, s: function(x, dim, i, s),
                *(sample(dtype, shape), index, source),
                mode=mode,
                native=native,
            )
        except NotImplementedError:
            assert not native


def test_many_halves_at_one_position_are_rounded_as_in_eager():
    """Each time along a dim, and so is their count; once where every element has a position."""
    for dtype in (torch.bfloat16, torch.float16):
        source, x = sample(dtype, (900, 2)).abs(), sample(dtype, (2, 2))
        index = torch.zeros(900, dtype=torch.int64)
        for reduce in ("mean", "prod"):
            check(lambda x, i, s: x.index_reduce(0, i, s, reduce), x, index, source, exact=True)
            check(
                lambda x, i, s: x.index_reduce(0, i, s, reduce),
                *(x[:, 0].clone(), index, source[:, 0].clone()),
                exact=True,
            )
            wide = index[:, None].repeat(1, 2)
            check(lambda x, i, s: x.scatter_reduce(0, i, s, reduce), x, wide, source, exact=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("accumulate", [True, False])
def test_put(dtype: torch.dtype, accumulate: bool):
    x = sample(dtype, (4, 3))
    for shape in ((), (0,), (2, 3)):
        index = torch.randperm(12)[: torch.Size(shape).numel()].view(shape) - 6
        source = sample(dtype, shape, 1)
        for mode in MODES:
            check(lambda x, i, s: x.put(i, s, accumulate), x, index, source, mode=mode)
            check(lambda x, i, s: x.t().put(i, s, accumulate), x, index, source, mode=mode)
    if accumulate:
        index = torch.tensor([0, -1, 0, 11, 3])
        check(lambda x, i, s: x.put(i, s, True), x, index, sample(dtype, (5,), 1))


def test_booleans_accumulate():
    x, source = sample(torch.bool, (4, 3)), sample(torch.bool, (5, 3), 1)
    index = torch.tensor([0, 2, 2, 3, 2])
    check(lambda x, i, s: x.index_add(0, i, s), x, index, source)
    check(lambda x, i, s: x.index_put((i,), s, accumulate=True), x, index, source)
    check(lambda x, i, s: x.scatter_add(0, i[:, None].expand(5, 3), s), x, index, source)
    graph = imported(lambda x, i, s: x.index_add(0, i, s, alpha=0), (x, index, source), "fake")
    assert host_calls(graph) == ["aten.index_add.default"]


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda x, i: x.scatter_reduce(0, i, x, "amax"), RuntimeError),
        (lambda x, i: x.scatter_reduce(0, i, x, "mean", include_self=False), RuntimeError),
        (lambda x, i: aten.scatter.value_reduce(x, 0, i, 2, reduce="add"), RuntimeError),
        (lambda x, i: x.index_reduce(0, i, x, "amax"), IndexError),
        (lambda x, i: x.index_reduce(0, i, x, "prod", include_self=False), IndexError),
        (lambda x, i: x.put(i + (i < 0) * -3, x), IndexError),
    ],
)
@pytest.mark.parametrize("bad", [4, -2])
def test_positions_outside_are_errors(function, error: type[Exception], bad: int):
    x, index = torch.ones(4), torch.tensor([0, 1, 2, 3])
    graph = imported(function, (x, index), "fake")
    run(graph, (x, index))
    index[2] = bad
    with pytest.raises(error):
        function(x, index)
    with pytest.raises(error):
        run(graph, (x, index))
