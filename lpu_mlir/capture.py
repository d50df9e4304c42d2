"""From what Dynamo captured, through AOTAutograd, to what Dynamo calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias, TypeVar, cast

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import TracingContext
from torch._inductor.output_code import OutputCode

from lpu_mlir.collection import COLLECTION
from lpu_mlir.frontend.decompositions import Decompositions
from lpu_mlir.frontend.frozen import mark_frozen, refuse_training
from lpu_mlir.frontend.inputs import check_inputs
from lpu_mlir.progress import doing, progress
from lpu_mlir.report import note_break
from lpu_mlir.runtime.buffers import release_memory

COMPILER: Any = import_module("torch.compiler.config")
FUNCTORCH: Any = import_module("torch._functorch.config")

Boxed: TypeAlias = Callable[[list[Any]], list[Any]]
"""A compiled graph: from a list of inputs, which it empties, to a list of outputs."""

Compiler: TypeAlias = Callable[[fx.GraphModule, Sequence[Any]], Boxed]
"""From a graph and inputs like those that it will get to what runs it."""


CachedCompiler: TypeAlias = Callable[[fx.GraphModule, Sequence[Any]], OutputCode]
"""The same for a graph that AOTAutogradCache can keep."""

Made = TypeVar("Made")


def compile_captured(
    gm: fx.GraphModule, example_inputs: Sequence[Any], compiler: Compiler, *, freeze: bool = False
) -> Callable[..., Any]:
    """What Dynamo captured, through AOTAutograd, to what Dynamo calls.

    The graph of the backward pass, if there is one, is compiled when it first runs.  With `freeze`
    parameters and buffers are marked as such in the graph.  Raises Unsupported for an input that no
    program can take and ValueError for a graph with gradients that is to be frozen.
    """
    plain = partial(_compile_plain, compiler)
    inference, forward = (_marking(plain), refuse_training) if freeze else (plain, plain)
    return _through_autograd(gm, example_inputs, inference, forward, _keeping(plain))


def compile_cached(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    compiler: CachedCompiler,
    backward: CachedCompiler,
    tag: str,
    *,
    freeze: bool = False,
) -> Callable[..., Any]:
    """`compile_captured`, unless AOTAutogradCache has what was once made of such a graph.

    `tag` stands for what decides beside the graph; which inputs share memory does, too, of which
    PyTorch's key says nothing.  The compilers make an `OutputCode`.  The graph
    of the backward pass is compiled, by `backward`, at once: PyTorch keeps both or none.
    """
    outer, shared = COMPILER.cache_key_tag, sharing(example_inputs)
    with (
        COMPILER.patch(cache_key_tag=f"{outer} lpu_mlir {tag} {shared}".lstrip()),
        FUNCTORCH.patch(bundled_autograd_cache=True, force_non_lazy_backward_lowering=True),
    ):
        makers = [compiler, compiler, _keeping(backward)]
        if freeze:
            makers = [_marking(compiler), refuse_training, _keeping(backward)]
        cached = [SerializableAOTDispatchCompiler(OutputCode, maker) for maker in makers]
        return _through_autograd(gm, example_inputs, *cached)


def sharing(inputs: Sequence[Any]) -> str:
    """Which inputs share a storage, where each is in it, and of what tensor it is a view: of one
    that all are views of, else of the storage, AOTAutograd makes a single input."""
    storages: dict[int, list[tuple[int, str, str]]] = {}
    for position, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            handle = value.untyped_storage()._cdata  # pyright: ignore[reportPrivateUsage]
            where = (position, str(value.storage_offset()), _base_of(value))
            storages.setdefault(handle, []).append(where)
    return str([group for group in storages.values() if len(group) > 1])


def _base_of(value: torch.Tensor) -> str:
    """The layout of the tensor that one is a view of, and whether that requires gradients."""
    base = value._base
    if base is None:
        return ""
    layout = tuple(base.shape), base.stride(), base.storage_offset(), base.dtype
    return f"{layout} {base.requires_grad}"


def _marking(
    compiler: Callable[[fx.GraphModule, Sequence[Any]], Made],
) -> Callable[[fx.GraphModule, Sequence[Any]], Made]:
    """Compiles a graph in which parameters and buffers are marked as frozen."""

    def compile_frozen(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Made:
        mark_frozen(gm)
        return compiler(gm, example_inputs)

    return compile_frozen


def _keeping(
    compiler: Callable[[fx.GraphModule, Sequence[Any]], Made],
) -> Callable[[fx.GraphModule, Sequence[Any]], Made]:
    """Compiles the graph of a backward pass, which leaves what was saved for it as it is: PyTorch
    would take it for donated, and refuse `retain_graph`."""

    def compile_backward(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Made:
        context = TracingContext.try_get()
        if context is not None and context.fw_metadata is not None:
            context.fw_metadata.bw_donated_idxs = []
        return compiler(gm, example_inputs)

    return compile_backward


def _through_autograd(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    inference: Compiler,
    forward: Compiler,
    backward: Compiler,
) -> Callable[..., Any]:
    note_break(gm)
    check_inputs(gm, example_inputs)
    make: Any = aot_autograd(
        fw_compiler=forward,
        bw_compiler=backward,
        inference_compiler=inference,
        decompositions=Decompositions(),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )
    count = sum(node.op.startswith("call") for node in gm.graph.nodes)
    release_memory()
    # Tokens that order side effects are made in the graph: a cached graph is not passed any.
    tokens = FUNCTORCH.patch(unlift_effect_tokens=True)
    with COLLECTION.paused(), progress(f"compiling {count:,} operators"), tokens:
        doing("PyTorch traces them")
        compiled = make(gm, example_inputs)
    _forget_module(compiled)
    release_memory()
    return compiled


def _forget_module(compiled: Callable[..., Any]) -> None:
    """AOTAutograd lets its result have methods of the module that it was given, which Dynamo does
    not ask for, and which keep the captured graph in memory: 10 MB for thirty layers."""
    function: Callable[..., Any] | None = compiled
    while function is not None:
        for name in ("zero_grad", "named_parameters", "named_buffers"):
            if hasattr(function, name):
                delattr(function, name)
        function = getattr(function, "__wrapped__", None)


def _compile_plain(compiler: Compiler, gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Boxed:
    """A plain function: torch.compiler.disable, which wraps it, loses the attributes of objects."""
    compiled = compiler(gm, example_inputs)

    def run(inputs: list[Any]) -> list[Any]:
        return compiled(inputs)

    setattr(run, "_boxed_call", True)
    return run


def compile_function(
    fn: Callable[..., Any], backend: Callable[..., Any], **compile_options: Any
) -> Callable[..., Any]:
    """torch.compile, though Dynamo may have compiled `fn` for the same backend before."""

    def lpu_mlir(*graph: Any, **options: Any) -> Callable[..., Any]:
        """A function of its own, so that Dynamo's cache has nothing for it; errors name it."""
        return backend(*graph, **options)

    make = cast("Callable[..., Any]", torch.compile)  # pyright: ignore[reportUnknownMemberType]
    return make(fn, backend=lpu_mlir, **compile_options)
