"""torch.compile where elements or operators stay outside the LPU, against eager PyTorch."""

from collections.abc import Callable
from unittest.mock import patch

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed

from lpu_mlir.report import Report

pytestmark = pytest.mark.sampled


def check(function: Callable, *inputs: Tensor, dynamic: bool = False) -> None:
    """Results, and what becomes of the inputs; the backend must have been called."""
    expected_inputs, inputs = [x.clone() for x in inputs], tuple(x.clone() for x in inputs)
    expected = function(*expected_inputs)
    compare(function, expected, inputs, dynamic)
    torch.testing.assert_close(list(inputs), expected_inputs, rtol=0, atol=0, equal_nan=True)


def compare(
    function: Callable,
    expected: object,
    inputs: tuple,
    dynamic: bool = False,
    tolerance: float = 0.0,
) -> None:
    torch._dynamo.reset()
    with Report() as seen:
        result = torch.compile(function, backend="lpu_mlir", dynamic=dynamic)(*inputs)
    assert seen.graphs
    torch.testing.assert_close(result, expected, rtol=0, atol=tolerance, equal_nan=True)


# --- operators with side effects ----------------------------------------------------------------

INVERTIBLE = torch.tensor([[4.0, 1.0], [1.0, 3.0]])


@pytest.mark.parametrize("function", [torch.linalg.inv, torch.linalg.cholesky])
def test_operators_that_check_their_result(function):
    check(lambda x: function(x) + 1, INVERTIBLE)


def test_a_failed_check_is_raised():
    function = torch.compile(torch.linalg.inv, backend="lpu_mlir")
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        function(torch.zeros(2, 2))


# --- dtypes that only pass through --------------------------------------------------------------

COMPLEX = torch.complex(torch.arange(12.0), -torch.arange(12.0)).view(3, 4)
UNSIGNED = (torch.arange(12) + (1 << 62)).to(torch.uint64).view(3, 4)


def doubled_in_place(x: Tensor) -> Tensor:
    x.mul_(2)
    return x.t()


def replaced(x: Tensor, y: Tensor) -> Tensor:
    x.copy_(y)
    return x.clone()


def in_each_others_place(x: Tensor, y: Tensor) -> Tensor:
    total = x + y
    x.copy_(y)
    y.copy_(total)
    return x * 2


def reversed_in_place(x: Tensor) -> Tensor:
    x.copy_(x.flip(0))
    return x.t()


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_complex_result_in_another_layout(dynamic):
    check(lambda x: (x.t() * 2).t(), COMPLEX, dynamic=dynamic)
    check(lambda x: torch.fft.fft(x).transpose(0, 1), torch.ones(5, 3), dynamic=dynamic)


def test_inputs_that_take_each_others_place():
    check(in_each_others_place, torch.arange(6.0), torch.ones(6))
    check(in_each_others_place, torch.arange(12.0).view(3, 4).t(), torch.ones(4, 3))


def test_a_complex_result_whose_elements_share_memory():
    x = torch.randn(1, 2).expand(10, 2)
    check(torch.view_as_complex, x)
    check(lambda x: torch.view_as_complex(x)[2:], x)
    check(lambda x: (torch.view_as_complex(x + 0).expand(4, 10)[1:], x), x)


def test_operands_lie_in_memory_as_in_eager():
    """By which a long sort goes among equal elements."""
    values = torch.tensor([1.0, 2.0]).repeat(5000)
    check(lambda x: x.sort(stable=False), torch.ones(1).expand(9000))
    check(lambda x: x.t().sort(dim=0, stable=False), values.view(2, 5000))


@torch.library.custom_op("lpu_mlir_host::strides", mutates_args=())
def strides_of(x: Tensor) -> Tensor:
    return torch.tensor(x.stride())


@strides_of.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty(x.dim(), dtype=torch.int64)


LAID_OUT = {
    "part": lambda x: x[:3, :3],
    "steps": lambda x: x[::2, ::3],
    "of a result": lambda x: (x * 2)[:3, 1:5],
    "transposed": lambda x: (x * 2)[:3, :4].t(),
    "expanded": lambda x: (x[:1, ::2] + 1).expand(4, 4),
    "windows": lambda x: (x + 1).unfold(0, 2, 1),
    "copied": lambda x: x[:3, :3].contiguous(),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("layout", LAID_OUT)
def test_operands_have_the_strides_of_eager(layout: str, dynamic: bool):
    check(
        lambda x: (strides_of(LAID_OUT[layout](x)), LAID_OUT[layout](x).erfc()),
        torch.randn(5, 7),
        dynamic=dynamic,
    )


@pytest.mark.parametrize("layout", ["part", "steps", "of a result", "transposed"])
def test_gradients_of_determinants_of_parts(layout: str):
    """LAPACK takes the matrix or its transpose, and the gradient goes by which it was."""

    def gradient(function: Callable[[Tensor], Tensor]) -> Tensor:
        torch.manual_seed(0)
        x = torch.randn(5, 7, requires_grad=True)
        function(x).backward()
        assert x.grad is not None
        return x.grad

    def function(x: Tensor) -> Tensor:
        part = LAID_OUT[layout](x)
        return torch.linalg.det(part[:, : part.shape[0]][: part.shape[1]])

    with Report() as report:
        found = gradient(torch.compile(function, backend="lpu_mlir"))
    assert len(report.graphs) == 2
    torch.testing.assert_close(found, gradient(function))


def test_complex_inputs_change_in_place():
    check(doubled_in_place, COMPLEX)
    check(replaced, COMPLEX, torch.arange(4.0))


def test_wide_unsigned_integers():
    check(lambda x: (x.t().clone(), x.t().contiguous()), UNSIGNED)
    check(reversed_in_place, UNSIGNED)
    check(replaced, torch.zeros(3, 4), UNSIGNED)


# --- layouts ------------------------------------------------------------------------------------


def test_host_calls_get_dense_operands():
    def function(weight: Tensor, indices: Tensor, offsets: Tensor) -> Tensor:
        return torch.nn.functional.embedding_bag(indices, weight, offsets, mode="sum")

    weight, indices = torch.arange(50.0).view(10, 5), torch.arange(10)[::2]
    offsets = torch.tensor([0, 3])
    expected = function(weight, indices, offsets)
    compare(function, expected, (weight, indices, offsets))


def test_results_that_nobody_reads_may_be_left_out():
    def function(weight: Tensor, indices: Tensor) -> Tensor:
        return torch.nn.functional.embedding_bag(indices, weight, mode="sum")

    inputs = (torch.arange(50).view(10, 5).bfloat16(), torch.arange(10).view(5, 2))
    compare(function, function(*inputs), inputs)


@pytest.mark.parametrize("dynamic", [False, True])
def test_as_strided_reaches_around_a_view(dynamic):
    storage = torch.arange(30.0)

    def function(x: Tensor) -> Tensor:
        return x.as_strided((2, 10), (10, 1), 4) + 1

    compare(function, function(storage[3:9]), (storage[3:9],), dynamic)
    compare(function, function(storage[:20:2]), (storage[:20:2],), dynamic)


def test_a_scatter_into_the_storage_of_an_intermediate():
    def function(x: Tensor, y: Tensor) -> Tensor:
        kept = torch.linalg.inv(x) + 1  # takes the memory before
        return (x * 2).as_strided_scatter(y, (2, 2), (1, 2), 1) + kept.sum() * 0

    check(function, torch.eye(3) * 2, torch.ones(2, 2))


def test_a_scatter_into_the_storage_of_an_argument():
    storage = torch.arange(30.0)

    def function(x: Tensor, y: Tensor) -> Tensor:
        return x.as_strided_scatter(y, (2,), (2,), 3) + 1

    compare(function, function(storage[3:9], torch.ones(2)), (storage[3:9], torch.ones(2)))


def test_a_scatter_into_the_storage_of_a_view_is_refused():
    function = torch.compile(
        lambda x, y: (x + 1).t().as_strided_scatter(y, (2,), (2,), 4), backend="lpu_mlir"
    )
    with pytest.raises(BackendCompilerFailed, match="not dense"):
        function(torch.ones(3, 4), torch.ones(2))


def test_new_tensors_whose_elements_overlap():
    for shape, strides in (((1, 5), (5, 0)), ((5, 5), (2, 1)), ((3, 4), (0, 1))):
        function = torch.compile(torch.empty_strided, backend="lpu_mlir", dynamic=False)
        result = function(shape, strides)
        assert result.shape == shape
        assert result.stride() == strides


@pytest.mark.parametrize("order", [3, 2.5, 0])
def test_norms_of_an_order_that_varies(order):
    x = torch.tensor([[1.0, -2.0], [2.0, 4.0]])
    function = torch.compile(torch.linalg.vector_norm, backend="lpu_mlir", dynamic=True)
    torch.testing.assert_close(function(x, order), torch.linalg.vector_norm(x, order))


def test_a_result_of_which_too_little_is_known_to_exclude_overlaps():
    def function(x: Tensor, before: int, after: int) -> Tensor:
        return torch.nn.functional.pad(x, (before, after))

    compare(function, function(torch.ones(1, 3, 3), 2, 1), (torch.ones(1, 3, 3), 2, 1), True)


@pytest.mark.slow
def test_results_with_late_extents_have_the_layout_that_the_graph_says():
    def function(x: Tensor, columns: int) -> Tensor:
        basis = torch.linalg.qr(x @ torch.ones(x.shape[-1], columns)).Q
        return torch.linalg.svd(basis.mT @ x, full_matrices=False).Vh.mT

    x = torch.arange(9.0).view(3, 3) + torch.eye(3)
    compare(function, function(x, 2), (x, 2), True, tolerance=1e-6)


def test_empty_tensors_reversed():
    check(lambda x: x.flip(1), torch.empty(5, 0, 8))


def test_gradients_that_have_no_storage_in_eager():
    x = torch.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    result = torch.compile(torch.sgn, backend="lpu_mlir")(x)
    result.sum().backward()
    assert torch.equal(x.grad, torch.zeros(3))


# --- scatters to computed positions -------------------------------------------------------------


@pytest.mark.parametrize("accumulate", [False, True])
def test_positions_that_are_no_one_to_one_function(accumulate):
    def function(y: Tensor, v: Tensor) -> Tensor:
        rows = torch.arange(5)
        return y.index_put((rows[:, None] * 2 + rows,), v, accumulate=accumulate)

    check(function, torch.zeros(13), torch.ones(5, 5))


def test_gather_of_an_empty_index_of_another_rank():
    index = torch.empty(2, 0, dtype=torch.int64)
    check(lambda x: x.gather(0, index), torch.ones(5))
    check(lambda x: x.scatter(0, index, 1.0) + 1, torch.ones(5))


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_extremes_of_nothing_are_refused_as_in_eager(shape):
    for function in (torch.max, torch.min, lambda x: x.min(-1).values, lambda x: x.argmax(-1)):
        torch._dynamo.reset()
        with pytest.raises((RuntimeError, IndexError), match="xpected reduction dim"):
            torch.compile(function, backend="lpu_mlir")(torch.zeros(shape))


def test_the_largest_of_a_number_of_elements_that_depends_on_data():
    compiled = torch.compile(lambda x: x.nonzero().max(), backend="lpu_mlir")
    with patch.object(torch._dynamo.config, "capture_dynamic_output_shape_ops", True):
        assert compiled(torch.tensor([0.0, 1.0, 1.0, 0.0])) == 2
        with pytest.raises(RuntimeError, match="xpected reduction dim"):
            compiled(torch.zeros(4))


def test_slices_with_a_step_that_varies():
    def function(x: Tensor, step: int) -> Tensor:
        y = x * 1
        y[::step] += 1
        return y

    torch._dynamo.reset()
    with Report() as seen:
        compiled = torch.compile(function, backend="lpu_mlir", dynamic=True)
        for step in (2, 3, 4):
            x = torch.randn(step + 5, 4)
            torch.testing.assert_close(compiled(x, step), function(x, step), rtol=0, atol=0)
    assert seen.graphs


# --- operators that change arguments ------------------------------------------------------------


@torch.library.custom_op("lpu_mlir_host::bump", mutates_args=("x",))
def bump(x: Tensor) -> None:
    x.add_(1)


@torch.library.custom_op("lpu_mlir_host::mixed", mutates_args=("x", "others"))
def mixed(x: Tensor, others: list[Tensor], k: int) -> tuple[Tensor, Tensor]:
    x.add_(k)
    others[0].mul_(k)
    others[1].zero_()
    return x.clone(), x.sum()


@mixed.register_fake
def _(x: Tensor, others: list[Tensor], k: int) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), x.new_empty(())


def on_an_input(x: Tensor) -> Tensor:
    bump(x)
    return x * 2


def on_a_part(x: Tensor) -> Tensor:
    y = x * 2
    bump(y[1:])
    bump(x[:, ::2])
    return y


def transposed(x: Tensor) -> Tensor:
    bump(x.t())
    return x


def several(x: Tensor) -> tuple[Tensor, ...]:
    y, z = x + 0, x.exp()
    first, total = mixed(y, [x, z], 3)
    bump(y)
    return first, total, y, z


@pytest.mark.parametrize("interpreter", ["native", "reference"])
@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("function", [on_an_input, on_a_part, transposed, several])
def test_operators_that_change_arguments(function, strided, interpreter):
    torch._dynamo.reset()
    ours = torch.compile(
        function, backend="lpu_mlir", fullgraph=True, options={"interpreter": interpreter}
    )
    bases = torch.arange(24.0).view(3, 8), torch.arange(24.0).view(3, 8)
    with Report() as report:
        for _ in range(2):
            x, y = (b[:, ::2] if strided else b[:, :4] for b in bases)
            torch.testing.assert_close(ours(x), function(y))
            torch.testing.assert_close(*bases)
    assert {f.reason for f in report.fallbacks} == {"it changes its arguments"}


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x % x,
        lambda x, y: torch.fmod(x, x),
        lambda x, y: torch.gcd(x, x),
        lambda x, y: x ^ y,
        lambda x, y: torch.bitwise_and(y, y),
    ],
)
def test_what_eager_does_not_have_for_a_dtype_raises_what_eager_does(function):
    given = torch.tensor([True, False]), torch.tensor([1.5, 2.0])
    with pytest.raises(NotImplementedError) as expected:
        function(*given)
    torch._dynamo.reset()
    with Report() as report, pytest.raises(NotImplementedError) as caught:
        torch.compile(function, backend="lpu_mlir")(*given)
    assert report.graphs
    assert str(caught.value) == str(expected.value)
