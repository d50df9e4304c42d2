"""Expressions: canonical form, cancellation, text, and what `simplify` and `nonnegative` prove."""

from itertools import product as points
from math import ceil, floor

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from lpu_mlir.dialects.expr import (
    Expr,
    contiguous_strides,
    nonnegative,
    product,
    simplify,
)
from lpu_mlir.dialects.lpu import ExprAttr, Lpu, ShapeAttr

A, B, S = (Expr.name(name) for name in ("a", "b", "s0"))
NAMES = ("a", "b", "s0")
ENDS = {"a": (0, 5), "b": (1, 4), "s0": (2, 9)}
RANGES = {name: (Expr.const(low), Expr.const(high)) for name, (low, high) in ENDS.items()}


def parse(text: str) -> Expr:
    context = Context()
    context.load_dialect(Lpu)
    attribute = Parser(context, f"#lpu.expr<{text}>").parse_attribute()
    assert isinstance(attribute, ExprAttr)
    return attribute.data


# Source text in the language that `parse` reads and, with the functions given, Python evaluates.
LEAVES = st.sampled_from(NAMES) | st.integers(-9, 9).map(lambda n: str(n) if n >= 0 else f"({n})")


def combine(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    divisors = st.integers(1, 6).map(str) | st.sampled_from(["b", "s0"])
    return st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(
            lambda t: "({} {} {})".format(*t)
        ),
        st.tuples(inner, st.sampled_from(["floordiv", "mod"]), divisors).map(
            lambda t: "({} {} {})".format(*t)
        ),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(
            lambda t: "{}({}, {})".format(*t)
        ),
    )


SOURCES = st.recursive(LEAVES, combine, max_leaves=7)
VALUES = st.fixed_dictionaries({name: st.integers(*ends) for name, ends in ENDS.items()})


def value_of(source: str, values: dict[str, int]) -> int:
    python = source.replace("floordiv", "//").replace("mod", "%")
    return eval(python, {"min": min, "max": max}, values)


# --- canonical form -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [
        (A + B, B + A),
        (A * B, B * A),
        ((A + B) * (A - B), A * A - B * B),
        (A - A, Expr.const(0)),
        (2 * A + 3 - A, A + 3),
        (5 - A, Expr.const(5) + A * -1),
        (A * 0, Expr.const(0)),
        (A * 1, A),
        (Expr.min(A, B), Expr.min(B, A)),
        (Expr.max(A, A + 3), A + 3),
        (Expr.min(A, A + 3), A),
        (Expr.min(7, 4), Expr.const(4)),
        ((8 * A + 3).floordiv(8), A),
        ((8 * A + 8).floordiv(8), A + 1),
        ((8 * A - 1).floordiv(8), A - 1),
        ((4 * A + 6).floordiv(8), (2 * A + 3).floordiv(4)),
        ((A * S).floordiv(S), A),
        ((A * S + B * S).floordiv(S), A + B),
        (A.floordiv(2).floordiv(3), A.floordiv(6)),
        ((6 * A).mod(3), Expr.const(0)),
        ((6 * A + B).mod(3), B.mod(3)),
        ((S * A + B).mod(S), B.mod(S)),
        (Expr.const(-7).floordiv(2), Expr.const(-4)),
        (Expr.const(-7).mod(2), Expr.const(1)),
        (Expr.const(17).ceildiv(8), Expr.const(3)),
        (A.floordiv(1), A),
        (A.mod(1), Expr.const(0)),
    ],
    ids=str,
)
def test_equal_expressions_are_one(lhs: Expr, rhs: Expr):
    assert lhs == rhs
    assert hash(lhs) == hash(rhs)
    assert str(lhs) == str(rhs)


@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [
        (A, B),
        (A, A + 1),
        (A.floordiv(2), A.floordiv(3)),
        ((A + 1).floordiv(2), A.floordiv(2)),
        (Expr.min(A, B), Expr.max(A, B)),
        (Expr.min(A, B), A),
        (A * A, 2 * A),
    ],
    ids=str,
)
def test_different_expressions_are_two(lhs: Expr, rhs: Expr):
    assert lhs != rhs
    assert str(lhs) != str(rhs)


def test_comparison_with_integers():
    assert Expr.const(3) == 3
    assert A - A + 3 == 3
    assert A != 3
    assert Expr.const(0).constant() == 0
    assert (A + 3).constant() is None


def test_division_by_zero():
    with pytest.raises(ZeroDivisionError, match="floordiv 0"):
        A.floordiv(0)
    with pytest.raises(ZeroDivisionError):
        A.floordiv(B).evaluate({"a": 1, "b": 0})


def test_queries():
    expr = 24 * S * A + Expr.min(B, A.floordiv(8)) + 3
    assert expr.names() == {"a", "b", "s0"}
    assert {str(call) for call in expr.calls()} == {
        "a floordiv 8",
        "min((a floordiv 8), b)",
    }
    assert expr.coefficient("s0") == 24 * A
    assert expr.coefficient("a") is None, "a also occurs inside the minimum"
    assert (3 * A + S).coefficient("a") == 3
    assert (A * A).coefficient("a") is None
    assert (3 * A).coefficient("b") == 0
    with pytest.raises(KeyError, match="b"):
        expr.evaluate({"a": 1, "s0": 2})


def test_polynomial_division():
    quotient, rest = (A * S + 3 * S + B).divmod(S)
    assert (quotient, rest) == (A + 3, B)
    assert (A + B).divmod(S) == (Expr.const(0), A + B)


def test_product_and_strides():
    assert product([]) == 1
    assert product([2, S, A]) == 2 * S * A
    assert contiguous_strides([A, S, Expr.const(3)]) == (3 * S, Expr.const(3), Expr.const(1))
    assert contiguous_strides([]) == ()


# --- reshapes cancel ----------------------------------------------------------------------------


@pytest.mark.parametrize("inner", [Expr.const(3), S, 3 * S], ids=str)
def test_a_split_and_its_inverse_cancel(inner: Expr):
    """Row-major positions (i, j) -> i * inner + j and back."""
    ranges = {"i": (Expr.const(0), Expr.const(7)), "j": (Expr.const(0), inner - 1), **RANGES}
    i, j = Expr.name("i"), Expr.name("j")
    flat = i * inner + j
    assert simplify(flat.floordiv(inner), ranges) == i
    assert simplify(flat.mod(inner), ranges) == j
    k = Expr.name("k")
    assert k.floordiv(inner) * inner + k.mod(inner) == k


def test_nested_reshape_cancels():
    """[4, 6] read as [24] read as [2, 3, 4]: the middle shape leaves no trace."""
    a, b, c = (Expr.name(n) for n in ("a3", "b3", "c3"))
    ends = {"a3": 1, "b3": 2, "c3": 3}
    ranges = {n: (Expr.const(0), Expr.const(high)) for n, high in ends.items()}
    flat = 12 * a + 4 * b + c
    row, column = flat.floordiv(6), flat.mod(6)
    assert row * 6 + column == flat
    assert simplify(flat.floordiv(12), ranges) == a
    assert simplify(flat.floordiv(4), ranges) == 3 * a + b
    assert simplify(flat.mod(4), ranges) == c


# --- values -------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(SOURCES, VALUES)
@example("((a - b) floordiv b)", {"a": 0, "b": 3, "s0": 2})
@example("(((a * s0) + b) mod s0)", {"a": 3, "b": 4, "s0": 3})
def test_value_is_that_of_the_source(source: str, values: dict[str, int]):
    expr = parse(source)
    expected = value_of(source, values)
    assert expr.evaluate(values) == expected
    assert value_of(expr.python(), values) == expected


@settings(max_examples=300, deadline=None)
@given(SOURCES)
def test_text_parses_to_the_same_expression(source: str):
    expr = parse(source)
    assert parse(str(expr)) == expr


@settings(max_examples=200, deadline=None)
@given(SOURCES, SOURCES, VALUES)
def test_substitution_commutes_with_evaluation(source: str, other: str, values: dict[str, int]):
    divisors = {"b": Expr.name("b"), "s0": Expr.name("s0")}  # these must stay positive
    outer, inner = parse(source), parse(other)
    moved = outer.substitute({"a": inner, **divisors})
    assert moved.evaluate(values) == outer.evaluate({**values, "a": inner.evaluate(values)})


def test_substitution_is_simultaneous():
    assert (A + 2 * B).substitute({"a": B, "b": A}) == B + 2 * A
    unchanged = A + 1
    assert unchanged.substitute({"b": A}) is unchanged


@settings(max_examples=200, deadline=None)
@given(SOURCES, VALUES, st.integers(1, 7))
def test_division_agrees_with_python(source: str, values: dict[str, int], divisor: int):
    expr = parse(source)
    value = expr.evaluate(values)
    assert expr.floordiv(divisor).evaluate(values) == floor(value / divisor)
    assert expr.ceildiv(divisor).evaluate(values) == ceil(value / divisor)
    assert expr.mod(divisor).evaluate(values) == value % divisor


# --- ranges -------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(SOURCES, VALUES)
def test_simplify_keeps_the_value_within_the_ranges(source: str, values: dict[str, int]):
    expr = parse(source)
    assert simplify(expr, RANGES).evaluate(values) == expr.evaluate(values)


def grid():
    spans = [range(low, high + 1) for low, high in ENDS.values()]
    return [dict(zip(ENDS, point, strict=True)) for point in points(*spans)]


@settings(max_examples=300, deadline=None)
@given(SOURCES)
@example("(a - 1)")
@example("((s0 - a) - 1)")
@example("((a * b) - (3 * a))")
@example("(min(a, b) - 1)")
def test_what_is_called_nonnegative_is(source: str):
    expr = parse(source)
    if nonnegative(expr, RANGES):
        assert all(expr.evaluate(values) >= 0 for values in grid())


def dims(**extents: Expr | int):
    return {name: (Expr.const(0), Expr.of(extent) - 1) for name, extent in extents.items()}


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (A, True),
        (A - 1, False),
        (S - 2, True),
        (S - 3, False),
        (9 - S, True),
        (8 - S, False),
        (S * A + B - 1, True),
        (Expr.max(A - 3, 0), True),
        (Expr.min(A, B), True),
        (3 - Expr.min(A, 3), True),
        (A.floordiv(2), True),
        ((S + 1).floordiv(2) - 1, True),
        ((S + 1).floordiv(2) - 2, False),
        (2 * (S + 1).floordiv(2) - S, True),
        (2 * (S + 1).floordiv(2) - S - 1, False),
        (S - 2 * S.floordiv(2), True),
        (Expr.max(A, S) - S, True),
        ((S.floordiv(2) - 1) * (S.floordiv(2) - 1), True),
        ((S.floordiv(2) - 2) * (S.floordiv(2) - 1), False),
        (S - Expr.max(A - 3, S), True),
        (S - Expr.max(A, S), False),
        (Expr.min(S, S + A - 1) - 1, True),
        (Expr.name("unknown"), False),
    ],
    ids=str,
)
def test_nonnegative(expr: Expr, expected: bool):
    assert nonnegative(expr, RANGES) == expected


def test_nonnegative_with_symbolic_extents():
    n, i, j = (Expr.name(name) for name in ("n", "i", "j"))
    ranges = {"n": (Expr.const(1), None), **dims(i=n, j=4)}
    assert nonnegative(n - 1 - i, ranges)
    assert nonnegative(4 * n - 1 - (4 * i + j), ranges)
    assert not nonnegative(n - 2 - i, ranges)
    assert not nonnegative(4 * n - 2 - (4 * i + j), ranges)
    assert simplify((n * j + i).floordiv(n), ranges) == j
    assert simplify(Expr.min(n, i), ranges) == i
    assert simplify(Expr.max(n, 0), ranges) == n
    kept = Expr.min(n, 3)
    assert simplify(kept, ranges) == kept


# --- text ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("0", "0"),
        ("-3", "-3"),
        ("s0 * 24 + 3", "24 * s0 + 3"),
        ("3 - a", "-a + 3"),
        ("a - -3", "a + 3"),
        ("-a - b", "-a - b"),
        ("a * (b + 2)", "a * b + 2 * a"),
        ("(a + 1) floordiv 8", "((a + 1) floordiv 8)"),
        ("a floordiv 8 + 1", "(a floordiv 8) + 1"),
        ("a mod 8", "a - 8 * (a floordiv 8)"),
        ("min(a, 64 - b)", "min(-b + 64, a)"),
        ("max(3, 4) * a", "4 * a"),
        ("(a floordiv 2) * b", "(a floordiv 2) * b"),
        ("a floordiv (b * 2)", "(a floordiv (2 * b))"),
    ],
)
def test_printed_form(text: str, printed: str):
    assert str(parse(text)) == printed
    assert parse(printed) == parse(text)


@pytest.mark.parametrize("text", ["", "a +", "a b", "min(a)", "(a", "a floordiv", "* a"])
def test_parse_errors(text: str):
    with pytest.raises(ParseError):
        parse(text)


def test_shapes_parse():
    context = Context()
    context.load_dialect(Lpu)
    text = "#lpu.shape<[1, s0, 2 * s0 + 1]>"
    shape = Parser(context, text).parse_attribute()
    assert shape == ShapeAttr.of([1, S, 2 * S + 1])
    assert str(shape) == text
