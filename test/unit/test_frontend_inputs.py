"""Inputs that are refused: each names the argument, the reason and a way out."""

import pytest
import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.two_tensor import TwoTensor

import lpu_mlir
from lpu_mlir.frontend.dtypes import TAKEN
from lpu_mlir.frontend.inputs import check_inputs
from lpu_mlir.frontend.types import ELEMENTS


class Traced(torch.Tensor):
    """A subclass whose operators run code of its own."""

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise NotImplementedError


def on_cuda() -> torch.Tensor:
    with FakeTensorMode():
        return torch.empty(3, device="cuda")


def ragged() -> torch.Tensor:
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("make", "reason", "way_out"),
    [
        (lambda: torch.ones(3, device="meta"), "a meta tensor, which has no data", "to_empty"),
        (on_cuda, "a tensor on cuda:0; programs take tensors on the CPU", r"move it with .cpu\(\)"),
        (lambda: torch.eye(3).to_sparse(), "a tensor of layout torch.sparse_coo", "to_dense"),
        (lambda: torch.eye(3).to_sparse_csr(), "of layout torch.sparse_csr", "to_dense"),
        (lambda: torch.ones(3).to_mkldnn(), "a tensor of layout torch._mkldnn", "to_dense"),
        (ragged, "a nested tensor", "pad it"),
        (
            lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
            "a quantized tensor",
            "dequantize",
        ),
        (
            lambda: torch.ones(3).to(torch.float8_e4m3fn),
            "a tensor of dtype torch.float8_e4m3fn",
            "convert it",
        ),
        (lambda: torch.ones(3).as_subclass(Traced), "of class Traced, which has a", "plain tensor"),
    ],
)
def test_what_no_program_can_take(make, reason: str, way_out: str):
    graph = fx.Graph()
    graph.placeholder("first")
    graph.output((graph.placeholder("x"),))
    gm = fx.GraphModule({}, graph)
    message = rf"(?s)argument x\(.*{reason}.*way out: .*{way_out}"
    with pytest.raises(lpu_mlir.Unsupported, match=message):
        check_inputs(gm, [torch.ones(1), make()])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.ones(3, device="meta"), r"argument x\(float32\[3\]\): a meta tensor"),
        (lambda: torch.ones(3).to_mkldnn(), r"argument x\(float32\[3\]\): a tensor of layout"),
    ],
)
def test_the_user_sees_the_name(make, message: str):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x * 2, backend="lpu_mlir")
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=message):
        compiled(make())


def test_a_weight_has_its_path():
    torch._dynamo.reset()
    model = torch.nn.Linear(2, 2, device="meta")
    message = r"argument model._parameters\['weight'\]\(.*: a meta tensor"
    compiled = torch.compile(lambda model: model.weight * 2, backend="lpu_mlir")
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=message):
        compiled(model)


def test_subclasses_that_autograd_takes_apart():
    torch._dynamo.reset()
    x = TwoTensor(torch.randn(3), torch.randn(3))
    with lpu_mlir.Report() as report:
        result = torch.compile(lambda x: x.exp() * 2, backend="lpu_mlir", fullgraph=True)(x)
    assert report.kernels
    torch.testing.assert_close(result.a, x.a.exp() * 2)
    torch.testing.assert_close(result.b, x.b.exp() * 2)


def test_complex_tensors_go_through():
    torch._dynamo.reset()
    x = torch.randn(3, dtype=torch.complex64)
    with lpu_mlir.Report() as report:
        result = torch.compile(lambda x: x * 2, backend="lpu_mlir", fullgraph=True)(x)
    assert report.fallbacks
    assert torch.equal(result, x * 2)


def test_what_dynamo_leaves_to_eager_is_said():
    report = lpu_mlir.explain(lambda x: x * 2)(torch.eye(3).to_sparse())
    assert "Dynamo left it all" in str(report)


def test_dtypes_that_are_taken_have_types():
    assert set(TAKEN) == ELEMENTS.keys()
