"""What the replay sends is what the plain consumer reads back: on a real broker, without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkaraw import Admin, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.demo.flights import Flights
from kafkaraw.demo.malformed import MALFORMED_HEADER, mixed_in
from kafkaraw.demo.readback import (
    DeadLetters,
    FlightsTopic,
    count_flights_topic,
    read_airlines,
    read_dead_letters,
    read_hours,
    read_topic,
)
from kafkaraw.demo.replay import Sent, create_topics, impatient_producer, send_flights, send_reference_tables
from kafkaraw.demo.topics import Topics
from kafkaraw.errors import UsageError


@pytest.fixture
def servers() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def few(year: Flights) -> Flights:
    return Flights(year.columns, year.lines[:3_000])


def test_flights_arrive_as_sent_and_in_scheduled_order_within_a_partition(servers: str, few: Flights):
    topics = create_topics(servers, None)
    reported: list[int] = []
    with impatient_producer(servers) as producer:
        assert send_flights(producer, topics, few, 25, reported.append) == Sent(flights=3_000, malformed=25)
    assert reported == [2_000, 3_025]
    read = list(read_topic(servers, topics.flights))
    sent = list(mixed_in(few.records(), 3_000, 25))
    assert sorted((r.timestamp_ms, r.key, r.value or b"", r.headers) for r in read) == sorted(
        (r.timestamp_ms, r.key, r.value or b"", r.headers) for r in sent
    )
    for partition in {record.partition for record in read}:
        times = [record.timestamp_ms for record in read if record.partition == partition]
        assert times == sorted(times)
    assert count_flights_topic(servers, topics, reported.append) == FlightsTopic(records=3_025, malformed=25)


def test_reference_tables_arrive_whole(servers: str, few: Flights):
    topics = create_topics(servers, "x.")
    with impatient_producer(servers) as producer:
        counts = send_reference_tables(producer, topics)
    assert counts == {"airlines": 16, "airports": 1_458, "planes": 3_322, "weather": 26_115}
    assert {record.key for record in read_topic(servers, "x.airlines")} >= {b"UA", b"DL", b"HA"}
    assert sum(1 for _ in read_topic(servers, "x.weather")) == 26_115


def test_topics_are_created_as_planned_and_never_twice(servers: str):
    create_topics(servers, "a.")
    with Admin(bootstrap_servers=servers) as admin:
        found = admin.describe_topics([plan.name for plan in Topics("a.").plans()])
    assert {name: len(topic.partitions) for name, topic in found.items()} == {
        plan.name: plan.partitions for plan in Topics("a.").plans()
    }
    with pytest.raises(UsageError, match=r"a\.flights"):
        create_topics(servers, "a.")
    assert create_topics(servers, None) == Topics()
    assert create_topics(servers, None) == Topics("demo-2.")


def test_an_empty_topic_is_read_as_empty(servers: str):
    topics = create_topics(servers, None)
    assert read_hours(servers, topics) == []
    assert read_dead_letters(servers, topics) == DeadLetters(0, 0, {})


def test_an_hour_counts_by_its_last_record_and_dead_letters_by_their_reason(servers: str):
    topics = create_topics(servers, None)
    value = b'{"id":"EWR|2013-01-01T10Z","origin":"EWR","hour":"2013-01-01T10:00:00.000Z","flights":%d,"cancelled":0}'
    with Producer(bootstrap_servers=servers) as producer:
        for flights in (3, 9):
            producer.send(topics.delays_by_hour, value % flights, b"EWR|2013-01-01T10Z")
            producer.send(topics.dead_letters, b"{", headers=[("kafkaraw.reason", b"decode"), (MALFORMED_HEADER, b"")])
        unmet: list[tuple[str, bytes | None]] = [
            ("kafkaraw.reason", b"expectation"),
            ("kafkaraw.expectation", b"is one"),
        ]
        producer.send(topics.dead_letters, b"{", headers=unmet)
    assert [hour.flights for hour in read_hours(servers, topics)] == [9]
    assert read_dead_letters(servers, topics) == DeadLetters(3, 2, {"decode": 2, "is one": 1})


def test_records_of_open_and_aborted_transactions_do_not_count(servers: str):
    topics = create_topics(servers, None)
    with Producer(bootstrap_servers=servers, transactional_id="t") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(topics.dead_letters, b"1")
        producer.begin_transaction()
        producer.send(topics.dead_letters, b"2")
        producer.flush()
        producer.abort_transaction()
    assert [record.value for record in read_topic(servers, topics.dead_letters)] == [b"1"]


def test_airlines_have_their_names(servers: str):
    topics = create_topics(servers, None)
    with impatient_producer(servers) as producer:
        send_reference_tables(producer, topics)
    assert read_airlines(servers, topics)["UA"] == "United Air Lines Inc."
