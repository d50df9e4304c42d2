"""A graph computed in float64: what tells rounding from faults.

Deep graphs, most of all in half precision, round so often that two right programs differ by more
than the tolerance of one operator.  How far eager PyTorch is from the same graph in float64 says
how much of that is rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils._pytree import tree_map

from lpu_mlir.debug.parts import Part, written_inputs
from lpu_mlir.frontend.values import flattened

FACTOR = 4.0
"""How many times as far as eager's values a program's may be from those in float64."""

UNSTABLE = 0.05
"""The largest error of eager's, relative to the largest value, that is taken for rounding."""

WIDER: Mapping[torch.dtype, torch.dtype] = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
}


def _widened(value: Any) -> Any:
    if isinstance(value, Tensor) and value.dtype in WIDER:
        return value.to(torch.float64)
    return WIDER.get(value, value) if isinstance(value, torch.dtype) else value


class _Precise(fx.Interpreter):
    def __init__(self, gm: fx.GraphModule):
        super().__init__(gm)
        self.inputs: list[Any] = []
        """Copies, since the graph may write to its inputs."""

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = _widened(super().placeholder(target, args, kwargs))
        self.inputs.append(value.clone() if isinstance(value, Tensor) else value)
        return self.inputs[-1]

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        wide = tree_map(_widened, (args, kwargs))
        return tree_map(_widened, super().call_function(target, wide[0], wide[1]))


def in_float64(part: Part) -> list[Any] | None:
    """The graph's outputs, then the inputs that it changes, with every float a float64.

    None if the graph draws random numbers or cannot be computed so.
    """
    random = torch.Tag.nondeterministic_seeded
    if any(random in getattr(node.target, "tags", ()) for node in part.calls):
        return None
    precise = _Precise(part.gm)
    try:
        with torch.no_grad():
            outputs: Any = precise.run(*part.inputs)
    except Exception:  # an operator that has no such form: then there is nothing to judge by
        return None
    return [*flattened(outputs), *(precise.inputs[i] for i in written_inputs(part))]


def is_rounding(actual: Any, expected: Any, precise: Any, tolerance: float) -> bool:
    """Whether a value is about as near to the precise one as eager's is."""
    values = (actual, expected, precise)
    if not all(isinstance(v, Tensor) and v.is_floating_point() and v.numel() for v in values):
        return False
    if not actual.shape == expected.shape == precise.shape or actual.dtype != expected.dtype:
        return False
    a, e = (value.detach().to(torch.float64) for value in (actual, expected))
    finite = torch.isfinite(a) & torch.isfinite(e) & torch.isfinite(precise)
    if not torch.equal(a[~finite].nan_to_num(), e[~finite].nan_to_num()) or not finite.any():
        return False
    a, e, precise = a[finite], e[finite], precise[finite]
    own = float((e - precise).abs().max())
    if own > UNSTABLE * float(precise.abs().max()):
        return False
    return float((a - precise).abs().max()) <= FACTOR * tolerance * own
