"""Serializers turn values and keys into bytes: functions, or objects as in Java and other clients.

When a producer is created, each serializer is converted to one function of value and context. A producer without
serializers does not run this code. Start at `serializer_of`.

A serializer or a deserializer that needs answers of a server has an attribute `waits_by`. "await": a call may return an
awaitable, which only asyncio clients can wait for; coroutine functions are of this kind. "block": a call may block its
thread, which would stop an event loop. Each client refuses the other kind when it is created (`check_waiting`).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

from kafkaraw.errors import AuthenticationError, ConfigError, KafkaError, RetriableError, SerializationError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.records import Header


class SerializationContext(NamedTuple):
    """The destination of a value or key to serialize.

    Attributes:
        topic: the record's topic.
        field: "key" or "value".
        headers: the record's; a serializer may append to them.
    """

    topic: str
    field: Literal["key", "value"]
    headers: list[Header]


class Serializer(Protocol):
    """An object with a method `serialize`, as Java's Serializer."""

    def serialize(self, topic: str, headers: list[Header], data: object, /) -> bytes | None:
        """Return the bytes of a key or a value; may append to `headers`."""


SerializerLike: TypeAlias = Serializer | Callable[..., bytes | Awaitable[bytes | None] | None]
"""A function of the value; a function of the value and a `SerializationContext`; or a `Serializer`.

Asyncio clients also take coroutine functions.
"""

Serialize: TypeAlias = Callable[[object, SerializationContext], bytes | None]
BeginSerialize: TypeAlias = Callable[[object, SerializationContext], bytes | Awaitable[bytes | None] | None]

_CONTEXT_NAMES: Final = ("context", "ctx")
"""A second parameter that need not be given gets the context only if it is named so: `str.encode` has one, too."""


def is_serializer(given: object) -> bool:
    """Whether it can be used as a serializer."""
    return callable(given) or callable(getattr(given, "serialize", None))


def serializer_of(given: SerializerLike) -> Serialize:
    """Convert a serializer of any kind to one kind of function.

    None stays None (a tombstone); the serializer is not called.

    Raises:
        SerializationError: (from the returned function) the serializer raised, or did not return bytes.
        RetriableError: (from the returned function) the serializer raised it: it could not ask a server.
    """
    begin = _beginning(given)

    def serialize(content: object, context: SerializationContext) -> bytes | None:
        if content is None:
            return None
        made = begin(content, context)
        if type(made) is bytes:
            return made
        if not is_awaitable(made):
            return _checked(given, context, made)
        discard(made)
        raise SerializationError(
            f"{name_of(given)} returned an awaitable for the {context.field} of a record for topic {context.topic!r}; "
            f"only `await AsyncProducer.send(...)` waits for it. If it asks a schema registry, call "
            f"`await serializer.prepare({context.topic!r})` before"
        )

    return serialize


def awaiting_serializer_of(given: SerializerLike) -> BeginSerialize:
    """As `serializer_of`, for a caller that can wait: the function may return an awaitable of the bytes."""
    begin = _beginning(given)

    def serialize(content: object, context: SerializationContext) -> bytes | Awaitable[bytes | None] | None:
        if content is None:
            return None
        made = begin(content, context)
        if type(made) is bytes:
            return made
        if is_awaitable(made):
            return settled(content, context, cast("Awaitable[object]", made))
        return _checked(given, context, made)

    async def settled(content: object, context: SerializationContext, made: Awaitable[object]) -> bytes | None:
        try:
            outcome = await made
        except Exception as error:
            raise _refused(given, content, context, error) from error
        return _checked(given, context, outcome)

    return serialize


def _beginning(given: SerializerLike) -> Callable[[object, SerializationContext], object]:
    """Return the function that calls a serializer; what it returns is not checked yet."""
    convert = _converter(given)

    def begin(content: object, context: SerializationContext) -> object:
        try:
            return convert(content, context)
        except Exception as error:
            raise _refused(given, content, context, error) from error

    return begin


def _refused(given: object, content: object, context: SerializationContext, error: Exception) -> KafkaError:
    """Return the error of a record that a serializer refuses; if it could not ask a server, that error itself."""
    if isinstance(error, RetriableError | AuthenticationError) and isinstance(error, KafkaError):
        return error
    why = str(error) if isinstance(error, KafkaError) else type(error).__name__
    return SerializationError(
        f"{name_of(given)} refuses the {context.field} of a record for topic {context.topic!r}, "
        f"which is of type {type(content).__name__}: {why}; "
        f"change the serializer or what is sent (its own error is the cause of this one)"
    )


def _checked(given: object, context: SerializationContext, made: object) -> bytes | None:
    if made is None or isinstance(made, bytes | bytearray | memoryview):
        return None if made is None else bytes(made)
    raise SerializationError(
        f"{name_of(given)} made {type(made).__name__} of the {context.field} of a record for topic "
        f"{context.topic!r}; it must return bytes or None"
    )


def is_awaitable(made: object) -> bool:
    """Whether a serializer or a deserializer has returned something to wait for."""
    return hasattr(type(made), "__await__")


def discard(made: object) -> None:
    """Close an awaitable that no caller awaits, without the warning that it was never awaited."""
    close = getattr(made, "close", None)
    if callable(close):
        close()


def waiting_of(given: object, method: str) -> str | None:
    """Return how a serializer or a deserializer waits: "await", "block", or None for one that does not.

    Args:
        given: the function or object.
        method: what is called if the object has it: "serialize" or "deserialize".
    """
    declared = getattr(given, "waits_by", None)
    if declared in ("await", "block"):
        return cast("str", declared)
    called = getattr(given, method, None) or given
    of_class = getattr(type(called), "__call__", None)  # noqa: B004 - a coroutine function?
    return "await" if inspect.iscoroutinefunction(called) or inspect.iscoroutinefunction(of_class) else None


def check_waiting(client: str, waits_by: Literal["await", "block"], given: Mapping[str, object], method: str) -> None:
    """Refuse serializers that a client cannot wait for.

    Args:
        client: its class, for the message.
        waits_by: how it can wait.
        given: serializers or deserializers by the name of the setting.
        method: see `waiting_of`.

    Raises:
        ConfigError: one of them waits in the other way.
    """
    for name, function in given.items():
        found = waiting_of(function, method)
        if found is None or found == waits_by:
            continue
        if found == "block":
            raise ConfigError(
                f"{name}: {name_of(function)} may block its thread, which would stop the event loop of {client}; "
                f"make it with AsyncRegistry instead of Registry"
            )
        raise ConfigError(
            f"{name}: {name_of(function)} may return an awaitable, which {client} cannot wait for; make it with "
            f"Registry instead of AsyncRegistry, or use Async{client}"
        )


def _converter(given: SerializerLike) -> Callable[[object, SerializationContext], object]:
    method = getattr(given, "serialize", None)
    if callable(method):
        return lambda content, context: method(context.topic, context.headers, content)
    function = cast("Callable[..., object]", given)
    if takes_context(function):
        return function
    return lambda content, _: function(content)


def takes_context(function: Callable[..., Any]) -> bool:
    """Whether a function takes a context as its second argument."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some built-in functions have no signature
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(positional) < 2:
        return False
    second = positional[1]
    return second.default is second.empty or second.name in _CONTEXT_NAMES


def name_of(given: object) -> str:
    """What to call a function or an object of the user's in messages."""
    return getattr(given, "__qualname__", None) or type(given).__qualname__
