"""What the inner loop, `pytest -m "not slow"`, runs of long files; cheaper garbage collection."""

import gc
import os
from collections import Counter, defaultdict
from pathlib import Path
from random import Random

import pytest

os.environ.setdefault("LPU_MLIR_CACHE", "0")  # tests are of the compiler of today

INNER_TESTS, INNER_CASES = 8, 2
"""Of a file marked `sampled`: how many of its tests are not slow, and how many cases of one."""


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks all but a few tests of each sampled file as slow.

    Which ones stay changes only with the file: they are drawn, since a choice by position would
    always take the same value of a parameter.
    """
    files: dict[Path, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("slow"):
            files[item.path].append(item)
    for tests in files.values():
        inner = Counter[str]()
        for test in Random(len(tests)).sample(tests, len(tests)):
            name = test.nodeid.partition("[")[0]
            if inner.total() < INNER_TESTS and inner[name] < INNER_CASES:
                inner[name] += 1
            else:
                test.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """What the imports have made lives until the end: no collection need look at it again."""
    gc.collect()
    gc.freeze()
