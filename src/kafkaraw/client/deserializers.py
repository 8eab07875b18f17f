"""Deserializers turn the bytes of keys and values into objects: functions, or objects as in Java and other clients.

When a consumer is created, its deserializers are converted to one function from record to record. A consumer without
deserializers does not run this code, and nor does one that reads Arrow columns. Start at `conversion_of`;
`awaiting_conversion_of` is for deserializers that return awaitables (see `serializers`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import CoroutineType
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

from kafkaraw.client.serializers import discard, is_awaitable, name_of, takes_context
from kafkaraw.errors import AuthenticationError, DeserializationError, KafkaError, RetriableError
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
AwaitingConversion: TypeAlias = Callable[[Record], Record | Awaitable[Record]]


def is_deserializer(given: object) -> bool:
    """Whether it can be used as a deserializer."""
    return callable(given) or callable(getattr(given, "deserialize", None))


SEEK: Final = "seek() behind it to continue"
"""What the error of a refused record tells the application of a consumer to do."""


def conversion_of(
    key: DeserializerLike | None, value: DeserializerLike | None, *, remedy: str = SEEK
) -> Conversion | None:
    """Return the function that converts each record; None without deserializers.

    None stays None (a tombstone); the deserializer is not called.

    Args:
        key: makes keys of bytes.
        value: makes values of bytes.
        remedy: how the error of a refused record ends.

    Raises:
        DeserializationError: (from the returned function) a deserializer raised.
        RetriableError: (from the returned function) a deserializer raised it: it could not ask a server.
    """
    of_key = None if key is None else _reading("key", key, remedy)
    of_value = None if value is None else _reading("value", value, remedy)
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


def _reading(field: Literal["key", "value"], given: DeserializerLike, remedy: str) -> Callable[[Record, bytes], object]:
    convert = _converter(given)

    def read(record: Record, data: bytes) -> object:
        try:
            made = convert(data, DeserializationContext(record.topic, field, record.headers))
        except Exception as error:
            raise _refused(given, field, record, error, remedy) from error
        if type(made) is CoroutineType:
            discard(made)
            cause = TypeError("it returned an awaitable; declare it with `async def`, or give it waits_by = 'await'")
            raise _refused(given, field, record, cause, remedy) from cause
        return made

    return read


def awaiting_conversion_of(
    key: DeserializerLike | None, value: DeserializerLike | None, *, remedy: str = SEEK
) -> AwaitingConversion:
    """As `conversion_of`, for a caller that can wait: the function may return an awaitable of the record."""
    of_key = None if key is None else _beginning("key", key, remedy)
    of_value = None if value is None else _beginning("value", value, remedy)

    def convert(record: Record) -> Record | Awaitable[Record]:
        if of_key is not None and record.key is not None:
            made = of_key(record, record.key)
            if is_awaitable(made):
                return settle_key(record, made)
            record = record._replace(key=cast("bytes", made))  # what the deserializer makes of them
        return convert_value(record)

    def convert_value(record: Record) -> Record | Awaitable[Record]:
        if of_value is None or record.value is None:
            return record
        made = of_value(record, record.value)
        return settle_value(record, made) if is_awaitable(made) else record._replace(value=cast("bytes", made))

    async def settle_key(record: Record, made: Any) -> Record:  # noqa: ANN401 - an awaitable
        converted = convert_value(record._replace(key=await made))
        return await converted if isinstance(converted, Awaitable) else converted

    async def settle_value(record: Record, made: Any) -> Record:  # noqa: ANN401 - an awaitable
        return record._replace(value=await made)

    return convert


def _beginning(
    field: Literal["key", "value"], given: DeserializerLike, remedy: str
) -> Callable[[Record, bytes], object]:
    convert = _converter(given)

    def begin(record: Record, data: bytes) -> object:
        try:
            made = convert(data, DeserializationContext(record.topic, field, record.headers))
        except Exception as error:
            raise _refused(given, field, record, error, remedy) from error
        return settle(record, made) if is_awaitable(made) else made

    async def settle(record: Record, made: Any) -> object:  # noqa: ANN401 - an awaitable
        try:
            return await made
        except Exception as error:
            raise _refused(given, field, record, error, remedy) from error

    return begin


def _refused(given: object, field: str, record: Record, error: Exception, remedy: str) -> KafkaError:
    """Return the error of a record that cannot be converted; if a server could not be asked, that error itself."""
    if isinstance(error, RetriableError | AuthenticationError) and isinstance(error, KafkaError):
        return error
    why = str(error) if isinstance(error, KafkaError) else type(error).__name__
    return DeserializationError(
        f"{name_of(given)} refuses the {field} of the record at {record.topic}-{record.partition} offset "
        f"{record.offset}: {why}; {remedy}",
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
    )


def _converter(given: DeserializerLike) -> Callable[[bytes, DeserializationContext], object]:
    method = getattr(given, "deserialize", None)
    if callable(method):
        return lambda data, context: method(context.topic, context.headers, data)
    function = cast("Callable[..., object]", given)
    if takes_context(function):
        return function
    return lambda data, _: function(data)
