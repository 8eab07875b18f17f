"""One group of our consumer and other clients': they share the partitions, and take over from each other.

On Apache Kafka and on our broker; most of it in the long runs, because each waits for a session to time out.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from kafkaraw import Admin, Consumer, NewTopic, Producer
from kafkaraw.broker import EmbeddedBroker
from tests.interop.apache_kafka import SINGLE_NODE, ApacheKafka, why_missing
from tests.interop.group_members import JAVA, Member
from tests.rotation import rotating

PARTITIONS = 4
SETTLE_S = 60.0
APACHES, OURS = "Apache Kafka", "our broker"
OFTEN = rotating([("java", "cooperative-sticky", APACHES), ("confluent", "KIP-848", OURS)], 1)
"""One of them is this commit's."""
CLIENTS = [
    *(("java", strategy) for strategy in ("range", "cooperative-sticky", "KIP-848")),
    *(("verifiable", strategy) for strategy in ("range", "cooperative-sticky", "KIP-848")),
    *(("console", strategy) for strategy in ("range", "cooperative-sticky", "KIP-848")),
    *(("confluent", strategy) for strategy in ("range", "cooperative-sticky", "KIP-848")),
    *(("kafka-python", strategy) for strategy in ("sticky", "cooperative-sticky")),
    *(("aiokafka", strategy) for strategy in ("roundrobin", "sticky")),
]
MIXTURES = [
    *OFTEN,
    *(
        pytest.param(*client, broker, marks=pytest.mark.soak)
        for broker in (APACHES, OURS)
        for client in CLIENTS
        if (*client, broker) not in [each.values for each in OFTEN]
    ),
]
AT_ONCE = {name: value for name, value in SINGLE_NODE.items() if name.startswith("group.")} | {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.session.timeout.ms": "3000",
}


@pytest.fixture
def servers(broker: str, request: pytest.FixtureRequest) -> Iterator[str]:
    if broker == APACHES:
        kafka: ApacheKafka = request.getfixturevalue("apache_kafka")
        yield kafka.bootstrap_servers
    else:
        with EmbeddedBroker(properties=AT_ONCE) as ours:
            yield ours.bootstrap_servers


def produce(servers: str, topic: str, count: int) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(count):
            producer.send(topic, b"v", partition=number % PARTITIONS)


class Ours:
    """Our member, polled by the test."""

    def __init__(self, servers: str, topic: str, strategy: str) -> None:
        classic = {"partition_assignment_strategy": strategy, "heartbeat_interval_ms": 200, "session_timeout_ms": 6_000}
        self.offsets: list[tuple[int, int]] = []
        self.consumer = Consumer(
            bootstrap_servers=servers,
            group_id=topic,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=100,
            **({"group_protocol": "consumer"} if strategy == "KIP-848" else classic),
        )
        self.consumer.subscribe([topic])

    @property
    def owned(self) -> set[int]:
        return {partition.partition for partition in self.consumer.assignment()}

    def until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SETTLE_S
        while not done():
            assert time.monotonic() < deadline, f"we own {self.owned}"
            for batch in self.consumer.poll(0.05).values():
                self.offsets += [(record.partition, record.offset) for record in batch]


class Theirs:
    """The other member: what it owns it tells itself, or the group does."""

    def __init__(self, member: Member, admin: Admin, group: str, client: str) -> None:
        self._member, self._admin, self._group = member, admin, group
        self._is_silent = client == "console"

    @property
    def owned(self) -> set[int]:
        if not self._is_silent:
            return self._member.owned
        listed = {group.group_id for group in self._admin.list_groups()}
        if self._group not in listed:
            return set()
        group = self._admin.describe_groups([self._group])[self._group]
        given = [member.assignment for member in group.members if member.client_id == "console"]
        return {partition.partition for assignment in given for partition in assignment}


@pytest.mark.parametrize(("client", "strategy", "broker"), MIXTURES)
def test_they_share_a_topic_and_take_over_from_each_other(client: str, strategy: str, servers: str) -> None:
    missing = why_missing()
    if missing is not None and client in JAVA:
        pytest.skip(missing)
    topic = f"mixed-{uuid.uuid4().hex[:12]}"
    everything = set(range(PARTITIONS))
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    produce(servers, topic, 40)
    ours = Ours(servers, topic, strategy)
    with (
        Admin(bootstrap_servers=servers) as admin,
        ours.consumer,
        Member(client, servers, topic, topic, strategy) as member,
    ):
        theirs = Theirs(member, admin, topic, client)

        def read() -> set[tuple[int, int]]:
            return set(ours.offsets) | set(member.offsets)

        def is_shared() -> bool:
            owned = ours.owned, theirs.owned
            return set(map(len, owned)) == {PARTITIONS // 2} and not owned[0] & owned[1]

        ours.until(is_shared)
        produce(servers, topic, 40)
        ours.until(lambda: len(read()) == 80)
        ours.consumer.unsubscribe()
        deadline = time.monotonic() + SETTLE_S
        while theirs.owned != everything:
            assert time.monotonic() < deadline, f"they own {theirs.owned}"
            time.sleep(0.05)
        ours.consumer.subscribe([topic])
        ours.until(is_shared)
        member.kill()
        ours.until(lambda: ours.owned == everything)
        produce(servers, topic, 40)
        ours.until(lambda: {(p, 29) for p in everything} <= read())
    assert read() == {(p, offset) for p in everything for offset in range(30)}
