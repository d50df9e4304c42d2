"""What a mask selects against eager."""

import pytest
import torch
from frontend_checks import DTYPES, check, host_calls, imported, sample
from graph_evaluator import run

pytestmark = pytest.mark.sampled

aten = torch.ops.aten
MODES = ["fake", "symbolic"]
MASK = torch.tensor([[True, False, True], [False, False, True], [True, True, False]])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
def test_masked_scatter(dtype: torch.dtype, mode: str):
    """The source may have more, and any strides; mask and tensor broadcast."""
    x, source = sample(dtype, (2, 3, 3)), sample(dtype, (6, 4), 1, special=True).t()
    for mask in (MASK, MASK[:, :1], sample(torch.bool, (2, 1, 3)), torch.zeros_like(MASK)):
        check(torch.masked_scatter, x, mask, source, mode=mode, exact=True)
    check(torch.masked_scatter, x[0, :1], MASK, source, mode=mode, exact=True)


def test_masked_scatter_of_unusual_shapes():
    true, one = torch.tensor(True), torch.tensor(2.0)
    check(torch.masked_scatter, torch.tensor(1.0), true, one)
    check(torch.masked_scatter, torch.ones(3), torch.zeros(3).bool(), torch.ones(0))
    check(torch.masked_scatter, torch.ones(0, 3), torch.zeros(0, 3).bool(), torch.ones(0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
def test_masked_scatter_backward(dtype: torch.dtype, mode: str):
    grad = sample(dtype, (2, 3, 3), special=True)
    for mask in (MASK, MASK[:, :1], sample(torch.bool, (2, 1, 3))):
        check(lambda g, m: aten.masked_scatter_backward(g, m, [4, 5]), grad, mask, mode=mode)


def putting(before: int, accumulate: bool):
    """x[:, …, mask] = values, or += values, with that many dims before the mask."""

    def put(x: torch.Tensor, mask: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return aten.index_put(x, [*[None] * before, mask], values, accumulate)

    return put


@pytest.mark.parametrize("accumulate", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
def test_masked_index_put(dtype: torch.dtype, accumulate: bool, mode: str):
    """A value for each element that the mask selects, or for all of them."""
    x = sample(dtype, (3, 3, 4))
    cases = [
        ([MASK], [(5, 4), (5, 1), (1, 4), (4,), ()]),
        ([None, MASK[0]], [(3, 2, 4), (2, 1), (3, 1, 4), (1,)]),
        ([sample(torch.bool, (3, 3, 4), 3)], [(sample(torch.bool, (3, 3, 4), 3).sum(),), (1,)]),
    ]
    for indices, shapes in cases:
        for shape in shapes:
            values = sample(dtype, tuple(map(int, shape)), 2, special=True)
            put = putting(len(indices) - 1, accumulate)
            check(put, x, indices[-1], values, mode=mode)


@pytest.mark.parametrize("count", [0, 2, 3, 5])
def test_another_number_of_values_than_the_mask_selects_is_an_error(count: int):
    x, mask = torch.zeros(4, 2), torch.tensor([True, False, True, True])
    values = torch.ones(count, 2)

    put = putting(0, False)
    graph = imported(put, (x, mask, values), "fake")
    assert host_calls(graph) == []
    for wrong in (mask, torch.zeros_like(mask), torch.ones_like(mask)):
        if wrong.sum() == count:
            assert torch.equal(run(graph, (x, wrong, values))[0], put(x, wrong, values))
            continue
        with pytest.raises(RuntimeError):
            put(x, wrong, values)
        with pytest.raises(RuntimeError):
            run(graph, (x, wrong, values))


def test_a_source_with_less_than_the_mask_selects_is_an_error():
    x, source = torch.zeros(3, 3), torch.ones(4)
    for function in (
        lambda x, m, s: x.masked_scatter(m, s),
        lambda x, m, s: aten.masked_scatter_backward(x, m, s.shape),
    ):
        graph = imported(function, (x, MASK, source), "fake")
        with pytest.raises(RuntimeError):
            function(x, MASK, source)
        with pytest.raises(RuntimeError):
            run(graph, (x, MASK, source))


def test_a_mask_with_positions_is_left_to_the_host():
    x, index = torch.zeros(3, 3), torch.tensor([0, 2])
    graph = imported(
        lambda x, m, i: aten.index_put(x, [m, i], torch.tensor(1.0)), (x, MASK[0], index), "fake"
    )
    assert host_calls(graph) == ["aten.index_put.default"]
