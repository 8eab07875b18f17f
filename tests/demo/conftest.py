"""What the tests of the demo share: the data set, and one Spark session without Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkaraw.demo.flights import Flights, data_folder, load_flights
from kafkaraw.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def flights_folder() -> Path:
    try:
        return data_folder()
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def year(flights_folder: Path) -> Flights:
    return load_flights(folder=flights_folder)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session with the demo's settings; in a JVM that other tests have started, or else in one of its own."""
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    from kafkaraw.demo.pipeline import SESSION_SETTINGS
    from kafkaraw.spark import configure

    others = SparkSession.getActiveSession()
    root = others or configure(SparkSession.builder).appName("flights-tests").master("local[2]").getOrCreate()
    spark = root.newSession()
    for name, value in SESSION_SETTINGS.items():
        spark.conf.set(name, value)
    yield spark
    if others is None:
        root.stop()
