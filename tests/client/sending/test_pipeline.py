"""Interceptors: they see records before they are sent, may change them, hear of the outcome, and can break nothing."""

from __future__ import annotations

import pytest

from kafkaraw import Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.config import ProducerConfig, parse
from kafkaraw.client.interceptors import ProducerRecord
from kafkaraw.errors import BrokerError, ConfigError, DeliveryError, SerializationError
from kafkaraw.records import RecordMetadata
from tests.client.virtual_cluster import BOOTSTRAP, VirtualCluster, on_cluster


class Witness:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.sent: list[ProducerRecord] = []
        self.settled: list[tuple[RecordMetadata, BaseException | None]] = []
        self.closed = 0

    def on_send(self, record):
        self.sent.append(record)
        return record

    def on_acknowledgement(self, metadata, error):
        self.settled.append((metadata, error))

    def close(self):
        self.closed += 1


class Stamping:
    """Changes records."""

    def on_send(self, record):
        return record._replace(value=record.value + "!", headers=[*(record.headers or ()), ("stamp", b"1")])


class Failing:
    """Breaks wherever it can."""

    def on_send(self, record):
        raise ValueError("on_send")

    def on_acknowledgement(self, metadata, error):
        raise ValueError("on_acknowledgement")

    def close(self):
        raise ValueError("close")


def test_interceptors_change_records_in_turn_before_they_are_serialized():
    async def test(cluster: VirtualCluster) -> None:
        witness = Witness()
        settings = {"interceptors": [Stamping(), Stamping(), witness], "value_serializer": str.encode}
        async with cluster.producer(**settings) as producer:
            await (await producer.send("t", "hello", timestamp_ms=5))
        (record,) = await cluster.read("t", 1)
        assert record.value == b"hello!!" and record.headers == [("stamp", b"1")] * 2
        assert witness.sent == [ProducerRecord("t", "hello!!", None, [("stamp", b"1")] * 2, None, 5)]
        assert witness.settled == [(RecordMetadata("t", 0, 0, 5), None)] and witness.closed == 1

    on_cluster(test)


def test_a_failing_interceptor_is_logged_and_hurts_neither_record_nor_the_next_one(caplog):
    async def test(cluster: VirtualCluster) -> None:
        witness = Witness()
        async with cluster.producer(interceptors=[Failing(), witness]) as producer:
            assert (await (await producer.send("t", b"v"))).offset == 0
        assert [error for _, error in witness.settled] == [None] and witness.closed == 1

    on_cluster(test)
    logged = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert [name for name in ("on_send", "on_acknowledgement", "close") if any(name in text for text in logged)] == [
        "on_send",
        "on_acknowledgement",
        "close",
    ]


def test_interceptors_hear_of_failures_and_flush_still_reports_them():
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t", max_message_bytes="200")
        witness = Witness()
        async with cluster.producer(interceptors=[witness]) as producer:
            await producer.send("t", b"x" * 300, timestamp_ms=7)
            with pytest.raises(DeliveryError, match="MESSAGE_TOO_LARGE"):
                await producer.flush()
        ((metadata, error),) = witness.settled
        assert metadata == RecordMetadata("t", 0, -1, 7) and isinstance(error, BrokerError)

    on_cluster(test)


def test_interceptors_hear_of_records_that_send_refuses():
    async def test(cluster: VirtualCluster) -> None:
        witness = Witness()
        async with cluster.producer(interceptors=[witness], value_serializer=str.encode) as producer:
            with pytest.raises(SerializationError) as raised:
                await producer.send("t", 5, partition=3)
        assert witness.settled == [(RecordMetadata("t", 3, -1, -1), raised.value)]

    on_cluster(test)


def test_every_record_of_a_batch_split_gets_one_acknowledgement():
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t", max_message_bytes="300")
        witness = Witness()
        async with cluster.producer(interceptors=[witness], linger_ms=20) as producer:
            for number in range(100):
                await producer.send("t", b"%03d" % number)
        assert sorted(metadata.offset for metadata, _ in witness.settled) == list(range(100))

    on_cluster(test)


def test_what_intercepts_nothing_is_no_setting():
    with pytest.raises(ConfigError, match="on_send"):
        parse(ProducerConfig, {"bootstrap_servers": BOOTSTRAP, "interceptors": [object()]})


def test_the_blocking_face_has_the_same_pipeline():
    witness = Witness()
    settings = {"value_serializer": str.encode, "interceptors": [Stamping(), witness]}
    with EmbeddedBroker() as broker, Producer(bootstrap_servers=broker.bootstrap_servers, **settings) as producer:
        producer.send("t", "one").result(10)
        producer.send_nowait("t", "two").result(10)
        with pytest.raises(SerializationError):
            producer.send("t", 5)  # the interceptor that adds to texts fails, and is passed over
    assert [record.value for record in witness.sent] == ["one!", "two!", 5]
    assert [metadata.offset for metadata, _ in witness.settled] == [0, 1, -1] and witness.closed == 1
