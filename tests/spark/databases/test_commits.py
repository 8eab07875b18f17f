"""Rows of a batch go into a table of a database exactly once; upserts keep the newest row. Without Spark."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import threading
import time
from dataclasses import replace

import pyarrow as pa
import pytest

from kafkaraw.spark.databases.commits import commit_batch, discard_batch
from kafkaraw.spark.databases.staging import STALE_S
from kafkaraw.spark.errors import ChangedBatchError, TableError, TableSchemaError
from kafkaraw.spark.lake.batches import BatchId
from kafkaraw.spark.lake.commits import Verdict
from kafkaraw.spark.options.lake import OnChangedBatch
from tests.spark.databases.places import file_place

ROWS = pa.schema([("id", pa.int64()), ("name", pa.string())])


def rows(*found: tuple[int, str]) -> pa.Table:
    return pa.Table.from_pylist([{"id": number, "name": name} for number, name in found], ROWS)


CHANGES = pa.schema([("id", pa.int64()), ("name", pa.string()), ("offset", pa.int64()), ("deleted", pa.bool_())])


def changes(*found: tuple[int | None, str | None, int, bool | None]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(CHANGES.names, each, strict=True)) for each in found], CHANGES)


def keyed(place, **options):
    return replace(
        place,
        options=replace(place.options, key=("id",), order_column="offset", delete_column="deleted", **options),
    )


def test_rows_of_all_tasks_are_inserted_and_staging_is_dropped(place):
    assert place.write(0, rows((1, "a")), rows((2, "b")), rows()) is Verdict.COMMIT
    assert place.write(1, rows((1, "a"))) is Verdict.COMMIT
    assert place.rows() == [(1, "a"), (1, "a"), (2, "b")]
    assert place.staged() == []


def test_repeated_batch_is_written_once(place):
    place.write(0, rows((1, "a")))
    assert place.write(0, rows((1, "a"))) is Verdict.REPEATED
    assert place.rows() == [(1, "a")]
    assert place.staged() == []


def test_batch_older_than_the_database_is_refused(place):
    place.write(0, rows((1, "a")))
    place.write(1, rows((2, "b")))
    with pytest.raises(ChangedBatchError, match="Restore the newest checkpoint"):
        place.write(0, rows((3, "c")))
    with pytest.raises(ChangedBatchError, match="has 2 rows"):
        place.write(1, rows((3, "c"), (4, "d")))
    skipping = replace(place, options=replace(place.options, on_changed_batch=OnChangedBatch.SKIP))
    assert skipping.write(1, rows((3, "c"), (4, "d"))) is Verdict.REPEATED
    assert place.rows() == [(1, "a"), (2, "b")]


def test_queries_count_their_batches_apart(place):
    place.write(0, rows((1, "a")), query="q")
    place.write(0, rows((2, "b")), query="other")
    assert place.rows() == [(1, "a"), (2, "b")]


def test_overwrite_replaces_all_rows(place):
    place.write(0, rows((1, "a"), (2, "b")))
    place.write(1, rows((3, "c")), overwrite=True)
    assert place.rows() == [(3, "c")]
    place.write(2, rows(), overwrite=True)
    assert place.rows() == []


def test_newest_row_of_a_key_wins_and_deletes_delete(place):
    place = keyed(place)
    place.write(
        0,
        changes((1, "old", 1, False), (2, "b", 2, None), (3, "c", 3, False)),
        changes((1, "new", 5, False), (4, None, 4, True)),
    )
    assert place.rows() == [(1, "new", 5), (2, "b", 2), (3, "c", 3)]
    place.write(1, changes((1, "older", 3, False), (2, None, 7, True), (2, "not yet", 6, False), (3, None, 2, True)))
    assert place.rows() == [(1, "new", 5), (3, "c", 3)]


def test_order_column_need_not_be_in_the_table(place):
    place.query(f"CREATE TABLE {place.options.table} (id BIGINT PRIMARY KEY, name VARCHAR(20), kept INTEGER)")
    place.query(f"INSERT INTO {place.options.table} VALUES (1, 'x', 42)")
    keyed(place).write(0, changes((1, "old", 1, False), (1, "new", 2, False)))
    assert place.rows() == [(1, "new", 42)]


def test_two_rows_of_a_key_without_an_order_are_refused(place):
    with pytest.raises(TableSchemaError, match=r"two rows of the key id = 1 and no option orderColumn"):
        replace(place, options=replace(place.options, key=("id",))).write(0, rows((1, "a"), (1, "b")))
    with pytest.raises(TableSchemaError, match=r"two rows of the key id = 7 with the same offset"):
        keyed(place, merge_schema=True).write(0, changes((7, "a", 1, False), (7, "b", 1, False)))
    with pytest.raises(TableSchemaError, match="null in its key"):
        keyed(place, merge_schema=True).write(0, changes((None, "a", 1, False)))
    assert place.rows() == []


def test_key_without_unique_index_is_refused(place):
    place.query(f"CREATE TABLE {place.options.table} (id BIGINT, name VARCHAR(20), offset_ BIGINT)")
    upserting = replace(place, options=replace(place.options, key=("id",)))
    with pytest.raises(TableSchemaError, match="CREATE UNIQUE INDEX"):
        upserting.write(0, rows((1, "a")))
    place.query(f"CREATE UNIQUE INDEX u ON {place.options.table} (id)")
    upserting.write(0, rows((1, "a")))
    upserting.write(1, rows((1, "b")))
    assert place.rows("id, name") == [(1, "b")]


def test_columns_are_compared_before_rows_are_written(place):
    place.write(0, rows((1, "a")))
    with pytest.raises(TableSchemaError, match=r"column 'name' has type \w+ in the table and bigint in the rows"):
        place.write(1, pa.table({"id": [1], "name": [5]}))
    more = pa.table({"id": [2], "name": ["b"], "price": [1.5]})
    with pytest.raises(TableSchemaError, match=r"'price' .*mergeSchema"):
        place.write(1, more)
    with pytest.raises(TableSchemaError, match="differ in case"):
        place.write(1, pa.table({"ID": [1]}))
    with pytest.raises(TableSchemaError, match=r"to_json\(s\)"):
        place.named("others").write(0, pa.table({"s": [{"a": 1}]}))
    merging = replace(place, options=replace(place.options, merge_schema=True))
    merging.write(1, more)
    assert place.rows() == [(1, "a", None), (2, "b", 1.5)]


UTC = dt.UTC
TYPES = pa.table(
    {
        "tiny": pa.array([-128, None], pa.int8()),
        "big": pa.array([2**63 - 1, -(2**63)], pa.int64()),
        "whole": pa.array([-(2**31), None], pa.int32()),
        "x": pa.array([1e308, math.inf]),
        "single": pa.array([1.5, None], pa.float32()),
        "ok": pa.array([True, None]),
        "text": pa.array(["ü 'quoted' \" \\ \n", ""]),
        "raw": pa.array([b"\x00\xff", b""]),
        "day": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
        "at": pa.array([dt.datetime(2026, 3, 29, 1, 30, 0, 1, UTC), None], pa.timestamp("us", "UTC")),
        "local": pa.array([dt.datetime(1969, 12, 31, 23), None], pa.timestamp("us")),
        "amount": pa.array(
            [decimal.Decimal("12345678901234567890123456789012.1234"), decimal.Decimal("-0.0001")],
            pa.decimal128(38, 4),
        ),
        "numbers": pa.array([[1, None], []], pa.list_(pa.int64())),
        "words": pa.array([["a", "b,c"], None], pa.list_(pa.string())),
    }
)


def test_every_type_is_read_back_as_it_was(place):
    place.write(0, TYPES)
    place.write(1, TYPES.slice(0, 0))
    place.write(2, TYPES.slice(0, 1))
    found = place.query(f"SELECT * FROM {place.options.table} ORDER BY big DESC")
    assert len(found) == 3
    assert found[0] == found[1]
    for row, expected in zip(found[1:], TYPES.to_pylist(), strict=True):
        for (name, value), stored in zip(expected.items(), row, strict=True):
            assert _read(name, stored) == value, name


def _read(name, stored):
    """The value; SQLite and ADBC have text for some types."""
    if stored is None:
        return None
    if name == "amount":
        return decimal.Decimal(stored)
    if isinstance(stored, str) and name in ("at", "local"):
        return dt.datetime.fromisoformat(stored)
    if isinstance(stored, str) and name == "day":
        return dt.date.fromisoformat(stored)
    if isinstance(stored, str) and name in ("numbers", "words"):
        return json.loads(stored)
    return bool(stored) if name == "ok" else stored


def test_nan_is_kept_or_refused(place):
    table = pa.table({"x": [math.nan]})
    if place.kind == "sqlite":
        with pytest.raises(TableSchemaError, match="column 'x' has a NaN"):
            place.write(0, table)
        return
    place.write(0, table)
    assert math.isnan(place.rows()[0][0])


def test_json_text_goes_into_json_columns(server):
    place = server[0].named("documents")
    place.query("CREATE TABLE documents (id bigint, name jsonb)")
    place.write(0, rows((1, '{"a": [1]}')))
    assert place.query("SELECT name->'a'->>0 FROM documents") == [("1",)]
    with pytest.raises(TableSchemaError, match=r"moving the rows of batch 1.*invalid input syntax for type json"):
        place.write(1, rows((2, "{")))


def test_postgresql_refuses_nul_in_text(server):
    place = server[0].named("with_nul")
    with pytest.raises(TableSchemaError, match=r"staging table .* column name.*no character NUL"):
        place.write(0, rows((1, "a\0b")))
    assert place.rows() == []


def test_leftovers_of_failed_attempts_are_dropped_with_the_next_commit(place):
    old, running = BatchId("ended", 9, "run"), BatchId("running", 0, "run")
    place.prepare(rows().schema)
    now_s = time.time()
    kept = place.stage(running, [rows((5, "e"))], now_s)
    place.stage(old, [rows((6, "f"))], now_s - STALE_S - 1)
    place.stage(BatchId("q", 0, "earlier"), [rows((7, "g"))], now_s)
    later = place.stage(BatchId("q", 1, "run"), [rows((8, "h"))], now_s)
    place.write(0, rows((1, "a")))
    assert sorted(place.staged()) == sorted(each.name for each in (*kept, *later))


def test_failed_write_drops_what_its_tasks_have_staged(place):
    place.prepare(ROWS)
    kept = place.stage(BatchId("q", 1, "run"), [rows((1, "a"))])
    batch = BatchId("write", 0)
    place.stage(batch, [rows((2, "b")), rows((3, "c"))])
    discard_batch(lambda: place.database.connect(place.options), place.options.table, batch)
    assert place.staged() == [each.name for each in kept]


def test_drivers_that_create_a_table_at_once_commit_a_batch_once(place):
    verdicts, errors = [], []

    def drive():
        try:
            verdicts.append(place.write(0, rows((1, "a"), (2, "b"))))
        except Exception as error:  # noqa: BLE001 - shown below
            errors.append(error)

    threads = [threading.Thread(target=drive) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert not errors
    assert sorted(verdicts, key=lambda each: each.value) == [Verdict.COMMIT, Verdict.REPEATED, Verdict.REPEATED]
    assert place.rows() == [(1, "a"), (2, "b")]
    assert place.staged() == []


def test_full_disk_is_told_with_stage_table_and_option(tmp_path):
    place = file_place("sqlite", tmp_path)
    place.write(0, rows((1, "a")))

    def full(session):
        session.execute("PRAGMA max_page_count = 1")
        return session

    with pytest.raises(TableError, match=r"^t: moving the rows of batch 1 .*disk is full.*check space.*option path"):
        place.write(1, rows((2, "b" * 100_000)), wrapped=full)
    assert place.rows() == [(1, "a")]


def test_table_changed_during_a_batch_is_noticed(place):
    target = place.prepare(rows().schema)
    batch = BatchId("q", 0, "run")
    staged = place.stage(batch, [rows((1, "a"))])
    place.query(f"DROP TABLE {place.options.table}")
    with pytest.raises(TableError, match="the table was dropped"):
        commit_batch(lambda: place.database.connect(place.options), place.options, target, batch, staged)
