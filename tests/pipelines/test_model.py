"""Names of datasets, and the texts of errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaraw.errors import ConfigError
from kafkaraw.pipelines.model import (
    Dataset,
    DatasetKind,
    FlowDefinition,
    FlowKind,
    Location,
    Pipeline,
    PipelineError,
    PipelineErrors,
    Settings,
    name_parts,
    raise_errors,
)


def nothing() -> None: ...


def pipeline(*names: str, catalog: str | None = None, database: str | None = None) -> Pipeline:
    at = Location("transformations/a.py", 3)
    return Pipeline(
        "sales",
        Path("sales"),
        "/storage",
        tuple(Dataset(name, DatasetKind.STREAMING_TABLE, at) for name in names),
        tuple(FlowDefinition(name, name, FlowKind.APPEND, at, nothing) for name in names),
        Settings("sales.dead-letters", "sales.replays", "sales"),
        catalog,
        database,
    )


@pytest.mark.parametrize("name", ["clean", "CLEAN", "`clean`", "default.clean", "spark_catalog.default.clean"])
def test_dataset_is_found_by_each_spelling_of_its_name(name):
    assert pipeline("clean").find(name).name == "clean"


@pytest.mark.parametrize("name", ["other.clean", "lake.default.clean", "clea"])
def test_name_in_another_database_is_no_dataset(name):
    assert pipeline("clean").find(name) is None


def test_default_qualifiers_are_those_of_the_specification():
    sales = pipeline("clean", catalog="lake", database="Sales")
    assert sales.find("lake.sales.clean") is sales.find("sales.clean") is sales.datasets[0]
    assert sales.find("default.clean") is None


def test_dots_in_backticks_do_not_separate_parts():
    assert name_parts("`a.b`.C") == ("a.b", "c")


def test_unknown_dataset_names_the_most_similar_one():
    with pytest.raises(PipelineError, match=r"^pipeline 'sales' has no dataset 'claen'; did you mean 'clean'\?$"):
        pipeline("clean", "orders").dataset("claen")
    with pytest.raises(PipelineError, match=r"^pipeline 'sales' has no flow 'xyz': it has clean, orders$"):
        pipeline("clean", "orders").flow("xyz")


def test_flows_into_a_dataset_are_found_by_each_spelling_of_its_name():
    assert [flow.name for flow in pipeline("clean", "orders").flows_into("default.Orders")] == ["orders"]


def test_error_names_file_line_and_dataset():
    error = PipelineError("is wrong. Change it", location=Location("a.py", 4), dataset="clean")
    assert str(error) == "a.py:4: dataset 'clean': is wrong. Change it"
    assert isinstance(error, ConfigError)
    assert str(PipelineError("is wrong", location=Location("spark-pipeline.yml"))) == "spark-pipeline.yml: is wrong"


def test_several_errors_are_shown_together():
    raise_errors("sales", [])
    one, other = PipelineError("first", location=Location("a.py", 4)), PipelineError("second", dataset="clean")
    with pytest.raises(PipelineError) as caught:
        raise_errors("sales", [one])
    assert caught.value is one
    with pytest.raises(PipelineErrors) as several:
        raise_errors("sales", [one, other])
    assert str(several.value) == "pipeline 'sales' has 2 problems:\n  a.py:4: first\n  dataset 'clean': second"
