"""The passes, one module each; see ``PASSES``."""

from collections.abc import Callable
from functools import partial
from pkgutil import resolve_name

from xdsl.passes import ModulePass

PASSES = {
    "allocate-sram": "lpu_mlir.transforms.allocate_sram:AllocateSramPass",
    "bufferize": "lpu_mlir.transforms.bufferize:BufferizePass",
    "coalesce-cores": "lpu_mlir.transforms.coalesce_cores:CoalesceCoresPass",
    "coalesce-trips": "lpu_mlir.transforms.coalesce_trips:CoalesceTripsPass",
    "fuse": "lpu_mlir.transforms.fuse:FusePass",
    "graph-to-loop": "lpu_mlir.transforms.graph_to_loop:GraphToLoopPass",
    "hoist-checks": "lpu_mlir.transforms.hoist_checks:HoistChecksPass",
    "hoist-frozen": "lpu_mlir.transforms.hoist_frozen:HoistFrozenPass",
    "join-movement": "lpu_mlir.transforms.join_movement:JoinMovementPass",
    "loop-to-kernel": "lpu_mlir.transforms.loop_to_kernel:LoopToKernelPass",
    "merge-nests": "lpu_mlir.transforms.merge_nests:MergeNestsPass",
    "outline": "lpu_mlir.transforms.outline:OutlinePass",
    "plan-memory": "lpu_mlir.transforms.plan_memory:PlanMemoryPass",
    "raise-attention": "lpu_mlir.transforms.raise_attention:RaiseAttentionPass",
    "raise-gelu": "lpu_mlir.transforms.raise_gelu:RaiseGeluPass",
    "raise-norms": "lpu_mlir.transforms.raise_norms:RaiseNormsPass",
    "raise-rope": "lpu_mlir.transforms.raise_rope:RaiseRopePass",
    "raise-softmax": "lpu_mlir.transforms.raise_softmax:RaiseSoftmaxPass",
    "split-movement": "lpu_mlir.transforms.split_movement:SplitMovementPass",
    "split-reductions": "lpu_mlir.transforms.split_reductions:SplitReductionsPass",
    "verify-dominance": "lpu_mlir.transforms.verify_dominance:VerifyDominancePass",
    "verify-level": "lpu_mlir.transforms.verify_level:VerifyLevelPass",
}
"""Pass name -> where its class is defined."""


def get_all_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """Factories for all our pass classes by name; a pass's module is imported by its factory."""
    return {name: partial(resolve_name, target) for name, target in PASSES.items()}
