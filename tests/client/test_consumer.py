from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from kafkaraw.client.consumer import AsyncConsumer, reading_of
from kafkaraw.client.network.connection import Connection
from kafkaraw.errors import (
    AuthorizationError,
    BrokerError,
    ClosedError,
    CorruptBatchError,
    KafkaTimeoutError,
    NetworkError,
    UnknownTopicError,
    UnsupportedVersionError,
    UsageError,
)
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.fetch import FetchRequest
from kafkaraw.protocol.messages.metadata import MetadataRequest
from kafkaraw.records import Batch, TopicPartition, encode_control_batch
from kafkaraw.records.control import ControlType
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.client.scripted_cluster import ScriptedCluster, runtime_of

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
Play = Callable[[AsyncConsumer, ScriptedCluster], Awaitable[None]]


def simulate(play: Play, *, nodes: int = 2, leaders: tuple[int, ...] = (1,), seed: int = 1, **settings: object) -> None:
    """Play with a consumer that has the partitions of topic "t" assigned."""
    chosen = {"auto_offset_reset": "earliest"} | settings

    async def main(simulation: Simulation) -> None:
        cluster = await ScriptedCluster(simulation, nodes).start()
        if leaders:
            cluster.create("t", *leaders)
        servers = cluster.bootstrap_servers
        async with AsyncConsumer(runtime=runtime_of(simulation), bootstrap_servers=servers, **chosen) as consumer:
            consumer.assign([TopicPartition("t", number) for number in range(len(leaders))])
            await play(consumer, cluster)

    run_virtual(main, seed)


def values(batches: dict[TopicPartition, Batch]) -> list[bytes | None]:
    return [value for batch in batches.values() for value in batch.values()]


async def read(consumer: AsyncConsumer, count: int) -> list[bytes | None]:
    """Poll until so many values have come."""
    got: list[bytes | None] = []
    while len(got) < count:
        batches = await consumer.poll(30)
        assert batches, f"only {len(got)} of {count} came"
        got += values(batches)
    return got


# -- reading


def test_poll_gives_one_batch_for_each_partition_that_has_records() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"a", b"b")
        cluster.append("t", 1, b"c")
        batches = await consumer.poll(5)
        assert {tp: batch.values() for tp, batch in batches.items()} == {P0: [b"a", b"b"], P1: [b"c"]}

    simulate(play, leaders=(1, 1, 1))


def test_poll_returns_empty_when_the_timeout_is_over() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        loop = cluster.simulation.loop
        await consumer.poll(1)
        began = loop.time()
        assert await consumer.poll(0.3) == {}
        assert loop.time() - began == pytest.approx(0.3)

    simulate(play)


def test_short_polls_lose_nothing() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        got: list[bytes | None] = []
        for number in range(20):
            cluster.append("t", 0, b"%d" % number)
            got += values(await consumer.poll(0.001))
        got += await read(consumer, 20 - len(got))
        assert got == [b"%d" % number for number in range(20)]

    simulate(play)


def test_polls_that_are_cancelled_anywhere_lose_nothing() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        wanted = [b"%d" % number for number in range(300)]
        got: list[bytes | None] = []
        for number, value in enumerate(wanted):
            cluster.append("t", 0, value)
            task = asyncio.create_task(consumer.poll(5))
            await asyncio.sleep(0.0005 * (number % 7))
            for _ in range(number % 11):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                got += values(await task)
        got += await read(consumer, len(wanted) - len(got))
        assert got == wanted

    simulate(play, max_poll_records=2)


async def records_in_the_buffer(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
    """Have records in the buffer, and the connection for the next Fetch lost: a poll that takes them pauses for it."""
    cluster.append("t", 0, b"a", b"b")
    consumer.seek(P0, 0)
    for _ in ("the leader", "the records"):
        assert await consumer.poll(0) == {}
        await asyncio.sleep(1)
    cluster.simulation.network.cut("broker1", 9092)
    await asyncio.sleep(0.1)


def test_records_that_a_cancelled_poll_has_taken_in_hand_are_given_by_the_next_one() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        await records_in_the_buffer(consumer, cluster)
        poll = consumer.poll(5)
        poll.send(None)  # up to the pause in which the next fetch begins to look for a connection
        assert reading_of(consumer).subscriptions.partition(P0).offset == 2
        assert await consumer.position(P0) == 0
        with pytest.raises(asyncio.CancelledError):
            poll.throw(asyncio.CancelledError())
        assert await consumer.position(P0) == 0
        assert values(await consumer.poll(0)) == [b"a", b"b"]

    simulate(play)


def test_a_seek_while_a_poll_takes_records_in_hand_is_not_undone() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        async def seek() -> None:
            consumer.seek(P0, 1)

        await records_in_the_buffer(consumer, cluster)
        reading = asyncio.create_task(consumer.poll(5, max_records=1))
        await asyncio.create_task(seek())  # it runs in that pause
        assert values(await reading) == [b"b"]
        assert await consumer.position(P0) == 2

    simulate(play)


def test_who_speaks_no_version_of_fetch_with_a_broker_hears_so_in_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    version_for = Connection.version_for

    def without_fetch(self: Connection, api_key: int) -> int:
        if api_key == 1:
            raise UnsupportedVersionError("no version of Fetch in common")
        return version_for(self, api_key)

    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"a")
        for _ in range(3):  # also when the connection is open already
            with pytest.raises(UnsupportedVersionError, match="no version of Fetch"):
                await consumer.poll(5)

    monkeypatch.setattr(Connection, "version_for", without_fetch)
    simulate(play)


def test_the_next_fetch_is_under_way_before_records_are_handed_over() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"a", b"b", b"c")
        await consumer.poll(5)
        sent = [record for record in cluster.simulation.network.history if record.by == "client"]
        latest = decode_fetch_offsets(bytes(sent[-1].data))
        assert latest == [3]

    simulate(play)


def decode_fetch_offsets(data: bytes) -> list[int]:
    from kafkaraw.protocol import decode_request

    _, message = decode_request(memoryview(data)[4:])
    assert isinstance(message, FetchRequest)
    return [part.fetch_offset for topic in message.topics for part in topic.partitions]


def test_no_more_than_one_answer_per_broker_is_buffered() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        for _ in range(50):
            cluster.append("t", 0, b"x" * 1000)
        await consumer.poll(5)
        await asyncio.sleep(60)
        before = len(cluster.asked(FetchRequest))
        await asyncio.sleep(60)
        assert len(cluster.asked(FetchRequest)) == before == 2

    simulate(play, max_partition_fetch_bytes=2_000)


def test_fetches_go_by_topic_id_where_the_broker_can() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"a")
        await consumer.poll(5)
        (asked, *_) = cluster.asked(FetchRequest)
        assert asked.version == 18
        assert asked.message.topics[0].topic_id == cluster.topics["t"].topic_id
        assert (asked.message.session_id, asked.message.session_epoch) == (0, 0)

    simulate(play)


def test_fetches_go_by_name_where_the_broker_knows_no_ids() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.versions = {1: (4, 11), 23: (0, 2)}
        cluster.append("t", 0, b"a")
        assert values(await consumer.poll(5)) == [b"a"]
        assert cluster.asked(FetchRequest)[0].message.topics[0].topic == "t"

    simulate(play)


def test_a_topic_without_known_id_is_fetched_by_name() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.versions = {3: (0, 9)}
        cluster.append("t", 0, b"a")
        assert values(await consumer.poll(5)) == [b"a"]
        assert {asked.version for asked in cluster.asked(FetchRequest)} == {12}

    simulate(play)


def test_a_wait_longer_than_the_request_timeout_is_no_fault() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.simulation.loop.call_later(30, cluster.append, "t", 0, b"a")
        assert values(await consumer.poll(60)) == [b"a"]
        assert len(cluster.asked(FetchRequest)) == 1

    simulate(play, request_timeout_ms=2_000, fetch_max_wait_ms=40_000)


def test_the_position_is_behind_the_batch_and_not_behind_its_last_record() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        log = cluster.topics["t"].logs[0]
        log.append(b"a")
        marker = encode_control_batch(
            ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0, base_offset=1
        )
        log.batches.append(marker)
        assert values(await consumer.poll(5)) == [b"a"]
        assert await consumer.position(P0) == 2
        assert await consumer.poll(1) == {}
        log.append(b"b")
        assert values(await consumer.poll(5)) == [b"b"]

    simulate(play)


def test_a_batch_of_markers_alone_is_passed_over() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        marker = encode_control_batch(
            ControlType.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0
        )
        log = cluster.topics["t"].logs[0]
        log.batches.append(marker)
        assert await consumer.poll(1) == {}
        assert await consumer.position(P0) == 1

    simulate(play)


def test_a_batch_larger_than_every_limit_still_comes() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        for number in range(2):
            cluster.append("t", number, b"small")
            cluster.append("t", number, bytes(50_000))
            cluster.append("t", number, b"end")
        got = await read(consumer, 6)
        assert sorted(len(value or b"") for value in got) == [3, 3, 5, 5, 50_000, 50_000]

    simulate(play, leaders=(1, 1), fetch_max_bytes=100, max_partition_fetch_bytes=100)


@pytest.mark.parametrize(
    ("settings", "asked"),
    [({}, [1 << 20, 1 << 21, 1 << 21, 1 << 21]), ({"max_partition_fetch_bytes": 1 << 20}, [1 << 20] * 4)],
)
def test_more_is_asked_for_where_answers_come_full(settings: dict[str, int], asked: list[int]) -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        for _ in range(60):
            cluster.append("t", 0, bytes(300_000))
        await read(consumer, 60)
        sizes = [
            topic.partitions[0].partition_max_bytes for it in cluster.asked(FetchRequest) for topic in it.message.topics
        ]
        assert sizes[:4] == asked

    simulate(play, **settings)


def test_a_batch_that_an_old_broker_cuts_short_is_asked_for_again_in_full() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        log = cluster.topics["t"].logs[0]
        log.append(bytes(50_000))
        whole = log.read
        log.read = lambda offset, max_bytes: whole(offset, max_bytes)[:max_bytes]
        assert [len(value or b"") for value in values(await consumer.poll(5))] == [50_000]

    simulate(play, max_partition_fetch_bytes=1_000)


@pytest.mark.parametrize("limit", [1, 3, 7])
def test_a_limit_on_records_holds_and_loses_none(limit: int) -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        wanted = [b"%d" % number for number in range(20)]
        cluster.append("t", 0, *wanted[:12])
        cluster.append("t", 0, *wanted[12:])
        got: list[bytes | None] = []
        while len(got) < 20:
            part = values(await consumer.poll(5))
            assert 0 < len(part) <= limit
            got += part
            assert await consumer.position(P0) == len(got)
        assert got == wanted

    simulate(play, max_poll_records=limit)


def test_compressed_batches_are_decoded_where_they_are_used() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        for codec in ("gzip", "snappy", "lz4", "zstd"):
            cluster.append("t", 0, codec.encode(), codec=codec)
        assert await read(consumer, 4) == [b"gzip", b"snappy", b"lz4", b"zstd"]

    simulate(play)


# -- iterating


def test_iteration_gives_records_in_order_and_waits_for_more() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"a", b"b")
        cluster.simulation.loop.call_later(100, cluster.append, "t", 0, b"c")
        got = []
        async for record in consumer:
            got.append((record.offset, record.value))
            if len(got) == 3:
                break
        assert got == [(0, b"a"), (1, b"b"), (2, b"c")]

    simulate(play)


def test_iteration_may_stop_at_any_record_and_go_on_with_poll() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"a", b"b", b"c", b"d")
        assert (await anext(consumer)).value == b"a"
        assert await consumer.position(P0) == 1
        assert (await anext(consumer)).value == b"b"
        assert values(await consumer.poll(5)) == [b"c", b"d"]
        assert await consumer.position(P0) == 4

    simulate(play)


def test_a_seek_in_the_middle_of_an_iteration_is_obeyed() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"a", b"b", b"c")
        assert (await anext(consumer)).value == b"a"
        consumer.seek(P0, 2)
        assert (await anext(consumer)).value == b"c"

    simulate(play)


def test_batches_end_after_so_many_seconds_without_any() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"a")
        cluster.append("t", 1, b"b")
        got = [batch.values() async for batch in consumer.batches(timeout=2)]
        assert sorted(got) == [[b"a"], [b"b"]]

    simulate(play, leaders=(1, 2))


def test_closing_ends_an_iteration() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        async def collect() -> list[bytes | None]:
            return [record.value async for record in consumer]

        cluster.append("t", 0, b"a")
        task = asyncio.create_task(collect())
        await asyncio.sleep(5)
        await consumer.close()
        assert await task == [b"a"]
        with pytest.raises(ClosedError):
            await consumer.poll(1)

    simulate(play)


# -- positions


def test_latest_begins_behind_what_is_there() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"old")
        assert await consumer.position(P0, 5) == 1
        cluster.append("t", 0, b"new")
        assert values(await consumer.poll(5)) == [b"new"]

    simulate(play, auto_offset_reset="latest")


def test_none_asks_for_a_seek() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"a")
        with pytest.raises(UsageError, match="t-0 has no position"):
            await consumer.poll(5)
        consumer.seek(P0, 0)
        assert values(await consumer.poll(5)) == [b"a"]

    simulate(play, auto_offset_reset="none")


def test_seeking_to_the_beginning_and_the_end() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"a", b"b")
        cluster.topics["t"].logs[0].start_offset = 1
        consumer.seek_to_end([P0])
        assert await consumer.position(P0) == 2
        consumer.seek_to_beginning()
        assert await consumer.position(P0) == 1
        assert values(await consumer.poll(5)) == [b"b"]

    simulate(play)


def test_a_seek_does_not_wait_for_the_long_poll_it_made_useless() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"a", b"b")
        await consumer.poll(5)
        await asyncio.sleep(0.01)
        began = cluster.simulation.loop.time()
        consumer.seek(P0, 1)
        assert values(await consumer.poll(5)) == [b"b"]
        assert cluster.simulation.loop.time() - began < 0.1

    simulate(play, fetch_max_wait_ms=3_000)


def test_a_position_out_of_range_follows_the_policy() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"a")
        consumer.seek(P0, 99)
        assert values(await consumer.poll(5)) == [b"a"]

    simulate(play)


def test_a_position_out_of_range_is_an_error_without_a_policy() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"a")
        consumer.seek(P0, 99)
        with pytest.raises(BrokerError, match=r"offset 99 of t-0 is not there; the broker has 0 to 1"):
            await consumer.poll(5)

    simulate(play, auto_offset_reset="none")


@pytest.mark.parametrize("offset", [-1, -2])
def test_negative_offsets_are_refused(offset: int) -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        with pytest.raises(UsageError, match="seek_to_beginning"):
            consumer.seek(P0, offset)

    simulate(play)


def test_partitions_that_are_not_assigned_are_refused() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        with pytest.raises(UsageError, match="t-1 is not assigned"):
            consumer.seek(P1, 0)
        with pytest.raises(UsageError, match="t-1 is not assigned"):
            await consumer.position(P1)
        with pytest.raises(UsageError, match="'t' is not a partition"):
            consumer.assign(["t"])
        consumer.assign([])
        with pytest.raises(UsageError, match="nothing is assigned"):
            await consumer.poll(1)

    simulate(play)


def test_without_a_group_what_belongs_to_one_is_refused() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        with pytest.raises(UsageError, match="set group_id"):
            consumer.subscribe(["t"])
        with pytest.raises(UsageError, match="set group_id"):
            await consumer.commit()
        with pytest.raises(UsageError, match="set group_id"):
            await consumer.committed([TopicPartition("t", 0)])
        assert consumer.subscription() == []
        await consumer.unsubscribe()

    simulate(play)


# -- asking for offsets


def test_offsets_are_asked_for_without_assigning() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        consumer.assign([])
        cluster.append("t", 0, b"a", b"b", timestamp_ms=1000)
        assert await consumer.partitions_for("t") == [P0, P1]
        assert await consumer.beginning_offsets([P0, P1]) == {P0: 0, P1: 0}
        assert await consumer.end_offsets([P1, P0]) == {P1: 0, P0: 2}
        times = await consumer.offsets_for_times({P0: 1001, P1: 1001})
        assert times == {P0: (1, 1001, 0), P1: None}
        with pytest.raises(UsageError):
            await consumer.offsets_for_times({P0: -1})

    simulate(play, leaders=(1, 2))


def test_offsets_follow_a_leader_that_moved() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"a")
        assert await consumer.end_offsets([P0]) == {P0: 1}
        cluster.move("t", 0, 2)
        assert await consumer.end_offsets([P0]) == {P0: 1}

    simulate(play)


def test_offsets_of_what_does_not_exist_are_an_error_within_seconds() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        began = cluster.simulation.loop.time()
        with pytest.raises(UnknownTopicError, match="'nope' does not exist"):
            await consumer.end_offsets([TopicPartition("nope", 0)])
        with pytest.raises(UnknownTopicError, match="there is no partition 5"):
            await consumer.end_offsets([TopicPartition("t", 5)])
        with pytest.raises(UnknownTopicError, match="'nope' does not exist"):
            await consumer.partitions_for("nope")
        assert cluster.simulation.loop.time() - began < 10

    simulate(play)


def test_offsets_that_cannot_be_known_in_time_are_a_timeout_that_names_them() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.fail("ListOffsets", P0, *[ErrorCode.OFFSET_NOT_AVAILABLE] * 100)
        began = cluster.simulation.loop.time()
        with pytest.raises(KafkaTimeoutError, match=r"t-0.*OFFSET_NOT_AVAILABLE"):
            await consumer.end_offsets([P0], timeout=3)
        assert cluster.simulation.loop.time() - began == pytest.approx(3, abs=0.5)

    simulate(play)


# -- faults


REFRESHING = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
]


@pytest.mark.parametrize("code", REFRESHING, ids=lambda code: code.name)
def test_errors_about_leaders_refresh_the_metadata_and_are_survived(code: ErrorCode) -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        await consumer.poll(0.5)
        before = len(cluster.asked(MetadataRequest))
        cluster.fail("Fetch", P0, code, code)
        cluster.append("t", 0, b"a")
        assert values(await consumer.poll(20)) == [b"a"]
        assert before < len(cluster.asked(MetadataRequest)) <= before + 3

    simulate(play)


def test_reading_follows_a_leader_that_moves_again_and_again() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        got: list[bytes | None] = []
        for number in range(10):
            cluster.move("t", 0, 1 + number % 2)
            cluster.append("t", 0, b"%d" % number)
            got += await read(consumer, 1)
        assert got == [b"%d" % number for number in range(10)]

    simulate(play)


def test_a_topic_made_anew_is_read_from_where_the_policy_says() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"a", b"b", b"c")
        await read(consumer, 3)
        old_id = cluster.topics["t"].topic_id
        cluster.topics["t"] = type(cluster.topics["t"])(type(old_id)(b"n" * 16), [type(cluster.topics["t"].logs[0])(2)])
        cluster.append("t", 0, b"new")
        assert await read(consumer, 1) == [b"new"]

    simulate(play)


@pytest.mark.parametrize("seed", range(5))
def test_broken_connections_lose_and_repeat_nothing(seed: int) -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        network, rng = cluster.simulation.network, cluster.simulation.rng
        wanted = [b"%d" % number for number in range(200)]
        got: list[bytes | None] = []
        for number in range(0, 200, 10):
            cluster.append("t", 0, *wanted[number : number + 10])
            if rng.random() < 0.5:
                cluster.simulation.loop.call_later(
                    rng.random() * 0.01, network.cut, f"broker{rng.choice((1, 2))}", 9092
                )
            got += values(await consumer.poll(rng.random() * 0.1))
        got += await read(consumer, 200 - len(got))
        assert got == wanted

    simulate(play, seed=seed, max_partition_fetch_bytes=300)


def test_a_broker_that_was_never_read_from_is_named_after_the_api_timeout() -> None:
    """The bootstrap server answers; the address that the leader advertises is wrong."""

    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        network = cluster.simulation.network
        network._listeners.pop(("broker2", 9092))
        with pytest.raises(NetworkError, match="broker2:9092"):
            while True:
                await consumer.poll(1)

    simulate(play, nodes=2, leaders=(2,), default_api_timeout_ms=20_000)


def test_an_outage_longer_than_the_api_timeout_raises_nothing_neither_during_it_nor_afterwards() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"a")
        await read(consumer, 1)
        network, loop = cluster.simulation.network, cluster.simulation.loop
        listener = network._listeners.pop(("broker1", 9092))
        network.cut("broker1", 9092)
        assert await consumer.poll(5) == {}
        network._listeners["broker1", 9092] = listener
        cluster.append("t", 0, b"b")
        assert await read(consumer, 1) == [b"b"]
        network._listeners.pop(("broker1", 9092))
        network.cut("broker1", 9092)
        began = loop.time()
        while loop.time() - began < 300:
            assert await consumer.poll(7) == {}
        cluster.fail("Fetch", P0, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        network._listeners["broker1", 9092] = listener
        cluster.append("t", 0, b"c")
        assert await read(consumer, 1) == [b"c"]
        for _ in range(30):
            assert await consumer.poll(1) == {}

    simulate(play, nodes=1, default_api_timeout_ms=20_000)


def test_no_server_at_all_is_an_error_at_once() -> None:
    async def main(simulation: Simulation) -> None:
        consumer = AsyncConsumer(runtime=runtime_of(simulation), bootstrap_servers="nowhere:9092")
        consumer.assign([P0])
        with pytest.raises(NetworkError, match="cannot resolve 'nowhere'"):
            await consumer.poll(60)
        assert simulation.loop.time() < 1
        await consumer.close()

    run_virtual(main, 1)


def test_an_unknown_topic_is_an_error_within_seconds_even_with_short_polls() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        consumer.assign([TopicPartition("nope", 0)])
        with pytest.raises(UnknownTopicError, match="'nope' does not exist"):
            for _ in range(100):
                assert await consumer.poll(0.1) == {}
        assert cluster.simulation.loop.time() < 5

    simulate(play)


def test_a_topic_that_appears_in_time_is_read() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        consumer.assign([TopicPartition("new", 0)])
        assert await consumer.poll(1) == {}
        cluster.create("new")
        cluster.append("new", 0, b"a")
        assert await read(consumer, 1) == [b"a"]

    simulate(play, allow_auto_create_topics=False)


def test_what_an_acl_forbids_is_told_at_once() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.fail("Fetch", P0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(AuthorizationError, match="t-0"):
            await consumer.poll(5)

    simulate(play)


def test_a_damaged_batch_is_an_error_and_a_seek_goes_past_it() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        log = cluster.topics["t"].logs[0]
        for value in (b"a", b"b", b"c"):
            log.append(value)
        damaged = bytearray(log.batches[1])
        damaged[-1] ^= 1
        log.batches[1] = bytes(damaged)
        with pytest.raises(CorruptBatchError, match="checksum of the batch at offset 1"):
            values(await consumer.poll(5))
        consumer.seek(P0, 2)
        assert values(await consumer.poll(5)) == [b"c"]

    simulate(play)


def test_columns_skip_a_damaged_batch_once_and_keep_the_records_around_it_and_of_other_partitions() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        bad, good = cluster.topics["t"].logs
        for value in (b"a", b"b", b"c"):
            bad.append(value)
            good.append(value * 2)
        damaged = bytearray(bad.batches[1])
        damaged[-1] ^= 1
        bad.batches[1] = bytes(damaged)
        got: list[bytes] = []
        errors = 0
        while len(got) < 5:
            try:
                rows = await consumer.poll_arrow(timeout=5)
                assert rows.num_rows, "records are missing"
                got += rows["value"].to_pylist()
            except CorruptBatchError:
                errors += 1
                assert await consumer.position(P0) == 2
        assert (sorted(got), errors) == ([b"a", b"aa", b"bb", b"c", b"cc"], 1)

    simulate(play, leaders=(1, 1))


def test_the_same_seed_gives_the_same_bytes() -> None:
    def history(seed: int) -> str:
        digests: list[str] = []

        async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
            for number in range(20):
                cluster.append("t", number % 2, b"%d" % number)
                await consumer.poll(0.05)
                if number == 10:
                    cluster.move("t", 0, 2)
            digests.append(cluster.simulation.network.digest())

        simulate(play, leaders=(1, 2), seed=seed)
        return digests[0]

    assert history(7) == history(7)
    assert history(7) != history(8)


# -- columns


def test_arrow_columns_have_the_promised_types() -> None:
    pa = pytest.importorskip("pyarrow")

    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"a", None, timestamp_ms=1000)
        cluster.append("t", 1, b"c")
        table = await consumer.poll_arrow(timeout=5)
        header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
        assert table.schema == pa.schema(
            [
                ("topic", pa.dictionary(pa.int32(), pa.string())),
                ("partition", pa.int32()),
                ("offset", pa.int64()),
                ("timestamp", pa.timestamp("ms", "UTC")),
                ("timestamp_type", pa.int8()),
                ("key", pa.binary()),
                ("value", pa.binary()),
                ("headers", pa.list_(pa.field("element", header))),
            ]
        )
        rows = sorted(
            zip(table["partition"].to_pylist(), table["offset"].to_pylist(), table["value"].to_pylist(), strict=True)
        )
        assert rows == [(0, 0, b"a"), (0, 1, None), (1, 0, b"c")]
        assert set(table["topic"].to_pylist()) == {"t"}
        empty = await consumer.poll_arrow(timeout=0.1)
        assert (empty.num_rows, empty.schema) == (0, table.schema)

    simulate(play, leaders=(1, 1))


def test_arrow_columns_can_be_chosen_and_rows_limited() -> None:
    pytest.importorskip("pyarrow")

    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, *[b"%d" % number for number in range(10)])
        first = await consumer.poll_arrow(4, 5, ["value", "offset"])
        assert first.schema.names == ["value", "offset"]
        assert first["offset"].to_pylist() == [0, 1, 2, 3]
        rest = await consumer.poll_arrow(100, 5, ["offset"])
        assert rest["offset"].to_pylist() == [4, 5, 6, 7, 8, 9]
        with pytest.raises(UsageError, match="did you mean 'offset'"):
            await consumer.poll_arrow(columns=["ofset"])
        with pytest.raises(UsageError, match="max_records"):
            await consumer.poll_arrow(0)

    simulate(play)


@pytest.mark.parametrize("damaged_partition", [0, 1])
def test_a_damaged_batch_among_arrow_columns_takes_no_other_partition_s_records_along(damaged_partition: int) -> None:
    pytest.importorskip("pyarrow")

    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        for number in (0, 1):
            cluster.append("t", number, b"%d" % number)
        log = cluster.topics["t"].logs[damaged_partition]
        damaged = bytearray(log.batches[0])
        damaged[-1] ^= 1
        log.batches[0] = bytes(damaged)
        found, problems = list[bytes | None](), list[str]()
        for _ in range(4):
            try:
                found += (await consumer.poll_arrow(timeout=0.5))["value"].to_pylist()
            except CorruptBatchError as problem:
                problems.append(str(problem))
        assert found == [b"%d" % (1 - damaged_partition)]
        (problem,) = problems
        assert problem.startswith(f"t-{damaged_partition}: checksum of the batch at offset 0")

    simulate(play, leaders=(1, 1))
