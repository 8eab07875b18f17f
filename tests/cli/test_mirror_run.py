"""`kafkaraw mirror run` copies until it is stopped, and says what a configuration lacks."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from kafkaraw import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli import main
from tests.waiting import wait_until


def configuration(folder: Path, source: str, target: str, *more: str) -> Path:
    file = folder / "mirror.properties"
    lines = [
        "clusters = east, west",
        f"east.bootstrap.servers = {source}",
        f"west.bootstrap.servers = {target}",
        "east->west.topics = orders",
        *more,
    ]
    file.write_text("\n".join(lines) + "\n")
    return file


def test_mirror_run_copies_and_ends_gracefully(kafka_broker: EmbeddedBroker, tmp_path: Path) -> None:
    with EmbeddedBroker() as other:
        source, target = kafka_broker.bootstrap_servers, other.bootstrap_servers
        with Admin(bootstrap_servers=source) as admin, Producer(bootstrap_servers=source) as producer:
            admin.create_topics([NewTopic("orders", 1)])
            for number in range(50):
                producer.send("orders", b"%d" % number)
            producer.flush()
        file = configuration(tmp_path, source, target, "east->west.enabled = true")
        command = [sys.executable, "-m", "kafkaraw", "mirror", "run", str(file), "--metrics-every", "0.1"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            settings = {"bootstrap_servers": target, "isolation_level": "read_committed", "auto_offset_reset": "none"}
            copy = TopicPartition("east.orders", 0)
            with Consumer(**settings) as consumer:

                def is_copied() -> bool:
                    return "east.orders" in consumer.list_topics() and consumer.end_offsets([copy])[copy] > 50

                assert wait_until(is_copied, 60)
            metrics = json.loads(process.stdout.readline())
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == 0, said.decode()
        assert b"mirroring east->west (exactly-once)" in said
        assert (metrics["source"], metrics["target"], metrics["partition"]) == ("east", "west", 0)


def test_mirror_run_says_what_the_configuration_lacks(tmp_path: Path) -> None:
    def run(*more: str) -> str:
        file = configuration(tmp_path, "127.0.0.1:1", "127.0.0.1:2", *more)
        result = CliRunner().invoke(main, ["mirror", "run", str(file)])
        assert result.exit_code == 2, result.output
        return result.output

    assert "add east->west.enabled = true" in " ".join(run().split())
    assert "on.loss" in run("east->west.enabled = true", "on.loss = perhaps")


def test_options_of_spark_are_checked_before_anything_starts(tmp_path: Path) -> None:
    file = configuration(tmp_path, "127.0.0.1:1", "127.0.0.1:2", "east->west.enabled = true")

    def run(*options: str) -> str:
        result = CliRunner().invoke(main, ["mirror", "run", str(file), *options])
        assert result.exit_code == 2, result.output
        return " ".join(result.output.split())

    assert "--tasks, --archive: only with --master" in run("--tasks", "2", "--archive", "environment.tar.gz")
    assert "the master 'east' is none that Spark knows" in run("--master", "east")
    assert "need a Python with kafkaraw" in run("--master", "spark://localhost:7077")
    assert "every user of this machine can read" in run("--master", "local[2]", "--conf", "spark.my.password=x")
