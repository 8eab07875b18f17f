"""Positions that nobody needs any more expire, and groups with them: on Apache Kafka and on our broker alike.

The shortest time that can be set is a minute, so this is for the long runs.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from kafkaraw import Admin, Consumer, NewTopic, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from tests.interop.apache_kafka import ApacheKafka, why_missing

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]

A_MINUTE = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "3000",
}
PATIENCE_S = 100.0
GROUPS = ("simple", "left", "classic", "modern")
KEPT, DROPPED = TopicPartition("kept", 0), TopicPartition("dropped", 0)
Found = dict[str, set[str]]


@pytest.fixture(params=["our broker", "Apache Kafka"])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "our broker":
        with EmbeddedBroker(properties=A_MINUTE) as broker:
            yield broker.bootstrap_servers
        return
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    with ApacheKafka(properties=A_MINUTE) as kafka:
        yield kafka.bootstrap_servers


def assigned(consumer: Consumer, topics: list[str]) -> None:
    """Read these topics from now on."""
    consumer.subscribe(topics)
    deadline = time.monotonic() + PATIENCE_S
    while {partition.topic for partition in consumer.assignment()} != set(topics):
        assert time.monotonic() < deadline
        consumer.poll(0.1)


def committed(admin: Admin) -> Found:
    """By group the topics in which it has positions; groups that are gone are not in it."""
    positions = admin.list_group_offsets(GROUPS)
    listed = {group.group_id for group in admin.list_groups()}
    return {name: {partition.topic for partition in positions[name]} for name in GROUPS if name in listed}


def test_positions_of_groups_and_topics_that_nobody_reads_expire(servers: str) -> None:
    with contextlib.ExitStack() as open_now, Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(KEPT.topic, 1, 1), NewTopic(DROPPED.topic, 1, 1)])
        admin.alter_group_offsets("simple", {KEPT: 0})
        with Consumer(bootstrap_servers=servers, group_id="left", enable_auto_commit=False) as consumer:
            assigned(consumer, [KEPT.topic])
            consumer.commit({KEPT: 0})
        members = []
        for group, protocol in (("classic", "classic"), ("modern", "consumer")):
            consumer = Consumer(
                bootstrap_servers=servers, group_id=group, group_protocol=protocol, enable_auto_commit=False
            )
            members.append(open_now.enter_context(consumer))
            assigned(consumer, [KEPT.topic, DROPPED.topic])
            consumer.commit({KEPT: 0, DROPPED: 0})
            assigned(consumer, [KEPT.topic])
        every = {KEPT.topic, DROPPED.topic}
        assert committed(admin) == {"simple": {KEPT.topic}, "left": {KEPT.topic}, "classic": every, "modern": every}
        deadline = time.monotonic() + PATIENCE_S
        while committed(admin) != {"classic": {KEPT.topic}, "modern": {KEPT.topic}}:
            assert time.monotonic() < deadline, committed(admin)
            for member in members:
                member.poll(0.2)
