"""A few pairs of dtypes for each operator; scripts/promotion tries all."""

import pytest
import torch
from promotion import OPERATORS, Case, refuses, taken, unexplained

pytestmark = [pytest.mark.sampled, pytest.mark.filterwarnings("ignore")]

GROUPS = 25
"""A graph has the cases of some operators: each graph takes time."""


@pytest.mark.parametrize("group", range(GROUPS))
def test_dtypes_and_values_are_those_of_eager(group: int):
    names = list(OPERATORS)[group::GROUPS]
    chosen = [case for name in names for case in taken(name, most=2)]
    assert not unexplained(chosen, interpreter="reference")


def test_what_eager_refuses_is_refused():
    """A result that cannot be converted to the dtype of what is changed, or a dtype without one."""
    x, flags = torch.arange(3), torch.tensor([True, False])
    for name, arguments in (
        ("add in place", (x, 2.5)),
        ("add in place", (flags, 3)),
        ("sub in place", (x, torch.ones(3))),
        ("sub in place", (flags, flags)),
        ("sub", (flags, flags)),
        ("sub", (x[:2], flags)),
        ("sub", (x, True)),
        ("div.no_rounding_mode in place", (x, x + 1)),
    ):
        assert refuses(Case(name, OPERATORS[name], arguments), "lpu_mlir")
