"""What the compiler says while it works: loggers below `lpu_mlir`, switched on by LPU_MLIR_LOGS.

    LPU_MLIR_LOGS=graph,fuse,ir.bufferize python model.py

The names are those of `LOGS`; `ir.` and the name of a stage, or `import`, is the IR after that
stage alone.  They are names of Python's `logging`, too: `graph` is the logger `lpu_mlir.graph`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

VARIABLE = "LPU_MLIR_LOGS"

LOGS: Mapping[str, str] = {
    "graph": "each graph that was compiled: operators, options, seconds of each stage",
    "fuse": "which nests were joined, which were not, and why",
    "ir": "the IR after each stage",
    "host": "operators that run in eager PyTorch: where and why, then each call",
    "kernels": "each launch: bytes moved and seconds",
    "cache": "what comes from the cache of compiled code, what is not kept, and why",
}
"""What there is -> what it says."""


def logger(name: str) -> logging.Logger:
    """The logger of a name in `LOGS`, or of `ir.` and a stage."""
    return logging.getLogger(f"lpu_mlir.{name}")


def is_wanted(name: str) -> bool:
    """Whether a logger, or one below it, is to say everything."""
    above = logger(name).name
    names = [n for n in logging.root.manager.loggerDict if n == above or n.startswith(f"{above}.")]
    return any(logging.getLogger(n).isEnabledFor(logging.DEBUG) for n in names)


def configure(setting: str) -> None:
    """Sends what the names in a setting stand for to standard error.

    ValueError for a name that there is not; the message lists those there are.
    """
    names = [name.strip() for name in setting.split(",") if name.strip()]
    known = [*LOGS, *(f"ir.{stage}" for stage in _stages())]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(
            f"{VARIABLE}: there is no log {', '.join(map(repr, unknown))}, "
            f"expected some of {', '.join(known)}"
        )
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
    for name in names:
        logger(name).setLevel(logging.DEBUG)
        logger(name).addHandler(handler)
        logger(name).propagate = False


def _stages() -> list[str]:
    from lpu_mlir.model.target import TARGETS
    from lpu_mlir.pipeline import stages

    return ["import", *(stage.name for stage in stages(next(iter(TARGETS.values()))))]
