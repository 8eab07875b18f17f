"""Topics in log directories that no broker serves: their partitions, offsets, and the bytes of a range of offsets.

`LogTopics` lists directories and chooses one replica of each partition. `ReadableLog` is one partition: what a broker
that starts on these files would serve, found without changing them. `arrow_batches` reads records without Spark. The
decisions are pure, in `core.log.read_plan`; here are the reads that they need.

What is readable, as a broker decides it when it starts:

- from the log start offset of the checkpoint, or the base offset of the first segment;
- up to the high watermark of the checkpoint if the broker was stopped gracefully. Otherwise the checkpoint is outdated
  (it is written every 5 s), and the log is read up to its last valid batch, as a leader without followers serves it;
- with read_committed, up to the last stable offset, without aborted transactions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeVar

from kafkaraw.core.log.batches import problem_of
from kafkaraw.core.log.damage import DamagedFileError
from kafkaraw.core.log.indexes import (
    TIME_ENTRY_SIZE,
    AbortedTransaction,
    decode_time_index,
    decode_transaction_index,
    time_entries,
)
from kafkaraw.core.log.loading import finish_renames
from kafkaraw.core.log.metadata_files import read_meta_properties, read_partition_metadata
from kafkaraw.core.log.names import (
    CLEAN_SHUTDOWN_FILE,
    META_PROPERTIES_FILE,
    METADATA_TOPIC,
    PARTITION_METADATA_FILE,
    FileKind,
    FolderState,
    OffsetFile,
    offset_of,
    parse_file,
    parse_folder,
)
from kafkaraw.core.log.offset_checkpoint import HIGH_WATERMARKS_FILE, LOG_STARTS_FILE, read_offsets
from kafkaraw.core.log.producer_snapshot import ProducerSnapshot, decode_snapshot
from kafkaraw.core.log.producer_state import ProducerState
from kafkaraw.core.log.read_plan import (
    LogSegment,
    ReplicaEnd,
    UncheckedOffsetIndex,
    best_replica,
    cut_points,
    missing_partitions,
    overlapping,
    pieces,
    segments_of,
)
from kafkaraw.errors import CorruptBatchError, UsageError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.logs.files import (
    Directory,
    Listing,
    expand,
    is_local,
    list_folder,
    listing,
    read_end,
    read_file,
    shown,
    shown_file,
)
from kafkaraw.logs.segment_reader import Damages, LogRange, Positioned, iter_wires, load_index, read_pieces
from kafkaraw.protocol import Uuid
from kafkaraw.records import Batch, Columns, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
S = TypeVar("S")

_log = logging.getLogger(__name__)

INTERNAL_TOPICS: Final = frozenset(
    {METADATA_TOPIC, "__consumer_offsets", "__transaction_state", "__share_group_state", "__remote_log_metadata"}
)
_AT_ONCE: Final = 16
"""Partitions that are looked up at the same time on a remote filesystem."""
_LISTINGS_MAX: Final = 20
"""Attempts to list a folder in which a broker renames files."""
_INDEXED_STARTS: Final = 8
"""Index entries that are tried, from the last one back, before a segment is read from its beginning."""


class _Replica(NamedTuple):
    """A folder of a partition."""

    directory: Directory
    folder: str
    files: Mapping[str, int]
    log_start: int | None
    high_watermark: int | None
    is_clean: bool

    @property
    def shown(self) -> str:
        """Its path for messages."""
        return shown_file(self.directory.root, self.folder)


class LogTopics:
    """The topics in log directories. Folders and files are listed once, when the object is made.

    Args:
        locations: directories as in `log.dirs`: local paths or URIs, with patterns.

    Raises:
        UsageError: a location is no log directory, or the directories belong to several clusters.
        OSError: a directory cannot be read.
    """

    def __init__(self, locations: Iterable[str]) -> None:
        self.locations: tuple[str, ...] = tuple(locations)
        found = dict.fromkeys(directory for location in self.locations for directory in expand(location))
        self._replicas: dict[TopicPartition, list[_Replica]] = {}
        self._logs: dict[TopicPartition, ReadableLog] = {}
        clusters: dict[str, Directory] = {}
        for directory in found:
            self._add(directory, clusters)
        if len(clusters) > 1:
            named = " and ".join(f"{directory.shown} ({cluster})" for cluster, directory in clusters.items())
            raise UsageError(f"the directories belong to different clusters: {named}; read each cluster on its own")

    def _add(self, directory: Directory, clusters: dict[str, Directory]) -> None:
        there = listing(directory)
        folders = {
            folder: name
            for name, files in there.folders.items()
            if (folder := parse_folder(name)) is not None
            and folder.state is FolderState.LIVE
            and any(parse_file(file) is not None for file in files)
        }
        if not folders and META_PROPERTIES_FILE not in there.files:
            raise UsageError(_no_log_directory(directory, there))
        starts = _checkpoint(directory, there, LOG_STARTS_FILE)
        high_watermarks = _checkpoint(directory, there, HIGH_WATERMARKS_FILE)
        cluster = _cluster_of(directory, there)
        if cluster:
            clusters.setdefault(cluster, directory)
        for folder, name in folders.items():
            tp = TopicPartition(folder.topic, folder.partition)
            self._replicas.setdefault(tp, []).append(
                _Replica(
                    directory,
                    f"{directory.path.rstrip('/')}/{name}",
                    there.folders[name],
                    starts.get(tp),
                    high_watermarks.get(tp),
                    CLEAN_SHUTDOWN_FILE in there.files,
                )
            )

    @property
    def shown(self) -> str:
        """The locations for messages, without secrets."""
        return ", ".join(map(shown, self.locations))

    @property
    def topics(self) -> dict[str, list[int]]:
        """The partitions that are there, by topic; Kafka's internal topics, too."""
        found: dict[str, list[int]] = {}
        for tp in sorted(self._replicas):
            found.setdefault(tp.topic, []).append(tp.partition)
        return found

    @property
    def is_local(self) -> bool:
        """Whether all directories are on the local filesystem, where looking at an index costs little."""
        return all(is_local(one.directory.root) for replicas in self._replicas.values() for one in replicas)

    def missing_of(self, topic: str) -> list[int]:
        """Return the partitions of a topic that no directory has, though it has a later one."""
        return missing_partitions(self.topics.get(topic, ()))

    def logs(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ReadableLog]:
        """Return the logs of partitions, each the best of its replicas.

        Raises:
            UsageError: a partition is in no directory, or its replicas belong to different topics of the same name.
            OSError: a file cannot be read.
        """
        wanted = list(partitions)
        unknown = [tp for tp in wanted if tp not in self._replicas]
        if unknown:
            raise UsageError(f"partition {unknown[0].topic}-{unknown[0].partition} is not in {self.shown}")
        new = [tp for tp in wanted if tp not in self._logs]
        remote = any(not is_local(one.directory.root) for tp in new for one in self._replicas[tp])
        self._logs.update(zip(new, _each(self._log, new, at_once=_AT_ONCE if remote else 1), strict=True))
        return {tp: self._logs[tp] for tp in wanted}

    def _log(self, tp: TopicPartition) -> ReadableLog:
        for attempt in range(_LISTINGS_MAX):
            replicas = [found for one in self._replicas[tp] if (found := _listed_again(one)) is not None]
            if not replicas:
                break
            if len(replicas) > 1:
                _check_ids(tp, replicas)
            marks = [one.high_watermark for one in replicas if one.high_watermark is not None]
            try:
                logs = [ReadableLog(tp, one, max(marks, default=None)) for one in replicas]
                return self._best(tp, replicas, logs)
            except FileNotFoundError as error:
                _log.debug("%s-%d: listed again (%d): %s", tp.topic, tp.partition, attempt + 1, error)
        raise UsageError(
            f"{', '.join(one.shown for one in self._replicas[tp])}: removed or changed while it was looked up: a "
            "broker is writing to the directory; run the query again, or read a snapshot of the disk"
        )

    @staticmethod
    def _best(tp: TopicPartition, replicas: Sequence[_Replica], logs: Sequence[ReadableLog]) -> ReadableLog:
        ends = [ReplicaEnd(log.epoch, log.log_end, log.start_offset) for log in logs]
        best = best_replica(ends)
        if len(replicas) > 1:
            _log.info(
                "%s-%d: of %d replicas, %s is read: leader epoch %d, offsets %d to %d; the others: %s",
                tp.topic,
                tp.partition,
                len(replicas),
                replicas[best].shown,
                *ends[best]._replace(end_offset=ends[best].start_offset, start_offset=ends[best].end_offset),
                "; ".join(
                    f"{one.shown}: leader epoch {end.epoch}, offsets {end.start_offset} to {end.end_offset}"
                    for one, end in zip(replicas, ends, strict=True)
                    if one is not replicas[best]
                ),
            )
        return logs[best]


def _each(do: Callable[[S], T], what: Sequence[S], *, at_once: int) -> list[T]:
    if at_once == 1 or len(what) < 2:
        return [do(one) for one in what]
    with ThreadPoolExecutor(at_once, thread_name_prefix="kafkaraw-logs") as pool:
        return list(pool.map(do, what))


def _listed_again(replica: _Replica) -> _Replica | None:
    """List a local folder until its names stay the same; None if it does not exist any more.

    A listing is not atomic: it may have neither the old nor the new name of a file that a broker renames meanwhile.
    """
    if not is_local(replica.directory.root):
        return replica
    names: set[str] = set()
    for _ in range(_LISTINGS_MAX):
        files = list_folder(replica.directory.root, replica.folder)
        if files is None:
            return None
        if names == files.keys():
            return replica._replace(files=files)
        names = set(files)
    raise UsageError(
        f"{replica.shown}: its files change too fast: a broker is writing to it; run the query again, or read a "
        "snapshot of the disk"
    )


def _no_log_directory(directory: Directory, there: Listing) -> str:
    folder = parse_folder(directory.path.rstrip("/").rpartition("/")[2])
    if folder is not None and any(offset_of(name, FileKind.LOG) is not None for name in there.files):
        hint = "it looks like the folder of one partition: give the directory that it is in"
    else:
        hint = "give one of the broker's log.dirs, or a copy of it"
    what = f"neither {META_PROPERTIES_FILE} nor folders of partitions"
    return f"{directory.shown} is no log directory: it has {what}; {hint}"


def _checkpoint(directory: Directory, there: Listing, name: str) -> dict[TopicPartition, int]:
    """Return the offsets of a checkpoint; none if it is missing or damaged, as when a broker starts."""
    if name not in there.files:
        return {}
    path = f"{directory.path.rstrip('/')}/{name}"
    try:
        text = read_file(directory.root, path).decode(errors="replace")
        return read_offsets(text, shown_file(directory.root, path))
    except DamagedFileError as error:
        _log.warning("%s is not used: line %d: %s", error.file, error.position, error.problem)
        return {}


def _cluster_of(directory: Directory, there: Listing) -> str:
    if META_PROPERTIES_FILE not in there.files:
        return ""
    path = f"{directory.path.rstrip('/')}/{META_PROPERTIES_FILE}"
    try:
        text = read_file(directory.root, path).decode(errors="replace")
        return read_meta_properties(text, shown_file(directory.root, path)).cluster_id
    except DamagedFileError as error:
        _log.warning("%s is not used: %s", error.file, error.problem)
        return ""


def _check_ids(tp: TopicPartition, replicas: Sequence[_Replica]) -> None:
    """Check that replicas belong to one topic: a topic that was deleted and created again has another id."""
    ids: dict[Uuid, _Replica] = {}
    for replica in replicas:
        if PARTITION_METADATA_FILE not in replica.files:
            continue
        path = f"{replica.folder}/{PARTITION_METADATA_FILE}"
        try:
            text = read_file(replica.directory.root, path).decode(errors="replace")
            ids.setdefault(read_partition_metadata(text, path), replica)
        except DamagedFileError as error:
            _log.warning("%s is not used: %s", shown_file(replica.directory.root, path), error.problem)
    if len(ids) > 1:
        named = " and ".join(f"{replica.shown} (topic id {topic_id})" for topic_id, replica in ids.items())
        raise UsageError(
            f"{tp.topic}-{tp.partition}: the replicas belong to different topics of this name: {named}; leave out the "
            "directory of the older one"
        )


class ReadableLog:
    """One replica of a partition, as it would be served.

    Args:
        tp: the partition.
        replica: its folder.
        high_watermark: the highest one of all replicas' checkpoints; None if there is none.

    Attributes:
        topic_partition: the partition.
        segments: its segments; the size of the last one leaves out a torn tail.
        log_end: offset after the last valid batch.
        epoch: leader epoch of the last batch; -1 if there is none.
        start_offset: the log start offset.
        high_watermark: offset after the last record that is served.
        lost_end: offset up to which replicas have had records, as the checkpoints say, if the log ends before; else
            None.
    """

    def __init__(self, tp: TopicPartition, replica: _Replica, high_watermark: int | None) -> None:
        self.topic_partition = tp
        self._root = replica.directory.root
        self._folder = replica.folder
        self._shown = replica.shown
        self._indexes: dict[int, UncheckedOffsetIndex] = {}
        named = [file for file in map(parse_file, replica.files) if file is not None]
        names = finish_renames(named, lambda file: self._end_of_swap(file, replica.files)).names
        self._names = names
        self.segments: list[LogSegment] = segments_of(replica.folder, names, replica.files)
        self.epoch: int
        self.log_end: int
        self.epoch, self.log_end = self._recover_end()
        first = self.segments[0].base_offset if self.segments else 0
        self.start_offset: int = max(first, replica.log_start or 0)
        self.log_end = max(self.log_end, self.start_offset)
        self.lost_end: int | None = (
            high_watermark if high_watermark is not None and high_watermark > self.log_end else None
        )
        self.high_watermark: int = self.log_end
        if replica.is_clean and high_watermark is not None:
            self.high_watermark = max(min(high_watermark, self.log_end), self.start_offset)
        elif high_watermark is not None and high_watermark < self.log_end:
            _log.info(
                "%s: the broker was not stopped gracefully: the log is read up to its end, offset %d, the high "
                "watermark of the checkpoint is %d",
                self._shown,
                self.log_end,
                high_watermark,
            )

    def index_of(self, segment: LogSegment) -> UncheckedOffsetIndex:
        """Return the offset index of a segment; it is loaded once."""
        index = self._indexes.get(segment.base_offset)
        if index is None:
            index = self._indexes[segment.base_offset] = load_index(self._root, segment)
        return index

    def _end_of_swap(self, file: OffsetFile, sizes: Mapping[str, int]) -> int:
        segment = LogSegment(file.offset, sizes[file.name], f"{self._folder}/{file.name}")
        end = file.offset
        for each in iter_wires(self._root, segment, file.offset):
            end = each.header.next_offset
        return end

    def _recover_end(self) -> tuple[int, int]:
        """Find the last valid batch; the torn tail of the last segment is left out. Return its epoch and the end."""
        end = self.segments[-1].base_offset if self.segments else 0
        for number in reversed(range(len(self.segments))):
            segment = self.segments[number]
            valid, last = self._last_batch(segment) if segment.size_bytes else (0, None)
            if number == len(self.segments) - 1 and valid < segment.size_bytes:
                _log.info("%s: %d bytes at the end are no batches", self._shown, segment.size_bytes - valid)
                self.segments[number] = segment._replace(size_bytes=valid)
                self._indexes.pop(segment.base_offset, None)
            if last is not None:
                return last.header.partition_leader_epoch, max(end, last.header.next_offset)
        return -1, end

    def _last_batch(self, segment: LogSegment) -> tuple[int, Positioned | None]:
        """Return the bytes up to the last valid batch of a segment, and this batch; the index leads near to it."""
        index = self.index_of(segment)
        tried = [index.entry(number)[1] for number in reversed(range(index.count))][:_INDEXED_STARTS]
        for position in [*tried, 0]:
            valid, last = 0, None
            for each in iter_wires(self._root, segment, 2**63 - 1, position):
                if position and last is None and each.position != position:
                    break  # nothing valid starts there, so the reader began at the start of the segment
                if not problem_of(each.wire, 0, each.header, 0):
                    valid = each.end
                    last = each._replace(wire=memoryview(b""))
            if last is not None:
                return valid, last
        return 0, None

    def end_offset(self, *, read_committed: bool) -> int:
        """Return the offset after the last record that a consumer gets."""
        if not read_committed:
            return self.high_watermark
        first_open = self._transactions[1]
        return self.high_watermark if first_open is None else min(self.high_watermark, first_open)

    @cached_property
    def _transactions(self) -> tuple[list[AbortedTransaction], int | None]:
        """The aborted transactions, and the first offset of the oldest open one; None if none is open.

        The indexes have the aborted ones. Behind the newest producer snapshot, and where a transaction index is damaged
        or may have been lost, the batches tell.
        """
        known: list[AbortedTransaction] = []
        newest, state = self._producers_before(self.log_end)
        at_once = 1 if is_local(self._root) else _AT_ONCE
        bounds = [*(segment.base_offset for segment in self.segments[1:]), self.log_end]
        ends = [min(bound, newest) for bound in bounds]
        found = _each(self._indexed_transactions, list(zip(self.segments, ends, strict=True)), at_once=at_once)
        followed: tuple[int, ProducerState] = (-1, ProducerState())
        for segment, end, indexed in zip(self.segments, ends, found, strict=True):
            if indexed is not None:
                known += indexed
            elif segment.base_offset < end:
                start, earlier = max(followed, self._producers_before(segment.base_offset), key=lambda one: one[0])
                known += self._follow(earlier, start, end)
                followed = (end, earlier)
        known += self._follow(state, newest, self.log_end)
        return list(dict.fromkeys(known)), state.first_ongoing_offset

    def _follow(self, state: ProducerState, start: int, end: int) -> list[AbortedTransaction]:
        """Add the batches of a range to the state of the producers; return the transactions that are aborted there."""
        found = []
        for segment, low, high in overlapping(self.segments, start, end):
            position = self.index_of(segment).position_before(low)
            for each in iter_wires(self._root, segment, low, position):
                header = each.header
                if header.base_offset >= high:
                    break
                # The cleaner leaves empty batches of transactions that have ended, and may have removed their markers.
                if header.base_offset < start or header.producer_id < 0 or not header.records_count:
                    continue
                try:
                    aborted = state.add(header, each.wire)
                except CorruptBatchError:
                    continue  # the reader of this batch reports it
                if aborted is not None:
                    found.append(aborted)
        return found

    def _indexed_transactions(self, of: tuple[LogSegment, int]) -> list[AbortedTransaction] | None:
        """Return the aborted transactions of a segment up to an offset; None if the batches must be read for them.

        A broker creates the transaction index of a segment with the first aborted transaction. So a segment without
        one has none, or its index was lost: then the snapshot at its end has a producer that has ended a transaction.
        """
        segment, end = of
        if not segment.size_bytes:
            return []
        if segment.transaction_index:
            file = shown_file(self._root, segment.transaction_index)
            try:
                content = read_file(self._root, segment.transaction_index)
                found = decode_transaction_index(content, segment.base_offset, file)
            except FileNotFoundError:
                return None
            except DamagedFileError as error:
                _log.warning("%s is not used: byte %d: %s", error.file, error.position, error.problem)
                return None
            if found:
                return found
        producers = self._snapshot(end)
        return [] if producers is not None and all(one.coordinator_epoch < 0 for one in producers) else None

    def _snapshot(self, offset: int) -> list[ProducerSnapshot] | None:
        """Return the producers before an offset; None if there is no valid snapshot."""
        name = self._names.get(OffsetFile(offset, FileKind.PRODUCER_SNAPSHOT).name)
        if name is None:
            return None
        path = f"{self._folder}/{name}"
        try:
            return decode_snapshot(read_file(self._root, path), path)
        except FileNotFoundError:
            return None
        except DamagedFileError as error:
            _log.warning("%s is not used: %s", shown_file(self._root, path), error.problem)
            return None

    def _producers_before(self, offset: int) -> tuple[int, ProducerState]:
        """Return the newest producer snapshot that is not behind an offset, or the state at the log's first offset."""
        bounds = [offset_of(name, FileKind.PRODUCER_SNAPSHOT) for name in self._names]
        first = self.segments[0].base_offset if self.segments else 0
        for bound in sorted((one for one in bounds if one is not None and first <= one <= offset), reverse=True):
            producers = self._snapshot(bound)
            if producers is not None:
                return bound, ProducerState(producers)
        return first, ProducerState()

    def cuts(self, start: int, end: int, bytes_max: int) -> list[int]:
        """Return the offsets at which to cut a range into parts of at most about `bytes_max` bytes."""
        return cut_points(self.segments, self.index_of, start, end, bytes_max)

    def size_of(self, start: int, end: int) -> int:
        """Return about how many bytes of log files a range has."""
        found = pieces(self.segments, self.index_of, start, end, self.log_end)
        return sum(piece.likely_end - piece.position for piece in found)

    def range_of(self, start: int, end: int, *, read_committed: bool) -> LogRange:
        """Return where a range of offsets is in the files."""
        aborted = self._transactions[0] if read_committed else []
        return LogRange(
            self._root,
            *self.topic_partition,
            start,
            end,
            tuple(pieces(self.segments, self.index_of, start, end, self.log_end)),
            tuple(one for one in aborted if one.last_offset >= start and one.first_offset < end),
        )

    def offset_at(self, timestamp_ms: int, end: int) -> int | None:
        """Return the offset of the first record at or after a time; None if there is none before `end`.

        Source: org.apache.kafka.storage.internals.log.LogSegment.findOffsetByTimestamp.
        """
        for segment, low, _ in overlapping(self.segments, self.start_offset, end):
            is_last = segment is self.segments[-1]
            latest = None if is_last else self._largest_timestamp(segment)
            if latest is not None and latest < timestamp_ms:
                continue
            position = self.index_of(segment).position_before(max(low, self._offset_before(segment, timestamp_ms)))
            for each in iter_wires(self._root, segment, low, position):
                if each.header.next_offset <= low or each.header.max_timestamp < timestamp_ms:
                    continue
                found = self._first_since(each, low, timestamp_ms)
                if found is not None:
                    return found if found < end else None
        return None

    def _largest_timestamp(self, segment: LogSegment) -> int | None:
        """Return the largest timestamp of a segment that is not written any more; None if the index does not say."""
        if not segment.time_index:
            return None
        entries = time_entries(read_end(self._root, segment.time_index, TIME_ENTRY_SIZE), segment.base_offset)
        return entries[0].timestamp_ms if entries and entries[0].timestamp_ms > 0 else None

    def _offset_before(self, segment: LogSegment, timestamp_ms: int) -> int:
        """Return an offset of a segment up to which no record is as new as a time."""
        if not segment.time_index:
            return segment.base_offset
        file = shown_file(self._root, segment.time_index)
        try:
            entries = decode_time_index(read_file(self._root, segment.time_index), segment.base_offset, file)
        except DamagedFileError as error:
            _log.warning("%s is not used: byte %d: %s", error.file, error.position, error.problem)
            return segment.base_offset
        before = [entry.offset for entry in entries if entry.timestamp_ms < timestamp_ms]
        return before[-1] if before else segment.base_offset

    def _first_since(self, each: Positioned, low: int, timestamp_ms: int) -> int | None:
        columns = Columns(frozenset({"offset", "timestamp"}))
        header = each.header
        if not header.records_count:
            return None
        if header.is_control:  # a marker has a timestamp, and counts for brokers, too
            return max(header.base_offset, low)
        batch = Batch(*self.topic_partition, [(header, each.wire)], start_offset=low)
        try:
            rows, _ = batch.fill(columns)
        except CorruptBatchError:
            return None  # the reader of this batch reports it
        assert columns.offset is not None
        assert columns.timestamp is not None
        for row in range(rows):
            if columns.timestamp[row] >= timestamp_ms:
                return columns.offset[row]
        return None


def arrow_batches(
    locations: Iterable[str],
    topics: Iterable[str],
    *,
    columns: Iterable[str] | None = None,
    starts: Mapping[TopicPartition, int] | None = None,
    ends: Mapping[TopicPartition, int] | None = None,
    read_committed: bool = False,
    skip_damaged: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of topics in log directories as Arrow batches, partition by partition, without a broker.

    Args:
        locations: log directories: local paths or URIs, with patterns.
        topics: names of topics.
        columns: names from `kafkaraw.records.ARROW_COLUMNS`, in the order wanted; None for all.
        starts: first offset of partitions; others are read from the log start offset.
        ends: offset after the last record of partitions; others are read to their end.
        read_committed: leave out records of open and aborted transactions.
        skip_damaged: skip damaged batches with a warning, instead of raising.

    Raises:
        UsageError: a location is no log directory, or does not have a topic.
        DamagedFileError: a batch is damaged; the error names file and position.
        OSError: a file cannot be read.
    """
    there = LogTopics(locations)
    wanted = list(topics)
    known = there.topics
    unknown = [topic for topic in wanted if topic not in known]
    if unknown:
        raise UsageError(f"topic {unknown[0]!r} is not in {there.shown}; there are {', '.join(sorted(known))}")
    names = None if columns is None else tuple(columns)
    logs = there.logs(TopicPartition(topic, number) for topic in wanted for number in known[topic])
    damages = Damages(fails=not skip_damaged)
    for tp, log in logs.items():
        start = max((starts or {}).get(tp, 0), log.start_offset)
        log_end = log.end_offset(read_committed=read_committed)
        end = min((ends or {}).get(tp, log_end), log_end)
        for found in read_pieces(log.range_of(start, end, read_committed=read_committed), damages):
            yield from found.batch.arrow_batches(names)
