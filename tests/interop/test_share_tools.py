"""Java's tools for share groups print the same with the embedded broker as with Apache Kafka.

Each line runs on both brokers; what it prints is compared without ids, addresses and the widths of columns.
`test_java_tools_on_both_brokers.py` compares exit codes of the tools that print rates.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final, TypeAlias

import pytest

from kafkaraw import Admin, GroupState
from tests.interop.both_brokers import Broker
from tests.interop.java_tools import SharedTools, shared_tools
from tests.interop.share_members import ShareMember

WAIT_SECONDS: Final = 40.0
GROUP: Final = "consumer.group.ShareGroupCommand"
CONSOLE: Final = "consumer.ConsoleShareConsumer"
SHOWN: Final = "--formatter-property print.partition=true --formatter-property print.offset=true"
DELIVERIES: Final = f"{SHOWN} --formatter-property print.delivery=true"
Line: TypeAlias = "tuple[str, int, str] | tuple[str, int, str, str]"
"""The tool below org.apache.kafka.tools, its exit code, its arguments, and what it reads."""

BEFORE: Final[list[Line]] = [
    ("TopicCommand", 0, "--create --topic TOPIC --partitions 1"),
    ("ConsoleProducer", 0, "--topic TOPIC", "one\ntwo\nthree\n"),
    (
        "kafka.admin.ConfigCommand",
        0,
        "--alter --entity-type groups --entity-name GROUP --add-config share.auto.offset.reset=earliest",
    ),
]
"""A topic with records, and a group that begins at the first one."""

_TAKE: Final = "--topic TOPIC --group GROUP --timeout-ms 20000"
READING: Final[list[Line]] = [
    (CONSOLE, 0, f"{_TAKE} --max-messages 3 --release {DELIVERIES}"),
    (GROUP, 0, "--describe --group GROUP"),
    (CONSOLE, 0, f"{_TAKE} --max-messages 3 {DELIVERIES}"),
    (GROUP, 0, "--describe --group GROUP --verbose"),
    ("ConsoleProducer", 0, "--topic TOPIC", "four\nfive\n"),
    (CONSOLE, 0, f"{_TAKE} --max-messages 2 --reject {SHOWN}"),
    (CONSOLE, 0, "--topic TOPIC --group GROUP --timeout-ms 1500"),
    (CONSOLE, 1, f"{_TAKE} --reject --release"),
    (CONSOLE, 1, "--group GROUP"),
    (CONSOLE, 1, "--topic TOPIC --command-property share.acquire.mode=nonsense"),
]
COMMANDS: Final[list[Line]] = [
    (GROUP, 0, "--describe --group GROUP"),
    (CONSOLE, 0, f"{_TAKE} --max-messages 3"),
    (GROUP, 0, "--list"),
    (GROUP, 0, "--list --state"),
    (GROUP, 0, "--list --state empty,stable"),
    (GROUP, 1, "--list --state rebalancing"),
    (GROUP, 0, "--describe --group GROUP"),
    (GROUP, 0, "--describe --group GROUP --offsets --verbose"),
    (GROUP, 0, "--describe --group GROUP --members"),
    (GROUP, 0, "--describe --group GROUP --members --verbose"),
    (GROUP, 0, "--describe --group GROUP --state"),
    (GROUP, 0, "--describe --group GROUP --state --verbose"),
    (GROUP, 0, "--describe --all-groups"),
    (GROUP, 0, "--describe --group no-such-group"),
    ("GroupsCommand", 0, "--list --share"),
    (GROUP, 0, "--group GROUP --reset-offsets --to-earliest --topic TOPIC --dry-run"),
    (GROUP, 0, "--group GROUP --reset-offsets --to-earliest --topic TOPIC:0 --execute"),
    (GROUP, 0, "--describe --group GROUP"),
    (GROUP, 0, "--group GROUP --reset-offsets --to-latest --all-topics --execute"),
    (GROUP, 0, "--group GROUP --reset-offsets --to-datetime 2020-01-01T00:00:00.000 --topic TOPIC --execute"),
    (GROUP, 0, "--group GROUP --reset-offsets --to-latest --topic nope --execute"),
    (GROUP, 0, "--group GROUP --reset-offsets --to-latest --topic TOPIC:7 --execute"),
    (GROUP, 0, "--group no-such-group --reset-offsets --to-latest --topic TOPIC --execute"),
    (GROUP, 1, "--group GROUP --reset-offsets --to-latest"),
    (GROUP, 0, "--group GROUP --delete-offsets --topic TOPIC"),
    (GROUP, 0, "--describe --group GROUP"),
    (GROUP, 0, "--group GROUP --delete-offsets --topic TOPIC"),
    (GROUP, 0, "--group GROUP --delete-offsets --topic nope"),
    (GROUP, 0, "--group no-such-group --delete-offsets --topic TOPIC"),
    (GROUP, 0, "--group GROUP --delete"),
    (GROUP, 0, "--list"),
    (GROUP, 0, "--group GROUP --delete"),
    (GROUP, 1, "--delete"),
]
WITH_A_MEMBER: Final[list[Line]] = [
    (GROUP, 0, "--list --state stable"),
    (GROUP, 0, "--describe --group GROUP --members"),
    (GROUP, 0, "--describe --group GROUP --members --verbose"),
    (GROUP, 0, "--describe --group GROUP --state --verbose"),
    (GROUP, 1, "--group GROUP --reset-offsets --to-earliest --topic TOPIC --execute"),
    (GROUP, 0, "--group GROUP --delete-offsets --topic TOPIC"),
    (GROUP, 0, "--group GROUP --delete"),
]

_VARIES: Final = (
    (re.compile(r"\b[A-Za-z0-9_-]{22}\b"), "ID"),
    (re.compile(r"\b127\.0\.0\.1:\d+"), "SERVER"),
    (re.compile(r"[ \t]+"), " "),
    (re.compile(r"(?m)^.*(?:WARN|INFO).*\n"), ""),
    (re.compile(r"(?m)^\[?\d{4}-\d\d-\d\d[T ].*?\] "), "[TIME] "),
)
"""What two clusters print differently: ids, addresses, the widths of columns."""


@pytest.fixture(scope="module")
def tools() -> SharedTools:
    """The JVM of the tools."""
    return shared_tools()


def outcome(tools: SharedTools, broker: Broker, name: str, line: Line) -> tuple[int, str, str]:
    """Return the exit code of a tool, and what it printed, to standard error, too, without what varies."""
    tool, _, text, *given = line
    main_class = tool if tool.startswith("kafka.") else f"org.apache.kafka.tools.{tool}"
    words = [word.replace("TOPIC", name).replace("GROUP", f"g-{name}") for word in shlex.split(text)]
    status, *printed = tools.outcome(main_class, "--bootstrap-server", broker.servers, *words, given="".join(given))
    for pattern, instead in _VARIES:
        printed = [pattern.sub(instead, each) for each in printed]
    return status, "\n".join(sorted(printed[0].splitlines())), printed[1]


def differences(tools: SharedTools, brokers: tuple[Broker, Broker], name: str, lines: list[Line]) -> list[str]:
    """Run lines on both brokers, and return those that print something else, or end with another code."""
    found = []
    for line in lines:
        theirs, ours = (outcome(tools, broker, name, line) for broker in brokers)
        if theirs != ours:
            found.append(f"{line[0]} {line[2]}\nApache Kafka: {theirs}\nours: {ours}")
        if theirs[0] != line[1]:
            found.append(f"{line[0]} {line[2]}: exit code {theirs[0]}, not {line[1]}: {theirs}")
    return found


@pytest.mark.parametrize("lines", [READING, COMMANDS], ids=["reading", "commands"])
@pytest.mark.timeout(300)
def test_tools_for_share_groups_print_the_same(
    tools: SharedTools, both_brokers: tuple[Broker, Broker], lines: list[Line], request: pytest.FixtureRequest
) -> None:
    name = f"tools-{request.node.callspec.id}"
    assert differences(tools, both_brokers, name, [*BEFORE, *lines]) == []


@pytest.mark.timeout(300)
def test_tools_print_the_same_about_a_group_with_a_member(
    tools: SharedTools, both_brokers: tuple[Broker, Broker]
) -> None:
    name = "tools-member"
    assert differences(tools, both_brokers, name, BEFORE) == []
    with ExitStack() as stack:
        for broker in both_brokers:
            stack.enter_context(ShareMember("java", broker.servers, f"g-{name}", name))
        for broker in both_brokers:
            wait_for_assignment(broker, f"g-{name}")
        assert differences(tools, both_brokers, name, WITH_A_MEMBER) == []


def wait_for_assignment(broker: Broker, group: str) -> None:
    """Wait until a member has a partition."""
    deadline = time.monotonic() + WAIT_SECONDS
    with Admin(bootstrap_servers=broker.servers) as admin:
        while True:
            found = admin.describe_groups([group])[group] if group in listed(admin) else None
            if (
                found is not None
                and found.state is GroupState.STABLE
                and any(each.assignment for each in found.members)
            ):
                return
            assert time.monotonic() < deadline, f"{broker.name}: {found}"
            time.sleep(0.05)


def listed(admin: Admin) -> set[str]:
    return {group.group_id for group in admin.list_groups()}


@pytest.mark.parametrize("mode", ["auto", "sync", "async"])
@pytest.mark.timeout(300)
def test_verifiable_share_consumer_tells_the_same(
    tools: SharedTools, both_brokers: tuple[Broker, Broker], mode: str
) -> None:
    name = f"verifiable-{mode}"
    assert differences(tools, both_brokers, name, BEFORE[:2]) == []
    line = (
        f"--topic {name} --group-id {name} --acknowledgement-mode {mode} --offset-reset-strategy earliest "
        "--max-messages 3 --verbose"
    )
    theirs, ours = (list(events(tools, broker, line)) for broker in both_brokers)
    assert ours == theirs
    assert {"startup_complete", "records_consumed", "offsets_acknowledged", "record_data"} <= {
        event["name"] for event in theirs
    }


def events(tools: SharedTools, broker: Broker, line: str) -> Iterator[dict[str, Any]]:
    """Yield what VerifiableShareConsumer prints, without the times, and offsets in order."""
    main_class = "org.apache.kafka.tools.VerifiableShareConsumer"
    for text in tools.run(main_class, "--bootstrap-server", broker.servers, *shlex.split(line)).splitlines():
        event = json.loads(text)
        del event["timestamp"]
        for each in event.get("partitions", ()):
            each["offsets"] = sorted(each["offsets"])
        yield event
