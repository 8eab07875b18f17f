"""The Spark session and the broker of the Spark tests, for pipelines."""

from __future__ import annotations

from tests.spark.conftest import broker, kafka, spark, what_tasks_keep_is_closed  # noqa: F401  # fixtures
