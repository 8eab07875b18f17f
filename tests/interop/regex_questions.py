"""Regexes to subscribe with (KIP-848), to ask two brokers which of them they refuse, and what the others match."""

from __future__ import annotations

import contextlib
import time
from contextlib import closing
from typing import Final

from kafkaraw import Admin, NewTopic
from kafkaraw.errors import BrokerError
from kafkaraw.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.interop.group_questions import Table

TOPICS: Final = ("rx", "rx-1", "rx-22", "rx.b", "RX", "rx_c", "rxxxxx")
INVALID: Final = (
    "(", "[a", "(?=r)rx", "(?<!x)rx", r"(r)x\1", "rx++", "(?>rx)", "(?P<n>r)(?P=n)", r"rx\Z",
    "r{1001}", "r**", "*", "a|*", "r{2,1}", "[z-a]", "[[:foo:]]", r"\p{Alpha}", "(?x)r x", "(?#c)rx", "\\", r"\h",
    r"\k<n>", "r{1}{2}",
)  # fmt: skip
VALID: Final = (
    "rx", "rx.*", "(?i)rx", r"rx-\d+", r"rx\z", r"\Arx", "^rx$", r"\Qrx.b\E", r"\Qrx.b", "rx.b", r"\pL+", r"\p{Lu}+",
    "[[:alpha:]]+", "(?P<n>rx)-1", "(?<n>rx)-1", "rx|RX", r"rx(-1|\.b)?", "rx{3,}", "(?:rx)+?", "(.|.)*x", r"\x72x",
    "(?i:R)x", r"r[^a-w]", "rx(|_c)", r"\brx\b.*", "(?U)rx.*",
)  # fmt: skip
_MATCHED_SECONDS: Final = 30.0


def _join(group_id: str, regex: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="a",
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_regex=regex,
        topic_partitions=[],
    )


def refusal(bootstrap_servers: str, group_id: str, regex: str) -> tuple[int, str]:
    """Return the error code of a member that joins with the regex, and the message without the engine's own reason."""
    with closing(Table(bootstrap_servers, group_id)) as table:
        answer = table.client().ask(_join(group_id, regex), 1)
    return answer.error_code, (answer.error_message or "").split("regular expression: ")[0]


def matched(bootstrap_servers: str, prefix: str) -> dict[str, list[str]]:
    """Return what each of the `VALID` regexes matches of `TOPICS`; a group for each begins with the prefix."""
    with Admin(bootstrap_servers=bootstrap_servers) as admin:
        for name in TOPICS:
            with contextlib.suppress(BrokerError):  # it is there
                admin.create_topics([NewTopic(name, 1)])
        names = {topic.topic_id: topic.name for topic in admin.describe_topics(TOPICS).values()}
    found: dict[str, list[str]] = {}
    for number, regex in enumerate(VALID):
        with closing(Table(bootstrap_servers, f"{prefix}-{number}")) as table:
            parts = _assigned(table, regex)
        found[regex] = sorted(names[topic_id] for topic_id in parts if topic_id in names)
    return found


def _assigned(table: Table, regex: str) -> list[object]:
    """Join, and send heartbeats until topics are assigned."""
    client = table.client()
    answer = client.ask(_join(table.group_id, regex), 1)
    deadline = time.monotonic() + _MATCHED_SECONDS
    while not (parts := _parts(answer)) and time.monotonic() < deadline:
        assert not answer.error_code, (regex, answer.error_message)
        time.sleep(0.02)  # Apache Kafka matches a moment later, on another thread
        beat = ConsumerGroupHeartbeatRequest(group_id=table.group_id, member_id="a", member_epoch=answer.member_epoch)
        answer = client.ask(beat, 1)
    return parts


def _parts(answer: ConsumerGroupHeartbeatResponse) -> list[object]:
    return [] if answer.assignment is None else [part.topic_id for part in answer.assignment.topic_partitions]
