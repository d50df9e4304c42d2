"""Memory of results is used again when nobody has them any more, and not before."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor

from lpu_mlir.runtime import buffers
from lpu_mlir.runtime.buffers import KEEP_SECONDS, POOLED_BYTES, SHARED, Buffers, storage_bytes

pytestmark = pytest.mark.sampled

ROWS, COLUMNS = 512, 1024  # of float32: 2 MB
SIZE = 4 * ROWS * COLUMNS


def take(pool: Buffers, rows: int = ROWS) -> Tensor:
    return pool.empty((rows, COLUMNS), (COLUMNS, 1), torch.float32)


def test_a_result_is_as_from_empty_strided():
    pool = Buffers()
    for sizes, strides in [
        ((ROWS, COLUMNS), (COLUMNS, 1)),
        ((ROWS, COLUMNS), (1, ROWS)),
        ((3,), (1,)),
    ]:
        got = pool.empty(sizes, strides, torch.bfloat16)
        want = torch.empty_strided(sizes, strides, dtype=torch.bfloat16)
        for read in (Tensor.stride, Tensor.storage_offset, Tensor.is_contiguous):
            assert read(got) == read(want)
        assert (got.shape, got.dtype, got.requires_grad) == (want.shape, want.dtype, False)
        assert got._base is None
        assert got.untyped_storage().nbytes() == want.untyped_storage().nbytes()
        assert got.data_ptr() % 64 == 0


def test_memory_is_used_again():
    pool = Buffers()
    addresses = {take(pool).data_ptr() for _ in range(10)}
    assert len(addresses) == 1
    held = [take(pool) for _ in range(3)]
    assert len({tensor.data_ptr() for tensor in held}) == 3
    assert pool.kept_bytes == 3 * SIZE
    del held
    assert take(pool, 2 * ROWS).nbytes == 2 * SIZE  # of another size: memory of its own


def test_small_results_are_not_kept():
    pool = Buffers()
    pool.empty((POOLED_BYTES - 1,), (1,), torch.uint8)
    assert pool.kept_bytes == 0
    pool.empty((POOLED_BYTES,), (1,), torch.uint8)
    assert pool.kept_bytes == POOLED_BYTES


def saved_for_backward(tensor: Tensor) -> Any:
    weight = torch.ones(COLUMNS, requires_grad=True)
    return (tensor * weight).sum()


HOLDERS: dict[str, Callable[[Tensor], Any]] = {
    "itself": lambda t: t,
    "a view": lambda t: t[3:, 1],
    "detached": lambda t: t.detach(),
    "a parameter": torch.nn.Parameter,
    "an array": lambda t: t.numpy(),
    "a view of an array": lambda t: t.numpy()[1:, ::2],
    "a memoryview": lambda t: memoryview(t.numpy()),
    "dlpack": lambda t: t.__dlpack__(),
    "from dlpack": torch.from_dlpack,
    "its storage": lambda t: t.untyped_storage(),
    "a typed storage": lambda t: t.storage(),
    "the graph of autograd": saved_for_backward,
    "the .data of another": lambda t: setattr(other := torch.empty(0), "data", t) or other,
    "a lazy copy": torch._lazy_clone,
    "another dtype": lambda t: t.view(torch.int32),
    "weakly, then a view": lambda t: t.as_strided((1,), (1,)),
}


@pytest.mark.filterwarnings("ignore:TypedStorage:UserWarning")
@pytest.mark.parametrize("holder", HOLDERS)
def test_what_holds_a_result_keeps_its_memory(holder: str):
    pool = Buffers()
    first = take(pool)
    first.fill_(1.0)
    address = first.data_ptr()
    held = HOLDERS[holder](first)
    del first
    gc.collect()
    second = take(pool)
    assert second.data_ptr() != address
    second.fill_(2.0)
    if isinstance(held, Tensor) and held.dtype == torch.float32 and held.ndim:
        assert bool((held == 1.0).all())
    del held, second
    gc.collect()
    assert len({take(pool).data_ptr(), take(pool).data_ptr()}) == 1


def test_the_storage_object_alone_keeps_it():
    pool = Buffers()
    for _ in range(2):
        storage = take(pool).untyped_storage()
        assert take(pool).data_ptr() != storage.data_ptr()


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.untyped_storage().resize_(2 * SIZE),
        lambda t: t.untyped_storage().resize_(0),
        lambda t: t.resize_(2 * ROWS, COLUMNS),
        lambda t: t.share_memory_(),
        lambda t: t.numpy(),
    ],
    ids=["grown", "emptied", "resized", "shared with processes", "lent to NumPy"],
)
def test_storages_that_users_changed_are_given_up(change: Callable[[Tensor], Any]):
    pool = Buffers()
    change(take(pool))
    for _ in range(2):
        fresh = take(pool)
        assert not fresh.is_shared()
        assert fresh.untyped_storage().resizable()
        assert fresh.untyped_storage().nbytes() == SIZE
        fresh.fill_(0.0)
        del fresh
    assert pool.kept_bytes == SIZE


def test_nothing_else_of_an_old_result_is_left():
    pool = Buffers()
    x = take(pool)
    x.t_()
    x.requires_grad_().mul(2).sum().backward()
    address = x.data_ptr()
    del x
    again = take(pool)
    assert again.data_ptr() == address
    assert (again.requires_grad, again.grad, tuple(again.shape)) == (False, None, (ROWS, COLUMNS))


def test_inference_mode_is_that_of_the_call():
    pool = Buffers()
    with torch.inference_mode():
        assert take(pool).is_inference()
    assert not take(pool).is_inference()


def test_memory_that_is_not_there_is_pytorchs_error():
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        Buffers().empty((1 << 50,), (1,), torch.float64)


def test_idle_memory_is_given_back(monkeypatch: pytest.MonkeyPatch):
    now = 100.0
    monkeypatch.setattr(buffers.time, "monotonic", lambda: now)
    pool = Buffers()
    held, passing = take(pool), take(pool)
    del passing
    other = take(pool, 2 * ROWS)  # memory is made: what is idle is noticed
    now += KEEP_SECONDS - 1
    del other
    other = take(pool, 2 * ROWS)
    assert pool.kept_bytes == (1 + 1 + 2) * SIZE
    now += 2
    del other
    other = take(pool, 2 * ROWS)
    assert pool.kept_bytes == (1 + 2) * SIZE
    del held
    now += 2 * KEEP_SECONDS  # only now it is noticed
    del other
    other = take(pool, 2 * ROWS)
    assert pool.kept_bytes == (1 + 2) * SIZE
    now += KEEP_SECONDS + 1
    del other
    take(pool, 2 * ROWS)
    assert pool.kept_bytes == 2 * SIZE


def test_idle_memory_is_bounded():
    pool = Buffers(idle_limit=3 * SIZE)
    held = [take(pool) for _ in range(5)]
    assert pool.kept_bytes == 5 * SIZE
    del held
    take(pool, 2 * ROWS)
    assert pool.kept_bytes == (3 + 2) * SIZE


def test_threads_never_get_the_same_memory():
    pool, lock, busy = Buffers(), threading.Lock(), set[int]()

    def work(seed: int) -> None:
        for step in range(300):
            tensor = take(pool, ROWS + (seed + step) % 2)
            with lock:
                assert tensor.data_ptr() not in busy
                busy.add(tensor.data_ptr())
            tensor[0, 0] = step
            with lock:
                busy.remove(tensor.data_ptr())

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert pool.kept_bytes <= 16 * SIZE + 16 * 4 * COLUMNS


def test_programs_share_buffers_until_the_last_is_gone():
    mine = SHARED.get()
    assert SHARED.get() is mine
    take(mine)
    assert mine.kept_bytes >= SIZE


@pytest.mark.parametrize(
    ("sizes", "strides", "expected"),
    [
        ((3, 4), (4, 1), 48),
        ((3, 4), (0, 1), 16),
        ((3, 4), (8, 1), 80),
        ((0, 4), (4, 1), 0),
        ((), (), 4),
    ],
)
def test_storage_bytes(sizes: tuple[int, ...], strides: tuple[int, ...], expected: int):
    storage = torch.empty_strided(sizes, strides).untyped_storage()
    assert storage_bytes(sizes, strides, 4) == expected == storage.nbytes()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_while_another_thread_has_the_lock():
    buffers = SHARED.get()
    with buffers._lock:
        asking = threading.Thread(target=buffers.empty, args=((POOLED_BYTES,), (1,), torch.uint8))
        asking.start()

        def fork() -> None:
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                buffers.empty((POOLED_BYTES,), (1,), torch.uint8)
                os._exit(0)
            status.append(os.waitpid(child, 0)[1])

        status: list[int] = []
        forking = threading.Thread(target=fork)
        forking.start()
        forking.join()
    asking.join()
    assert status == [0]


def test_released_memory_is_only_what_nobody_uses():
    buffers = Buffers(idle_limit=1 << 40)
    shape = (POOLED_BYTES // 4,)
    held = buffers.empty(shape, (1,), torch.float32)
    buffers.empty((*shape, 2), (2, 1), torch.float32)
    assert buffers.kept_bytes == 3 * POOLED_BYTES
    buffers.release()
    assert buffers.kept_bytes == held.nbytes
    held.fill_(1.0)
    assert held.eq(1.0).all()
