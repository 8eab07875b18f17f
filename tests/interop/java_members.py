"""Java's clients as members of a group: a consumer of our own making, and two tools that come with Apache Kafka.

How each is started, and how to read what it writes. This module imports nothing of kafkaraw.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.interop.java_tools import java_command

STRATEGIES = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
PACKAGE = "org.apache.kafka.clients.consumer."
MODERN = "KIP-848"
_HEAP = "128M"

Told = dict[str, Any]
Reader = Callable[[str], Told]
"""What a line says in the form of `group_members`; nothing when the line is about something else."""


def consumer(servers: str, group: str, topic: str, strategy: str) -> list[str]:
    """JavaGroupMember.java, which writes as `group_members` wants it."""
    source = Path(__file__).with_name("JavaGroupMember.java")
    return java_command(source, servers, group, topic, STRATEGIES.get(strategy, strategy), heap=_HEAP)


def verifiable(servers: str, group: str, topic: str, strategy: str) -> list[str]:
    """VerifiableConsumer of Apache's system tests."""
    arguments = ["--bootstrap-server", servers, "--group-id", group, "--topic", topic, "--verbose"]
    if strategy == MODERN:
        arguments += ["--group-protocol", "consumer"]
    else:
        arguments += ["--assignment-strategy", PACKAGE + STRATEGIES[strategy], "--session-timeout", "6000"]
    return _tool("org.apache.kafka.tools.VerifiableConsumer", arguments)


def console(servers: str, group: str, topic: str, strategy: str) -> list[str]:
    """The console consumer; its client id is `console`."""
    settings = {"client.id": "console", "auto.offset.reset": "earliest", "auto.commit.interval.ms": "100"}
    if strategy == MODERN:
        settings["group.protocol"] = "consumer"
    else:
        settings |= {
            "partition.assignment.strategy": PACKAGE + STRATEGIES[strategy],
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "200",
        }
    prints = {"print.partition": "true", "print.offset": "true", "print.value": "false"}
    arguments = ["--bootstrap-server", servers, "--group", group, "--topic", topic]
    arguments += [part for pair in settings.items() for part in ("--command-property", "=".join(pair))]
    arguments += [part for pair in prints.items() for part in ("--formatter-property", "=".join(pair))]
    return _tool("org.apache.kafka.tools.consumer.ConsoleConsumer", arguments)


def _tool(main_class: str, arguments: list[str]) -> list[str]:
    return java_command(main_class, *arguments, heap=_HEAP)


class VerifiableReader:
    """Reads events of VerifiableConsumer: it tells what it gains and gives up."""

    def __init__(self) -> None:
        self._owned: set[int] = set()

    def __call__(self, line: str) -> Told:
        event = json.loads(line)
        if event["name"] == "record_data":
            return {"partition": event["partition"], "offset": event["offset"]}
        if event["name"] not in ("partitions_assigned", "partitions_revoked"):
            return {}
        named = {each["partition"] for each in event["partitions"]}
        self._owned = self._owned | named if event["name"] == "partitions_assigned" else self._owned - named
        return {"owned": sorted(self._owned)}


def read_console(line: str) -> Told:
    """The console consumer tells what it reads, and not what it owns."""
    found = re.fullmatch(r"Partition:(\d+)\tOffset:(\d+)", line.strip())
    return {"partition": int(found[1]), "offset": int(found[2])} if found else {}
