"""Records of __cluster_metadata, behind a frame with their type and version.  Source: KIP-500, KIP-631."""

from __future__ import annotations

from kafkaraw.protocol.declare import data, field, struct
from kafkaraw.protocol.types import boolean, float64, int8, int16, int32, int64, string, uint16, uuid


@struct
class BrokerEndpoint:
    """An address of a broker."""

    name: string
    host: string
    port: uint16
    security_protocol: int16


@struct
class BrokerFeature:
    """The levels of a feature that a broker supports."""

    name: string
    min_supported_version: int16
    max_supported_version: int16


@data(versions="0-4", flexible="0+", record_type=0)
class RegisterBrokerRecord:
    """A broker registered with the controller.

    Attributes:
        broker_epoch: assigned by the controller; the offset of this record.
        end_points: its listeners, without those of controllers.
        log_dirs: ids of its log directories that work.
        cordoned_log_dirs: ids of those that get no new replicas (KIP-1066); null if the broker has not sent
            them.
    """

    broker_id: int32
    is_migrating_zk_broker: boolean = field(versions="2+", default=False)
    incarnation_id: uuid
    broker_epoch: int64
    end_points: list[BrokerEndpoint]
    features: list[BrokerFeature]
    rack: string | None
    fenced: boolean = True
    in_controlled_shutdown: boolean = field(versions="1+", default=False)
    log_dirs: list[uuid] = field(versions="3+", default_factory=list, tag=0)
    cordoned_log_dirs: list[uuid] | None = field(versions="4+", default=None, tag=1)


@data(versions="0", flexible="0+", record_type=1)
class UnregisterBrokerRecord:
    """A broker was removed from the cluster."""

    broker_id: int32
    broker_epoch: int64


@data(versions="0", flexible="0+", record_type=2)
class TopicRecord:
    """A topic was created."""

    name: string
    topic_id: uuid


@data(versions="0-2", flexible="0+", record_type=3)
class PartitionRecord:
    """A partition was created, or all of its state in a snapshot.

    Attributes:
        replicas: the preferred leader first.
        leader: -1 for none.
        leader_recovery_state: 1 after an unclean election until the leader has recovered.
        directories: the log directory of each replica (KIP-858).
        eligible_leader_replicas: replicas that can lead without loss of data though not in sync (KIP-966).
        last_known_elr: the last leader, when there is no replica that can lead without loss.
    """

    partition_id: int32 = -1
    topic_id: uuid
    replicas: list[int32]
    isr: list[int32]
    removing_replicas: list[int32]
    adding_replicas: list[int32]
    leader: int32 = -1
    leader_recovery_state: int8 = field(default=0, tag=0)
    leader_epoch: int32 = -1
    partition_epoch: int32 = -1
    directories: list[uuid] = field(versions="1+", default_factory=list)
    eligible_leader_replicas: list[int32] | None = field(versions="2+", default=None, tag=1)
    last_known_elr: list[int32] | None = field(versions="2+", default=None, tag=2)


@data(versions="0", flexible="0+", record_type=4)
class ConfigRecord:
    """A setting of a topic, broker or group was set or removed.

    Attributes:
        resource_type: 2 topic, 4 broker, 16 client metrics, 32 group.
        resource_name: for brokers the id, or nothing for the default of all.
        value: null to remove the setting.
    """

    resource_type: int8
    resource_name: string
    name: string
    value: string | None


@data(versions="0-2", flexible="0+", record_type=5)
class PartitionChangeRecord:
    """The state of a partition changed; fields that are absent are unchanged.

    Attributes:
        leader: -2 for no change, -1 for none.
        leader_recovery_state: -1 for no change.
    """

    partition_id: int32 = -1
    topic_id: uuid
    isr: list[int32] | None = field(default=None, tag=0)
    leader: int32 = field(default=-2, tag=1)
    replicas: list[int32] | None = field(default=None, tag=2)
    removing_replicas: list[int32] | None = field(default=None, tag=3)
    adding_replicas: list[int32] | None = field(default=None, tag=4)
    leader_recovery_state: int8 = field(default=-1, tag=5)
    directories: list[uuid] | None = field(versions="1+", default=None, tag=8)
    eligible_leader_replicas: list[int32] | None = field(versions="2+", default=None, tag=6)
    last_known_elr: list[int32] | None = field(versions="2+", default=None, tag=7)


@data(versions="0", flexible="0+", record_type=7)
class FenceBrokerRecord:
    """A broker was fenced. Kafka 4 writes `BrokerRegistrationChangeRecord`."""

    id: int32
    epoch: int64


@data(versions="0", flexible="0+", record_type=8)
class UnfenceBrokerRecord:
    """A broker was unfenced. Kafka 4 writes `BrokerRegistrationChangeRecord`."""

    id: int32
    epoch: int64


@data(versions="0", flexible="0+", record_type=9)
class RemoveTopicRecord:
    """A topic was deleted with all its partitions."""

    topic_id: uuid


@data(versions="0", flexible="0+", record_type=10)
class DelegationTokenRecord:
    """A delegation token was created or renewed.  Source: KIP-900.

    Attributes:
        max_timestamp: when it ends at the latest, in milliseconds since 1970.
        expiration_timestamp: when it ends unless renewed, in milliseconds since 1970.
    """

    owner: string
    requester: string
    renewers: list[string]
    issue_timestamp: int64
    max_timestamp: int64
    expiration_timestamp: int64
    token_id: string


@data(versions="0", flexible="0+", record_type=11)
class UserScramCredentialRecord:
    """A SCRAM credential was set.  Source: KIP-900.

    Attributes:
        mechanism: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.
    """

    name: string
    mechanism: int8
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int32


@data(versions="0", flexible="0+", record_type=12)
class FeatureLevelRecord:
    """A feature got a level, `metadata.version` included.  Source: KIP-584, KIP-778.

    Attributes:
        feature_level: 0 if the cluster does not use it.
    """

    name: string
    feature_level: int16


@struct
class EntityData:
    """One part of the entity of a quota.

    Attributes:
        entity_type: `user`, `client-id` or `ip`.
        entity_name: null for the default of that type.
    """

    entity_type: string
    entity_name: string | None


@data(versions="0", flexible="0+", record_type=14)
class ClientQuotaRecord:
    """A quota was set or removed.

    Attributes:
        key: such as `producer_byte_rate`.
        remove: the value is ignored then.
    """

    entity: list[EntityData]
    key: string
    value: float64
    remove: boolean


@data(versions="0", flexible="0+", record_type=15)
class ProducerIdsRecord:
    """A block of producer ids was allocated.  Source: KIP-730.

    Attributes:
        next_producer_id: the first id that is not allocated.
    """

    broker_id: int32
    broker_epoch: int64 = -1
    next_producer_id: int64


@data(versions="0-3", flexible="0+", record_type=17)
class BrokerRegistrationChangeRecord:
    """The registration of a broker changed.  Source: KIP-841, KIP-858.

    Attributes:
        fenced: 1 fenced, -1 unfenced, 0 no change.
        in_controlled_shutdown: 1 if it is stopping, 0 for no change.
        log_dirs: ids of its log directories that work; empty for no change.
        cordoned_log_dirs: null for no change.
    """

    broker_id: int32
    broker_epoch: int64
    fenced: int8 = field(default=0, tag=0)
    in_controlled_shutdown: int8 = field(versions="1+", default=0, tag=1)
    log_dirs: list[uuid] = field(versions="2+", default_factory=list, tag=2)
    cordoned_log_dirs: list[uuid] | None = field(versions="3+", default=None, tag=3)


@data(versions="0", flexible="0+", record_type=18)
class AccessControlEntryRecord:
    """An ACL was added.  Source: KIP-801."""

    id: uuid
    resource_type: int8
    resource_name: string
    pattern_type: int8
    principal: string
    host: string
    operation: int8
    permission_type: int8


@data(versions="0", flexible="0+", record_type=19)
class RemoveAccessControlEntryRecord:
    """An ACL was removed."""

    id: uuid


@data(versions="0", flexible="0+", record_type=20)
class NoOpRecord:
    """Nothing; written so that the end of the log advances.  Source: KIP-835."""


@data(versions="0", flexible="0+", record_type=21)
class ZkMigrationStateRecord:
    """The state of a migration from ZooKeeper.  Source: KIP-866."""

    zk_migration_state: int8


@data(versions="0", flexible="0+", record_type=22)
class RemoveUserScramCredentialRecord:
    """A SCRAM credential was removed.

    Attributes:
        mechanism: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.
    """

    name: string
    mechanism: int8


@data(versions="0", flexible="0+", record_type=23)
class BeginTransactionRecord:
    """The records up to the next end or abort take effect together.  Source: KIP-868."""

    name: string | None = field(default=None, tag=0)


@data(versions="0", flexible="0+", record_type=24)
class EndTransactionRecord:
    """The records since the begin take effect."""


@data(versions="0", flexible="0+", record_type=25)
class AbortTransactionRecord:
    """The records since the begin are ignored."""

    reason: string | None = field(default=None, tag=0)


@data(versions="0", flexible="0+", record_type=26)
class RemoveDelegationTokenRecord:
    """A delegation token was removed."""

    token_id: string


@struct
class ControllerEndpoint:
    """An address of a controller."""

    name: string
    host: string
    port: uint16
    security_protocol: int16


@struct
class ControllerFeature:
    """The levels of a feature that a controller supports."""

    name: string
    min_supported_version: int16
    max_supported_version: int16


@data(versions="0", flexible="0+", record_type=27)
class RegisterControllerRecord:
    """A controller registered with the active controller.  Source: KIP-919."""

    controller_id: int32
    incarnation_id: uuid
    zk_migration_ready: boolean
    end_points: list[ControllerEndpoint]
    features: list[ControllerFeature]


@data(versions="0", flexible="0+", record_type=28)
class ClearElrRecord:
    """Eligible leader replicas were cleared.  Source: KIP-966.

    Attributes:
        topic_name: empty for all topics.
    """

    topic_name: string
