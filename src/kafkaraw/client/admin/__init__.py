"""The admin client: one module per area (`topics`, ...) does the work, `client` is the face that users see.

To add an operation: write it, with its frozen result types, as a method of its area's class; add its documentation and
a line that passes it on to `AsyncAdmin` in `client`, and a line to `Admin` in `blocking.admin`. To add an area: a
module here with a class that is given `Calls`, which has the retry loops, and a property of `AsyncAdmin`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkaraw.client.admin.acls import AclBinding as AclBinding
    from kafkaraw.client.admin.acls import AclBindingFilter as AclBindingFilter
    from kafkaraw.client.admin.acls import ResourcePattern as ResourcePattern
    from kafkaraw.client.admin.client import AsyncAdmin as AsyncAdmin
    from kafkaraw.client.admin.cluster import ClusterDescription as ClusterDescription
    from kafkaraw.client.admin.configs import ConfigChange as ConfigChange
    from kafkaraw.client.admin.configs import ConfigEntry as ConfigEntry
    from kafkaraw.client.admin.configs import ConfigResource as ConfigResource
    from kafkaraw.client.admin.configs import ConfigSynonym as ConfigSynonym
    from kafkaraw.client.admin.features import FeatureMetadata as FeatureMetadata
    from kafkaraw.client.admin.features import FeatureUpdate as FeatureUpdate
    from kafkaraw.client.admin.features import UpgradeType as UpgradeType
    from kafkaraw.client.admin.features import VersionRange as VersionRange
    from kafkaraw.client.admin.group_descriptions import GroupDescription as GroupDescription
    from kafkaraw.client.admin.group_descriptions import GroupListing as GroupListing
    from kafkaraw.client.admin.group_descriptions import GroupState as GroupState
    from kafkaraw.client.admin.group_descriptions import GroupType as GroupType
    from kafkaraw.client.admin.group_descriptions import MemberDescription as MemberDescription
    from kafkaraw.client.admin.log_dirs import LogDirDescription as LogDirDescription
    from kafkaraw.client.admin.log_dirs import ReplicaInfo as ReplicaInfo
    from kafkaraw.client.admin.log_dirs import ReplicaLogDir as ReplicaLogDir
    from kafkaraw.client.admin.log_dirs import TopicPartitionReplica as TopicPartitionReplica
    from kafkaraw.client.admin.offsets import OffsetSpec as OffsetSpec
    from kafkaraw.client.admin.partitions import NewPartitions as NewPartitions
    from kafkaraw.client.admin.producers import OpenTransaction as OpenTransaction
    from kafkaraw.client.admin.producers import ProducerState as ProducerState
    from kafkaraw.client.admin.quorum import MetadataQuorum as MetadataQuorum
    from kafkaraw.client.admin.quorum import QuorumReplica as QuorumReplica
    from kafkaraw.client.admin.quorum import RaftVoterEndpoint as RaftVoterEndpoint
    from kafkaraw.client.admin.quotas import QuotaEntity as QuotaEntity
    from kafkaraw.client.admin.quotas import QuotaName as QuotaName
    from kafkaraw.client.admin.replicas import ElectionType as ElectionType
    from kafkaraw.client.admin.replicas import PartitionReassignment as PartitionReassignment
    from kafkaraw.client.admin.share_group_offsets import SharePartitionOffsetInfo as SharePartitionOffsetInfo
    from kafkaraw.client.admin.tokens import DelegationToken as DelegationToken
    from kafkaraw.client.admin.topics import NewTopic as NewTopic
    from kafkaraw.client.admin.topics import TopicCreated as TopicCreated
    from kafkaraw.client.admin.topics import TopicDescription as TopicDescription
    from kafkaraw.client.admin.topics import TopicListing as TopicListing
    from kafkaraw.client.admin.transactions import TransactionDescription as TransactionDescription
    from kafkaraw.client.admin.transactions import TransactionListing as TransactionListing
    from kafkaraw.client.admin.users import ScramPassword as ScramPassword
    from kafkaraw.client.admin.users import ScramRemoval as ScramRemoval

_MODULES = {
    "AclBinding": "acls",
    "AclBindingFilter": "acls",
    "ResourcePattern": "acls",
    "AsyncAdmin": "client",
    "ClusterDescription": "cluster",
    "ConfigChange": "configs",
    "ConfigEntry": "configs",
    "ConfigResource": "configs",
    "ConfigSynonym": "configs",
    "GroupDescription": "group_descriptions",
    "GroupListing": "group_descriptions",
    "GroupState": "group_descriptions",
    "GroupType": "group_descriptions",
    "MemberDescription": "group_descriptions",
    "LogDirDescription": "log_dirs",
    "ReplicaInfo": "log_dirs",
    "TopicPartitionReplica": "log_dirs",
    "NewPartitions": "partitions",
    "QuotaEntity": "quotas",
    "QuotaName": "quotas",
    "NewTopic": "topics",
    "TopicCreated": "topics",
    "TopicDescription": "topics",
    "TopicListing": "topics",
    "OffsetSpec": "offsets",
    "OpenTransaction": "producers",
    "ProducerState": "producers",
    "ReplicaLogDir": "log_dirs",
    "TransactionDescription": "transactions",
    "ElectionType": "replicas",
    "PartitionReassignment": "replicas",
    "MetadataQuorum": "quorum",
    "QuorumReplica": "quorum",
    "RaftVoterEndpoint": "quorum",
    "FeatureMetadata": "features",
    "FeatureUpdate": "features",
    "UpgradeType": "features",
    "VersionRange": "features",
    "DelegationToken": "tokens",
    "TransactionListing": "transactions",
    "SharePartitionOffsetInfo": "share_group_offsets",
    "ScramPassword": "users",
    "ScramRemoval": "users",
}

__all__ = [
    "AclBinding",
    "AclBindingFilter",
    "AsyncAdmin",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSynonym",
    "DelegationToken",
    "ElectionType",
    "FeatureMetadata",
    "FeatureUpdate",
    "GroupDescription",
    "GroupListing",
    "GroupState",
    "GroupType",
    "LogDirDescription",
    "MemberDescription",
    "MetadataQuorum",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "OpenTransaction",
    "PartitionReassignment",
    "ProducerState",
    "QuorumReplica",
    "QuotaEntity",
    "QuotaName",
    "RaftVoterEndpoint",
    "ReplicaInfo",
    "ReplicaLogDir",
    "ResourcePattern",
    "ScramPassword",
    "ScramRemoval",
    "SharePartitionOffsetInfo",
    "TopicCreated",
    "TopicDescription",
    "TopicListing",
    "TopicPartitionReplica",
    "TransactionDescription",
    "TransactionListing",
    "UpgradeType",
    "VersionRange",
]


def __getattr__(name: str) -> object:
    """Import a public name on first use, so that a program that needs one area does not import all."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
