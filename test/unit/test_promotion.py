"""A few pairs of dtypes for each operator; scripts/promotion tries all."""

import pytest
from promotion import OPERATORS, taken, unexplained

pytestmark = [pytest.mark.sampled, pytest.mark.filterwarnings("ignore")]

GROUPS = 25
"""A graph has the cases of some operators: each graph takes time."""


@pytest.mark.parametrize("group", range(GROUPS))
def test_dtypes_and_values_are_those_of_eager(group: int):
    names = list(OPERATORS)[group::GROUPS]
    chosen = [case for name in names for case in taken(name, most=2)]
    assert not unexplained(chosen, interpreter="reference")
