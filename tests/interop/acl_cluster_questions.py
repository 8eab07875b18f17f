"""What users ask of both brokers in the comparison of access control about the cluster itself.

Nothing here changes a cluster: topics, brokers and features are unknown ones, or stay as they are. `acl_questions` asks
these with all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from kafkaraw.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkaraw.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kafkaraw.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kafkaraw.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from kafkaraw.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kafkaraw.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kafkaraw.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kafkaraw.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kafkaraw.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kafkaraw.protocol.messages.push_telemetry import PushTelemetryRequest
from kafkaraw.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from kafkaraw.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kafkaraw.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kafkaraw.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

_DIRECTORY: Final = Uuid(b"\x09" * 16)

CLUSTER_REQUESTS: Final[Mapping[str, object]] = {
    "ElectLeaders": ElectLeadersRequest(
        election_type=0, topic_partitions=[TopicPartitions(topic="nowhere", partitions=[0])], timeout_ms=10_000
    ),
    "AlterPartitionReassignments": AlterPartitionReassignmentsRequest(
        timeout_ms=10_000,
        allow_replication_factor_change=True,
        topics=[ReassignableTopic(name="nowhere", partitions=[ReassignablePartition(partition_index=0, replicas=[0])])],
    ),
    "ListPartitionReassignments": ListPartitionReassignmentsRequest(timeout_ms=10_000, topics=None),
    "DescribeQuorum": DescribeQuorumRequest(
        topics=[
            DescribeQuorumRequestTopicData(
                topic_name="__cluster_metadata", partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
            )
        ]
    ),
    "UpdateFeatures": UpdateFeaturesRequest(
        timeout_ms=10_000,
        feature_updates=[
            FeatureUpdateKey(feature="unknown.version", max_version_level=1, allow_downgrade=False, upgrade_type=1)
        ],
        validate_only=False,
    ),
    "UnregisterBroker": UnregisterBrokerRequest(broker_id=99),
    "ListConfigResources": ListConfigResourcesRequest(resource_types=[]),
    "AddRaftVoter": AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=1_000,
        voter_id=99,
        voter_directory_id=_DIRECTORY,
        listeners=[Listener(name="CONTROLLER", host="localhost", port=1)],
        ack_when_committed=True,
    ),
    # `test_token_answers` asks for tokens that are created.
    "CreateDelegationToken": CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type="Group", principal_name="team")], max_lifetime_ms=-1
    ),
    "RenewDelegationToken": RenewDelegationTokenRequest(hmac=b"of no token", renew_period_ms=-1),
    "ExpireDelegationToken": ExpireDelegationTokenRequest(hmac=b"of no token", expiry_time_period_ms=-1),
    "DescribeDelegationToken": DescribeDelegationTokenRequest(owners=None),
    # Neither broker offers the two when there is no subscription to metrics of clients.
    "GetTelemetrySubscriptions": GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID),
    "PushTelemetry": PushTelemetryRequest(
        client_instance_id=ZERO_UUID, subscription_id=0, terminating=False, compression_type=0, metrics=b""
    ),
    "RemoveRaftVoter": RemoveRaftVoterRequest(cluster_id=None, voter_id=99, voter_directory_id=_DIRECTORY),
}
