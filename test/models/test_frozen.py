"""Models with `options={"freeze": True}`: the same answers, from fewer bytes."""

import pytest
import torch
from catalogue import FAMILIES
from check_models import tensors
from torch import nn

from lpu_mlir import Report

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def report_of_second_call(name: str, freeze: bool) -> tuple[nn.Module, Report]:
    """What a call does when what is kept is there, and its results are right."""
    family = FAMILIES[name]
    model, inputs = family.make()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.uniform_()
            module.running_var.uniform_(0.5, 1.5)
    torch._dynamo.reset()
    run = torch.compile(
        model, backend="lpu_mlir", options={"fallback": "error", "freeze": freeze, "verify": True}
    )
    with torch.no_grad():
        expected = tensors(model(**inputs))
        for _ in range(2):
            with Report() as report:
                results = tensors(run(**inputs))
            for result, wanted in zip(results, expected, strict=True):
                torch.testing.assert_close(
                    result, wanted, rtol=family.relative, atol=family.absolute
                )
    return model, report


@pytest.mark.parametrize("name", ["resnet", "llama", "swin", "gemma2", "mamba"])
def test_frozen(name: str):
    _, plain = report_of_second_call(name, False)
    model, frozen = report_of_second_call(name, True)
    assert frozen.kept_bytes > 0
    assert frozen.freeze_kernels == []
    if name == "mamba":  # what is kept is as large as what it is computed from: exp(A)
        assert frozen.dram_bytes == plain.dram_bytes
    else:
        assert frozen.dram_bytes < plain.dram_bytes
    assert len(frozen.kernels) <= len(plain.kernels)  # equal layers are still one function
    norms = [m.num_features for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    assert not norms or frozen.kept_bytes == sum(2 * 4 * features for features in norms)
