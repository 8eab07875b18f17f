"""Every API is refused to those who lack the rights and given to those who have them.

One case for each API that the broker serves; a served API without a case fails here.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkaraw.broker.api_error import CloseConnectionError
from kafkaraw.broker.handlers.authorization import client_of
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import REGISTERED, handles, load_handlers, registration_of
from kafkaraw.broker.replies import Deferred
from kafkaraw.broker.state import BrokerState
from kafkaraw.light_classes import replace
from kafkaraw.protocol.acl_codes import (
    OPERATIONS_OF,
    AclOperation,
    AclPermissionType,
)
from kafkaraw.protocol.apis import API_BY_KEY, API_BY_NAME
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkaraw.protocol.messages.fetch import ReplicaState
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.protocol.messages.list_groups import ListGroupsRequest
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
)
from tests.broker.handlers.authorization_cases import (
    CASES,
    DESCRIBE_GROUP,
    create_topics,
    fetch,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
)
from tests.broker.handlers.authorization_share_cases import fetch as share_fetch
from tests.broker.handlers.authorization_support import (
    ADA,
    AUTHORIZATION,
    GROUP_DENIED,
    TOPIC_DENIED,
    Case,
    On,
    Op,
    codes,
    on_cluster,
    on_topic,
    permit,
    secured,
    topic,
)
from tests.broker.support import ask, make_state

OWN_TESTS = {
    "Fetch": (Op.CLUSTER_ACTION, On.CLUSTER),
    "DescribeCluster": (Op.DESCRIBE, On.CLUSTER),
}
"""Rights that are asked for in a way that a case cannot show; tests further down do."""

OPEN = {"ApiVersions", "SaslHandshake", "SaslAuthenticate", "RenewDelegationToken", "ExpireDelegationToken"}
OPEN |= {"GetTelemetrySubscriptions", "PushTelemetry"}
OF_TOKENS = {"CreateDelegationToken"}  # tests/broker/security/test_delegation_tokens.py: they need a login
FILTERED = {
    "ListTransactions",
    "ListGroups",
    "DescribeDelegationToken",
}  # nobody is refused: what may not be seen is left out
ALL_CASES = [
    pytest.param(case, id=f"{api}-{number}") for api, cases in CASES.items() for number, case in enumerate(cases)
]


def test_every_api_that_is_served_has_an_authorization_test():
    """A new handler needs a case in `CASES`."""
    served = {API_BY_KEY[key].name for key in load_handlers()}
    assert served == set(CASES) | OPEN | FILTERED | OF_TOKENS
    assert {served.api.name for served in REGISTERED.values() if served.is_open} == OPEN


def answered(state: BrokerState, case: Case, principal: str = ADA) -> set[int]:
    """The error codes of the answer."""

    async def on_a_loop() -> object:
        answer = ask(state, case.request(state), case.version, principal=principal)
        if not isinstance(answer, Deferred) or not answer.is_working:
            return answer
        later: asyncio.Future[object] = (
            asyncio.get_running_loop().create_future()
        )  # a turn has ended, on a busy machine
        answer.when_done(later.set_result)
        return await later

    return codes(asyncio.run(on_a_loop()))


@pytest.mark.parametrize("case", ALL_CASES)
def test_an_api_is_denied_without_permissions(case):
    state = secured()
    assert case.denied in answered(state, case)


@pytest.mark.parametrize("case", ALL_CASES)
def test_an_api_is_allowed_with_its_permissions(case):
    for rights in case.enough:
        state = secured()
        permit(state, *rights)
        assert not answered(state, case) & AUTHORIZATION


@pytest.mark.parametrize("case", ALL_CASES)
def test_each_permission_of_an_api_is_required(case):
    for rights in case.enough:
        for missing in rights:
            state = secured()
            permit(state, *(right for right in rights if right != missing))
            assert answered(state, case) & AUTHORIZATION, missing


@pytest.mark.parametrize("case", ALL_CASES)
def test_a_super_user_needs_no_permissions(case):
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
def test_registered_permissions_are_those_that_the_tests_find(api):
    """The documentation is made from the table, so it must not tell tales."""
    found = {right[:2] for case in CASES[api] for rights in case.enough for right in rights}
    told = {(right.operation, right.resource_type) for right in registration_of(API_BY_NAME[api]).permissions}
    if api == "DeleteTopics":
        found.add((Op.DESCRIBE, On.TOPIC))  # implied by DELETE
    if api in OWN_TESTS:
        found.add(OWN_TESTS[api])
    assert found == told


def test_handler_cannot_be_registered_without_its_authorization():
    with pytest.raises(TypeError, match="authorize"):
        handles(ListGroupsRequest)


def test_second_handler_of_an_api_is_refused():
    with pytest.raises(ValueError, match="ListGroups has two handlers"):
        handles(ListGroupsRequest, authorize=None)(lambda state, context, request: None)


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
    with pytest.raises(CloseConnectionError, match="not authorized"):
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


def test_auto_creation_requires_create_permission():
    state = secured()
    permit(state, *on_topic(Op.DESCRIBE, name="new"))
    assert codes(ask(state, metadata("new", auto_create=True), principal=ADA)) == {ErrorCode.NONE, TOPIC_DENIED}
    assert state.catalog.topic("new") is None
    answer = ask(state, metadata("new"), principal=ADA)
    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


def test_metadata_has_authorized_operations():
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


def test_topics_of_a_share_session_are_authorized_in_each_request():
    state = secured()
    permit(state, (Op.READ, On.GROUP, "g"))
    first = share_fetch(state)
    later = replace(first, topics=[])

    def error_codes(epoch: int) -> list[int]:
        asked = replace(later if epoch else first, share_session_epoch=epoch)
        found = ask(state, asked, principal=ADA).responses
        return [each.error_code for responses in found for each in responses.partitions]

    assert [error_codes(0), error_codes(1)] == [[TOPIC_DENIED], [TOPIC_DENIED]]
    permit(state, *on_topic(Op.READ))
    assert error_codes(2) == []
    permit(state, *on_topic(Op.READ), permission=AclPermissionType.DENY)
    assert error_codes(3) == [TOPIC_DENIED]


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


def test_create_topics_without_describe_configs_hides_the_configs():
    state = secured()
    permit(state, *on_topic(Op.CREATE, name="new"))
    (result,) = ask(state, create_topics("new"), principal=ADA).topics
    assert (result.error_code, result.topic_config_error_code) == (ErrorCode.NONE, TOPIC_DENIED)
    assert (result.num_partitions, result.replication_factor, result.configs) == (-1, -1, [])
    assert state.catalog.topic("new") is not None


def test_duplicate_topics_are_reported_before_permissions_are_checked():
    state = secured()
    answer = ask(state, create_topics("new", "new", "other"), principal=ADA)
    assert {one.name: one.error_code for one in answer.topics} == {
        "new": ErrorCode.INVALID_REQUEST,
        "other": TOPIC_DENIED,
    }


def test_delete_topics_hides_topics_without_describe():
    state = secured()
    names = ["planes", "nowhere"]
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=1000)
    assert {one.error_code for one in ask(state, request, principal=ADA).responses} == {TOPIC_DENIED}
    permit(state, *on_topic(Op.DESCRIBE, name="nowhere"), *on_topic(Op.DESCRIBE, name="planes"))
    found = {one.name: one.error_code for one in ask(state, request, principal=ADA).responses}
    assert found == {"planes": TOPIC_DENIED, "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_delete_topics_by_id_returns_the_name_with_describe():
    state = secured()
    asked = DeleteTopicState(name=None, topic_id=topic(state).topic_id)
    request = DeleteTopicsRequest(topics=[asked], timeout_ms=1000)
    assert ask(state, request, principal=ADA).responses[0].name is None
    permit(state, *on_topic(Op.DESCRIBE))
    assert ask(state, request, principal=ADA).responses[0].name == "flights"
    assert state.catalog.topic("flights") is not None


def test_without_an_authorizer_every_request_is_allowed():
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


def test_transactions_that_may_not_be_described_are_left_out_of_the_list():
    state = secured()

    async def begin_both() -> None:
        for name in ("mine", "theirs"):
            ask(state, InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000), principal="User:root")

    asyncio.run(begin_both())
    permit(state, (Op.DESCRIBE, On.TRANSACTIONAL_ID, "mine"))
    listed = ask(state, ListTransactionsRequest(state_filters=[], producer_id_filters=[]), principal=ADA)
    assert [one.transactional_id for one in listed.transaction_states] == ["mine"]


def test_groups_that_one_may_not_see_are_left_out():
    state = secured()
    for name in ("mine", "theirs"):
        parts = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)]
        topics = [OffsetCommitRequestTopic(topic_id=topic(state).topic_id, partitions=parts)]
        ask(state, OffsetCommitRequest(group_id=name, topics=topics), principal="User:root")
    assert ask(state, ListGroupsRequest(), principal=ADA).groups == []
    permit(state, (Op.DESCRIBE, On.GROUP, "mine"))
    assert [group.group_id for group in ask(state, ListGroupsRequest(), principal=ADA).groups] == ["mine"]
    permit(state, *on_cluster(Op.DESCRIBE))
    assert {group.group_id for group in ask(state, ListGroupsRequest(), principal=ADA).groups} == {"mine", "theirs"}
