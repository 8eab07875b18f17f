"""The fetch schedule: what each partition needs next, decided anew only when something about it has changed. Pure.

A partition may have to be fetched from a node, may have a pending lookup (of its leader or of its position), both, or
neither. `need_of` says which, from everything that is known about the partition. `FetchSchedule` keeps the answers, by
node, so that a response about one partition of thousands costs one call of `need_of`. It calls it again when something
that the answer depends on has changed:

- the partition's state, its pause or its buffer: `SubscriptionState.changed` names it,
- the metadata of its topic, or the brokers: `look` compares them with what it saw last,
- the time, as at the end of a pause after a failure: `look_at`.

Times are passed in. Start at `look`. A test compares the schedule with a look at every partition.
"""

from __future__ import annotations

import heapq

from kafkaraw.core.cluster import BrokerNode, ClusterView, TopicView
from kafkaraw.core.fetch.offsets import NO_EPOCH
from kafkaraw.core.fetch.requests import FetchTarget
from kafkaraw.core.fetch.sessions import FetchSession
from kafkaraw.core.fetch.subscription_state import FetchState, PartitionState, SubscriptionState
from kafkaraw.light_classes import NamedTuple
from kafkaraw.records import TopicPartition


class Need(NamedTuple):
    """What a partition needs next.

    Attributes:
        node_id: the node to fetch it from; None when it cannot or need not be fetched.
        target: how to fetch it.
        has_lookup: its leader or its position has to be looked up.
    """

    node_id: int | None
    target: FetchTarget | None
    has_lookup: bool


def need_of(partition: PartitionState, cluster: ClusterView, now_ms: int, *, is_held: bool) -> Need:
    """Return what a partition needs.

    Args:
        partition: its state.
        cluster: the metadata.
        now_ms: the time.
        is_held: it is paused, or the buffer has records of it.
    """
    of = partition.topic_partition
    view = cluster.partition(of)
    leader_id = None if view is None or view.leader_id not in cluster.brokers else view.leader_id
    is_behind = knows_later_leader(partition, cluster)
    if partition.retry_at_ms > now_ms:
        return Need(None, None, is_behind)
    has_lookup = is_behind or leader_id is None or partition.fetch_state is FetchState.AWAIT_RESET
    if is_behind or is_held or partition.fetch_state is not FetchState.FETCHING:
        return Need(None, None, has_lookup)
    node_id = partition.preferred_replica(now_ms)
    if node_id is None or node_id not in cluster.brokers:
        node_id = leader_id
    if node_id is None:
        return Need(None, None, has_lookup)
    topic_id = cluster.topic_id_of(of.topic)
    target = FetchTarget(
        topic_partition=of,
        topic_id=topic_id,
        offset=partition.offset,
        generation=partition.generation,
        leader_epoch=NO_EPOCH if view is None else view.leader_epoch,
        last_epoch=partition.last_epoch_in(topic_id),
        size_wanted_bytes=partition.size_wanted_bytes,
        is_fresh=partition.is_fresh,
    )
    return Need(node_id, target, has_lookup)


def knows_later_leader(partition: PartitionState, cluster: ClusterView) -> bool:
    """Whether records or answers have named a later leader epoch than the metadata do."""
    known = cluster.leader_epoch_of(partition.topic_partition)
    if partition.last_epoch <= known:  # nearly always
        return False
    return partition.last_epoch_in(cluster.topic_id_of(partition.topic_partition.topic)) > known >= 0


class FetchSchedule:
    """What all partitions of a consumer need next.

    Args:
        subscriptions: the partitions.

    Attributes:
        sessions: the fetch session with every node.
        lookups: the partitions with a pending lookup, as of the last look.
    """

    def __init__(self, subscriptions: SubscriptionState) -> None:
        self._subscriptions = subscriptions
        self.sessions: dict[int, FetchSession] = {}
        self.lookups: dict[TopicPartition, None] = {}
        self._node_ids: dict[TopicPartition, int] = {}  # where each is fetched from
        self._times: list[tuple[int, TopicPartition]] = []  # a heap
        self._assignment: tuple[TopicPartition, ...] | None = None
        self._topics: dict[str, list[TopicPartition]] = {}
        self._cluster: ClusterView | None = None
        self._changes_seen = -1
        self._views_seen: dict[str, TopicView | None] = {}
        self._brokers_seen: dict[int, BrokerNode] = {}

    def look_at(self, of: TopicPartition, at_ms: int) -> None:
        """The time will change what this partition needs."""
        heapq.heappush(self._times, (at_ms, of))

    def next_ms(self, now_ms: int) -> int | None:
        """Return when the time will change something next, as at the end of a pause; None when it will not."""
        times = self._times
        while times and not (times[0][0] > now_ms and self._is_awaited(*times[0])):
            self._subscriptions.changed[heapq.heappop(times)[1]] = None
        return times[0][0] if times else None

    def look(self, cluster: ClusterView, now_ms: int) -> None:
        """Look at every partition about which something may have changed."""
        if self._subscriptions.assignment is not self._assignment:
            self._sort_by_topic()
        if cluster is not self._cluster or cluster.changes != self._changes_seen:
            self._compare(cluster)
        changed = self._subscriptions.changed
        while self._times and self._times[0][0] <= now_ms:
            changed[heapq.heappop(self._times)[1]] = None
        if not changed:
            return
        for of in changed:
            self._place(of, cluster, now_ms)
        self._subscriptions.schedule_seen()

    # -- inside

    def _sort_by_topic(self) -> None:
        self._assignment = self._subscriptions.assignment
        self._topics = {}
        for of in self._assignment:
            self._topics.setdefault(of.topic, []).append(of)
        self._cluster = None  # topics may have come that were never looked at

    def _is_awaited(self, at_ms: int, of: TopicPartition) -> bool:
        partition = self._subscriptions.get(of)
        return partition is not None and at_ms in (partition.retry_at_ms, partition.replica_until_ms)

    def _compare(self, cluster: ClusterView) -> None:
        """Find the partitions of which the metadata say something else than they did."""
        is_other = cluster is not self._cluster or cluster.brokers != self._brokers_seen
        views = {topic: cluster.topics.get(topic) for topic in self._topics}
        for topic, partitions in self._topics.items():
            if is_other or views[topic] is not self._views_seen.get(topic):
                self._subscriptions.changed.update(dict.fromkeys(partitions))
        self._cluster, self._changes_seen = cluster, cluster.changes
        self._views_seen, self._brokers_seen = views, dict(cluster.brokers)

    def _place(self, of: TopicPartition, cluster: ClusterView, now_ms: int) -> None:
        partition = self._subscriptions.get(of)
        if partition is None:
            node_id, target, has_lookup = None, None, False
        else:
            is_held = of in self._subscriptions.paused or of in self._subscriptions.buffer
            node_id, target, has_lookup = need_of(partition, cluster, now_ms, is_held=is_held)
        if has_lookup:
            self.lookups[of] = None
        elif self.lookups:
            self.lookups.pop(of, None)
        before = self._node_ids.get(of)
        if before is not None and before != node_id:
            del self._node_ids[of]
            self.sessions[before].leave_out(of)
        if node_id is not None and target is not None:
            self._node_ids[of] = node_id
            session = self.sessions.get(node_id)
            if session is None:
                session = self.sessions[node_id] = FetchSession()
            session.want(target)
