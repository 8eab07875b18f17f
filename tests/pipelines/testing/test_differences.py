"""`compare`: rows in any order, by meaning, and the table of differences."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from kafkaraw.pipelines.testing.differences import compare

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_rows_are_equal_in_any_order():
    assert compare("t", [{"a": 1}, {"a": 2}], [{"a": 2}, {"a": 1}])


def test_equal_rows_are_counted():
    comparison = compare("t", [{"a": 1}], [{"a": 1}, {"a": 1}])
    assert not comparison
    assert "1 rows as expected, 0 missing, 1 unexpected, 0 different" in str(comparison)


def test_columns_that_no_expected_row_names_do_not_count():
    assert compare("t", [{"a": 1}], [{"a": 1, "b": 7}])


def test_each_expected_row_names_its_own_columns():
    assert compare("t", [{"a": 1}, {"b": 3}], [{"a": 1, "b": 3}, {"a": 1, "b": 4}])
    assert compare("t", [{"b": 3}, {"a": 1}], [{"a": 1, "b": 3}, {"a": 1, "b": 4}])
    assert not compare("t", [{"a": 1}, {"b": 3}], [{"a": 1, "b": 5}, {"a": 2, "b": 4}])


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        (1, 1.0),
        (0.3, 0.1 + 0.2),
        (3.5, Decimal("3.50")),
        ("2026-01-01 12:00", NOON),
        ("2026-01-01T13:00:00+01:00", NOON),
        (NOON.astimezone(timezone(timedelta(hours=5))), NOON),
        (b"x", bytearray(b"x")),
        ({"b": 1, "a": [1, 2]}, {"a": (1, 2), "b": 1}),
        (float("nan"), float("nan")),
    ],
)
def test_values_of_the_same_meaning_are_equal(expected, got):
    assert compare("t", [{"a": expected}], [{"a": got}])


@pytest.mark.parametrize(
    ("expected", "got"),
    [(1, True), (1, "1"), (None, 0), ("", None), (b"x", "x"), (2**60, 2**60 + 1), (0.1, 0.2), ([1, 2], [2, 1])],
)
def test_values_of_another_meaning_differ(expected, got):
    assert not compare("t", [{"a": expected}], [{"a": got}])


def test_a_column_that_no_row_has_is_a_difference():
    assert "(no such column)" in str(compare("t", [{"a": 1, "b": None}], [{"a": 1}]))


def test_the_table_shows_changed_values_beside_the_most_similar_row():
    text = str(
        compare("clean", [{"id": 1, "amount": 3.5}, {"id": 2, "amount": 4}], [{"id": 2, "amount": 5}, {"id": 7}])
    )
    assert "clean: 0 rows as expected, 1 missing, 1 unexpected, 1 different" in text
    assert "4 expected, got 5" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["missing", "1", "3.5"] in lines
    assert ["unexpected", "7", "(no", "such", "column)"] in lines


def test_no_rows_expected_shows_those_that_are_there():
    assert ["unexpected", "1", "NULL"] in [
        line.split() for line in str(compare("t", [], [{"a": 1, "b": None}])).splitlines()
    ]


def test_long_tables_are_cut():
    assert "... and 80 more" in str(compare("t", [], [{"a": number} for number in range(100)]))
