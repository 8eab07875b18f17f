"""Data files of a task: their sizes, how many are open at once, and what stays after an error."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from kafkaraw.spark.errors import TableSchemaError
from kafkaraw.spark.lake.data_files import write_files
from tests.spark.lake.tables import Lake, batch, numbered


def random_rows(count: int) -> pa.Table:
    draw = random.Random(count)
    return pa.table({"n": range(count), "s": [draw.randbytes(draw.randrange(20, 80)).hex() for _ in range(count)]})


@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_full_files_are_within_a_fifth_of_the_target_size(lake, compression):
    target = 256 << 10
    rows = random_rows(20_000)
    _, layout = lake.prepare(rows.schema)
    files = lake.files(rows, batch(0), layout, targetFileSize="256k", compression=compression)
    assert len(files) > 3
    assert [file.size_bytes for file in files[:-1] if not 0.8 * target < file.size_bytes < 1.2 * target] == []
    assert sum(file.rows_count for file in files) == 20_000


def test_a_task_with_more_partitions_than_open_files_writes_all_rows(lake):
    rows = pa.table({"n": range(300), "p": [number % 100 for number in range(300)]})
    lake.write(rows, batch(0), partitionBy="p")
    assert lake.numbers() == [*range(300)]
    assert lake.data_files() == lake.committed_files()


def test_a_task_that_fails_deletes_its_files(lake):
    rows = random_rows(5_000)
    _, layout = lake.prepare(rows.schema)

    def ends() -> Iterator[pa.RecordBatch]:
        yield from rows.to_batches(500)
        raise RuntimeError("the source is gone")

    with pytest.raises(RuntimeError, match="the source is gone"):
        write_files(ends(), layout, lake.options(targetFileSize="64k"), batch(0), 0)
    assert lake.data_files() == set()


def test_a_null_in_a_column_that_takes_none_is_refused(tmp_path):
    lake = Lake("iceberg", tmp_path)
    lake.write(numbered([1]), batch(0))
    with lake.open().inner.update_schema(allow_incompatible_changes=True) as update:
        update.update_column("n", required=True)
    with pytest.raises(TableSchemaError, match="column 'n' takes no null, and 1 rows have one"):
        lake.write(numbered([2, None]), batch(1))
    assert lake.numbers() == [1]
