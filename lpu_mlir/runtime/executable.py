"""The callable that torch gets: from the graph's inputs to its outputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lpu_mlir.frontend.interface import TensorInput
from lpu_mlir.runtime.frozen import Frozen
from lpu_mlir.runtime.layout import ArgumentLayouts, BoundLayout
from lpu_mlir.runtime.numbers import Bounded, Symbols
from lpu_mlir.runtime.signature import Signature
from lpu_mlir.runtime.stats import Runnable, RunStats

MOST_BINDINGS = 64
"""For so many values of the symbols layouts are kept."""


@dataclass(frozen=True)
class BoundSignature:
    """The layouts of arguments and of destinations for some values of the symbols."""

    arguments: ArgumentLayouts
    destinations: Sequence[BoundLayout]


def tell_values(error: Exception, symbols: Symbols) -> None:
    """Adds the values of the symbols that a message names."""
    message = str(error)
    named = [name for name in symbols if re.search(rf"\b{re.escape(name)}\b", message)]
    if named and error.args == (message,):
        values = ", ".join(f"{name} = {symbols[name]}" for name in named)
        error.args = (f"{message}, where {values}",)


class Executable:
    """A compiled graph as torch calls it: a list of inputs, which it empties, to a list of outputs.

    Re-entrant.  `listener` gives who is to be told what a run did, or None.
    """

    _boxed_call = True

    def __init__(
        self,
        signature: Signature,
        program: Runnable,
        listener: Callable[[], Callable[[RunStats], None] | None] = lambda: None,
    ):
        self.signature, self.program, self.listener = signature, program, listener
        self.frozen = Frozen(program)
        kept = set(program.returned)
        self._made = [i for i in range(len(signature.results)) if i not in kept]
        self._bound: Bounded[tuple[int, ...], BoundSignature] = Bounded(self._bind, MOST_BINDINGS)

    def _bind(self, key: tuple[int, ...]) -> BoundSignature:
        signature = self.signature
        values = dict(zip([b.symbol for b in signature.bindings], key, strict=True))
        return BoundSignature(
            ArgumentLayouts([layout.bound(values) for layout in signature.arguments]),
            [signature.results[i].bound(values) for i in self._made],
        )

    def __call__(self, inputs: list[Any]) -> list[Any]:
        given = list(inputs)
        inputs.clear()
        signature = self.signature
        symbols = signature.bind(given)
        bound = self._bound.get(tuple(symbols.values()))
        tensors = signature.tensors(given, bound.arguments)
        arguments = bound.arguments.accept(tensors)
        listener = self.listener()
        stats = None if listener is None else RunStats()
        try:
            results = self._run(arguments, bound, symbols, stats)
        except (IndexError, RuntimeError) as error:
            tell_values(error, symbols)
            raise
        if arguments is not tensors:
            signature.write_back(tensors, arguments)
        if listener is not None and stats is not None:
            listener(stats)
        originals = self._originals(given, arguments) if signature.returns_inputs else arguments
        return [output(originals, results, symbols) for output in signature.outputs]

    def _run(
        self,
        arguments: list[Tensor],
        bound: BoundSignature,
        symbols: Symbols,
        stats: RunStats | None,
    ) -> list[Tensor]:
        """All results in order: destinations made here, and what the program returns."""
        program = self.program
        if program.frozen:
            kept, freeze = self.frozen.values(arguments)
            arguments = [*arguments, *kept]
            if stats is not None:
                stats.freeze, stats.kept_bytes = freeze, self.frozen.kept_bytes
        empty = program.empty
        made = [empty(to.sizes, to.strides, to.dtype) for to in bound.destinations]
        returned = program.execute(arguments, made, symbols, stats)
        if not returned:
            return made
        results = dict(zip(self._made, made, strict=True))
        with torch.no_grad():
            for position, tensor in zip(program.returned, returned, strict=True):
                layout = self.signature.results[position].bound(symbols)
                results[position] = layout.lay_out(tensor)
        return [results[i] for i in sorted(results)]

    def _originals(self, given: Sequence[Any], arguments: list[Tensor]) -> list[Tensor]:
        """The arguments as they came in, for outputs that are inputs."""
        originals = list(arguments)
        for kind, value in zip(self.signature.inputs, given, strict=True):
            if isinstance(kind, TensorInput):
                originals[kind.argument] = value
        return originals
