"""Log directories of Apache Kafka: dumped as its own tool does it, verified, damaged, repaired, and started again."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkaraw import (
    Admin,
    ConfigResource,
    Consumer,
    NewTopic,
    Producer,
    QuotaEntity,
    ScramPassword,
    TopicPartition,
)
from kafkaraw.cli import main
from kafkaraw.core.log.framed_records import encode_framed, metadata_classes, remote_log_classes
from kafkaraw.protocol.declare import header_of
from kafkaraw.protocol.embedded.remote_log_records import SegmentLeaderEpochEntry
from kafkaraw.records import encode_batch
from tests.interop.apache_kafka import SOON_BACK, ApacheKafka, why_missing
from tests.interop.java_tools import SharedTools, shared_tools
from tests.protocol.message_values import random_message

DUMP = "org.apache.kafka.tools.DumpLogSegments"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")
PATIENCE_S = 30.0
SEGMENT_BYTES = 1 << 20  # Kafka allows no less
INDEX_BYTES = 1 << 20  # what a killed broker leaves of each index, mostly zeros: by default ten times as much to read


def load(servers: str) -> None:
    """Write with every codec, into several segments, in transactions that commit and abort, and commit offsets."""
    rng = random.Random(19)
    segments = {"segment.bytes": str(SEGMENT_BYTES)}
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(codec, 1, configs=segments) for codec in CODECS])
        by_broker = {"message.timestamp.type": "LogAppendTime"}
        admin.create_topics([NewTopic("txn", 1), NewTopic("empty", 1), NewTopic("appended", 1, configs=by_broker)])
        admin.alter_client_quotas({QuotaEntity(user="ü"): {"consumer_byte_rate": 1e7, "request_percentage": 12.5}})
        admin.alter_user_scram_credentials([ScramPassword("reader", "SCRAM-SHA-256", "secret")])
        admin.alter_configs({ConfigResource.topic("txn"): {"retention.ms": "123456789012"}})
    for codec in CODECS:
        with Producer(bootstrap_servers=servers, compression_type=codec, batch_size=8192) as producer:
            for number in range(2500 if codec in ("none", "zstd") else 100):
                value = rng.randbytes(rng.choice((0, 30, 1500))) if number % 9 else None
                key = f"key {number} é".encode() if number % 5 else None
                producer.send(codec, value, key=key, headers=[("h1", b"x"), ("h2", None)] if number % 7 == 0 else ())
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(20):
            producer.send("appended", b"%d" % number, timestamp_ms=1000 + number)
    for name in ("t1", "t2"):
        with Producer(bootstrap_servers=servers, transactional_id=name) as producer:
            producer.init_transactions()
            for number in range(6):
                producer.begin_transaction()
                for each in range(20):
                    producer.send("txn", b"%d" % each, key=b"k")
                producer.flush()
                if number % 3 == 1:
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
    for group, protocol in (("classic", "classic"), ("newer", "consumer")):
        assert read(servers, "txn", group_id=group, group_protocol=protocol) == 160


def read(servers: str, topic: str, **settings: object) -> int:
    """Read a topic in a group until it is at the end, commit, and return how many records it has."""
    settings = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"} | settings
    with Consumer(bootstrap_servers=servers, **settings) as consumer:  # type: ignore[arg-type]
        partition = TopicPartition(topic, 0)
        end = consumer.end_offsets([partition])[partition]
        consumer.subscribe([topic])
        count = 0
        deadline = time.monotonic() + PATIENCE_S
        while partition not in consumer.assignment() or consumer.position(partition) < end:
            assert time.monotonic() < deadline, f"{count} records of {topic}"
            count += sum(len(list(batch)) for batch in consumer.poll(timeout=0.5).values())
        consumer.commit()
        return count


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> ApacheKafka:
    """A node that was stopped gracefully after a load."""
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    sizes = {"log.segment.bytes": str(SEGMENT_BYTES), "log.index.size.max.bytes": str(INDEX_BYTES)}
    kafka = ApacheKafka(tmp_path_factory.mktemp("kafka"), SOON_BACK | sizes)
    with kafka:
        load(kafka.bootstrap_servers)
        kafka.stop()
    return kafka


@pytest.fixture(scope="module")
def clean(stopped: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the directory as Kafka left it."""
    return Path(shutil.copytree(stopped.data_dir / "logs", tmp_path_factory.mktemp("clean") / "logs"))


@pytest.fixture(scope="module")
def killed(stopped: ApacheKafka, clean: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the directory as Kafka leaves it when it is killed: indexes have zeros at their ends."""
    stopped.start()
    with Producer(bootstrap_servers=stopped.bootstrap_servers) as producer:
        for number in range(100):
            producer.send("lz4", b"%d" % number)
    stopped.kill()
    copied = Path(shutil.copytree(stopped.data_dir / "logs", tmp_path_factory.mktemp("killed") / "logs"))
    assert any(path.stat().st_size > INDEX_BYTES // 2 for path in copied.rglob("*.index"))
    return copied


@pytest.fixture(scope="module")
def tools() -> SharedTools:
    return shared_tools()


def run(command: str, *arguments: object) -> Result:
    result = CliRunner().invoke(main, ["log", command, *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def files(directory: Path, *parts: str) -> list[str]:
    found = sorted(str(path) for path in directory.rglob("*") if path.suffix in SUFFIXES)
    return [path for path in found if not parts or any(part in path for part in parts)]


CASES = [
    ((), ()),
    ((), ("--deep-iteration",)),
    (("none", "zstd", "txn", "appended", "lz4"), ("--print-data-log",)),
    ((), ("--index-sanity-check",)),
    ((), ("--verify-index-only",)),
    (("__consumer_offsets",), ("--offsets-decoder",)),
    (("__transaction_state",), ("--transaction-log-decoder",)),
    (("__cluster_metadata", "bootstrap"), ("--cluster-metadata-decoder",)),
    (("__cluster_metadata",), ("--cluster-metadata-decoder", "--skip-record-metadata")),
    (("txn-0",), ("--print-data-log", "--skip-record-metadata")),
    (("none-0",), ("--max-bytes", "100000")),
]


@pytest.mark.parametrize("parts, options", CASES, ids=lambda case: " ".join(case) or "all")
def test_dump_prints_what_kafka_dump_log_prints(
    clean: Path, tools: SharedTools, parts: tuple[str, ...], options: tuple[str, ...]
):
    chosen = files(clean, *parts)
    assert chosen
    expected = tools.run(DUMP, *options, "--files", ",".join(chosen))
    said = run("dump", *options, *chosen)
    assert (said.exit_code, said.stdout.splitlines()) == (0, expected.splitlines())


@pytest.mark.parametrize("option", ["--cluster-metadata-decoder", "--remote-log-metadata-decoder"])
def test_dump_prints_every_record_of_a_metadata_topic(tools: SharedTools, tmp_path: Path, option: str):
    path = tmp_path / "00000000000000000000.log"
    values = []
    for cls in (metadata_classes() if "cluster" in option else remote_log_classes()).values():
        for version in range(header_of(cls).versions.max + 1):
            message = random_message(cls, version, random.Random(version))
            make_plausible(message)
            values.append(encode_framed(message, version))
    path.write_bytes(encode_batch([(0, None, value, None) for value in values]))
    said = run("dump", option, path)
    assert said.stdout.splitlines() == tools.run(DUMP, option, "--files", str(path)).splitlines()
    assert "Error" not in said.stdout


def make_plausible(message: object) -> None:
    """Give a record of __remote_log_metadata the states and offsets that Java's classes take."""
    for name, value in (("remote_log_segment_state", 1), ("remote_partition_delete_state", 2), ("start_offset", 5)):
        if hasattr(message, name):
            setattr(message, name, value)
    if hasattr(message, "end_offset"):
        message.end_offset = 70
        if not message.segment_leader_epochs:
            message.segment_leader_epochs = [SegmentLeaderEpochEntry(leader_epoch=3, offset=5)]


def test_dump_of_a_killed_brokers_files_is_the_same(killed: Path, tools: SharedTools):
    chosen = files(killed, "lz4", "none", "txn")
    said = run("dump", *chosen)
    assert (said.exit_code, said.stdout) == (0, tools.run(DUMP, "--files", ",".join(chosen)))


def test_dump_of_damaged_files_is_the_same(clean: Path, tools: SharedTools, tmp_path: Path):
    log = next(Path(path) for path in files(clean, "none-0") if path.endswith(".log"))
    content = bytearray(log.read_bytes())
    content[5000] ^= 1
    damaged = tmp_path / log.name
    damaged.write_bytes(content[:-7])
    said = run("dump", damaged)
    assert (said.exit_code, said.stdout) == (0, tools.run(DUMP, "--files", str(damaged)))
    assert "isvalid: false" in said.stdout
    assert "invalid bytes at the end" in said.stdout
    damaged.write_bytes(content + bytes(100))
    assert run("dump", damaged).exit_code == 1
    with pytest.raises(AssertionError, match="smaller than minimum record overhead"):
        tools.run(DUMP, "--files", str(damaged))


def test_verify_finds_nothing_in_what_kafka_wrote(clean: Path, killed: Path):
    for directory in (clean, killed):
        said = run("verify", directory)
        assert (said.exit_code, said.stdout) == (0, ""), said.output


def test_list_shows_the_offsets_of_what_kafka_wrote(clean: Path):
    rows = {line.split()[0]: line.split() for line in run("list", clean).stdout.splitlines()[1:]}
    assert rows["none-0"][4] == "2500"
    assert int(rows["none-0"][1]) > 1
    assert rows["empty-0"][3:5] == ["0", "0"]
    assert rows["appended-0"][4] == "20"


def test_kafka_starts_on_a_repaired_directory(stopped: ApacheKafka, killed: Path, tools: SharedTools):
    directory = stopped.data_dir / "logs"
    logs = [Path(path) for path in files(directory, "none-0", "txn-0") if path.endswith(".log")]
    first, txn = logs[0], logs[-1]
    content = bytearray(first.read_bytes())
    position = len(content) // 2
    content[position] ^= 0x10
    first.write_bytes(content)
    txn.write_bytes(txn.read_bytes()[:-9])
    index = next(Path(path) for path in files(directory, "zstd-0") if path.endswith(".index"))
    index.write_bytes(index.read_bytes()[:-3])
    found = run("verify", directory)
    assert found.exit_code == 1
    for file in (first, txn, index):
        assert str(file) in found.stdout
    assert run("repair", directory).exit_code == 1
    assert first.read_bytes() == content
    assert run("repair", directory, "--yes").exit_code == 0
    assert run("verify", directory).stdout == ""
    tools.run(DUMP, "--deep-iteration", "--files", ",".join(files(directory)))
    kept = {line.split()[0]: int(line.split()[4]) for line in run("list", directory).stdout.splitlines()[1:]}
    assert 0 < kept["none-0"] < 2500
    with stopped:
        assert "is in use by a broker" in run("repair", directory, "--yes").output
        assert read(stopped.bootstrap_servers, "none", group_id="after") == kept["none-0"]
        assert read(stopped.bootstrap_servers, "zstd", group_id="after") == 2500
