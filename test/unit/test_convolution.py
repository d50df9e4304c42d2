"""Convolutions and their gradients: the importer against eager, and whole programs."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from frontend_checks import check, sample
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lpu_mlir

pytestmark = pytest.mark.sampled

aten = torch.ops.aten
OPTIONS = {"fallback": "error", "verify": True}


def convolve(x, w, b, stride, padding, dilation, transposed, output_padding, groups):
    return aten.convolution.default(
        x, w, b, stride, padding, dilation, transposed, output_padding, groups
    )


# name: input, weight, stride, padding, dilation, transposed, output_padding, groups
CASES: Mapping[str, tuple[Any, ...]] = {
    "plain": ((2, 3, 7), (4, 3, 3), [1], [0], [1], False, [0], 1),
    "pointwise": ((2, 3, 5, 4), (4, 3, 1, 1), [1], [0], [1], False, [0], 1),
    "padded": ((2, 3, 6, 7), (4, 3, 3, 2), [1, 1], [1, 2], [1, 1], False, [0, 0], 1),
    "strided": ((1, 3, 9, 8), (2, 3, 3, 3), [2, 3], [1, 0], [1, 1], False, [0, 0], 1),
    "dilated": ((1, 2, 9, 11), (2, 2, 3, 3), [1, 2], [2, 3], [2, 3], False, [0, 0], 1),
    "wider_than_input": ((1, 2, 2, 3), (2, 2, 5, 5), [1, 1], [2, 3], [1, 1], False, [0, 0], 1),
    "grouped": ((2, 6, 5, 5), (4, 3, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 2),
    "depthwise": ((2, 4, 6, 5), (8, 1, 3, 3), [2, 1], [1, 1], [1, 1], False, [0, 0], 4),
    "volume": ((1, 2, 4, 5, 3), (3, 2, 2, 3, 2), [1, 2, 1], [0, 1, 1], [1], False, [0], 1),
    "transposed": ((2, 3, 4, 5), (3, 4, 3, 3), [2, 1], [1, 0], [1, 1], True, [1, 0], 1),
    "transposed_grouped": ((1, 4, 3, 4), (4, 3, 3, 2), [2, 3], [0, 1], [2, 1], True, [0, 2], 2),
    "transposed_volume": ((1, 2, 2, 3, 2), (2, 2, 3, 2, 2), [2], [1], [1], True, [1], 1),
    "transposed_cut": ((1, 2, 4), (2, 3, 2), [1], [2], [1], True, [0], 1),
    "no_batch": ((0, 3, 5, 5), (4, 3, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_convolution(name: str, dtype: torch.dtype):
    x_shape, w_shape, *rest = CASES[name]
    x, w = sample(dtype, x_shape, 1), sample(dtype, w_shape, 2)
    outputs = w_shape[1] * rest[-1] if rest[3] else w_shape[0]
    # Sums of some magnitude, the terms of which eager adds in another order.
    tolerances = {"rtol": 2e-2, "atol": 5e-2} if dtype == torch.bfloat16 else {}
    check(lambda x, w: convolve(x, w, None, *rest), x, w, **tolerances)
    check(
        lambda x, w, b: convolve(x, w, b, *rest), x, w, sample(dtype, (outputs,), 3), **tolerances
    )


def test_integers_are_exact():
    x, w = sample(torch.int64, (2, 4, 6), 1), sample(torch.int64, (6, 2, 3), 2)
    check(lambda x, w: F.conv1d(x, w, padding=2, groups=2), x, w, exact=True)


def test_inputs_of_any_layout():
    x = sample(torch.float32, (7, 2, 6, 3), 1).permute(1, 3, 0, 2)[..., ::2]
    w = sample(torch.float32, (3, 4, 3, 3), 2).transpose(0, 1)
    compiled = torch.compile(
        lambda x, w: F.conv2d(x, w, padding=1), backend="lpu_mlir", options=OPTIONS
    )
    torch.testing.assert_close(compiled(x, w), F.conv2d(x, w, padding=1))
    y, v = x.expand(2, 3, 7, 3), w[:, :1].expand(4, 3, 3, 3)
    torch.testing.assert_close(compiled(y, v), F.conv2d(y, v, padding=1))


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str):
    x_shape, w_shape, *rest = CASES[name]
    x, w = sample(torch.float64, x_shape, 1), sample(torch.float64, w_shape, 2)
    y = sample(torch.float64, convolve(x, w, None, *rest).shape, 3)
    sizes = [w_shape[1] * rest[-1] if rest[3] else w_shape[0]]

    def backward(mask: list[bool]) -> Callable:
        def function(y, x, w):
            found = aten.convolution_backward.default(y, x, w, sizes, *rest, mask)
            return [g for g in found if g is not None]

        return function

    for wanted in ((0, 1, 2), (0,), (1,), (2,)):
        check(backward([i in wanted for i in range(3)]), y, x, w)


# --- whole programs -----------------------------------------------------------------------------


def close_with_gradients(function: Callable, *inputs: torch.Tensor) -> lpu_mlir.Report:
    """Compiles a function; its result and the gradients of all inputs are eager's."""
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="lpu_mlir", options=OPTIONS)
    ours = [x.detach().clone().requires_grad_() for x in inputs]
    theirs = [x.detach().clone().requires_grad_() for x in inputs]
    with lpu_mlir.Report() as report:
        result, expected = compiled(*ours), function(*theirs)
        torch.testing.assert_close(result, expected)
        weights = torch.arange(1.0, 1 + result.numel(), dtype=result.dtype).cos()
        for y in (result, expected):
            y.backward(weights.reshape(y.shape))
    for x, y in zip(ours, theirs, strict=True):
        torch.testing.assert_close(x.grad, y.grad)
    assert len(report.graphs) >= 2
    return report


@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.data())
@pytest.mark.slow
def test_random_convolutions_train(data: st.DataObject):
    def number(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    n, groups, transposed = number(1, 2), number(1, 3), data.draw(st.booleans())
    sizes, strides = [[number(1, 3) for _ in range(n)] for _ in range(2)]
    dilations = [number(1, 2) for _ in range(n)]
    padding = [number(0, d * (k - 1)) for d, k in zip(dilations, sizes, strict=True)]
    extents = [d * (k - 1) + number(1, 5) for d, k in zip(dilations, sizes, strict=True)]
    inputs, outputs = groups * number(1, 2), groups * number(1, 2)
    first, second = (inputs, outputs) if transposed else (outputs, inputs)
    x = sample(torch.float64, (number(1, 2), inputs, *extents), 1)
    w = sample(torch.float64, (first, second // groups, *sizes), 2)
    b = sample(torch.float64, (outputs,), 3)
    zeros = [0] * n

    def function(x, w, b):
        y = convolve(x, w, b, strides, padding, dilations, transposed, zeros, groups)
        return torch.relu(y)

    close_with_gradients(function, x, w, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.slow
def test_sizes_known_only_at_run_time(dtype: torch.dtype):
    w = sample(dtype, (4, 3, 3, 3), 2)

    def function(x):
        return torch.relu(F.conv2d(x, w, stride=2, padding=1))

    compiled = torch.compile(function, backend="lpu_mlir", options=OPTIONS, dynamic=True)
    for shape in ((2, 3, 9, 8), (3, 3, 12, 5), (2, 3, 40, 70)):
        x = sample(dtype, shape, 1)
        tolerances = {"rtol": 2e-2, "atol": 5e-2} if dtype == torch.bfloat16 else {}
        torch.testing.assert_close(compiled(x), function(x), **tolerances)


class Chain(torch.nn.Module):
    """Convolution, normalisation, activation, several times."""

    def __init__(self, channels: int, depth: int):
        super().__init__()
        layers: list[torch.nn.Module] = []
        for _ in range(depth):
            layers.append(torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False))
            norm = torch.nn.BatchNorm2d(channels)
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
            layers += [norm, torch.nn.ReLU()]
        self.layers = torch.nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)


@torch.no_grad()
def test_one_kernel_for_each_convolution_of_a_chain():
    torch.manual_seed(0)
    model, x = Chain(8, 3).eval(), torch.randn(1, 8, 12, 10)
    compiled = torch.compile(model, backend="lpu_mlir", options=OPTIONS)
    with lpu_mlir.Report() as report:
        torch.testing.assert_close(compiled(x), model(x))
    # The first pads its input; the others find theirs padded.
    assert sum(kernel.launches for kernel in report.kernels) == 4
    bordered, plain = 8 * 14 * 12 * 4, 8 * 12 * 10 * 4
    weights = sum(p.numel() for p in model.parameters()) * 4 + 6 * 8 * 4
    assert report.dram_bytes == (plain + bordered) + weights + (3 + 2) * bordered + plain


@torch.no_grad()
@pytest.mark.slow
def test_changed_weights_are_seen():
    torch.manual_seed(0)
    model, x = Chain(4, 2).eval(), torch.randn(2, 4, 6, 6)
    compiled = torch.compile(model, backend="lpu_mlir", options=OPTIONS)
    compiled(x)
    model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()})
    torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.slow
def test_a_chain_trains():
    torch.manual_seed(0)
    model = Chain(4, 2).double()
    expected = Chain(4, 2).double()
    expected.load_state_dict(model.state_dict())
    x = torch.randn(3, 4, 6, 5, dtype=torch.float64)
    torch.compile(model, backend="lpu_mlir", options=OPTIONS)(x).square().sum().backward()
    expected(x).square().sum().backward()
    for ours, theirs in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)
    for ours, theirs in zip(model.buffers(), expected.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)
