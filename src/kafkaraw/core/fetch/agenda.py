"""What each partition needs next, looked at again only when something about it has changed. Pure; times are passed in.

A partition may be asked for at a node, may have an errand (a leader or a position has to be found), both, or neither.
`need_of` says which, from everything that is known about it. `Agenda` keeps what it said, by node, so that an answer
about one partition of thousands costs one look. It is said anew after whatever it depends on has changed:

- the position, which puts itself on the list `touched`,
- what the fetcher keeps of it (records that wait, a pause): `touch`,
- the metadata of its topic, or the brokers: `look` compares what it saw last,
- the time, as at the end of a pause: `look_at`.

Start at `look`. That it is the same as looking at every partition every time is what its test is about.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Mapping

from kafkaraw.core.cluster import BrokerNode, ClusterView, TopicView
from kafkaraw.core.fetch.plan import FetchTarget
from kafkaraw.core.fetch.positions import NO_EPOCH, PartitionPosition, Standing
from kafkaraw.core.fetch.sessions import FetchSession
from kafkaraw.light_classes import NamedTuple
from kafkaraw.records import TopicPartition


class Need(NamedTuple):
    """What a partition needs next.

    Attributes:
        node_id: whom to ask for its records; None when they cannot or need not be asked for.
        target: how to ask.
        has_errand: a leader or a position has to be found.
    """

    node_id: int | None
    target: FetchTarget | None
    has_errand: bool


def need_of(position: PartitionPosition, cluster: ClusterView, now_ms: int, *, is_held: bool) -> Need:
    """Say what a partition needs.

    Args:
        position: where it stands.
        cluster: says who leads.
        now_ms: the time.
        is_held: it is paused, or has records that wait to be handed over.
    """
    of = position.topic_partition
    view = cluster.partition(of)
    leader_id = None if view is None or view.leader_id not in cluster.brokers else view.leader_id
    is_behind = knows_later_leader(position, cluster)
    if position.retry_at_ms > now_ms:
        return Need(None, None, is_behind)
    has_errand = is_behind or leader_id is None or position.standing is Standing.SEARCHING
    if is_behind or is_held or position.standing is not Standing.READY:
        return Need(None, None, has_errand)
    node_id = position.replica_at(now_ms)
    if node_id is None or node_id not in cluster.brokers:
        node_id = leader_id
    if node_id is None:
        return Need(None, None, has_errand)
    topic_id = cluster.topic_id_of(of.topic)
    target = FetchTarget(
        topic_partition=of,
        topic_id=topic_id,
        offset=position.offset,
        generation=position.generation,
        leader_epoch=NO_EPOCH if view is None else view.leader_epoch,
        last_epoch=position.last_epoch_in(topic_id),
        size_wanted_bytes=position.size_wanted_bytes,
        is_fresh=position.is_fresh,
    )
    return Need(node_id, target, has_errand)


def knows_later_leader(position: PartitionPosition, cluster: ClusterView) -> bool:
    """Whether somebody has seen a later leader than the metadata know."""
    known = cluster.leader_epoch_of(position.topic_partition)
    if position.last_epoch <= known:  # nearly always
        return False
    return position.last_epoch_in(cluster.topic_id_of(position.topic_partition.topic)) > known >= 0


class Agenda:
    """What all partitions of a consumer need next.

    Args:
        positions: the partitions that are read; changed by its owner, who touches what it adds or takes away.
        paused: partitions that are not to be asked for.
        waiting: partitions of which records wait to be handed over.

    Attributes:
        touched: what has to be looked at again, in the order in which it was touched.
        sessions: what to ask of every node, and what it knows of that.
        errands: the partitions that have one, as of the last look.
    """

    def __init__(
        self,
        positions: Mapping[TopicPartition, PartitionPosition],
        paused: Container[TopicPartition],
        waiting: Container[TopicPartition],
    ) -> None:
        self._positions = positions
        self._paused = paused
        self._waiting = waiting
        self.touched: dict[TopicPartition, None] = {}
        self.sessions: dict[int, FetchSession] = {}
        self.errands: dict[TopicPartition, None] = {}
        self._node_ids: dict[TopicPartition, int] = {}  # where each is asked for
        self._moved: dict[TopicPartition, None] = {}  # those that were touched since somebody asked, and looked at
        self._times: list[tuple[int, TopicPartition]] = []  # a heap
        self._topics: dict[str, list[TopicPartition]] = {}
        self._cluster: ClusterView | None = None
        self._changes_seen = 0
        self._views_seen: dict[str, TopicView | None] = {}
        self._brokers_seen: Mapping[int, BrokerNode] = {}

    def assigned(self) -> None:
        """Other partitions are read than before; those that are new or gone were touched."""
        topics: dict[str, list[TopicPartition]] = {}
        for of in self._positions:
            topics.setdefault(of.topic, []).append(of)
        self._topics = topics
        self._cluster = None  # topics may have come that were never looked at

    def touch(self, of: TopicPartition) -> None:
        """Something about a partition has changed."""
        self.touched[of] = None

    def look_at(self, of: TopicPartition, at_ms: int) -> None:
        """The time will change something."""
        heapq.heappush(self._times, (at_ms, of))

    def next_ms(self, now_ms: int) -> int | None:
        """When the time will change something next, as at the end of a pause; None when it will not."""
        times = self._times
        while times and not (times[0][0] > now_ms and self._is_awaited(*times[0])):
            self.touch(heapq.heappop(times)[1])
        return times[0][0] if times else None

    def look(self, cluster: ClusterView, now_ms: int) -> None:
        """Look at everything about which something may have changed."""
        if cluster is not self._cluster or cluster.changes != self._changes_seen:
            self._compare(cluster)
        while self._times and self._times[0][0] <= now_ms:
            self.touch(heapq.heappop(self._times)[1])
        if not self.touched:
            return
        for of in self.touched:
            self._place(of, cluster, now_ms)
        self._moved.update(self.touched)
        self.touched.clear()

    def take_moved(self) -> dict[TopicPartition, None]:
        """Everything that was touched since this was asked last."""
        moved, self._moved = self._moved, {}
        moved.update(self.touched)
        return moved

    # -- inside

    def _is_awaited(self, at_ms: int, of: TopicPartition) -> bool:
        position = self._positions.get(of)
        return position is not None and at_ms in (position.retry_at_ms, position.replica_until_ms)

    def _compare(self, cluster: ClusterView) -> None:
        """Touch the partitions of which the cluster tells something else than it did."""
        is_other = cluster is not self._cluster or cluster.brokers != self._brokers_seen
        views = {topic: cluster.topics.get(topic) for topic in self._topics}
        for topic, partitions in self._topics.items():
            if is_other or views[topic] is not self._views_seen.get(topic):
                self.touched.update(dict.fromkeys(partitions))
        self._cluster, self._changes_seen = cluster, cluster.changes
        self._views_seen, self._brokers_seen = views, dict(cluster.brokers)

    def _place(self, of: TopicPartition, cluster: ClusterView, now_ms: int) -> None:
        position = self._positions.get(of)
        if position is None:
            node_id, target, has_errand = None, None, False
        else:
            is_held = of in self._paused or of in self._waiting
            node_id, target, has_errand = need_of(position, cluster, now_ms, is_held=is_held)
        if has_errand:
            self.errands[of] = None
        elif self.errands:
            self.errands.pop(of, None)
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
