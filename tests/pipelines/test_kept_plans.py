"""The plan that a run keeps, and the changes since then that the next run refuses."""

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
    Settings,
)
from kafkaraw.pipelines.plan import Plan
from kafkaraw.pipelines.running.plans import (
    changes_since_last_run,
    check_changes,
    existing_storage,
    keep_plan,
    kept_plan,
)
from kafkaraw.pipelines.running.storage import Storage
from tests.pipelines.test_plan import PLAN, with_clean, with_flow

OTHER_SOURCE = with_flow(sources=("topic others",))
OTHER_TYPE = with_clean(schema="id INT,amount DOUBLE")


def pipeline_at(folder: Path, name: str = "sales") -> Pipeline:
    at = Location("transformations/sales.py", 7)
    datasets = (
        Dataset("clean", DatasetKind.STREAMING_TABLE, at),
        Dataset("top", DatasetKind.MATERIALIZED_VIEW, at),
    )
    flows = tuple(FlowDefinition(each, each, FlowKind.APPEND, at, lambda: None) for each in ("clean", "top"))
    return Pipeline(name, folder, str(folder / "storage"), datasets, flows, Settings("dead", "replays", name))


@pytest.fixture
def pipeline(tmp_path) -> Pipeline:
    return pipeline_at(tmp_path)


@pytest.fixture
def storage(pipeline) -> Storage:
    """After a run of PLAN in which each flow had a micro-batch."""
    storage = Storage.of(pipeline.storage, pipeline.name)
    for name in ("clean", "top"):
        flow = storage.flow(name)
        flow.prepare()
        flow.keep_counts(0, {})
    keep_plan(PLAN, storage)
    return storage


def refusals(plan: Plan, pipeline: Pipeline, storage: Storage, **options) -> str:
    with pytest.raises(PipelineError) as caught:
        check_changes(plan, pipeline, storage, **options)
    return str(caught.value)


def test_plan_is_kept_with_the_generations_of_its_flows(storage):
    storage.flow("clean").begin_generation(None, {})
    keep_plan(PLAN, storage)
    kept = kept_plan(storage)
    assert (kept.plan, kept.generations) == (PLAN, {"clean": 2, "top": 1})


def test_first_run_has_no_changes(pipeline, tmp_path):
    assert existing_storage(pipeline) is None
    assert changes_since_last_run(PLAN, None) is None
    check_changes(PLAN, pipeline, Storage(tmp_path / "storage"))
    assert not (tmp_path / "storage").exists()


def test_storage_of_another_pipeline_has_no_plan_of_this_one(storage, tmp_path):
    with pytest.raises(ConfigError, match="belongs to pipeline 'sales', not 'other'"):
        existing_storage(pipeline_at(tmp_path, "other"))


def test_change_that_a_checkpoint_cannot_follow_is_refused_with_file_and_line(pipeline, storage):
    assert refusals(OTHER_SOURCE, pipeline, storage) == (
        "transformations/sales.py:7: changed since the last run: clean: read topic orders and reads topic others: a "
        "checkpoint has the offsets of its sources by their position in the query. Run `kafkaraw pipelines checkpoint "
        "fork clean`"
    )


def test_change_that_a_table_cannot_follow_is_refused_with_file_and_line(pipeline, storage):
    assert refusals(OTHER_TYPE, pipeline, storage) == (
        "transformations/sales.py:7: changed since the last run: clean: column id was BIGINT and is INT: the files of "
        "the table have the old type. Run `kafkaraw pipelines run --full-refresh clean`"
    )


def test_change_that_can_be_continued_is_not_refused(pipeline, storage):
    check_changes(with_clean(schema="id BIGINT,amount DOUBLE,at TIMESTAMP"), pipeline, storage)


def test_change_is_accepted_after_a_new_checkpoint(pipeline, storage):
    storage.flow("clean").begin_generation({"orders": {0: 3}}, {})
    storage.flow("clean").keep_counts(0, {})
    assert changes_since_last_run(OTHER_SOURCE, storage) == ()
    check_changes(OTHER_SOURCE, pipeline, storage)
    keep_plan(OTHER_SOURCE, storage)
    assert "reads topic orders" in refusals(PLAN, pipeline, storage)


def test_change_is_accepted_with_a_full_refresh_of_the_table(pipeline, storage):
    check_changes(OTHER_TYPE, pipeline, storage, full_refresh=["default.CLEAN"])
    assert "was BIGINT and is INT" in refusals(OTHER_TYPE, pipeline, storage, full_refresh=["top"])


def test_change_of_a_flow_that_has_written_nothing_is_accepted(pipeline):
    storage = Storage.of(pipeline.storage, pipeline.name)
    storage.flow("clean").prepare()
    keep_plan(PLAN, storage)
    check_changes(OTHER_SOURCE, pipeline, storage)
    offsets = storage.flow("clean").checkpoint / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").touch()
    assert "reads topic others" in refusals(OTHER_SOURCE, pipeline, storage)


def test_run_of_other_flows_neither_refuses_nor_keeps_the_change(pipeline, storage):
    check_changes(OTHER_SOURCE, pipeline, storage, flows=["top"])
    keep_plan(OTHER_SOURCE, storage, ["top"])
    assert "reads topic others" in refusals(OTHER_SOURCE, pipeline, storage)
    assert refusals(OTHER_SOURCE, pipeline, storage, flows=["clean"])


def test_first_run_of_some_flows_keeps_only_these(pipeline):
    storage = Storage.of(pipeline.storage, pipeline.name)
    keep_plan(PLAN, storage, ["clean"])
    kept = kept_plan(storage)
    assert [each.name for each in kept.plan.flows] == ["clean"]
    assert [each.name for each in kept.plan.datasets] == ["orders", "clean"]


@pytest.mark.parametrize("text", ["", "[]", '{"generations": {}}', '{"generations": 1, "plan": {}}'])
def test_damaged_plan_is_an_error_that_names_the_file(storage, text):
    (storage.root / "plan.json").write_text(text)
    with pytest.raises(ConfigError, match=r"storage/plan\.json is damaged"):
        kept_plan(storage)
