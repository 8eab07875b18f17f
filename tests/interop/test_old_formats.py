"""Messages of magic 0 and 1, written and read by Apache Kafka's own classes, and by us."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaraw import Admin, NewTopic
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.records import Batch
from kafkaraw.testing.pytest_plugin import KEEP_RECORDS
from tests.client.fetching.test_old_formats import put_old_segment
from tests.interop.apache_kafka import why_missing
from tests.interop.clients import Client, Confluent, Kafkaraw
from tests.interop.java_client import JavaClient
from tests.interop.java_tools import shared_tools, why_no_java_client
from tests.records.test_legacy import CODECS, KINDS, TIME, VECTORS, WRITTEN, message, vector, wrapper

TIMEOUT_SECONDS = 60
STAMPED = 0x08


def run(*arguments: str) -> str:
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    return shared_tools().run(VECTORS / "MakeLegacyVectors.java", *arguments)


def test_the_vectors_are_what_java_writes(tmp_path: Path) -> None:
    run("write", str(tmp_path))
    for kind in KINDS:
        for codec in CODECS:
            name = f"{kind}-{codec}.hex"
            if codec != "gzip":  # which zlib Java has makes a difference
                assert (tmp_path / name).read_text() == (VECTORS / name).read_text()


def three(*, magic: int = 1) -> bytes:
    fields = ((b"a", b"first"), (None, b""), (b"", None))
    return b"".join(message(at, value, key=key, magic=magic, time=TIME + at) for at, (key, value) in enumerate(fields))


SETS = {
    "plain": three(),
    "plain of magic 0": three(magic=0),
    "stamped": message(7, b"v", attributes=STAMPED, time=5) + message(8, b"v", attributes=STAMPED, time=6),
    "wrapper with offsets": wrapper(99, three()),
    "wrapper without offsets": wrapper(0, three()),
    "stamped wrapper": wrapper(2, three(), "lz4", flags=STAMPED, time=TIME - 1),
    "wrapper of magic 0": wrapper(2, three(magic=0), "snappy", magic=0),
    "magic 0 in a wrapper of magic 1": wrapper(12, three(magic=0), "gzip"),
    "gaps in a wrapper": wrapper(50, message(0, b"x") + message(30, b"y")),
    "one after the other": three() + wrapper(5, three()) + message(6, b"last"),
    "cut short": three() + wrapper(5, three())[:-1],
    **{f"{kind} {codec}": vector(kind, codec) for kind in KINDS for codec in CODECS},
}


def shown(data: bytes) -> Iterator[str]:
    """Our records, as `MakeLegacyVectors.java read` shows its own."""
    for record in Batch("t", 0, memoryview(data), start_offset=0):
        sizes = [-1 if field is None else len(field) for field in (record.key, record.value)]
        yield f"{record.offset} {record.timestamp_ms} {sizes[0]} {sizes[1]} {java_hash(record.value or b'')}"


def java_hash(data: bytes) -> int:
    """`Arrays.hashCode` of bytes."""
    found = 1
    for byte in data:
        found = 31 * found + (byte - 256 if byte > 127 else byte)
    return (found + 2**31) % 2**32 - 2**31


def test_java_and_we_read_the_same_records(tmp_path: Path) -> None:
    files = []
    for number, data in enumerate(SETS.values()):
        files.append(tmp_path / f"{number:02}.hex")
        files[-1].write_text(data.hex())
    told = run("read", *map(str, files)).splitlines()
    ours = [line for data in SETS.values() for line in shown(data)]
    assert ours == told
    assert len(ours) > len(KINDS) * len(CODECS) * 24


CLIENTS = ("java", "confluent", "kafkaraw")
PLACES = [(kind, codec) for kind in KINDS for codec in CODECS]


@pytest.fixture(scope="module")
def old_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker on a directory with segments of an old one: each kind of messages has a partition."""
    folder = tmp_path_factory.mktemp("old")
    with EmbeddedBroker(data_dir=folder) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("old", partitions=len(PLACES))])
    for partition, (kind, codec) in enumerate(PLACES):
        put_old_segment(folder / f"old-{partition}", vector(kind, codec))
    with EmbeddedBroker(data_dir=folder, properties=KEEP_RECORDS) as broker:
        yield broker.bootstrap_servers


@pytest.mark.parametrize("name", CLIENTS)
def test_everybody_reads_an_old_broker_s_segments_from_ours(name: str, old_broker: str, tmp_path: Path) -> None:
    client = client_named(name, tmp_path)
    received = client.consume(old_broker, "old", len(PLACES), len(PLACES) * len(WRITTEN))
    for partition in range(len(PLACES)):
        here = sorted((one for one in received if one.partition == partition), key=lambda one: one.offset)
        found = [(one.offset, one.sample.key, one.sample.value) for one in here]
        assert found == [(offset, key, value) for offset, _, key, value in WRITTEN], PLACES[partition]


def client_named(name: str, folder: Path) -> Client:
    if name == "java":
        missing = why_no_java_client()
        if missing is not None:
            pytest.skip(missing)
        return JavaClient()
    return Confluent() if name == "confluent" else Kafkaraw()
