"""Serializers turn values and keys into bytes: functions, or objects as in Java and other clients.

When a producer is created, each serializer is converted to one function of value and context. A producer without
serializers does not run this code. Start at `serializer_of`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

from kafkaraw.errors import SerializationError
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


SerializerLike: TypeAlias = Serializer | Callable[..., bytes | None]
"""A function of the value; a function of the value and a `SerializationContext`; or a `Serializer`."""

Serialize: TypeAlias = Callable[[object, SerializationContext], bytes | None]

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
    """
    convert = _converter(given)

    def serialize(content: object, context: SerializationContext) -> bytes | None:
        if content is None:
            return None
        try:
            made = convert(content, context)
        except Exception as error:
            raise SerializationError(
                f"{name_of(given)} refuses the {context.field} of a record for topic {context.topic!r}, "
                f"which is of type {type(content).__name__}: {type(error).__name__}; "
                f"change the serializer or what is sent (its own error is the cause of this one)"
            ) from error
        if made is None or isinstance(made, bytes | bytearray | memoryview):
            return None if made is None else bytes(made)
        raise SerializationError(
            f"{name_of(given)} made {type(made).__name__} of the {context.field} of a record for topic "
            f"{context.topic!r}; it must return bytes or None"
        )

    return serialize


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
