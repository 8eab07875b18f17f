"""Streaming tables: every micro-batch is added once, whatever happens between two steps."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkaraw.errors import ConfigError
from kafkaraw.pipelines import tables
from kafkaraw.pipelines.tables import BatchId, StreamingTable, file_name_of


class Killed(BaseException):
    """Ends an attempt at a step, like SIGKILL: nothing is cleaned up."""


@pytest.fixture
def table(tmp_path: Path) -> StreamingTable:
    return StreamingTable(tmp_path / "clean")


def numbers(spark, table: StreamingTable) -> list[int]:
    found = spark.read.schema("n LONG").option("recursiveFileLookup", "false").parquet(str(table.path))
    return sorted(row.n for row in found.collect())


def batch(number: int, flow: str = "clean", generation: int = 1) -> BatchId:
    return BatchId(flow, generation, number)


def rows(spark, *values: int):
    return spark.createDataFrame([(value,) for value in values], "n LONG").coalesce(1)


def test_batches_of_several_flows_and_generations_are_added(spark, table):
    for each in (batch(0), batch(1), batch(0, "other"), batch(0, generation=2)):
        table.append(rows(spark, each.number), each)
    assert numbers(spark, table) == [0, 0, 0, 1]


def test_a_repeated_batch_is_added_once_and_keeps_the_first_attempts_rows_and_metrics(spark, table):
    table.append(rows(spark, 1), batch(0), lambda: {"seen": {"rows": 1}})
    repeated = table.append(rows(spark, 2, 3), batch(0), lambda: {"seen": {"rows": 2}})
    assert numbers(spark, table) == [1]
    assert repeated.metrics == {"seen": {"rows": 1}}
    assert repeated.rows == 1


def test_an_attempt_killed_before_its_decision_leaves_no_row(spark, table, monkeypatch):
    def killed(path: Path, text: str) -> None:
        raise Killed

    with monkeypatch.context() as patches, pytest.raises(Killed):
        patches.setattr(tables, "write_atomically", killed)
        table.append(rows(spark, 1), batch(0))
    assert numbers(spark, table) == []
    table.append(rows(spark, 2), batch(0))
    assert numbers(spark, table) == [2]
    assert not list((table.path / "_kafkaraw/staged/clean").glob("*"))


@pytest.mark.parametrize("renamed", [0, 1])
def test_an_attempt_killed_while_it_publishes_is_finished_by_the_repetition(spark, table, monkeypatch, renamed):
    original, calls = Path.rename, []

    def rename(path: Path, target: Path) -> Path:
        if path.suffix == ".parquet":
            calls.append(path)
            if len(calls) > renamed:
                raise Killed
        return original(path, target)

    with monkeypatch.context() as patches, pytest.raises(Killed):
        patches.setattr(Path, "rename", rename)
        table.append(rows(spark, 1, 2).repartition(2, "n"), batch(0))
    StreamingTable(table.path).append(rows(spark, 9), batch(0))
    assert numbers(spark, table) == [1, 2]


def test_recover_publishes_what_was_decided_before_readers_come(spark, table, monkeypatch):
    with monkeypatch.context() as patches, pytest.raises(Killed):
        patches.setattr(StreamingTable, "_publish", lambda *_: (_ for _ in ()).throw(Killed()))
        table.append(rows(spark, 5), batch(0))
    assert numbers(spark, table) == []
    table.recover()
    table.recover()
    assert numbers(spark, table) == [5]


def test_an_empty_batch_makes_no_file_and_is_decided(spark, table):
    assert table.append(rows(spark), batch(0)).rows == 0
    assert table.files() == []
    assert table.decision(batch(0)) is not None


def test_a_partitioned_table_has_the_partition_in_its_paths(spark, tmp_path):
    table = StreamingTable(tmp_path / "by-day", partition_columns=("day",))
    frame = spark.createDataFrame([(1, "mon"), (2, "tue")], "n LONG, day STRING")
    table.append(frame, batch(0))
    assert {file.parent.name for file in table.files()} == {"day=mon", "day=tue"}
    assert sorted(map(tuple, spark.read.parquet(str(table.path)).collect())) == [(1, "mon"), (2, "tue")]


def test_a_streaming_query_reads_each_row_of_a_growing_table_once(spark, table, tmp_path):
    def read_on() -> None:
        stream = spark.readStream.schema("n LONG").parquet(str(table.path))
        query = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start(str(tmp_path / "copy")).awaitTermination(60)

    for number in range(3):
        table.append(rows(spark, number), batch(number))
        table.append(rows(spark, number), batch(number))
        read_on()
    assert sorted(row.n for row in spark.read.parquet(str(tmp_path / "copy")).collect()) == [0, 1, 2]


def test_only_the_last_manifests_of_a_flow_stay(spark, table):
    for number in range(4):
        table.append(rows(spark, number), batch(number))
    assert table.decision(batch(3)) is not None
    assert table.decision(batch(1)) is None


def test_a_deleted_file_of_a_decided_batch_is_named(spark, table):
    table.append(rows(spark, 1), batch(0))
    shutil.rmtree(table.path / "_kafkaraw/staged")
    [file] = table.files()
    file.unlink()
    with pytest.raises(ConfigError, match="its micro-batch was written, and the file was deleted since"):
        table.append(rows(spark, 1), batch(0))


def test_columns_may_be_added_and_not_change_their_type(spark, table):
    table.evolve(rows(spark).schema)
    wider = table.evolve(spark.createDataFrame([], "n LONG, at TIMESTAMP").schema)
    assert wider.names == ["n", "at"]
    assert table.evolve(rows(spark).schema).names == ["n", "at"]
    with pytest.raises(ConfigError, match="column 'n' is bigint in the files, and string in the definition"):
        table.evolve(spark.createDataFrame([], "n STRING").schema)


def test_names_of_files_have_no_special_characters_and_do_not_collide():
    assert file_name_of("clean-1") == "clean-1"
    assert file_name_of("delays_by_hour") == "delays_by_hour"
    assert file_name_of("db.clean") != file_name_of("db-clean")
    assert file_name_of("_hidden").startswith("hidden-")
    assert all(c.isalnum() or c == "-" for c in file_name_of("spark_catalog.`a b`/../x"))
