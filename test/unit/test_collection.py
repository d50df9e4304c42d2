"""Garbage collection is off while a thread compiles, and as it was afterwards."""

import gc
import os
import threading
from collections.abc import Iterator

import pytest

from lpu_mlir.collection import COLLECTION, Collection


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_nested_pauses():
    collection = Collection()
    with collection.paused():
        with collection.paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_stays_off_where_it_was_off():
    gc.disable()
    with Collection().paused():
        pass
    assert not gc.isenabled()


def test_the_last_thread_ends_the_pause():
    collection, entered, leave = Collection(), threading.Event(), threading.Event()

    def other() -> None:
        with collection.paused():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with collection.paused():
        thread.start()
        entered.wait()
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_a_child_forked_meanwhile_collects():
    with COLLECTION.paused():
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
        _, status = os.waitpid(child, 0)
    assert status == 0
    assert gc.isenabled()
