"""`LogManager`: what happens to the logs of a broker by schedule, on the broker's clock.

Retention, syncs by flush.ms, checkpoints, and the removal of deleted files. Each task runs in turns of the event loop.
`add_task` adds one, such as the cleaner. Decisions are made in `core.log` (`retention`); this module executes them.
Start at `LogManager.start`, and at `delete_old_segments`.
Source: org.apache.kafka.storage.internals.log.LogManager, kafka.server.ReplicaManager.checkpointHighWatermarks.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Protocol

from kafkaraw.broker.configs.log_settings import LogSettings
from kafkaraw.broker.configs.topic_config import TopicConfig
from kafkaraw.broker.log.directories import LogDirectories, LogDirectory
from kafkaraw.broker.log.log_loader import StoppedAs
from kafkaraw.broker.log.partition_log import PartitionLog
from kafkaraw.broker.log.storage import ROOT
from kafkaraw.broker.replies import Deferred, Failed
from kafkaraw.broker.turns import Steps, run_in_turns, run_to_end
from kafkaraw.core.log.metadata_files import NO_BROKER_EPOCH, write_clean_shutdown
from kafkaraw.core.log.names import CLEAN_SHUTDOWN_FILE
from kafkaraw.core.log.offset_checkpoint import (
    HIGH_WATERMARKS_FILE,
    LOG_STARTS_FILE,
    RECOVERY_POINTS_FILE,
    read_offsets,
    write_offsets,
)
from kafkaraw.light_classes import NamedTuple
from kafkaraw.net import Clock
from kafkaraw.records import TopicPartition

DELAY_MAX_S: Final = 86_400.0
"""Longest time of a timer: Kafka's default of log.flush.scheduler.interval.ms is 292 million years."""

_logger = logging.getLogger("kafkaraw.broker")


class Replica(Protocol):
    """A replica on this broker."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Its topic and partition."""
        ...

    @property
    def log(self) -> PartitionLog:
        """Its log."""
        ...

    @property
    def config(self) -> TopicConfig:
        """The settings of its topic."""
        ...

    @property
    def high_watermark(self) -> int:
        """The offset up to which consumers can read."""
        ...

    def delete_old_segments(self) -> int:
        """Delete the segments that retention allows to delete, and return their number.

        Raises:
            OSError: the storage is full or broken.
        """
        ...


class Checkpoint(NamedTuple):
    """What the checkpoints and the clean shutdown marker of a directory say about a replica.

    Attributes:
        high_watermark: its high watermark; 0 if unknown.
        stopped: how the broker stopped that wrote its log.
    """

    high_watermark: int = 0
    stopped: StoppedAs = StoppedAs()


class _Checkpoints(NamedTuple):
    """The checkpoints of one directory, as they were when the broker started."""

    high_watermarks: Mapping[TopicPartition, int]
    log_starts: Mapping[TopicPartition, int]
    recovery_points: Mapping[TopicPartition, int]
    is_clean: bool


class Task:
    """Work that is repeated.

    Args:
        name: for the log.
        steps: returns the work of one run; it is run in turns.
        interval_ms: returns the time from the end of a run to the next one, in milliseconds; 0 or less: no further run.
        waits_at_first: whether the first run waits for log.initial.task.delay.ms.
    """

    def __init__(
        self,
        name: str,
        steps: Callable[[], Steps[None]],
        interval_ms: Callable[[], int],
        *,
        waits_at_first: bool = True,
    ) -> None:
        self.name = name
        self.steps = steps
        self.interval_ms = interval_ms
        self.waits_at_first = waits_at_first


class LogManager:
    """Runs the tasks of a broker's logs.

    Args:
        directories: the log directories.
        clock: wall clock.
        settings: returns the settings in effect; the cleaner's change while the broker runs.
        replicas: returns the open replicas of the broker.
    """

    is_schedule: Final = True
    """Its timers go on for ever: a simulation in which no other timer is left has stalled (`kafkaraw.testing`)."""

    def __init__(
        self,
        directories: LogDirectories,
        clock: Clock,
        settings: Callable[[], LogSettings],
        replicas: Callable[[], Iterable[Replica]],
    ) -> None:
        self._directories = directories
        self._clock = clock
        self._settings = settings
        self._replicas = replicas
        self._read: dict[str, _Checkpoints] = {}
        self._written: dict[tuple[str, str], str] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._log_starts_write: asyncio.Handle | None = None
        self._running: dict[str, Deferred[None]] = {}
        self._removals: list[tuple[int, int, Callable[[], None]]] = []
        self._removals_count = 0
        self._is_started = False
        self._started_ms = 0
        self._synced: dict[TopicPartition, tuple[int, int]] = {}  # where the last sync ended, and when it was seen
        self._tasks = [
            Task("kafka-log-retention", self.deleting_old_segments, lambda: settings().retention_check_interval_ms),
            Task("kafka-log-flusher", self.flushing, lambda: settings().flush_check_interval_ms),
            Task(
                "kafka-recovery-point-checkpoint",
                self.writing_recovery_points,
                lambda: settings().recovery_point_interval_ms,
            ),
            Task(
                "kafka-log-start-offset-checkpoint", self.writing_log_starts, lambda: settings().log_start_interval_ms
            ),
            Task(
                "highwatermark-checkpoint",
                self.writing_high_watermarks,
                lambda: settings().high_watermark_interval_ms,
            ),
        ]

    # -- start and stop --------------------------------------------------------------------------------------------

    def read_checkpoints(self) -> None:
        """Read the checkpoints and the clean shutdown markers, and remove the markers.

        Raises:
            OSError: a directory cannot be read or changed.
        """
        for directory in self._directories.online:
            self._read[directory.path] = _Checkpoints(
                _read(directory, HIGH_WATERMARKS_FILE),
                _read(directory, LOG_STARTS_FILE),
                _read(directory, RECOVERY_POINTS_FILE),
                directory.storage.file_size(ROOT, CLEAN_SHUTDOWN_FILE) is not None,
            )
        for directory in self._directories.online:
            if self._read[directory.path].is_clean:
                directory.storage.remove_file(ROOT, CLEAN_SHUTDOWN_FILE)
                directory.storage.sync_folder(ROOT)

    def checkpoint_of(self, key: TopicPartition) -> Checkpoint:
        """Return what was checkpointed about a replica before the broker started."""
        home = self._directories.home_of(key)
        found = None if home is None else self._read.get(home.path)
        if found is None:
            return Checkpoint()
        stopped = StoppedAs(found.is_clean, found.recovery_points.get(key, 0), found.log_starts.get(key, 0))
        return Checkpoint(found.high_watermarks.get(key, 0), stopped)

    def forget_checkpoints(self) -> None:
        """Forget what was read: it does not apply to topics that are created from now on."""
        self._read.clear()

    def add_task(self, task: Task) -> None:
        """Add a task; it runs from the start on, as the others."""
        self._tasks.append(task)
        if self._is_started:
            self._schedule(task, self._settings().initial_delay_ms if task.waits_at_first else 0)

    def start(self) -> None:
        """Start the schedules, on the running event loop."""
        self._is_started = True
        self._started_ms = self._clock.time_ms()
        for task in self._tasks:
            self._schedule(task, self._settings().initial_delay_ms if task.waits_at_first else 0)
        self._schedule_removals()

    def stop(self) -> None:
        """Stop the schedules; the tasks that run are abandoned between two of their steps."""
        self._is_started = False
        for timer in (*self._timers.values(), self._log_starts_write):
            if timer is not None:
                timer.cancel()
        self._log_starts_write = None
        self._timers.clear()
        for running in list(self._running.values()):
            running.cancel()
        self._running.clear()

    def close(self, unclean: Collection[LogDirectory] = ()) -> None:
        """Write all checkpoints and the clean shutdown markers; the logs are synced and closed already.

        Args:
            unclean: directories with a log that could not be synced: they get no marker.

        Raises:
            OSError: a directory cannot be written.
        """
        self.stop()
        self._written.clear()  # some of it may not be durable
        failures: list[OSError] = []
        for steps in (self.writing_recovery_points(), self.writing_log_starts(), self.writing_high_watermarks()):
            try:
                run_to_end(steps)
            except OSError as error:
                failures.append(error)
        for directory in self._directories.online:  # those that have failed just now are no longer among them
            if directory not in unclean:
                try:
                    text = write_clean_shutdown(NO_BROKER_EPOCH)
                    directory.storage.write_text(ROOT, CLEAN_SHUTDOWN_FILE, text)
                except OSError as error:
                    failures.append(error)
        if failures:
            raise failures[0]

    def _schedule(self, task: Task, delay_ms: int) -> None:
        delay_s = min(delay_ms / 1000, DELAY_MAX_S)
        self._timers[task.name] = asyncio.get_running_loop().call_later(delay_s, self._begin, task)

    def _begin(self, task: Task) -> None:
        try:
            result = run_in_turns(task.steps())
        except Exception as error:  # noqa: BLE001  # a task that fails once must run again
            self._end(task, Failed(error))
            return
        if isinstance(result, Deferred):
            self._running[task.name] = result
            result.when_done(lambda result: self._end(task, result))
        else:
            self._end(task, None)

    def _end(self, task: Task, result: Failed | None) -> None:
        self._running.pop(task.name, None)
        if isinstance(result, Failed):
            _logger.error("%s failed and is tried again: %s", task.name, result.error)
        interval_ms = task.interval_ms()
        if self._is_started and interval_ms > 0:
            self._schedule(task, interval_ms)

    # -- tasks -----------------------------------------------------------------------------------------------------

    def deleting_old_segments(self) -> Steps[None]:
        """Delete the segments that retention allows to delete, log by log."""
        began_ms, deleted = self._clock.time_ms(), 0
        for replica in list(self._replicas()):
            try:
                yield from replica.log.reading_timestamps()
                if replica.log.is_closed:  # its topic was deleted since the first step
                    continue
                deleted += replica.delete_old_segments()
                replica.log.forget_indexes()
            except OSError as error:
                _logger.error("%s: old segments cannot be deleted: %s", replica.log.folder, error)
            self.collect_deleted_files(replica)
            yield None
        if deleted:
            _logger.info(
                "Log cleanup completed. %d segments deleted in %d ms", deleted, self._clock.time_ms() - began_ms
            )

    def flushing(self) -> Steps[None]:
        """Sync the logs whose last sync is flush.ms ago; one log in each turn, because a sync waits for the disk."""
        now_ms = self._clock.time_ms()
        for replica in list(self._replicas()):
            key, log = replica.topic_partition, replica.log
            if log.is_closed:  # its topic was deleted since the first step
                continue
            synced = log.recovery_point
            before, since_ms = self._synced.get(key, (synced, self._started_ms))
            if log.unflushed_messages and before == synced and now_ms - since_ms >= replica.config.flush_ms:
                try:
                    log.flush()
                except OSError as error:  # its directory goes offline; the others go on
                    _logger.error("%s cannot be synced: %s", log.folder, error)
                    continue
                self._synced[key] = (log.log_end_offset, now_ms)
                yield True
            else:
                self._synced[key] = (synced, since_ms if before == synced else now_ms)
            yield None

    def writing_recovery_points(self) -> Steps[None]:
        """Write the checkpoints of the offsets up to which the logs are synced; one that is lost costs a recovery."""
        yield from self._writing(RECOVERY_POINTS_FILE, lambda replica: replica.log.recovery_point, durable=False)

    def writing_log_starts(self) -> Steps[None]:
        """Write the checkpoints of the log start offsets, of logs whose first segment does not say it."""
        yield from self._writing(
            LOG_STARTS_FILE,
            lambda replica: replica.log.log_start_offset if replica.log.starts_within_a_segment else None,
            durable=True,
        )

    def writing_high_watermarks(self) -> Steps[None]:
        """Write the checkpoints of the high watermarks; instead of one that is lost, the leader's counts."""
        yield from self._writing(HIGH_WATERMARKS_FILE, lambda replica: replica.high_watermark, durable=False)

    def log_start_moved(self) -> None:
        """Write the log start offsets in the next turn, for all logs whose start moves in this one."""
        if self._is_started and self._log_starts_write is None:
            self._log_starts_write = asyncio.get_running_loop().call_soon(self.write_log_starts)

    def write_log_starts(self) -> None:
        """Write the log start offsets immediately, because records were deleted by request.

        A directory that cannot be written is logged: the deleted records may reappear after a restart.
        """
        if self._log_starts_write is not None:
            self._log_starts_write.cancel()
            self._log_starts_write = None
        try:
            run_to_end(self.writing_log_starts())
        except OSError as error:
            _logger.error("%s cannot be written, so deleted records may reappear: %s", LOG_STARTS_FILE, error)

    def _writing(self, file: str, offset_of: Callable[[Replica], int | None], *, durable: bool) -> Steps[None]:
        """Write a checkpoint in each directory, unless it would say the same as before.

        Args:
            file: its name.
            offset_of: returns the offset of a replica; None if the checkpoint has none.
            durable: sync it, which holds the event loop until the disk has done so; at the stop of the broker, all are.

        Raises:
            OSError: a directory cannot be written; the others are.
        """
        failure: OSError | None = None
        offsets: dict[str, dict[TopicPartition, int]] = {one.path: {} for one in self._directories.online}
        for replica in list(self._replicas()):
            home = self._directories.home_of(replica.topic_partition)
            offset = offset_of(replica)
            if home is not None and home.path in offsets and offset is not None:
                offsets[home.path][replica.topic_partition] = offset
            yield None
        for directory in self._directories.online:
            text = write_offsets(offsets.get(directory.path, {}))
            if self._written.get((directory.path, file)) != text:
                try:
                    directory.storage.write_text(ROOT, file, text, durable=durable or not self._is_started)
                    self._written[directory.path, file] = text
                except OSError as error:
                    failure = error
                yield True
        if failure is not None:
            raise failure

    # -- the removal of deleted files ------------------------------------------------------------------------------

    def collect_deleted_files(self, replica: Replica) -> None:
        """Remove the files that a log has renamed to `.deleted`, after file.delete.delay.ms.

        Retention calls it for each log; work that replaces segments can do so earlier.
        """
        home, log = self._directories.home_of(replica.topic_partition), replica.log
        names = log.take_deleted_files()
        if names and home is not None:
            self.remove_later(home, replica.config.file_delete_delay_ms, lambda: log.remove_files(names))

    def remove_later(self, directory: LogDirectory, delay_ms: int, remove: Callable[[], None]) -> None:
        """Remove files that are renamed already: after file.delete.delay.ms, or now if the directory needs no delay.

        Args:
            directory: where they are.
            delay_ms: file.delete.delay.ms of their topic.
            remove: removes them; OSError is logged, and the next start of the broker removes them.
        """
        if not delay_ms or not directory.delays_deletion:
            _removed(remove)
            return
        self._removals_count += 1
        heapq.heappush(self._removals, (self._clock.time_ms() + delay_ms, self._removals_count, remove))
        if self._is_started:
            self._schedule_removals()

    def _schedule_removals(self) -> None:
        timer = self._timers.pop(_REMOVAL, None)
        if timer is not None:
            timer.cancel()
        if self._removals:
            delay_s = min(max(0, self._removals[0][0] - self._clock.time_ms()) / 1000, DELAY_MAX_S)
            self._timers[_REMOVAL] = asyncio.get_running_loop().call_later(delay_s, self._remove_due)

    def _remove_due(self) -> None:
        """Remove the files of one deletion that is due; the next one has a turn of its own."""
        self._timers.pop(_REMOVAL, None)
        if self._removals and self._removals[0][0] <= self._clock.time_ms():
            _removed(heapq.heappop(self._removals)[2])
        self._schedule_removals()


_REMOVAL: Final = "kafka-delete-logs"


def _removed(remove: Callable[[], None]) -> None:
    try:
        remove()
    except OSError as error:
        _logger.warning("deleted files cannot be removed before the next start: %s", error)


def _read(directory: LogDirectory, file: str) -> dict[TopicPartition, int]:
    """Read a checkpoint. A damaged one is ignored: leaders send high watermarks, segments have offsets."""
    text = directory.storage.read_text(ROOT, file)
    try:
        return {} if text is None else read_offsets(text)
    except ValueError as error:
        _logger.warning("%s/%s is damaged and ignored: %s", directory.path, file, error)
        return {}
