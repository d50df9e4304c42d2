"""Canonical integer expressions over names: the extents, strides and indices of every dialect.

An `Expr` is a polynomial with integer coefficients.  Its atoms are names (a function's symbols,
the dimensions of a loop nest, the operands of an index operation), `a floordiv b`, `min(a, b)`
and `max(a, b)`.  There is no `mod` atom: `a mod b` is `a - b * (a floordiv b)`, so that a reshape
and its inverse cancel by plain arithmetic.  Expressions are canonical: equal text, equal hash,
`==`.

    24 * s18 + 3        (m floordiv 8) + 1        min(64, s18 - 64 * i)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import gcd
from typing import Literal, TypeAlias

from lpu_mlir.memo import MEMO

CallKind: TypeAlias = Literal["floordiv", "min", "max"]
Range: TypeAlias = "tuple[Expr, Expr | None]"
"""Inclusive bounds of a name; an upper bound of None means unbounded."""


@dataclass(frozen=True)
class Call:
    """An atom that is not a name: `lhs floordiv rhs`, `min(lhs, rhs)` or `max(lhs, rhs)`."""

    kind: CallKind
    lhs: Expr
    rhs: Expr

    @cached_property
    def _hash(self) -> int:
        return hash((self.kind, self.lhs, self.rhs))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def text(self) -> str:
        if self.kind == "floordiv":
            return f"{_operand_text(self.lhs)} floordiv {_operand_text(self.rhs)}"
        return f"{self.kind}({self.lhs}, {self.rhs})"

    def __str__(self) -> str:
        return self.text


Atom: TypeAlias = str | Call
Monomial: TypeAlias = tuple[Atom, ...]
Terms: TypeAlias = tuple[tuple[Monomial, int], ...]


def _monomial_key(monomial: Monomial) -> tuple[int, tuple[str, ...]]:
    """Higher degree first, then by text: the order in which terms are printed."""
    return (-len(monomial), tuple(map(str, monomial)))


def _from_terms(terms: Mapping[Monomial, int]) -> Expr:
    kept = [(m, c) for m, c in terms.items() if c]
    if len(kept) > 1:
        kept.sort(key=lambda term: _monomial_key(term[0]))
    return Expr(tuple(kept))


@dataclass(frozen=True, eq=False)
class Expr:
    """A canonical polynomial; build it with `const`, `name` and the operators."""

    terms: Terms

    @staticmethod
    @lru_cache(MEMO)
    def const(value: int) -> Expr:
        return Expr((((), value),) if value else ())

    @staticmethod
    @lru_cache(MEMO)
    def name(name: str) -> Expr:
        return Expr((((name,), 1),))

    @staticmethod
    def of(value: Expr | int) -> Expr:
        return value if isinstance(value, Expr) else Expr.const(value)

    # --- equality ---------------------------------------------------------------------------
    @cached_property
    def _hash(self) -> int:
        return hash(self.terms)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return self.constant() == other
        return isinstance(other, Expr) and self.terms == other.terms

    # --- queries ----------------------------------------------------------------------------
    def constant(self) -> int | None:
        """The value, if the expression has no names."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    @cached_property
    def _names(self) -> frozenset[str]:
        found: set[str] = set()
        for atom in self.atoms():
            found |= {atom} if isinstance(atom, str) else atom.lhs._names | atom.rhs._names
        return frozenset(found)

    def names(self) -> frozenset[str]:
        """Every name that occurs, also inside floordiv, min and max."""
        return self._names

    def atoms(self) -> frozenset[Atom]:
        """The atoms of the polynomial itself."""
        return frozenset(atom for monomial, _ in self.terms for atom in monomial)

    def calls(self) -> frozenset[Call]:
        """Every floordiv, min and max, innermost included."""
        found: set[Call] = set()
        for atom in self.atoms():
            if isinstance(atom, Call):
                found |= {atom} | atom.lhs.calls() | atom.rhs.calls()
        return frozenset(found)

    def coefficient(self, name: str) -> Expr | None:
        """c of `c * name + rest` where neither c nor rest contains the name; None if not so."""
        inside: dict[Monomial, int] = {}
        for monomial, c in self.terms:
            if monomial.count(name) == 1:
                monomial = tuple(atom for atom in monomial if atom != name)
                inside[monomial] = c
            if any(a == name if isinstance(a, str) else name in a.lhs._names | a.rhs._names
                   for a in monomial):  # fmt: skip
                return None
        return _from_terms(inside)

    # --- arithmetic -------------------------------------------------------------------------
    def __add__(self, other: Expr | int) -> Expr:
        other = Expr.of(other)
        if not other.terms:
            return self
        if not self.terms:
            return other
        terms = dict(self.terms)
        for monomial, c in other.terms:
            terms[monomial] = terms.get(monomial, 0) + c
        return _from_terms(terms)

    def __radd__(self, other: int) -> Expr:
        return self + other

    def __neg__(self) -> Expr:
        return self * -1

    def __sub__(self, other: Expr | int) -> Expr:
        return self + Expr.of(other) * -1

    def __rsub__(self, other: int) -> Expr:
        return Expr.const(other) - self

    def __mul__(self, other: Expr | int) -> Expr:
        other = Expr.of(other)
        if other == 1:
            return self
        if self == 1:
            return other
        terms: dict[Monomial, int] = {}
        for ma, ca in self.terms:
            for mb, cb in other.terms:
                monomial = tuple(sorted(ma + mb, key=str)) if ma and mb else ma or mb
                terms[monomial] = terms.get(monomial, 0) + ca * cb
        return _from_terms(terms)

    def __rmul__(self, other: int) -> Expr:
        return self * other

    def divmod(self, divisor: Expr) -> tuple[Expr, Expr]:
        """Polynomial division by the divisor's leading term: self == q * divisor + r."""
        lead, lead_c = divisor.terms[0]
        quotient, rest = Expr.const(0), self
        for _ in range(4 * len(self.terms) + 4):
            for monomial, c in rest.terms:
                left = _divide_monomial(monomial, lead)
                if left is not None and c // lead_c:
                    q = Expr(((left, c // lead_c),))
                    break
            else:
                break
            quotient, rest = quotient + q, rest - q * divisor
        return quotient, rest

    def floordiv(self, divisor: Expr | int) -> Expr:
        divisor = Expr.of(divisor)
        if divisor == 1:
            return self
        if not divisor.terms:
            raise ZeroDivisionError(f"({self}) floordiv 0")
        quotient, rest = self.divmod(divisor)
        if not rest.terms:
            return quotient
        d = divisor.constant()
        if d is not None and rest.constant() is not None:
            return quotient + (rest.constant() or 0) // d
        if d is not None and d > 0:
            rest, d = _reduce_by_gcd(rest, d)
            if d == 1:
                return quotient + rest
            divisor = Expr.const(d)
        nested = rest.as_call("floordiv")
        if nested is not None and (nested.rhs.constant() or 0) > 0 and (d or 0) > 0:
            return quotient + nested.lhs.floordiv(nested.rhs * divisor)
        return quotient + _atom(Call("floordiv", rest, divisor))

    def mod(self, divisor: Expr | int) -> Expr:
        divisor = Expr.of(divisor)
        return self - divisor * self.floordiv(divisor)

    def ceildiv(self, divisor: Expr | int) -> Expr:
        divisor = Expr.of(divisor)
        return (self + divisor - 1).floordiv(divisor)

    @staticmethod
    def min(lhs: Expr | int, rhs: Expr | int) -> Expr:
        return _extreme("min", Expr.of(lhs), Expr.of(rhs))

    @staticmethod
    def max(lhs: Expr | int, rhs: Expr | int) -> Expr:
        return _extreme("max", Expr.of(lhs), Expr.of(rhs))

    def as_call(self, kind: CallKind) -> Call | None:
        """The atom, if the whole expression is one atom of that kind."""
        if len(self.terms) != 1 or self.terms[0][1] != 1 or len(self.terms[0][0]) != 1:
            return None
        atom = self.terms[0][0][0]
        return atom if isinstance(atom, Call) and atom.kind == kind else None

    # --- rewriting --------------------------------------------------------------------------
    def rebuild(self, leaf: Callable[[Atom], Expr | None]) -> Expr:
        """Replaces atoms, innermost first; `leaf` returns None to keep one."""
        total = Expr.const(0)
        for monomial, c in self.terms:
            product = Expr.const(c)
            for atom in monomial:
                product = product * _rebuild_atom(atom, leaf)
            total = total + product
        return total

    def substitute(self, values: Mapping[str, Expr]) -> Expr:
        """Replaces names by expressions, all at once."""
        if not self._names & values.keys():
            return self
        return self.rebuild(lambda atom: values.get(atom) if isinstance(atom, str) else None)

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The value with every name given; KeyError names a missing one."""
        return _compiled(self)(values)

    def python(self) -> str:
        """Python source with the same value, names as variables."""
        return self.text.replace(" floordiv ", " // ")

    # --- text -------------------------------------------------------------------------------
    @cached_property
    def text(self) -> str:
        if not self.terms:
            return "0"
        parts: list[str] = []
        for monomial, c in self.terms:
            product = " * ".join(_factor_text(atom, len(self.terms)) for atom in monomial)
            if not monomial:
                part = str(abs(c))
            else:
                part = product if abs(c) == 1 else f"{abs(c)} * {product}"
            sign = "-" if c < 0 else "+"
            parts.append(f" {sign} {part}" if parts else part if c > 0 else f"-{part}")
        return "".join(parts)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Expr({self.text})"


@lru_cache(MEMO)
def _compiled(expr: Expr) -> Callable[[Mapping[str, int]], int]:
    source = expr.rebuild(
        lambda atom: Expr.name(f"_v[{atom!r}]") if isinstance(atom, str) else None
    ).python()
    return eval(f"lambda _v: {source}", {"min": min, "max": max, "__builtins__": {}})


def _operand_text(expr: Expr) -> str:
    return expr.text if expr.text.isalnum() else f"({expr.text})"


def _factor_text(atom: Atom, terms: int) -> str:
    return f"({atom})" if isinstance(atom, Call) and atom.kind == "floordiv" else str(atom)


def _atom(atom: Atom) -> Expr:
    return Expr((((atom,), 1),))


def _rebuild_atom(atom: Atom, leaf: Callable[[Atom], Expr | None]) -> Expr:
    if isinstance(atom, Call):
        lhs, rhs = atom.lhs.rebuild(leaf), atom.rhs.rebuild(leaf)
        built = lhs.floordiv(rhs) if atom.kind == "floordiv" else _extreme(atom.kind, lhs, rhs)
        as_call = built.as_call(atom.kind)
        return (leaf(as_call) if as_call is not None else None) or built
    replaced = leaf(atom)
    return _atom(atom) if replaced is None else replaced


def _divide_monomial(monomial: Monomial, by: Monomial) -> Monomial | None:
    left = list(monomial)
    for atom in by:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _reduce_by_gcd(rest: Expr, d: int) -> tuple[Expr, int]:
    """floor((g*p + c) / (g*e)) == floor((p + floor(c / g)) / e) for integers p, c."""
    g = d
    for monomial, c in rest.terms:
        if monomial:
            g = gcd(g, c)
    if g == 1:
        return rest, d
    return Expr(tuple((m, c // g) for m, c in rest.terms if m or c // g)), d // g


def _extreme(kind: Literal["min", "max"], lhs: Expr, rhs: Expr) -> Expr:
    difference = (lhs - rhs).constant()
    if difference is not None:
        return lhs if (difference <= 0) == (kind == "min") else rhs
    if lhs.text > rhs.text:
        lhs, rhs = rhs, lhs
    return _atom(Call(kind, lhs, rhs))


# --- what ranges prove ----------------------------------------------------------------------


MOST_CALLS = 4
"""Quotients and extremes in an expression whose ends are tried: there are two for each."""


def nonnegative(expr: Expr, ranges: Mapping[str, Range]) -> bool:
    """Whether `expr >= 0` for all names within their ranges; False when it cannot be shown.

    A name whose upper bound is an expression (a loop dimension) is eliminated by looking at both
    ends, which is exact for the linear expressions that indices are.  What is left are symbols:
    written as lower bound plus a non-negative rest, no coefficient may be negative.
    """
    value = expr.constant()
    if value is not None:
        return value >= 0
    calls = [atom for atom in expr.atoms() if isinstance(atom, Call)]
    if calls:
        fresh = f"#{calls[0]}"
        opened = _rename(expr, calls[0], fresh)
        if len(calls) <= MOST_CALLS and _by_ends(opened, fresh, calls[0], ranges):
            return True
        return nonnegative(opened, {**ranges, fresh: _call_range(calls[0], ranges)})
    bounded = sorted(n for n in expr.names() if n in ranges and ranges[n][1] is not None)
    dims = [n for n in bounded if (ranges[n][1] or expr).constant() is None] or bounded
    for name in dims[:1] if len(dims) <= 8 else []:
        lo, hi = ranges[name]
        if hi is None or expr.coefficient(name) is None:
            break
        return all(nonnegative(expr.substitute({name: end}), ranges) for end in (lo, hi))
    shifted: dict[str, Expr] = {}
    for name in expr.names():
        lo = ranges[name][0].constant() if name in ranges else None
        if lo is None:
            return False
        shifted[name] = Expr.name(name) + lo
    return all(c >= 0 for _, c in expr.substitute(shifted).terms)


def _by_ends(expr: Expr, name: str, call: Call, ranges: Mapping[str, Range]) -> bool:
    """Whether `expr`, in which `name` stands for the call, is shown to be non-negative by what the
    call lies between: (a - b + 1) / b and a / b for a floordiv b, both operands for an extreme."""
    slope = expr.coefficient(name)
    factor = None if slope is None else slope.constant()
    if factor is None:
        return False
    rest = expr - factor * Expr.name(name)
    if call.kind == "floordiv":
        if not nonnegative(call.rhs - 1, ranges):
            return False
        end = call.lhs - call.rhs + 1 if factor > 0 else call.lhs
        return nonnegative(factor * end + call.rhs * rest, ranges)
    proofs = (nonnegative(factor * end + rest, ranges) for end in (call.lhs, call.rhs))
    return any(proofs) if (call.kind == "max") == (factor > 0) else all(proofs)


def _rename(expr: Expr, atom: Call, fresh: str) -> Expr:
    terms: dict[Monomial, int] = {}
    for monomial, c in expr.terms:
        renamed = tuple(sorted((fresh if a == atom else a for a in monomial), key=str))
        terms[renamed] = terms.get(renamed, 0) + c
    return _from_terms(terms)


def _least(expr: Expr, ranges: Mapping[str, Range]) -> int | None:
    """A number that `expr` is never below, if one can be shown."""
    for atom in expr.atoms():
        if isinstance(atom, Call):
            fresh = f"#{atom}"
            return _least(_rename(expr, atom, fresh), {**ranges, fresh: _call_range(atom, ranges)})
    shifted: dict[str, Expr] = {}
    for name in expr.names():
        low = ranges[name][0].constant() if name in ranges else None
        if low is None:
            return None
        shifted[name] = Expr.name(name) + low
    rest = expr.substitute(shifted)
    constant = sum(c for monomial, c in rest.terms if not monomial)
    return constant if all(c >= 0 for monomial, c in rest.terms if monomial) else None


def _call_range(atom: Call, ranges: Mapping[str, Range]) -> Range:
    """Bounds of an atom; only what indices need: quotients and extremes of bounded values."""
    lhs, rhs = _least(atom.lhs, ranges), _least(atom.rhs, ranges)
    low: int | None = None
    upper: Expr | None = None
    match atom.kind:
        case "floordiv":
            by = atom.rhs.constant()
            if lhs is not None and by is not None and by > 0:
                low = lhs // by
            elif lhs is not None and rhs is not None and lhs >= 0 and rhs > 0:
                low = 0
        case "max":
            low = max((end for end in (lhs, rhs) if end is not None), default=None)
        case "min":
            low = min(lhs, rhs) if lhs is not None and rhs is not None else None
            constants = [c for e in (atom.lhs, atom.rhs) if (c := e.constant()) is not None]
            upper = Expr.const(min(constants)) if constants else None
    return Expr.const(-(1 << 62) if low is None else low), upper


def simplify(expr: Expr, ranges: Mapping[str, Range]) -> Expr:
    """Drops quotients that are zero and resolves minima and maxima that the ranges decide."""
    if not expr.calls():
        return expr

    def leaf(atom: Atom) -> Expr | None:
        if isinstance(atom, str):
            return None
        lhs, rhs = atom.lhs, atom.rhs
        if atom.kind == "floordiv":
            inside = nonnegative(lhs, ranges) and nonnegative(rhs - lhs - 1, ranges)
            return Expr.const(0) if inside else None
        small, large = (lhs, rhs) if atom.kind == "min" else (rhs, lhs)
        if nonnegative(large - small, ranges):
            return lhs
        return rhs if nonnegative(small - large, ranges) else None

    return expr.rebuild(leaf)


def product(factors: Iterable[Expr | int]) -> Expr:
    """The product of the factors; 1 if there are none."""
    total = Expr.const(1)
    for factor in factors:
        total = total * factor
    return total


def contiguous_strides(shape: Iterable[Expr]) -> tuple[Expr, ...]:
    """Row-major strides in elements of a dense array of that shape; as in PyTorch, an extent of 0
    counts as 1."""
    strides: list[Expr] = []
    step = Expr.const(1)
    for extent in reversed(tuple(shape)):
        strides.append(step)
        step = step * (1 if extent == 0 else extent)
    return tuple(reversed(strides))


def nesting(
    shape: Sequence[Expr], strides: Sequence[Expr], ranges: Mapping[str, Range]
) -> list[int] | None:
    """The dims from the outermost to the innermost, if each steps over all that lies inside it.

    None if that cannot be shown: elements may then share an address.
    """
    free = [dim for dim, extent in enumerate(shape) if extent == 1]
    left = [dim for dim in range(len(shape)) if dim not in free]
    inside: list[int] = []
    span = Expr.const(1)
    while left:
        dim = next((d for d in reversed(left) if _is_least(strides, d, left, ranges)), None)
        if dim is None or not nonnegative(strides[dim] - span, ranges):
            return None
        left.remove(dim)
        inside.append(dim)
        span = strides[dim] * shape[dim]
    return [*free, *reversed(inside)]


def _is_least(
    strides: Sequence[Expr], dim: int, dims: Sequence[int], ranges: Mapping[str, Range]
) -> bool:
    return all(nonnegative(strides[other] - strides[dim], ranges) for other in dims)
