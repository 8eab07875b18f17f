"""The pipeline of the flights, on real flights and without Kafka. Its tests in YAML are in tests/pipelines."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Any

import pytest

from kafkaraw.demo.flights import Flights, OutgoingRecord, reference_records
from kafkaraw.demo.malformed import KINDS, MALFORMED_HEADER, damaged
from kafkaraw.demo.pipeline_run import DEFINITION
from kafkaraw.demo.schema import REFERENCE_TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark")

from kafkaraw.pipelines.testing import PipelineTest, Record

REASONS = {
    "cut": "decode",
    "wrong-type": "decode",
    "missing-field": "names carrier and airports",
    "not-utf-8": "decode",
    "empty": "decode",
    "null": "names carrier and airports, has a scheduled departure",
    "not-an-object": "decode",
    "impossible-time": "decode",
}
RUBBISH = (
    *(b"   ", b"null", b"17", b"{}", b'{"carrier":"UA"', b'{"carrier":null}'),
    *(b'{"flight":2013.5}', b'{"flight":99999999999}'),
)


@pytest.fixture(scope="module")
def sample(year: Flights) -> Flights:
    """Three days, among them one with cancelled flights, in which February 9 has hours when nothing left."""
    days = {(2, 8), (2, 9), (7, 10)}
    month, day = year.columns.index("month"), year.columns.index("day")
    lines = [line for line in year.lines if (int(line[2].split(",")[month]), int(line[2].split(",")[day])) in days]
    return Flights(year.columns, lines)


def as_record(record: OutgoingRecord) -> Record:
    return Record(record.value, key=record.key, headers=tuple(record.headers))


def test_each_kind_of_broken_record_is_a_dead_letter_as_it_was(spark: SparkSession, year: Flights):
    real = next(year.records())
    records = {kind: damaged(real, kind) for kind in KINDS}
    with PipelineTest(DEFINITION, spark) as flights:
        flights.send("flights", as_record(real), *map(as_record, records.values()), *RUBBISH, as_record(real))
        flights.run("departures")
        flights.expect("departures", [{"flight": 1545, "tailnum": "N14228"}] * 2)
        letters = flights.dead_letters()
    assert len(letters) == len(KINDS) + len(RUBBISH)
    told = {}
    for letter in letters:
        headers = dict(letter.headers)
        if MALFORMED_HEADER in headers:
            kind = (headers[MALFORMED_HEADER] or b"").decode()
            source = records[kind]
            assert (letter.key, letter.value, list(letter.headers)) == (source.key, source.value, source.headers)
            told[kind] = letter.about.get("expectation") or letter.about["reason"]
    assert told == REASONS


def test_results_agree_with_a_plain_computation(spark: SparkSession, sample: Flights):
    records = list(sample.records())
    planes = list(reference_records(next(table for table in REFERENCE_TABLES if table.name == "planes")))
    with PipelineTest(DEFINITION, spark) as flights:
        flights.send("planes", *map(as_record, planes))
        flights.send("flights", *map(as_record, records))
        flights.run("delays-by-hour", "departures", "delays_by_manufacturer")
        flights.expect("delays-by-hour", expected_hours(records))
        flights.expect("delays_by_manufacturer", expected_manufacturers(records, planes))


def expected_hours(records: list[OutgoingRecord]) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        value = json.loads(record.value or b"")
        groups[value["origin"], value["scheduled_departure"][:13]].append(value)
    hours = []
    for (origin, hour), flights in groups.items():
        left = sorted((flight["dep_delay"], flight["carrier"]) for flight in flights if flight["dep_delay"] is not None)
        delays = [delay for delay, _ in left]
        hours.append(
            {
                "id": f"{origin}|{hour}Z",
                "flights": len(flights),
                "cancelled": sum(flight["dep_time"] is None for flight in flights),
                "mean_delay": round_half_up(sum(delays) / len(delays)) if delays else None,
                "p95_delay": round_half_up(percentile_95(delays)) if delays else None,
                "worst": {"dep_delay": delays[-1], "carrier": left[-1][1]} if left else None,
            }
        )
    assert any(hour["mean_delay"] is None and hour["cancelled"] == hour["flights"] for hour in hours)
    return hours


def expected_manufacturers(records: list[OutgoingRecord], planes: list[OutgoingRecord]) -> list[dict[str, Any]]:
    makers = {value["tailnum"]: value["manufacturer"] for value in (json.loads(plane.value or b"") for plane in planes)}
    numbers = Counter(makers.get(json.loads(record.value or b"")["tailnum"]) for record in records)
    return [{"manufacturer": name, "flights": number} for name, number in numbers.items()]


def percentile_95(ordered: list[int]) -> float:
    place = (len(ordered) - 1) * 0.95
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    return below + (above - below) * (place - math.floor(place))


def round_half_up(value: float) -> float:
    return float(Decimal(repr(value)).quantize(Decimal("0.01"), ROUND_HALF_UP))
