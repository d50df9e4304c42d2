"""The code that runs a list of kernels, alone or with the help of other threads, as LLVM text.

`lpu.run` is called by the thread that wants the work done, `lpu.help` by each helper, which never
returns from it.  For every entry the caller leaves each helper its share of the cores in a mailbox
and does its own; a share that no helper has begun by then it takes back and does as well.  So a
helper that sleeps, or that the system has given no time, delays nobody.

All numbers are i64 unless they are called otherwise; sizes are in bytes.

    plan      entries, number of entries, slots as they are before bases are added, the root of each
              slot, number of slots, scratch for one worker, whether helpers that sleep are woken
    entry     function, number of its first slot, cores, the most workers that it is worth
    bases     an address for each root: 0 for root 0
    work      for each worker a record {check, entry} of 64 bytes; scratch for each worker; slots
    pool      whether it is in use, at 0; the mailbox of helper w = 1, 2, ... at 128 * w
    mailbox   ticket, function, arguments, scratch, first core, end of cores, record,
              i32: the helper sleeps, i32: the caller sleeps

A ticket is 4 * turn + state: 0 empty, 1 posted, 2 taken by the helper.  Whoever moves it from
posted does the share, and nobody else reads or writes the mailbox meanwhile.  A thread that goes to
sleep names the ticket that it saw, so that it is not put to sleep by an older turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lpu_mlir.interpreter.native.machine import Machine

MAILBOX, RECORD, ENTRY_WORDS = 128, 64, 4
"""Bytes of a mailbox and of a worker's record, and words of an entry."""

MAX_HELPERS = 255


@dataclass(frozen=True)
class System:
    """What depends on the processor: LLVM text for a moment's rest, how often a thread looks before
    it sleeps, which makes some tens of microseconds, and the number of `futex`."""

    rest: str
    spins: int
    futex: int


SYSTEMS: Mapping[str, System] = {
    "x86_64": System("call void @llvm.x86.sse2.pause()", 2000, 202),
    "aarch64": System("call void @llvm.aarch64.hint(i32 1)", 20000, 98),
}
"""By the first part of a triple; the system is Linux."""


def can_share(machine: Machine) -> bool:
    """Whether there can be helpers on a machine."""
    processor, *rest = machine.triple.split("-")
    return processor in SYSTEMS and "linux" in rest


def driver(machine: Machine) -> str:
    """The module with `lpu.run`, `lpu.pool` and, where helpers can be, `lpu.help`."""
    if not can_share(machine):
        return _RUN + _NO_HELPERS
    system = SYSTEMS[machine.triple.split("-")[0]]
    text = _RUN + _HELPERS
    values = {"REST": system.rest, "SPINS": system.spins, "FUTEX": system.futex}
    for name, value in values.items():
        text = text.replace(name, str(value))
    declared = system.rest.removeprefix("call ").replace("i32 1", "i32 immarg")
    return f"{text}\ndeclare {declared}\n"


_RUN = """
%Plan = type { ptr, i64, ptr, ptr, i64, i64, i64 }
%Entry = type { ptr, i64, i64, i64 }
%Record = type { i64, i64, [48 x i8] }

; Runs all entries; 0, or of the first that failed 2^32 * its number + the number of its check.
define i64 @lpu.run(ptr %pool, ptr %plan, ptr %bases, ptr %records, i64 %workers) {
entry:
  %p = load %Plan, ptr %plan
  %entries = extractvalue %Plan %p, 0
  %count = extractvalue %Plan %p, 1
  %bytes = extractvalue %Plan %p, 5
  %wakes = extractvalue %Plan %p, 6
  %scratch = getelementptr %Record, ptr %records, i64 %workers
  %all = mul i64 %workers, %bytes
  %slots = getelementptr i8, ptr %scratch, i64 %all
  call void @relocate(%Plan %p, ptr %bases, ptr %slots)
  %cleared = mul i64 %workers, 64
  call void @llvm.memset.p0.i64(ptr %records, i8 0, i64 %cleared, i1 false)
  br label %head
head:
  %e = phi i64 [ 0, %entry ], [ %next, %check ]
  %more = icmp ult i64 %e, %count
  br i1 %more, label %body, label %good
body:
  %at = getelementptr %Entry, ptr %entries, i64 %e
  %this = load %Entry, ptr %at
  %function = extractvalue %Entry %this, 0
  %slot = extractvalue %Entry %this, 1
  %cores = extractvalue %Entry %this, 2
  %worth = extractvalue %Entry %this, 3
  %arguments = getelementptr i64, ptr %slots, i64 %slot
  %wanted = call i64 @llvm.umin.i64(i64 %worth, i64 %workers)
  %several = icmp ugt i64 %wanted, 1
  br i1 %several, label %try, label %alone
try:
  %mine = call i1 @acquire(ptr %pool)
  br i1 %mine, label %together, label %alone
together:
  call void @share(ptr %pool, ptr %function, ptr %arguments, ptr %scratch, i64 %bytes, i64 %cores,
                   i64 %wanted, ptr %records, i64 %wakes)
  br label %check
alone:
  call void %function(ptr %arguments, ptr %scratch, i64 0, i64 %cores, ptr %records)
  br label %check
check:
  %parts = phi i64 [ %wanted, %together ], [ 1, %alone ]
  %failed = call i64 @first(ptr %records, i64 %parts)
  %fine = icmp eq i64 %failed, 0
  %next = add i64 %e, 1
  br i1 %fine, label %head, label %bad
good:
  ret i64 0
bad:
  %high = shl i64 %e, 32
  %code = or i64 %high, %failed
  ret i64 %code
}

; slots[i] = given[i] + bases[roots[i]]
define internal void @relocate(%Plan %p, ptr %bases, ptr %slots) {
entry:
  %given = extractvalue %Plan %p, 2
  %roots = extractvalue %Plan %p, 3
  %count = extractvalue %Plan %p, 4
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %body, label %end
body:
  %root.at = getelementptr i64, ptr %roots, i64 %i
  %root = load i64, ptr %root.at
  %base.at = getelementptr i64, ptr %bases, i64 %root
  %base = load i64, ptr %base.at
  %value.at = getelementptr i64, ptr %given, i64 %i
  %value = load i64, ptr %value.at
  %slot.at = getelementptr i64, ptr %slots, i64 %i
  %sum = add i64 %base, %value
  store i64 %sum, ptr %slot.at
  %next = add i64 %i, 1
  br label %head
end:
  ret void
}

; The lowest check in the first records; 0 if there is none.
define internal i64 @first(ptr %records, i64 %parts) {
entry:
  br label %head
head:
  %w = phi i64 [ 0, %entry ], [ %next, %body ]
  %least = phi i64 [ -1, %entry ], [ %lower, %body ]
  %more = icmp ult i64 %w, %parts
  br i1 %more, label %body, label %end
body:
  %at = getelementptr %Record, ptr %records, i64 %w
  %check = load i64, ptr %at
  %before = sub i64 %check, 1               ; the largest number if there is none
  %lower = call i64 @llvm.umin.i64(i64 %least, i64 %before)
  %next = add i64 %w, 1
  br label %head
end:
  %found = add i64 %least, 1
  ret i64 %found
}

declare i64 @llvm.umin.i64(i64, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""

_NO_HELPERS = """
define ptr @lpu.pool() {
  ret ptr null
}

define void @lpu.help(ptr %mail) {
  ret void
}

define internal i1 @acquire(ptr %pool) {
  ret i1 false
}

define internal void @share(ptr %pool, ptr %function, ptr %arguments, ptr %scratch, i64 %bytes,
                            i64 %cores, i64 %parts, ptr %records, i64 %wakes) {
  unreachable
}
"""

_HELPERS = """
%Mail = type { i64, ptr, ptr, ptr, i64, i64, ptr, i32, i32, [64 x i8] }

; A pool with no helpers. It is never freed: helpers look at it until the process is gone.
define ptr @lpu.pool() {
  %pool = call ptr @aligned_alloc(i64 128, i64 32768)
  %none = icmp eq ptr %pool, null
  br i1 %none, label %end, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr %pool, i8 0, i64 32768, i1 false)
  br label %end
end:
  ret ptr %pool
}

; Whether the pool was free, and is the caller's now.
define internal i1 @acquire(ptr %pool) {
  %pair = cmpxchg ptr %pool, i64 0, i64 1 acquire monotonic
  %mine = extractvalue { i64, i1 } %pair, 1
  ret i1 %mine
}

; One entry by several workers; frees the pool.
define internal void @share(ptr %pool, ptr %function, ptr %arguments, ptr %scratch, i64 %bytes,
                            i64 %cores, i64 %parts, ptr %records, i64 %wakes) {
entry:
  %end = udiv i64 %cores, %parts
  br label %post
post:
  %w = phi i64 [ 1, %entry ], [ %next, %post ]
  %lower = phi i64 [ %end, %entry ], [ %upper, %post ]
  %mail = getelementptr %Mail, ptr %pool, i64 %w
  %offset = mul i64 %w, %bytes
  %scratch.w = getelementptr i8, ptr %scratch, i64 %offset
  %record = getelementptr %Record, ptr %records, i64 %w
  %next = add i64 %w, 1
  %product = mul i64 %next, %cores
  %upper = udiv i64 %product, %parts
  call void @post(ptr %mail, ptr %function, ptr %arguments, ptr %scratch.w, i64 %lower,
                  i64 %upper, ptr %record, i64 %wakes)
  %more = icmp ult i64 %next, %parts
  br i1 %more, label %post, label %own
own:
  call void %function(ptr %arguments, ptr %scratch, i64 0, i64 %end, ptr %records)
  br label %settle
settle:
  %v = phi i64 [ 1, %own ], [ %following, %settle ]
  %box = getelementptr %Mail, ptr %pool, i64 %v
  call void @settle(ptr %box)
  %following = add i64 %v, 1
  %left = icmp ult i64 %following, %parts
  br i1 %left, label %settle, label %done
done:
  store atomic i64 0, ptr %pool release, align 8
  ret void
}

; Leaves a share in an empty mailbox.
define internal void @post(ptr %mail, ptr %function, ptr %arguments, ptr %scratch, i64 %lower,
                           i64 %upper, ptr %record, i64 %wakes) {
entry:
  %ticket = load atomic i64, ptr %mail monotonic, align 8
  %function.at = getelementptr %Mail, ptr %mail, i64 0, i32 1
  store ptr %function, ptr %function.at
  %arguments.at = getelementptr %Mail, ptr %mail, i64 0, i32 2
  store ptr %arguments, ptr %arguments.at
  %scratch.at = getelementptr %Mail, ptr %mail, i64 0, i32 3
  store ptr %scratch, ptr %scratch.at
  %lower.at = getelementptr %Mail, ptr %mail, i64 0, i32 4
  store i64 %lower, ptr %lower.at
  %upper.at = getelementptr %Mail, ptr %mail, i64 0, i32 5
  store i64 %upper, ptr %upper.at
  %record.at = getelementptr %Mail, ptr %mail, i64 0, i32 6
  store ptr %record, ptr %record.at
  %posted = add i64 %ticket, 1
  %old = atomicrmw xchg ptr %mail, i64 %posted seq_cst
  %quiet = icmp eq i64 %wakes, 0
  br i1 %quiet, label %end, label %wake
wake:
  %sleeps.at = getelementptr %Mail, ptr %mail, i64 0, i32 7
  call void @wake(ptr %mail, ptr %sleeps.at)
  br label %end
end:
  ret void
}

; Does the share in a mailbox that is posted or taken.
define internal void @work(ptr %mail) {
  %function.at = getelementptr %Mail, ptr %mail, i64 0, i32 1
  %function = load ptr, ptr %function.at
  %arguments.at = getelementptr %Mail, ptr %mail, i64 0, i32 2
  %arguments = load ptr, ptr %arguments.at
  %scratch.at = getelementptr %Mail, ptr %mail, i64 0, i32 3
  %scratch = load ptr, ptr %scratch.at
  %lower.at = getelementptr %Mail, ptr %mail, i64 0, i32 4
  %lower = load i64, ptr %lower.at
  %upper.at = getelementptr %Mail, ptr %mail, i64 0, i32 5
  %upper = load i64, ptr %upper.at
  %record.at = getelementptr %Mail, ptr %mail, i64 0, i32 6
  %record = load ptr, ptr %record.at
  call void %function(ptr %arguments, ptr %scratch, i64 %lower, i64 %upper, ptr %record)
  ret void
}

; Sees to it that the share in a mailbox is done, whoever does it.
define internal void @settle(ptr %mail) {
entry:
  %posted = load atomic i64, ptr %mail acquire, align 8
  %mine = call i1 @claim(ptr %mail, i64 %posted, i64 3)
  br i1 %mine, label %work, label %wait
work:
  call void @work(ptr %mail)
  ret void
wait:
  %n = phi i64 [ 0, %entry ], [ 0, %sleep ], [ %next, %rest ]
  %ticket = load atomic i64, ptr %mail acquire, align 8
  %state = and i64 %ticket, 3
  %done = icmp eq i64 %state, 0
  br i1 %done, label %end, label %rest
rest:
  REST
  %next = add i64 %n, 1
  %again = icmp ult i64 %next, SPINS
  br i1 %again, label %wait, label %sleep
sleep:
  %sleeps.at = getelementptr %Mail, ptr %mail, i64 0, i32 8
  call void @sleep(ptr %mail, i64 %ticket, ptr %sleeps.at)
  br label %wait
end:
  ret void
}

; What a helper does for ever: the shares that it finds in its mailbox.
define void @lpu.help(ptr %mail) {
entry:
  br label %look
look:
  %n = phi i64 [ 0, %entry ], [ 0, %work ], [ 0, %sleep ], [ %next, %rest ]
  %ticket = load atomic i64, ptr %mail acquire, align 8
  %mine = call i1 @claim(ptr %mail, i64 %ticket, i64 1)
  br i1 %mine, label %work, label %rest
rest:
  REST
  %next = add i64 %n, 1
  %again = icmp ult i64 %next, SPINS
  br i1 %again, label %look, label %sleep
sleep:
  %sleeps.at = getelementptr %Mail, ptr %mail, i64 0, i32 7
  call void @sleep(ptr %mail, i64 %ticket, ptr %sleeps.at)
  br label %look
work:
  call void @work(ptr %mail)
  %empty = add i64 %ticket, 3
  %old = atomicrmw xchg ptr %mail, i64 %empty seq_cst
  %waits.at = getelementptr %Mail, ptr %mail, i64 0, i32 8
  call void @wake(ptr %mail, ptr %waits.at)
  br label %look
}

; Moves a ticket on if it is posted and still there; whether that is so.
define internal i1 @claim(ptr %mail, i64 %ticket, i64 %step) {
entry:
  %state = and i64 %ticket, 3
  %open = icmp eq i64 %state, 1
  br i1 %open, label %try, label %end
try:
  %moved = add i64 %ticket, %step
  %pair = cmpxchg ptr %mail, i64 %ticket, i64 %moved acq_rel monotonic
  %won = extractvalue { i64, i1 } %pair, 1
  br label %end
end:
  %mine = phi i1 [ false, %entry ], [ %won, %try ]
  ret i1 %mine
}

; Sleeps, and says so, until somebody wakes it; not at all if the ticket is another by now.
define internal void @sleep(ptr %mail, i64 %ticket, ptr %flag) {
  store atomic i32 1, ptr %flag seq_cst, align 4
  %low = trunc i64 %ticket to i32
  %a = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %mail, i32 128, i32 %low, ptr null)
  store atomic i32 0, ptr %flag seq_cst, align 4
  ret void
}

; Wakes who sleeps on a mailbox if the flag says that somebody does.
define internal void @wake(ptr %mail, ptr %flag) {
  %sleeps = load atomic i32, ptr %flag seq_cst, align 4
  %asleep = icmp ne i32 %sleeps, 0
  br i1 %asleep, label %call, label %end
call:
  store atomic i32 0, ptr %flag monotonic, align 4
  %a = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %mail, i32 129, i32 1)
  br label %end
end:
  ret void
}

declare i64 @syscall(i64, ...)
declare ptr @aligned_alloc(i64, i64)
"""
