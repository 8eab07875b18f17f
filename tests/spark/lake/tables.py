"""Delta and Iceberg tables in folders, written without Spark by the parts that Spark calls, and read back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafkaraw.spark.lake.batches import BatchId
from kafkaraw.spark.lake.commits import Verdict, commit_batch
from kafkaraw.spark.lake.data_files import write_files
from kafkaraw.spark.lake.delta import open_delta, prepare_delta
from kafkaraw.spark.lake.delta_maintenance import DeltaMaintenance
from kafkaraw.spark.lake.iceberg import open_iceberg, prepare_iceberg
from kafkaraw.spark.lake.iceberg_maintenance import IcebergMaintenance
from kafkaraw.spark.lake.layout import Commit, DataFile, LakeTable, Layout
from kafkaraw.spark.lake.maintenance import TableMaintenance
from kafkaraw.spark.options.lake import LakeOptions, parse_delta, parse_iceberg

FORMATS = ("delta", "iceberg")
_PREPARE: dict[str, Callable[..., tuple[LakeTable, Layout]]] = {"delta": prepare_delta, "iceberg": prepare_iceberg}
_OPEN: dict[str, Callable[[LakeOptions], Any]] = {"delta": open_delta, "iceberg": open_iceberg}


@dataclass(frozen=True)
class Lake:
    """One table of a format in a folder, which may not exist yet, or in an object store.

    Attributes:
        kind: "delta" or "iceberg".
        folder: of the table, and of the catalog of an Iceberg table.
        store: URL of a folder in an object store, in place of the folder; empty for none.
        settings: options of the object store.
    """

    kind: str
    folder: Path
    store: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)

    def given(self, **options: str) -> dict[str, str]:
        """The options of a DataFrame that name the table."""
        options = dict(self.settings) | options
        if self.kind == "delta":
            return {"path": f"{self.store or self.folder}/table", **options}
        warehouse = self.store or f"file://{self.folder}"
        catalog = {"type": "sql", "uri": f"sqlite:///{self.folder}/catalog.db", "warehouse": warehouse}
        named = {"table": "flights.delays", "catalog": "tests"}
        return {f"catalog.{name}": text for name, text in catalog.items()} | named | options

    def options(self, **options: str) -> LakeOptions:
        return (parse_delta if self.kind == "delta" else parse_iceberg)(self.given(**options))

    def prepare(self, schema: pa.Schema, **options: str) -> tuple[LakeTable, Layout]:
        return _PREPARE[self.kind](self.options(**options), schema)

    def open(self) -> Any:
        return _OPEN[self.kind](self.options())

    def maintenance(self, **options: str) -> TableMaintenance:
        kind = DeltaMaintenance if self.kind == "delta" else IcebergMaintenance
        return kind(self.options(**options), self.open())

    def write(
        self, rows: pa.Table, batch: BatchId, *, overwrite: bool = False, retried: bool = False, **options: str
    ) -> Verdict:
        """One batch of one task, from its plan to its commit."""
        table, layout = self.prepare(rows.schema, **options)
        files = self.files(rows, batch, layout, **options)
        checked = self.options(**options)
        return commit_batch(
            table, Commit(batch, files, overwrite), layout, checked.on_changed_batch, retried=retried, sleep=no_pause
        )

    def files(self, rows: pa.Table, batch: BatchId, layout: Layout, task: int = 0, **options: str) -> list[DataFile]:
        return write_files(rows.to_batches(1000), layout, self.options(**options), batch, task)

    def rows(self) -> pa.Table:
        """What its own library reads."""
        inner = self.open().inner
        return inner.to_pyarrow_table() if self.kind == "delta" else inner.scan().to_arrow()

    def numbers(self) -> list[int]:
        return sorted(self.rows()["n"].to_pylist())

    def data_files(self) -> set[str]:
        """The names of all data files in the folder, also of those that are no part of the table."""
        return {path.name for path in self.folder.rglob("kafkaraw_*.parquet")}

    def committed_files(self) -> set[str]:
        return {path.rpartition("/")[2] for path in self.open().referenced()}


def no_pause(_seconds: float) -> None:
    """In place of `time.sleep`."""


def numbered(numbers: Iterable[int]) -> pa.Table:
    """Rows with numbers, which `Lake.numbers` finds again."""
    return pa.table({"n": pa.array(numbers, pa.int64())})


def batch(number: int, run: str = "run", query: str = "query") -> BatchId:
    return BatchId(query, number, run)
