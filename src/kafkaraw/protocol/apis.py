"""The APIs that are declared: one line each, by key; their modules are imported on first use.

A new API is one file in `messages/` and one line here. This module must not know anything else about messages.
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
        module: the module under `messages` that declares it.
    """

    key: int
    name: str
    module: str

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
        header = header_of(self.request)
        low = max(self.versions.min, header.removed.max + 1)
        high = header.unstable.min - 1 if header.unstable.max >= header.unstable.min else self.versions.max
        return VersionRange(low, high)

    def is_flexible(self, version: int) -> bool:
        """Return whether that version has compact lengths and tagged fields (KIP-482)."""
        return header_of(self.request).flexible.includes(version)

    def _load(self, suffix: str) -> Any:  # noqa: ANN401 - the class of that name
        return getattr(importlib.import_module(f"{MESSAGES}.{self.module}"), self.name + suffix)


API_TABLE: Final = (
    Api(0, "Produce", "produce"),
    Api(1, "Fetch", "fetch"),
    Api(2, "ListOffsets", "list_offsets"),
    Api(3, "Metadata", "metadata"),
    Api(4, "LeaderAndIsr", "leader_and_isr"),
    Api(5, "StopReplica", "stop_replica"),
    Api(6, "UpdateMetadata", "update_metadata"),
    Api(7, "ControlledShutdown", "controlled_shutdown"),
    Api(8, "OffsetCommit", "offset_commit"),
    Api(9, "OffsetFetch", "offset_fetch"),
    Api(10, "FindCoordinator", "find_coordinator"),
    Api(11, "JoinGroup", "join_group"),
    Api(12, "Heartbeat", "heartbeat"),
    Api(13, "LeaveGroup", "leave_group"),
    Api(14, "SyncGroup", "sync_group"),
    Api(15, "DescribeGroups", "describe_groups"),
    Api(16, "ListGroups", "list_groups"),
    Api(17, "SaslHandshake", "sasl_handshake"),
    Api(18, "ApiVersions", "api_versions"),
    Api(19, "CreateTopics", "create_topics"),
    Api(20, "DeleteTopics", "delete_topics"),
    Api(21, "DeleteRecords", "delete_records"),
    Api(22, "InitProducerId", "init_producer_id"),
    Api(23, "OffsetForLeaderEpoch", "offset_for_leader_epoch"),
    Api(24, "AddPartitionsToTxn", "add_partitions_to_txn"),
    Api(25, "AddOffsetsToTxn", "add_offsets_to_txn"),
    Api(26, "EndTxn", "end_txn"),
    Api(27, "WriteTxnMarkers", "write_txn_markers"),
    Api(28, "TxnOffsetCommit", "txn_offset_commit"),
    Api(29, "DescribeAcls", "describe_acls"),
    Api(30, "CreateAcls", "create_acls"),
    Api(31, "DeleteAcls", "delete_acls"),
    Api(32, "DescribeConfigs", "describe_configs"),
    Api(33, "AlterConfigs", "alter_configs"),
    Api(34, "AlterReplicaLogDirs", "alter_replica_log_dirs"),
    Api(35, "DescribeLogDirs", "describe_log_dirs"),
    Api(36, "SaslAuthenticate", "sasl_authenticate"),
    Api(37, "CreatePartitions", "create_partitions"),
    Api(38, "CreateDelegationToken", "create_delegation_token"),
    Api(39, "RenewDelegationToken", "renew_delegation_token"),
    Api(40, "ExpireDelegationToken", "expire_delegation_token"),
    Api(41, "DescribeDelegationToken", "describe_delegation_token"),
    Api(42, "DeleteGroups", "delete_groups"),
    Api(43, "ElectLeaders", "elect_leaders"),
    Api(44, "IncrementalAlterConfigs", "incremental_alter_configs"),
    Api(45, "AlterPartitionReassignments", "alter_partition_reassignments"),
    Api(46, "ListPartitionReassignments", "list_partition_reassignments"),
    Api(47, "OffsetDelete", "offset_delete"),
    Api(48, "DescribeClientQuotas", "describe_client_quotas"),
    Api(49, "AlterClientQuotas", "alter_client_quotas"),
    Api(50, "DescribeUserScramCredentials", "describe_user_scram_credentials"),
    Api(51, "AlterUserScramCredentials", "alter_user_scram_credentials"),
    Api(52, "Vote", "vote"),
    Api(53, "BeginQuorumEpoch", "begin_quorum_epoch"),
    Api(54, "EndQuorumEpoch", "end_quorum_epoch"),
    Api(55, "DescribeQuorum", "describe_quorum"),
    Api(56, "AlterPartition", "alter_partition"),
    Api(57, "UpdateFeatures", "update_features"),
    Api(58, "Envelope", "envelope"),
    Api(59, "FetchSnapshot", "fetch_snapshot"),
    Api(60, "DescribeCluster", "describe_cluster"),
    Api(61, "DescribeProducers", "describe_producers"),
    Api(62, "BrokerRegistration", "broker_registration"),
    Api(63, "BrokerHeartbeat", "broker_heartbeat"),
    Api(64, "UnregisterBroker", "unregister_broker"),
    Api(65, "DescribeTransactions", "describe_transactions"),
    Api(66, "ListTransactions", "list_transactions"),
    Api(67, "AllocateProducerIds", "allocate_producer_ids"),
    Api(68, "ConsumerGroupHeartbeat", "consumer_group_heartbeat"),
    Api(69, "ConsumerGroupDescribe", "consumer_group_describe"),
    Api(70, "ControllerRegistration", "controller_registration"),
    Api(71, "GetTelemetrySubscriptions", "get_telemetry_subscriptions"),
    Api(72, "PushTelemetry", "push_telemetry"),
    Api(73, "AssignReplicasToDirs", "assign_replicas_to_dirs"),
    Api(74, "ListConfigResources", "list_config_resources"),
    Api(75, "DescribeTopicPartitions", "describe_topic_partitions"),
    Api(76, "ShareGroupHeartbeat", "share_group_heartbeat"),
    Api(77, "ShareGroupDescribe", "share_group_describe"),
    Api(78, "ShareFetch", "share_fetch"),
    Api(79, "ShareAcknowledge", "share_acknowledge"),
    Api(80, "AddRaftVoter", "add_raft_voter"),
    Api(81, "RemoveRaftVoter", "remove_raft_voter"),
    Api(82, "UpdateRaftVoter", "update_raft_voter"),
    Api(83, "InitializeShareGroupState", "initialize_share_group_state"),
    Api(84, "ReadShareGroupState", "read_share_group_state"),
    Api(85, "WriteShareGroupState", "write_share_group_state"),
    Api(86, "DeleteShareGroupState", "delete_share_group_state"),
    Api(87, "ReadShareGroupStateSummary", "read_share_group_state_summary"),
    Api(88, "StreamsGroupHeartbeat", "streams_group_heartbeat"),
    Api(89, "StreamsGroupDescribe", "streams_group_describe"),
    Api(90, "DescribeShareGroupOffsets", "describe_share_group_offsets"),
    Api(91, "AlterShareGroupOffsets", "alter_share_group_offsets"),
    Api(92, "DeleteShareGroupOffsets", "delete_share_group_offsets"),
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
