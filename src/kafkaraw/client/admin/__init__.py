"""The admin client: one module per area (`topics`, ...) does the work, `client` is the face that users see.

To add an operation: write it, with its frozen result types and its documentation, as a method of its area's class;
add a line that passes it on to `AsyncAdmin` in `client` and one to `Admin` in `blocking.admin`. To add an area: a
module here with a class that is given `Calls`, where the loops that try again are.
"""

from kafkaraw.client.admin.acls import AclBinding, AclBindingFilter, ResourcePattern
from kafkaraw.client.admin.client import AsyncAdmin
from kafkaraw.client.admin.cluster import ClusterDescription
from kafkaraw.client.admin.configs import ConfigChange, ConfigEntry, ConfigResource, ConfigSynonym
from kafkaraw.client.admin.group_descriptions import (
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    MemberDescription,
)
from kafkaraw.client.admin.partitions import NewPartitions
from kafkaraw.client.admin.quotas import QuotaEntity, QuotaName
from kafkaraw.client.admin.topics import NewTopic, TopicCreated, TopicDescription, TopicListing
from kafkaraw.client.admin.transactions import TransactionListing
from kafkaraw.client.admin.users import ScramPassword, ScramRemoval

__all__ = [
    "AclBinding",
    "AclBindingFilter",
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
    "MemberDescription",
    "NewPartitions",
    "NewTopic",
    "QuotaEntity",
    "QuotaName",
    "ResourcePattern",
    "ScramPassword",
    "ScramRemoval",
    "TopicCreated",
    "TopicDescription",
    "TopicListing",
    "TransactionListing",
]
