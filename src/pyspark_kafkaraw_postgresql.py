"""Lets Spark find format "kafkaraw.postgresql"; see `pyspark_kafkaraw`. It never raises, and imports little."""

from __future__ import annotations

import contextlib

with contextlib.suppress(ImportError):
    from kafkaraw.spark.databases.sink import PostgresqlDataSource as DefaultSource  # noqa: F401  # Spark looks for this name
