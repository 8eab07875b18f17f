"""`kafkaraw groups export` serves the lag of groups to Prometheus, in records and in seconds."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kafkaraw import Admin, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli.clients import Cluster
from kafkaraw.cli.group_export import export
from kafkaraw.errors import UsageError

PARTITION = TopicPartition("orders", 0)


def samples_at(url: str) -> dict[tuple[str, ...], float]:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def servers(kafka_broker: EmbeddedBroker) -> Iterator[str]:
    """A broker with ten records in two partitions, and two groups, one of which has committed a deleted topic, too."""
    servers = kafka_broker.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic("orders", partitions=2), NewTopic("gone", partitions=1)])
        for number in range(10):
            producer.send("orders", b"", partition=number % 2)
        producer.flush()
        admin.alter_group_offsets("billing", {PARTITION: 3, TopicPartition("gone", 0): 0})
        admin.alter_group_offsets("audit", {PARTITION: OffsetAndMetadata(5)})
        admin.delete_topics(["gone"])
    yield servers


def test_the_lag_of_each_group_and_partition_is_served(servers: str) -> None:
    running, port = export(Cluster(servers, None, ()), [], "127.0.0.1", 0, 8)
    try:
        seen = samples_at(f"http://127.0.0.1:{port}/metrics")
    finally:
        running.close()
    assert seen["kafkaraw_exporter_up",] == 1, seen
    assert seen["kafkaraw_group_lag", "billing", "0", "orders"] == 2
    assert seen["kafkaraw_group_lag", "audit", "0", "orders"] == 0
    assert seen["kafkaraw_group_lag_seconds", "audit", "0", "orders"] == 0
    assert seen["kafkaraw_group_committed_offset", "billing", "0", "orders"] == 3
    assert seen["kafkaraw_topic_end_offset", "0", "orders"] == 5
    assert seen["kafkaraw_group_members", "billing"] == 0
    assert seen["kafkaraw_group_state", "billing", "Empty", "classic"] == 1
    assert not any("gone" in name for name in seen if name[0] == "kafkaraw_group_lag")


def test_patterns_choose_groups(servers: str) -> None:
    running, port = export(Cluster(servers, None, ()), ["bil*"], "127.0.0.1", 0, 8)
    try:
        seen = samples_at(f"http://127.0.0.1:{port}/metrics")
    finally:
        running.close()
    assert {name[1] for name in seen if name[0] == "kafkaraw_group_members"} == {"billing"}


def test_a_cluster_that_is_away_is_down_and_the_exporter_goes_on(kafka_broker: EmbeddedBroker) -> None:
    running, port = export(Cluster(kafka_broker.bootstrap_servers, None, ()), [], "127.0.0.1", 0, 1)
    try:
        kafka_broker.stop()
        assert samples_at(f"http://127.0.0.1:{port}/metrics")["kafkaraw_exporter_up",] == 0
    finally:
        running.close()


def test_a_port_that_is_taken_is_an_error_that_names_it(servers: str) -> None:
    running, port = export(Cluster(servers, None, ()), [], "127.0.0.1", 0, 1)
    try:
        with pytest.raises(UsageError, match=rf"cannot listen on 127.0.0.1:{port}: .*; choose another --port"):
            export(Cluster(servers, None, ()), [], "127.0.0.1", port, 1)
    finally:
        running.close()
