"""Views, copies, concatenation, padding and creation of ATen against eager."""

import pytest
import torch
from frontend_checks import DTYPES, check, sample

pytestmark = pytest.mark.sampled

aten = torch.ops.aten
X = sample(torch.float32, (3, 4, 5))

VIEWS = {
    "view": lambda x: aten.view.default(x, [4, -1]),
    "view_to_2d": lambda x: aten.view.default(x, [x.shape[0] * x.shape[1], x.shape[2]]),
    "permute": lambda x: aten.permute.default(x, [2, 0, -2]),
    "transpose": lambda x: aten.transpose.int(x, 0, -1),
    "unsqueeze": lambda x: aten.unsqueeze.default(x, -2),
    "expand": lambda x: aten.expand.default(aten.unsqueeze.default(x, 0), [2, -1, -1, -1]),
    "slice": lambda x: aten.slice.Tensor(x, 1, 1, 3),
    "slice_negative": lambda x: aten.slice.Tensor(x, 2, -3, -1),
    "slice_clamped": lambda x: aten.slice.Tensor(x, 1, 2, 2**63 - 1),
    "slice_step": lambda x: aten.slice.Tensor(x, 2, 1, 5, 3),
    "slice_nothing": lambda x: aten.slice.Tensor(x, 2, 3, 2),
    "slice_past_the_end": lambda x: aten.slice.Tensor(x, 2, 9, 12),
    "slice_half": lambda x: aten.slice.Tensor(x, 0, x.shape[0] // 2, x.shape[0]),
    "slice_default": lambda x: aten.slice.Tensor(x),
    "select": lambda x: aten.select.int(x, 1, 2),
    "select_negative": lambda x: aten.select.int(x, -1, -2),
    "select_symbolic": lambda x: aten.select.int(x, 0, x.shape[0] - 1),
    "split": lambda x: aten.split_with_sizes.default(x, [1, 0, 4], 2),
    "unbind": lambda x: aten.unbind.int(aten.slice.Tensor(x, 0, 0, 2)),
    "diagonal": lambda x: aten.diagonal.default(x, 0, 0, 2),
    "diagonal_above": lambda x: aten.diagonal.default(x, 2, 1, 2),
    "diagonal_below": lambda x: aten.diagonal.default(x, -1, 2, 0),
}
COPIES = {
    "flip": lambda x: aten.flip.default(x, [0, -1]),
    "repeat": lambda x: aten.repeat.default(x, [2, 1, 3, 2]),
    "cat": lambda x: aten.cat.default([x, aten.neg.default(x), x], -1),
    "cat_promotes": lambda x: aten.cat.default([x, aten.gt.Scalar(x, 0)], 1),
    "cat_ignores_empty": lambda x: aten.cat.default([torch.ones(0), x], 1),
    "stack": lambda x: aten.stack.default([x, x], -1),
    "pad": lambda x: aten.constant_pad_nd.default(x, [1, 2, 0, 1], 7),
    "pad_cuts": lambda x: aten.constant_pad_nd.default(x, [-1, 2, 1, -2, -1, -1], -1.5),
    "roll": lambda x: aten.roll.default(x, [2, -1], [0, 2]),
    "roll_flat": lambda x: aten.roll.default(x, [7]),
    "clone": lambda x: aten.clone.default(aten.permute.default(x, [1, 0, 2])),
    "to_copy": lambda x: aten._to_copy.default(x, dtype=torch.int32),
    "copy": lambda x: aten.copy.default(x, aten.select.int(x, 0, 1)),
    "fill": lambda x: aten.fill.Scalar(x, 3),
    "squeeze": lambda x: aten.squeeze.dims(aten.slice.Tensor(x, 0, 0, 1), [0, 1]) + 1,
}


@pytest.mark.parametrize("name", [*VIEWS, *COPIES])
@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_moves_elements(name: str, mode: str):
    function = (VIEWS | COPIES)[name]
    check(function, X, mode=mode)
    # A view of a computed tensor is a result of its own, not a view of an argument.
    if name != "diagonal":
        check(lambda x: function(aten.neg.default(x)), X, mode=mode)


@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions(dtype: torch.dtype):
    for source in DTYPES:
        x = sample(source, (9,)) if dtype == torch.uint8 else sample(source, (20,), special=True)
        if not dtype.is_floating_point and source.is_floating_point:
            x = torch.nan_to_num(x.abs(), 0.0, 1.0)
        check(lambda x: torch.ops.prims.convert_element_type.default(x, dtype), x, exact=True)


def test_zero_dim_and_empty_views():
    check(lambda x: aten.view.default(x, [1, 1]), torch.tensor(3.0))
    check(lambda x: aten.t.default(x), torch.tensor(3.0))
    check(lambda x: aten.t.default(x), torch.ones(3))
    check(lambda x: aten.expand.default(x, [2, 3]), torch.tensor(3.0))
    check(lambda x: aten.flip.default(x, [1]), torch.ones(2, 0))
    check(lambda x: aten.cat.default([x, x]), torch.ones(0))
    check(lambda x: aten.roll.default(x, [1], [0]), torch.ones(0, 3))


@pytest.mark.parametrize("base", ["dense", "transposed"])
def test_as_strided(base: str):
    def function(x):
        y = aten.neg.default(x)
        y = aten.permute.default(y, [2, 0, 1]) if base == "transposed" else y
        return aten.as_strided.default(y, [2, 3, 2], [7, 0, 2], 3) + 1

    check(function, X)
    check(lambda x: aten.as_strided.default(x, [5, 2], [1, 10]), X)


def test_as_strided_that_is_a_reshape():
    graph = check(lambda x: aten.as_strided.default(x, [12, 5], [5, 1]) + 1, X)
    assert "lpu_graph.gather" not in {op.name for op in graph.func.walk()}


CREATION = {
    "full": lambda: aten.full.default([2, 3], 1.5),
    "full_int": lambda: aten.full.default([2], 7, dtype=torch.uint8),
    "full_bool": lambda: aten.full.default([2], True),
    "full_inf": lambda: aten.full.default([2], -float("inf"), dtype=torch.bfloat16),
    "scalar_tensor": lambda: aten.scalar_tensor.default(-2.5, dtype=torch.float16),
    "arange": lambda: aten.arange.start_step(2, 11, 3),
    "arange_down": lambda: aten.arange.start_step(5, -3, -2),
    "arange_float": lambda: aten.arange.start_step(0.5, 3.0, 0.3),
    "arange_half": lambda: aten.arange.start_step(0, 9, 2, dtype=torch.bfloat16),
    "arange_empty": lambda: aten.arange.start_step(3, 3),
    "eye": lambda: aten.eye.m(3, 4, dtype=torch.int32),
    "zeros": lambda: aten.zeros.default([0, 2]),
    "ones": lambda: aten.ones.default([2], dtype=torch.bool),
}


@pytest.mark.parametrize("name", CREATION)
def test_creation(name: str):
    check(lambda x: (CREATION[name](), x), X)


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_creation_from_extents(mode: str):
    check(lambda x: aten.full.default([x.shape[0], 2], x.shape[1]), X, mode=mode)
    check(lambda x: aten.arange.start_step(1, x.shape[2], 2), X, mode=mode)
    check(lambda x: aten.full_like.default(x, 3, dtype=torch.int64), X, mode=mode)
    check(lambda x: aten.mul.Tensor(x, x.shape[0] * x.shape[1] + 1), X, mode=mode)
    check(lambda x: aten.scalar_tensor.default(x.shape[0]), X, mode=mode)
    check(lambda x: aten.mul.Tensor(x, x.shape[0] / x.shape[1]), X, mode=mode)
