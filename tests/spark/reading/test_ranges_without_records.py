"""Tasks whose range holds stretches without a record, on an embedded broker: each ends, and gives what there is."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from kafkaraw import Admin, Consumer, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.admin import NewTopic
from kafkaraw.ranges.planning import OffsetRange
from kafkaraw.records import TopicPartition, encode_batch
from kafkaraw.records.header import emptied, parse_header, stamp_crc
from kafkaraw.spark.reading.lookup import consumer_settings
from kafkaraw.spark.reading.task import ReadSettings, read_ranges

SCHEMA = pa.schema([("value", pa.binary()), ("offset", pa.int64())])
BATCH_BYTES = 16_000
LAST_OFFSET_DELTA_AT = 23


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as embedded:
        yield embedded


@pytest.fixture(autouse=True)
def no_faults_are_left(broker) -> Iterator[None]:
    yield
    broker.faults.clear()


def make_topic(broker: EmbeddedBroker, name: str, **configs: str) -> TopicPartition:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, 1, configs={key.replace("_", "."): text for key, text in configs.items()})])
    return TopicPartition(name, 0)


def abort_batches(broker: EmbeddedBroker, tp: TopicPartition, count: int, *, then: bytes | None = None) -> int:
    """Write as many batches in transactions that are aborted, then perhaps a committed record; gives the end."""
    with Producer(
        bootstrap_servers=broker.bootstrap_servers, transactional_id=tp.topic, batch_size=BATCH_BYTES, linger_ms=1000
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for _ in range(count):
            producer.send(tp.topic, bytes(BATCH_BYTES - 200))
        producer.flush()
        producer.abort_transaction()
        if then is not None:
            producer.begin_transaction()
            producer.send(tp.topic, then)
            producer.commit_transaction()
    with Consumer(bootstrap_servers=broker.bootstrap_servers, isolation_level="read_committed") as consumer:
        return consumer.end_offsets([tp])[tp]


def read(broker: EmbeddedBroker, tp: TopicPartition, end: int, *, start: int = 0, poll_timeout_ms: int) -> list[bytes]:
    """The values of a range, read with Fetches that bring about one batch each."""
    settings = consumer_settings(
        {
            "bootstrap_servers": broker.bootstrap_servers,
            "isolation_level": "read_committed",
            "max_partition_fetch_bytes": str(BATCH_BYTES),
        }
    )
    batches = read_ranges(
        [OffsetRange(tp.topic, tp.partition, start, end)], SCHEMA, ReadSettings(settings, True, poll_timeout_ms)
    )
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def test_a_task_reads_an_aborted_stretch_that_takes_longer_than_the_poll_timeout(broker):
    tp = make_topic(broker, "aborted")
    end = abort_batches(broker, tp, 60, then=b"last")
    broker.faults.on("Fetch", topic=tp.topic, times=None).delay(0.03)
    assert read(broker, tp, end, poll_timeout_ms=1000) == [b"last"]


def test_a_task_ends_whose_last_records_are_all_aborted(broker):
    tp = make_topic(broker, "aborted-at-the-end")
    end = abort_batches(broker, tp, 10)
    assert read(broker, tp, end, poll_timeout_ms=5000) == []
    assert read(broker, tp, end - 3, start=2, poll_timeout_ms=5000) == []


COMPACTED_END = 40


def compacted_log() -> bytes:
    """A log as compaction leaves it: records at 0 to 2 and 30 to 34, batches that lost all records, and a hole."""
    values = [(0, None, b"%d" % number, None) for number in range(5)]
    sparse = bytearray(encode_batch(values[:3]))
    sparse[LAST_OFFSET_DELTA_AT : LAST_OFFSET_DELTA_AT + 4] = (9).to_bytes(4, "big")
    stamp_crc(sparse)
    header = parse_header(sparse)
    batches = [
        bytes(sparse),
        emptied(header._replace(base_offset=10)),
        encode_batch(values, base_offset=30),
        emptied(header._replace(base_offset=35, last_offset_delta=COMPACTED_END - 36)),
    ]
    return b"".join(batches)


@pytest.fixture(scope="module")
def compacted(tmp_path_factory) -> Iterator[tuple[EmbeddedBroker, TopicPartition]]:
    """A broker that finds a compacted log when it starts."""
    folder = tmp_path_factory.mktemp("compacted")
    with EmbeddedBroker(data_dir=folder) as embedded:
        tp = make_topic(embedded, "compacted", cleanup_policy="compact")
    segments = list(folder.glob(f"**/{tp.topic}-0/*.log"))
    assert len(segments) == 1
    segments[0].write_bytes(compacted_log())
    with EmbeddedBroker(data_dir=folder) as embedded:
        yield embedded, tp


@pytest.mark.parametrize(
    ("start", "end", "values"),
    [
        pytest.param(0, 10, "012", id="the last offsets of a batch are compacted away"),
        pytest.param(5, 10, "", id="nothing of a batch is left from the start on"),
        pytest.param(10, 20, "", id="an empty batch"),
        pytest.param(12, 28, "", id="an end in a hole"),
        pytest.param(20, 30, "", id="a hole"),
        pytest.param(20, COMPACTED_END, "01234", id="the last batch of the log is empty"),
        pytest.param(35, COMPACTED_END, "", id="only the last batch, which is empty"),
    ],
)
def test_a_task_ends_on_a_compacted_log(compacted, start, end, values):
    broker, tp = compacted
    assert b"".join(read(broker, tp, end, start=start, poll_timeout_ms=5000)).decode() == values
