"""Appending compared with Apache Kafka: the same batches, sane and odd, and the same answers and logs.

Apache Kafka reads the records of every batch; ours does where settings depend on them, unless it is told to.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkaraw.records import Batch, BatchHeader, iter_headers
from kafkaraw.testing.pytest_plugin import KEEP_RECORDS
from tests.interop import odd_batches
from tests.interop.apache_kafka import ApacheKafka
from tests.interop.odd_batches import QUESTIONS, RECOMPRESSED, STAMPED, TOPICS, Question
from tests.interop.raw_client import Closed, RawClient

PREFIX = "odd-"
TIMEOUT_MS = 10_000
CREATE_TOPICS_VERSION = 7
FETCH_VERSION = 12
LIST_OFFSETS_VERSION = 7
FIND_COORDINATOR_VERSION = 4
INIT_PRODUCER_ID_VERSION = 4
TIMES = re.compile(r"-?\b\d{13,19}\b")
READY_SECONDS_MAX = 30.0
NOT_READY = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
PLACES = {
    question.name: [one.name for one in QUESTIONS if one.topic == question.topic].index(question.name)
    for question in QUESTIONS
}
"""The partition of each question, which is its own."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a broker said to one Produce request; times, which differ from run to run, are left out."""

    error: str
    base_offset: int
    has_time: bool
    log_start_offset: int
    record_errors: tuple[tuple[int, str | None], ...]
    message: str | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one question.

    Attributes:
        answers: to each request.
        log: what is in the partition then.
    """

    answers: tuple[Answer, ...]
    log: tuple[object, ...]


def make_topics(client: RawClient) -> None:
    topics = [
        CreatableTopic(
            name=PREFIX + name,
            num_partitions=max(2, sum(question.topic == name for question in QUESTIONS)),
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        for name, configs in TOPICS.items()
    ]
    answer = client.ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000), CREATE_TOPICS_VERSION)
    assert not any(topic.error_code for topic in answer.topics), answer
    wait_for_leaders(client, topics)


def wait_for_leaders(client: RawClient, topics: list[CreatableTopic]) -> None:
    until = time.monotonic() + READY_SECONDS_MAX
    asked = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name=topic.name,
                partitions=[
                    ListOffsetsPartition(partition_index=at, timestamp=-1) for at in range(topic.num_partitions)
                ],
            )
            for topic in topics
        ],
    )
    while time.monotonic() < until:
        answer = client.ask(asked, LIST_OFFSETS_VERSION)
        if not any(part.error_code in NOT_READY for topic in answer.topics for part in topic.partitions):
            return


def request(topic: str, records: dict[int, bytes], *, acks: int = -1) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=memoryview(one)) for index, one in records.items()]
    topics = [TopicProduceData(name=PREFIX + topic, partition_data=data)]
    return ProduceRequest(transactional_id=None, acks=acks, timeout_ms=TIMEOUT_MS, topic_data=topics)


def read(answer: Any) -> Answer:
    return Answer(
        ErrorCode(answer.error_code).name,
        answer.base_offset,
        answer.log_append_time_ms >= 0,
        answer.log_start_offset,
        tuple((error.batch_index, without_times(error.batch_index_error_message)) for error in answer.record_errors),
        without_times(answer.error_message),
    )


def without_times(message: str | None) -> str | None:
    return None if message is None else TIMES.sub("TIME", message)


def outcome(servers: str, question: Question, now: int) -> Outcome:
    with RawClient(servers) as client:
        answers = []
        for sent in question.sent(now):
            asked = request(question.topic, {PLACES[question.name]: sent})
            answers.append(read(client.ask(asked, question.version).responses[0].partition_responses[0]))
        return Outcome(tuple(answers), tuple(log_of(client, question)))


def log_of(client: RawClient, question: Question) -> Iterator[object]:
    """The batches in a partition: byte for byte, unless the broker had to make them anew."""
    asked = FetchPartition(partition=PLACES[question.name], fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic=PREFIX + question.topic, partitions=[asked])
    answer = client.ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic], max_bytes=1 << 20), FETCH_VERSION)
    found = answer.responses[0].partitions[0]
    assert found.error_code == 0
    for header, wire in iter_headers(memoryview(bytes(found.records or b""))):
        if question.topic in STAMPED | RECOMPRESSED:
            yield comparable(header, question), *records_in(wire, question)
        else:
            yield bytes(wire)


def comparable(header: BatchHeader, question: Question) -> BatchHeader:
    """A header without what depends on the library that compressed it, or on the broker's clock."""
    header = header._replace(crc=0)
    if question.topic in RECOMPRESSED:
        header = header._replace(batch_length=0)
    return header._replace(max_timestamp=0) if question.topic in STAMPED else header


def records_in(wire: memoryview, question: Question) -> Iterable[object]:
    for record in Batch("", 0, wire, start_offset=0):
        time_ms = 0 if question.topic in STAMPED else record.timestamp_ms
        yield record.offset, time_ms, record.key, record.value, tuple(record.headers)


def outcomes(servers: str, now: int) -> dict[str, Outcome]:
    with RawClient(servers) as client:
        make_topics(client)
    return {question.name: outcome(servers, question, now) for question in QUESTIONS}


@pytest.fixture(scope="module")
def now() -> int:
    """The time, with a last byte of 64 at least: in "length 14" it is the size of a batch behind the first.

    With 1 or 2 there, Kafka 4.3.1 answers UNKNOWN_SERVER_ERROR instead of CORRUPT_MESSAGE.
    """
    return int(time.time() * 1000) | 0x40


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    """A broker with the topics, which reads records where it must."""
    with EmbeddedBroker(properties=KEEP_RECORDS) as broker:
        with RawClient(broker.bootstrap_servers) as client:
            make_topics(client)
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def both(apache_kafka: ApacheKafka, theirs: dict[str, Outcome], ours: str) -> tuple[str, str]:
    """Where both brokers are, with the topics and a coordinator of transactions."""
    assert theirs, "the topics are there"
    servers = (apache_kafka.bootstrap_servers, ours)
    for one in servers:
        wait_for_coordinator(one)
    return servers


@pytest.fixture(scope="module")
def theirs(apache_kafka: ApacheKafka, now: int) -> dict[str, Outcome]:
    return outcomes(apache_kafka.bootstrap_servers, now)


def differences(theirs: dict[str, Outcome], ours: dict[str, Outcome]) -> dict[str, str]:
    """What differs, by question. Where Apache Kafka's answer has no message, ours says why, which is no difference."""
    found = {}
    for name, expected in theirs.items():
        answers = tuple(
            replace(own, message=None) if apache.message is None else own
            for apache, own in zip(expected.answers, ours[name].answers, strict=True)
        )
        if answers != expected.answers:
            found[name] = f"{name}: Apache Kafka says {expected.answers}, ours {answers}"
        elif expected.log != ours[name].log:
            found[name] = f"{name}: Apache Kafka has {expected.log}, ours {ours[name].log}"
    return found


@pytest.mark.timeout(120)
def test_a_broker_that_reads_all_records_answers_and_keeps_what_apache_kafka_does(
    theirs: dict[str, Outcome], now: int
) -> None:
    with EmbeddedBroker(properties={"validate": "full"}) as broker:
        found = differences(theirs, outcomes(broker.bootstrap_servers, now))
    assert not found, "\n".join(found.values())
    codes = {answer.error for one in theirs.values() for answer in one.answers}
    assert codes >= {"NONE", "INVALID_RECORD", "CORRUPT_MESSAGE", "INVALID_TIMESTAMP", "MESSAGE_TOO_LARGE"}


@pytest.mark.timeout(120)
def test_a_broker_that_reads_where_it_must_differs_only_where_reading_alone_would_tell(
    theirs: dict[str, Outcome], now: int
) -> None:
    with EmbeddedBroker() as broker:
        found = differences(theirs, outcomes(broker.bootstrap_servers, now))
    by_records = {question.name for question in QUESTIONS if question.by_records}
    unexpected = [said for name, said in found.items() if name not in by_records]
    assert not unexpected, "\n".join(unexpected)


@pytest.mark.parametrize(
    ("records", "acks"),
    [
        ({0: odd_batches.batch(), 1: odd_batches.batch(length=0)}, -1),
        ({0: odd_batches.batch(), 1: odd_batches.batch(magic=3)}, 1),
        ({0: odd_batches.batch(), 1: odd_batches.batch(attributes=0x10)}, -1),
        ({0: odd_batches.batch(), 1: odd_batches.batch(crc=1)}, -1),
        ({0: odd_batches.batch(), 1: odd_batches.batch()}, 2),
        ({0: odd_batches.batch(length=0), 9999: odd_batches.batch()}, 2),
        ({0: b"", 9999: odd_batches.batch(crc=1)}, 2),
        ({0: odd_batches.batch(crc=1)}, 0),
        ({0: odd_batches.batch(length=0)}, 0),
    ],
)
def test_one_bad_batch_fails_its_partition_or_the_request_alike(
    both: tuple[str, str], records: dict[int, bytes], acks: int
) -> None:
    asked = request("stamped", records, acks=acks)
    apache, ours = (codes(servers, asked) for servers in both)
    assert ours == apache


def codes(servers: str, asked: ProduceRequest, version: int = odd_batches.VERSION) -> dict[int, ErrorCode] | str:
    with RawClient(servers) as client:
        try:
            answer = client.ask(asked, version)
        except Closed:
            return "closed"
    return {one.index: ErrorCode(one.error_code) for one in answer.responses[0].partition_responses}


TRANSACTIONAL = 0x10


def of(producer_id: int, *, epoch: int = 0, sequence: int = 0, attributes: int = TRANSACTIONAL) -> bytes:
    return odd_batches.batch(
        attributes=attributes, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )


@pytest.mark.parametrize("version", [9, 11, 12])
@pytest.mark.parametrize(
    "records",
    [
        pytest.param({0: odd_batches.batch(attributes=TRANSACTIONAL)}, id="no producer"),
        pytest.param({0: of(8001)}, id="unknown producer"),
        pytest.param({0: of(8001), 1: of(8002)}, id="two producers"),
        pytest.param({0: of(8001), 1: odd_batches.batch()}, id="one of two is transactional"),
        pytest.param({0: of(8003, attributes=0)}, id="not transactional"),
        pytest.param({0: of(8004, attributes=0), 1: of(8004, attributes=0, sequence=7)}, id="idempotent"),
        pytest.param({0: of(-1)}, id="producer -1"),
        pytest.param({0: of(8005, attributes=TRANSACTIONAL | 0x20)}, id="control"),
    ],
)
def test_records_of_transactions_that_nobody_began_are_answered_alike(
    both: tuple[str, str], records: dict[int, bytes], version: int
) -> None:
    asked = replace(request("stamped", records), transactional_id=f"odd-{version}")
    apache, ours = (codes(servers, asked, version) for servers in both)
    assert ours == apache


def wait_for_coordinator(servers: str) -> None:
    """Have __transaction_state made; no coordinator knows producers before it is there."""
    until = time.monotonic() + READY_SECONDS_MAX
    asked = InitProducerIdRequest(transactional_id="another", transaction_timeout_ms=1000)
    finding = FindCoordinatorRequest(key_type=1, coordinator_keys=["another"])
    with RawClient(servers) as client:
        while time.monotonic() < until:
            client.ask(finding, FIND_COORDINATOR_VERSION)
            if client.ask(asked, INIT_PRODUCER_ID_VERSION).error_code == ErrorCode.NONE:
                return
