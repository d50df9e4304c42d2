"""What a kernel can do wrong, one exception each. All say where: kernel, operation, window."""


class HazardError(RuntimeError):
    """A kernel did what the LPU does not allow."""


class UnwrittenReadError(HazardError):
    """Bytes were read before anything wrote them."""


class OutOfBoundsError(HazardError):
    """A window or an index reached outside its memref or tile."""


class ExtentError(HazardError):
    """Extents that must agree differ, or exceed a tile's capacity."""


class ChannelError(HazardError):
    """The requests to a channel and the receives from it do not match."""


class SramCapacityError(HazardError):
    """A tile or channel lies beyond the end of SRAM."""


class SramClobberedError(HazardError):
    """A tile was read after another had been written over it."""


class RaceError(HazardError):
    """Within one phase a core wrote or read bytes that another core wrote."""
