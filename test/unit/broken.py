"""A compiler with one operator translated wrongly, for the tools that must find it."""

from functools import partial

import torch

from lpu_mlir.compile import compile_fx
from lpu_mlir.frontend.table import HANDLERS
from lpu_mlir.options import Options

aten = torch.ops.aten


def sigmoid_as_tanh(b, x):
    return HANDLERS[aten.tanh.default](b, x)


def failing(b, x):
    raise ValueError("deliberately broken")


def compiler_with(handler, operator=aten.sigmoid.default):
    handlers = {**HANDLERS, operator: handler}
    return partial(compile_fx, options=Options(), handlers=handlers, reproducer=False)


broken_compiler = compiler_with(sigmoid_as_tanh)
failing_compiler = compiler_with(failing)
