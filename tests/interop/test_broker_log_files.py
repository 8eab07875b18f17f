"""Log directories that the embedded broker writes under load, read by kafka-dump-log and `kafkaraw log verify`."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkaraw import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedCluster
from kafkaraw.cli import main
from kafkaraw.errors import KafkaError
from tests.interop.java_tools import SharedTools, first_offsets, shared_tools

DUMP = "org.apache.kafka.tools.DumpLogSegments"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
PROPERTIES = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "replica.lag.time.max.ms": "2000",
}
SEGMENTS = {"internal.segment.bytes": "60000", "index.interval.bytes": "1000"}


def load(cluster: EmbeddedCluster) -> None:
    """Write with every codec into small segments, in transactions that commit and abort, and commit offsets."""
    rng, servers = random.Random(19), cluster.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin:
        topics = [NewTopic(codec, 1, replication_factor=2, configs=SEGMENTS) for codec in CODECS]
        by_broker = SEGMENTS | {"message.timestamp.type": "LogAppendTime"}
        topics.append(NewTopic("appended", 1, configs=by_broker))
        topics.append(NewTopic("allocated", 1, configs=SEGMENTS | {"preallocate": "true"}))
        topics.append(NewTopic("flushed", 1, configs=SEGMENTS | {"flush.messages": "1"}))
        topics += [NewTopic("txn", 1, configs=SEGMENTS), NewTopic("empty", 1)]
        admin.create_topics(topics)
    for codec in CODECS:
        with Producer(bootstrap_servers=servers, compression_type=codec, batch_size=4096, linger_ms=1) as producer:
            for number in range(300):
                value = rng.randbytes(rng.choice((0, 30, 1500))) if number % 9 else None
                headers = [("h1", b"x"), ("h2", None)] if number % 7 == 0 else ()
                producer.send(codec, value, key=f"key {number} é".encode() if number % 5 else None, headers=headers)
                if number % 20 == 0:
                    producer.flush()
    for topic in ("appended", "allocated", "flushed"):
        with Producer(bootstrap_servers=servers, batch_size=2048) as producer:
            for number in range(150):
                producer.send(topic, rng.randbytes(1000), timestamp_ms=1_700_000_000_000 + number * 37 % 50)
    with contextlib.ExitStack() as stack:  # transactions of two producers overlap, and reach over several segments
        producers = [
            stack.enter_context(Producer(bootstrap_servers=servers, transactional_id=name)) for name in ("t1", "t2")
        ]
        for producer in producers:
            producer.init_transactions()
        for number in range(8):
            for producer in producers:
                producer.begin_transaction()
                for _ in range(10):
                    producer.send("txn", rng.randbytes(700), key=b"k")
                producer.flush()
            producers[0].abort_transaction() if number % 3 == 1 else producers[0].commit_transaction()
            producers[1].abort_transaction() if number % 2 == 1 else producers[1].commit_transaction()
    assert read_committed(servers, "txn", group_id="g") == 10 * (5 + 4)


def read_committed(servers: str, topic: str, **settings: str) -> int:
    """Read a topic to its end, commit, and return the number of records."""
    partition = TopicPartition(topic, 0)
    with Consumer(
        bootstrap_servers=servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        **settings,  # type: ignore[arg-type]
    ) as consumer:
        end = consumer.end_offsets([partition])[partition]
        consumer.assign([partition])
        count = 0
        while consumer.position(partition) < end:
            count += sum(len(list(batch)) for batch in consumer.poll(timeout=1).values())
        consumer.commit()
        return count


def diverge(cluster: EmbeddedCluster) -> None:
    """Let the leader of a topic have batches that no follower has, and then another node lead."""
    leader = cluster.leader_of("none")
    assert leader is not None
    follower = next(node for node in cluster.isr_of("none") if node != leader)
    cluster.pause_replication(follower)
    with Producer(bootstrap_servers=cluster.address_of(leader), acks=1, batch_size=2000) as producer:
        for number in range(200):
            producer.send("none", b"lost %d" % number + bytes(600))
    cluster.kill_node(leader)
    cluster.resume_replication(follower)
    with Producer(bootstrap_servers=cluster.bootstrap_servers, batch_size=2000) as producer:
        for number in range(50):
            producer.send("none", b"kept %d" % number)
    cluster.start_node(leader)
    cluster.wait_until_in_sync()


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a cluster that was stopped gracefully."""
    directory = tmp_path_factory.mktemp("stopped")
    with EmbeddedCluster(2, data_dir=directory, properties=PROPERTIES) as cluster:
        load(cluster)
        diverge(cluster)
    return directory


@pytest.fixture(scope="module")
def recovered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a cluster that was killed under load, started again, and stopped gracefully."""
    directory = tmp_path_factory.mktemp("recovered")
    cluster = EmbeddedCluster(2, data_dir=directory, properties=PROPERTIES).start()
    load(cluster)
    with contextlib.suppress(KafkaError), Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(200):
            producer.send("lz4", bytes(500) + b"%d" % number)
        producer.flush()
        cluster.kill()
    torn = max(directory.glob("*/lz4-0/*.log"))
    with torn.open("ab") as file:
        file.write(b"torn")
    with EmbeddedCluster(2, data_dir=directory, properties=PROPERTIES) as again:
        assert read_committed(again.bootstrap_servers, "txn", group_id="after") == 90
    return directory


@pytest.fixture(scope="module", params=["stopped", "recovered"])
def written(request: pytest.FixtureRequest) -> Path:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Path)
    return found


@pytest.fixture(scope="module")
def tools() -> SharedTools:
    return shared_tools()


def files(directory: Path, part: str) -> str:
    found = sorted(str(path) for path in directory.rglob("*") if path.suffix in SUFFIXES and part in str(path))
    assert found
    return ",".join(found)


@pytest.mark.parametrize(
    ("option", "part"),
    [
        ("--deep-iteration", ""),
        ("--index-sanity-check", ""),
        ("--verify-index-only", ""),
        ("--print-data-log", "txn-0"),
        ("--offsets-decoder", "__consumer_offsets"),
        ("--transaction-log-decoder", "__transaction_state"),
    ],
)
def test_kafka_dump_log_accepts_every_file(written: Path, tools: SharedTools, option: str, part: str):
    complaints: list[str] = []
    chosen = files(written, part)
    printed = tools.run(DUMP, option, "--files", chosen, complaints=complaints)
    assert "isvalid: false" not in printed
    assert "Found" not in printed
    if option in ("--deep-iteration", "--print-data-log", "--offsets-decoder", "--transaction-log-decoder"):
        complaints = [line for line in complaints if line not in first_offsets(chosen.split(","))]
    assert complaints == []


def test_the_load_has_segments_aborted_transactions_and_snapshots(written: Path):
    assert len(list(written.glob("*/none-0/*.log"))) > 3
    assert list(written.rglob("*.txnindex"))
    assert len(list(written.glob("*/txn-0/*.snapshot"))) > 2
    assert all(path.stat().st_size < 70_000 for path in written.glob("*/allocated-0/*.log"))
    assert all((path.with_suffix(".index")).exists() for path in written.rglob("*.log"))


def test_verify_finds_nothing(written: Path):
    for node in sorted(written.glob("node-*")):
        said = CliRunner().invoke(main, ["log", "verify", str(node)])
        # As Kafka, a broker that stops leaves the segments of a truncation that it would have removed a minute later.
        findings = [
            line for line in said.stdout.splitlines() if ".deleted: a file that the broker no longer" not in line
        ]
        assert (said.exit_code, findings) == (0, []), said.output
