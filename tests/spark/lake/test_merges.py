"""A micro-batch merged into a table by key: updates, inserts, deletes, once; and rows that cannot be merged."""

from __future__ import annotations

import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkaraw.errors import ConfigError
from kafkaraw.spark import table_merger
from kafkaraw.spark.errors import ChangedBatchError, TableConflictError, TableError, TableSchemaError
from kafkaraw.spark.lake import commits
from kafkaraw.spark.lake.delta import DeltaLakeTable
from kafkaraw.spark.lake.iceberg import IcebergLakeTable
from kafkaraw.spark.lake.layout import CommitConflictError
from kafkaraw.spark.lake.merges import _DELETED, merge_rows
from tests.spark.lake.tables import FORMATS, Lake, batch


@pytest.fixture(params=FORMATS)
def lake(request, tmp_path, monkeypatch) -> Lake:
    monkeypatch.setattr(commits, "_PAUSE_S", 0)
    return Lake(request.param, tmp_path)


STEPS = {"delta": (DeltaLakeTable, "merge"), "iceberg": (IcebergLakeTable, "replace")}
"""The method that commits a MERGE."""


def changes(**values: int | None) -> pa.Table:
    """Rows by key; None deletes."""
    return pa.table(
        {
            "flight": pa.array(values, pa.string()),
            "delay (min)": pa.array(values.values(), pa.int64()),
            _DELETED: pa.array([each is None for each in values.values()], pa.bool_()),
        }
    )


def merge(lake: Lake, rows: pa.Table, number: int, run: str = "run", query: str = "query", **options: str) -> None:
    number_of = batch(number, run, query)
    is_delta = lake.kind == "delta"
    merge_rows(lake.options(**options), rows, ["flight"], number_of, is_ordered=False, is_delta=is_delta)


def state(lake: Lake) -> dict[str, int]:
    rows = lake.rows()
    return dict(zip(rows["flight"].to_pylist(), rows["delay (min)"].to_pylist(), strict=True))


def test_rows_update_insert_and_delete_by_key(lake):
    merge(lake, changes(UA1=5, UA2=7, UA3=None), 0)
    assert state(lake) == {"UA1": 5, "UA2": 7}
    merge(lake, changes(UA1=6, UA2=None, UA4=1), 1)
    assert state(lake) == {"UA1": 6, "UA4": 1}
    assert lake.open().last_batch("query").number == 1


def test_a_repeated_micro_batch_is_not_merged_again(lake):
    merge(lake, changes(UA1=5), 0)
    merge(lake, changes(UA1=6), 0, query="other")
    merge(lake, changes(UA1=5), 0, "restarted")
    assert state(lake) == {"UA1": 6}
    with pytest.raises(ChangedBatchError, match="has batch 0 of this query already, with 1 rows"):
        merge(lake, changes(UA1=5, UA2=5), 0, "restarted")
    merge(lake, changes(), 1)
    assert state(lake) == {"UA1": 6}


def test_partitions_and_columns_are_those_of_the_table(lake):
    rows = changes(UA1=5, UA2=7).append_column("day", pa.array(["a/b", "c"]))
    merge(lake, rows, 0, partitionBy="day")
    merge(lake, changes(UA1=6), 1)
    assert lake.rows().sort_by("flight").to_pylist() == [
        {"flight": "UA1", "delay (min)": 6, "day": "a/b"},
        {"flight": "UA2", "delay (min)": 7, "day": "c"},
    ]
    with pytest.raises(TableSchemaError, match=r"'gate' \(string\)\. Set the option mergeSchema to true"):
        merge(lake, changes(UA1=5).append_column("gate", pa.array(["B7"])), 2)
    merge(lake, changes(UA1=5).append_column("gate", pa.array(["B7"])), 2, mergeSchema="true")
    assert lake.rows().sort_by("flight")["gate"].to_pylist() == ["B7", None]


def test_merges_of_many_queries_conflict_and_are_all_there(lake):
    merge(lake, changes(), 0)
    errors = []

    def write(writer: int) -> None:
        try:
            for number in range(3):
                merge(lake, changes(**{f"{writer}-{number}": 1, "shared": writer}), number, query=f"query-{writer}")
        except Exception as error:  # noqa: BLE001 - reported by the test
            errors.append(error)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert set(state(lake)) == {f"{writer}-{number}" for writer in range(3) for number in range(3)} | {"shared"}


def test_a_driver_that_was_replaced_does_not_merge_after_the_new_one(lake, monkeypatch):
    merge(lake, changes(UA1=1), 0)
    kind, step = STEPS[lake.kind]
    step_inner, calls = getattr(kind, step), []

    def step_late(self, *arguments) -> None:
        if not calls:
            calls.append(1)
            merge(lake, changes(UA1=2), 1, "new")
            merge(lake, changes(UA1=3), 2, "new")
        step_inner(self, *arguments)

    monkeypatch.setattr(kind, step, step_late)
    with pytest.raises(ChangedBatchError, match="has batch 2 of this query already"):
        merge(lake, changes(UA1=2), 1, "replaced")
    assert state(lake) == {"UA1": 3}


def test_conflicts_without_end_are_told(lake, monkeypatch):
    def conflict(*_: object) -> None:
        raise CommitConflictError("another one was faster")

    monkeypatch.setattr(*STEPS[lake.kind], conflict)
    with pytest.raises(TableConflictError, match="other writers changed the table during each of 20 attempts"):
        merge(lake, changes(UA1=1), 0)


@pytest.fixture
def iceberg(tmp_path) -> Lake:
    return Lake("iceberg", tmp_path)


def test_files_without_a_key_stay_as_they_are(iceberg):
    merge(iceberg, changes(UA1=1, UA2=2), 0)
    merge(iceberg, changes(XX1=1, XX2=2, XX3=3), 1)
    before = iceberg.committed_files()
    merge(iceberg, changes(UA1=None, UA2=5), 2)
    now = {task.file.file_path.rpartition("/")[2] for task in iceberg.open().inner.scan().plan_files()}
    assert len(now) == 2
    assert len(now & before) == 1
    assert state(iceberg) == {"UA2": 5, "XX1": 1, "XX2": 2, "XX3": 3}


def test_deletes_of_keys_that_are_not_there_are_counted_as_a_micro_batch(iceberg):
    merge(iceberg, changes(UA1=1), 0)
    merge(iceberg, changes(UA9=None), 1)
    assert state(iceberg) == {"UA1": 1}
    assert iceberg.open().last_batch("query").number == 1


@pytest.mark.parametrize("count", [3, 1000])
def test_many_keys_of_two_columns_and_nested_values_are_merged(iceberg, count):
    def rows(numbers: range, label: str) -> pa.Table:
        nested = pa.array([None if n % 3 == 0 else [{"id": n, "label": label}] for n in numbers])
        return pa.table({
            "n": pa.array(numbers, pa.int64()), "p": [f"p{n % 2}" for n in numbers], "nested": nested,
            _DELETED: [n % 7 == 1 for n in numbers],
        })  # fmt: skip

    def put(numbers: range, label: str, number: int) -> None:
        merge_rows(iceberg.options(partitionBy="p"), rows(numbers, label), ["n", "p"], batch(number), is_delta=False)

    put(range(count), "a", 0)
    put(range(count // 2, 2 * count), "b", 1)
    expected = {
        n: None if n % 3 == 0 else [{"id": n, "label": "b" if n >= count // 2 else "a"}]
        for n in range(2 * count)
        if n % 7 != 1
    }
    files = [task.file.file_path.removeprefix("file://") for task in iceberg.open().inner.scan().plan_files()]
    found = pa.concat_tables([pq.ParquetFile(file).read() for file in files])  # see test_sink about null lists
    assert dict(zip(found["n"].to_pylist(), found["nested"].to_pylist(), strict=True)) == expected
    assert found.num_rows == len(expected)


def test_files_of_a_merge_that_conflicts_are_deleted(iceberg, monkeypatch):
    merge(iceberg, changes(UA1=1), 0)
    inner, calls = IcebergLakeTable.replace, []

    def replace_late(self, *arguments) -> None:
        if not calls:
            calls.append(1)
            merge(iceberg, changes(UA2=2), 0, query="other")
        inner(self, *arguments)

    monkeypatch.setattr(IcebergLakeTable, "replace", replace_late)
    merge(iceberg, changes(UA1=3), 1)
    assert state(iceberg) == {"UA1": 3, "UA2": 2}
    assert iceberg.data_files() == iceberg.committed_files()


def test_keys_that_are_null_or_not_unique_are_refused(lake):
    rows = pa.table({"flight": ["UA1", None], "n": [1, 2], _DELETED: [False, False]})
    with pytest.raises(TableSchemaError, match="the key column 'flight' is null in 1 rows"):
        merge(lake, rows, 0)
    rows = pa.table({"flight": ["UA1", "UA1"], "n": [1, 2], _DELETED: [False, False]})
    with pytest.raises(TableError, match=r"2 rows of the micro-batch have 1 keys \(flight\): give order_by"):
        merge(lake, rows, 0)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"keys": []}, "name at least one column"),
        ({"keys": ["a"], "leave_out": ["a", "b"]}, "leave_out has a, which keys have, too"),
        ({"keys": ["a"], "name": "a/b"}, "must be at most 100 letters"),
    ],
)
def test_arguments_that_cannot_work_are_refused_at_once(tmp_path, given, told):
    with pytest.raises(ConfigError, match=told):
        table_merger({"path": str(tmp_path)}, **given)
    with pytest.raises(ConfigError, match=r"format='delta': table_merger writes kafkaraw.delta and kafkaraw.iceberg"):
        table_merger({"path": str(tmp_path)}, keys=["a"], format="delta")
    with pytest.raises(ConfigError, match=r"unknown option .pth. of format kafkaraw\.delta; did you mean path\?"):
        table_merger({"pth": "x"}, keys=["a"])
