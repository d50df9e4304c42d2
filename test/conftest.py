"""What the inner loop, `pytest -m "not slow"`, runs of long tables; cheaper garbage collection."""

import gc
import os
from collections import defaultdict
from random import Random

import pytest

os.environ.setdefault("LPU_MLIR_CACHE", "0")  # tests are of the compiler of today

INNER_CASES = 3
"""Cases of a test marked `table` that are not slow."""


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks all but a few cases of each test in a table as slow.

    Which ones stay is drawn anew only when the table changes: a choice by position would always
    take the same value of a parameter.
    """
    tables: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("table"):
            tables[item.nodeid.partition("[")[0]].append(item)
    for cases in tables.values():
        inner = Random(len(cases)).sample(cases, min(len(cases), INNER_CASES))
        for case in cases:
            if case not in inner:
                case.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """What the imports have made lives until the end: no collection need look at it again."""
    gc.collect()
    gc.freeze()
