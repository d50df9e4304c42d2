"""From an FX graph of ATen operators to what runs it: the frontend, the pipeline, the runtime."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Any, TypeAlias, cast

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._subclasses.fake_tensor import unset_fake_temporarily
from xdsl.dialects.builtin import ModuleOp

from lpu_mlir.frontend import import_graph
from lpu_mlir.frontend.decompositions import decompositions
from lpu_mlir.frontend.frozen import mark_frozen, refuse_training
from lpu_mlir.frontend.inputs import check_inputs
from lpu_mlir.frontend.table import HANDLERS, Handler
from lpu_mlir.interpreter.reference import InterpreterParams
from lpu_mlir.logs import logger
from lpu_mlir.model.target import get_target
from lpu_mlir.options import Options
from lpu_mlir.pipeline import PipelineError, run_stages, stages
from lpu_mlir.report import begin_graph, note_break
from lpu_mlir.reproducer import CompileError, write_reproducer
from lpu_mlir.runtime.executable import Executable
from lpu_mlir.runtime.native import NativeProgram
from lpu_mlir.runtime.program import Program
from lpu_mlir.runtime.signature import Signature
from lpu_mlir.runtime.stats import Runnable

Boxed: TypeAlias = Callable[[list[Any]], list[Any]]
"""A compiled graph: from a list of inputs, which it empties, to a list of outputs."""

Compiler: TypeAlias = Callable[[fx.GraphModule, Sequence[Any]], Boxed]
"""From a graph and inputs like those that it will get to what runs it."""


LOG = logger("graph")


def compile_captured(
    gm: fx.GraphModule, example_inputs: Sequence[Any], compiler: Compiler, *, freeze: bool = False
) -> Callable[..., Any]:
    """What Dynamo captured, through AOTAutograd, to what Dynamo calls.

    The graph of the backward pass, if there is one, is compiled when it first runs.  With `freeze`
    parameters and buffers are marked as such in the graph.  Raises Unsupported for an input that no
    program can take and ValueError for a graph with gradients that is to be frozen.
    """
    note_break(gm)
    check_inputs(gm, example_inputs)
    plain = partial(_compile_plain, compiler)
    make: Any = aot_autograd(
        fw_compiler=refuse_training if freeze else plain,
        bw_compiler=plain,
        inference_compiler=partial(_compile_plain, compiler, freeze=freeze),
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )
    return make(gm, example_inputs)


def _compile_plain(
    compiler: Compiler, gm: fx.GraphModule, example_inputs: Sequence[Any], freeze: bool = False
) -> Boxed:
    """A plain function: torch.compiler.disable, which wraps it, loses the attributes of objects."""
    if freeze:
        mark_frozen(gm)
    compiled = compiler(gm, example_inputs)

    def run(inputs: list[Any]) -> list[Any]:
        return compiled(inputs)

    setattr(run, "_boxed_call", True)
    return run


@contextmanager
def collection_paused() -> Generator[None]:
    """No garbage collection meanwhile: among the objects of PyTorch's tracing it takes most of a
    second, more than all stages for thirty layers, and compiling leaves little garbage behind."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def compile_fx(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Options | None = None,
    *,
    handlers: Mapping[Any, Handler] = HANDLERS,
    reproducer: bool = True,
) -> Executable:
    """Compiles a functional graph of ATen operators to a boxed callable.

    `gm` is as AOTAutograd gives it: its nodes carry their values in `meta["val"]`.  Raises
    `Unsupported` for a graph that cannot be compiled and `CompileError` for a bug of the compiler,
    which names the files that repeat it unless `reproducer` is False.  `handlers` translate the
    operators; tests give others to see what becomes of a wrong one.
    """
    options = options or Options()
    target = get_target(options.target)
    record = begin_graph()
    importing = partial(import_graph, gm, fallback=options.fallback, handlers=handlers)
    # AOTAutograd may call with fake tensors switched on: constants made now would be fake.
    with unset_fake_temporarily(), collection_paused():
        start = perf_counter()
        graph = importing()
        record.imported(gm, graph.module, perf_counter() - start)
        signature = Signature(graph)
        todo = stages(target)
        try:
            run_stages(graph.module, todo, verify=options.verify, observe=record.lowered)
        except PipelineError as error:
            if not reproducer:
                raise CompileError(str(error)) from error
            raise write_reproducer(lambda: importing().module, todo, error) from error
        start = perf_counter()
        program = make_program(graph.module, options)
        record.prepared(perf_counter() - start)
        LOG.info("%s, %s", record, options)
        return Executable(signature, program, record.listener)


def make_program(module: ModuleOp, options: Options) -> Runnable:
    """What runs a lowered module; CompileError if a kernel has no native form."""
    if options.interpreter == "native":
        try:
            return NativeProgram(module)
        except NotImplementedError as error:
            raise CompileError(f"lpu_mlir: no machine code for {error}") from error
    sram_bytes = get_target(options.target).sram_bytes
    return Program(module, InterpreterParams(seed=options.seed, sram_bytes=sram_bytes))


def compile_function(
    fn: Callable[..., Any], backend: Callable[..., Any], **compile_options: Any
) -> Callable[..., Any]:
    """torch.compile, though Dynamo may have compiled `fn` for the same backend before."""

    def lpu_mlir(*graph: Any, **options: Any) -> Callable[..., Any]:
        """A function of its own, so that Dynamo's cache has nothing for it; errors name it."""
        return backend(*graph, **options)

    make = cast("Callable[..., Any]", torch.compile)  # pyright: ignore[reportUnknownMemberType]
    return make(fn, backend=lpu_mlir, **compile_options)
