"""From an FX graph of ATen operators to what runs it: the frontend, the pipeline, the runtime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily
from xdsl.dialects.builtin import ModuleOp

from lpu_mlir.collection import COLLECTION
from lpu_mlir.dialects.location import describe_location
from lpu_mlir.dialects.lpu import HostCallOp, element_type, extents
from lpu_mlir.frontend.importer import import_graph
from lpu_mlir.frontend.nodes import drop_tokens
from lpu_mlir.frontend.table import HANDLERS, Handler
from lpu_mlir.interpreter.reference import InterpreterParams
from lpu_mlir.logs import logger
from lpu_mlir.model.target import get_target
from lpu_mlir.options import Options
from lpu_mlir.pipeline import PipelineError, ir_after, run_stages, stages
from lpu_mlir.progress import doing, progress
from lpu_mlir.report import CompiledGraph, Fallback, begin_graph
from lpu_mlir.reproducer import CompileError, write_reproducer
from lpu_mlir.runtime.describe.program import describe_program
from lpu_mlir.runtime.describe.signature import describe_signature
from lpu_mlir.runtime.executable import Executable
from lpu_mlir.runtime.native import NativeProgram
from lpu_mlir.runtime.program import Program
from lpu_mlir.runtime.stats import Runnable

LOG = logger("graph")

LARGE = 1000
"""Before graphs of so many nodes what others left is collected."""


def interpreter_params(options: Options) -> InterpreterParams:
    """How the reference interpreter runs kernels."""
    return InterpreterParams(seed=options.seed, sram_bytes=get_target(options.target).sram_bytes)


def make_program(module: ModuleOp, options: Options) -> Runnable:
    """What runs a lowered module: interpreted if that is asked for, else as machine code."""
    if options.interpreter == "reference":
        return Program(module, interpreter_params(options))
    return NativeProgram(describe_program(module))


def compile_fx(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Options | None = None,
    *,
    handlers: Mapping[Any, Handler] = HANDLERS,
    make: Callable[[ModuleOp, Options], Runnable] = make_program,
    reproducer: bool = True,
    record: CompiledGraph | None = None,
) -> Executable:
    """Compiles a functional graph of ATen operators to a boxed callable.

    `gm` is as AOTAutograd gives it: its nodes carry their values in `meta["val"]`.  Raises
    `Unsupported` for a graph that cannot be compiled and `CompileError` for a bug of the compiler,
    which names the files that repeat it unless `reproducer` is False.  `handlers` translate the
    operators; tests give others to see what becomes of a wrong one.  `make` makes a program of the
    lowered module.  `record` is told of it all.
    """
    options = options or Options()
    target = get_target(options.target)
    record = record or begin_graph()
    drop_tokens(gm)
    if len(gm.graph.nodes) > LARGE:
        COLLECTION.make_room()
    importing = partial(import_graph, gm, fallback=options.fallback, handlers=handlers)
    # AOTAutograd may call with fake tensors switched on: constants made now would be fake.
    title = f"compiling {len(gm.graph.nodes):,} operators"
    with unset_fake_temporarily(), COLLECTION.paused(), progress(title):
        doing("import")
        start = perf_counter()
        graph = importing()
        record.staged("import", graph.module, perf_counter() - start)
        record.imported(graph.uses, list(find_fallbacks(graph.module)))
        signature = describe_signature(graph)
        todo = stages(target)
        if record.keep_ir:
            record.ir = partial(ir_after, graph.module.clone(), todo)
        doing("passes")
        try:
            run_stages(graph.module, todo, verify=options.verify, observe=record.staged)
        except PipelineError as error:
            if not reproducer:
                raise CompileError(str(error)) from error
            raise write_reproducer(lambda: importing().module, todo, error) from error
        start = perf_counter()
        try:
            program = make(graph.module, options)
        except NotImplementedError as error:
            raise CompileError(f"lpu_mlir: no machine code for {error}") from error
        record.prepared(perf_counter() - start)
        LOG.info("%s, %s", record, options)
        return Executable(signature, program, record.listener)


def find_fallbacks(module: ModuleOp) -> Iterable[Fallback]:
    """The host calls of an imported module; equal ones are counted together."""
    counts: Counter[Fallback] = Counter()
    for op in module.walk():
        if isinstance(op, HostCallOp):
            overload = op.overload.data
            types = [value.type for value in op.inputs]
            counts[
                Fallback(
                    op=".".join(overload.split(".")[:-1]),
                    overload=overload,
                    dtypes=tuple(str(element_type(t)) for t in types),
                    shapes=tuple(f"[{', '.join(map(str, extents(t)))}]" for t in types),
                    source=describe_location(op.location),
                    reason=op.reason.data,
                )
            ] += 1
    for fallback, count in counts.items():
        yield replace(fallback, count=count)
