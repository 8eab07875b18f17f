"""Spark reads the tables with the JARs of Delta Lake and Apache Iceberg, and writes to them, as other engines do."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from tests.spark.lake.readers_with_jars import MissingReaderError, Table, read_tables, why_missing
from tests.spark.lake.tables import FORMATS, Lake, batch
from tests.spark.lake.test_merges import changes, merge
from tests.spark.lake.test_sink import COLUMNS, ROWS, comparable, save

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

DAYS = [datetime.date(2026, 11, day) for day in (1, 2, 30)]


class Written:
    """Tables in folders of their own, and what Spark is asked about them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lakes: dict[str, Lake] = {}
        self.catalogs: dict[str, dict[str, str]] = {}
        self.tables: list[Table] = []

    def lake(self, kind: str, name: str, *statements: str, columns: str = "*") -> Lake:
        """Make a place for a table; `{table}` in the statements is the table."""
        known, place = f"{kind}_{name}", self.folder / f"{kind}_{name}"
        place.mkdir()
        self.lakes[known] = Lake(kind, place, settings={} if kind == "delta" else {"catalog": known})
        source = f"delta.`{place}/table`"
        if kind == "iceberg":
            source = f"{known}.flights.delays"
            self.catalogs[known] = {
                "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
                "uri": f"jdbc:sqlite:{place}/catalog.db",
                "warehouse": f"file://{place}",
                "cache-enabled": "false",
            }
        self.tables.append(Table(known, source, [each.format(table=source) for each in statements], columns))
        return self.lakes[known]


def flights(start: int, **more: pa.Array) -> pa.Table:
    numbers = range(start, start + 6)
    days = pa.array([DAYS[number % 3] for number in numbers], pa.date32())
    kinds = pa.array([f"a/b {number % 2}" for number in numbers])
    return pa.table({"n": pa.array(numbers, pa.int64()), "day": days, "kind": kinds, **more})


def write_partitions(lake: Lake) -> None:
    """Partitions and a new column; then fewer files, and neither old versions nor their files."""
    parts = "day,kind" if lake.kind == "delta" else "month(day),kind"
    for number in range(3):
        lake.write(flights(6 * number), batch(number), partitionBy=parts)
    gates = pa.array(["B7", None] * 3)
    lake.write(flights(18, gate=gates), batch(3), mergeSchema="true")
    assert lake.maintenance().optimize(1 << 20).removed_count > 0
    lake.write(flights(24, gate=gates), batch(4))
    lake.maintenance().expire(0 if lake.kind == "iceberg" else None, dry_run=False)
    assert lake.maintenance().vacuum(0, dry_run=False)


@pytest.fixture(scope="module")
def found(spark, tmp_path_factory) -> tuple[Written, Mapping[str, pa.Table]]:
    reason = why_missing()
    if reason is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("lakes")
    written = Written(folder)
    for kind in FORMATS:
        save(spark.createDataFrame(ROWS, COLUMNS).repartition(2), written.lake(kind, "types"))
        write_partitions(written.lake(kind, "partitions"))
        shared = written.lake(kind, "shared", "INSERT INTO {table} VALUES (100, date'2026-11-30', 'of Spark', 'C1')")
        write_partitions(shared)
    for kind in FORMATS:
        merged = written.lake(kind, "merged")
        merge(merged, changes(UA1=5, UA2=7, UA3=1), 0)
        merge(merged, changes(UA1=6, UA2=None, UA4=1), 1)
    try:
        files = read_tables(written.tables, written.catalogs, folder)
    except MissingReaderError as error:
        pytest.skip(str(error))
    return written, {name: pa.ipc.open_file(path).read_all() for name, path in files.items()}


def plain(rows: pa.Table) -> list[dict[str, object]]:
    return sorted(rows.to_pylist(), key=lambda row: row["n"])


@pytest.mark.parametrize("kind", FORMATS)
def test_every_type_is_read_equal(found, spark, kind):
    expected = spark.createDataFrame(ROWS, COLUMNS).toArrow().to_pylist()
    assert comparable(found[1][f"{kind}_types"].to_pylist()) == comparable(expected)


@pytest.mark.parametrize("kind", FORMATS)
def test_partitions_new_columns_and_maintained_files_are_read_equal(found, kind):
    written, rows = found
    assert plain(rows[f"{kind}_partitions"]) == plain(written.lakes[f"{kind}_partitions"].rows())
    assert [row["n"] for row in plain(rows[f"{kind}_partitions"])] == [*range(30)]
    assert [row["gate"] for row in plain(rows[f"{kind}_partitions"])] == [None] * 18 + ["B7", None] * 6


@pytest.mark.parametrize("kind", FORMATS)
def test_a_stream_goes_on_in_a_table_to_which_spark_has_written(found, kind):
    written, rows = found
    lake = written.lakes[f"{kind}_shared"]
    assert plain(rows[f"{kind}_shared"])[-1] == {"n": 100, "day": DAYS[2], "kind": "of Spark", "gate": "C1"}
    assert plain(rows[f"{kind}_shared"]) == plain(lake.rows())
    assert lake.open().last_batch("query").number == 4
    lake.write(flights(30), batch(5))
    lake.maintenance().optimize(1 << 20)
    assert lake.numbers() == [*range(36), 100]


@pytest.mark.parametrize("kind", FORMATS)
def test_merged_rows_are_read_equal(found, kind):
    written, rows = found
    merged = rows[f"{kind}_merged"]
    state = {row["flight"]: row["delay (min)"] for row in merged.to_pylist()}
    assert state == {"UA1": 6, "UA3": 1, "UA4": 1}
    assert merged.num_rows == written.lakes[f"{kind}_merged"].rows().num_rows
