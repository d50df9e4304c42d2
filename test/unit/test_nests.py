"""
Nests as expressions: reading and writing, sharing, substitution, and cutting dims.

What must not change is what a nest computes: a small evaluator of the expressions decides.
"""

import random
from collections.abc import Mapping, Sequence
from itertools import product as points
from math import prod

import pytest
from xdsl.context import Context
from xdsl.dialects import arith, builtin, func
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue
from xdsl.parser import Parser
from xdsl.utils.test_value import create_ssa_value

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu import extents, i64, memref_type
from lpu_mlir.dialects.lpu_loop import LpuLoop, NestOp
from lpu_mlir.nests.nest import Nest, Store, read, write
from lpu_mlir.nests.pointwise import Numbers
from lpu_mlir.nests.scalar import (
    Fold,
    Index,
    Load,
    Node,
    Op,
    Pieces,
    Scalars,
    as_contraction,
    indirect_names,
)
from lpu_mlir.tiling.split import find_split, make_affine, split_pieces

pytestmark = pytest.mark.sampled

Point = Mapping[str, int]
Stored = dict[tuple[int, ...], int]

D0, D1 = Expr.name("d0"), Expr.name("d1")
SEEDS = range(60)


def buffer(*shape: int) -> SSAValue:
    return create_ssa_value(memref_type(i64, shape))


# --- an evaluator -------------------------------------------------------------------------------

OPS = {
    arith.AddiOp: lambda a, b: a + b,
    arith.SubiOp: lambda a, b: a - b,
    arith.MuliOp: lambda a, b: a * b,
    arith.MaxSIOp: max,
}
COMBINE = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b, "max": max, "min": min}
NEUTRAL = {"add": 0, "mul": 1}


def element(source: SSAValue, index: Sequence[int]) -> int:
    """Buffers hold different numbers everywhere."""
    shape = [e.evaluate({}) for e in extents(source.type)]
    assert all(0 <= i < e for i, e in zip(index, shape, strict=True)), (index, shape)
    position = 0
    for i, e in zip(index, shape, strict=True):
        position = position * e + i
    return (7 * position + 3 * len(shape)) % 11 - 4


def evaluate(node: Node, at: Point) -> int:
    """The value of a scalar where every free name is given."""
    match node:
        case Load():
            names = {n: evaluate(i, at) for n, i in indirect_names(node.indirect).items()}
            return element(node.source, [e.evaluate({**at, **names}) for e in node.index])
        case Index():
            return node.expr.evaluate(at)
        case Op() if node.op is arith.ConstantOp:
            value = dict(node.properties)["value"]
            assert isinstance(value, IntegerAttr)
            return value.value.data
        case Op():
            return OPS[node.op](*(evaluate(o, at) for o in node.operands))
        case Fold():
            return evaluate_fold(node, at)
        case Pieces():
            position = node.position.evaluate(at)
            part = sum(bound.evaluate(at) <= position for bound in node.bounds)
            return evaluate(node.parts[part], at)
        case _:
            raise AssertionError(node)


def evaluate_fold(fold: Fold, at: Point) -> int:
    spans = [range(extent.evaluate(at)) for _, extent in fold.dims]
    if fold.form == "scan":
        spans = [range(at[fold.along] + 1)]
    names = [name for name, _ in fold.dims]
    values = [
        evaluate(fold.body, {**at, **dict(zip(names, p, strict=True))}) for p in points(*spans)
    ]
    if fold.form == "arg_fold":
        return values.index({"max": max, "min": min}[fold.kind](values))
    total = NEUTRAL[fold.kind] if fold.kind in NEUTRAL else values[0]
    for value in values if fold.kind in NEUTRAL else values[1:]:
        total = COMBINE[fold.kind](total, value)
    return total


def run(nest: Nest, symbols: Point | None = None) -> Stored:
    """What a nest stores where; no place twice."""
    stored: Stored = {}
    names = [name for name, _ in nest.dims]
    for point in points(*(range(e.evaluate(symbols or {})) for _, e in nest.dims)):
        at = {**(symbols or {}), **dict(zip(names, point, strict=True))}
        for store in nest.stores:
            index = tuple(e.evaluate(at) for e in store.index)
            assert index not in stored
            stored[index] = evaluate(store.value, at)
    return stored


# --- random nests -------------------------------------------------------------------------------


class Maker:
    """Makes random scalars over dims of known extents; every load is within bounds."""

    def __init__(self, seed: int, pieces: bool = True):
        self.random = random.Random(seed)
        self.scalars = Scalars()
        self.numbers = Numbers(self.scalars, i64)
        self.buffers = [buffer(*shape) for shape in ((6,), (4, 6), (12,), (2, 3, 4))]
        self.use_pieces = pieces

    def nest(self, depth: int = 3) -> Nest:
        dims = [(f"d{i}", Expr.const(self.random.choice([2, 3, 4, 6, 12]))) for i in range(2)]
        scope = {name: e.evaluate({}) for name, e in dims}
        self.scalars.ranges.update(Nest(tuple(dims), ()).ranges())
        place = [Expr.name(name) for name in scope]
        self.random.shuffle(place)
        return Nest(tuple(dims), (Store("replace", 0, tuple(place), (), self.node(scope, depth)),))

    def node(self, scope: Mapping[str, int], depth: int, fold: bool = False) -> Node:
        kinds = ["load", "load", "index"]
        if depth:
            kinds += ["op", "op", "fold", "fold"]
            # A piecewise value is only cut along dims of the nest.
            kinds += ["pieces"] * (self.use_pieces and not fold)
        return getattr(self, self.random.choice(kinds))(scope, depth, fold)

    def load(self, scope: Mapping[str, int], depth: int, fold: bool) -> Node:
        source = self.random.choice(self.buffers)
        index = [self.position(scope, e.evaluate({})) for e in extents(source.type)]
        return self.scalars.load(source, index)

    def position(self, scope: Mapping[str, int], extent: int) -> Expr:
        """An expression over the dims that stays within [0, extent)."""
        choices = [Expr.const(self.random.randrange(extent))]
        for name, size in scope.items():
            dim = Expr.name(name)
            if size <= extent:
                choices += [dim, size - 1 - dim]
            if 2 * size <= extent:
                choices.append(2 * dim + 1)
            for k in (2, 3, 4):
                if (size + k - 1) // k <= extent:
                    choices.append(dim.floordiv(k))
                if k <= extent:
                    choices.append(dim.mod(k))
        return self.random.choice(choices)

    def index(self, scope: Mapping[str, int], depth: int, fold: bool) -> Node:
        return self.scalars.index(self.position(scope, 12) * 2 + 1)

    def op(self, scope: Mapping[str, int], depth: int, fold: bool) -> Node:
        op = self.random.choice(list(OPS))
        return self.numbers.int(
            op, self.node(scope, depth - 1, fold), self.node(scope, depth - 1, fold)
        )

    def fold(self, scope: Mapping[str, int], depth: int, fold: bool) -> Node:
        form = self.random.choice(["fold", "fold", "fold", "arg_fold"])
        sizes = [self.random.choice([2, 3, 4]) for _ in range(self.random.choice([1, 2]))]
        sizes = sizes[:1] if form == "arg_fold" else sizes
        dims = [(self.scalars.fresh(Expr.const(size)), size) for size in sizes]
        body = self.node({**scope, **dict(dims)}, depth - 1, True)
        kind = self.random.choice(["max", "min"] if form == "arg_fold" else list(COMBINE))
        bound = [(name, Expr.const(size)) for name, size in dims]
        return self.scalars.fold(kind, bound, body, i64, form)

    def pieces(self, scope: Mapping[str, int], depth: int, fold: bool) -> Node:
        dim = self.random.choice(list(scope))
        bounds = sorted(self.random.sample(range(scope[dim] + 2), 2))
        parts = [self.node(scope, depth - 1, fold) for _ in range(3)]
        return self.scalars.pieces(Expr.name(dim), list(map(Expr.const, bounds)), parts)


# --- sharing ------------------------------------------------------------------------------------


def test_equal_scalars_are_one_object():
    scalars = Scalars()
    x = buffer(4)
    numbers = Numbers(scalars, i64)
    assert scalars.load(x, [D0 + 1]) is scalars.load(x, [1 + D0])
    assert scalars.load(x, [D0]) is not scalars.load(buffer(4), [D0])
    lhs = numbers.int(arith.AddiOp, scalars.load(x, [D0]), numbers.const(2))
    assert lhs is numbers.int(arith.AddiOp, scalars.load(x, [D0]), numbers.const(2))
    assert lhs is not numbers.int(arith.AddiOp, scalars.load(x, [D0]), numbers.const(3))
    assert lhs is not numbers.int(arith.SubiOp, scalars.load(x, [D0]), numbers.const(2))


def fold_over(scalars: Scalars, x: SSAValue, extent: int, *outer: Expr, kind: str = "add") -> Fold:
    """`kind` over the last axis of x."""
    name = scalars.fresh(Expr.const(extent))
    body = scalars.load(x, [*outer, Expr.name(name)])
    return scalars.fold(kind, [(name, Expr.const(extent))], body, i64)


def test_equal_folds_are_one_object_whatever_their_dims_were_called():
    scalars, x = Scalars(), buffer(4, 6)
    fold = fold_over(scalars, x, 6, D0)
    assert fold.dims == (("r0", Expr.const(6)),)
    assert fold_over(scalars, x, 6, D0) is fold
    assert fold_over(scalars, x, 5, D0) is not fold
    assert fold_over(scalars, x, 6, D0, kind="max") is not fold
    assert fold_over(scalars, x, 6, D1) is not fold
    assert fold.free == {"d0"}


def test_names_of_nested_folds_go_by_height():
    scalars, x = Scalars(), buffer(4, 6)
    i = scalars.fresh(Expr.const(4))
    inner = fold_over(scalars, x, 6, Expr.name(i))
    outer = scalars.fold("max", [(i, Expr.const(4))], inner, i64)
    ((name, _),) = outer.dims
    assert isinstance(outer.body, Fold)
    ((inner_name, _),) = outer.body.dims
    assert name != inner_name
    assert outer.free == frozenset()
    expected = max(sum(element(x, [a, b]) for b in range(6)) for a in range(4))
    assert evaluate(outer, {}) == expected


@pytest.mark.parametrize(("position", "part"), [(0, 0), (2, 1), (3, 1), (4, 2), (9, 2)])
def test_pieces_at_a_fixed_position_are_one_part(position: int, part: int):
    scalars = Scalars()
    parts = [scalars.index(Expr.const(i)) for i in range(3)]
    bounds = [Expr.const(2), Expr.const(4)]
    assert scalars.pieces(Expr.const(position), bounds, parts) is parts[part]


def test_pieces_without_bounds_are_their_part():
    scalars = Scalars()
    part = scalars.index(D0)
    assert scalars.pieces(D0, [], [part]) is part


# --- substitution -------------------------------------------------------------------------------


def test_a_bound_dim_does_not_capture_a_substituted_one():
    """d0 becomes r0, the name that the fold's own dim has."""
    scalars, x = Scalars(), buffer(6, 6)
    fold = fold_over(scalars, x, 6, D0)
    moved = scalars.rewrite(fold, {"d0": Expr.name("r0")})
    assert moved.free == {"r0"}
    assert [evaluate(moved, {"r0": i}) for i in range(6)] == [
        evaluate(fold, {"d0": i}) for i in range(6)
    ]


def test_a_substitution_leaves_bound_dims_alone():
    """r0 names a dim around the fold and the fold's own, which keeps its meaning."""
    scalars, x = Scalars(), buffer(6)
    fold = fold_over(scalars, x, 6)
    both = Numbers(scalars, i64).int(arith.AddiOp, fold, scalars.index(Expr.name("r0")))
    moved = scalars.rewrite(both, {"r0": D1}, lambda load: None)
    assert moved is Numbers(scalars, i64).int(arith.AddiOp, fold, scalars.index(D1))


def test_a_definition_moves_into_a_fold():
    """t[i] = sum over j of x[i, j], read in a maximum over i: both folds call their dim r0."""
    scalars, x, t = Scalars(), buffer(4, 6), buffer(4)
    definition = fold_over(scalars, x, 6, D0)
    consumer = fold_over(scalars, t, 4, kind="max")

    def on_load(load: Load) -> Node | None:
        return scalars.rewrite(definition, {"d0": load.index[0]}) if load.source is t else None

    joined = scalars.rewrite(consumer, {}, on_load)
    rows = [sum(element(x, [i, j]) for j in range(6)) for i in range(4)]
    assert evaluate(joined, {}) == max(rows)


def test_opening_a_fold_gives_fresh_dims():
    scalars, x = Scalars(), buffer(4, 6)
    fold = fold_over(scalars, x, 6, D0)
    (first,), body = scalars.open(fold)
    (second,), _ = scalars.open(fold)
    assert first[0] != second[0]
    assert body.free == {"d0", first[0]}
    assert scalars.ranges[first[0]] == (Expr.const(0), Expr.const(5))


@pytest.mark.parametrize("seed", SEEDS)
def test_substitution_is_evaluation_elsewhere(seed: int):
    """value(d0 <- e) at a point is the value where d0 is what e is at that point."""
    maker = Maker(seed)
    nest = maker.nest()
    value, sizes = nest.stores[0].value, [e.evaluate({}) for _, e in nest.dims]
    for name, size in zip(("d0", "d1"), sizes, strict=True):
        maker.scalars.ranges["r0"] = (Expr.const(0), Expr.const(size - 1))
        mirrored = size - 1 - Expr.name("r0")
        moved = maker.scalars.rewrite(value, {name: mirrored})
        assert name not in moved.free
        other = "d1" if name == "d0" else "d0"
        for i, j in points(range(size), range(prod(sizes) // size)):
            there = {name: size - 1 - i, other: j}
            assert evaluate(moved, {"r0": i, other: j}) == evaluate(value, there)


def test_replacing_loads_keeps_what_is_untouched():
    scalars, x, y = Scalars(), buffer(4), buffer(4)
    kept, gone = scalars.load(x, [D0]), scalars.load(y, [D0])
    both = Numbers(scalars, i64).int(arith.AddiOp, kept, gone)
    assert scalars.rewrite(both, {"d7": D1}) is both
    twice = scalars.rewrite(both, {}, lambda load: kept if load.source is y else None)
    assert twice is Numbers(scalars, i64).int(arith.AddiOp, kept, kept)
    assert scalars.replace(both, lambda n: kept if n is gone else None) is twice


# --- reading and writing ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_written_reads_back_as_the_same(seed: int):
    maker = Maker(seed)
    nest = maker.nest()
    sizes = dict(nest.dims)
    op = write(nest, [buffer(*(sizes[str(e)].evaluate({}) for e in nest.stores[0].index))])
    op.verify()
    again = read(op, maker.scalars)
    assert run(again) == run(nest)
    assert again == nest


def test_dependent_folds_read_back_as_the_same():
    scalars, x = Scalars(), buffer(4, 6)
    i = scalars.fresh(Expr.const(4))
    value = scalars.fold("max", [(i, Expr.const(4))], fold_over(scalars, x, 6, Expr.name(i)), i64)
    nest = Nest((), (Store("replace", 0, (), (), value),))
    assert read(write(nest, [buffer()]), scalars) == nest


NEST = """
func.func @f(%x: memref<4x6xi64>, %i: memref<4xi64>, %y: memref<4x6xi64>, %z: memref<4xi64>) {
  lpu_loop.nest [d0 = 4, d1 = 6] outs(%y, %z : memref<4x6xi64>, memref<4xi64>) {
    %c4 = lpu_loop.index 4 : i64
    %p = lpu_loop.load %i[d0] : memref<4xi64>
    %ok = arith.cmpi slt, %p, %c4 : i64
    lpu_loop.check %ok, "IndexError", "too far"
    %a = lpu_loop.load %x[_0, d1](%p) : memref<4x6xi64>
    lpu_loop.store "add" %a, %y[_0, d1](%p) : i64, memref<4x6xi64>
    lpu_loop.store "replace" %p, %z[d0] : i64, memref<4xi64>
  }
  func.return
}
"""


def test_checks_indirect_indices_and_several_stores():
    context = Context()
    for dialect in (builtin.Builtin, func.Func, arith.Arith, LpuLoop):
        context.load_dialect(dialect)
    module = Parser(context, NEST).parse_module()
    [function] = module.ops
    assert isinstance(function, func.FuncOp)
    op = function.body.block.first_op
    assert isinstance(op, NestOp)
    scalars = Scalars()
    nest = read(op, scalars)
    assert [(s.kind, s.out, len(s.indirect)) for s in nest.stores] == [
        ("add", 0, 1),
        ("replace", 1, 0),
    ]
    assert [(c.error, c.message) for c in nest.checks] == [("IndexError", "too far")]
    assert nest.stores[0].indirect[0] is nest.stores[1].value
    again = write(nest, list(op.outs))
    assert read(again, scalars) == nest
    assert [inner.name for inner in again.body.block.ops].count("lpu_loop.load") == 2


def test_invariant_values_are_written_outside_the_fold():
    scalars, x, w = Scalars(), buffer(4), buffer(6)
    r = scalars.fresh(Expr.const(6))
    scale = scalars.load(x, [D0])
    numbers = Numbers(scalars, i64)
    body = numbers.int(arith.MuliOp, scale, scalars.load(w, [Expr.name(r)]))
    fold = scalars.fold("add", [(r, Expr.const(6))], body, i64)
    nest = Nest((("d0", Expr.const(4)),), (Store("replace", 0, (D0,), (), fold),))
    op = write(nest, [buffer(4)])
    assert [inner.name for inner in op.body.block.ops] == [
        "lpu_loop.load",
        "lpu_loop.fold",
        "lpu_loop.store",
    ]


def test_nothing_moves_out_of_a_piece():
    """x[d0 - 2] is out of bounds before the second piece."""
    scalars, x = Scalars(), buffer(2)
    late = scalars.load(x, [D0 - 2])
    value = scalars.pieces(D0, [Expr.const(2)], [scalars.index(Expr.const(0)), late])
    nest = Nest((("d0", Expr.const(4)),), (Store("replace", 0, (D0,), (), value),))
    op = write(nest, [buffer(4)])
    assert [inner.name for inner in op.body.block.ops] == ["lpu_loop.pieces", "lpu_loop.store"]


# --- contractions -------------------------------------------------------------------------------


def product_fold(lhs: Sequence[str], rhs: Sequence[str], kind: str = "add") -> Node:
    """The fold over r of a product of two loads with the given dims."""
    scalars = Scalars()
    loads = [
        scalars.load(buffer(*[4] * len(names)), [Expr.name(n) for n in names])
        for names in (lhs, rhs)
    ]
    body = Numbers(scalars, i64).int(arith.MuliOp, *loads)
    return scalars.fold(kind, [("t0", Expr.const(4))], body, i64)


@pytest.mark.parametrize(
    ("lhs", "rhs", "kind", "expected"),
    [
        (["d0", "t0"], ["d1", "t0"], "add", True),
        (["t0"], ["d1", "t0"], "add", True),
        (["d0", "t0"], ["d0", "t0"], "add", False),
        (["d0", "t0"], ["d1"], "add", False),
        (["d0", "t0"], ["d1", "t0"], "max", False),
    ],
)
def test_contractions(lhs: list[str], rhs: list[str], kind: str, expected: bool):
    assert (as_contraction(product_fold(lhs, rhs, kind)) is not None) == expected


# --- cutting and splitting ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_cutting_pieces_keeps_what_is_computed(seed: int):
    maker = Maker(seed)
    nest = maker.nest()
    parts = split_pieces(nest, maker.scalars)
    together: Stored = {}
    for part in parts:
        assert not any(isinstance(node, Pieces) for node in part.nodes())
        stored = run(part)
        assert not stored.keys() & together.keys()
        together |= stored
    assert together == run(nest)


@pytest.mark.parametrize("seed", SEEDS)
def test_splitting_dims_keeps_what_is_computed(seed: int):
    maker = Maker(seed, pieces=False)
    nest = maker.nest()
    split = make_affine(nest, maker.scalars)
    assert find_split(split, maker.scalars) is None
    assert run(split) == run(nest)


def test_the_random_nests_are_cut_and_split():
    """Else the two tests above would say nothing."""
    cut = sum(len(split_pieces(m.nest(), m.scalars)) > 1 for m in map(Maker, SEEDS))
    makers = [Maker(seed, pieces=False) for seed in SEEDS]
    nests = [(maker.nest(), maker.scalars) for maker in makers]
    split = sum(len(make_affine(nest, scalars).dims) > len(nest.dims) for nest, scalars in nests)
    assert cut > 10
    assert split > 10


def test_a_grouped_head_splits_into_group_and_member():
    """k[h floordiv 3] for h in 6 heads."""
    scalars, k = Scalars(), buffer(2, 4)
    scalars.ranges.update({"d0": (Expr.const(0), Expr.const(5))})
    load = scalars.load(k, [D0.floordiv(3), D1])
    dims = (("d0", Expr.const(6)), ("d1", Expr.const(4)))
    nest = Nest(dims, (Store("replace", 0, (D0, D1), (), load),))
    split = make_affine(nest, scalars)
    assert [e for _, e in split.dims] == [2, 3, 4]
    assert run(split) == run(nest)


def test_symbolic_concat_is_cut_at_the_symbol():
    scalars, s = Scalars(), Expr.name("s0")
    scalars.ranges["s0"] = (Expr.const(0), Expr.const(9))
    parts = [scalars.index(D0), scalars.index(100 + D0 - s)]
    value = scalars.pieces(D0, [s], parts)
    nest = Nest((("d0", s + 2),), (Store("replace", 0, (D0,), (), value),))
    first, second = split_pieces(nest, scalars)
    assert [dict(n.dims)["d0"] for n in (first, second)] == [s, 2]
    for size in (0, 1, 5):
        symbols = {"s0": size}
        assert run(first, symbols) | run(second, symbols) == run(nest, symbols)


def test_dims_of_a_fold_do_not_hide_those_around_it():
    """max over i, j of x[i, j] + (sum over k of y[i, k] + w[k])."""
    scalars, x, y, w = Scalars(), buffer(3, 5), buffer(3, 4), buffer(4)
    numbers = Numbers(scalars, i64)
    i, j, k = (scalars.fresh(Expr.const(extent)) for extent in (3, 5, 4))
    terms = [scalars.load(y, [Expr.name(i), Expr.name(k)]), scalars.load(w, [Expr.name(k)])]
    row = scalars.fold("add", [(k, Expr.const(4))], numbers.int(arith.AddiOp, *terms), i64)
    both = numbers.int(arith.AddiOp, scalars.load(x, [Expr.name(i), Expr.name(j)]), row)
    value = scalars.fold("max", [(i, Expr.const(3)), (j, Expr.const(5))], both, i64)
    nest = Nest((), (Store("replace", 0, (), (), value),))
    op = write(nest, [buffer()])
    op.verify()
    assert run(read(op, scalars)) == run(nest)
