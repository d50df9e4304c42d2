"""Both interpreters: tile operations and maps against torch, machine code against the reference."""

from collections.abc import Callable

import pytest
import torch
from kernel_harness import launch
from torch import Tensor

from lpu_mlir.interpreter.reference import (
    ExtentError,
)

pytestmark = pytest.mark.sampled

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


def test_slice_without_the_dims_it_drops() -> None:
    x = numbers("f32", 6, 4)
    on_tile(
        """%o = arith.constant 2 : index
        %r0 = lpu_kernel.slice %t[%o, 3] [3, 1] drop [1] : !t<6x4xf32> -> !t<3xf32>
        %r1 = lpu_kernel.slice %t[%o, 3] [1, 1] drop [0, 1] : !t<6x4xf32> -> !t<f32>""",
        x,
        x[2:5, 3],
        x[2, 3],
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


@pytest.mark.parametrize(("rows", "columns"), [(0, 4), (3, 0), (0, 0)])
def test_every_operation_takes_empty_tiles(rows: int, columns: int) -> None:
    whole, row = f"!t<{rows}x{columns}xf32>", f"!t<{rows}xf32>"
    body = f"""%r0 = lpu_kernel.map [{rows}, {columns}] ins(%t as [0, 1] : {whole}) -> ({whole}) {{
    ^bb0(%i: index, %j: index, %a: f32):
      %k = arith.addi %i, %j : index
      %l = arith.index_cast %k : index to i32
      %m = arith.sitofp %l : i32 to f32
      %n = arith.addf %a, %m : f32
      lpu_kernel.yield %n : f32
    }}
    %r1 = lpu_kernel.fold max %r0 [1] : {whole} -> {row}
    %s = lpu_kernel.scan max %r0 dim 1 : {whole} -> {whole}
    %r2 = lpu_kernel.scan add %s dim 1 carry(%r1 : {row}) : {whole} -> {whole}
    %f = lpu_kernel.fill 1.0 : f32 [{rows}, {columns}] -> {whole}
    %r3 = lpu_kernel.contract %f as [0, 2], %r2 as [1, 2]
      : {whole}, {whole} -> !t<{rows}x{rows}xf32>
    %v = lpu_kernel.fill 2.0 : f32 [{rows}] -> {row}
    %w = lpu_kernel.fill 3 : i64 [{rows}] -> !t<{rows}xi64>
    %r4, %r5 = lpu_kernel.arg_fold min %t dim 1 at [0] acc(%v, %w : {row}, !t<{rows}xi64>)
      : {whole} -> {row}, !t<{rows}xi64>
    %r6 = lpu_kernel.slice %t[0, {columns}] [{rows}, 0] : {whole} -> !t<{rows}x0xf32>"""
    x = torch.zeros(rows, columns)
    lowest = torch.full((rows,), -INF)
    square, found = torch.zeros(rows, rows), torch.full((rows,), 2.0)
    where = torch.full((rows,), 3)
    on_tile(body, x, x, lowest, x, square, found, where, torch.zeros(rows, 0))


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
