"""`kafkaraw top` tells the same of Apache Kafka as of the embedded broker: topics, rates, groups of three kinds."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from kafkaraw import Admin, Consumer, NewTopic, Producer, ShareConsumer, TopicPartition
from kafkaraw.cli import main
from tests.cli.test_top_live import live
from tests.interop.both_brokers import Broker
from tests.waiting import wait_until

TIMEOUT_S = 60.0
RECORDS = 300


@contextmanager
def reading(servers: str) -> Iterator[None]:
    """Members of a classic, a consumer and a share group; each has read some records, and stays."""
    with ExitStack() as stack:
        for protocol in ("classic", "consumer"):
            consumer = stack.enter_context(
                Consumer(
                    bootstrap_servers=servers,
                    group_id=f"watched-{protocol}",
                    group_protocol=protocol,
                    client_id=f"reader of {protocol}",
                    auto_offset_reset="earliest",
                )
            )
            consumer.subscribe(["watched"])
            assert wait_until(lambda consumer=consumer: _assigned(consumer), TIMEOUT_S)
            consumer.commit({TopicPartition("watched", 0): 100, TopicPartition("watched", 1): 150})
        sharing = stack.enter_context(
            ShareConsumer(bootstrap_servers=servers, group_id="watched-share", client_id="sharer")
        )
        sharing.subscribe(["watched"])
        assert wait_until(lambda: _shares(sharing), TIMEOUT_S)
        yield


def _assigned(consumer: Consumer) -> bool:
    consumer.poll(0.05)
    return len(consumer.assignment()) == 2


def _shares(consumer: ShareConsumer) -> bool:
    consumer.poll(0.05)
    return bool(consumer.metrics()["share_group"]["assigned_partitions"])


def watched(servers: str, *more: str) -> dict[str, Any]:
    arguments = ["top", "-b", servers, "--once", "-d", "0.5", "-o", "json", "--topics", "watched*"]
    result = CliRunner().invoke(main, [*arguments, "--groups", "watched*", *more])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


@pytest.fixture
def filled_brokers(both_brokers: tuple[Broker, Broker]) -> Iterator[tuple[Broker, Broker]]:
    for broker in both_brokers:
        with Admin(bootstrap_servers=broker.servers) as admin, Producer(bootstrap_servers=broker.servers) as producer:
            admin.create_topics([NewTopic("watched", 2, 1)])
            for number in range(RECORDS):
                producer.send("watched", b"x" * 100, partition=number % 2)
            producer.flush()
    yield both_brokers
    for broker in both_brokers:
        with Admin(bootstrap_servers=broker.servers) as admin:
            names = [group.group_id for group in admin.list_groups() if group.group_id.startswith("watched")]
            admin.delete_groups(names)  # first: Apache Kafka deletes no share group whose topic is just being deleted
            admin.delete_topics(["watched"])


def compared(found: dict[str, Any]) -> dict[str, object]:
    """What must be the same of both brokers."""
    (topic,) = found["topics"]
    (broker,) = found["brokers"]
    return {
        "topic": {
            name: topic[name] for name in ("partitions", "records", "under_replicated", "offline", "groups", "lag")
        },
        "broker": {name: broker[name] for name in ("is_controller", "is_online", "leaders", "out_of_sync")},
        "directories": len(broker["log_dirs"]),
        "has disk": broker["disk_bytes"] is not None and broker["free_bytes"] is not None,
        "groups": {
            group["group_id"]: (
                group["group_type"],
                group["state"],
                group["members"],
                group["lag"],
                [(row["partition"], row["committed"], row["lag"]) for row in group["partitions"]],
                [(row["client_id"], row["partitions"]) for row in group["member_list"]],
            )
            for group in found["groups"]
        },
        "release": found["release"],
        "problems": found["problems"],
    }


def test_topics_brokers_and_groups_are_the_same_of_both_brokers(filled_brokers: tuple[Broker, Broker]) -> None:
    seen = []
    for broker in filled_brokers:
        with reading(broker.servers):
            seen.append(compared(watched(broker.servers)))
    apache, embedded = seen
    groups = apache["groups"]
    assert isinstance(groups, dict)
    assert groups["watched-classic"][:4] == ("classic", "Stable", 1, 50)
    assert groups["watched-consumer"][:4] == ("consumer", "Stable", 1, 50)
    assert groups["watched-share"][:3] == ("share", "Stable", 1)
    assert apache["release"] == "4.3"
    of_release = {"release": embedded["release"]}
    assert {**apache, **of_release} == embedded


def test_the_age_of_a_lag_comes_from_timestamps_of_records(filled_brokers: tuple[Broker, Broker]) -> None:
    for broker in filled_brokers:
        with Admin(bootstrap_servers=broker.servers) as admin, Producer(bootstrap_servers=broker.servers) as producer:
            admin.create_topics([NewTopic("watched.old", 1, 1)])
            try:
                now_ms = time.time_ns() // 1_000_000
                for hour in range(200, 0, -1):
                    producer.send("watched.old", b"", timestamp_ms=now_ms - hour * 3_600_000)
                producer.flush()
                admin.alter_group_offsets("watched.late", {TopicPartition("watched.old", 0): 100})
                (group,) = [each for each in watched(broker.servers)["groups"] if each["group_id"] == "watched.late"]
                assert group["lag"] == 100
                assert group["time_lag"]["seconds"] == pytest.approx(100 * 3600, rel=0.1), broker.name
                assert not group["time_lag"]["is_at_least"]
            finally:
                admin.delete_topics(["watched.old"])


def test_the_screen_follows_keys_on_both_brokers(filled_brokers: tuple[Broker, Broker]) -> None:
    steps: list[tuple[str, str]] = [
        ("/watched\r", r"^watched +2 .* 300 "),
        ("\r", r"> partitions of watched"),
        ("b", r"^ +\d+ +controller "),
        ("\r", r"> log directories of broker"),
        ("w", r"^(Nothing is wrong|SEVERITY)"),
        ("q", r""),
    ]
    for broker in filled_brokers:
        with live("-b", broker.servers, "-d", "0.5") as top:
            top.wait_for(r"^TOPIC ")
            for keys, pattern in steps:
                top.type(keys)
                top.wait_for(pattern)
            assert top.end() == 0, broker.name


def test_rates_of_both_brokers_are_what_a_producer_sends(filled_brokers: tuple[Broker, Broker]) -> None:
    for broker in filled_brokers:
        with sending(broker.servers):
            (topic,) = watched(broker.servers, "-d", "2")["topics"]
        assert 20 < topic["records_per_s"] < 110, broker.name
        assert topic["bytes_per_s"] > 90 * topic["records_per_s"], broker.name


@contextmanager
def sending(servers: str) -> Iterator[None]:
    """About a hundred records of 100 bytes per second."""
    stop = threading.Event()

    def run() -> None:
        with Producer(bootstrap_servers=servers, linger_ms=0) as producer:
            while not stop.wait(0.01):
                producer.send("watched", b"x" * 100, partition=0)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(TIMEOUT_S)
