"""Which subject a schema is registered under: by topic, by record, by both, or as a function says. Pure.

Start at `subject_strategy`.  Source: Confluent's TopicNameStrategy, RecordNameStrategy and TopicRecordNameStrategy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, Protocol, TypeAlias

from kafkaraw.errors import ConfigError, UsageError


class SubjectContext(Protocol):
    """What a strategy may look at: the context of the record that is (de)serialized, `headers` included."""

    @property
    def topic(self) -> str:
        """The record's topic."""

    @property
    def field(self) -> str:
        """Whether the key or the value is meant: "key" or "value"."""


SubjectFunction: TypeAlias = Callable[[SubjectContext, str | None], str | None]
"""Context and full name of the record type to the subject; as confluent-kafka's `subject.name.strategy`."""

SubjectStrategy: TypeAlias = Literal["topic", "record", "topic-record"] | SubjectFunction


def topic_name(context: SubjectContext, record_name: str | None) -> str:
    """Return `orders-value` or `orders-key`: every record of the topic has a version of one schema."""
    return f"{context.topic}-{context.field}"


def record_name(context: SubjectContext, record_name: str | None) -> str:
    """Return the full name of the record type: the same schema in all topics.

    Raises:
        UsageError: the schema has no name.
    """
    return _named(context, record_name)


def topic_record_name(context: SubjectContext, record_name: str | None) -> str:
    """Return topic and full name of the record type: several record types in one topic.

    Raises:
        UsageError: the schema has no name.
    """
    return f"{context.topic}-{_named(context, record_name)}"


def _named(context: SubjectContext, record_name: str | None) -> str:
    if record_name is None:
        raise UsageError(
            f"the schema for {context.field}s of topic {context.topic!r} has no name (an Avro record and a "
            f"Protobuf message "
            f"have one, a JSON schema its title), so the subject cannot be made of it; use subject='topic', or a "
            f"function"
        )
    return record_name


_STRATEGIES: Final[dict[str, SubjectFunction]] = {
    "topic": topic_name,
    "record": record_name,
    "topic-record": topic_record_name,
}

DEPEND_ON_FIELD_ONLY: Final = frozenset(_STRATEGIES.values())
"""Strategies whose subject is the same for all records with one schema in one field of one topic."""


def subject_strategy(given: SubjectStrategy) -> SubjectFunction:
    """Return the function for a strategy.

    Raises:
        ConfigError: neither a function nor the name of a strategy.
    """
    if callable(given):
        return given
    found = _STRATEGIES.get(given)
    if found is None:
        raise ConfigError(f"subject={given!r} is no strategy; use {', '.join(map(repr, _STRATEGIES))}, or a function")
    return found
