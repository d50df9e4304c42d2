"""The table of operators against what the frontend does today."""

import json

import pytest
from operators import TABLE, Claim, claims_in, imported, is_certain, witnesses

import lpu_mlir
from lpu_mlir.frontend.table import HANDLERS, ON_HOST
from lpu_mlir.support import KINDS

SUPPORT = lpu_mlir.supported_ops()
CORE = [row for row in SUPPORT.values() if row.core]


@pytest.mark.slow
def test_what_the_table_says_holds_today():
    claims = set(claims_in(json.loads(TABLE.read_text())))
    shown = set[Claim]().union(*map(imported, witnesses()))
    assert {claim for claim in claims - shown if not is_certain(claim)} == set(), (
        "scripts/operators"
    )
    assert shown - claims == set(), "scripts/operators"


def test_all_of_core_aten_is_there():
    assert len(CORE) == 193
    assert {row.kind for row in CORE} == set(KINDS)
    assert sum(row.kind == "native" for row in CORE) >= 160


@pytest.mark.parametrize("row", [r for r in CORE if r.kind == "host"], ids=lambda row: row.overload)
def test_what_core_has_on_the_host_says_why(row: lpu_mlir.OperatorSupport):
    assert row.reason
    assert "no native form" not in row.reason


def test_what_draws_says_so():
    assert "draws from PyTorch's generator" in SUPPORT["aten.multinomial.default"].reason


def test_every_native_operator_of_core_was_seen():
    """One without a sample that shows that it is native has no place in the table."""
    unseen = [row.overload for row in CORE if row.kind == "native" and not row.native]
    assert unseen == []


def test_reasons_are_of_operators_without_a_native_form():
    assert not set(ON_HOST) & set(HANDLERS)
