"""Code made of LLVM text, and the threads that run it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from weakref import ref

import numpy as np
import pytest
from numpy.typing import NDArray

from lpu_mlir.interpreter.native.compile import Code, Loader, host, loader, object_for
from lpu_mlir.interpreter.native.driver import can_share, driver
from lpu_mlir.interpreter.native.machine import MACHINES, Machine
from lpu_mlir.interpreter.native.pool import Plan, Pool, as_bases, pool

# Phases over an array of i64. A core owns one element of it.
KERNELS = """
; x[core] = 2 * x[core] + k
define void @affine.p0(ptr %args, ptr %scratch, i64 %lo, i64 %hi, ptr %fail) {
entry:
  %x = load ptr, ptr %args
  %k.at = getelementptr i64, ptr %args, i64 1
  %k = load i64, ptr %k.at
  br label %head
head:
  %i = phi i64 [ %lo, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %hi
  br i1 %more, label %body, label %end
body:
  %at = getelementptr i64, ptr %x, i64 %i
  %old = load i64, ptr %at
  %twice = mul i64 %old, 2
  %new = add i64 %twice, %k
  store i64 %new, ptr %at
  %next = add i64 %i, 1
  br label %head
end:
  ret void
}

; y[core] = x[n - 1 - core]: what another worker wrote, if several work
define void @reverse.p0(ptr %args, ptr %scratch, i64 %lo, i64 %hi, ptr %fail) {
entry:
  %x = load ptr, ptr %args
  %y.at = getelementptr i64, ptr %args, i64 1
  %y = load ptr, ptr %y.at
  %n.at = getelementptr i64, ptr %args, i64 2
  %n = load i64, ptr %n.at
  br label %head
head:
  %i = phi i64 [ %lo, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %hi
  br i1 %more, label %body, label %end
body:
  %next = add i64 %i, 1
  %j = sub i64 %n, %next
  %from = getelementptr i64, ptr %x, i64 %j
  %value = load i64, ptr %from
  %to = getelementptr i64, ptr %y, i64 %i
  store i64 %value, ptr %to
  br label %head
end:
  ret void
}

; x[core] = the thread that runs it; waits a little so that others get their share
define void @who.p0(ptr %args, ptr %scratch, i64 %lo, i64 %hi, ptr %fail) {
entry:
  %x = load ptr, ptr %args
  %me = call i64 @pthread_self()
  %a = call i32 @usleep(i32 2000)
  br label %head
head:
  %i = phi i64 [ %lo, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %hi
  br i1 %more, label %body, label %end
body:
  %at = getelementptr i64, ptr %x, i64 %i
  store i64 %me, ptr %at
  %next = add i64 %i, 1
  br label %head
end:
  ret void
}

; check number k fails in the core k says
define void @fails.p0(ptr %args, ptr %scratch, i64 %lo, i64 %hi, ptr %fail) {
entry:
  %k = load i64, ptr %args
  %core.at = getelementptr i64, ptr %args, i64 1
  %core = load i64, ptr %core.at
  %above = icmp sge i64 %core, %lo
  %below = icmp slt i64 %core, %hi
  %here = and i1 %above, %below
  br i1 %here, label %bad, label %end
bad:
  %n = add i64 %k, 1
  store i64 %n, ptr %fail
  br label %end
end:
  ret void
}

; x[core] = where the scratch memory of its worker is, the last byte of which is written
define void @scratch.p0(ptr %args, ptr %scratch, i64 %lo, i64 %hi, ptr %fail) {
entry:
  %x = load ptr, ptr %args
  %n.at = getelementptr i64, ptr %args, i64 1
  %n = load i64, ptr %n.at
  %last = getelementptr i8, ptr %scratch, i64 %n
  store i8 1, ptr %last
  %address = ptrtoint ptr %scratch to i64
  br label %head
head:
  %i = phi i64 [ %lo, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %hi
  br i1 %more, label %body, label %end
body:
  %at = getelementptr i64, ptr %x, i64 %i
  store i64 %address, ptr %at
  %next = add i64 %i, 1
  br label %head
end:
  ret void
}

declare i64 @pthread_self()
declare i32 @usleep(i32)
"""

NAMES = [f"{name}.p0" for name in ("affine", "reverse", "who", "fails", "scratch")]
CORES = 64


@pytest.fixture(scope="module")
def code() -> Code:
    return loader().load(KERNELS, NAMES)


def make_plan(
    code: Code,
    calls: list[tuple[str, list[tuple[int, int]]]],
    *,
    workers: int = 4,
    cores: int = CORES,
    scratch: int = 0,
) -> Plan:
    """Calls of kernels, each with its slots as (root, value); 1 is the first array given."""
    entries: list[list[int]] = []
    slots: list[tuple[int, int]] = []
    for name, given in calls:
        entries.append([code.addresses[f"{name}.p0"], len(slots), cores, workers])
        slots += [(root + 1 if root else 0, value) for root, value in given]
    roots, values = np.array(slots, np.int64).reshape(-1, 2).T
    table = np.array(entries, np.int64).reshape(-1, 4)
    return Plan(table, values.copy(), roots.copy(), scratch=scratch, keep=code)


def address(array: NDArray[np.int64]) -> int:
    return array.ctypes.data


# --- code ---------------------------------------------------------------------------------------


def test_equal_texts_are_compiled_once_and_share_code_while_it_is_held() -> None:
    made: list[str] = []

    def make(text: str, machine: Machine) -> bytes:
        made.append(text)
        return object_for(text, machine)

    own = Loader(host(), make)
    first = own.load(KERNELS, NAMES)
    assert own.load(KERNELS, NAMES) is first
    assert own.load_image(own.image(KERNELS), NAMES) is first
    gone = ref(first)
    del first
    assert gone() is None
    again = own.load(KERNELS, NAMES)
    assert again.addresses["affine.p0"]
    assert len(made) == 1


def test_wrong_text_is_refused() -> None:
    with pytest.raises(RuntimeError, match="expected instruction opcode"):
        loader().load("define void @f() { nonsense }", ["f"])
    with pytest.raises(RuntimeError, match="missing"):
        loader().load("define void @f() { ret void }", ["missing"])


@pytest.mark.parametrize("machine", MACHINES.values(), ids=str)
def test_the_driver_is_right_for_every_machine(machine: Machine) -> None:
    assert can_share(machine)
    assert b"lpu.help" in object_for(driver(machine), machine)


# --- the pool -----------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_entries_see_what_all_workers_did_before(code: Code, workers: int) -> None:
    x, y = (np.arange(CORES, dtype=np.int64) + n for n in (0, 100))
    calls: list[tuple[str, list[tuple[int, int]]]] = []
    for _ in range(150):
        calls += [
            ("affine", [(1, 0), (0, 1)]),
            ("reverse", [(1, 0), (2, 0), (0, CORES)]),
            ("reverse", [(2, 0), (1, 0), (0, CORES)]),
            ("affine", [(2, 0), (0, 3)]),
        ]
    plan = make_plan(code, calls, workers=workers)
    expected = x.copy()
    for _ in range(20):
        assert pool().run(plan, as_bases([address(x), address(y)]), workers) is None
        for _ in range(150):
            expected = 2 * expected + 1
        np.testing.assert_array_equal(x, expected)
        np.testing.assert_array_equal(y, 2 * expected[::-1] + 3)


def test_helpers_take_part(code: Code) -> None:
    x = np.zeros(CORES, np.int64)
    plan = make_plan(code, [("who", [(1, 0)])])
    for _ in range(100):
        pool().run(plan, as_bases([address(x)]), 3)
        shares = [x[: CORES // 3], x[CORES // 3 : 2 * CORES // 3], x[2 * CORES // 3 :]]
        assert all(len(set(share)) == 1 for share in shares)
        assert x[0] == threading.get_ident()
        if len(set(x)) == 3:
            break
    else:
        pytest.fail("no helper ever had a share")
    assert pool().helpers >= 2


def test_one_worker_wakes_nobody(code: Code) -> None:
    x = np.zeros(CORES, np.int64)
    for plan, workers in (
        (make_plan(code, [("who", [(1, 0)])], workers=1), 4),
        (make_plan(code, [("who", [(1, 0)])], workers=4), 1),
    ):
        pool().run(plan, as_bases([address(x)]), workers)
        assert set(x) == {threading.get_ident()}


def test_more_workers_than_cores_of_a_kernel(code: Code) -> None:
    x = np.zeros(2, np.int64)
    plan = make_plan(code, [("affine", [(1, 0), (0, 7)])], workers=5, cores=2)
    pool().run(plan, as_bases([address(x)]), 5)
    assert x.tolist() == [7, 7]


def test_each_worker_has_aligned_scratch_memory(code: Code) -> None:
    x = np.zeros(CORES, np.int64)
    for size in (1, 100_000, 64):
        plan = make_plan(code, [("scratch", [(1, 0), (0, size - 1)])], scratch=size)
        pool().run(plan, as_bases([address(x)]), 4)
        assert (x % 64 == 0).all()
        places = sorted(set(x.tolist()))
        assert all(after - before >= size for before, after in pairwise(places))


def test_too_much_scratch_memory_is_an_error_and_the_next_call_is_fine(code: Code) -> None:
    x = np.zeros(CORES, np.int64)
    plan = make_plan(code, [("affine", [(1, 0), (0, 1)])], scratch=1 << 60)
    with pytest.raises((MemoryError, ValueError)):
        pool().run(plan, as_bases([address(x)]), 2)
    assert not x.any()
    plan = make_plan(code, [("affine", [(1, 0), (0, 1)])])
    assert pool().run(plan, as_bases([address(x)]), 2) is None
    assert x.tolist() == [1] * CORES


@pytest.mark.parametrize("workers", [1, 4])
def test_the_first_failure_ends_the_call(code: Code, workers: int) -> None:
    x = np.zeros(CORES, np.int64)
    add = ("affine", [(1, 0), (0, 1)])
    for core in (0, CORES - 1):
        x[:] = 0
        calls = [add, ("fails", [(0, 3), (0, -1)]), ("fails", [(0, 2), (0, core)]), add]
        plan = make_plan(code, [*calls, ("fails", [(0, 0), (0, core)])], workers=workers)
        assert pool().run(plan, as_bases([address(x)]), workers) == (2, 2)
        assert x.tolist() == [1] * CORES
        assert pool().run(make_plan(code, [add]), as_bases([address(x)]), workers) is None


def test_threads_share_the_pool(code: Code) -> None:
    def work(seed: int) -> bool:
        x = np.full(CORES, seed, np.int64)
        y = np.zeros(CORES, np.int64)
        calls = [("affine", [(1, 0), (0, 1)]), ("reverse", [(1, 0), (2, 0), (0, CORES)])] * 50
        plan = make_plan(code, calls)
        expected = seed
        for _ in range(40):
            pool().run(plan, as_bases([address(x), address(y)]), 2 + seed % 3)
            for _ in range(50):
                expected = (2 * expected + 1) % 2**64
            signed = np.uint64(expected).astype(np.int64)
            if (x != signed).any() or (y != signed).any():
                return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(16)))


def in_child(action: object) -> int:
    """The exit status of a forked child that does something, or hangs and is killed."""
    child = os.fork()
    if child == 0:
        import signal

        signal.alarm(20)
        status = 1
        try:
            assert callable(action)
            action()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_helpers_of_its_own(code: Code) -> None:
    x = np.zeros(CORES, np.int64)
    plan = make_plan(code, [("affine", [(1, 0), (0, 1)])] * 100)
    bases = as_bases([address(x)])
    pool().run(plan, bases, 3)

    def action() -> None:
        assert pool().helpers == 0
        before = x.copy()
        assert pool().run(plan, bases, 3) is None
        assert pool().helpers == 2
        for _ in range(100):
            before = 2 * before + 1
        np.testing.assert_array_equal(x, before)

    assert in_child(action) == 0
    assert pool().run(plan, bases, 3) is None


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_while_another_thread_works(code: Code) -> None:
    x, mine = (np.zeros(CORES, np.int64) for _ in range(2))
    long = make_plan(code, [("who", [(1, 0)])] * 100)
    thread = threading.Thread(target=lambda: pool().run(long, as_bases([address(x)]), 3))
    thread.start()
    short = make_plan(code, [("affine", [(1, 0), (0, 1)])])

    def action() -> None:
        assert pool().run(short, as_bases([address(mine)]), 3) is None
        assert mine.tolist() == [1] * CORES

    assert in_child(action) == 0
    thread.join()


def test_a_machine_without_helpers(code: Code) -> None:
    strange = Machine(
        name="strange", triple="riscv64-unknown-none", cpu="", vector_bytes=16, vector_registers=32
    )
    assert not can_share(strange)
    own = loader().load(driver(strange), ["lpu.run", "lpu.help", "lpu.pool"])
    alone = Pool(own, shares=False)
    x = np.zeros(CORES, np.int64)
    plan = make_plan(code, [("who", [(1, 0)])])
    assert alone.run(plan, as_bases([address(x)]), 4) is None
    assert set(x) == {threading.get_ident()}
    assert alone.helpers == 0


def test_the_process_ends_while_helpers_sleep_or_spin() -> None:
    program = """
import numpy as np
from lpu_mlir.interpreter.native.compile import loader
from lpu_mlir.interpreter.native.pool import Plan, as_bases, pool
text = '''define void @f.p0(ptr %a, ptr %s, i64 %lo, i64 %hi, ptr %f) {
  ret void
}'''
code = loader().load(text, ["f.p0"])
table, none = np.array([[code.addresses["f.p0"], 0, 8, 3]]), np.zeros(0, np.int64)
assert pool().run(Plan(table, none, none, keep=code), as_bases([]), 3) is None
print(pool().helpers)
"""
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")


def test_helpers_are_woken_only_where_that_is_asked_for(code: Code) -> None:
    x = np.zeros(CORES, np.int64)
    bases = as_bases([address(x)])
    rows = np.array([[code.addresses["who.p0"], 0, CORES, 2]], np.int64)
    slots, roots = np.zeros(1, np.int64), np.array([2], np.int64)
    helped: dict[bool, int] = {}
    for wakes in (False, True):
        plan = Plan(rows, slots, roots, wakes=wakes, keep=code)
        helped[wakes] = 0
        for _ in range(20):
            time.sleep(0.02)  # until they sleep
            pool().run(plan, bases, 2)
            helped[wakes] += len(set(x)) - 1
    assert helped[False] < 5 < helped[True]  # a busy machine may keep one from falling asleep
