"""What the frontend raises, and the one form of its messages."""

from __future__ import annotations

from collections.abc import Sequence

WAY_OUT = {
    "error": "allow it to run in eager PyTorch with options={'fallback': 'host'}",
    "graph": "keep it out of the compiled region with torch.compiler.disable",
}


class Unsupported(RuntimeError):
    """An operation that can neither be compiled nor be run in eager PyTorch beside the program."""

    def __init__(
        self, overload: str, reason: str, operands: Sequence[str], source: str | None, way_out: str
    ):
        self.overload = overload
        self.reason = reason
        super().__init__(
            f"{overload}({', '.join(operands)}): {reason}"
            + (f"\n  at {source}" if source else "")
            + f"\n  way out: {way_out}"
        )


class NotNative(Exception):
    """Raised by a handler: this use of the operator has to run in eager PyTorch, and why.

    The importer turns it into an `lpu.host_call`, or into `Unsupported`.
    """
