"""What the operations of a nest share: dims in scope, kinds, effects."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from typing import ClassVar, TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    traits_def,
)
from xdsl.traits import (
    EffectInstance,
    IsTerminator,
    MemoryEffect,
    MemoryEffectKind,
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu import DimsAttr

Dim: TypeAlias = tuple[str, Expr]

FOLDS = ("add", "mul", "max", "min", "and", "or", "xor")
SCANS = ("add", "mul", "max", "min")
STORES = ("replace", *SCANS)
CHECKS = ("IndexError", "ZeroDivisionError", "RuntimeError")


_DIM = re.compile(r"[drt]\d+")
"""Names of dims: of nests, of folds, and those handed out while expressions are rewritten."""


def indirect_name(position: int) -> str:
    """The name by which an index expression refers to its operation's n-th index operand."""
    return f"_{position}"


class LoadEffect(MemoryEffect):
    """A load reads memory once its operand is a memref; a tensor is a value."""

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance] | None:
        if isinstance(op.operands[0].type, TensorType):
            return frozenset()
        return frozenset({EffectInstance(MemoryEffectKind.READ)})


class LoopOp(IRDLOperation):
    """Helpers shared by the operations of a nest's body."""

    def expect(self, holds: bool, message: str) -> None:
        if not holds:
            raise VerifyException(f"{self.name}: {message}")

    def expect_kind(self, kind: str, known: Sequence[str]) -> None:
        self.expect(kind in known, f"unknown kind '{kind}', expected one of {', '.join(known)}")

    def dims_in_scope(self) -> dict[str, Expr]:
        """The dims of the nest and of the folds around this operation, and their extents."""
        dims: dict[str, Expr] = {}
        parent = self.parent_op()
        while parent is not None:
            if isinstance(parent, DimsOp):
                dims.update(parent.dims.data)
                if parent.OUTERMOST:
                    return dims
            parent = parent.parent_op()
        raise VerifyException(f"{self.name}: must be inside lpu_loop.nest")

    def expect_names(
        self, exprs: Sequence[Expr], known: Collection[str], indirect: int = 0
    ) -> None:
        """Every dim-like name must be known; other names are symbols of the function."""
        indices = {indirect_name(i) for i in range(indirect)}
        for expr in exprs:
            for name in expr.names() - indices - set(known):
                self.expect(
                    not name.startswith("_") and not _DIM.fullmatch(name),
                    f"'{name}' in [{expr}] is no dim or index in scope",
                )

    def expect_dims(self, dims: Sequence[Dim], letter: str, outer: Collection[str]) -> None:
        """Dims are named by a letter and a number; their extents are known outside."""
        names = [name for name, _ in dims]
        self.expect(len(set(names)) == len(names), f"dims {names} are not distinct")
        for name, extent in dims:
            well_named = name[0] == letter and _DIM.fullmatch(name) is not None
            self.expect(well_named, f"dim '{name}' must be named {letter}0, {letter}1, …")
            self.expect((extent.constant() or 0) >= 0, f"dim '{name}' has extent {extent}")
        self.expect_names([extent for _, extent in dims], outer)

    def expect_yield(self, region: Region) -> Attribute:
        """The type of what a region without arguments yields."""
        self.expect(not region.block.args, "a region takes no arguments")
        last = region.block.last_op
        if not isinstance(last, YieldOp):
            raise VerifyException(f"{self.name}: a region must end in lpu_loop.yield")
        return last.value.type

    def expect_yields(self, region: Region, expected: Attribute) -> None:
        yielded = self.expect_yield(region)
        self.expect(yielded == expected, f"yields {yielded}, expected {expected}")


class DimsOp(LoopOp):
    """An operation that has dims: a nest or a part of one, or what combines a scalar over some."""

    OUTERMOST: ClassVar = False
    """Whether it is the nest itself."""
    PARALLEL: ClassVar = False
    """Whether its body runs for every point: a nest or a part of one."""

    dims = prop_def(DimsAttr)


@irdl_op_definition
class YieldOp(LoopOp):
    """Ends the region of a fold, scan or piece with its scalar."""

    name = "lpu_loop.yield"
    value = operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "$value attr-dict `:` type($value)"

    def __init__(self, value: SSAValue):
        super().__init__(operands=[value])
