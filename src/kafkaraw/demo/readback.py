"""Reads the topics of the flights demo back with the plain consumer: nothing here comes from Spark or the replay.

The records of a topic are counted as any consumer sees them. Both sinks deliver at least once, so a record may be in a
topic twice: hours count by their last record, dead letters by their source record.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kafkaraw.client.blocking.consumer import Consumer
from kafkaraw.demo.malformed import MALFORMED_HEADER
from kafkaraw.demo.topics import DEAD_LETTER_HEADERS, Topics
from kafkaraw.errors import KafkaTimeoutError
from kafkaraw.records import Record

_POLL_TIMEOUT = 1.0
_SILENT_POLLS_MAX = 30
_REPORT_EVERY = 5_000

ReportRead = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Hour:
    """One record of the topic delays-by-hour; delays in minutes, None if no flight left in that hour."""

    origin: str
    hour: str
    flights: int
    cancelled: int
    mean_delay_min: float | None
    p95_delay_min: float | None
    worst_delay_min: int | None
    worst_carrier: str | None

    @property
    def departed(self) -> int:
        """Flights that did leave."""
        return self.flights - self.cancelled


@dataclass(frozen=True, slots=True)
class FlightsTopic:
    """The counts of the flights topic."""

    records: int
    malformed: int


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The counts of the dead-letter topic.

    Attributes:
        letters: different source records.
        malformed: those of them with the header of a record broken on purpose.
        repeated: letters that occur more than once.
        reasons: number of letters by reason.
    """

    letters: int
    malformed: int
    repeated: int
    reasons: dict[str, int]


def read_topic(bootstrap_servers: str, topic: str) -> Iterator[Record]:
    """Return all records that a topic holds at the time of the call.

    Raises:
        KafkaTimeoutError: the broker stopped answering on the way.
        KafkaError: the topic cannot be read.
    """
    with Consumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest") as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        starts = consumer.beginning_offsets(partitions)
        ends = consumer.end_offsets(partitions)
        unread = {partition for partition in partitions if ends[partition] > starts[partition]}
        silent_polls = 0
        while unread:
            batches = consumer.poll(_POLL_TIMEOUT)
            silent_polls = 0 if batches else silent_polls + 1
            if silent_polls > _SILENT_POLLS_MAX:
                raise KafkaTimeoutError(f"topic {topic} at {bootstrap_servers}: no records came for {silent_polls} s")
            for partition, batch in batches.items():
                yield from batch
                if batch.next_offset >= ends[partition]:
                    unread.discard(partition)


def count_flights_topic(bootstrap_servers: str, topics: Topics, report: ReportRead) -> FlightsTopic:
    """Count the records of the flights topic, and those of them marked as malformed."""
    records = malformed = 0
    for record in read_topic(bootstrap_servers, topics.flights):
        records += 1
        malformed += any(key == MALFORMED_HEADER for key, _ in record.headers)
        if records % _REPORT_EVERY == 0:
            report(records)
    report(records)
    return FlightsTopic(records, malformed)


def read_hours(bootstrap_servers: str, topics: Topics) -> list[Hour]:
    """Return the hours of the topic delays-by-hour: the last record of each key."""
    last = {record.key: record.value for record in read_topic(bootstrap_servers, topics.delays_by_hour)}
    return [Hour(**json.loads(value)) for value in last.values() if value is not None]


def read_dead_letters(bootstrap_servers: str, topics: Topics) -> DeadLetters:
    """Return the dead letters, each source record once."""
    reasons: dict[tuple[bytes | None, ...], str] = {}
    malformed = letters = 0
    for record in read_topic(bootstrap_servers, topics.dead_letters):
        headers = dict(record.headers)
        source = tuple(headers.get(DEAD_LETTER_HEADERS[part]) for part in ("topic", "partition", "offset"))
        letters += 1
        if source not in reasons:
            malformed += MALFORMED_HEADER in headers
            reasons[source] = (headers.get(DEAD_LETTER_HEADERS["reason"]) or b"").decode()
    by_reason: dict[str, int] = {}
    for reason in reasons.values():
        by_reason[reason] = by_reason.get(reason, 0) + 1
    return DeadLetters(len(reasons), malformed, letters - len(reasons), by_reason)


def worst_hours(hours: list[Hour], count: int) -> list[Hour]:
    """Return the hours with the highest mean delay, among those with at least ten departures, if there are any."""
    departed = [hour for hour in hours if hour.mean_delay_min is not None]
    busy = [hour for hour in departed if hour.departed >= 10]
    return sorted(busy or departed, key=lambda hour: (-(hour.mean_delay_min or 0.0), hour.hour, hour.origin))[:count]
