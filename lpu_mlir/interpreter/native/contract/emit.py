"""Contractions as LLVM text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from lpu_mlir.dialects.lpu import element_bytes
from lpu_mlir.interpreter.native.contract.arithmetic import Arithmetic
from lpu_mlir.interpreter.native.contract.axes import Axis, axes_of
from lpu_mlir.interpreter.native.contract.cost import choose, choose_sure
from lpu_mlir.interpreter.native.contract.loops import Emission, Scratch
from lpu_mlir.interpreter.native.contract.parts import Contraction
from lpu_mlir.interpreter.native.contract.plan import Plan, known, scalar_plan
from lpu_mlir.interpreter.native.llvm import I1, Builder, Int
from lpu_mlir.interpreter.native.machine import Machine
from lpu_mlir.interpreter.native.tile import View

PART = 512
"""Products that are summed at a time where sums are long and the operands are read again and again,
so that what is read stays near."""
LONG, LONG_ACROSS = 3072, 1024
"""How long that is; and how long where the operands are walked across their rows."""
FEW = 8
"""Rows, or columns, of which there must be more."""


def emit_contract(
    b: Builder,
    machine: Machine,
    lhs: View,
    lhs_dims: Sequence[int],
    rhs: View,
    rhs_dims: Sequence[int],
    out: View,
    *,
    accumulate: bool,
    scratch: Scratch,
) -> None:
    """
    Compute sums of products of two operands, as `lpu_kernel.contract` defines them, into `out`.

    Dims are numbered as in that operation. With `accumulate` the sums are added to what is in
    `out`. The operands do not overlap the result. `scratch` gives memory of so many bytes.
    """
    axes = axes_of(b, lhs, lhs_dims, rhs, rhs_dims, out)
    if any(axis.size == 0 and not axis.summed for axis in axes):
        return
    product = Product(b, machine, lhs, rhs, out, scratch)
    axis = _cut(axes)
    if axis is None:
        product.whole(axes, accumulate)
    else:
        product.in_parts(axes, axis, accumulate)


@dataclass(frozen=True)
class Product:
    """Two operands and where the sums of their products go."""

    b: Builder
    machine: Machine
    lhs: View
    rhs: View
    out: View
    scratch: Scratch

    def whole(self, axes: Sequence[Axis], accumulate: bool) -> None:
        """Everything, by the best plan."""
        if any(axis.size == 0 for axis in axes):
            self.by(scalar_plan(axes), accumulate)
            return
        b, size = self.b, element_bytes(self.out.element)
        machine = (self.machine.lanes(size), self.machine.vector_registers, size)
        plan = choose(axes, *machine)
        extent = plan.vector.size if plan.vector else 1
        if isinstance(extent, int):
            self.by(plan, accumulate)
            return
        # Vectors are never partly filled, so an axis may turn out too short for them.
        short = b.less(extent, plan.lanes)
        with b.when(short):
            self.by(choose_sure(axes, *machine), accumulate)
        with b.when(b.op(I1, f"xor {short}, true")):
            self.by(plan, accumulate)

    def in_parts(self, axes: Sequence[Axis], axis: Axis, accumulate: bool) -> None:
        """One part of an axis after the other, each added to the sums of those before."""
        if not accumulate:
            self.whole([replace(a, size=0) if a.summed else a for a in axes], False)
        size = known(axis.size)
        part = _part(size)
        with self.b.loop(0, size // part) as loop:
            self._part(axes, axis, self.b.mul(loop.index, part), part)
        if size % part:
            self._part(axes, axis, size // part * part, size % part)

    def _part(self, axes: Sequence[Axis], axis: Axis, start: Int, size: int) -> None:
        b = self.b
        lhs = b.address(self.lhs.base, b.mul(start, axis.lhs), self.lhs.element)
        rhs = b.address(self.rhs.base, b.mul(start, axis.rhs), self.rhs.element)
        moved = replace(self, lhs=replace(self.lhs, base=lhs), rhs=replace(self.rhs, base=rhs))
        moved.whole([replace(a, size=size) if a is axis else a for a in axes], True)

    def by(self, plan: Plan, accumulate: bool) -> None:
        """Everything, by this plan; along the axis of its vectors there must be a whole one."""
        operands = (self.rhs, self.lhs) if plan.swapped else (self.lhs, self.rhs)
        arithmetic = Arithmetic(self.b, self.out.element)
        streams = self.machine.streams
        what = Contraction(self.b, arithmetic, *operands, self.out, accumulate, plan, streams)
        Emission(what, self.scratch).run()


def _cut(axes: Sequence[Axis]) -> Axis | None:
    """The summed axis to sum in parts, if sums are so long and so much is read again that this is
    better."""
    summed = [axis for axis in axes if axis.summed]
    if len(summed) != 1 or not isinstance(summed[0].size, int):
        return None
    axis = summed[0]
    if known(axis.size) < (LONG if 1 in (axis.lhs, axis.rhs) else LONG_ACROSS):
        return None
    rows = prod(known(axis.size) for axis in axes if axis.rhs == 0)
    columns = prod(known(axis.size) for axis in axes if axis.lhs == 0)
    return axis if min(rows, columns) > FEW else None


def _part(size: int) -> int:
    """The length of a part: one of which there is a whole number, if there is a good one."""
    divisors = [n for n in range(PART // 2, PART + 1) if size % n == 0]
    return max(divisors, key=lambda n: (n % 16 == 0, n), default=PART)
