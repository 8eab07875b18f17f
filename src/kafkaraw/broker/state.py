"""The state of one broker node, without a network: handlers work on it, and `server` connects it to the network.

The node owns its replicas. The `controller`, which all nodes share, holds the cluster metadata (topics, leaders,
producer ids). Storage, clock and randomness are passed in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from kafkaraw.broker.acl.authorizer import Authorizer
from kafkaraw.broker.acl.rules import Acl
from kafkaraw.broker.auto_creation import AutoCreation
from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.configs.dynamic_configs import ALL_BROKERS, DynamicConfigs
from kafkaraw.broker.configs.topic_config import TopicConfig
from kafkaraw.broker.controller import Controller, Replicas
from kafkaraw.broker.fetch_sessions import FetchSessions
from kafkaraw.broker.groups.node import GroupNode
from kafkaraw.broker.ids import RandomBits, random_uuid
from kafkaraw.broker.large_requests import LargeRequests
from kafkaraw.broker.log.dir_failures import LogDirFailureChannel
from kafkaraw.broker.log.directories import (
    LogDirectories,
    LogDirectory,
    Storages,
    as_directories,
    aside_name,
    folder_name,
    future_folders,
)
from kafkaraw.broker.log.log_cleaner import LogCleaner
from kafkaraw.broker.log.log_manager import LogManager
from kafkaraw.broker.log.replica_moves import ReplicaMoves
from kafkaraw.broker.log.storage import ROOT
from kafkaraw.broker.old_releases import Offer
from kafkaraw.broker.partitions.elections import PartitionState
from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.broker.producer_ids import ProducerIds
from kafkaraw.broker.quotas.throttling import Throttling
from kafkaraw.broker.shares.node import ShareNode
from kafkaraw.broker.start_folders import (
    choosing_copy,
    directory_with_metadata,
    remove_doomed,
    setting_strays_aside,
    written_by_kafka,
)
from kafkaraw.broker.topics.catalog import Catalog, Topic
from kafkaraw.broker.topics.topic_creation import Plan
from kafkaraw.broker.transactions.node import TransactionNode
from kafkaraw.broker.turns import Steps, run_to_end
from kafkaraw.core.log.names import FolderState
from kafkaraw.light_classes import dataclass, field
from kafkaraw.net import Clock
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.config_codes import ConfigResourceType
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    from kafkaraw.broker.security.sasl_authenticator import SaslServers
    from kafkaraw.broker.shares.partitions import SharePartitions
    from kafkaraw.broker.telemetry.instances import ClientInstances

_logger = logging.getLogger("kafkaraw.broker")


@dataclass(frozen=True, slots=True)
class _Staged:
    """Replicas of a topic that is not published yet.

    Attributes:
        config: the topic's settings at the creation of the replicas.
        replicas: the created replicas; None for one that could not be opened.
    """

    config: TopicConfig
    replicas: dict[TopicPartition, Partition | None] = field(default_factory=dict)


class BrokerState:
    """One node's state.

    Args:
        config: the broker's properties.
        storage: the log directories, or the storage of the only one.
        clock: wall clock.
        rng: source of random ids.
        max_versions: support only the API versions of this Kafka release; None is the newest release.
        controller: the cluster's controller, opened; None for a cluster of one node.

    Raises:
        ConfigError: the release is unknown.
    """

    def __init__(
        self,
        config: BrokerConfig,
        storage: Storages,
        clock: Clock,
        rng: RandomBits,
        *,
        max_versions: str | None = None,
        controller: Controller | None = None,
    ) -> None:
        self.config: BrokerConfig = config
        self._started_with = config
        self.offer: Offer = Offer(max_versions, unstable=config.unstable_api_versions_enable)
        self.clock = clock
        self.node_id: int = config.node_id
        directories = as_directories(storage)
        self.controller: Controller = controller or Controller(
            config, directory_with_metadata(directories).storage, rng
        )
        self._is_alone = controller is None
        self.dir_failures: LogDirFailureChannel = LogDirFailureChannel(self._dir_failed)
        guarded = [directory.guarded(self.dir_failures) for directory in directories]
        self.directories: LogDirectories = LogDirectories(guarded, rng, lambda: self.config.logs.cordoned)
        self.logs: LogManager = LogManager(
            self.directories, clock, lambda: self.config.logs, lambda: self._partitions.values()
        )
        self.cleaner: LogCleaner = LogCleaner(
            self.logs, self.directories, clock, lambda: self.config.logs.cleaner, lambda: self._partitions.values(), rng
        )
        self.moves: ReplicaMoves = ReplicaMoves(self.directories, self.logs, self.cleaner, rng)
        self._rng = rng
        self.throttling: Throttling = Throttling(
            self.controller.quotas, clock, config.quota_windows, config.mutation_windows
        )
        self.transactions: TransactionNode = TransactionNode(self.node_id, self.controller, config, clock)
        self.fetch_sessions: FetchSessions = FetchSessions(config.fetch_session_slots, rng, clock.time_ms)
        self.shares: ShareNode = ShareNode(self.node_id, self.controller, config, clock)
        self.groups: GroupNode = GroupNode(self.node_id, self.controller, config, clock, rng, self.shares)
        self._coordinators: dict[str, GroupNode | ShareNode | TransactionNode] = {
            node.topic.name: node for node in (self.groups, self.shares, self.transactions)
        }
        internal_topics = {name: node.topic for name, node in self._coordinators.items()}
        self.auto_creation: AutoCreation = AutoCreation(self.controller, lambda: self.config, internal_topics)
        self.large_requests: LargeRequests = LargeRequests()
        self._partitions: dict[TopicPartition, Partition] = {}
        self._staged: dict[Uuid, _Staged] = {}
        self._offline: dict[TopicPartition, None] = {}
        self._is_open = False
        self._closed = False

    @property
    def catalog(self) -> Catalog:
        """The cluster's brokers and topics."""
        return self.controller.catalog

    @cached_property
    def sasl_servers(self) -> SaslServers:
        """The mechanisms of the listeners with SASL."""
        from kafkaraw.broker.security.sasl_authenticator import SaslServers  # only for listeners with SASL

        shared = self.controller
        return SaslServers(self._started_with.security, self.clock, self._rng, shared.credentials, shared.tokens)

    @cached_property
    def client_instances(self) -> ClientInstances:
        """The clients that push metrics to this node, or have asked whether to (KIP-714)."""
        from kafkaraw.broker.telemetry.instances import ClientInstances  # only for clients that ask

        return ClientInstances(
            self.dynamic_configs, lambda: random_uuid(self._rng), self._started_with.telemetry_max_bytes
        )

    @cached_property
    def share_partitions(self) -> SharePartitions:
        """The share partitions of this node, and the share sessions of its clients."""
        from kafkaraw.broker.shares.partitions import SharePartitions  # only for clients of share groups

        return SharePartitions(
            self.shares, self.clock, self.groups.share_limits_of, self._started_with.shares.sessions_max
        )

    def client_disconnected(self, peer: str) -> None:
        """Forget the client of a connection that has ended: its share sessions, and whether it pushes metrics."""
        if "share_partitions" in vars(self):
            self.share_partitions.disconnected(peer)
        if "client_instances" in vars(self):
            self.client_instances.disconnected(peer)

    @property
    def receives_telemetry(self) -> bool:
        """Whether the metrics that clients push can be read: an optional package is installed."""
        from kafkaraw.core.telemetry import otlp  # only for clients that push

        return otlp.is_installed()

    @property
    def offers_telemetry(self) -> bool:
        """Whether clients are told that they may push metrics.

        As in Kafka, they are told if the metrics are received by something. Without subscriptions, their requests would
        be in vain.
        """
        wanted = self.controller.shows_client_metrics or self.dynamic_configs.names(ConfigResourceType.CLIENT_METRICS)
        return bool(wanted) and self.receives_telemetry

    @property
    def producer_ids(self) -> ProducerIds:
        """Where the cluster's producer ids come from."""
        return self.controller.producer_ids

    def open(self) -> None:
        """Run `opening` to its end immediately."""
        run_to_end(self.opening())

    def opening(self) -> Steps[None]:
        """Open the storage, or format it for a new cluster.

        Raises:
            ConfigError: the storage belongs to another node or cluster, or its files are corrupt.
            OSError: the storage cannot be read or written.
        """
        cluster_id = self.directories.open(self.node_id, None if self._is_alone else self.catalog.cluster_id)
        if self._is_alone:
            storages = [directory.storage for directory in self.directories.online]
            if any(written_by_kafka(storages)):
                from kafkaraw.broker.kafka_metadata import take_over  # only for directories that Apache Kafka wrote

                take_over(storages, self.controller.storage, self.node_id, read_only=self.config.read_only)
            self.controller.open(cluster_id)
        self.reconfigure()
        for directory in self.directories.online:
            yield from setting_strays_aside(directory, self._claimed_folders(), self.controller.is_deleting, self._rng)
        doubled = self.directories.find(key for topic in self.catalog.topics() for key in topic.partitions())
        for key, homes in doubled.items():
            yield from choosing_copy(key, homes, self.directories, self.clock, self._rng)
        self.logs.read_checkpoints()
        for topic in self.catalog.topics():
            yield from self._opening_replicas(topic)
        for topic in self.catalog.topics():  # those that other nodes have changed meanwhile
            run_to_end(self._opening_replicas(topic))
        for key in [key for key in self._partitions if self.catalog.state_of(key) is None]:
            self._drop(key)
        self.logs.forget_checkpoints()
        self.controller.join(self)
        self._is_open = True
        if self._offline:
            self.controller.replicas_failed(self.node_id, list(self._offline))

    def _claimed_folders(self) -> dict[str, Topic]:
        """Return the topics of this node's replicas by the names of their folders."""
        return {
            folder_name(key): topic
            for topic in self.catalog.topics()
            for key, state in zip(topic.partitions(), self.catalog.states_of(topic), strict=True)
            if self.node_id in state.replicas
        }

    def _dir_failed(self, path: str, error: OSError) -> None:
        """Take the replicas of a failed log directory out of service, once the operation that failed has ended."""
        directory = self.directories.at(path)
        assert directory is not None, path
        directory.is_offline = True
        for key in self.directories.replicas_in(directory):
            partition = self._partitions.get(key)
            if partition is not None:
                partition.is_offline = True
        if self._is_open and not self._closed:  # while the broker starts, the error ends the start
            asyncio.get_running_loop().call_soon(self._stop_serving, path)

    def _stop_serving(self, path: str) -> None:
        """Take the replicas of a failed log directory out of service; other replicas become leaders.

        Source: kafka.server.ReplicaManager.handleLogDirFailure.
        """
        if self._closed:
            return
        _logger.warning("Stopping serving replicas in dir %s", path)
        directory = self.directories.at(path)
        assert directory is not None, path
        self.moves.stop_in(directory)
        lost = [key for key in self.directories.replicas_in(directory) if key in self._partitions]
        for key in lost:
            self._offline[key] = None
            partition = self._partitions.pop(key)
            self.controller.replication.remove(partition)
            partition.remove()
            self._drop_coordinator(key)
        _logger.warning(
            "Broker %d stopped fetchers for partitions %s because they are in the failed log directory %s",
            self.node_id,
            ",".join(folder_name(key) for key in lost),
            path,
        )
        self.controller.replicas_failed(self.node_id, lost)
        _logger.warning("Stopped serving replicas in dir %s", path)

    def is_offline(self, topic_partition: TopicPartition) -> bool:
        """Return whether this node's replica of a partition is in a log directory that is offline."""
        partition = self._partitions.get(topic_partition)
        return topic_partition in self._offline if partition is None else partition.is_offline

    def start(self) -> None:
        """Start the scheduled tasks of the LogManager, and resume moves of replicas to other directories."""
        if self.config.read_only:
            return
        self.logs.start()
        for directory in self.directories.online:
            for key, folder in future_folders(directory).items():
                partition, topic = self._partitions.get(key), self.catalog.topic(key.topic)
                try:
                    if partition is None or topic is None or self.directories.home_of(key) is directory:
                        remove_doomed(directory, folder)
                    else:
                        self.moves.resume(partition, directory, folder, topic.topic_id)
                except OSError as error:
                    _logger.error("%s cannot be moved to %s: %s", folder_name(key), directory.path, error)

    def _opening_replicas(self, topic: Topic) -> Steps[None]:
        """Open the replicas of a topic that are this node's; those that are open take the part that they have now."""
        config = TopicConfig.of(topic.configs, self.config.topic_defaults)
        for key, state in zip(topic.partitions(), self.catalog.states_of(topic), strict=True):
            if self.node_id not in state.replicas:
                continue
            if key in self._offline:
                continue
            partition = self._partitions.get(key)
            if partition is None:
                partition = yield from self._opening_unless_offline(key, topic, config)
                if partition is None:
                    continue
                self._partitions[key] = partition
                self.controller.replication.add(partition)
            if partition.state != state:
                self.lead_or_follow(key, state)
            yield None

    def _opening_unless_offline(
        self, key: TopicPartition, topic: Topic, config: TopicConfig
    ) -> Steps[Partition | None]:
        """Open a replica at the start; None if it is, or may be, in a directory that is offline.

        Raises:
            OSError: all directories are offline.
        """
        home = self.directories.home_of(key)
        if home is None and len(self.directories.online) < len(self.directories.all):
            self._offline[key] = None
            return None
        if home is None and len(self.catalog.states_of(topic)[key.partition].replicas) == 1:
            _logger.warning("%s has no folder in any log directory: it starts empty", folder_name(key))
        try:
            return (yield from self._opening_replica(key, topic, config))
        except OSError:
            home = self.directories.home_of(key)
            if home is None or not home.is_offline or not self.directories.online:
                raise
            self._offline[key] = None
            return None

    def _opening_replica(self, key: TopicPartition, topic: Topic, config: TopicConfig) -> Steps[Partition]:
        """Open a replica, made when it is not there.

        Raises:
            OSError: the storage is full or broken.
        """
        home = self.directories.place(key)
        home.make_folder(folder_name(key), topic.topic_id, self._rng)
        checkpoint = self.logs.checkpoint_of(key)
        partition = Partition(
            key,
            self.node_id,
            home.storage,
            config,
            self.clock,
            self.controller,
            producer_expiration_ms=self.config.producer_id_expiration_ms,
            lag_max_ms=self.config.replica_lag_time_max_ms,
            reads_all_records=self.config.validates_all_records,
        )
        partition.on_start_moved = self.logs.log_start_moved
        try:
            yield from partition.opening(checkpoint.high_watermark, checkpoint.stopped)
            self.cleaner.opened(key, home, partition.log.log_end_offset)
        except OSError:
            partition.log.close()
            raise
        return partition

    def stage(self, topic: Topic, states: Sequence[PartitionState], *, first: int) -> Steps[None]:
        """Create this node's replicas of a topic's partitions, starting with number `first`, without publishing them.

        Raises:
            OSError: the storage is full or broken; the caller must call `unstage`.
        """
        config = TopicConfig.of(topic.configs, self.config.topic_defaults)
        staged = self._staged[topic.topic_id] = _Staged(config)
        for index, state in enumerate(states, start=first):
            if self._closed:
                return
            if self.node_id in state.replicas:
                key = TopicPartition(topic.name, index)
                staged.replicas[key] = None
                partition = staged.replicas[key] = run_to_end(self._opening_replica(key, topic, config))
                self.controller.replication.add(partition)
                partition.lead_or_follow(state)
                yield None
        homes = {home.path: home for key in staged.replicas if (home := self.directories.home_of(key)) is not None}
        for home in homes.values():
            home.storage.sync_folder(ROOT)  # once for all of them: without it, a crash may remove their folders

    def follow_staged(self, topic: Topic) -> Steps[None]:
        """Start replication of the staged replicas from their leaders."""
        staged = self._staged.get(topic.topic_id)
        for partition in [] if staged is None else list(staged.replicas.values()):
            if self._closed:
                return
            if partition is not None and not partition.is_leader:
                self.controller.replication.state_changed(partition)
                yield None

    def unstage(self, topic: Topic) -> Steps[None]:
        """Remove the staged replicas of a topic and their files."""
        staged = self._staged.pop(topic.topic_id, None)
        if staged is not None:
            yield from self._removing(topic, list(staged.replicas.items()), delay_ms=0)

    def publish(self, topic: Topic) -> None:
        """Publish the staged replicas of a topic, which is in the catalog now."""
        staged = self._staged.pop(topic.topic_id, None)
        if staged is None:
            return
        made = {key: partition for key, partition in staged.replicas.items() if partition is not None}
        self._partitions.update(made)
        config = TopicConfig.of(topic.configs, self.config.topic_defaults)
        if config != staged.config:
            for partition in made.values():
                partition.reconfigure(config, self.config.producer_id_expiration_ms)
        if topic.name in self._coordinators:
            for key, partition in made.items():
                self.lead_or_follow(key, partition.state)

    def open_replica(self, topic: Topic, topic_partition: TopicPartition) -> None:
        """Open a new, empty replica of an existing partition; `lead_or_follow` follows.

        Raises:
            OSError: the storage is full or broken.
        """
        config = TopicConfig.of(topic.configs, self.config.topic_defaults)
        partition = run_to_end(self._opening_replica(topic_partition, topic, config))
        self._partitions[topic_partition] = partition
        self.controller.replication.add(partition)
        home = self.directories.home_of(topic_partition)
        if home is not None:
            home.storage.sync_folder(ROOT)  # without it, a crash may remove its folder

    def drop_replica(self, topic: Topic, topic_partition: TopicPartition) -> None:
        """Close a replica that is no longer this node's, and remove its files; no effect without such a replica."""
        self._offline.pop(topic_partition, None)  # the next start removes its files
        partition = self._partitions.pop(topic_partition, None)
        self._drop_coordinator(topic_partition)
        if partition is not None or self.directories.home_of(topic_partition) is not None:
            config = TopicConfig.of(topic.configs, self.config.topic_defaults)
            run_to_end(self._removing(topic, [(topic_partition, partition)], delay_ms=config.file_delete_delay_ms))

    def lead_or_follow(self, topic_partition: TopicPartition, state: PartitionState) -> None:
        """Make this node's replica leader or follower, as a new partition state says."""
        partition = self._partitions.get(topic_partition)
        if partition is not None:
            partition.lead_or_follow(state)
            self.controller.replication.state_changed(partition)
            coordinators = self._coordinators.get(topic_partition.topic)
            if coordinators is not None:
                coordinators.lead_or_follow(partition)

    def _drop_coordinator(self, topic_partition: TopicPartition) -> None:
        """Stop the coordinator of a partition that this node no longer has, if the topic is one of coordinators."""
        coordinators = self._coordinators.get(topic_partition.topic)
        if coordinators is not None:
            coordinators.drop(topic_partition)

    @property
    def dynamic_configs(self) -> DynamicConfigs:
        """The dynamic configurations of brokers, groups and client metrics."""
        return self.controller.dynamic_configs

    def reconfigure(self) -> None:
        """Apply changed settings of brokers or topics."""
        self.config = self.config_with()
        for topic in self.catalog.topics():
            config = TopicConfig.of(topic.configs, self.config.topic_defaults)
            for partition in self.partitions_of(topic):
                partition.reconfigure(config, self.config.producer_id_expiration_ms)

    def config_with(self, changed: Mapping[str, str] | None = None, *, one_broker: bool = True) -> BrokerConfig:
        """Return the configuration that the dynamic configurations of this broker result in.

        Args:
            changed: the dynamic configurations to try instead of those that are set.
            one_broker: `changed` is for this broker; otherwise it is for all brokers.

        Raises:
            ConfigError: two values contradict each other.
        """
        cluster = self.dynamic_configs.of(ConfigResourceType.BROKER, ALL_BROKERS)
        own = self.dynamic_configs.of(ConfigResourceType.BROKER, str(self.node_id))
        if changed is not None:
            cluster, own = (cluster, changed) if one_broker else (changed, own)
        return self._started_with.reconfigured({**cluster, **own})

    def partition(self, topic_partition: TopicPartition) -> Partition | None:
        """This node's replica of a partition, whether it leads or not; see also `handlers.leadership`."""
        return self._partitions.get(topic_partition)

    def replicas(self) -> list[Partition]:
        """This node's replicas of all partitions."""
        return list(self._partitions.values())

    def partitions_of(self, topic: Topic) -> list[Partition]:
        """This node's replicas of a topic's partitions."""
        return [self._partitions[key] for key in topic.partitions() if key in self._partitions]

    def change_acls(self, authorizer: Authorizer, *, add: Iterable[Acl] = (), remove: Iterable[Acl] = ()) -> None:
        """Add and remove access control entries, for good; see `Controller.change_acls`."""
        self.controller.change_acls(authorizer, add=add, remove=remove)

    def create_topic(self, plan: Plan) -> Topic:
        """Create a topic, on all nodes.

        Raises:
            OSError: the storage is full or broken; there is no such topic then.
        """
        return self.controller.create_topic(plan)

    def delete_topic(self, topic: Topic) -> None:
        """Delete a topic, its records, and the offsets committed in it.

        Raises:
            OSError: the storage is broken; the topic is still there.
        """
        self.controller.delete_topic(topic)

    def withdraw(self, topic: Topic) -> Replicas:
        """Take the replicas of a topic out of service and return them; the caller must run `removing`."""
        replicas = [(key, self._partitions.pop(key)) for key in topic.partitions() if key in self._partitions]
        for key in topic.partitions():
            self._offline.pop(key, None)  # the next start removes its files
        for key, _ in replicas:
            self._drop_coordinator(key)
        return replicas

    def removing(self, topic: Topic, replicas: Replicas) -> Steps[None]:
        """Close replicas of a deleted topic, and remove their folders after file.delete.delay.ms."""
        config = TopicConfig.of(topic.configs, self.config.topic_defaults)
        yield from self._removing(topic, replicas, delay_ms=config.file_delete_delay_ms)

    def _removing(self, topic: Topic, replicas: Replicas, *, delay_ms: int) -> Steps[None]:
        """Close replicas of a topic and remove their folders.

        A folder is renamed first, so that a crash leaves nothing that a new topic could take over.
        """
        for key, partition in replicas:
            self.moves.cancel(key)
            home = self.directories.home_of(key)
            self.directories.forget(key)
            if partition is not None:
                self.controller.replication.remove(partition)
                partition.remove()
            if self._closed:
                return  # what is left is removed when the node starts again
            if home is not None:
                self._remove_folder(home, folder_name(key), topic, delay_ms)
            yield None

    def _drop(self, key: TopicPartition) -> None:
        """Close the replica of a topic that was deleted while this node opened it; the next start removes its files."""
        partition = self._partitions.pop(key)
        self.controller.replication.remove(partition)
        partition.remove()

    def _remove_folder(self, directory: LogDirectory, folder: str, topic: Topic, delay_ms: int) -> None:
        """Remove a partition's folder; there is none where its creation did not come that far."""
        doomed = aside_name(folder, topic.topic_id, FolderState.DELETED)
        try:
            directory.storage.rename_folder(folder, doomed)
        except FileNotFoundError:
            return
        except OSError as error:
            _logger.error("%s of a deleted topic cannot be renamed: %s", folder, error)
            return
        self.logs.remove_later(directory, delay_ms, lambda: remove_doomed(directory, doomed))

    def close(self, *, sync: bool = True) -> None:
        """Close the storage.

        Args:
            sync: flush everything to disk first; without it, the storage is as after a crash.
        """
        self._closed = True
        self.controller.leave(self)
        self.auto_creation.close()
        self.transactions.close()
        self.groups.close()
        if "share_partitions" in vars(self):
            self.share_partitions.close()
        self.shares.close()
        self._close_partitions(sync=sync)
        for staged in self._staged.values():
            for made in staged.replicas.values():
                if made is not None:
                    self.controller.replication.remove(made)
                    made.close(sync=False)
        self._staged.clear()
        self.directories.close()

    def _close_partitions(self, *, sync: bool) -> None:
        """Close the replicas; after a clean shutdown, the next start opens their logs without recovery."""
        self.moves.stop()
        self.logs.stop()
        unclean: set[LogDirectory] = set()
        for key, partition in self._partitions.items():
            self.controller.replication.remove(partition)
            try:
                partition.close(sync=sync)
            except OSError as error:
                _logger.error("%s cannot be closed cleanly: %s", folder_name(key), error)
                home = self.directories.home_of(key)
                if home is not None:
                    unclean.add(home)
        if sync and self._is_open:
            try:
                self.logs.close(unclean)
            except OSError as error:
                _logger.error("the next start must recover logs, because %s", error)
        self._partitions.clear()
