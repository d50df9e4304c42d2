"""Matrix products with something added, against eager."""

from functools import partial

import pytest
import torch
from frontend_checks import INTEGERS, check, host_calls, imported, sample

pytestmark = pytest.mark.sampled

FACTORS = ((1, 1), (2, 1), (0, 3), (-1, -2))


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *INTEGERS])
def test_matrix_and_vector(dtype: torch.dtype, mode: str):
    x, y = sample(dtype, (3, 4)), sample(dtype, (4,), 1)
    for added in ((3,), (1,), ()):
        for beta, alpha in FACTORS:
            check(
                partial(torch.addmv, beta=beta, alpha=alpha),
                sample(dtype, added, 2), x, y, mode=mode,
            )  # fmt: skip


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *INTEGERS])
def test_sum_over_a_batch(dtype: torch.dtype, mode: str):
    x, y = sample(dtype, (2, 3, 4)), sample(dtype, (2, 4, 5), 1)
    for added in ((3, 5), (5,), (3, 1), ()):
        for beta, alpha in FACTORS:
            check(
                partial(torch.addbmm, beta=beta, alpha=alpha),
                sample(dtype, added, 2), x, y, mode=mode,
            )  # fmt: skip


def test_what_is_empty_or_not_finite():
    nan = torch.full((3,), float("nan"))
    check(lambda a, x, y: torch.addmv(a, x, y, beta=0), nan, torch.ones(3, 4), torch.ones(4))
    check(torch.addmv, nan, torch.ones(3, 0), torch.ones(0))
    check(torch.addmv, torch.ones(0), torch.ones(0, 4), torch.ones(4))
    check(torch.addbmm, torch.ones(3, 5), torch.ones(0, 3, 4), torch.ones(0, 4, 5))
    check(torch.addbmm, torch.ones(3, 5), torch.ones(2, 3, 0), torch.ones(2, 0, 5))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_stays_with_eager(dtype: torch.dtype):
    a, x, y = (torch.ones(shape, dtype=dtype) for shape in ((3,), (3, 4), (4,)))
    assert host_calls(imported(torch.addmv, [a, x, y], "fake")) == ["aten.addmv.default"]
