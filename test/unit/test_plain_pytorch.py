"""Kernels are interpreted out of sight of PyTorch's dispatch modes, on one thread."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from lpu_mlir.compile import compile_fx
from lpu_mlir.runtime.program import plain_pytorch


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.operators: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operators.append(str(func))
        return func(*args, **(kwargs or {}))


def test_kernels_hide_from_modes():
    x = torch.randn(8, 8)
    compiled = compile_fx(make_fx(lambda x: [torch.tanh(x)])(x), [x])
    with Seen() as seen:
        [result] = compiled([x])
    torch.testing.assert_close(result, torch.tanh(x))
    assert "aten.tanh.default" not in seen.operators


def interrupted() -> None:
    with plain_pytorch():
        assert torch.get_num_threads() == 1
        raise KeyError


def test_threads_are_restored():
    before = torch.get_num_threads()
    with pytest.raises(KeyError):
        interrupted()
    assert torch.get_num_threads() == before
