"""A table has each batch once if several drivers commit it, and if other writers change the table in between."""

from __future__ import annotations

import dataclasses
import threading

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from kafkaraw.spark.errors import ChangedBatchError, TableConflictError, TableError, TableSchemaError
from kafkaraw.spark.lake import commits
from kafkaraw.spark.lake.batches import BatchId, CommittedBatch
from kafkaraw.spark.lake.commits import Verdict, commit_batch, judge
from kafkaraw.spark.lake.layout import Commit, CommitConflictError
from kafkaraw.spark.options.lake import OnChangedBatch
from tests.spark.lake.tables import Lake, batch, no_pause, numbered


@pytest.mark.parametrize(
    ("number", "rows", "last", "verdict"),
    [
        (0, 5, None, Verdict.COMMIT),
        (3, 5, CommittedBatch(2, 5), Verdict.COMMIT),
        (9, 5, CommittedBatch(2, 5), Verdict.COMMIT),
        (2, 5, CommittedBatch(2, 5), Verdict.REPEATED),
        (2, 5, CommittedBatch(2), Verdict.REPEATED),
        (1, 0, CommittedBatch(2, 5), Verdict.REPEATED),
    ],
)
def test_a_batch_is_committed_if_it_is_newer_than_the_last_one(number, rows, last, verdict):
    assert judge(batch(number), rows, last, OnChangedBatch.FAIL) is verdict


@pytest.mark.parametrize(("number", "rows"), [(2, 6), (2, 0), (1, 5)])
def test_other_rows_under_a_known_number_are_refused_or_skipped(number, rows):
    with pytest.raises(ChangedBatchError, match="has batch 2 of this query already, with 5 rows"):
        judge(batch(number), rows, CommittedBatch(2, 5), OnChangedBatch.FAIL)
    assert judge(batch(number), rows, CommittedBatch(2, 5), OnChangedBatch.SKIP) is Verdict.REPEATED


def test_a_repeated_batch_is_there_once_and_its_files_are_deleted(lake):
    assert lake.write(numbered(range(5)), batch(0)) is Verdict.COMMIT
    assert lake.write(numbered(range(5)), batch(0, "restarted")) is Verdict.REPEATED
    lake.write(numbered(range(5, 8)), batch(1, "restarted"))
    assert lake.numbers() == [*range(8)]
    assert lake.data_files() == lake.committed_files()


def test_queries_and_batch_writes_do_not_know_each_others_batches(lake):
    lake.write(numbered([1]), batch(0))
    lake.write(numbered([2]), batch(0, query="other"))
    lake.write(numbered([3]), BatchId("a" * 32, 0))
    lake.write(numbered([4]), BatchId("b" * 32, 0))
    assert lake.numbers() == [1, 2, 3, 4]


def test_an_empty_batch_changes_nothing(lake):
    lake.write(numbered([1]), batch(0))
    table, layout = lake.prepare(numbered([]).schema)
    assert commit_batch(table, Commit(batch(1), []), layout) is Verdict.COMMIT
    assert lake.open().last_batch("query").number == 0
    assert lake.numbers() == [1]


def test_files_of_failed_attempts_are_deleted_when_a_new_run_commits_the_batch(lake):
    lake.write(numbered([0]), batch(0))
    _, layout = lake.prepare(numbered([]).schema)
    lake.files(numbered([1, 2]), batch(1), layout)  # by a driver that dies then
    lake.files(numbered([7]), batch(1, query="other"), layout)
    assert len(lake.data_files()) == 3
    lake.write(numbered([1, 2]), batch(1, "restarted"))
    assert {name.split("_")[1] for name in lake.data_files() - lake.committed_files()} == {"other"}
    lake.files(numbered([3]), batch(2, "restarted"), layout)  # by a task that was killed
    lake.write(numbered([3]), batch(2, "restarted"))
    assert len(lake.data_files() - lake.committed_files()) == 2
    lake.files(numbered([4]), batch(3, "restarted"), layout)
    lake.write(numbered([4]), batch(3, "restarted"), retried=True)
    assert lake.numbers() == [0, 1, 2, 3, 4]


def test_two_drivers_that_commit_a_batch_at_once_put_it_into_the_table_once(lake):
    lake.write(numbered([0]), batch(0))
    prepared = []
    for run in ("zombie", "new"):
        table, layout = lake.prepare(numbered([]).schema)
        table.refresh()
        assert table.last_batch("query").number == 0
        prepared.append((table, layout, Commit(batch(1, run), lake.files(numbered([1, 2]), batch(1, run), layout))))
    first, second = prepared
    first[0].commit(first[2], first[1])
    with pytest.raises(CommitConflictError):  # it has looked before the other one has committed
        second[0].commit(second[2], second[1])
    assert commit_batch(second[0], second[2], second[1], sleep=no_pause) is Verdict.REPEATED
    assert lake.numbers() == [0, 1, 2]
    assert lake.data_files() == lake.committed_files()


def test_appends_of_many_writers_conflict_and_are_all_there(lake):
    lake.write(numbered([]), BatchId("first", 0))

    def write(writer: int) -> None:
        for number in range(3):
            lake.write(numbered([10 * writer + number]), batch(number, query=f"query-{writer}"))

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lake.numbers() == sorted(10 * writer + number for writer in range(4) for number in range(3))


def test_columns_that_another_writer_adds_are_no_conflict(lake):
    lake.write(numbered([0]), batch(0))
    table, layout = lake.prepare(numbered([]).schema)
    files = lake.files(numbered([1]), batch(1), layout)
    lake.write(pa.table({"n": [2], "more": ["x"]}), batch(0, query="other"), mergeSchema="true")
    assert commit_batch(table, Commit(batch(1), files), layout, sleep=no_pause) is Verdict.COMMIT
    assert lake.numbers() == [0, 1, 2]


def test_conflicts_without_end_are_told(lake, monkeypatch):
    table, layout = lake.prepare(numbered([]).schema)
    files = lake.files(numbered([1]), batch(0), layout)

    def conflict(*_: object) -> None:
        raise CommitConflictError("another one was faster")

    monkeypatch.setattr(table, "commit", conflict)
    pauses: list[float] = []
    with pytest.raises(TableConflictError, match="other writers changed the table during each of 20 attempts"):
        commit_batch(table, Commit(batch(0), files), layout, sleep=pauses.append)
    assert len(pauses) == commits._ATTEMPTS_MAX - 1
    assert max(pauses) == 2


def test_a_table_that_was_replaced_meanwhile_is_refused(lake):
    table, layout = lake.prepare(numbered([]).schema)
    files = lake.files(numbered([1]), batch(0), layout)
    replaced = dataclasses.replace(layout, **{"table_id" if lake.kind == "delta" else "table_uuid": "before"})
    with pytest.raises(TableError, match="another writer replaced the table while the batch was written"):
        commit_batch(table, Commit(batch(0), files), replaced)
    assert lake.numbers() == []


def test_a_column_that_another_engine_changed_meanwhile_is_told(lake):
    lake.write(pa.table({"n": [1], "s": ["x"]}), batch(0))
    table, layout = lake.prepare(numbered([]).schema)
    files = lake.files(numbered([2]), batch(1), layout)
    if lake.kind == "delta":
        write_deltalake(table.inner, pa.table({"n": [5], "s": [6]}), mode="overwrite", schema_mode="overwrite")
        told = r"changed column 's' while the batch was written: it was string, and is bigint\. Start the query again"
    else:
        with table.inner.update_schema() as update:
            update.delete_column("s")
        told = r"dropped column 's' \(string\) while the batch was written\. Start the query again"
    with pytest.raises(TableSchemaError, match=told):
        commit_batch(table, Commit(batch(1), files), layout, sleep=no_pause)
    lake.write(numbered([2]), batch(1))
    assert lake.numbers() == ([2, 5] if lake.kind == "delta" else [1, 2])


def test_a_partitioning_that_another_engine_changed_meanwhile_is_told(tmp_path):
    iceberg = Lake("iceberg", tmp_path)
    table, layout = iceberg.prepare(numbered([]).schema)
    files = iceberg.files(numbered([2]), batch(0), layout)
    with table.inner.update_spec() as update:
        update.add_identity("n")
    with pytest.raises(TableSchemaError, match="changed the partitioning while the batch was written"):
        commit_batch(table, Commit(batch(0), files), layout, sleep=no_pause)


def test_tables_with_features_that_writers_must_carry_out_are_refused(tmp_path):
    delta = Lake("delta", tmp_path)
    delta.write(numbered([1]), batch(0))
    delta.open().inner.alter.add_constraint({"positive": "n > 0"})
    with pytest.raises(TableError, match=r"it has delta\.constraints\.positive, which format kafkaraw\.delta does not"):
        delta.write(numbered([-1]), batch(1))


def test_overwriting_replaces_all_rows_and_is_repeated_once(lake):
    lake.write(numbered([1, 2]), batch(0))
    lake.write(numbered([3]), batch(1), overwrite=True)
    lake.write(numbered([3]), batch(1, "restarted"), overwrite=True)
    assert lake.numbers() == [3]
    lake.write(numbered([4]), batch(2))
    assert lake.numbers() == [3, 4]


def test_rows_that_do_not_fit_are_refused_with_column_and_types(lake):
    lake.write(numbered([1]), batch(0))
    with pytest.raises(TableSchemaError, match=r"column 'n' has type bigint in the table and string in the rows"):
        lake.write(pa.table({"n": ["1"]}), batch(1))
    with pytest.raises(TableSchemaError, match=r"'more' \(string\)\. Set the option mergeSchema to true"):
        lake.write(pa.table({"n": [2], "more": ["x"]}), batch(1))
    with pytest.raises(TableSchemaError, match=r"the rows have a column 'N', the table has 'n'"):
        lake.write(pa.table({"N": [2]}), batch(1))
    with pytest.raises(TableSchemaError, match=r"partitionBy='n', and the table is partitioned by nothing"):
        lake.write(numbered([1]), batch(1), partitionBy="n")
    assert lake.numbers() == [1]


def test_narrower_types_and_missing_columns_fit(lake):
    lake.write(pa.table({"n": [1], "s": ["x"], "x": pa.array([{"a": 1, "b": "y"}])}), batch(0))
    lake.write(pa.table({"n": pa.array([2], pa.int16())}), batch(1))
    lake.write(pa.table({"x": pa.array([{"a": 3}]), "n": [3]}), batch(2))
    assert lake.rows().sort_by("n").to_pylist() == [
        {"n": 1, "s": "x", "x": {"a": 1, "b": "y"}},
        {"n": 2, "s": None, "x": None},
        {"n": 3, "s": None, "x": {"a": 3, "b": None}},
    ]


def test_columns_and_fields_of_structs_are_added(lake):
    lake.write(pa.table({"n": [1], "x": pa.array([{"a": 1}])}), batch(0))
    lake.write(pa.table({"n": [2], "x": pa.array([{"a": 2, "b": "y"}]), "d": [1.5]}), batch(1), mergeSchema="true")
    assert lake.rows().sort_by("n").to_pylist() == [
        {"n": 1, "x": {"a": 1, "b": None}, "d": None},
        {"n": 2, "x": {"a": 2, "b": "y"}, "d": 1.5},
    ]
