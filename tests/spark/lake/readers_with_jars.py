"""Spark's own readers of Delta Lake and Apache Iceberg: their JARs, and the Spark that they were released for.

As a program, in that Spark's Python: read tables, and write the rows of each into a file of Arrow's. A table may be
changed by Spark before. The one argument is JSON: see `Table`. It must not import kafkaraw: what it starts is the
yardstick. Start at `read_tables`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

SPARK: Final = ("4.1", "pyspark==4.1.*")
"""The newest version of Spark for which both formats have JARs; the name is that of `tests.spark_versions`."""
JARS: Final = (
    ("io.delta", "delta-spark_4.1_2.13", "4.4.0"),
    ("io.delta", "delta-storage", "4.4.0"),
    ("io.delta", "delta-kernel-api", "4.4.0"),
    ("io.delta", "delta-kernel-defaults", "4.4.0"),
    ("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.12.0"),
    ("org.xerial", "sqlite-jdbc", "3.50.3.0"),
)
SECONDS_MAX: Final = 300


class MissingReaderError(Exception):
    """This machine cannot have Spark's readers; the message says why."""


@dataclass(frozen=True)
class Table:
    """What is read.

    Attributes:
        name: of the table in the SQL statements of this test.
        source: after FROM: a path of Delta, or a name in the catalog of Iceberg.
        statements: SQL that is executed before it is read.
        columns: what is selected.
    """

    name: str
    source: str
    statements: Sequence[str] = ()
    columns: str = "*"


def why_missing() -> str | None:
    """What this machine lacks, or None."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            return f"Spark's readers of lake tables need `{program}` on the path"
    return None


def read_tables(tables: Sequence[Table], catalogs: Mapping[str, Mapping[str, str]], folder: Path) -> dict[str, Path]:
    """Read tables in one Spark session.

    Args:
        tables: to read.
        catalogs: properties of Iceberg's catalogs, by name.
        folder: for the files with rows.

    Returns:
        files in Arrow's format, by the name of the table.

    Raises:
        MissingReaderError: the JARs or that Spark cannot be fetched.
    """
    from tests.interop.apache_kafka import ApacheKafkaError, fetch_artifact
    from tests.spark_versions import CACHE, prepare

    release, problem = prepare(CACHE / SPARK[0], SPARK[1])
    if release is None:
        raise MissingReaderError(f"Spark {SPARK[0]} cannot be installed: {problem}")
    try:
        jars = [str(fetch_artifact(*each)) for each in JARS]
    except ApacheKafkaError as error:
        raise MissingReaderError(str(error)) from error
    asked = {
        "jars": jars, "catalogs": catalogs, "folder": str(folder), "tables": [asdict(table) for table in tables]
    }  # fmt: skip
    root = Path(__file__).parents[3]
    environ = {name: text for name, text in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    with tempfile.TemporaryDirectory() as place:
        done = subprocess.run(
            [str(CACHE / SPARK[0] / "bin" / "python"), "-W", "ignore", __file__, json.dumps(asked)],
            capture_output=True, text=True, timeout=SECONDS_MAX, check=False, cwd=place,
            env=environ | {"PYTHONPATH": str(root)},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    return {table.name: folder / f"{table.name}.arrow" for table in tables}


def main() -> None:
    """Read what the argument names."""
    import pyarrow as pa
    from pyspark.sql import SparkSession

    asked = json.loads(sys.argv[1])
    builder = SparkSession.builder.master("local[2]").appName("readers")
    settings = {
        "spark.jars": ",".join(asked["jars"]),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    for name, properties in asked["catalogs"].items():
        settings[f"spark.sql.catalog.{name}"] = "org.apache.iceberg.spark.SparkCatalog"
        settings |= {f"spark.sql.catalog.{name}.{key}": text for key, text in properties.items()}
    for key, text in settings.items():
        builder = builder.config(key, text)
    spark = builder.getOrCreate()
    for table in asked["tables"]:
        for statement in table["statements"]:
            spark.sql(statement)
        rows = spark.sql(f"SELECT {table['columns']} FROM {table['source']}").toArrow()
        with (
            pa.OSFile(f"{asked['folder']}/{table['name']}.arrow", "wb") as sink,
            pa.ipc.new_file(sink, rows.schema) as f,
        ):
            f.write_table(rows)
    spark.stop()


if __name__ == "__main__":
    main()
