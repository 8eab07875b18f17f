"""What a pipeline has computed, for readers outside of a run: its tables as DataFrames, views and paths.

Neither the definitions are loaded nor a broker is asked: the plan of the last run says which tables there are. A table
is read as it is now; a run may go on meanwhile. Must not change what a run has decided. Start at `tables_of` and
`read_tables`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass
from kafkaraw.pipelines.changes import LIVE
from kafkaraw.pipelines.graph import NodeKind
from kafkaraw.pipelines.model import FlowKind, Pipeline
from kafkaraw.pipelines.plan import Plan, PlannedDataset
from kafkaraw.pipelines.running.plans import kept_plan
from kafkaraw.pipelines.running.storage import Storage, local_path
from kafkaraw.pipelines.snapshots import SnapshotTable
from kafkaraw.pipelines.specification import Specification, read_specification
from kafkaraw.pipelines.tables import StreamingTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNTS: Final = "kafkaraw_expectations"
"""The name of the table with the counts of all expectations."""
_REPLACED: Final = "materialized view"
_CHANGED: Final = "table of changes"
_GROWING: Final = "streaming table"


@dataclass(frozen=True, slots=True)
class TableContents:
    """One table as it is now.

    Args:
        name: as in the definition.
        kind: what it is.
        file_format: of its files.
        path: the folder of its files. That of a table whose contents are replaced changes with each run; the last two
            stay.
        schema: its columns, as Spark's JSON; None for those of the files.
    """

    name: str
    kind: str
    file_format: str
    path: Path
    schema: str | None

    @property
    def view(self) -> str:
        """The name of its temporary view: the last part of its name."""
        return self.name.replace("`", "").rpartition(".")[2]

    def read(self, spark: SparkSession) -> DataFrame:
        """Return its rows."""
        from pyspark.sql.types import StructType

        reader = spark.read.format(self.file_format)
        if self.schema is not None:
            schema = StructType.fromJson(json.loads(self.schema))
            if not self.path.is_dir():  # all rows were deleted
                return spark.createDataFrame([], schema)
            reader = reader.schema(schema)
        return reader.load(str(self.path))


def tables_of(place: Path | str) -> tuple[TableContents, ...]:
    """Return the tables that the pipeline of a folder has computed, and the counts of its expectations.

    Args:
        place: the folder of the pipeline, or its `spark-pipeline.yml`.

    Raises:
        PipelineError: there is no specification, or it is wrong.
        ConfigError: the pipeline has not run yet.
    """
    specification = read_specification(Path(place))
    storage = Storage(local_path(specification.storage))
    kept = None if storage.is_new else kept_plan(storage)
    if kept is None:
        raise ConfigError(
            f"pipeline {specification.name!r} has not run yet: its storage {storage.root} has no tables; start it with "
            f"`kafkaraw pipelines run {place}`"
        )
    storage.claim(specification.name)
    return (*_tables(specification, storage, kept.plan), *_counts(storage))


def _tables(specification: Specification, storage: Storage, plan: Plan) -> Iterator[TableContents]:
    # It has the rules for names of tables, and needs no definitions for them.
    names = Pipeline(
        specification.name,
        specification.path.parent,
        specification.storage,
        (),
        (),
        specification.settings,
        specification.catalog,
        specification.database,
    )
    for dataset in plan.datasets:
        path = storage.table(names.canonical_name(dataset.name))
        changes = any(each.kind == FlowKind.CHANGES.value for each in plan.flows_into(dataset.name))
        if dataset.kind == NodeKind.MATERIALIZED_VIEW.value or changes:
            yield from _replaced(dataset, path, has_changes=changes)
        elif dataset.kind == NodeKind.STREAMING_TABLE.value and path.is_dir():
            yield from _growing(dataset, path)


def _replaced(dataset: PlannedDataset, path: Path, *, has_changes: bool) -> Iterator[TableContents]:
    snapshots = SnapshotTable(path)
    version = snapshots.current()
    if version is not None:
        folder = snapshots.folder(version.number)
        kind = _CHANGED if has_changes else _REPLACED
        where = folder / LIVE if has_changes else folder
        yield TableContents(dataset.name, kind, dataset.format or "parquet", where, version.schema)


def _growing(dataset: PlannedDataset, path: Path) -> Iterator[TableContents]:
    table = StreamingTable(path, file_format=dataset.format or "parquet")
    schema = table.schema()
    if schema is not None:
        with contextlib.suppress(OSError, ConfigError):  # without the right to write, or while it is computed again
            table.recover()
        yield TableContents(dataset.name, _GROWING, table.file_format, path, schema.json())


def _counts(storage: Storage) -> Iterator[TableContents]:
    folder = storage.root / "expectations"
    if folder.is_dir():
        yield TableContents(COUNTS, "counts of expectations", "parquet", folder, None)


def read_tables(place: Path | str, spark: SparkSession) -> dict[str, DataFrame]:
    """Return the tables of a pipeline by name, and make temporary views of them, so that `spark.sql` finds them.

        tables = kafkaraw.pipelines.read_tables("shop", spark)
        tables["customers"].show()
        spark.sql("SELECT * FROM customers JOIN clean USING (customer)").show()

    The rows are those of now: call it again for those of a later run. `kafkaraw_expectations` has the counts of all
    expectations: flow, dataset, expectation, action, rows that were judged, and unmet.

    Args:
        place: the folder of the pipeline, or its `spark-pipeline.yml`.
        spark: any session that can read the storage.

    Raises:
        PipelineError: there is no specification, or it is wrong.
        ConfigError: the pipeline has not run yet.
    """
    found: dict[str, DataFrame] = {}
    for each in tables_of(place):
        found[each.name] = each.read(spark)
        found[each.name].createOrReplaceTempView(f"`{each.view}`")
    return found
