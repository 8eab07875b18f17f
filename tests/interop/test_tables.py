"""Tables that we send are read by others, from our broker and from Apache Kafka."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator

import pytest

from kafkaraw import Admin, NewTopic, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.records import partition_for_key
from tests.interop.clients import Confluent

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

PARTITIONS = 3


@pytest.fixture(params=["ours", "apache"])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "ours":
        with EmbeddedBroker() as broker:
            yield broker.bootstrap_servers
    else:
        yield request.getfixturevalue("apache_kafka").bootstrap_servers


@pytest.mark.timeout(120)
@pytest.mark.parametrize("transactional_id", [None, "tables"])
def test_confluent_reads_our_tables(bootstrap: str, transactional_id: str | None) -> None:
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    rng = random.Random(9)
    topic = f"tables-{uuid.uuid4().hex[:12]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS)])
    count = 20_000
    keys = [rng.choice([None, b"", b"%d" % rng.randrange(1000)]) for _ in range(count)]
    values = [None if rng.random() < 0.1 else rng.randbytes(rng.randrange(120)) for _ in range(count)]
    headers = [[("name", b"%d" % row), ("null", None)] if row % 7 == 0 else [] for row in range(count)]
    times = [1_700_000_000_000 + rng.randrange(10**9) for _ in range(count)]
    table = pa.table(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.large_binary()),
            "headers": pa.array(headers, pa.map_(pa.string(), pa.binary())),
            "timestamp": pa.array(times, pa.timestamp("ms", "UTC")),
        }
    )
    settings = {"compression_type": "zstd", "transactional_id": transactional_id and f"{transactional_id}-{topic}"}
    with Producer(bootstrap_servers=bootstrap, **settings) as producer:
        if transactional_id is None:
            where = producer.send_arrow(topic, table).result(60)
        else:
            producer.init_transactions()
            with producer.transaction():
                ticket = producer.send_arrow(topic, table)
            where = ticket.result(0)
    assert sum(part.rows_count for part in where) == count
    received = Confluent().consume(bootstrap, topic, PARTITIONS, count)
    samples = [one.sample for one in received]
    rows = list(zip(keys, values, headers, times, strict=True))
    found = [(s.key, s.value, list(s.headers), s.timestamp_ms) for s in samples]
    assert sorted(found, key=repr) == sorted(rows, key=repr)
    for one in received:
        if one.sample.key is not None:
            assert one.partition == partition_for_key(one.sample.key, PARTITIONS)
    by_key: dict[bytes, list[tuple[bytes | None, int]]] = {}
    for key, value, _, time in rows:
        if key is not None:
            by_key.setdefault(key, []).append((value, time))
    found_by_key: dict[bytes, list[tuple[bytes | None, int]]] = {}
    for one in sorted(received, key=lambda one: (one.partition, one.offset)):
        if one.sample.key is not None:
            found_by_key.setdefault(one.sample.key, []).append((one.sample.value, one.sample.timestamp_ms))
    assert found_by_key == by_key
    at = {(one.partition, one.offset): one.sample for one in received}
    for part in where:
        first = at[part.partition, part.offset]
        assert (first.key, first.value, first.timestamp_ms) == (*rows[part.first_row][:2], times[part.first_row])
