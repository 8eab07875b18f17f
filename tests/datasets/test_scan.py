"""Scans end with what they opened, whoever ends them, and say what is wrong when records or brokers are gone."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import re
import threading
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pa_dataset
import pytest

from kafkaraw import (
    AclBinding,
    AclOperation,
    Admin,
    KafkaError,
    KafkaTimeoutError,
    NewTopic,
    Producer,
    RecordsGoneError,
    ResourcePattern,
    ResourceType,
    SqlSession,
    TopicAuthorizationError,
    TopicPartition,
    UsageError,
    dataset,
)
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.broker.acl.settings import STANDARD_AUTHORIZER
from kafkaraw.datasets.dataset import KafkaDataset
from kafkaraw.datasets.origins import _since
from kafkaraw.datasets.scan import _NOTHING, _Ready, scanned
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.ranges.consumer import FirstSince
from kafkaraw.ranges.planning import OffsetRange
from tests.waiting import wait_until

ROWS = 300_000
VALUE_BYTES = 100


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
        names = ("large", "deleted", "truncated")
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(name, 2) for name in names])
        for name in names:
            fill(servers, name)
        yield broker


def fill(servers: str, topic: str) -> None:
    """Write values of 100 bytes to two partitions."""
    with Producer(bootstrap_servers=servers, compression_type="lz4") as producer:
        for partition in range(2):
            values = pa.array([b"%0100d" % number for number in range(ROWS // 2)], pa.binary())
            partitions = pa.array([partition] * len(values), pa.int32())
            producer.send_arrow(topic, pa.record_batch({"value": values, "partition": partitions}))
        producer.flush()


@pytest.fixture
def large(broker: EmbeddedBroker) -> KafkaDataset:
    return dataset("large", bootstrap_servers=broker.bootstrap_servers, threads=2)


def scan_threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("kafkaraw-scan")]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors in /proc")
def test_a_scan_that_ends_early_leaves_no_thread_and_no_connection(large: KafkaDataset):
    assert large.count_rows() == ROWS
    before = descriptors()
    for _ in range(3):
        batches = large.to_batches(["value"])
        next(batches)
        assert scan_threads()
        batches.close()  # type: ignore[attr-defined]
        assert wait_until(lambda: scan_threads() == [], 10)
        assert large.head(3).num_rows == 3
        with duckdb.connect() as connection:
            connection.register("large", large)
            assert connection.sql("SELECT value FROM large LIMIT 1").fetchall()
            with pytest.raises(duckdb.Error, match="stop here"):
                connection.sql("SELECT error('stop here') FROM large WHERE \"offset\" > 5").fetchall()
        scanner = large.scanner(["value"])  # never read
        del scanner
    assert wait_until(lambda: scan_threads() == [], 10)
    assert wait_until(lambda: descriptors() <= before, 10), (descriptors(), before)


def test_a_scan_reads_a_bounded_number_of_bytes_ahead_of_its_reader():
    ready, batch = _Ready(), pa.record_batch({"value": pa.array([b"1" * (1 << 20)] * 3)})
    while ready.put(batch, 0):
        pass
    assert (8 << 20) - batch.nbytes < sum(each.nbytes for each in taken(ready)) <= 8 << 20
    assert ready.put(pa.record_batch({"value": pa.array([b"1" * (9 << 20)])}), 0)
    assert not ready.put(batch, 0)
    assert ready.put(None, 0), "the end needs no room"


def taken(ready: _Ready) -> Iterator[pa.RecordBatch]:
    while (found := ready.take(0)) is not _NOTHING:
        yield found


@pytest.mark.parametrize("columns", [None, [], ["value"], ["offset", "partition"], {"n": pc.field("offset") + 1}])
@pytest.mark.parametrize("filter", [None, pc.bit_wise_and(pc.field("offset"), 7) == 3, pc.field("key").is_valid()])
def test_a_scanner_returns_what_that_of_pyarrow_does(
    large: KafkaDataset, columns: list[str] | dict[str, pc.Expression] | None, filter: pc.Expression | None
):
    data = large.tail(30_000)
    theirs = pa_dataset.dataset(data.to_table()).scanner(columns=columns, filter=filter)
    ours = data.scanner(columns, filter)
    assert ours.projected_schema == theirs.projected_schema
    assert ours.count_rows() == theirs.count_rows()
    assert rows_of(ours.to_table()) == rows_of(theirs.to_table())
    assert ours.to_reader().read_all().num_rows == theirs.count_rows()
    assert ours.head(5).num_rows == min(5, theirs.count_rows())
    assert pa.table(ours).num_rows == theirs.count_rows()


def rows_of(table: pa.Table) -> list[dict[str, object]]:
    return sorted(table.to_pylist(), key=str)


def test_two_scans_at_once_read_everything(large: KafkaDataset):
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(large.to_table(["offset"]).num_rows)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [ROWS] * 3


def count_in_a_child(data: KafkaDataset, found: multiprocessing.Queue[int]) -> None:
    found.put(data.count_rows())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_read_parts(large: KafkaDataset, method: str):
    context = multiprocessing.get_context(method)
    found = context.Queue()
    filtered = large.filter(pc.field("offset") < 1_000)
    assert pickle.loads(pickle.dumps(filtered)).count_rows() == 2_000
    children = [context.Process(target=count_in_a_child, args=(part, found)) for part in filtered.split(2)]
    for child in children:
        child.start()
    assert sum(found.get(timeout=60) for _ in children) == 2_000
    for child in children:
        child.join(30)
        assert child.exitcode == 0


def test_parts_have_all_records_together(large: KafkaDataset):
    for count in (1, 2, 3, 7):
        parts = large.split(count)
        assert len(parts) <= count
        assert sum(part.offsets_count for part in parts) == ROWS
        assert max(part.offsets_count for part in parts) <= ROWS // count + ROWS // 8
    assert sum(part.count_rows() for part in large.tail(100).split(3)) == 200
    assert large.tail(0).split(4)[0].count_rows() == 0
    with pytest.raises(UsageError, match="split: 0"):
        large.split(0)


def test_a_topic_that_is_deleted_during_a_scan_is_an_error(broker: EmbeddedBroker):
    data = dataset("deleted", bootstrap_servers=broker.bootstrap_servers, threads=1)
    batches = scanned(data.scan(["value"]))
    next(batches)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_topics(["deleted"])
    with pytest.raises(RecordsGoneError, match=r"deleted-\d does not exist any more.*is gone from offset \d+ on"):
        list(batches)
    assert wait_until(lambda: scan_threads() == [], 10)


def test_records_that_are_deleted_during_a_scan_are_an_error(broker: EmbeddedBroker):
    data = dataset("truncated", bootstrap_servers=broker.bootstrap_servers, threads=1)
    batches = scanned(data.scan(["value"]))  # Arrow's scanner would read much of it ahead
    next(batches)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition("truncated", partition): ROWS // 2 - 10 for partition in range(2)})
    with pytest.raises(RecordsGoneError, match=r"truncated-\d starts at offset 149990 now, \d+ is gone"):
        list(batches)


def test_a_filter_on_time_does_not_hide_that_records_were_deleted(broker: EmbeddedBroker):
    servers = broker.bootstrap_servers
    place = TopicPartition("old", 0)
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic("old", 1, configs={"retention.ms": "-1"})])
        for number in range(10):
            producer.send("old", b"x", timestamp_ms=1_000 * number)
        producer.flush()
        data = dataset("old", bootstrap_servers=servers)
        admin.delete_records({place: 4})
    with pytest.raises(RecordsGoneError, match="old-0 starts at offset 4 now"):
        data.count_rows(since(2))
    assert data.count_rows(since(6)) == 4


def since(seconds: int) -> pc.Expression:
    return pc.field("timestamp") >= pa.scalar(1_000_000 * seconds, pa.int64()).cast(pa.timestamp("us", tz="UTC"))


def test_a_filter_on_time_does_not_hide_that_a_topic_was_created_again(broker: EmbeddedBroker):
    servers = broker.bootstrap_servers
    forever = NewTopic("again", 1, configs={"retention.ms": "-1"})
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([forever])
        for number in range(10):
            producer.send("again", b"x", timestamp_ms=1_000 * number)
        producer.flush()
        data = dataset("again", bootstrap_servers=servers)
        assert data.count_rows(since(5)) == 5
        admin.delete_topics(["again"])
        with pytest.raises(KafkaError, match="again"):
            data.count_rows(since(5))
        admin.create_topics([forever])
        for _ in range(12):
            producer.send("again", b"y", timestamp_ms=1_000)
    for seconds in (0, 5):
        with pytest.raises(RecordsGoneError, match="topic again was deleted and created again"):
            data.count_rows(since(seconds))
    assert data.refresh().count_rows(since(1)) == 12


@pytest.mark.parametrize("first", [None, 40])
def test_a_filter_on_time_does_not_hide_that_a_log_was_truncated(first: int | None):
    of = TopicPartition("cut", 0)
    found = FirstSince(first, 0, 50, ZERO_UUID)

    class Truncated:
        def first_since(self, ends: dict[TopicPartition, int], time_ms: int) -> dict[TopicPartition, FirstSince]:
            return {of: found}

    with pytest.raises(RecordsGoneError, match="cut-0 ends at offset 50 now, records up to 100 were expected"):
        _since(Truncated(), [OffsetRange(*of, 0, 100)], 1)  # type: ignore[arg-type]
    kept = _since(Truncated(), [OffsetRange(*of, 0, 50)], 1)  # type: ignore[arg-type]
    assert kept == ([] if first is None else [OffsetRange(*of, 40, 50)])


def test_a_cluster_that_is_away_is_an_error_in_time(broker: EmbeddedBroker):
    with EmbeddedBroker() as away:
        with Admin(bootstrap_servers=away.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("orders", 1)])
        with Producer(bootstrap_servers=away.bootstrap_servers) as producer:
            producer.send("orders", b"1")
        servers = away.bootstrap_servers
        data = dataset("orders", bootstrap_servers=servers, poll_timeout_ms=2_000, bootstrap_timeout_ms=2_000)
    with pytest.raises(KafkaTimeoutError, match=r"orders-0: the position 0 did not advance.*is its leader up"):
        data.count_rows()
    with pytest.raises(KafkaError, match=re.escape(servers)):
        data.refresh()
    with pytest.raises(KafkaError, match=re.escape("127.0.0.1:1")):
        dataset("orders", bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=1_000)


def test_missing_rights_name_the_topic_and_the_operation():
    properties = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:root"}
    with EmbeddedBroker(properties=properties, users={"root": "r00t", "ada": "l0velace"}) as broker:
        login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"}
        root = {**login, "sasl_username": "root", "sasl_password": "r00t"}
        ada = {**login, "sasl_username": "ada", "sasl_password": "l0velace"}
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers, **root) as admin:
            admin.create_topics([NewTopic("flights", 1)])
            with Producer(bootstrap_servers=servers, **root) as producer:
                producer.send("flights", b"1")
            with pytest.raises(TopicAuthorizationError, match="flights"):
                dataset("flights", bootstrap_servers=servers, **ada)
            pattern = ResourcePattern(ResourceType.TOPIC, "flights")
            admin.create_acls([AclBinding(pattern, "User:ada", AclOperation.DESCRIBE)])
            data = dataset("flights", bootstrap_servers=servers, **ada)
            assert data.offsets == {TopicPartition("flights", 0): (0, 1)}
            with pytest.raises(TopicAuthorizationError, match="flights") as raised:
                data.count_rows()
            with SqlSession(bootstrap_servers=servers, value="bytes", key="bytes", **ada) as session:
                with pytest.raises(TopicAuthorizationError, match="flights"):
                    session.query("SELECT count(*) FROM flights").read_all()
                with pytest.raises(KafkaError, match=r"flights-0.*an ACL forbids this.*asked as User:ada"):
                    session.query("COPY (SELECT 'a' AS value) TO TOPIC 'flights'")
            assert "l0velace" not in str(raised.value) + repr(data.source) + repr(data)
