"""Bytes that nests move, at the likely values of symbols."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.dialects.lpu import element_bytes, element_type, extents
from lpu_mlir.nests.nest import Nest
from lpu_mlir.nests.scalar import Fold, Load


@dataclass(frozen=True)
class Traffic:
    """Counts bytes; `hints` has a likely value for every symbol."""

    hints: Mapping[str, int]

    def number(self, expr: Expr) -> int:
        return max(0, expr.evaluate(self.hints))

    def elements(self, tensor: SSAValue) -> int:
        return prod(self.number(extent) for extent in extents(tensor.type))

    def tensor_bytes(self, tensor: SSAValue) -> int:
        return self.elements(tensor) * element_bytes(element_type(tensor.type))

    def sizes(self, nest: Nest) -> dict[str, int]:
        """The likely extents of a nest's dims and of those of its folds."""
        sizes = {name: self.number(extent) for name, extent in nest.dims}
        for node in nest.nodes():
            if isinstance(node, Fold):
                sizes.update((name, self.number(extent)) for name, extent in node.dims)
        return sizes

    def load_bytes(self, load: Load, sizes: Mapping[str, int]) -> int:
        """Bytes of what one load reads at all points, given the extents of the dims in scope."""
        whole = self.tensor_bytes(load.source)
        touched = prod(sizes[name] for name in load.free)
        touched *= element_bytes(element_type(load.source.type))
        return whole if load.indirect else min(whole, touched)

    def loads(self, nest: Nest) -> dict[Load, int]:
        """Every load of a nest, and the bytes that it reads."""
        sizes = self.sizes(nest)
        loads = [node for node in nest.nodes() if isinstance(node, Load)]
        return {load: self.load_bytes(load, sizes) for load in loads}

    def reads(self, nest: Nest) -> dict[SSAValue, int]:
        """Bytes of each tensor that a nest reads."""
        found: dict[SSAValue, int] = {}
        for load, size in self.loads(nest).items():
            found[load.source] = max(found.get(load.source, 0), size)
        return found
