"""Parts of PyTorch's databases: right answers from graphs that this backend compiled."""

import pytest
import torch
from databases import entries
from verdicts import Settings, try_pair

pytestmark = pytest.mark.sampled

OPERATORS = entries()
FLOATS = (torch.float32, torch.bfloat16)
NUMBERS = (torch.float32, torch.int64)
ALL = (torch.float32, torch.int64, torch.bool)
CASES = {
    FLOATS: (
        "acosh addcmul addmm baddbmm cumprod erf expm1 fft.rfft hypot linalg.inv log_softmax "
        "logaddexp lerp mean nn.functional.conv2d nn.functional.layer_norm "
        "nn.functional.max_pool2d nn.functional.pad.reflect nn.functional.interpolate.nearest "
        "rsqrt softmax tanh var_mean"
    ),
    NUMBERS: (
        "amax argmin clamp cumsum floor_divide fmod index_add kron masked_fill "
        "max.reduction_with_dim pow remainder scatter_add sign sort sum topk trace tril"
    ),
    ALL: (
        "all cat diagonal eq expand gather index_put nonzero permute repeat roll slice_scatter "
        "stack unfold where"
    ),
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(name, dtype, id=f"{name}-{str(dtype).removeprefix('torch.')}")
        for dtypes, names in CASES.items()
        for name in names.split()
        for dtype in dtypes
        if dtype in OPERATORS[name].dtypes
    ],
)
def test_operator(name: str, dtype: torch.dtype):
    record = try_pair(OPERATORS[name], dtype, Settings(samples=1, fullgraph=True))
    assert record.graphs, record
    assert record.verdict in ("right", "rounding"), record


VARIED = (
    "add cat exp expand gather int matmul nn.functional.gelu nn.functional.layer_norm "
    "scatter_reduce.amax softmax sort sum"
).split()


@pytest.mark.parametrize("name", VARIED)
def test_other_layouts_and_values(name: str):
    record = try_pair(OPERATORS[name], torch.float32, Settings(variants=True))
    assert record.graphs, record
    assert record.verdict in ("right", "rounding", "known"), record


OTHERS = {
    "module": ("nn.BatchNorm2d", "nn.Embedding", "nn.MultiheadAttention", "nn.PReLU"),
    "hop": ("cond.simple", "map.simple", "while_loop_stack_output.simple", "scan.simple"),
    "optim": ("AdamW", "SGD"),
}


@pytest.mark.parametrize(
    ("database", "name"), [(database, name) for database in OTHERS for name in OTHERS[database]]
)
def test_other_databases(database: str, name: str):
    entry = entries(database)[name]
    gradients = torch.float32 in entry.differentiable
    record = try_pair(entry, torch.float32, Settings(samples=2, gradients=gradients))
    assert record.graphs, record
    assert record.verdict == "right", record
