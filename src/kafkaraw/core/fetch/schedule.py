"""The fetch schedule: what each partition needs next, and the fetch session with each broker. Pure.

A partition may have to be fetched from a node, may have a pending lookup (of its leader or of its position), both, or
neither. `need_of` says which, from everything that is known about the partition. `FetchSchedule` keeps the answers, by
node, so that a response about one partition of thousands costs one call of `need_of`. It calls it again when something
that the answer depends on has changed:

- the partition's state, its pause or its buffer: `SubscriptionState.changed` names it,
- the metadata of its topic, or the brokers: `look` compares them with what it saw last,
- the time, as at the end of a pause after a failure: `recheck_at`.

`FetchSession` is the consumer's half of a session with one broker (KIP-227): both ends remember the partitions, so that
a Fetch contains changes only. `targets` has the wanted partitions, `_said` those that the broker has, and `_changed`
those in which the two may differ.

    id 0, epoch 0 -- response with an id --> id, epoch 1, 2, ... -- error or no response --> id, epoch 0

Epoch 0 opens a session with all partitions, and closes the session whose id it names. The broker may decline (id 0);
then the next Fetch is a full one again. A session identifies topics by id or by name, never by both.

Start at `FetchSchedule.look` and `FetchSession.ask`. A test compares the schedule with a look at every partition.
Source: Kafka's FetchSessionHandler.
"""

from __future__ import annotations

import heapq
from typing import Final

from kafkaraw.core.cluster import BrokerNode, ClusterView, TopicView
from kafkaraw.core.fetch.offsets import NO_EPOCH
from kafkaraw.core.fetch.requests import NO_SESSION, FetchPlan, FetchTarget, SessionStep
from kafkaraw.core.fetch.subscription_state import FetchState, PartitionState, SubscriptionState
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.fetch import FetchResponse
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
    if partition.is_at_end:
        return Need(None, None, False)
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
        size_max_bytes=partition.size_max_bytes,
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

    def recheck_at(self, of: TopicPartition, at_ms: int) -> None:
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


_NO_ID: Final = 0
_OPENING: Final = 0
_EPOCH_MAX: Final = 2**31 - 1
_NAMES_KEPT: Final = 16
"""The schedule drops unused names of topics when it has more than this number and two for each fetched partition."""

SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors of a whole response after which the next Fetch is a full one."""


class FetchSession:
    """The consumer's half of a session with one broker.

    Attributes:
        targets: what is to be asked for, in the order in which the broker should serve it.
    """

    def __init__(self) -> None:
        self.targets: dict[TopicPartition, FetchTarget] = {}
        self._id = _NO_ID
        self._epoch = _OPENING
        self._said: dict[TopicPartition, FetchTarget] = {}
        self._changed: dict[TopicPartition, None] = {}
        self._is_under_way = False
        self._by_ids = True
        self._nameless: set[TopicPartition] = set()  # those whose topic has no id
        self._sizes: dict[TopicPartition, int] = {}  # of those that need a certain one
        self._names: dict[Uuid, str] = {}

    # -- what is wanted

    def want(self, target: FetchTarget) -> None:
        """Add or change a partition; a partition whose position has changed goes behind the others."""
        of = target.topic_partition
        before = self.targets.get(of)
        if before is not None and before.offset != target.offset:
            del self.targets[of]
        self.targets[of] = target
        self._changed[of] = None
        if before is None or before.topic_id != target.topic_id:
            self._names[target.topic_id] = of.topic
            (self._nameless.add if target.topic_id == ZERO_UUID else self._nameless.discard)(of)
        if target.size_wanted_bytes:
            self._sizes[of] = target.size_wanted_bytes
        elif self._sizes:
            self._sizes.pop(of, None)

    def leave_out(self, of: TopicPartition) -> None:
        """Remove a partition."""
        del self.targets[of]
        self._changed[of] = None
        self._nameless.discard(of)
        self._sizes.pop(of, None)

    # -- requests

    def plan(self, node_id: int) -> FetchPlan:
        """Return the next request."""
        if len(self._names) > _NAMES_KEPT + 2 * len(self.targets):  # an earlier request keeps those that it had
            self._names = {target.topic_id: of.topic for of, target in self.targets.items()}
        step = self.ask()
        asked = dict(self.targets) if step is NO_SESSION else self._said
        size = max(self._sizes.values(), default=0)
        return FetchPlan(node_id, asked, step, self._names, by_ids=not self._nameless, size_wanted_bytes=size)

    def ask(self) -> SessionStep:
        """Return the session part of the next request.

        One request at a time uses the session; another one meanwhile has no session.
        """
        if self._is_under_way:
            return NO_SESSION
        by_ids = not self._nameless
        # A partition that was removed and added again between two requests has not changed for the broker, but its log
        # start and end are unknown here. A new session returns them.
        again = any(
            of in self._said and (target := self.targets.get(of)) is not None and target.is_fresh
            for of in self._changed
        )
        if again or by_ids != self._by_ids:
            self._by_ids = by_ids
            self._start_anew()
        self._is_under_way = True
        if self._epoch == _OPENING:
            self._said = dict(self.targets)
            self._changed.clear()
            return SessionStep(self._id, _OPENING, tuple(self.targets.values()), ())
        changed, forgotten = self._take_changes()
        return SessionStep(self._id, self._epoch, tuple(changed), tuple(forgotten))

    def _take_changes(self) -> tuple[list[FetchTarget], list[FetchTarget]]:
        """Return the partitions to add or change, and those to forget, and note that the broker has them now."""
        changed, forgotten = [], []
        for of in self._changed:
            old, new = self._said.get(of), self.targets.get(of)
            if old is not None and (new is None or new.topic_id != old.topic_id):
                forgotten.append(old)
                del self._said[of]
            if new is not None:
                if not _same(old, new):
                    changed.append(new)
                self._said[of] = new
        self._changed.clear()
        return changed, forgotten

    def answered(self, response: FetchResponse) -> None:
        """Process the response to the last request."""
        self._is_under_way = False
        if response.error_code:
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._id = _NO_ID
            self._start_anew()
        elif response.session_id == _NO_ID:
            self._id = _NO_ID
            self._start_anew()
        else:
            self._id = response.session_id
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def failed(self) -> None:
        """Process a request without a response: it is unknown whether the broker has received it."""
        self._is_under_way = False
        self._start_anew()

    def _start_anew(self) -> None:
        self._epoch = _OPENING
        self._said = {}  # a new one: the request that has failed still has the old one


def _same(old: FetchTarget | None, new: FetchTarget) -> bool:
    """Whether the broker has this target already; a seek and a seek back between two requests need no change."""
    return old is not None and (
        (old.topic_id, old.offset, old.leader_epoch, old.last_epoch, old.size_wanted_bytes)
        == (new.topic_id, new.offset, new.leader_epoch, new.last_epoch, new.size_wanted_bytes)
    )
