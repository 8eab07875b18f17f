"""`kafkaraw perf` prints what Kafka's performance tools print, from records that it has sent and read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkaraw import Admin, NewTopic, OffsetSpec, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli import main


def run(broker: EmbeddedBroker, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["perf", *arguments, "-b", broker.bootstrap_servers])


def ends(broker: EmbeddedBroker, topic: str) -> int:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        (partition,) = admin.describe_topics([topic])[topic].partitions
        place = admin.list_offsets({TopicPartition(topic, partition.partition): OffsetSpec.LATEST})
    return next(iter(place.values())).offset


@pytest.fixture
def broker(kafka_broker: EmbeddedBroker) -> EmbeddedBroker:
    with Admin(bootstrap_servers=kafka_broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("load", partitions=1)])
    return kafka_broker


def test_the_line_of_the_producer_has_the_form_of_kafkas_tool(broker: EmbeddedBroker) -> None:
    done = run(broker, "produce", "load", "--num-records", "1000", "--record-size", "100")
    assert done.exit_code == 0, done.output
    assert re.fullmatch(
        r"1000 records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency, [\d.]+ ms max latency, "
        r"\d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\.\n",
        done.output,
    )
    assert ends(broker, "load") == 1000


def test_a_limit_of_the_throughput_is_kept(broker: EmbeddedBroker) -> None:
    done = run(broker, "produce", "load", "--num-records", "60", "--record-size", "10", "--throughput", "200", "--json")
    assert 100 < json.loads(done.output)["records_per_s"] <= 210


def test_transactions_end_with_a_marker(broker: EmbeddedBroker) -> None:
    done = run(broker, "produce", "load", "--num-records", "10", "--record-size", "10", "--transactional-id", "perf")
    assert done.exit_code == 0, done.output
    assert ends(broker, "load") == 11


def test_payloads_are_lines_of_a_file(broker: EmbeddedBroker, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"one\ntwo\n")
    done = run(broker, "produce", "load", "--num-records", "10", "--payload-file", str(tmp_path / "lines"), "--json")
    assert json.loads(done.output)["records"] == 10
    (tmp_path / "lines").write_bytes(b"")
    done = run(broker, "produce", "load", "--num-records", "10", "--payload-file", str(tmp_path / "lines"))
    assert "is empty" in done.output


@pytest.mark.parametrize("group", [(), ("--group", "perf")])
def test_the_line_of_the_consumer_has_the_form_of_kafkas_tool(broker: EmbeddedBroker, group: tuple[str, ...]) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for _ in range(1000):
            producer.send("load", bytes(1024))
    done = run(broker, "consume", "load", "--num-records", "1000", *group)
    assert done.exit_code == 0, done.output
    heading, line = done.output.splitlines()
    assert heading.startswith("start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg")
    values = line.split(", ")
    assert len(values) == len(heading.split(", "))
    assert values[2] == "0.9766"
    assert values[4] == "1000"


def test_a_consumer_without_records_ends_and_says_how_many_it_has_read(broker: EmbeddedBroker) -> None:
    done = run(broker, "consume", "load", "--num-records", "5", "--timeout", "300")
    assert "no records for 0.3 s: 0 of 5 were read" in done.output


def test_one_kind_of_payload_is_needed(broker: EmbeddedBroker) -> None:
    done = run(broker, "produce", "load", "--num-records", "5")
    assert (done.exit_code, "give either --record-size or --payload-file" in done.output) == (2, True)
