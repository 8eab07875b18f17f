"""Lets Spark find format "kafkaraw" by itself.

Spark imports every top-level module named pyspark_* and registers its `DefaultSource`. One such module that raises
makes Spark find no Python data source at all, silently: so this one never raises, and imports little.
"""

from __future__ import annotations

import contextlib

with contextlib.suppress(ImportError):
    from kafkaraw.spark.source import KafkaDataSource as DefaultSource  # noqa: F401  # Spark looks for this name
