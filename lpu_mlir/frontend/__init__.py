"""From FX graphs of ATen operators to `lpu_graph`."""

from lpu_mlir.frontend.errors import Unsupported
from lpu_mlir.frontend.importer import (
    ExtentInput,
    FloatInput,
    IgnoredInput,
    ImportedGraph,
    Input,
    TensorInput,
    import_graph,
)

__all__ = [
    "ExtentInput",
    "FloatInput",
    "IgnoredInput",
    "ImportedGraph",
    "Input",
    "TensorInput",
    "Unsupported",
    "import_graph",
]
