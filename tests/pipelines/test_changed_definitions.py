"""A run refuses a change that a checkpoint or table cannot follow, and continues after what its message says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from kafkaraw.pipelines.definitions import load_pipeline
from kafkaraw.pipelines.model import PipelineError
from kafkaraw.pipelines.running.checkpoints import fork
from kafkaraw.pipelines.running.plans import planned
from kafkaraw.pipelines.running.runner import RunOptions, Summary, run
from kafkaraw.pipelines.running.storage import Storage
from kafkaraw.pipelines.specification import read_specification
from tests.rotation import rotating

SPECIFICATION = """\
name: changed
storage: storage
libraries: [{{glob: {{include: transformations/**}}}}]
configuration:
  kafkaraw.kafka.bootstrap.servers: {servers}
"""
ONE = """\
from pyspark import pipelines as dp
from kafkaraw import pipelines as kp

@dp.table
def numbers():
    return kp.topic("{topic}", value="json", schema="n LONG").select("n")
"""
DISTINCT = ONE.replace('.select("n")', '.select("n").distinct()')
OTHER_TOPIC = ONE.replace("{topic}", "{other}")
TEXT = ONE.replace('.select("n")', '.selectExpr("CAST(n AS STRING) AS n")')


@pytest.fixture
def attempt(write, kafka, spark) -> Callable[..., Summary]:
    topic, other = kafka.new_topic(), kafka.new_topic()
    kafka.producer.send(other, b'{"n": 3}').result(30)

    def attempt(text: str, *numbers: int, **options: object) -> Summary:
        for n in numbers:
            kafka.producer.send(topic, b'{"n": %d}' % n).result(30)
        files = {"transformations/a.py": text.format(topic=topic, other=other)}
        folder = write(files, SPECIFICATION.format(servers=kafka.servers))
        pipeline = load_pipeline(read_specification(folder), spark)
        return run(pipeline, spark, RunOptions(once=True, **options), plan=planned(pipeline, spark))

    return attempt


@pytest.fixture
def storage(tmp_path) -> Path:
    return tmp_path / "sales" / "storage"


def rows(storage: Path) -> list[object]:
    found = ds.dataset(sorted((storage / "tables/numbers").glob("*.parquet"))).to_table()
    return sorted(found.column("n").to_pylist())


def files(storage: Path) -> dict[Path, bytes]:
    return {each: each.read_bytes() for each in storage.rglob("*") if each.is_file() and each.name != "lock"}


def new_state_is_refused_until_the_checkpoint_is_forked(attempt, storage):
    assert attempt(ONE, 1, 2).exit_code == 0
    before = files(storage)
    with pytest.raises(PipelineError) as caught:
        attempt(DISTINCT, 2, 3, 3)
    assert str(caught.value).startswith(
        "transformations/a.py:4: changed since the last run: numbers: kept no state and keeps "
    )
    assert str(caught.value).endswith("Run `kafkaraw pipelines checkpoint fork numbers`")
    assert files(storage) == before
    fork(Storage(storage), "numbers")
    assert attempt(DISTINCT).exit_code == 0
    assert rows(storage) == [1, 2, 2, 3]  # the state begins with the new checkpoint
    assert attempt(DISTINCT, 3).exit_code == 0
    assert rows(storage) == [1, 2, 2, 3]


def new_type_of_a_column_is_refused_until_the_table_is_refreshed(attempt, storage):
    assert attempt(ONE, 1, 2).exit_code == 0
    before = files(storage)
    with pytest.raises(PipelineError, match=r"column n was BIGINT and is STRING.*--full-refresh numbers`$"):
        attempt(TEXT)
    assert files(storage) == before
    assert attempt(TEXT, 3, full_refresh=("numbers",)).exit_code == 0
    assert rows(storage) == ["1", "2", "3"]
    assert attempt(TEXT).exit_code == 0


def other_topic_is_refused_until_the_flow_and_its_dead_letters_are_forked(attempt, storage):
    assert attempt(ONE, 1, 2).exit_code == 0
    before = files(storage)
    with pytest.raises(PipelineError) as caught:
        attempt(OTHER_TOPIC)
    at = "transformations/a.py:4: changed since the last run: "
    assert [re.sub(r"read topic \S+ and reads topic \S+: ", "", str(each)) for each in caught.value.errors] == [
        f"{at}{name}: a checkpoint has the offsets of its sources by their position in the query. Run `kafkaraw "
        f"pipelines checkpoint fork {name}`"
        for name in ("numbers", "dead_letters_of_numbers")
    ]
    assert files(storage) == before
    fork(Storage(storage), "numbers")
    with pytest.raises(PipelineError, match=r"fork dead_letters_of_numbers`$"):
        attempt(OTHER_TOPIC)
    fork(Storage(storage), "dead_letters_of_numbers")
    assert attempt(OTHER_TOPIC).exit_code == 0
    assert rows(storage) == [1, 2, 3]


RULES = (
    other_topic_is_refused_until_the_flow_and_its_dead_letters_are_forked,
    new_state_is_refused_until_the_checkpoint_is_forked,
    new_type_of_a_column_is_refused_until_the_table_is_refreshed,
)
"""Each takes several runs."""


@pytest.mark.parametrize("rule", rotating(RULES, 1))
def test_change_is_refused_until_the_command_of_its_message_was_run(rule, attempt, storage):
    rule(attempt, storage)
