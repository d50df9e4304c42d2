"""Grid samplers and their gradients against eager."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import pytest
import torch
from frontend_checks import FLOATS, check, sample

pytestmark = pytest.mark.sampled

aten = torch.ops.aten

MODES = (0, 1, 2)
PADDINGS = (0, 1, 2)
FORMS = [*((dtype, False) for dtype in FLOATS), (torch.float32, True), (torch.bfloat16, True)]


def grid(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Coordinates inside and outside of the image, at its edges and far away."""
    values = sample(torch.float64, shape, 3) * 0.6
    values.view(-1)[:6] = torch.tensor([-1.0, 1.0, 0.0, -1.0, 7.3, -4.1])
    return values.to(dtype)


def both(x: torch.Tensor, at: torch.Tensor, how: Sequence, mode: str = "fake") -> None:
    n = x.ndim - 2
    forward = getattr(aten, f"grid_sampler_{n}d").default
    backward = getattr(aten, f"grid_sampler_{n}d_backward").default
    check(lambda x, at: forward(x, at, *how), x, at, mode=mode)
    gradient = sample(x.dtype, forward(x, at, *how).shape, 5)
    native = x.dtype not in (torch.float16, torch.bfloat16)  # whose sums eager alone knows
    loose = 1e-4 if x.dtype == torch.float32 else 1e-9
    check(
        lambda g, x, at: backward(g, x, at, *how, [True, True]), gradient, x, at,
        mode=mode, native=native, atol=loose, rtol=loose,
    )  # fmt: skip


@pytest.mark.parametrize(("dtype", "corners"), FORMS)
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", MODES)
def test_two_dims(dtype: torch.dtype, mode: int, padding: int, corners: bool):
    x = sample(dtype, (2, 3, 5, 4), 1)
    both(x, grid(dtype, 2, 3, 6, 2), (mode, padding, corners))


@pytest.mark.parametrize(("dtype", "corners"), FORMS)
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", MODES[:2])
def test_three_dims(dtype: torch.dtype, mode: int, padding: int, corners: bool):
    x = sample(dtype, (2, 2, 3, 5, 4), 1)
    both(x, grid(dtype, 2, 3, 2, 3, 3), (mode, padding, corners))


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", MODES)
def test_sizes_that_are_not_known(mode: int, padding: int):
    x, at = sample(torch.float32, (2, 3, 5, 4), 1), grid(torch.float32, 2, 3, 6, 2)
    both(x, at, (mode, padding, False), "symbolic")
    both(x, at, (mode, padding, True), "symbolic")
    if mode < 2:
        both(
            x[:, :, None].repeat(1, 1, 3, 1, 1),
            grid(torch.float32, 2, 3, 2, 6, 3),
            (mode, padding, True),
            "symbolic",
        )


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", MODES)
def test_one_element(mode: int, padding: int, corners: bool):
    """And strided operands."""
    dtype = torch.float32
    x, at = sample(dtype, (2, 3, 1, 1), 1), grid(dtype, 2, 2, 3, 6).permute(0, 2, 3, 1)
    both(x, at, (mode, padding, corners))
    if mode < 2:
        both(x[..., None], grid(dtype, 2, 3, 2, 3, 3), (mode, padding, corners))


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", MODES)
def test_what_is_not_finite(mode: int, padding: int, corners: bool):
    """In the image; and in the grid, where gradients at NaN are not defined in eager."""
    x = sample(torch.float32, (1, 2, 5, 4), 1, special=True)
    both(x, grid(torch.float32, 1, 4, 9, 2), (mode, padding, corners))
    volume = sample(torch.float32, (1, 2, 3, 5, 4), 1, special=True)
    if mode < 2:
        both(volume, grid(torch.float32, 1, 4, 3, 3, 3), (mode, padding, corners))
    at = grid(torch.float32, 1, 4, 9, 2)
    at.view(-1)[6:13:3] = torch.tensor([math.inf, -math.inf, math.nan])
    how = (mode, padding, corners)
    check(lambda x, at: aten.grid_sampler_2d(x, at, *how), x, at)
    if mode < 2:
        at = grid(torch.float32, 1, 4, 3, 3, 3)
        at.view(-1)[6:16:4] = torch.tensor([math.inf, -math.inf, math.nan])
        check(lambda x, at: aten.grid_sampler_3d(x, at, *how), volume, at)


def test_gradient_of_the_grid_alone():
    x, at = sample(torch.float32, (2, 3, 5, 4), 1), grid(torch.float32, 2, 3, 6, 2)
    backward, gradient = aten.grid_sampler_2d_backward, torch.ones(2, 3, 3, 6)
    for mode in MODES:
        how = (mode, 0, False, [False, True])
        function = partial(_second, backward, how)
        check(function, gradient, x, at, atol=1e-4, rtol=1e-4)


def _second(function: Callable, how: Sequence, *tensors: torch.Tensor) -> torch.Tensor:
    return function(*tensors, *how)[1]


def test_empty():
    for mode in MODES:
        both(torch.ones(0, 3, 5, 4), torch.ones(0, 2, 3, 2), (mode, 0, False))
        both(torch.ones(1, 3, 5, 4), torch.ones(1, 0, 3, 2), (mode, 0, False))
