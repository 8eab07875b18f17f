"""Where a consumer is in each of its partitions: the one owner of fetched, delivered, processed and committed. Pure.

Of every assigned partition four offsets are known. Each is the next offset: the last record's + 1.

    event                         fetched         delivered       processed              committed
    ----------------------------  --------------  --------------  ---------------------  --------------------
    assign: a new partition       its start, or   = fetched       -                      -
                                  AWAIT_RESET
    assign: it is gone            forgotten       forgotten       when the caller next   `retain`
                                                                  returns
    seek                          the offset      = fetched       -                      -
    reset, out of range           AWAIT_RESET     = fetched (*)   -                      -
    offset found                  the offset      = fetched (*)   -                      -
    a response: `buffer.put`      -               -               -                      -
    take                          behind the      start of the    -                      -
                                  batches         batches
    cursor gives records          -               behind them     -                      -
    caller_returned               -               -               = delivered            -
    caller_returned, in doubt     -               -               delivered, before      -
                                                                  what was given last
    store                         -               -               what is stored         -
    commit_began                  -               -               -                      unconfirmed
    commit_succeeded,             -               -               -                      what was committed,
    offsets_read                                                                         or what was read
    pause, resume                 -               -               -                      -

(*) unless records before it are in hand: these are returned first. seek, reset by the caller, and assign drop the
partition's records from the buffer and the cursor. A pause keeps them, and none is returned until `resume`.

Delivered is not written per record: it is the last record that the cursor returned + 1, or the start of the records in
hand, or fetched if there are none. The cursor belongs to the thread in the caller's call, everything else to the
client's loop (decision 0026). This module must not depend on requests, errors or groups. `FetchBuffer` has the fetched
batches that no call has taken. Start at `SubscriptionState`.

A partition's fetch state (Java's FetchStates):

    INITIALIZING -- seek, request_reset --> FETCHING or AWAIT_RESET
    AWAIT_RESET --- offset found ---------> FETCHING
    FETCHING ------ request_reset --------> AWAIT_RESET, or INITIALIZING when auto_offset_reset is "none"

Source: Kafka's SubscriptionState. Why so: decision 0031.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum

from kafkaraw.core.fetch.cursor import RecordCursor
from kafkaraw.core.fetch.failures import name_of
from kafkaraw.core.fetch.offsets import LATEST_TIMESTAMP, NO_EPOCH, NO_OFFSET, OffsetAndMetadata, epoch_before
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.light_classes import NamedTuple, dataclass, field
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.records import (
    Batch,
    TopicPartition,
)


class FetchRange(NamedTuple):
    """A part of a partition's log that is to be read.

    Attributes:
        start: the first offset.
        end: the offset before which it ends: nothing is fetched from there on.
        size_max_bytes: how much of it to ask for at once; 0 is what the settings say.
    """

    start: int
    end: int
    size_max_bytes: int = 0


class CompletedFetch(NamedTuple):
    """What one response brought for one partition.

    Attributes:
        node_id: the broker that sent it.
        batch: the records, from the fetched offset on.
        epochs: the leader epochs in which they were written, each with its first offset.
        topic_id: of the topic that they come from.
    """

    node_id: int
    batch: Batch
    epochs: Sequence[tuple[int, int]]
    topic_id: Uuid


class FetchBuffer:
    """Completed fetches that no call has taken, at most one of each partition, in the order in which they came.

    Those of paused partitions are kept apart: they are not given, and do not keep their broker from being asked.
    """

    def __init__(self) -> None:
        self._ready: dict[TopicPartition, CompletedFetch] = {}
        self._paused: dict[TopicPartition, CompletedFetch] = {}

    def __bool__(self) -> bool:
        return bool(self._ready)

    def __contains__(self, of: object) -> bool:
        return of in self._ready or of in self._paused

    @property
    def node_ids(self) -> set[int]:
        """The brokers of which something can be taken."""
        return {fetch.node_id for fetch in self._ready.values()}

    def put(self, of: TopicPartition, fetch: CompletedFetch, *, is_paused: bool) -> None:
        """Keep a completed fetch."""
        (self._paused if is_paused else self._ready)[of] = fetch

    def take(self) -> Iterator[tuple[TopicPartition, CompletedFetch]]:
        """Give up everything but the fetches of paused partitions."""
        taken, self._ready = self._ready, {}
        return iter(taken.items())

    def drop(self, of: TopicPartition) -> None:
        """Forget what came of a partition."""
        self._ready.pop(of, None)
        self._paused.pop(of, None)

    def pause(self, of: TopicPartition) -> None:
        """Keep what came of a partition until `resume`."""
        if of in self._ready:
            self._paused[of] = self._ready.pop(of)

    def resume(self, of: TopicPartition) -> None:
        """Let what came of a partition be taken again."""
        if of in self._paused:
            self._ready[of] = self._paused.pop(of)


class FetchState(Enum):
    """Whether a partition can be fetched."""

    INITIALIZING = "no position, and no policy by which to find one"
    AWAIT_RESET = "the position is being looked up"
    FETCHING = "the position is known"


@dataclass(slots=True)
class PartitionState:
    """One assigned partition: where its next Fetch begins, and what is known of its log and its leader.

    Every change of the position by the caller or by a reset raises `generation`. An answer to a question of an older
    generation is stale and is dropped.

    Attributes:
        topic_partition: which.
        fetch_state: see the diagram above.
        offset: the fetched offset; -1 unless FETCHING.
        reset_timestamp: where to look while AWAIT_RESET: milliseconds, or one of the negative marks.
        last_epoch: leader epoch of the record before `offset`; -1 when unknown. A broker whose log has another one
            there says so (KIP-320).
        validated_epoch: the leader epoch in which a leader has confirmed the records before `offset`, if it had to be
            asked separately (KIP-320); -1 for none.
        generation: raised by every change of the position; answers carry the one they were asked with.
        size_wanted_bytes: what the next fetch needs to bring one whole batch, when the last one was cut short.
        size_max_bytes: how much to ask for at most, unless one batch needs more; 0 is what the settings say.
        end_offset: nothing is fetched from this offset on; None is no end.
        high_watermark: end of what may be read, as of the last answer; -1 when unknown.
        last_stable_offset: end of what is decided about in transactions, as of the last answer; -1 when unknown.
        log_start_offset: first offset that the broker still has, as of the last answer; -1 when unknown.
        failures_count: failed attempts in a row.
        failing_since_ms: when the first of them was.
        retry_at_ms: not to be asked about before.
        replica_until_ms: how long it is read from its preferred read replica; 0 when from the leader.
        error: the last failure.
        changed: shared by all partitions; this one adds itself when what it needs next may have changed.
    """

    topic_partition: TopicPartition
    fetch_state: FetchState = FetchState.INITIALIZING
    offset: int = NO_OFFSET
    reset_timestamp: int = LATEST_TIMESTAMP
    last_epoch: int = NO_EPOCH
    validated_epoch: int = NO_EPOCH
    generation: int = 0
    size_wanted_bytes: int = 0
    size_max_bytes: int = 0
    end_offset: int | None = None
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    failures_count: int = 0
    failing_since_ms: int = 0
    retry_at_ms: int = 0
    replica_until_ms: int = 0
    error: KafkaError | None = None
    changed: dict[TopicPartition, None] = field(default_factory=dict, repr=False, compare=False)
    _epochs: list[tuple[int, int]] = field(default_factory=list)  # (first offset, leader epoch), as far as needed
    _topic_id: Uuid = ZERO_UUID
    _replica_id: int | None = None

    # -- the position

    def seek(self, offset: int, leader_epoch: int = NO_EPOCH) -> None:
        """Fetch from an offset; the record before it was written in that leader epoch."""
        self._move(FetchState.FETCHING)
        self.offset = offset
        self.learn_epoch(leader_epoch)

    def request_reset(self, timestamp: int) -> None:
        """Fetch from where a timestamp (or a mark such as `EARLIEST_TIMESTAMP`) is, once that has been looked up."""
        self._move(FetchState.AWAIT_RESET)
        self.reset_timestamp = timestamp

    def lose_position(self) -> None:
        """The position is out of range, and there is no policy by which to find another."""
        self._move(FetchState.INITIALIZING)

    def advance(self, next_offset: int, epochs: Sequence[tuple[int, int]], topic_id: Uuid) -> None:
        """Records up to `next_offset` were taken in hand.

        Args:
            next_offset: where the next Fetch begins.
            epochs: the leader epochs in which they were written, each with the first offset of it.
            topic_id: of the topic that they come from.
        """
        self._epochs = [(self.offset - 1, self.last_epoch), *epochs]
        self.offset = next_offset
        self.last_epoch = self._epochs[-1][1]
        self._topic_id = topic_id
        self._change()

    # -- leader epochs

    def epoch_before(self, offset: int) -> int:
        """Return the leader epoch of the record before an offset, of those taken in hand last; -1 when unknown."""
        return epoch_before(self._epochs, offset)

    def last_epoch_in(self, topic_id: Uuid) -> int:
        """Return `last_epoch` if it is one of that topic: one created again under the name counts from 0 again."""
        return self.last_epoch if self._topic_id in (topic_id, ZERO_UUID) else NO_EPOCH

    def learn_epoch(self, leader_epoch: int) -> None:
        """The record before the position turns out to be of this leader epoch; -1 forgets what was known."""
        self.last_epoch = leader_epoch
        self._epochs = [(self.offset - 1, leader_epoch)]
        self._change()

    # -- what the next Fetch has to ask for

    def want_bytes(self, size_bytes: int) -> None:
        """The next Fetch has to ask for this many bytes to bring one whole batch; 0 is any size."""
        if size_bytes != self.size_wanted_bytes:
            self.size_wanted_bytes = size_bytes
            self._change()

    @property
    def is_at_end(self) -> bool:
        """Whether everything before `end_offset` has been fetched."""
        return self.end_offset is not None and self.offset >= self.end_offset

    @property
    def is_fresh(self) -> bool:
        """Whether nothing is known of the log's ends yet."""
        return self.high_watermark < 0

    def learn_ends(self, high_watermark: int, last_stable_offset: int, log_start_offset: int) -> None:
        """An answer named the ends of the log."""
        if self.is_fresh != (high_watermark < 0):
            self._change()
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset

    def prefer_replica(self, replica_id: int, until_ms: int) -> None:
        """Read from the replica that the leader named, until a time (KIP-392)."""
        self._replica_id = replica_id
        self.replica_until_ms = until_ms
        self._change()

    def preferred_replica(self, now_ms: int) -> int | None:
        """Return the replica to read from instead of the leader, if any."""
        return self._replica_id if now_ms < self.replica_until_ms else None

    def clear_preferred_replica(self) -> bool:
        """Ask the leader again; returns whether another replica was to be asked."""
        was_set = self._replica_id is not None
        self._replica_id, self.replica_until_ms = None, 0
        if was_set:
            self._change()
        return was_set

    # -- failures

    def failed(self, error: KafkaError, now_ms: int, delay_ms: int) -> None:
        """An attempt failed; the next one is due after `delay_ms`."""
        if not self.failures_count:
            self.failing_since_ms = now_ms
        self.failures_count += 1
        self.error = error
        self.retry_at_ms = now_ms + delay_ms
        self._change()

    def succeeded(self) -> None:
        """An answer without error came in."""
        if self.failures_count:
            self.failures_count = 0
            self.retry_at_ms = 0
            self.error = None
            self._change()

    def _move(self, fetch_state: FetchState) -> None:
        self.fetch_state = fetch_state
        self.generation += 1
        self.offset = NO_OFFSET
        self.last_epoch = NO_EPOCH
        self._epochs = []
        self._topic_id = ZERO_UUID
        self.validated_epoch = NO_EPOCH
        self.size_wanted_bytes = 0
        self.succeeded()
        self._change()

    def _change(self) -> None:
        self.changed[self.topic_partition] = None


class SubscriptionState:
    """The partitions of one consumer, and where it is in each.

    Args:
        reset: returns the timestamp at which a partition without a position begins, or one of the marks; None: nowhere.
        notes_processed: whether what was delivered counts as processed when the caller returns, as for a consumer of a
            group that does not store offsets itself.

    Attributes:
        assignment: the assigned partitions, in order.
        paused: partitions that are not fetched and whose records are not returned; fetched records stay buffered.
        buffer: what responses brought and no call has taken.
        cursor: what the caller has in hand.
        changed: partitions of which something has changed since the fetch schedule looked at them.
        unready: at least those partitions that have no position or an error.
    """

    def __init__(self, reset: Callable[[], int | None], *, notes_processed: bool = False) -> None:
        self._reset = reset
        self._notes_processed = notes_processed
        self._partitions: dict[TopicPartition, PartitionState] = {}
        self.assignment: tuple[TopicPartition, ...] = ()
        self.paused: set[TopicPartition] = set()
        self.buffer: FetchBuffer = FetchBuffer()
        self.cursor: RecordCursor = RecordCursor(self.paused)
        self.changed: dict[TopicPartition, None] = {}
        self.unready: dict[TopicPartition, None] = {}
        self._moved: dict[TopicPartition, None] = {}  # changed, and seen by the schedule, since positions were noted
        self._processed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._was_in_doubt = True  # when the processed offsets were noted last
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._unconfirmed: set[TopicPartition] = set()  # a commit may have been carried out, or may still be

    # -- what the caller decides

    def assign(
        self,
        topic_partitions: Iterable[TopicPartition],
        starts: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
    ) -> None:
        """Assign exactly these partitions; those that were assigned before keep their positions.

        Args:
            topic_partitions: the partitions.
            starts: positions of new partitions; the positions of other new partitions are looked up.
        """
        starts = starts or {}
        wanted = dict.fromkeys(topic_partitions)
        gone = {of: None for of in self._partitions if of not in wanted}
        if gone:
            self._drop_fetched(gone)
            self.paused.difference_update(gone)
            self._partitions = {of: partition for of, partition in self._partitions.items() if of not in gone}
        for of in wanted:
            partition = self._partitions.get(of)
            if partition is None:
                partition = self._partitions[of] = PartitionState(of, changed=self.changed)
                if of in starts:
                    partition.seek(starts[of].offset, starts[of].leader_epoch)
            if partition.fetch_state is FetchState.INITIALIZING:
                self.request_reset(partition)
        self.assignment = tuple(sorted(self._partitions))
        if not self._notes_processed:
            self._take_moved()  # nothing asks for it, and it would name every partition ever read

    def assign_ranges(self, ranges: Mapping[TopicPartition, FetchRange]) -> None:
        """Assign exactly these partitions, and fetch only these ranges of them; what was assigned before is dropped."""
        self.assign(())
        self.assign(ranges, {of: OffsetAndMetadata(it.start) for of, it in ranges.items()})
        for of, it in ranges.items():
            partition = self._partitions[of]
            partition.end_offset, partition.size_max_bytes = it.end, it.size_max_bytes

    @property
    def is_all_fetched(self) -> bool:
        """Whether all partitions are at the ends of their ranges; False without ranges."""
        partitions = self._partitions.values()
        return bool(partitions) and all(partition.is_at_end for partition in partitions)

    def seek(self, topic_partition: TopicPartition, offset: int, leader_epoch: int = NO_EPOCH) -> None:
        """Set the position of a partition; the record before it was written in that leader epoch.

        Raises:
            UsageError: the partition is not assigned.
        """
        partition = self.partition(topic_partition)
        self._drop_fetched({topic_partition})
        partition.seek(offset, leader_epoch)

    def seek_to(self, topic_partitions: Iterable[TopicPartition], timestamp: int) -> None:
        """Set the positions of all these partitions to the offsets of a timestamp.

        Raises:
            UsageError: a partition is not assigned; then no position has changed.
        """
        chosen = dict.fromkeys(self._assigned(topic_partitions))
        self._drop_fetched(chosen)
        for topic_partition in chosen:
            self._partitions[topic_partition].request_reset(timestamp)

    def pause(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Neither fetch these partitions nor return their records until `resume`; fetched records stay buffered.

        Raises:
            UsageError: a partition is not assigned; then none is paused.
        """
        for topic_partition in self._assigned(topic_partitions):
            self.paused.add(topic_partition)
            self.buffer.pause(topic_partition)
            self.changed[topic_partition] = None
        self.cursor.set_aside()

    def resume(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Fetch and return records of paused partitions again.

        Raises:
            UsageError: a partition is not assigned; then none is resumed.
        """
        for topic_partition in self._assigned(topic_partitions):
            self.paused.discard(topic_partition)
            self.buffer.resume(topic_partition)
            self.changed[topic_partition] = None

    # -- fetched

    def partition(self, topic_partition: TopicPartition) -> PartitionState:
        """Return the state of an assigned partition.

        Raises:
            UsageError: it is not assigned.
        """
        partition = self._partitions.get(topic_partition)
        if partition is None:
            name = name_of(topic_partition)
            raise UsageError(f"partition {name} is not assigned to this consumer; call assign() with it first")
        return partition

    def get(self, topic_partition: TopicPartition) -> PartitionState | None:
        """Return the state of a partition; None if it is not assigned."""
        return self._partitions.get(topic_partition)

    def partitions(self) -> Collection[PartitionState]:
        """Return the states of all assigned partitions."""
        return self._partitions.values()

    def request_reset(self, partition: PartitionState) -> bool:
        """A partition has no position, or its position is out of range: look up the one that the policy names.

        Returns:
            whether there is a policy; if not, the partition has no position.
        """
        timestamp = self._reset()
        if timestamp is None:
            self.lose_position(partition)
            return False
        partition.request_reset(timestamp)
        return True

    def lose_position(self, partition: PartitionState) -> None:
        """A partition has no position, and there is no policy by which to find one: the next call raises that."""
        if partition.fetch_state is not FetchState.INITIALIZING:
            partition.lose_position()
        self.changed[partition.topic_partition] = None
        self.unready[partition.topic_partition] = None

    @property
    def has_reset_policy(self) -> bool:
        """Whether a partition whose position is lost can go on by itself."""
        return self._reset() is not None

    def take(self) -> int:
        """Take in hand what the buffer has, and move the fetched offsets behind it; returns how many records there are.

        There is nothing between the two at which a call could be interrupted: what is fetched is in one of them.
        """
        batches = []
        for of, (_, batch, epochs, topic_id) in self.buffer.take():
            self._partitions[of].advance(batch.next_offset, epochs, topic_id)
            if batch.records_count:
                batches.append(batch)
        if batches:
            self.cursor.put(batches)
        return sum(batch.records_count for batch in batches)

    def schedule_seen(self) -> None:
        """The fetch schedule has looked at everything in `changed`."""
        self._moved.update(self.changed)
        self.changed.clear()

    # -- delivered

    def position(self, topic_partition: TopicPartition) -> int | None:
        """Return the offset of the next record to return; None when it has to be looked up first.

        Raises:
            UsageError: the partition is not assigned.
        """
        partition = self.partition(topic_partition)
        in_hand = self.cursor.position_in(topic_partition)
        if in_hand is not None:
            return in_hand
        return partition.offset if partition.fetch_state is FetchState.FETCHING else None

    def positions(
        self, only: Iterable[TopicPartition] | None = None, *, before: Mapping[TopicPartition, int] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the position of each partition, with the leader epoch before it, if that is known.

        Any thread may call it.

        Args:
            only: the partitions to return; those that are not assigned are left out.
            before: upper limits of the positions, by partition.
        """
        in_hand, limits = self.cursor.positions(), before or {}
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for of in list(self._partitions) if only is None else only:
            partition = self._partitions.get(of)
            if partition is None:
                continue
            offset = in_hand.get(of)
            if offset is None:
                if partition.fetch_state is not FetchState.FETCHING:
                    continue
                offset = partition.offset
            offset = min(offset, limits.get(of, offset))
            found[of] = OffsetAndMetadata(offset, leader_epoch=partition.epoch_before(offset))
        return found

    # -- processed

    def caller_returned(self, *, in_doubt: bool = False) -> None:
        """The caller asks for more: returned records count as processed; if in doubt, all but those returned last."""
        moved = self._take_moved()
        if not in_doubt:
            self.cursor.settle()
        if not self._notes_processed:
            return
        if in_doubt or self._was_in_doubt:
            self._processed = self.positions(before=self.cursor.unsettled)
        else:  # with each call: it costs what has moved, however many partitions are assigned
            known = self.positions(moved)
            for of in moved.keys() - known.keys():
                self._processed.pop(of, None)
            self._processed.update(known)
        self._was_in_doubt = in_doubt

    def store(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Store these offsets as processed, for a consumer that stores offsets itself."""
        self._processed.update(offsets)

    def processed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the processed offsets."""
        return dict(self._processed)

    # -- committed

    def uncommitted(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what is processed and not committed, or not for certain: an unanswered commit may have taken effect.

        That is committed again, also if the caller has gone back since: otherwise the later offset would stay.
        """
        return {
            of: at for of, at in self._processed.items() if of in self._unconfirmed or self._committed.get(of) != at
        }

    def commit_began(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Offsets of these are about to be sent to the coordinator."""
        self._unconfirmed.update(topic_partitions)

    def commit_succeeded(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """The coordinator has confirmed a commit."""
        self._unconfirmed.difference_update(offsets)
        self._committed.update(offsets)

    def offsets_read(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """The coordinator has returned committed offsets."""
        self._committed.update(offsets)

    def retain(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """The member owns only these: forget what was processed and committed of others."""
        kept = set(topic_partitions)
        self._committed = {of: at for of, at in self._committed.items() if of in kept}
        self._processed = {of: at for of, at in self._processed.items() if of in kept}
        self._unconfirmed &= kept

    # -- inside

    def _assigned(self, topic_partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Check that all are assigned, before any is changed."""
        chosen = list(topic_partitions)
        for topic_partition in chosen:
            self.partition(topic_partition)
        return chosen

    def _drop_fetched(self, partitions: Collection[TopicPartition]) -> None:
        for topic_partition in partitions:
            self.buffer.drop(topic_partition)
            self.changed[topic_partition] = None
        self.cursor.drop(partitions)

    def _take_moved(self) -> dict[TopicPartition, None]:
        """Return the partitions of which `positions` may give something else than when this was called last."""
        moved, self._moved = self._moved, {}
        moved.update(self.changed)
        moved.update(dict.fromkeys(self.cursor.moved()))
        return moved
