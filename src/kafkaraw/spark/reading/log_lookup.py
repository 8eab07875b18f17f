"""Plan a batch read of log directories on the driver: partitions, offsets, and the tasks with their bytes.

`LogLookup` takes the place of `lookup.ClusterLookup`: the same options mean the same. Tasks are cut by the size of the
files, as Spark cuts files. Where the number of cores is known, there are as few tasks as keep all cores busy until the
end: a task costs 20 ms of CPU and more. Start at `planned`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from kafkaraw.errors import UsageError
from kafkaraw.logs.segment_reader import LogRange
from kafkaraw.logs.topics import INTERNAL_TOPICS, LogTopics
from kafkaraw.ranges.planning import OffsetRange, bundle, ranges_between, share, split
from kafkaraw.records import TopicPartition
from kafkaraw.spark.errors import DataLossError
from kafkaraw.spark.options.java_regex import translate
from kafkaraw.spark.options.offsets import PartitionOffsets
from kafkaraw.spark.options.parsing import SparkOptions
from kafkaraw.spark.options.positions import Position, check_order

_log = logging.getLogger(__name__)

TASK_BYTES: Final = 128 << 20
"""Bytes of log files that a task reads at most, about: Spark's default of `spark.sql.files.maxPartitionBytes`."""
SHARE_BYTES_MAX: Final = 512 << 20
"""The same where the number of cores is known."""
_SHARE_BYTES_MIN: Final = 4 << 20
"""Fewer bytes are not worth a task of their own."""
_PARTS_OF_SHARE: Final = 8
"""Parts of a share: the shares differ by at most about one of them."""


def planned(
    options: SparkOptions, starting: Position, ending: Position, cores: int | None
) -> list[tuple[LogRange, ...]]:
    """Return the work of each task.

    Args:
        options: the directories, and what to read there.
        starting: where to start.
        ending: where to end.
        cores: how many tasks run at once; None if that is not known.

    Raises:
        UsageError: a directory is no log directory, or a topic or partition is not there.
        ConfigError: the positions do not fit the partitions.
        DataLossError: offsets or partitions are missing, and `failOnDataLoss` is set.
        OSError: a file cannot be read.
    """
    lookup = LogLookup(options)
    partitions = lookup.partitions()
    start = starting.resolve(partitions, lookup)
    end = ending.resolve(partitions, lookup)
    check_order(starting, start, ending, end)
    ranges = [there for whole in ranges_between(start.offsets, end.offsets) if (there := lookup.readable(whole)).size]
    given = (options.partitions_min, options.rows_per_partition_max, options.tasks_max)
    if cores is not None and lookup.is_local and given == (None, None, None):
        tasks = _shares(lookup, ranges, cores)
    else:
        parts = [part for whole in ranges for part in lookup.parts(whole, TASK_BYTES)]
        tasks = bundle(split(parts, options.partitions_min, options.rows_per_partition_max), options.tasks_max)
    return [tuple(map(lookup.located, work)) for work in tasks]


def _shares(lookup: LogLookup, ranges: Sequence[OffsetRange], cores: int) -> list[tuple[OffsetRange, ...]]:
    """Return one task for each core, or a multiple of that if the tasks would be too large."""
    size = sum(map(lookup.size_of, ranges))
    rounds = max(-(-size // (cores * SHARE_BYTES_MAX)), 1)
    tasks = min(cores * rounds, max(size // _SHARE_BYTES_MIN, 1))
    part_bytes = size if tasks == 1 else size // (tasks * _PARTS_OF_SHARE)
    parts = [part for whole in ranges for part in lookup.parts(whole, max(part_bytes, 1))]
    return share(((part, lookup.size_of(part)) for part in parts), tasks)


class LogLookup:
    """Implements `positions.Lookup` with files.

    Args:
        options: the directories, and what to read there.

    Raises:
        UsageError: a directory is no log directory.
        OSError: a directory cannot be read.
    """

    def __init__(self, options: SparkOptions) -> None:
        self._options = options
        self._topics = LogTopics(options.log_dirs)

    @property
    def is_local(self) -> bool:
        """Whether all directories are on the local filesystem."""
        return self._topics.is_local

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions to read.

        Raises:
            UsageError: a topic or partition is not there.
            DataLossError: a topic has a gap in its partitions, and `failOnDataLoss` is set.
        """
        options, there = self._options, self._topics.topics
        if options.assign:
            missing = [f"partition {t}-{p}" for t, p in options.assign if p not in there.get(t, ())]
            found = list(options.assign)
        else:
            pattern = None if options.pattern is None else translate(options.pattern)
            matching = [t for t in there if pattern and t not in INTERNAL_TOPICS and pattern.search(t)]
            names = list(options.subscribe) or matching
            missing = [f"topic {topic!r}" for topic in names if topic not in there]
            found = [TopicPartition(topic, number) for topic in names for number in there.get(topic, ())]
        if missing:
            known = ", ".join(topic for topic in there if topic not in INTERNAL_TOPICS)
            raise UsageError(
                f"{', '.join(missing)} is not in {self._topics.shown}; the topics there are: {known or 'none'}"
            )
        if not options.assign:
            for topic in dict.fromkeys(tp.topic for tp in found):
                gap = self._topics.missing_of(topic)
                if gap:
                    self._report_loss(
                        f"no directory has {', '.join(f'{topic}-{number}' for number in gap)}: add the log.dirs of the "
                        "other brokers, or name the partitions with assign"
                    )
        for log in self._topics.logs(found).values():
            if log.lost_end is not None:
                name = f"{log.topic_partition.topic}-{log.topic_partition.partition}"
                self._report_loss(f"{name} ends at offset {log.log_end}, a checkpoint has {log.lost_end} for it")
        return sorted(found)

    def earliest(self, partitions: list[TopicPartition]) -> PartitionOffsets:
        """Return the first offset of each partition."""
        return {tp: log.start_offset for tp, log in self._topics.logs(partitions).items()}

    def latest(self, partitions: list[TopicPartition]) -> PartitionOffsets:
        """Return the offset after the last readable record of each partition."""
        committed = self._options.read_committed
        return {tp: log.end_offset(read_committed=committed) for tp, log in self._topics.logs(partitions).items()}

    def at_timestamps(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the offset of the first record at or after a time, in ms since 1970; None if there is none."""
        committed = self._options.read_committed
        logs = self._topics.logs(timestamps)
        return {tp: log.offset_at(timestamps[tp], log.end_offset(read_committed=committed)) for tp, log in logs.items()}

    def readable(self, whole: OffsetRange) -> OffsetRange:
        """Return the part of a range that the log has."""
        tp = whole.topic_partition
        log = self._topics.logs([tp])[tp]
        end = log.end_offset(read_committed=self._options.read_committed)
        name = f"{tp.topic}-{tp.partition}"
        if whole.start < log.start_offset:
            self._report_loss(f"{name} starts at offset {log.start_offset} now, {whole.start} is gone")
        if whole.end > end:
            self._report_loss(f"{name} ends at offset {end} now, records up to {whole.end} were expected")
        return OffsetRange(tp.topic, tp.partition, max(whole.start, log.start_offset), min(whole.end, end))

    def parts(self, whole: OffsetRange, bytes_max: int) -> list[OffsetRange]:
        """Return a range that the log has, cut into parts of about this many bytes of its files."""
        tp = whole.topic_partition
        cuts = self._topics.logs([tp])[tp].cuts(whole.start, whole.end, bytes_max)
        bounds = [whole.start, *cuts, whole.end]
        return [OffsetRange(tp.topic, tp.partition, start, stop) for start, stop in pairwise(bounds) if start < stop]

    def size_of(self, part: OffsetRange) -> int:
        """Return about how many bytes of log files a range has."""
        return self._topics.logs([part.topic_partition])[part.topic_partition].size_of(part.start, part.end)

    def located(self, part: OffsetRange) -> LogRange:
        """Return where a range is in the files."""
        log = self._topics.logs([part.topic_partition])[part.topic_partition]
        return log.range_of(part.start, part.end, read_committed=self._options.read_committed)

    def _report_loss(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError.explained(what)
        _log.warning("records may be missing: %s", what)
