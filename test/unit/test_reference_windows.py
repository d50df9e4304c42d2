"""The interpreters, the reference and machine code beside it: windows of memory and loops."""

import pytest
import torch
from kernel_harness import launch
from torch import Tensor

from lpu_mlir.interpreter.reference import (
    ExtentError,
    LaunchStats,
    Memory,
    OutOfBoundsError,
    UnwrittenReadError,
)

pytestmark = pytest.mark.sampled

NAN = float("nan")

TORCH = {
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i8": torch.int8,
    "i64": torch.int64,
    "ui8": torch.uint8,
}


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
    [(0, 0, 7, 1), (-1, 0, 1, 1), (0, 4, 1, 5), (6, 0, 1, 1)],
)
def test_load_out_of_bounds(window: tuple[int, int, int, int]) -> None:
    with pytest.raises(OutOfBoundsError, match=r"@k.*load \(%t\).*reaches outside .*\[6, 8\]"):
        launch(COPY, torch.zeros(6, 8), torch.zeros(8, 8), *window)


def test_windows_at_the_very_end_are_in_bounds() -> None:
    launch(COPY, torch.zeros(6, 8), torch.zeros(8, 8), 5, 7, 1, 1)
    launch(COPY, torch.zeros(6, 8), torch.zeros(8, 8), 6, 8, 0, 0)
    # What has no elements may lie anywhere: a core beyond the last that has work.
    launch(COPY, torch.zeros(6, 8), torch.zeros(8, 8), 9, 0, 0, 1)
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


COPY_ROW = """
lpu_kernel.kernel @k(%x: memref<?x?xf32, #m>, %p: memref<1xi64, #m>, %y: memref<?x?xf32, #m>,
                     %n: index) access [ro, ro, rw] cores 1 {
  lpu_kernel.phase cores(%c) {
    %i = lpu_kernel.load %p[0] [1] : memref<1xi64, #m> -> !t<1xi64>
    %t = lpu_kernel.load %x[0, 0] [1, %n] index 0 by %i
      : memref<?x?xf32, #m>, !t<1xi64> -> !t<1x3xf32>
    lpu_kernel.store %t, %y[0, 0] index 0 by %i
      : !t<1x3xf32>, memref<?x?xf32, #m>, !t<1xi64>
  }
}"""


def test_an_index_that_selects_nothing_may_be_anything() -> None:
    x, y = torch.randn(2, 3), torch.zeros(2, 3)
    launch(COPY_ROW, x, torch.tensor([1]), y, 3)
    assert torch.equal(y[1], x[1])
    launch(COPY_ROW, torch.zeros(0, 0), torch.tensor([5]), torch.zeros(0, 0), 0)
    with pytest.raises(OutOfBoundsError, match="index from 5 to 5 into dim 0"):
        launch(COPY_ROW, x, torch.tensor([5]), y, 3)


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


ADD = """
lpu_kernel.kernel @k(%x: memref<?x3x2xELEMENT, #m>, %p: memref<?x3xi64, #m>,
                     %y: memref<?x2xELEMENT, #m>, %n: index) access [ro, ro, rw] cores 1 {
  lpu_kernel.phase cores(%c) {
    %i = lpu_kernel.load %p[0, 0] [%n, 3] : memref<?x3xi64, #m> -> !t<64x3xi64>
    %t = lpu_kernel.load %x[0, 0, 0] [%n, 3, 2] : memref<?x3x2xELEMENT, #m> -> !t<64x3x2xELEMENT>
    lpu_kernel.store add %t, %y[0, 0] index 0 by %i
      : !t<64x3x2xELEMENT>, memref<?x2xELEMENT, #m>, !t<64x3xi64>
  }
}"""


@pytest.mark.parametrize("n", [0, 1, 40])
@pytest.mark.parametrize("element", ["bf16", "f16", "f32", "f64", "i8", "i64", "ui8"])
def test_indexed_store_adds_in_order_with_a_rounding_each(element: str, n: int) -> None:
    generator = torch.Generator().manual_seed(n)
    x = (100 * torch.randn(n, 3, 2, generator=generator)).to(TORCH[element])
    index = torch.randint(0, 5, (n, 3), generator=generator)
    y = torch.arange(10).view(5, 2).to(TORCH[element])
    expected = y.clone()
    for position, row in zip(index.flatten().tolist(), x.reshape(-1, 2), strict=True):
        expected[position] += row
    stats = launch(ADD.replace("ELEMENT", element), x, index, y, n)
    assert torch.equal(y, expected)
    moved = x.numel() * x.itemsize
    assert stats.dram_read == 2 * moved + index.numel() * 8
    assert stats.dram_written == moved


def test_a_store_adds_to_a_strided_window() -> None:
    text = """
    lpu_kernel.kernel @k(%y: memref<?x?xf32, #m>, %n: index) access [rw] cores 1 {
      lpu_kernel.phase cores(%c) {
        %t = lpu_kernel.fill 2.0 : f32 [2, %n] -> !t<2x4xf32>
        lpu_kernel.store add %t, %y[1, 0] : !t<2x4xf32>, memref<?x?xf32, #m>
      }
    }"""
    y = torch.arange(12.0).view(3, 4).t()
    expected = y.clone()
    expected[1:3, :2] += 2
    launch(text, y, 2)
    assert torch.equal(y, expected)


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


def test_scalars_in_memory() -> None:
    text = """
    lpu_kernel.kernel @k(%x: memref<f32, #m>, %y: memref<f32, #m>) access [ro, wo] cores 1 {
      lpu_kernel.phase cores(%c) {
        %t = lpu_kernel.load %x[] [] : memref<f32, #m> -> !t<f32>
        %r = lpu_kernel.map [] ins(%t as [] : !t<f32>) -> (!t<f32>) {
        ^bb0(%a: f32):
          %b = arith.addf %a, %a : f32
          lpu_kernel.yield %b : f32
        }
        lpu_kernel.store %r, %y[] : !t<f32>, memref<f32, #m>
      }
    }"""
    x, y, memory = torch.tensor(21.0), torch.empty(()), Memory()
    memory.poison(y)
    assert launch(text, x, y, memory=memory) == LaunchStats(4, 4)
    assert y.item() == 42
    memory.poison(x)
    with pytest.raises(UnwrittenReadError):
        launch(text, x, y, memory=memory)


def test_errors_name_the_source_line() -> None:
    text = COPY.replace("-> !t<8x8xf32>", '-> !t<8x8xf32> loc("model.py":12:3)')
    with pytest.raises(OutOfBoundsError, match=r"load \(%t\) at model.py:12:3: window"):
        launch(text, torch.zeros(6, 8), torch.zeros(8, 8), 7, 0, 1, 1)


def test_parameters_that_need_gradients() -> None:
    x, y = torch.nn.Parameter(torch.randn(3, 5)), torch.nn.Parameter(torch.zeros(3, 5))
    launch(COPY, x, y, 0, 0, 3, 5)
    assert torch.equal(x, y)
    assert y.grad_fn is None


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
