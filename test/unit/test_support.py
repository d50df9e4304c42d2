"""The table of operators against what the frontend does today."""

import json

import pytest
from operators import TABLE, imported, is_core, table_of, witnesses

import lpu_mlir
from lpu_mlir.frontend.table import HANDLERS, ON_HOST
from lpu_mlir.support import KINDS

SUPPORT = lpu_mlir.supported_ops()
CORE = [row for row in SUPPORT.values() if row.core]


@pytest.mark.slow
def test_what_the_table_says_of_core_holds_today():
    claims = set().union(*map(imported, witnesses("core")))
    shown = table_of(filter(is_core, claims))
    table = json.loads(TABLE.read_text())
    assert shown == {name: table[name] for name in table if SUPPORT[name].core}, "scripts/operators"


def test_all_of_core_aten_is_there():
    assert len(CORE) == 193
    assert {row.kind for row in CORE} == set(KINDS)
    assert sum(row.kind == "native" for row in CORE) >= 160


@pytest.mark.parametrize("row", [r for r in CORE if r.kind == "host"], ids=lambda row: row.overload)
def test_what_core_has_on_the_host_says_why(row: lpu_mlir.OperatorSupport):
    assert row.reason


def test_every_native_operator_of_core_was_seen():
    """One without a sample that shows that it is native has no place in the table."""
    unseen = [row.overload for row in CORE if row.kind == "native" and not row.native]
    assert unseen == []


def test_reasons_are_of_operators_without_a_native_form():
    assert not set(ON_HOST) & set(HANDLERS)
