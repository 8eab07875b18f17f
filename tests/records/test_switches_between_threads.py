"""Another thread runs at any moment of `OpenBatches.append`: before each line of it, one after the other.

In plain Python that includes the lines that hold the lock, where the other thread waits until the lock is free.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import pytest

import kafkaraw.records
from kafkaraw.records import AppendStatus, Batch, KeyHash, OpenBatches, Partitioner, SealedBatch, Ticket
from tests.records.promises import FakeClock, open_batches

HERE = Path(kafkaraw.records.__file__).parent
FILES = {str(HERE / name) for name in ("open_batches.py", "partitioning.py", "_fallback/batch_table.py")}
WAITS_S = 0.003
LINES_MAX = 1_000


class Refused(Exception):
    pass


def refuse() -> NoReturn:
    raise Refused


@dataclass
class Run:
    """One append, and what another thread did before its n-th line."""

    batches: OpenBatches
    switched: bool = False
    status: AppendStatus | None = None
    ticket: Ticket | None = None
    error: BaseException | None = None
    sealed: list[SealedBatch] = field(default_factory=list)
    """Batches that the other thread has got."""


def run_at(number: int, batches: OpenBatches, act: Callable[[Run], None], append: Callable[[], Any]) -> Run:
    """Append, and let another thread act before the n-th line."""
    run, left = Run(batches), number
    other = threading.Thread(target=act, args=(run,))

    def look(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in FILES:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                run.switched = True
                other.start()
                other.join(WAITS_S)
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        run.status, run.ticket = append()
    except Exception as error:  # noqa: BLE001 - the test looks at it
        run.error = error
    finally:
        sys.settrace(before)
    if run.switched:
        other.join()
    return run


def every_run(
    make: Callable[[], OpenBatches], act: Callable[[Run], None], append: Callable[[OpenBatches], Any]
) -> list[Run]:
    """Act before each line of an append."""
    runs = list[Run]()
    for number in range(1, LINES_MAX):
        batches = make()
        run = run_at(number, batches, act, lambda batches=batches: append(batches))
        if not run.switched:
            assert number > 3, "nothing was interrupted"
            return runs
        runs.append(run)
    raise AssertionError("there is no end to it")


def plain(batches: OpenBatches) -> Any:
    return batches.append("t", None, b"v" * 50, None, None, None)


def closed_batches() -> OpenBatches:
    return open_batches(batch_size=200)


def batches_with_room() -> OpenBatches:
    batches = open_batches(batch_size=400)
    plain(batches)
    return batches


def full_batches() -> OpenBatches:
    batches = open_batches(batch_size=200)
    plain(batches)
    plain(batches)
    return batches


BEFORE = pytest.mark.parametrize("make", [closed_batches, batches_with_room, full_batches])


def check_memory(run: Run) -> list[SealedBatch]:
    """Seal and release everything; return all batches."""
    run.batches.refuse(None)
    everything = [*run.sealed, *run.batches.seal_all()]
    for batch in everything:
        run.batches.release(batch)
    assert run.batches.used_bytes == 0
    return everything


def check_is_in_one_batch(run: Run, everything: list[SealedBatch]) -> None:
    assert run.ticket is not None
    (batch,) = [batch for batch in everything if batch.promise is run.ticket.batch_promise]
    assert run.ticket.index < batch.records_count
    assert Batch(batch.topic, batch.partition, batch.encode(), start_offset=0).values()[run.ticket.index] == b"v" * 50


@BEFORE
def test_a_record_is_refused_or_in_a_batch_that_seal_all_returns_after_the_refusal(make) -> None:
    def close(run: Run) -> None:
        run.batches.refuse(refuse)
        run.sealed = run.batches.seal_all()

    for number, run in enumerate(every_run(make, close, plain), 1):
        if run.ticket is None:
            assert isinstance(run.error, Refused), f"line {number}"
        else:
            assert any(run.ticket.batch_promise is batch.promise for batch in run.sealed), f"line {number}: lost"
            check_is_in_one_batch(run, run.sealed)
        assert len(check_memory(run)) == len(run.sealed), f"line {number}: a batch was left"


@BEFORE
def test_records_may_be_taken_again_at_any_moment(make) -> None:
    def refusing() -> OpenBatches:
        batches = make()
        batches.refuse(refuse)
        return batches

    for run in every_run(refusing, lambda run: run.batches.refuse(None), plain):
        if run.ticket is None:
            assert isinstance(run.error, Refused)
        else:
            check_is_in_one_batch(run, check_memory(run))


@BEFORE
@pytest.mark.parametrize("count", [1, 2, 9])
def test_a_topic_that_gets_other_partitions_meanwhile_takes_records(make, count: int) -> None:
    def resize(run: Run) -> None:
        run.batches.set_partitions("t", count)
        run.sealed = run.batches.take_sealed()

    def make_at_the_end() -> OpenBatches:
        batches = make()
        batches.table.topics["t"].sticky_partition = 2
        return batches

    for number, run in enumerate(every_run(make_at_the_end, resize, plain), 1):
        assert run.error is None
        again, _ = plain(run.batches)
        assert again is not AppendStatus.UNKNOWN_TOPIC, f"line {number}"
        everything = check_memory(run)
        assert run.status is not AppendStatus.UNKNOWN_TOPIC, f"line {number}"
        check_is_in_one_batch(run, everything)


@BEFORE
def test_a_topic_that_is_deleted_and_created_meanwhile_loses_nothing(make) -> None:
    def create_anew(run: Run) -> None:
        run.batches.forget_topic("t")
        run.batches.set_partitions("t", 1)
        run.sealed = run.batches.take_sealed()

    for run in every_run(make, create_anew, plain):
        assert run.error is None
        everything = check_memory(run)
        if run.ticket is None:
            assert run.status is AppendStatus.UNKNOWN_TOPIC
        else:
            check_is_in_one_batch(run, everything)


@BEFORE
def test_two_threads_append_to_a_topic_at_once(make) -> None:
    def append_too(run: Run) -> None:
        for _ in range(5):
            plain(run.batches)

    for run in every_run(make, append_too, plain):
        everything = check_memory(run)
        check_is_in_one_batch(run, everything)
        records = {closed_batches: 6, batches_with_room: 7, full_batches: 8}[make]
        assert sum(batch.records_count for batch in everything) == records


@pytest.mark.parametrize("known", [False, True])
def test_a_users_partitioner_chooses_for_every_record_of_a_topic_that_comes_or_goes_meanwhile(known: bool) -> None:
    counts = list[int]()

    def choose(topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        counts.append(count)
        return 2

    def make() -> OpenBatches:
        batches = open_batches(FakeClock(0), partitioner=Partitioner(function=choose))
        if not known:
            batches.forget_topic("t")
        return batches

    def come_or_go(run: Run) -> None:
        if known:
            run.batches.forget_topic("t")
        else:
            run.batches.set_partitions("t", 3)

    for run in every_run(make, come_or_go, plain):
        assert run.error is None
        if run.ticket is None:
            assert run.status is AppendStatus.UNKNOWN_TOPIC
        else:
            assert run.ticket.batch_promise.partition == 2
    assert set(counts) <= {3}


@pytest.mark.parametrize("every_record", [False, True])
def test_a_lost_race_for_the_sticky_partition_does_not_leave_a_partition_that_is_gone(every_record: bool) -> None:
    """A thread has moved the sticky partition by the count of partitions that there were before."""
    batches = open_batches(partitioner=Partitioner(KeyHash.NONE, every_record=every_record))
    batches.set_partitions("t", 2)
    batches.table.topics["t"].sticky_partition = 2
    for _ in range(3):
        assert plain(batches)[1] is not None


@pytest.mark.parametrize("at_once", [False, True])
def test_headers_that_can_be_read_only_once_are_refused_instead_of_lost(at_once: bool) -> None:
    """The check of the record's size reads them, too."""
    batches = open_batches()
    if at_once:
        plain(batches)
    with pytest.raises(TypeError):
        batches.append("t", None, b"v", (header for header in [("name", b"value")]), None, 0)  # type: ignore[arg-type]
    assert sum(batch.records_count for batch in batches.seal_all()) == at_once
