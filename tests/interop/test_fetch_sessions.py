"""Fetch sessions: our broker answers as Apache Kafka does, request by request, and our consumer uses them at both."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from kafkaraw import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.consumer import reading_of
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tests.interop.apache_kafka import ApacheKafka
from tests.interop.raw_client import RawClient

VERSIONS = (7, 12, 13, 17)
MISSING = 9
"""A partition that the topic does not have."""


@pytest.fixture(scope="module")
def our_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


class Story:
    """A topic of three partitions with two records in each, and one client that fetches from it."""

    def __init__(self, bootstrap_servers: str, version: int) -> None:
        self.topic = f"sessions-{uuid.uuid4().hex[:12]}"
        self.version = version
        self.producer = Producer(bootstrap_servers=bootstrap_servers, enable_idempotence=False)
        with Admin(bootstrap_servers=bootstrap_servers) as admin:
            admin.create_topics([NewTopic(self.topic, partitions=3, replication_factor=1)])
            self.topic_id = admin.describe_topics([self.topic])[self.topic].topic_id if version >= 13 else ZERO_UUID
        for number in range(6):
            self.write(number % 3)
        self.raw = RawClient(bootstrap_servers)
        self.session_id = 0

    def write(self, partition: int) -> None:
        self.producer.send(self.topic, b"value", partition=partition).result(30)

    def fetch(
        self,
        epoch: int,
        offsets: dict[int, int],
        *,
        forget: tuple[int, ...] = (),
        session_id: int | None = None,
        topic_id: Uuid | None = None,
    ) -> tuple[Any, ...]:
        """What an answer says: its error, whether it has a session, and per partition the error and its numbers."""
        chosen_id = self.topic_id if topic_id is None else topic_id
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=self.session_id if session_id is None else session_id,
            session_epoch=epoch,
            topics=[
                FetchTopic(
                    topic=self.topic,
                    topic_id=chosen_id,
                    partitions=[
                        FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=1 << 20)
                        for number, offset in offsets.items()
                    ],
                )
            ]
            if offsets
            else [],
            forgotten_topics_data=[ForgottenTopic(topic=self.topic, topic_id=chosen_id, partitions=list(forget))]
            if forget
            else [],
        )
        answer = self.raw.ask(request, self.version)
        if epoch == 0 and session_id is None:
            self.session_id = answer.session_id
        parts = [
            (
                part.partition_index,
                ErrorCode(part.error_code).name,
                part.high_watermark,
                part.log_start_offset,
                len(part.records or b""),
            )
            for topic in answer.responses
            for part in topic.partitions
        ]
        return ErrorCode(answer.error_code).name, answer.session_id == self.session_id, parts

    def tell(self) -> list[tuple[Any, ...]]:
        """Everything that can happen to a session, one answer after the other."""
        found = [
            self.fetch(0, {0: 0, 1: 2, 2: 2}),
            self.fetch(1, {0: 2}),
            self.fetch(2, {}),
            self.fetch(3, {MISSING: 0}),
            self.fetch(4, {}),
            self.fetch(5, {1: 77}, forget=(MISSING,)),
            self.fetch(6, {1: 2}),
        ]
        self.write(2)
        found += [self.fetch(7, {}), self.fetch(8, {2: 3}, forget=(0,))]
        self.write(0)
        found += [
            self.fetch(9, {}),
            self.fetch(9, {}),
            self.fetch(99, {}),
            self.fetch(10, {}),
            self.fetch(1, {}, session_id=self.session_id ^ 1),
            self.fetch(0, {}, session_id=self.session_id),
            self.fetch(11, {}),
            self.fetch(-1, {0: 3}, session_id=0),
            self.fetch(0, {0: 3}),
            self.fetch(1, {}, forget=(0,)),
            self.fetch(2, {}),
        ]
        self.producer.close()
        self.raw.close()
        return found

    def name_partitions_twice(self, epoch: int) -> list[list[tuple[Any, ...]]]:
        """What is said, topic by topic, to a request that names the topic and its partitions several times."""
        named = [[(0, 0), (1, 0), (0, 1)], [(2, 0)], [(1, 2), (0, 1), (2, 77)]]
        topics = [
            FetchTopic(
                topic=self.topic,
                topic_id=self.topic_id,
                partitions=[
                    FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=1 << 20)
                    for number, offset in offsets
                ],
            )
            for offsets in named
        ]
        request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_epoch=epoch, topics=topics)
        answer = self.raw.ask(request, self.version)
        return [
            [
                (part.partition_index, ErrorCode(part.error_code).name, len(part.records or b""))
                for part in one.partitions
            ]
            for one in answer.responses
        ]


@pytest.mark.parametrize("epoch", [-1, 0])
@pytest.mark.parametrize("version", [4, *VERSIONS])
def test_a_partition_that_is_named_twice_is_answered_once(
    apache_kafka: ApacheKafka, our_broker: EmbeddedBroker, version: int, epoch: int
) -> None:
    if version < 7 and epoch == 0:
        pytest.skip("this version has no sessions")
    said = []
    for broker in (apache_kafka, our_broker):
        story = Story(broker.bootstrap_servers, version)
        said.append(story.name_partitions_twice(epoch))
        story.producer.close()
        story.raw.close()
    theirs, ours = said
    assert sorted(part[0] for topic in theirs for part in topic) == [0, 1, 2]
    assert ours == theirs


@pytest.mark.parametrize("version", VERSIONS)
def test_our_broker_answers_as_apache_kafka_does(
    apache_kafka: ApacheKafka, our_broker: EmbeddedBroker, version: int
) -> None:
    theirs = Story(apache_kafka.bootstrap_servers, version).tell()
    assert Story(our_broker.bootstrap_servers, version).tell() == theirs


@pytest.mark.parametrize("broker", ["apache_kafka", "our_broker"])
def test_our_consumer_reads_in_a_session_and_goes_on_when_it_is_gone(
    request: pytest.FixtureRequest, broker: str
) -> None:
    servers = request.getfixturevalue(broker).bootstrap_servers
    topic = f"sessions-{uuid.uuid4().hex[:12]}"
    with (
        Admin(bootstrap_servers=servers) as admin,
        Producer(bootstrap_servers=servers) as producer,
        Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", fetch_max_wait_ms=50) as consumer,
    ):
        admin.create_topics([NewTopic(topic, partitions=2, replication_factor=1)])
        consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])

        def written_is_read(number: int) -> None:
            producer.send(topic, b"%d" % number, partition=number % 2).result(30)
            got: list[bytes | None] = []
            while not got:
                for batch in consumer.poll(timeout=20).values():
                    got += batch.values()
            assert got == [b"%d" % number]

        for number in range(6):
            written_is_read(number)
        (session,) = reading_of(consumer._async).fetcher._schedule.sessions.values()
        first_id, epoch = session._id, session._epoch
        assert first_id != 0
        assert epoch > 1
        raw = RawClient(servers)
        raw.ask(FetchRequest(max_wait_ms=0, min_bytes=1, session_id=first_id, session_epoch=-1, topics=[]), 13)
        raw.close()
        for number in range(6, 12):
            written_is_read(number)
        assert session._id not in (0, first_id)
