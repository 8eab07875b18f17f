"""Debezium's envelopes are changes as rows; what is no change of a row is a dead letter."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kafkaraw.light_classes import replace
from kafkaraw.pipelines import read_tables
from kafkaraw.pipelines.definitions import load_pipeline
from kafkaraw.pipelines.envelopes import apply_debezium, debezium
from kafkaraw.pipelines.evaluation import Purpose
from kafkaraw.pipelines.model import DatasetKind, FlowKind, PipelineError
from kafkaraw.pipelines.running.plans import planned
from kafkaraw.pipelines.running.runner import RunOptions, run
from kafkaraw.pipelines.specification import read_specification
from tests.pipelines.conftest import SPECIFICATION
from tests.pipelines.test_bad_records import Runs

ROW = "id INT NOT NULL, name STRING NOT NULL, price DECIMAL(10,2)"


@pytest.fixture
def runs(spark, kafka, tmp_path, request):
    return Runs(spark, kafka, tmp_path, re.sub(r"\W", "-", request.node.name)[:60])


def envelope(op, before=None, after=None, lsn=None):
    source = {"table": "goods", "lsn": lsn} if lsn is not None else {"table": "goods", "pos": 4}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1}


def test_changes_are_rows_and_other_records_dead_letters(spark, kafka, runs):
    goods = kafka.new_topic()
    one, two = {"id": 1, "name": "a", "price": 1.25}, {"id": 1, "name": "b", "price": None}
    sent = [
        envelope("r", after=one, lsn=7),
        {"schema": {"type": "struct"}, "payload": envelope("u", before={"id": 1}, after=two, lsn=8)},
        envelope("d", before={"id": 1, "name": None}),
        None,
        envelope("t"),
        envelope("c", before=one),
        envelope("d"),
        {"id": 1},
        envelope("c", after={"id": "x", "name": "a"}),
    ]
    for value in sent:
        kafka.producer.send(goods, None if value is None else json.dumps(value).encode(), b"\xff")
    kafka.producer.flush()

    def changes():
        return debezium(goods, schema=ROW)

    runs.table(changes)
    rows, counted = runs.rows("changes")
    assert [(row._op, tuple(row._sequence), row.id, row["name"], row.price and str(row.price)) for row in rows] == [
        ("r", (7, 0), 1, "a", "1.25"),
        ("u", (8, 1), 1, "b", None),
        ("d", (None, 2), 1, None, None),
    ]
    assert rows[1]._before.asDict() == {"id": 1, "name": None, "price": None}
    found = counted["changes"]
    assert (found.records, found.tombstones, found.dropped, found.undecodable) == (9, 1, 0, 5)
    letters = sorted(runs.dead_letters(), key=lambda letter: letter.offset)
    assert [letter.offset for letter in letters] == [4, 5, 6, 7, 8]
    assert [letter.reason for letter in letters] == ["decode"] * 5
    assert [letter.error.partition("op is ")[2] for letter in letters[:4]] == [
        "t, before and after are null",
        "c, after is null",
        "d, before and after are null",
        "null, before and after are null",
    ]
    assert [letter.value for letter in letters] == [json.dumps(sent[letter.offset]).encode() for letter in letters]


def test_apply_debezium_is_a_view_a_table_and_a_flow_of_changes(spark, write):
    folder = write(
        {
            "transformations/shop.py": """\
                from kafkaraw import pipelines as kp

                kp.apply_debezium(target="goods", topic="shop.goods", keys=["id"], schema="id INT, name STRING")
            """
        }
    )
    pipeline = load_pipeline(read_specification(folder), spark)
    assert [(each.name, each.kind) for each in pipeline.datasets] == [
        ("changes_of_goods", DatasetKind.TEMPORARY_VIEW),
        ("goods", DatasetKind.STREAMING_TABLE),
    ]
    (flow,) = pipeline.flows
    assert (flow.kind, flow.target, str(flow.location)) == (FlowKind.CHANGES, "goods", "transformations/shop.py:3")
    assert flow.changes is not None
    assert (flow.changes.keys, flow.changes.sequence_by, flow.changes.apply_as_deletes) == (
        ("id",),
        "_sequence",
        "_op = 'd'",
    )


def test_wrong_arguments_name_the_remedy(spark, kafka, runs):
    def check(match, **given):
        def changes():
            return debezium("goods", **given)

        runs.pipeline = replace(runs.pipeline, datasets=(), flows=())
        runs.table(changes)
        with pytest.raises(PipelineError, match=match):
            runs.evaluated(runs.pipeline.flow("changes"), Purpose.PLAN)

    check('value="json" needs the columns of the rows: schema=')
    check("value='avro' takes no schema", value="avro", schema="a INT")
    check("value='string': Debezium's envelopes are json, avro", value="string")
    check("schema='a INTT'", schema="a INTT")
    check("the column '_op', a name that debezium", schema="_op STRING")
    with pytest.raises(PipelineError, match="while `kafkaraw pipelines` loads the files"):
        apply_debezium("goods", "shop.goods", ["id"], schema="id INT")


REBUILT = """\
from kafkaraw import pipelines as kp

PURCHASE = "id INT, customer INT, amount DECIMAL(10,2), state STRING, at TIMESTAMP"
PARTS = {{"maxOffsetsPerTrigger": "40"}}
kp.apply_debezium(target="purchases", topic="{topic}", keys=["id"], schema=PURCHASE, options=PARTS)
kp.apply_debezium(target="history", topic="{topic}", keys=["id"], schema=PURCHASE, scd_type=2, options=PARTS)
"""


@pytest.mark.soak  # thousands of changes: 45 s
@pytest.mark.timeout(300)
def test_a_table_rebuilt_from_changes_of_postgresql_is_that_of_the_database(spark, kafka, write):
    # Recorded by examples/commit_log: what it captured in two parts, and the tables of the database behind them.
    recorded = json.loads(Path(__file__).with_name("commit_log.json").read_text(encoding="utf-8"))
    records, first, expected = recorded["records"], recorded["first"], recorded["rows"]["purchases"]
    topic = kafka.new_topic(partitions=2)
    for table, key, value in [*records[:first], *records[first - 10 :]]:  # a crash of the capture repeats changes
        if table == "purchases":
            kafka.producer.send(topic, None if value is None else value.encode(), key.encode())
    kafka.producer.flush()
    specification = SPECIFICATION.replace("localhost:9092", kafka.servers)
    folder = write({"transformations/shop.py": REBUILT.format(topic=topic)}, specification)
    pipeline = load_pipeline(read_specification(folder), spark)
    summary = run(pipeline, spark, RunOptions(once=True), plan=planned(pipeline, spark))
    assert summary.exit_code == 0, summary
    assert all(each.dead_letters == 0 for each in summary.status.balance), summary.status.balance
    tables = read_tables(folder, spark)
    rows = [row.asDict() for row in tables["purchases"].collect()]
    assert sorted(map(_texts, rows)) == sorted(map(_texts, expected))
    history = tables["history"]
    current = history.where("__END_AT IS NULL").drop("__START_AT", "__END_AT").collect()
    assert sorted(map(_texts, (row.asDict() for row in current))) == sorted(map(_texts, expected))
    states = {}
    for table, _, value in records:
        after = table == "purchases" and value is not None and json.loads(value)["after"]
        if after:
            known = states.setdefault(after["id"], [])
            known += [after["state"]] if known[-1:] != [after["state"]] else []
    found = history.orderBy("id", "__START_AT").collect()
    assert {key: [row.state for row in found if row.id == key] for key in states} == states


def _texts(row) -> tuple[str, ...]:
    return tuple(str(value).replace("+00:00", "") for value in row.values())
