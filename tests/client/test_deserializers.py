"""Deserializers: what they are given, what becomes of it, and records that they refuse."""

from __future__ import annotations

import json

import pytest

from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.deserializers import DeserializationContext, conversion_of
from kafkaraw.errors import ConfigError, DeserializationError
from kafkaraw.records import Record
from tests.client.scripted_cluster import ScriptedCluster
from tests.client.test_consumer import P0, simulate, values

RECORD = Record("t", 3, 7, 0, 0, b"k", b'{"a": 1}', [("h", b"1")])


class Upper:
    def deserialize(self, topic: str, headers: list[tuple[str, bytes | None]], data: bytes) -> object:
        return (topic, headers, data.upper())


def with_context(data: bytes, context: DeserializationContext) -> object:
    return (data, context)


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (json.loads, {"a": 1}),
        (bytes.decode, '{"a": 1}'),
        (Upper(), ("t", [("h", b"1")], b'{"A": 1}')),
        (with_context, (b'{"a": 1}', DeserializationContext("t", "value", [("h", b"1")]))),
    ],
)
def test_functions_and_objects_read_values(given: object, made: object) -> None:
    convert = conversion_of(None, given)  # type: ignore[arg-type]
    assert convert is not None
    assert convert(RECORD) == RECORD._replace(value=made)  # type: ignore[arg-type]


def test_null_is_never_given_to_a_deserializer() -> None:
    convert = conversion_of(json.loads, json.loads)
    assert convert is not None
    empty = RECORD._replace(key=None, value=None)
    assert convert(empty) == empty


def test_without_deserializers_there_is_nothing_to_do() -> None:
    assert conversion_of(None, None) is None


def test_what_cannot_read_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match=r"value_deserializer.*deserialize"):
        AsyncConsumer(bootstrap_servers="localhost:9092", value_deserializer="json")


def test_every_way_of_reading_records_converts_and_columns_stay_bytes() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"1", b"2", None, b"4", b"5", b"6")
        assert (await consumer.__anext__()).value == 1
        assert values(await consumer.poll(5, max_records=2)) == [2, None]
        async for batch in consumer.batches():
            assert [record.value for record in batch] == [4, 5, 6]
            break
        consumer.seek(P0, 4)
        table = await consumer.poll_arrow(timeout=5, columns=["value"])
        assert table.column("value").to_pylist() == [b"5", b"6"]

    simulate(play, value_deserializer=json.loads)


def test_a_record_that_is_refused_is_the_next_one_until_somebody_seeks() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"1", b"nonsense", b"3")
        assert (await consumer.__anext__()).value == 1
        for _ in range(2):
            with pytest.raises(DeserializationError, match="t-0 offset 1: JSONDecodeError") as refused:
                await consumer.__anext__()
            assert (refused.value.topic, refused.value.partition, refused.value.offset) == ("t", 0, 1)
            assert "nonsense" not in str(refused.value)
            assert await consumer.position(P0) == 1
        consumer.seek(P0, 2)
        assert (await consumer.__anext__()).value == 3

    simulate(play, value_deserializer=json.loads)
