"""The embedded broker on data directories of Apache Kafka: it answers what Kafka answered before."""

from __future__ import annotations

import hashlib
import random
import shutil
import time
from collections.abc import Callable, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafkaraw import (
    AclBinding,
    AclOperation,
    Admin,
    ConfigResource,
    Consumer,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    QuotaEntity,
    ResourcePattern,
    ResourceType,
    ScramPassword,
    TopicPartition,
)
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli import main
from kafkaraw.errors import BrokerError, KafkaError
from tests.interop.apache_kafka import ApacheKafka, why_missing

SEGMENT_BYTES = 1 << 20  # Kafka allows no less
PATIENCE_S = 30.0
TOPICS = {"plain": 3, "compacted": 1, "txn": 2, "cut": 1, "appended": 1, "empty": 2}
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
KAFKA = {**AUTHORIZER, "log.segment.bytes": str(SEGMENT_BYTES)}

Observed = dict[str, Any]


def load(servers: str) -> None:
    """Have something of everything that a directory keeps."""
    rng = random.Random(19)
    with Admin(bootstrap_servers=servers) as admin:
        settings = {
            "plain": {"retention.ms": "-1", "max.message.bytes": "2000000"},
            "compacted": {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"},
            "appended": {"message.timestamp.type": "LogAppendTime", "retention.ms": "-1"},
            "cut": {"retention.ms": "-1"},
        }
        admin.create_topics([NewTopic(name, count, configs=settings.get(name, {})) for name, count in TOPICS.items()])
        admin.create_topics([NewTopic("gone", 1), NewTopic("grown", 1)])
        admin.delete_topics(["gone"])
        admin.create_partitions({"grown": 4})
        admin.alter_configs({ConfigResource.topic("plain"): {"max.message.bytes": None}})
        admin.alter_configs({ConfigResource.broker(): {"log.retention.ms": "987654321000"}})
        admin.alter_configs({ConfigResource.broker(1): {"max.connections.per.ip": "4321"}})
        admin.alter_user_scram_credentials(
            [ScramPassword("ada", "SCRAM-SHA-256", "pencil"), ScramPassword("bob", "SCRAM-SHA-512", "pen", 8192)]
        )
        admin.alter_client_quotas(
            {
                QuotaEntity(user="ada"): {"producer_byte_rate": 1e7},
                QuotaEntity(ip="1.2.3.4"): {"connection_creation_rate": 9},
            }
        )
        admin.create_acls(
            [
                AclBinding(ResourcePattern(ResourceType.TOPIC, "plain"), f"User:{name}", AclOperation.READ)
                for name in "abc"
            ]
        )
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        with Producer(bootstrap_servers=servers, compression_type=codec, batch_size=8192) as producer:
            for number in range(400):
                value = rng.randbytes(rng.choice((0, 30, 3000))) if number % 9 else None
                key = f"{codec} {number} é".encode() if number % 5 else None
                headers = [("h1", b"x"), ("h2", None)] if number % 7 == 0 else ()
                producer.send("plain", value, key=key, headers=headers, timestamp_ms=1_600_000_000_000 + number)
                producer.send("compacted", value, key=b"%d" % (number % 40))
                producer.send("cut", b"%d" % number)
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(20):
            producer.send("appended", b"%d" % number, timestamp_ms=1000 + number)
    for name in ("first", "second"):
        with Producer(bootstrap_servers=servers, transactional_id=name) as producer:
            producer.init_transactions()
            for number in range(6):
                producer.begin_transaction()
                for each in range(20):
                    producer.send("txn", b"%d" % each, key=b"%d" % each)
                producer.flush()
                if number % 3 == 1:
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_records({TopicPartition("cut", 0): 777})
        offsets = {TopicPartition("plain", number): OffsetAndMetadata(10 + number, "note") for number in range(3)}
        admin.alter_group_offsets("admin's", offsets)
    for protocol in ("classic", "consumer"):
        with Consumer(
            bootstrap_servers=servers, group_id=protocol, group_protocol=protocol, auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe(["plain"])
            deadline = time.monotonic() + PATIENCE_S
            while not consumer.poll(timeout=0.5):
                assert time.monotonic() < deadline
            consumer.commit()


def observed(servers: str, *, has_authorizer: bool = True) -> Observed:
    """What clients see of a cluster."""
    found: Observed = {}
    with Admin(bootstrap_servers=servers) as admin:
        listed = {topic.name: topic for topic in admin.list_topics()}
        found["topics"] = {name: (str(topic.topic_id), topic.partitions) for name, topic in listed.items()}
        resources = [ConfigResource.topic(name) for name in listed] + [
            ConfigResource.broker(1),
            ConfigResource.broker(),
        ]
        described = admin.describe_configs(resources)
        found["configs"] = {
            (resource.kind, resource.name): {
                entry.name: entry.value
                for entry in entries.values()
                if entry.source.name.startswith("DYNAMIC") and entry.name in SETTINGS_SET
            }
            for resource, entries in described.items()
        }
        groups = ("admin's", "classic", "consumer")
        found["offsets"] = admin.list_group_offsets(groups)
        found["transactions"] = {
            (one.transactional_id, one.producer_id, one.state) for one in admin.list_transactions()
        }
        found["scram"] = admin.describe_user_scram_credentials()
        found["quotas"] = admin.describe_client_quotas()
        if has_authorizer:
            found["acls"] = set(admin.describe_acls())
    partitions = [TopicPartition(name, number) for name, count in TOPICS.items() for number in range(count)]
    for isolation in ("read_uncommitted", "read_committed"):
        with Consumer(bootstrap_servers=servers, isolation_level=isolation) as consumer:
            starts, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
            found[f"{isolation} offsets"] = (starts, ends)
            consumer.assign(partitions)
            consumer.seek_to_beginning()
            rows: dict[TopicPartition, list[object]] = {partition: [] for partition in partitions}
            deadline = time.monotonic() + PATIENCE_S
            while any(consumer.position(partition) < ends[partition] for partition in partitions):
                assert time.monotonic() < deadline, {p: (consumer.position(p), ends[p]) for p in partitions}
                for partition, records in consumer.poll(timeout=0.5).items():
                    rows[partition] += [tuple(record) for record in records]
            found[isolation] = rows
    return found


SETTINGS_SET = {
    "cleanup.policy",
    "log.retention.ms",
    "max.connections.per.ip",
    "max.message.bytes",
    "message.timestamp.type",
    "retention.ms",
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Observed, Path, Observed]:
    """Copies of a directory, after a graceful stop and after kill -9, each with what Kafka answered before."""
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    copies = tmp_path_factory.mktemp("copies")
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), KAFKA) as kafka:
        load(kafka.bootstrap_servers)
        before_stop = observed(kafka.bootstrap_servers)
        kafka.stop()
        shutil.copytree(kafka.data_dir / "logs", copies / "clean")
        kafka.start()
        with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for number in range(300):
                producer.send("plain", b"%d" % number, partition=number % 3)
        open_one = Producer(bootstrap_servers=kafka.bootstrap_servers, transactional_id="open")
        open_one.init_transactions()
        open_one.begin_transaction()
        open_one.send("txn", b"not committed", partition=0)
        open_one.flush()
        before_kill = observed(kafka.bootstrap_servers)
        kafka.kill()
        shutil.copytree(kafka.data_dir / "logs", copies / "killed")
        open_one.close(timeout=0)
    return copies / "clean", before_stop, copies / "killed", before_kill


@pytest.fixture(params=["clean", "killed"])
def directory(written: tuple[Path, Observed, Path, Observed], request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy that the test may change."""
    source = written[0 if request.param == "clean" else 2]
    return Path(shutil.copytree(source, tmp_path / "data"))


@pytest.fixture
def expected(
    written: tuple[Path, Observed, Path, Observed], directory: Path, request: pytest.FixtureRequest
) -> Observed:
    """What Kafka answered when it ran on the directory."""
    return written[1 if request.node.callspec.params["directory"] == "clean" else 3]


def differences(found: Observed, expected: Observed) -> dict[str, object]:
    """What differs; of records, the first row that does in each partition."""
    different: dict[str, object] = {}
    for name, wanted in expected.items():
        if found[name] == wanted:
            continue
        if name not in ("read_uncommitted", "read_committed"):
            different[name] = (found[name], wanted)
            continue
        different[name] = {
            partition: (len(found[name][partition]), len(rows), first_difference(found[name][partition], rows))
            for partition, rows in wanted.items()
            if rows != found[name][partition]
        }
    return different


def first_difference(found: list[object], wanted: list[object]) -> object:
    return next(((one, other) for one, other in zip_longest(found, wanted) if one != other), None)


def test_broker_opens_a_directory_of_apache_kafka(directory: Path, expected: Observed):
    with EmbeddedBroker(data_dir=directory, properties=AUTHORIZER) as broker:
        found = observed(broker.bootstrap_servers)
        assert differences(found, expected) == {}
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            metadata = producer.send("plain", b"ours", partition=0).result(10)
        end = expected["read_uncommitted offsets"][1][TopicPartition("plain", 0)]
        assert metadata.offset == end
    with EmbeddedBroker(data_dir=directory, properties=AUTHORIZER) as broker:
        again = observed(broker.bootstrap_servers)
        assert differences(again, expected).keys() == {
            f"{isolation}{part}" for isolation in ("read_uncommitted", "read_committed") for part in ("", " offsets")
        }
        last = again["read_committed"][TopicPartition("plain", 0)]
        assert last[:-1] == expected["read_committed"][TopicPartition("plain", 0)]


def test_broker_with_read_only_serves_the_same_and_changes_no_byte(directory: Path, expected: Observed):
    before = tree(directory)
    with EmbeddedBroker(data_dir=directory, properties={**AUTHORIZER, "read.only": True}) as broker:
        servers = broker.bootstrap_servers
        assert differences(observed(servers), expected) == {}
        for settings in ({}, {"enable_idempotence": False}, {"transactional_id": "first"}):
            with pytest.raises(KafkaError, match="POLICY_VIOLATION"):
                write_one(servers, settings)
        with Admin(bootstrap_servers=servers) as admin:
            changes: list[Callable[[], object]] = [
                lambda: admin.create_topics([NewTopic("new", 1)]),
                lambda: admin.delete_topics(["plain"]),
                lambda: admin.create_partitions({"plain": 5}),
                lambda: admin.delete_records({TopicPartition("plain", 0): 1}),
                lambda: admin.alter_configs({ConfigResource.topic("plain"): {"retention.ms": "1"}}),
                lambda: admin.alter_group_offsets("admin's", {TopicPartition("plain", 0): 1}),
                lambda: admin.delete_groups(["classic"]),
                lambda: admin.alter_client_quotas({QuotaEntity(user="x"): {"producer_byte_rate": 1}}),
            ]
            for change in changes:
                with pytest.raises(BrokerError, match="POLICY_VIOLATION"):
                    change()
        assert differences(observed(servers), expected) == {}
    assert tree(directory) == before


def write_one(servers: str, settings: Mapping[str, object]) -> None:
    with Producer(bootstrap_servers=servers, **settings) as producer:  # type: ignore[arg-type]
        if "transactional_id" in settings:
            producer.init_transactions()
        producer.send("plain", b"refused").result(10)


def test_apache_kafka_starts_on_an_exported_directory(tmp_path: Path):
    directory = tmp_path / "logs"
    settings = {
        **AUTHORIZER,
        "node.id": 1,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.num.partitions": 4,
        "log.segment.bytes": SEGMENT_BYTES,
    }
    with EmbeddedBroker(data_dir=directory, properties=settings) as broker:
        load(broker.bootstrap_servers)
        expected = observed(broker.bootstrap_servers)
    said = CliRunner().invoke(main, ["log", "export-kafka", str(directory)])
    assert (said.exit_code, said.stdout.splitlines()[0]) == (0, "node.id=1"), said.output
    with ApacheKafka(tmp_path, KAFKA) as kafka:
        assert differences(observed(kafka.bootstrap_servers), expected) == {}
        with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            metadata = producer.send("plain", b"Kafka's", partition=0).result(10)
        assert metadata.offset == expected["read_uncommitted offsets"][1][TopicPartition("plain", 0)]
        after = observed(kafka.bootstrap_servers)
        kafka.stop()
    with EmbeddedBroker(data_dir=directory, properties=AUTHORIZER) as broker:  # and back
        assert differences(observed(broker.bootstrap_servers), after) == {}


def tree(directory: Path) -> dict[str, str]:
    """The content of each file, and the folders."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in directory.rglob("*")
    }
