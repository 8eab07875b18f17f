"""Tasks that read many ranges at once, from random logs: their rows are those of a plain consumer, record by record.

A layout is some topics on a cluster of three brokers. Their logs have batches of several codecs and sizes, committed
and aborted transactions, large records, and records that were deleted; some partitions are empty. The ranges of a task
begin and end anywhere in them, also inside batches and where no record is. The same ranges are read one by one, too.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from kafkaraw import Admin, Consumer, Producer
from kafkaraw.broker import EmbeddedCluster
from kafkaraw.client.admin import NewTopic
from kafkaraw.errors import KafkaTimeoutError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.ranges.consumer import RangeConsumer
from kafkaraw.ranges.planning import OffsetRange
from kafkaraw.records import Batch, TopicPartition
from kafkaraw.spark.errors import DataLossError
from kafkaraw.spark.reading.lookup import consumer_settings
from kafkaraw.spark.reading.task import ReadSettings, read_ranges
from tests.rotation import rotating
from tests.waiting import wait_until

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)
CODECS = ("none", "gzip", "lz4", "snappy", "zstd")
FETCH_BYTES = ("300", "5000", "100000", "")
PASSING = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.OFFSET_NOT_AVAILABLE,
)

COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.0",
    "internal.segment.bytes": "20500",  # the largest records fit
    "delete.retention.ms": "0",
}

Row = tuple[object, ...]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3) as embedded:
        yield embedded


@pytest.fixture(autouse=True)
def no_faults_are_left(cluster) -> Iterator[None]:
    yield
    cluster.faults.clear()


@dataclass
class Layout:
    """Topics with random logs.

    Attributes:
        counts: the number of partitions, by topic.
        ends: the end of each partition's log, as `committed_only` consumers see it.
        is_compacted: whether keys come again and again, and the log cleaner removes records.
    """

    cluster: EmbeddedCluster
    name: str
    rng: random.Random
    committed_only: bool
    counts: dict[str, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    is_compacted: bool = False

    @classmethod
    def random(cls, cluster: EmbeddedCluster, name: str, seed: int, *, is_compacted: bool = False) -> Layout:
        rng = random.Random(seed)
        layout = cls(cluster, f"{name}-{seed}", rng, rng.random() < 0.7, is_compacted=is_compacted)
        layout._write()
        return layout

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for topic, count in self.counts.items() for number in range(count)]

    @property
    def isolation_level(self) -> str:
        return "read_committed" if self.committed_only else "read_uncommitted"

    def _write(self) -> None:
        rng, servers = self.rng, self.cluster.bootstrap_servers
        self.counts = {f"{self.name}-{number}": rng.choice((1, 2, 5, 12)) for number in range(rng.choice((1, 3)))}
        with Admin(bootstrap_servers=servers) as admin:
            # timestamps are of any age
            configs = COMPACTED if self.is_compacted else {"retention.ms": "-1"}
            admin.create_topics([NewTopic(topic, count, configs=configs) for topic, count in self.counts.items()])
            full = [of for of in self.partitions if rng.random() < 0.8]
            for _ in range(rng.choice((1, 3))):
                self._write_some(full)
            with Consumer(bootstrap_servers=servers, isolation_level=self.isolation_level) as consumer:
                self.ends = consumer.end_offsets(self.partitions)
            deleted = {of: rng.randrange(self.ends[of] + 1) for of in full if rng.random() < 0.2}
            if deleted and not self.is_compacted:
                admin.delete_records(deleted)

    def _write_some(self, partitions: Sequence[TopicPartition]) -> None:
        """Several batches to each partition by one producer, in transactions or not."""
        rng = self.rng
        transactional_id = f"{self.name}-{rng.random()}" if rng.random() < 0.6 else None
        with Producer(
            bootstrap_servers=self.cluster.bootstrap_servers,
            compression_type=rng.choice(CODECS),
            batch_size=rng.choice((200, 16_384)),
            linger_ms=1,
            transactional_id=transactional_id,
        ) as producer:
            if transactional_id is None:
                self._send(producer, partitions)
                return
            producer.init_transactions()
            for _ in range(rng.randint(1, 3)):
                producer.begin_transaction()
                self._send(producer, partitions)
                (producer.commit_transaction if rng.random() < 0.5 else producer.abort_transaction)()

    def _send(self, producer: Producer, partitions: Sequence[TopicPartition]) -> None:
        rng = self.rng
        for of in partitions:
            for _ in range(rng.choice((0, 1, 5, 40))):
                size = rng.choice((0, 10, 100, 100, 20_000))
                key = None if rng.random() < 0.5 else rng.randbytes(4)
                key = b"k%d" % rng.randrange(5) if self.is_compacted else key
                value = None if size == 0 else rng.randbytes(size)
                producer.send(of.topic, value, key, partition=of.partition, timestamp_ms=rng.randrange(10**12))
        producer.flush()

    def ranges(self) -> list[OffsetRange]:
        """Ranges of most partitions; some have two, with or without a gap between them."""
        found = []
        for of in self.partitions:
            bounds = sorted(self.rng.randrange(self.ends[of] + 1) for _ in range(4))
            if self.rng.random() < 0.5:
                bounds[0], bounds[3] = 0, self.ends[of]
            if self.rng.random() < 0.3:
                bounds[1] = bounds[2]
            pairs = [(bounds[0], bounds[1]), (bounds[2], bounds[3])]
            found += [OffsetRange(of.topic, of.partition, start, end) for start, end in pairs if start < end]
        return found

    def settings(self, **given: str) -> ReadSettings:
        """Those of a task; missing records are no error."""
        client = {"bootstrap_servers": self.cluster.bootstrap_servers, "isolation_level": self.isolation_level}
        return ReadSettings(consumer_settings(client | given), False, 30_000)

    def random_settings(self) -> ReadSettings:
        names = ("max_partition_fetch_bytes", "fetch_max_bytes")
        chosen = {name: self.rng.choice(FETCH_BYTES) for name in names}
        return self.settings(**{name: text for name, text in chosen.items() if text})

    def consumed(self) -> dict[TopicPartition, list[Row]]:
        """All rows, as a plain consumer reads them."""
        found: dict[TopicPartition, list[Row]] = {of: [] for of in self.partitions}
        with Consumer(
            bootstrap_servers=self.cluster.bootstrap_servers,
            isolation_level=self.isolation_level,
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.assign(self.partitions)
            while any(consumer.position(of) < self.ends[of] for of in self.partitions):
                for of, batch in consumer.poll(0.05).items():
                    found[of] += [
                        (record.key, record.value, of.topic, of.partition, record.offset, record.timestamp_ms)
                        for record in batch
                    ]
        return found


def rows_of(batches: Iterator[pa.RecordBatch]) -> dict[TopicPartition, list[Row]]:
    """The rows of each partition, in the order in which they came."""
    found: dict[TopicPartition, list[Row]] = {}
    for batch in batches:
        assert batch.schema.equals(SCHEMA)
        batch.validate(full=True)
        columns = batch.to_pydict()
        columns["timestamp"] = [round(each.timestamp() * 1000) for each in columns["timestamp"]]
        for row in zip(*columns.values(), strict=True):
            found.setdefault(TopicPartition(str(row[2]), row[3]), []).append(row)
    return found


def expected_rows(
    consumed: dict[TopicPartition, list[Row]], ranges: list[OffsetRange]
) -> dict[TopicPartition, list[Row]]:
    found: dict[TopicPartition, list[Row]] = {}
    for each in ranges:
        rows = [row for row in consumed[each.topic_partition] if each.start <= int(str(row[4])) < each.end]
        if rows:
            found.setdefault(each.topic_partition, []).extend(rows)
    return found


@pytest.mark.parametrize("seed", rotating(range(40), 5))
def test_rows_of_many_ranges_are_those_of_a_plain_consumer(cluster, seed: int):
    layout = Layout.random(cluster, "plain", seed)
    ranges = layout.ranges()
    expected = expected_rows(layout.consumed(), ranges)
    assert rows_of(read_ranges(ranges, SCHEMA, layout.random_settings())) == expected
    settings = layout.settings()
    one_by_one = (batch for each in ranges for batch in read_ranges([each], SCHEMA, settings))
    assert rows_of(one_by_one) == expected


@pytest.fixture(scope="module")
def cleaning_cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3, properties={"log.cleaner.backoff.ms": "100"}) as embedded:
        yield embedded


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(300, 320))
def test_rows_of_many_ranges_of_compacted_topics_are_those_of_a_plain_consumer(cleaning_cluster, seed: int):
    layout = Layout.random(cleaning_cluster, "compacted", seed, is_compacted=True)

    def count() -> int:
        return sum(map(len, layout.consumed().values()))

    first = count()
    wait_until(lambda: count() < first, 10)  # with some seeds, the cleaner has removed records before
    ranges, found = layout.ranges(), None
    before = layout.consumed()

    def is_read_between_two_cleanings() -> bool:
        nonlocal found, before
        found = rows_of(read_ranges(ranges, SCHEMA, layout.random_settings()))
        last, before = before, layout.consumed()
        return last == before

    assert wait_until(is_read_between_two_cleanings, 60)
    assert found == expected_rows(before, ranges)


def answer_with_errors(layout: Layout) -> None:
    """Some Fetches fail in ways that pass."""
    for _ in range(5):
        layout.cluster.faults.on("Fetch", nth=layout.rng.randint(1, 4)).answer(layout.rng.choice(PASSING))


def close_connections(layout: Layout) -> None:
    """Some Fetches get no answer."""
    for _ in range(3):
        layout.cluster.faults.on("Fetch", nth=layout.rng.randint(1, 4)).close()


@pytest.mark.parametrize("trouble", [answer_with_errors, close_connections])
@pytest.mark.parametrize("seed", rotating(range(100, 120), 4))
def test_rows_of_many_ranges_are_the_same_when_fetches_fail(cluster, seed: int, trouble: Callable[[Layout], None]):
    layout = Layout.random(cluster, trouble.__name__.replace("_", "-"), seed)
    ranges = layout.ranges()
    expected = expected_rows(layout.consumed(), ranges)
    trouble(layout)
    assert rows_of(read_ranges(ranges, SCHEMA, layout.random_settings())) == expected


@pytest.mark.parametrize("seed", rotating(range(200, 220), 4))
def test_rows_of_many_ranges_are_the_same_when_leaders_move(cluster, seed: int):
    """The leaders move while a Fetch of the task waits for its response, and again."""
    layout = Layout.random(cluster, "moved", seed)
    ranges = layout.ranges()
    expected = expected_rows(layout.consumed(), ranges)
    held = [cluster.faults.on("Fetch", nth=nth).hold() for nth in (1, 4)]

    def move() -> None:
        for each in held:
            with contextlib.suppress(KafkaTimeoutError):  # the task may need fewer Fetches
                each.wait_until_consumed(3)
            for topic, partition in layout.partitions:
                others = [node for node in cluster.nodes if node != cluster.leader_of(topic, partition)]
                cluster.move_leader(topic, partition, layout.rng.choice(others))
            each.release()

    thread = threading.Thread(target=move)
    thread.start()
    try:
        found = rows_of(read_ranges(ranges, SCHEMA, layout.settings(max_partition_fetch_bytes="5000")))
    finally:
        thread.join()
    assert found == expected


def test_ranges_of_thousands_of_partitions_need_few_fetches(cluster):
    """Each partition has one record; the rows come in few Arrow batches."""
    partitions = 500
    servers = cluster.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers, linger_ms=20) as producer:
        admin.create_topics([NewTopic("wide", partitions, replication_factor=1)])
        for partition in range(partitions):
            producer.send("wide", b"%d" % partition, partition=partition)
        producer.flush()
    fetches = cluster.faults.on("Fetch", topic="wide", nth=10).delay(0.0)
    ranges = [OffsetRange("wide", partition, 0, 1) for partition in range(partitions)]
    settings = ReadSettings(consumer_settings({"bootstrap_servers": servers}), True, 30_000)
    batches = list(read_ranges(ranges, SCHEMA, settings))
    assert not fetches.consumed
    assert len(batches) == 1
    expected = {TopicPartition("wide", number): [b"%d" % number] for number in range(partitions)}
    assert {of: [row[1] for row in rows] for of, rows in rows_of(iter(batches)).items()} == expected


def test_data_loss_in_one_of_many_ranges_is_an_error_or_a_warning(cluster, caplog):
    """Records of the middle one are deleted, the last one ends before its range."""
    servers = cluster.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic("lossy", 3)])
        for number in range(30):
            producer.send("lossy", b"%d" % number, partition=number % 3)
        producer.flush()
        admin.delete_records({TopicPartition("lossy", 1): 4})
    ranges = [OffsetRange("lossy", 0, 0, 10), OffsetRange("lossy", 1, 2, 10), OffsetRange("lossy", 2, 5, 15)]
    client = consumer_settings({"bootstrap_servers": servers})
    with pytest.raises(DataLossError, match="lossy-1 starts at offset 4 now, 2 is gone"):
        list(read_ranges(ranges, SCHEMA, ReadSettings(client, True, 30_000)))
    found = rows_of(read_ranges(ranges, SCHEMA, ReadSettings(client, False, 30_000)))
    assert {of.partition: [row[4] for row in rows] for of, rows in found.items()} == {
        0: list(range(10)),
        1: list(range(4, 10)),
        2: list(range(5, 10)),
    }
    assert "lossy-1 starts at offset 4 now, 2 is gone" in caplog.text
    assert "lossy-2 ends at offset 10 now, records up to 15 were expected" in caplog.text


@pytest.mark.parametrize("strict", rotating([True, False], 1))
def test_log_that_an_unclean_election_truncates_while_a_task_reads_it_is_a_loss(caplog, monkeypatch, strict):
    """Twenty records are on both nodes; of the next ones, the task reads some before the other node leads."""
    properties = {"unclean.leader.election.enable": "true", "replica.lag.time.max.ms": "500"}
    with EmbeddedCluster(2, properties=properties) as cluster:
        servers = cluster.bootstrap_servers

        def produce(values: Iterable[int], text: bytes) -> None:
            with Producer(bootstrap_servers=servers) as producer:
                for value in values:
                    producer.send("cut", text + b"%d" % value + bytes(200)).result(30)

        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("cut", 1)])
        leader = cluster.leader_of("cut")
        assert leader is not None
        produce(range(20), b"kept ")
        cluster.pause_replication(1 - leader)
        produce(range(20, 60), b"lost ")
        poll, is_cut = RangeConsumer.poll, threading.Event()

        def poll_and_cut(consumer: RangeConsumer, timeout: float | None = None) -> dict[TopicPartition, Batch]:
            found = poll(consumer, timeout)
            if not is_cut.is_set() and any(batch.next_offset > 30 for batch in found.values()):
                is_cut.set()
                cluster.kill_node(leader)
                produce(range(20, 80), b"new ")
            return found

        monkeypatch.setattr(RangeConsumer, "poll", poll_and_cut)
        client = consumer_settings({"bootstrap_servers": servers, "max_partition_fetch_bytes": "300"})
        ranges = [OffsetRange("cut", 0, 0, 60)]
        message = r"the log of cut-0 was truncated before offset \d+, as by an unclean leader election"
        if strict:
            with pytest.raises(DataLossError, match=f"{message}.*Set the option failOnDataLoss to false"):
                list(read_ranges(ranges, SCHEMA, ReadSettings(client, True, 30_000)))
            return
        found = rows_of(read_ranges(ranges, SCHEMA, ReadSettings(client, False, 30_000)))
        rows = found[TopicPartition("cut", 0)]
        assert [row[4] for row in rows] == list(range(60))
        assert re.search(message, caplog.text)
        texts = [bytes(row[1]).split()[0] for row in rows]
        assert [text for text, _ in itertools.groupby(texts)] == [b"kept", b"lost", b"new"]
        assert texts.index(b"lost") == 20


def test_task_whose_leader_is_dead_ends_with_the_poll_timeout():
    with EmbeddedCluster(2) as cluster:
        servers = cluster.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
            admin.create_topics([NewTopic("dead", assignments={0: [0], 1: [1]})])
            for partition in range(2):
                producer.send("dead", b"1", partition=partition)
            producer.flush()
        cluster.kill_node(1)
        ranges = [OffsetRange("dead", partition, 0, 1) for partition in range(2)]
        settings = ReadSettings(consumer_settings({"bootstrap_servers": servers}), True, 1_500)
        began_s = time.monotonic()
        read = read_ranges(ranges, SCHEMA, settings)
        with pytest.raises(KafkaTimeoutError, match=r"dead-1: the position 0 did not advance within 1500 ms"):
            list(read)
        assert time.monotonic() - began_s < 30, "not the default timeout of lookups, which is a minute"


@pytest.mark.parametrize("strict", [True, False])
def test_one_of_many_topics_that_is_deleted_ends_its_ranges_only(cluster, caplog, monkeypatch, strict: bool):
    for module in ("network.metadata", "fetching.reading"):
        monkeypatch.setattr(f"kafkaraw.client.{module}.UNKNOWN_TOPIC_GRACE_S", 0.3)
    servers = cluster.bootstrap_servers
    kept, gone = f"kept-{strict}", f"gone-{strict}"
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic(kept, 2), NewTopic(gone, 2)])
        ids = {name: each.topic_id for name, each in admin.describe_topics([kept, gone]).items()}
        for number in range(40):
            producer.send((kept, gone)[number % 2], b"%d" % number, partition=number // 2 % 2)
        producer.flush()
        admin.delete_topics([gone])
    ranges = [OffsetRange(topic, number, 0, 10, ids[topic]) for topic in (gone, kept) for number in range(2)]
    settings = ReadSettings(consumer_settings({"bootstrap_servers": servers}), strict, 30_000)
    if strict:
        with pytest.raises(DataLossError, match=f"{gone}-0 does not exist any more, {gone}-0 is gone from offset 0 on"):
            list(read_ranges(ranges, SCHEMA, settings))
        return
    found = rows_of(read_ranges(ranges, SCHEMA, settings))
    assert {of: len(rows) for of, rows in found.items()} == {TopicPartition(kept, 0): 10, TopicPartition(kept, 1): 10}
    assert f"{gone}-1 does not exist any more" in caplog.text
