"""Spark writes to the three databases: batch writes, streams that start again, what it shows of passwords."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pyspark.errors import PySparkException

PASSWORD = "Sesam-7-database"


def options_of(place, **more):
    database = {"url" if place.kind == "postgresql" else "path": place.options.database}
    return {**database, "table": place.options.table, **more}


def frame(spark, *rows):
    return spark.createDataFrame(list(rows), "id bigint, name string, offset bigint, deleted boolean")


def write(rows, place, mode="append", **more):
    rows.write.format(f"kafkaraw.{place.kind}").options(**options_of(place, **more)).mode(mode).save()


def test_batch_writes_append_upsert_and_overwrite(spark, place):
    write(frame(spark, (1, "a", 1, False), (2, "b", 2, None)), place, key="id", deleteColumn="deleted")
    newer = frame(spark, (1, "c", 4, False), (1, "b", 3, False), (2, None, 5, True)).repartition(2)
    write(newer, place, key="id", orderColumn="offset", deleteColumn="deleted")
    assert place.rows() == [(1, "c", 4)]
    write(frame(spark, (9, "z", 9, False)).drop("deleted"), place, saveMode="ignore")
    with pytest.raises(PySparkException, match="saveMode is errorifexists"):
        write(frame(spark, (9, "z", 9, False)).drop("deleted"), place, saveMode="errorifexists")
    assert place.rows() == [(1, "c", 4)]
    write(frame(spark, (7, "q", 9, False)).drop("deleted"), place, mode="overwrite")
    assert place.rows() == [(7, "q", 9)]
    assert place.staged() == []


def test_failed_task_leaves_no_row(spark, place):
    rows = spark.range(4, numPartitions=2).selectExpr("id", "if(id = 3, raise_error('no'), id) AS x")
    with pytest.raises(PySparkException, match="no"):
        write(rows, place)
    assert place.rows() == []


def _stream(spark, source, place, checkpoint, mode="append", counted=False, **more):
    rows = spark.readStream.schema("id bigint, name string, offset bigint").json(str(source))
    rows = rows.groupBy("name").count() if counted else rows
    query = (
        rows.writeStream.format(f"kafkaraw.{place.kind}")
        .options(**options_of(place, checkpointLocation=str(checkpoint), **more))
        .outputMode(mode)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(100)


def _add(source, name, *rows):
    source.mkdir(exist_ok=True)
    (source / name).write_text("\n".join(json.dumps(row) for row in rows))


def test_stream_that_repeats_a_batch_writes_it_once(spark, place, tmp_path):
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    _add(source, "1.json", {"id": 1, "name": "a", "offset": 1}, {"id": 2, "name": "b", "offset": 2})
    _stream(spark, source, place, checkpoint)
    (checkpoint / "commits" / "0").unlink()
    (checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
    _add(source, "2.json", {"id": 3, "name": "c", "offset": 3})
    _stream(spark, source, place, checkpoint)
    assert place.rows("id, name") == [(1, "a"), (2, "b"), (3, "c")]
    assert place.staged() == []


def test_complete_mode_replaces_all_rows(spark, place, tmp_path):
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    _add(source, "1.json", {"id": 1, "name": "a"}, {"id": 2, "name": "b"})
    _stream(spark, source, place, checkpoint, "complete", counted=True)
    _add(source, "2.json", {"id": 3, "name": "a"})
    _stream(spark, source, place, checkpoint, "complete", counted=True)
    assert place.rows() == [("a", 2), ("b", 1)]


def test_plan_and_messages_show_no_password(spark, server, capfd):
    place = replace(server[0].named("t_secret"))
    rows = frame(spark, (1, "a", 1, False))
    with pytest.raises(PySparkException) as refused:
        write(rows, place, password=PASSWORD, url=f"postgresql://ada:{PASSWORD}@localhost/shop")
    with pytest.raises(PySparkException) as lost:
        write(rows, place, password=PASSWORD, url="postgresql://ada@127.0.0.1:1/shop")
    write(rows, place, password=PASSWORD)
    shown = "".join((str(refused.value), str(lost.value), *capfd.readouterr()))
    assert "contains a password" in shown
    assert "connecting failed" in shown
    assert PASSWORD not in shown
