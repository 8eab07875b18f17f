"""Error answers for any API: the code stands where the API has room for it, and means what was named."""

from __future__ import annotations

import random

import pytest

from kafkaraw.broker.fault_responses import refuse
from kafkaraw.protocol import ResponseHeader, decode_response, encode_response
from kafkaraw.protocol.apis import API_BY_NAME, API_TABLE, Api
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkaraw.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafkaraw.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tests.protocol.message_values import random_message

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def produce(**partitions: list[int]) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(name=name, partition_data=[PartitionProduceData(index=i, records=b"") for i in indexes])
            for name, indexes in partitions.items()
        ],
    )


def codes(response: ProduceResponse) -> dict[tuple[str, int], int]:
    return {(t.name, p.index): p.error_code for t in response.responses for p in t.partition_responses}


def test_only_what_is_named_is_refused_and_the_rest_is_left_to_be_handled():
    request = produce(a=[0, 1], b=[0])
    refused = refuse(API_BY_NAME["Produce"], 9, request, NOT_LEADER, topic="a", partition=1)
    assert refused is not None
    assert codes(refused.response) == {("a", 1): NOT_LEADER}
    assert refused.rest == produce(a=[0], b=[0])
    assert request == produce(a=[0, 1], b=[0])


def test_a_completed_answer_holds_what_was_refused_and_what_was_handled():
    refused = refuse(API_BY_NAME["Produce"], 9, produce(a=[0, 1]), NOT_LEADER, topic="a", partition=1)
    handled = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name="a", partition_responses=[PartitionProduceResponse(index=0, error_code=0, base_offset=7)]
            )
        ]
    )
    assert codes(refused.completed(handled)) == {("a", 0): 0, ("a", 1): NOT_LEADER}
    assert len(handled.responses) == 1


def test_nothing_is_refused_when_the_topic_is_not_in_the_request():
    assert refuse(API_BY_NAME["Produce"], 9, produce(a=[0]), NOT_LEADER, topic="b") is None
    assert refuse(API_BY_NAME["Produce"], 9, produce(a=[0]), NOT_LEADER, topic="a", partition=3) is None


def test_topics_are_found_by_their_ids():
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        topics=[
            FetchTopic(
                topic_id=b"7" * 16, partitions=[FetchPartition(partition=2, fetch_offset=0, partition_max_bytes=1)]
            )
        ],
    )
    refused = refuse(API_BY_NAME["Fetch"], 13, request, NOT_LEADER, topic="t", topic_name={b"7" * 16: "t"}.get)
    answer = refused.response.responses[0]
    assert (answer.topic_id, answer.partitions[0].partition_index) == (b"7" * 16, 2)
    assert answer.partitions[0].error_code == NOT_LEADER
    assert refused.response.error_code == 0


def test_a_session_error_is_in_the_top_level_field():
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=2, fetch_offset=0, partition_max_bytes=1)])],
    )
    refused = refuse(API_BY_NAME["Fetch"], 12, request, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert refused.response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert refused.rest is None


def test_a_coordinator_error_is_in_the_field_of_the_group():
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
    group = refuse(API_BY_NAME["OffsetFetch"], 8, request, ErrorCode.NOT_COORDINATOR).response.groups[0]
    assert (group.group_id, group.error_code, group.topics) == ("g", ErrorCode.NOT_COORDINATOR, [])


def test_coordinators_are_answered_by_key():
    request = FindCoordinatorRequest(coordinator_keys=["g", "h"])
    answer = refuse(API_BY_NAME["FindCoordinator"], 4, request, ErrorCode.COORDINATOR_NOT_AVAILABLE).response
    assert [(one.key, one.error_code, one.node_id) for one in answer.coordinators] == [("g", 15, -1), ("h", 15, -1)]


def test_metadata_leaves_a_request_for_the_brokers():
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    refused = refuse(API_BY_NAME["Metadata"], 9, request, ErrorCode.LEADER_NOT_AVAILABLE)
    assert refused.response.topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert refused.rest.topics == []


@pytest.mark.parametrize("api", API_TABLE, ids=lambda api: api.name)
def test_the_error_response_of_any_request_and_version_can_be_encoded(api: Api):
    rng = random.Random(api.key)
    placed = 0
    for version in range(api.supported.min, api.supported.max + 1):
        for code in (ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_SERVER_ERROR):
            for _ in range(3):
                refused = refuse(api, version, random_message(api.request, version, rng), code)
                if refused is not None:
                    placed += 1
                    sent = encode_response(ResponseHeader(1), refused.response, version)
                    assert decode_response(sent, api.key, version)[1] == refused.response
    assert placed or api.supported.max < api.supported.min


def test_a_fetch_of_which_a_part_is_refused_names_no_session():
    """The session has not learned of the refused part: a client that went on with it would get records again."""
    topics = [
        FetchTopic(topic=name, partitions=[FetchPartition(partition=0, fetch_offset=5, partition_max_bytes=10)])
        for name in ("a", "b")
    ]
    request = FetchRequest(max_wait_ms=0, min_bytes=0, session_id=7, session_epoch=3, topics=topics)
    whole = refuse(API_BY_NAME["Fetch"], 12, request, NOT_LEADER)
    assert whole is not None
    assert whole.rest is None
    assert whole.response.session_id == 0
    part = refuse(API_BY_NAME["Fetch"], 12, request, NOT_LEADER, topic="a")
    assert part is not None
    answer = part.completed(FetchResponse(session_id=7, responses=[]))
    assert answer.session_id == 0
    assert [topic.topic for topic in answer.responses] == ["a"]
