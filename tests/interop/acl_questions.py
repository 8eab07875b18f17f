"""What users ask of both brokers in the comparison of access control: one or more questions for each API.

Every user asks each of them in every version that both brokers have.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafkaraw.protocol import Uuid
from kafkaraw.protocol.acl_codes import (
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from kafkaraw.protocol.messages import alter_configs, incremental_alter_configs
from kafkaraw.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkaraw.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafkaraw.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from kafkaraw.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kafkaraw.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from kafkaraw.protocol.messages.create_acls import CreateAclsRequest
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
from kafkaraw.protocol.messages.describe_producers import TopicRequest as DescribeProducersTopic
from kafkaraw.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from kafkaraw.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kafkaraw.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kafkaraw.protocol.messages.end_txn import EndTxnRequest
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkaraw.protocol.messages.list_transactions import ListTransactionsRequest
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
from kafkaraw.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkaraw.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kafkaraw.records import encode_batch
from tests.interop.acl_cluster_questions import CLUSTER_REQUESTS
from tests.interop.acl_entries import create_entries, every_entry
from tests.interop.acl_group_questions import GROUP_QUESTIONS, GROUPS, SEVERAL
from tests.interop.acl_share_questions import SHARE_QUESTIONS

NOW_MS = 1_700_000_000_000
TOPICS = ("flights", "planes", "public")
# Made anew before each user comes, since some users delete them.
DOOMED = ("doomed-by-name", "doomed-by-id")
SHARE_KEY = "g:AAAAAAAAAAAAAAAAAAAAAQ:0"
UNKNOWN_ID = Uuid(b"\x07" * 16)

_Op, _On, _As, _Is = AclOperation, ResourceType, PatternType, AclPermissionType
Ids = Mapping[str, Uuid]


@dataclass(frozen=True)
class Question:
    """One request.

    Attributes:
        name: for messages.
        make: the request, given the ids that topics have on that broker.
        versions: which versions to ask in; None for all that both brokers have.
        refusals_only: our broker lacks what is behind it: compare only whether it is refused for want of rights.
    """

    name: str
    make: Callable[[Ids], object]
    versions: range | None = None
    refusals_only: bool = False


ALL_TOPICS = (*TOPICS, "nowhere")


def produce(ids: Ids, *, transactional_id: str | None = None) -> ProduceRequest:
    producer = {} if transactional_id is None else {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    records = encode_batch([(NOW_MS, None, b"x", [])], transactional=transactional_id is not None, **producer)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                name=name,
                topic_id=ids.get(name, UNKNOWN_ID),
                partition_data=[PartitionProduceData(index=0, records=records)],
            )
            for name in ALL_TOPICS
        ],
    )


def _fetch(ids: Ids, *, replica_id: int = -1, by_state: bool = False) -> FetchRequest:
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1000,
        topics=[
            FetchTopic(
                topic=name,
                topic_id=ids.get(name, UNKNOWN_ID),
                partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)],
            )
            for name in ALL_TOPICS
        ],
        forgotten_topics_data=[],
    )
    if by_state:
        request.replica_state = ReplicaState(replica_id=replica_id)
    else:
        request.replica_id = replica_id
    return request


def _list_offsets(ids: Ids) -> ListOffsetsRequest:
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
    topics = [ListOffsetsTopic(name=name, partitions=[asked]) for name in ALL_TOPICS]
    return ListOffsetsRequest(replica_id=-1, topics=topics)


def _offset_for_leader_epoch(ids: Ids) -> OffsetForLeaderEpochRequest:
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
    topics = [OffsetForLeaderTopic(topic=name, partitions=[asked]) for name in ALL_TOPICS]
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)


def _metadata(*names: str, auto_create: bool = False, operations: bool = False, cluster: bool = False) -> Question:
    def make(ids: Ids) -> MetadataRequest:
        return MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names] if names else None,
            allow_auto_topic_creation=auto_create,
            include_topic_authorized_operations=operations,
            include_cluster_authorized_operations=cluster,
        )

    begin = 8 if operations or cluster else 4
    end = 11 if cluster else 14
    what = "auto-created" if auto_create else "by name" if names else "all"
    # Apache Kafka creates later than it answers, ours before.
    return Question(f"Metadata {what}", make, range(begin, end), refusals_only=auto_create)


def _metadata_by_id(ids: Ids) -> MetadataRequest:
    asked = [MetadataRequestTopic(name=None, topic_id=ids.get(name, UNKNOWN_ID)) for name in ALL_TOPICS]
    return MetadataRequest(topics=asked, include_topic_authorized_operations=True)


def _offset_commit(ids: Ids) -> OffsetCommitRequest:
    asked = OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
    return OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(name=name, topic_id=ids.get(name, UNKNOWN_ID), partitions=[asked])
            for name in ALL_TOPICS
        ],
    )


def _offset_fetch(ids: Ids) -> OffsetFetchRequest:
    topics = [
        OffsetFetchRequestTopics(name=name, topic_id=ids.get(name, UNKNOWN_ID), partition_indexes=[0])
        for name in ALL_TOPICS
    ]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics) for group in ("g", "h")])


def _offset_fetch_before_8(ids: Ids) -> OffsetFetchRequest:
    return OffsetFetchRequest(
        group_id="g", topics=[OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in ALL_TOPICS]
    )


def creatable(name: str) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])


def _create_topics(*names: str, validate_only: bool) -> Callable[[Ids], CreateTopicsRequest]:
    return lambda ids: CreateTopicsRequest(topics=[creatable(name) for name in names], validate_only=validate_only)


def _delete_topics(ids: Ids) -> DeleteTopicsRequest:
    by_name = [DeleteTopicState(name=name) for name in ("doomed-by-name", "nowhere", "doomed-nowhere")]
    by_id = [DeleteTopicState(name=None, topic_id=one) for one in (ids["doomed-by-id"], UNKNOWN_ID)]
    return DeleteTopicsRequest(topics=by_name + by_id, timeout_ms=10_000)


def delete_acls(ids: Ids) -> DeleteAclsRequest:
    nobody = dataclasses.replace(every_entry(DeleteAclsFilter), principal_filter="User:nobody")
    return DeleteAclsRequest(filters=[nobody, nobody])


def _describe_acls(ids: Ids) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=_On.TOPIC,
        resource_name_filter="flights",
        pattern_type_filter=_As.MATCH,
        principal_filter=None,
        host_filter=None,
        operation=_Op.ANY,
        permission_type=_Is.ANY,
    )


def _create_acls(ids: Ids) -> CreateAclsRequest:
    """Entries that are there already, and some that make no sense."""
    good = create_entries().creations[0]
    bad = [
        dataclasses.replace(good, resource_type=_On.CLUSTER, resource_name="x"),
        dataclasses.replace(good, resource_name=""),
        dataclasses.replace(good, principal="nobody"),
    ]
    return CreateAclsRequest(creations=[good, *bad])


# Type and name of resources with settings: topics, a broker, client metrics, groups.
_CONFIGS = ((2, "flights"), (2, "planes"), (2, "nowhere"), (4, "1"), (32, "g"))


def _describe_configs(ids: Ids) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=["retention.ms"])
            for kind, name in _CONFIGS
        ]
    )


def _incremental_alter_configs(ids: Ids) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
    asked = [
        incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
        for kind, name in _CONFIGS
    ]
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=asked, validate_only=True)


def _alter_configs(ids: Ids) -> alter_configs.AlterConfigsRequest:
    asked = [
        alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
        for kind, name in _CONFIGS
        if kind != 4
    ]
    return alter_configs.AlterConfigsRequest(resources=asked, validate_only=True)


def _create_partitions(ids: Ids) -> CreatePartitionsRequest:
    asked = [CreatePartitionsTopic(name=name, count=5, assignments=None) for name in ALL_TOPICS]
    return CreatePartitionsRequest(topics=asked, timeout_ms=10_000, validate_only=True)


def _delete_records(ids: Ids) -> DeleteRecordsRequest:
    asked = [DeleteRecordsPartition(partition_index=0, offset=0)]
    topics = [DeleteRecordsTopic(name=name, partitions=asked) for name in ALL_TOPICS]
    return DeleteRecordsRequest(topics=topics, timeout_ms=10_000)


def _describe_topic_partitions(*names: str) -> Callable[[Ids], DescribeTopicPartitionsRequest]:
    return lambda ids: DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in names])


def _move_replica(ids: Ids) -> AlterReplicaLogDirsRequest:
    topic = AlterReplicaLogDirTopic(name="nowhere", partitions=[0])
    return AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/nowhere", topics=[topic])])


def _alter_quotas(ids: Ids) -> AlterClientQuotasRequest:
    entity = [EntityData(entity_type="user", entity_name="zoe")]
    change = OpData(key="producer_byte_rate", value=1e6, remove=False)
    changes = [AlterClientQuotasRequestEntryData(entity=entity, ops=[change])]
    return AlterClientQuotasRequest(entries=changes, validate_only=True)


def _find_coordinator(key_type: int, *keys: str) -> Callable[[Ids], FindCoordinatorRequest]:
    return lambda ids: FindCoordinatorRequest(coordinator_keys=list(keys), key_type=key_type)


def _init_producer_id(transactional_id: str | None) -> Callable[[Ids], InitProducerIdRequest]:
    return lambda ids: InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=10_000)


def _transactional_topics() -> list[AddPartitionsToTxnTopic]:
    return [AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in ALL_TOPICS]


def _add_partitions(ids: Ids) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=7,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=_transactional_topics(),
    )


def _add_partitions_as_broker(ids: Ids) -> AddPartitionsToTxnRequest:
    transaction = AddPartitionsToTxnTransaction(
        transactional_id="tx", producer_id=7, producer_epoch=0, topics=_transactional_topics()
    )
    return AddPartitionsToTxnRequest(transactions=[transaction])


def _txn_offset_commit(ids: Ids) -> TxnOffsetCommitRequest:
    asked = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
    topics = [TxnOffsetCommitRequestTopic(name=name, partitions=[asked]) for name in ALL_TOPICS]
    return TxnOffsetCommitRequest(transactional_id="tx", group_id="g", producer_id=7, producer_epoch=0, topics=topics)


def _write_txn_markers(ids: Ids) -> WriteTxnMarkersRequest:
    topics = [WritableTxnMarkerTopic(name="nowhere", partition_indexes=[0])]
    marker = WritableTxnMarker(
        producer_id=7, producer_epoch=0, transaction_result=False, topics=topics, coordinator_epoch=0
    )
    return WriteTxnMarkersRequest(markers=[marker])


# What a coordinator says of a producer that it does not know is not compared here, only who may ask it.
TRANSACTIONS = [
    Question("AddPartitionsToTxn", _add_partitions, range(4), refusals_only=True),
    Question("AddPartitionsToTxn as a broker", _add_partitions_as_broker, range(4, 99), refusals_only=True),
    Question(
        "AddOffsetsToTxn",
        lambda ids: AddOffsetsToTxnRequest(transactional_id="tx", producer_id=7, producer_epoch=0, group_id="g"),
        refusals_only=True,
    ),
    Question(
        "EndTxn",
        lambda ids: EndTxnRequest(transactional_id="tx", producer_id=7, producer_epoch=0, committed=False),
        refusals_only=True,
    ),
    Question("TxnOffsetCommit", _txn_offset_commit, refusals_only=True),
    Question("WriteTxnMarkers", _write_txn_markers, refusals_only=True),
    Question(
        "DescribeProducers",
        lambda ids: DescribeProducersRequest(
            topics=[DescribeProducersTopic(name=name, partition_indexes=[0]) for name in ALL_TOPICS]
        ),
    ),
    Question(
        "DescribeTransactions",
        lambda ids: DescribeTransactionsRequest(transactional_ids=["ty", "tx"]),
        refusals_only=True,
    ),
    Question("ListTransactions", lambda ids: ListTransactionsRequest(state_filters=[], producer_id_filters=[])),
]

GROUP_MEMBERS = [
    Question(f"{name} {group}", lambda ids, make=make, group=group: make(group), versions, refusals_only=True)
    for name, (make, versions) in GROUP_QUESTIONS.items()
    for group in GROUPS
]

QUESTIONS = [
    *TRANSACTIONS,
    Question("Produce", produce),
    Question("Produce in a transaction", lambda ids: produce(ids, transactional_id="tx"), refusals_only=True),
    Question("Fetch", _fetch),
    Question("Fetch as a replica", lambda ids: _fetch(ids, replica_id=9), range(4, 15), refusals_only=True),
    Question(
        "Fetch as a replica", lambda ids: _fetch(ids, replica_id=9, by_state=True), range(15, 99), refusals_only=True
    ),
    Question("ListOffsets", _list_offsets),
    Question("OffsetForLeaderEpoch", _offset_for_leader_epoch),
    _metadata(),
    _metadata(operations=True),
    _metadata(*ALL_TOPICS, operations=True),
    _metadata(*ALL_TOPICS, cluster=True),
    _metadata("new-1", "other", auto_create=True, operations=True),
    Question("Metadata by id", _metadata_by_id, range(12, 99)),
    Question("OffsetCommit", _offset_commit),
    Question("OffsetFetch", _offset_fetch, range(8, 99)),
    Question("OffsetFetch", _offset_fetch_before_8, range(1, 8)),
    Question("OffsetFetch of all topics", lambda ids: OffsetFetchRequest(group_id="g", topics=None), range(2, 8)),
    Question(
        "OffsetFetch of all topics",
        lambda ids: OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]),
        range(8, 99),
    ),
    Question("FindCoordinator", lambda ids: FindCoordinatorRequest(key="g"), range(4)),
    Question("FindCoordinator", _find_coordinator(0, "g", "h"), range(4, 99)),
    Question("FindCoordinator of transactions", _find_coordinator(1, "tx", "ty"), range(4, 99), refusals_only=True),
    Question("FindCoordinator of share groups", _find_coordinator(2, SHARE_KEY), range(6, 99), refusals_only=True),
    Question("CreateTopics", _create_topics("new-2", "other-2", "flights", "new-3", "new-3", validate_only=True)),
    Question("CreateTopics for good", _create_topics("new-4", validate_only=False), range(7, 8)),
    Question("InitProducerId", _init_producer_id(None)),
    Question("InitProducerId of a transaction", _init_producer_id("tx"), refusals_only=True),
    Question("DescribeAcls", _describe_acls),
    Question("CreateAcls", _create_acls),
    Question("DeleteAcls", delete_acls),
    Question("DescribeConfigs", _describe_configs),
    Question("IncrementalAlterConfigs", _incremental_alter_configs),
    Question("AlterConfigs", _alter_configs),
    Question("CreatePartitions", _create_partitions),
    Question("DeleteRecords", _delete_records),
    Question("DescribeCluster", lambda ids: DescribeClusterRequest(include_cluster_authorized_operations=True)),
    Question("DescribeTopicPartitions", _describe_topic_partitions(*ALL_TOPICS)),
    Question("DescribeTopicPartitions of all", _describe_topic_partitions()),
    Question(
        "DescribeUserScramCredentials", lambda ids: DescribeUserScramCredentialsRequest(users=[UserName(name="zoe")])
    ),
    Question(
        "AlterUserScramCredentials",
        lambda ids: AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name="zoe", mechanism=1)], upsertions=[]
        ),
    ),
    Question("DescribeClientQuotas", lambda ids: DescribeClientQuotasRequest(components=[], strict=False)),
    Question("AlterClientQuotas", _alter_quotas),
    Question("DescribeLogDirs", lambda ids: DescribeLogDirsRequest(topics=[]), refusals_only=True),  # paths differ
    Question("AlterReplicaLogDirs", _move_replica),
    Question(
        "DeleteTopics",
        lambda ids: DeleteTopicsRequest(topic_names=["doomed-old", "nowhere"], timeout_ms=10_000),
        range(1, 6),
    ),
    Question("DeleteTopics", _delete_topics, range(6, 99)),
    # `test_cluster_answers` compares what those are answered who may.
    *(Question(name, lambda ids, made=made: made, refusals_only=True) for name, made in CLUSTER_REQUESTS.items()),
    *GROUP_MEMBERS,
    *(Question(name, lambda ids, made=made: made, versions) for name, (made, versions) in SEVERAL.items()),
    *(Question(name, *asked) for name, asked in SHARE_QUESTIONS.items()),
]
