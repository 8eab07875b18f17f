"""Sends the data of the flights demo to Kafka: first the reference tables, then the flights in scheduled order.

Uses the blocking producer as any program would. What was sent is counted here and checked later, in the balance
sheet, against what the topics hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kafkaraw.client.admin import NewTopic
from kafkaraw.client.blocking.admin import Admin
from kafkaraw.client.blocking.producer import Producer
from kafkaraw.demo.flights import Flights, OutgoingRecord, reference_records
from kafkaraw.demo.malformed import MALFORMED_HEADER, mixed_in
from kafkaraw.demo.schema import REFERENCE_TABLES
from kafkaraw.demo.topics import Topics, choose_topics
from kafkaraw.records import Ticket

_REPORT_EVERY = 2_000
_FLUSH_TIMEOUT = 60.0
_ADMIN_TIMEOUT = 20.0

ReportSent = Callable[[int], None]
"""Called now and then with the number of records sent so far."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What went to the topic of the flights."""

    flights: int
    malformed: int

    @property
    def records(self) -> int:
        """Flights and malformed records."""
        return self.flights + self.malformed


def create_topics(bootstrap_servers: str, prefix: str | None) -> Topics:
    """Choose names that are free on this cluster and create the topics.

    The replication factor is left to the cluster, so that one broker will do and three are used.

    Raises:
        UsageError: the names with this prefix are taken.
        KafkaError: the cluster cannot be reached, or refuses.
    """
    with Admin(bootstrap_servers=bootstrap_servers) as admin:
        existing = {listing.name for listing in admin.list_topics(timeout=_ADMIN_TIMEOUT)}
        topics = choose_topics(existing, prefix)
        admin.create_topics(
            [NewTopic(plan.name, plan.partitions, -1, plan.configs) for plan in topics.plans()],
            timeout=_ADMIN_TIMEOUT,
        )
    return topics


def impatient_producer(bootstrap_servers: str) -> Producer:
    """Return a producer that fails in seconds if the broker is down: a user waits. The default is two minutes."""
    return Producer(
        bootstrap_servers=bootstrap_servers,
        compression_type="lz4",
        linger_ms=20,
        request_timeout_ms=10_000,
        delivery_timeout_ms=20_000,
        max_block_ms=20_000,
    )


def send_reference_tables(producer: Producer, topics: Topics) -> dict[str, int]:
    """Send airlines, airports, planes and weather; the number of records by table.

    Raises:
        KafkaError: something was not acknowledged.
    """
    counts = {}
    for table in REFERENCE_TABLES:
        counts[table.name] = _send(producer, topics.reference(table.name), reference_records(table))
    producer.flush(_FLUSH_TIMEOUT)
    return counts


def send_flights(
    producer: Producer, topics: Topics, flights: Flights, malformed_count: int, report: ReportSent
) -> Sent:
    """Send the flights, with malformed records among them.

    Raises:
        KafkaError: something was not acknowledged.
    """
    malformed = 0

    def counted() -> Iterable[OutgoingRecord]:
        nonlocal malformed
        for record in mixed_in(flights.records(), len(flights), malformed_count):
            malformed += record.headers[-1][0] == MALFORMED_HEADER
            yield record

    records = _send(producer, topics.flights, counted(), report)
    producer.flush(_FLUSH_TIMEOUT)
    report(records)
    return Sent(flights=records - malformed, malformed=malformed)


def _send(producer: Producer, topic: str, records: Iterable[OutgoingRecord], report: ReportSent | None = None) -> int:
    count = 0
    watched: Ticket | None = None
    for record in records:
        ticket = producer.send(
            topic, record.value, record.key, headers=record.headers, timestamp_ms=record.timestamp_ms
        )
        count += 1
        if count % _REPORT_EVERY == 0:
            # flush() reports every failure; a look at a ticket from time to time finds a dead broker before the end.
            if watched is None or watched.done:
                if watched is not None:
                    watched.result(0)
                watched = ticket
            if report is not None:
                report(count)
    return count
