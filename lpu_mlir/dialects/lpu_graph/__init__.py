"""The `lpu_graph` dialect: what is computed, on tensors.

The operations stand at StableHLO's granularity, with NumPy broadcasting in `pointwise`.  Dtype
promotion has been done by the importer: the operands of a pointwise operation have one element
type. Results that a graph writes back to its arguments are named by `write_back`, wherever it
stands: when the function has returned, the buffer of the argument holds the new value; every read
of the argument in the function means the old one.
"""

from xdsl.ir import Dialect

from lpu_mlir.dialects.lpu_graph.base import GraphOp, UnaryGraphOp, broadcast_extents, is_negative
from lpu_mlir.dialects.lpu_graph.composite import (
    COMPOSITES,
    AttentionOp,
    LayerNormOp,
    LogSoftmaxOp,
    RmsNormOp,
    RopeOp,
    SoftmaxOp,
    YieldOp,
)
from lpu_mlir.dialects.lpu_graph.compute import (
    ArgReduceOp,
    ConvertOp,
    ConvOp,
    ExtentOp,
    FullOp,
    IotaOp,
    MatmulOp,
    PointwiseOp,
    ReduceOp,
    ScanOp,
)
from lpu_mlir.dialects.lpu_graph.indexed import GatherOp, IndexedOp, ScatterOp, WriteBackOp
from lpu_mlir.dialects.lpu_graph.kinds import (
    POINTWISE,
    REDUCTIONS,
    SCANS,
    SCATTERS,
    Domain,
    PointwiseKind,
    in_domain,
)
from lpu_mlir.dialects.lpu_graph.views import (
    BroadcastOp,
    ConcatOp,
    PadOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
    WindowsOp,
)

LpuGraph = Dialect(
    "lpu_graph",
    [
        FullOp,
        ExtentOp,
        IotaOp,
        PointwiseOp,
        ConvertOp,
        ReduceOp,
        ArgReduceOp,
        ScanOp,
        MatmulOp,
        ConvOp,
        ReshapeOp,
        TransposeOp,
        BroadcastOp,
        SliceOp,
        WindowsOp,
        PadOp,
        ConcatOp,
        GatherOp,
        ScatterOp,
        WriteBackOp,
        *COMPOSITES,
    ],
)

__all__ = [
    "POINTWISE",
    "REDUCTIONS",
    "SCANS",
    "SCATTERS",
    "ArgReduceOp",
    "AttentionOp",
    "BroadcastOp",
    "ConcatOp",
    "ConvOp",
    "ConvertOp",
    "Domain",
    "ExtentOp",
    "FullOp",
    "GatherOp",
    "GraphOp",
    "IndexedOp",
    "IotaOp",
    "LayerNormOp",
    "LogSoftmaxOp",
    "LpuGraph",
    "MatmulOp",
    "PadOp",
    "PointwiseKind",
    "PointwiseOp",
    "ReduceOp",
    "ReshapeOp",
    "RmsNormOp",
    "RopeOp",
    "ScanOp",
    "ScatterOp",
    "SliceOp",
    "SoftmaxOp",
    "TransposeOp",
    "UnaryGraphOp",
    "WindowsOp",
    "WriteBackOp",
    "YieldOp",
    "broadcast_extents",
    "in_domain",
    "is_negative",
]
