"""The entry of `torch.compile(model, backend="lpu_mlir")`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any, cast

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._subclasses.fake_tensor import unset_fake_temporarily

from lpu_mlir.frontend import import_graph
from lpu_mlir.frontend.decompositions import decompositions
from lpu_mlir.interpreter.reference import InterpreterParams
from lpu_mlir.model.target import get_target
from lpu_mlir.options import Options, make_options
from lpu_mlir.pipeline import PipelineError, run_stages, stages
from lpu_mlir.report import Report, begin_graph, note_break
from lpu_mlir.reproducer import write_reproducer
from lpu_mlir.runtime.executable import Executable, Signature
from lpu_mlir.runtime.program import Program


def lpu_mlir(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compiles a graph that Dynamo captured; see `lpu_mlir.options.Options` for the options.

    The graph of the backward pass, if there is one, is compiled when it first runs.
    """
    compiler = partial(_compile_boxed, options=make_options(mode, options))
    note_break(gm)
    make: Any = aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=compiler,
        decompositions=decompositions(),
        keep_inference_input_mutations=True,
    )
    return make(gm, example_inputs)


def _compile_boxed(
    gm: fx.GraphModule, example_inputs: Sequence[Any], options: Options
) -> Callable[[list[Any]], list[Any]]:
    """A plain function: torch.compiler.disable, which wraps it, loses the attributes of objects."""
    executable = compile_fx(gm, example_inputs, options)

    def run(inputs: list[Any]) -> list[Any]:
        return executable(inputs)

    setattr(run, "_boxed_call", True)
    return run


def compile_fx(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Options | None = None,
) -> Executable:
    """Compiles a functional graph of ATen operators to a boxed callable.

    `gm` is as AOTAutograd gives it: its nodes carry their values in `meta["val"]`.  Raises
    `Unsupported` for a graph that cannot be compiled and `CompileError` for a bug of the compiler.
    """
    options = options or Options()
    target = get_target(options.target)
    params = InterpreterParams(seed=options.seed, sram_bytes=target.sram_bytes)
    record = begin_graph()
    # AOTAutograd may call with fake tensors switched on: constants made now would be fake.
    with unset_fake_temporarily():
        start = perf_counter()
        graph = import_graph(gm, fallback=options.fallback)
        record.imported(gm, graph.module, perf_counter() - start)
        signature = Signature(graph)
        todo = stages(target)
        try:
            run_stages(graph.module, todo, verify=options.verify, observe=record.lowered)
        except PipelineError as error:
            again = partial(import_graph, gm, fallback=options.fallback)
            raise write_reproducer(lambda: again().module, todo, error) from error
        start = perf_counter()
        program = Program(graph.module, params)
        record.prepared(perf_counter() - start)
        return Executable(signature, program, record.ran)


def explain(fn: Callable[..., Any], **compile_options: Any) -> Callable[..., Report]:
    """`explain(fn, **compile_options)(*args, **kwargs)` compiles `fn`, calls it once and reports.

    `compile_options` are those of `torch.compile` without `backend`.  To report on several calls,
    or to use what they return, open a `Report` around them instead.
    """

    def run(*args: Any, **kwargs: Any) -> Report:
        def backend(*graph: Any, **options: Any) -> Callable[..., Any]:
            """A function of its own, so that Dynamo compiles again what it has compiled before."""
            return lpu_mlir(*graph, **options)

        make = cast("Callable[..., Any]", torch.compile)  # pyright: ignore[reportUnknownMemberType]
        with Report() as report:
            make(fn, backend=backend, **compile_options)(*args, **kwargs)
        return report

    return run
