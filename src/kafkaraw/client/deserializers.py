"""Deserializers turn the bytes of keys and values into objects: functions, or objects as in Java and other clients.

When a consumer is created, its deserializers are converted to one function from record to record. A consumer without
deserializers does not run this code, and nor does one that reads Arrow columns. Start at `conversion_of`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias, cast

from kafkaraw.client.serializers import name_of, takes_context
from kafkaraw.errors import DeserializationError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.records import Header, Record


class DeserializationContext(NamedTuple):
    """The source of a value or key to deserialize.

    Attributes:
        topic: the record's topic.
        field: "key" or "value".
        headers: the record's.
    """

    topic: str
    field: Literal["key", "value"]
    headers: list[Header]


class Deserializer(Protocol):
    """An object with a method `deserialize`, as Java's Deserializer."""

    def deserialize(self, topic: str, headers: list[Header], data: bytes, /) -> object:
        """Return the object for the bytes of a key or a value."""


DeserializerLike: TypeAlias = Deserializer | Callable[..., object]
"""A function of bytes; a function of bytes and a `DeserializationContext`; or a `Deserializer`."""

Conversion: TypeAlias = Callable[[Record], Record]


def is_deserializer(given: object) -> bool:
    """Whether it can be used as a deserializer."""
    return callable(given) or callable(getattr(given, "deserialize", None))


def conversion_of(key: DeserializerLike | None, value: DeserializerLike | None) -> Conversion | None:
    """Return the function that converts each record; None without deserializers.

    None stays None (a tombstone); the deserializer is not called.

    Raises:
        DeserializationError: (from the returned function) a deserializer raised.
    """
    of_key = None if key is None else _reading("key", key)
    of_value = None if value is None else _reading("value", value)
    if of_key is None and of_value is None:
        return None

    def convert(record: Record) -> Record:
        made: dict[str, Any] = {}
        if of_key is not None and record.key is not None:
            made["key"] = of_key(record, record.key)
        if of_value is not None and record.value is not None:
            made["value"] = of_value(record, record.value)
        return record._replace(**made)

    return convert


def _reading(field: Literal["key", "value"], given: DeserializerLike) -> Callable[[Record, bytes], object]:
    convert = _converter(given)

    def read(record: Record, data: bytes) -> object:
        try:
            return convert(data, DeserializationContext(record.topic, field, record.headers))
        except Exception as error:
            raise DeserializationError(
                f"{name_of(given)} refuses the {field} of the record at {record.topic}-{record.partition} offset "
                f"{record.offset}: {type(error).__name__}; seek() behind it to continue",
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
            ) from error

    return read


def _converter(given: DeserializerLike) -> Callable[[bytes, DeserializationContext], object]:
    method = getattr(given, "deserialize", None)
    if callable(method):
        return lambda data, context: method(context.topic, context.headers, data)
    function = cast("Callable[..., object]", given)
    if takes_context(function):
        return function
    return lambda data, _: function(data)
