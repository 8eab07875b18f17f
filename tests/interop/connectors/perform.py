"""Does scenarios with both connectors in one Spark session, and prints what came of each step.

A process of its own, in the Spark that Spark's own connector was released for; start it with `run.outcomes`. Its
argument is JSON: servers, jars, asked (pairs of a scenario's name and a connector), scratch (a folder), threads. It
prints a line of JSON for each pair: name, connector, and an outcome per observing step, {"rows": ...} or
{"refused": message}.
What follows a step that is refused against expectation is not done.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from kafkaraw import Admin, Producer
from kafkaraw.client.admin import NewPartitions, NewTopic
from kafkaraw.records import TopicPartition
from kafkaraw.spark import session
from tests.interop.connectors.catalog import SCENARIOS
from tests.interop.connectors.scenario import (
    Action,
    Create,
    Delete,
    DeleteRecords,
    Observation,
    Partitions,
    Read,
    Record,
    Rows,
    Scenario,
    Send,
    Stream,
    Transact,
    Write,
)

CONNECTORS = {"kafka": "k", "kafkaraw": "r"}
_SECONDS_MAX = 120.0
_PROGRESS_SECONDS = 10.0
# Spark gives up on a Python process that takes 10 s to start, as on a busy machine; nothing was done then.
_NOT_STARTED = ("failed to connect back", "waiting for the Python worker to connect back")
_STARTS_MAX = 3


class Cluster:
    """Topics and records for the steps of all scenarios."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._admin = Admin(bootstrap_servers=servers)
        self._producer = Producer(bootstrap_servers=servers, linger_ms=0)

    def close(self) -> None:
        self._producer.close()
        self._admin.close()

    def do(self, action: Action, topic: str) -> None:
        match action:
            case Create(_, partitions, configs):
                self._admin.create_topics([NewTopic(topic, partitions=partitions, configs=dict(configs))])
            case Delete():
                self._admin.delete_topics([topic])
                self._wait_until_gone(topic)
            case Partitions(_, total):
                self._admin.create_partitions({topic: NewPartitions(total)})
            case Send(_, records, partition):
                self._send(topic, records, partition)
            case DeleteRecords(_, before, partition):
                self._admin.delete_records({TopicPartition(topic, partition): before})
            case Transact(_, values, commit):
                self._transact(topic, values, commit)

    def _wait_until_gone(self, topic: str) -> None:
        deadline = time.monotonic() + 30
        while topic in {each.name for each in self._admin.list_topics()}:
            assert time.monotonic() < deadline, f"{topic} is still there"
            time.sleep(0.05)

    def _send(self, topic: str, records: tuple[str | Record | None, ...], partition: int) -> None:
        tickets = []
        for each in records:
            record = each if isinstance(each, Record) else Record(each)
            ticket = self._producer.send(
                topic,
                None if record.value is None else record.value.encode(),
                None if record.key is None else record.key.encode(),
                partition=partition,
                headers=[(name, None if text is None else text.encode()) for name, text in record.headers],
                timestamp_ms=record.timestamp_ms,
            )
            tickets.append(ticket)
        for ticket in tickets:
            ticket.result(30)

    def _transact(self, topic: str, values: tuple[str | None, ...], commit: bool) -> None:
        with Producer(bootstrap_servers=self.servers, transactional_id=f"of-{topic}", linger_ms=0) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for value in values:
                producer.send(topic, None if value is None else value.encode(), partition=0)
            producer.flush(30)
            (producer.commit_transaction if commit else producer.abort_transaction)()


class Performance:
    """One scenario with one connector.

    Args:
        spark: the session.
        cluster: where topics are made.
        connector: format of reads and writes.
        prefix: begins the names of its topics.
        scratch: an empty folder of its own.
    """

    def __init__(self, spark: SparkSession, cluster: Cluster, connector: str, prefix: str, scratch: Path) -> None:
        self._spark = spark
        self._cluster = cluster
        self._connector = connector
        self._prefix = prefix
        self._scratch = scratch

    def outcomes(self, scenario: Scenario) -> Iterator[dict[str, Any]]:
        """What came of each observing step."""
        for step in scenario.steps:
            if not isinstance(step, Observation):
                self._act(step)
                continue
            outcome = self._outcome(step)
            yield outcome
            if "refused" in outcome and isinstance(step.ours or step.expect, Rows):
                return

    def _outcome(self, step: Observation) -> dict[str, Any]:
        for _ in range(_STARTS_MAX):
            try:
                return {"rows": sorted(self._observe(step), key=repr)}
            except Exception as error:  # noqa: BLE001  # of many kinds: the message is the outcome
                message = _message(error)
            if not any(words in message for words in _NOT_STARTED):
                break
        return {"refused": self._symbol(message)}

    def _observe(self, step: Observation) -> list[list[Any]]:
        match step:
            case Read():
                found = self._read(step)
            case Stream():
                found = self._stream(step)
            case Write():
                found = self._write(step)
            case _:
                raise TypeError(step)
        return [[self._symbol(value) for value in row] for row in found]

    def _act(self, action: Action) -> None:
        self._cluster.do(action, self._name(action.topic))

    def _name(self, topic: str) -> str:
        return f"{self._prefix}-{topic}"

    def _filled(self, text: str) -> str:
        filled = text.replace("$servers", self._cluster.servers).replace("$prefix", self._prefix)
        for symbol in "tuv":
            filled = filled.replace(f"${symbol}", self._name(symbol))
        return filled

    def _symbol(self, value: Any) -> Any:
        if isinstance(value, (bytes, bytearray)):
            return value.decode("utf-8", "replace")
        if isinstance(value, (list, tuple)):
            return [self._symbol(each) for each in value]
        return value.replace(self._prefix + "-", "$") if isinstance(value, str) else value

    def _options(self, given: Any) -> dict[str, str]:
        options = {"kafka.bootstrap.servers": "$servers"} | dict(given)
        return {self._filled(name): self._filled(text) for name, text in options.items() if text is not None}

    def _columns(self, columns: tuple[str, ...]) -> list[str]:
        return [self._filled(column) for column in columns]

    def _read(self, step: Read) -> list[Any]:
        if step.table:
            return self._read_table(step)
        reader = self._spark.read.format(self._connector).options(**self._options(step.options))
        if step.schema is not None:
            reader = reader.schema(step.schema)
        frame = reader.load() if step.path is None else reader.load(step.path)
        frame = frame.selectExpr(*self._columns(step.columns))
        if step.union:
            frame = frame.union(frame)
        if step.again is not None:
            frame.collect()
            for action in step.again:
                self._act(action)
        if step.tasks:
            parts = frame.rdd.glom().collect()
            return [(len(parts), sum(map(len, parts)))]
        return [tuple(row) for row in frame.collect()]

    def _read_table(self, step: Read) -> list[Any]:
        name = f"table_{self._prefix}"
        options = ", ".join(f"`{option}` '{text}'" for option, text in self._options(step.options).items())
        self._spark.sql(f"CREATE TABLE {name} USING {self._connector} OPTIONS ({options})")
        try:
            return [tuple(row) for row in self._spark.table(name).selectExpr(*self._columns(step.columns)).collect()]
        finally:
            self._spark.sql(f"DROP TABLE {name}")

    def _stream(self, step: Stream) -> list[Any]:
        reader = self._spark.readStream.format(self._connector).options(**self._options(step.options))
        frame = reader.load().selectExpr(*self._columns(step.columns))
        found: list[tuple[int, Any]] = []

        def keep(batch: DataFrame, number: int) -> None:
            if step.tasks:
                found.append((number, (batch.rdd.getNumPartitions(), batch.count())))
            else:
                found.extend((number, tuple(row)) for row in batch.collect())

        writer = frame.writeStream.foreachBatch(keep)
        if step.trigger != "live":
            writer = writer.trigger(**{step.trigger: True})
        query = writer.option("checkpointLocation", str(self._scratch / step.checkpoint)).start()
        try:
            if step.trigger == "live":
                self._live(step, query, found)
            else:
                assert query.awaitTermination(_SECONDS_MAX), "the query did not end"
        finally:
            query.stop()
        if step.progress:
            return [self._progress(query, step.progress)]
        if step.ends:
            reports = self._reports(query)
            ends = (json.dumps(each["sources"][0]["endOffset"], sort_keys=True) for each in reports)
            return [(place, end) for place, end in enumerate(ends)]
        if step.sizes:
            sizes: dict[int, int] = {}
            for number, _ in found:
                sizes[number] = sizes.get(number, 0) + 1
            return [(place, size) for place, size in enumerate(sizes.values())]
        return [row for _, row in found]

    def _live(self, step: Stream, query: StreamingQuery, found: list[Any]) -> None:
        query.processAllAvailable()
        for actions, total in step.phases:
            for action in actions:
                self._act(action)
            deadline = time.monotonic() + 60
            while len(found) < total:
                error = query.exception()
                if error is not None:
                    raise error
                assert time.monotonic() < deadline, f"{len(found)} rows in place of {total}: {found}"
                time.sleep(0.1)
            query.processAllAvailable()
        error = query.exception()
        if error is not None:
            raise error

    def _reports(self, query: StreamingQuery) -> list[dict[str, Any]]:
        """The progress of the micro-batches that have rows; they are there a moment after the last batch."""
        deadline = time.monotonic() + _PROGRESS_SECONDS
        while True:
            reports = [json.loads(each.json) for each in query.recentProgress]
            with_rows = [each for each in reports if each["numInputRows"]]
            if with_rows:
                return with_rows
            assert time.monotonic() < deadline, "no progress with rows"
            time.sleep(0.05)

    def _progress(self, query: StreamingQuery, names: tuple[str, ...]) -> tuple[Any, ...]:
        source = self._reports(query)[-1]["sources"][0]
        source |= source.get("metrics") or {}
        return tuple(json.dumps(source.get(name), sort_keys=True) for name in names)

    def _write(self, step: Write) -> list[Any]:
        frame = self._spark.sql(self._filled(step.query))
        options = self._options(step.options)
        if step.stream:
            self._write_stream(step, frame, options)
        else:
            writer = frame.write.format(self._connector).options(**options)
            (writer if step.mode is None else writer.mode(step.mode)).save()
        if step.into is None:
            return []
        reader = self._spark.read.format("kafka").option("kafka.bootstrap.servers", self._cluster.servers)
        content = reader.option("subscribe", self._name(step.into)).option("includeHeaders", "true").load()
        return [tuple(row) for row in content.selectExpr(*self._columns(step.columns)).collect()]

    def _write_stream(self, step: Write, frame: DataFrame, options: dict[str, str]) -> None:
        folder = str(self._scratch / f"rows{len(list(self._scratch.iterdir()))}")
        frame.write.parquet(folder)
        rows = self._spark.readStream.schema(frame.schema).parquet(folder)
        writer = rows.writeStream.format(self._connector).options(**options).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", folder + ".checkpoint")
        query = (writer if step.mode is None else writer.outputMode(step.mode)).start()
        try:
            assert query.awaitTermination(_SECONDS_MAX), "the query did not end"
        finally:
            query.stop()


def _message(error: BaseException) -> str:
    """What Spark says of it, with the messages of the causes that Spark's first line leaves out."""
    words = [str(error)]
    java = getattr(error, "_origin", None)
    while java is not None and len(words) < 8:
        words.append(str(java.toString()))
        java = java.getCause()
    return "\n".join(words)


def main() -> None:
    asked = json.loads(sys.argv[1])
    conf = {"spark.jars": ",".join(asked["jars"]), "spark.sql.shuffle.partitions": "1"}
    conf["spark.sql.warehouse.dir"] = str(Path(asked["scratch"], "warehouse"))
    spark = session("connectors", master="local[2]", conf=conf)
    spark.sparkContext.setLogLevel("OFF")
    cluster = Cluster(asked["servers"])
    known = {each.name: (number, each) for number, each in enumerate(SCENARIOS)}
    printing = threading.Lock()

    def perform(number: int, scenario: Scenario, connector: str) -> None:
        prefix = f"s{number}{CONNECTORS[connector]}"
        scratch = Path(asked["scratch"], prefix)
        scratch.mkdir(parents=True)
        start = time.monotonic()
        found: dict[str, Any] = {"name": scenario.name, "connector": connector, "outcomes": []}
        try:
            found["outcomes"].extend(Performance(spark, cluster, connector, prefix, scratch).outcomes(scenario))
        except Exception:  # noqa: BLE001  # an action failed: a fault of the scenario
            found["fault"] = traceback.format_exc()[-3000:]
        found["seconds"] = round(time.monotonic() - start, 2)
        with printing:
            print(json.dumps(found), flush=True)

    try:
        with ThreadPoolExecutor(asked["threads"]) as pool:
            done = [pool.submit(perform, *known[name], connector) for name, connector in asked["asked"]]
            for each in done:
                each.result()
    finally:
        cluster.close()
        spark.stop()


if __name__ == "__main__":
    main()
