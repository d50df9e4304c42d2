"""Reports: what they count, over which calls, and what `explain` tells of a function."""

import json
import threading
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from xdsl.dialects.builtin import ModuleOp

import lpu_mlir
from lpu_mlir.compile import compile_fx, make_program
from lpu_mlir.options import Options
from lpu_mlir.report import MOST_KERNELS, KernelReport, _kernel_table
from lpu_mlir.runtime.executable import Executable
from lpu_mlir.runtime.stats import Runnable


def scaled_relu(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * 2


def compiled_anew(fn):
    torch._dynamo.reset()
    return torch.compile(fn, backend="lpu_mlir", fullgraph=True)


def test_explain_counts_one_call():
    report = lpu_mlir.explain(scaled_relu, fullgraph=True)(torch.ones(4, 8))
    [graph] = report.graphs
    [kernel] = report.kernels
    assert (graph.runs, kernel.launches) == (1, 1)
    assert (kernel.dram_read, kernel.dram_written, report.dram_bytes) == (128, 128, 256)
    assert (report.native_ops, report.fallbacks, report.graph_breaks) == (2, [], {})
    assert "lpu_graph.pointwise" in report.ir("import")
    assert "lpu_kernel.kernel" in report.ir("allocate-sram")
    assert "1 graph, 0 graph breaks, 2 operators native, 0 on the host" in str(report)


def test_explain_compiles_again():
    first, second = (lpu_mlir.explain(scaled_relu)(torch.ones(4, 8)) for _ in range(2))
    assert first.ir("import") == second.ir("import")


def test_ir_is_that_of_the_compile():
    made: list[str] = []

    def make(module: ModuleOp, options: Options) -> Runnable:
        made.append(str(module))
        return make_program(module, options)

    def compiler(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Executable:
        return compile_fx(gm, inputs, make=make)

    def fn(x: torch.Tensor, w: torch.Tensor):
        return torch.softmax(x @ w, -1).cumsum(0), x.add_(1)

    x, w = torch.randn(8, 16), torch.randn(16, 4)
    torch._dynamo.reset()
    with lpu_mlir.Report() as report:
        torch.compile(fn, backend=aot_autograd(fw_compiler=compiler))(x, w)
    [graph] = report.graphs
    assert made == [graph.ir("allocate-sram")]


def test_explain_names_fallbacks_and_breaks():
    def fn(x):
        y = x.topk(8).values
        torch._dynamo.graph_break()
        return y + 1

    report = lpu_mlir.explain(fn)(torch.randn(4, 8))
    assert len(report.graphs) == 2
    assert sum(report.graph_breaks.values()) == 1
    [fallback] = report.fallbacks
    assert (fallback.op, fallback.overload) == ("aten.topk", "aten.topk.default")
    assert (fallback.dtypes, fallback.shapes, fallback.count) == (("f32",), ("[4, 8]",), 1)
    assert "test_report.py" in fallback.source
    assert "host: aten.topk.default(f32[4, 8]) 1x at " in str(report)
    assert "break: " in str(report)


def test_report_sums_the_calls_inside_it():
    fn = compiled_anew(scaled_relu)
    with lpu_mlir.Report() as outer:
        fn(torch.ones(4, 8))
        with lpu_mlir.Report() as inner:
            fn(torch.ones(4, 8))
            fn(torch.ones(4, 8))
    fn(torch.ones(4, 8))
    assert [graph.runs for graph in outer.graphs] == [3]
    assert [graph.runs for graph in inner.graphs] == [2]
    assert inner.kernels[0].launches == 2
    assert 3 * inner.dram_bytes == 2 * outer.dram_bytes


def test_graph_compiled_before_the_report():
    fn = compiled_anew(scaled_relu)
    fn(torch.ones(4, 8))
    with lpu_mlir.Report() as report:
        fn(torch.ones(4, 8))
    assert report.native_ops == 2
    with pytest.raises(KeyError, match="compiled before the report was opened"):
        report.ir("import")


def test_report_is_of_its_thread():
    fn = compiled_anew(scaled_relu)
    fn(torch.ones(4, 8))
    with lpu_mlir.Report() as report:
        thread = threading.Thread(target=fn, args=(torch.ones(4, 8),))
        thread.start()
        thread.join()
    assert report.graphs == []
    assert "another thread" in str(report)


def test_operators_of_inner_graphs_count():
    def fn(x):
        largest = lambda x: x.topk(2).values + torch.linalg.det(x)  # noqa: E731
        return torch.cond(x.sum() > 0, largest, lambda x: x[:, :2] * 1, (x,))

    report = lpu_mlir.explain(fn)(torch.eye(4))
    assert {f.op: f.count for f in report.fallbacks} == {"aten.topk": 1, "aten._linalg_det": 1}
    assert report.native_ops == 6  # sum, gt, cond; add; slice, mul


def test_no_such_stage():
    report = lpu_mlir.explain(scaled_relu)(torch.ones(2))
    with pytest.raises(
        KeyError, match="no stage 'fused', expected one of import, hoist-frozen, outline"
    ):
        report.ir("fused")


def test_many_kernels_are_summed_up():
    kernels = [KernelReport(f"k{i}", 1, 10 * i, i) for i in range(40)]
    heading, *rows = _kernel_table(kernels)
    assert len(rows) == MOST_KERNELS
    assert rows[0].split() == ["k39", "1", "390", "39"]
    assert rows[-1].split() == ["25", "others", "25", "3,000", "300"]
    assert len(heading) == len(rows[0])


def test_repr_is_short():
    report = lpu_mlir.explain(scaled_relu)(torch.ones(2))
    assert repr(report) == "<Report: 1 graph, 1 launches>"


def test_json():
    report = lpu_mlir.explain(scaled_relu)(torch.ones(2))
    summary = json.loads(report.to_json())
    assert summary["kernels"] == [
        {"name": "graph0.main_0", "launches": 1, "dram_read": 8, "dram_written": 8}
    ]
    assert summary["graphs"][0]["runs"] == 1
    assert "import" in summary["graphs"][0]["compile_seconds"]


def test_a_branch_on_data_is_a_break():
    def branching(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x - 1

    report = lpu_mlir.explain(branching)(torch.ones(3))
    assert len(report.graphs) == 2
    assert sum(report.graph_breaks.values()) == 1


def test_one_is_singular():
    report = lpu_mlir.explain(lambda x: x + 1)(torch.ones(2))
    assert "1 graph, 0 graph breaks, 1 operator native, 0 on the host" in str(report)
