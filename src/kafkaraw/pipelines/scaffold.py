"""`kafkaraw pipelines init`: writes a small pipeline that runs, with a test and sample data.

The files are texts of this module, in which NAME and SERVERS are replaced. Must not import pyspark. Start at
`write_pipeline`.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

from kafkaraw.errors import ConfigError

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")

_SPECIFICATION: Final = """\
# A pipeline of Spark Declarative Pipelines files. Paths are relative to this folder.
name: NAME
storage: storage
libraries:
  - glob:
      include: transformations/**
configuration:
  kafkaraw.kafka.bootstrap.servers: SERVERS
"""

_TRANSFORMATIONS: Final = '''\
"""Orders: a table of orders, the revenue of each hour as a topic, and what customers have spent."""

from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kafkaraw import pipelines as kp

spark = SparkSession.active()


@dp.temporary_view
@kp.expect_or_quarantine("amount is positive", "amount > 0")
def orders():
    """Orders as they come. Records that are no orders become dead letters."""
    return kp.topic("NAME.orders", value="json", schema="id LONG, customer STRING, amount DOUBLE, at TIMESTAMP")


@dp.table
@kp.expect_or_drop("has a customer", "customer IS NOT NULL")
def clean():
    """All orders that have a customer."""
    return spark.readStream.table("orders").select("id", "customer", "amount", "at")


@kp.to_topic("NAME.revenue", key="hour", output_mode="update")
def revenue():
    """The revenue of each hour; the newest record of an hour counts. Orders may come an hour late."""
    hour = F.window("at", "1 hour").start.alias("hour")
    rows = spark.readStream.table("orders").withWatermark("at", "1 hour")
    return rows.groupBy(hour).agg(F.sum("amount").alias("amount"), F.count("*").alias("orders"))


@dp.materialized_view
def customers():
    """What each customer has spent."""
    return spark.read.table("clean").groupBy("customer").agg(F.sum("amount").alias("amount"))
'''

_TESTS: Final = """\
- test: valid orders are in the table, and their amounts are added up
  topics:
    NAME.orders:
      - {id: 1, customer: ada, amount: 3.5, at: 2026-01-01T10:00:00Z}
      - {id: 2, customer: bob, amount: 10, at: 2026-01-01T10:30:00Z}
      - {id: 3, customer: ada, amount: 1.5, at: 2026-01-01T11:00:00Z}
  expect:
    clean:
      - {id: 1, customer: ada, amount: 3.5}
      - {id: 2, customer: bob, amount: 10}
      - {id: 3, customer: ada, amount: 1.5}
    NAME.revenue:
      - {hour: 2026-01-01 10:00, amount: 13.5, orders: 2}
      - {hour: 2026-01-01 11:00, amount: 1.5, orders: 1}
    customers:
      - {customer: ada, amount: 5}
      - {customer: bob, amount: 10}
  dead letters: []

- test: records that are no orders become dead letters
  topics:
    NAME.orders:
      - {id: 1, customer: ada, amount: -3.5, at: 2026-01-01T10:00:00Z}
      - not JSON
      - {id: 2, amount: 10, at: 2026-01-01T10:30:00Z}
  expect:
    clean: []
  dead letters:
    - {reason: expectation, expectation: amount is positive}
    - {reason: decode, value: not JSON}
  counts:
    clean: {dropped: 1}
"""

_SAMPLE: Final = """\
{"id": 1, "customer": "ada", "amount": 3.5, "at": "2026-01-01T10:00:00Z"}
{"id": 2, "customer": "bob", "amount": 10.0, "at": "2026-01-01T10:30:00Z"}
{"id": 3, "customer": "ada", "amount": 1.5, "at": "2026-01-01T11:00:00Z"}
{"id": 4, "customer": "bob", "amount": -2.5, "at": "2026-01-01T11:10:00Z"}
{"id": 5, "amount": 4.0, "at": "2026-01-01T11:20:00Z"}
this is no JSON
"""

_IGNORED: Final = """\
storage/
__pycache__/
"""

_FILES: Final = {
    "spark-pipeline.yml": _SPECIFICATION,
    "transformations/orders.py": _TRANSFORMATIONS,
    "tests/orders.yml": _TESTS,
    "sample-orders.jsonl": _SAMPLE,
    ".gitignore": _IGNORED,
}


def write_pipeline(folder: Path, servers: str) -> tuple[Path, ...]:
    """Write a pipeline into a new or empty folder: all files, or none.

    Args:
        folder: its last part is the name of the pipeline.
        servers: bootstrap servers, HOST:PORT[,HOST:PORT...].

    Returns:
        the files, relative to the folder.

    Raises:
        ConfigError: the folder has files, or its name is none for a pipeline.
    """
    name = folder.absolute().name
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is no name for a pipeline: at most 100 letters, digits, _ and -, the first a letter or digit"
        )
    if not re.fullmatch(r"[^\s,]+:\d+(,[^\s,]+:\d+)*", servers):
        raise ConfigError(f"--bootstrap-server {servers!r}: must be HOST:PORT[,HOST:PORT...]")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} exists and is not empty: choose another name, or delete it first")
    _write(folder.absolute(), {file: _filled(text, name, servers) for file, text in _FILES.items()})
    return tuple(map(Path, _FILES))


def _filled(text: str, name: str, servers: str) -> str:
    return re.sub(r"\bNAME\b", name, text).replace("SERVERS", servers)


def _write(folder: Path, files: dict[str, str]) -> None:
    """Write files beside the folder, and rename it when it is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for name, text in files.items():
            path = part / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        part.chmod(0o777 & ~_umask())
        part.rename(folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
