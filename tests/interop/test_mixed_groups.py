"""One group of our consumer and other clients': they share the partitions, and take over from each other."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import pytest

from kafkaraw import Admin, Consumer, NewTopic, Producer
from tests.interop.apache_kafka import ApacheKafka
from tests.interop.group_members import Member

PARTITIONS = 4
SETTLE_S = 60.0
SOME = [
    ("java", "cooperative-sticky"),
    ("confluent", "KIP-848"),
]
MORE = [
    ("kafka-python", "sticky"),
    ("aiokafka", "roundrobin"),
    ("java", "range"),
    ("java", "KIP-848"),
    ("confluent", "range"),
    ("confluent", "cooperative-sticky"),
    ("kafka-python", "cooperative-sticky"),
    ("aiokafka", "sticky"),
]
MIXTURES = [*SOME, *(pytest.param(*mixture, marks=pytest.mark.soak) for mixture in MORE)]


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


@pytest.mark.parametrize(("client", "strategy"), MIXTURES)
def test_they_share_a_topic_and_take_over_from_each_other(
    client: str, strategy: str, apache_kafka: ApacheKafka
) -> None:
    servers, topic = apache_kafka.bootstrap_servers, f"mixed-{uuid.uuid4().hex[:12]}"
    everything = set(range(PARTITIONS))
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    produce(servers, topic, 40)
    ours = Ours(servers, topic, strategy)
    with ours.consumer, Member(client, servers, topic, topic, strategy) as theirs:
        ours.until(lambda: len(theirs.owned) == len(ours.owned) == PARTITIONS // 2 and not theirs.owned & ours.owned)
        produce(servers, topic, 40)
        ours.until(lambda: len(set(ours.offsets) | set(theirs.offsets)) == 80)
        ours.consumer.unsubscribe()
        deadline = time.monotonic() + SETTLE_S
        while theirs.owned != everything:
            assert time.monotonic() < deadline, f"they own {theirs.owned}"
            time.sleep(0.05)
        ours.consumer.subscribe([topic])
        ours.until(lambda: len(theirs.owned) == len(ours.owned) == PARTITIONS // 2)
        theirs.kill()
        ours.until(lambda: ours.owned == everything)
        produce(servers, topic, 40)
        ours.until(lambda: {(p, 29) for p in everything} <= set(ours.offsets) | set(theirs.offsets))
    assert set(ours.offsets) | set(theirs.offsets) == {(p, offset) for p in everything for offset in range(30)}
