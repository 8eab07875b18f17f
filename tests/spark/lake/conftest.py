"""The tables of these tests, in each format."""

from __future__ import annotations

import pytest

from tests.spark.lake.tables import FORMATS, Lake


@pytest.fixture(autouse=True)
def polars_plans_with_pyiceberg(monkeypatch) -> None:
    """Polars warns that a package of its own would be faster."""
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")


@pytest.fixture(params=FORMATS)
def lake(request, tmp_path) -> Lake:
    return Lake(request.param, tmp_path)
