"""The plain values that go in and out of record batches: records, positions, acknowledgements.

This module holds only data, so that every other module can import it without cost. Start at `Record`. Nothing here
depends on the wire format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from kafkaraw.light_classes import NamedTuple

TIMESTAMP_NONE: Final = -1
"""Timestamp type of records that carry no timestamp (message format 0)."""
TIMESTAMP_CREATE_TIME: Final = 0
"""The producer set the timestamp."""
TIMESTAMP_LOG_APPEND_TIME: Final = 1
"""The broker set the timestamp, one for the whole batch."""

Header: TypeAlias = tuple[str, bytes | None]
"""A record header: a name that is never null, and a value that may be."""
Headers: TypeAlias = Sequence[Header]


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class Record(NamedTuple):
    """One record as a consumer sees it.

    Attributes:
        topic: the topic it was read from.
        partition: the partition it was read from.
        offset: its position in the partition.
        timestamp_ms: milliseconds since 1970 UTC; -1 if it has none.
        timestamp_type: origin of the timestamp: `TIMESTAMP_CREATE_TIME`, `TIMESTAMP_LOG_APPEND_TIME` or
            `TIMESTAMP_NONE`.
        key: the key; None is null, and differs from an empty key.
        value: the value; None is null (a tombstone in a compacted topic).
        headers: names and values, in the producer's order; names may repeat.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]


class RecordMetadata(NamedTuple):
    """Topic, partition, offset and timestamp of a record that was sent.

    Attributes:
        topic: the topic.
        partition: the partition.
        offset: its offset; -1 with `acks=0`, or if the broker no longer knows it (a repeated batch).
        timestamp_ms: the producer's timestamp, or the broker's if the topic uses LogAppendTime.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
