"""
Runs functions of `lpu_graph` on tensors with PyTorch: the oracle for the importer and graph passes.

One table from operation to function. Half precision is computed in f32 and rounded once, which is
what the dialect says.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from pkgutil import resolve_name

import torch
import torch.nn.functional as F
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from lpu_mlir.dialects import lpu_graph as g
from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu import HostCallOp, element_type, extents, i1
from lpu_mlir.frontend.arguments import decode_arguments
from lpu_mlir.frontend.dtypes import HALVES
from lpu_mlir.frontend.importer import BINDS, ImportedGraph
from lpu_mlir.frontend.interface import ExtentInput, FloatInput, TensorInput
from lpu_mlir.frontend.outputs import OUTPUTS, STRIDES
from lpu_mlir.frontend.types import DTYPES

Tensor = torch.Tensor
Symbols = dict[str, int]


def floordiv(x: Tensor, y: Tensor) -> Tensor:
    return torch.div(x, y, rounding_mode="floor")


def truncdiv(x: Tensor, y: Tensor) -> Tensor:
    return torch.div(x, y, rounding_mode="trunc")


def fma(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    wide = x.double() * y.double() + z.double()
    return wide.to(x.dtype)


def add(x: Tensor, y: Tensor) -> Tensor:
    return torch.logical_xor(x, y) if x.dtype == torch.bool else torch.add(x, y)


def gelu_tanh(x: Tensor) -> Tensor:
    inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
    return x * 0.5 * (torch.tanh(inner) + 1)


POINTWISE: Mapping[str, Callable[..., Tensor]] = {
    **{
        name: getattr(torch, name)
        for name in (
            "acos acosh asin asinh atan atan2 atanh abs ceil copysign cos cosh div eq erf exp exp2 "
            "expm1 floor fmod ge gt le log log10 log1p log2 lt maximum minimum mul ne neg pow "
            "reciprocal remainder round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc"
        ).split()
    },
    "add": add,
    "and": torch.bitwise_and,
    "floordiv": floordiv,
    "gelu": lambda x: x * 0.5 * (torch.erf(x * math.sqrt(0.5)) + 1),
    "gelu_tanh": gelu_tanh,
    "fma": fma,
    "not": torch.bitwise_not,
    "or": torch.bitwise_or,
    "quick_gelu": lambda x: x * torch.sigmoid(x * 1.702),
    "select": torch.where,
    "shl": torch.bitwise_left_shift,
    "shr": torch.bitwise_right_shift,
    "truncdiv": truncdiv,
    "xor": torch.bitwise_xor,
}

REDUCE: Mapping[str, Callable[[Tensor, int], Tensor]] = {
    "add": lambda x, dim: x.sum(dim, dtype=x.dtype),
    "mul": lambda x, dim: x.prod(dim, dtype=x.dtype),
    "max": torch.amax,
    "min": torch.amin,
    "and": torch.all,
    "or": torch.any,
    "xor": lambda x, dim: x.sum(dim) % 2 == 1,
}


def wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in HALVES else x


class Evaluator:
    """Evaluates one function for given symbols; calls go to other functions of the module."""

    def __init__(self, func: FuncOp, symbols: Symbols):
        self.func = func
        self.symbols = symbols
        self.written: dict[int, Tensor] = {}
        self.values: dict[SSAValue, Tensor] = {}

    def run(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        block = self.func.body.block
        for argument, tensor in zip(block.args, arguments, strict=True):
            self.bind(argument, tensor)
        for op in block.ops:
            operands = [self.values[operand] for operand in op.operands]
            if isinstance(op, ReturnOp):
                return operands
            results = TABLE[type(op)](self, op, *operands)
            results = results if isinstance(results, list) else [results]
            for value, tensor in zip(op.results, results, strict=True):
                if value.uses:
                    self.bind(value, tensor)
        raise AssertionError("no return")

    def bind(self, value: SSAValue, tensor: Tensor) -> None:
        """Stores a value, having checked that it is what its type says."""
        for expected, got in zip(extents(value.type), tensor.shape, strict=True):
            name = str(expected)
            if expected == Expr.name(name):
                self.symbols.setdefault(name, got)
            assert expected.evaluate(self.symbols) == got, (value, tensor.shape)
        assert DTYPES[element_type(value.type)] == tensor.dtype, (value, tensor.dtype)
        self.values[value] = tensor

    def shape(self, op: Operation) -> list[int]:
        return [e.evaluate(self.symbols) for e in extents(op.results[0].type)]

    def dtype(self, op: Operation) -> torch.dtype:
        return DTYPES[element_type(op.results[0].type)]


def pointwise(_: Evaluator, op: g.PointwiseOp, *inputs: Tensor) -> Tensor:
    result = POINTWISE[op.kind.data](*map(wide, inputs))
    return result if result.dtype == torch.bool else result.to(inputs[-1].dtype)


def reduce(e: Evaluator, op: g.ReduceOp, x: Tensor) -> Tensor:
    dtype, x = x.dtype, wide(x)
    for dim in sorted(op.dims.data, reverse=True):
        x = REDUCE[op.kind.data](x, dim)
    return x.to(dtype)


def arg_reduce(e: Evaluator, op: g.ArgReduceOp, x: Tensor) -> Tensor:
    return getattr(torch, f"arg{op.kind.data}")(x, op.dim.value.data)


SCAN = {
    "add": torch.cumsum,
    "mul": torch.cumprod,
    "max": lambda x, dim: x.cummax(dim).values,
    "min": lambda x, dim: x.cummin(dim).values,
}


def scan(e: Evaluator, op: g.ScanOp, x: Tensor) -> Tensor:
    return SCAN[op.kind.data](x, op.dim.value.data).to(x.dtype)


def matmul(e: Evaluator, op: g.MatmulOp, x: Tensor, y: Tensor) -> Tensor:
    lhs, rhs = (
        wide(v).transpose(-1, -2) if flip else wide(v)
        for v, flip in zip((x, y), op.transposes, strict=True)
    )
    return torch.matmul(lhs, rhs).to(x.dtype)


def slice_(e: Evaluator, op: g.SliceOp, x: Tensor) -> Tensor:
    for dim, (start, step, size) in enumerate(
        zip(op.starts.data, op.steps.data, e.shape(op), strict=True)
    ):
        index = start.evaluate(e.symbols) + step * torch.arange(size)
        assert not size or (index.min() >= 0 and index.max() < x.shape[dim]), op
        x = x.index_select(dim, index)
    return x


def windows(e: Evaluator, op: g.WindowsOp, x: Tensor) -> Tensor:
    n = len(op.strides.data)
    shape = e.shape(op)
    for axis, (stride, dilation) in enumerate(zip(op.strides.data, op.dilations.data, strict=True)):
        at = torch.arange(shape[len(shape) - 2 * n + axis]).unsqueeze(1) * stride
        at = at + torch.arange(shape[len(shape) - n + axis]) * dilation
        dim = len(shape) - 2 * n + axis
        x = x.index_select(dim, at.flatten()).unflatten(dim, at.shape)
        x = x.movedim(dim + 1, -1)
    return x


def conv(e: Evaluator, op: g.ConvOp, x: Tensor, weight: Tensor) -> Tensor:
    if x.numel() == 0 or weight.numel() == 0:
        return torch.zeros(e.shape(op), dtype=e.dtype(op))
    function = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[x.dim()]
    strides, dilations, groups = op.strides.data, op.dilations.data, op.groups.value.data
    result = function(wide(x), wide(weight), None, strides, 0, dilations, groups)
    for dim, size in enumerate(e.shape(op)):
        result = result.narrow(dim, 0, size)
    return result.to(e.dtype(op))


def pad(e: Evaluator, op: g.PadOp, x: Tensor) -> Tensor:
    result = torch.full(e.shape(op), op.value.value.data, dtype=x.dtype)
    inside = result
    for dim, (low, size) in enumerate(zip(op.low.data, x.shape, strict=True)):
        inside = inside.narrow(dim, low.evaluate(e.symbols), size)
    inside.copy_(x)
    return result


def indexed(op: g.IndexedOp, x: Tensor, indices: Sequence[Tensor]) -> Tensor:
    """Flat positions in `x` of the window that the indices address; an error if outside."""
    dims, at, count = op.dims.data, op.at.value.data, indices[0].dim()
    kept = [dim for dim in range(x.dim()) if dim not in dims]
    rank = len(kept) + count
    flat = torch.zeros((1,) * rank, dtype=torch.int64)
    for axis, dim in enumerate(kept):
        place = axis if axis < at else axis + count
        shape = [-1 if i == place else 1 for i in range(rank)]
        flat = flat + torch.arange(x.shape[dim]).reshape(shape) * x.stride(dim)
    for index, dim in zip(indices, dims, strict=True):
        if index.numel() and not (index.min() >= 0 and index.max() < x.shape[dim]):
            error = RuntimeError if op.error else IndexError
            raise error(f"index out of range [0, {x.shape[dim]})")
        place = [1] * at + list(index.shape) + [1] * (len(kept) - at)
        flat = flat + index.reshape(place) * x.stride(dim)
    return flat


def gather(e: Evaluator, op: g.GatherOp, x: Tensor, *indices: Tensor) -> Tensor:
    return x.contiguous().flatten()[indexed(op, x.contiguous(), indices)]


COMBINE = {"mul": torch.mul, "max": torch.maximum, "min": torch.minimum}


def scatter(e: Evaluator, op: g.ScatterOp, updates: Tensor, x: Tensor, *indices: Tensor) -> Tensor:
    flat = indexed(op, x.contiguous(), indices).flatten()
    result = x.contiguous().flatten().clone()
    if op.kind.data == "add":
        # Rounded after each element, as everything that is scattered.
        return result.index_add(0, flat, updates.flatten()).reshape(x.shape)
    if op.kind.data in COMBINE:
        for position, update in zip(flat.tolist(), updates.flatten(), strict=True):
            result[position] = COMBINE[op.kind.data](result[position], update)
        return result.reshape(x.shape)
    return result.index_copy(0, flat, updates.flatten()).reshape(x.shape)


def write_back(e: Evaluator, op: g.WriteBackOp, value: Tensor, target: Tensor) -> list[Tensor]:
    e.written[op.target.index] = value
    return []


def host_call(e: Evaluator, op: HostCallOp, *inputs: Tensor) -> list[Tensor]:
    args, kwargs = decode_arguments(op.arguments.data, inputs, e.symbols)
    result = resolve_name(f"torch:ops.{op.overload.data}")(*args, **kwargs)
    results = list(result) if isinstance(result, list | tuple) else [result]
    numbers = [r for r in results if isinstance(r, int)]
    for name, number in zip(op.attributes.get(BINDS, ()), numbers, strict=True):
        e.symbols[name.data] = int(number)
    tensors = [r for r in results if isinstance(r, Tensor)]
    for value, tensor in zip(op.results, tensors, strict=True):
        for extent, size in zip(extents(value.type), tensor.shape, strict=True):
            e.symbols.setdefault(str(extent), size)
    # PyTorch's shape functions are wrong about the dtypes of some results of some operators.
    return [r.to(DTYPES[element_type(v.type)]) for r, v in zip(tensors, op.results, strict=True)]


def call(e: Evaluator, op: CallOp, *inputs: Tensor) -> list[Tensor]:
    module = e.func.parent_op()
    assert isinstance(module, ModuleOp)
    [callee] = [f for f in module.ops if f.sym_name.data == op.callee.root_reference.data]
    inner = Evaluator(callee, dict(e.symbols))
    results = inner.run(inputs)
    for index, value in inner.written.items():
        e.written[op.operands[index].index] = value
    return results


def norm_axes(op: g.RmsNormOp | g.LayerNormOp) -> list[int]:
    return list(range(-op.rank.value.data, 0))


def rms_norm(e: Evaluator, op: g.RmsNormOp, x: Tensor, *weight: Tensor) -> Tensor:
    mean = (x * x).mean(norm_axes(op), keepdim=True)
    scaled = x * torch.rsqrt(mean + op.eps.value.data)
    return scaled * weight[0] if weight else scaled


def layer_norm(e: Evaluator, op: g.LayerNormOp, x: Tensor, *affine: Tensor) -> Tensor:
    deviation = x - x.mean(norm_axes(op), keepdim=True)
    mean = (deviation * deviation).mean(norm_axes(op), keepdim=True)
    result = deviation * torch.rsqrt(mean + op.eps.value.data)
    rest = list(affine)
    if op.weight is not None:
        result = result * rest.pop(0)
    return result + rest.pop(0) if op.bias is not None else result


def rope(e: Evaluator, op: g.RopeOp, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def attention(
    e: Evaluator, op: g.AttentionOp, q: Tensor, k: Tensor, v: Tensor, *others: Tensor
) -> Tensor:
    product = torch.matmul(wide(q), wide(k).transpose(-1, -2)).to(q.dtype)
    values = dict(zip(op.score.block.args, (product, *others), strict=True))
    for inner in list(op.score.block.ops)[:-1]:
        operands = [values[operand] for operand in inner.operands]
        values[inner.results[0]] = TABLE[type(inner)](e, inner, *operands)
    score = values[op.scored]
    weights = torch.softmax(score, -1)
    if op.safe is not None:
        nothing = (score == -math.inf).all(-1, keepdim=True)
        weights = torch.where(nothing, torch.zeros_like(weights), weights)
    return torch.matmul(wide(weights.to(v.dtype)), wide(v)).to(v.dtype)


TABLE: Mapping[type[Operation], Callable[..., Tensor | list[Tensor]]] = {
    g.FullOp: lambda e, op: torch.full(e.shape(op), op.value.value.data, dtype=e.dtype(op)),
    g.ExtentOp: lambda e, op: torch.tensor(op.value.data.evaluate(e.symbols)),
    g.IotaOp: lambda e, op: (
        torch.arange(e.shape(op)[op.dim.value.data])
        .reshape([-1 if i == op.dim.value.data else 1 for i in range(len(e.shape(op)))])
        .expand(e.shape(op))
    ),
    g.PointwiseOp: pointwise,
    g.SoftmaxOp: lambda e, op, x: torch.softmax(x, op.dim.value.data),
    g.LogSoftmaxOp: lambda e, op, x: torch.log_softmax(x, op.dim.value.data),
    g.ConvertOp: lambda e, op, x: x.to(e.dtype(op)),
    g.ReduceOp: reduce,
    g.ArgReduceOp: arg_reduce,
    g.ScanOp: scan,
    g.MatmulOp: matmul,
    g.RmsNormOp: rms_norm,
    g.LayerNormOp: layer_norm,
    g.RopeOp: rope,
    g.AttentionOp: attention,
    g.ReshapeOp: lambda e, op, x: x.reshape(e.shape(op)),
    g.TransposeOp: lambda e, op, x: x.permute(op.permutation.data),
    g.BroadcastOp: lambda e, op, x: x.expand(e.shape(op)),
    g.SliceOp: slice_,
    g.ConvOp: conv,
    g.WindowsOp: windows,
    g.PadOp: pad,
    g.ConcatOp: lambda e, op, *xs: torch.cat(xs, op.dim.value.data),
    g.GatherOp: gather,
    g.ScatterOp: scatter,
    g.WriteBackOp: write_back,
    HostCallOp: host_call,
    CallOp: call,
}


def run(imported: ImportedGraph, inputs: Sequence[object]) -> list[object]:
    """What the FX graph returns for these inputs, written-to inputs included."""
    symbols: Symbols = {}
    arguments: list[Tensor] = []
    for described, value in zip(imported.inputs, inputs, strict=True):
        match described:
            case TensorInput():
                arguments.append(value)
            case FloatInput():
                arguments.append(torch.tensor(value, dtype=torch.float64))
            case ExtentInput() if described.value.constant() is None:
                symbols[str(described.value)] = value
            case _:
                pass
    arguments += imported.constants
    evaluator = Evaluator(imported.func, symbols)
    results = evaluator.run(arguments)
    results = [
        laid_out(result, attrs.data, evaluator.symbols)
        for result, attrs in zip(results, imported.func.res_attrs or (), strict=True)
    ]
    for index, value in evaluator.written.items():
        arguments[index].copy_(value.clone())
    return [
        output(d.data, results, arguments, evaluator.symbols)
        for d in imported.func.attributes[OUTPUTS]
    ]


def laid_out(result: Tensor, attrs, symbols: Symbols) -> Tensor:
    """A fresh tensor with the strides that the result attribute asks for."""
    fresh = torch.empty(result.shape, dtype=result.dtype)
    if STRIDES in attrs:
        strides = [e.evaluate(symbols) for e in attrs[STRIDES].data]
        fresh = torch.empty_strided(result.shape, strides, dtype=result.dtype)
    return fresh.copy_(result)


def output(described, results, arguments, symbols: Symbols) -> object:
    def shape(name: str) -> list[int]:
        return [e.evaluate(symbols) for e in described[name].data]

    match described["kind"].data:
        case "result":
            return results[described["index"].value.data]
        case "argument":
            return arguments[described["index"].value.data]
        case "view":
            source = results if described["of"].data == "result" else arguments
            base = source[described["index"].value.data]
            offset = base.storage_offset() + described["offset"].data.evaluate(symbols)
            return base.as_strided(shape("shape"), shape("strides"), offset)
        case "extent":
            return described["value"].data.evaluate(symbols)
        case "condition":
            sides = (described[side].data.evaluate(symbols) for side in ("lhs", "rhs"))
            return getattr(operator, described["compare"].data)(*sides)
        case "number":
            return results[described["index"].value.data].item()
        case "literal":
            literal = described["value"]
            return bool(literal.value.data) if literal.type == i1 else literal.value.data
        case _:
            return None
