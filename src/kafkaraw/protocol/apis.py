"""The APIs that are declared: one line each, by key; their modules are imported on first use.

A new API is one file in `messages/` and one line here. The line repeats the versions that brokers offer, so that
ApiVersions needs no declaration of another API; `tests/protocol/test_messages.py` compares it with the declaration.
This module must not know anything else about messages.
"""

from __future__ import annotations

import importlib
from functools import cached_property
from typing import Any, Final

from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.declare import Request, Response, VersionRange, header_of

MESSAGES: Final = "kafkaraw.protocol.messages"


@dataclass(frozen=True)
class Api:
    """One API: a request and its response.

    Attributes:
        key: its number on the wire.
        name: Kafka's name for it.
        module: the module under `messages` that declares it; the broker's handler has the same name.
        offered: the versions that a broker of Kafka 4.3 offers, in Kafka's notation.
    """

    key: int
    name: str
    module: str
    offered: str

    @cached_property
    def request(self) -> type[Request[Response]]:
        """Return the class of the request."""
        cls: type[Request[Response]] = self._load("Request")
        return cls

    @cached_property
    def response(self) -> type[Response]:
        """Return the class of the response."""
        cls: type[Response] = self._load("Response")
        return cls

    @cached_property
    def versions(self) -> VersionRange:
        """All declared versions, old and unstable ones included."""
        return header_of(self.request).versions

    @cached_property
    def supported(self) -> VersionRange:
        """The versions that a broker of Kafka 4.3 offers, and the embedded broker, too."""
        return VersionRange.parse(self.offered)

    def is_flexible(self, version: int) -> bool:
        """Return whether that version has compact lengths and tagged fields (KIP-482)."""
        return header_of(self.request).flexible.includes(version)

    def _load(self, suffix: str) -> Any:  # noqa: ANN401 - the class of that name
        return getattr(importlib.import_module(f"{MESSAGES}.{self.module}"), self.name + suffix)


API_TABLE: Final = (
    Api(0, "Produce", "produce", "3-13"),
    Api(1, "Fetch", "fetch", "4-18"),
    Api(2, "ListOffsets", "list_offsets", "1-11"),
    Api(3, "Metadata", "metadata", "0-13"),
    Api(4, "LeaderAndIsr", "leader_and_isr", "none"),
    Api(5, "StopReplica", "stop_replica", "none"),
    Api(6, "UpdateMetadata", "update_metadata", "none"),
    Api(7, "ControlledShutdown", "controlled_shutdown", "none"),
    Api(8, "OffsetCommit", "offset_commit", "2-10"),
    Api(9, "OffsetFetch", "offset_fetch", "1-10"),
    Api(10, "FindCoordinator", "find_coordinator", "0-6"),
    Api(11, "JoinGroup", "join_group", "0-9"),
    Api(12, "Heartbeat", "heartbeat", "0-4"),
    Api(13, "LeaveGroup", "leave_group", "0-5"),
    Api(14, "SyncGroup", "sync_group", "0-5"),
    Api(15, "DescribeGroups", "describe_groups", "0-6"),
    Api(16, "ListGroups", "list_groups", "0-5"),
    Api(17, "SaslHandshake", "sasl_handshake", "0-1"),
    Api(18, "ApiVersions", "api_versions", "0-4"),
    Api(19, "CreateTopics", "create_topics", "2-7"),
    Api(20, "DeleteTopics", "delete_topics", "1-6"),
    Api(21, "DeleteRecords", "delete_records", "0-2"),
    Api(22, "InitProducerId", "init_producer_id", "0-5"),
    Api(23, "OffsetForLeaderEpoch", "offset_for_leader_epoch", "2-4"),
    Api(24, "AddPartitionsToTxn", "add_partitions_to_txn", "0-5"),
    Api(25, "AddOffsetsToTxn", "add_offsets_to_txn", "0-4"),
    Api(26, "EndTxn", "end_txn", "0-5"),
    Api(27, "WriteTxnMarkers", "write_txn_markers", "1-2"),
    Api(28, "TxnOffsetCommit", "txn_offset_commit", "0-5"),
    Api(29, "DescribeAcls", "describe_acls", "1-3"),
    Api(30, "CreateAcls", "create_acls", "1-3"),
    Api(31, "DeleteAcls", "delete_acls", "1-3"),
    Api(32, "DescribeConfigs", "describe_configs", "1-4"),
    Api(33, "AlterConfigs", "alter_configs", "0-2"),
    Api(34, "AlterReplicaLogDirs", "alter_replica_log_dirs", "1-2"),
    Api(35, "DescribeLogDirs", "describe_log_dirs", "1-5"),
    Api(36, "SaslAuthenticate", "sasl_authenticate", "0-2"),
    Api(37, "CreatePartitions", "create_partitions", "0-3"),
    Api(38, "CreateDelegationToken", "create_delegation_token", "1-3"),
    Api(39, "RenewDelegationToken", "renew_delegation_token", "1-2"),
    Api(40, "ExpireDelegationToken", "expire_delegation_token", "1-2"),
    Api(41, "DescribeDelegationToken", "describe_delegation_token", "1-3"),
    Api(42, "DeleteGroups", "delete_groups", "0-2"),
    Api(43, "ElectLeaders", "elect_leaders", "0-2"),
    Api(44, "IncrementalAlterConfigs", "incremental_alter_configs", "0-1"),
    Api(45, "AlterPartitionReassignments", "alter_partition_reassignments", "0-1"),
    Api(46, "ListPartitionReassignments", "list_partition_reassignments", "0"),
    Api(47, "OffsetDelete", "offset_delete", "0"),
    Api(48, "DescribeClientQuotas", "describe_client_quotas", "0-1"),
    Api(49, "AlterClientQuotas", "alter_client_quotas", "0-1"),
    Api(50, "DescribeUserScramCredentials", "describe_user_scram_credentials", "0"),
    Api(51, "AlterUserScramCredentials", "alter_user_scram_credentials", "0"),
    Api(52, "Vote", "vote", "0-2"),
    Api(53, "BeginQuorumEpoch", "begin_quorum_epoch", "0-1"),
    Api(54, "EndQuorumEpoch", "end_quorum_epoch", "0-1"),
    Api(55, "DescribeQuorum", "describe_quorum", "0-2"),
    Api(56, "AlterPartition", "alter_partition", "2-3"),
    Api(57, "UpdateFeatures", "update_features", "0-2"),
    Api(58, "Envelope", "envelope", "0"),
    Api(59, "FetchSnapshot", "fetch_snapshot", "0-1"),
    Api(60, "DescribeCluster", "describe_cluster", "0-2"),
    Api(61, "DescribeProducers", "describe_producers", "0"),
    Api(62, "BrokerRegistration", "broker_registration", "0-4"),
    Api(63, "BrokerHeartbeat", "broker_heartbeat", "0-2"),
    Api(64, "UnregisterBroker", "unregister_broker", "0"),
    Api(65, "DescribeTransactions", "describe_transactions", "0"),
    Api(66, "ListTransactions", "list_transactions", "0-2"),
    Api(67, "AllocateProducerIds", "allocate_producer_ids", "0"),
    Api(68, "ConsumerGroupHeartbeat", "consumer_group_heartbeat", "0-1"),
    Api(69, "ConsumerGroupDescribe", "consumer_group_describe", "0-1"),
    Api(70, "ControllerRegistration", "controller_registration", "0"),
    Api(71, "GetTelemetrySubscriptions", "get_telemetry_subscriptions", "0"),
    Api(72, "PushTelemetry", "push_telemetry", "0"),
    Api(73, "AssignReplicasToDirs", "assign_replicas_to_dirs", "0"),
    Api(74, "ListConfigResources", "list_config_resources", "0-1"),
    Api(75, "DescribeTopicPartitions", "describe_topic_partitions", "0"),
    Api(76, "ShareGroupHeartbeat", "share_group_heartbeat", "1"),
    Api(77, "ShareGroupDescribe", "share_group_describe", "1"),
    Api(78, "ShareFetch", "share_fetch", "1-2"),
    Api(79, "ShareAcknowledge", "share_acknowledge", "1-2"),
    Api(80, "AddRaftVoter", "add_raft_voter", "0-1"),
    Api(81, "RemoveRaftVoter", "remove_raft_voter", "0"),
    Api(82, "UpdateRaftVoter", "update_raft_voter", "0"),
    Api(83, "InitializeShareGroupState", "initialize_share_group_state", "0"),
    Api(84, "ReadShareGroupState", "read_share_group_state", "0"),
    Api(85, "WriteShareGroupState", "write_share_group_state", "0-1"),
    Api(86, "DeleteShareGroupState", "delete_share_group_state", "0"),
    Api(87, "ReadShareGroupStateSummary", "read_share_group_state_summary", "0-1"),
    Api(88, "StreamsGroupHeartbeat", "streams_group_heartbeat", "0"),
    Api(89, "StreamsGroupDescribe", "streams_group_describe", "0"),
    Api(90, "DescribeShareGroupOffsets", "describe_share_group_offsets", "0-1"),
    Api(91, "AlterShareGroupOffsets", "alter_share_group_offsets", "0"),
    Api(92, "DeleteShareGroupOffsets", "delete_share_group_offsets", "0"),
)
API_BY_KEY: Final[dict[int, Api]] = {api.key: api for api in API_TABLE}
API_BY_NAME: Final[dict[str, Api]] = {api.name: api for api in API_TABLE}


def api_of(message: object) -> Api:
    """Return the API of a request or response, given the message or its class.

    Raises:
        TypeError: it is neither a request nor a response.
    """
    cls = message if isinstance(message, type) else type(message)
    api = API_BY_KEY.get(header_of(cls).api_key)
    if api is None:
        raise TypeError(f"{cls.__name__} is not a request or response")
    return api
