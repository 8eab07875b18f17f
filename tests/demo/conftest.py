"""What the tests of the demo share: the data set, and one Spark session without Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkaraw.demo.flights import Flights, data_folder, load_flights
from kafkaraw.demo.pipeline_run import specification_of
from kafkaraw.demo.topics import Topics
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
    """A session with the settings of the pipeline; in a JVM that others have started, or else in one of its own."""
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    from kafkaraw.spark import configure

    others = SparkSession.getActiveSession()
    root = others or configure(SparkSession.builder).appName("flights-tests").master("local[2]").getOrCreate()
    spark = root.newSession()
    for name, value in specification_of("localhost:9092", Topics(), Path()).settings.spark.items():
        spark.conf.set(name, value)
    yield spark
    if others is None:
        root.stop()
