"""`LogCleaner`: compacts the logs of a broker whose `cleanup.policy` has `compact`, one after another.

It chooses the dirtiest log (`core.log.compaction`), runs a round in it (`cleaning`), and checkpoints how far the log is
clean, for each log directory. The `LogManager` calls `cleaning` by schedule and runs it in turns of the event loop: a
thread, as Kafka has, would need a lock on every segment, and could not be simulated. A partition whose log is damaged
is uncleanable until the broker restarts; the others go on.

Start at `LogCleaner.cleaning`.
Source: org.apache.kafka.storage.internals.log.{LogCleaner, LogCleanerManager}.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from kafkaraw.broker.configs.log_settings import CleanerSettings
from kafkaraw.broker.ids import RandomBits
from kafkaraw.broker.log.cleaning import Limits, LogCleaningAbortedError, cleaning, segments_to_clean
from kafkaraw.broker.log.directories import LogDirectories, LogDirectory
from kafkaraw.broker.log.log_manager import LogManager, Task
from kafkaraw.broker.log.log_manager import Replica as ManagedReplica
from kafkaraw.broker.log.storage import ROOT
from kafkaraw.broker.turns import Steps
from kafkaraw.core.log.cleaner import CleanerStats, CleaningRound, LastRecord, make_offset_map
from kafkaraw.core.log.compaction import CompactionSettings, LogToClean, dirtiest, plan_cleaning
from kafkaraw.core.log.offset_checkpoint import CLEANER_FILE, read_offsets, write_offsets
from kafkaraw.errors import KafkaError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.net import Clock
from kafkaraw.records import TopicPartition

SEED_BYTES: Final = 16
_IO_BUFFER_MIN: Final = 64 * 1024

_logger = logging.getLogger("kafkaraw.broker")


class Replica(ManagedReplica, Protocol):
    """A replica on this broker."""

    @property
    def last_stable_offset(self) -> int:
        """The offset from which on nothing is cleaned."""
        ...

    def last_records(self) -> dict[int, LastRecord]:
        """Return where its active producers stand, by producer id."""
        ...


class _Candidate(NamedTuple):
    """A log that may be cleaned."""

    replica: Replica
    directory: LogDirectory
    plan: LogToClean
    settings: CompactionSettings


class LogCleaner:
    """The cleaner of one broker.

    Args:
        logs: runs it by schedule, and removes the files that it replaces.
        directories: the log directories.
        clock: wall clock.
        settings: returns the settings in effect.
        replicas: returns the open replicas of the broker.
        rng: source of the seeds of the hash of keys, another one for each round.

    Attributes:
        uncleanable: the partitions whose cleaning has failed, because their logs are damaged, by directory.
        rounds: number of complete rounds.
    """

    def __init__(
        self,
        logs: LogManager,
        directories: LogDirectories,
        clock: Clock,
        settings: Callable[[], CleanerSettings],
        replicas: Callable[[], Iterable[Replica]],
        rng: RandomBits,
    ) -> None:
        self.uncleanable: set[tuple[str, TopicPartition]] = set()
        self.rounds: int = 0
        self._directories = directories
        self._clock = clock
        self._settings = settings
        self._replicas = replicas
        self._logs = logs
        self._rng = rng
        self._checkpoints: dict[str, dict[TopicPartition, int]] = {}
        self._running: Steps[None] | None = None
        self._cleaned_bytes = 0
        self._began_ms = 0
        self._pause_ms = 0
        logs.add_task(Task("kafka-log-cleaner", self.cleaning, self.interval_ms, waits_at_first=False))

    def interval_ms(self) -> int:
        """Return the time until `cleaning` is to be called again, in milliseconds."""
        return max(1, self._pause_ms if self._running is not None else self._settings().backoff_ms)

    def cleaning(self) -> Steps[None]:
        """Clean logs until none is due; or up to `log.cleaner.io.max.bytes.per.second`, and go on in the next call."""
        if not self._settings().is_enabled:
            self._stop()
            return
        if self._running is None:
            self._running = self._cleaning_all()
            self._began_ms, self._cleaned_bytes = self._clock.time_ms(), 0
        self._pause_ms = 0
        try:
            for ends_turn in self._running:
                yield ends_turn
                if self._must_pause():
                    return
        except BaseException:
            self._running = None
            raise
        self._running = None

    def _stop(self) -> None:
        if self._running is not None:
            self._running.close()
            self._running = None

    def _must_pause(self) -> bool:
        allowed = self._settings().bytes_per_second_max
        due_ms = int(self._cleaned_bytes * 1000 / allowed) if allowed > 0 else 0
        self._pause_ms = max(0, self._began_ms + due_ms - self._clock.time_ms())
        return self._pause_ms > 0

    def _cleaning_all(self) -> Steps[None]:
        while True:
            self._forget_deleted()
            chosen = yield from self._choosing()
            if chosen is None:
                return
            yield from self._cleaning_one(chosen)

    def _forget_deleted(self) -> None:
        if self.uncleanable:
            here = {replica.topic_partition for replica in self._replicas()}
            self.uncleanable = {(path, key) for path, key in self.uncleanable if key in here}

    # -- the choice --------------------------------------------------------------------------------------------------

    def _choosing(self) -> Steps[_Candidate | None]:
        """Return the dirtiest log that is due; None if there is none."""
        now_ms = self._clock.time_ms()
        candidates = []
        for replica in list(self._replicas()):
            directory = self._directories.home_of(replica.topic_partition)
            if not replica.config.is_compacted or directory is None or directory.is_offline:
                continue
            if self._directories.future_of(replica.topic_partition) is not None:
                continue  # a copy that has batches from before a round needs the tombstones and markers after it
            if self._is_empty(replica, directory):
                yield None
                continue
            yield from replica.log.reading_timestamps()
            if (directory.path, replica.topic_partition) in self.uncleanable:
                continue
            candidates.append(self._candidate(replica, directory, now_ms))
            yield None
        at = dirtiest([(one.plan, one.settings) for one in candidates])
        return None if at is None else candidates[at]

    def _is_empty(self, replica: Replica, directory: LogDirectory) -> bool:
        """Return whether a log has no bytes and no checkpoint: most partitions of an internal topic have neither."""
        return replica.log.size_bytes == 0 and replica.topic_partition not in self._checkpoints_of(directory)

    def _candidate(self, replica: Replica, directory: LogDirectory, now_ms: int) -> _Candidate:
        config, log, key = replica.config, replica.log, replica.topic_partition
        settings = CompactionSettings(
            config.min_cleanable_dirty_ratio, config.min_compaction_lag_ms, config.max_compaction_lag_ms
        )
        checkpoints = self._checkpoints_of(directory)
        truncated_to = log.take_truncation()
        if truncated_to is not None and checkpoints.get(key, -1) > truncated_to:
            self._checkpoint(directory, key, truncated_to)
        plan = plan_cleaning(
            segments_to_clean(log),
            settings,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            last_stable_offset=replica.last_stable_offset,
            checkpoint=checkpoints.get(key),
            now_ms=now_ms,
        )
        if plan.checkpoint_problem:
            if not config.deletes_old:
                _logger.warning("%s: cleaning from the log start offset: %s", log.folder, plan.checkpoint_problem)
            self._checkpoint(directory, key, plan.first_dirty_offset)
        return _Candidate(replica, directory, plan, settings)

    # -- one log -----------------------------------------------------------------------------------------------------

    def _cleaning_one(self, chosen: _Candidate) -> Steps[None]:
        began_ms = self._clock.time_ms()
        # The choice took several turns: the log may have changed, and the round begins in this one.
        replica, directory, plan, compaction = self._candidate(chosen.replica, chosen.directory, began_ms)
        if not plan.is_due(compaction):
            return
        log, key, settings, stats = replica.log, replica.topic_partition, self._settings(), CleanerStats()
        offsets = make_offset_map(
            settings.dedupe_buffer_bytes,
            settings.load_factor,
            self._rng.getrandbits(8 * SEED_BYTES).to_bytes(SEED_BYTES),
        )
        cleaning_round = CleaningRound(
            began_ms,
            replica.config.delete_retention_ms,
            plan.end_offset,
            replica.last_records(),
            began_ms - replica.config.delete_retention_ms,
        )
        limits = Limits(
            replica.config.segment_bytes,
            replica.config.segment_index_bytes,
            replica.config.index_interval_bytes,
            max(settings.io_buffer_bytes, _IO_BUFFER_MIN),
        )

        def check() -> None:
            if not any(one is replica for one in self._replicas()) or replica.log is not log:
                raise LogCleaningAbortedError("the broker does not have the partition any more")
            if self._directories.future_of(key) is not None:
                raise LogCleaningAbortedError("the replica is moved to another directory")

        try:
            steps = cleaning(log, plan, offsets, cleaning_round, limits, check, stats)
            counted = 0
            while True:
                try:
                    ends_turn = next(steps)
                except StopIteration as end:
                    next_dirty_offset = end.value
                    break
                total = stats.indexed_bytes + stats.read_bytes + stats.written_bytes
                self._cleaned_bytes, counted = self._cleaned_bytes + total - counted, total
                if ends_turn:
                    self._logs.collect_deleted_files(replica)
                yield ends_turn
        except LogCleaningAbortedError as error:
            _logger.info("%s: cleaning was aborted: %s", log.folder, error)
            return
        except KafkaError as error:
            self.uncleanable.add((directory.path, key))
            _logger.warning(
                "Unexpected exception thrown when cleaning log %s. Marking its partition (%s-%d) as uncleanable until "
                "the broker restarts: %s",
                log.folder, key.topic, key.partition, error,
            )  # fmt: skip
            return
        self._checkpoint(directory, key, next_dirty_offset)
        self.rounds += 1
        _logger.info(
            "%s: cleaned offsets %d to %d in %d ms: %d bytes read, %d written, %d records without key removed",
            log.folder, plan.first_dirty_offset, next_dirty_offset - 1, self._clock.time_ms() - began_ms,
            stats.read_bytes, stats.written_bytes, stats.invalid_records,
        )  # fmt: skip

    # -- checkpoints -------------------------------------------------------------------------------------------------

    def _checkpoints_of(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        found = self._checkpoints.get(directory.path)
        if found is None:
            found = self._checkpoints[directory.path] = _read(directory)
        return found

    def opened(self, key: TopicPartition, directory: LogDirectory, log_end_offset: int) -> None:
        """Forget the checkpoint of a log that does not reach it, before the log grows.

        The checkpoint belongs to a deleted topic of the same name, or the end of the log was lost with the machine.

        Raises:
            OSError: the storage is full or broken.
        """
        if self._checkpoints_of(directory).get(key, -1) > log_end_offset:
            self.forget(key, directory)

    def forget(self, key: TopicPartition, directory: LogDirectory) -> None:
        """Remove the checkpoint of a log that is no longer in a directory; no effect if there is none.

        Raises:
            OSError: the storage is full or broken.
        """
        offsets = dict(self._checkpoints_of(directory))
        if offsets.pop(key, None) is not None:
            directory.storage.write_text(ROOT, CLEANER_FILE, write_offsets(offsets))
            self._checkpoints[directory.path] = offsets

    def _checkpoint(self, directory: LogDirectory, key: TopicPartition, offset: int) -> None:
        """Write up to where a log is clean; partitions that are gone are left out.

        Raises:
            OSError: the storage is full or broken.
        """
        here = {replica.topic_partition for replica in self._replicas()}
        offsets = {one: at for one, at in self._checkpoints_of(directory).items() if one in here}
        offsets[key] = offset
        directory.storage.write_text(ROOT, CLEANER_FILE, write_offsets(offsets))
        self._checkpoints[directory.path] = offsets


def _read(directory: LogDirectory) -> dict[TopicPartition, int]:
    """Read the checkpoint of a directory. A damaged one is ignored: all is dirty then."""
    text = directory.storage.read_text(ROOT, CLEANER_FILE)
    try:
        return {} if text is None else read_offsets(text)
    except ValueError as error:
        _logger.warning(
            "%s/%s is damaged, the logs are cleaned from their start: %s", directory.path, CLEANER_FILE, error
        )
        return {}
