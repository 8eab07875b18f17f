"""Every API is refused to those who lack the rights and given to those who have them.

One case for each API that the broker serves; a served API without a case, or without a rule, fails here.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from kafkaraw.broker.acl.rules import Acl
from kafkaraw.broker.acl.settings import STANDARD_AUTHORIZER
from kafkaraw.broker.catalog import Topic
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.guards.call import DENIED_WITH, client_of
from kafkaraw.broker.handlers.guards.table import RULES, guarded
from kafkaraw.broker.handlers.table import HANDLERS
from kafkaraw.broker.refusal import CloseConnection
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topic_creation import Wish, plan_topic
from kafkaraw.protocol.acl_codes import (
    CLUSTER_NAME,
    OPERATIONS_OF,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from kafkaraw.protocol.apis import API_BY_KEY, API_BY_NAME, api_of
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages import alter_configs as alter_configs_messages
from kafkaraw.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkaraw.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkaraw.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
)
from kafkaraw.protocol.messages.alter_configs import AlterConfigsRequest
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
from kafkaraw.protocol.messages.describe_producers import DescribeProducersRequest
from kafkaraw.protocol.messages.describe_producers import TopicRequest as ProducersTopic
from kafkaraw.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from kafkaraw.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kafkaraw.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kafkaraw.protocol.messages.end_txn import EndTxnRequest
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.protocol.messages.incremental_alter_configs import AlterConfigsResource, IncrementalAlterConfigsRequest
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
from tests.broker.support import ask, batch, make_state

Op, On = AclOperation, ResourceType
Right = tuple[AclOperation, ResourceType, str]
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TRANSACTIONAL_ID_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
AUTHORIZATION = set(DENIED_WITH.values())
ADA = "User:ada"


def secured(**properties: Any) -> BrokerState:
    """A broker with an authorizer, and the topics `flights` and `planes`."""
    state = make_state(authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:root", **properties)
    for name in ("flights", "planes"):
        state.create_topic(plan_topic(Wish(name, partitions=2), state.catalog, state.config))
    return state


def topic(state: BrokerState, name: str = "flights") -> Topic:
    found = state.catalog.topic(name)
    assert found is not None
    return found


def permit(state: BrokerState, *rights: Right, permission: AclPermissionType = AclPermissionType.ALLOW) -> None:
    assert state.catalog.authorizer is not None
    entries = [
        Acl(kind, name, PatternType.LITERAL, ADA, "*", operation, permission) for operation, kind, name in rights
    ]
    state.change_acls(state.catalog.authorizer, add=entries)


def on_topic(*operations: AclOperation, name: str = "flights") -> list[Right]:
    return [(operation, On.TOPIC, name) for operation in operations]


def on_cluster(operation: AclOperation) -> list[Right]:
    return [(operation, On.CLUSTER, CLUSTER_NAME)]


def codes(answer: object) -> set[int]:
    """Every error code in an answer."""

    def walk(value: object) -> Iterator[int]:
        if dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                found = getattr(value, field.name)
                if field.name.endswith("error_code"):
                    yield found
                else:
                    yield from walk(found)
        elif isinstance(value, list):
            for one in value:
                yield from walk(one)

    return set(walk(answer))


@dataclass(frozen=True)
class Case:
    """How one API is asked, and what that takes.

    Attributes:
        request: makes the request.
        denied: what those are told who lack the rights.
        enough: sets of rights, each of which suffices, and nothing less.
        version: of the request; None is the newest.
    """

    request: Callable[[BrokerState], object]
    denied: ErrorCode
    enough: list[list[Right]]
    version: int | None = None


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
OWN_TESTS = {
    "Fetch": (Op.CLUSTER_ACTION, On.CLUSTER),
    "DescribeCluster": (Op.DESCRIBE, On.CLUSTER),
}
"""Rights that are asked for in a way that a case cannot show; tests further down do."""

OPEN = {"ApiVersions", "SaslHandshake", "SaslAuthenticate"}
FILTERED = {"ListTransactions"}  # nobody is refused: what may not be seen is left out
ALL_CASES = [
    pytest.param(case, id=f"{api}-{number}") for api, cases in CASES.items() for number, case in enumerate(cases)
]


def test_every_api_that_is_served_has_a_rule_and_an_authorization_test():
    """The rule: no API without one. A new handler needs a line in guards/table.py and a case here."""
    served = {API_BY_KEY[key].name for key in HANDLERS}
    assert served <= set(CASES) | OPEN | FILTERED
    assert set(CASES) | OPEN | FILTERED == set(RULES)
    assert {api for api in RULES if RULES[api].guard is None} == OPEN


def answered(state: BrokerState, case: Case, principal: str = ADA) -> set[int]:
    """The error codes of the answer. An API that no handler serves yet is asked for behind its guard all the same."""
    request = case.request(state)
    api = api_of(request)
    if api.key in HANDLERS:

        async def on_a_loop() -> object:
            return ask(state, request, case.version, principal=principal)

        return codes(asyncio.run(on_a_loop()))
    handler = guarded(api.name, lambda state, context, request: blank(api.response))
    context = RequestContext(case.version or api.supported.max, "PLAINTEXT", None, "127.0.0.1:50000", principal)
    return codes(handler(state, context, request))


def blank(kind: type) -> object:
    """A message whose fields are empty."""
    values = {"error_code": 0, "error_message": None, "cluster_id": "c"}
    fields = [field for field in dataclasses.fields(kind) if _has_no_default(field)]
    return kind(**{field.name: values.get(field.name, []) for field in fields})


def _has_no_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


@pytest.mark.parametrize("case", ALL_CASES)
def test_an_api_is_denied_without_rights(case):
    state = secured()
    assert case.denied in answered(state, case)


@pytest.mark.parametrize("case", ALL_CASES)
def test_an_api_is_given_to_those_who_have_the_rights(case):
    for rights in case.enough:
        state = secured()
        permit(state, *rights)
        assert not answered(state, case) & AUTHORIZATION


@pytest.mark.parametrize("case", ALL_CASES)
def test_each_of_the_rights_is_needed(case):
    for rights in case.enough:
        for missing in rights:
            state = secured()
            permit(state, *(right for right in rights if right != missing))
            assert answered(state, case) & AUTHORIZATION, missing


@pytest.mark.parametrize("case", ALL_CASES)
def test_a_super_user_needs_no_rights(case):
    state = secured()
    assert not answered(state, case, "User:root") & AUTHORIZATION


@pytest.mark.parametrize("case", ALL_CASES)
def test_denying_wins_over_what_is_allowed(case):
    for rights in case.enough:
        state = secured()
        permit(state, *rights)
        permit(state, *((Op.ALL, kind, "*") for _, kind, _ in rights), permission=AclPermissionType.DENY)
        assert case.denied in answered(state, case)


@pytest.mark.parametrize("api", sorted(CASES))
def test_the_rights_in_the_table_are_those_that_the_tests_find(api):
    """The documentation is made from the table, so it must not tell tales."""
    found = {right[:2] for case in CASES[api] for rights in case.enough for right in rights}
    told = {(right.operation, right.resource_type) for right in RULES[api].rights}
    if api == "DeleteTopics":
        found.add((Op.DESCRIBE, On.TOPIC))  # implied by DELETE
    if api in OWN_TESTS:
        found.add(OWN_TESTS[api])
    assert found == told


def test_an_api_without_a_rule_is_closed_to_everybody():
    state = secured()
    handler = guarded("NewApi", lambda state, context, request: "answered")
    with pytest.raises(CloseConnection, match="NewApi has no rule"):
        handler(state, None, None)  # type: ignore[arg-type]


# -- parts of a request --------------------------------------------------------------------------------------------


def by_name(entries: list[Any], key: str = "name") -> dict[str, Any]:
    return {getattr(entry, key): entry for entry in entries}


def test_produce_to_other_topics_goes_on():
    state = secured()
    permit(state, *on_topic(Op.WRITE))
    found = by_name(ask(state, produce(state, "planes", "flights"), 12, principal=ADA).responses)
    assert found["flights"].partition_responses[0].error_code == ErrorCode.NONE
    assert found["planes"].partition_responses[0].error_code == TOPIC_DENIED


def test_produce_without_acks_that_is_refused_closes_the_connection_after_the_rest_was_written():
    state = secured()
    permit(state, *on_topic(Op.WRITE))
    with pytest.raises(CloseConnection, match="not authorized"):
        ask(state, produce(state, "planes", "flights", acks=0), principal=ADA)
    assert [partition.high_watermark for partition in state.partitions_of(topic(state))] == [1, 0]
    assert [partition.high_watermark for partition in state.partitions_of(topic(state, "planes"))] == [0, 0]


def test_an_unknown_topic_id_is_not_said_to_be_forbidden():
    """Who asks by id learns nothing from that; Kafka answers the same."""
    state = secured()
    request = fetch(state)
    request.topics[0].topic_id = type(request.topics[0].topic_id)(b"\x07" * 16)
    assert codes(ask(state, request, principal=ADA)) == {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID}


def test_fetch_gives_what_may_be_read_beside_refusals():
    state = secured()
    permit(state, *on_topic(Op.READ))
    ask(state, produce(state), principal="User:root")
    found = by_name(ask(state, fetch(state, "planes", "flights"), 12, principal=ADA).responses, "topic")
    assert found["flights"].partitions[0].records
    assert found["planes"].partitions[0].error_code == TOPIC_DENIED


@pytest.mark.parametrize("version", [12, None])
def test_cve_2018_1288_claiming_to_be_a_replica_gains_nothing(version):
    """The replica id is a claim, the principal is not."""
    state = secured()
    permit(state, *on_topic(Op.READ))
    request = fetch(state)
    if version is None:
        request.replica_state = ReplicaState(replica_id=1)
    else:
        request.replica_id = 1
    assert TOPIC_DENIED in codes(ask(state, request, version, principal=ADA))
    permit(state, *on_cluster(Op.CLUSTER_ACTION))
    assert not codes(ask(state, request, version, principal=ADA)) & AUTHORIZATION


def test_all_topics_are_those_that_one_may_see():
    state = secured()
    permit(state, *on_topic(Op.READ))
    request = MetadataRequest(topics=None)
    assert [one.name for one in ask(state, request, principal=ADA).topics] == ["flights"]
    assert [one.name for one in ask(state, request, principal="User:root").topics] == ["flights", "planes"]


def test_metadata_does_not_tell_whether_a_topic_exists():
    state = secured()
    answers = ask(state, metadata("planes", "nowhere"), principal=ADA).topics
    there, absent = answers
    assert (there.name, absent.name) == ("planes", "nowhere")
    there.name = absent.name
    assert there == absent
    by_id = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic(state, "planes").topic_id)])
    assert ask(state, by_id, principal=ADA).topics[0].name is None


@pytest.mark.parametrize("version", [0, 1, 8])
def test_old_metadata_requests_with_refusals_only_get_no_other_topics(version):
    state = secured()
    permit(state, *on_topic(Op.READ))
    answer = ask(state, metadata("planes", auto_create=True), version, principal=ADA)
    assert [(one.name, one.error_code) for one in answer.topics] == [("planes", TOPIC_DENIED)]


def test_auto_creation_needs_a_right_of_its_own_and_creates_nothing_without_it():
    state = secured()
    permit(state, *on_topic(Op.DESCRIBE, name="new"))
    assert codes(ask(state, metadata("new", auto_create=True), principal=ADA)) == {ErrorCode.NONE, TOPIC_DENIED}
    assert state.catalog.topic("new") is None
    answer = ask(state, metadata("new"), principal=ADA)
    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


def test_metadata_tells_what_one_may_do():
    state = secured()
    permit(state, *on_topic(Op.WRITE), *on_cluster(Op.ALTER))
    request = metadata("flights", "planes")
    request.include_topic_authorized_operations = request.include_cluster_authorized_operations = True
    answer = ask(state, request, 10, principal=ADA)
    found = by_name(answer.topics)
    assert found["flights"].topic_authorized_operations == bits(Op.WRITE, Op.DESCRIBE)
    assert found["planes"].topic_authorized_operations == -(1 << 31)
    assert answer.cluster_authorized_operations == bits(Op.ALTER, Op.DESCRIBE)
    assert ask(state, request, 10, principal="User:bob").cluster_authorized_operations == 0
    everything = ask(state, request, 10, principal="User:root")
    assert everything.topics[0].topic_authorized_operations == bits(*OPERATIONS_OF[On.TOPIC])
    assert everything.cluster_authorized_operations == bits(*OPERATIONS_OF[On.CLUSTER])


def test_offsets_of_all_topics_are_those_of_topics_that_one_may_see():
    state = secured()
    ask(state, offset_commit(state, "flights", "planes"), principal="User:root")
    permit(state, DESCRIBE_GROUP, *on_topic(Op.DESCRIBE))
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    for version in (8, None):
        (group,) = ask(state, request, version, principal=ADA).groups
        assert len(group.topics) == 1
    old = OffsetFetchRequest(group_id="g", topics=None)
    assert [one.name for one in ask(state, old, 7, principal=ADA).topics] == ["flights"]


@pytest.mark.parametrize("version", [1, 7, 8, None])
def test_offsets_of_a_forbidden_topic_are_refused_beside_the_others(version):
    state = secured()
    permit(state, DESCRIBE_GROUP, *on_topic(Op.DESCRIBE))
    request = offset_fetch(state, "flights", "planes")
    if version is not None and version < 8:
        asked = [OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in ("flights", "planes")]
        request = OffsetFetchRequest(group_id="g", topics=asked)
    answer = ask(state, request, version, principal=ADA)
    found = answer.topics or answer.groups[0].topics
    assert [one.partitions[0].error_code for one in found] == [ErrorCode.NONE, TOPIC_DENIED]
    assert [one.partitions[0].committed_offset for one in found] == [-1, -1]


def test_a_commit_for_a_forbidden_topic_is_refused_beside_the_others():
    state = secured()
    permit(state, (Op.READ, On.GROUP, "g"), *on_topic(Op.READ))
    found = by_name(ask(state, offset_commit(state, "planes", "flights"), 9, principal=ADA).topics)
    assert found["flights"].partitions[0].error_code == ErrorCode.NONE
    assert found["planes"].partitions[0].error_code == TOPIC_DENIED


def test_a_coordinator_of_a_forbidden_group_is_refused_beside_the_others():
    state = secured()
    permit(state, DESCRIBE_GROUP)
    request = FindCoordinatorRequest(coordinator_keys=["other", "g"])
    found = by_name(ask(state, request, principal=ADA).coordinators, "key")
    assert (found["g"].error_code, found["other"].error_code) == (ErrorCode.NONE, GROUP_DENIED)
    assert found["other"].node_id == -1


def test_creating_without_the_right_to_describe_settings_does_not_tell_them():
    state = secured()
    permit(state, *on_topic(Op.CREATE, name="new"))
    (result,) = ask(state, create_topics("new"), principal=ADA).topics
    assert (result.error_code, result.topic_config_error_code) == (ErrorCode.NONE, TOPIC_DENIED)
    assert (result.num_partitions, result.replication_factor, result.configs) == (-1, -1, [])
    assert state.catalog.topic("new") is not None


def test_a_topic_asked_for_twice_is_said_to_be_so_before_rights_are_looked_at():
    state = secured()
    answer = ask(state, create_topics("new", "new", "other"), principal=ADA)
    assert {one.name: one.error_code for one in answer.topics} == {
        "new": ErrorCode.INVALID_REQUEST,
        "other": TOPIC_DENIED,
    }


def test_deleting_tells_nothing_about_topics_that_one_may_not_describe():
    state = secured()
    names = ["planes", "nowhere"]
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=1000)
    assert {one.error_code for one in ask(state, request, principal=ADA).responses} == {TOPIC_DENIED}
    permit(state, *on_topic(Op.DESCRIBE, name="nowhere"), *on_topic(Op.DESCRIBE, name="planes"))
    found = {one.name: one.error_code for one in ask(state, request, principal=ADA).responses}
    assert found == {"planes": TOPIC_DENIED, "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_deleting_by_id_names_the_topic_to_those_who_may_describe_it():
    state = secured()
    asked = DeleteTopicState(name=None, topic_id=topic(state).topic_id)
    request = DeleteTopicsRequest(topics=[asked], timeout_ms=1000)
    assert ask(state, request, principal=ADA).responses[0].name is None
    permit(state, *on_topic(Op.DESCRIBE))
    assert ask(state, request, principal=ADA).responses[0].name == "flights"
    assert state.catalog.topic("flights") is not None


def test_where_there_is_no_authorizer_everybody_may_everything():
    state = make_state()
    assert not codes(ask(state, metadata("new", auto_create=True), principal=ADA)) & AUTHORIZATION


# -- what counts as the client -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("10.0.0.1:50000", "10.0.0.1"),
        ("[::1]:50000", "0:0:0:0:0:0:0:1"),
        ("[fe80::a%eth0]:50000", "fe80:0:0:0:0:0:0:a"),
        ("[::ffff:10.0.0.1]:50000", "10.0.0.1"),
        ("client:1", "client"),
    ],
)
def test_hosts_are_written_as_java_writes_them(peer, host):
    assert client_of(RequestContext(0, "PLAINTEXT", None, peer, ADA)) == (ADA, host)


def test_every_api_of_the_table_is_one():
    assert set(RULES) <= set(API_BY_NAME)


def test_transactions_that_may_not_be_described_are_left_out_of_the_list():
    state = secured()

    async def begin_both() -> None:
        for name in ("mine", "theirs"):
            ask(state, InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000), principal="User:root")

    asyncio.run(begin_both())
    permit(state, (Op.DESCRIBE, On.TRANSACTIONAL_ID, "mine"))
    listed = ask(state, ListTransactionsRequest(state_filters=[], producer_id_filters=[]), principal=ADA)
    assert [one.transactional_id for one in listed.transaction_states] == ["mine"]
