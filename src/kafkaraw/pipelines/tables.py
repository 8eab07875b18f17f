"""Streaming tables: directories of files to which every micro-batch is added exactly once.

Spark repeats a micro-batch whose end is not in the checkpoint: after a crash, or after an error. So a batch is added in
three steps:

1. *stage*: Spark writes the rows into a hidden folder of this attempt;
2. *decide*: one manifest file, which is written atomically, names the staged files and the names that they get;
3. *publish*: the files are renamed into the table's directory.

Before the manifest exists, the batch is not written, and a repetition stages it anew. From then on it is: a repetition
only finishes the renames of the manifest, so the rows come from exactly one attempt. A reader of the directory may see
some files of a batch before the others, but never a file twice, and never part of a file; that is why several flows can
append to one table, and streaming queries can read it while it grows. Names of files contain flow, generation and
batch, so they never collide.

The layout of a table's directory:

    *.parquet or COLUMN=VALUE/*.parquet         the rows
    _kafkaraw/staged/FLOW/ATTEMPT/              rows of a batch that is not decided yet
    _kafkaraw/manifests/FLOW/GENERATION-BATCH.json   the last decisions of a flow
    _kafkaraw/schema.json                       the columns of the table

Must not know queries or checkpoints. Paths are local, or of a shared file system: renames must be atomic. Start at
`StreamingTable.append`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass, field

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

FILE_FORMATS: Final = ("parquet", "orc", "json", "csv")
"""Formats whose tables are directories of files."""

_HIDDEN: Final = "_kafkaraw"
_MANIFESTS_KEPT: Final = 2
"""Spark repeats the last micro-batch only; one more is kept for people who look for it."""
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9-][A-Za-z0-9_-]{0,99}")

Metrics = Mapping[str, Mapping[str, int]]
"""What `observe()` counted in a micro-batch: name of the observation -> name of the count -> number."""


@dataclass(frozen=True, slots=True)
class BatchId:
    """A micro-batch of a flow.

    Args:
        flow: name of the flow.
        generation: of the flow's checkpoint; micro-batches of each start at 0.
        number: Spark's id of the micro-batch.
    """

    flow: str
    generation: int
    number: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The decision that a micro-batch is part of a table.

    Args:
        files: staged path -> published path, both relative to the table's directory.
        rows: number of rows in them; None if the format does not tell.
        metrics: what was counted while the rows were staged.
    """

    files: Mapping[str, str]
    rows: int | None
    metrics: Metrics = field(default_factory=dict)


def write_atomically(path: Path, text: str) -> None:
    """Replace a file, so that readers see its old or its new text, also after a crash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    with part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def file_name_of(name: str) -> str:
    """Return a name of letters, digits, hyphens and underscores: the name itself, or one that no other name has.

    It does not begin with an underscore: Spark takes such files for hidden.
    """
    if _PLAIN_NAME.fullmatch(name):
        return name
    plain = re.sub(r"[^A-Za-z0-9]+", "-", name)[:80].strip("-")
    return f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


class StreamingTable:
    """One table.

    Args:
        path: its directory; made if it does not exist.
        file_format: one of `FILE_FORMATS`.
        partition_columns: columns whose values are folders.
        options: of Spark's writer for the format, such as "compression".
    """

    def __init__(
        self,
        path: Path,
        *,
        file_format: str = "parquet",
        partition_columns: tuple[str, ...] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        if file_format not in FILE_FORMATS:
            raise ConfigError(f"table format {file_format!r}: not one of {', '.join(FILE_FORMATS)}")
        self.path = path
        self.file_format = file_format
        self.partition_columns = partition_columns
        self._options = dict(options or {})
        self._hidden = path / _HIDDEN
        path.mkdir(parents=True, exist_ok=True)

    # -- a micro-batch -------------------------------------------------------------------------------------------------

    def append(self, batch: DataFrame, batch_id: BatchId, metrics: Callable[[], Metrics] = dict) -> Manifest:
        """Add a micro-batch, unless an earlier attempt has added it.

        Rows of a batch that is there already are still computed: Spark's state stores need that.

        Args:
            batch: the rows.
            batch_id: what identifies them.
            metrics: called after the rows are staged; its result becomes part of the decision.

        Returns:
            the decision, which may be that of an earlier attempt.
        """
        earlier = self.decision(batch_id)
        if earlier is not None:
            self._publish(earlier)
            batch.write.format("noop").mode("overwrite").save()
            return earlier
        self._forget_attempts(batch_id.flow)
        attempt = self._hidden / "staged" / file_name_of(batch_id.flow) / uuid.uuid4().hex
        writer = batch.write.format(self.file_format).options(**self._options)
        if self.partition_columns:
            writer = writer.partitionBy(*self.partition_columns)
        writer.save(str(attempt))
        manifest = self._decide(attempt, batch_id, metrics)
        self._publish(manifest)
        shutil.rmtree(attempt, ignore_errors=True)
        self._forget_manifests(batch_id)
        return manifest

    def decision(self, batch_id: BatchId) -> Manifest | None:
        """Return the decision about a micro-batch; None if there is none yet."""
        try:
            found = json.loads(self._manifest(batch_id).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return Manifest(found["files"], found["rows"], found["metrics"])

    def recover(self) -> None:
        """Finish the renames of decisions before which a run was killed: for readers that come before the flow."""
        for path in sorted((self._hidden / "manifests").glob("*/*.json")):
            found = json.loads(path.read_text(encoding="utf-8"))
            self._publish(Manifest(found["files"], found["rows"], found["metrics"]))

    def _decide(self, attempt: Path, batch_id: BatchId, metrics: Callable[[], Metrics]) -> Manifest:
        files, rows = dict[str, str](), 0
        stem = f"part-{file_name_of(batch_id.flow)}-{batch_id.generation}-{batch_id.number:09d}"
        for staged in _data_files(attempt):
            found = _row_count(staged) if self.file_format == "parquet" else None
            if found == 0 or not staged.stat().st_size:
                continue
            rows += found or 0
            suffix = staged.name.partition(".")[2]
            name = staged.parent.relative_to(attempt) / f"{stem}-{len(files):05d}.{suffix}"
            files[str(staged.relative_to(self.path))] = str(name)
        manifest = Manifest(files, rows if self.file_format == "parquet" else None, metrics())
        text = json.dumps({"files": manifest.files, "rows": manifest.rows, "metrics": manifest.metrics})
        write_atomically(self._manifest(batch_id), text)
        return manifest

    def _publish(self, manifest: Manifest) -> None:
        for staged, published in manifest.files.items():
            target = self.path / published
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                (self.path / staged).rename(target)
            except FileNotFoundError:
                if not target.exists():
                    raise ConfigError(
                        f"table {self.path}: {published} is missing; its micro-batch was written, and the file was "
                        "deleted since. Restore it, or compute the table again with --full-refresh"
                    ) from None

    def _manifest(self, batch_id: BatchId) -> Path:
        folder = self._hidden / "manifests" / file_name_of(batch_id.flow)
        return folder / f"{batch_id.generation:06d}-{batch_id.number:012d}.json"

    def _forget_manifests(self, batch_id: BatchId) -> None:
        for old in sorted(self._manifest(batch_id).parent.glob("[0-9]*.json"))[:-_MANIFESTS_KEPT]:
            old.unlink(missing_ok=True)

    def _forget_attempts(self, flow: str) -> None:
        """Delete what a killed attempt has staged: no decision names it, or its files are published."""
        shutil.rmtree(self._hidden / "staged" / file_name_of(flow), ignore_errors=True)

    # -- the table -----------------------------------------------------------------------------------------------------

    def files(self) -> list[Path]:
        """Return the published files, sorted."""
        return sorted(_data_files(self.path))

    def schema(self) -> StructType | None:
        """Return the columns of the table; None before the first run."""
        from pyspark.sql.types import StructType

        try:
            return StructType.fromJson(json.loads((self._hidden / "schema.json").read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None

    def evolve(self, schema: StructType) -> StructType:
        """Set the columns of the table to those of a flow: the first ones, or the table's own and new ones.

        A column that a flow does not have (any more) stays, with nulls in new rows.

        Args:
            schema: the columns of the rows that a flow appends.

        Returns:
            the columns of the table.

        Raises:
            ConfigError: a column has another type than in the table.
        """
        merged = _merged(self.path.name, self.schema(), schema)
        write_atomically(self._hidden / "schema.json", merged.json())
        return merged

    def forget_columns(self) -> StructType | None:
        """Return the columns of the table, which has none afterwards."""
        columns = self.schema()
        (self._hidden / "schema.json").unlink(missing_ok=True)
        return columns

    def clear(self) -> None:
        """Delete all rows, decisions and columns."""
        shutil.rmtree(self.path)
        self.path.mkdir(parents=True)


def _data_files(root: Path) -> Iterator[Path]:
    """Yield the files that Spark reads: hidden ones begin with a dot or an underscore."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(each for each in folders if not each.startswith(".") and (each[0] != "_" or "=" in each))
        yield from (Path(folder, name) for name in sorted(names) if not name.startswith((".", "_")))


def _row_count(parquet_file: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(parquet_file).num_rows)


def _merged(table: str, old: StructType | None, new: StructType) -> StructType:
    from pyspark.sql.types import StructField, StructType

    columns = {each.name.lower(): each for each in (old.fields if old is not None else ())}
    for each in new.fields:
        present = columns.get(each.name.lower())
        if present is None:
            columns[each.name.lower()] = StructField(each.name, each.dataType, True)
        elif present.dataType.simpleString() != each.dataType.simpleString():  # nullability does not count
            raise ConfigError(
                f"table {table!r}: column {each.name!r} is {present.dataType.simpleString()} in the files, and "
                f"{each.dataType.simpleString()} in the definition. Cast it in the function, or compute the table "
                f"again with --full-refresh {table}"
            )
    return StructType(list(columns.values()))
