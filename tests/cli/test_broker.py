"""`kafkaraw broker`, as a process of its own."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkaraw import Admin, Consumer, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from kafkaraw.cli import main
from kafkaraw.errors import BrokerError, KafkaError

TIMEOUT = 30.0


@contextmanager
def running_broker(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and its HOST:PORT."""
    command = [sys.executable, "-u", "-m", "kafkaraw", "broker", "--port", "0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            name, _, address = process.stdout.readline().strip().partition("=")
            assert name == "bootstrap.servers"
            yield process, address
        finally:
            process.kill()


@pytest.mark.parametrize("stop_signal", [signal.SIGTERM, signal.SIGINT])
def test_the_first_line_names_the_address_and_a_signal_stops_it_cleanly(stop_signal: signal.Signals):
    with running_broker() as (process, address):
        with Admin(bootstrap_servers=address) as admin:
            assert admin.list_topics(timeout=TIMEOUT) == []
        process.send_signal(stop_signal)
        _, errors = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0
        assert "Traceback" not in errors


def test_several_nodes_run_in_one_process_and_stop_with_it():
    with running_broker("--nodes", "3", "--metrics", "0") as (process, addresses):
        assert len(addresses.split(",")) == 3
        assert process.stdout is not None
        urls = [process.stdout.readline().strip().partition("=") for _ in range(2)]
        assert [name for name, _, _ in urls] == ["control.socket", "metrics.url"]
        with urllib.request.urlopen(urls[1][2], timeout=TIMEOUT) as answer:
            assert answer.status == 200
        with Admin(bootstrap_servers=addresses.split(",")[2]) as admin:
            assert admin.list_topics(timeout=TIMEOUT) == []
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0
        assert "Traceback" not in errors


def test_the_broker_listens_on_loopback_by_default():
    with running_broker() as (_, address):
        assert address.rpartition(":")[0] == "127.0.0.1"


def test_topics_in_a_data_folder_outlive_the_broker(tmp_path: Path):
    for run in (1, 2):
        with running_broker("--data-dir", str(tmp_path)) as (process, address):
            with Admin(bootstrap_servers=address) as admin:
                if run == 1:
                    admin.create_topics([NewTopic("kept", 2)], timeout=TIMEOUT)
                assert [topic.name for topic in admin.list_topics(timeout=TIMEOUT)] == ["kept"]
            process.terminate()
            assert process.wait(TIMEOUT) == 0


def tree(directory: Path) -> dict[Path, tuple[int, int, int, bytes]]:
    """The mode, size, time and content of everything in a directory, and of itself."""
    found = {path: path.stat() for path in (directory, *directory.rglob("*"))}
    return {
        path: (one.st_mode, one.st_size, one.st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path, one in found.items()
    }


@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_read_only_serves_a_killed_brokers_directory_and_leaves_it_as_it_is(end: str, tmp_path: Path):
    tp, data = TopicPartition("t", 0), tmp_path / "data"
    with running_broker("--data-dir", str(data)) as (process, address):
        with Producer(bootstrap_servers=address) as producer:
            assert producer.send("t", b"kept").result(TIMEOUT).offset == 0
        with Admin(bootstrap_servers=address) as admin:
            admin.alter_group_offsets("g", {tp: OffsetAndMetadata(1)})
        process.kill()
        process.wait(TIMEOUT)
    for path in (data, *data.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = tree(data)
    try:
        with running_broker("--read-only", "--data-dir", str(data)) as (process, address):
            with Admin(bootstrap_servers=address) as admin:
                assert admin.list_group_offsets(["g"])["g"][tp].offset == 1
                with pytest.raises(BrokerError, match="POLICY_VIOLATION"):
                    admin.create_topics([NewTopic("new", 1)], timeout=TIMEOUT)
            with (
                Producer(bootstrap_servers=address, enable_idempotence=False) as producer,
                pytest.raises(KafkaError, match="POLICY_VIOLATION"),
            ):
                producer.send("t", b"refused").result(TIMEOUT)
            with Consumer(bootstrap_servers=address, group_id="g", auto_offset_reset="earliest") as consumer:
                consumer.assign([tp])
                consumer.seek(tp, 0)
                (batch,) = consumer.poll(timeout=TIMEOUT).values()
                assert list(batch.values()) == [b"kept"]
                with pytest.raises(KafkaError, match="POLICY_VIOLATION"):
                    consumer.commit({tp: OffsetAndMetadata(0)})
            getattr(process, end)()
            process.wait(TIMEOUT)
        assert tree(data) == before
    finally:
        for path in (data, *filter(Path.is_dir, data.rglob("*"))):
            path.chmod(0o755)


def test_a_property_is_accepted_with_its_kafka_name():
    with running_broker("-X", "num.partitions=5") as (_, address), Admin(bootstrap_servers=address) as admin:
        admin.create_topics([NewTopic("t")], timeout=TIMEOUT)
        assert len(admin.describe_topics(["t"], timeout=TIMEOUT)["t"].partitions) == 5


def test_a_server_properties_file_of_apache_kafka_is_accepted(tmp_path: Path):
    """What comes with Kafka 4.3, one listener changed to ask for a login."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "server.properties").write_text(
        f"""
        # The role of this server
        process.roles=broker,controller
        node.id=1
        controller.quorum.bootstrap.servers=localhost:9093
        listeners=OUTSIDE://127.0.0.1:{port},CONTROLLER://:9093
        advertised.listeners=OUTSIDE://127.0.0.1:{port},CONTROLLER://localhost:9093
        inter.broker.listener.name=OUTSIDE
        controller.listener.names=CONTROLLER
        listener.security.protocol.map=CONTROLLER:PLAINTEXT,OUTSIDE:SASL_PLAINTEXT
        sasl.enabled.mechanisms=PLAIN
        listener.name.outside.plain.sasl.jaas.config=\
            org.apache.kafka.common.security.plain.PlainLoginModule required user_ada="open:sesame";
        num.network.threads=3
        log.dirs={tmp_path / "logs"}
        num.partitions=2
        num.recovery.threads.per.data.dir=1
        offsets.topic.replication.factor=1
        share.coordinator.state.topic.replication.factor=1
        transaction.state.log.min.isr=1
        log.retention.hours=168
        log.segment.bytes=1073741824
        """
    )
    command = [sys.executable, "-u", "-m", "kafkaraw", "broker", "--config", str(tmp_path / "server.properties")]
    settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "ada"}
    with subprocess.Popen([*command, "-X", "num.partitions=5"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline().strip() == f"bootstrap.servers=127.0.0.1:{port}"
            with Admin(bootstrap_servers=f"127.0.0.1:{port}", sasl_password="open:sesame", **settings) as admin:
                admin.create_topics(["t"], timeout=TIMEOUT)
                assert len(admin.describe_topics(["t"], timeout=TIMEOUT)["t"].partitions) == 5
        finally:
            process.terminate()


def test_clients_authenticate_as_a_given_user():
    settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "ada"}
    with (
        running_broker("--user", "ada:open:sesame") as (_, address),
        Admin(bootstrap_servers=address, sasl_password="open:sesame", **settings) as admin,
    ):
        assert admin.list_topics(timeout=TIMEOUT) == []


def test_a_port_in_use_is_reported_in_one_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = CliRunner().invoke(main, ["broker", "--port", port])
    assert result.exit_code == 1
    assert port in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        (["-X", "num.partition=5"], 1, "num.partitions"),
        (["-X", "num.partitions=many"], 1, "num.partitions"),
        (["-X", "num.partitions"], 2, "PROPERTY=VALUE"),
        (["-X", "=5"], 2, "PROPERTY=VALUE"),
        (["--port", "70000"], 2, "70000"),
        (["--metrics", "host:70000"], 2, "HOST:PORT"),
        (["--user", "ada"], 2, "NAME:PASSWORD"),
        (["--user", "ada:x", "-X", "sasl.enabled.mechanisms=OAUTHBEARER"], 1, "cannot check signatures"),
        (["--host", "no-such-host.invalid"], 1, "no-such-host.invalid"),
    ],
)
def test_bad_input_is_refused_with_a_hint(arguments: list[str], exit_code: int, said: str):
    result = CliRunner().invoke(main, ["broker", *(["--port", "0"] if "--port" not in arguments else []), *arguments])
    assert result.exit_code == exit_code
    assert said in result.stderr
    assert "Traceback" not in result.output
