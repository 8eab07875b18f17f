"""Values and keys of the user's own types: functions and objects that make bytes, on a path of their own."""

from __future__ import annotations

import json

import pytest

from kafkaraw.client.config import ProducerConfig, parse
from kafkaraw.client.serializers import SerializationContext, serializer_of
from kafkaraw.errors import ConfigError, SerializationError, UsageError
from tests.client.virtual_cluster import BOOTSTRAP, VirtualCluster, on_cluster

CONTEXT = SerializationContext("orders", "value", [])


class Journal:
    """As Java's Serializer: an object with a method."""

    def serialize(self, topic, headers, data):
        headers.append(("type", b"journal"))
        return f"{topic}:{data}".encode()


class Callable:
    """As confluent-kafka's serializers: called with a context that need not be given."""

    def __call__(self, obj, ctx=None):
        return f"{ctx.topic}/{ctx.field}/{obj}".encode()


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (lambda value: b"<%d>" % value, b"<5>"),
        (lambda value, context: f"{context.field} {value}".encode(), b"value 5"),
        (Journal(), b"orders:5"),
        (Callable(), b"orders/value/5"),
        (bytes, b"\0\0\0\0\0"),
        (lambda value: bytearray(b"array"), b"array"),
        (lambda value: None, None),
    ],
)
def test_functions_and_objects_of_several_kinds_make_bytes(given, made):
    assert serializer_of(given)(5, CONTEXT) == made


def test_a_second_parameter_of_another_meaning_is_left_alone():
    assert serializer_of(str.encode)("ä", CONTEXT) == "ä".encode()


def test_a_tombstone_stays_one():
    assert serializer_of(lambda value: b"never")(None, CONTEXT) is None


def test_an_error_names_the_serializer_the_field_and_the_type_but_not_the_value():
    def to_json(value: object) -> bytes:
        return json.dumps(value).encode()

    with pytest.raises(SerializationError) as raised:
        serializer_of(to_json)({"secret", "set"}, CONTEXT)
    assert "to_json refuses the value of a record for topic 'orders', which is of type set" in str(raised.value)
    assert "secret" not in str(raised.value)
    assert isinstance(raised.value.__cause__, TypeError) and isinstance(raised.value, UsageError)


def test_something_else_than_bytes_is_refused():
    with pytest.raises(SerializationError, match="made str of the value"):
        serializer_of(lambda value: "text")(5, CONTEXT)


@pytest.mark.parametrize("name", ["value_serializer", "key_serializer"])
def test_what_cannot_serialize_is_no_setting(name):
    with pytest.raises(ConfigError, match=name):
        parse(ProducerConfig, {"bootstrap_servers": BOOTSTRAP, name: "json"})


def test_a_producer_serializes_keys_and_values_and_headers_that_serializers_add():
    async def test(cluster: VirtualCluster) -> None:
        settings = {"value_serializer": Journal(), "key_serializer": str.encode}
        async with cluster.producer(**settings) as producer:
            await producer.send("t", {"n": 1}, "key", headers=[("mine", b"x")])
            await producer.send("t", None, "gone")
            await producer.partitions_for("t")
            producer.send_nowait("t", 3, "now")
        records = await cluster.read("t", 3)
        assert [(r.key, r.value) for r in records] == [(b"key", b"t:{'n': 1}"), (b"gone", None), (b"now", b"t:3")]
        assert records[0].headers == [("mine", b"x"), ("type", b"journal")] and records[1].headers == []

    on_cluster(test)


def test_a_value_that_cannot_be_serialized_is_an_error_of_send_and_hurts_nothing():
    async def test(cluster: VirtualCluster) -> None:
        async with cluster.producer(value_serializer=str.encode) as producer:
            with pytest.raises(SerializationError):
                await producer.send("t", 5)
            assert (await (await producer.send("t", "five"))).offset == 0

    on_cluster(test)
