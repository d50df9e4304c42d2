"""Garbage collection is off while a thread compiles, and as it was afterwards."""

import gc
import os
import threading
import weakref
from collections.abc import Iterator

import pytest

from lpu_mlir.collection import COLLECTION, MANY, Collection


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    """On, and with nothing frozen, as in a program of a user; as before afterwards."""
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    gc.enable()
    yield
    gc.enable()
    if frozen:
        gc.freeze()


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


class Cycle:
    """Garbage that only a collection finds."""

    def __init__(self) -> None:
        self.me = self


def cycles(count: int) -> weakref.ref[Cycle]:
    """Makes so many; a reference to the first."""
    made = [Cycle() for _ in range(count)]
    return weakref.ref(made[0])


@pytest.mark.parametrize(("count", "left"), [(10, False), (2 * MANY, True)])
def test_much_garbage_is_left_to_a_full_collection(count: int, left: bool):
    gc.collect()
    collection = Collection()
    with collection.paused():
        first = cycles(count)
    gc.collect(0)
    assert (first() is not None) == left
    collection.make_room()
    assert first() is None


@pytest.mark.parametrize("between", [False, True])
def test_room_is_made_unless_python_collected(between: bool):
    gc.collect()
    collection = Collection()
    with collection.paused():
        cycles(2 * MANY)
    if between:
        gc.collect()
    before = gc.get_stats()[-1]["collections"]
    collection.make_room()
    collection.make_room()
    assert gc.get_stats()[-1]["collections"] - before == (0 if between else 1)


def test_what_a_user_froze_stays_frozen():
    gc.freeze()
    try:
        frozen, collection = gc.get_freeze_count(), Collection()
        with collection.paused():
            first = cycles(2 * MANY)
        assert gc.get_freeze_count() == frozen
        gc.collect(0)
        assert first() is None
    finally:
        gc.unfreeze()
