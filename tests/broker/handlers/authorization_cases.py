"""How each API is asked, which rights that takes, and what those are told who lack them: a case or more for each."""

from __future__ import annotations

from functools import partial

from kafkaraw.broker.handlers.authorization import DENIED_WITH
from kafkaraw.broker.log.directories import IN_MEMORY
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.protocol.acl_codes import (
    CLUSTER_NAME,
)
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages import alter_configs as alter_configs_messages
from kafkaraw.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkaraw.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkaraw.protocol.messages.add_raft_voter import AddRaftVoterRequest
from kafkaraw.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
)
from kafkaraw.protocol.messages.alter_configs import AlterConfigsRequest
from kafkaraw.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kafkaraw.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kafkaraw.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from kafkaraw.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kafkaraw.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkaraw.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkaraw.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafkaraw.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafkaraw.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkaraw.protocol.messages.describe_acls import DescribeAclsRequest
from kafkaraw.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from kafkaraw.protocol.messages.describe_cluster import DescribeClusterRequest
from kafkaraw.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkaraw.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkaraw.protocol.messages.describe_producers import DescribeProducersRequest
from kafkaraw.protocol.messages.describe_producers import TopicRequest as ProducersTopic
from kafkaraw.protocol.messages.describe_quorum import DescribeQuorumRequest
from kafkaraw.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from kafkaraw.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kafkaraw.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kafkaraw.protocol.messages.elect_leaders import ElectLeadersRequest
from kafkaraw.protocol.messages.end_txn import EndTxnRequest
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.protocol.messages.incremental_alter_configs import AlterConfigsResource, IncrementalAlterConfigsRequest
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kafkaraw.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkaraw.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkaraw.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkaraw.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafkaraw.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkaraw.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from kafkaraw.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkaraw.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kafkaraw.protocol.messages.update_features import UpdateFeaturesRequest
from kafkaraw.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.handlers.authorization_group_cases import GROUP_CASES
from tests.broker.handlers.authorization_share_cases import SHARE_CASES
from tests.broker.handlers.authorization_support import (
    ADA,
    CLUSTER_DENIED,
    GROUP_DENIED,
    TOPIC_DENIED,
    TRANSACTIONAL_ID_DENIED,
    Case,
    On,
    Op,
    Right,
    on_cluster,
    on_topic,
    topic,
)
from tests.broker.support import batch


def produce(state: BrokerState, *names: str, acks: int = -1, records: bytes | None = None) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name=name,
                topic_id=topic(state, name).topic_id,
                partition_data=[PartitionProduceData(index=0, records=memoryview(records or batch(b"x")))],
            )
            for name in names or ("flights",)
        ],
    )


def produce_transactional(state: BrokerState) -> ProduceRequest:
    records = batch(b"x", transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)
    request = produce(state, records=records)
    request.transactional_id = "tx"
    return request


WRITE_TX: Right = (Op.WRITE, On.TRANSACTIONAL_ID, "tx")


def txn_offset_commit(state: BrokerState) -> TxnOffsetCommitRequest:
    position = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
    return TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id="g",
        producer_id=1,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name="flights", partitions=[position])],
    )


def write_txn_markers(state: BrokerState) -> WriteTxnMarkersRequest:
    marker = WritableTxnMarker(
        producer_id=1,
        producer_epoch=0,
        transaction_result=True,
        coordinator_epoch=0,
        topics=[WritableTxnMarkerTopic(name="flights", partition_indexes=[0])],
    )
    return WriteTxnMarkersRequest(markers=[marker])


def fetch(state: BrokerState, *names: str) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1000,
        topics=[
            FetchTopic(
                topic=name,
                topic_id=topic(state, name).topic_id,
                partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)],
            )
            for name in names or ("flights",)
        ],
        forgotten_topics_data=[],
    )


def list_offsets(*names: str) -> ListOffsetsRequest:
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=[asked]) for name in names or ("flights",)]
    )


def end_of_epoch() -> OffsetForLeaderEpochRequest:
    asked = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    return OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic="flights", partitions=[asked])]
    )


def metadata(*names: str, auto_create: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names or ("flights",)],
        allow_auto_topic_creation=auto_create,
    )


def offset_commit(state: BrokerState, *names: str) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                topic_id=topic(state, name).topic_id,
                partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")],
            )
            for name in names or ("flights",)
        ],
    )


def offset_fetch(state: BrokerState, *names: str) -> OffsetFetchRequest:
    topics = [
        OffsetFetchRequestTopics(name=name, topic_id=topic(state, name).topic_id, partition_indexes=[0])
        for name in names or ("flights",)
    ]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])


def offset_fetch_before_8(state: BrokerState) -> OffsetFetchRequest:
    return OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="flights", partition_indexes=[0])])


def create_topics(*names: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
            for name in names
        ]
    )


# Type and name of resources with settings, and what a right to them is a right to.
CONFIG_RESOURCES = [(2, "flights", On.TOPIC), (4, "0", On.CLUSTER), (32, "g", On.GROUP)]


def describe_configs(kind: int, name: str, state: BrokerState) -> DescribeConfigsRequest:
    asked = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    return DescribeConfigsRequest(resources=[asked])


def alter_configs(kind: int, name: str, state: BrokerState) -> AlterConfigsRequest:
    asked = alter_configs_messages.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
    return AlterConfigsRequest(resources=[asked], validate_only=True)


def incremental_alter_configs(kind: int, name: str, state: BrokerState) -> IncrementalAlterConfigsRequest:
    asked = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
    return IncrementalAlterConfigsRequest(resources=[asked], validate_only=True)


def describe_cluster(state: BrokerState) -> DescribeClusterRequest:
    return DescribeClusterRequest(include_cluster_authorized_operations=True)


def alter_replica_log_dirs(state: BrokerState) -> AlterReplicaLogDirsRequest:
    topic = AlterReplicaLogDirTopic(name="flights", partitions=[0])
    return AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=IN_MEMORY, topics=[topic])])


CREATION = AclCreation(
    resource_type=2, resource_name="x", resource_pattern_type=3, principal=ADA, host="*", operation=3, permission_type=3
)
ANY_ACL = DeleteAclsFilter(
    resource_type_filter=1,
    resource_name_filter="x",
    pattern_type_filter=1,
    principal_filter=None,
    host_filter=None,
    operation=1,
    permission_type=1,
)
DESCRIBE_ANY_ACL = DescribeAclsRequest(
    resource_type_filter=1,
    resource_name_filter=None,
    pattern_type_filter=1,
    principal_filter=None,
    host_filter=None,
    operation=1,
    permission_type=1,
)
DESCRIBE_GROUP: Right = (Op.DESCRIBE, On.GROUP, "g")

CASES: dict[str, list[Case]] = {
    **GROUP_CASES,
    **SHARE_CASES,
    "ListConfigResources": [
        Case(lambda state: ListConfigResourcesRequest(), CLUSTER_DENIED, [on_cluster(Op.DESCRIBE_CONFIGS)])
    ],
    "AlterPartitionReassignments": [
        Case(lambda state: AlterPartitionReassignmentsRequest(topics=[]), CLUSTER_DENIED, [on_cluster(Op.ALTER)])
    ],
    "ListPartitionReassignments": [
        Case(lambda state: ListPartitionReassignmentsRequest(), CLUSTER_DENIED, [on_cluster(Op.DESCRIBE)])
    ],
    "ElectLeaders": [
        Case(lambda state: ElectLeadersRequest(topic_partitions=None), CLUSTER_DENIED, [on_cluster(Op.ALTER)])
    ],
    "DescribeQuorum": [Case(lambda state: DescribeQuorumRequest(topics=[]), CLUSTER_DENIED, [on_cluster(Op.DESCRIBE)])],
    "UpdateFeatures": [
        Case(lambda state: UpdateFeaturesRequest(feature_updates=[]), CLUSTER_DENIED, [on_cluster(Op.ALTER)])
    ],
    "UnregisterBroker": [
        Case(lambda state: UnregisterBrokerRequest(broker_id=77), CLUSTER_DENIED, [on_cluster(Op.ALTER)])
    ],
    "AddRaftVoter": [
        Case(
            lambda state: AddRaftVoterRequest(
                cluster_id=None, timeout_ms=1, voter_id=7, voter_directory_id=ZERO_UUID, listeners=[]
            ),
            CLUSTER_DENIED,
            [on_cluster(Op.ALTER)],
        )
    ],
    "RemoveRaftVoter": [
        Case(
            lambda state: RemoveRaftVoterRequest(cluster_id=None, voter_id=7, voter_directory_id=ZERO_UUID),
            CLUSTER_DENIED,
            [on_cluster(Op.ALTER)],
        )
    ],
    "Produce": [
        Case(produce, TOPIC_DENIED, [on_topic(Op.WRITE)]),
        Case(produce, TOPIC_DENIED, [on_topic(Op.WRITE)], version=12),
        Case(
            produce_transactional,
            TRANSACTIONAL_ID_DENIED,
            [[*on_topic(Op.WRITE), (Op.WRITE, On.TRANSACTIONAL_ID, "tx")]],
        ),
    ],
    "Fetch": [
        Case(fetch, TOPIC_DENIED, [on_topic(Op.READ)]),
        Case(fetch, TOPIC_DENIED, [on_topic(Op.READ)], version=12),
    ],
    "ListOffsets": [Case(lambda state: list_offsets(), TOPIC_DENIED, [on_topic(Op.DESCRIBE)])],
    "OffsetForLeaderEpoch": [
        Case(lambda state: end_of_epoch(), TOPIC_DENIED, [on_topic(Op.DESCRIBE)]),
        Case(lambda state: end_of_epoch(), TOPIC_DENIED, [on_cluster(Op.CLUSTER_ACTION)]),
    ],
    "Metadata": [
        Case(lambda state: metadata(), TOPIC_DENIED, [on_topic(Op.DESCRIBE)]),
        Case(
            lambda state: MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic(state).topic_id)]),
            TOPIC_DENIED,
            [on_topic(Op.DESCRIBE)],
        ),
        Case(
            lambda state: metadata("new", auto_create=True),
            TOPIC_DENIED,
            [
                on_topic(Op.DESCRIBE, Op.CREATE, name="new"),
                [*on_topic(Op.DESCRIBE, name="new"), *on_cluster(Op.CREATE)],
            ],
        ),
    ],
    "OffsetCommit": [
        Case(offset_commit, GROUP_DENIED, [[(Op.READ, On.GROUP, "g"), *on_topic(Op.READ)]]),
        Case(offset_commit, GROUP_DENIED, [[(Op.READ, On.GROUP, "g"), *on_topic(Op.READ)]], version=9),
    ],
    "OffsetFetch": [
        Case(offset_fetch, GROUP_DENIED, [[DESCRIBE_GROUP, *on_topic(Op.DESCRIBE)]]),
        Case(offset_fetch, GROUP_DENIED, [[DESCRIBE_GROUP, *on_topic(Op.DESCRIBE)]], version=9),
        Case(offset_fetch_before_8, GROUP_DENIED, [[DESCRIBE_GROUP, *on_topic(Op.DESCRIBE)]], version=7),
        Case(offset_fetch_before_8, GROUP_DENIED, [[DESCRIBE_GROUP, *on_topic(Op.DESCRIBE)]], version=1),
    ],
    "FindCoordinator": [
        Case(lambda state: FindCoordinatorRequest(coordinator_keys=["g"]), GROUP_DENIED, [[DESCRIBE_GROUP]]),
        Case(lambda state: FindCoordinatorRequest(key="g"), GROUP_DENIED, [[DESCRIBE_GROUP]], version=3),
        Case(
            lambda state: FindCoordinatorRequest(coordinator_keys=["tx"], key_type=1),
            TRANSACTIONAL_ID_DENIED,
            [[(Op.DESCRIBE, On.TRANSACTIONAL_ID, "tx")]],
        ),
        Case(
            lambda state: FindCoordinatorRequest(coordinator_keys=["g:x:0"], key_type=2),
            CLUSTER_DENIED,
            [on_cluster(Op.CLUSTER_ACTION)],
        ),
    ],
    "CreateTopics": [
        Case(
            lambda state: create_topics("new"),
            TOPIC_DENIED,
            [
                on_topic(Op.CREATE, Op.DESCRIBE_CONFIGS, name="new"),
                [*on_cluster(Op.CREATE), *on_topic(Op.DESCRIBE_CONFIGS, name="new")],
            ],
        )
    ],
    "DeleteTopics": [
        Case(
            lambda state: DeleteTopicsRequest(topics=[DeleteTopicState(name="flights")], timeout_ms=1000),
            TOPIC_DENIED,
            [on_topic(Op.DELETE), on_cluster(Op.DELETE)],
        ),
        Case(
            lambda state: DeleteTopicsRequest(
                topics=[DeleteTopicState(name=None, topic_id=topic(state).topic_id)], timeout_ms=1000
            ),
            TOPIC_DENIED,
            [on_topic(Op.DELETE), on_cluster(Op.DELETE)],
        ),
        Case(
            lambda state: DeleteTopicsRequest(topic_names=["flights"], timeout_ms=1000),
            TOPIC_DENIED,
            [on_topic(Op.DELETE), on_cluster(Op.DELETE)],
            version=5,
        ),
    ],
    "AddPartitionsToTxn": [
        Case(
            lambda state: AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="tx",
                v3_and_below_producer_id=1,
                v3_and_below_producer_epoch=0,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name="flights", partitions=[0])],
            ),
            TRANSACTIONAL_ID_DENIED,
            [[WRITE_TX, *on_topic(Op.WRITE)]],
            version=3,
        ),
        Case(
            lambda state: AddPartitionsToTxnRequest(transactions=[]),
            CLUSTER_DENIED,
            [on_cluster(Op.CLUSTER_ACTION)],
        ),
    ],
    "AddOffsetsToTxn": [
        Case(
            lambda state: AddOffsetsToTxnRequest(transactional_id="tx", producer_id=1, producer_epoch=0, group_id="g"),
            TRANSACTIONAL_ID_DENIED,
            [[WRITE_TX, (Op.READ, On.GROUP, "g")]],
        )
    ],
    "EndTxn": [
        Case(
            lambda state: EndTxnRequest(transactional_id="tx", producer_id=1, producer_epoch=0, committed=True),
            TRANSACTIONAL_ID_DENIED,
            [[WRITE_TX]],
        )
    ],
    "TxnOffsetCommit": [
        Case(txn_offset_commit, TRANSACTIONAL_ID_DENIED, [[WRITE_TX, (Op.READ, On.GROUP, "g"), *on_topic(Op.READ)]])
    ],
    "WriteTxnMarkers": [Case(write_txn_markers, CLUSTER_DENIED, [on_cluster(Op.ALTER), on_cluster(Op.CLUSTER_ACTION)])],
    "DescribeProducers": [
        Case(
            lambda state: DescribeProducersRequest(topics=[ProducersTopic(name="flights", partition_indexes=[0])]),
            TOPIC_DENIED,
            [on_topic(Op.READ)],
        )
    ],
    "DescribeTransactions": [
        Case(
            lambda state: DescribeTransactionsRequest(transactional_ids=["tx"]),
            TRANSACTIONAL_ID_DENIED,
            [[(Op.DESCRIBE, On.TRANSACTIONAL_ID, "tx")]],
        )
    ],
    "InitProducerId": [
        Case(
            lambda state: InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000),
            CLUSTER_DENIED,
            [on_cluster(Op.IDEMPOTENT_WRITE), on_topic(Op.WRITE, name="any")],
        ),
        Case(
            lambda state: InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000),
            TRANSACTIONAL_ID_DENIED,
            [[(Op.WRITE, On.TRANSACTIONAL_ID, "tx")]],
        ),
    ],
    "CreateAcls": [Case(lambda state: CreateAclsRequest(creations=[CREATION]), CLUSTER_DENIED, [on_cluster(Op.ALTER)])],
    "DescribeAcls": [Case(lambda state: DESCRIBE_ANY_ACL, CLUSTER_DENIED, [on_cluster(Op.DESCRIBE)])],
    "DeleteAcls": [Case(lambda state: DeleteAclsRequest(filters=[ANY_ACL]), CLUSTER_DENIED, [on_cluster(Op.ALTER)])],
    "DeleteRecords": [
        Case(
            lambda state: DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(name="flights", partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])
                ],
                timeout_ms=1000,
            ),
            TOPIC_DENIED,
            [on_topic(Op.DELETE)],
        )
    ],
    "CreatePartitions": [
        Case(
            lambda state: CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="flights", count=3, assignments=None)],
                timeout_ms=1000,
                validate_only=False,
            ),
            TOPIC_DENIED,
            [on_topic(Op.ALTER)],
        )
    ],
    "DescribeTopicPartitions": [
        Case(
            lambda state: DescribeTopicPartitionsRequest(topics=[TopicRequest(name="flights")]),
            TOPIC_DENIED,
            [on_topic(Op.DESCRIBE)],
        )
    ],
    "DescribeLogDirs": [
        Case(lambda state: DescribeLogDirsRequest(topics=None), CLUSTER_DENIED, [on_cluster(Op.DESCRIBE)])
    ],
    "AlterReplicaLogDirs": [Case(alter_replica_log_dirs, CLUSTER_DENIED, [on_cluster(Op.ALTER)])],
    "DescribeCluster": [Case(describe_cluster, ErrorCode.NONE, [[]])],
    "DescribeConfigs": [
        Case(
            partial(describe_configs, kind, name),
            DENIED_WITH[on],
            [[(Op.DESCRIBE_CONFIGS, on, CLUSTER_NAME if on is On.CLUSTER else name)]],
        )
        for kind, name, on in CONFIG_RESOURCES
    ],
    "AlterConfigs": [
        Case(
            partial(alter_configs, kind, name),
            DENIED_WITH[on],
            [[(Op.ALTER_CONFIGS, on, CLUSTER_NAME if on is On.CLUSTER else name)]],
        )
        for kind, name, on in CONFIG_RESOURCES
    ],
    "IncrementalAlterConfigs": [
        Case(
            partial(incremental_alter_configs, kind, name),
            DENIED_WITH[on],
            [[(Op.ALTER_CONFIGS, on, CLUSTER_NAME if on is On.CLUSTER else name)]],
        )
        for kind, name, on in CONFIG_RESOURCES
    ],
    "DescribeUserScramCredentials": [
        Case(
            lambda state: DescribeUserScramCredentialsRequest(users=[UserName(name="bob")]),
            CLUSTER_DENIED,
            [on_cluster(Op.DESCRIBE)],
        )
    ],
    "AlterUserScramCredentials": [
        Case(
            lambda state: AlterUserScramCredentialsRequest(
                deletions=[ScramCredentialDeletion(name="bob", mechanism=1)], upsertions=[]
            ),
            CLUSTER_DENIED,
            [on_cluster(Op.ALTER)],
        )
    ],
    "DescribeClientQuotas": [
        Case(
            lambda state: DescribeClientQuotasRequest(components=[], strict=False),
            CLUSTER_DENIED,
            [on_cluster(Op.DESCRIBE_CONFIGS)],
        )
    ],
    "AlterClientQuotas": [
        Case(
            lambda state: AlterClientQuotasRequest(
                entries=[
                    AlterClientQuotasRequestEntryData(
                        entity=[EntityData(entity_type="user", entity_name="bob")], ops=[]
                    )
                ],
                validate_only=True,
            ),
            CLUSTER_DENIED,
            [on_cluster(Op.ALTER_CONFIGS)],
        )
    ],
}
