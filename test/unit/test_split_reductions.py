"""Reductions divided among the cores of a small machine, against PyTorch."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from xdsl.parser import Parser

from lpu_mlir.interpreter.reference import InterpreterParams
from lpu_mlir.model.target import get_target
from lpu_mlir.pipeline import make_context
from lpu_mlir.runtime.program import Program
from lpu_mlir.runtime.stats import RunStats
from lpu_mlir.transforms.allocate_sram import AllocateSramPass
from lpu_mlir.transforms.bufferize import BufferizePass
from lpu_mlir.transforms.loop_to_kernel import LoopToKernelPass
from lpu_mlir.transforms.plan_memory import PlanMemoryPass
from lpu_mlir.transforms.split_movement import SplitMovementPass
from lpu_mlir.transforms.split_reductions import SplitReductionsPass

pytestmark = pytest.mark.sampled

TINY = get_target("tiny")
DTYPES = {"f32": torch.float32, "i64": torch.int64, "i1": torch.bool, "ui8": torch.uint8}


def run(text: str, *arguments: Tensor, **symbols: int) -> RunStats:
    """Run @main of `lpu_loop` on tensors; the results are the last arguments."""
    context = make_context()
    module = Parser(context, text).parse_module()
    module.verify()
    for transform in (
        SplitReductionsPass(TINY.cores, 1000),
        BufferizePass(),
        PlanMemoryPass(),
        LoopToKernelPass("tiny"),
        SplitMovementPass(TINY.channel_depth),
        AllocateSramPass(TINY.sram_bytes),
    ):
        transform.apply(context, module)
        module.verify()
    program = Program(module, InterpreterParams(sram_bytes=TINY.sram_bytes, seed=1))
    stats = RunStats()
    program.execute(arguments[:-1], arguments[-1:], symbols, stats)
    return stats


def reduction(kind: str, element: str, shape: str, extents: str, *folded: int) -> str:
    """Folds dims of %x, whose type is tensor<`shape` x `element`>."""
    sizes = extents.split(", ")
    scalar = "i8" if element == "ui8" else element
    layout = "" if "?" not in shape else f", #lpu.shape<[{extents}]>"
    kept = [n for n in range(len(sizes)) if n not in folded]
    names = {axis: f"r{n}" for n, axis in enumerate(folded)} | {
        axis: f"d{n}" for n, axis in enumerate(kept)
    }
    index = ", ".join(names[n] for n in range(len(sizes)))
    dims = ", ".join(f"{names[n]} = {sizes[n]}" for n in kept)
    bound = ", ".join(f"{names[n]} = {sizes[n]}" for n in folded)
    out = "".join(f"{sizes[n]}x" for n in kept) + element
    here = ", ".join(names[n] for n in kept)
    return f"""
    func.func @main(%x: tensor<{shape}x{element}{layout}>) -> tensor<{out}>
        attributes {{lpu.symbols = [#lpu.symbol<"s0", 0, -1, 5000>]}} {{
      %e = lpu_loop.empty : tensor<{out}>
      %y = lpu_loop.nest [{dims}] outs(%e : tensor<{out}>) {{
        %0 = lpu_loop.fold "{kind}" [{bound}] : {scalar} {{
          %1 = lpu_loop.load %x[{index}] : tensor<{shape}x{element}{layout}>
          lpu_loop.yield %1 : {scalar}
        }}
        lpu_loop.store "replace" %0, %e[{here}] : {scalar}, tensor<{out}>
      }} -> tensor<{out}>
      func.return %y : tensor<{out}>
    }}"""


FOLDS: list[tuple[str, str, Callable[[Tensor], Tensor]]] = [
    ("add", "f32", torch.sum),
    ("add", "i64", torch.sum),
    ("add", "ui8", lambda x: x.sum(dtype=torch.uint8)),
    ("mul", "i64", torch.prod),
    ("max", "f32", torch.max),
    ("min", "i64", torch.min),
    ("max", "i1", torch.any),
    ("and", "i1", torch.all),
    ("or", "i1", torch.any),
    ("xor", "i1", lambda x: x.sum() % 2 == 1),
]


def numbers(element: str, *shape: int) -> Tensor:
    """Small whole numbers, most of them not 0, whose sums are exact."""
    generator = torch.Generator().manual_seed(sum(shape))
    if element == "i1":
        return torch.rand(shape, generator=generator) < 0.999
    return torch.randint(-9, 10, shape, generator=generator).to(DTYPES[element])


@pytest.mark.parametrize(("kind", "element", "expected"), FOLDS)
@pytest.mark.parametrize("n", [4000, 4003])
def test_a_fold_of_everything(
    kind: str, element: str, expected: Callable[[Tensor], Tensor], n: int
) -> None:
    x, y = numbers(element, n), torch.zeros((), dtype=DTYPES[element])
    stats = run(reduction(kind, element, str(n), str(n), 0), x, y)
    assert torch.equal(y, expected(x))
    assert len(stats.kernels) == 2
    assert sum(use.dram_read for use in stats.kernels.values()) <= (n + 4) * x.itemsize


@pytest.mark.parametrize("n", [0, 1, 3, 4, 7, 2001])
@pytest.mark.parametrize("kind", ["add", "max"])
def test_an_unknown_extent(kind: str, n: int) -> None:
    x, y = numbers("f32", n), torch.zeros(())
    run(reduction(kind, "f32", "?", "s0", 0), x, y, s0=n)
    expected = x.sum() if kind == "add" else torch.cat([x, torch.tensor([-torch.inf])]).max()
    assert torch.equal(y, expected)


def test_nan_in_any_part_wins() -> None:
    for position in 0, 1500, 3999, 4002:
        x, y = numbers("f32", 4003), torch.zeros(())
        x[position] = torch.nan
        run(reduction("max", "f32", "4003", "4003", 0), x, y)
        assert y.isnan()


@pytest.mark.parametrize("folded", [(0, 1), (1, 2), (0, 2), (2, 0, 1), (1,)])
def test_several_dims(folded: tuple[int, ...]) -> None:
    sizes = [5, 5, 5]
    sizes[max(folded)] = 1003
    for axis in range(3):
        if axis not in folded:
            sizes[axis] = 1
    x = numbers("f32", *sizes)
    y = x.sum(folded)
    expected = y.clone()
    stats = run(reduction("add", "f32", "x".join(map(str, sizes)), str(sizes)[1:-1], *folded), x, y)
    assert torch.equal(y, expected)
    assert len(stats.kernels) == 2


def test_a_fold_of_what_another_fold_gives() -> None:
    """The sum of squares around the mean: each of the two folds is divided, in turn."""
    x, y = torch.randn(4001, generator=torch.Generator().manual_seed(0)), torch.zeros(())
    text = """
    func.func @main(%x: tensor<4001xf32>) -> tensor<f32> {
      %e = lpu_loop.empty : tensor<f32>
      %y = lpu_loop.nest [] outs(%e : tensor<f32>) {
        %n = arith.constant 4001.0 : f32
        %0 = lpu_loop.fold "add" [r0 = 4001] : f32 {
          %1 = lpu_loop.load %x[r0] : tensor<4001xf32>
          lpu_loop.yield %1 : f32
        }
        %m = arith.divf %0, %n : f32
        %2 = lpu_loop.fold "add" [r0 = 4001] : f32 {
          %3 = lpu_loop.load %x[r0] : tensor<4001xf32>
          %4 = arith.subf %3, %m : f32
          %5 = arith.mulf %4, %4 : f32
          lpu_loop.yield %5 : f32
        }
        lpu_loop.store "replace" %2, %e[] : f32, tensor<f32>
      } -> tensor<f32>
      func.return %y : tensor<f32>
    }"""
    stats = run(text, x, y)
    assert len(stats.kernels) == 3
    wide = x.double()
    expected = ((wide - wide.mean()) ** 2).sum()
    torch.testing.assert_close(y.double(), expected, rtol=1e-6, atol=0)
