"""Bad records of a topic become dead letters exactly as they were, and good ones rows; what is counted adds up."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kafkaraw.light_classes import replace
from kafkaraw.pipelines import expectations as kp
from kafkaraw.pipelines.dead_letters.flows import dead_letter_flows
from kafkaraw.pipelines.evaluation import Evaluation, Purpose, evaluate_flow
from kafkaraw.pipelines.expectations import expectations_of
from kafkaraw.pipelines.judging import counts, judged
from kafkaraw.pipelines.letters import letter_of
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
from kafkaraw.pipelines.topics import read_topic, sink_options, topic

AT = Location("flows.py", 1)


class Runs:
    """A pipeline of views and flows, each of which is run to the end of what is there."""

    def __init__(self, spark, kafka, folder: Path, name: str) -> None:
        self.spark, self.kafka, self.folder = spark, kafka, folder
        dead, replays = kafka.new_topic(), kafka.new_topic()
        settings = Settings(dead, replays, name, kafka={"kafka.bootstrap.servers": kafka.servers})
        self.pipeline = Pipeline(name, folder, str(folder), (), (), settings)

    def view(self, function) -> None:
        view = Dataset(
            function.__name__,
            DatasetKind.TEMPORARY_VIEW,
            AT,
            function=function,
            expectations=expectations_of(function),
        )
        others = tuple(each for each in self.pipeline.datasets if each.name != view.name)
        self.pipeline = replace(self.pipeline, datasets=(*others, view))

    def table(self, function, target: str | None = None) -> None:
        name = function.__name__
        flow = FlowDefinition(
            name, target or name, FlowKind.APPEND, AT, function, expectations=expectations_of(function)
        )
        datasets = self.pipeline.datasets
        if all(each.name != flow.target for each in datasets):
            datasets = (*datasets, Dataset(flow.target, DatasetKind.STREAMING_TABLE, AT))
        others = tuple(each for each in self.pipeline.flows if each.name != name)
        self.pipeline = replace(self.pipeline, datasets=datasets, flows=(*others, flow))

    def evaluated(self, flow: FlowDefinition, purpose: Purpose = Purpose.FLOW):
        evaluation = Evaluation(self.spark, self.pipeline, flow.name, purpose, read_topic, judged)
        return evaluate_flow(flow, evaluation)

    def rows(self, name: str):
        """Continue a flow until the end; returns its new rows and what it has counted."""
        frame = self.evaluated(self.pipeline.flow(name)).drop("_record", "_tombstone")
        found = []
        query = (
            frame.writeStream.foreachBatch(lambda batch, number: found.extend(batch.collect()))
            .option("checkpointLocation", str(self.folder / name))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        totals = {}
        for progress in query.recentProgress:
            for dataset, counted in counts(progress.observedMetrics).items():
                totals[dataset] = totals[dataset] + counted if dataset in totals else counted
        return found, totals

    def dead_letters(self):
        """Continue all flows of dead letters until the end; returns all dead letters, oldest first."""
        for flow in dead_letter_flows(self.pipeline):
            frame = self.evaluated(flow, Purpose.DEAD_LETTERS)
            writer = frame.writeStream.format("kafkaraw").options(**sink_options(self.pipeline, flow.target, flow.name))
            writer = writer.option("checkpointLocation", str(self.folder / flow.name))
            writer.trigger(availableNow=True).start().awaitTermination()
        return [letter_of(record) for record in self.kafka.records(self.pipeline.settings.dead_letter_topic)]


@pytest.fixture
def runs(spark, kafka, tmp_path, request):
    return Runs(spark, kafka, tmp_path, re.sub(r"\W", "-", request.node.name)[:60])


def test_bad_records_are_dead_letters_as_they_were_and_good_ones_rows(spark, kafka, runs):
    orders_topic = kafka.new_topic(partitions=2)
    sent = [
        (b"k0", b'{"id": 1, "amount": 5.5}', ()),
        (b"k1", b'{"id": "x"}\xff', (("trace", b"\x00\xff"), ("trace", None), ("kafkaraw.time", b"mine"))),
        (None, b'{"id": 2, "amount": -1}', (("h", b"1"),)),
        (b"k3", None, ()),
        (b"\xff", b'{"id": 3, "amount": 1}', ()),
        (b"k5", b'{"id": 4, "amount": 0}', ()),
        (b"k6", b'{"id": 5, "amount": 7}', ()),
    ]
    for number, (key, value, headers) in enumerate(sent):
        kafka.producer.send(orders_topic, value, key, headers=list(headers), timestamp_ms=1000 + number, partition=1)
    kafka.producer.flush()

    @kp.expect_or_quarantine("positive", "_tombstone OR amount >= 0")
    @kp.expect("not free", "amount > 0")
    def orders():
        return topic(orders_topic, value="json", schema="id LONG, amount DOUBLE")

    @kp.expect_or_drop("no tombstone", "NOT _tombstone")
    @kp.expect_or_quarantine("small", "id < 5 OR _tombstone")
    def clean():
        return spark.readStream.table("orders")

    runs.view(orders)
    runs.table(clean)
    rows, counted = runs.rows("clean")
    assert [(row.id, row.amount, row._key) for row in rows] == [(1, 5.5, "k0"), (4, 0.0, "k5")]
    in_view, in_flow = counted["orders"], counted["clean"]
    assert (in_view.records, in_view.undecodable, in_view.tombstones) == (7, 2, 1)
    assert (in_view.rows, in_view.quarantined, in_view.dropped) == (5, 1, 0)
    assert dict(in_view.unmet) == {"positive": 1, "not free": 3}  # NULL is not met, too
    assert (in_flow.rows, in_flow.quarantined, in_flow.dropped) == (4, 1, 1)
    assert in_flow.actions == {"no tombstone": "drop", "small": "quarantine"}

    letters = sorted(runs.dead_letters(), key=lambda letter: letter.offset)
    assert [(each.offset, each.dataset, each.reason, each.expectation) for each in letters] == [
        (1, "orders", "decode", ""),
        (2, "orders", "expectation", "positive"),
        (4, "orders", "decode", ""),
        (6, "clean", "expectation", "small"),
    ]
    assert [each.error for each in letters][::2] == ["the value is not valid UTF-8", "the key is not valid UTF-8"]
    assert json.loads(letters[1].error) == {"id": 2, "amount": -1.0}
    for letter in letters:
        key, value, headers = sent[letter.offset]
        assert (letter.key, letter.value, letter.headers) == (key, value, headers)
        assert (letter.timestamp_ms, letter.topic, letter.partition) == (1000 + letter.offset, orders_topic, 1)
        assert letter.pipeline == runs.pipeline.name
    assert len(runs.dead_letters()) == 4  # another run adds none


def test_expect_or_fail_fails_with_the_record(spark, kafka, runs):
    name = kafka.new_topic()
    kafka.produce(name, [1, 2])

    @kp.expect_or_fail("is one", "value = '1'")
    def numbers():
        return topic(name, value="string")

    runs.table(numbers)
    with pytest.raises(Exception, match=rf"'numbers': expectation 'is one' is not met.*\"2\".*{name}-0 at offset 1"):
        runs.rows("numbers")


def test_wrong_expectations_and_arguments_name_line_and_remedy(spark, kafka, runs):
    def check(function, match):
        runs.pipeline = replace(runs.pipeline, datasets=(), flows=())
        runs.table(function)
        with pytest.raises(PipelineError, match=match):
            runs.evaluated(runs.pipeline.flow(function.__name__), Purpose.PLAN)

    def wrong(decorator, read=lambda: topic("t", value="json", schema="a LONG, b STRING")):
        def flow():
            return read()

        return decorator(flow)

    check(wrong(kp.expect("e", "a + 1")), r"test_bad_records.py:\d+: dataset 'flow': expectation 'e': a \+ 1 is bigint")
    check(wrong(kp.expect("e", "nosuch > 1")), r"expectation 'e': nosuch > 1: \[UNRESOLVED_COLUMN")
    check(wrong(kp.expect("e", "a >")), r"expectation 'e': a >: \[PARSE_SYNTAX_ERROR")
    check(wrong(kp.expect("e", 5)), r"expectation 'e': 5 is neither SQL nor a Column")
    check(wrong(kp.expect_unique("e", ["c"])), r"there is no column 'c'; the rows have a, b")
    check(wrong(kp.expect_unique_or_fail("e", "a")), "a stream cannot fail at a repeated row")
    aggregated = lambda: topic("t").groupBy("value").count()  # noqa: E731
    check(wrong(kp.expect_or_quarantine("e", "count > 1"), aggregated), "no column _record.*or use expect_or_drop")
    check(wrong(kp.expect("e", "true"), lambda: topic("t", value="jsn")), "value='jsn' is not one of.*did you mean 'js")
    check(wrong(kp.expect("e", "true"), lambda: topic("t", value="json")), 'needs the columns: schema="id LONG')
    check(
        wrong(kp.expect("e", "true"), lambda: topic("t", value="json", schema="a LONGG")), "schema='a LONGG': .*LONGG"
    )
    check(wrong(kp.expect("e", "true"), lambda: topic("t", value="string", schema="a LONG")), "takes no schema")
    check(wrong(kp.expect("e", "true"), lambda: topic("t", value="json", schema="_key LONG")), "the column '_key'")
    with pytest.raises(PipelineError, match="two expectations of one function have the name 'e'"):
        wrong(lambda function: kp.expect("e", "a")(kp.expect("e", "b")(function)))
    with pytest.raises(PipelineError, match="put them below it"):
        kp.expect("e", "a")(None)


def test_repeated_rows_are_counted_or_left_out(spark, kafka, runs):
    name = kafka.new_topic()
    kafka.produce(name, [1, 2, 1, 3, 1])

    @kp.expect_unique("once", "value")
    def every():
        return topic(name, value="string")

    @kp.expect_unique_or_drop("once", "value")
    def first():
        return topic(name, value="string")

    runs.table(every)
    runs.table(first)
    rows, counted = runs.rows("every")
    assert sorted(row.value for row in rows) == ["1", "1", "1", "2", "3"]
    assert (counted["every"].unmet, counted["every"].dropped) == ({"once": 2}, 0)
    rows, counted = runs.rows("first")
    assert sorted(row.value for row in rows) == ["1", "2", "3"]
    assert (counted["first"].unmet, counted["first"].dropped) == ({"once": 2}, 2)
    kafka.produce(name, [2, 4])
    rows, counted = runs.rows("first")
    assert [row.value for row in rows] == ["4"]
