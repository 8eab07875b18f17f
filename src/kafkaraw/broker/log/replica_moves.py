"""Moving replicas from one log directory of a broker to another (KIP-113).

A move copies the log into a folder `<topic>-<partition>.<id>-future` in the destination, in turns, while the replica
goes on. When the copy has caught up, it is synced and takes the place of the log in one turn; the old folder is removed
as that of a deleted topic. A broker that stops before goes on with the copy when it starts again; it copies a
compacted log from its start.
Start at `ReplicaMoves.begin`.
Source: KIP-113; kafka.server.{ReplicaManager.alterReplicaLogDirs, ReplicaAlterLogDirsThread},
LogManager.replaceCurrentWithFutureLog.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from kafkaraw.broker.ids import RandomBits, random_uuid
from kafkaraw.broker.log.directories import LogDirectories, LogDirectory, aside_name, folder_name
from kafkaraw.broker.log.log_cleaner import LogCleaner
from kafkaraw.broker.log.log_loader import StoppedAs
from kafkaraw.broker.log.log_manager import LogManager, Replica
from kafkaraw.broker.log.partition_log import PartitionLog
from kafkaraw.broker.log.storage import ROOT, LogStorage
from kafkaraw.broker.replies import Deferred, Failed
from kafkaraw.broker.turns import Steps, run_in_turns, run_to_end
from kafkaraw.core.log.leader_epochs import UNKNOWN_END
from kafkaraw.core.log.names import FolderState
from kafkaraw.core.log.producer_snapshot import ProducerSnapshot
from kafkaraw.core.log.producer_state import ProducerState
from kafkaraw.errors import KafkaError
from kafkaraw.protocol import Uuid
from kafkaraw.records import TopicPartition, iter_headers

COPY_BYTES: Final = 1_048_576
"""Bytes that are copied between two looks at the time."""

_logger = logging.getLogger("kafkaraw.broker")


class MovableReplica(Replica, Protocol):
    """A replica that can be moved."""

    def new_log(
        self, storage: LogStorage, folder: str, producers: Callable[[], Iterable[ProducerSnapshot]] | None = None
    ) -> PartitionLog:
        """Return a log with the settings of this replica, not open yet.

        Args:
            storage: where its files are.
            folder: its folder.
            producers: returns the producer state at its end; None for the state of this replica.
        """
        ...

    def use_log(self, log: PartitionLog) -> None:
        """Go on with another log that has the same batches."""
        ...


class _Move:
    """One move.

    Attributes:
        log: the copy.
        producers: the producer state at the end of the copy.
        is_open: whether the copy is open.
        running: the copying, while it goes on in turns.
    """

    def __init__(self, replica: MovableReplica, destination: LogDirectory, folder: str) -> None:
        self.replica = replica
        self.destination = destination
        self.folder = folder
        self.producers = ProducerState()
        self.log = replica.new_log(destination.storage, folder, lambda: self.producers.snapshots())
        self.is_open = False
        self.running: Deferred[None] | None = None

    def opening(self) -> Steps[None]:
        """Open the copy; one that an earlier run of the broker has left is read from end to end.

        Raises:
            OSError: the destination is full or broken.
        """
        yield from self.log.opening()
        self.read_producers()
        self.is_open = True

    def read_producers(self) -> None:
        """Restore the producer state from the copy."""
        offset, snapshots = self.log.newest_snapshot()
        self.producers = ProducerState(snapshots)
        for header, control in self.log.headers(offset):
            self.producers.add(header, memoryview(b"") if control is None else control)


class ReplicaMoves:
    """The moves of a broker that are going on.

    Args:
        directories: its log directories.
        logs: removes the old folders.
        cleaner: leaves replicas that are being moved alone.
        rng: source of random ids.
    """

    def __init__(self, directories: LogDirectories, logs: LogManager, cleaner: LogCleaner, rng: RandomBits) -> None:
        self._directories = directories
        self._logs = logs
        self._cleaner = cleaner
        self._rng = rng
        self._moves: dict[TopicPartition, _Move] = {}

    def future_log(self, key: TopicPartition) -> PartitionLog | None:
        """Return the copy of a replica that is being moved, once it is open."""
        move = self._moves.get(key)
        return move.log if move is not None and move.is_open else None

    def begin(self, replica: MovableReplica, destination: LogDirectory, topic_id: Uuid) -> None:
        """Begin to move a replica; another destination replaces that of a move that is going on.

        Args:
            replica: the replica.
            destination: the directory to which it goes; its own one ends a move.
            topic_id: the id of its topic.

        Raises:
            OSError: the destination is full or broken; the replica stays where it is.
        """
        key = replica.topic_partition
        move = self._moves.get(key)
        if move is not None:
            if move.destination is destination:
                return
            self.cancel(key)
        if self._directories.home_of(key) is destination:
            return
        folder = aside_name(folder_name(key), random_uuid(self._rng), FolderState.FUTURE)
        try:
            destination.make_folder(folder, topic_id, self._rng)
            move = _Move(replica, destination, folder)
            run_to_end(move.opening())
        except OSError:
            destination.storage.remove_folder(folder)
            raise
        self._start(move)

    def resume(self, replica: MovableReplica, destination: LogDirectory, folder: str, topic_id: Uuid) -> None:
        """Go on with a copy that an earlier run of the broker has left; that of a compacted log is made anew.

        While the destination was offline, the cleaner may have removed tombstones and markers of records that the copy
        has.

        Args:
            replica: the replica.
            destination: the directory that has the copy.
            folder: the folder of the copy.
            topic_id: the id of its topic.

        Raises:
            OSError: the destination is full or broken; the replica stays where it is.
        """
        if replica.config.is_compacted:
            destination.storage.remove_folder(folder)
            self.begin(replica, destination, topic_id)
        else:
            self._start(_Move(replica, destination, folder))

    def _start(self, move: _Move) -> None:
        key = move.replica.topic_partition
        self._moves[key] = move
        self._directories.set_future(key, move.destination)
        _logger.info("%s: moving from %s to %s", folder_name(key), self._from(move), move.destination.path)
        try:
            result = run_in_turns(self._copying(move))
        except (OSError, KafkaError) as error:
            self._failed(move, error)
            return
        if isinstance(result, Deferred):
            move.running = result
            result.when_done(lambda result: self._ended(move, result))

    def _from(self, move: _Move) -> str:
        home = self._directories.home_of(move.replica.topic_partition)
        return "" if home is None else home.path

    def _ended(self, move: _Move, result: Failed | None) -> None:
        if isinstance(result, Failed):
            self._failed(move, result.error)

    def _failed(self, move: _Move, error: BaseException) -> None:
        _logger.error("%s cannot be moved to %s: %s", move.replica.log.folder, move.destination.path, error)
        self.cancel(move.replica.topic_partition)

    def cancel(self, key: TopicPartition) -> None:
        """End a move, and remove its copy; no effect if there is none."""
        move = self._abandon(key)
        if move is None:
            return
        try:
            move.destination.storage.remove_folder(move.folder)
        except OSError as error:
            _logger.warning("%s cannot be deleted before the next start: %s", move.folder, error)

    def stop(self) -> None:
        """Stop all moves; the next start of the broker goes on with them."""
        for key in list(self._moves):
            self._abandon(key)

    def stop_in(self, directory: LogDirectory) -> None:
        """Stop the moves from and to a directory that has failed."""
        for key, move in list(self._moves.items()):
            if directory in (move.destination, self._directories.home_of(key)):
                self._abandon(key)

    def _abandon(self, key: TopicPartition) -> _Move | None:
        move = self._moves.pop(key, None)
        if move is not None:
            self._directories.set_future(key, None)
            if move.running is not None:
                move.running.cancel()
            move.log.close()
        return move

    def _copying(self, move: _Move) -> Steps[None]:
        """Copy what the copy lacks, and put it in the place of the log once it lacks nothing.

        Raises:
            OSError: the destination is full or broken.
            CorruptBatchError: the log is damaged.
        """
        if not move.is_open:
            yield from move.opening()
        while move.replica.topic_partition in self._moves:
            log, copy = move.replica.log, move.log
            if copy.log_end_offset < log.log_start_offset:
                copy.restart_at(log.log_start_offset)
                move.read_producers()
            end_offset = _end_in_common(copy, log)
            if end_offset < copy.log_end_offset:
                copy.truncate_to(end_offset)
                move.read_producers()
            data = log.copy(copy.log_end_offset, COPY_BYTES)
            if not data:
                self._replace(move)
                return
            for header, batch in iter_headers(memoryview(data)):
                if header.base_offset < copy.log_end_offset:
                    # The log starts within this batch, with which the copy has to start.
                    copy.restart_at(header.base_offset)
                copy.append(batch, header)
                aborted = move.producers.add(header, batch)
                if aborted is not None:
                    copy.add_aborted_transaction(aborted)
            yield None

    def _replace(self, move: _Move) -> None:
        """Put the copy in the place of the log.

        The copy gets the name first: a broker that is killed in between has the partition in two directories, and keeps
        the one with the higher end offset; see `BrokerState.opening`.
        """
        replica, destination = move.replica, move.destination
        key, old = replica.topic_partition, replica.log
        home, live = self._directories.home_of(key), folder_name(replica.topic_partition)
        assert home is not None, live
        move.log.move_start(old.log_start_offset)
        end_offset = old.log_end_offset
        move.log.close_cleanly()
        destination.storage.rename_folder(move.folder, live)
        destination.storage.sync_folder(ROOT)
        log = replica.new_log(destination.storage, live)
        log.open(StoppedAs(True, end_offset, old.log_start_offset))
        self._moves.pop(key, None)
        self._directories.set_future(key, None)
        self._directories.set_home(key, destination)
        replica.use_log(log)
        old.close()
        for directory in (home, destination):  # the copy may be older than the last round: it is cleaned from its start
            self._cleaner.forget(key, directory)
        self._logs.write_log_starts()
        doomed = aside_name(live, random_uuid(self._rng), FolderState.DELETED)
        home.storage.rename_folder(live, doomed)
        self._logs.remove_later(home, replica.config.file_delete_delay_ms, lambda: home.storage.remove_folder(doomed))
        _logger.info("%s: moved from %s to %s", live, home.path, destination.path)


def _end_in_common(copy: PartitionLog, log: PartitionLog) -> int:
    """Return the offset up to which a copy has the batches of a log: it may have been truncated since."""
    if copy.epochs.latest < 0:
        return min(copy.log_end_offset, log.log_end_offset)
    end = log.epochs.end_of(copy.epochs.latest, log.log_end_offset)
    if end == UNKNOWN_END:
        return log.log_start_offset
    own = copy.epochs.end_of(end.epoch, copy.log_end_offset)
    if own == UNKNOWN_END:
        return min(end.end_offset, copy.log_end_offset)
    return own.end_offset if own.epoch != end.epoch else min(own.end_offset, end.end_offset)
