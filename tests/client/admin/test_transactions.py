"""Listing transactions and fencing producers, and reading a partition with its control batches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaraw import Admin, Consumer, Producer
from kafkaraw.broker import EmbeddedBroker, EmbeddedCluster
from kafkaraw.client.admin import NewTopic
from kafkaraw.client.config import ConsumerConfig, parse
from kafkaraw.client.fetching.whole_log import LogBatch, LogSlice, TopicReplacedError, WholeLog
from kafkaraw.errors import LogTruncationError, ProducerFencedError, UsageError
from kafkaraw.records import ControlType, TopicPartition
from tests.console.filling import UNVERIFIED, hang
from tests.waiting import wait_until


@pytest.fixture(scope="module", params=[2, 0], ids=["second generation", "first generation"])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    with EmbeddedBroker(properties={"transaction.version": request.param}) as broker:
        yield broker.bootstrap_servers


def create(servers: str, *topics: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, 1) for topic in topics])


def opened(servers: str, transactional_id: str, topic: str, value: bytes = b"1") -> Producer:
    """A producer with a transaction that has one record."""
    producer = Producer(bootstrap_servers=servers, transactional_id=transactional_id)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, value, b"key").result(10)
    return producer


def test_transactions_are_listed_by_state(servers: str) -> None:
    create(servers, "listed")
    with (
        opened(servers, "one", "listed") as one,
        opened(servers, "two", "listed") as two,
        Admin(bootstrap_servers=servers) as admin,
    ):
        two.commit_transaction()
        states = {each.transactional_id: each.state for each in admin.list_transactions()}
        assert states["one"] == "Ongoing"
        assert states["two"] in ("PrepareCommit", "CompleteCommit")
        ongoing = admin.list_transactions(states=["Ongoing"])
        assert [each.transactional_id for each in ongoing] == ["one"]
        assert ongoing[0].producer_id >= 0
        one.abort_transaction()
        with pytest.raises(UsageError, match="knows no state 'NoSuchState'"):
            admin.list_transactions(states=["Ongoing", "NoSuchState"])


def test_transactions_that_hang_are_told_from_those_that_are_open(servers: str) -> None:
    create(servers, "open")
    key = TopicPartition("open", 0)
    with Admin(bootstrap_servers=servers) as admin, opened(servers, "open-id", "open") as producer:
        (found,) = admin.list_open_transactions([key])
        assert (found.partition, found.transactional_id, found.is_hanging) == (key, "open-id", False)
        assert found.producer.transaction_start_offset == 0
        assert admin.list_open_transactions([key], before_ms=1) == []
        producer.abort_transaction()
        assert wait_until(lambda: admin.list_open_transactions([key]) == [], 20)
    with EmbeddedBroker(properties=UNVERIFIED) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        producer_id = hang(broker.bootstrap_servers, "hanging")
        (found,) = admin.list_open_transactions([TopicPartition("hanging", 0)])
        assert (found.producer.producer_id, found.transactional_id, found.is_hanging) == (producer_id, None, True)
        admin.abort_transaction(found.partition, found.producer)
        assert wait_until(lambda: admin.list_open_transactions([found.partition]) == [], 20)


def test_fencing_a_producer_aborts_its_open_transaction(servers: str) -> None:
    create(servers, "fenced")
    with Admin(bootstrap_servers=servers) as admin, opened(servers, "fenced-id", "fenced") as producer:
        admin.fence_producers(["fenced-id", "an-id-that-was-never-used"])
        assert admin.list_transactions(states=["Ongoing"]) == []
        with pytest.raises(ProducerFencedError):
            producer.commit_transaction()
    with Consumer(
        bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition("fenced", 0)])
        assert consumer.poll(0.2) == {}


def read_whole(servers: str, topic: str) -> list[LogBatch]:
    async def read() -> list[LogBatch]:
        log = WholeLog(TopicPartition(topic, 0), parse(ConsumerConfig, {"bootstrap_servers": servers}))
        try:
            await log.open(10)
            found, offset = list[LogBatch](), 0
            while True:
                piece = await log.read(offset, wait_ms=0, timeout=10)
                found += piece.batches
                offset = piece.next_offset
                if offset >= piece.high_watermark:
                    return found
        finally:
            await log.close()

    return asyncio.run(read())


def test_a_whole_log_shows_open_transactions_and_how_others_ended(servers: str) -> None:
    create(servers, "whole")
    with opened(servers, "open", "whole", b"open"), opened(servers, "done", "whole", b"committed") as done:
        done.commit_transaction()
        with opened(servers, "undone", "whole", b"aborted") as undone:
            undone.abort_transaction()
            found: list[LogBatch] = []
            while sum(each.ends is not None for each in found) < 2:  # markers follow the answers
                found = read_whole(servers, "whole")
    values = {each.records[0].value: each.header.producer_id for each in found if each.records}
    ends = {each.header.producer_id: each.ends for each in found if each.ends is not None}
    assert ends == {values[b"committed"]: ControlType.COMMIT, values[b"aborted"]: ControlType.ABORT}
    assert b"open" in values


def test_a_whole_log_notices_that_its_topic_was_created_again(servers: str) -> None:
    create(servers, "again")

    async def test() -> None:
        log = WholeLog(TopicPartition("again", 0), parse(ConsumerConfig, {"bootstrap_servers": servers}))
        try:
            await log.open(10)
            assert (await log.read(0, wait_ms=0, timeout=10)).high_watermark == 0
            with pytest.raises(LogTruncationError, match="again-0 ends before offset 5"):
                await log.read(5, wait_ms=0, timeout=10)
            await asyncio.to_thread(recreate)
            with pytest.raises(TopicReplacedError, match="'again' was deleted"):
                await log.read(0, wait_ms=0, timeout=10)
        finally:
            await log.close()

    def recreate() -> None:
        with Admin(bootstrap_servers=servers) as admin:
            admin.delete_topics(["again"])
        create(servers, "again")

    asyncio.run(test())


def test_a_whole_log_notices_that_it_was_cut_off_and_has_grown_again() -> None:
    properties = {"unclean.leader.election.enable": "true", "replica.lag.time.max.ms": "500"}
    with EmbeddedCluster(2, properties=properties) as cluster:
        servers = cluster.bootstrap_servers
        create(servers, "cut")
        log = WholeLog(TopicPartition("cut", 0), parse(ConsumerConfig, {"bootstrap_servers": servers}))

        def produce(*values: bytes) -> None:
            with Producer(bootstrap_servers=servers) as producer:
                for value in values:
                    producer.send("cut", value).result(30)

        async def read_to(end_offset: int) -> LogSlice:
            piece = await log.read(0, wait_ms=0, timeout=10)
            while piece.next_offset < end_offset:
                piece = await log.read(piece.next_offset, wait_ms=100, timeout=10, last_epoch=piece.last_epoch)
            return piece

        async def test() -> None:
            try:
                await log.open(10)
                await asyncio.to_thread(produce, b"both")
                first = cluster.leader_of("cut")
                assert first is not None
                cluster.pause_replication(1 - first)
                await asyncio.to_thread(produce, b"lost", b"lost")  # when the other replica has left the ISR
                before = await read_to(3)
                cluster.kill_node(first)
                await asyncio.to_thread(produce, b"new", b"new", b"new")
                with pytest.raises(LogTruncationError, match="cut-0 was cut off at offset 1 and has grown again"):
                    await log.read(before.next_offset, wait_ms=0, timeout=10, last_epoch=before.last_epoch)
                assert (await read_to(4)).high_watermark == 4
            finally:
                await log.close()

        asyncio.run(test())


def test_a_whole_log_waits_for_a_broker_that_restarts(tmp_path: Path) -> None:
    async def test() -> None:
        with EmbeddedBroker(data_dir=tmp_path) as broker:
            servers = broker.bootstrap_servers
            create(servers, "kept")
            log = WholeLog(TopicPartition("kept", 0), parse(ConsumerConfig, {"bootstrap_servers": servers}))
            await log.open(10)
            assert (await log.read(0, wait_ms=0, timeout=10)).high_watermark == 0
        try:
            reading = asyncio.create_task(log.read(0, wait_ms=0, timeout=30))
            await asyncio.wait([reading], timeout=0.3)
            assert not reading.done()
            with EmbeddedBroker(data_dir=tmp_path, port=int(servers.rsplit(":", 1)[1])):
                assert (await reading).high_watermark == 0
        finally:
            await log.close()

    asyncio.run(test())
