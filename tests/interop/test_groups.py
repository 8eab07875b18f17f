"""Consumer groups of our own consumers, on Apache Kafka."""

from __future__ import annotations

import asyncio
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from kafkaraw import (
    Admin,
    AsyncConsumer,
    CommitFailedError,
    Consumer,
    FencedInstanceIdError,
    GroupError,
    MaxPollExceededError,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
)
from tests.interop.apache_kafka import ApacheKafka

PARTITIONS = 4
SETTLE_S = 30.0
CLASSIC: dict[str, object] = {"heartbeat_interval_ms": 200, "session_timeout_ms": 6_000}
MODERN: dict[str, object] = {"group_protocol": "consumer"}
KINDS: dict[str, dict[str, object]] = {
    **{
        name: CLASSIC | {"partition_assignment_strategy": name}
        for name in ("range", "roundrobin", "sticky", "cooperative-sticky")
    },
    "uniform": MODERN | {"group_remote_assignor": "uniform"},
    "broker's range": MODERN | {"group_remote_assignor": "range"},
}
OFTEN = ("range", "cooperative-sticky", "uniform")
PROTOCOLS = {"classic": CLASSIC, "KIP-848": MODERN}


@pytest.fixture
def servers(apache_kafka: ApacheKafka) -> str:
    return apache_kafka.bootstrap_servers


@pytest.fixture
def topic(servers: str) -> Iterator[str]:
    name = f"group-{uuid.uuid4().hex[:12]}"
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, 1)])
    yield name


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> dict[str, object]:
    return PROTOCOLS[request.param]


@pytest.fixture
def make(servers: str, topic: str) -> Iterator[Callable[..., Consumer]]:
    """Makes members of one group, and closes them."""
    made: list[Consumer] = []

    def member(**settings: object) -> Consumer:
        given = {
            "group_id": topic,
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 100,
            **settings,
        }
        made.append(Consumer(bootstrap_servers=servers, **given))
        return made[-1]

    yield member
    for consumer in made:
        consumer.close(5)


def produce(servers: str, topic: str, count: int, start: int = 0) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(start, start + count):
            producer.send(topic, str(number).encode(), partition=number % PARTITIONS)


def until(done: Callable[[], bool], *consumers: Consumer) -> list[bytes]:
    """Poll the consumers in turn until something is so; what they read meanwhile."""
    values: list[bytes] = []
    deadline = time.monotonic() + SETTLE_S
    while not done():
        assert time.monotonic() < deadline, [consumer.assignment() for consumer in consumers]
        for consumer in consumers:
            for batch in consumer.poll(0.05).values():
                values += [bytes(record.value or b"") for record in batch]
    return values


def shared(*consumers: Consumer) -> bool:
    """Whether the partitions are shared out evenly, each to one consumer."""
    parts = [consumer.assignment() for consumer in consumers]
    owned = [partition for part in parts for partition in part]
    return len(owned) == len(set(owned)) == PARTITIONS and max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize(
    "kind", [kind if kind in OFTEN else pytest.param(kind, marks=pytest.mark.soak) for kind in KINDS]
)
def test_two_members_share_a_topic_and_one_takes_over_when_the_other_leaves(
    kind: str, servers: str, topic: str, make: Callable[..., Consumer]
) -> None:
    produce(servers, topic, 100)
    first = make(**KINDS[kind])
    first.subscribe([topic])
    values = until(lambda: shared(first), first)
    second = make(**KINDS[kind])
    second.subscribe([topic])
    values += until(lambda: shared(first, second), first, second)
    produce(servers, topic, 100, start=100)
    second.close()
    wanted = {str(number).encode() for number in range(200)}
    values += until(lambda: shared(first), first)
    values += until(lambda: all(first.position(partition) == 50 for partition in first.assignment()), first)
    assert set(values) == wanted
    assert sorted(values) == sorted(wanted), "a clean hand-over with automatic commits repeats nothing"


def test_callbacks_run_on_the_callers_thread_and_may_commit_and_seek(
    servers: str, topic: str, protocol: dict[str, object], make: Callable[..., Consumer]
) -> None:
    produce(servers, topic, 40)
    told: list[tuple[str, int, str]] = []
    consumer = make(**protocol, enable_auto_commit=False)

    def assigned(partitions: list[TopicPartition]) -> None:
        told.append(("assigned", len(partitions), threading.current_thread().name))
        for partition in partitions:
            consumer.seek(partition, 5)

    def revoked(partitions: list[TopicPartition]) -> None:
        told.append(("revoked", len(partitions), threading.current_thread().name))
        consumer.commit()

    consumer.subscribe([topic], on_assigned=assigned, on_revoked=revoked)
    values: list[int] = []
    while len(values) < 20:
        values += [record.offset for batch in consumer.poll(5).values() for record in batch]
    assert sorted(values) == sorted([5, 6, 7, 8, 9] * PARTITIONS)
    consumer.unsubscribe()
    name = threading.current_thread().name
    assert told == [("assigned", PARTITIONS, name), ("revoked", PARTITIONS, name)]
    other = make(**protocol)
    positions = other.committed([TopicPartition(topic, number) for number in range(PARTITIONS)])
    assert {position.offset for position in positions.values() if position} == {10}


def test_a_commit_may_carry_a_text_and_is_where_an_assigned_consumer_begins(
    servers: str, topic: str, make: Callable[..., Consumer]
) -> None:
    produce(servers, topic, 40)
    partition, other = TopicPartition(topic, 1), TopicPartition(topic, 2)
    first = make()
    first.assign([partition, other])
    first.commit({partition: OffsetAndMetadata(7, "seven"), other: 3})
    second = make(auto_offset_reset="none")
    assert second.committed([partition, TopicPartition(topic, 0)]) == {
        partition: OffsetAndMetadata(7, "seven"),
        TopicPartition(topic, 0): None,
    }
    second.assign([partition, other])
    assert (second.position(partition), second.position(other)) == (7, 3)
    second.seek(other, 9)
    offsets = {tp: [record.offset for record in batch] for tp, batch in second.poll(5).items()}
    assert offsets[partition] == [7, 8, 9] or offsets[other] == [9]


def test_a_user_who_stays_away_is_out_hears_of_it_and_comes_back(
    servers: str,
    topic: str,
    protocol: dict[str, object],
    make: Callable[..., Consumer],
    caplog: pytest.LogCaptureFixture,
) -> None:
    lost: list[TopicPartition] = []
    consumer = make(**protocol, max_poll_interval_ms=1_500, enable_auto_commit=False)
    consumer.subscribe([topic], on_lost=lost.extend)
    until(lambda: shared(consumer), consumer)
    other = make(**protocol)
    other.subscribe([topic])
    until(lambda: shared(other), other)
    with pytest.raises(CommitFailedError, match="nothing was committed"):
        consumer.commit({TopicPartition(topic, 0): 1})
    with pytest.raises(MaxPollExceededError, match="max_poll_interval_ms=1500"):
        consumer.poll(1)
    assert sum("max_poll_interval_ms" in record.message for record in caplog.records) == 1
    until(lambda: shared(consumer, other), consumer, other)
    assert len(lost) == PARTITIONS


def test_a_static_member_that_comes_back_in_time_keeps_its_partitions(
    servers: str, topic: str, make: Callable[..., Consumer]
) -> None:
    first, second = make(**CLASSIC, group_instance_id="one"), make(**CLASSIC, group_instance_id="two")
    for consumer in (first, second):
        consumer.subscribe([topic])
    until(lambda: shared(first, second), first, second)
    before, generation = first.assignment(), second.group_metadata().generation_id
    first.close()
    again = make(**CLASSIC, group_instance_id="one")
    again.subscribe([topic])
    until(lambda: again.assignment() == before, again, second)
    assert second.group_metadata().generation_id == generation
    usurper = make(**CLASSIC, group_instance_id="one")
    usurper.subscribe([topic])
    until(lambda: usurper.assignment() == before, usurper, second)
    with pytest.raises(FencedInstanceIdError, match="'one'"):
        until(lambda: False, again)


def test_a_pattern_follows_topics_that_are_made(
    servers: str, topic: str, protocol: dict[str, object], make: Callable[..., Consumer]
) -> None:
    consumer = make(**protocol, metadata_max_age_ms=500)
    consumer.subscribe(pattern=re.compile(f"{topic}(-more)?"))
    until(lambda: shared(consumer), consumer)
    assert consumer.subscription() == [topic]
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(f"{topic}-more", 1, 1)])
    until(lambda: TopicPartition(f"{topic}-more", 0) in consumer.assignment(), consumer)
    assert consumer.subscription() == [topic, f"{topic}-more"]


def test_new_partitions_and_deleted_topics_are_noticed(
    servers: str, topic: str, protocol: dict[str, object], make: Callable[..., Consumer]
) -> None:
    consumer = make(**protocol, metadata_max_age_ms=500, allow_auto_create_topics=False)
    consumer.subscribe([topic])
    until(lambda: shared(consumer), consumer)
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_partitions({topic: PARTITIONS + 1})
        until(lambda: len(consumer.assignment()) == PARTITIONS + 1, consumer)
        admin.delete_topics([topic])
    until(lambda: not consumer.assignment(), consumer)


def test_members_that_share_no_assignor_are_told_so(servers: str, topic: str, make: Callable[..., Consumer]) -> None:
    first, second = make(**KINDS["range"]), make(**KINDS["sticky"])
    for consumer in (first, second):
        consumer.subscribe([topic])
    until(lambda: shared(first), first)
    with pytest.raises(GroupError, match="partition_assignment_strategy"):
        until(lambda: False, second)


def test_the_async_face_awaits_its_callbacks(servers: str, topic: str) -> None:
    async def life() -> list[str]:
        told: list[str] = []

        async def assigned(partitions: list[TopicPartition]) -> None:
            await asyncio.sleep(0)
            told.append(f"assigned {len(partitions)}")

        async def revoked(partitions: list[TopicPartition]) -> None:
            await consumer.commit({partitions[0]: 3})
            told.append(f"revoked {len(partitions)}")

        consumer = AsyncConsumer(bootstrap_servers=servers, group_id=topic, auto_offset_reset="earliest")
        async with consumer:
            consumer.subscribe([topic], on_assigned=assigned, on_revoked=revoked)
            while not told:
                await consumer.poll(0.2)
            first = consumer.assignment()[0]
            await consumer.unsubscribe()
            assert (await consumer.committed([first]))[first] == OffsetAndMetadata(3)
        return told

    assert asyncio.run(life()) == [f"assigned {PARTITIONS}", f"revoked {PARTITIONS}"]


def test_static_members_of_the_new_protocol_come_back_and_do_not_share_a_name(
    servers: str, topic: str, make: Callable[..., Consumer]
) -> None:
    first, second = make(**MODERN, group_instance_id="one"), make(**MODERN, group_instance_id="two")
    for consumer in (first, second):
        consumer.subscribe([topic])
    until(lambda: shared(first, second), first, second)
    before = first.assignment()
    first.close()
    again = make(**MODERN, group_instance_id="one")
    again.subscribe([topic])
    until(lambda: again.assignment() == before, again, second)
    usurper = make(**MODERN, group_instance_id="one")
    usurper.subscribe([topic])
    with pytest.raises(GroupError, match="group_instance_id='one' is in use"):
        until(lambda: False, usurper)


@pytest.mark.soak
def test_the_broker_applies_a_pattern_of_re2(servers: str, topic: str, make: Callable[..., Consumer]) -> None:
    consumer = make(**MODERN)
    consumer.subscribe(pattern=f"{topic}.*")
    until(lambda: shared(consumer), consumer)
    consumer.subscribe([topic])
    until(lambda: shared(consumer), consumer)
    wrong = make(**MODERN)
    wrong.subscribe(pattern="(((")
    with pytest.raises(GroupError, match="RE2"):
        until(lambda: False, wrong)


def test_an_assignor_that_the_broker_has_not_is_refused(
    servers: str, topic: str, make: Callable[..., Consumer]
) -> None:
    consumer = make(**MODERN, group_remote_assignor="fancy")
    consumer.subscribe([topic])
    with pytest.raises(GroupError, match="group_remote_assignor='fancy'"):
        until(lambda: False, consumer)


def test_a_group_changes_its_protocol_while_it_runs(servers: str, topic: str, make: Callable[..., Consumer]) -> None:
    old = make(**KINDS["cooperative-sticky"])
    old.subscribe([topic])
    until(lambda: shared(old), old)
    new = make(**MODERN)
    new.subscribe([topic])
    until(lambda: shared(old, new), old, new)
    old.close()
    until(lambda: shared(new), new)
    back = make(**KINDS["cooperative-sticky"])
    back.subscribe([topic])
    until(lambda: shared(new, back), new, back)
    new.close()
    until(lambda: shared(back), back)
