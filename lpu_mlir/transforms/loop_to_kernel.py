"""Lowers loop nests to kernels: cores, memory spaces, tiles and explicit data movement.

Each nest becomes a kernel and a launch on views of its buffers.  The work is in `lpu_mlir.tiling`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException

from lpu_mlir.dialects import lpu_kernel
from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu import extents, strides, symbol_ranges, symbols
from lpu_mlir.dialects.lpu_host import LaunchOp, ViewOp
from lpu_mlir.dialects.lpu_loop import NestOp
from lpu_mlir.model.target import Target, get_target
from lpu_mlir.nests.nest import Nest, read_parts
from lpu_mlir.nests.scalar import Scalars
from lpu_mlir.tiling.emit import Emitter
from lpu_mlir.tiling.plan import Part, Plan, make_part, make_plans, require_order, used_cores
from lpu_mlir.tiling.split import cut_to_known, distinguish
from lpu_mlir.tiling.writer import KernelArguments
from lpu_mlir.transforms.verify_level import check_level


@dataclass(frozen=True)
class KernelLowering:
    """Lowers the nests of one function."""

    function: func.FuncOp
    target: Target

    def hints(self) -> Mapping[str, int]:
        return {s.symbol.data: s.hint.data for s in symbols(self.function)}

    def run(self) -> list[lpu_kernel.KernelOp]:
        kernels: list[lpu_kernel.KernelOp] = []
        for op in list(self.function.body.block.ops):
            if isinstance(op, NestOp) and any(extent == 0 for _, extent in op.dims.data):
                Rewriter.erase_op(op)  # it does nothing
            elif isinstance(op, NestOp):
                name = f"{self.function.sym_name.data}_{len(kernels)}"
                kernels.append(self.lower(op, name))
        return kernels

    def lower(self, op: NestOp, name: str) -> lpu_kernel.KernelOp:
        try:
            require_distinct(op)
            return self.kernel(op, name)
        except (NotImplementedError, IndexError) as error:
            op.emit_error(str(error), PassFailedException(str(error)))

    def kernel(self, op: NestOp, name: str) -> lpu_kernel.KernelOp:
        scalars = Scalars(dict(symbol_ranges(self.function)))
        outs = list(op.outs)
        parts = self.parts(op, scalars)
        phases = self.phases(parts)
        cores = max(
            (used_cores(nest, plan, self.target) for phase in phases for nest, plan in phase),
            default=1,
        )
        kernel = lpu_kernel.KernelOp(name, [], cores, [])
        arguments = KernelArguments(kernel.body.block)
        for planned in phases:
            phase = lpu_kernel.PhaseOp()
            kernel.body.block.add_op(phase)
            Emitter(planned, scalars, self.target, outs, phase, cores, arguments).run()
        modes = [StringAttr(arguments.modes[access]) for access in arguments.views]
        kernel.access = ArrayAttr(modes)
        kernel.location = op.location
        self.launch(op, kernel, arguments)
        return kernel

    def parts(self, op: NestOp, scalars: Scalars) -> list[Part]:
        """The parts of a nest, cut until all is known, each dim with a name of its own."""
        outs = list(op.outs)
        cut: list[Nest] = []
        for nest in read_parts(op, scalars):
            require_order(nest, outs, scalars)
            cut += cut_to_known(nest, scalars)
        named = distinguish(cut, scalars)
        for nest in named:
            scalars.ranges.update(nest.ranges())
        return [make_part(nest, outs, scalars) for nest in named]

    def phases(self, parts: Sequence[Part]) -> list[list[tuple[Nest, Plan]]]:
        """Plans for the parts, in one phase if SRAM has room for the tiles of all; a channel keeps
        its place for a whole phase."""
        groups = [list(parts)] if self.plans(parts) is not None else self.share_out(parts)
        planned = [(group, self.plans(group) or ()) for group in groups]
        return [
            [(part.nest, plan) for part, plan in zip(group, plans, strict=True)]
            for group, plans in planned
        ]

    def share_out(self, parts: Sequence[Part]) -> list[list[Part]]:
        """The parts in groups that have room in SRAM; a part alone takes what there is."""
        groups: list[list[Part]] = [[parts[0]]]
        for part in parts[1:]:
            if self.plans([*groups[-1], part]) is None:
                groups.append([])
            groups[-1].append(part)
        return groups

    def plans(self, parts: Sequence[Part]) -> list[Plan] | None:
        return make_plans(parts, self.target, self.hints())

    def launch(self, op: NestOp, kernel: lpu_kernel.KernelOp, arguments: KernelArguments) -> None:
        views: list[SSAValue] = []
        new: list[ViewOp | LaunchOp] = []
        for access in arguments.views:
            type = access.view_type()
            if type == access.buffer.type:
                views.append(access.buffer)
                continue
            view = ViewOp(access.buffer, type)
            new.append(view)
            views.append(view.output)
        indices = [Expr.name(name) for name in arguments.symbols]
        launch = LaunchOp(kernel.sym_name.data, views, indices)
        launch.location = op.location
        Rewriter.replace_op(op, [*new, launch], [])


def require_distinct(op: NestOp) -> None:
    """Raise NotImplementedError for a destination with several indices for one element."""
    for out in op.outs:
        for extent, stride in zip(extents(out.type), strides(out.type), strict=True):
            if stride == 0 and extent != 1:
                raise NotImplementedError(f"a store to the expanded buffer {out.type}")


@dataclass(frozen=True)
class LoopToKernelPass(ModulePass):
    """Lowers `lpu_loop` on memrefs to `lpu_kernel` and `lpu_host`.

    Before:
    ```mlir
    lpu_loop.nest [d0 = 64] outs(%y : memref<64xf32, "shared_dram">) {
      %0 = lpu_loop.load %x[d0] : memref<64xf32, "shared_dram">
      %1 = math.exp %0 : f32
      lpu_loop.store "replace" %1, %y[d0] : f32, memref<64xf32, "shared_dram">
    }
    ```
    After, on 4 cores:
    ```mlir
    lpu_kernel.kernel @f_0(%y: memref<64xf32, "shared_dram">, …) access [wo, ro] cores 4 {
      lpu_kernel.phase cores(%c) {
        %0 = lpu_kernel.apply <16 * d0>(%c)
        %1 = lpu_kernel.load %x[%0] [16] : … -> !lpu_kernel.tile<16xf32>
        %2 = lpu_kernel.map [16] at [%0] ins(%1 as [0] : …) -> (!lpu_kernel.tile<16xf32>) { … }
        lpu_kernel.store %2, %y[%0] : …
      }
    }
    …
    lpu_host.launch @f_0(%x, %y) indices <[]> : …
    ```
    """

    name = "loop-to-kernel"

    target: str = "bertha"
    """A name of `model.target.TARGETS`."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        try:
            target = get_target(self.target)
        except ValueError as error:
            raise PassFailedException(str(error)) from error
        for function in list(op.ops):
            if isinstance(function, func.FuncOp) and function.body.blocks:
                kernels = KernelLowering(function, target).run()
                if kernels:
                    op.body.block.insert_ops_before(kernels, function)
        check_level(op, "kernel")
