"""Conversations about what a share group reads: aborted transactions, and where it begins; see `group_questions`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from kafkaraw import Admin, ConfigResource, Consumer, KafkaError, Producer, TopicPartition
from tests.interop.group_questions import READY_SECONDS, Table
from tests.interop.share_fetch_questions import ACCEPT, RELEASE, Shared

GAP: Final = 0
OTHER: Final = "other-member"
HOUR_MS: Final = 3_600_000


def _wait_for_end(shared: Shared, end: int, *, isolation_level: str = "read_uncommitted") -> None:
    """Wait until the markers of transactions are written: they follow the response to the producer."""
    partition = TopicPartition(shared.name, 0)
    settings = {"bootstrap_servers": shared.table.bootstrap_servers, "isolation_level": isolation_level}
    with Consumer(**settings) as consumer:
        deadline = time.monotonic() + READY_SECONDS
        while consumer.end_offsets([partition])[partition] != end:
            assert time.monotonic() < deadline, f"the partition does not end at {end}"
            time.sleep(0.02)


class _Transactions:
    """Two producers whose transactions overlap, and one without transactions."""

    def __init__(self, shared: Shared, stack: contextlib.ExitStack) -> None:
        self._shared = shared
        self._end = 0
        self._producers = []
        for number in range(2):
            producer = stack.enter_context(
                Producer(
                    bootstrap_servers=shared.table.bootstrap_servers,
                    transactional_id=f"{shared.name}-{number}",
                    linger_ms=1_000,
                )
            )
            producer.init_transactions()
            self._producers.append(producer)

    def begin(self, number: int) -> None:
        self._producers[number].begin_transaction()

    def send(self, number: int, count: int) -> None:
        """Write a batch."""
        for _ in range(count):
            self._producers[number].send(self._shared.name, b"x", partition=0)
        self._producers[number].flush()
        self._end += count

    def plain(self, count: int) -> None:
        """Write a batch outside of transactions."""
        self._shared.produce([count])
        self._end += count

    def end(self, number: int, *, commits: bool) -> None:
        """End a transaction, and wait for its marker."""
        producer = self._producers[number]
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
        self._end += 1
        _wait_for_end(self._shared, self._end)


def _transactions(table: Table, level: str) -> Iterator[Any]:
    shared = Shared(table, [], isolation_level=level)
    with contextlib.ExitStack() as stack:
        transactions = _Transactions(shared, stack)
        yield shared.fetch()
        transactions.plain(2)  # 0, 1
        transactions.begin(0)
        transactions.begin(1)
        transactions.send(0, 3)  # 2 to 4, aborted
        transactions.send(1, 2)  # 5, 6, committed
        yield shared.fetch()
        transactions.send(0, 1)  # 7, aborted
        transactions.end(0, commits=False)  # 8
        transactions.plain(1)  # 9
        yield shared.fetch()
        transactions.end(1, commits=True)  # 10
        yield shared.fetch()
        yield shared.stored()
        yield shared.acknowledge((0, 1, [ACCEPT]))
        yield shared.acknowledge((5, 6, [ACCEPT, RELEASE]))
        yield shared.stored()
        yield shared.fetch()
        yield shared.acknowledge((6, 6, [ACCEPT]))
        yield shared.acknowledge((2, 4, [GAP]))
        yield shared.acknowledge((8, 8, [GAP]), (9, 9, [ACCEPT]), (10, 10, [GAP]))
        yield shared.stored()
        transactions.begin(0)
        transactions.send(0, 2)  # 11, 12, aborted
        transactions.end(0, commits=False)  # 13
        yield shared.fetch()
        yield shared.fetch()
        yield shared.stored()
        transactions.begin(0)
        transactions.send(0, 1)  # 14, open
        transactions.plain(1)  # 15
        yield shared.fetch()
        transactions.end(0, commits=True)  # 16
        yield shared.fetch()
        yield shared.acknowledge((14, 15, [ACCEPT]), (16, 16, [GAP]))
        yield shared.stored()
        yield shared.acknowledge(epoch=-1)
        yield shared.stored()


def _committed(table: Table) -> Iterator[Any]:
    """A group with share.isolation.level=read_committed gets no record of an aborted or open transaction."""
    yield from _transactions(table, "read_committed")


def _uncommitted(table: Table) -> Iterator[Any]:
    """A group with share.isolation.level=read_uncommitted gets all of them."""
    yield from _transactions(table, "read_uncommitted")


def _aborted_again(table: Table) -> Iterator[Any]:
    """Aborted records between others that are released: they never come."""
    shared = Shared(table, [], isolation_level="read_committed")
    with contextlib.ExitStack() as stack:
        transactions = _Transactions(shared, stack)
        for _ in range(3):
            transactions.plain(1)
            transactions.begin(0)
            transactions.send(0, 2)
            transactions.end(0, commits=False)
        transactions.plain(1)
        for _ in range(3):
            told = shared.fetch()
            yield told
            ranges = [
                (first, last, [RELEASE]) for each in told if isinstance(each, list) for first, last, _ in _ranges(each)
            ]
            yield shared.acknowledge(*ranges)
            yield shared.stored()


def _ranges(found: list[Any]) -> list[tuple[int, int, int]]:
    return [each for each in found if isinstance(each, tuple)]


def _begins(table: Table, reset: str) -> Iterator[Any]:
    """Records of two days ago, an hour ago, and now."""
    shared = Shared(table, [], auto_offset_reset=reset)
    now_ms = int(time.time() * 1_000)
    with Producer(bootstrap_servers=table.bootstrap_servers) as producer:
        for hours in (48, 48, 1, 0):
            producer.send(shared.name, b"x", partition=0, timestamp_ms=now_ms - hours * HOUR_MS).result(30)
    yield shared.stored()
    yield shared.fetch()
    yield shared.stored()
    yield shared.acknowledge(epoch=-1)
    shared.epoch = 0
    yield shared.fetch()


def _minutes(table: Table) -> Iterator[Any]:
    """The group begins at the first record of the last thirty minutes."""
    yield from _begins(table, "by_duration:PT30M")


def _day(table: Table) -> Iterator[Any]:
    """The group begins at the first record of the last day."""
    yield from _begins(table, "by_duration:P1DT1H1M1.5S")


def _week(table: Table) -> Iterator[Any]:
    """The group begins at the first record of all."""
    yield from _begins(table, "by_duration:P7D")


def _nothing_recent(table: Table) -> Iterator[Any]:
    """No record is as new as the duration says, until one comes."""
    shared = Shared(table, [], auto_offset_reset="by_duration:PT1H")
    yield shared.fetch()
    now_ms = int(time.time() * 1_000)
    with Producer(bootstrap_servers=table.bootstrap_servers) as producer:
        producer.send(shared.name, b"x", partition=0, timestamp_ms=now_ms - 2 * HOUR_MS).result(30)
        yield shared.fetch()
        producer.send(shared.name, b"x", partition=0, timestamp_ms=now_ms - HOUR_MS // 2).result(30)
    yield shared.fetch()
    yield shared.acknowledge((1, 1, [ACCEPT]))
    yield shared.stored()


def _durations(table: Table) -> Iterator[Any]:
    """Values of share.auto.offset.reset that are refused, and some that are not."""
    resource = ConfigResource.group(table.group_id)
    values = (
        "by_duration:PT1H", "by_duration:P1D", "by_duration:PT0S", "by_duration:PT1.5S", "by_duration:-PT1H",
        "by_duration:PT-1H", "by_duration:P1W", "by_duration:P1M", "by_duration:", "by_duration", "by_duration:pt1h",
        "by_duration:1h", "BY_DURATION:PT1H", "EARLIEST", "none", "", "by_duration:P1DT", "by_duration:PT",
    )  # fmt: skip
    with Admin(bootstrap_servers=table.bootstrap_servers) as admin:
        for value in values:
            try:
                admin.alter_configs({resource: {"share.auto.offset.reset": value}})
            except KafkaError as error:
                yield value, str(error).replace(table.group_id, "GROUP")
            else:
                yield value, None


def sessions(table: Table) -> Iterator[Any]:
    """A broker with room for one share session refuses another one, after the time that the request may wait."""
    shared = Shared(table, [10])
    other = table.client()
    yield shared.fetch(max_records=5)
    began = time.monotonic()
    yield shared.fetch(member=OTHER, client=other, epoch=0, max_wait_ms=700)
    yield time.monotonic() - began >= 0.7
    yield shared.fetch(member=OTHER, client=other, epoch=1)
    yield shared.fetch(epoch=0)
    shared.epoch = 1
    yield shared.acknowledge((0, 9, [ACCEPT]))
    yield shared.acknowledge(epoch=-1)
    yield shared.fetch(member=OTHER, client=other, epoch=0)
    yield shared.fetch(epoch=0)
    yield shared.stored()


CONVERSATIONS: Final[dict[str, Callable[[Table], Iterator[Any]]]] = {
    "share_reading_committed": _committed,
    "share_reading_uncommitted": _uncommitted,
    "share_reading_aborted_again": _aborted_again,
    "share_reading_minutes": _minutes,
    "share_reading_day": _day,
    "share_reading_week": _week,
    "share_reading_nothing_recent": _nothing_recent,
    "share_reading_durations": _durations,
}
