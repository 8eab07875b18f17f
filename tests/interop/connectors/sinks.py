"""Writing: KafkaSinkBatchSuite and KafkaSinkStreamingSuite, with the same rules for batches and streams."""

from __future__ import annotations

from typing import Final

from tests.interop.connectors.scenario import (
    Create,
    Options,
    Outcome,
    Refused,
    Rows,
    Scenario,
    Write,
    rows,
    scenario,
)

_BATCH: Final = "KafkaSinkBatch"
_STREAM: Final = "KafkaSinkStreaming"
_KV: Final = ("key", "value")
_HEADERS: Final = "array(named_struct('key', 'a', 'value', CAST('b' AS BINARY)))"
_FIVE: Final = "SELECT CAST(id AS STRING) value FROM range(5)"
_FIVE_ROWS: Final = rows("0", "1", "2", "3", "4")

# What is written -> query, options, what comes of it, what is read, and what ours gives instead.
_BOTH: Final[dict[str, tuple[str, Options, Outcome, tuple[str, ...]]]] = {
    "the topic of a column": ("SELECT '$t' topic, 'v' value", {}, rows((None, "v")), _KV),
    "the topic of the option": (_FIVE, {"topic": "$t"}, _FIVE_ROWS, ("value",)),
    "the option topic before the column": ("SELECT 'foo' topic, 'v' value", {"topic": "$t"}, rows("v"), ("value",)),
    "the option topic with blanks around": ("SELECT 'v' value", {"topic": " $t "}, rows("v"), ("value",)),
    "binary keys and values": (
        "SELECT CAST('k' AS BINARY) key, CAST('v' AS BINARY) value",
        {"topic": "$t"},
        rows(("k", "v")),
        _KV,
    ),
    "null keys and values": (
        "SELECT CAST(NULL AS STRING) key, CAST(NULL AS BINARY) value",
        {"topic": "$t"},
        rows((None, None)),
        _KV,
    ),
    "columns in another order, with others": (
        "SELECT 7 other, 'v' value, 'k' key, 1.5 more",
        {"topic": "$t"},
        rows(("k", "v")),
        _KV,
    ),
    "columns in upper case": (
        "SELECT 'v' VALUE, 'k' KEY",
        {"topic": "$t"},
        Refused("value", "attribute 'value' not found"),
        _KV,
    ),
    "headers": (
        f"SELECT 'v' value, {_HEADERS} headers",
        {"topic": "$t"},
        rows(("v", [["a", "b"]])),
        ("value", "headers"),
    ),
    "headers of one name, and null ones": (
        "SELECT 'v' value, array(named_struct('key', 'j', 'value', CAST('k' AS BINARY)), "
        "named_struct('key', 'j', 'value', CAST('l' AS BINARY)), "
        "named_struct('key', 'm', 'value', CAST(NULL AS BINARY))) headers",
        {"topic": "$t"},
        rows(("v", [["j", "k"], ["j", "l"], ["m", None]])),
        ("value", "headers"),
    ),
    "null headers": (
        f"SELECT 'v' value, IF(1 > 2, {_HEADERS}, NULL) headers",
        {"topic": "$t"},
        rows(("v", None)),
        ("value", "headers"),
    ),
    "the partition of a column": (
        "SELECT 'v' value, 'k' key, 2 partition",
        {"topic": "$t"},
        rows(("v", 2)),
        ("value", "partition"),
    ),
    "keys choose partitions": (
        "SELECT CAST(id AS STRING) key, 'v' value, CAST(NULL AS INT) partition FROM range(6)",
        {"topic": "$t"},
        rows(("0", 0), ("1", 3), ("2", 0), ("3", 3), ("4", 1), ("5", 2)),
        ("key", "partition"),
    ),
    "a timestamp column is ignored": (
        "SELECT 'v' value, timestamp_millis(1000) timestamp",
        {"topic": "$t"},
        rows(("v", True)),
        ("value", "unix_millis(timestamp) > 1000000000000"),
    ),
    "no topic": ("SELECT 'k' key, 'v' value", {}, Refused("topic", "topic option required"), _KV),
    "no value": ("SELECT '$t' topic, 'v' key", {}, Refused("value", "required attribute 'value' not found"), _KV),
    "a topic that is a number": ("SELECT 1 topic, 'v' value", {}, Refused("topic", "topic must be a"), _KV),
    "a value that is a number": ("SELECT 1 value", {"topic": "$t"}, Refused("value", "value must be a"), _KV),
    "a key that is a number": ("SELECT 1 key, 'v' value", {"topic": "$t"}, Refused("key", "key must be a"), _KV),
    "a partition that is text": (
        "SELECT 'v' value, '1' partition",
        {"topic": "$t"},
        Refused("partition", "partition must be a"),
        _KV,
    ),
    "a partition that is a long": (
        "SELECT 'v' value, CAST(1 AS LONG) partition",
        {"topic": "$t"},
        Refused("partition", "partition must be a"),
        _KV,
    ),
    "headers that are text": (
        "SELECT 'v' value, 'h' headers",
        {"topic": "$t"},
        Refused("headers", "headers must be a"),
        _KV,
    ),
    "a null topic": (
        "SELECT CAST(NULL AS STRING) topic, 'v' value",
        {},
        Refused("topic", "null topic"),
        _KV,
    ),
    "kafka.key.serializer of a stream": (
        "SELECT 'v' value",
        {"topic": "$t", "kafka.key.serializer": "foo"},
        Refused("serializer", "'key.serializer' is not supported"),
        _KV,
    ),
    "a partition that is not there": (
        "SELECT 'v' value, 9 partition",
        {
            "topic": "$t",
            "kafka.max.block.ms": "3000",
            "kafka.delivery.timeout.ms": "3000",
            "kafka.request.timeout.ms": "1000",
            "kafka.linger.ms": "0",
        },
        Refused("partition", "partition 9"),
        _KV,
    ),
    "a negative partition": (
        "SELECT 'v' value, -1 partition",
        {"topic": "$t"},
        Refused("partition", "invalid partition"),
        _KV,
    ),
    "a topic with an illegal name": (
        "SELECT 'v' value, 'no topic!' topic",
        {"kafka.max.block.ms": "3000"},
        Refused("no topic!", "InvalidTopicException"),
        _KV,
    ),
    "a value that is too large": (
        "SELECT repeat('x', 2000000) value",
        {"topic": "$t"},
        Refused("max.request.size", "RecordTooLargeException"),
        _KV,
    ),
    "no rows": ("SELECT 'v' value WHERE 1 > 2", {"topic": "$t"}, rows(), _KV),
    "a thousand rows of JSON": (
        "SELECT to_json(struct(id)) value FROM range(1000)",
        {"topic": "$t"},
        Rows(tuple((f'{{"id":{number}}}',) for number in range(1000))),
        ("value",),
    ),
    "more than fits the buffer": (
        "SELECT repeat('x', 15000) value FROM range(200)",
        {"topic": "$t", "kafka.buffer.memory": "65536"},
        rows(*[15000] * 200),
        ("length(value)",),
    ),
}

_QUICK: Final = frozenset({"the option topic before the column", "headers", "no value", "a null topic"})


def _both() -> list[Scenario]:
    found = []
    for name, (query, options, expect, columns) in _BOTH.items():
        for kind, stream in (("batch", False), ("stream", True)):
            step = Write(query=query, options=options, columns=columns, expect=expect, stream=stream)
            suite = _STREAM if stream else _BATCH
            quick = name in _QUICK and not stream
            found.append(scenario(f"{kind} write: {name}", Create("t", 4), step, suite=suite, quick=quick))
    return found


_NO_DEFAULT: Final = Refused("mode")

_MODES: Final = (
    scenario(
        "batch write: mode overwrite",
        Create("t"),
        Write(query=_FIVE, options={"topic": "$t"}, mode="overwrite", expect=Refused("mode", "overwrite")),
        suite=_BATCH,
    ),
    scenario(
        "batch write: mode ignore",
        Create("t"),
        Write(query=_FIVE, options={"topic": "$t"}, mode="ignore", expect=Refused("ignore", "ignore")),
        suite=_BATCH,
    ),
    scenario(
        "batch write: the default mode",
        Create("t"),
        Write(query=_FIVE, options={"topic": "$t"}, mode=None, expect=_FIVE_ROWS, ours=_NO_DEFAULT),
        suite=_BATCH,
        differs="mode of a batch write",
    ),
    scenario(
        "batch write: mode errorifexists",
        Create("t"),
        Write(query=_FIVE, options={"topic": "$t"}, mode="errorifexists", expect=_FIVE_ROWS, ours=_NO_DEFAULT),
        suite=_BATCH,
        differs="mode of a batch write",
    ),
    scenario(
        "batch write: two writes append",
        Create("t"),
        Write(query=_FIVE, options={"topic": "$t"}, expect=_FIVE_ROWS),
        Write(query=_FIVE, options={"topic": "$t"}, expect=Rows(_FIVE_ROWS.rows * 2)),
        suite=_BATCH,
    ),
    scenario(
        "stream write: append",
        Create("t"),
        Write(query=_FIVE, options={"topic": "$t"}, stream=True, mode="append", expect=_FIVE_ROWS),
        suite=_STREAM,
    ),
    scenario(
        "stream write: update",
        Create("t"),
        Write(
            query=_FIVE, options={"topic": "$t"}, stream=True, mode="update", expect=_FIVE_ROWS, ours=Refused("update")
        ),
        suite=_STREAM,
        differs="update mode of a stream",
    ),
    scenario(
        "batch write: a topic that the broker creates",
        Write(query=_FIVE, options={"topic": "$t", "kafka.max.block.ms": "20000"}, expect=_FIVE_ROWS),
        suite=_BATCH,
    ),
    scenario(
        "batch write: an empty topic option",
        Write(query=_FIVE, options={"topic": " "}, into=None, expect=Refused("topic", "InvalidTopic")),
        suite=_BATCH,
    ),
    scenario(
        "batch write: a partitioner",
        Create("t", 4),
        Write(
            query="SELECT 'v' value FROM range(4)",
            options={
                "topic": "$t",
                "kafka.partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner",
            },
            expect=rows("v", "v", "v", "v"),
        ),
        suite=_BATCH,
    ),
    scenario(
        "batch write: a partitioner that is not there",
        Create("t"),
        Write(
            query="SELECT 'v' value",
            options={"topic": "$t", "kafka.partitioner.class": "example.Own"},
            expect=Refused("kafka.partitioner.class", "example.Own"),
        ),
        suite=_BATCH,
    ),
)

SCENARIOS: Final = (*_both(), *_MODES)
