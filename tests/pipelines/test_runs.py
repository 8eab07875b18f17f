"""Runs of pipelines with a real Spark and the embedded broker: order, repetition, failures, stops, full refreshes."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kafkaraw.errors import ConfigError
from kafkaraw.pipelines import topic
from kafkaraw.pipelines.model import Changes, FlowKind, PipelineError
from kafkaraw.pipelines.running.checkpoints import fork
from kafkaraw.pipelines.running.plans import planned
from kafkaraw.pipelines.running.runner import RunOptions, Silent, run, seconds_of
from kafkaraw.pipelines.running.storage import Storage, StorageInUseError
from kafkaraw.pipelines.snapshots import SnapshotTable
from tests.pipelines.runs import Definition, topic_functions


@pytest.fixture
def definition(spark, kafka, tmp_path) -> Definition:
    return Definition(spark, tmp_path / "storage", kafka.servers)


def run_once(definition: Definition, spark, **options):
    return run(definition.pipeline(), spark, RunOptions(once=True, **options), topics=topic_functions())


def rows(spark, definition: Definition, table: str) -> list[int]:
    path = definition.pipeline().storage
    # `walk` goes on if a folder of the running query is gone, which `rglob` does not.
    found = ((folder, name) for folder, _, names in os.walk(Path(path, "tables", table)) for name in names)
    files = [
        os.path.join(folder, name)
        for folder, name in found
        if "_kafkaraw" not in folder and name.startswith("part-") and name.endswith(".parquet")
    ]
    return sorted(row.n for row in spark.read.parquet(*files).collect()) if files else []


def states(summary) -> dict[str, str]:
    return {each.flow: each.state for each in summary.status.flows}


def test_once_runs_flows_in_order_and_a_second_run_adds_what_is_new(spark, kafka, definition):
    topic, out = kafka.new_topic(2), kafka.new_topic()
    kafka.produce(topic, range(5))
    # Defined in the wrong order: what reads comes first.
    definition.materialized_view("total", lambda: spark.read.table("clean").groupBy().sum("n").toDF("n"))
    definition.to_topic(out, lambda: spark.readStream.table("clean").where("n >= 3"))
    definition.table("clean", lambda: spark.readStream.table("numbers").where("n > 0"))
    definition.view("numbers", lambda: definition.numbers(topic))

    first = run_once(definition, spark)
    assert (first.exit_code, set(states(first).values())) == (0, {"completed"})
    assert rows(spark, definition, "clean") == [1, 2, 3, 4]
    assert rows(spark, definition, "total/version-000000001") == [10]
    kafka.produce(topic, [5], partition=1)
    second = run_once(definition, spark)
    assert rows(spark, definition, "clean") == [1, 2, 3, 4, 5]
    assert rows(spark, definition, "total/version-000000002") == [15]
    assert sorted(json.loads(record.value)["n"] for record in kafka.records(out)) == [3, 4, 5]
    written = {each.flow: (each.rows_written, each.totals["kafkaraw.written"]["rows"]) for each in second.status.flows}
    assert written == {"clean": (1, 5), out: (1, 3), "total": (1, 1)}


def test_select_adds_what_is_read_and_leaves_out_the_rest(spark, kafka, definition):
    topic = kafka.new_topic()
    kafka.produce(topic, [1])
    definition.table("first", lambda: definition.numbers(topic))
    definition.table("second", lambda: spark.readStream.table("first"))
    definition.table("other", lambda: definition.numbers(topic))
    assert states(run_once(definition, spark, select=("second",))) == {"first": "completed", "second": "completed"}
    assert rows(spark, definition, "second") == [1]
    with pytest.raises(ConfigError, match="no dataset 'secnd'; did you mean 'second'"):
        run_once(definition, spark, select=("secnd",))


def test_a_bad_record_fails_its_flow_and_what_reads_it_and_nothing_else(spark, kafka, definition):
    topic = kafka.new_topic()
    kafka.produce(topic, [1, 0])
    definition.table("inverse", lambda: definition.numbers(topic).selectExpr("n", "1 / n AS inverse"))
    definition.table("reader", lambda: spark.readStream.table("inverse"))
    definition.table("other", lambda: definition.numbers(topic))
    summary = run_once(definition, spark)
    assert states(summary) == {"inverse": "failed", "reader": "failed", "other": "completed"}
    assert summary.exit_code == 1
    failures = {each.flow: each.failure for each in summary.failed}
    assert failures["inverse"].remedy.value == "this record"
    assert "DIVIDE_BY_ZERO" in failures["inverse"].text
    assert "reads what flow 'inverse' writes" in failures["reader"].text
    assert rows(spark, definition, "other") == [0, 1]


def test_a_passing_failure_is_retried_and_counted(spark, kafka, definition):
    topic, attempts = kafka.new_topic(), []
    kafka.produce(topic, [1])

    def flaky():
        attempts.append(1)
        if len(attempts) == 2:  # the first evaluation is the preparation
            raise ConnectionError("not yet")
        return definition.numbers(topic)

    class Noting(Silent):
        def failed(self, flow, failure, retry_in):
            noted.append((flow, failure.remedy.value, retry_in is not None))

    noted: list[tuple[str, str, bool]] = []
    definition.table("clean", flaky)
    options = RunOptions(once=True)
    summary = run(definition.pipeline(), spark, options, topics=topic_functions(), reporter=Noting())
    assert states(summary) == {"clean": "completed"}
    assert summary.status.flows[0].restarts == 1
    assert noted == [("clean", "retry", True)]


class Stopper:
    """Asks a continuous run to stop, in a thread of its own."""

    def __init__(self, definition: Definition, spark, **settings: str) -> None:
        self._asked = threading.Event()
        self.error: Exception | None = None

        def follow() -> None:
            try:
                options = RunOptions(should_stop=self._asked.is_set)
                self.summary = run(definition.pipeline(**settings), spark, options, topics=topic_functions())
            except Exception as error:  # noqa: BLE001 -- raised again by stop()
                self.error = error

        self._thread = threading.Thread(target=follow)
        self._thread.start()

    def stop(self):
        self._asked.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error
        return self.summary


def total(spark, definition: Definition) -> int | None:
    table = SnapshotTable(Path(definition.pipeline().storage, "tables", "total"))
    version = table.current()
    return None if version is None else spark.read.parquet(str(table.folder(version.number))).first().n


def wait_for(condition, timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_continuous_run_goes_on_until_it_is_stopped_and_refreshes_views(spark, kafka, definition):
    topic = kafka.new_topic()
    kafka.produce(topic, [1, 2])
    definition.table("clean", lambda: definition.numbers(topic))
    definition.materialized_view("total", lambda: spark.read.table("clean").groupBy().sum("n").toDF("n"))
    going = Stopper(definition, spark, materialized_view_interval="100 ms")
    try:
        wait_for(lambda: rows(spark, definition, "clean") == [1, 2])
        kafka.produce(topic, [3])
        wait_for(lambda: total(spark, definition) == 6)
        with pytest.raises(StorageInUseError, match="in use by another run"):
            run_once(definition, spark)
    finally:
        summary = going.stop()
    assert states(summary)["clean"] == "stopped"
    assert summary.exit_code == 0
    kafka.produce(topic, [4])
    run_once(definition, spark)
    assert rows(spark, definition, "clean") == [1, 2, 3, 4]


def test_a_stream_sees_the_tables_that_it_joins_change_while_their_versions_are_replaced(spark, kafka, definition):
    topic = kafka.new_topic()
    kafka.produce(topic, [1])
    definition.table(
        "joined", lambda: numbers().crossJoin(spark.read.table("total").toDF("total")).select("n", "total")
    )
    definition.table("clean", lambda: numbers())
    definition.materialized_view("total", lambda: spark.read.table("clean").groupBy().sum("n").toDF("n"))
    definition.materialized_view("double", lambda: spark.read.table("total").selectExpr("2 * n AS n"))
    numbers = lambda: definition.numbers(topic)  # noqa: E731

    def joined() -> set[tuple[int, int]]:
        files = Path(definition.pipeline().storage, "tables", "joined").glob("*.parquet")
        return {(row["n"], row["total"]) for each in files for row in pq.ParquetFile(each).read().to_pylist()}

    going = Stopper(definition, spark, materialized_view_interval="100 ms")
    try:
        for n in range(2, 5):
            wait_for(lambda n=n: total(spark, definition) == sum(range(n)))
            kafka.produce(topic, [n])
        wait_for(lambda: {n for n, _ in joined()} == {1, 2, 3, 4})
        kafka.produce(topic, [9])
        wait_for(lambda: any(n == 9 and seen > 1 for n, seen in joined()))
    finally:
        summary = going.stop()
    assert summary.exit_code == 0, summary.failed


def test_aggregates_in_update_mode_go_into_a_topic_and_late_rows_are_counted(spark, kafka, definition):
    topic, out = kafka.new_topic(), kafka.new_topic()
    kafka.produce(topic, [1, 1, 2])

    def counts():
        timed = definition.numbers(topic).selectExpr("n", "timestamp_seconds(n * 1000) AS moment")
        return timed.withWatermark("moment", "1 second").groupBy("moment").count()

    definition.to_topic(out, counts, output_mode="update")
    run_once(definition, spark)
    kafka.produce(topic, [9])
    run_once(definition, spark)
    kafka.produce(topic, [1, 9])
    summary = run_once(definition, spark)
    found = Counter(json.loads(record.value)["count"] for record in kafka.records(out))
    assert found == {2: 2, 1: 2}
    assert summary.status.flows[0].late_rows == 1


def test_full_refresh_computes_a_table_again_with_other_columns(spark, kafka, definition):
    topic = kafka.new_topic()
    kafka.produce(topic, [1])
    definition.table("clean", lambda: definition.numbers(topic).select("n"))
    run_once(definition, spark)
    changed = Definition(spark, Path(definition.pipeline().storage), kafka.servers)
    changed.table("clean", lambda: changed.numbers(topic).selectExpr("n", "n * 2 AS twice"))
    changed.table("reader", lambda: spark.readStream.table("clean"))
    with pytest.raises(ConfigError, match="add --full-refresh reader"):
        run_once(changed, spark, full_refresh=("clean",))
    assert rows(spark, definition, "clean") == [1]
    run_once(changed, spark, full_refresh=("clean", "reader"))
    assert rows(spark, changed, "clean") == [1]
    assert rows(spark, changed, "reader") == [1]
    assert Storage(Path(definition.pipeline().storage)).flow("clean").generation == 2


def test_a_changed_type_is_refused_before_anything_starts(spark, kafka, definition):
    topic = kafka.new_topic()
    definition.table("clean", lambda: definition.numbers(topic).select("n"))
    run_once(definition, spark)
    changed = Definition(spark, Path(definition.pipeline().storage), kafka.servers)
    changed.table("clean", lambda: changed.numbers(topic).selectExpr("CAST(n AS STRING) AS n"))
    with pytest.raises(ConfigError, match="column 'n' is bigint in the files, and string in the definition"):
        run_once(changed, spark)


def test_a_topic_that_was_made_anew_is_refused(spark, kafka, definition):
    topic, ids = kafka.new_topic(), ["a", "b"]
    definition.table("clean", lambda: definition.numbers(topic))
    for topic_id, state in (("a", "completed"), ("b", "failed")):
        functions = topic_functions(topic_ids=lambda pipeline, topics, found=topic_id: dict.fromkeys(topics, found))
        summary = run(definition.pipeline(), spark, RunOptions(once=True), topics=functions)
        assert states(summary) == {"clean": state}, ids
    assert "was deleted and made anew since the last run" in summary.failed[0].failure.text


def test_a_forked_flow_loses_and_repeats_nothing(spark, kafka, definition):
    name = kafka.new_topic()
    send = lambda n: kafka.producer.send(name, b'{"n": %d}' % n).result(30)  # noqa: E731
    definition.table("clean", lambda: topic(name, value="json", schema="n LONG").select("n"))
    settings = {"dead_letter_topic": f"{name}-dead", "replay_topic": f"{name}-replays"}
    pipeline = definition.pipeline(**settings)
    send(1)
    assert run(pipeline, spark, RunOptions(once=True)).exit_code == 0
    fork(Storage(Path(pipeline.storage)), "clean")
    send(2)
    assert run(pipeline, spark, RunOptions(once=True)).exit_code == 0
    assert rows(spark, definition, "clean") == [1, 2]


def test_a_change_that_a_checkpoint_cannot_follow_is_refused_until_it_is_forked(spark, kafka, definition):
    one, other = kafka.new_topic(), kafka.new_topic()
    for name in (one, other):
        kafka.produce(name, [1])
    storage = Storage(Path(definition.pipeline().storage))

    def run_reading(name: str):
        given = Definition(spark, storage.root, kafka.servers)
        given.table("clean", lambda: topic(name).select("value"))
        pipeline = given.pipeline(dead_letter_topic=f"{one}-dead", replay_topic=f"{one}-replays")
        return run(pipeline, spark, RunOptions(once=True), plan=planned(pipeline, spark))

    run_reading(one)
    with pytest.raises(PipelineError, match=r"Run `kafkaraw pipelines checkpoint fork clean`"):
        run_reading(other)
    for name in ("clean", "dead_letters_of_clean"):
        fork(storage, name)
    assert run_reading(other).exit_code == 0
    assert storage.flow("clean").counts().totals["kafkaraw.written"] == {"rows": 2}


def test_changes_of_a_topic_are_applied_to_a_table_that_others_read(spark, kafka, definition):
    topic = kafka.new_topic()
    read = lambda: definition.numbers(topic).selectExpr("n % 10 AS id", "n AS at", "n DIV 10 AS visits")  # noqa: E731
    applied = Changes("changes", ("id",), "at", "visits = 3", except_columns=("at",))
    definition.table("people")
    definition.flow("people", "people", read, kind=FlowKind.CHANGES, changes=applied)
    definition.materialized_view("total", lambda: spark.read.table("people").selectExpr("sum(id * 100 + visits) AS n"))
    kafka.produce(topic, [1, 2, 21, 11])
    run_once(definition, spark)
    assert total(spark, definition) == 102 + 200
    kafka.produce(topic, [12, 22, 31, 41, 32])
    summary = run_once(definition, spark)
    assert total(spark, definition) == 104
    assert summary.status.flows[0].totals["kafkaraw.written"] == {"rows": 9}


def test_intervals_are_spark_s():
    assert [seconds_of(text) for text in ("100 ms", "1 second", "2 minutes", "1.5 hours", "1 day")] == [
        0.1,
        1,
        120,
        5400,
        86400,
    ]
    with pytest.raises(ConfigError, match="'soon'"):
        seconds_of("soon")
