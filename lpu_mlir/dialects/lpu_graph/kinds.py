"""What pointwise functions, reductions, scans and scatters there are: the tables of `lpu_graph`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from xdsl.ir import Attribute

from lpu_mlir.dialects.lpu import i1

Domain: TypeAlias = Literal["any", "number", "float", "integer", "bits"]


@dataclass(frozen=True)
class PointwiseKind:
    """What a pointwise function takes: operand count, element types, and what it gives."""

    arity: int
    domain: Domain
    compares: bool = False


def _kinds(names: str, arity: int, domain: Domain, compares: bool = False):
    return {name: PointwiseKind(arity, domain, compares) for name in names.split()}


POINTWISE: Mapping[str, PointwiseKind] = {
    **_kinds(
        "acos acosh asin asinh atan atanh ceil cos cosh erf exp exp2 expm1 floor log log10 log1p "
        "log2 reciprocal round rsqrt sigmoid sin sinh sqrt tan tanh trunc gelu gelu_tanh "
        "quick_gelu",
        1,
        "float",
    ),
    **_kinds("abs neg sign", 1, "number"),
    **_kinds("not", 1, "bits"),
    **_kinds("maximum minimum", 2, "any"),
    **_kinds("add sub mul floordiv remainder fmod pow", 2, "number"),
    **_kinds("div atan2 copysign", 2, "float"),
    **_kinds("truncdiv shl shr", 2, "integer"),
    **_kinds("and or xor", 2, "bits"),
    **_kinds("eq ne lt le gt ge", 2, "any", compares=True),
    **_kinds("select", 3, "any"),
    **_kinds("fma", 3, "float"),
}
"""Every pointwise function.  `select` takes an i1 condition first.  Integer `floordiv` and
`remainder` round to minus infinity, `truncdiv` and `fmod` to zero; `pow` of integers wraps.
`gelu` is by the error function, `gelu_tanh` and `quick_gelu` (x * sigmoid(1.702 x)) are near it."""


REDUCTIONS: Mapping[str, Domain] = {
    "add": "number",
    "mul": "number",
    "max": "any",
    "min": "any",
    "and": "bits",
    "or": "bits",
    "xor": "bits",
}
SCANS: Mapping[str, Domain] = {kind: REDUCTIONS[kind] for kind in ("add", "mul", "max", "min")}
SCATTERS: Mapping[str, Domain] = {"replace": "any", **SCANS}


def in_domain(element: Attribute, domain: Domain) -> bool:
    is_float = "f" in str(element)
    match domain:
        case "any":
            return True
        case "number":
            return element != i1
        case "float":
            return is_float
        case "integer":
            return not is_float and element != i1
        case "bits":
            return not is_float
