"""Gives every tile of a kernel its bytes in SRAM."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from lpu_mlir.dialects.lpu_kernel import (
    ChannelOp,
    ForOp,
    KernelOp,
    PhaseOp,
    ReceiveOp,
    TileType,
    WindowsOp,
    backing,
)
from lpu_mlir.dialects.lpu_kernel.types import NOT_IN_SRAM, dense

ALIGNMENT = 64
"""Bytes at whose multiples tiles start."""


@dataclass(eq=False)
class Buffer:
    """Bytes that are occupied from one position of a phase's program to another, inclusive."""

    owner: Operation
    size: int
    start: int
    end: int
    offset: int = 0

    def conflicts(self, other: Buffer) -> bool:
        return self.start <= other.end and other.start <= self.end


@dataclass
class Liveness:
    """
    The buffers of one phase. Positions count operations in program order; a loop has a position at
    its start and one at its end.

    A tile is live from its definition to its last use. A use inside a loop that the definition is
    outside of lasts to the loop's end. What a loop carries has one buffer from the loop's start
    on, into which initial and yielded tiles are copied.
    """

    buffers: list[Buffer] = field(default_factory=list[Buffer])
    of_value: dict[SSAValue, Buffer] = field(default_factory=dict[SSAValue, Buffer])

    def __post_init__(self) -> None:
        self._position = 0
        self._depth: dict[Buffer, int] = {}
        self._open: list[list[Buffer]] = []

    def visit(self, block: Block) -> None:
        """Number the operations of a block and find the buffers of their tiles."""
        for op in block.ops:
            self._position += 1
            self._use(op)
            if isinstance(op, ForOp):
                self._visit_loop(op)
            elif not isinstance(op, ReceiveOp | WindowsOp):
                for result in op.results:
                    self._define(op, result)

    def _use(self, op: Operation) -> None:
        for operand in op.operands:
            if (buffer := self.of_value.get(backing(operand))) is None:
                continue
            buffer.end = max(buffer.end, self._position)
            # Each loop that was entered since the definition may use it again.
            for extended in self._open[self._depth[buffer] :]:
                extended.append(buffer)

    def _visit_loop(self, loop: ForOp) -> None:
        for arg, result in zip(loop.carried_args, loop.outputs, strict=True):
            self._define(loop, result)
            if result in self.of_value:
                self.of_value[arg] = self.of_value[result]
        self._open.append([])
        self.visit(loop.body.block)
        for buffer in self._open.pop():
            buffer.end = max(buffer.end, self._position)
        for result in loop.outputs:
            if (buffer := self.of_value.get(result)) is not None:
                buffer.end = max(buffer.end, self._position)

    def _define(self, op: Operation, value: SSAValue) -> None:
        if not isinstance(value.type, TileType) or value.type.space.data != "sram":
            return
        buffer = Buffer(op, value.type.byte_size(), self._position, self._position)
        self._depth[buffer] = len(self._open)
        self.of_value[value] = buffer
        self.buffers.append(buffer)


def first_fit(buffers: list[Buffer], sram_bytes: int) -> None:
    """
    Give each buffer the lowest offset at which no earlier one that is live at the same time lies.

    Raises PassFailedException, naming the operation, where that is beyond the SRAM.
    """
    placed: list[Buffer] = []
    for buffer in buffers:
        others = sorted(
            (other for other in placed if other.size and other.conflicts(buffer)),
            key=lambda other: other.offset,
        )
        offset = 0
        for other in others:
            if offset + buffer.size <= other.offset:
                break
            offset = max(offset, _aligned(other.offset + other.size))
        buffer.offset = offset
        if offset + buffer.size > sram_bytes:
            _fail(buffer, others, sram_bytes)
        placed.append(buffer)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _fail(buffer: Buffer, others: list[Buffer], sram_bytes: int) -> None:
    live = ", ".join(f"{other.owner.name} {other.size}" for other in others) or "nothing"
    message = (
        f"{buffer.owner.name} needs {buffer.size} bytes, which do not fit an SRAM of "
        f"{sram_bytes} bytes beside what is live with it: {live}"
    )
    buffer.owner.emit_error(message, PassFailedException(message))


def allocate_phase(phase: PhaseOp, channels: dict[str, ChannelOp], sram_bytes: int) -> None:
    """Place the tiles and channels of a phase; the SRAM is free again in the next."""
    liveness = Liveness()
    liveness.visit(phase.cores.block)
    end = max((buffer.end for buffer in liveness.buffers), default=0)
    # Requests run ahead: a channel's buffers may fill at any time.
    received = [
        channels[op.channel.root_reference.data]
        for op in phase.cores.walk()
        if isinstance(op, ReceiveOp)
    ]
    of_channel = {channel: Buffer(channel, channel.byte_size(), 0, end) for channel in received}
    first_fit([*of_channel.values(), *liveness.buffers], sram_bytes)
    for channel, buffer in of_channel.items():
        channel.properties["sram"] = dense([buffer.offset])
    for op in phase.cores.walk():
        tiles = [value for value in op.results if isinstance(value.type, TileType)]
        if tiles and not isinstance(op, ReceiveOp | WindowsOp):
            offsets = [
                liveness.of_value[value].offset if value in liveness.of_value else NOT_IN_SRAM
                for value in tiles
            ]
            op.properties["sram"] = dense(offsets)


@dataclass(frozen=True)
class AllocateSramPass(ModulePass):
    """
    Writes the byte offset of every tile in SRAM on the operation that makes it, and of every
    channel's buffers on the channel, by first fit over live ranges. Phases share nothing. Fails
    where tiles that are live together exceed the SRAM.

    Before:
    ```mlir
    %a = lpu_kernel.fill 0.0 : f32 [64] -> !lpu_kernel.tile<64xf32>
    %b = lpu_kernel.fill 1.0 : f32 [64] -> !lpu_kernel.tile<64xf32>
    ```
    After, if both are used later:
    ```mlir
    %a = lpu_kernel.fill 0.0 : f32 [64] sram [0] -> !lpu_kernel.tile<64xf32>
    %b = lpu_kernel.fill 1.0 : f32 [64] sram [256] -> !lpu_kernel.tile<64xf32>
    ```
    """

    name = "allocate-sram"

    sram_bytes: int = 1 << 23
    """Capacity of one core's SRAM."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.walk():
            if isinstance(kernel, KernelOp):
                channels = kernel.channels()
                for phase in kernel.phases():
                    allocate_phase(phase, channels, self.sram_bytes)
