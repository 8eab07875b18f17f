"""Apache Kafka from the wire up: client, embedded broker, and a Spark data source that needs no JAR.

The public names, each imported when it is first asked for, so that `import kafkaraw` costs next to nothing. Nothing
inside the package imports this module.
"""

from __future__ import annotations

from importlib import import_module

from kafkaraw._version import __version__ as __version__

TYPE_CHECKING = False  # type checkers take it for true; `typing` takes longer than all the rest here
if TYPE_CHECKING:
    from kafkaraw.client.admin import AclBinding as AclBinding
    from kafkaraw.client.admin import AclBindingFilter as AclBindingFilter
    from kafkaraw.client.admin import AsyncAdmin as AsyncAdmin
    from kafkaraw.client.admin import ClusterDescription as ClusterDescription
    from kafkaraw.client.admin import ConfigChange as ConfigChange
    from kafkaraw.client.admin import ConfigEntry as ConfigEntry
    from kafkaraw.client.admin import ConfigResource as ConfigResource
    from kafkaraw.client.admin import ConfigSynonym as ConfigSynonym
    from kafkaraw.client.admin import DelegationToken as DelegationToken
    from kafkaraw.client.admin import ElectionType as ElectionType
    from kafkaraw.client.admin import FeatureMetadata as FeatureMetadata
    from kafkaraw.client.admin import FeatureUpdate as FeatureUpdate
    from kafkaraw.client.admin import GroupDescription as GroupDescription
    from kafkaraw.client.admin import GroupListing as GroupListing
    from kafkaraw.client.admin import GroupState as GroupState
    from kafkaraw.client.admin import GroupType as GroupType
    from kafkaraw.client.admin import LogDirDescription as LogDirDescription
    from kafkaraw.client.admin import MemberDescription as MemberDescription
    from kafkaraw.client.admin import MetadataQuorum as MetadataQuorum
    from kafkaraw.client.admin import NewPartitions as NewPartitions
    from kafkaraw.client.admin import NewTopic as NewTopic
    from kafkaraw.client.admin import OffsetSpec as OffsetSpec
    from kafkaraw.client.admin import OpenTransaction as OpenTransaction
    from kafkaraw.client.admin import PartitionReassignment as PartitionReassignment
    from kafkaraw.client.admin import ProducerState as ProducerState
    from kafkaraw.client.admin import QuorumReplica as QuorumReplica
    from kafkaraw.client.admin import QuotaEntity as QuotaEntity
    from kafkaraw.client.admin import QuotaName as QuotaName
    from kafkaraw.client.admin import RaftVoterEndpoint as RaftVoterEndpoint
    from kafkaraw.client.admin import ReplicaInfo as ReplicaInfo
    from kafkaraw.client.admin import ReplicaLogDir as ReplicaLogDir
    from kafkaraw.client.admin import ResourcePattern as ResourcePattern
    from kafkaraw.client.admin import ScramPassword as ScramPassword
    from kafkaraw.client.admin import ScramRemoval as ScramRemoval
    from kafkaraw.client.admin import SharePartitionOffsetInfo as SharePartitionOffsetInfo
    from kafkaraw.client.admin import TopicCreated as TopicCreated
    from kafkaraw.client.admin import TopicDescription as TopicDescription
    from kafkaraw.client.admin import TopicListing as TopicListing
    from kafkaraw.client.admin import TopicPartitionReplica as TopicPartitionReplica
    from kafkaraw.client.admin import TransactionDescription as TransactionDescription
    from kafkaraw.client.admin import TransactionListing as TransactionListing
    from kafkaraw.client.admin import UpgradeType as UpgradeType
    from kafkaraw.client.admin import VersionRange as VersionRange
    from kafkaraw.client.blocking.admin import Admin as Admin
    from kafkaraw.client.blocking.consumer import Consumer as Consumer
    from kafkaraw.client.blocking.producer import Producer as Producer
    from kafkaraw.client.blocking.share_consumer import ShareConsumer as ShareConsumer
    from kafkaraw.client.committed import GroupMetadata as GroupMetadata
    from kafkaraw.client.committed import OffsetAndMetadata as OffsetAndMetadata
    from kafkaraw.client.committed import PreparedTransaction as PreparedTransaction
    from kafkaraw.client.config import AdminConfig as AdminConfig
    from kafkaraw.client.config import ConsumerConfig as ConsumerConfig
    from kafkaraw.client.config import ProducerConfig as ProducerConfig
    from kafkaraw.client.config import ShareConsumerConfig as ShareConsumerConfig
    from kafkaraw.client.consumer import AsyncConsumer as AsyncConsumer
    from kafkaraw.client.deserializers import DeserializationContext as DeserializationContext
    from kafkaraw.client.deserializers import Deserializer as Deserializer
    from kafkaraw.client.fetching.offsets import OffsetAndTimestamp as OffsetAndTimestamp
    from kafkaraw.client.interceptors import ConsumerInterceptor as ConsumerInterceptor
    from kafkaraw.client.interceptors import ProducerInterceptor as ProducerInterceptor
    from kafkaraw.client.interceptors import ProducerRecord as ProducerRecord
    from kafkaraw.client.producer import AsyncProducer as AsyncProducer
    from kafkaraw.client.runtime import Runtime as Runtime
    from kafkaraw.client.sending.arrow_rows import ArrowTicket as ArrowTicket
    from kafkaraw.client.sending.arrow_rows import SentRows as SentRows
    from kafkaraw.client.serializers import SerializationContext as SerializationContext
    from kafkaraw.client.serializers import Serializer as Serializer
    from kafkaraw.client.settings_types import AdminSettings as AdminSettings
    from kafkaraw.client.settings_types import ClientSettings as ClientSettings
    from kafkaraw.client.settings_types import ConsumerSettings as ConsumerSettings
    from kafkaraw.client.settings_types import ProducerSettings as ProducerSettings
    from kafkaraw.client.settings_types import SecuritySettings as SecuritySettings
    from kafkaraw.client.settings_types import ShareConsumerSettings as ShareConsumerSettings
    from kafkaraw.client.share_consumer import AsyncShareConsumer as AsyncShareConsumer
    from kafkaraw.client.sharing.batch import ShareBatch as ShareBatch
    from kafkaraw.client.sharing.batch import ShareRecord as ShareRecord
    from kafkaraw.core.group.assignors import Assignor as Assignor
    from kafkaraw.core.group.consumer_protocol import MemberSubscription as MemberSubscription
    from kafkaraw.core.producer.events import Unacknowledged as Unacknowledged
    from kafkaraw.core.share.acknowledgements import AcknowledgeType as AcknowledgeType
    from kafkaraw.datasets.dataset import KafkaDataset as KafkaDataset
    from kafkaraw.datasets.dataset import dataset as dataset
    from kafkaraw.datasets.origins import RecordsGoneError as RecordsGoneError
    from kafkaraw.datasets.scan import QueryInterruptedError as QueryInterruptedError
    from kafkaraw.datasets.sql import PlannedScan as PlannedScan
    from kafkaraw.datasets.sql import SqlSession as SqlSession
    from kafkaraw.datasets.sql import sql as sql
    from kafkaraw.errors import AuthenticationError as AuthenticationError
    from kafkaraw.errors import AuthorizationError as AuthorizationError
    from kafkaraw.errors import BatchTooLargeError as BatchTooLargeError
    from kafkaraw.errors import BrokerError as BrokerError
    from kafkaraw.errors import BufferFullError as BufferFullError
    from kafkaraw.errors import ClosedError as ClosedError
    from kafkaraw.errors import ClusterAuthorizationError as ClusterAuthorizationError
    from kafkaraw.errors import CommitFailedError as CommitFailedError
    from kafkaraw.errors import ConcurrentUseError as ConcurrentUseError
    from kafkaraw.errors import ConfigError as ConfigError
    from kafkaraw.errors import CorruptBatchError as CorruptBatchError
    from kafkaraw.errors import DelegationTokenAuthorizationError as DelegationTokenAuthorizationError
    from kafkaraw.errors import DeliveryError as DeliveryError
    from kafkaraw.errors import DeliveryTimeoutError as DeliveryTimeoutError
    from kafkaraw.errors import DeserializationError as DeserializationError
    from kafkaraw.errors import FencedInstanceIdError as FencedInstanceIdError
    from kafkaraw.errors import ForkedError as ForkedError
    from kafkaraw.errors import GroupAuthorizationError as GroupAuthorizationError
    from kafkaraw.errors import GroupError as GroupError
    from kafkaraw.errors import HandlerError as HandlerError
    from kafkaraw.errors import InternalError as InternalError
    from kafkaraw.errors import KafkaError as KafkaError
    from kafkaraw.errors import KafkaTimeoutError as KafkaTimeoutError
    from kafkaraw.errors import LogTruncationError as LogTruncationError
    from kafkaraw.errors import MaxPollExceededError as MaxPollExceededError
    from kafkaraw.errors import NetworkError as NetworkError
    from kafkaraw.errors import ProducerFencedError as ProducerFencedError
    from kafkaraw.errors import ProtocolError as ProtocolError
    from kafkaraw.errors import RebalanceInProgressError as RebalanceInProgressError
    from kafkaraw.errors import RecordTooLargeError as RecordTooLargeError
    from kafkaraw.errors import RetriableBrokerError as RetriableBrokerError
    from kafkaraw.errors import RetriableError as RetriableError
    from kafkaraw.errors import SerializationError as SerializationError
    from kafkaraw.errors import Stage as Stage
    from kafkaraw.errors import StaleMetadataError as StaleMetadataError
    from kafkaraw.errors import TopicAuthorizationError as TopicAuthorizationError
    from kafkaraw.errors import TransactionAbortableError as TransactionAbortableError
    from kafkaraw.errors import TransactionalIdAuthorizationError as TransactionalIdAuthorizationError
    from kafkaraw.errors import TransactionError as TransactionError
    from kafkaraw.errors import UnknownTopicError as UnknownTopicError
    from kafkaraw.errors import UnsupportedVersionError as UnsupportedVersionError
    from kafkaraw.errors import UsageError as UsageError
    from kafkaraw.errors import WakeupError as WakeupError
    from kafkaraw.protocol.acl_codes import AclOperation as AclOperation
    from kafkaraw.protocol.acl_codes import AclPermissionType as AclPermissionType
    from kafkaraw.protocol.acl_codes import PatternType as PatternType
    from kafkaraw.protocol.acl_codes import ResourceType as ResourceType
    from kafkaraw.protocol.config_codes import AlterOperation as AlterOperation
    from kafkaraw.protocol.config_codes import ConfigResourceType as ConfigResourceType
    from kafkaraw.protocol.config_codes import ConfigSource as ConfigSource
    from kafkaraw.protocol.config_codes import ConfigType as ConfigType
    from kafkaraw.records import Batch as Batch
    from kafkaraw.records import Header as Header
    from kafkaraw.records import Headers as Headers
    from kafkaraw.records import Record as Record
    from kafkaraw.records import RecordMetadata as RecordMetadata
    from kafkaraw.records import Ticket as Ticket
    from kafkaraw.records import TopicPartition as TopicPartition

_HOMES = {
    "kafkaraw.client.admin": (
        "DelegationToken",
        "VersionRange",
        "UpgradeType",
        "FeatureUpdate",
        "FeatureMetadata",
        "RaftVoterEndpoint",
        "QuorumReplica",
        "MetadataQuorum",
        "PartitionReassignment",
        "ElectionType",
        "TransactionDescription",
        "ReplicaLogDir",
        "ProducerState",
        "OffsetSpec",
        "OpenTransaction",
        "TransactionListing",
        "ReplicaInfo",
        "ResourcePattern",
        "AclBindingFilter",
        "AclBinding",
        "AsyncAdmin",
        "ClusterDescription",
        "ConfigChange",
        "ConfigEntry",
        "ConfigResource",
        "ConfigSynonym",
        "GroupDescription",
        "GroupListing",
        "GroupState",
        "GroupType",
        "LogDirDescription",
        "MemberDescription",
        "NewPartitions",
        "NewTopic",
        "QuotaEntity",
        "QuotaName",
        "ScramPassword",
        "ScramRemoval",
        "SharePartitionOffsetInfo",
        "TopicCreated",
        "TopicDescription",
        "TopicListing",
        "TopicPartitionReplica",
    ),
    "kafkaraw.client.sending.arrow_rows": (
        "ArrowTicket",
        "SentRows",
    ),
    "kafkaraw.client.blocking.admin": ("Admin",),
    "kafkaraw.client.blocking.consumer": ("Consumer",),
    "kafkaraw.client.blocking.producer": ("Producer",),
    "kafkaraw.client.blocking.share_consumer": ("ShareConsumer",),
    "kafkaraw.client.committed": ("GroupMetadata", "OffsetAndMetadata", "PreparedTransaction"),
    "kafkaraw.client.config": ("AdminConfig", "ConsumerConfig", "ProducerConfig", "ShareConsumerConfig"),
    "kafkaraw.client.consumer": ("AsyncConsumer",),
    "kafkaraw.client.deserializers": ("DeserializationContext", "Deserializer"),
    "kafkaraw.client.interceptors": ("ConsumerInterceptor", "ProducerInterceptor", "ProducerRecord"),
    "kafkaraw.client.fetching.offsets": ("OffsetAndTimestamp",),
    "kafkaraw.client.producer": ("AsyncProducer",),
    "kafkaraw.client.runtime": ("Runtime",),
    "kafkaraw.client.serializers": ("SerializationContext", "Serializer"),
    "kafkaraw.client.settings_types": (
        "AdminSettings",
        "ClientSettings",
        "ConsumerSettings",
        "ProducerSettings",
        "SecuritySettings",
        "ShareConsumerSettings",
    ),
    "kafkaraw.client.share_consumer": ("AsyncShareConsumer",),
    "kafkaraw.client.sharing.batch": ("ShareBatch", "ShareRecord"),
    "kafkaraw.core.group.assignors": ("Assignor",),
    "kafkaraw.core.group.consumer_protocol": ("MemberSubscription",),
    "kafkaraw.core.producer.events": ("Unacknowledged",),
    "kafkaraw.core.share.acknowledgements": ("AcknowledgeType",),
    "kafkaraw.datasets.dataset": ("KafkaDataset", "dataset"),
    "kafkaraw.datasets.origins": ("RecordsGoneError",),
    "kafkaraw.datasets.scan": ("QueryInterruptedError",),
    "kafkaraw.datasets.sql": ("PlannedScan", "SqlSession", "sql"),
    "kafkaraw.errors": (
        "ClusterAuthorizationError",
        "DelegationTokenAuthorizationError",
        "GroupAuthorizationError",
        "TopicAuthorizationError",
        "TransactionalIdAuthorizationError",
        "AuthenticationError",
        "AuthorizationError",
        "BatchTooLargeError",
        "BrokerError",
        "BufferFullError",
        "CommitFailedError",
        "ClosedError",
        "InternalError",
        "ConcurrentUseError",
        "ConfigError",
        "CorruptBatchError",
        "DeliveryError",
        "DeliveryTimeoutError",
        "DeserializationError",
        "ForkedError",
        "GroupError",
        "HandlerError",
        "KafkaError",
        "KafkaTimeoutError",
        "LogTruncationError",
        "MaxPollExceededError",
        "FencedInstanceIdError",
        "NetworkError",
        "ProducerFencedError",
        "ProtocolError",
        "RebalanceInProgressError",
        "RecordTooLargeError",
        "RetriableBrokerError",
        "RetriableError",
        "SerializationError",
        "Stage",
        "StaleMetadataError",
        "TransactionError",
        "TransactionAbortableError",
        "UnknownTopicError",
        "UnsupportedVersionError",
        "UsageError",
        "WakeupError",
    ),
    "kafkaraw.protocol.acl_codes": (
        "AclOperation",
        "AclPermissionType",
        "PatternType",
        "ResourceType",
    ),
    "kafkaraw.protocol.config_codes": (
        "AlterOperation",
        "ConfigResourceType",
        "ConfigSource",
        "ConfigType",
    ),
    "kafkaraw.records": (
        "Batch",
        "Header",
        "Headers",
        "Record",
        "RecordMetadata",
        "Ticket",
        "TopicPartition",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *_HOME_OF]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
