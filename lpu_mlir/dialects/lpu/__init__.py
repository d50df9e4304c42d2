"""The `lpu` dialect: what all levels share.

Attributes for extents, layouts and symbols, the types built from them, and the operations that may
stand at every level.
"""

from xdsl.ir import Dialect

from lpu_mlir.dialects.lpu.attributes import (
    DimsAttr,
    ExprAttr,
    Extent,
    IntsAttr,
    LayoutAttr,
    OperandAttr,
    ShapeAttr,
    SymbolAttr,
    TorchAttr,
    parse_dims,
    parse_expr,
    parse_exprs,
    print_dims,
    print_exprs,
)
from lpu_mlir.dialects.lpu.control import IfOp, WhileOp
from lpu_mlir.dialects.lpu.ops import (
    HostCallOp,
    RemFOp,
    bound_late,
)
from lpu_mlir.dialects.lpu.types import (
    COMPUTED,
    FREEZE,
    FROZEN,
    SYMBOLS,
    element_bytes,
    element_type,
    extents,
    i1,
    i8,
    i16,
    i32,
    i64,
    memref_type,
    offset,
    scalar_type,
    strides,
    symbol_ranges,
    symbols,
    tensor_type,
    type_bytes,
    ui8,
)

Lpu = Dialect(
    "lpu",
    [HostCallOp, IfOp, WhileOp, RemFOp],
    [ExprAttr, ShapeAttr, IntsAttr, DimsAttr, LayoutAttr, SymbolAttr, OperandAttr, TorchAttr],
)

__all__ = [
    "COMPUTED",
    "FREEZE",
    "FROZEN",
    "SYMBOLS",
    "DimsAttr",
    "ExprAttr",
    "Extent",
    "HostCallOp",
    "IfOp",
    "IntsAttr",
    "LayoutAttr",
    "Lpu",
    "OperandAttr",
    "RemFOp",
    "ShapeAttr",
    "SymbolAttr",
    "TorchAttr",
    "WhileOp",
    "bound_late",
    "element_bytes",
    "element_type",
    "extents",
    "i1",
    "i8",
    "i16",
    "i32",
    "i64",
    "memref_type",
    "offset",
    "parse_dims",
    "parse_expr",
    "parse_exprs",
    "print_dims",
    "print_exprs",
    "scalar_type",
    "strides",
    "symbol_ranges",
    "symbols",
    "tensor_type",
    "type_bytes",
    "ui8",
]
