"""What a test gives to a pipeline: records of topics, and rows of datasets in files that a streaming query reads.

Each call adds one file, which is part of the next micro-batch as a whole. Must not import pyspark before it is used.
Start at `Record` and `GivenRows`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.errors import UsageError
from kafkaraw.light_classes import dataclass
from kafkaraw.pipelines.model import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_DELAY: Final = "spark.watermarkDelayMs"  # Spark's metadata of a column with a watermark
EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""The timestamp of records for which a test names none: results must not depend on the time of the test."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a topic, as a test gives it.

    Args:
        value: bytes are the value as it is; text is encoded as UTF-8, everything else as JSON; None is a tombstone.
        key: as the value.
        headers: names and values.
        timestamp: with a time zone, or in UTC.
        partition: of the topic.
    """

    value: object
    key: object = None
    headers: tuple[tuple[str, bytes | str | None], ...] = ()
    timestamp: datetime = EPOCH
    partition: int = 0


def encoded(value: object) -> bytes | None:
    """Return the bytes of a value or key."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    return json.dumps(plain(value), ensure_ascii=False).encode()


def plain(value: object) -> Any:  # noqa: ANN401 -- any JSON value
    """Return a value of a row as JSON has it: times as texts, bytes in Base64, as Spark reads them."""
    if isinstance(value, datetime):
        return (value.replace(tzinfo=UTC) if value.tzinfo is None else value).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value) if value != int(value) else int(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if hasattr(value, "asDict"):  # a Row of Spark
        return plain(value.asDict())
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


class GivenRows:
    """The rows of a dataset, in place of those that its function would return.

    Args:
        folder: of its files.
        name: of the dataset.
        schema: the columns that its function returns.
    """

    def __init__(self, folder: Path, name: str, schema: StructType) -> None:
        self._folder = folder
        self._name = name
        self._schema = schema
        self._files = 0
        folder.mkdir(parents=True)

    def add(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Add rows; columns that a row does not name are NULL.

        Raises:
            UsageError: a row names a column that the dataset does not have.
        """
        known = self._schema.fieldNames()
        lines = []
        for row in rows:
            for column in row:
                if column not in known:
                    hint = did_you_mean(column, known) or f"; it has {', '.join(known)}"
                    raise UsageError(f"given rows of {self._name!r}: no column {column!r}{hint}")
            lines.append(json.dumps(plain(row)))
        if not lines:
            return
        self._files += 1
        part = self._folder / f".{self._files}"
        part.write_text("\n".join(lines) + "\n")
        part.rename(self._folder / f"{self._files:06}.json")

    def read(self, spark: SparkSession, *, streaming: bool) -> DataFrame:
        """Return the rows; a stream has the watermarks that the dataset's function sets."""
        from pyspark.sql.types import StructField, StructType

        columns = StructType([StructField(each.name, each.dataType) for each in self._schema.fields])
        reader: Any = spark.readStream if streaming else spark.read
        frame: DataFrame = reader.schema(columns).option("mode", "FAILFAST").json(str(self._folder))
        for each in self._schema.fields if streaming else ():
            if _DELAY in each.metadata:
                frame = frame.withWatermark(each.name, f"{each.metadata[_DELAY]} milliseconds")
        return frame
