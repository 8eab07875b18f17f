"""Every client works through a tap in front of either broker as without one, and none goes past it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from kafkaraw import Admin, NewTopic
from kafkaraw.inspect import Tap
from kafkaraw.inspect.tap.recording import Recording
from tests.interop.clients import Aiokafka, Client, Confluent, KafkaPython, Kafkaraw, Received, Sample
from tests.interop.java_tools import run_tool
from tests.interop.share_members import ShareMember
from tests.interop.test_share_clients import VALUES, share_topic
from tests.rotation import rotating
from tests.waiting import wait_until

PARTITIONS = 2
SAMPLES = [Sample(b"key %d" % number, b"value %d" % number * 50) for number in range(40)]
CLIENTS: list[Client] = [Confluent(), KafkaPython(), Aiokafka(), Kafkaraw()]
SHARE_CLIENTS = ("franz-go", "confluent", "java")
GROUP_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.fixture(params=["embedded", "apache"])
def tapped(request: pytest.FixtureRequest) -> Iterator[tuple[Tap, Recording]]:
    """A tap in front of a broker, and what passes it."""
    name = "kafka_broker_session" if request.param == "embedded" else "apache_kafka"
    with Tap(request.getfixturevalue(name).bootstrap_servers) as tap:
        yield tap, tap.record()


@pytest.fixture
def topic(tapped: tuple[Tap, Recording]) -> str:
    name = f"tapped-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=tapped[0].bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, partitions=PARTITIONS, replication_factor=1)])
    return name


def check(tap: Tap, recording: Recording) -> None:
    """Everything was read to its last byte, and nothing was lost or dropped."""
    found = recording.exchanges()
    assert [(one.name, one.problem) for one in found if one.problem and "bytes were kept" not in one.problem] == []
    assert [one for one in found if one.request is None] == []
    assert tap.notes == []
    assert tap.dropped == 0


@pytest.mark.parametrize("client", rotating(CLIENTS, 2), ids=lambda client: client.name)
def test_client_writes_and_reads_through_the_tap(tapped: tuple[Tap, Recording], topic: str, client: Client):
    tap, recording = tapped
    client.produce(tap.bootstrap_servers, topic, SAMPLES, codec="gzip", acks="all", idempotent=False)
    received: list[Received] = client.consume(tap.bootstrap_servers, topic, PARTITIONS, len(SAMPLES))
    assert sorted(one.sample.value for one in received) == sorted(one.value for one in SAMPLES)
    # Only a client that reaches the leader by the tap's port is seen there.
    produced = recording.wait_for("Produce", topic=topic)
    assert produced.connection.node_id is not None
    assert recording.wait_for("Fetch").connection.node_id is not None
    check(tap, recording)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("client", rotating(SHARE_CLIENTS, 1))
def test_members_of_share_groups_work_through_the_tap(tapped: tuple[Tap, Recording], client: str):
    tap, recording = tapped
    name = share_topic(tap.bootstrap_servers)
    with ShareMember(client, tap.bootstrap_servers, name, name) as member:

        def is_read() -> bool:
            return sum(one.what in ("accepted", "rejected") for one in member.confirmations) >= len(VALUES)

        assert wait_until(is_read, 60), member.confirmations
        member.leave()
    fetched = recording.exchanges("ShareFetch")
    assert fetched
    assert {one.connection.node_id for one in fetched} != {None}
    assert name in recording.wait_for("ShareGroupHeartbeat").subjects.groups
    check(tap, recording)


def test_java_tools_work_through_the_tap(tapped: tuple[Tap, Recording], topic: str):
    tap, recording = tapped
    servers = ("--bootstrap-server", tap.bootstrap_servers)
    assert f"Topic: {topic}" in run_tool(
        "org.apache.kafka.tools.TopicCommand", *servers, "--describe", "--topic", topic
    )
    perf = ("--topic", topic, "--num-records", "500", "--record-size", "1000", "--throughput", "-1")
    sent = run_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *perf,
        "--producer-props",
        f"bootstrap.servers={tap.bootstrap_servers}",
        "client.id=perf",
    )
    assert "500 records sent" in sent
    read = run_tool(
        "org.apache.kafka.tools.ConsumerPerformance",
        *servers,
        "--topic",
        topic,
        "--messages",
        "500",
        "--group",
        "tapped",
    )
    assert ", 500, " in read
    assert "tapped" in run_tool(GROUP_TOOL, *servers, "--list")
    assert sum(map(sum, (one.batches for one in recording.exchanges("Produce", client_id="perf")))) == 500
    assert recording.exchanges("JoinGroup") or recording.exchanges("ConsumerGroupHeartbeat")
    check(tap, recording)
