"""Calling `kafkaraw` in this process, and in one of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

from click.testing import CliRunner, Result

from kafkaraw import Admin, NewTopic, Producer, TopicPartition
from kafkaraw.cli import main

TIMEOUT = 30.0


def run(servers: str, command: str, *arguments: str, given: bytes = b"", code: int = 0) -> Result:
    """Run a command here; it must end with that exit code."""
    result = CliRunner().invoke(main, [*command.split(), "-b", servers, *arguments], input=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return result


def read(servers: str, *arguments: str) -> bytes:
    """What `kafkaraw consume` writes of what there is."""
    return run(servers, "consume", "-e", "-q", *arguments).stdout_bytes


def start(servers: str, command: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a command as a process."""
    return subprocess.Popen(
        [sys.executable, "-m", "kafkaraw", *command.split(), "-b", servers, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def make_topic(servers: str, name: str, partitions: int = 1) -> None:
    """Make a topic."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, partitions=partitions, replication_factor=1)])


def fill(servers: str, topic: str, values: Iterable[bytes | None], **more: object) -> None:
    """Write values into a topic."""
    with Producer(bootstrap_servers=servers) as producer:
        for value in values:
            producer.send(topic, value, **more)  # type: ignore[arg-type]


def make_group_behind(servers: str) -> None:
    """Make the topics orders, with 20 records, and flights, and the group billing, which has committed offset 5."""
    make_topic(servers, "orders", partitions=2)
    make_topic(servers, "flights")
    fill(servers, "orders", [b"%d" % number for number in range(20)], partition=0)
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 5})
