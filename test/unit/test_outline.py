"""Outlining: what a program computes is unchanged, and the work is linear in its length."""

import sys
from collections import Counter
from collections.abc import Hashable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import FloatAttr, ModuleOp, f32
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from lpu_mlir.dialects.lpu import i64, tensor_type
from lpu_mlir.dialects.lpu_graph import (
    FullOp,
    GatherOp,
    IotaOp,
    MatmulOp,
    PointwiseOp,
    ReduceOp,
    ReshapeOp,
    ScatterOp,
    TransposeOp,
    WriteBackOp,
)
from lpu_mlir.transforms.outline import OutlinePass
from lpu_mlir.transforms.verify_dominance import check_dominance

# --- what a program computes --------------------------------------------------------------------


class Buffer:
    """What an argument names: a place whose content calls may change."""

    def __init__(self, content: Hashable):
        self.content = content


Numbers = dict[Hashable, int]
"""Terms are numbered, so that comparing them is cheap."""


def run(
    functions: dict[str, FuncOp], name: str, buffers: Sequence[Buffer], numbers: Numbers
) -> list[Hashable]:
    """
    Run a function on terms instead of numbers: the result of an operation is the term made of it
    and of its operands' terms. Returns the results; write-backs change the buffers at the end.
    """
    block = functions[name].body.block
    places = dict(zip(block.args, buffers, strict=True))
    terms: dict[SSAValue, Hashable] = {}

    def read(value: SSAValue) -> Hashable:
        return places[value].content if value in places else terms[value]

    writes: list[tuple[Buffer, Hashable]] = []
    for op in block.ops:
        match op:
            case WriteBackOp():
                writes.append((places[op.target], read(op.value)))
            case ReturnOp():
                results = [read(value) for value in op.arguments]
            case CallOp():
                passed = [places.get(v) or Buffer(terms[v]) for v in op.arguments]
                callee = op.callee.string_value()
                terms |= zip(op.res, run(functions, callee, passed, numbers), strict=True)
            case _:
                properties = frozenset(op.properties.items())
                term = (op.name, properties, op.result_types, *map(read, op.operands))
                for n, result in enumerate(op.results):
                    terms[result] = numbers.setdefault((n, *term), len(numbers))
    for buffer, content in writes:
        buffer.content = content
    return results


def meaning(module: ModuleOp, numbers: Numbers) -> tuple[list[Hashable], list[Hashable]]:
    """Results of @main and the contents of its arguments' buffers afterwards."""
    functions = {f.sym_name.data: f for f in module.ops if isinstance(f, FuncOp)}
    buffers = [Buffer(f"argument {n}") for n in range(len(functions["main"].args))]
    return run(functions, "main", buffers, numbers), [buffer.content for buffer in buffers]


def outline(module: ModuleOp, min_ops: int = 16) -> None:
    OutlinePass(min_ops=min_ops).apply(Context(), module)
    module.verify()
    check_dominance(module)


def main_function(block: Block, results: Sequence[SSAValue]) -> ModuleOp:
    block.add_op(ReturnOp(*results))
    types = (block.arg_types, [result.type for result in results])
    return ModuleOp([FuncOp("main", types, Region(block))])


# --- random programs ----------------------------------------------------------------------------

SCALAR = tensor_type(f32, ())
KINDS = {"exp": 1, "sin": 1, "add": 2, "sub": 2}


@st.composite
def programs(draw: st.DrawFn) -> ModuleOp:
    """
    The same operations once for each layer, on the last few values, the layer's own argument or the
    last argument; perhaps another operation in one place. Each layer may write one of its values to
    an argument; after the layers, any argument may be read.
    """
    layers = draw(st.integers(2, 4))
    block = Block(arg_types=[SCALAR] * (layers + 1))
    shared = block.args[-1]
    values: list[SSAValue] = [shared]
    operand = st.integers(0, 4)
    pattern = draw(
        st.lists(st.tuples(st.sampled_from([*KINDS, "constant"]), operand, operand), min_size=1)
    )
    written = draw(st.none() | st.integers(0, len(pattern) - 1))
    shift = draw(st.integers(0, 1))
    other = draw(st.none() | st.tuples(st.integers(0, layers), st.integers(0, len(pattern))))
    writes: list[WriteBackOp] = []

    def add(op: Operation) -> None:
        block.add_op(op)
        values.append(op.results[0])

    def pick(number: int, own: SSAValue) -> SSAValue:
        return (own, shared, *values[-3:])[min(number, 1 + len(values))]

    for layer in range(layers):
        own = block.args[layer]
        for position, (kind, *operands) in enumerate(pattern):
            if (layer, position) == other:
                add(PointwiseOp("cos", pick(operands[0], own)))
            elif kind == "constant":
                add(FullOp(FloatAttr(float(operands[0]), f32), (), f32))
            else:
                add(PointwiseOp(kind, *(pick(n, own) for n in operands[: KINDS[kind]])))
            if position == written and layer + shift < layers:
                writes.append(WriteBackOp(values[-1], block.args[layer + shift]))
    for argument in draw(st.lists(st.sampled_from(block.args), max_size=2)):
        add(PointwiseOp("sub", values[-1], argument))
    block.add_ops(writes)
    return main_function(block, draw(st.lists(st.sampled_from(values), min_size=1, max_size=3)))


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(programs())
def test_meaning_is_unchanged(module: ModuleOp):
    numbers: Numbers = {}
    before = meaning(module, numbers)
    outline(module, min_ops=1)
    assert meaning(module, numbers) == before


def test_meaning_notices_a_write_before_a_read():
    """The check above can fail: reading the argument after the call gives what the call wrote."""
    inner = Block(arg_types=[SCALAR])
    new = PointwiseOp("exp", inner.args[0])
    inner.add_ops([new, WriteBackOp(new.output, inner.args[0]), ReturnOp(new.output)])
    layer = FuncOp("layer", ([SCALAR], [SCALAR]), Region(inner), "private")

    def module(read_first: bool) -> ModuleOp:
        block = Block(arg_types=[SCALAR])
        read = PointwiseOp("sin", block.args[0])
        call = CallOp("layer", [block.args[0]], [SCALAR])
        block.add_ops([read, call] if read_first else [call, read])
        module = main_function(block, [read.output, call.res[0]])
        module.body.block.add_op(layer.clone())
        return module

    numbers: Numbers = {}
    assert meaning(module(True), numbers) != meaning(module(False), numbers)


# --- a decoder's step ---------------------------------------------------------------------------

HIDDEN, HEADS, KV_HEADS, HEAD, CACHE, WIDTH = 12, 3, 1, 4, 8, 20


class Step:
    """One token through a decoder with a static cache, as the importer would write it."""

    def __init__(self, layers: int):
        weights = [(HIDDEN,)] * 2 + [(HIDDEN, HIDDEN)] * 2 + [(KV_HEADS * HEAD, HIDDEN)] * 2
        weights += [(WIDTH, HIDDEN)] * 2 + [(HIDDEN, WIDTH)]
        cache = [(1, KV_HEADS, CACHE, HEAD)] * 2
        self.block = Block()
        token = self.argument((1, 1), i64)
        table = self.argument((32, HIDDEN))
        per_layer = [
            ([self.argument(s) for s in weights], [self.argument(s) for s in cache])
            for _ in range(layers)
        ]
        counters = [self.argument((1,), i64) for _ in range(layers)]
        # The counter of the first layer is read before the layers.
        angle = self.pointwise("add", self.add(IotaOp(0, (1,))), counters[0])
        rope = self.add(GatherOp(self.argument((CACHE, HEAD)), [angle], [0], 0))
        hidden = self.add(GatherOp(table, [token], [0], 0))
        hidden = self.add(ReshapeOp(hidden, (1, HIDDEN)))
        self.writes: list[tuple[SSAValue, SSAValue]] = []
        for (layer, caches), counter in zip(per_layer, counters, strict=True):
            hidden = self.layer(hidden, rope, layer, caches, counter)
        hidden = self.norm(hidden, self.argument((HIDDEN,)))
        logits = self.linear(hidden, table)
        self.block.add_ops(WriteBackOp(value, target) for value, target in self.writes)
        self.module = main_function(self.block, [logits])

    def argument(self, shape: Sequence[int], element: object = f32) -> SSAValue:
        return self.block.insert_arg(tensor_type(element, shape), len(self.block.args))

    def add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def pointwise(self, kind: str, *inputs: SSAValue) -> SSAValue:
        return self.add(PointwiseOp(kind, *inputs))

    def number(self, value: float) -> SSAValue:
        return self.add(FullOp(FloatAttr(value, f32), (), f32))

    def linear(self, x: SSAValue, weight: SSAValue) -> SSAValue:
        return self.add(MatmulOp(x, self.add(TransposeOp(weight, (1, 0)))))

    def norm(self, x: SSAValue, weight: SSAValue) -> SSAValue:
        square = self.pointwise("mul", x, x)
        total = self.add(ReshapeOp(self.add(ReduceOp("add", square, [1])), (1, 1)))
        mean = self.pointwise(
            "add", self.pointwise("div", total, self.number(HIDDEN)), self.number(1e-6)
        )
        scaled = self.pointwise("mul", x, self.pointwise("rsqrt", mean))
        return self.pointwise("mul", weight, scaled)

    def heads(self, x: SSAValue, heads: int) -> SSAValue:
        split = self.add(ReshapeOp(x, (1, 1, heads, HEAD)))
        return self.add(TransposeOp(split, (0, 2, 1, 3)))

    def layer(
        self,
        x: SSAValue,
        rope: SSAValue,
        weights: Sequence[SSAValue],
        caches: Sequence[SSAValue],
        counter: SSAValue,
    ) -> SSAValue:
        norm1, norm2, wq, wo, wk, wv, gate, up, down = weights
        y = self.norm(x, norm1)
        q = self.pointwise("mul", self.heads(self.linear(y, wq), HEADS), rope)
        k = self.pointwise("mul", self.heads(self.linear(y, wk), KV_HEADS), rope)
        v = self.heads(self.linear(y, wv), KV_HEADS)
        at = self.pointwise("add", self.add(IotaOp(0, (1,))), counter)
        one = self.add(FullOp(FloatAttr(1.0, f32), (), f32))
        self.writes.append((self.pointwise("add", counter, self.add(IotaOp(0, (1,)))), counter))
        full = [
            self.add(ScatterOp("replace", cache, new, [at], [2], 2))
            for cache, new in zip(caches, (k, v), strict=True)
        ]
        self.writes += zip(full, caches, strict=True)
        keys, values = (self.add(ReshapeOp(f, (CACHE, HEAD))) for f in full)
        rows = self.add(ReshapeOp(self.pointwise("mul", q, one), (HEADS, HEAD)))
        scores = self.pointwise("exp", self.linear(rows, keys))
        mixed = self.add(ReshapeOp(self.add(MatmulOp(scores, values)), (1, HIDDEN)))
        x = self.pointwise("add", x, self.linear(mixed, wo))
        y = self.norm(x, norm2)
        gated = self.linear(y, gate)
        gated = self.pointwise("mul", gated, self.pointwise("sigmoid", gated))
        y = self.linear(self.pointwise("mul", gated, self.linear(y, up)), down)
        return self.pointwise("add", x, y)


def test_every_layer_of_a_decoder_shares_one_function():
    module = Step(30).module
    numbers: Numbers = {}
    before = meaning(module, numbers)
    outline(module)
    assert meaning(module, numbers) == before
    main, layer = module.ops
    assert isinstance(main, FuncOp)
    assert isinstance(layer, FuncOp)
    names = Counter(op.name for op in main.body.block.ops)
    assert names["func.call"] == 30
    # The table look-ups, the head and the last norm are what is left, and no write-back.
    assert names["lpu_graph.write_back"] == 0
    assert names["lpu_graph.matmul"] == 1
    assert sum(names.values()) < 60
    # Only the hidden state goes from one layer to the next.
    assert [len(op.res) for op in main.body.block.ops if isinstance(op, CallOp)] == [1] * 30
    assert sum(isinstance(op, WriteBackOp) for op in layer.body.block.ops) == 3


def test_outlined_functions_are_not_outlined_again():
    module = Step(3).module
    outline(module)
    once = str(module)
    outline(module)
    assert str(module) == once


def test_work_is_linear_in_the_number_of_layers():
    """In calls of functions, which do not depend on the machine."""

    def calls(layers: int) -> int:
        module = Step(layers).module
        count = 0

        def profile(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(profile)
        try:
            OutlinePass().apply(Context(), module)
        finally:
            sys.setprofile(None)
        return count

    assert calls(40) < 2.2 * calls(20)
