"""The table of operators against what the frontend does today."""

import pytest
from operators import WITNESSES, imported, table_of, witnesses

import lpu_mlir
from lpu_mlir.frontend.table import HANDLERS, ON_HOST
from lpu_mlir.support import KINDS

SUPPORT = lpu_mlir.supported_ops()
CORE = [row for row in SUPPORT.values() if row.core]
CHECKED = ("native", "host", "dynamic", "gradient")


def test_claims_hold_today():
    claims = set().union(*map(imported, witnesses()))
    assert claims, WITNESSES
    shown = table_of(claims)
    for name, row in SUPPORT.items():
        found = shown.get(name, {})
        assert row.native == tuple(found.get("native", ())), name
        assert row.host == tuple(found.get("host", ())), name
        assert (row.dynamic, row.gradient) == (
            found.get("dynamic", False),
            found.get("gradient", False),
        ), name


def test_all_of_core_aten_is_there():
    assert len(CORE) == 193
    assert {row.kind for row in CORE} == set(KINDS)
    assert sum(row.kind == "native" for row in CORE) >= 160


@pytest.mark.parametrize("row", [r for r in CORE if r.kind == "host"], ids=lambda row: row.overload)
def test_what_core_has_on_the_host_says_why(row: lpu_mlir.OperatorSupport):
    assert row.reason


def test_every_handler_was_seen():
    """An operator without a sample that shows that it is native has no place in the table."""
    unseen = [str(op) for op in HANDLERS if not SUPPORT[str(op)].native]
    assert unseen == []


def test_reasons_are_of_operators_without_a_native_form():
    assert not set(ON_HOST) & set(HANDLERS)
