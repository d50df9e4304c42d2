"""What may remain at each level of the pipeline, as data, and the check that ends a lowering."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnregisteredOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

_EVERYWHERE = frozenset({"builtin", "func", "lpu"})
_SCALARS = frozenset({"arith", "math"})

LEVELS = {
    "graph": _EVERYWHERE | _SCALARS | {"lpu_graph"},
    "loop": _EVERYWHERE | _SCALARS | {"lpu_loop", "lpu_host"},
    "kernel": _EVERYWHERE | _SCALARS | {"lpu_kernel", "lpu_host"},
}
"""Level -> the dialects whose operations it may contain."""


def check_level(op: Operation, level: str) -> None:
    """
    Check that everything inside ``op`` belongs to a dialect allowed at ``level``.

    Raises PassFailedException at the first operation that does not, and for an unknown level.
    """
    if level not in LEVELS:
        raise PassFailedException(f"unknown level '{level}', expected one of {', '.join(LEVELS)}")
    allowed = LEVELS[level]
    for inner in op.walk():
        name = inner.op_name.data if isinstance(inner, UnregisteredOp) else inner.name
        if name.partition(".")[0] not in allowed:
            expected = ", ".join(sorted(allowed))
            message = f"'{name}' may not occur at the {level} level, which has only {expected}"
            inner.emit_error(message, PassFailedException(message))


@dataclass(frozen=True)
class VerifyLevelPass(ModulePass):
    """
    Fails on IR with an operation that does not belong to the given level, and changes nothing.
    Lowerings succeed silently on what they do not know, so each ends with this check.

    Rejected with ``level=loop``:
    ```mlir
    %y = lpu_graph.relu %x : tensor<4xf32>
    ```
    """

    name = "verify-level"

    level: str
    """``graph``, ``loop`` or ``kernel``."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        check_level(op, self.level)
