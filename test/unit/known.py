"""Where results differ from eager's, and why that is left so."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatch

_PADDING = (
    "convolution multiplies the zeros of padding and between elements, so that infinite weights "
    "make NaN where eager, depending on which of its libraries computes, may skip them"
)

_ORDER = "sums in another order: 2e-5 in one or two elements of 648, where terms up to 300 cancel"

_OVERFLOW = (
    "eager computes soft_margin_loss and its gradient in f16, where the exponential overflows and "
    "gives inf and NaN; PyTorch's decomposition computes in f32, and is nearer to the result in f64"
)

_UNSET = "eager's median of an expanded tensor is of memory that nothing was written to"

_SINGULAR = (
    "an expanded matrix has the singular value 0, for which rounding decides the singular vectors"
)

KNOWN: Mapping[tuple[str, str], str] = {
    ("nn.functional.conv_transpose*", "non-finite"): _PADDING,
    ("nn.functional.gelu", "non-finite"): (
        "eager gives NaN for an infinite f32 or bf16 among several elements, and infinity for a "
        "single one, as it does in f64 and f16; here it is infinity"
    ),
    ("nn.functional.soft_margin_loss", "sample 1"): _OVERFLOW,
    ("masked.median", "expanded"): _UNSET,
    ("pca_lowrank", "expanded"): _SINGULAR,
    ("svd_lowrank", "expanded"): _SINGULAR,
    ("nn.functional.conv_transpose3d", "transposed"): _ORDER,
    ("nn.functional.conv_transpose3d", "expanded"): _ORDER,
    ("nn.functional.conv_transpose3d", "sample 0"): _ORDER,
}
"""Patterns of an entry's name and of what a sample is called -> the reason."""


def known(entry: str, sample: str) -> str:
    """Why a sample is known to give something else than eager; nothing if it is not."""
    found = (
        reason
        for (name, called), reason in KNOWN.items()
        if fnmatch(entry, name) and fnmatch(sample, called)
    )
    return next(found, "")
