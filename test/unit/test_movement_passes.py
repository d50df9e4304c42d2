"""What split-movement and allocate-sram may not change: results, byte counts, and safety."""

import random

import pytest
import torch
from torch import Tensor
from xdsl.context import Context
from xdsl.dialects import arith, builtin, math
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from lpu_mlir.dialects.lpu import Lpu
from lpu_mlir.dialects.lpu_kernel import KernelOp, LoadOp, LpuKernel
from lpu_mlir.interpreter.reference import (
    CompiledKernel,
    InterpreterParams,
    LaunchStats,
    Memory,
    SramCapacityError,
    UnwrittenReadError,
)
from lpu_mlir.transforms.allocate_sram import AllocateSramPass
from lpu_mlir.transforms.split_movement import SplitMovementPass

pytestmark = pytest.mark.sampled

SRAM = 1 << 14


def parse(text: str) -> tuple[Context, ModuleOp]:
    context = Context()
    for dialect in (builtin.Builtin, arith.Arith, math.Math, Lpu, LpuKernel):
        context.load_dialect(dialect)
    text = text.replace("!t<", "!lpu_kernel.tile<").replace("#m", '"shared_dram"')
    return context, Parser(context, text).parse_module()


def run(module: ModuleOp, args: list[Tensor | int], seed: int = 0) -> LaunchStats:
    module.verify()
    (kernel,) = (op for op in module.body.block.ops if isinstance(op, KernelOp))
    params = InterpreterParams(sram_bytes=SRAM, seed=seed)
    return CompiledKernel(kernel).launch(args, Memory(), params)


def fresh(args: list[Tensor | int]) -> list[Tensor | int]:
    return [arg.clone() if isinstance(arg, Tensor) else arg for arg in args]


ATTENTION = """
lpu_kernel.kernel @attention(%q: memref<8x16xf32, #m>, %k: memref<?x16xf32, #m>,
    %v: memref<?x16xf32, #m>, %y: memref<8x16xf32, #m>, %n: index)
    access [ro, ro, ro, wo] cores 4 {
  lpu_kernel.phase cores(%c) {
    %row = lpu_kernel.apply <2 * d0>(%c)
    %qt = lpu_kernel.load %q[%row, 0] [2, 16] : memref<8x16xf32, #m> -> !t<2x16xf32>
    %m0 = lpu_kernel.fill -1.0e30 : f32 [2] -> !t<2xf32>
    %s0 = lpu_kernel.fill 0.0 : f32 [2] -> !t<2xf32>
    %a0 = lpu_kernel.fill 0.0 : f32 [2, 16] -> !t<2x16xf32>
    %m, %s, %a = lpu_kernel.for sequential %i = 0 to %n step 4
        iter_args(%m1 = %m0, %s1 = %s0, %a1 = %a0) -> (!t<2xf32>, !t<2xf32>, !t<2x16xf32>) {
      %w = lpu_kernel.apply <min(4, d0 - d1)>(%n, %i)
      %kt = lpu_kernel.load %k[%i, 0] [%w, 16] : memref<?x16xf32, #m> -> !t<4x16xf32>
      %vt = lpu_kernel.load %v[%i, 0] [%w, 16] : memref<?x16xf32, #m> -> !t<4x16xf32>
      %z = lpu_kernel.contract %qt as [0, 2], %kt as [1, 2]
        : !t<2x16xf32>, !t<4x16xf32> -> !t<2x4xf32>
      %m2 = lpu_kernel.fold max %z [1] acc(%m1 : !t<2xf32>) : !t<2x4xf32> -> !t<2xf32>
      %p = lpu_kernel.map [2, %w] ins(%z as [0, 1], %m2 as [0] : !t<2x4xf32>, !t<2xf32>)
          -> (!t<2x4xf32>) {
      ^bb0(%i0: index, %i1: index, %b0: f32, %b1: f32):
        %d = arith.subf %b0, %b1 : f32
        %e = math.exp %d : f32
        lpu_kernel.yield %e : f32
      }
      %r = lpu_kernel.map [2] ins(%m1 as [0], %m2 as [0] : !t<2xf32>, !t<2xf32>) -> (!t<2xf32>) {
      ^bb0(%i0: index, %b0: f32, %b1: f32):
        %d = arith.subf %b0, %b1 : f32
        %e = math.exp %d : f32
        lpu_kernel.yield %e : f32
      }
      %s2 = lpu_kernel.map [2] ins(%s1 as [0], %r as [0] : !t<2xf32>, !t<2xf32>) -> (!t<2xf32>) {
      ^bb0(%i0: index, %b0: f32, %b1: f32):
        %d = arith.mulf %b0, %b1 : f32
        lpu_kernel.yield %d : f32
      }
      %s3 = lpu_kernel.fold add %p [1] acc(%s2 : !t<2xf32>) : !t<2x4xf32> -> !t<2xf32>
      %a2 = lpu_kernel.map [2, 16] ins(%a1 as [0, 1], %r as [0] : !t<2x16xf32>, !t<2xf32>)
          -> (!t<2x16xf32>) {
      ^bb0(%i0: index, %i1: index, %b0: f32, %b1: f32):
        %d = arith.mulf %b0, %b1 : f32
        lpu_kernel.yield %d : f32
      }
      %a3 = lpu_kernel.contract %p as [0, 2], %vt as [2, 1] acc(%a2 : !t<2x16xf32>)
        : !t<2x4xf32>, !t<4x16xf32> -> !t<2x16xf32>
      lpu_kernel.yield %m2, %s3, %a3 : !t<2xf32>, !t<2xf32>, !t<2x16xf32>
    }
    %o = lpu_kernel.map [2, 16] ins(%a as [0, 1], %s as [0] : !t<2x16xf32>, !t<2xf32>)
        -> (!t<2x16xf32>) {
    ^bb0(%i0: index, %i1: index, %b0: f32, %b1: f32):
      %d = arith.divf %b0, %b1 : f32
      lpu_kernel.yield %d : f32
    }
    lpu_kernel.store %o, %y[%row, 0] : !t<2x16xf32>, memref<8x16xf32, #m>
  }
}"""


@pytest.mark.parametrize("n", [1, 4, 11])
def test_attention_is_the_same_after_each_pass(n: int) -> None:
    q, k, v = torch.randn(8, 16), torch.randn(n, 16), torch.randn(n, 16)
    expected = torch.softmax(q @ k.t(), 1) @ v
    context, module = parse(ATTENTION)
    args: list[Tensor | int] = [q, k, v, torch.zeros(8, 16), n]
    # Keys and values are the same for all cores, the queries are not.
    stats = LaunchStats(dram_read=8 * 64 + 2 * n * 64, dram_written=8 * 64)
    for step in (None, SplitMovementPass(), AllocateSramPass(sram_bytes=SRAM)):
        if step is not None:
            step.apply(context, module)
        for seed in range(2):
            outputs = fresh(args)
            assert run(module, outputs, seed) == stats
            torch.testing.assert_close(outputs[3], expected)
    assert not any(isinstance(op, LoadOp) for op in module.walk())


def random_kernel(generator: random.Random) -> str:
    """Tiles of many lifetimes and sizes, in nested loops, with loads in all of them."""
    names = iter(range(10_000))
    type = "!t<{}xf32>"
    sizes = [1, 3, 16, 40]

    def statements(depth: int, visible: dict[int, list[str]], indices: list[str]) -> list[str]:
        lines: list[str] = []
        scope = {size: list(tiles) for size, tiles in visible.items()}
        for _ in range(generator.randint(2, 6)):
            size = generator.choice(sizes)
            name = f"%v{next(names)}"
            kind = generator.choice(["load", "add", "add", "store", "loop" if depth < 2 else "add"])
            if kind == "load" or not scope[size]:
                at, index = f"%o{next(names)}", generator.choice(indices)
                lines.append(f"{at} = lpu_kernel.apply <d0 + {generator.randint(0, 3)}>({index})")
                lines.append(
                    f"{name} = lpu_kernel.load %x[{at}] [{size}] : memref<64xf32, #m> -> "
                    + type.format(size)
                )
            elif kind == "add":
                a, b = generator.choice(scope[size]), generator.choice(scope[size])
                s = type.format(size)
                lines.append(f"""{name} = lpu_kernel.map [{size}] ins({a} as [0], {b} as [0]
                  : {s}, {s}) -> ({s}) {{
                ^bb0(%p{next(names)}: index, %a{name[2:]}: f32, %b{name[2:]}: f32):
                  %s{name[2:]} = arith.addf %a{name[2:]}, %b{name[2:]} : f32
                  lpu_kernel.yield %s{name[2:]} : f32
                }}""")
            elif kind == "store":
                tile = generator.choice(scope[size])
                lines.append(
                    f"lpu_kernel.store {tile}, %y[%c, 0] : {type.format(size)}, "
                    "memref<4x40xf32, #m>"
                )
                lines[-1] = lines[-1].replace(tile, f"{name}", 1)
                lines.insert(
                    -1,
                    f"""{name} = lpu_kernel.map [1, {size}] ins({tile} as [1] : {type.format(size)})
                  -> (!t<1x{size}xf32>) {{
                ^bb0(%p{next(names)}: index, %q{next(names)}: index, %a{name[2:]}: f32):
                  lpu_kernel.yield %a{name[2:]} : f32
                }}""",
                )
                lines[-1] = lines[-1].replace(f": {type.format(size)}, m", f": !t<1x{size}xf32>, m")
                continue
            else:
                init = generator.choice(scope[size])
                index, carried = f"%i{next(names)}", f"%c{next(names)}"
                inner = {k: list(t) for k, t in scope.items()}
                inner[size].append(carried)
                trips = generator.choice(["0", "1", "3", "%n"])
                body = statements(depth + 1, inner, [*indices, index])
                result = [f"%{line.split()[0][1:]}" for line in body if line.startswith("%v")]
                own = [v for v in result if f"{v} = lpu_kernel.map [{size}]" in "\n".join(body)]
                out = generator.choice([*own, carried, init])
                s = type.format(size)
                lines.append(
                    f"{name} = lpu_kernel.for sequential {index} = 0 to {trips} step 1 "
                    f"iter_args({carried} = {init}) -> ({s}) {{"
                )
                lines += [*body, f"lpu_kernel.yield {out} : {s}", "}"]
            scope[size].append(name)
        return lines

    empty: dict[int, list[str]] = {size: [] for size in sizes}
    body = "\n".join(statements(0, empty, ["%c", "%n"]))
    return f"""
    lpu_kernel.kernel @k(%x: memref<64xf32, #m>, %y: memref<4x40xf32, #m>, %n: index)
        access [ro, rw] cores 4 {{
      lpu_kernel.phase cores(%c) {{
        {body}
      }}
    }}"""


@pytest.mark.parametrize("seed", range(40))
def test_random_kernels_are_the_same_after_both_passes(seed: int) -> None:
    text = random_kernel(random.Random(seed))
    context, module = parse(text)
    args: list[Tensor | int] = [torch.randn(64), torch.zeros(4, 40), 2]
    before = fresh(args)
    stats = run(module, before)
    SplitMovementPass().apply(context, module)
    split = fresh(args)
    assert run(module, split, seed) == stats
    AllocateSramPass(sram_bytes=SRAM).apply(context, module)
    placed = fresh(args)
    assert run(module, placed, seed) == stats
    for outputs in (split, placed):
        assert torch.equal(outputs[1], before[1])


def test_the_interpreter_holds_allocation_to_the_capacity() -> None:
    context, module = parse(ATTENTION)
    AllocateSramPass(sram_bytes=SRAM).apply(context, module)
    (kernel,) = (op for op in module.body.block.ops if isinstance(op, KernelOp))
    args = [torch.zeros(8, 16), torch.zeros(4, 16), torch.zeros(4, 16), torch.zeros(8, 16), 4]
    with pytest.raises(SramCapacityError):
        CompiledKernel(kernel).launch(args, Memory(), InterpreterParams(sram_bytes=1024))


def test_what_a_request_must_not_run_ahead_of_stays_a_load() -> None:
    text = """
    lpu_kernel.kernel @k(%x: memref<4xf32, #m>) access [rw] cores 4 {
      lpu_kernel.phase cores(%c) {
        %z = lpu_kernel.fill 1.0 : f32 [1] -> !t<1xf32>
        lpu_kernel.store %z, %x[%c] : !t<1xf32>, memref<4xf32, #m>
        %t = lpu_kernel.load %x[%c] [1] : memref<4xf32, #m> -> !t<1xf32>
      }
    }"""
    context, module = parse(text)
    SplitMovementPass().apply(context, module)
    (kernel,) = (op for op in module.body.block.ops if isinstance(op, KernelOp))
    x, memory = torch.empty(4), Memory()
    memory.poison(x)
    CompiledKernel(kernel).launch([x], memory, InterpreterParams())
    # Were it requested, top would read before the cores store.
    requested = text.replace(
        "lpu_kernel.phase cores(%c) {",
        """lpu_kernel.channel @a depth 1 : !t<1xf32>
        lpu_kernel.phase top(%d) {
          lpu_kernel.request @a %x[%d] [1] to each : memref<4xf32, #m>
        } cores(%c) {""",
    ).replace("lpu_kernel.load %x[%c] [1] : memref<4xf32, #m> ->", "lpu_kernel.receive @a :")
    _, module = parse(requested)
    module.verify()
    (kernel,) = (op for op in module.body.block.ops if isinstance(op, KernelOp))
    memory.poison(x)
    with pytest.raises(UnwrittenReadError, match=r"lpu_kernel\.request"):
        CompiledKernel(kernel).launch([x], memory, InterpreterParams())
