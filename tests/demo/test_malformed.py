"""Broken records are marked, evenly spread, the same in every run, and really broken."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from kafkaraw.demo.flights import Flights, OutgoingRecord
from kafkaraw.demo.malformed import KINDS, MALFORMED_HEADER, damaged, mixed_in

VALUE = b'{"carrier":"UA","origin":"EWR","dep_delay":2,"scheduled_departure":"2013-01-01T10:15:00Z"}'
RECORD = OutgoingRecord(b"UA", VALUE, [("source", b"here:2")], 1)


def is_malformed(record: OutgoingRecord) -> bool:
    return any(key == MALFORMED_HEADER for key, _ in record.headers)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_record_keeps_all_but_its_value_and_says_what_was_done(kind: str):
    broken = damaged(RECORD, kind)
    assert broken.value != RECORD.value
    assert (broken.key, broken.timestamp_ms) == (RECORD.key, RECORD.timestamp_ms)
    assert broken.headers == [("source", b"here:2"), (MALFORMED_HEADER, kind.encode())]
    assert RECORD.headers == [("source", b"here:2")]


def test_the_kinds_are_as_different_as_they_say():
    assert damaged(RECORD, "null").value is None
    assert damaged(RECORD, "empty").value == b""
    with pytest.raises(UnicodeDecodeError):
        (damaged(RECORD, "not-utf-8").value or b"").decode()
    with pytest.raises(json.JSONDecodeError):
        json.loads(damaged(RECORD, "cut").value or b"")
    assert isinstance(json.loads(damaged(RECORD, "not-an-object").value or b""), list)
    assert "origin" not in json.loads(damaged(RECORD, "missing-field").value or b"")


@pytest.mark.parametrize("records_count", [1, 2, 24, 25, 26, 1_000])
@pytest.mark.parametrize("malformed_count", [0, 1, 8, 25, 100])
def test_every_record_and_exactly_the_wanted_number_of_broken_ones_come_out(records_count: int, malformed_count: int):
    records = [RECORD._replace(timestamp_ms=number) for number in range(records_count)]
    mixed = list(mixed_in(records, records_count, malformed_count))
    assert [record for record in mixed if not is_malformed(record)] == records
    assert sum(map(is_malformed, mixed)) == malformed_count
    assert [record.timestamp_ms for record in mixed] == sorted(record.timestamp_ms or 0 for record in mixed)


def test_broken_records_are_spread_evenly_and_take_turns():
    records = [RECORD._replace(timestamp_ms=number) for number in range(1_000)]
    broken = [record for record in mixed_in(records, 1_000, 25) if is_malformed(record)]
    places = [record.timestamp_ms or 0 for record in broken]
    gaps = {after - before for before, after in pairwise(places)}
    assert gaps <= {38, 39}
    assert [dict(record.headers)[MALFORMED_HEADER] for record in broken[: len(KINDS)]] == [
        kind.encode() for kind in KINDS
    ]


def test_two_runs_produce_the_same_records(year: Flights):
    few = Flights(year.columns, year.lines[:500])
    assert list(mixed_in(few.records(), 500, 25)) == list(mixed_in(few.records(), 500, 25))
