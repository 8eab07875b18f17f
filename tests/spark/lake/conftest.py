"""The tables of these tests, in each format, and object stores for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.spark.lake import cloud_stores
from tests.spark.lake.cloud_stores import Amazon, Azure, Google
from tests.spark.lake.tables import FORMATS, Lake


@pytest.fixture(autouse=True)
def polars_plans_with_pyiceberg(monkeypatch) -> None:
    """Polars warns that a package of its own would be faster."""
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")


@pytest.fixture(params=FORMATS)
def lake(request, tmp_path) -> Lake:
    return Lake(request.param, tmp_path)


@pytest.fixture(scope="session")
def amazon() -> Iterator[Amazon]:
    with cloud_stores.amazon() as store:
        yield store


@pytest.fixture(scope="session")
def azure() -> Iterator[Azure]:
    with cloud_stores.azure() as store:
        yield store


@pytest.fixture(scope="session")
def google(tmp_path_factory) -> Iterator[Google]:
    with cloud_stores.google(tmp_path_factory.mktemp("google")) as store:
        yield store
