"""Which nests become one, and why others do not; nests in parts against PyTorch."""

import logging
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from lpu_mlir.compile import compile_fx
from lpu_mlir.dialects.lpu_loop import NestOp
from lpu_mlir.frontend.decompositions import decompositions
from lpu_mlir.nests.nest import read_parts
from lpu_mlir.nests.scalar import Scalars
from lpu_mlir.options import Options
from lpu_mlir.pipeline import make_context
from lpu_mlir.transforms.fuse import FusePass
from lpu_mlir.transforms.graph_to_loop import GraphToLoopPass
from lpu_mlir.transforms.merge_nests import MergeNestsPass

pytestmark = pytest.mark.sampled

LARGE = "tensor<40000xf32>"


def lowered(text: str) -> ModuleOp:
    context = make_context()
    module = Parser(context, text).parse_module()
    for transform in (GraphToLoopPass(), FusePass(), MergeNestsPass()):
        transform.apply(context, module)
    module.verify()
    return module


def parts(module: ModuleOp) -> list[int]:
    """The number of parts of each nest."""
    return [len(read_parts(op, Scalars())) for op in module.walk() if isinstance(op, NestOp)]


def pointwise(kind: str, result: str, operands: str, type: str = LARGE) -> str:
    types = ", ".join([type] * len(operands.split(",")))
    return f'{result} = lpu_graph.pointwise "{kind}"({operands}) : {types} -> {type}\n'


def function(inputs: Sequence[str], body: str, results: str = "", types: str = "") -> str:
    arrow = f" -> ({types})" if types else ""
    ending = f"func.return {results} : {types}" if types else "func.return"
    return f"func.func @main({', '.join(inputs)}){arrow} {{\n{body}{ending}\n}}"


X, Y, C = f"%x: {LARGE}", f"%y: {LARGE}", "%c: tensor<i64>"
SCAN = f'%1 = lpu_graph.scan "add" %x dim 0 : {LARGE} -> {LARGE}\n'
FLIP = f"%1 = lpu_graph.slice %0 starts <[39999]> steps <[-1]> : {LARGE} -> {LARGE}\n"
HOST = (
    '%1 = "lpu.host_call"(%0) <{overload = "aten.sort.default", arguments = '
    f'{{"0" = #lpu.operand<0>}}, reason = "not native"}}> : ({LARGE}) -> {LARGE}\n'
)
PRODUCT = (
    "%0 = lpu_graph.matmul %a, %w transpose [false, true] : tensor<300x9xf32>, tensor<1x9xf32>"
    " -> tensor<300x1xf32>\n"
    '%1 = lpu_graph.pointwise "mul"(%b, %0) : tensor<300x80xf32>, tensor<300x1xf32>'
    " -> tensor<300x80xf32>\n"
)
COUNTER = (
    "%one = lpu_graph.full 1 : i64 : tensor<i64>\n"
    + pointwise("add", "%0", "%c, %one", "tensor<i64>")
    + pointwise("neg", "%1", "%c", "tensor<i64>")
    + "lpu_graph.write_back %0, %c : tensor<i64>, tensor<i64>\n"
)

REASONS = {
    "a running fold needs the order of its own loop": function(
        [X], pointwise("neg", "%0", "%x") + SCAN, "%0, %1", f"{LARGE}, {LARGE}"
    ),
    "it reads the result elsewhere than where it stores its own": function(
        [X],
        pointwise("exp", "%0", "%x") + FLIP + pointwise("neg", "%2", "%1"),
        "%0, %2",
        f"{LARGE}, {LARGE}",
    ),
    "something between needs the one and makes what the other needs": function(
        [X],
        pointwise("neg", "%0", "%x") + HOST + pointwise("mul", "%2", "%x, %1"),
        "%0, %2",
        f"{LARGE}, {LARGE}",
    ),
    "a matrix product would be made for each point of another part": function(
        ["%a: tensor<300x9xf32>", "%w: tensor<1x9xf32>", "%b: tensor<300x80xf32>"],
        PRODUCT,
        "%0, %1",
        "tensor<300x1xf32>, tensor<300x80xf32>",
    ),
    "they load nothing in common": function(
        [X, Y],
        pointwise("neg", "%0", "%x") + pointwise("neg", "%1", "%y"),
        "%0, %1",
        f"{LARGE}, {LARGE}",
    ),
    "what is overwritten would be read at once or later": function(
        [C], COUNTER, "%1", "tensor<i64>"
    ),
    "a nest would have more than 8 parts": function(
        [f"%x{i}: tensor<{i + 2}xf32>" for i in range(9)],
        "".join(pointwise("neg", f"%{i}", f"%x{i}", f"tensor<{i + 2}xf32>") for i in range(9)),
        ", ".join(f"%{i}" for i in range(9)),
        ", ".join(f"tensor<{i + 2}xf32>" for i in range(9)),
    ),
}


@pytest.mark.parametrize("reason", REASONS)
def test_the_log_says_why_nests_are_apart(reason: str, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG, "lpu_mlir.fuse")
    module = lowered(REASONS[reason])
    assert len(parts(module)) > 1
    assert reason in {r.getMessage().split(": ")[1] for r in caplog.records}


@pytest.mark.parametrize(
    ("reason", "target"),
    [("it stores into the result", "0"), ("both store into a copy of one tensor", "k")],
)
def test_nests_that_store_into_one_tensor_are_apart(
    reason: str, target: str, caplog: pytest.LogCaptureFixture
):
    """The second scatter goes into the result of the first, or into the same argument."""
    caplog.set_level(logging.DEBUG, "lpu_mlir.fuse")
    type = "tensor<9x4xf32>"
    types = f"tensor<3x4xf32>, {type}[tensor<3xi64>] -> {type}"
    step = f'lpu_graph.scatter "add" %u, %{{}}[%i] dims <[0]> at 0 : {types}'
    body = f"%0 = {step.format('k')}\n%1 = {step.format(target)}\n"
    inputs = [f"%k: {type}", "%u: tensor<3x4xf32>", "%i: tensor<3xi64>"]
    assert parts(lowered(function(inputs, body, "%0, %1", f"{type}, {type}"))) == [1, 1]
    assert f": {reason}" in caplog.text


def test_the_log_says_what_is_saved(caplog: pytest.LogCaptureFixture):
    """160,000 bytes are read once instead of twice, and one kernel less is launched."""
    caplog.set_level(logging.DEBUG, "lpu_mlir.fuse")
    body = pointwise("neg", "%0", "%x") + pointwise("exp", "%1", "%x")
    assert parts(lowered(function([X], body, "%0, %1", f"{LARGE}, {LARGE}"))) == [1]
    [record] = [r for r in caplog.records if r.getMessage().startswith("fused")]
    assert record.getMessage().endswith(": saves 225,536 bytes")


def test_the_log_says_why_nests_are_not_fused(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG, "lpu_mlir.fuse")
    body = (
        pointwise("neg", "%0", "%x") + pointwise("exp", "%1", "%0") + pointwise("sin", "%2", "%1")
    )
    lowered(function([X], body, "%1, %2", f"{LARGE}, {LARGE}"))
    texts = [r.getMessage() for r in caplog.records]
    assert any(text.startswith("fused nest ") and "saves 385,536 bytes" in text for text in texts)
    assert any("into its readers: it is needed as a tensor" in text for text in texts)


# --- values -------------------------------------------------------------------------------------


def siblings(x: Tensor, w: Tensor) -> list[Tensor]:
    """Products of one normalised operand, with dims of their own."""
    y = x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1)
    return [y @ w, y @ w[:, :3], (y @ w[:, 1:2]).relu()]


def statistics(x: Tensor, w: Tensor) -> list[Tensor]:
    """A part without the dim that the cores divide in the other."""
    mean = x.sum(-1, keepdim=True)
    return [mean, x - mean, (x - mean).abs() * w[0, 0]]


def columns(x: Tensor, w: Tensor) -> list[Tensor]:
    """Folds over rows and over columns, and one over all."""
    return [x.sum(0), x.sum(1), x.sum(), w.amax(0)]


def pieces(x: Tensor, w: Tensor) -> list[Tensor]:
    """Two parts that are cut at different places, and one that is not."""
    y = torch.cat([x, x + 1], -1)
    z = torch.cat([x[:, :1], x, x[:, :1]], -1)
    return [y, z, x * 2, y.transpose(0, 1) * 2]


def in_place(x: Tensor, w: Tensor) -> list[Tensor]:
    """Both arguments take the other's old values."""
    old = x.clone()
    x.copy_(w + 1)
    w.copy_(old + 2)
    return [old + x]


def readers(x: Tensor, w: Tensor) -> list[Tensor]:
    """A product that is returned, and read in step and across."""
    y = x @ w
    return [y, y.exp().transpose(0, 1), y + 1, y.flip(0), y.sum(-1)]


def gradients(x: Tensor, w: Tensor) -> list[Tensor]:
    g = x @ w
    return [g @ w.mT, x.mT @ g, g.sum(0)]


CASES = {
    siblings: ((5, 24), (24, 70)),
    statistics: ((3, 300), (4, 4)),
    columns: ((37, 50), (9, 6)),
    pieces: ((7, 11), (2, 2)),
    in_place: ((33, 9), (33, 9)),
    readers: ((9, 6), (6, 21)),
    gradients: ((12, 30), (30, 40)),
}


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
@pytest.mark.parametrize("target", ["tiny", "bertha"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_values(case: Callable[[Tensor, Tensor], list[Tensor]], target: str, mode: str):
    """Small whole numbers, so that sums are exact in any order."""
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.randint(-3, 4, s, generator=generator).float() for s in CASES[case])
    table = dict(decompositions())
    graph = make_fx(case, decomposition_table=table, tracing_mode=mode)(
        first.clone(), second.clone()
    )
    functional = torch.func.functionalize(graph, remove="mutations")
    graph = make_fx(functional, tracing_mode=mode)(first.clone(), second.clone())
    compiled = compile_fx(graph, [first, second], Options(target=target, verify=True))
    given, again = [first.clone(), second.clone()], [first.clone(), second.clone()]
    torch.testing.assert_close(compiled(list(given)), case(*again))
    torch.testing.assert_close(given, again, rtol=0, atol=0)
