"""Folds, positions of extremes, and scans."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Attribute, Operation

from lpu_mlir.dialects.lpu import ui8
from lpu_mlir.dialects.lpu_kernel import ArgFoldOp, FoldOp, ScanOp
from lpu_mlir.dialects.lpu_kernel.types import is_float, join_indices
from lpu_mlir.interpreter.native.frame import Frame, identity
from lpu_mlir.interpreter.native.llvm import I1, I64, TRUE, Builder, Value, lanes_of, vector
from lpu_mlir.interpreter.native.nest import Nest, Values
from lpu_mlir.interpreter.native.scalar import combine
from lpu_mlir.interpreter.native.scalar import identity as neutral

UNROLLED = 4
"""Accumulators of a fold along contiguous elements: enough that none waits for the one before."""

BLOCK = 64
"""Elements that are joined one after the other where folds are long: the error of a sum then grows
with the block and with the number of blocks, and not with the length."""

Combine = Callable[[Values, Values], Values]
"""Joins what was accumulated with new elements; one value per result."""


def emit_fold(f: Frame, op: Operation) -> None:
    assert isinstance(op, FoldOp)
    source, kind = f.tile(op.source), op.kind.data
    dims = op.dims.get_values()
    kept = [dim for dim in range(len(source.sizes)) if dim not in dims]
    sizes = tuple(source.sizes[dim] for dim in kept)
    held = f.takes_over(op.acc)
    out = f.keep(held, op.result) if held else f.new_tile(op.result, sizes)
    nest = f.nest(source.sizes, [*source.views(), (out.view, kept)])
    read, target = source.reader(nest, identity(len(source.sizes))), nest.target(out.view, kept)
    acc = f.tile(op.acc).reader(nest, kept) if op.acc is not None else None

    def join(a: Values, b: Values) -> Values:
        return [combine(f.b, kind, source.element, a[0], b[0])]

    def finish(total: Values) -> None:
        (value,) = total if acc is None else join([acc()], total)
        nest.write(target, value)

    start = [neutral(kind, source.element)]
    _reduce(nest, kept, dims, start, lambda: [read()], join, finish)
    f.values[op.result] = out


def _reduce(
    nest: Nest,
    kept: Sequence[int],
    folded: Sequence[int],
    start: Values,
    read: Callable[[], Values],
    join: Combine,
    finish: Callable[[Values], None],
) -> None:
    """Joins what is read along the folded dims, and finishes with it at every kept position."""
    b = nest.b
    starts = [b.splat(value, nest.lanes) for value in start]

    def step(carried: Values) -> Values:
        return join(carried, _masked(nest, read(), starts))

    def across(carried: Values) -> Values:
        """Kept positions in vectors, or nothing in vectors."""
        finish(nest.in_blocks(folded, BLOCK, starts, step, join))
        return carried

    def along(carried: Values) -> Values:
        """Folded positions in vectors, whose lanes are joined at the end."""
        outer = [dim for dim in folded if dim != nest.vector]
        assert nest.vector is not None
        copies = UNROLLED if _is_long(nest) else 1
        sums = nest.each(
            outer,
            [value for _ in range(copies) for value in starts],
            lambda values: nest.unrolled(copies, values, step),
        )
        total = _join_copies(sums, len(starts), join)
        with nest.single():
            finish(_join_lanes(b, total, join))
        return carried

    nest.each(_ordered(nest, kept), (), along if nest.vector in folded else across)


def _ordered(nest: Nest, dims: Sequence[int]) -> list[int]:
    """Dims in order, the one in vectors innermost."""
    return sorted(dims, key=lambda dim: dim == nest.vector)


def _is_long(nest: Nest) -> bool:
    assert nest.vector is not None
    size = nest.sizes[nest.vector]
    return not isinstance(size, int) or size >= UNROLLED * nest.full_lanes


def _masked(nest: Nest, values: Values, neutrals: Values) -> Values:
    """Elements of lanes that are off replaced by what changes nothing."""
    if nest.mask is None or lanes_of(values[0].type) == 1:
        return values
    return [
        nest.b.op(value.type, f"select {nest.mask}, {value}, {other}")
        for value, other in zip(values, neutrals, strict=True)
    ]


def _join_copies(values: Values, width: int, join: Combine) -> Values:
    groups = [values[n : n + width] for n in range(0, len(values), width)]
    while len(groups) > 1:
        half = len(groups) // 2
        groups = [join(groups[n], groups[n + half]) for n in range(half)]
    return groups[0]


def _join_lanes(b: Builder, values: Values, join: Combine) -> Values:
    """All lanes into one, halving their number."""
    lanes = lanes_of(values[0].type)
    while lanes > 1:
        lanes //= 2
        low = [_part(b, value, 0, lanes) for value in values]
        high = [_part(b, value, lanes, lanes) for value in values]
        values = join(low, high)
    return values


def _part(b: Builder, value: Value, start: int, lanes: int) -> Value:
    if lanes == 1:
        return b.extract(value, start)
    element = value.type.split(" x ")[1][:-1]
    chosen = ", ".join(f"i32 {start + n}" for n in range(lanes))
    return b.op(
        vector(element, lanes),
        f"shufflevector {value}, {value.type} poison, <{lanes} x i32> <{chosen}>",
    )


# --- positions of extremes ------------------------------------------------------------------------


def emit_arg_fold(f: Frame, op: Operation) -> None:
    assert isinstance(op, ArgFoldOp)
    b, source, dim = f.b, f.tile(op.source), op.dim.value.data
    (offset,) = f.integers(join_indices(op.at, op.static_at))
    kept = [d for d in range(len(source.sizes)) if d != dim]
    sizes = tuple(source.sizes[d] for d in kept)
    results = [f.new_tile(value, sizes) for value in op.results]
    nest = f.nest(source.sizes, [*source.views(), *((r.view, kept) for r in results)])
    read = source.reader(nest, identity(len(source.sizes)))
    targets = [nest.target(result.view, kept) for result in results]
    acc = [f.tile(value).reader(nest, kept) for value in op.acc]
    kind, element = op.kind.data, source.element

    def join(old: Values, new: Values) -> Values:
        better = is_better(b, kind, element, new, old)
        return [b.op(o.type, f"select {better}, {n}, {o}") for o, n in zip(old, new, strict=True)]

    def finish(total: Values) -> None:
        if acc:
            total = join([reader() for reader in acc], total)
        for target, value in zip(targets, total, strict=True):
            nest.write(target, value)

    # An index above all others: whatever comes first is better.
    start = [neutral(kind, element), Value(I64, str((1 << 63) - 1))]
    _reduce(nest, kept, [dim], start, lambda: [read(), nest.index(dim, offset)], join, finish)
    for value, result in zip(op.results, results, strict=True):
        f.values[value] = result


def is_better(b: Builder, kind: str, element: Attribute, new: Values, old: Values) -> Value:
    """NaN beats every number, then the extreme counts, then the lower index."""
    (value, index), (other, before) = new, old
    flag = vector(I1, lanes_of(value.type))

    def op(text: str) -> Value:
        return b.op(flag, text)

    earlier = op(f"icmp slt {index}, {before.text}")
    if not is_float(element):
        sign = "u" if element == ui8 or value.type.endswith(("i1", "i1>")) else "s"
        beats = op(f"icmp {sign}{'gt' if kind == 'max' else 'lt'} {value}, {other.text}")
        same = op(f"icmp eq {value}, {other.text}")
        return op(f"or {beats}, {op(f'and {same}, {earlier.text}').text}")
    new_nan, old_nan = op(f"fcmp uno {value}, {value.text}"), op(f"fcmp uno {other}, {other.text}")
    beats = op(f"fcmp {'ogt' if kind == 'max' else 'olt'} {value}, {other.text}")
    first_nan = op(
        f"and {new_nan}, {op(f'xor {old_nan}, {b.splat(TRUE, lanes_of(flag)).text}').text}"
    )
    same = op(f"fcmp oeq {value}, {other.text}")
    both = op(f"or {same}, {op(f'and {new_nan}, {old_nan.text}').text}")
    ties = op(f"and {both}, {earlier.text}")
    return op(f"or {op(f'or {beats}, {first_nan.text}')}, {ties.text}")


# --- scans ----------------------------------------------------------------------------------------


def emit_scan(f: Frame, op: Operation) -> None:
    assert isinstance(op, ScanOp)
    source, dim, kind = f.tile(op.source), op.dim.value.data, op.kind.data
    out = f.new_tile(op.result, source.sizes)
    rank = len(source.sizes)
    kept = [d for d in range(rank) if d != dim]
    accesses = [*source.views(), (out.view, identity(rank))]
    nest = f.nest(source.sizes, accesses, among=kept)
    read, target = source.reader(nest, identity(rank)), nest.target(out.view, identity(rank))
    carry = f.tile(op.carry).reader(nest, kept) if op.carry is not None else None

    def step(carried: Values) -> Values:
        total = combine(f.b, kind, source.element, carried[0], read())
        nest.write(target, total)
        return [total]

    def row(carried: Values) -> Values:
        start = carry() if carry else f.b.splat(neutral(kind, source.element), nest.lanes)
        nest.each([dim], [start], step)
        return carried

    nest.each(_ordered(nest, kept), (), row)
    f.values[op.result] = out
