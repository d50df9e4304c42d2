"""Poolings and their gradients against eager."""

from collections.abc import Callable, Mapping

import pytest
import torch
import torch.nn.functional as F
from frontend_checks import INTEGERS, check, sample

import lpu_mlir

pytestmark = pytest.mark.sampled

aten = torch.ops.aten

WINDOWS: Mapping[str, dict] = {
    "beside": {"kernel_size": 2},
    "overlapping": {"kernel_size": 3, "stride": 2, "padding": 1},
    "apart": {"kernel_size": (1, 2), "stride": (2, 3)},
    "ceil": {"kernel_size": (3, 2), "stride": (2, 2), "padding": (1, 0), "ceil_mode": True},
}
IMAGE = sample(torch.float64, (2, 3, 9, 8), 1)
VOLUME = sample(torch.float64, (1, 2, 5, 6, 7), 2)
SIZES = [1, 3, (3, 4), (4, 5), (9, 8), (10, 2)]


def gradient(function: Callable, x: torch.Tensor) -> torch.Tensor:
    """Something of the shape of the result."""
    y = function(x)
    return sample(x.dtype, (y[0] if isinstance(y, tuple) else y).shape, 3)


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int64])
def test_average(name: str, dtype: torch.dtype):
    x, config = sample(dtype, IMAGE.shape, 1), WINDOWS[name]
    check(lambda x: F.avg_pool2d(x, **config), x)
    check(lambda x: F.avg_pool2d(x[0], **config, count_include_pad=False), x)
    check(lambda x: F.avg_pool2d(x, **config, divisor_override=3), x)


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, *INTEGERS])
def test_maximum(name: str, dtype: torch.dtype):
    x, config = sample(dtype, IMAGE.shape, 1), WINDOWS[name]
    check(lambda x: F.max_pool2d(x, **config, return_indices=True), x, exact=True)
    check(lambda x: F.max_pool2d(x[0], **config, return_indices=True, dilation=2), x, exact=True)


def test_positions_of_special_values():
    """The last NaN wins, and what lies in the padding never."""
    x = torch.full((3, 6, 6), -float("inf"))
    x[0, 2, 1:4] = float("nan")
    x[1, 3:, 3:] = 7.0
    check(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), x, exact=True)
    check(lambda x: F.adaptive_max_pool2d(x, 4, return_indices=True), x, exact=True)
    lowest = torch.full((1, 5, 5), torch.iinfo(torch.int32).min, dtype=torch.int32)
    check(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), lowest, exact=True)


def test_other_ranks():
    for function in (
        lambda x: F.avg_pool1d(x, 3, 2, 1),
        lambda x: F.max_pool1d(x, 3, 2, 1),
        lambda x: F.adaptive_avg_pool1d(x, 5),
        lambda x: F.adaptive_max_pool1d(x, 3, return_indices=True),
    ):
        check(function, IMAGE[0])
    for function in (
        lambda x: F.avg_pool3d(x, (3, 2, 3), 2, 1, count_include_pad=False),
        lambda x: F.max_pool3d(x, (3, 2, 3), 2, 1, return_indices=True),
        lambda x: F.adaptive_avg_pool3d(x, (2, 3, 4)),
        lambda x: F.adaptive_max_pool3d(x, (5, 2, 3), return_indices=True),
    ):
        check(function, VOLUME)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_adaptive(size: int | tuple[int, int]):
    check(lambda x: F.adaptive_avg_pool2d(x, size), IMAGE)
    check(lambda x: F.adaptive_avg_pool2d(x, size), IMAGE.bfloat16())
    check(lambda x: F.adaptive_max_pool2d(x, size, return_indices=True), IMAGE, exact=True)


def test_windows_choose_what_they_do_not_cover_by_selection():
    """An infinity outside a window is not multiplied by 0."""
    x = torch.ones(1, 5, 7)
    x[0, 0, 0], x[0, 4, 6] = float("inf"), float("nan")
    check(lambda x: F.adaptive_avg_pool2d(x, (2, 3)), x)


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_gradients(name: str, dtype: torch.dtype):
    x, config = IMAGE.to(dtype), WINDOWS[name]
    window = [config["kernel_size"], config.get("stride", ()), config.get("padding", 0)]
    kernel, stride, padding = [[v] if isinstance(v, int) else list(v) for v in window]
    ceil = config.get("ceil_mode", False)

    def average(y, x):
        return aten.avg_pool2d_backward.default(y, x, kernel, stride, padding, ceil, False, None)

    def maximum(y, x):
        indices = F.max_pool2d(x, **config, return_indices=True)[1]
        return aten.max_pool2d_with_indices_backward.default(
            y, x, kernel, stride, padding, [1], ceil, indices
        )

    for backward in (average, maximum):
        check(backward, gradient(lambda x: F.avg_pool2d(x, **config), x), x)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_adaptive_gradients(size: int | tuple[int, int]):
    y = gradient(lambda x: F.adaptive_avg_pool2d(x, size), IMAGE)
    check(aten._adaptive_avg_pool2d_backward.default, y, IMAGE)

    def maximum(y, x):
        indices = F.adaptive_max_pool2d(x, size, return_indices=True)[1]
        return aten.adaptive_max_pool2d_backward.default(y, x, indices)

    check(maximum, y, IMAGE)


@pytest.mark.parametrize("name", WINDOWS)
def test_unfold(name: str):
    config = {k: v for k, v in WINDOWS[name].items() if k != "ceil_mode"}
    check(lambda x: F.unfold(x, **config), IMAGE)
    check(lambda x: F.unfold(x[0], **config, dilation=2), IMAGE)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_unfold_of_one_dim(dim: int, mode: str):
    x = sample(torch.float32, (5, 7, 6), 1)
    check(lambda x: x.neg().unfold(dim, 3, 2), x, mode=mode)
    check(lambda x: x.unfold(dim, 2, 1) + 1, x, mode=mode)
    check(lambda x: x.sum().unfold(0, 1, 1), x)


# --- whole programs -----------------------------------------------------------------------------


def stem(x: torch.Tensor) -> torch.Tensor:
    """What many networks for images begin and end with."""
    x = F.max_pool2d(torch.relu(x), 3, 2, 1)
    x = F.avg_pool2d(x, 2, ceil_mode=True)
    return F.adaptive_avg_pool2d(x, 1).flatten(1)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.slow
def test_training(dynamic: bool):
    options = {"fallback": "error", "verify": True}
    compiled = torch.compile(stem, backend="lpu_mlir", options=options, dynamic=dynamic)
    with lpu_mlir.Report() as report:
        for shape in ((2, 3, 13, 10), (3, 3, 9, 21)):
            ours = sample(torch.float64, shape, 1).requires_grad_()
            theirs = ours.detach().clone().requires_grad_()
            result, expected = compiled(ours), stem(theirs)
            torch.testing.assert_close(result, expected)
            result.square().sum().backward()
            expected.square().sum().backward()
            torch.testing.assert_close(ours.grad, theirs.grad)
    assert len(report.graphs) == (2 if dynamic else 4)


def test_overlapping_windows_are_read_once():
    x = torch.randn(4, 65, 65)
    compiled = torch.compile(
        lambda x: F.max_pool2d(x, 3, 2), backend="lpu_mlir", options={"fallback": "error"}
    )
    with lpu_mlir.Report() as report, torch.no_grad():
        torch.testing.assert_close(compiled(x), F.max_pool2d(x, 3, 2))
    # Each core reads the 3 rows of its row of windows, each element once, and writes that row.
    assert report.dram_bytes == 4 * 4 * (32 * 3 * 65 + 32 * 32)
