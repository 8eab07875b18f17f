"""The state of one broker node, without a network: handlers work on it, and `server` connects it to the network.

The node owns its replicas. The `controller`, which all nodes share, holds the cluster metadata (topics, leaders,
producer ids). Storage, clock and randomness are passed in.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kafkaraw.broker.acl.authorizer import Authorizer
from kafkaraw.broker.acl.rules import Acl
from kafkaraw.broker.auto_creation import AutoCreation
from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.configs.dynamic_configs import ALL_BROKERS, DynamicConfigs
from kafkaraw.broker.configs.topic_config import TopicConfig
from kafkaraw.broker.controller import Controller, Replicas
from kafkaraw.broker.fetch_sessions import FetchSessions
from kafkaraw.broker.groups.node import OFFSETS_TOPIC, GroupNode
from kafkaraw.broker.ids import RandomBits, random_uuid
from kafkaraw.broker.large_requests import LargeRequests
from kafkaraw.broker.log.log_loader import StoppedAs
from kafkaraw.broker.log.partition_log import is_segment
from kafkaraw.broker.log.storage import ROOT, LogStorage
from kafkaraw.broker.old_releases import Offer
from kafkaraw.broker.partitions.elections import PartitionState
from kafkaraw.broker.partitions.partition import Partition, folder_name
from kafkaraw.broker.producer_ids import ProducerIds
from kafkaraw.broker.quotas.throttling import Throttling
from kafkaraw.broker.security.sasl_authenticator import SaslServers
from kafkaraw.broker.topics.catalog import Catalog, Topic
from kafkaraw.broker.topics.topic_creation import Plan
from kafkaraw.broker.topics.topic_files import (
    META_FILE,
    PARTITION_FILE,
    MetaProperties,
    read_meta,
    read_partition_metadata,
    write_meta,
    write_partition_metadata,
)
from kafkaraw.broker.transactions.node import TransactionNode
from kafkaraw.broker.transactions.state_log import TOPIC as TRANSACTION_TOPIC
from kafkaraw.broker.turns import Steps, run_to_end
from kafkaraw.core.log.leader_epochs import EPOCHS_FILE
from kafkaraw.core.log.metadata_files import NO_BROKER_EPOCH, write_clean_shutdown
from kafkaraw.core.log.names import CLEAN_SHUTDOWN_FILE, parse_file
from kafkaraw.core.log.offset_checkpoint import (
    HIGH_WATERMARKS_FILE,
    LOG_STARTS_FILE,
    RECOVERY_POINTS_FILE,
    read_offsets,
    write_offsets,
)
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.net import Clock
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.config_codes import ConfigResourceType
from kafkaraw.records import TopicPartition

_logger = logging.getLogger("kafkaraw.broker")

STRAY_SUFFIX: Final = "-stray"
DELETE_SUFFIX: Final = "-delete"
FOLDER_NAME_MAX: Final = 255


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
        storage: storage of the logs.
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
        storage: LogStorage,
        clock: Clock,
        rng: RandomBits,
        *,
        max_versions: str | None = None,
        controller: Controller | None = None,
    ) -> None:
        self.config = config
        self._started_with = config
        self.offer = Offer(max_versions, unstable=config.unstable_api_versions_enable)
        self.clock = clock
        self.node_id = config.node_id
        self.controller = controller or Controller(config, storage, rng)
        self._is_alone = controller is None
        self._storage = storage
        self._rng = rng
        self.sasl_servers = SaslServers(config.security, clock, rng, self.controller.credentials)
        self.throttling = Throttling(self.controller.quotas, clock, config.quota_windows, config.mutation_windows)
        self.transactions = TransactionNode(self.node_id, self.controller, config, clock)
        self.fetch_sessions = FetchSessions(config.fetch_session_slots, rng, clock.time_ms)
        self.groups = GroupNode(self.node_id, self.controller, config, clock, rng)
        internal_topics = {topic.name: topic for topic in (self.groups.topic, self.transactions.topic)}
        self.auto_creation = AutoCreation(self.controller, lambda: self.config, internal_topics)
        self.large_requests = LargeRequests()
        self._partitions: dict[TopicPartition, Partition] = {}
        self._staged: dict[Uuid, _Staged] = {}
        self._closed = False
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._log_starts: dict[TopicPartition, int] = {}
        self._recovery_points: dict[TopicPartition, int] = {}
        self._was_clean = False

    @property
    def catalog(self) -> Catalog:
        """The cluster's brokers and topics."""
        return self.controller.catalog

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
        meta = self._open_meta()
        if self._is_alone:
            self.controller.open(meta.cluster_id)
        yield from self._setting_strays_aside()
        self.reconfigure()
        self._high_watermarks = self._read_offsets(HIGH_WATERMARKS_FILE)
        self._log_starts = self._read_offsets(LOG_STARTS_FILE)
        self._recovery_points = self._read_offsets(RECOVERY_POINTS_FILE)
        self._was_clean = self._take_clean_shutdown_marker()
        for topic in self.catalog.topics():
            yield from self._opening_replicas(topic)
        for topic in self.catalog.topics():  # those that other nodes have changed meanwhile
            run_to_end(self._opening_replicas(topic))
        for key in [key for key in self._partitions if self.catalog.state_of(key) is None]:
            self._drop(key)
        self._recovery_points.clear()
        self._was_clean = False
        self._log_starts.clear()  # what a topic left behind is nothing to one that is made later under its name
        self.controller.join(self)

    def _open_meta(self) -> MetaProperties:
        text = self._storage.read_text(ROOT, META_FILE)
        if text is None:
            cluster_id = str(random_uuid(self._rng)) if self._is_alone else self.catalog.cluster_id
            meta = MetaProperties(cluster_id, self.node_id, str(random_uuid(self._rng)))
            self._storage.write_text(ROOT, META_FILE, write_meta(meta))
            return meta
        meta = read_meta(text)
        if meta.node_id != self.node_id:
            raise ConfigError(f"node.id: the data directory belongs to node {meta.node_id}, not {self.node_id}")
        if not self._is_alone and meta.cluster_id != self.catalog.cluster_id:
            raise ConfigError(f"node {self.node_id}: its data directory belongs to cluster {meta.cluster_id}")
        return meta

    def _setting_strays_aside(self) -> Steps[None]:
        """Folders that no topic claims are from a creation or deletion that a crash cut short.

        They are removed if they hold no record, or if it is known that their topic was being deleted. Others are
        renamed, as in Kafka, because a user may have created them.
        """
        topics = {
            folder_name(key): topic
            for topic in self.catalog.topics()
            for key, state in zip(topic.partitions(), self.catalog.states_of(topic), strict=True)
            if self.node_id in state.replicas
        }
        removed = 0
        for folder in self._storage.folders():
            yield None
            if folder.endswith(DELETE_SUFFIX):
                self._remove_doomed(folder)
            elif not folder.endswith(STRAY_SUFFIX) and self._is_stray(folder, topics.get(folder)):
                if self._holds_nothing(folder):
                    self._remove_doomed(folder)
                    removed += 1
                    continue
                stray = aside_name(folder, random_uuid(self._rng), STRAY_SUFFIX)
                _logger.warning("%s belongs to no topic; renamed to %s", folder, stray)
                self._storage.rename_folder(folder, stray)
        if removed:
            _logger.info("removed %d folders that have no records, or whose topic was being deleted", removed)

    def _holds_nothing(self, folder: str) -> bool:
        """Whether a stray folder of a partition has no records, or those of a topic that was being deleted."""
        text = self._storage.read_text(folder, PARTITION_FILE)
        if text is None:
            return False
        if self.controller.is_deleting(read_partition_metadata(text)):
            return True
        return all(self._is_empty_file(folder, name) for name in self._storage.files(folder))

    def _is_empty_file(self, folder: str, name: str) -> bool:
        """Return whether a file of a partition's folder has no records."""
        if name.removesuffix(".tmp") in (PARTITION_FILE, EPOCHS_FILE):
            return True
        if parse_file(name) is None:
            return False
        return not is_segment(name) or not self._storage.file_size(folder, name)

    def _is_stray(self, folder: str, topic: Topic | None) -> bool:
        text = self._storage.read_text(folder, PARTITION_FILE)
        found = None if text is None else read_partition_metadata(text)
        if topic is not None:
            return found is not None and found != topic.topic_id
        return text is not None or any(is_segment(name) for name in self._storage.files(folder))

    def _opening_replicas(self, topic: Topic) -> Steps[None]:
        """Open the replicas of a topic that are this node's; those that are open take the part that they have now."""
        config = TopicConfig.of(topic.configs, self.config.topic_defaults)
        for key, state in zip(topic.partitions(), self.catalog.states_of(topic), strict=True):
            if self.node_id not in state.replicas:
                continue
            partition = self._partitions.get(key)
            if partition is None:
                partition = self._partitions[key] = yield from self._opening_replica(key, topic, config)
                self.controller.replication.add(partition)
            if partition.state != state:
                self.lead_or_follow(key, state)
            yield None

    def _opening_replica(self, key: TopicPartition, topic: Topic, config: TopicConfig) -> Steps[Partition]:
        """Open a replica, made when it is not there.

        Raises:
            OSError: the storage is full or broken.
        """
        self._make_folder(folder_name(key), topic)
        partition = Partition(
            key,
            self.node_id,
            self._storage,
            config,
            self.clock,
            self.controller,
            producer_expiration_ms=self.config.producer_id_expiration_ms,
            lag_max_ms=self.config.replica_lag_time_max_ms,
            reads_all_records=self.config.validates_all_records,
        )
        partition.on_start_moved = self._write_log_starts
        try:
            stopped = StoppedAs(self._was_clean, self._recovery_points.get(key, 0), self._log_starts.get(key, 0))
            yield from partition.opening(self._high_watermarks.get(key, 0), stopped)
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
            yield from self.removing(topic, list(staged.replicas.items()))

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
        if topic.name in (TRANSACTION_TOPIC, OFFSETS_TOPIC):
            for key, partition in made.items():
                self.lead_or_follow(key, partition.state)

    def _make_folder(self, folder: str, topic: Topic) -> None:
        """Have the folder of a replica; one that an earlier topic of that name has left is set aside."""
        self._storage.make_folder(folder)
        metadata = write_partition_metadata(topic.topic_id)
        found = self._storage.read_text(folder, PARTITION_FILE)
        if found is not None and read_partition_metadata(found) not in (None, topic.topic_id):
            self._storage.rename_folder(folder, aside_name(folder, random_uuid(self._rng), STRAY_SUFFIX))
            self._storage.make_folder(folder)
        if found != metadata:
            self._storage.write_text(folder, PARTITION_FILE, metadata, durable=False)

    def lead_or_follow(self, topic_partition: TopicPartition, state: PartitionState) -> None:
        """Make this node's replica leader or follower, as a new partition state says."""
        partition = self._partitions.get(topic_partition)
        if partition is not None:
            partition.lead_or_follow(state)
            self.controller.replication.state_changed(partition)
            if topic_partition.topic == TRANSACTION_TOPIC:
                self.transactions.lead_or_follow(partition)
            elif topic_partition.topic == OFFSETS_TOPIC:
                self.groups.lead_or_follow(partition)

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
        if topic.name == OFFSETS_TOPIC:
            for key, _ in replicas:
                self.groups.drop(key)
        return replicas

    def removing(self, topic: Topic, replicas: Replicas) -> Steps[None]:
        """Close replicas of a topic and remove their folders.

        A folder is renamed first, so that a crash leaves nothing that a new topic could take over.
        """
        written_down = False
        for key, partition in replicas:
            if partition is not None:
                written_down = written_down or partition.log.starts_within_a_segment
                self.controller.replication.remove(partition)
                partition.remove()
            if self._closed:
                return  # what is left is removed when the node starts again
            self._remove_folder(folder_name(key), topic)
            yield None
        if written_down:
            self._write_log_starts()

    def _drop(self, key: TopicPartition) -> None:
        """Close the replica of a topic that was deleted while this node opened it; the next start removes its files."""
        partition = self._partitions.pop(key)
        self.controller.replication.remove(partition)
        partition.remove()

    def _remove_folder(self, folder: str, topic: Topic) -> None:
        """Remove a partition's folder; there is none where its creation did not come that far."""
        doomed = aside_name(folder, topic.topic_id, DELETE_SUFFIX)
        try:
            self._storage.rename_folder(folder, doomed)
        except FileNotFoundError:
            return
        except OSError as error:
            _logger.error("%s of a deleted topic cannot be renamed: %s", folder, error)
            return
        self._remove_doomed(doomed)

    def _remove_doomed(self, folder: str) -> None:
        """Remove a folder that is renamed already; one that cannot be removed now is removed at the next start."""
        try:
            self._storage.remove_folder(folder)
        except OSError as error:
            _logger.warning("%s cannot be deleted before the next start: %s", folder, error)

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
        self._close_partitions(sync=sync)
        for staged in self._staged.values():
            for made in staged.replicas.values():
                if made is not None:
                    self.controller.replication.remove(made)
                    made.close(sync=False)
        self._staged.clear()
        self._storage.close()

    def _close_partitions(self, *, sync: bool) -> None:
        """Close the replicas; after a clean shutdown, the next start opens their logs without recovery."""
        if sync and self._partitions:
            self._write_high_watermarks()
        is_clean = sync
        for key, partition in self._partitions.items():
            self.controller.replication.remove(partition)
            try:
                partition.close(sync=sync)
            except OSError as error:
                is_clean = False
                _logger.error("%s cannot be closed cleanly: %s", folder_name(key), error)
        if is_clean:
            points = {key: partition.log.recovery_point for key, partition in self._partitions.items()}
            self._storage.write_text(ROOT, RECOVERY_POINTS_FILE, write_offsets(points))
            self._storage.write_text(ROOT, CLEAN_SHUTDOWN_FILE, write_clean_shutdown(NO_BROKER_EPOCH))
        self._partitions.clear()

    def _take_clean_shutdown_marker(self) -> bool:
        """Return whether the broker that wrote the logs was shut down cleanly, and remove its marker."""
        if self._storage.file_size(ROOT, CLEAN_SHUTDOWN_FILE) is None:
            return False
        self._storage.remove_file(ROOT, CLEAN_SHUTDOWN_FILE)
        self._storage.sync_folder(ROOT)
        return True

    def _read_offsets(self, file: str) -> dict[TopicPartition, int]:
        """Read a checkpoint. A corrupt one is ignored: leaders send high watermarks, segments have offsets."""
        text = self._storage.read_text(ROOT, file)
        try:
            return {} if text is None else read_offsets(text)
        except ValueError as error:
            _logger.warning("%s is damaged and ignored: %s", file, error)
            return {}

    def _write_log_starts(self) -> None:
        """Write the log start offsets that differ from the names of the first segments."""
        starts = {
            key: partition.log.log_start_offset
            for key, partition in self._partitions.items()
            if partition.log.starts_within_a_segment
        }
        try:
            self._storage.write_text(ROOT, LOG_STARTS_FILE, write_offsets(starts))
        except OSError as error:
            _logger.error("%s cannot be written, so deleted records may reappear: %s", LOG_STARTS_FILE, error)

    def _write_high_watermarks(self) -> None:
        """Write the high watermarks; a single replica needs none, because its log end offset is the high watermark."""
        replicated = {
            key: partition.high_watermark
            for key, partition in self._partitions.items()
            if len(partition.state.replicas) > 1
        }
        if replicated:
            self._storage.write_text(ROOT, HIGH_WATERMARKS_FILE, write_offsets(replicated))


def aside_name(folder: str, unique: Uuid, suffix: str) -> str:
    """Kafka's name for a partition folder that is to be removed or ignored, cut to what file systems take."""
    ending = f".{unique.hex()}{suffix}"
    return folder[: FOLDER_NAME_MAX - len(ending)] + ending
