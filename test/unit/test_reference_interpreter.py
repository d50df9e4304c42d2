"""The reference interpreter: every tile operation against torch, and every hazard it reports."""

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from xdsl.context import Context
from xdsl.dialects import arith, builtin, math
from xdsl.parser import Parser

from lpu_mlir.dialects.lpu import Lpu
from lpu_mlir.dialects.lpu_kernel import KernelOp, LpuKernel
from lpu_mlir.interpreter.reference import (
    ChannelError,
    CompiledKernel,
    ExtentError,
    InterpreterParams,
    LaunchStats,
    Memory,
    OutOfBoundsError,
    SramCapacityError,
    SramClobberedError,
    UnwrittenReadError,
    WriteRaceError,
)

NAN, INF = float("nan"), float("inf")
TORCH = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i1": torch.bool,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "ui8": torch.uint8,
}
FLOATS = ["f16", "bf16", "f32", "f64"]
INTEGERS = ["i8", "i16", "i32", "i64"]


def kernel(text: str) -> CompiledKernel:
    """The one kernel of a text, verified. `!t<...>` and `#m` abbreviate tile and memory space."""
    context = Context()
    for dialect in (builtin.Builtin, arith.Arith, math.Math, Lpu, LpuKernel):
        context.load_dialect(dialect)
    text = text.replace("!t<", "!lpu_kernel.tile<").replace("#m", '"shared_dram"')
    module = Parser(context, text).parse_module()
    module.verify()
    (op,) = module.body.block.ops
    assert isinstance(op, KernelOp)
    return CompiledKernel(op)


def launch(
    text: str, *args: Tensor | int, memory: Memory | None = None, **params: Any
) -> LaunchStats:
    return kernel(text).launch(args, memory or Memory(), InterpreterParams(**params))


def one_tile(
    element: str, shape: list[int], body: str, results: list[tuple[str, list[int]]]
) -> str:
    """A kernel that loads %t of a shape from %x, runs a body and stores its %r0, %r1, ..."""
    dims = "".join(f"{n}x" for n in shape)
    zeros = ", ".join("0" for _ in shape)
    memrefs = [f"%x: memref<{dims}{element}, #m>"]
    stores: list[str] = []
    for n, (kind, extents) in enumerate(results):
        type = "".join(f"{e}x" for e in extents) + kind
        memrefs.append(f"%y{n}: memref<{type}, #m>")
        at = ", ".join("0" for _ in extents)
        stores.append(f"lpu_kernel.store %r{n}, %y{n}[{at}] : !t<{type}>, memref<{type}, #m>")
    access = ", ".join(["ro"] + ["wo"] * len(results))
    return f"""
    lpu_kernel.kernel @k({", ".join(memrefs)}) access [{access}] cores 1 {{
      lpu_kernel.phase cores(%c) {{
        %t = lpu_kernel.load %x[{zeros}] [{", ".join(map(str, shape))}]
          : memref<{dims}{element}, #m> -> !t<{dims}{element}>
        {body}
        {" ".join(stores)}
      }}
    }}"""


def on_tile(body: str, x: Tensor, *results: Tensor) -> None:
    """Run a body on %t = x and compare its %r0, %r1, ... with the results, bit for bit."""
    names = {dtype: name for name, dtype in TORCH.items()}
    kinds = [(names[r.dtype], list(r.shape)) for r in results]
    outputs = [torch.empty_like(r) for r in results]
    launch(one_tile(names[x.dtype], list(x.shape), body, kinds), x, *outputs)
    for actual, expected in zip(outputs, results, strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


def numbers(element: str, *shape: int) -> Tensor:
    """Values of an element type, few enough that there are ties, NaN among floats."""
    generator = torch.Generator().manual_seed(sum(shape))
    if element == "i1":
        return torch.randint(0, 2, shape, generator=generator).bool()
    if element == "ui8":
        return torch.randint(0, 256, shape, generator=generator).to(torch.uint8)
    values = torch.randint(-4, 5, shape, generator=generator)
    if element not in FLOATS:
        return values.to(TORCH[element])
    result = values.to(TORCH[element]) / 2
    if result.numel() > 5:
        result.view(-1)[5] = NAN
    return result


# --- tile operations ----------------------------------------------------------------------------


@pytest.mark.parametrize("element", TORCH)
def test_load_and_store(element: str) -> None:
    x = numbers(element, 5, 3)
    on_tile(
        f"%r0 = lpu_kernel.slice %t[0, 0] [5, 3] : !t<5x3x{element}> -> !t<5x3x{element}>", x, x
    )


@pytest.mark.parametrize(("element", "text"), [("f32", "1.5"), ("bf16", "1.1"), ("i8", "-3"),
                                               ("i1", "true"), ("i64", "7")])  # fmt: skip
def test_fill(element: str, text: str) -> None:
    value = True if text == "true" else float(text) if element in FLOATS else int(text)
    literal = text if element == "i1" else f"{text} : {element}"
    on_tile(
        f"%r0 = lpu_kernel.fill {literal} [2, 3] -> !t<2x3x{element}>",
        numbers("f32", 1),
        torch.full((2, 3), value, dtype=TORCH[element]),
    )


def test_fill_of_ui8() -> None:
    on_tile(
        "%r0 = lpu_kernel.fill -56 : i8 [2] -> !t<2xui8>",
        numbers("f32", 1),
        torch.full((2,), 200, dtype=torch.uint8),
    )


def test_slice() -> None:
    x = numbers("f32", 6, 4)
    on_tile(
        """%o = arith.constant 2 : index
        %r0 = lpu_kernel.slice %t[%o, 1] [3, 2] : !t<6x4xf32> -> !t<3x2xf32>""",
        x,
        x[2:5, 1:3],
    )


FOLDS: list[tuple[str, list[str], Callable[[Tensor], Tensor]]] = [
    ("add", ["f32", "f64", *INTEGERS], lambda t: t.sum(1, dtype=t.dtype)),
    ("mul", ["f32", "f64", *INTEGERS], lambda t: t.prod(1, dtype=t.dtype)),
    ("max", [*TORCH], lambda t: t.amax(1)),
    ("min", [*TORCH], lambda t: t.amin(1)),
]


@pytest.mark.parametrize(
    ("kind", "element", "expected"),
    [(kind, element, f) for kind, elements, f in FOLDS for element in elements],
)
def test_fold(kind: str, element: str, expected: Callable[[Tensor], Tensor]) -> None:
    x = numbers(element, 4, 7)
    body = f"%r0 = lpu_kernel.fold {kind} %t [1] : !t<4x7x{element}> -> !t<4x{element}>"
    on_tile(body, x, expected(x))


@pytest.mark.parametrize("element", ["i1", *INTEGERS])
@pytest.mark.parametrize("kind", ["and", "or", "xor"])
def test_bitwise_fold(kind: str, element: str) -> None:
    x = numbers(element, 3, 4)
    combine = {"and": torch.bitwise_and, "or": torch.bitwise_or, "xor": torch.bitwise_xor}[kind]
    expected = x[:, 0]
    for column in x.unbind(1)[1:]:
        expected = combine(expected, column)
    body = f"%r0 = lpu_kernel.fold {kind} %t [1] : !t<3x4x{element}> -> !t<3x{element}>"
    on_tile(body, x, expected)


def test_fold_over_several_dims_and_none() -> None:
    x = numbers("f64", 2, 3, 4).nan_to_num()
    body = """%r0 = lpu_kernel.fold add %t [0, 2] : !t<2x3x4xf64> -> !t<3xf64>
    %r1 = lpu_kernel.fold add %t [] : !t<2x3x4xf64> -> !t<2x3x4xf64>
    %r2 = lpu_kernel.fold mul %t [0, 1, 2] : !t<2x3x4xf64> -> !t<f64>"""
    on_tile(body, x, x.sum((0, 2)), x, x.prod())


@pytest.mark.parametrize("kind", ["add", "mul", "max", "min", "xor"])
def test_fold_with_accumulator(kind: str) -> None:
    x = numbers("i32", 4, 7)
    combine = {
        "add": torch.add,
        "mul": torch.mul,
        "max": torch.maximum,
        "min": torch.minimum,
        "xor": torch.bitwise_xor,
    }[kind]
    body = f"""%r0 = lpu_kernel.fold {kind} %t [1] : !t<4x7xi32> -> !t<4xi32>
    %a = lpu_kernel.fill 3 : i32 [4] -> !t<4xi32>
    %r1 = lpu_kernel.fold {kind} %t [1] acc(%a : !t<4xi32>) : !t<4x7xi32> -> !t<4xi32>"""
    plain = torch.empty(4, dtype=torch.int32)
    both = torch.empty(4, dtype=torch.int32)
    launch(one_tile("i32", [4, 7], body, [("i32", [4]), ("i32", [4])]), x, plain, both)
    assert torch.equal(both, combine(plain, torch.tensor(3, dtype=torch.int32)))


IDENTITIES = [
    ("add", "f32", 0.0),
    ("mul", "i32", 1),
    ("max", "f32", -INF),
    ("min", "bf16", INF),
    ("max", "i8", -128),
    ("min", "ui8", 255),
    ("max", "i1", False),
    ("and", "i16", -1),
    ("and", "i1", True),
    ("or", "i1", False),
    ("xor", "i64", 0),
]


@pytest.mark.parametrize(("kind", "element", "identity"), IDENTITIES)
def test_fold_of_nothing(kind: str, element: str, identity: float) -> None:
    on_tile(
        f"%r0 = lpu_kernel.fold {kind} %t [1] : !t<3x0x{element}> -> !t<3x{element}>",
        numbers(element, 3, 0),
        torch.full((3,), identity, dtype=TORCH[element]),
    )


@pytest.mark.parametrize("element", TORCH)
@pytest.mark.parametrize("kind", ["max", "min"])
def test_arg_fold(kind: str, element: str) -> None:
    x = numbers(element, 4, 9)
    plain = x.to(torch.int64) if element in ("i1", "ui8") else x
    where = (plain.argmax if kind == "max" else plain.argmin)(1)
    body = f"""%v, %i = lpu_kernel.arg_fold {kind} %t dim 1 at [100]
      : !t<4x9x{element}> -> !t<4x{element}>, !t<4xi64>
    %r0 = lpu_kernel.slice %v[0] [4] : !t<4x{element}> -> !t<4x{element}>
    %r1 = lpu_kernel.slice %i[0] [4] : !t<4xi64> -> !t<4xi64>"""
    on_tile(body, x, x.gather(1, where[:, None])[:, 0], where + 100)


@pytest.mark.parametrize("order", [(0, 4), (4, 0)])
@pytest.mark.parametrize("kind", ["max", "min"])
def test_arg_fold_in_parts_is_that_of_the_whole(kind: str, order: tuple[int, int]) -> None:
    rows = [[1, 3, 3, 0, 3, 1, 2, 3], [0, NAN, 2, 1, NAN, 0, 5, 1], [2, 2, 2, 2, 2, 2, 2, 2]]
    rows += [[-INF] * 8, [0, 1, 2, 3, 4, NAN, 6, 7], [5, 4, 3, 2, 1, 0, -1, -2]]
    x = torch.tensor(rows, dtype=torch.float32)
    first, second = order
    part = "!t<6x8xf32> -> !t<6x4xf32>"
    body = f"""%a = lpu_kernel.slice %t[0, {first}] [6, 4] : {part}
    %b = lpu_kernel.slice %t[0, {second}] [6, 4] : {part}
    %v, %i = lpu_kernel.arg_fold {kind} %a dim 1 at [{first}]
      : !t<6x4xf32> -> !t<6xf32>, !t<6xi64>
    %r0, %r1 = lpu_kernel.arg_fold {kind} %b dim 1 at [{second}]
      acc(%v, %i : !t<6xf32>, !t<6xi64>) : !t<6x4xf32> -> !t<6xf32>, !t<6xi64>"""
    where = (x.argmax if kind == "max" else x.argmin)(1)
    on_tile(body, x, x.gather(1, where[:, None])[:, 0], where)


def test_arg_fold_of_nothing() -> None:
    body = """%r0, %r1 = lpu_kernel.arg_fold max %t dim 1 at [0]
      : !t<2x0xf32> -> !t<2xf32>, !t<2xi64>"""
    with pytest.raises(ExtentError, match="extreme of nothing"):
        on_tile(body, torch.zeros(2, 0), torch.zeros(2), torch.zeros(2, dtype=torch.int64))
    body = """%v = lpu_kernel.fill 1.0 : f32 [2] -> !t<2xf32>
    %i = lpu_kernel.fill 5 : i64 [2] -> !t<2xi64>
    %r0, %r1 = lpu_kernel.arg_fold max %t dim 1 at [0] acc(%v, %i : !t<2xf32>, !t<2xi64>)
      : !t<2x0xf32> -> !t<2xf32>, !t<2xi64>"""
    on_tile(body, torch.zeros(2, 0), torch.ones(2), torch.full((2,), 5))


SCANS: list[tuple[str, list[str], Callable[[Tensor], Tensor]]] = [
    ("add", ["f32", "f64", *INTEGERS], lambda t: t.cumsum(1, dtype=t.dtype)),
    ("mul", ["f32", "f64", *INTEGERS], lambda t: t.cumprod(1, dtype=t.dtype)),
    ("max", [*TORCH], lambda t: t.cummax(1).values),
    ("min", [*TORCH], lambda t: t.cummin(1).values),
]


@pytest.mark.parametrize(
    ("kind", "element", "expected"),
    [(kind, element, f) for kind, elements, f in SCANS for element in elements],
)
def test_scan(kind: str, element: str, expected: Callable[[Tensor], Tensor]) -> None:
    x = numbers(element, 3, 8)
    on_tile(
        f"%r0 = lpu_kernel.scan {kind} %t dim 1 : !t<3x8x{element}> -> !t<3x8x{element}>",
        x,
        expected(x),
    )


@pytest.mark.parametrize("kind", ["add", "mul", "max", "min"])
def test_scan_in_parts_is_that_of_the_whole(kind: str) -> None:
    x = numbers("i32", 3, 8)
    body = f"""%a = lpu_kernel.slice %t[0, 0] [3, 5] : !t<3x8xi32> -> !t<3x5xi32>
    %b = lpu_kernel.slice %t[0, 5] [3, 3] : !t<3x8xi32> -> !t<3x3xi32>
    %r0 = lpu_kernel.scan {kind} %a dim 1 : !t<3x5xi32> -> !t<3x5xi32>
    %l = lpu_kernel.slice %r0[0, 4] [3, 1] : !t<3x5xi32> -> !t<3x1xi32>
    %q = lpu_kernel.fold add %l [1] : !t<3x1xi32> -> !t<3xi32>
    %r1 = lpu_kernel.scan {kind} %b dim 1 carry(%q : !t<3xi32>) : !t<3x3xi32> -> !t<3x3xi32>"""
    whole = next(f for name, _, f in SCANS if name == kind)(x)
    on_tile(body, x, whole[:, :5], whole[:, 5:])


CONTRACTIONS = [
    ("[0, 2]", "[1, 2]", "ik,jk->ij"),
    ("[0, 2]", "[2, 1]", "ik,kj->ij"),
    ("[2, 0]", "[2, 1]", "ki,kj->ij"),
    ("[2, 0]", "[1, 2]", "ki,jk->ij"),
    ("[1, 2]", "[0, 2]", "jk,ik->ij"),
]


@pytest.mark.parametrize("element", ["f32", "bf16", "f16", "i32"])
@pytest.mark.parametrize(("lhs", "rhs", "equation"), CONTRACTIONS)
def test_contract(lhs: str, rhs: str, equation: str, element: str) -> None:
    x = numbers(element, 4, 4)
    x = x.nan_to_num() if element in FLOATS else x
    acc = "i32" if element == "i32" else "f32"
    wide = x.to(TORCH[acc])
    expected = torch.einsum(equation, wide, wide)
    value = "2" if acc == "i32" else "2.0"
    tiles = f"!t<4x4x{element}>, !t<4x4x{element}> -> !t<4x4x{acc}>"
    body = f"""%r0 = lpu_kernel.contract %t as {lhs}, %t as {rhs} : {tiles}
    %a = lpu_kernel.fill {value} : {acc} [4, 4] -> !t<4x4x{acc}>
    %r1 = lpu_kernel.contract %t as {lhs}, %t as {rhs} acc(%a : !t<4x4x{acc}>) : {tiles}"""
    on_tile(body, x, expected, expected + 2)


def test_contract_of_more_dims() -> None:
    x = numbers("f64", 2, 3, 4).nan_to_num()
    body = """%r0 = lpu_kernel.contract %t as [0, 1, 3], %t as [0, 2, 3]
      : !t<2x3x4xf64>, !t<2x3x4xf64> -> !t<2x3x3xf64>
    %r1 = lpu_kernel.contract %t as [0, 1, 2], %t as [0, 1, 2]
      : !t<2x3x4xf64>, !t<2x3x4xf64> -> !t<2x3x4xf64>
    %r2 = lpu_kernel.contract %t as [0, 1, 2], %t as [0, 1, 2]
      : !t<2x3x4xf64>, !t<2x3x4xf64> -> !t<f64>"""
    body = body.replace("-> !t<f64>", "-> !t<2xf64>")
    on_tile(body, x, x @ x.mT, x * x, (x * x).sum((1, 2)))


def test_contract_accumulates_in_the_result_type() -> None:
    x = torch.full((1, 256), 1.0078125, dtype=torch.bfloat16)
    body = """%r0 = lpu_kernel.contract %t as [0, 2], %t as [1, 2]
      : !t<1x256xbf16>, !t<1x256xbf16> -> !t<1x1xf32>"""
    on_tile(body, x, torch.full((1, 1), 256 * 1.0078125**2))


def test_contract_over_nothing() -> None:
    body = """%r0 = lpu_kernel.contract %t as [0, 2], %t as [1, 2]
      : !t<3x0xf32>, !t<3x0xf32> -> !t<3x3xf32>"""
    on_tile(body, torch.zeros(3, 0), torch.zeros(3, 3))


# --- maps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("element", FLOATS)
def test_map_rounds_each_step_to_its_type(element: str) -> None:
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(1)).to(TORCH[element])
    body = f"""%r0 = lpu_kernel.map [4, 3] ins(%t as [0, 1] : !t<4x3x{element}>)
      -> (!t<4x3x{element}>) {{
    ^bb0(%i: index, %j: index, %a: {element}):
      %third = arith.constant 0.333 : {element}
      %b = arith.mulf %a, %third : {element}
      %e = math.exp %b : {element}
      %s = arith.addf %e, %a : {element}
      lpu_kernel.yield %s : {element}
    }}"""
    third = torch.tensor(0.333, dtype=TORCH[element])
    on_tile(body, x, (x * third).exp() + x)


def test_map_of_ui8_sees_signless_scalars() -> None:
    x = torch.tensor([0, 1, 127, 128, 255], dtype=torch.uint8)
    body = """%r0, %r1, %r2 = lpu_kernel.map [5] ins(%t as [0] : !t<5xui8>)
      -> (!t<5xui8>, !t<5xi32>, !t<5xi32>) {
    ^bb0(%i: index, %a: i8):
      %one = arith.constant 1 : i8
      %s = arith.addi %a, %one : i8
      %z = arith.extui %a : i8 to i32
      %n = arith.extsi %a : i8 to i32
      lpu_kernel.yield %s, %z, %n : i8, i32, i32
    }"""
    on_tile(body, x, x + 1, x.to(torch.int32), x.view(torch.int8).to(torch.int32))


def test_map_broadcasts_and_permutes_its_inputs() -> None:
    x = numbers("f64", 2, 3, 4).nan_to_num()
    rows, columns = x.sum((1, 2)), x.sum((0, 1))
    body = """%u = lpu_kernel.fold add %t [1, 2] : !t<2x3x4xf64> -> !t<2xf64>
    %v = lpu_kernel.fold add %t [0, 1] : !t<2x3x4xf64> -> !t<4xf64>
    %w = lpu_kernel.fold add %t [0] : !t<2x3x4xf64> -> !t<3x4xf64>
    %z = lpu_kernel.fold add %t [0, 1, 2] : !t<2x3x4xf64> -> !t<f64>
    %r0 = lpu_kernel.map [4, 2, 3] ins(%t as [1, 2, 0], %u as [1], %v as [0], %w as [2, 0], %z as []
      : !t<2x3x4xf64>, !t<2xf64>, !t<4xf64>, !t<3x4xf64>, !t<f64>) -> (!t<4x2x3xf64>) {
    ^bb0(%i: index, %j: index, %k: index, %a: f64, %b: f64, %q: f64, %d: f64, %e: f64):
      %0 = arith.addf %a, %b : f64
      %1 = arith.mulf %0, %q : f64
      %2 = arith.addf %1, %d : f64
      %3 = arith.addf %2, %e : f64
      lpu_kernel.yield %3 : f64
    }"""
    expected = (x.permute(2, 0, 1) + rows[None, :, None]) * columns[:, None, None]
    expected = expected + x.sum(0).t()[:, None, :] + x.sum()
    on_tile(body, x, expected.contiguous())


def test_map_indices_count_from_the_offsets() -> None:
    body = """%o = arith.constant 10 : index
    %r0, %r1 = lpu_kernel.map [2, 3] at [%o, 100] -> (!t<2x3xi64>, !t<2x3xi1>) {
    ^bb0(%i: index, %j: index):
      %s = arith.addi %i, %j : index
      %v = arith.index_cast %s : index to i64
      %limit = arith.constant 102 : index
      %q = arith.cmpi slt, %j, %limit : index
      lpu_kernel.yield %v, %q : i64, i1
    }"""
    i, j = torch.arange(10, 12)[:, None], torch.arange(100, 103)[None, :]
    on_tile(body, torch.zeros(1), i + j, (j < 102).expand(2, 3))


def test_map_uses_scalars_from_outside() -> None:
    text = """
    lpu_kernel.kernel @k(%y: memref<3xf32, #m>, %n: index) access [wo] cores 1 {
      lpu_kernel.phase cores(%c) {
        %m = lpu_kernel.apply <2 * d0>(%n)
        %r = lpu_kernel.map [3] -> (!t<3xf32>) {
        ^bb0(%i: index):
          %j = arith.index_cast %m : index to i64
          %f = arith.sitofp %j : i64 to f32
          lpu_kernel.yield %f : f32
        }
        lpu_kernel.store %r, %y[0] : !t<3xf32>, memref<3xf32, #m>
      }
    }"""
    y = torch.zeros(3)
    launch(text, y, 21)
    assert y.tolist() == [42.0] * 3


def test_map_input_must_have_the_maps_extents() -> None:
    text = """
    lpu_kernel.kernel @k(%x: memref<?x?xf32, #m>, %n: index, %m: index) access [ro] cores 1 {
      lpu_kernel.phase cores(%c) {
        %t = lpu_kernel.load %x[0, 0] [%n, %m] : memref<?x?xf32, #m> -> !t<4x4xf32>
        %r = lpu_kernel.map [%m, %m] ins(%t as [0, 1] : !t<4x4xf32>) -> (!t<4x4xf32>) {
        ^bb0(%i: index, %j: index, %a: f32):
          lpu_kernel.yield %a : f32
        }
      }
    }"""
    launch(text, torch.zeros(4, 4), 3, 3)
    # Even an extent of 1 is not broadcast by accident.
    with pytest.raises(ExtentError, match=r"input of extents \[1, 3\]"):
        launch(text, torch.zeros(4, 4), 1, 3)


# --- windows ------------------------------------------------------------------------------------

COPY = """
lpu_kernel.kernel @k(%x: memref<?x?xf32, #m>, %y: memref<?x?xf32, #m>, %i: index, %j: index,
                     %n: index, %m: index) access [ro, wo] cores 1 {
  lpu_kernel.phase cores(%c) {
    %t = lpu_kernel.load %x[%i, %j] [%n, %m] : memref<?x?xf32, #m> -> !t<8x8xf32>
    lpu_kernel.store %t, %y[0, 0] : !t<8x8xf32>, memref<?x?xf32, #m>
  }
}"""


@pytest.mark.parametrize(
    "x",
    [
        torch.randn(6, 8),
        torch.randn(8, 6).t(),
        torch.randn(20, 20)[3:9, 1:17:2],
        torch.randn(1, 8).expand(6, 8),
    ],
    ids=["dense", "transposed", "strided", "expanded"],
)
def test_windows_of_strided_views(x: Tensor) -> None:
    y = torch.zeros(3, 9)
    stats = launch(COPY, x, y, 2, 1, 3, 5)
    assert torch.equal(y[:, :5], x[2:5, 1:6])
    assert not y[:, 5:].any()
    assert stats == LaunchStats(dram_read=60, dram_written=60)


def test_a_store_through_a_strided_view() -> None:
    x, whole = torch.randn(3, 5), torch.zeros(10, 10)
    launch(COPY, x, whole.t()[1:4, 2:7], 0, 0, 3, 5)
    assert torch.equal(whole[2:7, 1:4], x.t())
    assert whole.count_nonzero() == 15


@pytest.mark.parametrize(
    "window",
    [(0, 0, 7, 1), (-1, 0, 1, 1), (0, 4, 1, 5), (7, 0, 0, 1)],
)
def test_load_out_of_bounds(window: tuple[int, int, int, int]) -> None:
    with pytest.raises(OutOfBoundsError, match=r"@k.*load \(%t\).*reaches outside .*\[6, 8\]"):
        launch(COPY, torch.zeros(6, 8), torch.zeros(8, 8), *window)


def test_windows_at_the_very_end_are_in_bounds() -> None:
    launch(COPY, torch.zeros(6, 8), torch.zeros(8, 8), 5, 7, 1, 1)
    launch(COPY, torch.zeros(6, 8), torch.zeros(8, 8), 6, 8, 0, 0)
    launch(COPY, torch.zeros(0, 8), torch.zeros(0, 8), 0, 0, 0, 8)


def test_store_out_of_bounds() -> None:
    with pytest.raises(OutOfBoundsError, match=r"lpu_kernel\.store.*\[3, 8\].*\[2, 8\]"):
        launch(COPY, torch.zeros(6, 8), torch.zeros(2, 8), 0, 0, 3, 8)


def test_extents_beyond_the_capacity() -> None:
    launch(COPY, torch.zeros(9, 9), torch.zeros(9, 9), 0, 0, 8, 8)
    with pytest.raises(ExtentError, match=r"\[9, 8\] exceed the tile's capacity \[8, 8\]"):
        launch(COPY, torch.zeros(9, 9), torch.zeros(9, 9), 0, 0, 9, 8)


def test_slice_out_of_bounds_of_the_extents() -> None:
    text = """
    lpu_kernel.kernel @k(%x: memref<?xf32, #m>, %n: index) access [ro] cores 1 {
      lpu_kernel.phase cores(%c) {
        %t = lpu_kernel.load %x[0] [%n] : memref<?xf32, #m> -> !t<8xf32>
        %s = lpu_kernel.slice %t[2] [2] : !t<8xf32> -> !t<2xf32>
      }
    }"""
    launch(text, torch.zeros(8), 4)
    # Within the capacity, but nothing is there.
    with pytest.raises(OutOfBoundsError, match=r"slice \[2\]\[2\]"):
        launch(text, torch.zeros(8), 3)


def test_loads_are_values_even_of_what_is_stored_to_afterwards() -> None:
    text = """
    lpu_kernel.kernel @k(%x: memref<4xf32, #m>, %y: memref<4xf32, #m>) access [ro, rw] cores 1 {
      lpu_kernel.phase cores(%c) {
        %a = lpu_kernel.load %x[0] [2] : memref<4xf32, #m> -> !t<2xf32>
        %b = lpu_kernel.load %x[2] [2] : memref<4xf32, #m> -> !t<2xf32>
        lpu_kernel.store %b, %y[0] : !t<2xf32>, memref<4xf32, #m>
        lpu_kernel.store %a, %y[2] : !t<2xf32>, memref<4xf32, #m>
      }
    }"""
    x = torch.arange(4.0)
    launch(text, x, x)
    assert x.tolist() == [2.0, 3.0, 0.0, 1.0]


GATHER = """
lpu_kernel.kernel @k(%x: memref<4x5x2xf32, #m>, %p: memref<?x?xi64, #m>,
                     %y: memref<?x?x?x?xf32, #m>, %n: index) access [ro, ro, wo] cores 2 {
  lpu_kernel.phase cores(%c) {
    %i = lpu_kernel.load %p[0, 0] [2, %n] : memref<?x?xi64, #m> -> !t<2x3xi64>
    %t = lpu_kernel.load %x[0, 0, 0] [4, 1, 2] index 1 by %i
      : memref<4x5x2xf32, #m>, !t<2x3xi64> -> !t<4x2x3x2xf32>
    %s = lpu_kernel.slice %t[%c, 0, 0, 0] [1, 2, %n, 2] : !t<4x2x3x2xf32> -> !t<1x2x3x2xf32>
    lpu_kernel.store %s, %y[%c, 0, 0, 0] : !t<1x2x3x2xf32>, memref<?x?x?x?xf32, #m>
  }
}"""


@pytest.mark.parametrize("n", [0, 3])
def test_indexed_load(n: int) -> None:
    x, index = torch.randn(4, 5, 2), torch.tensor([[4, 0, 4], [1, 1, 2]])[:, :n]
    y = torch.zeros(2, 2, n, 2)
    stats = launch(GATHER, x, index, y, n)
    assert torch.equal(y, x[:2, index])
    # The index is the same for all cores, what it selects counts for each.
    assert stats == LaunchStats(2 * n * 8 + 2 * 4 * 2 * n * 2 * 4, 2 * 2 * n * 2 * 4)


@pytest.mark.parametrize("bad", [5, -1])
def test_indexed_load_out_of_bounds(bad: int) -> None:
    index = torch.tensor([[4, 0, 4], [1, bad, 2]])
    with pytest.raises(OutOfBoundsError, match=r"index from .* into dim 1"):
        launch(GATHER, torch.randn(4, 5, 2), index, torch.zeros(2, 2, 3, 2), 3)


SCATTER = """
lpu_kernel.kernel @k(%x: memref<3x2xf32, #m>, %p: memref<3xi64, #m>, %y: memref<5x2xf32, #m>)
    access [ro, ro, rw] cores 1 {
  lpu_kernel.phase cores(%c) {
    %i = lpu_kernel.load %p[0] [3] : memref<3xi64, #m> -> !t<3xi64>
    %t = lpu_kernel.load %x[0, 0] [3, 2] : memref<3x2xf32, #m> -> !t<3x2xf32>
    lpu_kernel.store %t, %y[0, 0] index 0 by %i
      : !t<3x2xf32>, memref<5x2xf32, #m>, !t<3xi64>
  }
}"""


def test_indexed_store_keeps_the_last_of_equal_positions() -> None:
    x, y = torch.arange(6.0).view(3, 2), torch.full((5, 2), -1.0)
    launch(SCATTER, x, torch.tensor([4, 1, 4]), y)
    assert y.tolist() == [[-1, -1], [2, 3], [-1, -1], [-1, -1], [4, 5]]


@pytest.mark.parametrize("bad", [5, -1])
def test_indexed_store_out_of_bounds(bad: int) -> None:
    with pytest.raises(OutOfBoundsError, match=r"lpu_kernel\.store"):
        launch(SCATTER, torch.zeros(3, 2), torch.tensor([0, 1, bad]), torch.zeros(5, 2))


def test_index_value_drops_its_dim() -> None:
    text = """
    lpu_kernel.kernel @k(%x: memref<4x3xf32, #m>, %y: memref<2x3xf32, #m>, %n: index)
        access [ro, wo] cores 1 {
      lpu_kernel.phase cores(%c) {
        %t = lpu_kernel.load %x[0, 0] [1, 3] index 0 by %n : memref<4x3xf32, #m>, index -> !t<3xf32>
        lpu_kernel.store %t, %y[0, 0] index 0 by %c : !t<3xf32>, memref<2x3xf32, #m>, index
      }
    }"""
    x, y = torch.randn(4, 3), torch.zeros(2, 3)
    launch(text, x, y, 2)
    assert torch.equal(y, torch.stack([x[2], torch.zeros(3)]))


# --- loops --------------------------------------------------------------------------------------

SUM = """
lpu_kernel.kernel @k(%x: memref<?xf32, #m>, %y: memref<1xf32, #m>, %n: index)
    access [ro, wo] cores 1 {
  lpu_kernel.phase cores(%c) {
    %zero = lpu_kernel.fill 0.0 : f32 [1] -> !t<1xf32>
    %s = lpu_kernel.for reduction %i = 0 to %n step 4 iter_args(%a = %zero) -> (!t<1xf32>) {
      %m = lpu_kernel.apply <min(4, d0 - d1)>(%n, %i)
      %t = lpu_kernel.load %x[%i] [%m] : memref<?xf32, #m> -> !t<4xf32>
      %p = lpu_kernel.fold add %t [0] : !t<4xf32> -> !t<f32>
      %b = lpu_kernel.map [1] ins(%a as [0], %p as [] : !t<1xf32>, !t<f32>) -> (!t<1xf32>) {
      ^bb0(%k: index, %u: f32, %v: f32):
        %w = arith.addf %u, %v : f32
        lpu_kernel.yield %w : f32
      }
      lpu_kernel.yield %b : !t<1xf32>
    }
    lpu_kernel.store %s, %y[0] : !t<1xf32>, memref<1xf32, #m>
  }
}"""


@pytest.mark.parametrize("n", [0, 1, 4, 10])
def test_loop_with_a_ragged_end(n: int) -> None:
    x, y = torch.arange(1.0, n + 1), torch.full((1,), NAN)
    launch(SUM, x, y, n)
    assert y.item() == n * (n + 1) / 2


def test_nested_loops_exchange_what_they_carry() -> None:
    text = """
    lpu_kernel.kernel @k(%y: memref<2xi64, #m>, %n: index) access [wo] cores 1 {
      lpu_kernel.phase cores(%c) {
        %p = lpu_kernel.fill 0 : i64 [1] -> !t<1xi64>
        %q = lpu_kernel.fill 1 : i64 [1] -> !t<1xi64>
        %r, %s = lpu_kernel.for sequential %i = 0 to 3 step 1 iter_args(%a = %p, %b = %q)
            -> (!t<1xi64>, !t<1xi64>) {
          %u, %v = lpu_kernel.for sequential %j = 0 to %n step 1 iter_args(%d = %a, %e = %b)
              -> (!t<1xi64>, !t<1xi64>) {
            %f = lpu_kernel.map [1] ins(%d as [0], %e as [0] : !t<1xi64>, !t<1xi64>)
                -> (!t<1xi64>) {
            ^bb0(%k: index, %g: i64, %h: i64):
              %l = arith.addi %g, %h : i64
              lpu_kernel.yield %l : i64
            }
            lpu_kernel.yield %e, %f : !t<1xi64>, !t<1xi64>
          }
          lpu_kernel.yield %u, %v : !t<1xi64>, !t<1xi64>
        }
        lpu_kernel.store %r, %y[0] : !t<1xi64>, memref<2xi64, #m>
        lpu_kernel.store %s, %y[1] : !t<1xi64>, memref<2xi64, #m>
      }
    }"""
    y = torch.zeros(2, dtype=torch.int64)
    launch(text, y, 3)
    assert y.tolist() == [34, 55]
    launch(text, y, 0)
    assert y.tolist() == [0, 1]


def test_loop_step_must_be_positive() -> None:
    text = """
    lpu_kernel.kernel @k(%n: index) access [] cores 1 {
      lpu_kernel.phase cores(%c) {
        lpu_kernel.for parallel %i = 0 to 8 step %n {
        }
      }
    }"""
    launch(text, 1)
    with pytest.raises(ExtentError, match="step 0"):
        launch(text, 0)


# --- checks -------------------------------------------------------------------------------------

CHECKED = """
lpu_kernel.kernel @k(%x: memref<2x4xi1, #m>, %y: memref<2xf32, #m>, %n: index)
    access [ro, wo] cores 2 {
  lpu_kernel.phase cores(%c) {
    %t = lpu_kernel.load %x[%c, 0] [1, 4] : memref<2x4xi1, #m> -> !t<1x4xi1>
    lpu_kernel.check %t, "ZeroDivisionError", "division by zero" : !t<1x4xi1>
    %eight = arith.constant 8 : index
    %q = arith.cmpi slt, %n, %eight : index
    lpu_kernel.check %q, "IndexError", "n out of range" : i1
    %f = lpu_kernel.fill 1.0 : f32 [1] -> !t<1xf32>
    lpu_kernel.store %f, %y[%c] : !t<1xf32>, memref<2xf32, #m>
  }
}"""


def test_checks_raise_after_the_launch() -> None:
    x, y = torch.ones(2, 4, dtype=torch.bool), torch.zeros(2)
    launch(CHECKED, x, y, 7)
    y.zero_()
    with pytest.raises(IndexError, match="n out of range"):
        launch(CHECKED, x, y, 8)
    assert y.tolist() == [1.0, 1.0]
    x[1, 3] = False
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        launch(CHECKED, x, y, 7)
    # Of several failures the one of the first core counts, in whatever order they run.
    for seed in range(4):
        with pytest.raises(IndexError):
            launch(CHECKED, x, y, 8, seed=seed)


# --- reading before writing ---------------------------------------------------------------------

FIRST_HALF = """
lpu_kernel.kernel @k(%x: memref<8x{e}, #m>, %y: memref<4x{e}, #m>) access [ro, wo] cores 1 {{
  lpu_kernel.phase cores(%c) {{
    %t = lpu_kernel.load %x[0] [4] : memref<8x{e}, #m> -> !t<4x{e}>
    lpu_kernel.store %t, %y[0] : !t<4x{e}>, memref<4x{e}, #m>
  }}
}}"""


@pytest.mark.parametrize("element", TORCH)
def test_unwritten_read(element: str) -> None:
    text = FIRST_HALF.format(e=element)
    x, y = torch.zeros(8, dtype=TORCH[element]), torch.zeros(4, dtype=TORCH[element])
    memory = Memory()
    memory.poison(x)
    with pytest.raises(UnwrittenReadError, match=r"@k.*load \(%t\).*window \[0\]\[4\]"):
        launch(text, x, y, memory=memory)
    memory.mark_written(x[:3])
    with pytest.raises(UnwrittenReadError, match="have not been written"):
        launch(text, x, y, memory=memory)
    # The other half may stay as it is.
    memory.mark_written(x[3:4])
    launch(text, x, y, memory=memory)


def test_what_a_kernel_writes_is_written() -> None:
    x, y, z = torch.ones(8), torch.empty(4), torch.empty(4)
    memory = Memory()
    memory.poison(y)
    assert y.isnan().all()
    assert not memory.is_written(y)
    launch(FIRST_HALF.format(e="f32"), x, y, memory=memory)
    assert memory.is_written(y)
    copy = COPY.replace("?x?x", "4x").replace("[%i, %j] [%n, %m]", "[0] [4]")
    copy = copy.replace("[0, 0]", "[0]").replace("8x8x", "4x")
    launch(copy, y, z, 0, 0, 0, 0, memory=memory)


def test_indexed_read_of_written_rows_only() -> None:
    x, y = torch.zeros(4, 5, 2), torch.zeros(2, 2, 3, 2)
    memory = Memory()
    memory.poison(x[:, 3])
    launch(GATHER, x, torch.tensor([[4, 0, 4], [1, 1, 2]]), y, 3, memory=memory)
    with pytest.raises(UnwrittenReadError):
        launch(GATHER, x, torch.tensor([[4, 0, 3], [1, 1, 2]]), y, 3, memory=memory)


def test_poison_is_recognisable() -> None:
    memory = Memory()
    for dtype, expected in (
        (torch.int8, 0xA5 - 0x100),
        (torch.uint8, 0xA5),
        (torch.int32, 0xA5A5A5A5 - (1 << 32)),
        (torch.bool, True),
    ):
        x = torch.zeros(3, dtype=dtype)
        memory.poison(x[1:])
        assert x.tolist() == [0, expected, expected]
        assert memory.is_written(x[:1])
        assert not memory.is_written(x)
        memory.forget(x)
        assert memory.is_written(x)


def test_memory_releases_what_it_tracks() -> None:
    memory, x = Memory(), torch.zeros(3)
    storage = weakref.ref(x.untyped_storage())
    memory.poison(x)
    del x, memory
    gc.collect()
    assert storage() is None


# --- races --------------------------------------------------------------------------------------

RACE = """
lpu_kernel.kernel @k(%y: memref<?xf32, #m>, %z: memref<?xf32, #m>, %o: index, %p: index)
    access [wo, wo] cores 4 {
  lpu_kernel.phase cores(%c) {
    %t = lpu_kernel.fill 1.0 : f32 [3] -> !t<3xf32>
    %a = lpu_kernel.apply <d0 * d1>(%c, %o)
    lpu_kernel.store %t, %y[%a] : !t<3xf32>, memref<?xf32, #m>
    lpu_kernel.store %t, %y[%a] : !t<3xf32>, memref<?xf32, #m>
    %b = lpu_kernel.apply <d0 * d1>(%c, %p)
    lpu_kernel.store %t, %z[%b] : !t<3xf32>, memref<?xf32, #m>
  }
  lpu_kernel.phase cores(%c) {
    %t = lpu_kernel.fill 1.0 : f32 [1] -> !t<1xf32>
    %a = lpu_kernel.apply <3 - d0>(%c)
    lpu_kernel.store %t, %y[%a] : !t<1xf32>, memref<?xf32, #m>
  }
}"""


@pytest.mark.parametrize("seed", range(3))
def test_write_race(seed: int) -> None:
    y, z = torch.zeros(16), torch.zeros(16)
    # Bytes written twice by one core, or by different cores in different phases, are no race.
    launch(RACE, y, z, 3, 3, seed=seed)
    with pytest.raises(WriteRaceError, match=r"@k.*store.*another core"):
        launch(RACE, y, z, 2, 3, seed=seed)
    launch(RACE, y, z, 2, 3, seed=seed, check_races=False)


MIXED = """
lpu_kernel.kernel @k(%y: memref<?xf32, #m>, %z: memref<?xf16, #m>) access [wo, wo] cores 2 {
  lpu_kernel.phase cores(%c) {
    %t = lpu_kernel.fill 1.0 : f32 [1] -> !t<1xf32>
    lpu_kernel.store %t, %y[%c] : !t<1xf32>, memref<?xf32, #m>
    %u = lpu_kernel.fill 1.0 : f16 [1] -> !t<1xf16>
    %o = lpu_kernel.apply <d0 + 2>(%c)
    lpu_kernel.store %u, %z[%o] : !t<1xf16>, memref<?xf16, #m>
  }
}"""


def test_write_race_through_two_arguments() -> None:
    whole = torch.zeros(32)
    launch(RACE, whole[:16], whole[16:], 3, 3)
    launch(RACE, whole[::2], whole[1::2], 3, 3)
    # The views overlap, but what is written does not.
    launch(RACE, whole[:16], whole[12:28], 3, 3)
    with pytest.raises(WriteRaceError):
        launch(RACE, whole[:16], whole[8:24], 3, 3)
    # Bytes of elements of different sizes.
    halves = torch.zeros(64, dtype=torch.float16)
    with pytest.raises(WriteRaceError):
        launch(MIXED, halves.view(torch.float32), halves)
    launch(MIXED, halves[:4].view(torch.float32), halves[4:])


def test_write_race_by_index() -> None:
    text = """
    lpu_kernel.kernel @k(%p: memref<4xi64, #m>, %y: memref<8xf32, #m>) access [ro, wo] cores 4 {
      lpu_kernel.phase cores(%c) {
        %i = lpu_kernel.load %p[%c] [1] : memref<4xi64, #m> -> !t<1xi64>
        %t = lpu_kernel.fill 1.0 : f32 [1] -> !t<1xf32>
        lpu_kernel.store %t, %y[0] index 0 by %i : !t<1xf32>, memref<8xf32, #m>, !t<1xi64>
      }
    }"""
    launch(text, torch.tensor([7, 0, 3, 4]), torch.zeros(8))
    with pytest.raises(WriteRaceError):
        launch(text, torch.tensor([7, 0, 3, 7]), torch.zeros(8))


# --- channels -----------------------------------------------------------------------------------

CHANNEL = """
lpu_kernel.kernel @k(%x: memref<?x4xf32, #m>, %w: memref<1x4xf32, #m>, %y: memref<?x4xf32, #m>,
                     %n: index, %m: index) access [ro, ro, wo] cores 2 {
  lpu_kernel.channel @rows depth 2 : !t<1x4xf32>
  lpu_kernel.channel @scale depth 1 : !t<1x4xf32>
  lpu_kernel.phase top(%d) {
    lpu_kernel.request @scale %w[0, 0] [1, 4] to all : memref<1x4xf32, #m>
    lpu_kernel.for sequential %i = 0 to %n step 1 {
      %r = lpu_kernel.apply <2 * d0 + d1>(%i, %d)
      lpu_kernel.request @rows %x[%r, 0] [1, 4] to each : memref<?x4xf32, #m>
    }
  } cores(%c) {
    %s = lpu_kernel.receive @scale : !t<1x4xf32>
    lpu_kernel.for sequential %i = 0 to %m step 1 {
      %t = lpu_kernel.receive @rows : !t<1x4xf32>
      %v = lpu_kernel.map [1, 4] ins(%t as [0, 1], %s as [0, 1] : !t<1x4xf32>, !t<1x4xf32>)
          -> (!t<1x4xf32>) {
      ^bb0(%j: index, %k: index, %a: f32, %b: f32):
        %p = arith.mulf %a, %b : f32
        lpu_kernel.yield %p : f32
      }
      %r = lpu_kernel.apply <2 * d0 + d1>(%i, %c)
      lpu_kernel.store %v, %y[%r, 0] : !t<1x4xf32>, memref<?x4xf32, #m>
    }
  }
}"""


@pytest.mark.parametrize("seed", range(3))
def test_channels_deliver_in_order(seed: int) -> None:
    x, w, y = torch.randn(6, 4), torch.randn(1, 4), torch.zeros(6, 4)
    stats = launch(CHANNEL, x, w, y, 3, 3, seed=seed)
    assert torch.equal(y, x * w)
    # The multicast counts once.
    assert stats == LaunchStats(dram_read=6 * 16 + 16, dram_written=6 * 16)


def test_more_receives_than_requests() -> None:
    with pytest.raises(ChannelError, match="more often than top requests"):
        launch(CHANNEL, torch.zeros(6, 4), torch.zeros(1, 4), torch.zeros(6, 4), 2, 3)


def test_more_requests_than_receives() -> None:
    with pytest.raises(ChannelError, match="core 0 leaves 1 tiles requested for it in channel @r"):
        launch(CHANNEL, torch.zeros(6, 4), torch.zeros(1, 4), torch.zeros(6, 4), 3, 2)


def test_requests_in_another_order_than_receives() -> None:
    swapped = CHANNEL.replace("%i = 0 to %m step 1", "%i = %m to 3 step 1")
    swapped = swapped.replace("%i = 0 to %n step 1", "%i = %n to 3 step 1")
    args = torch.zeros(8, 4), torch.zeros(1, 4), torch.zeros(8, 4)
    launch(swapped, *args, 1, 1)
    with pytest.raises(ChannelError, match=r"in iteration \[0\] what was requested in \[1\]"):
        launch(swapped, *args, 1, 0)


def test_request_beyond_the_channels_capacity() -> None:
    text = """
    lpu_kernel.kernel @k(%x: memref<?xf32, #m>, %n: index) access [ro] cores 1 {
      lpu_kernel.channel @c depth 1 : !t<4xf32>
      lpu_kernel.phase top(%d) {
        lpu_kernel.request @c %x[0] [%n] to all : memref<?xf32, #m>
      } cores(%c) {
        %t = lpu_kernel.receive @c : !t<4xf32>
      }
    }"""
    launch(text, torch.zeros(8), 4)
    with pytest.raises(ExtentError, match=r"\[5\] exceed the tile's capacity \[4\]"):
        launch(text, torch.zeros(8), 5)
    with pytest.raises(OutOfBoundsError, match=r"lpu_kernel\.request"):
        launch(text, torch.zeros(3), 4)


# --- SRAM ---------------------------------------------------------------------------------------

PLACED = """
lpu_kernel.kernel @k(%x: memref<4xf32, #m>, %y: memref<4xf32, #m>) access [ro, wo] cores 1 {{
  lpu_kernel.phase cores(%c) {{
    %t = lpu_kernel.load %x[0] [4] sram [0] : memref<4xf32, #m> -> !t<4xf32>
    %u = lpu_kernel.fill 0.0 : f32 [4] sram [{offset}] -> !t<4xf32>
    lpu_kernel.store %t, %y[0] : !t<4xf32>, memref<4xf32, #m>
    lpu_kernel.store %u, %y[0] : !t<4xf32>, memref<4xf32, #m>
  }}
}}"""


def test_clobbered_tile() -> None:
    launch(PLACED.format(offset=16), torch.zeros(4), torch.zeros(4))
    with pytest.raises(SramClobberedError, match=r"@k: lpu_kernel\.store: a tile it reads"):
        launch(PLACED.format(offset=12), torch.zeros(4), torch.zeros(4))


def test_reuse_of_a_dead_tiles_bytes() -> None:
    text = PLACED.format(offset=0)
    lines = text.splitlines()
    # The store of %t moves before the fill that takes its place.
    lines[4], lines[5] = lines[5], lines[4]
    launch("\n".join(lines), torch.zeros(4), torch.zeros(4))


def test_sram_capacity() -> None:
    launch(PLACED.format(offset=16), torch.zeros(4), torch.zeros(4), sram_bytes=32)
    with pytest.raises(SramCapacityError, match=r"fill reaches byte 32 of an SRAM of 31"):
        launch(PLACED.format(offset=16), torch.zeros(4), torch.zeros(4), sram_bytes=31)


def test_a_single_tile_larger_than_sram() -> None:
    args = torch.zeros(6, 8), torch.zeros(8, 8), 0, 0, 1, 1
    launch(COPY, *args, sram_bytes=256)
    with pytest.raises(SramCapacityError, match="load reaches byte 256"):
        launch(COPY, *args, sram_bytes=255)


CARRIED = """
lpu_kernel.kernel @k(%y: memref<4xf32, #m>) access [wo] cores 1 {{
  lpu_kernel.phase cores(%c) {{
    %z = lpu_kernel.fill 0.0 : f32 [4] sram [0] -> !t<4xf32>
    %r = lpu_kernel.for sequential %i = 0 to 2 step 1 iter_args(%a = %z) -> (!t<4xf32>) sram [16] {{
      %b = lpu_kernel.fill 1.0 : f32 [4] sram [{offset}] -> !t<4xf32>
      %d = lpu_kernel.map [4] ins(%a as [0], %b as [0] : !t<4xf32>, !t<4xf32>) -> (!t<4xf32>)
          sram [48] {{
      ^bb0(%k: index, %u: f32, %v: f32):
        %w = arith.addf %u, %v : f32
        lpu_kernel.yield %w : f32
      }}
      lpu_kernel.yield %d : !t<4xf32>
    }}
    lpu_kernel.store %r, %y[0] : !t<4xf32>, memref<4xf32, #m>
  }}
}}"""


def test_a_carried_tile_has_its_own_bytes() -> None:
    y = torch.zeros(4)
    # The initial value is copied into the loop's buffer, so that its own may be reused.
    launch(CARRIED.format(offset=0), y)
    assert y.tolist() == [2.0] * 4
    launch(CARRIED.format(offset=32), y)
    with pytest.raises(SramClobberedError, match=r"lpu_kernel\.map"):
        launch(CARRIED.format(offset=16), y)


def test_a_tile_live_through_a_loop_is_clobbered_in_its_second_trip() -> None:
    text = CARRIED.format(offset=32).replace("%a as [0], %b", "%z as [0], %b")
    y = torch.zeros(4)
    launch(text, y)
    with pytest.raises(SramClobberedError, match=r"lpu_kernel\.map"):
        launch(text.replace("sram [48]", "sram [0]"), y)
    launch(text.replace("sram [48]", "sram [0]").replace("0 to 2", "0 to 1"), y)


def test_a_channels_buffers_belong_to_it() -> None:
    text = """
    lpu_kernel.kernel @k(%x: memref<4xf32, #m>) access [ro] cores 1 {{
      lpu_kernel.channel @c depth 2 sram [0] : !t<4xf32>
      lpu_kernel.phase top(%d) {{
        lpu_kernel.request @c %x[0] [4] to all : memref<4xf32, #m>
      }} cores(%c) {{
        %u = lpu_kernel.fill 0.0 : f32 [4] sram [{offset}] -> !t<4xf32>
        %t = lpu_kernel.receive @c : !t<4xf32>
      }}
    }}"""
    launch(text.format(offset=32), torch.zeros(4))
    with pytest.raises(SramClobberedError, match="over the buffers of @c"):
        launch(text.format(offset=28), torch.zeros(4))


# --- phases, counts, arguments ------------------------------------------------------------------

PARTIALS = """
lpu_kernel.kernel @k(%x: memref<4x4xf32, #m>, %p: memref<4xf32, #m>, %y: memref<1xf32, #m>)
    access [ro, rw, wo] cores 4 {
  lpu_kernel.phase cores(%c) {
    %t = lpu_kernel.load %x[%c, 0] [1, 4] : memref<4x4xf32, #m> -> !t<1x4xf32>
    %s = lpu_kernel.fold add %t [1] : !t<1x4xf32> -> !t<1xf32>
    lpu_kernel.store %s, %p[%c] : !t<1xf32>, memref<4xf32, #m>
  }
  lpu_kernel.phase cores(%c) {
    %last = lpu_kernel.apply <1 - min(1, d0)>(%c)
    lpu_kernel.for parallel %i = 0 to %last step 1 {
      %t = lpu_kernel.load %p[0] [4] : memref<4xf32, #m> -> !t<4xf32>
      %s = lpu_kernel.fold add %t [0] : !t<4xf32> -> !t<f32>
      %v = lpu_kernel.map [1] ins(%s as [] : !t<f32>) -> (!t<1xf32>) {
      ^bb0(%j: index, %a: f32):
        lpu_kernel.yield %a : f32
      }
      lpu_kernel.store %v, %y[0] : !t<1xf32>, memref<1xf32, #m>
    }
  }
}"""


@pytest.mark.parametrize("seed", range(4))
def test_a_phase_sees_what_all_cores_stored_in_the_one_before(seed: int) -> None:
    x, p, y = torch.arange(16.0).view(4, 4), torch.zeros(4), torch.zeros(1)
    memory = Memory()
    memory.poison(p)
    stats = launch(PARTIALS, x, p, y, memory=memory, seed=seed)
    assert y.item() == 120
    # The second load's loop depends on the core, so that it is not a multicast; core 0 alone runs.
    assert stats == LaunchStats(dram_read=64 + 16, dram_written=16 + 4)


def test_cores_run_in_the_order_of_the_seed() -> None:
    text = """
    lpu_kernel.kernel @k(%y: memref<1xi64, #m>) access [rw] cores 8 {
      lpu_kernel.phase cores(%c) {
        %t = lpu_kernel.map [1] at [%c] -> (!t<1xi64>) {
        ^bb0(%i: index):
          %v = arith.index_cast %i : index to i64
          lpu_kernel.yield %v : i64
        }
        lpu_kernel.store %t, %y[0] : !t<1xi64>, memref<1xi64, #m>
      }
    }"""
    last: set[int] = set()
    for seed in range(8):
        y = torch.zeros(1, dtype=torch.int64)
        launch(text, y, seed=seed, check_races=False)
        last.add(int(y))
        again = torch.zeros(1, dtype=torch.int64)
        launch(text, again, seed=seed, check_races=False)
        assert torch.equal(y, again)
    assert len(last) > 2


def test_loads_that_are_equal_for_all_cores_count_once() -> None:
    text = """
    lpu_kernel.kernel @k(%x: memref<4x4xf32, #m>, %n: index) access [ro] cores 4 {
      lpu_kernel.phase cores(%c) {
        %a = lpu_kernel.load %x[0, 0] [1, 4] : memref<4x4xf32, #m> -> !t<1x4xf32>
        %o = lpu_kernel.apply <d0>(%n)
        lpu_kernel.for sequential %i = 0 to 2 step 1 {
          %b = lpu_kernel.load %x[%o, %i] [1, 1] : memref<4x4xf32, #m> -> !t<1x1xf32>
          %q = arith.addi %c, %i : index
          %p = lpu_kernel.apply <d0 - d1>(%q, %i)
          %d = lpu_kernel.load %x[%p, %i] [1, 1] : memref<4x4xf32, #m> -> !t<1x1xf32>
        }
      }
    }"""
    assert launch(text, torch.zeros(4, 4), 1).dram_read == 16 + 2 * 4 + 4 * 2 * 4


def test_arguments_must_fit() -> None:
    x, y = torch.zeros(8), torch.zeros(4)
    text = FIRST_HALF.format(e="f32")
    with pytest.raises(TypeError, match="takes 2 arguments, got 1"):
        launch(text, x)
    with pytest.raises(TypeError, match="argument 1 of kernel @k is a memref"):
        launch(text, x, 3)
    with pytest.raises(ValueError, match=r"float32 \[7\], expected torch.float32 \[8\]"):
        launch(text, x[:7], y)
    with pytest.raises(ValueError, match=r"float64 \[8\], expected torch.float32 \[8\]"):
        launch(text, x.double(), y)


def test_one_object_serves_many_threads() -> None:
    compiled = kernel(SUM)
    failures: list[int] = []

    def work(n: int) -> None:
        for _ in range(20):
            y = torch.zeros(1)
            compiled.launch((torch.full((n,), float(n)), y, n), Memory(), InterpreterParams())
            if y.item() != n * n:
                failures.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(5, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
