"""Higher-order operators through torch.compile, by both interpreters, against eager PyTorch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.exc import BackendCompilerFailed
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops._invoke_quant import InvokeQuant
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.while_loop import while_loop_stack_output_op
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from lpu_mlir.report import Report

pytestmark = [
    pytest.mark.sampled,
    pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile"),
]


@pytest.fixture(params=["native", "reference"], autouse=True)
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    torch._dynamo.reset()
    return {"interpreter": request.param}


def check(
    options: dict[str, Any],
    function: Callable[..., Any],
    *cases: tuple[Any, ...],
    dynamic: bool | None = None,
    tolerance: float = 1e-5,
    host: int = 0,
) -> None:
    """All cases by one compiled function, as part of one graph without calls outside."""
    compiled = torch.compile(
        function, backend="lpu_mlir", fullgraph=True, dynamic=dynamic, options=options
    )
    with Report() as seen, torch.no_grad():
        for inputs in cases:
            result, expected = compiled(*inputs), function(*inputs)
            torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance)
    assert seen.graphs
    assert sum(f.count for graph in seen.graphs for f in graph.fallbacks) == host


# --- cond ---------------------------------------------------------------------------------------


def sign_dependent(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() * 2, (x,))


def test_a_branch_is_taken(options):
    check(options, sign_dependent, (torch.ones(3, 4),), (-torch.ones(3, 4),))
    check(options, sign_dependent, (torch.ones(5, 2).t(),), (-torch.ones(4, 6)[::2],))


def test_branches_with_several_results(options):
    def function(x: Tensor, y: Tensor) -> Tensor:
        a, b = torch.cond(
            x[0, 0] > y[0, 0], lambda x, y: (x @ y, x + 1), lambda x, y: (y @ x, x.clone()), (x, y)
        )
        return a.softmax(-1) + b

    x, y = torch.randn(4, 4), torch.randn(4, 4)
    check(options, function, (x + 9, y), (x - 9, y))


def test_branches_in_branches(options):
    def function(x: Tensor) -> Tensor:
        def inner(x: Tensor) -> Tensor:
            return torch.cond(x.max() > 5, lambda x: x * 3, lambda x: x / 3, (x,))

        return torch.cond(x.sum() > 0, inner, lambda x: -x, (x,)) + 1

    check(options, function, (torch.full((3,), 9.0),), (torch.ones(3),), (-torch.ones(3),))


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.mean() > 0, lambda x: self.wide(x), lambda x: self.narrow(x), (x,))


def test_branches_that_take_weights(options):
    check(options, Gated(), (torch.ones(2, 8),), (-torch.ones(2, 8),))


def test_a_gradient_through_branches(options):
    model = Gated()
    compiled = torch.compile(model, backend="lpu_mlir", fullgraph=True, options=options)
    for sign in (1.0, -1.0):
        grads = []
        for call in (model, compiled):
            x = torch.full((2, 8), sign, requires_grad=True)
            model.zero_grad()
            call(x).square().sum().backward()
            grads.append([x.grad, *(p.grad for p in model.parameters())])
        torch.testing.assert_close(grads[1], grads[0])


def test_a_condition_on_sizes(options):
    def function(x: Tensor) -> Tensor:
        return torch.cond(x.shape[0] > 4, lambda x: x * 2, lambda x: x - 1, (x,))

    check(options, function, *((torch.randn(n, 3),) for n in (3, 5, 8)), dynamic=True)


def test_branches_of_dynamic_extents(options):
    check(options, sign_dependent, *((torch.randn(n, 3),) for n in (2, 5, 9)), dynamic=True)


def test_calls_of_pytorch_in_a_branch(options):
    def function(x: Tensor) -> Tensor:
        return torch.cond(
            x.sum() > 0, lambda x: x.histc(4).max() * x, lambda x: x.histc(5).sum() + x, (x,)
        )

    check(options, function, (torch.rand(3, 3),), (-torch.rand(3, 3),), host=2)


def test_branches_whose_side_effects_pytorch_leaves_out(options):
    """It does not check in a branch whether a matrix is singular, and passes a token in vain."""

    def function(x: Tensor) -> Tensor:
        return torch.cond(
            x.sum() > 0, lambda x: torch.linalg.inv(x).contiguous(), lambda x: x + 1, (x,)
        )

    check(options, function, (torch.eye(3) + 0.1,), (-torch.eye(3),), host=1)


# --- loops --------------------------------------------------------------------------------------


def test_a_loop(options):
    def function(n: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return while_loop(lambda n, x: n > 0, lambda n, x: (n - 1, x * 1.5 + 1), (n, x))

    check(options, function, *((torch.tensor(n), torch.randn(2, 3)) for n in (5, 0, 1)))


def test_a_loop_that_swaps(options):
    def function(n: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        return while_loop(
            lambda n, a, b: n > 0, lambda n, a, b: (n - 1, b.clone(), a + b), (n, a, b)
        )

    check(options, function, *((torch.tensor(n), torch.ones(3), torch.zeros(3)) for n in (7, 2)))


def test_a_loop_with_weights_and_branches(options):
    weight = torch.randn(4, 4) / 2

    def function(x: Tensor) -> Tensor:
        def step(n: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            moved = torch.cond(n % 2 == 0, lambda x: (x @ weight).tanh(), lambda x: x + 1, (x,))
            return n + 1, moved

        return while_loop(lambda n, x: n < 6, step, (torch.tensor(0), x))[1]

    check(options, function, (torch.randn(3, 4),))


def test_a_search_that_ends_by_its_data(options):
    """Newton's method for square roots."""

    def function(x: Tensor) -> Tensor:
        def far(y: Tensor, error: Tensor) -> Tensor:
            return error > 1e-6

        def step(y: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
            new = 0.5 * (y + x / y)
            return new, (new - y).abs().max()

        return while_loop(far, step, (x.clone(), torch.tensor(1.0)))[0]

    check(options, function, (torch.rand(5) * 100 + 1,))


def test_a_scan(options):
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        def step(carry: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            new = carry * 0.5 + row
            return new, new.sin()

        return scan(step, torch.zeros(3), x, dim=0)

    check(options, function, (torch.randn(6, 3),))
    check(options, function, *((torch.randn(n, 3),) for n in (4, 7)), dynamic=True)


def test_a_scan_backwards_along_another_dim(options):
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        return scan(lambda c, r: (c + r, c * r), torch.zeros(3), x, dim=1, reverse=True)

    check(options, function, (torch.randn(3, 6),))


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True])
def test_an_associative_scan(options, reverse):
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        def combine(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            return a[0] * b[0], a[1] * b[0] + b[1]

        return associative_scan(combine, (x, y), 0, reverse=reverse, combine_mode="generic")

    check(
        options,
        function,
        *((torch.rand(n, 3), torch.randn(n, 3)) for n in (5, 1, 8, 2)),
        dynamic=None,
    )


def test_an_associative_scan_along_another_dim(options):
    def function(x: Tensor) -> Tensor:
        return associative_scan(torch.maximum, x, 1, combine_mode="generic") + 1

    check(options, function, (torch.randn(3, 6),))


def test_a_map(options):
    weight = torch.randn(4, 4)

    def function(x: Tensor) -> Tensor:
        return map_rows(lambda row, w: (row @ w).relu(), x, weight)

    check(options, function, (torch.randn(5, 4),))


def test_the_turns_of_a_loop(options):
    def function(n: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        def body(n: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            return n - 1, x * 1.5 + n

        return while_loop_stack_output_op(lambda n, x: n > 0, body, (n, x), ())

    cases = ((torch.tensor(n), torch.randn(2, 3)) for n in (5, 0, 1, 2))
    check(options, function, *cases, host=1)


def test_gradients_of_a_loop(options):
    def function(n: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        def body(i: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            return i + 1, torch.tanh(x @ weight)

        return while_loop(lambda i, x: i < n, body, (torch.zeros((), dtype=torch.int64), x))[1]

    compiled = torch.compile(function, backend="lpu_mlir", fullgraph=True, options=options)
    x, weight = (torch.randn(size, requires_grad=True) for size in ((3, 4), (4, 4)))
    for n in (3, 1, 5):
        with Report() as seen:
            gradients = torch.autograd.grad(compiled(torch.tensor(n), x, weight).sum(), (x, weight))
        assert len(seen.graphs) == 2
        expected = x
        for _ in range(n):
            expected = torch.tanh(expected @ weight)
        torch.testing.assert_close(gradients, torch.autograd.grad(expected.sum(), (x, weight)))


def test_a_loop_that_draws_numbers_is_not_trained(options):
    """It would run twice, and draw other numbers the second time."""

    def function(n: Tensor, x: Tensor) -> Tensor:
        def body(i: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            return i + 1, x * torch.rand_like(x)

        return while_loop(lambda i, x: i < n, body, (torch.zeros((), dtype=torch.int64), x))[1]

    compiled = torch.compile(function, backend="lpu_mlir", fullgraph=True, options=options)
    with pytest.raises(BackendCompilerFailed, match="would draw them twice"):
        compiled(torch.tensor(3), torch.ones(3, requires_grad=True))


def test_a_graph_that_is_marked_as_quantized(options):
    quantized = InvokeQuant()

    def function(x: Tensor) -> Tensor:
        return quantized(lambda x: (x * 2).sin(), x, scheme="nf4") + 1

    check(options, function, (torch.randn(5),))


def test_a_number_that_a_loop_carries_is_refused(options):
    def function(x: Tensor) -> Tensor:
        return while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * 2), (0, x))[1]

    with pytest.raises(BackendCompilerFailed, match="carries a number"):
        torch.compile(function, backend="lpu_mlir", fullgraph=True, options=options)(torch.ones(3))


# --- attention ----------------------------------------------------------------------------------

Q, K, V = (torch.randn(2, 4, 16, 8) for _ in range(3))


def test_attention_with_a_function_of_scores(options):
    bias = torch.randn(4)

    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        def score(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return score * 0.5 + bias[h] + (i - j) * 0.01

        return flex_attention(q, k, v, score_mod=score)

    check(options, function, (Q, K, V))


def test_attention_with_a_mask(options):
    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 16, 16, device="cpu")
        return flex_attention(q, k, v, block_mask=mask)

    check(options, function, (Q, K, V))


def test_attention_with_fewer_keys(options):
    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return flex_attention(q, k, v, enable_gqa=True)

    check(options, function, (Q, K[:, :2], V[:, :2]))
