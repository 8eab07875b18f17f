"""Which partitions to ask which broker for, and what becomes of the answers. Pure; times are passed in.

At most one Fetch is on its way to a broker, and only while nothing of that broker's last answer is waiting: memory is
bounded by one answer per broker. When the user takes what waits, positions move on and the next Fetch can go out at
once, before the user has looked at the first record.

What each partition needs next is kept in an agenda (`agenda.py`), which looks again at those about which something has
changed: an answer costs as much as it says, however many partitions are read.

Partitions are asked for in an order that rotates: one that just gave records goes to the end. It matters, because a
broker fills its answer in that order, and delivers a batch that exceeds every limit only for the first partition.

Start at `plan`, then `receive` and `take`. Looking up positions (`searches`, `found`) shares the same backoff and the
same table of reactions (`reactions.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from kafkaraw.core.cluster import BrokerNode, ClusterView
from kafkaraw.core.fetch.agenda import Agenda, knows_later_leader
from kafkaraw.core.fetch.committed import without_aborted
from kafkaraw.core.fetch.cutting import Cut, cut
from kafkaraw.core.fetch.ends import ends_of
from kafkaraw.core.fetch.failures import (
    is_final,
    is_unknown,
    left_out,
    no_position,
    truncated,
    where,
    why_no_leader,
)
from kafkaraw.core.fetch.plan import FetchPlan, FetchTarget
from kafkaraw.core.fetch.positions import LATEST_TIMESTAMP, NO_EPOCH, PartitionPosition, Standing, Start
from kafkaraw.core.fetch.reactions import Reaction, reaction_to
from kafkaraw.core.fetch.sessions import SESSION_ERRORS
from kafkaraw.core.fetch.waiting import Fetched, Waiting
from kafkaraw.core.retry import Backoff, RandomSource
from kafkaraw.errors import CorruptBatchError, KafkaError, RecordTooLargeError, UsageError
from kafkaraw.protocol.error_codes import ErrorCode, error_for
from kafkaraw.protocol.messages.fetch import AbortedTransaction, FetchResponse, PartitionData
from kafkaraw.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from kafkaraw.records import TopicPartition, Wire, batches_of

log = logging.getLogger(__name__)

_LENGTH_PREFIX_BYTES = 12


class Fetcher:
    """The partitions that a consumer reads, and what is known and wanted of each.

    Args:
        reset: gives the timestamp to start from without a position, or one of the marks; None: nowhere.
        backoff: pauses after failures.
        rng: jitter.
        replica_age_max_ms: how long a replica that a leader named is read from before the leader is asked again.

    Attributes:
        paused: partitions that are not asked for, and of which nothing is handed over; what waits of them stays.
        was_reached: whether a broker has ever returned records or an offset, or the group's coordinator an assignment.
            From then on, what fails in ways that may pass is an outage, and not a wrong address.
    """

    def __init__(
        self,
        reset: Callable[[], int | None],
        backoff: Backoff,
        rng: RandomSource,
        *,
        replica_age_max_ms: int = 300_000,
    ) -> None:
        self._reset = reset
        self._replica_age_max_ms = replica_age_max_ms
        self._backoff = backoff
        self._rng = rng
        self._positions: dict[TopicPartition, PartitionPosition] = {}
        self._waiting = Waiting()
        self._problems: dict[TopicPartition, KafkaError] = {}
        self._troubled: dict[TopicPartition, None] = {}  # all that have no position or an error, and some that had
        self.paused: set[TopicPartition] = set()
        self.was_reached = False
        self._agenda = Agenda(self._positions, self.paused, self._waiting)
        self._assignment: tuple[TopicPartition, ...] = ()

    # -- what the user decides

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that are read, in order."""
        return self._assignment

    def assign(
        self, topic_partitions: Iterable[TopicPartition], starts: Mapping[TopicPartition, Start] | None = None
    ) -> None:
        """Read exactly these; those that were read before keep their positions.

        Args:
            topic_partitions: what to read.
            starts: where those begin that are new and have one; it need not be looked up.
        """
        starts = starts or {}
        wanted = dict.fromkeys(topic_partitions)
        for gone in [of for of in self._positions if of not in wanted]:
            del self._positions[gone]
            self._drop(gone)
            self.paused.discard(gone)
        for of in wanted:
            position = self._positions.get(of)
            if position is None:
                position = self._positions[of] = PartitionPosition(of, touched=self._agenda.touched)
                if of in starts:
                    position.seek(*starts[of])
            timestamp = self._reset() if position.standing is Standing.LOST else None
            if timestamp is not None:
                position.seek_to(timestamp)
            elif position.standing is Standing.LOST:
                self._troubled[of] = None
                self._agenda.touch(of)
        self._assignment = tuple(sorted(self._positions))
        self._agenda.assigned()

    def pause(self, topic_partition: TopicPartition) -> None:
        """Neither ask for it nor hand anything of it over, until it is resumed.

        Raises:
            UsageError: it is not assigned.
        """
        self.position(topic_partition)
        self.paused.add(topic_partition)
        self._waiting.lay_aside(topic_partition)
        self._agenda.touch(topic_partition)

    def resume(self, topic_partition: TopicPartition) -> None:
        """Go on with a partition that was paused.

        Raises:
            UsageError: it is not assigned.
        """
        self.position(topic_partition)
        self.paused.discard(topic_partition)
        self._waiting.bring_back(topic_partition)
        self._agenda.touch(topic_partition)

    def seek(self, topic_partition: TopicPartition, offset: int, leader_epoch: int = NO_EPOCH) -> None:
        """Go on at an offset; the record before it was written in that leader epoch."""
        self._jumping(topic_partition).seek(offset, leader_epoch)

    def seek_to(self, topic_partition: TopicPartition, timestamp: int) -> None:
        """Go on where a timestamp is."""
        self._jumping(topic_partition).seek_to(timestamp)

    def position(self, topic_partition: TopicPartition) -> PartitionPosition:
        """Where one partition stands.

        Raises:
            UsageError: it is not assigned.
        """
        position = self._positions.get(topic_partition)
        if position is None:
            name = f"{topic_partition.topic}-{topic_partition.partition}"
            raise UsageError(f"partition {name} is not assigned to this consumer; call assign() with it first")
        return position

    def positions(self, only: Iterable[TopicPartition] | None = None) -> list[tuple[TopicPartition, PartitionPosition]]:
        """Where every partition stands, or those of some that are assigned; for any thread to ask."""
        if only is None:
            return list(self._positions.items())
        return [(of, position) for of in only if (position := self._positions.get(of)) is not None]

    def moved(self) -> dict[TopicPartition, None]:
        """The partitions whose position may be another one than when this was asked last."""
        return self._agenda.take_moved()

    # -- looking up positions

    def searches(self, now_ms: int) -> dict[TopicPartition, tuple[int, int]]:
        """Positions to look up now: timestamp and generation by partition."""
        return {
            topic_partition: (position.search_timestamp, position.generation)
            for topic_partition, position in self._positions.items()
            if position.standing is Standing.SEARCHING and position.retry_at_ms <= now_ms
        }

    def found(
        self, topic_partition: TopicPartition, generation: int, offset: int, leader_epoch: int = NO_EPOCH
    ) -> None:
        """A look-up gave an offset and its epoch; -1 when all records are older than that: go to the end."""
        position = self._positions.get(topic_partition)
        self.was_reached = True
        if position is not None and position.generation == generation:
            if offset < 0:
                position.seek_to(LATEST_TIMESTAMP)
            else:
                position.seek(offset, leader_epoch)

    def search_failed(self, topic_partition: TopicPartition, generation: int, error: KafkaError, now_ms: int) -> None:
        """A look-up went wrong."""
        position = self._positions.get(topic_partition)
        if position is not None and position.generation == generation:
            self._failed(position, error, now_ms)

    def has_errand(self, cluster: ClusterView, now_ms: int) -> bool:
        """Whether a leader or a position has to be found: the next three, without a list of what it is."""
        self._agenda.look(cluster, now_ms)
        return bool(self._agenda.errands)

    def without_leader(self, cluster: ClusterView, now_ms: int) -> set[str]:
        """Topics whose metadata lack a leader that is needed now."""
        return {
            topic_partition.topic
            for topic_partition, position in self._positions.items()
            if position.retry_at_ms <= now_ms and cluster.leader_of(topic_partition) is None
        }

    def behind(self, cluster: ClusterView) -> set[str]:
        """Topics of which somebody has seen a later leader than the metadata know."""
        return {of.topic for of, position in self._positions.items() if knows_later_leader(position, cluster)}

    def still_behind(self, cluster: ClusterView) -> None:
        """New metadata do not know of that leader either: then what was said about it cannot be checked."""
        for position in self._positions.values():
            if knows_later_leader(position, cluster):
                position.learn_epoch(NO_EPOCH)

    def errand_failed(self, error: KafkaError, cluster: ClusterView, now_ms: int) -> None:
        """Leaders and positions could not even be asked for."""
        for topic_partition, position in self._positions.items():
            unknown = position.standing is Standing.SEARCHING or cluster.leader_of(topic_partition) is None
            if unknown and position.retry_at_ms <= now_ms:
                self._failed(position, error, now_ms)

    def still_without_leader(self, topics: Collection[str], cluster: ClusterView, now_ms: int) -> None:
        """A refresh did not bring the leaders that were missing."""
        for topic_partition, position in self._positions.items():
            if topic_partition.topic in topics and cluster.leader_of(topic_partition) is None:
                self._failed(position, why_no_leader(topic_partition, cluster), now_ms)

    # -- fetching

    def plan(self, cluster: ClusterView, now_ms: int, busy: Collection[int]) -> list[FetchPlan]:
        """What to ask now, one request per broker.

        Args:
            cluster: says who leads.
            now_ms: the time.
            busy: brokers that still owe an answer.
        """
        self._agenda.look(cluster, now_ms)
        full = self._waiting.node_ids | set(busy)
        return [
            session.plan(node_id)
            for node_id, session in self._agenda.sessions.items()
            if session.targets and node_id not in full
        ]

    def is_wanted(self, plan: FetchPlan) -> bool:
        """Whether the answer to a request on its way will be of any use, or everything in it has moved since."""
        positions = self._positions
        return any(
            (position := positions.get(target.topic_partition)) is not None and position.generation == target.generation
            for target in plan.asked.values()
        )

    def unchecked(self, plan: FetchPlan, cluster: ClusterView) -> list[FetchTarget]:
        """What a leader must be asked about before it is fetched, where the Fetch itself cannot: see `ends.py`."""
        return [
            target
            for target in plan.asked.values()
            if (position := self._current(target)) is not None
            and target.last_epoch >= 0
            and target.leader_epoch not in (NO_EPOCH, position.checked_epoch)
            and cluster.leader_of(target.topic_partition) == plan.node_id
        ]

    def checked(
        self, targets: Iterable[FetchTarget], response: OffsetForLeaderEpochResponse, cluster: ClusterView, now_ms: int
    ) -> set[str]:
        """Take in where epochs end.

        Returns:
            topics whose metadata must be refreshed before trying again.
        """
        ends, refresh = ends_of(response), set()
        for target in targets:
            position, end = self._current(target), ends.get(target.topic_partition)
            if position is None:
                continue
            if end is None:
                self._failed(position, left_out(target, cluster.leader_of(target.topic_partition)), now_ms)
            elif end.error_code:
                topic = target.topic_partition.topic
                error = error_for(end.error_code, where(target), resource=topic, operation="DESCRIBE")
                self._failed(position, error, now_ms)
                refresh |= {topic} if reaction_to(end.error_code) is Reaction.REFRESH else set()
            elif end.leader_epoch < 0 or end.end_offset < 0:
                self._out_of_range(position)
            else:
                position.checked_epoch = target.leader_epoch
                self._parted(position, target, end.leader_epoch, end.end_offset)
        return refresh

    def abandon(self, plan: FetchPlan) -> None:
        """A planned request is not sent."""
        if plan.in_session:
            self._agenda.sessions[plan.node_id].failed()

    def receive(self, plan: FetchPlan, response: FetchResponse, cluster: ClusterView, now_ms: int) -> set[str]:
        """Take in an answer.

        Returns:
            topics whose metadata must be refreshed before trying again.
        """
        if plan.in_session:
            self._agenda.sessions[plan.node_id].answered(response)
        if response.error_code:
            if response.error_code in SESSION_ERRORS and not plan.is_full:
                log.info("fetch session with broker %d is over (error %d)", plan.node_id, response.error_code)
                return set()  # everything is said anew at once
            self._all_failed(plan, error_for(response.error_code, f"fetch from broker {plan.node_id}"), now_ms)
            return set()
        cluster.add_brokers(BrokerNode(n.node_id, n.host, n.port, n.rack) for n in response.node_endpoints)
        refresh: set[str] = set()
        answered: set[TopicPartition] = set()
        for topic in response.responses:
            name = topic.topic or plan.names.get(topic.topic_id, "")
            for data in topic.partitions:
                of = TopicPartition(name, data.partition_index)
                target = plan.asked.get(of)
                if target is None or of in answered:
                    continue
                answered.add(of)
                if self._take_in(plan.node_id, target, data, cluster, now_ms):
                    refresh.add(name)
        if plan.is_full and len(answered) < len(plan.asked):
            self._miss((target for of, target in plan.asked.items() if of not in answered), plan.node_id, now_ms)
        return refresh

    def _miss(self, targets: Iterable[FetchTarget], node_id: int, now_ms: int) -> None:
        for target in targets:
            position = self._current(target)
            if position is not None:
                self._failed(position, left_out(target, node_id), now_ms)

    def fetch_failed(self, plan: FetchPlan, error: KafkaError, now_ms: int) -> bool:
        """A request got no answer.

        Returns:
            whether that is news: for one of its partitions it is the first failure in a row.
        """
        if plan.in_session:
            self._agenda.sessions[plan.node_id].failed()
        return self._all_failed(plan, error, now_ms)

    def _all_failed(self, plan: FetchPlan, error: KafkaError, now_ms: int) -> bool:
        positions = [position for target in plan.asked.values() if (position := self._current(target)) is not None]
        is_news = any(not position.failures_count for position in positions)
        for position in positions:
            position.leave_replica()
            self._failed(position, error, now_ms)
        return is_news

    @property
    def has_records(self) -> bool:
        """Whether `take` has something to look at."""
        return bool(self._waiting)

    def take(self) -> list[Cut]:
        """Hand over what waits, and move the positions behind it."""
        cuts = [self._cut(of, fetched) for of, fetched in self._waiting.take()]
        return [piece for piece in cuts if piece.records_count]

    def give_back(self, cuts: Iterable[Cut]) -> None:
        """What was taken did not reach the user: go back to where it began."""
        for piece in cuts:
            position = self._positions.get(piece.topic_partition)
            if position is not None and position.offset == piece.next_offset:
                self.seek(piece.topic_partition, piece.start_offset, position.epoch_before(piece.start_offset))

    # -- what the user must hear

    def problem(self, now_ms: int, *, patience_ms: int, unknown_patience_ms: int) -> KafkaError | None:
        """The error to raise now, if any.

        Args:
            now_ms: the time.
            patience_ms: how long a partition may fail in ways that may pass, unless it `was_reached`.
            unknown_patience_ms: how long a topic or partition may be unknown: it may be that new.
        """
        for topic_partition in list(self._problems):
            return self._problems.pop(topic_partition)
        for topic_partition in list(self._troubled):
            position = self._positions.get(topic_partition)
            if position is not None and position.standing is Standing.LOST:
                return no_position(topic_partition)
            if position is None or position.error is None:
                del self._troubled[topic_partition]
                continue
            unknown = is_unknown(position.error)
            failing_ms = now_ms - position.failing_since_ms
            if failing_ms >= (unknown_patience_ms if unknown else patience_ms):
                position.failing_since_ms = now_ms
                if unknown or not self.was_reached:
                    return position.error
                log.warning(
                    "%s cannot be read, trying again: %s",
                    f"{topic_partition.topic}-{topic_partition.partition}",
                    position.error,
                )
        return None

    def retry_at_ms(self, now_ms: int) -> int | None:
        """When to look again though nothing has come, as after a pause; None when there is no such time."""
        return self._agenda.next_ms(now_ms)

    # -- inside

    def _jumping(self, topic_partition: TopicPartition) -> PartitionPosition:
        position = self.position(topic_partition)
        self._drop(topic_partition)
        return position

    def _drop(self, topic_partition: TopicPartition) -> None:
        self._waiting.drop(topic_partition)
        self._problems.pop(topic_partition, None)
        self._agenda.touch(topic_partition)

    def _current(self, target: FetchTarget) -> PartitionPosition | None:
        """The position that a target was about, unless it has moved since."""
        position = self._positions.get(target.topic_partition)
        if position is None or (position.generation, position.offset) != (target.generation, target.offset):
            return None
        return None if target.topic_partition in self._waiting else position

    def _take_in(
        self, node_id: int, target: FetchTarget, data: PartitionData, cluster: ClusterView, now_ms: int
    ) -> bool:
        """Take in one partition's part of an answer; says whether the metadata must be refreshed."""
        position = self._current(target)
        if position is None:
            return False
        if data.error_code:
            return self._react(position, data, cluster, now_ms)
        position.worked()
        self.was_reached = True
        if data.diverging_epoch.end_offset >= 0:
            self._parted(position, target, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            return False
        if data.preferred_read_replica >= 0:
            position.read_from(data.preferred_read_replica, now_ms + self._replica_age_max_ms)
            self._agenda.look_at(position.topic_partition, position.replica_until_ms)
        position.learn_ends(data.high_watermark, data.last_stable_offset, data.log_start_offset)
        records = data.records
        if isinstance(records, memoryview) and len(records):
            try:
                self._keep(node_id, position, target, records, data.aborted_transactions or ())
            except (CorruptBatchError, RecordTooLargeError) as error:
                self._problem(position, error, now_ms)
        return False

    def _keep(
        self,
        node_id: int,
        position: PartitionPosition,
        target: FetchTarget,
        records: memoryview,
        aborted: Sequence[AbortedTransaction],
    ) -> None:
        try:
            wires = batches_of(records)
        except CorruptBatchError as error:
            raise CorruptBatchError(f"{where(target)}: {error}; seek() behind it to go on") from error
        if not wires:
            position.want(_size_of_first(target, records))
            return
        next_offset = wires[-1][0].next_offset
        if next_offset <= position.offset:
            raise CorruptBatchError(f"{where(target)}: the broker sent batches that end at offset {next_offset}")
        position.want(0)
        left = without_aborted(wires, aborted)
        fetched, of = Fetched(node_id, left, _epochs_in(wires), target.topic_id), target.topic_partition
        self._waiting.put(of, fetched, aside=of in self.paused)
        self._agenda.touch(of)

    def _cut(self, topic_partition: TopicPartition, fetched: Fetched) -> Cut:
        position = self._positions[topic_partition]
        piece = cut(topic_partition, fetched.wires, position.offset)
        position.advance(piece.next_offset, fetched.epochs, fetched.topic_id)
        return piece

    def _react(self, position: PartitionPosition, data: PartitionData, cluster: ClusterView, now_ms: int) -> bool:
        topic_partition = position.topic_partition
        reaction = reaction_to(data.error_code)
        if position.leave_replica() and reaction is Reaction.RESET:
            return False  # the leader may have what the replica has not, or not yet
        if reaction is Reaction.RESET:
            has = f"; the broker has {data.log_start_offset} to {data.high_watermark}"
            self._out_of_range(position, has if data.log_start_offset >= 0 else "")
            return False
        hint = data.current_leader
        if cluster.update_leader(topic_partition, hint.leader_id, hint.leader_epoch):
            return False  # the answer named the new leader: go there at once (KIP-951)
        name = f"{topic_partition.topic}-{topic_partition.partition}"
        what = f"fetch of {name} at offset {position.offset}"
        error = error_for(data.error_code, what, resource=topic_partition.topic, operation="READ")
        self._failed(position, error, now_ms)
        return reaction is Reaction.REFRESH

    def _out_of_range(self, position: PartitionPosition, has: str = "") -> None:
        topic_partition, offset = position.topic_partition, position.offset
        name = f"{topic_partition.topic}-{topic_partition.partition}"
        timestamp = self._reset()
        if timestamp is None:
            self._lose(position)
            text = f"offset {offset} of {name} is not there{has}; seek(), or set auto_offset_reset"
            self._problems[topic_partition] = error_for(ErrorCode.OFFSET_OUT_OF_RANGE, text)
            return
        log.warning("offset %d of %s is not there%s: going on as auto_offset_reset says", offset, name, has)
        position.seek_to(timestamp)

    def _parted(self, position: PartitionPosition, target: FetchTarget, epoch: int, end_offset: int) -> None:
        """The leader's log has records of that epoch, and none of later ones up to ours, and they end there (KIP-320).

        When that is before the position the log parts from what was read: go back, or have the user told. Else nothing
        is lost, as when the leader of the epoch that was known wrote nothing in it.
        """
        if end_offset >= position.offset:
            if epoch != target.last_epoch:
                position.learn_epoch(epoch)
            return
        error = truncated(target, end_offset)
        if self._reset() is None:
            self._lose(position)
            self._problems[position.topic_partition] = error
            return
        log.warning("%s; going on there", error)
        position.seek(end_offset, epoch)

    def _lose(self, position: PartitionPosition) -> None:
        position.lose()
        self._troubled[position.topic_partition] = None

    def _failed(self, position: PartitionPosition, error: KafkaError, now_ms: int) -> None:
        delay_ms = round(self._backoff.delay_ms(position.failures_count, self._rng))
        before = position.error
        position.failed(error, now_ms, delay_ms)
        if before is not None and is_unknown(error) != is_unknown(before):
            position.failing_since_ms = now_ms  # a topic that is unknown after an outage was not unknown during it
        self._agenda.look_at(position.topic_partition, position.retry_at_ms)
        self._troubled[position.topic_partition] = None
        if is_final(error):
            self._problems[position.topic_partition] = error

    def _problem(self, position: PartitionPosition, error: KafkaError, now_ms: int) -> None:
        self._failed(position, error, now_ms)
        self._problems[position.topic_partition] = error


def _epochs_in(wires: Iterable[Wire]) -> list[tuple[int, int]]:
    """The leader epochs in which batches were written, each with the first offset of it."""
    epochs: list[tuple[int, int]] = []
    epoch = None
    for header, _ in wires:
        if header.partition_leader_epoch != epoch:
            epoch = header.partition_leader_epoch
            epochs.append((header.base_offset, epoch))
    return epochs


def _size_of_first(target: FetchTarget, records: memoryview) -> int:
    """How large the first batch is, of which only a part came: brokers before KIP-74 cut it at the limit."""
    if len(records) < _LENGTH_PREFIX_BYTES:
        return 2 * max(_LENGTH_PREFIX_BYTES, target.size_wanted_bytes)
    size = int.from_bytes(records[8:_LENGTH_PREFIX_BYTES], "big", signed=True) + _LENGTH_PREFIX_BYTES
    if size <= target.size_wanted_bytes:
        raise RecordTooLargeError(
            f"{where(target)}: the broker sends {len(records)} of the {size} bytes of a batch, however many are asked "
            f"for; raise its limit for fetches (fetch.max.bytes), or seek() behind the batch"
        )
    return size
