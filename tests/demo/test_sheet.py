"""The sheet balances when, and only when, every record is accounted for."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from kafkaraw.demo.sheet import BalanceSheet

GOOD = BalanceSheet(
    sent=1_025,
    malformed_sent=25,
    records_in=1_025,
    malformed_in=25,
    parquet_rows=1_000,
    dead_letters=25,
    malformed_dead=25,
    flights_by_hour=1_000,
)


def test_a_sheet_in_which_everything_is_accounted_for_balances():
    assert GOOD.balanced
    assert all(line.balanced for line in GOOD.lines())


@pytest.mark.parametrize("name", [field.name for field in fields(BalanceSheet)])
@pytest.mark.parametrize("by", [-1, 1])
def test_one_record_too_many_or_too_few_anywhere_shows(name: str, by: int):
    assert not replace(GOOD, **{name: getattr(GOOD, name) + by}).balanced


def test_a_flight_that_became_a_dead_letter_shows_although_the_sum_is_right():
    assert not replace(GOOD, parquet_rows=999, dead_letters=26, flights_by_hour=999).balanced


def test_a_broken_record_that_passed_as_a_flight_shows_although_the_sum_is_right():
    assert not replace(GOOD, parquet_rows=1_001, dead_letters=24, malformed_dead=24, flights_by_hour=1_001).balanced
