"""A Spark session that interprets expressions: to generate and compile code for each query takes longer than to run it.

The queries of these tests have a handful of rows. Every fourth commit, and a soak, generate code as users do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.simulation import seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
GENERATING = 4
"""One of so many commits runs generated code."""


@contextmanager
def without_generated_code(spark: SparkSession) -> Iterator[None]:
    """Interpret expressions in a session, unless this commit generates code."""
    if seeds.with_soak or seeds.FIRST // 1000 % GENERATING == 0:
        yield
        return
    before = {name: spark.conf.get(name) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value or "")
