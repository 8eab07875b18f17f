"""Lets Spark find format "kafkaraw.sqlite" by itself; see `pyspark_kafkaraw`. It never raises, and imports little."""

from __future__ import annotations

import contextlib

with contextlib.suppress(ImportError):
    from kafkaraw.spark.databases.sink import SqliteDataSource as DefaultSource  # noqa: F401  # Spark looks for this name
