"""Changes are applied by key in any order and once, as rows (SCD 1) and as history (SCD 2)."""

from __future__ import annotations

import random

import pytest

from kafkaraw.pipelines.changes import LIVE, ChangedTable, changed_columns, changed_schema
from kafkaraw.pipelines.model import Changes
from kafkaraw.pipelines.snapshots import SnapshotTable
from kafkaraw.pipelines.tables import BatchId
from tests.rotation import rotating

SCHEMA = "id LONG, name STRING, visits LONG, at LONG, op STRING"
EVENTS = [
    (1, "Ann", 1, 10, "i"),
    (1, "Ann", 2, 20, "u"),
    (1, "Anna", 2, 30, "u"),
    (2, "Bob", 1, 10, "i"),
    (2, None, None, 40, "d"),
    (2, "Bob", 7, 50, "i"),
    (3, "Cy", 1, 10, "i"),
    (3, None, None, 60, "d"),
]
CURRENT = [(1, "Anna", 2), (2, "Bob", 7)]
HISTORY = [
    (1, "Ann", 1, 10, 20),
    (1, "Ann", 2, 20, 30),
    (1, "Anna", 2, 30, None),
    (2, "Bob", 1, 10, 40),
    (2, "Bob", 7, 50, None),
    (3, "Cy", 1, 10, 60),
]
HISTORY_OF_NAMES = [
    (1, "Ann", 2, 10, 30),
    (1, "Anna", 2, 30, None),
    (2, "Bob", 1, 10, 40),
    (2, "Bob", 7, 50, None),
    (3, "Cy", 1, 10, 60),
]


def changes(**given: object) -> Changes:
    return Changes("source", ("id",), "at", "op = 'd'", except_columns=("at", "op"), **given)


def applied(spark, folder, given: Changes, batches, *, again: bool = False) -> list[tuple]:
    table = SnapshotTable(folder)
    for number, batch in enumerate(batches):
        frame = spark.createDataFrame(batch, SCHEMA)
        for _ in range(2 if again else 1):
            version = ChangedTable(table, given).apply(frame, BatchId("flow", 1, number), dict)
    assert version.number == len(batches)
    schema = changed_schema(given, frame)
    rows = table.read(spark, schema, within=LIVE).collect()
    return sorted((tuple(row) for row in rows), key=str)


TRACKED = ({"track_history_columns": ("name",)}, {"track_history_except_columns": ("visits",)})
"""Two ways to say the same; each commit has one of them."""


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (changes(), CURRENT),
        (changes(scd_type=2), HISTORY),
        *rotating([(changes(scd_type=2, **tracked), HISTORY_OF_NAMES) for tracked in TRACKED], 1),
    ],
)
def test_changes_in_any_order_make_the_same_rows(spark, tmp_path, given, wanted):
    shuffled = EVENTS.copy()
    random.Random(7).shuffle(shuffled)
    found = applied(spark, tmp_path / "t", given, [shuffled[:4], [], shuffled[4:]], again=True)
    assert found == sorted(wanted, key=str)


def test_a_late_change_of_a_deleted_key_does_not_bring_it_back(spark, tmp_path):
    late = [[(3, None, None, 60, "d")], [(3, "Cy", 1, 10, "i")]]
    assert applied(spark, tmp_path / "t", changes(), late) == []


def test_a_change_without_a_sequence_fails_instead_of_getting_lost(spark, tmp_path):
    with pytest.raises(Exception, match="sequence_by is NULL"):
        applied(spark, tmp_path / "t", changes(), [[(1, "Ann", 1, None, "i")]])


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"columns": ("name",)}, ["id", "name"]),
        ({"columns": ("NAME", "Id")}, ["id", "name"]),
        ({"except_columns": ("id", "at", "op", "visits")}, ["id", "name"]),
    ],
)
def test_keys_are_columns_of_the_table_whatever_is_left_out(spark, tmp_path, given, wanted):
    chosen = Changes("source", ("ID",), "at", "op = 'd'", **given)
    assert changed_columns(chosen, ["id", "name", "visits", "at", "op"]) == wanted
    assert changed_schema(chosen, spark.createDataFrame([], SCHEMA)).names == wanted
    assert applied(spark, tmp_path / "t", chosen, [EVENTS]) == [(1, "Anna"), (2, "Bob")]
