"""`kafkaraw wire tap`: what it prints, how it ends, and that a slow terminal costs lines only."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkaraw import Producer
from kafkaraw.cli import main
from kafkaraw.cli.wire_tap import QUEUED_LINES_MAX, LineWriter
from kafkaraw.errors import AuthenticationError, KafkaError
from kafkaraw.inspect import Exchange
from kafkaraw.inspect.captures import CaptureReader
from tests.cli.running import TIMEOUT, run, start
from tests.waiting import wait_until

SERVERS = re.compile(rb"bootstrap.servers=(\S+);")


@contextmanager
def tapping(servers: str, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A tap as a process, and its address."""
    process = start(servers, "wire tap", "--listen", "127.0.0.1:0", *options)
    try:
        said = b""
        while (found := SERVERS.search(said)) is None:
            line = process.stderr.readline()
            assert line, said
            said += line
        yield process, found[1].decode()
    finally:
        process.kill()
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()
        process.wait(TIMEOUT)


def ended(process: subprocess.Popen[bytes]) -> tuple[str, str]:
    """End a tap by Ctrl-C; returns standard output and error."""
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, errors
    return output.decode(), errors.decode()


def test_lines_and_summary_are_printed(kafka_broker_session):
    with tapping(kafka_broker_session.bootstrap_servers, "--api", "Produce") as (process, servers):
        with Producer(bootstrap_servers=servers, client_id="orders") as producer:
            for _ in range(25):
                producer.send("tap-lines", b"value").result(TIMEOUT)
        output, errors = ended(process)
    lines, _, rest = output.partition("\n\n")
    assert len(lines.splitlines()) == 25
    assert all("Produce v" in line and "tap-lines  1 record in 1 batch" in line for line in lines.splitlines())
    assert re.search(r"orders +Metadata +\d+ ", rest)
    assert "- orders: 25 of 25 batches have one record" in rest
    assert errors == ""


def test_json_is_for_programs_faults_are_named_and_count_ends_the_tap(kafka_broker_session):
    options = ("--count", "2", "--api", "Produce")
    rule = "Produce topic=tap-json times=1: answer NOT_LEADER_OR_FOLLOWER"
    with tapping(kafka_broker_session.bootstrap_servers, "-o", "json", "--fault", rule, *options) as (
        process,
        servers,
    ):
        with Producer(bootstrap_servers=servers, client_id="orders", retry_backoff_ms=1) as producer:
            producer.send("tap-json", b"value").result(TIMEOUT)
        output, _ = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0
    *produced, last = [json.loads(line) for line in output.splitlines()]
    assert len(produced) == 2
    assert produced[0]["fault"] == "answer NOT_LEADER_OR_FOLLOWER on api=Produce, topic=tap-json"
    assert produced[0]["errors"][0]["name"] == "NOT_LEADER_OR_FOLLOWER"
    assert produced[-1]["errors"] == []
    assert {use["client"] for use in last["summary"]["uses"]} == {"orders"}


def test_sasl_and_tls_pass_through(kafka_broker_factory):
    broker = kafka_broker_factory(users={"alice": "secret-of-alice"})
    login = {"sasl_mechanism": "PLAIN", "sasl_username": "alice"}
    options = ("-X", "security.protocol=SASL_PLAINTEXT", "--tls", "-vv")
    with tapping(broker.bootstrap_servers, *options) as (process, servers):
        # The path of the certificate was printed before the address.
        made = Path(tempfile.gettempdir()).glob("kafkaraw-tap-*.pem")
        path = str(max(made, key=lambda file: file.stat().st_mtime))
        security = {"security_protocol": "SASL_SSL", "ssl_cafile": path, **login}
        with Producer(bootstrap_servers=servers, sasl_password="secret-of-alice", **security) as producer:
            producer.send("tap-sasl", b"value").result(TIMEOUT)
        with (
            pytest.raises(AuthenticationError),
            Producer(bootstrap_servers=servers, sasl_password="wrong-secret", **security) as producer,
        ):
            producer.send("tap-sasl", b"value").result(TIMEOUT)
        output, _ = ended(process)
    os.unlink(path)
    assert "SaslAuthenticate v2" in output
    assert "SASL_AUTHENTICATION_FAILED" in output
    for secret in ("secret-of-alice", "wrong-secret"):
        assert secret not in output
        assert secret.encode().hex(" ")[:30] not in output


def test_ctrl_c_in_the_middle_of_the_traffic_leaves_a_whole_capture(kafka_broker_session, tmp_path):
    """Requests are on their way when the tap ends; the file has whole frames only, and the end of each connection."""
    file = tmp_path / "tap.pcapng"
    stop = threading.Event()
    with tapping(kafka_broker_session.bootstrap_servers, "--save", str(file), "--quiet") as (process, servers):

        def send() -> None:
            settings = {"linger_ms": 0, "request_timeout_ms": 1000, "delivery_timeout_ms": 2000}
            with (
                contextlib.suppress(KafkaError),
                Producer(bootstrap_servers=servers, client_id="orders", **settings) as producer,
            ):
                while not stop.is_set():
                    producer.send("tap-interrupted", b"x" * 200_000).result(3)

        senders = [threading.Thread(target=send) for _ in range(2)]
        for sender in senders:
            sender.start()
        assert wait_until(lambda: file.stat().st_size > 10_000_000, TIMEOUT)
        output, errors = ended(process)
        stop.set()
        for sender in senders:
            sender.join(TIMEOUT)
    assert re.search(r"orders +Produce +\d+ ", output)
    assert "not saved" not in output + errors
    with file.open("rb") as stream:
        reader = CaptureReader(stream)
        exchanges = list(reader.read())
    report = reader.report
    assert report.packets is not None
    assert (report.missing_bytes, report.unread_bytes, report.packets.broken) == (0, 0, "")
    assert all(isinstance(one, Exchange) and not one.problem for one in exchanges)
    assert len({one.connection.number for one in exchanges if one.name.startswith("Produce")}) == 2


def test_nothing_passed_is_said(kafka_broker_session):
    result = run(kafka_broker_session.bootstrap_servers, "wire tap", "--listen", "127.0.0.1:0", "--seconds", "0")
    assert result.stdout == "\nNo request came.\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--fault", "Produce: explode"), "'explode' is no action"),
        (("--listen", "19092"), "'19092' is no address to listen on"),
        (("--tls-key", "key.pem"), "--tls-key needs --tls-cert"),
        (("--api", "Prodduce"), "did you mean Produce?"),
        (("--tls-cert", "/no/such.pem"), "/no/such.pem"),
        (("-X", "security.protocol=SASL_SSL", "-X", "ssl.cafile=/no/such.pem"), "/no/such.pem"),
    ],
)
def test_mistakes_are_explained(options, words):
    result = CliRunner().invoke(main, ["wire", "tap", "-b", "127.0.0.1:9092", *options])
    assert result.exit_code == 1
    assert words in result.stderr


def test_slow_reader_costs_lines_and_no_waiting():
    reading, writing = os.pipe()
    with open(reading, "rb") as reader, open(writing, "wb", buffering=0) as stream:
        writer = LineWriter(stream)
        for number in range(QUEUED_LINES_MAX + 5000):
            writer.write(f"line {number} {'x' * 100}\n")
        assert 0 < writer.dropped <= 5000
        got: list[bytes] = []
        drain = threading.Thread(target=lambda: got.append(reader.read()))
        drain.start()
        writer.close()
        stream.close()
        drain.join(TIMEOUT)
    lines = got[0].splitlines()
    assert len(lines) + writer.dropped == QUEUED_LINES_MAX + 5000
    assert lines[0].startswith(b"line 0 ")


def test_reader_that_closes_ends_the_lines():
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb", buffering=0) as stream:
        writer = LineWriter(stream)
        writer.write("line\n")
        writer.close()
        assert writer.is_broken
