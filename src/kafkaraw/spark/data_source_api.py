"""The classes of Spark's data source API that not every supported version has, or what stands in for them.

Which version has what is said in `versions.py`. A stand-in is never seen by the Spark that lacks the class: it lets the
same code be defined, and be tested, with every version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaraw.spark.versions import features

if TYPE_CHECKING or features().read_limits:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
else:
    from dataclasses import dataclass

    class ReadLimit:
        """How much a micro-batch may take."""

    @dataclass
    class ReadAllAvailable(ReadLimit):
        """All there is."""

    @dataclass
    class ReadMaxRows(ReadLimit):
        """A number of rows."""

        max_rows: int

    class SupportsTriggerAvailableNow:
        """Marks a reader that can end at a target."""


if TYPE_CHECKING or features().stream_arrow_writer:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

    class DataSourceStreamArrowWriter(DataSourceArrowWriter, DataSourceStreamWriter):
        """A streaming writer that takes Arrow batches.

        Spark 4.0 has no such class, but gives Arrow batches to every `DataSourceArrowWriter`, whether it writes a batch
        or a stream (pyspark's `write_into_data_source`).
        """


__all__ = [
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
]
