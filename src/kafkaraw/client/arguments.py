"""Checks of the arguments of public methods: partitions, positions, timestamps, topics, settings.

A refusal names the call, the value, and the form that the call takes. Nothing here runs once per record: a producer
that refuses a record asks `check_record_types` of `sending/accumulator.py` afterwards. Start at `partitions_of`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from kafkaraw.errors import UsageError
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    from kafkaraw.client.committed import OffsetAndMetadata

V = TypeVar("V")

INT64_MAX: Final = 2**63 - 1
_TEXT_SHOWN_MAX: Final = 80
_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_FROM_PROPERTIES: Final = "from_properties() takes a dict of Java's or librdkafka's names, or a .properties file"


def refuse_positional(client: str, misplaced: tuple[object, ...]) -> None:
    """Refuse positional arguments of a client's constructor. The values of a dict are not shown: one may be a password.

    Raises:
        UsageError: there is one.
    """
    if not misplaced:
        return
    first = misplaced[0]
    shown = f"{first!r:.{_TEXT_SHOWN_MAX}}" if isinstance(first, str) else f"a {type(first).__name__}"
    example = f"{client}(bootstrap_servers='localhost:9092')"
    if isinstance(first, Mapping):
        remedy = f"unpack a dict of settings, {client}(**settings); {_FROM_PROPERTIES}"
    elif client.endswith("Consumer"):
        remedy = f"as in {example}; topics go to subscribe(); {_FROM_PROPERTIES}"
    else:
        remedy = f"as in {example}; {_FROM_PROPERTIES}"
    raise UsageError(f"{client}({shown}): settings are keywords; {remedy}")


def topic_of(topic: object, call: str) -> str:
    """Take the name of a topic.

    Raises:
        UsageError: it is no text, or empty.
    """
    if isinstance(topic, str) and topic:
        return topic
    raise UsageError(f"{call}: topic {topic!r} must be the name of one topic, as in {call}('orders')")


def check_topic_name(name: str, call: str) -> None:
    """Refuse a name that no topic can have (Kafka's `Topic.validate`).

    Raises:
        UsageError: it is empty, too long, or has a character that names may not have.
    """
    if name in (".", "..") or not _TOPIC_NAME.fullmatch(name):
        raise UsageError(
            f"{call}: {name!r:.{_TEXT_SHOWN_MAX}} can be no topic: names have 1 to 249 of the characters a-z, A-Z, "
            f"0-9, '.', '_' and '-', and are not '.' or '..'"
        )


def partition_of(partition: object, call: str = "") -> TopicPartition:
    """Take a `TopicPartition`, or a tuple that looks like one.

    Raises:
        UsageError: it is neither.
    """
    where = f"{call}: " if call else ""
    if not isinstance(partition, tuple) or len(partition) != 2:
        raise UsageError(f"{where}{partition!r} is not a partition: give TopicPartition(topic, partition)")
    topic, number = partition
    if not isinstance(topic, str) or not topic:
        raise UsageError(f"{where}{partition!r}: the topic {topic!r} must be a name, as in TopicPartition('orders', 0)")
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise UsageError(
            f"{where}{partition!r}: the partition {number!r} must be a whole number, 0 or more, "
            f"as in TopicPartition({topic!r}, 0)"
        )
    return TopicPartition(topic, number)


def partitions_of(partitions: object, call: str) -> list[TopicPartition]:
    """Take several partitions.

    Raises:
        UsageError: it is one partition, no list, or an entry is no partition.
    """
    if isinstance(partitions, str) or not isinstance(partitions, Iterable):
        raise UsageError(f"{call}({partitions!r}): give a list of TopicPartition(topic, partition)")
    if isinstance(partitions, TopicPartition):
        raise UsageError(f"{call}({partitions!r}): give a list of partitions, as in {call}([{partitions!r}])")
    return [partition_of(partition, call) for partition in partitions]


def by_partition(values: object, call: str, what: str) -> dict[TopicPartition, object]:
    """Take a mapping of values by partition; the values are as they were.

    Raises:
        UsageError: it is no mapping, or a key is no partition.
    """
    if not isinstance(values, Mapping):
        raise UsageError(
            f"{call}: {what} are a dict by partition, as in {call}({{TopicPartition('orders', 0): 42}}), "
            f"not {type(values).__name__} {values!r:.{_TEXT_SHOWN_MAX}}"
        )
    return {partition_of(partition, call): value for partition, value in values.items()}


def positions_of(offsets: object, call: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """Take positions by partition: offsets, or offsets with a text of the user's own.

    Raises:
        UsageError: it is no mapping, a key is no partition, or a position is none.
    """
    return {
        partition: position_of(given, f"{call}: {partition.topic}-{partition.partition}")
        for partition, given in by_partition(offsets, call, "positions").items()
    }


def position_of(given: object, where: str, others: str = "") -> OffsetAndMetadata:
    """Take one position.

    Args:
        given: an offset, or an `OffsetAndMetadata`.
        where: begins the message of a refusal.
        others: what to do instead of giving an offset.

    Raises:
        UsageError: it is no offset, nor an `OffsetAndMetadata`.
    """
    from kafkaraw.client.committed import OffsetAndMetadata  # most producers commit nothing

    position = given if isinstance(given, OffsetAndMetadata) else None
    offset = offset_of(given if position is None else position.offset, where, others)
    if position is None:
        return OffsetAndMetadata(offset)
    metadata: object = position.metadata
    if metadata is not None and not isinstance(metadata, str):
        raise UsageError(f"{where}: the metadata {metadata!r} of an OffsetAndMetadata must be text")
    if type(position.leader_epoch) is not int:
        raise UsageError(f"{where}: the leader epoch {position.leader_epoch!r} must be a whole number, -1 if unknown")
    return position


def offset_of(offset: object, where: str, others: str = "") -> int:
    """Take an offset to read next; for the arguments see `position_of`.

    Raises:
        UsageError: it is no whole number from 0 to 2**63 - 1.
    """
    remedy = f"; {others}" if others else ""
    if not isinstance(offset, int) or isinstance(offset, bool):
        raise UsageError(f"{where}: offset {offset!r} must be a whole number, not {type(offset).__name__}{remedy}")
    if not 0 <= offset <= INT64_MAX:
        raise UsageError(f"{where}: offset {offset} must be 0 or more, and fit 64 bits{remedy}")
    return offset


def timestamps_of(timestamps: object, call: str) -> dict[TopicPartition, int]:
    """Take timestamps by partition.

    Raises:
        UsageError: it is no mapping, a key is no partition, or a value is no number of milliseconds.
    """
    checked: dict[TopicPartition, int] = {}
    for partition, timestamp in by_partition(timestamps, call, "timestamps").items():
        where = f"{call}: {partition.topic}-{partition.partition}"
        if not isinstance(timestamp, int) or isinstance(timestamp, bool):
            from datetime import datetime  # only for the message of an error

            example = "int(when.timestamp() * 1000)" if isinstance(timestamp, datetime) else "int(seconds * 1000)"
            raise UsageError(
                f"{where}: timestamp {timestamp!r} must be a whole number of milliseconds since 1970 UTC, as {example}"
            )
        if not 0 <= timestamp <= INT64_MAX:
            raise UsageError(f"{where}: timestamp {timestamp} must be 0 or more milliseconds, and fit 64 bits")
        checked[partition] = timestamp
    return checked


def instance_of(value: object, kind: type[V], call: str, example: str) -> V:
    """Take an object of one class.

    Raises:
        UsageError: it is of another one.
    """
    if isinstance(value, kind):
        return value
    raise UsageError(f"{call}: {value!r:.{_TEXT_SHOWN_MAX}} is not a {kind.__name__}; write {example}")


def list_of(values: object, kind: type[V], call: str, example: str) -> list[V]:
    """Take several objects of one class, each once.

    Raises:
        UsageError: it is one of them, no list, or an entry is of another class.
    """
    if isinstance(values, kind | str | Mapping) or not isinstance(values, Iterable):
        shown = f"{values!r:.{_TEXT_SHOWN_MAX}}"
        raise UsageError(f"{call}({shown}): give a list of {kind.__name__}, as in {call}([{example}])")
    return [instance_of(value, kind, call, example) for value in values]
