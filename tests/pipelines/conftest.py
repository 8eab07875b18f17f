"""The Spark session and the broker of the Spark tests, for pipelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from tests.pipelines.interpreted import without_generated_code
from tests.spark.conftest import broker, kafka, what_tasks_keep_is_closed  # noqa: F401  # fixtures
from tests.spark.conftest import spark as session_of_all  # noqa: F401

SPECIFICATION = """\
name: sales
storage: storage
libraries:
  - glob:
      include: transformations/**
configuration:
  kafkaraw.kafka.bootstrap.servers: localhost:9092
"""


@pytest.fixture(scope="module")
def spark(session_of_all):  # noqa: F811  # the fixture
    with without_generated_code(session_of_all):
        yield session_of_all


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write the files of a pipeline, by their names below its folder; returns the folder."""

    def write(files: Mapping[str, str], specification: str = SPECIFICATION) -> Path:
        folder = tmp_path / "sales"
        for name, text in {"spark-pipeline.yml": specification, **files}.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text), encoding="utf-8")
        return folder

    return write
