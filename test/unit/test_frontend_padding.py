"""The gradients of paddings against eager."""

from collections.abc import Sequence

import pytest
import torch
from frontend_checks import FLOATS, check, sample

pytestmark = pytest.mark.sampled

aten = torch.ops.aten

PADDINGS = ((1, 2, 3, 0, 2, 1), (0, 0, 0, 0, 0, 0), (4, 7, 1, 1, 5, 0), (-1, 2, 1, -2, 0, -1))


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("dtype", FLOATS)
def test_replication(dtype: torch.dtype, n: int, padding: Sequence[int]):
    """Half precision stays with eager; what is not finite stays where it is added."""
    backward = getattr(aten, f"replication_pad{n}d_backward").default
    forward = getattr(aten, f"replication_pad{n}d").default
    how, native = list(padding[: 2 * n]), dtype in (torch.float32, torch.float64)
    for lead in ((2, 3), (3,)):
        x = sample(dtype, (*lead, 4, 5, 3)[: len(lead) + n], 1)
        gradient = sample(dtype, forward(x, how).shape, 2, special=True)
        check(lambda g, x: backward(g, x, how), gradient, x, native=native)


@pytest.mark.parametrize("padding", PADDINGS)
def test_sizes_that_are_not_known(padding: Sequence[int]):
    """The gradient is made of the input: its sizes are known to belong together."""
    how = list(padding)

    def function(x: torch.Tensor) -> torch.Tensor:
        gradient = torch.constant_pad_nd(x, how, 1.5)
        return aten.replication_pad3d_backward(gradient, x, how)

    check(function, sample(torch.float32, (2, 3, 4, 5, 3), 1), mode="symbolic")


def test_nothing():
    check(
        lambda g, x: aten.replication_pad2d_backward(g, x, [1, 1, 2, 0]),
        torch.ones(0, 3, 6, 5), torch.ones(0, 3, 4, 3),
    )  # fmt: skip
