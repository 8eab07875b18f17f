"""Offsets as Spark and the JVM connector write them. Pure.

One form is used in options, in the checkpoint and in progress events: `{"topic":{"0":123,"1":456}}`, the next
offset to read of each partition. Spark compares offsets as text, so equal offsets must always have equal text:
`to_json` sorts (topics by name, partitions by number, like the JVM connector).

Must not know what offsets mean: `positions` decides where a read starts or ends.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from kafkaraw.errors import ConfigError, UsageError
from kafkaraw.records import TopicPartition

LATEST = -1
EARLIEST = -2

_FORMS_KEPT: Final = 4
"""The start and the end of a micro-batch, the newest ends of the partitions, and one more."""

PartitionOffsets = dict[TopicPartition, int]
OffsetJson = dict[str, dict[str, int]]


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetJson:
    """Return the offsets as a JSON object; equal offsets have equal text."""
    result: OffsetJson = {}
    for topic, partition in sorted(offsets):
        result.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return result


def from_json(value: object, *, what: str) -> PartitionOffsets:
    """Read `{"topic":{"0":123}}`.

    Args:
        value: the parsed JSON.
        what: the option or file that it comes from, for the message.

    Raises:
        ConfigError: it has another form.
    """
    return partitions_from_json(value, partial(_offset, what), what=what)


def from_checkpoint(value: object) -> PartitionOffsets:
    """Read the offsets that Spark has found in a query's checkpoint, or got from the source.

    Raises:
        UsageError: they are not Kafka offsets: the checkpoint belongs to another source.
    """
    try:
        return from_json(value, what="the checkpoint")
    except ConfigError:
        raise UsageError(
            f"the checkpoint belongs to a query with another source than Kafka: its offsets are {shortened(value)}, "
            'not such as {"topic":{"0":123}}; give this query a checkpointLocation of its own'
        ) from None


class OffsetForms:
    """Both forms of a query's offsets, JSON and by partition: each is made once, however often Spark passes it.

    Offsets of thousands of partitions differ in few of them from the ones before, so JSON is made from the last JSON
    and the difference. Do not change what the methods return: it is kept.
    """

    def __init__(self) -> None:
        self._known: deque[tuple[OffsetJson, PartitionOffsets]] = deque(maxlen=_FORMS_KEPT)  # the newest first

    def parsed(self, value: object) -> PartitionOffsets:
        """As `from_checkpoint`."""
        for known, offsets in self._known:
            if value is known or value == known:
                return offsets
        found = from_checkpoint(value)
        self._known.appendleft((to_json(found), found))
        return found

    def as_json(self, offsets: PartitionOffsets) -> OffsetJson:
        """As `to_json`."""
        for known, found in self._known:
            if offsets is found or offsets == found:
                return known
        made = self._changed_from_last(offsets)
        self._known.appendleft((made, dict(offsets)))
        return made

    def _changed_from_last(self, offsets: PartitionOffsets) -> OffsetJson:
        last, before = self._known[0] if self._known else ({}, {})
        if len(before) != len(offsets):
            return to_json(offsets)
        changed = [of for of, offset in offsets.items() if before.get(of) != offset]
        if any(of not in before for of in changed):
            return to_json(offsets)
        made = last | {topic: dict(last[topic]) for topic in {of.topic for of in changed}}
        for of in changed:
            made[of.topic][str(of.partition)] = offsets[of]
        return made


def partitions_from_json(
    value: object, number: Callable[[str, object, object], int], *, what: str
) -> dict[TopicPartition, int]:
    """Read an object that has a number for each partition of some topics.

    Args:
        value: the parsed JSON.
        number: checks the value of a topic and partition.
        what: the option or file that it comes from, for the message.

    Raises:
        ConfigError: it has another form.
    """
    if not isinstance(value, dict):
        raise ConfigError(f'{what}: expected an object such as {{"topic":{{"0":123}}}}, got {shortened(value)}')
    found: dict[TopicPartition, int] = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, dict):
            raise ConfigError(f"{what}: {topic!r} must map partitions to numbers, got {shortened(partitions)}")
        for partition, given in partitions.items():
            found[TopicPartition(topic, partition_number(partition, what=what))] = number(topic, partition, given)
    return found


def partition_number(value: object, *, what: str) -> int:
    """Return a partition from JSON: a number, or a number written as text.

    Raises:
        ConfigError: it is neither, or negative.
    """
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()):
        raise ConfigError(f"{what}: {shortened(value)} is not a partition number")
    return int(text)


def _offset(what: str, topic: str, partition: object, offset: object) -> int:
    if isinstance(offset, bool) or not isinstance(offset, int) or offset < EARLIEST:
        raise ConfigError(
            f"{what}: {topic}-{partition}: {shortened(offset)} is not an offset "
            f"(a number from 0, or {LATEST} for latest, {EARLIEST} for earliest)"
        )
    return offset


def shortened(value: object) -> str:
    """Return a value for a message, cut off if it is long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def parse_json(text: str, *, what: str) -> object:
    """Parse the JSON of an option.

    Raises:
        ConfigError: it is not JSON; the message says where.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{what}={shortened(text)} is not JSON: {error.msg} at character {error.pos + 1}") from None
