"""Imports what a Python function does and compares its evaluation with eager PyTorch."""

from collections.abc import Callable, Sequence

import torch
from graph_evaluator import run
from torch.fx.experimental.proxy_tensor import make_fx

from lpu_mlir.dialects.lpu import HostCallOp
from lpu_mlir.frontend.importer import ImportedGraph, import_graph
from lpu_mlir.transforms.verify_dominance import check_dominance

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
DTYPES = (*FLOATS, *INTEGERS, torch.bool)
SHAPES = ((), (0, 3), (1, 4), (3, 4))
SPECIAL = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, 2.5]


def sample(dtype: torch.dtype, shape: Sequence[int], seed: int = 0, special: bool = False):
    """Values of both signs, reproducible; special ones first if asked and there is room."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype == torch.uint8:
        return torch.randint(0, 20, shape, generator=generator).to(dtype)
    if not dtype.is_floating_point:
        return torch.randint(-9, 10, shape, generator=generator).to(dtype)
    values = torch.randn(shape, generator=generator, dtype=torch.float64) * 2
    if special and values.numel() > len(SPECIAL):
        values.view(-1)[: len(SPECIAL)] = torch.tensor(SPECIAL, dtype=torch.float64)
    return values.to(dtype)


def imported(function: Callable, inputs: Sequence[torch.Tensor], mode: str) -> ImportedGraph:
    graph = import_graph(make_fx(function, tracing_mode=mode)(*inputs))
    graph.module.verify()
    check_dominance(graph.module)
    return graph


def host_calls(graph: ImportedGraph) -> list[str]:
    return [op.overload.data for op in graph.func.walk() if isinstance(op, HostCallOp)]


def check(
    function: Callable,
    *inputs: torch.Tensor,
    mode: str = "fake",
    exact: bool = False,
    native: bool = True,
    **tolerances: float,
) -> ImportedGraph:
    """Dtypes, shapes, strides and values of every output; `exact` allows no difference."""
    expected = function(*[x.clone() for x in inputs])
    expected = list(expected) if isinstance(expected, list | tuple) else [expected]
    graph = imported(function, inputs, mode)
    if native:
        calls = [op for op in graph.func.walk() if isinstance(op, HostCallOp)]
        assert not calls, [f"{op.overload.data}: {op.reason.data}" for op in calls]
    results = run(graph, [x.clone() for x in inputs])
    if exact:
        tolerances = {"rtol": 0, "atol": 0}
    for result, want in zip(results, expected, strict=True):
        if not isinstance(want, torch.Tensor):
            assert result == want
            continue
        torch.testing.assert_close(
            result, want, equal_nan=True, check_stride=want.numel() > 0, **tolerances
        )
    return graph
