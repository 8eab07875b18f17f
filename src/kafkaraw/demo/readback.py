"""Reads the results of the flights demo back with the plain consumer and with Arrow: nothing here comes from Spark.

Only committed records count. A record that is in the topic of dead letters twice is counted twice, and the balance
sheet shows it. Hours count by their last record.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kafkaraw.client.blocking.consumer import Consumer
from kafkaraw.demo.malformed import MALFORMED_HEADER
from kafkaraw.demo.topics import Topics
from kafkaraw.errors import KafkaTimeoutError
from kafkaraw.records import Record

_POLL_TIMEOUT = 1.0
_SILENT_POLLS_MAX = 30
_REPORT_EVERY = 5_000
_REASON, _EXPECTATION = "kafkaraw.reason", "kafkaraw.expectation"

ReportRead = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Hour:
    """One record of the topic delays-by-hour; delays in minutes, None if no flight left in that hour."""

    origin: str
    hour: str
    flights: int
    cancelled: int
    mean_delay: float | None = None
    p95_delay: float | None = None
    worst_delay: int | None = None
    worst_carrier: str | None = None

    @classmethod
    def of(cls, value: bytes) -> Hour:
        """Return the hour of a record's value."""
        row = json.loads(value)
        worst = row.get("worst") or {}
        return cls(
            row["origin"],
            row["hour"],
            row["flights"],
            row["cancelled"],
            row.get("mean_delay"),
            row.get("p95_delay"),
            worst.get("dep_delay"),
            worst.get("carrier"),
        )

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
        letters: records of the topic.
        malformed: those of them with the header of a record broken on purpose.
        reasons: number of letters by reason: "decode", or the expectation that is not met.
    """

    letters: int
    malformed: int
    reasons: dict[str, int]


def read_topic(bootstrap_servers: str, topic: str) -> Iterator[Record]:
    """Return all committed records that a topic holds at the time of the call.

    Raises:
        KafkaTimeoutError: the broker stopped answering on the way.
        KafkaError: the topic cannot be read.
    """
    with Consumer(
        bootstrap_servers=bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        silent_polls = 0
        # Positions, and not records: a transaction ends with a marker, which no batch has.
        while any(consumer.position(each) < ends[each] for each in partitions):
            batches = consumer.poll(_POLL_TIMEOUT)
            silent_polls = 0 if batches else silent_polls + 1
            if silent_polls > _SILENT_POLLS_MAX:
                raise KafkaTimeoutError(f"topic {topic} at {bootstrap_servers}: no records came for {silent_polls} s")
            for batch in batches.values():
                yield from batch


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
    return [Hour.of(value) for value in last.values() if value is not None]


def read_dead_letters(bootstrap_servers: str, topics: Topics) -> DeadLetters:
    """Count the dead letters."""
    reasons: dict[str, int] = {}
    malformed = 0
    for record in read_topic(bootstrap_servers, topics.dead_letters):
        headers = dict(record.headers)
        malformed += MALFORMED_HEADER in headers
        reason = (headers.get(_EXPECTATION) or headers.get(_REASON) or b"").decode()
        reasons[reason] = reasons.get(reason, 0) + 1
    return DeadLetters(sum(reasons.values()), malformed, reasons)


def read_airlines(bootstrap_servers: str, topics: Topics) -> dict[str, str]:
    """Return the names of the carriers by their codes."""
    rows = (json.loads(record.value or b"{}") for record in read_topic(bootstrap_servers, topics.airlines))
    return {row["carrier"]: row["name"] for row in rows}


def count_rows(table: Path) -> int:
    """Return the number of rows of a folder of Parquet files."""
    from pyarrow import dataset

    return int(dataset.dataset(table, format="parquet").count_rows())


def worst_hours(hours: list[Hour], count: int) -> list[Hour]:
    """Return the hours with the highest mean delay, among those with at least ten departures, if there are any."""
    departed = [hour for hour in hours if hour.mean_delay is not None]
    busy = [hour for hour in departed if hour.departed >= 10]
    return sorted(busy or departed, key=lambda hour: (-(hour.mean_delay or 0.0), hour.hour, hour.origin))[:count]
