"""The scalar body of a map, written from an expression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from lpu_mlir.dialects.expr import Call, Expr
from lpu_mlir.dialects.lpu import i64
from lpu_mlir.nests.scalar import Fold, Index, Load, Node, Op
from lpu_mlir.tiling.online import Held
from lpu_mlir.tiling.writer import KernelArguments


def is_worth_hoisting(node: Node) -> bool:
    """Whether a value rests on memory: bare index arithmetic is as cheap inside the map."""
    if isinstance(node, Load | Fold | Held):
        return True
    return any(is_worth_hoisting(child) for child in node.children)


@dataclass
class MapRegion:
    """The scalar body of a map being written."""

    block: Block
    values: dict[Node, SSAValue]
    dims: Mapping[str, SSAValue]
    arguments: KernelArguments
    casts: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])

    def value(self, node: Node) -> SSAValue:
        found = self.values.get(node)
        if found is None:
            found = self.values[node] = self.build(node)
        return found

    def add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def build(self, node: Node) -> SSAValue:
        match node:
            case Op():
                operands = [self.value(operand) for operand in node.operands]
                return self.add(
                    node.op.create(
                        operands=operands,
                        result_types=[node.type],
                        properties=dict(node.properties),
                    )
                )
            case Index():
                return self.expr(node.expr)
            case _:
                raise TypeError(f"unexpected node {node} in a map")

    def expr(self, expr: Expr) -> SSAValue:
        """An index expression as i64 arithmetic."""
        total: SSAValue | None = None
        for monomial, coefficient in expr.terms:
            term: SSAValue | None = None
            if coefficient != 1 or not monomial:
                term = self.constant(coefficient)
            for atom in monomial:
                factor = self.call(atom) if isinstance(atom, Call) else self.name(atom)
                term = factor if term is None else self.add(arith.MuliOp(term, factor))
            assert term is not None
            total = term if total is None else self.add(arith.AddiOp(total, term))
        return self.constant(0) if total is None else total

    def constant(self, value: int) -> SSAValue:
        return self.add(arith.ConstantOp(IntegerAttr(value, i64)))

    def call(self, call: Call) -> SSAValue:
        op = {"floordiv": arith.FloorDivSIOp, "min": arith.MinSIOp, "max": arith.MaxSIOp}
        return self.add(op[call.kind](self.expr(call.lhs), self.expr(call.rhs)))

    def name(self, name: str) -> SSAValue:
        if name not in self.casts:
            source = self.dims.get(name)
            source = self.arguments.symbol(name) if source is None else source
            self.casts[name] = self.add(arith.IndexCastOp(source, i64))
        return self.casts[name]
