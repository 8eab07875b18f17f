"""Bad records of a topic become dead letters exactly as they were, and good ones rows; what is counted adds up."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from kafkaraw.client.admin import NewTopic
from kafkaraw.light_classes import replace
from kafkaraw.pipelines import expectations as kp
from kafkaraw.pipelines.dead_letters.flows import dead_letter_flows
from kafkaraw.pipelines.dead_letters.store import DeadLetters
from kafkaraw.pipelines.evaluation import Evaluation, Purpose, evaluate_flow
from kafkaraw.pipelines.expectations import expectations_of
from kafkaraw.pipelines.judging import counts, judged
from kafkaraw.pipelines.latest import latest_by_key
from kafkaraw.pipelines.letters import HEADERS, letter_of
from kafkaraw.pipelines.mapping import map_records
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
from kafkaraw.pipelines.topic_admin import create_topics
from kafkaraw.pipelines.topics import read_topic, sink_options, topic

AT = Location("flows.py", 1)


class Runs:
    """A pipeline of views and flows, each of which is run to the end of what is there."""

    def __init__(self, spark, kafka, folder: Path, name: str) -> None:
        self.spark, self.kafka, self.folder = spark, kafka, folder
        unique = kafka.new_topic()
        settings = Settings(f"{unique}-dead", f"{unique}-re", name, kafka={"kafka.bootstrap.servers": kafka.servers})
        self.pipeline = Pipeline(name, folder, str(folder), (), (), settings)
        create_topics(self.pipeline, True)

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
        records = self.kafka.records(self.pipeline.settings.dead_letter_topic)
        return [letter_of(each) for each in records if each.headers[0][0] == HEADERS[0]]


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
    of_view = next(each for each in dead_letter_flows(runs.pipeline) if each.name.endswith("_orders"))
    plan = runs.evaluated(of_view, Purpose.DEAD_LETTERS)._jdf.queryExecution().analyzed().toString()
    assert plan.count("StreamingRelation") == 1  # for records that do not decode, and for quarantined ones
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


def test_arbitrary_records_are_dead_letters_byte_for_byte_also_after_a_replay(spark, kafka, runs):
    chosen = random.Random(20261124)
    name = f"{kafka.new_topic()}-any"
    kafka.admin.create_topics([NewTopic(name, 2, configs={"message.timestamp.after.max.ms": str(2**63 - 1)})])

    def some_bytes():
        return None if chosen.random() < 0.2 else chosen.randbytes(chosen.choice([0, 1, 7, 300]))

    sent = {}
    for number in range(300):
        names = chosen.choices(["h", "", "ü\0", "kafkaraw.time", "kafkaraw.pipeline"], k=chosen.randrange(6))
        headers = tuple((each, some_bytes()) for each in names)
        key, value, at = some_bytes(), b"{" + chosen.randbytes(number % 50), chosen.choice([0, number, 2**52 + number])
        kafka.producer.send(name, value, key, headers=list(headers), timestamp_ms=at, partition=number % 2)
        sent[number % 2, number // 2] = key, value, headers, at
    kafka.producer.flush()

    def anything():
        return topic(name, value="json", schema="id LONG", key="bytes")

    runs.table(anything)

    def check(letters):
        got = {
            (each.partition, each.offset): (each.key, each.value, each.headers, each.timestamp_ms) for each in letters
        }
        assert got == sent
        assert len(letters) == len(sent) and {each.topic for each in letters} == {name}

    check(runs.dead_letters())
    assert DeadLetters(runs.pipeline.name, runs.pipeline.settings).replay().count == 300
    check(runs.dead_letters()[300:])


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


def test_a_python_function_maps_records_and_those_it_fails_for_are_dead_letters(spark, kafka, runs):
    name = kafka.new_topic()
    kafka.produce(name, [8, 0, 2, 5, 7])

    def divided(row):
        if row.value == "2":
            return {"quotient": "four"}
        if row.value == "5":
            return {"quotient": 1, "nosuch": 2}
        return {"quotient": 56 // int(row.value)} if row.value != "7" else (8, "seven")

    def quotients():
        return map_records(topic(name, value="string"), divided, "quotient INT, text STRING")

    runs.table(quotients)
    rows, counted = runs.rows("quotients")
    assert [(row.quotient, row.text) for row in rows] == [(7, None), (8, "seven")]
    assert rows[0].asDict().keys() == {"quotient", "text", "_key", "_timestamp"}
    assert (counted["quotients"].records, counted["quotients"].failures) == (5, 3)
    letters = runs.dead_letters()
    assert [(each.offset, each.reason, each.value) for each in letters] == [
        (1, "function", b"0"),
        (2, "function", b"2"),
        (3, "function", b"5"),
    ]
    assert re.fullmatch(r"ZeroDivisionError: .* \(divided, line \d+\)", letters[0].error)
    assert "quotient" in letters[1].error and "the result has ['nosuch']" in letters[2].error


def test_map_records_refuses_rows_and_schemas_it_cannot_map(spark, kafka, runs):
    def check(frame, schema, match):
        def flow():
            return map_records(frame(), lambda row: (1,), schema)

        runs.pipeline = replace(runs.pipeline, datasets=(), flows=())
        runs.table(flow)
        with pytest.raises(PipelineError, match=match):
            runs.evaluated(runs.pipeline.flow("flow"), Purpose.PLAN)

    check(lambda: topic("t").select("value"), "a INT", "test_bad_records.py:.*no column _record.*select it, too")
    check(lambda: topic("t"), "a INTT", "schema='a INTT'")
    check(lambda: topic("t"), "_key INT", "the column '_key', which the rows of the topic have")


def test_the_latest_record_of_each_key_is_joined_as_of_each_micro_batch(spark, kafka, runs):
    planes, flights = kafka.new_topic(partitions=2), kafka.new_topic()

    def put(key, value, partition=0):
        kafka.producer.send(planes, value, key, partition=partition).result(30)

    put(b"a", b'{"tail": "a", "seats": 1}')
    put(b"b", b'{"tail": "b", "seats": 2}')
    put(b"a", b'{"tail": "a", "seats": 3}')
    put(b"a", b'{"tail": "a", "seats": "many"}')
    put(None, b'{"tail": "c", "seats": 9}')

    def flown():
        table = latest_by_key(planes, value="json", schema="tail STRING, seats INT")
        assert table.columns == ["tail", "seats"]
        return topic(flights, value="json", schema="tail STRING").join(table, "tail", "left")

    def latest(expected):
        kafka.producer.send(flights, b'{"tail": "a"}')
        kafka.producer.send(flights, b'{"tail": "b"}').result(30)
        rows, _ = runs.rows("flown")
        assert sorted((row.tail, row.seats) for row in rows) == expected

    runs.table(flown)
    latest([("a", 3), ("b", 2)])
    put(b"b", None)
    put(b"a", b'{"tail": "a", "seats": 5}', partition=1)  # as after partitions were added
    latest([("a", 5), ("b", None)])
    letters = runs.dead_letters()
    assert [(each.topic, each.offset, each.dataset, each.reason) for each in letters] == [
        (planes, 3, "flown", "decode")
    ]

    def plain():
        table = latest_by_key(planes)
        return topic(flights, key="bytes").join(table.withColumnRenamed("_key", "tail"), F.lit(True))

    runs.table(plain)
    assert runs.evaluated(runs.pipeline.flow("plain"), Purpose.PLAN).schema["tail"].dataType.simpleString() == "string"


def test_one_running_query_sees_a_compacted_topic_grow(spark, kafka, runs):
    names, numbers = kafka.new_topic(), kafka.new_topic()
    kafka.producer.send(names, b"one", b"1").result(30)
    kafka.produce(numbers, [1])

    def named():
        table = latest_by_key(names, value="string").withColumnsRenamed({"value": "name", "_key": "number"})
        return topic(numbers, value="string").join(table, F.expr("value = number"), "left").select("value", "name")

    runs.table(named)
    seen: list[list[tuple[str, str]]] = []
    frame = runs.evaluated(runs.pipeline.flow("named"))
    query = (
        frame.writeStream.foreachBatch(lambda batch, _: seen.append([tuple(row) for row in batch.collect()]))
        .option("checkpointLocation", str(runs.folder / "named"))
        .start()
    )
    try:
        query.processAllAvailable()
        kafka.producer.send(names, b"uno", b"1").result(30)
        kafka.produce(numbers, [1])
        query.processAllAvailable()
    finally:
        query.stop()
    assert [each for each in seen if each] == [[("1", "one")], [("1", "uno")]]
