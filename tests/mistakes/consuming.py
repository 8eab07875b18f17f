"""Mistakes in reading: what to read, positions, groups, deserializers."""

from __future__ import annotations

import datetime
import json

from kafkaraw import (
    BrokerError,
    ClosedError,
    DeserializationError,
    FencedInstanceIdError,
    GroupError,
    OffsetAndMetadata,
    RetriableBrokerError,
    TopicPartition,
    UnknownTopicError,
    UsageError,
)
from tests.mistakes.mistake import FILLED, T0, T1, Act, Desk, Mistake

WHEN = datetime.datetime(2026, 1, 2)


def read(what: str, act: Act, stage: str, value: str, remedy: str) -> Mistake:
    return Mistake(what, lambda on: on.read(act), UsageError, stage, value, remedy)


def ask(what: str, act: Act, stage: str, value: str, remedy: str) -> Mistake:
    return Mistake(what, lambda on: on.consume(act), UsageError, stage, value, remedy)


def member(what: str, act: Act, stage: str, value: str, remedy: str) -> Mistake:
    return Mistake(what, lambda on: on.member(act), UsageError, stage, value, remedy)


def closed(what: str, act: Act) -> Mistake:
    def call(on: Desk) -> object:
        return on.member(lambda c: on.steps(c.close(), lambda: act(c)))

    return Mistake(f"{what} after close", call, ClosedError, "consumer", "is closed", "make a new one")


def filled(on: Desk, act: Act, **settings: object) -> object:
    return on.consume(lambda c: on.steps(c.assign([FILLED]), lambda: act(c)), **settings)


async def first_of_poll(on: Desk, consumer: object) -> object:
    batches = await on.of(consumer.poll(5))
    return [list(batch) for batch in batches.values()]


async def two_of_one_name(on: Desk) -> object:
    given = {"group_id": "static", "group_instance_id": "one", "heartbeat_interval_ms": 200}

    async def both(first: object) -> object:
        async def join(second: object) -> object:
            for consumer in (first, second):
                await on.of(consumer.subscribe(["t"]))
            for consumer in (first, second) * 30:
                await on.of(consumer.poll(0.05))
            return None

        return await on.member(join, **given)

    return await on.member(both, **given)


WHAT_TO_READ = (
    ask("poll without partitions", lambda c: c.poll(1), "nothing is assigned", "this consumer", "call assign() first"),
    member("poll without a subscription", lambda c: c.poll(1), "nothing is assigned", "this consumer",
           "call subscribe() or assign() first"),
    read("subscribe without a group", lambda c: c.subscribe(["t"]), "subscribe", "no group", "set group_id"),
    read("commit without a group", lambda c: c.commit(), "commit", "no group", "set group_id"),
    read("commit_nowait without a group", lambda c: c.commit_nowait(), "commit_nowait", "no group", "set group_id"),
    read("committed without a group", lambda c: c.committed([T0]), "committed", "no group", "set group_id"),
    read("group_metadata without a group", lambda c: c.group_metadata(), "group_metadata", "no group", "set group_id"),
    member("subscribe to nothing", lambda c: c.subscribe(), "subscribe", "topics", "give topics or a pattern"),
    member("subscribe to None", lambda c: c.subscribe([None]), "subscribe", "[None]", "must be names of topics"),
    member("subscribe to partitions", lambda c: c.subscribe([T0]), "subscribe", "TopicPartition", "names of topics"),
    member("subscribe to a number", lambda c: c.subscribe(5), "subscribe", "5", "subscribe(['orders'])"),
    member("subscribe to a topic with a blank", lambda c: c.subscribe(["a b"]), "subscribe", "'a b'", "1 to 249"),
    member("subscribe to topics and a pattern", lambda c: c.subscribe(["t"], pattern="t"), "subscribe", "topics",
           "give topics or a pattern"),
    member("subscribe to half a pattern", lambda c: c.subscribe(pattern="(t"), "subscribe", "'(t'",
           "is not a regular expression: missing )"),
    member("subscribe to a number for a pattern", lambda c: c.subscribe(pattern=5), "subscribe: pattern", "5",
           "must be text"),
    member("subscribe with a listener that is none", lambda c: c.subscribe(["t"], on_assigned=5), "subscribe",
           "on_assigned=5", "a function that takes a list of partitions"),
    Mistake("subscribe, then assign",
            lambda on: on.member(lambda c: on.steps(c.subscribe(["t"]), lambda: c.assign([T0]))),
            UsageError, "assign", "has subscribed", "call unsubscribe() first"),
    Mistake("assign, then subscribe",
            lambda on: on.member(lambda c: on.steps(c.assign([T0]), lambda: c.subscribe(["t"]))),
            UsageError, "subscribe", "assigned by hand", "call assign([]) first"),
    Mistake("half a pattern for the broker",
            lambda on: on.member(lambda c: on.steps(c.subscribe(pattern="(t"), lambda: c.poll(5)),
                                 group_id="re2", group_protocol="consumer"),
            GroupError, "group 're2', heartbeat", "'(t'", "missing )"),
    ask("assign one partition", lambda c: c.assign(T0), "assign", "TopicPartition", "assign([TopicPartition("),
    ask("assign a name", lambda c: c.assign("t"), "assign", "'t'", "a list of TopicPartition"),
    ask("assign names", lambda c: c.assign(["t"]), "assign", "'t'", "TopicPartition(topic, partition)"),
    ask("assign None", lambda c: c.assign(None), "assign", "None", "a list of TopicPartition"),
    ask("text for a partition's number", lambda c: c.assign([TopicPartition("t", "0")]), "assign", "the partition '0'",
        "TopicPartition('t', 0)"),
    ask("a negative number", lambda c: c.assign([TopicPartition("t", -1)]), "assign", "the partition -1", "0 or more"),
    ask("True for a number", lambda c: c.assign([TopicPartition("t", True)]), "assign", "True", "a whole number"),
    ask("bytes for a topic", lambda c: c.assign([TopicPartition(b"t", 0)]), "assign", "b't'", "must be a name"),
    ask("no text for a topic", lambda c: c.assign([TopicPartition("", 0)]), "assign", "''", "must be a name"),
    ask("topic and number exchanged", lambda c: c.assign([(0, "t")]), "assign", "(0, 't')", "must be a name"),
    Mistake("read a topic that does not exist",
            lambda on: on.consume(lambda c: on.steps(c.assign([TopicPartition("missing", 0)]), lambda: c.poll(8))),
            UnknownTopicError, "does not exist", "'missing'", "check the spelling", 7.0, ("asyncio",)),
    Mistake("read a topic that no topic can be",
            lambda on: on.consume(lambda c: on.steps(c.assign([TopicPartition("a b", 0)]), lambda: c.poll(5))),
            BrokerError, "INVALID_TOPIC_EXCEPTION", "'a b'", "1 to 249"),
    Mistake("two members with one static name", two_of_one_name, FencedInstanceIdError, "group 'static', ",
            "group_instance_id='one'", "needs a name of its own", 6.0, ("blocking",)),
    Mistake("a session timeout above the broker's",
            lambda on: on.member(lambda c: on.steps(c.subscribe(["t"]), lambda: c.poll(5)),
                                 group_id="long", session_timeout_ms=10**7),
            GroupError, "group 'long', joining", "session_timeout_ms=10000000", "group.max.session.timeout.ms"),
)  # fmt: skip

POSITIONS = (
    read("seek a partition that is not assigned", lambda c: c.seek(T1, 0), "not assigned", "t-1", "call assign()"),
    read("seek to a word", lambda c: c.seek(T0, "latest"), "seek t-0", "'latest'", "see seek_to_beginning()"),
    read("seek to text", lambda c: c.seek(T0, "5"), "seek t-0", "'5'", "a whole number"),
    read("seek to None", lambda c: c.seek(T0, None), "seek t-0", "None", "a whole number"),
    read("seek to a float", lambda c: c.seek(T0, 5.0), "seek t-0", "5.0", "a whole number"),
    read("seek to a negative offset", lambda c: c.seek(T0, -1), "seek t-0", "-1", "see seek_to_beginning()"),
    read("seek beyond 64 bits", lambda c: c.seek(T0, 1 << 70), "seek t-0", str(1 << 70), "fit 64 bits"),
    read("seek a name", lambda c: c.seek("t", 5), "seek", "'t'", "TopicPartition(topic, partition)"),
    read("seek_to_beginning of one", lambda c: c.seek_to_beginning(T0), "seek_to_beginning", "TopicPartition",
         "give a list of partitions"),
    read("seek_to_end of a name", lambda c: c.seek_to_end("t"), "seek_to_end", "'t'", "a list of TopicPartition"),
    read("seek_to_end of one that is not assigned", lambda c: c.seek_to_end([T1]), "not assigned", "t-1", "assign()"),
    read("pause one", lambda c: c.pause(T0), "pause", "TopicPartition", "give a list of partitions"),
    read("pause None", lambda c: c.pause(None), "pause", "None", "a list of TopicPartition"),
    read("pause one that is not assigned", lambda c: c.pause([T1]), "not assigned", "t-1", "call assign()"),
    read("resume one that is not assigned", lambda c: c.resume([T1]), "not assigned", "t-1", "call assign()"),
    read("position of one that is not assigned", lambda c: c.position(T1), "not assigned", "t-1", "call assign()"),
    read("position of a name", lambda c: c.position("t"), "position", "'t'", "TopicPartition(topic, partition)"),
    read("lag of one that is not assigned", lambda c: c.lag(T1), "not assigned", "t-1", "call assign()"),
    ask("offsets_for_times: a datetime", lambda c: c.offsets_for_times({T0: WHEN}), "offsets_for_times: t-0",
        "datetime.datetime(2026, 1, 2", "int(when.timestamp() * 1000)"),
    ask("offsets_for_times: a list", lambda c: c.offsets_for_times([T0]), "offsets_for_times", "not list",
        "a dict by partition"),
    ask("offsets_for_times: text", lambda c: c.offsets_for_times({T0: "now"}), "offsets_for_times: t-0", "'now'",
        "milliseconds since 1970 UTC"),
    ask("offsets_for_times: seconds", lambda c: c.offsets_for_times({T0: 1.5}), "offsets_for_times: t-0", "1.5",
        "int(seconds * 1000)"),
    ask("offsets_for_times: None", lambda c: c.offsets_for_times({T0: None}), "offsets_for_times: t-0", "None",
        "milliseconds since 1970 UTC"),
    ask("offsets_for_times: a time before 1970", lambda c: c.offsets_for_times({T0: -5}), "offsets_for_times: t-0",
        "-5", "0 or more milliseconds"),
    ask("end_offsets of a name", lambda c: c.end_offsets("t"), "end_offsets", "'t'", "a list of TopicPartition"),
    ask("end_offsets of None", lambda c: c.end_offsets(None), "end_offsets", "None", "a list of TopicPartition"),
    Mistake("end_offsets of a partition that does not exist",
            lambda on: on.consume(lambda c: c.end_offsets([TopicPartition("t", 99)])),
            UnknownTopicError, "topic 't'", "no partition 99", "has 3 partitions"),
    Mistake("end_offsets of a topic that does not exist",
            lambda on: on.consume(lambda c: c.end_offsets([TopicPartition("missing", 0)], 0.3)),
            UnknownTopicError, "does not exist", "'missing'", "check the spelling"),
    Mistake("partitions_for of a topic that does not exist",
            lambda on: on.consume(lambda c: c.partitions_for("missing", 0.3)),
            UnknownTopicError, "does not exist", "'missing'", "check the spelling"),
    ask("partitions_for of None", lambda c: c.partitions_for(None), "partitions_for: topic", "None", "one topic"),
    ask("topic_id of None", lambda c: c.topic_id(None), "topic_id: topic", "None", "the name of one topic"),
    Mistake("an offset that is not there", lambda on: filled(
                on, lambda c: on.steps(c.seek(FILLED, 10**6), lambda: c.poll(5)), auto_offset_reset="none"),
            BrokerError, "OFFSET_OUT_OF_RANGE", "offset 1000000 of filled-0", "seek(), or set auto_offset_reset"),
    Mistake("no position at all", lambda on: filled(on, lambda c: c.poll(5), auto_offset_reset="none"),
            UsageError, "has no position", "filled-0", "seek() to one, or choose 'earliest'"),
    Mistake("no committed position", lambda on: on.member(
                lambda c: on.steps(c.assign([FILLED]), lambda: c.poll(5)), group_id="fresh", auto_offset_reset="none"),
            UsageError, "has no position", "filled-0", "seek() to one, or choose 'earliest'"),
)  # fmt: skip

COMMITS = (
    member("commit a list", lambda c: c.commit([T0]), "commit", "not list", "a dict by partition"),
    member("commit a partition", lambda c: c.commit(T0), "commit", "not TopicPartition", "a dict by partition"),
    member("commit text", lambda c: c.commit({T0: "5"}), "commit: t-0", "'5'", "a whole number"),
    member("commit None for an offset", lambda c: c.commit({T0: None}), "commit: t-0", "None", "a whole number"),
    member("commit a tuple", lambda c: c.commit({T0: (5, "m")}), "commit: t-0", "(5, 'm')", "a whole number"),
    member("commit a negative offset", lambda c: c.commit({T0: -1}), "commit: t-0", "-1", "0 or more"),
    member("commit by name", lambda c: c.commit({"t": 5}), "commit", "'t'", "TopicPartition(topic, partition)"),
    member("commit text in an OffsetAndMetadata", lambda c: c.commit({T0: OffsetAndMetadata("5")}), "commit: t-0",
           "'5'", "a whole number"),
    member("commit metadata that are bytes", lambda c: c.commit({T0: OffsetAndMetadata(5, b"x")}), "commit: t-0",
           "b'x'", "must be text"),
    member("commit with text for a timeout", lambda c: c.commit({T0: 5}, "5"), "timeout", "'5'", "number of seconds"),
    member("commit_nowait a list", lambda c: c.commit_nowait([T0]), "commit_nowait", "not list", "a dict by partition"),
    member("commit_nowait with a callback that is none", lambda c: c.commit_nowait({T0: 5}, 5), "commit_nowait", "5",
           "must be a function"),
    member("committed of one", lambda c: c.committed(T0), "committed", "TopicPartition", "give a list of partitions"),
    member("committed of None", lambda c: c.committed(None), "committed", "None", "a list of TopicPartition"),
    Mistake("commit a topic that does not exist",
            lambda on: on.member(lambda c: c.commit({TopicPartition("missing", 0): 5})),
            RetriableBrokerError, "committing 1 positions", "missing-0", "check the name and the number"),
)  # fmt: skip

READING = (
    read("poll: text for a timeout", lambda c: c.poll("1"), "timeout", "'1'", "a number of seconds"),
    read("poll: a timedelta for a timeout", lambda c: c.poll(datetime.timedelta(seconds=1)), "timeout",
         "datetime.timedelta(seconds=1)", "a number of seconds"),
    read("poll: a negative timeout", lambda c: c.poll(-1), "timeout", "-1", "zero or more seconds"),
    read("poll: not a number", lambda c: c.poll(float("nan")), "timeout", "nan", "zero or more seconds"),
    read("poll: no records", lambda c: c.poll(1, 0), "max_records", "0", "at least 1"),
    read("poll: text for records", lambda c: c.poll(1, "5"), "max_records", "'5'", "a whole number"),
    read("poll_arrow: a column that is misspelled", lambda c: c.poll_arrow(columns=["vlaue"]), "unknown column",
         "'vlaue'", "did you mean 'value'?"),
    read("poll_arrow: one name for columns", lambda c: c.poll_arrow(columns="value"), "poll_arrow", "'value'",
         "columns=['key', 'value']"),
    read("poll_arrow: numbers for columns", lambda c: c.poll_arrow(columns=[5]), "poll_arrow", "5", "must be a name"),
    Mistake("batches: text for a timeout", lambda on: on.read(lambda c: on.first(c.batches("5"))),
            UsageError, "timeout", "'5'", "a number of seconds"),
    Mistake("a deserializer that raises while iterating", lambda on: filled(
                on, on.first, auto_offset_reset="earliest", value_deserializer=json.loads),
            DeserializationError, "loads refuses the value of the record at filled-0 offset 0", "JSONDecodeError",
            "seek() behind it to continue"),
    Mistake("a deserializer that raises in a batch", lambda on: filled(
                on, lambda c: first_of_poll(on, c), auto_offset_reset="earliest", value_deserializer=json.loads),
            DeserializationError, "loads refuses the value of the record at filled-0 offset 0", "JSONDecodeError",
            "seek() behind it to continue"),
    closed("poll", lambda c: c.poll(1)),
    closed("assign", lambda c: c.assign([T0])),
    closed("subscribe", lambda c: c.subscribe(["t"])),
    closed("seek", lambda c: c.seek(T0, 1)),
    closed("commit", lambda c: c.commit({T0: 1})),
    closed("position", lambda c: c.position(T0)),
)  # fmt: skip

MISTAKES = (*WHAT_TO_READ, *POSITIONS, *COMMITS, *READING)
