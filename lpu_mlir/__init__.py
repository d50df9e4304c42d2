"""
A ``torch.compile`` backend for LPUs and the compiler behind it.

The names of the public API are resolved on first use: the tools and the dialects import this
package too, and a text-to-text run of ``lpu-opt`` must not pay for importing torch.
"""

import os
from pkgutil import resolve_name

__version__ = "0.1.0"

if _setting := os.environ.get("LPU_MLIR_LOGS"):
    from lpu_mlir.logs import configure

    configure(_setting)

_PUBLIC = {
    "CacheInfo": "lpu_mlir.cache:CacheInfo",
    "Comparison": "lpu_mlir.debug.compare:Comparison",
    "CompileError": "lpu_mlir.reproducer:CompileError",
    "MismatchError": "lpu_mlir.debug.compare:MismatchError",
    "Report": "lpu_mlir.report:Report",
    "Unsupported": "lpu_mlir.frontend.errors:Unsupported",
    "cache_info": "lpu_mlir.cache:cache_info",
    "clear_cache": "lpu_mlir.cache:clear_cache",
    "compare": "lpu_mlir.debug.compare:compare",
    "compare_graph": "lpu_mlir.debug.compare:compare_graph",
    "explain": "lpu_mlir.backend:explain",
    "OperatorSupport": "lpu_mlir.support:OperatorSupport",
    "supported_ops": "lpu_mlir.support:supported_ops",
    "minify": "lpu_mlir.debug.minify:minify",
    "lpu_mlir": "lpu_mlir.backend:lpu_mlir",
}
"""Public name -> where it is defined."""


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'lpu_mlir' has no attribute '{name}'")
    return resolve_name(_PUBLIC[name])


def __dir__() -> list[str]:
    return [*globals(), *_PUBLIC]
