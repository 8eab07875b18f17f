"""Spark writes lake tables: every type read back equal by other engines, streams that start again, `foreachBatch`."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from kafkaraw.spark import batch_writer, table_merger
from tests.spark.lake.tables import FORMATS, Lake

COLUMNS = (
    "n bigint, i int, small smallint, tiny tinyint, real float, x double, ok boolean, s string, raw binary, "
    "day date, at timestamp, local timestamp_ntz, amount decimal(12,3), large decimal(38,10), "
    "tags array<string>, point struct<x:double,label:string>, counts map<string,bigint>, "
    "nested array<struct<id:int,values:array<bigint>>>"
)
UTC = datetime.UTC
ROWS = [
    (
        1, 2**31 - 1, -32768, 127, 0.5, -1e300, True, "Zürich \U0001f6eb\n", b"\x00\xff", datetime.date(1969, 12, 31),
        datetime.datetime(2026, 3, 29, 1, 30, 0, 123456, UTC), datetime.datetime(2026, 3, 29, 2, 30, 0, 1),
        Decimal("123456789.125"), Decimal("-1234567890123456789012345678.0123456789"),
        ["a", None, ""], (1.5, "x"), {"a": 1, "b": None}, [(1, [1, 2]), (2, [])],
    ),
    (
        2, -(2**31), 32767, -128, float("inf"), float("nan"), False, "", b"", datetime.date(9999, 12, 31),
        datetime.datetime(1970, 1, 1, tzinfo=UTC), datetime.datetime(1970, 1, 1),
        Decimal("0.000"), Decimal("0E-10"), [], (None, None), {}, [],
    ),
    (3, *[None] * 17),
]  # fmt: skip


@pytest.fixture
def delta(tmp_path) -> Lake:
    return Lake("delta", tmp_path)


def save(rows, lake: Lake, mode: str = "append", **options: str) -> None:
    rows.write.format(f"kafkaraw.{lake.kind}").options(**lake.given(**options)).mode(mode).save()


def comparable(rows: list[dict[str, object]]) -> list[str]:
    """Rows as text, so that NaN equals itself; zones and pairs of a map are written in one way."""

    def plain(value: object) -> object:
        match value:
            case datetime.datetime() if value.tzinfo:
                return value.astimezone(UTC).replace(tzinfo=None).isoformat()
            case datetime.datetime():
                return value.isoformat()
            case dict() if set(value) == {"key", "value"}:
                return plain((value["key"], value["value"]))
            case dict():
                return {name: plain(each) for name, each in value.items()}
            case list() | tuple():
                return [plain(each) for each in value]
            case bytes() | bytearray():
                return bytes(value).hex()
            case Decimal():
                return f"{value:f}"
            case _:
                return value

    def row(values: dict[str, object]) -> str:
        counts = values["counts"]
        pairs = sorted(counts.items()) if isinstance(counts, dict) else counts
        return repr({name: plain(each) for name, each in (values | {"counts": pairs}).items()})

    return sorted(row(each) for each in rows)


def data_uris(lake: Lake) -> list[str]:
    inner = lake.open().inner
    if lake.kind == "delta":
        return inner.file_uris()
    return [task.file.file_path.removeprefix("file://") for task in inner.scan().plan_files()]


def test_every_type_is_read_back_equal_by_other_engines(spark, lake):
    save(spark.createDataFrame(ROWS, COLUMNS).repartition(2), lake)
    written = [dict(zip(spark.createDataFrame(ROWS, COLUMNS).columns, row, strict=True)) for row in ROWS]
    for row in written:
        if row["point"] is not None:
            row["point"] = dict(zip(("x", "label"), row["point"], strict=True))
            row["nested"] = [dict(zip(("id", "values"), each, strict=True)) for each in row["nested"]]
    expected = comparable(written)
    assert comparable(read_by_polars(lake).to_arrow().to_pylist()) == expected
    assert comparable(read_by_duckdb(lake).to_pylist()) == expected
    assert comparable(spark.read.parquet(*data_uris(lake)).toArrow().to_pylist()) == expected
    if lake.kind == "iceberg":  # pyiceberg 0.12 reads a null list of structs as an empty one
        written[2]["nested"] = []
    assert comparable(lake.rows().to_pylist()) == comparable(written)


def read_by_duckdb(lake: Lake) -> pa.Table:
    """DuckDB scans what deltalake opens, and the files of Iceberg; its own extensions are downloads."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone='UTC'")
    if lake.kind == "delta":
        connection.register("found", lake.open().inner.to_pyarrow_dataset())
        return connection.sql("SELECT * FROM found").to_arrow_table()
    return connection.read_parquet(data_uris(lake)).to_arrow_table()


def read_by_polars(lake: Lake) -> polars.DataFrame:
    if lake.kind == "delta":
        return polars.read_delta(str(lake.folder / "table"))
    return polars.scan_iceberg(lake.open().inner).collect()


def test_partitions_are_read_back_and_pruned(spark, lake):
    rows = spark.range(20).selectExpr(
        "id AS n", "date_add(date'2026-01-01', cast(id % 3 AS int)) AS day", "id % 2 AS p"
    )
    save(rows.repartition(2), lake, partitionBy="day,p" if lake.kind == "delta" else "month(day),p")
    assert lake.numbers() == [*range(20)]
    if lake.kind == "delta":
        found = lake.open().inner.to_pyarrow_table(filters=[("day", "=", datetime.date(2026, 1, 2))])
        assert set(lake.open().partition_columns) == {"day", "p"}
    else:
        found = lake.open().inner.scan("day = '2026-01-02'").to_arrow()
        assert lake.open().partition_columns == ["month(day)", "p"]
    assert sorted(found["n"].to_pylist()) == [1, 4, 7, 10, 13, 16, 19]
    day = datetime.date(2026, 1, 2)
    assert sorted(read_by_polars(lake).filter(polars.col("day") == day)["n"]) == [1, 4, 7, 10, 13, 16, 19]


def test_modes_of_batch_writes(spark, lake):
    save(spark.range(3).toDF("n"), lake)
    save(spark.range(3, 5).toDF("n"), lake)
    save(spark.range(9).toDF("n"), lake, saveMode="ignore")
    with pytest.raises(PySparkException, match="it has rows, and the option saveMode is errorifexists"):
        save(spark.range(9).toDF("n"), lake, saveMode="errorifexists")
    assert lake.numbers() == [0, 1, 2, 3, 4]
    save(spark.range(2).toDF("n"), lake, mode="overwrite")
    assert lake.numbers() == [0, 1]


def test_a_failed_task_leaves_no_row_and_no_file(spark, lake):
    rows = spark.range(40, numPartitions=1).selectExpr("if(id = 39, raise_error('no'), id) AS n")
    save(spark.range(0).toDF("n"), lake)
    with pytest.raises(PySparkException, match="no"):
        save(rows, lake)
    assert lake.numbers() == []
    assert lake.data_files() == set()


def add(source: Path, name: str, *rows: dict[str, object]) -> None:
    source.mkdir(exist_ok=True)
    (source / name).write_text("\n".join(json.dumps(row) for row in rows))


def stream(spark, source: Path, columns: str):
    return spark.readStream.schema(columns).option("maxFilesPerTrigger", "1").json(str(source))


def run_to_its_end(writer, checkpoint: Path) -> None:
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(100)


def forget_commit(checkpoint: Path, batch: int) -> None:
    """The query was killed before Spark knew that the micro-batch was committed."""
    (checkpoint / "commits" / str(batch)).unlink()
    (checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)


def test_a_stream_that_repeats_a_micro_batch_writes_it_once(spark, lake, tmp_path):
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"

    def run() -> None:
        rows = stream(spark, source, "n bigint")
        run_to_its_end(rows.writeStream.format(f"kafkaraw.{lake.kind}").options(**lake.given()), checkpoint)

    add(source, "1.json", {"n": 1}, {"n": 2})
    run()
    forget_commit(checkpoint, 0)
    add(source, "2.json", {"n": 3})
    run()
    assert lake.numbers() == [1, 2, 3]
    assert lake.data_files() == lake.committed_files()


def test_writers_of_one_stream_fill_tables_once(spark, tmp_path):
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    lakes = [Lake(kind, tmp_path / kind) for kind in FORMATS]
    for lake in lakes:
        lake.folder.mkdir()

    def run() -> None:
        writers = [batch_writer(lake.given(), name=lake.kind, format=f"kafkaraw.{lake.kind}") for lake in lakes]

        def write(batch, number: int) -> None:
            for writer in writers:
                writer(batch, number)

        run_to_its_end(stream(spark, source, "n bigint").writeStream.foreachBatch(write), checkpoint)

    add(source, "1.json", {"n": 1}, {"n": 2})
    run()
    forget_commit(checkpoint, 0)
    add(source, "2.json", {"n": 3})
    run()
    assert [lake.numbers() for lake in lakes] == [[1, 2, 3]] * 2


def test_a_stream_is_merged_by_key_once(spark, delta, tmp_path):
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    columns = "`the key` string, n bigint, offset bigint, op string"

    def run() -> None:
        merge = table_merger(
            delta.given(), keys=["the key"], order_by="offset", deleted="op = 'd'", leave_out=["offset", "op"]
        )
        run_to_its_end(stream(spark, source, columns).writeStream.foreachBatch(merge), checkpoint)

    def change(key: str, n: int | None, offset: int, op: str = "u") -> dict[str, object]:
        return {"the key": key, "n": n, "offset": offset, "op": op}

    add(source, "1.json", change("a", 2, 1), change("a", 1, 0), change("b", 1, 2), change("c", None, 3, "d"))
    run()
    assert sorted(delta.rows().to_pylist(), key=str) == [{"the key": "a", "n": 2}, {"the key": "b", "n": 1}]
    forget_commit(checkpoint, 0)
    add(source, "2.json", change("a", None, 5, "d"), change("b", 7, 6), change("d", 1, 4, "d"), change("d", 2, 7))
    run()
    assert sorted(delta.rows().to_pylist(), key=str) == [{"the key": "b", "n": 7}, {"the key": "d", "n": 2}]
    assert delta.open().inner.version() == 2  # made, and two merges


def test_rows_that_cannot_be_merged_end_the_query(spark, delta, tmp_path):
    add(tmp_path / "in", "1.json", {"k": "a", "n": 1}, {"k": "a", "n": 2})
    rows = stream(spark, tmp_path / "in", "k string, n bigint")
    with pytest.raises(PySparkException, match=r"2 rows of the micro-batch have 1 keys \(k\): give order_by"):
        run_to_its_end(rows.writeStream.foreachBatch(table_merger(delta.given(), keys=["k"])), tmp_path / "a")
    with pytest.raises(PySparkException, match="there is no column key; the rows have k, n"):
        run_to_its_end(rows.writeStream.foreachBatch(table_merger(delta.given(), keys=["key"])), tmp_path / "b")
