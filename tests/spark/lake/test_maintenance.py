"""Maintenance of lake tables replaces and deletes files, and neither rows nor the number of a batch are lost."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from pathlib import Path

import polars
import pyarrow as pa
import pytest

from kafkaraw.errors import UsageError
from kafkaraw.spark.errors import TableConflictError, TableError
from kafkaraw.spark.lake import iceberg_maintenance
from kafkaraw.spark.lake.commits import commit_batch
from kafkaraw.spark.lake.iceberg_maintenance import IcebergMaintenance
from kafkaraw.spark.lake.layout import Commit, CommitConflictError
from kafkaraw.spark.lake.maintenance import check_retention, grouped
from tests.spark.lake.tables import Lake, batch, no_pause, numbered

TARGET = 1 << 20
WEEK_S = 7 * 86_400


@pytest.fixture
def iceberg(tmp_path) -> Lake:
    return Lake("iceberg", tmp_path)


def make_older(lake: Lake, seconds: float) -> None:
    then = time.time() - seconds
    for path in lake.folder.rglob("*"):
        os.utime(path, (then, then))


def fill(lake: Lake, batches: int = 4) -> None:
    for number in range(batches):
        lake.write(numbered([number]), batch(number))


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ([], []),
        ([5], []),
        ([5, 5], [[0, 1]]),
        ([60, 50, 40, 10, 90], [[1, 2, 3]]),
        ([30, 30, 30, 30, 30, 30], [[0, 1, 2], [3, 4, 5]]),
    ],
)
def test_files_of_a_group_fit_into_the_target_size_and_none_is_alone(sizes, groups):
    assert grouped(sizes, 100) == groups


def test_small_files_of_each_partition_become_one_and_batches_stay_known(lake):
    for number in range(3):
        lake.write(pa.table({"n": [number, 10 + number], "p": ["a/b c", "ü"]}), batch(number), partitionBy="p")
    before = lake.rows().sort_by("n")
    done = lake.maintenance().optimize(TARGET)
    assert (done.removed_count, done.added_count) == (6, 2)
    assert done.removed_bytes > 0 < done.added_bytes
    assert lake.rows().sort_by("n") == before
    assert lake.open().last_batch("query").number == 2
    assert lake.maintenance().optimize(TARGET).removed_count == 0
    lake.write(pa.table({"n": [3], "p": ["ü"]}), batch(3))
    assert lake.numbers() == [0, 1, 2, 3, 10, 11, 12]


def test_description_has_files_columns_and_the_last_batch_of_each_query(lake):
    fill(lake, 3)
    lake.write(numbered([7, 8]), batch(0, query="other"))
    found = lake.maintenance().describe(TARGET)
    assert (found.files_count, found.small_files_count, found.rows_count) == (4, 4, 5)
    assert found.size_bytes > 0
    assert found.versions_count == (5 if lake.kind == "delta" else 4)  # Delta's first one made the table
    assert {query: (each.number, each.rows_count) for query, each in found.batches.items()} == {
        "query": (2, 1),
        "other": (0, 2),
    }
    assert found.schema.names == ["n"]
    assert time.time() * 1000 - found.changed_ms < 60_000


def test_a_table_without_rows_is_described_optimized_and_vacuumed(lake):
    lake.prepare(numbered([]).schema)
    assert lake.maintenance().describe(TARGET).files_count == 0
    assert lake.maintenance().optimize(TARGET).removed_count == 0
    assert lake.maintenance().vacuum(0, dry_run=False) == []
    assert lake.maintenance().expire(None, dry_run=False) == []


def test_vacuum_deletes_old_files_of_failed_writers_only(lake):
    fill(lake)
    _, layout = lake.prepare(numbered([]).schema)
    lake.files(numbered([98]), batch(7), layout)
    make_older(lake, WEEK_S + 7200)
    lake.files(numbered([99]), batch(8), layout)
    assert len(lake.maintenance().vacuum(WEEK_S, dry_run=True)) == 1
    assert len(lake.data_files()) == 6
    (deleted,) = lake.maintenance().vacuum(WEEK_S, dry_run=False)
    assert "_7_0_" in deleted
    assert lake.data_files() - lake.committed_files() == {each for each in lake.data_files() if "_8_0_" in each}
    assert lake.numbers() == [0, 1, 2, 3]


def test_vacuum_deletes_replaced_files_when_no_version_names_them(lake):
    fill(lake)
    lake.maintenance().optimize(TARGET)
    if lake.kind == "iceberg":
        assert lake.maintenance().vacuum(0, dry_run=True) == []  # older snapshots read them
        assert len(lake.maintenance().expire(0, dry_run=True)) == 4
        assert len(lake.maintenance().expire(0, dry_run=False)) == 4
    deleted = lake.maintenance().vacuum(0, dry_run=False)
    assert len([each for each in deleted if each.endswith(".parquet")]) == 4
    assert len(list(lake.folder.rglob("*.parquet"))) == 1
    assert lake.numbers() == [0, 1, 2, 3]
    lake.write(numbered([3]), batch(3, "restarted"))
    assert lake.numbers() == [0, 1, 2, 3]


def test_expire_keeps_the_batches_of_queries(lake):
    fill(lake)
    if lake.kind == "delta":
        with pytest.raises(UsageError, match=r"table property delta\.logRetentionDuration: leave --older-than out"):
            lake.maintenance().expire(5, dry_run=False)
        make_older(lake, 40 * 86_400)
        lake.write(numbered([4]), batch(4))
    assert lake.maintenance().expire(None if lake.kind == "delta" else 0, dry_run=True)
    assert lake.maintenance().expire(None if lake.kind == "delta" else 0, dry_run=False)
    last = lake.open().last_batch("query").number
    lake.write(numbered([last]), batch(last, "restarted"))
    assert lake.numbers() == [*range(last + 1)]


def test_snapshots_that_properties_and_tags_name_are_kept(iceberg):
    fill(iceberg, 5)
    inner = iceberg.open().inner
    first = inner.metadata.snapshots[0].snapshot_id
    inner.manage_snapshots().create_tag(first, "audit").commit()
    with inner.transaction() as transaction:
        transaction.set_properties({"history.expire.min-snapshots-to-keep": "2"})
    assert iceberg.maintenance().expire(None, dry_run=False) == []  # they are not 5 days old
    expired = {each.version for each in iceberg.maintenance().expire(0, dry_run=False)}
    assert len(expired) == 2
    assert first not in expired


def test_retention_below_an_hour_needs_a_table_without_writers():
    check_retention(3600, has_writers=True)
    check_retention(0, has_writers=False)
    with pytest.raises(UsageError, match="less than 3600"):
        check_retention(3599, has_writers=True)


def test_a_batch_whose_files_were_deleted_before_the_commit_is_refused(lake):
    table, layout = lake.prepare(numbered([]).schema)
    files = lake.files(numbered([1]), batch(0), layout)
    layout.delete([files[0].path])
    old = [dataclasses.replace(file, begun_s=file.begun_s - 7200) for file in files]
    with pytest.raises(
        TableError, match=r"1 data files of batch 0 of query query were deleted before they were .*_0_0_"
    ):
        commit_batch(table, Commit(batch(0), old), layout, sleep=no_pause)
    assert lake.numbers() == []


def test_vacuum_refuses_a_table_whose_files_are_elsewhere(iceberg, monkeypatch):
    fill(iceberg)
    Path(next(iter(iceberg.folder.rglob("kafkaraw_*.parquet")))).rename(iceberg.folder / "moved.parquet")
    with pytest.raises(TableError, match=r"1 files that snapshots name are not among .* Nothing was deleted"):
        iceberg.maintenance().vacuum(0, dry_run=False)


@pytest.mark.parametrize(
    ("written", "compared"),
    [("s3a://lake/a/b", "s3://lake/a/b"), ("file:/a/b", "file:///a/b"), ("/a/b", "file:///a/b")],
)
def test_locations_are_compared_without_their_scheme(written, compared):
    assert iceberg_maintenance._key(written) == iceberg_maintenance._key(compared)


def test_replaced_rows_are_equal_in_columns_that_were_added_renamed_dropped_and_nested(lake):
    lists = pa.list_(pa.struct([("id", pa.int32()), ("values", pa.list_(pa.int64()))]))
    first = pa.table({
        "n": [1, 2, 3], "old": ["a", "b", "c"], "nested": pa.array([[{"id": 1, "values": [1]}], [], None], lists),
        "gone": [1, 2, 3],
    })  # fmt: skip
    lake.write(first, batch(0))
    expected = first
    if lake.kind == "iceberg":
        with lake.open().inner.update_schema() as update:
            update.rename_column("old", "new").delete_column("gone")
        expected = first.drop_columns("gone").rename_columns(["n", "new", "nested"])
    second = expected.slice(0, 2).append_column("more", pa.array([True, None]))
    lake.write(second, batch(1), mergeSchema="true")
    expected = sorted(pa.concat_tables([expected, second], promote_options="default").to_pylist(), key=str)
    assert polars_rows(lake) == expected
    assert lake.maintenance().optimize(TARGET).removed_count == 2
    assert polars_rows(lake) == expected


def polars_rows(lake: Lake) -> list[dict[str, object]]:
    """The rows as Polars reads them; pyiceberg 0.12 reads null lists of structs as empty ones."""
    rows = (
        polars.scan_iceberg(lake.open().inner).collect() if lake.kind == "iceberg" else polars.from_arrow(lake.rows())
    )
    return sorted(rows.to_dicts(), key=str)


def test_files_whose_nested_fields_were_renamed_stay(iceberg):
    rows = pa.table({"n": [1], "x": pa.array([{"a": 1}])})
    iceberg.write(rows, batch(0))
    iceberg.write(rows, batch(1))
    with iceberg.open().inner.update_schema() as update:
        update.rename_column(("x", "a"), "b")
    iceberg.write(pa.table({"n": [2], "x": pa.array([{"b": 1}])}), batch(2))
    assert iceberg.maintenance().optimize(TARGET).removed_count == 0
    assert [each["b"] for each in iceberg.rows()["x"].to_pylist()] == [1, 1, 1]


def _interrupt(monkeypatch, action) -> None:
    """Do something before the first commit of a replacement."""
    commit, calls = IcebergMaintenance._commit, []

    def commit_late(self, *arguments) -> None:
        if not calls:
            calls.append(1)
            action()
        commit(self, *arguments)

    monkeypatch.setattr(IcebergMaintenance, "_commit", commit_late)
    monkeypatch.setattr(iceberg_maintenance, "_PAUSE_S", 0)


def test_a_replacement_is_committed_again_after_an_append(iceberg, monkeypatch):
    fill(iceberg)
    _interrupt(monkeypatch, lambda: iceberg.write(numbered([9]), batch(9)))
    assert iceberg.maintenance().optimize(TARGET).removed_count == 4
    assert iceberg.numbers() == [0, 1, 2, 3, 9]


def test_a_replacement_is_given_up_if_its_files_were_overwritten(iceberg, monkeypatch):
    fill(iceberg)
    _interrupt(monkeypatch, lambda: iceberg.write(numbered([9]), batch(9), overwrite=True))
    assert iceberg.maintenance().optimize(TARGET).removed_count == 0
    assert iceberg.numbers() == [9]
    assert not [each for each in iceberg.data_files() if "optimize" in each]


def test_replacements_that_always_conflict_are_told(iceberg, monkeypatch):
    fill(iceberg)
    _interrupt(monkeypatch, lambda: None)

    def conflict(*_: object) -> None:
        raise CommitConflictError("another one was faster")

    monkeypatch.setattr(IcebergMaintenance, "_commit", conflict)
    with pytest.raises(TableConflictError, match="other writers changed the table during each of 10 attempts"):
        iceberg.maintenance().optimize(TARGET)
    assert iceberg.numbers() == [0, 1, 2, 3]


def test_writers_and_maintenance_at_once_lose_no_rows(lake):
    lake.write(numbered([]), batch(0, query="first"))
    writers, batches = 2, 8
    is_done, errors = threading.Event(), []

    def write(writer: int) -> None:
        for number in range(batches):
            lake.write(numbered([100 * writer + number]), batch(number, query=f"query-{writer}"))

    def maintain() -> None:
        while not is_done.is_set():
            lake.maintenance().optimize(TARGET)
            lake.maintenance().expire(None if lake.kind == "delta" else 0, dry_run=False)
            lake.maintenance().vacuum(3600, dry_run=False)

    def told(action, *arguments) -> None:
        try:
            action(*arguments)
        except Exception as error:  # noqa: BLE001 - reported by the test
            errors.append(error)

    threads = [threading.Thread(target=told, args=(write, writer)) for writer in range(writers)]
    maintainer = threading.Thread(target=told, args=(maintain,))
    for thread in (*threads, maintainer):
        thread.start()
    for thread in threads:
        thread.join()
    is_done.set()
    maintainer.join()
    assert errors == []
    assert lake.numbers() == sorted(100 * writer + number for writer in range(writers) for number in range(batches))
    lake.maintenance().optimize(TARGET)
    assert lake.maintenance().describe(TARGET).files_count == 1
    lake.maintenance().expire(None if lake.kind == "delta" else 0, dry_run=False)
    lake.maintenance().vacuum(0, dry_run=False)
    assert len(list(lake.folder.rglob("*.parquet"))) == 1 + (lake.kind == "delta" and len(checkpoints(lake)))
    assert len(lake.numbers()) == writers * batches


def checkpoints(lake: Lake) -> list[Path]:
    return list(lake.folder.rglob("*.checkpoint.parquet"))
