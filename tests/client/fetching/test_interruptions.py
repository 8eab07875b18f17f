"""Whatever interrupts reading, at whatever moment, the next record to give is the one behind the last one given.

Python raises what a signal handler raises when a function is entered or gone on with, when a built-in one returns, and
at jumps back. A profiler raises at the first two of these, one after the other; real signals come at random moments.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import FrameType

import pytest

import kafkaraw
from kafkaraw import Consumer, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.core.fetch.cursor import RecordCursor
from kafkaraw.errors import UsageError
from kafkaraw.records import Batch, Record, encode_batch

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
SOURCES = Path(kafkaraw.__file__).parent
Way = Callable[[RecordCursor, list[tuple[int, int]]], None]


class Interrupted(BaseException):
    """As Ctrl-C, which would end the tests."""


class Alarm(Exception):
    """As a time-out that a signal handler raises."""


@pytest.fixture(autouse=True)
def _interrupted_destructors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python reports an exception in a destructor and goes on; that is right for an interruption, and for no other."""
    report = sys.unraisablehook

    def report_others(problem: sys.UnraisableHookArgs) -> None:
        if not issubclass(problem.exc_type, (Interrupted, Alarm)):
            report(problem)

    monkeypatch.setattr(sys, "unraisablehook", report_others)


BATCHES = [
    (partition, base_offset, memoryview(encode_batch([(0, None, b"v", None)] * count, base_offset=base_offset)))
    for partition, base_offset, count in [(0, 0, 3), (1, 0, 2), (0, 3, 2), (1, 2, 3)]
]


def in_hand(convert: Callable[[Record], Record] | None) -> RecordCursor:
    made = RecordCursor(())
    made.put(Batch("t", number, wire, start_offset=start, convert=convert) for number, start, wire in BATCHES)
    return made


def offsets_of(given: Batch) -> list[tuple[int, int]]:
    return [(given.partition, offset) for offset in range(given.start_offset, given.next_offset)]


EVERYTHING = {(0, offset) for offset in range(5)} | {(1, offset) for offset in range(5)}


def by_next(cursor: RecordCursor, got: list[tuple[int, int]]) -> None:
    while (record := cursor.next_record()) is not None:
        got.append((record.partition, record.offset))


def by_iteration(cursor: RecordCursor, got: list[tuple[int, int]]) -> None:
    for record in cursor.records():
        got.append((record.partition, record.offset))  # noqa: PERF401 - what came before an interruption counts


def by_batches(cursor: RecordCursor, got: list[tuple[int, int]]) -> None:
    while (given := cursor.next_batch()) is not None:
        got.extend(offsets_of(given))


def by_polls(cursor: RecordCursor, got: list[tuple[int, int]]) -> None:
    while given := cursor.take(4):
        got.extend([one for each in given for one in offsets_of(each)])


def by_polls_without_limit(cursor: RecordCursor, got: list[tuple[int, int]]) -> None:
    while given := cursor.take(None, 100):
        got.extend([one for each in given for one in offsets_of(each)])


def by_columns(cursor: RecordCursor, got: list[tuple[int, int]]) -> None:
    """Of each call the first partition is converted, and the rest is left, as `to_arrow` does when it has enough."""
    while given := cursor.take_converted(lambda batches: (batches[:1], batches[1:]), 4):
        got.extend([one for each in given for one in offsets_of(each)])


def by_turns(cursor: RecordCursor, got: list[tuple[int, int]]) -> None:
    """One record, then the rest of its batch, then records again."""
    record = cursor.next_record()
    if record is not None:
        got.append((record.partition, record.offset))
    given = cursor.next_batch()
    if given is not None:
        got.extend(offsets_of(given))
    by_iteration(cursor, got)


WAYS = [by_next, by_iteration, by_batches, by_polls, by_polls_without_limit, by_columns, by_turns]


@cache
def is_ours(filename: str) -> bool:
    return SOURCES in Path(filename).parents


@contextmanager
def interruption_at(number: int, error: type[BaseException]) -> Iterator[list[str]]:
    """Raise at the n-th moment at which Python would look for signals in this package."""
    seen: list[str] = []

    def look(frame: FrameType, event: str, _: object) -> None:
        if event not in ("call", "c_return") or not is_ours(frame.f_code.co_filename):
            return
        seen.append(f"{event} in {frame.f_code.co_qualname}:{frame.f_lineno}")
        if len(seen) == number:
            raise error

    sys.setprofile(look)
    try:
        yield seen
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("convert", [None, lambda record: record], ids=["plain", "converted"])
@pytest.mark.parametrize("error", [Interrupted, Alarm])
@pytest.mark.parametrize("way", WAYS)
def test_no_moment_of_an_interruption_loses_or_repeats_a_record(
    way: Way, error: type[BaseException], convert: Callable[[Record], Record] | None
) -> None:
    for number in range(1, 2_000):
        cursor, got = in_hand(convert), list[tuple[int, int]]()
        with interruption_at(number, error) as seen, suppress(error):
            way(cursor, got)
        if len(seen) < number:
            assert number > 20, "nothing was interrupted"
            break
        where = f"at {number}: {seen[number - 1]}"
        for partition in (P0, P1):
            mine = [offset for number, offset in got if number == partition.partition]
            position = cursor.position_in(partition)
            assert position == len(mine) or (position is None and len(mine) == 5), where
        way(cursor, got)
        assert sorted(got) == sorted(EVERYTHING), where


def one_record(cursor: RecordCursor, got: list[tuple[int, int]]) -> None:
    record = cursor.next_record()
    if record is not None:
        got.append((record.partition, record.offset))


def one_batch(cursor: RecordCursor, got: list[tuple[int, int]]) -> None:
    given = cursor.next_batch()
    if given is not None:
        got.extend(offsets_of(given))


def one_poll(cursor: RecordCursor, got: list[tuple[int, int]]) -> None:
    got.extend([one for each in cursor.take(3) for one in offsets_of(each)])


@contextmanager
def handled_at(number: int, handle: Callable[[], None]) -> Iterator[list[int]]:
    """Run a signal handler at the n-th moment at which Python would."""
    seen: list[int] = []

    def look(frame: FrameType, event: str, _: object) -> None:
        if event not in ("call", "c_return") or not is_ours(frame.f_code.co_filename):
            return
        seen.append(frame.f_lineno)
        if len(seen) == number:
            sys.setprofile(None)
            with suppress(UsageError):  # in the middle of a record, the next one cannot be asked for
                handle()

    sys.setprofile(look)
    try:
        yield seen
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("read", [one_record, one_batch, one_poll])
@pytest.mark.parametrize("way", WAYS)
def test_a_signal_handler_that_reads_at_any_moment_loses_and_repeats_no_record(way: Way, read: Way) -> None:
    for number in range(1, 2_000):
        cursor, got = in_hand(None), list[tuple[int, int]]()
        with handled_at(number, lambda cursor=cursor, got=got: read(cursor, got)) as seen:
            way(cursor, got)
        if len(seen) < number:
            assert number > 10, "no handler was called"
            return
        assert sorted(got) == sorted(EVERYTHING), f"at {number}, line {seen[-1]}"


# -- real signals, a real broker

COUNT = 20_000
RUNS = 20


def next_of(consumer: Consumer, note: Callable[[int], None]) -> None:
    while True:
        note(next(consumer).offset)


def iterating(consumer: Consumer, note: Callable[[int], None]) -> None:
    for record in consumer:
        note(record.offset)


def in_batches(consumer: Consumer, note: Callable[[int], None]) -> None:
    for each in consumer.batches():
        note(each.next_offset - 1)


def polling(consumer: Consumer, note: Callable[[int], None]) -> None:
    while True:
        for each in consumer.poll(1, max_records=700).values():
            note(each.next_offset - 1)


def in_columns(consumer: Consumer, note: Callable[[int], None]) -> None:
    while True:
        rows = consumer.poll_arrow(700, 1)
        if rows.num_rows:
            note(rows["offset"][rows.num_rows - 1].as_py())


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(COUNT):
                producer.send("t", b"%d" % number, partition=0)
        yield broker.bootstrap_servers


# A handler may raise between the call that makes a coroutine and its first step. Nothing has happened then, and Python
# has no way to make both at once.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("error", [Interrupted, Alarm])
@pytest.mark.parametrize("read", [next_of, iterating, in_batches, polling, in_columns])
def test_signals_at_random_moments_leave_the_position_behind_the_last_record_given(
    read: Callable[[Consumer, Callable[[int], None]], None], error: type[BaseException], servers: str
) -> None:
    """What was given by the call that was interrupted may not have come to its caller; nothing behind it is passed."""

    def strike(*_: object) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, strike)
    rng, last = random.Random(1), -1
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([P0])
        try:
            for _ in range(RUNS):
                given = [last]
                try:
                    signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.0002, 0.004), 0.5)
                    read(consumer, given.append)
                except error:
                    pass
                signal.setitimer(signal.ITIMER_REAL, 0)
                last = given[-1]
                doubt = consumer._cursor.unsettled.get(P0, last + 1)
                assert doubt <= last + 1, "records that nobody has seen count as given"
                position = consumer.position(P0, 10)
                if position >= COUNT - 1_000 or position != last + 1:
                    consumer.seek(P0, 0 if position >= COUNT - 1_000 else last + 1)
                    last = -1 if position >= COUNT - 1_000 else last
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            time.sleep(0)
            signal.signal(signal.SIGALRM, before)


def test_a_batch_that_is_dropped_while_interceptors_look_at_it_is_not_given():
    """`on_consume` is called when the batch is first looked at; another thread may close the consumer meanwhile."""

    class Looked(Batch):
        def __iter__(self) -> Iterator[Record]:
            cursor.drop({P0})
            return super().__iter__()

    number, start, wire = BATCHES[0]
    for read in (by_next, by_iteration):
        cursor = RecordCursor(())
        cursor.put([Looked("t", number, wire, start_offset=start)])
        got: list[tuple[int, int]] = []
        read(cursor, got)
        assert got == []
        assert cursor.positions() == {}


class Held(Batch):
    """A batch whose reader stops where interceptors are called."""

    __slots__ = ("go_on", "reached")

    def __iter__(self) -> Iterator[Record]:
        self.reached.set()
        assert self.go_on.wait(5)
        return super().__iter__()


def test_a_close_by_another_thread_at_any_moment_of_a_reader_ends_it_in_order() -> None:
    """`drop` stops after two of its calls: at the first the reader chooses a batch, at the second it takes it."""
    for first in range(1, 9):
        for second in range(first, 9):
            read_while_dropping(first, second)


def read_while_dropping(first: int, second: int) -> None:
    cursor, reached, go_on = RecordCursor(()), threading.Event(), threading.Event()
    batches = [Held("t", number, wire, start_offset=start) for number, start, wire in BATCHES]
    for batch in batches:
        batch.reached, batch.go_on = reached, go_on
    cursor.put(batches)
    came: list[object] = []

    def read() -> None:
        try:
            came.append(cursor.next_record())
        except Exception as error:  # noqa: BLE001 -- whatever it is, the test shows it
            came.append(error)
        reached.set()

    reader, calls = threading.Thread(target=read), 0

    def stop(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "c_return"
        if event == "c_return" and calls == first:
            reader.start()
            assert reached.wait(5)
        if event == "c_return" and calls == second:
            go_on.set()
            reader.join(5)

    sys.setprofile(stop)
    try:
        cursor.drop()
    finally:
        sys.setprofile(None)
        go_on.set()
    if reader.ident is not None:
        reader.join(5)
        (given,) = came
        assert given is None or (isinstance(given, Record) and given.offset == 0), f"{first}, {second}: {given!r}"
