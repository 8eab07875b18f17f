"""Where a read starts or ends: by offset, by word or by timestamp. Pure.

A position is the value of an option; `resolve` turns it into offsets, with a `Lookup` only if it is needed. Must not
talk to a broker itself. Start at `parse_position` and `parse_timestamp`.
Source: org.apache.spark.sql.kafka010.{KafkaOffsetRangeLimit, KafkaOffsetReaderAdmin}.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kafkaraw.errors import ConfigError, UsageError
from kafkaraw.records import TopicPartition
from kafkaraw.spark.options.offsets import (
    EARLIEST,
    LATEST,
    PartitionOffsets,
    from_json,
    parse_json,
    partitions_from_json,
    shortened,
)

_WORDS = {"latest": LATEST, "earliest": EARLIEST}
_TIMESTAMP_MAX = 2**63 - 1


class Lookup(Protocol):
    """Looks up offsets in the cluster."""

    def earliest(self, partitions: list[TopicPartition]) -> PartitionOffsets:
        """Return the first offset of each partition."""
        ...

    def latest(self, partitions: list[TopicPartition]) -> PartitionOffsets:
        """Return the offset after the last readable record of each partition."""
        ...

    def at_timestamps(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the offset of the first record at or after a time, in ms since 1970; None if there is none."""
        ...


@dataclass(frozen=True)
class Resolved:
    """A position as numbers.

    Attributes:
        offsets: the offset of each partition.
        at_latest: the partitions whose offset is the end of the log, which a later lookup would find elsewhere.
    """

    offsets: PartitionOffsets
    at_latest: frozenset[TopicPartition]


@dataclass(frozen=True)
class Position(ABC):
    """The value of an option.

    Attributes:
        option: the option's name, for messages.
    """

    option: str

    @abstractmethod
    def uses(self, special: int) -> bool:
        """Return whether some partition has the position `EARLIEST` or `LATEST`."""

    @abstractmethod
    def resolve(self, partitions: Iterable[TopicPartition], lookup: Lookup) -> Resolved:
        """Turn words and times into numbers.

        Raises:
            ConfigError: the JSON does not name exactly the partitions that are read.
            UsageError: a partition has no record at or after its timestamp.
        """


@dataclass(frozen=True)
class OffsetPosition(Position):
    """`startingOffsets` or `endingOffsets`.

    Attributes:
        everywhere: `EARLIEST` or `LATEST` for all partitions; None if the others are set.
        by_partition: offset, `EARLIEST` or `LATEST` of each partition.
        by_topic: `EARLIEST` or `LATEST` of all partitions of a topic (SPARK-58774).
    """

    everywhere: int | None = None
    by_partition: Mapping[TopicPartition, int] = field(default_factory=dict)
    by_topic: Mapping[str, int] = field(default_factory=dict)

    def uses(self, special: int) -> bool:
        """Return whether some partition has the position `EARLIEST` or `LATEST`."""
        return self.everywhere == special or special in (*self.by_partition.values(), *self.by_topic.values())

    def resolve(self, partitions: Iterable[TopicPartition], lookup: Lookup) -> Resolved:
        """Turn words into numbers."""
        wanted = sorted(partitions)
        if self.everywhere is None:
            read = {tp.topic for tp in wanted}
            unknown = sorted(topic for topic in self.by_topic if topic not in read)
            if unknown:
                raise ConfigError(
                    f"{self.option} names {', '.join(unknown)}, which this query does not read or which does not exist"
                )
            of_topics = {tp: self.by_topic[tp.topic] for tp in wanted if tp.topic in self.by_topic}
            named = of_topics | dict(self.by_partition)
            _check_complete(self, wanted, named, f"with {LATEST} for latest and {EARLIEST} for earliest")
            offsets = {tp: named[tp] for tp in wanted}
        else:
            offsets = dict.fromkeys(wanted, self.everywhere)
        at = {special: [tp for tp, offset in offsets.items() if offset == special] for special in (EARLIEST, LATEST)}
        for special, look_up in ((EARLIEST, lookup.earliest), (LATEST, lookup.latest)):
            if at[special]:
                offsets.update(look_up(at[special]))
        return Resolved(offsets, frozenset(at[LATEST]))


@dataclass(frozen=True)
class TimestampPosition(Position):
    """`startingTimestamp`, `startingOffsetsByTimestamp` and the options of the same form for the end.

    Attributes:
        everywhere_ms: for all partitions, in ms since 1970; None if `by_partition_ms` is set.
        by_partition_ms: for each partition, in ms since 1970.
        unmatched_is_latest: a partition without a record at or after the time has its end as position; else an error.
    """

    everywhere_ms: int | None = None
    by_partition_ms: Mapping[TopicPartition, int] = field(default_factory=dict)
    unmatched_is_latest: bool = False

    def uses(self, special: int) -> bool:
        """Return False: it has times only."""
        return False

    def resolve(self, partitions: Iterable[TopicPartition], lookup: Lookup) -> Resolved:
        """Turn times into numbers."""
        wanted = sorted(partitions)
        if self.everywhere_ms is None:
            _check_complete(self, wanted, self.by_partition_ms, "with a time in ms since 1970")
            times = {tp: self.by_partition_ms[tp] for tp in wanted}
        else:
            times = dict.fromkeys(wanted, self.everywhere_ms)
        found = lookup.at_timestamps(times) if times else {}
        unmatched = [tp for tp in wanted if found[tp] is None]
        if unmatched and not self.unmatched_is_latest:
            first = unmatched[0]
            raise UsageError(
                f"{self.option}: {_names(unmatched)} has no record at or after {times[first]} (ms since 1970); "
                "choose an earlier time, or start at the end there with startingOffsetsByTimestampStrategy=latest"
            )
        offsets = {tp: offset for tp, offset in found.items() if offset is not None}
        return Resolved(offsets | (lookup.latest(unmatched) if unmatched else {}), frozenset(unmatched))


def check_order(starting: Position, start: Resolved, ending: Position, end: Resolved) -> None:
    """Check that no partition of a batch read ends before it starts, as Spark's JVM connector does.

    Raises:
        UsageError: some partitions do; the message names them.
    """
    wrong = [tp for tp in sorted(start.offsets) if tp in end.offsets and start.offsets[tp] > end.offsets[tp]]
    if wrong:
        first = wrong[0]
        raise UsageError(
            f"{starting.option} is beyond the end of {_names(wrong)}: {_names([first])} is to be read from offset "
            f"{start.offsets[first]} up to {end.offsets[first]} ({ending.option}); choose an earlier start or a later "
            "end"
        )


def _check_complete(
    position: Position, partitions: list[TopicPartition], named: Mapping[TopicPartition, int], how: str
) -> None:
    missing = [tp for tp in partitions if tp not in named]
    if missing:
        raise ConfigError(f"{position.option} leaves out {_names(missing)}: name every partition that is read, {how}")
    extra = sorted(set(named) - set(partitions))
    if extra:
        raise ConfigError(
            f"{position.option} names {_names(extra)}, which this query does not read or which do not exist"
        )


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in partitions)


def parse_position(option: str, text: str) -> OffsetPosition:
    """Read `earliest`, `latest` or the JSON form.

    Raises:
        ConfigError: the value has none of these forms.
    """
    word = text.strip()
    if word.lower() in _WORDS:
        return OffsetPosition(option, everywhere=_WORDS[word.lower()])
    if not word.startswith("{"):
        raise ConfigError(
            f'{option}={shortened(text)}: must be "earliest", "latest" or JSON such as {{"topic":{{"0":123}}}}'
        )
    given = parse_json(word, what=option)
    by_topic: dict[str, int] = {}
    by_partition: dict[str, object] = {}
    for topic, content in given.items() if isinstance(given, dict) else ():
        if not isinstance(content, str):
            by_partition[topic] = content
        elif content.strip().lower() in _WORDS:
            by_topic[topic] = _WORDS[content.strip().lower()]
        else:
            raise ConfigError(
                f'{option}: {topic!r}: {shortened(content)} must be "earliest", "latest" or offsets such as {{"0":123}}'
            )
    return OffsetPosition(option, by_partition=from_json(by_partition, what=option), by_topic=by_topic)


def parse_timestamp(option: str, text: str) -> TimestampPosition:
    """Read one time for all partitions.

    Raises:
        ConfigError: it is not a time.
    """
    word = text.strip()
    if not (word.isascii() and word.isdigit() and int(word) <= _TIMESTAMP_MAX):
        raise ConfigError(f"{option}={shortened(text)}: must be a time in ms since 1970, such as 1767225600000")
    return TimestampPosition(option, everywhere_ms=int(word))


def parse_timestamps(option: str, text: str) -> TimestampPosition:
    """Read a time for each partition, `{"topic":{"0":1767225600000}}`.

    Raises:
        ConfigError: it has another form.
    """

    def time(topic: str, partition: object, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _TIMESTAMP_MAX:
            raise ConfigError(f"{option}: {topic}-{partition}: {shortened(value)} is not a time in ms since 1970")
        return value

    by_partition = partitions_from_json(parse_json(text, what=option), time, what=option)
    return TimestampPosition(option, by_partition_ms=by_partition)
