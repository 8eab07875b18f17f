"""Which partitions to ask which broker for, and what the answers mean. Pure; times are passed in.

At most one Fetch is on its way to a broker, and only while the buffer has nothing of that broker's last response:
memory is bounded by one response per broker. When a call takes what the buffer has, positions move on and the next
Fetch can go out at once, before the caller has looked at the first record.

Where each partition is, is in `SubscriptionState`; what each needs next is in the fetch schedule (`schedule.py`), which
looks only at partitions about which something has changed: a response costs as much as it says, however many partitions
are assigned.

Partitions are asked for in an order that rotates: one that just gave records goes to the end. It matters, because a
broker fills its response in that order, and delivers a batch that exceeds every limit only for the first partition.

`complete` makes one `Batch` of what a broker sends for a partition: whole wire batches from the one that holds the
position on, up to the last stable offset, with those of aborted transactions; brokers before KIP-74 cut the last one.
No record is decoded, so damaged records are found when they are read.

Start at `Fetcher.plan` and `Fetcher.receive`. Lookups of leaders and positions (`offset_lookups`, `offset_found`) share
the same backoff and the same table of reactions (`failures.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from kafkaraw.core.cluster import BrokerNode, ClusterView
from kafkaraw.core.fetch.failures import (
    Reaction,
    is_final,
    is_unknown,
    left_out,
    name_of,
    no_position,
    reaction_to,
    truncated,
    where,
    why_no_leader,
)
from kafkaraw.core.fetch.offsets import LATEST_TIMESTAMP, NO_EPOCH, epoch_starts_of
from kafkaraw.core.fetch.requests import FetchPlan, FetchTarget, epoch_ends_of
from kafkaraw.core.fetch.schedule import SESSION_ERRORS, FetchSchedule, knows_later_leader
from kafkaraw.core.fetch.subscription_state import CompletedFetch, FetchState, PartitionState, SubscriptionState
from kafkaraw.core.retry import Backoff, RandomSource
from kafkaraw.errors import CorruptBatchError, KafkaError, RecordTooLargeError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol.error_codes import ErrorCode, error_for
from kafkaraw.protocol.messages.fetch import AbortedTransaction, FetchResponse, PartitionData
from kafkaraw.records import (
    Batch,
    ControlType,
    TopicPartition,
    Wire,
    batches_of,
    control_type_of,
    emptied,
    parse_header,
)

if TYPE_CHECKING:
    from kafkaraw.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse

log: logging.Logger = logging.getLogger(__name__)

_LENGTH_PREFIX_BYTES: Final = 12


class MakeBatch(Protocol):
    """Makes the batch that the caller is given; a consumer adds its deserializers and interceptors."""

    def __call__(self, topic: str, partition: int, data: Sequence[Wire], /, *, start_offset: int) -> Batch:
        """Make one of wire batches with their headers; records before `start_offset` are not given."""


class _Problem(NamedTuple):
    """An error that the next call raises, unless the partition has been given another position since."""

    partition: PartitionState
    generation: int
    error: KafkaError


class Fetcher:
    """Fetches the partitions of a consumer.

    Args:
        subscriptions: where each partition is.
        make_batch: makes the batches that the caller is given.
        backoff: pauses after failures.
        rng: jitter.
        replica_age_max_ms: how long a replica that a leader named is read from before the leader is asked again.

    Attributes:
        was_reached: whether a broker has ever returned records or an offset, or the group's coordinator an assignment.
            From then on, what fails in ways that may pass is an outage, and not a wrong address.
    """

    def __init__(
        self,
        subscriptions: SubscriptionState,
        make_batch: MakeBatch,
        backoff: Backoff,
        rng: RandomSource,
        *,
        replica_age_max_ms: int = 300_000,
    ) -> None:
        self._subscriptions = subscriptions
        self._make_batch = make_batch
        self._backoff = backoff
        self._rng = rng
        self._replica_age_max_ms = replica_age_max_ms
        self._schedule = FetchSchedule(subscriptions)
        self._problems: dict[TopicPartition, _Problem] = {}
        self.was_reached: bool = False

    # -- lookups of leaders and positions

    def has_pending_lookup(self, cluster: ClusterView, now_ms: int) -> bool:
        """Whether a leader or a position has to be looked up now, without a list of what it is."""
        self._schedule.look(cluster, now_ms)
        return bool(self._schedule.lookups)

    def offset_lookups(self, now_ms: int) -> dict[TopicPartition, tuple[int, int]]:
        """Return the positions to look up now: timestamp and generation by partition."""
        return {
            partition.topic_partition: (partition.reset_timestamp, partition.generation)
            for partition in self._subscriptions.partitions()
            if partition.fetch_state is FetchState.AWAIT_RESET and partition.retry_at_ms <= now_ms
        }

    def offset_found(
        self, topic_partition: TopicPartition, generation: int, offset: int, leader_epoch: int = NO_EPOCH
    ) -> None:
        """A lookup returned an offset and its epoch; -1 when all records are older than that: go to the end."""
        partition = self._subscriptions.get(topic_partition)
        self.was_reached = True
        if partition is not None and partition.generation == generation:
            if offset < 0:
                partition.request_reset(LATEST_TIMESTAMP)
            else:
                partition.seek(offset, leader_epoch)

    def offset_lookup_failed(
        self, topic_partition: TopicPartition, generation: int, error: KafkaError, now_ms: int
    ) -> None:
        """A lookup failed."""
        partition = self._subscriptions.get(topic_partition)
        if partition is not None and partition.generation == generation:
            self._failed(partition, error, now_ms)

    def without_leader(self, cluster: ClusterView, now_ms: int) -> set[str]:
        """Return the topics whose metadata lack a leader that is needed now."""
        return {
            partition.topic_partition.topic
            for partition in self._subscriptions.partitions()
            if partition.retry_at_ms <= now_ms and cluster.leader_of(partition.topic_partition) is None
        }

    def behind(self, cluster: ClusterView) -> set[str]:
        """Return the topics of which a later leader epoch was seen than the metadata have."""
        partitions = self._subscriptions.partitions()
        return {it.topic_partition.topic for it in partitions if knows_later_leader(it, cluster)}

    def still_behind(self, cluster: ClusterView) -> None:
        """New metadata do not have that epoch either: then what was said about it cannot be checked."""
        for partition in self._subscriptions.partitions():
            if knows_later_leader(partition, cluster):
                partition.learn_epoch(NO_EPOCH)

    def still_without_leader(self, topics: Collection[str], cluster: ClusterView, now_ms: int) -> None:
        """A refresh did not bring the leaders that were missing."""
        for partition in self._subscriptions.partitions():
            of = partition.topic_partition
            if of.topic in topics and cluster.leader_of(of) is None:
                self._failed(partition, why_no_leader(of, cluster), now_ms)

    def lookups_failed(self, error: KafkaError, cluster: ClusterView, now_ms: int) -> None:
        """Leaders and positions could not even be asked for."""
        for partition in self._subscriptions.partitions():
            is_pending = partition.fetch_state is FetchState.AWAIT_RESET
            is_pending = is_pending or cluster.leader_of(partition.topic_partition) is None
            if is_pending and partition.retry_at_ms <= now_ms:
                self._failed(partition, error, now_ms)

    # -- fetching

    def plan(self, cluster: ClusterView, now_ms: int, busy: Collection[int]) -> list[FetchPlan]:
        """Return what to ask now, one request per broker.

        Args:
            cluster: the metadata.
            now_ms: the time.
            busy: brokers that still owe a response.
        """
        self._schedule.look(cluster, now_ms)
        full = self._subscriptions.buffer.node_ids | set(busy)
        return [
            session.plan(node_id)
            for node_id, session in self._schedule.sessions.items()
            if session.targets and node_id not in full
        ]

    def is_wanted(self, plan: FetchPlan) -> bool:
        """Whether the answer to a request on its way will be of any use, or everything in it has moved since."""
        get = self._subscriptions.get
        return any(
            (partition := get(target.topic_partition)) is not None and partition.generation == target.generation
            for target in plan.asked.values()
        )

    def abandon(self, plan: FetchPlan) -> None:
        """A planned request is not sent."""
        if plan.in_session:
            self._schedule.sessions[plan.node_id].failed()

    def receive(self, plan: FetchPlan, response: FetchResponse, cluster: ClusterView, now_ms: int) -> set[str]:
        """Take in a response.

        Returns:
            topics whose metadata must be refreshed before trying again.
        """
        if plan.in_session:
            self._schedule.sessions[plan.node_id].answered(response)
        if response.error_code:
            if response.error_code in SESSION_ERRORS and not plan.is_full:
                log.info("fetch session with broker %d has ended (error %d)", plan.node_id, response.error_code)
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
                if self._receive_partition(plan.node_id, target, data, cluster, now_ms):
                    refresh.add(name)
        if plan.is_full and len(answered) < len(plan.asked):
            missing = (target for of, target in plan.asked.items() if of not in answered)
            self._left_out(missing, plan.node_id, now_ms)
        return refresh

    def fetch_failed(self, plan: FetchPlan, error: KafkaError, now_ms: int) -> bool:
        """A request got no response.

        Returns:
            whether that is news: for one of its partitions it is the first failure in a row.
        """
        if plan.in_session:
            self._schedule.sessions[plan.node_id].failed()
        return self._all_failed(plan, error, now_ms)

    # -- validation of positions by leaders whose Fetch does not detect log divergence

    def unvalidated(self, plan: FetchPlan, cluster: ClusterView) -> list[FetchTarget]:
        """Return what a leader must be asked about before it is fetched; see `requests.must_validate`."""
        return [
            target
            for target in plan.asked.values()
            if (partition := self._current(target)) is not None
            and target.last_epoch >= 0
            and target.leader_epoch not in (NO_EPOCH, partition.validated_epoch)
            and cluster.leader_of(target.topic_partition) == plan.node_id
        ]

    def validated(
        self, targets: Iterable[FetchTarget], response: OffsetForLeaderEpochResponse, cluster: ClusterView, now_ms: int
    ) -> set[str]:
        """Take in where epochs end.

        Returns:
            topics whose metadata must be refreshed before trying again.
        """
        ends, refresh = epoch_ends_of(response), set()
        for target in targets:
            partition, end = self._current(target), ends.get(target.topic_partition)
            if partition is None:
                continue
            if end is None:
                self._failed(partition, left_out(target, cluster.leader_of(target.topic_partition)), now_ms)
            elif end.error_code:
                topic = target.topic_partition.topic
                error = error_for(end.error_code, where(target), resource=topic, operation="DESCRIBE")
                self._failed(partition, error, now_ms)
                refresh |= {topic} if reaction_to(end.error_code) is Reaction.REFRESH else set()
            elif end.leader_epoch < 0 or end.end_offset < 0:
                self._out_of_range(partition)
            else:
                partition.validated_epoch = target.leader_epoch
                self._diverged(partition, target, end.leader_epoch, end.end_offset)
        return refresh

    # -- errors for the caller

    def problem(self, now_ms: int, *, patience_ms: int, unknown_patience_ms: int) -> KafkaError | None:
        """Return the error to raise now, if any.

        Args:
            now_ms: the time.
            patience_ms: how long a partition may fail in ways that may pass, unless it `was_reached`.
            unknown_patience_ms: how long a topic or partition may be unknown: it may be that new.
        """
        while self._problems:
            partition, generation, error = self._problems.pop(next(iter(self._problems)))
            if self._subscriptions.get(partition.topic_partition) is partition and partition.generation == generation:
                return error
        unready = self._subscriptions.unready
        for topic_partition in list(unready):
            found = self._subscriptions.get(topic_partition)
            if found is not None and found.fetch_state is FetchState.INITIALIZING:
                return no_position(topic_partition)
            if found is None or found.error is None:
                del unready[topic_partition]
                continue
            unknown = is_unknown(found.error)
            if now_ms - found.failing_since_ms >= (unknown_patience_ms if unknown else patience_ms):
                found.failing_since_ms = now_ms
                if unknown or not self.was_reached:
                    return found.error
                log.warning("%s cannot be fetched, retrying: %s", name_of(topic_partition), found.error)
        return None

    def retry_at_ms(self, now_ms: int) -> int | None:
        """Return when to look again though no answer has come, as after a pause; None when there is no such time."""
        return self._schedule.next_ms(now_ms)

    # -- inside: one partition of a response

    def _current(self, target: FetchTarget) -> PartitionState | None:
        """Return the partition that a target was about, unless its position has changed since."""
        partition = self._subscriptions.get(target.topic_partition)
        if partition is None or (partition.generation, partition.offset) != (target.generation, target.offset):
            return None
        return None if target.topic_partition in self._subscriptions.buffer else partition

    def _receive_partition(
        self, node_id: int, target: FetchTarget, data: PartitionData, cluster: ClusterView, now_ms: int
    ) -> bool:
        """Take in one partition's part of a response; returns whether the metadata must be refreshed."""
        partition = self._current(target)
        if partition is None:
            return False
        if data.error_code:
            return self._react(partition, data, cluster, now_ms)
        partition.succeeded()
        self.was_reached = True
        if data.diverging_epoch.end_offset >= 0:
            self._diverged(partition, target, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            return False
        if data.preferred_read_replica >= 0:
            partition.prefer_replica(data.preferred_read_replica, now_ms + self._replica_age_max_ms)
            self._schedule.recheck_at(partition.topic_partition, partition.replica_until_ms)
        partition.learn_ends(data.high_watermark, data.last_stable_offset, data.log_start_offset)
        records = data.records
        if isinstance(records, memoryview) and len(records):
            try:
                fetch = complete(node_id, target, records, data.aborted_transactions or (), self._make_batch)
            except (CorruptBatchError, RecordTooLargeError) as error:
                self._failed(partition, error, now_ms)
                self._raise_soon(partition, error)
            else:
                self._keep(partition, fetch)
        return False

    def _keep(self, partition: PartitionState, fetch: CompletedFetch | int) -> None:
        if isinstance(fetch, int):
            partition.want_bytes(fetch)
            return
        partition.want_bytes(0)
        of, subscriptions = partition.topic_partition, self._subscriptions
        subscriptions.buffer.put(of, fetch, is_paused=of in subscriptions.paused)
        subscriptions.changed[of] = None

    def _react(self, partition: PartitionState, data: PartitionData, cluster: ClusterView, now_ms: int) -> bool:
        of = partition.topic_partition
        reaction = reaction_to(data.error_code)
        if partition.clear_preferred_replica() and reaction is Reaction.RESET:
            return False  # the leader may have what the replica has not, or not yet
        if reaction is Reaction.RESET:
            has = f"; the broker has {data.log_start_offset} to {data.high_watermark}"
            self._out_of_range(partition, has if data.log_start_offset >= 0 else "")
            return False
        hint = data.current_leader
        if cluster.update_leader(of, hint.leader_id, hint.leader_epoch):
            return False  # the answer named the new leader: go there at once (KIP-951)
        what = f"fetch of {name_of(of)} at offset {partition.offset}"
        error = error_for(data.error_code, what, resource=of.topic, operation="READ")
        self._failed(partition, error, now_ms)
        return reaction is Reaction.REFRESH

    def _out_of_range(self, partition: PartitionState, has: str = "") -> None:
        offset, name = partition.offset, name_of(partition.topic_partition)
        if self._subscriptions.request_reset(partition):
            log.warning(
                "offset %d of %s is out of range%s: resetting the position by auto_offset_reset", offset, name, has
            )
            return
        text = f"offset {offset} of {name} is not there{has}; seek(), or set auto_offset_reset"
        self._raise_soon(partition, error_for(ErrorCode.OFFSET_OUT_OF_RANGE, text))

    def _diverged(self, partition: PartitionState, target: FetchTarget, epoch: int, end_offset: int) -> None:
        """The leader's log has records of that epoch, and none of later ones up to ours, and they end there (KIP-320).

        If that is before the position, the log was truncated: go back, or raise it. Otherwise nothing is lost, as when
        the leader of the epoch that was known wrote nothing in it.
        """
        if end_offset >= partition.offset:
            if epoch != target.last_epoch:
                partition.learn_epoch(epoch)
            return
        error = truncated(target, end_offset)
        if self._subscriptions.has_reset_policy:
            log.warning("%s; continuing there", error)
            partition.seek(end_offset, epoch)
        else:
            self._subscriptions.lose_position(partition)
            self._raise_soon(partition, error)

    # -- inside: failures

    def _left_out(self, targets: Iterable[FetchTarget], node_id: int, now_ms: int) -> None:
        for target in targets:
            partition = self._current(target)
            if partition is not None:
                self._failed(partition, left_out(target, node_id), now_ms)

    def _all_failed(self, plan: FetchPlan, error: KafkaError, now_ms: int) -> bool:
        partitions = [it for target in plan.asked.values() if (it := self._current(target)) is not None]
        is_news = any(not partition.failures_count for partition in partitions)
        for partition in partitions:
            partition.clear_preferred_replica()
            self._failed(partition, error, now_ms)
        return is_news

    def _failed(self, partition: PartitionState, error: KafkaError, now_ms: int) -> None:
        delay_ms = round(self._backoff.delay_ms(partition.failures_count, self._rng))
        before = partition.error
        partition.failed(error, now_ms, delay_ms)
        if before is not None and is_unknown(error) != is_unknown(before):
            partition.failing_since_ms = now_ms  # a topic that is unknown after an outage was not unknown during it
        self._schedule.recheck_at(partition.topic_partition, partition.retry_at_ms)
        self._subscriptions.unready[partition.topic_partition] = None
        if is_final(error):
            self._raise_soon(partition, error)

    def _raise_soon(self, partition: PartitionState, error: KafkaError) -> None:
        self._problems[partition.topic_partition] = _Problem(partition, partition.generation, error)


def complete(
    node_id: int,
    target: FetchTarget,
    records: memoryview,
    aborted: Sequence[AbortedTransaction],
    make_batch: MakeBatch,
) -> CompletedFetch | int:
    """Make a batch of what a broker sent for a partition.

    Args:
        node_id: the broker.
        target: what was asked for.
        records: what was sent, not empty.
        aborted: transactions that were aborted, as the broker lists them for a read_committed consumer.
        make_batch: makes the batch.

    Returns:
        the batch; or, if not even the first wire batch is whole, the bytes to ask for to get all of it.

    Raises:
        CorruptBatchError: a header is damaged, or the batches end before the offset that was asked for.
        RecordTooLargeError: the broker cuts the first wire batch however many bytes are asked for.
    """
    try:
        wires = batches_of(records)
    except CorruptBatchError as error:
        raise CorruptBatchError(f"{where(target)}: {error}; seek() behind it to continue") from error
    if not wires:
        return _size_of_first(target, records)
    next_offset = wires[-1][0].next_offset
    if next_offset <= target.offset:
        raise CorruptBatchError(f"{where(target)}: the broker sent batches that end at offset {next_offset}")
    epochs = epoch_starts_of(header for header, _ in wires)
    left = without_aborted(wires, aborted)
    begin = next(index for index, (header, _) in enumerate(left) if header.next_offset > target.offset)
    topic, partition = target.topic_partition
    batch = make_batch(topic, partition, left[begin:] if begin else left, start_offset=target.offset)
    return CompletedFetch(node_id, batch, epochs, target.topic_id)


def without_aborted(wires: Sequence[Wire], aborted: Sequence[AbortedTransaction]) -> Sequence[Wire]:
    """Replace the batches of aborted transactions by empty ones, so that no reader has to know of transactions.

    Args:
        wires: whole wire batches with their headers.
        aborted: the transactions that end in an abort, with the first offset of each; in any order.

    Raises:
        CorruptBatchError: a header or a marker makes no sense.
    """
    if not aborted:
        return wires
    coming = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    aborting: set[int] = set()  # producer ids
    left: list[Wire] = []
    for header, batch in wires:
        while coming and coming[-1].first_offset <= header.last_offset:
            aborting.add(coming.pop().producer_id)
        if header.is_control:
            if header.producer_id in aborting and control_type_of(batch) is ControlType.ABORT:
                aborting.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in aborting:
            empty = memoryview(emptied(header))
            left.append((parse_header(empty), empty))
            continue
        left.append((header, batch))
    return left


def _size_of_first(target: FetchTarget, records: memoryview) -> int:
    """Return the size of the first wire batch, of which only the beginning came."""
    if len(records) < _LENGTH_PREFIX_BYTES:
        return 2 * max(_LENGTH_PREFIX_BYTES, target.size_wanted_bytes)
    size = int.from_bytes(records[8:_LENGTH_PREFIX_BYTES], "big", signed=True) + _LENGTH_PREFIX_BYTES
    if size <= target.size_wanted_bytes:
        raise RecordTooLargeError(
            f"{where(target)}: the broker sends {len(records)} of the {size} bytes of a batch, however many are asked "
            f"for; raise its limit for fetches (fetch.max.bytes), or seek() behind the batch"
        )
    return size
