"""What shapes tell about symbols: no tensor has a negative extent."""

import torch
from frontend_checks import imported

from lpu_mlir.dialects.lpu import symbols


def least(function, x: torch.Tensor) -> list[int]:
    graph = imported(function, [x], "symbolic")
    return [symbol.lower.data for symbol in symbols(graph.func)]


def test_extents_behind_a_quotient():
    """PyTorch itself narrows the range of a symbol by linear sizes only."""

    def pairs(x):
        return x[: x.shape[0] // 3 * 3].reshape(-1, 3).sum(1)

    assert least(pairs, torch.ones(20)) == [2]
    assert least(lambda x: pairs(x)[4:], torch.ones(20)) == [12]
    assert least(lambda x: pairs(pairs(x))[1:], torch.ones(40)) == [9]


def test_what_no_shape_shows_is_left_open():
    assert least(lambda x: x + 1, torch.ones(20)) == [2]
    assert least(lambda x: torch.cat([x, x]), torch.ones(20)) == [2]
