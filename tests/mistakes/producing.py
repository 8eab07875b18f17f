"""Mistakes in sending: records, Arrow data, serializers, transactions."""

from __future__ import annotations

import datetime
import json

import pyarrow

from kafkaraw import (
    BrokerError,
    ClosedError,
    DeliveryError,
    RecordTooLargeError,
    SerializationError,
    StaleMetadataError,
    TransactionAbortableError,
    UnknownTopicError,
    UsageError,
)
from tests.mistakes.mistake import T0, Desk, Mistake

WHEN = datetime.datetime(2026, 1, 2)
BRIEFLY = {"max_block_ms": 300}


def send(
    what: str, arguments: tuple[object, ...], value: str, remedy: str, *, stage: str = "send to topic 't'",
    error: type[BaseException] = UsageError, **more: object
) -> Mistake:  # fmt: skip
    return Mistake(
        f"send: {what}", lambda on: on.produce(lambda p: p.send(*arguments, **more)), error, stage, value, remedy
    )


def headers(what: str, given: object, value: str, remedy: str) -> Mistake:
    return send(what, ("t", b"v"), value, remedy, headers=given)


def arrow(what: str, topic: object, data: object, stage: str, value: str, remedy: str, **settings: object) -> Mistake:
    def call(on: Desk) -> object:
        return on.produce(lambda p: p.send_arrow(topic, data), **settings)

    return Mistake(f"send_arrow: {what}", call, UsageError, stage, value, remedy)


def transaction(what: str, act: object, stage: str, value: str, remedy: str) -> Mistake:
    return Mistake(
        f"transaction: {what}", lambda on: on.transact(lambda p: act(on, p)), UsageError, stage, value, remedy
    )


async def outcome_of(on: Desk, producer: object, *arguments: object) -> object:
    return await on.outcome(await on.of(producer.send(*arguments)))


async def timed_result(on: Desk, producer: object) -> object:
    return (await on.of(producer.send("t", b"v"))).result("5")


RECORDS = (
    send("text for a value", ("t", "text"), "not str", "encode it, or give the producer a value_serializer"),
    send("a dict for a value", ("t", {"a": 1}), "not dict", "value_serializer"),
    send("a number for a value", ("t", 5), "not int", "value_serializer"),
    send("text for a key", ("t", b"v", "key"), "not str", "key_serializer"),
    send("a number for a key", ("t", b"v", 5), "not int", "key_serializer"),
    headers("headers as a dict", {"a": b"1"}, "not a dict", "list(headers.items())"),
    headers("headers as a dict with names of two letters", {"ab": b"1"}, "not a dict", "list(headers.items())"),
    headers("a header's name as bytes", [(b"a", b"1")], "not bytes b'a'", "headers=[('trace-id', b'42')]"),
    headers("a header's value as text", [("a", "1")], "header 'a' is bytes or None, not str", "encode it"),
    headers("a header of three", [("a", b"1", b"2")], "not tuple of 3", "headers=[('trace-id', b'42')]"),
    headers("headers as text", "ab", "not str", "headers=[('trace-id', b'42')]"),
    headers("headers as a number", 5, "not int", "headers=[('trace-id', b'42')]"),
    headers("headers that can be read only once", iter([("a", b"1")]), "not list_iterator",
            "headers=[('trace-id', b'42')]"),
    headers("one pair for headers", ("a", b"1"), "not str", "headers=[('trace-id', b'42')]"),
    headers("headers of numbers", [5], "not int", "headers=[('trace-id', b'42')]"),
    send("text for a partition", ("t", b"v"), "'0'", "as in partition=0, not str", stage="partition", partition="0"),
    send("a float for a partition", ("t", b"v"), "0.5", "a whole number", stage="partition", partition=0.5),
    send("True for a partition", ("t", b"v"), "True", "a whole number", stage="partition", partition=True),
    send("a TopicPartition for a partition", ("t", b"v"), "TopicPartition", "a whole number", stage="partition",
         partition=T0),
    send("a negative partition", ("t", b"v"), "no partition -1", "has partitions 0 to 2", stage="topic 't'",
         partition=-1),
    send("a partition that there is not", ("t", b"v"), "no partition 99", "has partitions 0 to 2", stage="topic 't'",
         partition=99),
    send("a datetime for a timestamp", ("t", b"v"), "datetime.datetime(2026, 1, 2", "milliseconds since 1970",
         stage="timestamp", timestamp_ms=WHEN),
    send("seconds for a timestamp", ("t", b"v"), "1.5", "milliseconds since 1970", stage="timestamp", timestamp_ms=1.5),
    send("text for a timestamp", ("t", b"v"), "'now'", "milliseconds since 1970", stage="timestamp",
         timestamp_ms="now"),
    send("no topic", (None, b"v"), "None", "the name of one topic", stage="send: topic"),
    send("bytes for a topic", (b"t", b"v"), "b't'", "the name of one topic", stage="send: topic"),
    send("a number for a topic", (5, b"v"), "5", "the name of one topic", stage="send: topic"),
    send("a list for a topic", (["t"], b"v"), "['t']", "the name of one topic", stage="send: topic"),
    send("no text for a topic", ("", b"v"), "''", "the name of one topic", stage="send: topic"),
    send("a topic with a blank", ("a b", b"v"), "'a b'", "'.', '_' and '-'", stage="INVALID_TOPIC_EXCEPTION",
         error=BrokerError),
    send("a topic that is too long", ("a" * 300, b"v"), "'aaaa", "1 to 249", stage="INVALID_TOPIC_EXCEPTION",
         error=BrokerError),
    send("a topic of two dots", ("..", b"v"), "'..'", "but not '.' or '..'", stage="INVALID_TOPIC_EXCEPTION",
         error=BrokerError),
    Mistake("send: a topic that does not exist", lambda on: on.produce(lambda p: p.send("missing", b"v"), **BRIEFLY),
            UnknownTopicError, "does not exist", "'missing'", "create it with Admin.create_topics"),
    send("a record that is too large", ("t", bytes(2_000_000)), "2000082 bytes", "max_request_size is 1048576; raise",
         stage="a record for topic 't'", error=RecordTooLargeError),
    Mistake("send: a record that is too large for its topic", lambda on: on.produce(
                lambda p: outcome_of(on, p, "small", bytes(5000))),
            BrokerError, "MESSAGE_TOO_LARGE", "5070 bytes", "raise the topic's max.message.bytes"),
    Mistake("flush: a record that is too large for its topic", lambda on: on.produce(
                lambda p: on.steps(p.send("small", bytes(5000)), p.flush)),
            DeliveryError, "records sent before were not acknowledged", "5070 bytes", "raise the topic's max.message"),
    Mistake("send: a record without a key to a compacted topic", lambda on: on.produce(
                lambda p: outcome_of(on, p, "compacted", b"v")),
            BrokerError, "INVALID_RECORD", "compacted-0", "a compacted topic takes none without a key"),
    Mistake("send after close", lambda on: on.produce(lambda p: on.steps(p.close(), lambda: p.send("t", b"v"))),
            ClosedError, "producer", "is closed", "make a new one"),
    Mistake("flush after close", lambda on: on.produce(lambda p: on.steps(p.close(), p.flush)),
            ClosedError, "producer", "is closed", "make a new one"),
    Mistake("flush: text for a timeout", lambda on: on.produce(lambda p: p.flush("5")),
            UsageError, "timeout", "'5'", "a number of seconds"),
    Mistake("flush: a negative timeout", lambda on: on.produce(lambda p: p.flush(-1)),
            UsageError, "timeout", "-1", "zero or more seconds"),
    Mistake("close: text for a timeout", lambda on: on.produce(lambda p: p.close("5")),
            UsageError, "timeout", "'5'", "a number of seconds"),
    Mistake("Ticket.result: text for a timeout", lambda on: on.produce(lambda p: timed_result(on, p), linger_ms=500),
            UsageError, "timeout", "'5'", "a number of seconds"),
    Mistake("send_nowait: a topic that is not known yet",
            lambda on: on.produce(lambda p: on.of(p.send_nowait("t", b"v"))),
            StaleMetadataError, "is not known yet", "'t'", "call partitions_for() first"),
    Mistake("send_nowait: no topic", lambda on: on.produce(lambda p: on.of(p.send_nowait(None, b"v"))),
            UsageError, "send_nowait: topic", "None", "the name of one topic"),
    Mistake("partitions_for: no topic", lambda on: on.produce(lambda p: p.partitions_for(None)),
            UsageError, "partitions_for: topic", "None", "partitions_for('orders')"),
    Mistake("partitions_for: a list", lambda on: on.produce(lambda p: p.partitions_for(["t"])),
            UsageError, "partitions_for: topic", "['t']", "the name of one topic"),
    Mistake("partitions_for: a topic that does not exist",
            lambda on: on.produce(lambda p: p.partitions_for("missing", 0.3)),
            UnknownTopicError, "does not exist", "'missing'", "check the spelling"),
    Mistake("partitions_for: text for a timeout", lambda on: on.produce(lambda p: p.partitions_for("t", "5")),
            UsageError, "timeout", "'5'", "a number of seconds"),
)  # fmt: skip

FUNCTIONS = (
    Mistake("a serializer that raises", lambda on: on.produce(
                lambda p: p.send("t", {"a": {1}}), value_serializer=lambda v: json.dumps(v).encode()),
            SerializationError, "refuses the value of a record for topic 't'", "TypeError", "change the serializer"),
    Mistake("a serializer that makes text", lambda on: on.produce(
                lambda p: p.send("t", {"a": 1}), value_serializer=json.dumps),
            SerializationError, "of the value of a record for topic 't'", "dumps made str", "must return bytes"),
    Mistake("a serializer of keys that raises", lambda on: on.produce(
                lambda p: p.send("t", b"", 5), key_serializer=lambda key: key.encode()),
            SerializationError, "refuses the key of a record for topic 't'", "of type int", "what is sent"),
    Mistake("a partitioner that raises", lambda on: on.produce(
                lambda p: p.send("t", b"", b"k"), partitioner=lambda *_: 1 // 0),
            UsageError, "the partitioner raised", "ZeroDivisionError", "must give a partition, or None"),
    Mistake("a partitioner that gives no such partition", lambda on: on.produce(
                lambda p: p.send("t", b"", b"k"), partitioner=lambda *_: 77),
            UsageError, "the partitioner chose", "77", "has partitions 0 to 2"),
    Mistake("a partitioner that gives text", lambda on: on.produce(
                lambda p: p.send("t", b"", b"k"), partitioner=lambda *_: "0"),
            UsageError, "the partitioner chose", "'0'", "it must give one of these"),
)  # fmt: skip

VALUE = {"value": [b"1"]}
ARROW = (
    arrow("no column of a record", "t", pyarrow.table({"x": [b"1"]}), "column", "'x'", "columns to send are key"),
    arrow("a column that is misspelled", "t", pyarrow.table({**VALUE, "vlaue": [b"1"]}), "unknown column", "'vlaue'",
          "did you mean 'value'?"),
    arrow("values that are numbers", "t", pyarrow.table({"value": [1]}), "column 'value'", "int64", "serialize"),
    arrow("no topic", None, pyarrow.table(VALUE), "topic", "column 'topic'", "give a topic"),
    arrow("two topics", "t", pyarrow.table({**VALUE, "topic": ["t"]}), "topic", "topic='t'", "give one of them"),
    arrow("a number for a topic", 5, pyarrow.table(VALUE), "send_arrow: topic", "5", "the name of one topic"),
    arrow("a list of rows", "t", [{"value": b"1"}], "send_arrow", "not list", "pyarrow.Table or RecordBatch"),
    arrow("topic and data exchanged", pyarrow.table(VALUE), "t", "send_arrow", "topic", "one topic"),
    arrow("partitions that are text", "t", pyarrow.table({**VALUE, "partition": ["0"]}), "column 'partition'",
          "string", "expected: integers"),
    arrow("a partition that there is not", "t", pyarrow.table({**VALUE, "partition": [99]}), "column 'partition'",
          "row 0 has 99", "has partitions 0 to 2"),
    arrow("timestamps that are text", "t", pyarrow.table({**VALUE, "timestamp": ["now"]}), "column 'timestamp'",
          "string", "milliseconds since 1970"),
    arrow("headers that are text", "t", pyarrow.table({**VALUE, "headers": ["a"]}), "column 'headers'", "string",
          "list<struct<key: string, value: binary>>"),
    arrow("a row without a topic", None, pyarrow.table({**VALUE, "topic": pyarrow.array([None], pyarrow.string())}),
          "column 'topic'", "row 0 is null", "needs a topic"),
    Mistake("send_arrow: a topic that does not exist",
            lambda on: on.produce(lambda p: p.send_arrow("missing", pyarrow.table(VALUE)), **BRIEFLY),
            UnknownTopicError, "does not exist", "'missing'", "Admin.create_topics"),
    Mistake("send_arrow: a row that is too large",
            lambda on: on.produce(lambda p: p.send_arrow("t", pyarrow.table({"value": [bytes(2_000_000)]}))),
            RecordTooLargeError, "row 0", "2000082 bytes", "max_request_size"),
)  # fmt: skip


def in_transaction(act: object) -> object:
    return lambda on, p: on.steps(p.begin_transaction(), lambda: act(p))


async def overtaken(on: Desk, producer: object) -> object:
    await on.of(producer.begin_transaction())
    await on.transact(lambda _: None)
    await on.of(producer.send("t", b"v"))
    return await on.of(producer.commit_transaction())


TRANSACTIONS = (
    Mistake("init_transactions without a transactional id", lambda on: on.produce(lambda p: p.init_transactions()),
            UsageError, "this producer", "has no transactional_id", "give it one"),
    Mistake("begin_transaction without a transactional id", lambda on: on.produce(lambda p: p.begin_transaction()),
            UsageError, "this producer", "has no transactional_id", "give it one"),
    Mistake("begin_transaction before init_transactions",
            lambda on: on.produce(lambda p: p.begin_transaction(), transactional_id="tx"),
            UsageError, "the producer", "has not been initialised", "call init_transactions() first"),
    Mistake("commit_transaction before init_transactions",
            lambda on: on.produce(lambda p: p.commit_transaction(), transactional_id="tx"),
            UsageError, "the producer", "has not been initialised", "call init_transactions() first"),
    Mistake("send before init_transactions", lambda on: on.produce(lambda p: p.send("t", b"v"), transactional_id="tx"),
            UsageError, "the producer", "has not been initialised", "call init_transactions() first"),
    transaction("init_transactions twice", lambda on, p: p.init_transactions(), "init_transactions()",
                "has been called already", "once is enough"),
    transaction("send before begin_transaction", lambda on, p: p.send("t", b"v"), "the producer",
                "has no open transaction", "call begin_transaction() first"),
    transaction("commit_transaction without begin", lambda on, p: p.commit_transaction(), "the producer",
                "has no open transaction", "call begin_transaction() first"),
    transaction("abort_transaction without begin", lambda on, p: p.abort_transaction(), "the producer",
                "has no open transaction", "call begin_transaction() first"),
    transaction("prepare_transaction without begin", lambda on, p: p.prepare_transaction(), "the producer",
                "has no open transaction", "call begin_transaction() first"),
    transaction("begin_transaction twice", in_transaction(lambda p: p.begin_transaction()), "the producer",
                "has an open transaction", "commit or abort it first"),
    transaction("offsets without begin", lambda on, p: p.send_offsets_to_transaction({T0: 1}, "g"), "the producer",
                "has no open transaction", "call begin_transaction() first"),
    transaction("text for an offset", in_transaction(lambda p: p.send_offsets_to_transaction({T0: "1"}, "g")),
                "send_offsets_to_transaction: t-0", "'1'", "a whole number"),
    transaction("a list for offsets", in_transaction(lambda p: p.send_offsets_to_transaction([T0], "g")),
                "send_offsets_to_transaction", "not list", "a dict by partition"),
    transaction("a negative offset", in_transaction(lambda p: p.send_offsets_to_transaction({T0: -5}, "g")),
                "send_offsets_to_transaction: t-0", "-5", "0 or more"),
    transaction("no group", in_transaction(lambda p: p.send_offsets_to_transaction({T0: 1}, None)),
                "send_offsets_to_transaction: group", "None", "consumer.group_metadata()"),
    transaction("a producer for a group", in_transaction(lambda p: p.send_offsets_to_transaction({T0: 1}, p)),
                "send_offsets_to_transaction: group", "Producer", "consumer.group_metadata()"),
    Mistake("a transaction timeout above the broker's", lambda on: on.produce(
                lambda p: p.init_transactions(), transactional_id="long", transaction_timeout_ms=10**9),
            BrokerError, "init_transactions", "transaction_timeout_ms=1000000000", "transaction.max.timeout.ms"),
    Mistake("two producers with one transactional id", lambda on: on.transact(lambda p: overtaken(on, p)),
            TransactionAbortableError, "transaction that failed", "a newer producer with the same id",
            "call abort_transaction()"),
)  # fmt: skip

MISTAKES = (*RECORDS, *FUNCTIONS, *ARROW, *TRANSACTIONS)
