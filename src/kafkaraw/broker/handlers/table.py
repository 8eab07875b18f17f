"""Which handler answers which API: the one place that lists them all.

ApiVersions advertises the APIs of this table and no others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from kafkaraw.broker.deferred import Deferred
from kafkaraw.broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_user_scram_credentials,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.guards.table import guarded
from kafkaraw.broker.handlers.parts import in_parts
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.apis import API_BY_NAME

Answer = object | Deferred[object] | None
Handler = Callable[[BrokerState, RequestContext, object], Answer]

_BY_NAME: Final[dict[str, Callable[..., object]]] = {
    "Produce": produce.handle,
    "Fetch": fetch.handle,
    "ListOffsets": list_offsets.handle,
    "Metadata": metadata.handle,
    "OffsetCommit": offset_commit.handle,
    "OffsetFetch": offset_fetch.handle,
    "FindCoordinator": find_coordinator.handle,
    "ApiVersions": api_versions.handle,
    "ConsumerGroupDescribe": consumer_group_describe.handle,
    "ConsumerGroupHeartbeat": consumer_group_heartbeat.handle,
    "JoinGroup": join_group.handle,
    "SyncGroup": sync_group.handle,
    "Heartbeat": heartbeat.handle,
    "LeaveGroup": leave_group.handle,
    "DescribeGroups": describe_groups.handle,
    "ListGroups": list_groups.handle,
    "DeleteGroups": delete_groups.handle,
    "OffsetDelete": offset_delete.handle,
    "CreateTopics": create_topics.handle,
    "DeleteTopics": delete_topics.handle,
    "InitProducerId": init_producer_id.handle,
    "OffsetForLeaderEpoch": offset_for_leader_epoch.handle,
    "CreatePartitions": create_partitions.handle,
    "DeleteRecords": delete_records.handle,
    "DescribeCluster": describe_cluster.handle,
    "DescribeTopicPartitions": describe_topic_partitions.handle,
    "AddOffsetsToTxn": add_offsets_to_txn.handle,
    "AddPartitionsToTxn": add_partitions_to_txn.handle,
    "AlterConfigs": alter_configs.handle,
    "DescribeConfigs": describe_configs.handle,
    "DescribeProducers": describe_producers.handle,
    "DescribeTransactions": describe_transactions.handle,
    "EndTxn": end_txn.handle,
    "IncrementalAlterConfigs": incremental_alter_configs.handle,
    "ListTransactions": list_transactions.handle,
    "TxnOffsetCommit": txn_offset_commit.handle,
    "WriteTxnMarkers": write_txn_markers.handle,
    "DescribeAcls": describe_acls.handle,
    "CreateAcls": create_acls.handle,
    "DeleteAcls": delete_acls.handle,
    "SaslHandshake": sasl_handshake.handle,
    "SaslAuthenticate": sasl_authenticate.handle,
    "DescribeClientQuotas": describe_client_quotas.handle,
    "AlterClientQuotas": alter_client_quotas.handle,
    "DescribeUserScramCredentials": describe_user_scram_credentials.handle,
    "AlterUserScramCredentials": alter_user_scram_credentials.handle,
}

HANDLERS: Final[dict[int, Handler]] = {
    API_BY_NAME[name].key: in_parts(name, guarded(name, cast(Handler, handler))) for name, handler in _BY_NAME.items()
}
"""API key -> handler, behind its guard, asked in parts. Each takes the request class of its API."""
