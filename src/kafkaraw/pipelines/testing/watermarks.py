"""Advances the watermarks of streaming queries when a test says so.

A watermark follows the newest time of the rows that pass `withWatermark`. While a test evaluates a flow, that method
adds marker rows to its input, and removes them directly behind it: a marker advances the watermark, and nothing else
sees it. Start at `Markers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MARKER: Final = "_kafkaraw_marker"


class Markers:
    """The times to which watermarks shall advance.

    Args:
        spark: the session.
        folder: of the files with the markers.
    """

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._files = 0
        folder.mkdir(parents=True)

    def add(self, time: datetime) -> None:
        """Advance all watermarks to a time, in the next run; a watermark never moves back."""
        import pyarrow as pa
        from pyarrow import parquet

        self._files += 1
        part = self._folder / f".{self._files}"
        parquet.write_table(pa.table({"time": pa.array([time], pa.timestamp("us", "UTC"))}), part)
        part.rename(self._folder / f"{self._files:06}.parquet")

    @contextmanager
    def intercepted(self) -> Iterator[None]:
        """Let `withWatermark` add the markers."""
        owner: Any = type(self._spark.range(0))  # the class of this session's frames, below pyspark.sql.DataFrame
        original = owner.withWatermark
        owner.withWatermark = self._replacement(original)
        try:
            yield
        finally:
            owner.withWatermark = original

    def _replacement(self, original: Callable[[DataFrame, str, str], DataFrame]) -> Callable[..., DataFrame]:
        def withWatermark(self_: DataFrame, eventTime: str, delayThreshold: str) -> DataFrame:
            from pyspark.sql import functions as F
            from pyspark.sql.types import TimestampType

            kind = next((each.dataType for each in self_.schema.fields if each.name == eventTime), None)
            if not self_.isStreaming or not isinstance(kind, TimestampType):
                return original(self_, eventTime, delayThreshold)
            reader = self._spark.readStream.schema("time TIMESTAMP")
            # The watermark is the newest time minus the delay.
            time = (F.col("time") + F.expr(f"INTERVAL '{delayThreshold}'")).alias(eventTime)
            markers = reader.parquet(str(self._folder)).select(time, F.lit(True).alias(_MARKER))
            rows = self_.withColumn(_MARKER, F.lit(False)).unionByName(markers, allowMissingColumns=True)
            marked = original(rows, eventTime, delayThreshold)
            # Spark moves a filter below the watermark, unless it uses the column of the watermark.
            is_marker = F.col(_MARKER) & F.col(eventTime).isNotNull()
            return marked.where(~is_marker).drop(_MARKER)

        return withWatermark
