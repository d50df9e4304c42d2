"""The documents are current: made from the code, or their code runs."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from xdsl.passes import PassPipeline

from lpu_mlir.logs import LOGS
from lpu_mlir.tools.lpu_opt import LpuOptMain

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = runpy.run_path(str(DOCS / "generate.py"))["GENERATED"]


def blocks(name: str, language: str) -> list[str]:
    text = (DOCS / name).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.S | re.M)


@pytest.mark.parametrize("name", GENERATED)
def test_generated_documents_are_current(name: str):
    assert GENERATED[name]() == (DOCS / name).read_text(), "run scripts/docs"


@pytest.mark.parametrize("name", ["add-an-operator.md", "add-a-pass.md", "behaviour.md"])
def test_code_runs(name: str):
    names: dict[str, object] = {}
    code = [text for text in blocks(name, "python") if text.startswith("# runs\n")]
    assert code
    captures = ("capture_scalar_outputs", "capture_dynamic_output_shape_ops")
    with torch._dynamo.config.patch(dict.fromkeys(captures, False)):  # what the code sets, is unset
        for text in code:
            exec(compile(text, name, "exec"), names)


def test_code_of_files_is_there():
    quoted = [text for text in blocks("add-an-operator.md", "python") if "# runs" not in text]
    assert quoted
    for text in quoted:
        first, rest = text.split("\n", 1)
        assert rest in (ROOT / first.removeprefix("# ")).read_text()


def test_the_pass_does_what_its_test_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    names: dict[str, object] = {}
    [code] = blocks("add-a-pass.md", "python")
    exec(compile(code, "add-a-pass.md", "exec"), names)
    [test] = [text for text in blocks("add-a-pass.md", "mlir") if "RUN" in text]
    file = tmp_path / "test.mlir"
    file.write_text(test)
    added = names["RemoveDoubleNegationPass"]
    driver = LpuOptMain([str(file)])
    passes = {**driver.available_passes, added.name: lambda: added}
    pipeline = re.search(r"lpu-opt -p (\S+)", test).group(1)
    driver.pipeline = PassPipeline.parse_spec(passes, pipeline)
    driver.run()
    check = subprocess.run(
        [sys.executable, "-m", "filecheck", str(file)],
        input=capsys.readouterr().out,
        capture_output=True,
        text=True,
        check=False,
    )
    assert check.returncode == 0, check.stderr


def test_all_logs_are_listed():
    text = (DOCS / "debugging.md").read_text()
    for name, meaning in LOGS.items():
        assert f"| `{name}` | {meaning} |" in text


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path):
    prose = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.S | re.M)
    for target in re.findall(r"\]\(([^:)#]+)(?:#[^)]*)?\)", prose):
        assert (path.parent / target).exists(), target
