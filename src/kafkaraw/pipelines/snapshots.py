"""Snapshot tables: tables whose whole contents are replaced, such as materialized views.

Each replacement is a new directory, a *version*; one small file, which is replaced atomically, says which one is
current. Readers that have begun with the version before go on with it: the last two versions stay, and those that
queries of a run read.

    version-000000012/         the rows
    _kafkaraw/current.json     number, columns and origin of the current version

Must not know queries. Start at `SnapshotTable.replace`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkaraw.light_classes import dataclass, field
from kafkaraw.pipelines.tables import Metrics, write_atomically

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_VERSIONS_KEPT: Final = 2
_PREFIX: Final = "version-"


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a table.

    Args:
        number: from 1.
        schema: the columns, as Spark's JSON.
        origin: what it was made of; for changes, the micro-batch: flow -> [generation, number].
        rows: number of rows; None if it is not known.
        metrics: what was counted while it was written.
    """

    number: int
    schema: str
    origin: Mapping[str, list[int]] = field(default_factory=dict)
    rows: int | None = None
    metrics: Metrics = field(default_factory=dict)


class SnapshotTable:
    """One table.

    Args:
        path: its directory.
        file_format: of its files, one that Spark writes to directories.
        partition_columns: columns whose values are folders.
        in_use: returns the numbers of versions that queries read, which stay, too.
    """

    def __init__(
        self,
        path: Path,
        *,
        file_format: str = "parquet",
        partition_columns: tuple[str, ...] = (),
        in_use: Callable[[], Collection[int]] = tuple,
    ) -> None:
        self.path = path
        self._in_use = in_use
        self.file_format = file_format
        self.partition_columns = partition_columns
        self._pointer = path / "_kafkaraw" / "current.json"

    def current(self) -> Version | None:
        """Return the current version; None before the first one."""
        try:
            found = json.loads(self._pointer.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return Version(found["number"], found["schema"], found["origin"], found["rows"], found["metrics"])

    def folder(self, number: int) -> Path:
        """Return the directory of a version."""
        return self.path / f"{_PREFIX}{number:09d}"

    def replace(
        self,
        frame: DataFrame,
        *,
        schema: StructType | None = None,
        origin: Mapping[str, list[int]] | None = None,
        partition_columns: tuple[str, ...] | None = None,
        measure: Callable[[Path], tuple[int | None, Metrics]] = lambda _: (None, {}),
    ) -> Version:
        """Write the rows of a DataFrame as the next version, and make it the current one.

        Args:
            frame: the rows; may read the current version.
            schema: the columns that readers see; those of `frame` if not given.
            origin: see `Version`.
            partition_columns: other ones than the table's.
            measure: called with the directory after it is written; returns number of rows and counts.
        """
        before = self.current()
        number = 1 if before is None else before.number + 1
        folder = self.folder(number)
        writer = frame.write.format(self.file_format).mode("overwrite")  # over what a killed attempt has left
        columns = self.partition_columns if partition_columns is None else partition_columns
        if columns:
            writer = writer.partitionBy(*columns)
        writer.save(str(folder))
        rows, metrics = measure(folder)
        version = Version(number, (schema or frame.schema).json(), origin or {}, rows, metrics)
        names = ("number", "schema", "origin", "rows", "metrics")
        write_atomically(self._pointer, json.dumps({name: getattr(version, name) for name in names}))
        self._forget(number)
        return version

    def read(self, spark: SparkSession, schema: StructType, *, within: str = "") -> DataFrame:
        """Return the rows of the current version; no rows before the first one.

        Args:
            spark: the session.
            schema: the columns.
            within: a folder of the version.
        """
        version = self.current()
        if version is None or (within and not (self.folder(version.number) / within).is_dir()):
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).format(self.file_format).load(str(self.folder(version.number) / within))

    def clear(self) -> None:
        """Delete all versions."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _forget(self, current: int) -> None:
        in_use = self._in_use()
        for folder in self.path.glob(f"{_PREFIX}*"):
            number = int(folder.name.removeprefix(_PREFIX))
            if number <= current - _VERSIONS_KEPT and number not in in_use:
                shutil.rmtree(folder, ignore_errors=True)
