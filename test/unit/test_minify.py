"""`minify`: few operators are left, and both files fail for as long as the fault is there."""

import re
import runpy
import shlex

import pytest
import torch
from broken import aten, broken_compiler, compiler_with, failing_compiler

import lpu_mlir
from lpu_mlir.compile import compile_fx
from lpu_mlir.debug.inputs import generate, load, save
from lpu_mlir.debug.repro import run_line
from lpu_mlir.dialects.lpu import element_type
from lpu_mlir.dialects.lpu_loop import EmptyOp
from lpu_mlir.frontend.builder import shape_of
from lpu_mlir.frontend.table import HANDLERS
from lpu_mlir.tools import lpu_run

pytestmark = pytest.mark.sampled

X = torch.linspace(-2, 2, 12).view(3, 4)


def network(x):
    for _ in range(4):
        y = torch.exp(x) @ x.T
        values, indices = torch.topk(y, 2)
        gate = torch.sigmoid(y * values.sum(-1, keepdim=True)) + indices.sum(-1, keepdim=True)
        x = (gate @ x).softmax(-1) + x
    return x.sum(-1), x.amax()


def run_again(minified, **how) -> bool:
    """Whether the script finds no difference."""
    return runpy.run_path(str(minified.script))["check"](**how).ok


def run_module(minified) -> int:
    return lpu_run.main(shlex.split(run_line(minified.module))[1:])


def test_one_operator_is_left(tmp_path, capsys):
    minified = lpu_mlir.minify(network, tmp_path, compiler=broken_compiler)(X)
    assert minified.verified
    assert minified.operators == 1
    assert minified.failure.operator == "aten.sigmoid.default"
    assert "operator of the graph left" in str(minified)
    assert f"python {tmp_path}/repro.py" in str(minified)
    # The script: it fails with the fault and passes without.
    assert not run_again(minified, compiler=broken_compiler)
    assert run_again(minified)
    # The IR: the same, the fault being in it.
    assert run_module(minified) == 1
    assert "output0: 9 of 9 elements differ" in capsys.readouterr().err
    text = minified.module.read_text()
    assert text.count("lpu_graph.") == 1
    minified.module.write_text(text.replace('"tanh"', '"sigmoid"'))
    assert run_module(minified) == 0
    assert not (tmp_path / "inputs.npz").exists()


@pytest.mark.slow
def test_the_script_runs_by_itself(tmp_path):
    minified = lpu_mlir.minify(network, tmp_path, compiler=broken_compiler)(X)
    with pytest.raises(SystemExit) as exit:
        runpy.run_path(str(minified.script), run_name="__main__")
    assert not exit.value.code


@pytest.mark.slow
def test_a_fault_that_needs_two_operators(tmp_path):
    def compiler(gm, inputs):
        targets = {node.target for node in gm.graph.nodes}
        both = {aten.topk.default, aten.sigmoid.default} <= targets
        return (broken_compiler if both else compile_fx)(gm, inputs)

    minified = lpu_mlir.minify(network, tmp_path, compiler=compiler)(X)
    assert minified.verified
    assert minified.operators == 2
    assert minified.failure.operator == "aten.sigmoid.default"


def test_a_fault_that_needs_its_data(tmp_path):
    def wrong_above_50(b, x):
        return HANDLERS[aten.clamp.default](b, x, 0, 50)

    def function(x):
        return torch.relu((x * 100).t()) + 1

    compiler = compiler_with(wrong_above_50, aten.relu.default)
    minified = lpu_mlir.minify(function, tmp_path, compiler=compiler)(X.bfloat16())
    assert minified.verified
    assert minified.operators == 1
    assert (tmp_path / "inputs.npz").exists()
    assert not run_again(minified, compiler=compiler)
    assert run_again(minified)
    assert run_module(minified) == 1


def test_an_exception_while_importing(tmp_path):
    minified = lpu_mlir.minify(network, tmp_path, compiler=failing_compiler)(X)
    assert minified.verified
    assert minified.operators == 1
    assert minified.module is None
    assert "ValueError: deliberately broken" in minified.failure.distance.kind


def test_an_exception_while_lowering(tmp_path):
    def of_another_level(b, x):
        return b.emit(EmptyOp(shape_of(x), element_type(x.type)))

    compiler = compiler_with(of_another_level)
    minified = lpu_mlir.minify(network, tmp_path, compiler=compiler)(X)
    assert minified.verified
    assert minified.operators == 1
    assert minified.failure.distance.kind.startswith("CompileError: stage 'graph-to-loop' failed")
    assert run_module(minified) == 1


@pytest.mark.slow
def test_symbolic_shapes_are_fixed_where_the_fault_stays(tmp_path):
    minified = lpu_mlir.minify(network, tmp_path, compiler=broken_compiler, dynamic=True)(X)
    assert minified.verified
    assert minified.operators == 1
    assert "dynamic" not in minified.script.read_text()


@pytest.mark.slow
def test_symbolic_shapes_where_it_does_not(tmp_path):
    def compiler(gm, inputs):
        symbolic = any(isinstance(n.meta.get("val"), torch.SymInt) for n in gm.graph.nodes)
        return (broken_compiler if symbolic else compile_fx)(gm, inputs)

    minified = lpu_mlir.minify(network, tmp_path, compiler=compiler, dynamic=True)(X)
    assert minified.operators <= 3
    assert "dynamic=True" in minified.script.read_text()


def test_a_changed_input(tmp_path):
    def function(x):
        x.copy_(torch.sigmoid(x).exp())

    minified = lpu_mlir.minify(function, tmp_path, compiler=broken_compiler)(X.clone())
    assert minified.verified
    assert minified.operators == 1


@pytest.mark.slow
def test_backward(tmp_path):
    def step(x):
        torch.tanh(x).sum().backward()

    x = X.clone().requires_grad_()
    compiler = compiler_with(lambda b, x, y: HANDLERS[aten.add.Tensor](b, x, y), aten.mul.Tensor)
    minified = lpu_mlir.minify(step, tmp_path, compiler=compiler)(x)
    assert minified.verified
    assert minified.failure.operator == "aten.mul.Tensor"


def test_nothing_fails(tmp_path):
    with pytest.raises(ValueError, match="nothing to minify"):
        lpu_mlir.minify(network, tmp_path)(X)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize(
    ("shape", "strides"),
    [((3, 4), (1, 3)), ((3, 4), (0, 1)), ((2, 3), (10, 2)), ((), ()), ((0, 2), (2, 1))],
)
def test_stored_inputs(tmp_path, dtype, shape, strides):
    made = generate(dtype, shape, strides, seed=3)
    assert made.stride() == strides
    assert torch.equal(made, generate(dtype, shape, strides, seed=3))
    save(tmp_path / "x.npz", {"a": made})
    again = load(tmp_path / "x.npz", "a", dtype, shape, strides)
    assert again.stride() == strides
    assert torch.equal(made, again)


LINEAR = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> attributes {
  lpu.outputs = [{kind = "result", index = 0 : i64}]
} {
  %0 = lpu_graph.pointwise "neg"(%x) : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return %0 : tensor<2x3xf32>
}
"""


@pytest.mark.parametrize("interpreter", ["native", "reference", "compare"])
def test_lpu_run_prints_what_a_function_gives(tmp_path, capsys, interpreter):
    path = tmp_path / "neg.mlir"
    path.write_text(LINEAR)
    assert lpu_run.main([str(path), "--seed", "7", "--interpreter", interpreter]) == 0
    expected = generate(torch.float32, (2, 3), (3, 1), seed=7).neg()
    assert capsys.readouterr().out == f"output0 = {expected}\n"


def test_lpu_run_without_a_description_of_the_outputs(tmp_path, capsys):
    path = tmp_path / "both.mlir"
    path.write_text("""
func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = lpu_graph.pointwise "neg"(%x) : tensor<3xf32> -> tensor<3xf32>
  %1 = lpu_graph.pointwise "abs"(%x) : tensor<3xf32> -> tensor<3xf32>
  func.return %0, %1 : tensor<3xf32>, tensor<3xf32>
}
""")
    assert lpu_run.main([str(path)]) == 0
    x = generate(torch.float32, (3,), (1,), seed=0)
    assert capsys.readouterr().out == f"output0 = {x.neg()}\noutput1 = {x.abs()}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func.func @main(", "expected"),
        ("func.func @other() { func.return }", "no function @main"),
        (LINEAR.replace('"neg"', '"nag"'), "nag"),
    ],
)
def test_lpu_run_says_what_is_wrong(tmp_path, capsys, text, message):
    path = tmp_path / "wrong.mlir"
    path.write_text(text)
    assert lpu_run.main([str(path)]) == 1
    assert re.search(message, capsys.readouterr().err, re.I)


def test_nothing_compiled_is_nothing_to_minify(tmp_path):
    with pytest.raises(ValueError, match="no graph was compiled or run"):
        lpu_mlir.minify(lambda x: x, tmp_path)(X)
