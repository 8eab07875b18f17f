"""Ctrl-C at any moment of `OpenBatches` in plain Python: the record is taken or not, and the lock is free.

Python raises what a signal handler raises when a function is entered, and when a call returns. A profiler raises at
each of these moments, one after the other.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType

import pytest

import kafkaraw.records
from kafkaraw.net.threads import new_loop_lock
from kafkaraw.records import OpenBatches, Ticket, open_batches
from kafkaraw.records._fallback.batch_table import BatchTable, TopicBatches

HERE = Path(kafkaraw.records.__file__).parent


class Interrupted(BaseException):
    """As Ctrl-C, which would end the tests."""


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_batches, "BatchTable", BatchTable)
    monkeypatch.setattr(open_batches, "TopicBatches", TopicBatches)


def batches() -> OpenBatches:
    made = OpenBatches(130, "none", None, 100_000, lambda: 1_000, waiter=None, new_lock=new_loop_lock)  # type: ignore[arg-type]
    made.set_partitions("t", 1)
    return made


def send(made: OpenBatches, tickets: list[Ticket], *, slowly: bool) -> None:
    """Ten records, of which about four fit into a batch."""
    for number in range(10):
        ticket = None if slowly else made.take("t", b"%08d" % number, None, None, 0, 1_000 + number)
        if ticket is None:
            _, ticket = made.append("t", None, b"%08d" % number, None, 1_000 + number, 0)
        assert ticket is not None
        tickets.append(ticket)


def interrupt_at(number: int, made: OpenBatches, tickets: list[Ticket], *, slowly: bool) -> bool:
    """Send, and raise at the n-th moment; says whether there were so many."""
    left = number

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal left
        if event in ("call", "c_return") and HERE in Path(frame.f_code.co_filename).parents:
            left -= 1
            if left == 0:
                sys.setprofile(None)
                raise Interrupted

    sys.setprofile(look)
    try:
        with suppress(Interrupted):
            send(made, tickets, slowly=slowly)
    finally:
        sys.setprofile(None)
    return left <= 0


def is_free(made: OpenBatches) -> bool:
    """Whether another thread gets the lock."""
    lock, got = made.table._lock, list[bool]()

    def take() -> None:
        got.append(lock.acquire(blocking=False))  # type: ignore[call-arg]
        if got[0]:
            lock.release()

    other = threading.Thread(target=take)
    other.start()
    other.join()
    return got == [True]


@pytest.mark.parametrize("slowly", [False, True])
def test_an_interruption_loses_and_repeats_no_record_and_leaves_the_lock_free(slowly: bool):
    for number in range(1, 2_000):
        made, tickets = batches(), list[Ticket]()
        if not interrupt_at(number, made, tickets, slowly=slowly):
            assert number > 50, "nothing was interrupted"
            return
        assert is_free(made), f"at {number} the lock is held"
        assert not made.table.is_changing
        before = len(tickets)
        send(made, tickets, slowly=slowly)
        sealed = made.seal_all()
        counts = {batch.promise: batch.records_count for batch in sealed}
        assert len(counts) == len(sealed), f"at {number} a batch was handed over twice"
        assert len(tickets) <= sum(counts.values()) <= len(tickets) + 1, f"at {number}, behind {before} records"
        assert len({(ticket.batch_promise, ticket.index) for ticket in tickets}) == len(tickets)
        assert all(ticket.index < counts[ticket.batch_promise] for ticket in tickets), f"at {number} a batch is lost"
        for batch in sealed:
            made.release(batch)
        assert made.used_bytes == 0, f"at {number} memory is miscounted"
    raise AssertionError("there is no end to it")


def test_memory_that_is_released_in_the_middle_of_a_change_is_free(monkeypatch: pytest.MonkeyPatch):
    """As code of the loop thread does that a garbage collection runs."""
    made = batches()
    made.append("t", None, b"first", None, None, 0)
    (sealed,) = made.seal_all()
    made.append("t", None, b"second", None, None, 0)
    released = list[int]()

    def hash_of(_: bytes | None) -> int:
        assert made.table.is_changing
        made.release(sealed)
        released.append(made.used_bytes)
        return 0

    monkeypatch.setattr(made.table, "hash_of", hash_of)
    before = made.used_bytes
    assert made.take("t", b"third", b"key", None, None, None) is not None
    assert released == [before - sealed.size_bytes]
    for batch in made.seal_all():
        made.release(batch)
    assert made.used_bytes == 0
