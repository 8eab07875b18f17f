"""`Controller`: holds and stores the cluster metadata, and notifies the nodes of every change.

All nodes of the process share one controller, so metadata needs no quorum. A single node has its own controller.
`elections` decides which replica becomes leader; `state` and `partition` carry this out on each node.
Source: org.apache.kafka.controller.{QuorumController, ReplicationControlManager, ClusterControlManager}.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol

from kafkaraw.broker.acl.authorizer import Authorizer
from kafkaraw.broker.acl.rules import Acl, AclRules
from kafkaraw.broker.acl.stored import ACLS_FILE, read_acls, write_acls
from kafkaraw.broker.configs import topic_config
from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.configs.dynamic_configs import ALL_BROKERS, CONFIGS_FILE, DynamicConfigs
from kafkaraw.broker.configs.topic_config import TopicConfig
from kafkaraw.broker.features import FEATURES_FILE, SHARE_VERSION, STREAMS_VERSION, TRANSACTION_VERSION, Features
from kafkaraw.broker.ids import RandomBits, random_bytes, random_uuid
from kafkaraw.broker.log.storage import ROOT, LogStorage
from kafkaraw.broker.partitions import elections
from kafkaraw.broker.partitions.elections import NO_LEADER, PartitionState
from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.broker.partitions.replication import Replication
from kafkaraw.broker.producer_ids import ProducerIds
from kafkaraw.broker.quotas.table import QUOTAS_FILE, QuotaTable
from kafkaraw.broker.security.delegation_tokens import TOKENS_FILE, DelegationTokens
from kafkaraw.broker.security.scram_credentials import SCRAM_FILE, ScramCredentials
from kafkaraw.broker.topics.catalog import Broker, Catalog, Topic
from kafkaraw.broker.topics.partition_creation import Assignments
from kafkaraw.broker.topics.topic_creation import Plan
from kafkaraw.broker.topics.topic_files import TOPICS_FILE, StoredTopic, TopicsWriter, read_deleting, read_topics
from kafkaraw.broker.turns import Steps, TurnQueue, run_to_end
from kafkaraw.errors import UsageError
from kafkaraw.light_classes import dataclass, replace
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.config_codes import ConfigResourceType
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    from kafkaraw.broker.groups.node import GroupNode
    from kafkaraw.broker.shares.node import ShareNode
    from kafkaraw.broker.telemetry.received import ReceivedMetrics
    from kafkaraw.broker.transactions.node import TransactionNode

BROKER: Final = ConfigResourceType.BROKER
WRITE_DELAY_S: Final = 0.1
"""Delay of a write that is not urgent, so that several changes are written together."""
METADATA_TOPIC_ID: Final = Uuid(bytes(15) + b"\x01")  # Kafka's own __cluster_metadata

_logger = logging.getLogger("kafkaraw.broker")


Replicas = Sequence[tuple[TopicPartition, Partition | None]]
"""Replicas of a node; None for a replica that is not open but may have files."""


@dataclass(frozen=True, slots=True)
class _Staged:
    """Partitions of a topic that are being created.

    Attributes:
        first: number of the first partition.
        states: the initial state of each partition: replicas, leader, ISR.
        live: the nodes that were running when the states were decided.
    """

    first: int
    states: list[PartitionState]
    live: frozenset[int]


class Member(Protocol):
    """A node, as the controller sees it."""

    node_id: int
    transactions: TransactionNode
    groups: GroupNode
    shares: ShareNode

    def stage(self, topic: Topic, states: Sequence[PartitionState], *, first: int) -> Steps[None]:
        """Create this node's replicas of a topic's partitions, starting with number `first`, without publishing them.

        Raises:
            OSError: the storage is full or broken; the caller must call `unstage`.
        """
        ...

    def follow_staged(self, topic: Topic) -> Steps[None]:
        """Start replication of the staged replicas from their leaders."""
        ...

    def unstage(self, topic: Topic) -> Steps[None]:
        """Remove the staged replicas of a topic and their files."""
        ...

    def publish(self, topic: Topic) -> None:
        """Publish the staged replicas of a topic, which is in the catalog now."""
        ...

    def withdraw(self, topic: Topic) -> Replicas:
        """Take the replicas of a topic out of service and return them; the caller must run `removing`."""
        ...

    def removing(self, topic: Topic, replicas: Replicas) -> Steps[None]:
        """Close replicas of a topic and remove their files."""
        ...

    def open_replica(self, topic: Topic, topic_partition: TopicPartition) -> None:
        """Open a new, empty replica of an existing partition; `lead_or_follow` follows.

        Raises:
            OSError: the storage is full or broken.
        """
        ...

    def drop_replica(self, topic: Topic, topic_partition: TopicPartition) -> None:
        """Close a replica that is no longer this node's, and remove its files; no effect without such a replica."""
        ...

    def lead_or_follow(self, topic_partition: TopicPartition, state: PartitionState) -> None:
        """Make this node's replica leader or follower, as a new partition state says."""
        ...

    def reconfigure(self) -> None:
        """Apply changed settings of brokers or topics."""
        ...


class Controller:
    """The metadata of a cluster, and all changes to it.

    Args:
        config: properties that all nodes have in common, such as topic defaults.
        storage: storage of the metadata, as small text files in its root.
        rng: source of random ids and salts.
        replication: the replication between the nodes.

    Attributes:
        catalog: the brokers, the topics, and the partition states.
        producer_ids: allocates the cluster's producer ids.
        credentials: the SCRAM credentials.
        tokens: the delegation tokens.
        quotas: the quotas that clients have set.
        features: the levels of features.
        dynamic_configs: dynamic configurations of brokers, groups and client metrics.
        shows_client_metrics: whether the metrics of clients are shown somewhere; then, brokers offer telemetry without
            subscriptions, too (KIP-714).
        changes: runs topic changes (`making_topic` and similar) one after another, alternating with other work.
    """

    def __init__(
        self, config: BrokerConfig, storage: LogStorage, rng: RandomBits, replication: Replication | None = None
    ) -> None:
        self.storage = storage
        self.replication: Replication = replication or Replication()
        self.catalog: Catalog = Catalog("", NO_LEADER)
        self.producer_ids: ProducerIds = ProducerIds(storage)
        self._rng = rng
        self._config = config
        self.credentials: ScramCredentials = ScramCredentials(
            config.security.users,
            config.security.mechanisms,
            lambda: random_bytes(rng),
            lambda text: storage.write_text(ROOT, SCRAM_FILE, text, private=True),
        )
        self.tokens: DelegationTokens = DelegationTokens(
            config.tokens,
            lambda: str(random_uuid(rng)),
            lambda: random_bytes(rng),
            lambda text: storage.write_text(ROOT, TOKENS_FILE, text, private=True),
        )
        self.quotas: QuotaTable = QuotaTable(lambda text: storage.write_text(ROOT, QUOTAS_FILE, text))
        self.features: Features = Features(
            {
                SHARE_VERSION: config.shares.version,
                STREAMS_VERSION: config.groups.streams_version,
                TRANSACTION_VERSION: config.transaction_version,
            },
            lambda text: storage.write_text(ROOT, FEATURES_FILE, text),
        )
        self.dynamic_configs: DynamicConfigs = DynamicConfigs(
            lambda text: storage.write_text(ROOT, CONFIGS_FILE, text, private=True)
        )
        self.shows_client_metrics = False
        self._topics_text = TopicsWriter()
        self._members: dict[int, Member] = {}
        self._former_leaders: dict[TopicPartition, int] = {}
        self._failed_replicas: dict[TopicPartition, dict[int, None]] = {}
        self.changes: TurnQueue = TurnQueue()
        self._in_work: dict[str, _Staged | None] = {}
        self._deleting: dict[Uuid, None] = {}
        self._closed = False
        self._changed: asyncio.Event | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    @cached_property
    def received_metrics(self) -> ReceivedMetrics:
        """What clients have pushed to any node (KIP-714)."""
        from kafkaraw.broker.telemetry.received import ReceivedMetrics  # only for clients that push

        return ReceivedMetrics()

    def open(self, cluster_id: str, *, elect: bool = False) -> None:
        """Read the stored metadata.

        Args:
            cluster_id: identifies the cluster.
            elect: partitions have no leader until nodes are up; the stored leaders are those before the restart.
                Leaders then begin new epochs, because a machine that crashed may have lost writes of the old epochs.

        Raises:
            ConfigError: a file is corrupt.
            OSError: a file cannot be read.
        """
        self.catalog.cluster_id = cluster_id
        text = self.storage.read_text(ROOT, TOPICS_FILE)
        for topic, states in read_topics(text) if text is not None else []:
            self.catalog.add(topic, states)
            for key, state in zip(topic.partitions(), self.catalog.states_of(topic), strict=True):
                if elect:
                    self._former_leaders[key] = state.leader
                    self.catalog.set_state(key, replace(state, leader=NO_LEADER))
        self._deleting = dict.fromkeys(read_deleting(text)) if text is not None else {}
        credentials = self.storage.read_text(ROOT, SCRAM_FILE)
        if credentials is not None:
            self.credentials.load(credentials)
        tokens = self.storage.read_text(ROOT, TOKENS_FILE)
        if tokens is not None:
            self.tokens.load(tokens)
        self.catalog.authorizer = self._open_authorizer()
        quotas = self.storage.read_text(ROOT, QUOTAS_FILE)
        if quotas is not None:
            self.quotas.load(quotas)
        features = self.storage.read_text(ROOT, FEATURES_FILE)
        if features is not None:
            self.features.load(features)
        configs = self.storage.read_text(ROOT, CONFIGS_FILE)
        if configs is not None:
            self.dynamic_configs.load(configs)

    def close(self) -> None:
        """Close the controller before all nodes stop at the same time: ignore what they report about each other."""
        self._closed = True
        self.changes.stop()
        if self._write_timer is not None:
            self._write_states()

    async def next_change(self) -> None:
        """Wait until the state of any partition changes; for tests and operators, which set a time limit."""
        if self._changed is None:
            self._changed = asyncio.Event()
        await self._changed.wait()

    # -- access ----------------------------------------------------------------------------------------------------

    def _open_authorizer(self) -> Authorizer | None:
        access = self._config.access
        if access is None:
            return None
        text = self.storage.read_text(ROOT, ACLS_FILE)
        rules = AclRules(read_acls(text) if text is not None else ())
        everyone = access.allow_everyone_if_no_acl_found
        return Authorizer(rules, access.super_users, allow_everyone_if_no_acl_found=everyone)

    def change_acls(self, authorizer: Authorizer, *, add: Iterable[Acl] = (), remove: Iterable[Acl] = ()) -> None:
        """Add and remove ACLs, and store the result.

        Args:
            authorizer: the authorizer that gets the new ACLs.
            add: ACLs to add; existing ones stay unchanged.
            remove: existing ACLs to remove.

        Raises:
            OSError: the storage is full or broken; nothing is changed.
        """
        changed = AclRules(authorizer.rules)
        for acl in remove:
            changed.remove(acl)
        for acl in add:
            changed.add(acl)
        self.storage.write_text(ROOT, ACLS_FILE, write_acls(changed))
        authorizer.rules = changed

    # -- nodes -----------------------------------------------------------------------------------------------------

    def join(self, member: Member) -> None:
        """Add a node that has opened its storage and its replicas; it is notified of changes from now on."""
        self._members[member.node_id] = member
        for failed in self._failed_replicas.values():
            failed.pop(member.node_id, None)

    def leave(self, member: Member) -> None:
        """Remove a node that is about to close its storage."""
        self._members.pop(member.node_id, None)
        if not self._members:
            self.changes.stop()
            self._in_work.clear()

    def brokers_up(self, brokers: Iterable[Broker]) -> None:
        """Register nodes that clients can reach; partitions that waited for these nodes get leaders."""
        new = {broker.node_id: broker for broker in brokers}
        self.catalog.brokers.update(new)
        self.catalog.racks.update({node_id: broker.rack for node_id, broker in new.items()})
        if self._members.keys() >= self.catalog.racks.keys():
            self._deleting.clear()  # every node has removed what was left when it opened its storage
        self._choose_controller()
        former, self._former_leaders = self._former_leaders, {}
        self._change(
            lambda key, state, unclean: elections.with_leader(
                state, self._live(key), unclean=unclean, preferred=former.get(key, NO_LEADER)
            )
        )
        self._remind(new)
        for topic in self.catalog.topics():
            for key, state in zip(topic.partitions(), self.catalog.states_of(topic), strict=True):
                if state.is_reassigned:
                    self._complete(key)

    def broker_down(self, node_id: int) -> None:
        """Unregister a node that is unreachable or about to stop; its partitions get other leaders, if possible."""
        if self.catalog.brokers.pop(node_id, None) is None:
            return
        self._choose_controller()
        if len(self.catalog.racks) > 1:  # a single node has no replicas elsewhere that could become leaders
            self._change(
                lambda key, state, unclean: elections.without_node(state, node_id, self._live(key), unclean=unclean)
            )
            self._remind([node_id])

    def replicas_failed(self, node_id: int, keys: Collection[TopicPartition]) -> None:
        """Take replicas out of the ISR, because the log directory of a running node has failed; elect other leaders.

        A single node keeps its states: it has no other replicas, and often cannot store a new epoch in that directory.

        Source: kafka.server.AssignmentsManager; ReplicationControlManager.handleDirectoriesOffline.
        """
        for key in keys:
            self._failed_replicas.setdefault(key, {})[node_id] = None
        if len(self.catalog.racks) == 1:
            return
        lost = frozenset(keys)
        self._change(
            lambda key, state, unclean: (
                elections.without_node(state, node_id, self._live(key), unclean=unclean) if key in lost else state
            )
        )

    def is_failed(self, topic_partition: TopicPartition, node_id: int) -> bool:
        """Return whether the replica of a running node is in a failed log directory."""
        return node_id in self._failed_replicas.get(topic_partition, ())

    def _live(self, topic_partition: TopicPartition) -> Collection[int]:
        """Return the running nodes whose replica of a partition, if they have one, can be used."""
        failed = self._failed_replicas.get(topic_partition)
        return [node for node in self.catalog.brokers if node not in failed] if failed else self.catalog.brokers

    def transactions_of(self, node_id: int) -> TransactionNode | None:
        """Return the `TransactionNode` of a node; None if the node is not running."""
        member = self._members.get(node_id)
        return None if member is None else member.transactions

    def groups_of(self, node_id: int) -> GroupNode | None:
        """Return the `GroupNode` of a node; None if the node is not running."""
        member = self._members.get(node_id)
        return None if member is None else member.groups

    def shares_of(self, node_id: int) -> ShareNode | None:
        """Return the `ShareNode` of a node; None if the node is not running."""
        member = self._members.get(node_id)
        return None if member is None else member.shares

    def is_live(self, topic_partition: TopicPartition, node_id: int) -> bool:
        """Return whether a node is reachable, and its replica of a partition is not in a failed log directory."""
        return node_id in self.catalog.brokers and not self.is_failed(topic_partition, node_id)

    def _remind(self, node_ids: Collection[int]) -> None:
        """Notify leaders whose followers have started or stopped, even if no partition state has changed."""
        for topic in self.catalog.topics():
            for key, state in zip(topic.partitions(), self.catalog.states_of(topic), strict=True):
                leader = self._members.get(state.leader)
                if leader is not None and len(state.replicas) > 1 and any(node in state.replicas for node in node_ids):
                    leader.lead_or_follow(key, state)

    def _choose_controller(self) -> None:
        """Choose the node that is named as controller: the same one while it runs, then the next one by id."""
        live = sorted(self.catalog.brokers)
        if live and self.catalog.controller_id not in live:
            later = [node_id for node_id in live if node_id > self.catalog.controller_id]
            self.catalog.controller_id = (later or live)[0]
            self.catalog.controller_epoch += 1

    # -- leadership ------------------------------------------------------------------------------------------------

    def move_leader(self, topic_partition: TopicPartition, node_id: int) -> None:
        """Make a node the leader of a partition.

        Raises:
            UsageError: the partition does not exist, or the node is not running or not in sync.
        """
        state = self.catalog.state_of(topic_partition)
        if state is None:
            raise UsageError(f"there is no partition {topic_partition.topic}-{topic_partition.partition}")
        if not elections.can_lead(state, node_id, self._live(topic_partition)):
            raise UsageError(
                f"node {node_id} cannot lead {topic_partition.topic}-{topic_partition.partition}: it must run and be "
                f"in sync; in sync are {list(state.isr)}, running are {sorted(self.catalog.brokers)}"
            )
        self._apply({topic_partition: elections.led_by(state, node_id)})

    def elect(
        self, topic_partition: TopicPartition, decide: Callable[[PartitionState, Collection[int]], PartitionState]
    ) -> bool:
        """Elect a leader of an existing partition.

        Args:
            topic_partition: the partition.
            decide: returns the next state, from the state and the running nodes.

        Returns:
            Whether the state has changed.
        """
        state = self.catalog.state_of(topic_partition)
        assert state is not None, topic_partition
        elected = decide(state, self._live(topic_partition))
        self._apply({topic_partition: elected})
        return elected != state

    def unregister(self, node_id: int) -> bool:
        """Remove a node from the metadata; one that runs gets no leaders and no clients until it is started again.

        Its replicas stay assigned to it, as in Kafka.

        Returns:
            Whether there was such a node.
        """
        if node_id not in self.catalog.racks:
            return False
        self.broker_down(node_id)
        del self.catalog.racks[node_id]
        return True

    def shrink_isr(self, topic_partition: TopicPartition, lagging: Iterable[int]) -> None:
        """Remove followers that lag too far behind from the ISR of a partition."""
        state = self.catalog.state_of(topic_partition)
        if state is not None:
            self._apply({topic_partition: elections.shrunk(state, list(lagging))})

    def expand_isr(self, topic_partition: TopicPartition, node_id: int) -> None:
        """Add a follower that has caught up to the ISR of a partition, if its node is running."""
        state = self.catalog.state_of(topic_partition)
        if state is not None and node_id in self.catalog.brokers:
            # Not urgent: if this write is lost, the stored ISR is too small, which is safe; it is never too large.
            self._apply({topic_partition: elections.expanded(state, node_id)}, urgent=False)
            if state.is_reassigned:  # later, because the leader that reports the follower may lose its replica
                asyncio.get_running_loop().call_soon(self._complete, topic_partition)

    # -- reassignments ---------------------------------------------------------------------------------------------

    def reassign(self, topic_partition: TopicPartition, target: tuple[int, ...]) -> None:
        """Move an existing partition to other nodes; it is complete once the new replicas are in sync.

        Raises:
            OSError: the storage of a node is full or broken; nothing is changed.
        """
        topic, state = self.catalog.topic(topic_partition.topic), self.catalog.state_of(topic_partition)
        assert topic is not None and state is not None, topic_partition
        moved = elections.reassigned(state, target)
        opened: list[Member] = []
        try:
            for node_id in moved.adding:
                member = self._members.get(node_id)  # a node that is down opens its replica when it starts
                if member is not None and node_id not in state.replicas:
                    opened.append(member)
                    member.open_replica(topic, topic_partition)
        except OSError:
            for member in opened:
                member.drop_replica(topic, topic_partition)
            raise
        self._assign(topic_partition, moved)
        self._complete(topic_partition)

    def cancel_reassignment(self, topic_partition: TopicPartition) -> bool:
        """Cancel the reassignment of an existing partition: remove the replicas that it has added.

        Returns:
            Whether there was one.
        """
        state = self.catalog.state_of(topic_partition)
        assert state is not None, topic_partition
        if not state.is_reassigned:
            return False
        self._assign(topic_partition, elections.reverted(state, self._live(topic_partition)))
        return True

    def _complete(self, topic_partition: TopicPartition) -> None:
        """Complete a reassignment, if its new replicas are in sync."""
        state = self.catalog.state_of(topic_partition)
        if state is not None and state.is_reassigned and not self._closed:
            self._assign(topic_partition, elections.completed(state, self._live(topic_partition)))

    def _assign(self, topic_partition: TopicPartition, state: PartitionState) -> None:
        """Apply a state with other replicas, and remove the replicas that are not among them."""
        topic = self.catalog.topic(topic_partition.topic)
        assert topic is not None, topic_partition
        if state == self.catalog.state_of(topic_partition):
            return
        assignments = list(topic.assignments)
        assignments[topic_partition.partition] = state.replicas
        self.catalog.add(replace(topic, assignments=tuple(assignments)), self.catalog.states_of(topic))
        self._apply({topic_partition: state})
        for node_id, member in list(self._members.items()):
            if node_id not in state.replicas:
                self._failed_replicas.get(topic_partition, {}).pop(node_id, None)
                member.drop_replica(topic, topic_partition)

    # -- changes of states -----------------------------------------------------------------------------------------

    def _change(self, decide: Callable[[TopicPartition, PartitionState, bool], PartitionState]) -> None:
        """Apply the decision of `decide` to every partition; its last argument allows unclean leader election."""
        decided: dict[TopicPartition, PartitionState] = {}
        defaults = self._config.reconfigured(self.dynamic_configs.of(BROKER, ALL_BROKERS)).topic_defaults
        for topic in self.catalog.topics():
            unclean = TopicConfig.of(topic.configs, defaults).unclean_leader_election_enable
            for key, state in zip(topic.partitions(), self.catalog.states_of(topic), strict=True):
                decided[key] = decide(key, state, unclean)
        self._apply(decided)

    def _apply(self, states: Mapping[TopicPartition, PartitionState], *, urgent: bool = True) -> None:
        changed = {key: state for key, state in states.items() if state != self.catalog.state_of(key)}
        if not changed or self._closed:
            return
        for key, state in changed.items():
            before = self.catalog.state_of(key)
            self.catalog.set_state(key, state)
            _logger.info("%s-%d: %s -> %s", *key, _shown(before), _shown(state))
        if urgent:
            self._write_states()
        elif self._write_timer is None:
            self._write_timer = asyncio.get_running_loop().call_later(WRITE_DELAY_S, self._write_states)
        for key, state in changed.items():
            for member in list(self._members.values()):
                # A node notified earlier may have caused another change already; later nodes get the newest state.
                member.lead_or_follow(key, self.catalog.state_of(key) or state)
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def _write_states(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        try:
            # Durable: an older ISR or leader epoch loses records after a crash, and a damaged file loses all topics.
            self.storage.write_text(ROOT, TOPICS_FILE, self._topics_text.text(self._stored(), list(self._deleting)))
        except OSError as error:
            _logger.error("the partition states cannot be stored: %s", error)

    # -- topics ----------------------------------------------------------------------------------------------------

    def create_topic(self, plan: Plan, topic_id: Uuid | None = None) -> Topic:
        """Create a topic synchronously; only for topics with a bounded number of partitions.

        Args:
            plan: the topic.
            topic_id: its id, unless another topic has it; None for a new one.

        Raises:
            OSError: a node's storage is full or broken; the topic is not created.
        """
        self.finish_changes_of(plan.name)
        topic = run_to_end(self.making_topic(plan, topic_id))
        run_to_end(self.publishing([topic]))
        return topic

    def finish_changes_of(self, name: str) -> None:
        """Complete the pending changes of a topic (in `changes`) synchronously."""
        if name in self._in_work:
            self.changes.finish()

    def making_topic(self, plan: Plan, topic_id: Uuid | None = None) -> Steps[Topic]:
        """Create the replicas of a new topic; the topic becomes visible once `publishing` has run.

        Args:
            plan: the topic.
            topic_id: as `create_topic`.

        Raises:
            OSError: a node's storage is full or broken; the topic is not created.
        """
        if topic_id is None or not self._is_free(topic_id):
            topic_id = self._new_topic_id()
        topic = Topic(plan.name, topic_id, plan.assignments, dict(plan.configs))
        self.catalog.announce(topic)
        yield from self._staging(topic, first=0)
        return topic

    def growing_topic(self, topic: Topic, more: Assignments) -> Steps[None]:
        """Add partitions to a topic; they become visible once all of them are created.

        Raises:
            OSError: a node's storage is full or broken; the topic is unchanged.
        """
        first = topic.partitions_count
        yield from self._staging(replace(topic, assignments=(*topic.assignments, *more)), first=first)
        now = self.catalog.topic(topic.name)
        assert now is not None and now.topic_id == topic.topic_id, topic.name
        yield from self.publishing([replace(now, assignments=(*now.assignments, *more))])

    def _staging(self, topic: Topic, *, first: int) -> Steps[None]:
        """Create the replicas of a topic's partitions, starting with number `first`, on all running nodes."""
        live = self.catalog.brokers
        states = [elections.first_state(replicas, live) for replicas in topic.assignments[first:]]
        self._in_work[topic.name] = _Staged(first, states, frozenset(live))
        ready: dict[int, Member] = {}
        try:
            while lacking := [member for node_id, member in self._members.items() if ready.get(node_id) is not member]:
                for member in lacking:  # other nodes may start meanwhile
                    yield from member.stage(topic, states, first=first)
                    ready[member.node_id] = member
            for member in list(self._members.values()):
                yield from member.follow_staged(topic)
        except OSError:
            yield from self._unstaging(topic)
            raise

    def _unstaging(self, topic: Topic) -> Steps[None]:
        for member in list(self._members.values()):
            yield from member.unstage(topic)
        self.catalog.withdraw(topic)
        del self._in_work[topic.name]

    def publishing(self, topics: Sequence[Topic]) -> Steps[None]:
        """Store and publish topics whose replicas are created, all together; the store is one step.

        Raises:
            OSError: the metadata cannot be written; existing topics are unchanged, new ones are not created.
        """
        if not topics:
            return
        before = [(topic, self.catalog.topic(topic.name)) for topic in topics]
        for topic, old in before:
            states = self.catalog.states_of(old) if old is not None else []
            self.catalog.add(topic, [*states, *self._states_now(topic)])
        try:
            self._write_topics()
        except OSError:
            for topic, old in before:
                states = self.catalog.states_of(old) if old is not None else []
                self.catalog.remove(topic)
                if old is not None:
                    self.catalog.add(old, states)
            for topic in topics:
                yield from self._unstaging(topic)
            raise
        for topic, old in before:
            staged = self._in_work.pop(topic.name)
            assert staged is not None
            for member in list(self._members.values()):
                member.publish(topic)
            if staged.live != frozenset(self.catalog.brokers):
                self._remind_of(topic, staged.first)
            if old is None:
                unused = topic_config.not_acted_on(topic.configs)
                note = f"; this broker does not act on {', '.join(unused)}" if unused else ""
                _logger.info("created topic %s with %d partition(s)%s", topic.name, topic.partitions_count, note)

    def _states_now(self, topic: Topic) -> list[PartitionState]:
        """Return the initial states of the created partitions, for the nodes that are running now."""
        staged = self._in_work[topic.name]
        assert staged is not None
        if staged.live == frozenset(self.catalog.brokers):
            return staged.states
        added = topic.assignments[staged.first :]
        return [elections.first_state(replicas, self.catalog.brokers) for replicas in added]

    def _remind_of(self, topic: Topic, first: int) -> None:
        """Apply the current partition states to replicas if nodes started or stopped while partitions were created."""
        states = self.catalog.states_of(topic)
        for key, state in list(zip(topic.partitions(), states, strict=True))[first:]:
            for member in list(self._members.values()):
                member.lead_or_follow(key, self.catalog.state_of(key) or state)

    def _write_topics(self, *, but: Topic | None = None) -> None:
        """Store the topics, without the topic that is being deleted.

        Raises:
            OSError: the metadata cannot be written.
        """
        stored = [one for one in self._stored() if one[0] is not but]
        deleting = [*self._deleting, but.topic_id] if but is not None else list(self._deleting)
        self.storage.write_text(ROOT, TOPICS_FILE, self._topics_text.text(stored, deleting))

    def alter_topic(self, topic: Topic) -> None:
        """Change the settings of an existing topic.

        Raises:
            OSError: the metadata cannot be written; the topic is unchanged.
        """
        before = self.catalog.topic(topic.name)
        assert before is not None and before.assignments == topic.assignments, topic.name
        states = self.catalog.states_of(before)
        self.catalog.add(topic, states)
        try:
            self._write_topics()
        except OSError:
            self.catalog.add(before, states)
            raise
        self._reconfigure()

    def configure(self, kind: ConfigResourceType, name: str, configs: Mapping[str, str]) -> None:
        """Replace the dynamic configuration of a broker (by id, or `ALL_BROKERS`), a group, or a subscription.

        Raises:
            OSError: the metadata cannot be written; nothing is changed.
        """
        self.dynamic_configs.put(kind, name, configs)
        self._reconfigure()

    def _reconfigure(self) -> None:
        for member in list(self._members.values()):
            member.reconfigure()
        if len(self.catalog.racks) > 1:  # a partition may get a leader or reach its min ISR now
            self._change(lambda key, state, unclean: elections.with_leader(state, self._live(key), unclean=unclean))
            self._remind(self.catalog.racks)

    def delete_topic(self, topic: Topic) -> None:
        """Delete a topic, its records and its committed offsets synchronously.

        Raises:
            OSError: the storage is broken; the topic still exists.
        """
        self.finish_changes_of(topic.name)
        run_to_end(self.deleting_topic(topic))

    def deleting_topic(self, topic: Topic) -> Steps[None]:
        """Delete a topic, its records and its committed offsets: first from the metadata, then its files.

        The topic's id stays stored until the files are removed, so that a node that crashes removes them at restart.

        Raises:
            OSError: the storage is broken; the topic still exists.
        """
        self._write_topics(but=topic)
        for key in topic.partitions():
            self._failed_replicas.pop(key, None)
        self._deleting[topic.topic_id] = None
        self._in_work[topic.name] = None
        self.catalog.remove(topic)
        members = [(member, member.withdraw(topic)) for member in self._members.values()]
        for member, _ in members:
            member.groups.forget_topic(topic.name)
            member.shares.forget_topic(topic.topic_id)
        _logger.info("deleted topic %s", topic.name)
        for member, replicas in members:
            yield from member.removing(topic, replicas)
        self._deleting.pop(topic.topic_id, None)
        del self._in_work[topic.name]

    def is_deleting(self, topic_id: Uuid | None) -> bool:
        """Return whether a topic is deleted but may still have files."""
        return topic_id in self._deleting

    def _stored(self) -> list[StoredTopic]:
        return [(topic, self.catalog.states_of(topic)) for topic in self.catalog.topics()]

    def _new_topic_id(self) -> Uuid:
        while True:
            topic_id = random_uuid(self._rng)
            if self._is_free(topic_id):
                return topic_id

    def _is_free(self, topic_id: Uuid) -> bool:
        return topic_id not in (ZERO_UUID, METADATA_TOPIC_ID) and self.catalog.topic_by_id(topic_id) is None


def _shown(state: PartitionState | None) -> str:
    return "" if state is None else f"leader {state.leader} (epoch {state.leader_epoch}), in sync {list(state.isr)}"
