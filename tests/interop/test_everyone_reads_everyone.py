"""What one client writes, every other client reads the same: on our broker and on Apache Kafka.

On each broker at least one of the three parties (producer, broker, consumer) is ours; the rest is the yardstick.
"""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.testing.pytest_plugin import KEEP_RECORDS
from tests.cases import Cases
from tests.interop.apache_kafka import ApacheKafka
from tests.interop.clients import FOREIGN, OURS, Client, Received, Sample
from tests.interop.java_client import JavaClient
from tests.interop.java_tools import why_no_java_client

PARTITIONS = 4
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

# Keys of every length up to two rounds of murmur2's loop, and what clients tend to get wrong: null and empty.
SAMPLES = (
    *(Sample(bytes(range(65, 65 + length)), f"key of {length}".encode()) for length in range(1, 12)),
    *(Sample(f"carrier-{number}".encode(), b'{"flight": %d}' % number) for number in range(40)),
    Sample(b"null value", None),
    Sample(b"empty value", b""),
    Sample(b"\x00\xff\x80", bytes(range(256))),
    Sample("schlüssel".encode(), b"wert", timestamp_ms=1),
    Sample(b"one header", b"v", (("source", b"flights"),)),
    Sample(b"headers", b"v", (("a", b"1"), ("a", b"2"), ("empty", b""), ("null", None), ("ключ", b"\x00"))),
    Sample(b"large", b"0123456789" * 20_000),
    Sample(b"large too", bytes(range(256)) * 400),
)
KEYED = tuple(sample for sample in SAMPLES if not sample.headers)
KEYLESS = tuple(Sample(None, f"no key {number}".encode()) for number in range(20))


@pytest.fixture(scope="module")
def our_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties={"num.partitions": str(PARTITIONS), **KEEP_RECORDS}) as broker:
        yield broker


@pytest.fixture(scope="module")
def java() -> JavaClient:
    missing = why_no_java_client()
    if missing is not None:
        pytest.skip(missing)
    return JavaClient()


def new_topic(bootstrap_servers: str) -> str:
    """Create a topic and wait until its leaders know that they are: acks=0 would lose records before."""
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

    topic = f"interop-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 3})
    for done in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        done.result(30)
    partitions = {TopicPartition(topic, index): OffsetSpec.latest() for index in range(PARTITIONS)}
    deadline = time.monotonic() + 30
    while True:
        try:
            assert all(done.result(30).offset == 0 for done in admin.list_offsets(partitions).values())
            return topic
        except KafkaException:  # there are several ways of having no leader yet
            if time.monotonic() > deadline:
                raise


def samples_for(producer: Client) -> tuple[Sample, ...]:
    return tuple(
        sample
        for sample in SAMPLES + KEYLESS
        if producer.null_header_values or all(value is not None for _, value in sample.headers)
    )


def assert_same_records(received: list[Received], sent: Sequence[Sample]) -> None:
    assert sorted(map(repr, (each.sample for each in received))) == sorted(map(repr, sent))
    for partition in range(PARTITIONS):
        offsets = [each.offset for each in received if each.partition == partition]
        assert offsets == list(range(len(offsets))), f"partition {partition} has gaps or is out of order"


def partition_by_key(received: list[Received]) -> dict[bytes | None, int]:
    return {each.sample.key: each.partition for each in received if each.sample.key is not None}


def by_name(client: Client) -> str:
    return client.name


def in_every_codec(producer: Client, bootstrap: str, topic: str, *, idempotent: bool) -> list[Sample]:
    """Write the samples once per codec to the same partitions; their timestamps tell the codecs apart."""
    return written(producer, bootstrap, topic, [(codec, "all", idempotent) for codec in CODECS])


def with_every_acks(producer: Client, bootstrap: str, topic: str, *acks: str) -> list[Sample]:
    """The same, uncompressed, once for each kind of acknowledgement."""
    return written(producer, bootstrap, topic, [("none", each, False) for each in acks])


def written(producer: Client, bootstrap: str, topic: str, kinds: list[tuple[str, str, bool]]) -> list[Sample]:
    sent: list[Sample] = []
    for number, (codec, acks, idempotent) in enumerate(kinds):
        samples = [
            dataclasses.replace(sample, timestamp_ms=sample.timestamp_ms + number) for sample in samples_for(producer)
        ]
        producer.produce(bootstrap, topic, samples, codec=codec, acks=acks, idempotent=idempotent)
        sent += samples
    return sent


def assert_all_read(consumers: tuple[Client, ...], bootstrap: str, topic: str, sent: list[Sample]) -> None:
    """Every consumer reads what was sent; they read at the same time."""
    with ThreadPoolExecutor(len(consumers)) as pool:
        reading = {
            consumer.name: pool.submit(consumer.consume, bootstrap, topic, PARTITIONS, len(sent))
            for consumer in consumers
        }
    with Cases() as case:
        for name, received in reading.items():
            with case(name):
                assert_same_records(received.result(), sent)


@pytest.mark.parametrize("producer", [*FOREIGN, *OURS], ids=by_name)
def test_on_our_broker_every_client_reads_what_any_client_wrote(producer: Client, our_broker: EmbeddedBroker) -> None:
    topic = new_topic(our_broker.bootstrap_servers)
    sent = in_every_codec(producer, our_broker.bootstrap_servers, topic, idempotent=True)
    assert_all_read((*FOREIGN, *OURS), our_broker.bootstrap_servers, topic, sent)


@pytest.mark.parametrize("producer", OURS, ids=by_name)
def test_on_apache_kafka_every_client_reads_what_we_wrote(producer: Client, apache_kafka: ApacheKafka) -> None:
    topic = new_topic(apache_kafka.bootstrap_servers)
    sent = in_every_codec(producer, apache_kafka.bootstrap_servers, topic, idempotent=True)
    assert_all_read((*FOREIGN, *OURS), apache_kafka.bootstrap_servers, topic, sent)


@pytest.mark.parametrize("producer", FOREIGN, ids=by_name)
def test_on_apache_kafka_we_read_what_any_client_wrote(producer: Client, apache_kafka: ApacheKafka) -> None:
    topic = new_topic(apache_kafka.bootstrap_servers)
    sent = in_every_codec(producer, apache_kafka.bootstrap_servers, topic, idempotent=False)
    assert_all_read(OURS, apache_kafka.bootstrap_servers, topic, sent)


@pytest.mark.parametrize("producer", [*FOREIGN, *OURS], ids=by_name)
def test_our_broker_takes_every_kind_of_acknowledgement(producer: Client, our_broker: EmbeddedBroker) -> None:
    topic = new_topic(our_broker.bootstrap_servers)
    sent = with_every_acks(producer, our_broker.bootstrap_servers, topic, "0", "1", "all")
    assert_all_read(OURS[:1], our_broker.bootstrap_servers, topic, sent)


@pytest.mark.parametrize("producer", OURS, ids=by_name)
def test_apache_kafka_takes_every_kind_of_our_acknowledgement(producer: Client, apache_kafka: ApacheKafka) -> None:
    topic = new_topic(apache_kafka.bootstrap_servers)
    sent = with_every_acks(producer, apache_kafka.bootstrap_servers, topic, "0", "1")
    assert_all_read(FOREIGN[:1], apache_kafka.bootstrap_servers, topic, sent)


def test_a_key_lands_on_the_same_partition_whoever_sends_it(our_broker: EmbeddedBroker) -> None:
    bootstrap = our_broker.bootstrap_servers
    places = {}
    for producer in (*FOREIGN, *OURS):
        topic = new_topic(bootstrap)
        producer.produce(bootstrap, topic, KEYED, codec="none", acks="all", idempotent=False)
        places[producer.name] = partition_by_key(FOREIGN[0].consume(bootstrap, topic, PARTITIONS, len(KEYED)))
    yardstick = places.pop(FOREIGN[0].name)
    assert len(set(yardstick.values())) == PARTITIONS
    for name, found in places.items():
        assert found == yardstick, name


def test_on_our_broker_java_reads_what_we_wrote_and_we_what_java_wrote(
    java: JavaClient, our_broker: EmbeddedBroker
) -> None:
    bootstrap = our_broker.bootstrap_servers
    by_us, by_java = new_topic(bootstrap), new_topic(bootstrap)
    sent = in_every_codec(OURS[0], bootstrap, by_us, idempotent=True)
    assert in_every_codec(java, bootstrap, by_java, idempotent=True) == sent
    read_by_java = java.consume(bootstrap, by_us, PARTITIONS, len(sent))
    read_by_us = OURS[0].consume(bootstrap, by_java, PARTITIONS, len(sent))
    assert_same_records(read_by_java, sent)
    assert_same_records(read_by_us, sent)
    assert partition_by_key(read_by_us) == partition_by_key(read_by_java)
