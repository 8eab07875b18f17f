"""Java's share consumer reads from the embedded broker, and its tools show and change share groups."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkaraw import Admin, ConfigResource, NewTopic, Producer
from kafkaraw.broker import EmbeddedBroker
from tests.interop.java_tools import run_tool

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
PROPERTIES = {"group.share.min.heartbeat.interval.ms": "100", "group.share.heartbeat.interval.ms": "200"} | {
    "group.share.assignment.interval.ms": "0"
}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties=PROPERTIES) as broker:
        yield broker


def prepared(broker: EmbeddedBroker, topic: str, group_id: str, count: int) -> None:
    """Write records, for a group that begins with the first one."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, 2)])
        admin.alter_configs({ConfigResource.group(group_id): {"share.auto.offset.reset": "earliest"}})
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=number % 2)


def console(broker: EmbeddedBroker, topic: str, group_id: str, count: int, *options: str) -> list[int]:
    """What `kafka-console-share-consumer` prints."""
    server = ("--bootstrap-server", broker.bootstrap_servers)
    limits = ("--max-messages", str(count), "--timeout-ms", "20000")
    printed = run_tool(CONSOLE, *server, "--topic", topic, "--group", group_id, *limits, *options)
    return sorted(int(line) for line in printed.splitlines() if line.isdigit())


def test_java_reads_each_record_once(broker: EmbeddedBroker) -> None:
    prepared(broker, "once", "java-once", 60)
    assert console(broker, "once", "java-once", 60) == list(range(60))
    shown = run_tool(GROUPS, "--bootstrap-server", broker.bootstrap_servers, "--describe", "--group", "java-once")
    assert "java-once" in shown and "once" in shown
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("once", b"60", partition=0)
    assert console(broker, "once", "java-once", 1) == [60]


def test_java_gets_released_records_again(broker: EmbeddedBroker) -> None:
    prepared(broker, "again", "java-again", 20)
    assert console(broker, "again", "java-again", 20, "--release") == list(range(20))
    assert console(broker, "again", "java-again", 20) == list(range(20))


def test_java_moves_the_offsets_of_a_group(broker: EmbeddedBroker) -> None:
    prepared(broker, "moved", "java-moved", 10)
    assert console(broker, "moved", "java-moved", 10) == list(range(10))
    where = ("--bootstrap-server", broker.bootstrap_servers, "--group", "java-moved")
    run_tool(GROUPS, *where, "--reset-offsets", "--to-earliest", "--topic", "moved", "--execute")
    assert console(broker, "moved", "java-moved", 10) == list(range(10))
    run_tool(GROUPS, *where, "--delete")
    listed = run_tool(GROUPS, "--bootstrap-server", broker.bootstrap_servers, "--list")
    assert "java-moved" not in listed
