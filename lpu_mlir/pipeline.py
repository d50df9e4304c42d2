"""The compiler, from top to bottom: the list of stages that every program goes through.

`lpu-opt -p` takes the same pass names; the backend runs exactly this list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import DeadCodeElimination

from lpu_mlir.dialects import get_all_dialects
from lpu_mlir.model.target import Target
from lpu_mlir.transforms.allocate_sram import AllocateSramPass
from lpu_mlir.transforms.bufferize import BufferizePass
from lpu_mlir.transforms.fuse import FusePass
from lpu_mlir.transforms.graph_to_loop import GraphToLoopPass
from lpu_mlir.transforms.hoist_checks import HoistChecksPass
from lpu_mlir.transforms.hoist_frozen import HoistFrozenPass
from lpu_mlir.transforms.loop_to_kernel import LoopToKernelPass
from lpu_mlir.transforms.merge_nests import MergeNestsPass
from lpu_mlir.transforms.outline import OutlinePass
from lpu_mlir.transforms.plan_memory import PlanMemoryPass
from lpu_mlir.transforms.raise_attention import RaiseAttentionPass
from lpu_mlir.transforms.raise_gelu import RaiseGeluPass
from lpu_mlir.transforms.raise_norms import RaiseNormsPass
from lpu_mlir.transforms.raise_rope import RaiseRopePass
from lpu_mlir.transforms.raise_softmax import RaiseSoftmaxPass
from lpu_mlir.transforms.split_movement import SplitMovementPass
from lpu_mlir.transforms.split_reductions import SplitReductionsPass
from lpu_mlir.transforms.verify_dominance import check_dominance


@dataclass(frozen=True)
class Stage:
    """One step of the pipeline: the level of its result, a pass, and why it is there."""

    level: str
    transform: ModulePass
    why: str

    @property
    def name(self) -> str:
        return self.transform.name

    @property
    def spec(self) -> str:
        """The stage as `lpu-opt -p` takes it, options included."""
        return str(self.transform.pipeline_pass_spec())


def stages(target: Target) -> tuple[Stage, ...]:
    """Every stage in order, for one target."""
    return (
        # lpu_graph: tensors
        Stage("graph", HoistFrozenPass(), "what frozen weights alone determine is computed once"),
        Stage("graph", OutlinePass(), "compile each distinct layer once"),
        Stage("graph", RaiseNormsPass(), "norms by name, while each has its statistics for itself"),
        Stage("graph", RaiseRopePass(), "rotary embeddings by name, before views are joined"),
        Stage("graph", RaiseGeluPass(), "gelu by name"),
        Stage("graph", RaiseSoftmaxPass(), "softmax by name"),
        Stage("graph", CanonicalizePass(), "drop views of views, neutral operations, dead values"),
        Stage("graph", CommonSubexpressionElimination(), "compute equal values once"),
        Stage("graph", RaiseAttentionPass(), "attention by name, to be one nest"),
        # lpu_loop: the computation of one element, on tensors, then on memrefs
        Stage("loop", GraphToLoopPass(), "views become index expressions, the rest nests"),
        Stage("loop", HoistChecksPass(), "what fails fails before an argument is changed"),
        Stage("loop", FusePass(target.launch_bytes), "join nests where that moves fewer bytes"),
        Stage("loop", DeadCodeElimination(), "what was fused into all its readers is gone"),
        Stage("loop", SplitReductionsPass(target.cores), "large sums run on all cores"),
        Stage("loop", MergeNestsPass(target.launch_bytes), "one kernel for what loads the same"),
        Stage("loop", BufferizePass(), "choose destinations; caches are written in place"),
        Stage("loop", PlanMemoryPass(), "all intermediates of a function in one arena"),
        # lpu_kernel: cores, tiles, data movement
        Stage("kernel", LoopToKernelPass(target.name), "share dims among cores, choose tiles"),
        Stage("kernel", SplitMovementPass(target.channel_depth), "top requests, cores receive"),
        Stage("kernel", AllocateSramPass(target.sram_bytes), "an SRAM place for every tile"),
    )


class PipelineError(RuntimeError):
    """A stage failed on a module; the exception of the stage is the cause."""

    def __init__(self, stage: Stage, error: Exception):
        super().__init__(f"stage '{stage.name}' failed: {error}")
        self.stage = stage


Observer = Callable[[str, ModuleOp, float], None]
"""Called after each stage with its name, the module and the seconds it took."""


def make_context() -> Context:
    """A context with the dialects that programs consist of."""
    from xdsl.dialects import get_all_dialects as get_xdsl_dialects

    context = Context()
    ours, theirs = get_all_dialects(), get_xdsl_dialects()
    for name in ("builtin", "func", "arith", "math"):
        context.register_dialect(name, theirs[name])
    for name, factory in ours.items():
        context.register_dialect(name, factory)
    return context


def run_stages(
    module: ModuleOp,
    todo: Sequence[Stage],
    *,
    verify: bool = False,
    observe: Observer | None = None,
) -> None:
    """Runs stages in place; `verify` checks the module after each (slow, for tests).

    Raises PipelineError from whatever a stage raises.
    """
    context = make_context()
    for stage in todo:
        start = perf_counter()
        try:
            stage.transform.apply(context, module)
            if verify:
                module.verify()
                check_dominance(module)
        except Exception as error:
            raise PipelineError(stage, error) from error
        if observe is not None:
            observe(stage.name, module, perf_counter() - start)


def ir_after(module: ModuleOp, todo: Sequence[Stage], stage: str) -> str:
    """The IR after a stage, or as imported, as text; the module stays as it is.

    The stages run for each question: to print the IR after each while compiling takes as long as
    they do.  Raises KeyError, which lists the stages, if there is no such stage.
    """
    names = ["import", *(each.name for each in todo)]
    if stage not in names:
        raise KeyError(f"no stage '{stage}', expected one of {', '.join(names)}")
    module = module.clone()
    run_stages(module, todo[: names.index(stage)])
    return str(module)
