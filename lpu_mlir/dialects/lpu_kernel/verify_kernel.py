"""What must hold of a kernel as a whole: argument access, and the structure of its channels."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import IndexType, MemRefType, StringAttr
from xdsl.ir import Operation, Region
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from lpu_mlir.dialects.lpu_kernel.core_dependence import (
    core_dependent_values,
    depends_on_core,
    enclosing_loops,
)
from lpu_mlir.dialects.lpu_kernel.movement import (
    ChannelOp,
    LoadOp,
    ReceiveOp,
    RequestOp,
    StoreOp,
    WindowOp,
)
from lpu_mlir.dialects.lpu_kernel.structure import ACCESSES, KernelOp, PhaseOp
from lpu_mlir.dialects.lpu_kernel.types import MEMORY_SPACES, verify_word


def verify_kernel(kernel: KernelOp) -> None:
    """Check a kernel whose operations have been verified one by one."""
    _verify_arguments(kernel)
    _verify_order(kernel)
    for phase in kernel.phases():
        for op in phase.walk():
            if isinstance(op, WindowOp):
                _verify_access(kernel, op)
    _verify_channels(kernel)


def _verify_arguments(kernel: KernelOp) -> None:
    if kernel.cores < 1:
        raise VerifyException(f"a kernel needs at least 1 core, got {kernel.cores}")
    memrefs = 0
    for arg in kernel.args:
        if isa(arg.type, MemRefType):
            memrefs += 1
            space = arg.type.memory_space
            if not isinstance(space, StringAttr):
                raise VerifyException(
                    f"memref argument without memory space, expected one of {list(MEMORY_SPACES)}"
                )
            verify_word("memory space", space, MEMORY_SPACES)
        elif arg.type != IndexType():
            raise VerifyException(f"kernel arguments are memrefs and index, got {arg.type}")
    if len(kernel.access) != memrefs:
        raise VerifyException(f"{len(kernel.access)} access words for {memrefs} memref arguments")
    for word in kernel.access:
        verify_word("access", word, ACCESSES)


def _verify_order(kernel: KernelOp) -> None:
    seen_phase = False
    for op in kernel.body.block.ops:
        if not isinstance(op, PhaseOp | ChannelOp):
            raise VerifyException(f"{op.name} in a kernel, expected channels and phases")
        if seen_phase and isinstance(op, ChannelOp):
            raise VerifyException(f"channel @{op.sym_name.data} must stand before the phases")
        seen_phase |= isinstance(op, PhaseOp)


def _verify_access(kernel: KernelOp, op: WindowOp) -> None:
    if op.memref not in kernel.args:
        raise VerifyException(f"{op.name} of a memref that is not a kernel argument")
    access, allowed = kernel.access_of(op.memref), _allowed_access(op)
    if access not in allowed:
        needed = " or ".join(allowed)
        raise VerifyException(f"{op.name} of an argument with access {access}, needs {needed}")


def _allowed_access(op: WindowOp) -> tuple[str, ...]:
    if not isinstance(op, StoreOp):
        return ("ro", "rw")
    return ("rw",) if op.combines else ("wo", "rw")


# --- channels -----------------------------------------------------------------------------------


def _verify_channels(kernel: KernelOp) -> None:
    channels = kernel.channels()
    requests: dict[str, list[RequestOp]] = {name: [] for name in channels}
    receives: dict[str, list[ReceiveOp]] = {name: [] for name in channels}
    for phase in kernel.phases():
        for op in _inside(phase.top, (RequestOp,), "top"):
            if isinstance(op, RequestOp):
                requests[_known_channel(op, channels)].append(op)
        for op in _inside(phase.cores, (ReceiveOp, LoadOp, StoreOp), "cores"):
            if isinstance(op, ReceiveOp):
                receives[_known_channel(op, channels)].append(op)
    for name, channel in channels.items():
        if len(requests[name]) != 1 or len(receives[name]) != 1:
            raise VerifyException(
                f"channel @{name} has {len(requests[name])} requests and {len(receives[name])} "
                "receives, expected exactly one of each"
            )
        _verify_channel(name, channel, requests[name][0], receives[name][0])


def _inside(
    region: Region | None, allowed: tuple[type[Operation], ...], where: str
) -> Iterator[RequestOp | ReceiveOp]:
    """The channel operations of one of a phase's programs."""
    for op in region.walk() if region is not None else ():
        if isinstance(op, WindowOp | ReceiveOp) and not isinstance(op, allowed):
            raise VerifyException(f"{op.name} cannot stand in '{where}' of a phase")
        if isinstance(op, RequestOp | ReceiveOp):
            yield op


def _known_channel(op: RequestOp | ReceiveOp, channels: dict[str, ChannelOp]) -> str:
    name = op.channel.root_reference.data
    if name not in channels:
        raise VerifyException(f"{op.name} names channel @{name}, which the kernel does not have")
    return name


def _verify_channel(name: str, channel: ChannelOp, request: RequestOp, receive: ReceiveOp) -> None:
    if receive.result.type != channel.tile_type:
        raise VerifyException(
            f"receive of {receive.result.type} from channel @{name} of {channel.tile_type}"
        )
    try:
        request.verify_read(channel.tile_type)
    except VerifyException as error:
        raise VerifyException(f"request to channel @{name}: {error}") from error
    phase = _phase_of(request)
    top_loops, core_loops = enclosing_loops(request), enclosing_loops(receive)
    if phase is not _phase_of(receive):
        raise VerifyException(f"channel @{name} is requested and received in different phases")
    top_bounds = [tuple(loop.static_bounds.get_values()) for loop in top_loops]
    core_bounds = [tuple(loop.static_bounds.get_values()) for loop in core_loops]
    if top_bounds != core_bounds:
        raise VerifyException(
            f"channel @{name} is requested under {len(top_loops)} loops and received under "
            f"{len(core_loops)}: they must be equal, with equal bounds"
        )
    if request.destination.data == "all":
        assert phase.top is not None
        dependent = core_dependent_values(phase.top)
        if depends_on_core(request, dependent):
            raise VerifyException(
                f"request 'to all' on channel @{name} depends on the core, expected 'to each'"
            )


def _phase_of(op: Operation) -> PhaseOp:
    parent = op.parent_op()
    while not isinstance(parent, PhaseOp):
        assert parent is not None
        parent = parent.parent_op()
    return parent
