"""PyTorch's own test databases, each as entries that say how to call what they are about.

op       op_db: operators and functions, with sample inputs
hop      hop_db: higher-order operators, as far as they are functions of tensors
module   module_db: modules of torch.nn, trained and evaluated
optim    optim_db: optimizers, three steps of each
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Protocol
from unittest.mock import patch

import torch
from torch import Tensor
from torch.testing import make_tensor
from torch.testing._internal import common_methods_invocations, common_modules, common_optimizers
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.hop_db import hop_db
from torch.testing._internal.opinfo.core import SampleInput
from torch.utils._pytree import tree_leaves, tree_map
from variants import VARIANTS

Compiler = Callable[..., Any]
STEPS = 3
"""Of an optimizer."""


class Call(Protocol):
    """One sample, which leaves what it was made of unchanged."""

    def run(self, compiler: Compiler, seed: int, dtype: torch.dtype | None = None) -> Any:
        """Results, what was given as it is after the call, and gradients.

        The function is what `compiler` makes of it; `seed` is for numbers drawn while it runs; all
        is computed in `dtype` if that is given.
        """
        ...


@dataclass(frozen=True)
class Entry:
    """An entry of a database, and what can be done with it."""

    name: str
    dtypes: frozenset[torch.dtype]
    differentiable: frozenset[torch.dtype]
    tolerances: Mapping[torch.dtype, Mapping[str, float]]
    """Those that are wider than PyTorch's default."""
    calls: Callable[[torch.dtype, bool], Iterator[tuple[str, Call]]]
    """Samples of a dtype, with gradients or without, each with what to call it."""
    variants: Callable[[torch.dtype], Iterator[tuple[str, Call]]] | None = None
    """The first sample in other layouts and with other values; see variants.py."""
    undefined: bool = False
    """Whether the values of the results are arbitrary."""
    many: bool = False
    """Whether it is a program of many operators, each of which rounds."""


# --- operators ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class OpCall:
    function: Callable[..., Any]
    sample: Any
    gradients: bool

    def run(self, compiler: Compiler, seed: int, dtype: torch.dtype | None = None) -> Any:
        inputs = _copies((self.sample.input, self.sample.args, self.sample.kwargs), dtype)
        torch.manual_seed(seed)
        result = compiler(lambda x, args, kwargs: self.function(x, *args, **kwargs))(*inputs)
        given = [leaf for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor)]
        outputs = self.sample.output_process_fn_grad(result)
        found = _gradients(outputs, given) if self.gradients else []
        return result, [leaf.detach() for leaf in given], found


def _op_samples(op: Any, dtype: torch.dtype, gradients: bool) -> Iterator[tuple[str, Call]]:
    torch.manual_seed(0)
    for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=gradients)):
        yield f"sample {number}", OpCall(op.get_op(), sample, gradients)


def _op_variants(op: Any, dtype: torch.dtype) -> Iterator[tuple[str, Call]]:
    torch.manual_seed(0)
    sample = next(iter(op.sample_inputs("cpu", dtype, requires_grad=False)), None)
    for name, change in VARIANTS.items() if sample is not None else ():
        if any(change(leaf) is not None for leaf in _tensors(sample)):
            changed = sample.transform(partial(_changed, change))
            yield name, OpCall(op.get_op(), changed, False)


def _changed(change: Callable[[Tensor], Tensor | None], leaf: Any) -> Any:
    changed = change(leaf) if isinstance(leaf, Tensor) else None
    return leaf if changed is None else changed


def _tensors(sample: Any) -> list[Tensor]:
    leaves = tree_leaves((sample.input, sample.args, sample.kwargs))
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


def _op_entry(op: Any) -> Entry:
    differentiable = op.supported_backward_dtypes("cpu") if op.supports_autograd else ()
    return Entry(
        ".".join(filter(None, (op.name, op.variant_test_name))),
        frozenset(op.supported_dtypes("cpu")),
        frozenset(differentiable),
        _wider((*op.decorators, *op.skips)),
        partial(_op_samples, op),
        partial(_op_variants, op),
        undefined="empty" in op.name,
    )


def plain() -> Any:
    """Meanwhile operators are called without the wrapper that keeps the generator's state, at which
    torch.compile would break the graph."""
    return patch.object(
        common_methods_invocations, "wrapper_set_seed", lambda op, *args, **kw: op(*args, **kw)
    )


# --- modules ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModuleCall:
    info: Any
    sample: Any
    training: bool
    dtype: torch.dtype
    gradients: bool

    def run(self, compiler: Compiler, seed: int, dtype: torch.dtype | None = None) -> Any:
        """What was given are the buffers, too; gradients are those of parameters, too."""
        made, forward = self.sample.constructor_input, self.sample.forward_input
        torch.manual_seed(0)
        module = self.info.module_cls(*made.args, **made.kwargs).to(self.dtype).to(dtype)
        module.train(self.training)
        args, kwargs = _copies((forward.args, forward.kwargs), dtype)
        torch.manual_seed(seed)
        result = compiler(module)(*args, **kwargs)
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        trained = [*given, *module.parameters()]
        found = _gradients(result, trained) if self.gradients else []
        return result, [leaf.detach() for leaf in (*given, *module.buffers())], found


def _module_samples(
    info: Any, dtype: torch.dtype, gradients: bool
) -> Iterator[tuple[str, ModuleCall]]:
    for training in (True, False) if info.train_and_eval_differ else (True,):
        torch.manual_seed(0)
        samples = info.module_inputs_func(info, "cpu", dtype, gradients, training)
        for number, sample in enumerate(samples):
            if sample.forward_input is not None:
                mode = "training" if training else "evaluation"
                call = ModuleCall(info, sample, training, dtype, gradients)
                yield f"sample {number} in {mode}", call


def _module_entry(info: Any) -> Entry:
    dtypes = frozenset((*info.dtypes, torch.bfloat16, torch.float16))
    samples = partial(_module_samples, info)
    return Entry(info.name, dtypes, dtypes, _wider(info.decorators), samples, many=True)


# --- optimizers ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class OptimizerCall:
    info: Any
    sample: Any
    dtype: torch.dtype

    def run(self, compiler: Compiler, seed: int, dtype: torch.dtype | None = None) -> Any:
        """Parameters and the optimizer's state after some steps."""
        generator = torch.Generator().manual_seed(0)

        def drawn(shape: tuple[int, ...]) -> Tensor:
            return torch.randn(shape, generator=generator).to(self.dtype).to(dtype or self.dtype)

        parameters = [torch.nn.Parameter(drawn(shape)) for shape in ((3, 4), (4, 5))]
        optimizer = self.info.optim_cls(parameters, **self.sample.kwargs)

        def closure() -> Tensor:
            loss = torch.stack([(p * p).sum() for p in parameters]).sum()
            for parameter in parameters:
                parameter.grad = 2 * parameter.detach()
            return loss

        needed = (closure,) if self.info.step_requires_closure else ()
        step = compiler(optimizer.step)
        torch.manual_seed(seed)
        for _ in range(STEPS):
            for parameter in parameters:
                parameter.grad = drawn(tuple(parameter.shape))
            step(*needed)
        state = [s for s in tree_leaves(optimizer.state_dict()["state"]) if isinstance(s, Tensor)]
        return [p.detach() for p in parameters], state, []


def _optimizer_samples(info: Any, dtype: torch.dtype, _: bool) -> Iterator[tuple[str, Call]]:
    for sample in info.optim_inputs_func("cpu"):
        if not info.only_supports_sparse_grads:
            yield sample.desc, OptimizerCall(info, sample, dtype)


def _optimizer_entry(info: Any) -> Entry:
    dtypes = frozenset((torch.float32, torch.float64, torch.bfloat16))
    samples = partial(_optimizer_samples, info)
    return Entry(info.optim_cls.__name__, dtypes, frozenset(), {}, samples, many=True)


# --- overloads ----------------------------------------------------------------------------------

aten = torch.ops.aten
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
DIRECT: Mapping[str, tuple[Callable[[Tensor], Any], Sequence[torch.dtype]]] = {
    "bitwise_and.Scalar": (lambda x: aten.bitwise_and.Scalar(x, 3), INTEGERS),
    "bitwise_or.Scalar": (lambda x: aten.bitwise_or.Scalar(x, 5), INTEGERS),
    "bitwise_xor.Scalar": (lambda x: aten.bitwise_xor.Scalar(x, 6), INTEGERS),
    "div.Scalar_mode": (
        lambda x: aten.div.Scalar_mode(x, 2, rounding_mode="floor"),
        (*FLOATS, *INTEGERS[:-1]),
    ),
    "_native_batch_norm_legit.no_stats": (
        lambda x: aten._native_batch_norm_legit.no_stats(x, None, None, True, 0.1, 1e-5),
        FLOATS,
    ),
}
"""What to call with a tensor of 4 by 5 elements, in which dtypes."""


def _direct_samples(
    function: Callable[[Tensor], Any], dtype: torch.dtype, gradients: bool
) -> Iterator[tuple[str, Call]]:
    x = make_tensor((4, 5), dtype=dtype, device="cpu", requires_grad=gradients)
    yield "sample 0", OpCall(function, SampleInput(x), gradients)


def _direct_entry(
    named: tuple[str, tuple[Callable[[Tensor], Any], Sequence[torch.dtype]]],
) -> Entry:
    name, (function, dtypes) = named
    samples = partial(_direct_samples, function)
    return Entry(name, frozenset(dtypes), frozenset(), {}, samples)


# --- common -------------------------------------------------------------------------------------


def _gradients(outputs: Any, given: list[Tensor]) -> list[Tensor | None]:
    """Of the sum of all outputs, by those of the inputs that ask for it."""
    wanted = [leaf for leaf in given if leaf.requires_grad and leaf.is_leaf]
    total = [
        (leaf.abs() if leaf.is_complex() else leaf).sum()
        for leaf in tree_leaves(outputs)
        if isinstance(leaf, Tensor) and leaf.requires_grad
    ]
    if not wanted or not total:
        return []
    return list(torch.autograd.grad(total, wanted, allow_unused=True))


def _copies(tree: Any, dtype: torch.dtype | None) -> Any:
    return tree_map(lambda leaf: _copied(leaf, dtype) if isinstance(leaf, Tensor) else leaf, tree)


def _copied(tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    """A copy laid out as the tensor is, with its own copy of all of its storage."""
    if dtype is not None and tensor.is_floating_point():
        copied = tensor.detach().to(dtype, copy=True)
    elif tensor.layout != torch.strided:
        copied = tensor.detach().clone()
    else:
        copied = torch.empty(0, dtype=tensor.dtype).set_(
            tensor.untyped_storage().clone(), tensor.storage_offset(), tensor.shape, tensor.stride()
        )
        copied = copied.conj() if tensor.is_conj() else copied
        copied = torch._neg_view(copied) if tensor.is_neg() else copied
    return copied.requires_grad_(tensor.requires_grad)


def _wider(decorators: Any) -> Mapping[torch.dtype, Mapping[str, float]]:
    """What a database asks for where that is more than PyTorch's default for the dtype."""
    wider: dict[torch.dtype, dict[str, float]] = {}
    for entry in decorators:
        for decorator in getattr(entry, "decorators", None) or [entry]:
            if not isinstance(decorator, toleranceOverride):
                continue
            if getattr(entry, "device_type", None) not in (None, "cpu"):
                continue
            for dtype, asked in decorator.d.items():
                relative, absolute = torch.testing._comparison.default_tolerances(dtype)
                before = wider.get(dtype, {"rtol": relative, "atol": absolute})
                wider[dtype] = {
                    "rtol": max(before["rtol"], asked.rtol),
                    "atol": max(before["atol"], asked.atol),
                }
    return wider


_SOURCES: Mapping[str, tuple[Any, Callable[[Any], Entry]]] = {
    "op": (common_methods_invocations.op_db, _op_entry),
    "hop": (hop_db, _op_entry),
    "module": (common_modules.module_db, _module_entry),
    "optim": (common_optimizers.optim_db, _optimizer_entry),
    "direct": (DIRECT.items(), _direct_entry),
}
DATABASES = tuple(_SOURCES)


@cache
def entries(database: str = "op") -> Mapping[str, Entry]:
    """The entries of a database by name; variants are called name.variant."""
    source, make = _SOURCES[database]
    return {entry.name: entry for entry in map(make, source)}
