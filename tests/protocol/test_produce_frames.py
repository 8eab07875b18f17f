"""Produce by hand says what its declaration says: every byte, every version, and every answer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkaraw.errors import ProtocolError
from kafkaraw.protocol import RequestHeader, ResponseHeader, Uuid, encode_request, encode_response
from kafkaraw.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkaraw.protocol.produce_frames import Produce, TopicRecords, Written
from tests.examples import examples

VERSIONS = range(3, 14)
ID = Uuid(bytes(range(16)))
OTHER_ID = Uuid(bytes(range(16, 32)))
names = st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1, max_size=200)
batches = st.lists(st.tuples(st.integers(0, 300), st.binary(max_size=9000).map(memoryview)), max_size=3)
topics = st.lists(st.tuples(names, st.binary(min_size=16, max_size=16).map(Uuid), batches), max_size=3)
versions = st.sampled_from(VERSIONS)
int64s = st.integers(-(2**63), 2**63 - 1)


def written(request: Produce, version: int, client_id: str | None = "me") -> bytes:
    return b"".join(request.segments(version, 7, client_id))  # type: ignore[arg-type]


@settings(max_examples=examples(60))
@given(topics, versions, st.none() | names, st.none() | names, st.sampled_from((-1, 0, 1)), st.integers(0, 2**31 - 1))
def test_the_bytes_are_those_of_the_declared_request(
    topics: list[TopicRecords],
    version: int,
    client_id: str | None,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
) -> None:
    request = Produce(transactional_id, acks, timeout_ms, topics)
    declared = encode_request(RequestHeader(0, version, 7, client_id), request.declared())
    assert written(request, version, client_id) == declared


@pytest.mark.parametrize("version", [8, 12, 13])
@pytest.mark.parametrize("count", [1, 126, 127, 128, 300])
def test_many_topics_and_partitions_are_counted_correctly(version: int, count: int) -> None:
    records = memoryview(b"records")
    wide = Produce(None, 1, 1, [("t", ID, [(index, records) for index in range(count)])])
    deep = Produce(None, 1, 1, [(f"t{number}", ID, [(0, records)]) for number in range(count)])
    for request in (wide, deep):
        assert written(request, version) == encode_request(RequestHeader(0, version, 7, "me"), request.declared())


def test_batches_are_neither_copied_nor_joined() -> None:
    large = memoryview(bytes(10))
    segments = Produce(None, 1, 1, [("t", ID, [(0, large), (1, large)])]).segments(13, 1, "me")
    assert [segment is large for segment in segments] == [False, True, False, True, False]


# ---- answers


def partition(index: int = 0, error_code: int = 0, base_offset: int = 5, **more: object) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=error_code, base_offset=base_offset, **more)  # type: ignore[arg-type]


def asked(*topics: tuple[str, Uuid, int]) -> Produce:
    records = memoryview(b"records")
    return Produce(None, -1, 1, [(name, uuid, [(index, records) for index in range(n)]) for name, uuid, n in topics])


def answer_of(*topics: tuple[str, Uuid, list[PartitionProduceResponse]], throttle_ms: int = 0) -> ProduceResponse:
    return ProduceResponse(
        responses=[TopicProduceResponse(name=n, topic_id=u, partition_responses=answers) for n, u, answers in topics],
        throttle_time_ms=throttle_ms,
    )


def read(request: Produce, response: ProduceResponse, version: int) -> Written | ProduceResponse:
    return request.read(memoryview(encode_response(ResponseHeader(7), response, version)), version)


@settings(max_examples=examples(60))
@given(
    st.sampled_from(range(9, 14)),
    st.lists(st.tuples(st.integers(0, 9), int64s, int64s, int64s), min_size=1, max_size=5),
    st.integers(0, 2**31 - 1),
)
def test_an_answer_without_errors_is_read_as_it_was_written(
    version: int, found: list[tuple[int, int, int, int]], throttle_ms: int
) -> None:
    answers = [
        partition(index, 0, base, log_append_time_ms=time, log_start_offset=start) for index, base, time, start in found
    ]
    response = read(asked(("t", ID, len(found))), answer_of(("t", ID, answers), throttle_ms=throttle_ms), version)
    assert response == Written(throttle_ms, [("t", *each) for each in found])


def test_several_topics_are_distinguished() -> None:
    request = asked(("a", ID, 1), ("b", OTHER_ID, 2))
    response = answer_of(("a", ID, [partition(0)]), ("b", OTHER_ID, [partition(1), partition(0, base_offset=8)]))
    for version in (12, 13):
        assert read(request, response, version) == Written(
            0, [("a", 0, 5, -1, -1), ("b", 1, 5, -1, -1), ("b", 0, 8, -1, -1)]
        )


@pytest.mark.parametrize("version", range(9, 14))
@pytest.mark.parametrize(
    "answers",
    [
        [partition(error_code=6)],
        [partition(error_message="careful")],
        [partition(record_errors=[BatchIndexAndErrorMessage(batch_index=0)])],
        [partition(0), partition(1)],
        [],
    ],
    ids=["an error", "a message", "faults of records", "more partitions", "no partition"],
)
def test_what_needs_a_closer_look_is_read_by_its_declaration(
    version: int, answers: list[PartitionProduceResponse]
) -> None:
    response = answer_of(("t", ID, answers))
    found = read(asked(("t", ID, 1)), response, version)
    assert isinstance(found, ProduceResponse)
    assert found.responses[0].partition_responses == answers


def test_a_new_leader_and_topics_in_another_order_are_read_by_the_declaration() -> None:
    moved = partition(current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=3))
    request = asked(("a", ID, 1), ("b", OTHER_ID, 1))
    swapped = answer_of(("b", OTHER_ID, [partition()]), ("a", ID, [partition()]))
    assert isinstance(read(asked(("a", ID, 1)), answer_of(("a", ID, [moved])), 13), ProduceResponse)
    assert isinstance(read(request, swapped, 13), ProduceResponse)
    assert isinstance(read(request, swapped, 9), ProduceResponse)


def test_answers_of_older_versions_are_read() -> None:
    for version in range(3, 9):
        assert read(asked(("t", ID, 1)), answer_of(("t", ID, [partition()])), version) == answer_of(
            ("t", Uuid(bytes(16)), [partition()])
        )


@pytest.mark.parametrize("version", (9, 12, 13))
def test_an_answer_cut_at_any_byte_is_refused(version: int) -> None:
    request = asked(("t", ID, 2))
    whole = encode_response(ResponseHeader(7), answer_of(("t", ID, [partition(0), partition(1)])), version)
    for end in range(len(whole)):
        with pytest.raises(ProtocolError):
            request.read(memoryview(whole[:end]), version)
    assert isinstance(request.read(memoryview(whole + b"more"), version), Written)
