"""Which subject a schema is registered under: by topic, by record, by both, or as a function says. Pure.

With `AssociatedName` the registry says; the serializers ask it. Start at `subject_strategy`.
Source: Confluent's TopicNameStrategy, RecordNameStrategy, TopicRecordNameStrategy and AssociatedNameStrategy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias

from kafkaraw.errors import ConfigError, UsageError
from kafkaraw.light_classes import dataclass


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


@dataclass(frozen=True, slots=True)
class AssociatedName:
    """The strategy "associated": the subject that the registry associates with the topic (`GET /associations`).

    A registry without this endpoint, such as `EmbeddedRegistry`, counts as one without associations.

    Attributes:
        cluster_id: id of the Kafka cluster whose topic is meant; "-" is any.
        fallback: the strategy for topics without an association; None refuses them.
    """

    cluster_id: str = "-"
    fallback: Literal["topic", "record", "topic-record"] | None = "topic"

    def __post_init__(self) -> None:
        if self.fallback is not None and self.fallback not in _STRATEGIES:
            raise ConfigError(f"fallback={self.fallback!r} must be one of {', '.join(map(repr, _STRATEGIES))}, or None")

    def subject_in(
        self, associations: Sequence[Mapping[str, Any]], context: SubjectContext, record_name: str | None
    ) -> str | None:
        """Return the subject of a topic, given what the registry associates with it.

        Raises:
            UsageError: there are several, or none and no fallback.
        """
        if len(associations) > 1:
            subjects = ", ".join(repr(one.get("subject")) for one in associations[:5])
            raise UsageError(
                f"topic {context.topic!r} has {len(associations)} associated subjects for its {context.field}s: "
                f"{subjects}; give cluster_id, or delete all but one association"
            )
        if associations:
            return associations[0].get("subject")
        if self.fallback is None:
            raise UsageError(
                f"topic {context.topic!r} has no associated subject for its {context.field}s; create an association, "
                f"or give a fallback"
            )
        return _STRATEGIES[self.fallback](context, record_name)


SubjectStrategy: TypeAlias = Literal["topic", "record", "topic-record", "associated"] | SubjectFunction | AssociatedName


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


def depends_on_field_only(strategy: SubjectFunction | AssociatedName) -> bool:
    """Whether the subject is the same for all records with one schema in one field of one topic."""
    return isinstance(strategy, AssociatedName) or strategy in _STRATEGIES.values()


def subject_strategy(given: SubjectStrategy) -> SubjectFunction | AssociatedName:
    """Return the function for a strategy, or how the registry is asked.

    Raises:
        ConfigError: neither a function nor the name of a strategy.
    """
    if callable(given) or isinstance(given, AssociatedName):
        return given
    if given == "associated":
        return AssociatedName()
    found = _STRATEGIES.get(given)
    if found is None:
        names = ", ".join(map(repr, (*_STRATEGIES, "associated")))
        raise ConfigError(f"subject={given!r} is no strategy; use {names}, AssociatedName(...), or a function")
    return found
