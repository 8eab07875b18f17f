"""Transactions of our producer and reads of our consumer, against Apache Kafka with both generations of the protocol.

confluent-kafka reads what we wrote, and the other way round.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator

import confluent_kafka
import pytest

from kafkaraw import (
    Admin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    GroupMetadata,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
)
from kafkaraw.broker import EmbeddedBroker, EmbeddedCluster
from kafkaraw.errors import ProducerFencedError, TransactionAbortableError, UsageError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkaraw.protocol.messages.end_txn import EndTxnRequest
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.interop.apache_kafka import ApacheKafka, why_missing
from tests.interop.java_tools import run_tool
from tests.interop.raw_client import RawClient
from tests.rotation import rotating

PARTITIONS = 3
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"


@pytest.fixture(scope="module")
def first_generation() -> Iterator[ApacheKafka]:
    """Apache Kafka as it was before KIP-890: clients add partitions, epochs stay."""
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    with ApacheKafka(features={"transaction.version": 0}) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def our_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def our_broker_of_the_first_generation() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties={"transaction.version": 0}) as broker:
        yield broker


BROKERS = ("first_generation", "apache_kafka", "our_broker_of_the_first_generation", "our_broker")
"""A commit has both programs in one generation of transactions."""


@pytest.fixture(params=rotating(BROKERS, 2))
def bootstrap_servers(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param).bootstrap_servers)


@pytest.fixture
def topic(bootstrap_servers: str) -> str:
    name = f"transactions-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS)])
    return name


@pytest.fixture
def name() -> str:
    return f"tx-{uuid.uuid4().hex[:8]}"


def read_by_confluent(bootstrap_servers: str, topic: str) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    values, ends = [], 0
    while ends < PARTITIONS:
        message = consumer.poll(20)
        assert message is not None, f"no end of {topic} after {values}"
        if message.error():
            ends += 1
        else:
            values.append(message.value())
    consumer.close()
    return sorted(values)


def read_by_us(
    bootstrap_servers: str, topic: str, *, is_decided: bool = True, **settings: object
) -> list[bytes | None]:
    """Read all committed records, once the outcome of every transaction is written if they all have one."""
    with Consumer(
        bootstrap_servers=bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        **settings,
    ) as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        ends = decided_ends(consumer, partitions) if is_decided else consumer.end_offsets(partitions)
        values: list[bytes | None] = []
        while any(consumer.position(each) < ends[each] for each in partitions):
            values += [record.value for batch in consumer.poll(0.5).values() for record in batch]
    return sorted(values, key=lambda value: value or b"")


def decided_ends(consumer: Consumer, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """The ends once every outcome is written: a coordinator answers before it has told the partitions."""
    with Consumer(bootstrap_servers=consumer._async._config.bootstrap_servers) as of_all:
        written, end_s = of_all.end_offsets(partitions), time.monotonic() + 5
    while (ends := consumer.end_offsets(partitions)) != written and time.monotonic() < end_s:
        time.sleep(0.01)
    return ends


def test_committed_records_are_read_and_aborted_ones_are_not(bootstrap_servers: str, topic: str, name: str) -> None:
    with Producer(bootstrap_servers=bootstrap_servers, transactional_id=name, linger_ms=0) as producer:
        producer.init_transactions()
        for round_ in range(3):
            with producer.transaction():
                for number in range(4):
                    producer.send(topic, b"kept-%d-%d" % (round_, number), partition=number % PARTITIONS)
            with pytest.raises(ValueError, match="no"), producer.transaction():
                for number in range(4):
                    producer.send(topic, b"dropped-%d-%d" % (round_, number), partition=number % PARTITIONS)
                producer.flush()
                raise ValueError("no")
    kept = sorted(b"kept-%d-%d" % (round_, number) for round_ in range(3) for number in range(4))
    assert read_by_confluent(bootstrap_servers, topic) == kept
    assert read_by_us(bootstrap_servers, topic) == kept


def test_a_successor_fences_the_producer_before_it(bootstrap_servers: str, topic: str, name: str) -> None:
    async def run() -> None:
        zombie = AsyncProducer(bootstrap_servers=bootstrap_servers, transactional_id=name)
        successor = AsyncProducer(bootstrap_servers=bootstrap_servers, transactional_id=name)
        await zombie.init_transactions()
        await zombie.begin_transaction()
        await zombie.send(topic, b"zombie", partition=0)
        await zombie.flush()
        await successor.init_transactions()
        async with successor.transaction():
            await successor.send(topic, b"successor", partition=0)
        with pytest.raises(ProducerFencedError, match=name):
            await zombie.commit_transaction()
        with pytest.raises(ProducerFencedError):
            await zombie.begin_transaction()
        await zombie.close()
        await successor.close()

    asyncio.run(run())
    assert read_by_confluent(bootstrap_servers, topic) == [b"successor"]


def test_offsets_count_when_and_only_when_the_transaction_commits(
    bootstrap_servers: str, topic: str, name: str
) -> None:
    group, partition = f"group-{name}", TopicPartition(topic, 0)

    def committed() -> int:
        reader = confluent_kafka.Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group})
        (found,) = reader.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=20)
        reader.close()
        return int(found.offset)

    with Producer(bootstrap_servers=bootstrap_servers, transactional_id=name) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, b"one", partition=0)
            producer.send_offsets_to_transaction({partition: 5}, group)
        assert committed() == 5
        producer.begin_transaction()
        producer.send_offsets_to_transaction({partition: OffsetAndMetadata(9, "m")}, GroupMetadata(group))
        producer.abort_transaction()
        assert committed() == 5
        stale = GroupMetadata(group, generation_id=7, member_id="somebody")
        producer.begin_transaction()
        with pytest.raises(TransactionAbortableError, match="abort_transaction"):
            producer.send_offsets_to_transaction({partition: 9}, stale)
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"two", partition=0)
    assert read_by_us(bootstrap_servers, topic) == [b"one", b"two"]


def test_records_that_fail_make_the_transaction_fail_and_the_next_one_is_well(
    bootstrap_servers: str, topic: str, name: str
) -> None:
    with Admin(bootstrap_servers=bootstrap_servers) as admin:
        admin.create_topics([NewTopic(f"{topic}-small", 1, configs={"max.message.bytes": "1000"})])
    with Producer(bootstrap_servers=bootstrap_servers, transactional_id=name) as producer:
        producer.init_transactions()
        with pytest.raises(TransactionAbortableError, match="MESSAGE_TOO_LARGE"), producer.transaction():
            producer.send(topic, b"with-it", partition=0)
            producer.send(f"{topic}-small", b"x" * 5000)
        with producer.transaction():
            producer.send(topic, b"after", partition=0)
            producer.send(f"{topic}-small", b"small")
        with pytest.raises(UsageError, match="begin_transaction"):
            producer.send(topic, b"outside")
    assert read_by_us(bootstrap_servers, topic) == [b"after"]


def test_prepared_transactions_are_ended_by_an_administrator(bootstrap_servers: str, topic: str, name: str) -> None:
    prepared = []
    for worker in range(2):
        settings = {"transactional_id": f"{name}-{worker}"}
        with Producer(bootstrap_servers=bootstrap_servers, **settings) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, b"prepared-%d" % worker, partition=worker)
            prepared.append(producer.prepare_transaction())
    assert read_by_us(bootstrap_servers, topic, is_decided=False) == []
    with Admin(bootstrap_servers=bootstrap_servers) as admin:
        for each, commit in zip(prepared, (True, False), strict=True):
            assert each is not None
            admin.end_transaction(each, commit=commit)
            admin.end_transaction(each, commit=commit)
        with Producer(bootstrap_servers=bootstrap_servers, transactional_id=f"{name}-0") as successor:
            successor.init_transactions()
            with pytest.raises(ProducerFencedError, match="the coordinator refuses, because"):
                admin.end_transaction(prepared[0]._replace(producer_epoch=prepared[0].producer_epoch - 1), commit=True)
    assert read_by_us(bootstrap_servers, topic) == [b"prepared-0"]


def test_an_open_transaction_is_aborted_when_the_producer_is_closed(
    bootstrap_servers: str, topic: str, name: str
) -> None:
    with Producer(bootstrap_servers=bootstrap_servers, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"left", partition=0)
        producer.flush()
    assert read_by_us(bootstrap_servers, topic) == []


def test_what_confluent_kafka_commits_we_read_and_what_it_aborts_we_do_not(
    bootstrap_servers: str, topic: str, name: str
) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": name})
    producer.init_transactions(30)
    for number, commit in enumerate((True, False, True)):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(topic, b"%d-%d" % (number, partition), partition=partition)
        producer.flush(20)
        if commit:
            producer.commit_transaction(20)
        else:
            producer.abort_transaction(20)
    kept = sorted(b"%d-%d" % (number, partition) for number in (0, 2) for partition in range(PARTITIONS))
    assert read_by_us(bootstrap_servers, topic) == kept
    assert read_by_us(bootstrap_servers, topic, max_poll_records=1) == kept


def test_a_reader_waits_for_the_outcome(bootstrap_servers: str, topic: str, name: str) -> None:
    async def run() -> None:
        first = TopicPartition(topic, 0)
        consumer = AsyncConsumer(
            bootstrap_servers=bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        consumer.assign([first])
        async with AsyncProducer(bootstrap_servers=bootstrap_servers, transactional_id=name) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await (await producer.send(topic, b"undecided", partition=0, key=None))
            assert await consumer.end_offsets([first]) == {first: 0}
            assert await consumer.poll(0.5) == {}
            await producer.commit_transaction()
        batches = await consumer.poll(20)
        assert [record.value for record in batches[first]] == [b"undecided"]
        await consumer.close()

    asyncio.run(run())


def test_javas_producer_and_its_tools_know_the_transactions_of_our_cluster() -> None:
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    with EmbeddedCluster(3) as cluster:
        servers = ("--bootstrap-server", cluster.bootstrap_servers)
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("measured", PARTITIONS, 3)])
        with Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="service") as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send("measured", b"open", partition=0).result(20)
                told = run_tool(TRANSACTIONS, *servers, "describe", "--transactional-id", "service")
                assert "Ongoing" in told and "measured-0" in told
        load = ("--num-records", "2000", "--record-size", "100", "--throughput", "-1")
        ids = ("--transactional-id", "java", "--transaction-duration-ms", "50")
        assert "2000 records sent" in run_tool(PERFORMANCE, *servers, "--topic", "measured", *load, *ids)
        assert len(read_by_us(cluster.bootstrap_servers, "measured")) == 2001
        told = run_tool(TRANSACTIONS, *servers, "list")
        assert "java" in told and "CompleteCommit" in told


def offset_commits_around_a_transaction(bootstrap_servers: str) -> list[tuple[str, int, int]]:
    """What a client of each generation is told that commits before, in and after a transaction."""
    name = uuid.uuid4().hex
    with Admin(bootstrap_servers=bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, partitions=1, replication_factor=1)])
    with Producer(bootstrap_servers=bootstrap_servers, transactional_id=f"first-{name}") as producer:
        producer.init_transactions()  # both coordinators are up then
        producer.begin_transaction()
        producer.send_offsets_to_transaction({TopicPartition(name, 0): OffsetAndMetadata(1)}, GroupMetadata(name))
        producer.commit_transaction()
    told: list[tuple[str, int, int]] = []
    with RawClient(bootstrap_servers) as client:
        started = client.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 4)
        who = {"transactional_id": name, "producer_id": started.producer_id, "producer_epoch": started.producer_epoch}

        def commit(when: str) -> None:
            for version in (3, 4):
                asked = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
                topics = [TxnOffsetCommitRequestTopic(name=name, partitions=[asked])]
                answer = client.ask(TxnOffsetCommitRequest(group_id=name, topics=topics, **who), version)
                told.append((when, version, answer.topics[0].partitions[0].error_code))

        commit("before")
        assert client.ask(AddOffsetsToTxnRequest(group_id=name, **who), 3).error_code == 0
        commit("in")
        assert client.ask(EndTxnRequest(committed=False, **who), 3).error_code == 0
        while (
            client.ask(AddOffsetsToTxnRequest(group_id=name, **who), 3).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        ):
            time.sleep(0.01)
        who["producer_epoch"] -= 1
        commit("with an older epoch")
    return told


def test_who_commits_outside_of_a_transaction_is_told_the_same(
    our_broker: EmbeddedBroker, apache_kafka: ApacheKafka
) -> None:
    ours, theirs = (offset_commits_around_a_transaction(it.bootstrap_servers) for it in (our_broker, apache_kafka))
    assert ours == theirs
