"""What a user may ask of the backend, checked: `torch.compile(..., options={...}, mode="...")`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from lpu_mlir.model.target import TARGETS

CHOICES: Mapping[str, tuple[str, ...]] = {
    "interpreter": ("native", "reference", "compare"),
    "fallback": ("host", "error"),
    "target": tuple(TARGETS),
}
"""Options that are one of a few words."""

ACCEPTED: Mapping[str, tuple[str, ...]] = {"float": ("float", "int")}
"""For options of a type that takes others, too: the types of their values."""

MODES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    # Its aim, little work between kernels, is met by every mode: there is one call per graph.
    "reduce-overhead": {},
    # There is one way to lower a matrix product yet, so nothing to choose from.
    "max-autotune": {},
    "max-autotune-no-cudagraphs": {},
}
"""The modes that torch.compile documents, as options of this backend."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of one compilation; ValueError or TypeError for a value that is not allowed."""

    interpreter: str = "native"
    """What runs the kernels. "native" makes machine code of them; "reference" executes them tile by
    tile, checks every access, and is slow; "compare" runs each kernel in both ways, each graph in
    eager PyTorch beside it, and raises `lpu_mlir.MismatchError` where results differ."""

    fallback: str = "host"
    """What becomes of an operator without a native form: "host" runs it in eager PyTorch, "error"
    refuses the graph and names the operator, its operands and the user's line."""

    target: str = "bertha"
    """The machine that programs are compiled for; a key of `lpu_mlir.model.target.TARGETS`."""

    freeze: bool = False
    """For inference: compute once what depends on parameters and buffers alone, and keep it between
    calls; see below."""

    seed: int = 0
    """For "reference": shuffles the order in which the cores of a phase are interpreted; 0 keeps
    them in order."""

    verify: bool = False
    """Verify the IR after every stage of the pipeline: slow, for finding bugs in the compiler."""

    tolerance: float = 1.0
    """How much "compare" allows, in multiples of PyTorch's tolerances for each dtype;
    a number of 0 or more, which may be an int."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value: Any = getattr(self, field.name)
            default: Any = field.default
            kind = type(default).__name__
            if type(value).__name__ not in ACCEPTED.get(kind, (kind,)):
                raise TypeError(f"option '{field.name}' of lpu_mlir must be {kind}, got {value!r}")
            allowed = CHOICES.get(field.name, (value,))
            if value not in allowed:
                raise ValueError(
                    f"option '{field.name}' of lpu_mlir is {value!r}, "
                    f"expected one of {', '.join(map(repr, allowed))}"
                )
        if not self.tolerance >= 0:
            raise ValueError(
                f"option 'tolerance' of lpu_mlir is {self.tolerance!r}, expected 0 or more"
            )


def make_options(mode: str | None = None, options: Mapping[str, Any] | None = None) -> Options:
    """The options from what torch.compile was given; `options` win over `mode`.

    Raises ValueError for an unknown mode, key or value and TypeError for a value of a wrong type;
    the message lists what exists.
    """
    if mode is not None and mode not in MODES:
        raise ValueError(f"unknown mode {mode!r} of lpu_mlir, expected one of {', '.join(MODES)}")
    known = [field.name for field in fields(Options)]
    given = {**MODES[mode or "default"], **(options or {})}
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(
            f"unknown option {', '.join(map(repr, unknown))} of lpu_mlir, "
            f"expected some of {', '.join(known)}"
        )
    return Options(**given)
