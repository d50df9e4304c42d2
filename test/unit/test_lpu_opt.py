"""The driver, and what the packages that pass developers use import."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.dialects.test import Test
from xdsl.parser import Parser
from xdsl.utils.exceptions import PassFailedException, VerifyException

import lpu_mlir
from lpu_mlir.dialects import get_all_dialects
from lpu_mlir.tools.lpu_opt import LpuOptMain, main
from lpu_mlir.transforms import PASSES, get_all_passes
from lpu_mlir.transforms.verify_dominance import check_dominance
from lpu_mlir.transforms.verify_level import check_level
from lpu_mlir.universe import LPU_UNIVERSE

ROOT = Path(__file__).parents[2]
CHANNELS = "test/filecheck/transforms/join-movement.mlir"

USE_BEFORE_DEFINITION = """
func.func @late() {
  "test.op"(%late) : (i32) -> ()
  %late = "test.op"() : () -> i32
  func.return
}
"""


def parse(text: str):
    context = Context()
    for dialect in (Builtin, Func, Test):
        context.load_dialect(dialect)
    return Parser(context, text).parse_module()


def test_every_dialect_and_pass_loads_under_its_name():
    assert {name: get().name for name, get in get_all_dialects().items()} == {
        name: name for name in get_all_dialects()
    }
    assert {name: get().name for name, get in get_all_passes().items()} == {
        name: name for name in get_all_passes()
    }


def test_universe_is_what_the_tables_say():
    assert LPU_UNIVERSE.all_dialects.keys() == get_all_dialects().keys()
    assert LPU_UNIVERSE.all_passes.keys() == get_all_passes().keys()


def test_tools_dialects_passes_and_llvm_text_need_neither_torch_nor_llvmlite():
    program = """
import sys
from lpu_mlir.dialects import get_all_dialects
from lpu_mlir.tools.lpu_opt import LpuOptMain
from lpu_mlir.transforms import get_all_passes
LpuOptMain([])
for get in (*get_all_dialects().values(), *get_all_passes().values()):
    get()
import lpu_mlir.interpreter.native.target
print(*{"torch", "llvmlite"} & sys.modules.keys())
"""
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout == "\n"


def test_unknown_name_in_the_package():
    with pytest.raises(AttributeError, match="'lpu_mlir' has no attribute 'kernel_engineer'"):
        _ = lpu_mlir.kernel_engineer


def test_dominance_is_verified_after_parsing(tmp_path: Path):
    file = tmp_path / "late.mlir"
    file.write_text(USE_BEFORE_DEFINITION)
    with pytest.raises(VerifyException, match=r"operand 0 \(%late\) of 'test.op'"):
        LpuOptMain([str(file)]).run()


def test_main_reports_errors_on_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "late.mlir"
    file.write_text(USE_BEFORE_DEFINITION)
    monkeypatch.setattr(sys, "argv", ["lpu-opt", str(file)])
    assert main() == 1
    output = capsys.readouterr()
    assert not output.out
    assert "does not dominate this use" in output.err
    # The note: the program, with the message beside the operation.
    assert "builtin.module" in output.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-p", "fuze", "docs/linear.mlir"], r"-p fuze: Unrecognized passes: \['fuze'\]"),
        (["-p", "fuse{x=1}", "docs/linear.mlir"], r'arguments \["x"\] not found in .*launch_bytes'),
        (["-p", "fuse{", "docs/linear.mlir"], "Expected argument name"),
        (["-p", "loop-to-kernel{target=x}", "docs/linear.mlir"], "unknown target 'x', expected"),
        (
            ["-t", "llvm-ir{machine=x}", "docs/linear.mlir"],
            "unknown machine 'x', expected one of x86",
        ),
        (["-t", "llvm-ir", "docs/linear.mlir"], "no kernels here: loop-to-kernel makes them"),
        (["-t", "llvm-ir", CHANNELS], "kernel @rows: lpu_kernel.receive has no native form; chan"),
        (
            ["-p", "graph-to-loop,loop-to-kernel", "docs/linear.mlir"],
            r"a nest on tensor<8x16xf32>: 'bufferize' comes before this pass",
        ),
        (
            ["-p", "graph-to-loop,graph-to-loop", "docs/linear.mlir"],
            "'lpu_loop.empty' has no lowering to lpu_loop",
        ),
        (
            ["-p", "graph-to-loop,fuse,dce,bufferize,bufferize", "docs/linear.mlir"],
            "the nest is on memrefs already",
        ),
        (["none.mlir"], "No such file or directory: 'none.mlir'"),
        (["README.md"], "README.md: Unrecognized file extension 'md'"),
    ],
)
def test_what_the_user_gets_wrong_is_one_message(
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["lpu-opt", *arguments])
    assert main() == 1
    assert re.search(message, capsys.readouterr().err)


def test_a_dash_is_standard_input():
    command = [sys.executable, "-m", "lpu_mlir.tools.lpu_opt", "-"]
    run = subprocess.run(
        command, cwd=ROOT, input=b"func.func @f() { func.return }", capture_output=True, check=True
    )
    assert b"func.func @f()" in run.stdout


def test_help_says_what_our_passes_do(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as exit:
        LpuOptMain(["--help"])
    assert exit.value.code == 0
    ours, theirs = capsys.readouterr().out.split("passes of xDSL:")
    for name in get_all_passes():
        assert re.search(rf"^  {name} +[A-Z]", ours, re.M)
        assert f" {name}," not in theirs
    assert "canonicalize," in theirs


def test_help_in_spite_of_broken_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "half_written.py").write_text("class HalfWrittenPass(ModulePass:\n")
    (tmp_path / "undocumented.py").write_text("class UndocumentedPass: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(PASSES, "half-written", "half_written:HalfWrittenPass")
    monkeypatch.setitem(PASSES, "undocumented", "undocumented:UndocumentedPass")
    with pytest.raises(SystemExit) as exit:
        LpuOptMain(["--help"])
    assert exit.value.code == 0
    said = capsys.readouterr().out
    assert re.search(r"^  half-written +cannot be imported: SyntaxError: ", said, re.M)
    assert re.search(r"^  undocumented$", said, re.M)
    assert re.search(r"^  fuse +[A-Z]", said, re.M)


def test_isolated_operations_see_nothing_from_outside():
    module = parse("""
%outer = "test.op"() : () -> i32
"test.op"() ({
  "test.termop"(%outer) : (i32) -> ()
}) : () -> ()
builtin.module {
  "test.op"(%outer) : (i32) -> ()
}
""")
    with pytest.raises(VerifyException, match=r"operand 0 \(%outer\) of 'test.op'"):
        check_dominance(module)


def test_unknown_level():
    with pytest.raises(PassFailedException, match="unknown level 'tile', expected one of graph"):
        check_level(ModuleOp([]), "tile")
