"""Topics that Metadata asks for, and CreateTopics with too many partitions, as Apache Kafka answers them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.interop.apache_kafka import ApacheKafka
from tests.interop.raw_client import RawClient

PATIENCE_S = 20.0


@pytest.fixture(scope="module")
def our_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def asked(client: RawClient, version: int, *names: str) -> list[tuple[str, int, int]]:
    """Name, error code and number of partitions of each topic."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    return sorted((one.name, one.error_code, len(one.partitions)) for one in client.ask(request, version).topics)


def until_created(client: RawClient, name: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while asked(client, 9, name)[0][1]:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def created(client: RawClient, *counts: int) -> list[tuple[str, int, str | None]]:
    topics = [
        CreatableTopic(name=f"many{at}", num_partitions=count, replication_factor=1, assignments=[], configs=[])
        for at, count in enumerate(counts)
    ]
    answer = client.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000, validate_only=True), 7)
    return [(one.name, one.error_code, one.error_message) for one in answer.topics]


def conversation(servers: str) -> list[object]:
    said: list[object] = []
    with RawClient(servers) as client:
        for version in (4, 9, 12, 13):
            said.append(asked(client, version, f"auto{version}", "bad name", "", "..", "x" * 250, "__cluster_metadata"))
            until_created(client, f"auto{version}")
            said.append(asked(client, version, f"auto{version}"))
        asked(client, 9, "auto.of_this")
        until_created(client, "auto.of_this")
        for _ in range(2):
            said.append(asked(client, 9, "auto_of.this"))
            time.sleep(0.5)  # its creation fails meanwhile
        said += [created(client, 4_000, 4_000), created(client, 4_000, 4_000, 4_000), created(client, 10_001)]
    return said


def test_a_missing_topic_is_unknown_first_and_created_behind_the_answer(
    apache_kafka: ApacheKafka, our_broker: EmbeddedBroker
):
    ours = conversation(our_broker.bootstrap_servers)
    assert ours == conversation(apache_kafka.bootstrap_servers)
    assert ("auto9", 3, 0) in ours[2]  # type: ignore[operator]
