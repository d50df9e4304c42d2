"""Writes into the nested loops of a phase: operations, index arithmetic, loops, arguments."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, SSAValue

from lpu_mlir.dialects import lpu_kernel
from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu_kernel import Index as KernelIndex
from lpu_mlir.tiling.access import Access


@dataclass
class Level:
    """A block being filled; while a loop inside it is open, operations go before that loop."""

    block: Block
    loop: Operation | None = None

    def add(self, op: Operation) -> None:
        if self.loop is None:
            self.block.add_op(op)
        else:
            self.block.insert_op_before(op, self.loop)


@dataclass
class KernelArguments:
    """The kernel's arguments, made as they are needed: views of buffers, then symbols."""

    block: Block
    views: dict[Access, SSAValue] = field(default_factory=dict[Access, SSAValue])
    symbols: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    modes: dict[Access, str] = field(default_factory=dict[Access, str])

    def view(self, access: Access, mode: str) -> SSAValue:
        access = replace(access, index=None)
        known = self.modes.setdefault(access, mode)
        if known != mode:
            self.modes[access] = "rw"
        if access not in self.views:
            position = len(self.views)
            self.views[access] = self.block.insert_arg(access.kernel_type(), position)
        return self.views[access]

    def symbol(self, name: str) -> SSAValue:
        if name not in self.symbols:
            position = len(self.block.args)
            self.symbols[name] = self.block.insert_arg(IndexType(), position)
            self.symbols[name].name_hint = name
        return self.symbols[name]


class Writer:
    """The levels of a phase: its block, and the loops that are open in it, outermost first."""

    def __init__(self, block: Block, arguments: KernelArguments):
        self.arguments = arguments
        self.levels = [Level(block)]
        self.numbers: dict[object, SSAValue] = {}

    def add(self, op: Operation, level: int) -> SSAValue:
        self.levels[level].add(op)
        return op.results[0]

    def number(self, expr: Expr, values: Mapping[str, KernelIndex], level: int) -> KernelIndex:
        """An expression over loop variables and symbols as an index known at a level."""
        known = {n: Expr.const(v) for n, v in values.items() if isinstance(v, int)}
        expr = expr.substitute(known)
        constant = expr.constant()
        if constant is not None:
            return constant
        names = sorted(expr.names())
        operands = [
            v if isinstance(v := values.get(n), SSAValue) else self.arguments.symbol(n)
            for n in names
        ]
        positional = {name: Expr.name(f"d{i}") for i, name in enumerate(names)}
        if len(names) == 1 and expr == Expr.name(names[0]):
            return operands[0]
        key = (expr, tuple(operands), self.levels[level].block)
        if key not in self.numbers:
            op = lpu_kernel.ApplyOp(expr.substitute(positional), operands)
            self.numbers[key] = self.add(op, level)
        return self.numbers[key]

    @contextmanager
    def loop(
        self, kind: str, upper: KernelIndex, step: int, level: int, carried: Sequence[SSAValue]
    ) -> Generator[lpu_kernel.ForOp]:
        """Opens a loop inside the block of `level`; its body is the level after."""
        op = lpu_kernel.ForOp(kind, 0, upper, step, carried)
        self.levels[level].add(op)
        outer, before = self.levels, self.levels[level].loop
        self.levels[level].loop = op
        self.levels = [*outer[: level + 1], Level(op.body.block)]
        yield op
        self.levels = outer
        self.levels[level].loop = before
