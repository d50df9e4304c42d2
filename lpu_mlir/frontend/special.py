"""Nodes that are no calls of operators on tensors, or that change something."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._functorch._aot_autograd.descriptors import SyntheticBaseAOTInput, ViewBaseAOTInput

from lpu_mlir.dialects.expr import Expr, nonnegative, product
from lpu_mlir.dialects.lpu import extents
from lpu_mlir.frontend import views
from lpu_mlir.frontend.builder import FloatScalar, dtype_of
from lpu_mlir.frontend.calls import All, Comparison
from lpu_mlir.frontend.nodes import all_native
from lpu_mlir.frontend.nodes import with_effects as effects
from lpu_mlir.frontend.outputs import COPY_, dense_order, explicit_offset, storage_base
from lpu_mlir.frontend.symint import is_expressible, sym_node
from lpu_mlir.frontend.table import ON_HOST
from lpu_mlir.frontend.types import NATIVE
from lpu_mlir.frontend.values import counts_by_strides

if TYPE_CHECKING:
    from lpu_mlir.frontend.importer import Importer

aten = torch.ops.aten
SCATTER = aten.as_strided_scatter.default


def getitem(importer: Importer, node: fx.Node) -> None:
    importer.environment[node] = importer.value(node.args[0])[node.args[1]]


def nothing(importer: Importer, node: fx.Node) -> None:
    """A statement for the tracer, true by construction when the graph runs."""
    importer.environment[node] = None


def assert_scalar(importer: Importer, node: fx.Node) -> None:
    """Dropped where it holds for all extents, otherwise checked outside."""
    condition = importer.value(node.args[0])
    for part in condition.parts if isinstance(condition, All) else (condition,):
        if part is not True and not _holds(importer, part):
            importer.host_call(node, None, [part, node.args[1]], {}, "an assertion on extents")
    importer.environment[node] = None


def _holds(importer: Importer, condition: Any) -> bool:
    """Whether a condition is a comparison that no size of an input can make false."""
    if not isinstance(condition, Comparison):
        return False
    lhs, rhs = condition.lhs, condition.rhs
    if condition.kind == "le":
        lhs, rhs = rhs, lhs
    return condition.kind in ("le", "ge") and nonnegative(lhs - rhs, importer.symbols.backed)


def copy_(importer: Importer, node: fx.Node) -> None:
    """A write to an input; later reads of the input in graph order see the new value."""
    target, source = node.args[0], importer.value(node.args[1])
    while isinstance(target, fx.Node) and target.target is COPY_:
        target = target.args[0]
    if not isinstance(target, fx.Node) or target not in importer.arguments:
        raise importer.unsupported(node, "a write to something that is no input")
    old = importer.block.args[importer.arguments[target]]
    if importer.foreign and source.type != old.type and not all_native([old, source], {}, ()):
        val, reason = target.meta["val"], "a dtype that the LPU does not compute with"
        value = importer.host_call(node, val, [old, source], {}, reason, aten.copy.default)
    else:
        value = importer.b.convert(source, dtype_of(old))
        value = importer.b.broadcast(value, extents(old.type))
    importer.written[target] = importer.environment[target] = importer.environment[node] = value


def item(importer: Importer, node: fx.Node) -> None:
    """A float is a 0-d tensor that stays on the device; an integer binds a symbol."""
    val, x = node.meta["val"], importer.value(node.args[0])
    if isinstance(val, torch.SymFloat):
        scalar = importer.b.convert(importer.b.reshape(x, ()), torch.float64)
        importer.floats[str(sym_node(val).expr)] = scalar
        importer.environment[node] = FloatScalar(scalar)
    else:
        reason = ON_HOST[aten._local_scalar_dense.default]
        importer.environment[node] = importer.host_call(node, val, [x], {}, reason)


BASES = (SyntheticBaseAOTInput, ViewBaseAOTInput)
"""What AOTAutograd passes instead of views that share it: it begins where its storage does."""

ROUNDINGS: Mapping[Any, str] = {
    math.trunc: "trunc",
    math.floor: "floor",
    math.ceil: "ceil",
    round: "round",
}
"""What makes an integer of a float -> the pointwise function that rounds so."""


def integer(importer: Importer, node: fx.Node) -> None:
    """An integer that Python makes of a float; of one that only a run tells it is a new symbol."""
    val, given = node.meta["val"], importer.value(node.args[0])
    made = sym_node(val).expr if isinstance(val, torch.SymInt) else None
    known = importer.symbols.integers.get(made)
    told = known is not None and known.name in importer.bound
    if not isinstance(given, FloatScalar) or made is None or told or is_expressible(made):
        importer.environment[node] = importer.number(node, val)
        return
    if known is None:
        importer.symbols.name_integer(made)
    reason = "an integer made of a float is known when it runs"
    rounded = importer.b.pointwise(ROUNDINGS[node.target], given.value)
    read = aten._local_scalar_dense.default
    importer.environment[node] = importer.host_call(node, val, [rounded], {}, reason, read)


def storage_offset(importer: Importer, node: fx.Node) -> None:
    """What data decides of it nothing tells, since views are values here; it is not negative."""
    offset = importer.symbols.expr(node.meta["val"])
    for name in offset.names() - importer.bound:
        importer.symbols.backed[name] = (Expr.const(0), None)
    importer.environment[node] = offset


def with_effects(importer: Importer, node: fx.Node) -> None:
    """An operator with a side effect, run in eager: host calls keep their order anyway."""
    _, target, *args = node.args
    args = [importer.value(a) for a in args]
    kwargs = {key: importer.value(a) for key, a in node.kwargs.items()}
    reason = "its side effects are outside"
    results = importer.host_call(node, node.meta["val"][1:], args, kwargs, reason, target)
    importer.environment[node] = (None, *results)


def as_strided(importer: Importer, node: fx.Node) -> None:
    """A gather from the storage of the node it is a view of.

    That node has to be dense, or an argument: PyTorch then looks at the storage around it.  Where
    an argument begins in its storage may differ from call to call, unless it is the storage.
    """
    written = written_there(node)
    if written is not None:  # what functionalization reads after a write to the same view
        shape = importer.symbols.extents(node.meta["val"].shape)
        importer.environment[node] = importer.b.reshape(importer.value(written), shape)
        return
    base = storage_base(node)
    val, result = base.meta["val"], node.meta["val"]
    shape, strides = (importer.symbols.extents(v) for v in (val.shape, val.stride()))
    order = dense_order(shape, strides, importer.symbols.ranges)
    importer.b.shape, importer.b.dtype = importer.symbols.extents(result.shape), result.dtype
    start = importer.symbols.expr(val.storage_offset())
    explicit = explicit_offset(node) is not None
    offset = importer.symbols.expr(result.storage_offset()) - (0 if explicit else start)
    steps = importer.symbols.extents(result.stride())
    ends = [(e - 1) * s for e, s in zip(importer.b.shape, steps, strict=True)]
    beyond = not nonnegative(product(shape) - 1 - sum(ends, offset), importer.symbols.ranges)
    dense = order is not None and (start == 0 or not explicit)
    argument = base in importer.arguments and base not in importer.written
    foreign = val.dtype not in NATIVE
    moves = explicit and not isinstance(root(base).meta.get("desc"), BASES)
    if argument and (not dense or beyond or foreign or moves):
        reason = "it may reach elements around those of an argument"
        args = [importer.environment[base], importer.b.shape, steps]
        args += [importer.symbols.expr(result.storage_offset())] if explicit else []
        importer.environment[node] = importer.host_call(node, result, args, {}, reason)
        return
    moves = moves and root(base) in importer.arguments
    if order is None or not dense or foreign or moves:
        raise importer.unsupported(node, "as_strided of a tensor that is not dense in its storage")
    flat = importer.b.transpose(importer.environment[base], order)
    flat = importer.b.reshape(flat, [product(shape)])
    importer.environment[node] = views.as_strided(importer.b, flat, steps, offset)


def written_there(node: fx.Node) -> Any:
    """What as_strided_scatter wrote just where as_strided reads, if it is of that."""
    source = node.args[0]
    if not isinstance(source, fx.Node) or source.target is not SCATTER:
        return None
    same = node.args[1:3] == source.args[2:4] and explicit_offset(node) == explicit_offset(source)
    return source.args[1] if same else None


def root(node: fx.Node) -> fx.Node:
    """The node whose storage as_strided_scatter copied, for a node that it made."""
    while node.target is SCATTER:
        source = node.args[0]
        assert isinstance(source, fx.Node)
        node = storage_base(source)
    return node


def auto_functionalized(importer: Importer, node: fx.Node) -> None:
    """An operator that changes arguments, as AOTAutograd calls it: it is run on copies of what they
    are views of, which are results."""
    operator_, bases = node.args[0], node.kwargs["_all_bases"]
    assert isinstance(bases, list | tuple)
    others = [b for b in bases if isinstance(b, fx.Node) and b not in importer.arguments]
    layouts = [base.meta["val"] for base in others]
    dense = all(v.is_contiguous() and v.storage_offset() == 0 for v in layouts)
    if counts_by_strides(node.kwargs) and not dense:
        raise importer.unsupported(node, "it changes a part of the storage of a strided tensor")
    kwargs = {name: importer.value(value) for name, value in node.kwargs.items()}
    importer.environment[node] = importer.host_call(
        node, node.meta["val"], [], kwargs, "it changes its arguments", operator_, True
    )


SPECIAL: Mapping[Any, Callable[[Importer, fx.Node], None]] = {
    operator.getitem: getitem,
    COPY_: copy_,
    aten._local_scalar_dense.default: item,
    aten.as_strided.default: as_strided,
    effects: with_effects,
    torch.ops.higher_order.auto_functionalized_v2: auto_functionalized,
    aten._assert_scalar.default: assert_scalar,
    aten.sym_storage_offset.default: storage_offset,
    aten.sym_constrain_range.default: nothing,
    aten.sym_constrain_range_for_size.default: nothing,
    aten._assert_tensor_metadata.default: nothing,
    torch.ops.prims._make_token.default: nothing,
    torch.ops.prims._sink_tokens.default: nothing,
    **dict.fromkeys(ROUNDINGS, integer),
}
"""What a node calls -> what imports it."""
