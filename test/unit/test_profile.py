"""Rows in torch.profiler, and what they cost while nobody profiles."""

from time import perf_counter

import torch
from torch.profiler import ProfilerActivity, profile

from lpu_mlir.runtime.profile import profiled


def function(x):
    return torch.i0(torch.exp(x) @ x.T) + 1


def rows(fn, *args) -> dict[str, int]:
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        fn(*args)
    return {row.key: row.count for row in profiler.key_averages()}


def test_each_launch_and_host_call_has_a_row():
    torch._dynamo.reset()
    x = torch.rand(4, 8) / 8
    compiled = torch.compile(function, backend="lpu_mlir", fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), function(x))
        found = rows(lambda: (compiled(x), compiled(x)))
    ours = {name: count for name, count in found.items() if name.startswith("lpu_mlir::")}
    assert ours.pop("lpu_mlir::host::aten.i0.default") == 2
    assert ours == {"lpu_mlir::main_0": 2, "lpu_mlir::main_1": 2}
    # What eager PyTorch does for a host call is there, what interprets a kernel is not.
    assert found["aten::i0"] >= 2
    assert "aten::exp" not in found


def test_rows_go_on_after_a_kernel():
    def body():
        with profiled("lpu_mlir::kernel", inside=False):
            torch.ones(2).exp()
        torch.ones(2).sin()

    found = rows(body)
    assert "aten::sin" in found
    assert "aten::exp" not in found


def test_nothing_is_lost_without_a_profiler():
    def empty():
        with profiled("row", inside=False):
            pass

    start = perf_counter()
    for _ in range(10_000):
        empty()
    assert (perf_counter() - start) / 10_000 < 50e-6
