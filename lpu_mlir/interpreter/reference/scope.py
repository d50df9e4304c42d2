"""Where the values of one program are kept, and which of them share SRAM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, MemRefType
from xdsl.ir import Operation, Region, SSAValue

from lpu_mlir.dialects.location import describe_location
from lpu_mlir.dialects.lpu_kernel import (
    ChannelOp,
    ForOp,
    Index,
    KernelOp,
    ReceiveOp,
    TileType,
    WindowsOp,
    backing,
)
from lpu_mlir.dialects.lpu_kernel.core_dependence import core_dependent_values
from lpu_mlir.interpreter.reference.errors import ExtentError, SramClobberedError
from lpu_mlir.interpreter.reference.launch import Frame

Pick = Callable[[list[Any]], tuple[Any, ...]]


def pick(slots: Sequence[int]) -> Pick:
    """Reads several slots at once."""
    if len(slots) > 1:
        return itemgetter(*slots)
    if not slots:
        return lambda values: ()
    slot = slots[0]
    return lambda values: (values[slot],)


@dataclass
class Scope:
    """One program of one phase while it is compiled."""

    kernel: KernelOp
    program: Region
    template: list[Any] = field(default_factory=list[Any])
    """What a frame's values start as: constants in place, None elsewhere."""

    def __post_init__(self) -> None:
        self._slots: dict[SSAValue, int] = {}
        self._constants: dict[int, int] = {}
        self.core_dependent = core_dependent_values(self.program)
        self.memrefs = [a for a in self.kernel.args if isinstance(a.type, MemRefType)]
        self.scalars = [
            (number, self.slot(a))
            for number, a in enumerate(self.kernel.args)
            if not isinstance(a.type, MemRefType)
        ]
        self.core_slot = self.slot(self.program.block.args[0])
        self._intervals = _sram_intervals(self.program, self.kernel.channels())

    def site(self, op: Operation) -> str:
        """How errors name an operation."""
        hints = [f"%{value.name_hint}" for value in op.results if value.name_hint]
        result = f" ({', '.join(hints)})" if hints else ""
        where = describe_location(op.location)
        source = f" at {where}" if where else ""
        return f"kernel @{self.kernel.sym_name.data}: {op.name}{result}{source}"

    def slot(self, value: SSAValue) -> int:
        """The slot of a value."""
        if (slot := self._slots.get(value)) is None:
            slot = self._slots[value] = self._new(None)
        return slot

    def constant(self, value: int) -> int:
        """A slot that holds a constant."""
        if (slot := self._constants.get(value)) is None:
            slot = self._constants[value] = self._new(value)
        return slot

    def _new(self, value: int | None) -> int:
        self.template.append(value)
        return len(self.template) - 1

    def pick(self, values: Sequence[Index]) -> Pick:
        """Reads a list of values and constants."""
        return pick([self.constant(v) if isinstance(v, int) else self.slot(v) for v in values])

    def capacity_check(
        self, op: Operation, sizes: Sequence[Index], type: TileType
    ) -> Callable[[Sequence[int]], None] | None:
        """What raises ExtentError where a size does not fit; None if all were known before."""
        dynamic = [
            (dim, limit)
            for dim, (size, limit) in enumerate(zip(sizes, type.get_shape(), strict=True))
            if not isinstance(size, int)
        ]
        if not dynamic:
            return None
        site, capacity = self.site(op), list(type.get_shape())

        def check(actual: Sequence[int]) -> None:
            for dim, limit in dynamic:
                if not 0 <= actual[dim] <= limit:
                    raise ExtentError(
                        f"{site}: extents {list(actual)} exceed the tile's capacity {capacity}"
                    )

        return check

    # --- SRAM -----------------------------------------------------------------------------------

    def reader(self, op: Operation, values: Sequence[SSAValue]) -> Callable[[Frame], None] | None:
        """What checks, before an operation, that its tiles are intact; None if none are placed."""
        tiles = map(backing, values)
        slots = [self.slot(value) for value in tiles if value in self._intervals]
        if not slots:
            return None
        site = self.site(op)

        def check(frame: Frame) -> None:
            if not frame.clobbered.isdisjoint(slots):
                raise SramClobberedError(
                    f"{site}: a tile it reads was overwritten in SRAM by a later one"
                )

        return check

    def writer(self, values: Sequence[SSAValue]) -> Callable[[Frame], None] | None:
        """What notes, after an operation, that its tiles have taken their SRAM."""
        placed = [value for value in values if value in self._intervals]
        if not placed:
            return None
        own = [self.slot(value) for value in placed]
        others = {
            self.slot(other)
            for value in placed
            for other in self._intervals
            if other not in placed and _overlap(self._intervals[value], self._intervals[other])
        }

        def note(frame: Frame) -> None:
            frame.clobbered.difference_update(own)
            frame.clobbered.update(others)

        return note


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def _sram_intervals(
    program: Region, channels: dict[str, ChannelOp]
) -> dict[SSAValue, tuple[int, int]]:
    """First and one past the last byte of every tile that allocate-sram has placed."""
    intervals: dict[SSAValue, tuple[int, int]] = {}
    for op in program.walk():
        if isinstance(op, ReceiveOp):
            channel = channels[op.channel.root_reference.data]
            if channel.sram is not None:
                (low,) = channel.sram.get_values()
                intervals[op.result] = (low, low + channel.byte_size())
            continue
        sram = op.properties.get("sram")
        if sram is None:
            continue
        assert isinstance(sram, DenseArrayBase)
        offsets = [int(offset) for offset in sram.iter_values()]
        for value, low in zip(op.results, offsets, strict=True):
            if low >= 0:
                assert isinstance(value.type, TileType)
                intervals[value] = (low, low + value.type.byte_size())
        if isinstance(op, ForOp):
            for arg, result in zip(op.carried_args, op.outputs, strict=True):
                if result in intervals:
                    intervals[arg] = intervals[result]
    return intervals


def sram_needed(kernel: KernelOp) -> tuple[int, str]:
    """
    The end of the last byte of SRAM that a kernel names and the operation that names it; where
    nothing is placed, its largest tile.
    """
    channels = kernel.channels()
    needed = (0, "")
    for name, channel in channels.items():
        low = 0 if channel.sram is None else channel.sram.get_values()[0]
        needed = max(needed, (low + channel.byte_size(), f"channel @{name}"))
    for phase in kernel.phases():
        placed = _sram_intervals(phase.cores, channels)
        for op in phase.cores.walk():
            for value in op.results if not isinstance(op, WindowsOp) else ():
                if isinstance(value.type, TileType) and value.type.space.data == "sram":
                    _, high = placed.get(value, (0, value.type.byte_size()))
                    needed = max(needed, (high, op.name))
    return needed
