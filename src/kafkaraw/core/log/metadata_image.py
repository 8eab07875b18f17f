"""`MetadataImage`: a cluster's topics, settings, users and permissions, replayed from the records of its metadata log.

This module must not know files: `metadata_log` reads and writes them. Start at `MetadataImage.apply` (records to image)
and `MetadataImage.records` (image to records).

Source: org.apache.kafka.image.{MetadataDelta, MetadataImage}, org.apache.kafka.server.common.MetadataVersion.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

from kafkaraw.core.log.framed_records import Framed
from kafkaraw.errors import ProtocolError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.embedded.metadata_records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    EntityData,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)

METADATA_VERSION: Final = "metadata.version"
METADATA_VERSION_MAX: Final = 30
"""The level of the newest known `metadata.version`: 4.3-IV0."""
NEWEST_RELEASE: Final = "4.3"
FEATURES: Final = {
    METADATA_VERSION: METADATA_VERSION_MAX,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
"""The levels that Kafka 4.3 gives a new cluster, but without eligible leader replicas (KIP-966).

With them, a controller removes a broker from every ISR when it registers for the first time and partitions already have
it, as after an unclean shutdown; partitions with one replica have no leader then, and get none.
"""
_PARTITION_VERSION: Final = 2
_NO_CHANGE: Final = -2

K = TypeVar("K")
V = TypeVar("V")
Entity = tuple[tuple[str, str | None], ...]
"""What a quota is for: names by type, sorted by type; None is the default."""


@dataclass(slots=True)
class PartitionImage:
    """The state of a partition.

    Attributes:
        directories: the log directory of each replica; empty if they are not known.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[Uuid, ...] = ()


@dataclass(slots=True)
class TopicImage:
    """A topic, with its partitions by their numbers."""

    name: str
    topic_id: Uuid
    partitions: dict[int, PartitionImage] = field(default_factory=dict)


@dataclass(slots=True)
class MetadataImage:
    """The metadata of a cluster.

    Attributes:
        features: finalized levels by name.
        topics: by id.
        configs: settings by the type (2 topic, 4 broker, 16 client metrics, 32 group) and the name of their owner.
        credentials: SCRAM credentials by type of mechanism and user.
        quotas: values by key, for each entity.
        acls: by id.
        tokens: delegation tokens by id.
        brokers: ids of the registered brokers.
        next_producer_id: the first that is not allocated.
    """

    features: dict[str, int] = field(default_factory=dict)
    topics: dict[Uuid, TopicImage] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    credentials: dict[tuple[int, str], UserScramCredentialRecord] = field(default_factory=dict)
    quotas: dict[Entity, dict[str, float]] = field(default_factory=dict)
    acls: dict[Uuid, AccessControlEntryRecord] = field(default_factory=dict)
    tokens: dict[str, DelegationTokenRecord] = field(default_factory=dict)
    brokers: set[int] = field(default_factory=set)
    next_producer_id: int = 0
    _transaction: list[object] | None = None

    def apply(self, record: object) -> None:
        """Replay a record. Those between a begin and an end of a transaction take effect at its end (KIP-868).

        Raises:
            ProtocolError: the record contradicts those before it, or a newer release has written it.
        """
        match record:
            case BeginTransactionRecord():
                self._transaction = []
            case EndTransactionRecord():
                pending, self._transaction = self._transaction or [], None
                for one in pending:
                    self._replay(one)
            case AbortTransactionRecord():
                self._transaction = None
            case _ if self._transaction is not None:
                self._transaction.append(record)
            case _:
                self._replay(record)

    def _replay(self, record: object) -> None:
        match record:
            case TopicRecord():
                self.topics[record.topic_id] = TopicImage(record.name, record.topic_id)
            case PartitionRecord():
                self._topic(record.topic_id).partitions[record.partition_id] = PartitionImage(
                    tuple(record.replicas),
                    tuple(record.isr),
                    record.leader,
                    record.leader_epoch,
                    record.partition_epoch,
                    tuple(record.directories),
                )
            case PartitionChangeRecord():
                self._change_partition(record)
            case RemoveTopicRecord():
                topic = self._topic(record.topic_id)
                del self.topics[record.topic_id]
                self.configs.pop((2, topic.name), None)
            case ConfigRecord():
                owner = (record.resource_type, record.resource_name)
                if record.value is not None:
                    self.configs.setdefault(owner, {})[record.name] = record.value
                else:
                    _remove(self.configs, owner, record.name)
            case ClientQuotaRecord():
                entity = tuple(sorted((part.entity_type, part.entity_name) for part in record.entity))
                if not record.remove:
                    self.quotas.setdefault(entity, {})[record.key] = record.value
                else:
                    _remove(self.quotas, entity, record.key)
            case FeatureLevelRecord():
                self._set_feature(record)
            case _:
                self._replay_user(record)

    def _replay_user(self, record: object) -> None:
        """Replay what remains: users, permissions, ids. Fencing of brokers and controllers is of no interest."""
        match record:
            case UserScramCredentialRecord():
                self.credentials[record.mechanism, record.name] = record
            case RemoveUserScramCredentialRecord():
                self.credentials.pop((record.mechanism, record.name), None)
            case AccessControlEntryRecord():
                self.acls[record.id] = record
            case RemoveAccessControlEntryRecord():
                self.acls.pop(record.id, None)
            case DelegationTokenRecord():
                self.tokens[record.token_id] = record
            case RemoveDelegationTokenRecord():
                self.tokens.pop(record.token_id, None)
            case ProducerIdsRecord():
                self.next_producer_id = record.next_producer_id
            case RegisterBrokerRecord():
                self.brokers.add(record.broker_id)
            case UnregisterBrokerRecord():
                self.brokers.discard(record.broker_id)

    def _topic(self, topic_id: Uuid) -> TopicImage:
        try:
            return self.topics[topic_id]
        except KeyError:
            raise ProtocolError(f"topic id {topic_id} is of no topic") from None

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        topic = self._topic(record.topic_id)
        partition = topic.partitions.get(record.partition_id)
        if partition is None:
            raise ProtocolError(f"{topic.name} has no partition {record.partition_id}")
        if record.isr is not None:
            partition.isr = tuple(record.isr)
        if record.replicas is not None:
            partition.replicas = tuple(record.replicas)
        if record.directories is not None:
            partition.directories = tuple(record.directories)
        if record.leader != _NO_CHANGE:
            partition.leader = record.leader
            partition.leader_epoch += 1
        partition.partition_epoch += 1

    def _set_feature(self, record: FeatureLevelRecord) -> None:
        if record.name == METADATA_VERSION and record.feature_level > METADATA_VERSION_MAX:
            raise ProtocolError(
                f"{METADATA_VERSION} is {record.feature_level}, of a release newer than {NEWEST_RELEASE}, whose level "
                f"is {METADATA_VERSION_MAX}"
            )
        self.features[record.name] = record.feature_level

    def records(self) -> Iterator[Framed]:
        """Yield the records of a snapshot, in an order in which each one can be replayed; brokers are left out."""
        for name, level in sorted(self.features.items(), key=lambda item: (item[0] != METADATA_VERSION, item[0])):
            yield Framed(FeatureLevelRecord(name=name, feature_level=level), 0)
        for topic in self.topics.values():
            yield Framed(TopicRecord(name=topic.name, topic_id=topic.topic_id), 0)
            for number, partition in sorted(topic.partitions.items()):
                yield Framed(
                    PartitionRecord(
                        partition_id=number,
                        topic_id=topic.topic_id,
                        replicas=list(partition.replicas),
                        isr=list(partition.isr),
                        removing_replicas=[],
                        adding_replicas=[],
                        leader=partition.leader,
                        leader_epoch=partition.leader_epoch,
                        partition_epoch=partition.partition_epoch,
                        directories=list(partition.directories),
                    ),
                    _PARTITION_VERSION,
                )
        for (kind, owner), settings in self.configs.items():
            for name, value in settings.items():
                yield Framed(ConfigRecord(resource_type=kind, resource_name=owner, name=name, value=value), 0)
        for entity, values in self.quotas.items():
            parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
            for key, limit in values.items():
                yield Framed(ClientQuotaRecord(entity=parts, key=key, value=limit, remove=False), 0)
        yield from (Framed(record, 0) for record in self.credentials.values())
        yield from (Framed(record, 0) for record in self.acls.values())
        yield from (Framed(record, 0) for record in self.tokens.values())
        if self.next_producer_id:
            block = ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=self.next_producer_id)
            yield Framed(block, 0)


def _remove(values: dict[K, dict[str, V]], owner: K, name: str) -> None:
    held = values.get(owner, {})
    held.pop(name, None)
    if not held:
        values.pop(owner, None)
