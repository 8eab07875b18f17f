"""Records that wait, for their topic's metadata or for memory, are appended in the order of their `send`s."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.client.sending.lines import Lines
from kafkaraw.errors import UsageError
from kafkaraw.records import AppendStatus
from tests.client.virtual_cluster import VirtualCluster, on_cluster

FULL, OK, UNKNOWN = AppendStatus.FULL, AppendStatus.OK, AppendStatus.UNKNOWN_TOPIC


def test_records_of_a_topic_that_is_not_known_yet_keep_the_order_of_their_sends():
    async def test(cluster: VirtualCluster) -> None:
        async with cluster.producer() as producer:
            tickets = await asyncio.gather(*(producer.send("t", b"%d" % number, partition=0) for number in range(50)))
            assert [(await ticket).offset for ticket in tickets] == list(range(50))
        assert [record.value for record in await cluster.read("t", 50)] == [b"%d" % number for number in range(50)]

    on_cluster(test)


def test_a_send_that_is_given_up_and_one_to_a_missing_partition_keep_no_other_back():
    async def test(cluster: VirtualCluster) -> None:
        async with cluster.producer() as producer:
            sends = [
                asyncio.create_task(producer.send("t", b"%d" % number, partition=99 if number == 2 else 0))
                for number in range(8)
            ]
            await asyncio.sleep(0)
            sends[0].cancel()
            outcomes = await asyncio.gather(*sends, return_exceptions=True)
            assert isinstance(outcomes[0], asyncio.CancelledError)
            assert isinstance(outcomes[2], UsageError)
        values = [record.value for record in await cluster.read("t", 6)]
        assert values == [b"1", b"3", b"4", b"5", b"6", b"7"]

    on_cluster(test)


def test_records_keep_the_order_of_their_sends_while_memory_is_full():
    async def test(cluster: VirtualCluster) -> None:
        values = [b"%03d" % number + b"x" * 400 for number in range(60)]
        async with cluster.producer(buffer_memory=2_000, batch_size=1_000, linger_ms=0) as producer:
            await asyncio.gather(*(producer.send("t", value, partition=0) for value in values))
        assert [record.value for record in await cluster.read("t", 60)] == values

    on_cluster(test)


class Appending:
    """An `append` that takes what is allowed."""

    def __init__(self) -> None:
        self.taken: list[object] = []
        self.status = UNKNOWN
        self.known = False

    def __call__(self, topic, value, key, headers, partition, timestamp_ms):
        if value == "wrong":
            raise UsageError("wrong")
        if self.status is not OK or partition == 99:
            return (self.status if partition != 99 else UNKNOWN), None
        self.taken.append(value)
        return OK, f"ticket of {value}"


@pytest.fixture
def appending():
    return Appending()


@pytest.fixture
def lines(appending):
    return Lines(appending, lambda _: appending.known)


def joined(lines, *values, partition=None):
    return [lines.join(("t", value, None, None, partition, None)) for value in values]


def test_those_before_a_record_are_appended_first_and_those_behind_wait(lines, appending):
    a, b, c = joined(lines, "a", "b", "c")
    assert lines.append("t", b) is UNKNOWN
    appending.status, appending.known = OK, True
    assert lines.append("t", b) is OK
    assert (appending.taken, a.is_over, b.is_over, c.is_over) == (["a", "b"], True, True, False)
    assert lines.append("t", a) is OK  # again: it is over
    assert lines.append("t", None) is OK
    assert appending.taken == ["a", "b", "c"]
    lines.leave(a)
    assert lines.append("t", None) is OK
    assert lines._lines == {}


def test_without_memory_none_is_appended_out_of_turn(lines, appending):
    appending.status, appending.known = FULL, True
    _, b = joined(lines, "a", "b")
    assert lines.append("t", b) is FULL
    assert (appending.taken, b.is_over) == ([], False)


def test_refused_records_and_those_to_a_missing_partition_keep_none_back(lines, appending):
    (missing,) = joined(lines, "missing", partition=99)
    wrong, last = joined(lines, "wrong", "last")
    appending.status, appending.known = OK, True
    assert lines.append("t", missing) is UNKNOWN
    assert lines.append("t", last) is OK
    assert isinstance(wrong.error, UsageError)
    assert appending.taken == ["last"]
    lines.leave(missing)
    assert lines._lines == {}
