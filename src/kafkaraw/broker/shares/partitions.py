"""The share partitions of which this node leads the partition: loaded, written, and watched for expired locks.

`core.share.share_partition` decides; this module reads its state from the share coordinator when a member fetches for
the first time, writes what it decides, and wakes fetches that wait for available records. A share partition ends with
the leadership of its partition, or when the coordinator fences it. Start at `SharePartitions.load`.
Source: kafka.server.share.SharePartitionManager.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.configs.share_settings import BY_DURATION, EARLIEST, ShareLimits
from kafkaraw.broker.coordinator_runtime.hosting import Alarm, loop_ms
from kafkaraw.broker.coordinator_runtime.timers import Timers
from kafkaraw.broker.shares.coordinator import Outcome, Write
from kafkaraw.broker.shares.metrics import ShareCounters
from kafkaraw.broker.shares.sessions import Part, SessionKey, ShareSessions
from kafkaraw.broker.shares.state import ShareKey
from kafkaraw.core.fetch.offsets import parse_duration_ms
from kafkaraw.core.share.share_partition import Acknowledgement, PendingWrite, Refused, Settings, SharePartition
from kafkaraw.core.share.state_batches import NO_START_OFFSET, StateBatch
from kafkaraw.light_classes import dataclass, field
from kafkaraw.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kafkaraw.broker.partitions.partition import Partition
    from kafkaraw.broker.shares.node import ShareNode
    from kafkaraw.net import Clock

SESSION_CLOSED: Final = "the share partition has ended"
# The error code of a response to a member, by the error code of the share coordinator.
_CODES: Final = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
_ENDING: Final = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)

_logger = logging.getLogger("kafkaraw.broker.shares")

Done = Callable[[ApiError | None], None]
"""Called with None, or with the error."""
OutcomeDone = Callable[[Outcome], None]


class LedShare:
    """One share partition; a watcher of its partition.

    Attributes:
        key: the share partition.
        partition: the partition.
        machine: the decisions; None until the state is read.
        state_epoch: the epoch of the state.
    """

    def __init__(self, shares: SharePartitions, key: ShareKey, partition: Partition) -> None:
        self.key = key
        self.partition = partition
        self.machine: SharePartition | None = None
        self.state_epoch: int = 0
        self.leader_epoch: int = partition.leader_epoch
        self.waiting: list[Done] = []
        self.watchers: dict[Callable[[], None], None] = {}
        self._shares = shares

    def readable(self, size_bytes: int) -> None:
        """Ignore new records: fetches watch the partition."""

    def ended(self) -> None:
        """End, because the leader has changed or the partition was deleted."""
        self._shares.drop(self.key)

    def wake(self) -> None:
        """Call the fetches that wait for available records."""
        for watcher in list(self.watchers):
            watcher()


@dataclass(slots=True)
class _Operation:
    """A read or a write that waits for the ones before it.

    Attributes:
        begin: has the coordinator do it.
        dones: called with the outcome.
        machine: what is written; None for a read.
        batches: the states to write.
    """

    begin: Callable[[tuple[StateBatch, ...], OutcomeDone], None]
    dones: list[OutcomeDone]
    machine: SharePartition | None = None
    batches: list[StateBatch] = field(default_factory=list)


class StateOperations:
    """Reads and writes of the states of share partitions, for each of them one after the other.

    The share coordinator may move, so an operation may be tried again. If a write came late, it would take back a start
    offset that another write has moved; and a share partition that was forgotten and is read again could miss a write
    that is confirmed afterwards. Writes that wait are written together.

    Args:
        node: the way to the share coordinators.
    """

    def __init__(self, node: ShareNode) -> None:
        self._node = node
        self._queues: dict[ShareKey, deque[_Operation]] = {}

    def read(self, key: ShareKey, leader_epoch: int, done: OutcomeDone) -> None:
        """Read a state."""

        def begin(batches: tuple[StateBatch, ...], answer: OutcomeDone) -> None:
            self._node.ask(key, lambda coordinator, tell: coordinator.read(key, leader_epoch, tell), answer)

        self._add(key, _Operation(begin, [done]))

    def write(
        self,
        key: ShareKey,
        machine: SharePartition,
        batches: Iterable[StateBatch],
        make: Callable[[tuple[StateBatch, ...]], Write],
        done: OutcomeDone,
    ) -> None:
        """Write states.

        Args:
            key: the share partition.
            machine: its decisions.
            batches: the states.
            make: returns the write of these states, and those of other calls, as it is due when they are written.
            done: called with the outcome.
        """
        queue = self._queues.get(key)
        if queue is not None and len(queue) > 1 and queue[-1].machine is machine:
            queue[-1].batches.extend(batches)
            queue[-1].dones.append(done)
            return

        def begin(together: tuple[StateBatch, ...], answer: OutcomeDone) -> None:
            write = make(together)
            self._node.ask(key, lambda coordinator, tell: coordinator.write(key, write, tell), answer)

        self._add(key, _Operation(begin, [done], machine, [*batches]))

    def _add(self, key: ShareKey, operation: _Operation) -> None:
        queue = self._queues.setdefault(key, deque())
        queue.append(operation)
        if len(queue) == 1:
            self._begin(key, operation)

    def _begin(self, key: ShareKey, operation: _Operation) -> None:
        def ended(outcome: Outcome) -> None:
            queue = self._queues[key]
            queue.popleft()
            following = queue[0] if queue else None
            if following is None:
                del self._queues[key]
            for done in operation.dones:
                done(outcome)
            if following is not None:
                self._begin(key, following)

        operation.begin(tuple(operation.batches), ended)


class SharePartitions:
    """The share partitions and the share sessions of a node.

    Args:
        node: the way to the share coordinators.
        clock: wall clock.
        limits_of: returns the settings of a group.
        sessions_max: how many sessions there may be.

    Attributes:
        sessions: the sessions.
        counters: what is counted for metrics.
    """

    def __init__(
        self, node: ShareNode, clock: Clock, limits_of: Callable[[str], ShareLimits], sessions_max: int
    ) -> None:
        self.sessions: ShareSessions = ShareSessions(sessions_max)
        self.counters: ShareCounters = ShareCounters()
        self._operations = StateOperations(node)
        self._clock = clock
        self._limits_of = limits_of
        self._led: dict[ShareKey, LedShare] = {}
        self._alarm = Alarm(self._look)
        self._timers = Timers(loop_ms, self._alarm.set)
        self._closed = False

    def led(self) -> list[LedShare]:
        """Return the share partitions that this node has loaded, or loads."""
        return list(self._led.values())

    # ---- loading

    def find(self, key: ShareKey) -> LedShare | None:
        """Return a share partition that is loaded, with the settings that its group has now."""
        led = self._led.get(key)
        if led is not None and led.machine is not None:
            led.machine.settings = self._settings(key.group_id)
        return led

    def load(self, key: ShareKey, partition: Partition, done: Callable[[LedShare | ApiError], None]) -> None:
        """Return a share partition, loaded from the share coordinator if necessary.

        Args:
            key: the share partition.
            partition: the partition, of which this node is leader.
            done: called with it, or with the error for the member.
        """
        found = self.find(key)
        if found is not None and found.machine is not None:
            done(found)
            return
        led = found or LedShare(self, key, partition)

        def loaded(error: ApiError | None) -> None:
            done(led if error is None else error)

        led.waiting.append(loaded)
        if found is None:
            self._led[key] = led
            partition.watch(led)
            epoch = led.leader_epoch
            self._operations.read(key, epoch, lambda outcome: self._read(led, outcome))

    def _read(self, led: LedShare, outcome: Outcome) -> None:
        if self._led.get(led.key) is not led:
            return
        if outcome.state is None:
            code = _CODES.get(outcome.code, ErrorCode.UNKNOWN_SERVER_ERROR)
            self._end(led, ApiError(code, outcome.message or ""))
            return
        state = outcome.state
        start_offset = state.start_offset
        try:
            if start_offset == NO_START_OFFSET:
                start_offset = self._reset_offset(led)
            led.machine = SharePartition(self._settings(led.key.group_id), start_offset, state.batches)
        except ApiError as error:
            self._end(led, error)
            return
        except ValueError as error:
            _logger.error("the state of share partition %s cannot be used: %s", led.key.coordinator_key, error)
            self._end(led, ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the stored state cannot be used"))
            return
        led.state_epoch = state.state_epoch
        waiting, led.waiting = led.waiting, []
        for done in waiting:
            done(None)

    def _reset_offset(self, led: LedShare) -> int:
        """Return where the group begins to read (`share.auto.offset.reset`).

        Raises:
            ApiError: OFFSET_NOT_AVAILABLE, no record is as new as the duration says; the group begins at the next one.
        """
        reset, log = self._limits_of(led.key.group_id).offset_reset, led.partition.log
        if reset == EARLIEST:
            return log.log_start_offset
        if reset.startswith(BY_DURATION):
            timestamp_ms = self._clock.time_ms() - (parse_duration_ms(reset.removeprefix(BY_DURATION)) or 0)
            found = log.first_at_or_after(timestamp_ms)
            if found is None or found.offset >= led.partition.high_watermark:
                topic, number = led.partition.topic_partition
                what = f"Offset for timestamp {timestamp_ms} not found for topic partition: {topic}-{number}"
                raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE, what)
            return found.offset
        return led.partition.high_watermark

    def _settings(self, group_id: str) -> Settings:
        limits = self._limits_of(group_id)
        return Settings(
            limits.delivery_count_limit, limits.lock_duration_ms, limits.records_in_flight_max, limits.renews
        )

    def drop(self, key: ShareKey) -> None:
        """Forget a share partition; the next fetch reads its state again."""
        led = self._led.get(key)
        if led is not None:
            self._end(led, ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, SESSION_CLOSED))

    def _end(self, led: LedShare, error: ApiError) -> None:
        self._led.pop(led.key, None)
        led.machine = None
        self._timers.cancel(led.key)
        led.partition.unwatch(led)
        waiting, led.waiting = led.waiting, []
        for done in waiting:
            done(error)
        led.wake()

    def close(self) -> None:
        """Stop: answer what waits."""
        self._closed = True
        self._timers.stop()
        self._alarm.cancel()
        for led in list(self._led.values()):
            self._end(led, ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the node stops"))

    # ---- acknowledging

    def acknowledge(
        self, key: ShareKey, member_id: str, acknowledgements: Iterable[Acknowledgement], done: Done
    ) -> None:
        """Apply the acknowledgements of a member, and write them."""
        acknowledgements = list(acknowledgements)
        led = self.find(key)
        if led is None or led.machine is None:
            done(ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."))
            return
        try:
            pending = led.machine.acknowledge(member_id, acknowledgements, loop_ms())
        except Refused as refused:
            led.wake()
            done(ApiError(refused.code, refused.message))
            return
        for each in acknowledgements:
            self.counters.acknowledge(key.group_id, each.first, each.last, each.types)
        self.watch_locks(led)
        self._write(led, pending, done)

    def release(self, group_id: str, member_id: str, parts: Iterable[Part]) -> None:
        """Release the records of a member that has left."""
        for topic_id, partition in parts:
            led = self.find(ShareKey(group_id, topic_id, partition))
            if led is not None and led.machine is not None:
                self._write(led, led.machine.release(member_id), lambda error: None)

    def close_session(self, session: SessionKey) -> None:
        """End a session, and release the records of its member.

        Without a session of the group, its share partitions are forgotten, so that an administrator can move offsets.
        """
        self.release(session.group_id, session.member_id, self.sessions.close(session))
        if not self.sessions.has_group(session.group_id):
            for key in [key for key in self._led if key.group_id == session.group_id]:
                self.drop(key)

    def disconnected(self, peer: str) -> None:
        """End the sessions of a connection."""
        for key in self.sessions.of_peer(peer):
            self.close_session(key)

    def _write(self, led: LedShare, pending: PendingWrite, done: Done) -> None:
        machine = led.machine
        assert machine is not None
        if not pending.batches:
            done(None)
            return

        def written(error: ApiError | None) -> None:
            machine.completed(pending, succeeded=error is None, now_ms=loop_ms())
            done(error)
            led.wake()

        self._store(led, machine, pending.batches, written)

    def _store(self, led: LedShare, machine: SharePartition, batches: Iterable[StateBatch], done: Done) -> None:
        def make(together: tuple[StateBatch, ...]) -> Write:
            return Write(led.state_epoch, led.leader_epoch, machine.start_offset, machine.complete_count, together)

        def stored(outcome: Outcome) -> None:
            if not outcome.code:
                done(None)
                return
            code = _CODES.get(outcome.code, ErrorCode.UNKNOWN_SERVER_ERROR)
            done(ApiError(code, outcome.message or ""))
            if code in _ENDING:
                self.drop(led.key)

        self._operations.write(led.key, machine, batches, make, stored)

    # ---- time

    def watch_locks(self, led: LedShare) -> None:
        """Call back when the next lock of a share partition expires."""
        deadline_ms = None if led.machine is None else led.machine.deadline_ms()
        if deadline_ms is None or self._led.get(led.key) is not led:
            self._timers.cancel(led.key)
        else:
            self._timers.set(led.key, max(0.0, deadline_ms - loop_ms()), lambda: self._expire(led, deadline_ms))

    def _expire(self, led: LedShare, deadline_ms: float) -> None:
        machine = led.machine
        if machine is None or self._led.get(led.key) is not led:
            return
        batches = machine.expire(max(loop_ms(), deadline_ms))  # a timer may be early by the resolution of its clock
        self.watch_locks(led)
        if batches:
            place = led.key.group_id, *led.partition.topic_partition
            self.counters.expired[place] += sum(each.last_offset - each.first_offset + 1 for each in batches)
            self._store(led, machine, batches, lambda error: machine.advance())
            led.wake()

    def _look(self) -> None:
        self._timers.tick()
        due = self._timers.deadline_ms()
        if due is not None and not self._closed:
            self._alarm.set(due)
