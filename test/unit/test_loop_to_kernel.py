"""Nests lowered to kernels for a small machine and run: what goes in order, and views."""

import pytest
import torch
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import PassFailedException

from lpu_mlir.interpreter.reference import InterpreterParams, Memory, OutOfBoundsError
from lpu_mlir.model.target import get_target
from lpu_mlir.pipeline import make_context
from lpu_mlir.runtime.program import Program
from lpu_mlir.runtime.stats import RunStats
from lpu_mlir.transforms.allocate_sram import AllocateSramPass
from lpu_mlir.transforms.loop_to_kernel import LoopToKernelPass
from lpu_mlir.transforms.split_movement import SplitMovementPass

pytestmark = pytest.mark.sampled

TINY = get_target("tiny")
DTYPES = {
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i64": torch.int64,
    "ui8": torch.uint8,
}


def memref(*shape: int | str, element: str = "f32") -> str:
    """A dense memref; extents that are texts are symbols."""
    sizes = "".join(f"{'?' if isinstance(extent, str) else extent}x" for extent in shape)
    layout, step = "", "1"
    if any(isinstance(extent, str) for extent in shape):
        steps: list[str] = []
        for extent in reversed(shape):
            steps.insert(0, step)
            step = str(extent) if step == "1" else f"{extent} * {step}"
        layout = f"#lpu.layout<[{', '.join(map(str, shape))}], [{', '.join(steps)}], 0>, "
    return f'memref<{sizes}{element}, {layout}"shared_dram">'


def lower(text: str) -> ModuleOp:
    context = make_context()
    module = Parser(context, text).parse_module()
    module.verify()
    for transform in (
        LoopToKernelPass("tiny"),
        SplitMovementPass(TINY.channel_depth),
        AllocateSramPass(TINY.sram_bytes),
    ):
        transform.apply(context, module)
        module.verify()
    return module


def run(text: str, *arguments: Tensor, memory: Memory | None = None, **symbols: int) -> None:
    """Run @main, with its cores in a shuffled order."""
    program = Program(lower(text), InterpreterParams(sram_bytes=TINY.sram_bytes, seed=1))
    program.run(arguments, symbols, memory or Memory(), RunStats())


# --- scans --------------------------------------------------------------------------------------


def scan(kind: str, element: str, along: int, *shape: int | str) -> str:
    """`main` stores the running combination of %x along a dim in %y."""
    type = memref(*shape, element=element)
    symbols = ", ".join(f'#lpu.symbol<"{e}", 0, -1, 40>' for e in shape if isinstance(e, str))
    dims = ", ".join(f"d{n} = {extent}" for n, extent in enumerate(shape))
    here = ", ".join(f"d{n}" for n in range(len(shape)))
    scalar = "i8" if element == "ui8" else element
    return f"""
    func.func @main(%x: {type}, %y: {type}) attributes {{lpu.symbols = [{symbols}]}} {{
      lpu_loop.nest [{dims}] outs(%y : {type}) {{
        %0 = lpu_loop.scan "{kind}" [r0 = {shape[along]}] along d{along} : {scalar} {{
          %1 = lpu_loop.load %x[{here.replace(f"d{along}", "r0")}] : {type}
          lpu_loop.yield %1 : {scalar}
        }}
        lpu_loop.store "replace" %0, %y[{here}] : {scalar}, {type}
      }}
      func.return
    }}"""


SCANS = {
    "add": lambda x, dim: x.cumsum(dim, dtype=x.dtype),
    "mul": lambda x, dim: x.cumprod(dim, dtype=x.dtype),
    "max": lambda x, dim: x.cummax(dim).values,
    "min": lambda x, dim: x.cummin(dim).values,
}


@pytest.mark.parametrize("element", ["f32", "f64", "i64"])
@pytest.mark.parametrize("kind", ["add", "mul", "max", "min"])
@pytest.mark.parametrize(
    ("shape", "along"),
    [((3000,), 0), ((7, 1500), 1), ((1500, 7), 0), ((3, 700, 5), 1), ((3, 0), 1), ((0, 9), 1)],
)
def test_scan(kind: str, element: str, shape: tuple[int, ...], along: int) -> None:
    generator = torch.Generator().manual_seed(1)
    x = (1 + torch.randn(shape, generator=generator) / 10).to(DTYPES[element])
    if element == "i64":
        x = torch.randint(-9, 9, shape, generator=generator)
    y = torch.zeros_like(x)
    run(scan(kind, element, along, *shape), x, y)
    # Only products of f64 are rounded: a carry is multiplied with those of a tile, not by each.
    rounded = 1e-13 if (kind, element) == ("mul", "f64") else 0
    torch.testing.assert_close(y, SCANS[kind](x, along), rtol=rounded, atol=0)


@pytest.mark.parametrize("n", [0, 1, 64, 65, 700])
def test_scan_along_an_unknown_extent(n: int) -> None:
    x = torch.randn(5, n, generator=torch.Generator().manual_seed(n))
    y = torch.zeros_like(x)
    run(scan("add", "f32", 1, 5, "s0"), x, y, s0=n)
    assert torch.equal(y, x.cumsum(1))
    y = torch.zeros_like(x.t().contiguous())
    run(scan("max", "f32", 0, "s0", 5), x.t().contiguous(), y, s0=n)
    assert torch.equal(y, x.t().cummax(0).values if n else y)


def test_a_nan_stays_in_the_scans_of_later_tiles() -> None:
    x = torch.arange(3000.0)
    x[5] = torch.nan
    for kind in "max", "add":
        y = torch.zeros(3000)
        run(scan(kind, "f32", 0, 3000), x, y)
        assert torch.equal(y.isnan(), torch.arange(3000) >= 5)


def test_a_long_scan_is_as_precise_as_eager() -> None:
    x = torch.rand(10**6, generator=torch.Generator().manual_seed(0))
    y = torch.zeros_like(x)
    run(scan("add", "f32", 0, 10**6), x, y)
    exact = x.double().cumsum(0)
    assert (y - exact).abs().max() <= (x.cumsum(0) - exact).abs().max()
    assert bool((y[1:] >= y[:-1]).all())


def test_scans_along_one_dim() -> None:
    """Two, one of them of the other's result, with more of each element around."""
    x = torch.randint(-4, 5, (3, 2000), generator=torch.Generator().manual_seed(0))
    y = torch.zeros(3, 2000, dtype=torch.int64)
    type = memref(3, 2000, element="i64")
    text = f"""
    func.func @main(%x: {type}, %y: {type}) {{
      lpu_loop.nest [d0 = 3, d1 = 2000] outs(%y : {type}) {{
        %0 = lpu_loop.scan "add" [r1 = 2000] along d1 : i64 {{
          %1 = lpu_loop.scan "max" [r0 = 2000] along r1 : i64 {{
            %2 = lpu_loop.load %x[d0, r0] : {type}
            lpu_loop.yield %2 : i64
          }}
          %3 = lpu_loop.load %x[d0, r1] : {type}
          %4 = arith.muli %1, %3 : i64
          lpu_loop.yield %4 : i64
        }}
        %5 = lpu_loop.scan "min" [r0 = 2000] along d1 : i64 {{
          %6 = lpu_loop.load %x[d0, r0] : {type}
          lpu_loop.yield %6 : i64
        }}
        %7 = lpu_loop.load %x[d0, d1] : {type}
        %8 = arith.muli %5, %7 : i64
        %9 = arith.addi %0, %8 : i64
        lpu_loop.store "replace" %9, %y[d0, d1] : i64, {type}
      }}
      func.return
    }}"""
    run(text, x, y)
    expected = (x.cummax(1).values * x).cumsum(1) + x.cummin(1).values * x
    assert torch.equal(y, expected)


def test_scans_along_two_dims_that_fit_one_tile() -> None:
    x, y = torch.arange(35).view(5, 7), torch.zeros(5, 7, dtype=torch.int64)
    type = memref(5, 7, element="i64")
    text = f"""
    func.func @main(%x: {type}, %y: {type}) {{
      lpu_loop.nest [d0 = 5, d1 = 7] outs(%y : {type}) {{
        %0 = lpu_loop.scan "add" [r0 = 5] along d0 : i64 {{
          %1 = lpu_loop.load %x[r0, d1] : {type}
          lpu_loop.yield %1 : i64
        }}
        %2 = lpu_loop.scan "add" [r0 = 7] along d1 : i64 {{
          %3 = lpu_loop.load %x[d0, r0] : {type}
          lpu_loop.yield %3 : i64
        }}
        %4 = arith.addi %0, %2 : i64
        lpu_loop.store "replace" %4, %y[d0, d1] : i64, {type}
      }}
      func.return
    }}"""
    run(text, x, y)
    assert torch.equal(y, x.cumsum(0) + x.cumsum(1))


# --- scatters -----------------------------------------------------------------------------------


COMBINES = {
    "replace": lambda old, new: new,
    "add": torch.add,
    "mul": torch.mul,
    "max": torch.maximum,
    "min": torch.minimum,
}


def scatter(kind: str, element: str, rows: int | str, columns: int) -> str:
    """`main` puts the rows of %x to the rows of %y that %i names, or combines them."""
    types = (
        memref(rows, 3, element="i64"),
        memref(rows, 3, columns, element=element),
        memref(7, columns, element=element),
    )
    symbols = f'#lpu.symbol<"{rows}", 0, -1, 40>' if isinstance(rows, str) else ""
    scalar = "i8" if element == "ui8" else element
    return f"""
    func.func @main(%i: {types[0]}, %x: {types[1]}, %y: {types[2]})
        attributes {{lpu.symbols = [{symbols}]}} {{
      lpu_loop.nest [d0 = {rows}, d1 = 3, d2 = {columns}] outs(%y : {types[2]}) {{
        %0 = lpu_loop.load %i[d0, d1] : {types[0]}
        %1 = lpu_loop.load %x[d0, d1, d2] : {types[1]}
        lpu_loop.store "{kind}" %1, %y[_0, d2](%0) : {scalar}, {types[2]}
      }}
      func.return
    }}"""


def scattered(kind: str, rows: int, columns: int, element: str) -> tuple[list[Tensor], Tensor]:
    """Arguments for `scatter` and what %y must hold, element after element."""
    generator = torch.Generator().manual_seed(rows)
    index = torch.randint(0, 6, (rows, 3), generator=generator)
    x = (50 * torch.randn(rows, 3, columns, generator=generator)).to(DTYPES[element])
    y = torch.arange(7 * columns).view(7, columns).to(DTYPES[element])
    expected = y.clone()
    for position, row in zip(index.flatten().tolist(), x.flatten(0, 1), strict=True):
        expected[position] = COMBINES[kind](expected[position], row)
    return [index, x, y], expected


@pytest.mark.parametrize("element", ["bf16", "f16", "f32", "i64", "ui8"])
@pytest.mark.parametrize("kind", COMBINES)
@pytest.mark.parametrize("columns", [1, 40])
def test_scatter_goes_through_its_indices_in_order(kind: str, element: str, columns: int) -> None:
    arguments, expected = scattered(kind, 400, columns, element)
    run(scatter(kind, element, 400, columns), *arguments)
    assert torch.equal(arguments[2], expected)


@pytest.mark.parametrize("rows", [0, 1, 63, 300])
@pytest.mark.parametrize("kind", COMBINES)
def test_scatter_of_an_unknown_number_of_rows(kind: str, rows: int) -> None:
    arguments, expected = scattered(kind, rows, 5, "f32")
    run(scatter(kind, "f32", "s0", 5), *arguments, s0=rows)
    assert torch.equal(arguments[2], expected)


def test_adding_in_bf16_is_what_eager_does() -> None:
    arguments, _ = scattered("add", 300, 8, "bf16")
    index, x, y = arguments
    expected = y.index_put((index,), x, accumulate=True)
    run(scatter("add", "bf16", 300, 8), *arguments)
    assert torch.equal(y, expected)


def test_scatter_along_two_dims_of_the_destination() -> None:
    """Both indices are of data, so that elements are addressed one by one."""
    generator = torch.Generator().manual_seed(0)
    i, j = (torch.randint(0, 5, (900,), generator=generator) for _ in range(2))
    x, y = torch.randn(900, generator=generator), torch.zeros(5, 5)
    index, value, out = memref(900, element="i64"), memref(900), memref(5, 5)
    text = f"""
    func.func @main(%i: {index}, %j: {index}, %x: {value}, %y: {out}) {{
      lpu_loop.nest [d0 = 900] outs(%y : {out}) {{
        %0 = lpu_loop.load %i[d0] : {index}
        %1 = lpu_loop.load %j[d0] : {index}
        %2 = lpu_loop.load %x[d0] : {value}
        lpu_loop.store "add" %2, %y[_0, _1](%0, %1) : f32, {out}
      }}
      func.return
    }}"""
    expected = y.index_put((i, j), x, accumulate=True)
    run(text, i, j, x, y)
    assert torch.equal(y, expected)


@pytest.mark.parametrize("n", [40, 3000])
@pytest.mark.parametrize("kind", COMBINES)
def test_a_dim_that_is_not_in_the_address(kind: str, n: int) -> None:
    value, out = memref(3, n, element="i64"), memref(3, element="i64")
    text = f"""
    func.func @main(%x: {value}, %y: {out}) {{
      lpu_loop.nest [d0 = 3, d1 = {n}] outs(%y : {out}) {{
        %0 = lpu_loop.load %x[d0, d1] : {value}
        lpu_loop.store "{kind}" %0, %y[d0] : i64, {out}
      }}
      func.return
    }}"""
    x, y = torch.randint(0, 100, (3, n)), torch.ones(3, dtype=torch.int64)
    expected = y.clone()
    for new in x.unbind(1):
        expected = COMBINES[kind](expected, new)
    run(text, x, y)
    assert torch.equal(y, expected)


CHECKED = f"""
func.func @main(%i: {memref(4, element="i64")}, %x: {memref(5)}, %y: {memref(4)}) {{
  lpu_loop.nest [d0 = 4] outs(%y : {memref(4)}) {{
    %0 = lpu_loop.load %i[d0] : {memref(4, element="i64")}
    %1 = lpu_loop.index 5 : i64
    %2 = arith.cmpi ult, %0, %1 : i64
    CHECK
    %3 = lpu_loop.load %x[_0](%0) : {memref(5)}
    lpu_loop.store "replace" %3, %y[d0] : f32, {memref(4)}
  }}
  func.return
}}"""


def test_what_is_out_of_bounds_raises_the_programs_own_error() -> None:
    index, x, y = torch.tensor([4, 0, 1, 4]), torch.arange(5.0), torch.zeros(4)
    checked = CHECKED.replace("CHECK", 'lpu_loop.check %2, "IndexError", "index out of range"')
    run(checked, index, x, y)
    assert y.tolist() == [4.0, 0.0, 1.0, 4.0]
    for bad in 5, -1:
        index[2] = bad
        with pytest.raises(IndexError, match="index out of range"):
            run(checked, index, x, y)
        with pytest.raises(OutOfBoundsError):
            run(CHECKED.replace("CHECK", ""), index, x, y)


# --- views --------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [-5, -1, 0, 1, 3])
def test_steps_of_either_sign(step: int) -> None:
    """As a constant, and as a symbol whose sign is not known."""
    x, y = torch.arange(300.0), torch.zeros(3, 20)
    symbol = '#lpu.symbol<"s0", -5, 9, 1>'
    for factor, symbols in (step, ""), ("s0", symbol):
        position = f"{factor} * d1 + 20 * d0 + 100"
        text = f"""
        func.func @main(%x: {memref(300)}, %y: {memref(3, 20)})
            attributes {{lpu.symbols = [{symbols}]}} {{
          lpu_loop.nest [d0 = 3, d1 = 20] outs(%y : {memref(3, 20)}) {{
            %0 = lpu_loop.load %x[{position}] : {memref(300)}
            lpu_loop.store "replace" %0, %y[-d0 + 2, d1] : f32, {memref(3, 20)}
          }}
          func.return
        }}"""
        y.zero_()
        run(text, x, y, s0=step)
        rows = torch.arange(3)[:, None] * 20 + 100 + step * torch.arange(20)
        assert torch.equal(y, x[rows].flip(0))


def test_an_element_by_element_access_of_an_empty_buffer() -> None:
    x, y = torch.zeros(0, 6), torch.zeros(0)
    type, out = memref("s0", 6), memref("s0")
    text = f"""
    func.func @main(%x: {type}, %y: {out})
        attributes {{lpu.symbols = [#lpu.symbol<"s0", 0, -1, 9>]}} {{
      lpu_loop.nest [d0 = s0] outs(%y : {out}) {{
        %0 = lpu_loop.load %x[s0 - d0 - 1, 2] : {type}
        lpu_loop.store "replace" %0, %y[d0] : f32, {out}
      }}
      func.return
    }}"""
    run(text, x, y, s0=0)
    x, y = torch.randn(9, 6), torch.zeros(9)
    run(text, x, y, s0=9)
    assert torch.equal(y, x[:, 2].flip(0))


def test_refused_stores_say_why() -> None:
    expanded = 'memref<3x4xf32, #lpu.layout<[3, 4], [0, 1], 0>, "shared_dram">'
    text = f"""
    func.func @main(%y: {expanded}) {{
      lpu_loop.nest [d0 = 3, d1 = 4] outs(%y : {expanded}) {{
        %0 = arith.constant 1.0 : f32
        lpu_loop.store "replace" %0, %y[d0, d1] : f32, {expanded}
      }}
      func.return
    }}"""
    with pytest.raises(PassFailedException, match="a store to the expanded buffer"):
        lower(text)


# --- folds --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "expected"), [("add", [44, 6]), ("xor", [140, 0]), ("mul", [0, 6])]
)
def test_folds_of_unsigned_bytes_wrap(kind: str, expected: list[int]) -> None:
    type, out = memref(3, 2, element="ui8"), memref(2, element="ui8")
    text = f"""
    func.func @main(%x: {type}, %y: {out}) {{
      lpu_loop.nest [d0 = 2] outs(%y : {out}) {{
        %0 = lpu_loop.fold "{kind}" [r0 = 3] : i8 {{
          %1 = lpu_loop.load %x[r0, d0] : {type}
          lpu_loop.yield %1 : i8
        }}
        lpu_loop.store "replace" %0, %y[d0] : i8, {out}
      }}
      func.return
    }}"""
    x = torch.tensor([[200, 1], [16, 2], [84, 3]], dtype=torch.uint8)
    y = torch.zeros(2, dtype=torch.uint8)
    run(text, x, y)
    assert y.tolist() == expected
