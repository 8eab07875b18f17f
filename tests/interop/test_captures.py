"""Captures of real clients and brokers are read to the last byte, and as the tap saw them.

Two kinds: those that a tap saves, and those of dumpcap on the loopback interface, where the machine allows it.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaraw import Admin, NewTopic
from kafkaraw.inspect import Exchange, Tap, annotate
from kafkaraw.inspect.captures import CaptureReader, CaptureReport
from kafkaraw.inspect.tap.saving import Saving
from tests.interop.clients import Aiokafka, Client, Confluent, KafkaPython, Kafkaraw, Sample
from tests.rotation import rotating
from tests.waiting import wait_until

SAMPLES = [Sample(b"key %d" % number, b"value %d" % number * 50) for number in range(40)]
CLIENTS: list[Client] = [Confluent(), KafkaPython(), Aiokafka(), Kafkaraw()]


def use(client: Client, servers: str) -> None:
    """Write and read records of a new topic."""
    topic = f"captured-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, partitions=2, replication_factor=1)])
    client.produce(servers, topic, SAMPLES, codec="gzip", acks="all", idempotent=False)
    assert len(client.consume(servers, topic, 2, len(SAMPLES))) == len(SAMPLES)


def check(data: bytes) -> tuple[CaptureReport, list[Exchange]]:
    """Nothing of the capture is lost, unknown or left over."""
    reader = CaptureReader(io.BytesIO(data))
    items = list(reader.read())
    exchanges = [item for item in items if isinstance(item, Exchange)]
    assert exchanges == items, "there are remarks"
    report = reader.report
    assert (report.missing_bytes, report.unread_bytes, report.guessed, report.unknown) == (0, 0, 0, 0)
    assert report.packets is not None and not report.packets.broken
    for exchange in exchanges:
        assert not exchange.problem, exchange.problem
        if exchange.request is not None and exchange.api is not None:
            assert annotate(
                bytes(exchange.request.data), api=exchange.api_key, version=exchange.version, direction="request"
            ).is_whole
        if exchange.response is not None:
            assert annotate(
                bytes(exchange.response.data),
                api=exchange.api_key,
                version=exchange.response_version,
                direction="response",
            ).is_sound
    return report, exchanges


@pytest.fixture(params=["embedded", "apache"])
def servers(request: pytest.FixtureRequest) -> str:
    name = "kafka_broker_session" if request.param == "embedded" else "apache_kafka"
    found: str = request.getfixturevalue(name).bootstrap_servers
    return found


@pytest.mark.parametrize("client", rotating(CLIENTS, 1), ids=lambda client: client.name)
def test_what_a_tap_saves_is_read_as_the_tap_saw_it(servers: str, client: Client):
    file = io.BytesIO()
    saving = Saving(file)
    with Tap(servers) as tap:
        tap.save_to(saving)
        recording = tap.record()
        use(client, tap.bootstrap_servers)
    saving.close()
    _, exchanges = check(file.getvalue())
    seen = [(one.connection.number, one.correlation_id, one.name) for one in recording.exchanges()]
    # A capture has its own numbers of connections.
    assert sorted(one[1:] for one in seen) == sorted((one.correlation_id, one.name) for one in exchanges)


@pytest.fixture
def dumpcap(servers: str, tmp_path: Path) -> Iterator[Path]:
    """A capture of the loopback interface, which grows."""
    program = shutil.which("dumpcap")
    if program is None:
        pytest.skip("dumpcap is not installed")
    path = tmp_path / "loopback.pcapng"
    command = [program, "-q", "-i", "lo", "-f", f"tcp port {servers.rpartition(':')[2]}", "-w", str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            while line and not line.startswith("File:"):
                line = process.stderr.readline()
            if not line:
                pytest.skip("this user may not capture packets")
            yield path
        finally:
            process.terminate()


@pytest.mark.soak
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_capture_of_dumpcap_is_read_to_its_last_byte(dumpcap: Path, servers: str, client: Client):
    use(client, servers)
    size = 0

    def is_written() -> bool:
        nonlocal size
        before, size = size, dumpcap.stat().st_size
        return size == before > 0

    assert wait_until(is_written, 10.0, every_s=1.0), "dumpcap still writes"
    data = dumpcap.read_bytes()
    reader = CaptureReader(io.BytesIO(data))
    exchanges = [item for item in reader.read() if isinstance(item, Exchange)]
    whole = [one for one in exchanges if one.response is not None]
    assert {"Produce", "Fetch", "Metadata"} <= {one.api.name for one in whole if one.api is not None}
    assert all(not one.problem for one in whole)
    assert (reader.report.missing_bytes, reader.report.unread_bytes) == (0, 0)
