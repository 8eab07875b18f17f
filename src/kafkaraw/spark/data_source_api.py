"""The classes of Spark's data source API that not every supported version has, or their replacements.

`versions.py` says which version has which class. A Spark that lacks a class never sees its replacement, which only
lets the same code be defined, and be tested, with every version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaraw.spark.versions import features

if TYPE_CHECKING or features().read_limits:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
else:
    from dataclasses import dataclass

    class ReadLimit:
        """The maximum size of a micro-batch."""

    @dataclass
    class ReadAllAvailable(ReadLimit):
        """No limit: everything that is available."""

    @dataclass
    class ReadMaxRows(ReadLimit):
        """A limit of rows."""

        max_rows: int

    class SupportsTriggerAvailableNow:
        """Marks a reader that can end at a target."""


if TYPE_CHECKING or features().stream_arrow_writer:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

    class DataSourceStreamArrowWriter(DataSourceArrowWriter, DataSourceStreamWriter):
        """A streaming writer that takes Arrow batches.

        Spark 4.0 has no such class, but passes Arrow batches to every `DataSourceArrowWriter`, in batch and in
        streaming writes (pyspark's `write_into_data_source`).
        """


__all__ = [
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
]
