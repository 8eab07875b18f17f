"""Where the records of a data set come from: a cluster, or log directories that no broker needs to serve.

An origin knows its topics, makes snapshots of their offsets, finds the offsets of times, and reads ranges. Scans ask it
from several threads at a time. Must not decode values or know filters. Start at `Origin`.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from kafkaraw.errors import KafkaError, UnknownTopicError, UsageError
from kafkaraw.logs.segment_reader import Damages, read_pieces
from kafkaraw.logs.topics import INTERNAL_TOPICS, LogTopics
from kafkaraw.ranges.consumer import FirstSince, RangeConsumer
from kafkaraw.ranges.planning import OffsetRange
from kafkaraw.ranges.reading import ReadLimits, read_batches
from kafkaraw.records import Batch, TopicPartition

if TYPE_CHECKING:
    from kafkaraw.logs.topics import ReadableLog

T = TypeVar("T")

Topics = tuple[str, ...] | re.Pattern[str]
"""Names, or a pattern that whole names match."""
Locations = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""Log directories: paths or URIs, with patterns."""

_IDLE_MAX: Final = 4
"""Consumers; as many threads read a topic."""
_ISOLATION: Final = "isolation_level"
_LEVELS: Final = ("read_uncommitted", "read_committed")
_DAMAGE_REMEDY: Final = "read another replica, or leave out these offsets with a filter on partition and offset"


class RecordsGoneError(KafkaError):
    """Records of a data set were deleted before they were read."""


class Origin(Protocol):
    """Topics that can be read, from any thread."""

    @property
    def address(self) -> str:
        """Where it is, and the isolation level: other records have another address."""
        ...

    def topics(self) -> list[str]:
        """Return the names of the topics; Kafka's internal ones, too.

        Raises:
            KafkaError: the origin cannot be asked.
        """
        ...

    def snapshot(self, topics: Topics) -> list[OffsetRange]:
        """Return the offsets that topics have now, one range for each partition.

        Raises:
            UnknownTopicError: there is no such topic.
            KafkaError: the origin cannot be asked.
        """
        ...

    def since(self, ranges: Sequence[OffsetRange], time_ms: int) -> list[OffsetRange]:
        """Return the ranges without the offsets before the first record of a time or later.

        Raises:
            KafkaError: the origin cannot be asked.
        """
        ...

    def read(self, ranges: Sequence[OffsetRange]) -> Generator[tuple[Batch, int]]:
        """Return the batches of ranges, each with the end of its range; valid until the next one is asked for.

        Raises:
            RecordsGoneError: records were deleted.
            KafkaTimeoutError: no position advanced in time.
            KafkaError: a broker refuses to be read, or records are damaged.
            OSError: a file cannot be read.
        """
        ...

    def refreshed(self) -> Origin:
        """Return the same origin as it is now."""
        ...

    def kept_open(self) -> Origin:
        """Return the same origin, whose connections stay open from one call to the next until `close`."""
        ...

    def close(self) -> None:
        """Close connections that are kept open; the origin can still be used."""
        ...


# -- a cluster


@dataclass(frozen=True)
class ClusterOrigin:
    """The brokers of a cluster.

    Attributes:
        settings: of the consumers; not shown, because they may have passwords.
        poll_timeout_ms: the longest time without a change of a position, in ms.
        kept: consumers that stay open; None if each call has one of its own.
    """

    settings: Mapping[str, Any] = field(repr=False)
    poll_timeout_ms: int
    kept: KeptConsumers | None = field(default=None, repr=False, compare=False)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.settings, self.poll_timeout_ms)

    @property
    def address(self) -> str:
        """The bootstrap servers and the isolation level."""
        return f"{self.settings.get('bootstrap_servers')} {self.settings.get(_ISOLATION, _LEVELS[0])}"

    def topics(self) -> list[str]:
        """Return the names of the topics."""
        return self._asked(lambda consumer: sorted(consumer.list_topics()))

    def snapshot(self, topics: Topics) -> list[OffsetRange]:
        """Return the offsets that topics have now."""
        return self._asked(lambda consumer: _snapshot_of(consumer, topics))

    def since(self, ranges: Sequence[OffsetRange], time_ms: int) -> list[OffsetRange]:
        """Return the ranges without the offsets before the first record of a time or later."""
        return self._asked(lambda consumer: _since(consumer, ranges, time_ms))

    def read(self, ranges: Sequence[OffsetRange]) -> Generator[tuple[Batch, int]]:
        """Return the batches of ranges."""
        limits = ReadLimits(self.poll_timeout_ms, "poll_timeout_ms", _raise_loss)
        with self._consumer() as consumer:
            try:
                yield from read_batches(consumer, ranges, limits)
            except GeneratorExit:  # the reader has enough, as with LIMIT: the connections stay
                consumer.assign([])

    def refreshed(self) -> ClusterOrigin:
        """Return this origin: each request asks the brokers."""
        return self

    def kept_open(self) -> ClusterOrigin:
        """Return this origin with consumers that stay open."""
        return replace(self, kept=KeptConsumers())

    def close(self) -> None:
        """Close the consumers that are kept open."""
        if self.kept is not None:
            self.kept.close()

    def _asked(self, ask: Callable[[RangeConsumer], T]) -> T:
        with self._consumer() as consumer:
            return ask(consumer)

    @contextmanager
    def _consumer(self) -> Generator[RangeConsumer]:
        kept = self.kept
        consumer = None if kept is None else kept.take()
        if consumer is None:
            consumer = RangeConsumer(runtime=None, **self.settings)
        with ExitStack() as stack:
            stack.push(consumer)  # closed after an error, or if it is not kept
            yield consumer
            if kept is not None and kept.give_back(consumer):
                stack.pop_all()


class KeptConsumers:
    """Idle consumers, for those who ask often, as the queries of a session do. Each has one user at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[RangeConsumer] = []
        self._process = os.getpid()
        self._is_closed = False

    def take(self) -> RangeConsumer | None:
        """Return the consumer that was used last; None if none is idle."""
        if self._process != os.getpid():  # a forked child must not use its parent's connections
            return None
        with self._lock:
            return self._idle.pop() if self._idle else None

    def give_back(self, consumer: RangeConsumer) -> bool:
        """Keep a consumer that reads nothing any more; return False if it is to be closed."""
        if self._process != os.getpid():
            return False
        with self._lock:
            is_kept = not self._is_closed and len(self._idle) < _IDLE_MAX
            if is_kept:
                self._idle.append(consumer)
        return is_kept

    def close(self) -> None:
        """Close the idle consumers, and keep none any more."""
        if self._process != os.getpid():
            return
        with self._lock:
            idle, self._idle, self._is_closed = self._idle, [], True
        for each in idle:
            each.close()


def _snapshot_of(consumer: RangeConsumer, topics: Topics) -> list[OffsetRange]:
    if isinstance(topics, re.Pattern):
        known = consumer.list_topics()
        chosen = {name: known[name] for name in matching(topics, known)}
    else:
        chosen = {name: consumer.partitions_for(name) for name in topics}
    partitions = sorted(each for found in chosen.values() for each in found)
    bounds = consumer.bounds(partitions)
    return [
        OffsetRange(*of, start, max(start, end), consumer.topic_id(of.topic)) for of, (start, end) in bounds.items()
    ]


def matching(pattern: re.Pattern[str], topics: Iterable[str]) -> list[str]:
    """Return the topics that a pattern matches as a whole, without Kafka's internal ones.

    Raises:
        UnknownTopicError: there is none.
    """
    found = [name for name in topics if pattern.fullmatch(name) and name not in INTERNAL_TOPICS]
    if not found:
        raise UnknownTopicError(f"dataset: no topic matches {pattern.pattern!r}")
    return found


def _since(consumer: RangeConsumer, ranges: Sequence[OffsetRange], time_ms: int) -> list[OffsetRange]:
    ends: dict[TopicPartition, int] = {}
    for each in ranges:
        ends[each.topic_partition] = max(each.end, ends.get(each.topic_partition, 0))
    found = consumer.first_since(ends, time_ms)
    for each in ranges:
        _check_is_there(each, found[each.topic_partition])
    deleted = {each.topic_partition for each in ranges if each.start < found[each.topic_partition].start}
    oldest = consumer.offsets_for_times(dict.fromkeys(deleted, 0)) if deleted else {}
    kept = []
    for each in ranges:
        of = each.topic_partition
        start, first_left = found[of].offset, oldest.get(of)
        if of in oldest and (start is None or first_left is None or start <= first_left.offset):
            start = each.start  # the records that are gone may have been of that time: reading them is an error
        if start is not None and start < each.end:
            kept.append(_from(each, start))
    return kept


def _check_is_there(each: OffsetRange, found: FirstSince) -> None:
    """Raise RecordsGoneError if the log, or its topic, is another one: no record of it says that any is missing."""
    if found.is_of_another(each.topic_id):
        _raise_loss(f"topic {each.topic} was deleted and created again")
    if found.end is not None and found.end < each.end:
        _raise_loss(
            f"{each.topic}-{each.partition} ends at offset {found.end} now, records up to {each.end} were expected"
        )


def _from(each: OffsetRange, start: int) -> OffsetRange:
    return OffsetRange(each.topic, each.partition, max(each.start, start), each.end, each.topic_id)


def _raise_loss(what: str) -> None:
    raise RecordsGoneError(
        f"records are missing: {what}. They were there when the data set was made; `refresh()` makes one of what is "
        "there now"
    )


# -- log directories


class LogDirOrigin:
    """Log directories of Apache Kafka or of the embedded broker; nothing is written to them.

    Args:
        locations: as in `log.dirs`: local paths or URIs, with patterns.
        isolation_level: "read_committed" leaves out records of open and aborted transactions.

    Raises:
        UsageError: a location is no log directory, or the directories belong to several clusters.
        OSError: a directory cannot be read.
    """

    def __init__(self, locations: Iterable[str], isolation_level: str = _LEVELS[0]) -> None:
        self._locations = tuple(locations)
        self._isolation_level = isolation_level
        self._there = LogTopics(self._locations)
        self._lock = threading.Lock()  # logs look up their indexes once, and keep them

    def __repr__(self) -> str:
        return f"LogDirOrigin({self._there.shown})"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._locations, self._isolation_level)

    @property
    def address(self) -> str:
        """The directories and the isolation level."""
        return f"{', '.join(self._locations)} {self._isolation_level}"

    def topics(self) -> list[str]:
        """Return the names of the topics."""
        return list(self._there.topics)

    def snapshot(self, topics: Topics) -> list[OffsetRange]:
        """Return the offsets that the files of topics have.

        Raises:
            UnknownTopicError: the directories do not have a topic.
            RecordsGoneError: they lack a partition, or records at the end of one.
        """
        known = self._there.topics
        if isinstance(topics, re.Pattern):
            names = matching(topics, known)
        else:
            names = list(dict.fromkeys(topics))
            unknown = [name for name in names if name not in known]
            if unknown:
                shown = ", ".join(name for name in known if name not in INTERNAL_TOPICS) or "none"
                raise UnknownTopicError(
                    f"topic {unknown[0]!r} is not in {self._there.shown}; the topics there are: {shown}"
                )
        for name in names:
            missing = self._there.missing_of(name)
            if missing:
                raise RecordsGoneError(
                    f"no directory has {', '.join(f'{name}-{number}' for number in missing)}: add the log directories "
                    "of the other brokers"
                )
        with self._lock:
            logs = self._there.logs(TopicPartition(name, number) for name in names for number in known[name])
            return [self._range_of(log) for log in logs.values()]

    def _range_of(self, log: ReadableLog) -> OffsetRange:
        of = log.topic_partition
        if log.lost_end is not None:
            raise RecordsGoneError(
                f"{of.topic}-{of.partition} ends at offset {log.log_end}, and a checkpoint has {log.lost_end} for it: "
                "read another replica, or let the broker start on these files first"
            )
        end = log.end_offset(read_committed=self._is_committed)
        return OffsetRange(*of, log.start_offset, max(log.start_offset, end))

    @property
    def _is_committed(self) -> bool:
        return self._isolation_level == _LEVELS[1]

    def since(self, ranges: Sequence[OffsetRange], time_ms: int) -> list[OffsetRange]:
        """Return the ranges without the offsets before the first record of a time or later."""
        kept = []
        with self._lock:
            logs = self._there.logs(each.topic_partition for each in ranges)
            for each in ranges:
                start = logs[each.topic_partition].offset_at(time_ms, each.end)
                if start is not None:
                    kept.append(_from(each, start))
        return kept

    def read(self, ranges: Sequence[OffsetRange]) -> Generator[tuple[Batch, int]]:
        """Return the batches of ranges, one range after the other."""
        damages = _Damages(fails=True)
        for each in ranges:
            with self._lock:
                log = self._there.logs([each.topic_partition])[each.topic_partition]
                work = log.range_of(each.start, each.end, read_committed=self._is_committed)
            for found in read_pieces(work, damages):
                yield found.batch, each.end

    def refreshed(self) -> LogDirOrigin:
        """Return the directories, listed again."""
        return LogDirOrigin(self._locations, self._isolation_level)

    def kept_open(self) -> LogDirOrigin:
        """Return this origin: there are no connections."""
        return self

    def close(self) -> None:
        """There is nothing to close."""


class _Damages(Damages):
    """Damaged places are errors that say what readers of data sets can do."""

    def found(self, file: str, position: int, problem: str, remedy: str = _DAMAGE_REMEDY) -> None:
        """Raise DamagedFileError."""
        super().found(file, position, problem, remedy)


def origin_of(log_dirs: Locations | None, settings: Mapping[str, Any], poll_timeout_ms: int) -> Origin:
    """Return the cluster that the settings name, or log directories.

    Raises:
        UsageError: settings of clients are given for log directories, or a location is none.
        OSError: a directory cannot be read.
    """
    if log_dirs is None:
        fixed = {"auto_offset_reset": "none", "allow_auto_create_topics": False}
        return ClusterOrigin({"client_id": "kafkaraw-dataset", **settings, **fixed}, poll_timeout_ms)
    locations = (str(log_dirs),) if isinstance(log_dirs, str | os.PathLike) else tuple(map(str, log_dirs))
    needless = [name for name in settings if name != _ISOLATION]
    if needless:
        raise UsageError(
            f"{', '.join(sorted(needless))} cannot be combined with log_dirs: no broker is asked; leave one out"
        )
    level = str(settings.get(_ISOLATION) or _LEVELS[0])
    if level not in _LEVELS:
        raise UsageError(f"{_ISOLATION}={level!r} is none of {', '.join(_LEVELS)}")
    if not locations:
        raise UsageError("log_dirs names no directory")
    return LogDirOrigin(locations, level)
