"""Batch reads: KafkaRelationSuite, and what its options mean for offsets, times, patterns and tasks."""

from __future__ import annotations

from typing import Final

from tests.interop.connectors.scenario import (
    Create,
    Delete,
    DeleteRecords,
    Options,
    Outcome,
    Partitions,
    Read,
    Record,
    Refused,
    Scenario,
    Step,
    Transact,
    numbers,
    rows,
    scenario,
    send,
)

_RELATION: Final = "KafkaRelation"
_FIRST, _SECOND, _THIRD, _AFTER = 1_000_000, 1_001_000, 1_002_000, 1_003_000
_KEEP: Final = {"retention.ms": "-1"}

# 0 to 9, 10 to 19, and 20 in the three partitions of a topic.
THREE: Final[tuple[Step, ...]] = (
    Create("t", 3),
    send("t", range(10), partition=0),
    send("t", range(10, 20), partition=1),
    send("t", 20, partition=2),
)


def _timed() -> tuple[Step, ...]:
    """0 to 29, ten at each of three times, by turns in three partitions."""
    steps: list[Step] = [Create("t", 3, _KEEP)]
    for tens, time in enumerate((_FIRST, _SECOND, _THIRD)):
        for partition in range(3):
            values = [number for number in range(10 * tens, 10 * tens + 10) if number % 3 == partition]
            records = (Record(str(number), timestamp_ms=time) for number in values)
            steps.append(send("t", *records, partition=partition))
    return tuple(steps)


TIMED: Final = _timed()


def by_time(*times: int) -> str:
    """JSON of a time for each partition."""
    return '{"$t":{' + ",".join(f'"{number}":{time}' for number, time in enumerate(times)) + "}}"


def _of(topic: tuple[Step, ...], name: str, options: Options, expect: Outcome, **about: object) -> Scenario:
    ours = about.pop("ours", None)
    read = Read(options={"subscribe": "$t"} | dict(options), expect=expect, ours=ours)  # type: ignore[arg-type]
    return scenario(f"batch read: {name}", *topic, read, suite=_RELATION, **about)


_OFFSETS: Final[tuple[Scenario, ...]] = (
    _of(THREE, "earliest to latest", {"startingOffsets": "earliest", "endingOffsets": "latest"}, numbers(range(21))),
    _of(THREE, "the default is everything", {}, numbers(range(21)), quick=True),
    _of(
        THREE,
        "offsets of each partition",
        {"startingOffsets": '{"$t":{"0":-2,"1":-2,"2":0}}', "endingOffsets": '{"$t":{"0":-1,"1":-1,"2":1}}'},
        numbers(range(21)),
    ),
    _of(
        THREE,
        "offsets in the middle",
        {"startingOffsets": '{"$t":{"0":3,"1":9,"2":1}}', "endingOffsets": '{"$t":{"0":5,"1":10,"2":1}}'},
        rows("3", "4", "19"),
        quick=True,
    ),
    _of(
        THREE,
        "a start at the end is empty",
        {"startingOffsets": '{"$t":{"0":10,"1":10,"2":1}}'},
        rows(),
    ),
    _of(
        THREE,
        "a start after the last record",
        {"startingOffsets": '{"$t":{"0":11,"1":0,"2":0}}'},
        Refused("startingOffsets", "start offset 11 is greater than the resolved end offset 10"),
        quick=True,
    ),
    _of(
        THREE,
        "a start after the last record, with failOnDataLoss=false",
        {"startingOffsets": '{"$t":{"0":11,"1":0,"2":0}}', "failOnDataLoss": "false"},
        Refused("startingOffsets", "start offset 11 is greater than the resolved end offset 10"),
    ),
    _of(
        THREE,
        "a start after the ending time",
        {"startingOffsets": '{"$t":{"0":3,"1":3,"2":1}}', "endingOffsetsByTimestamp": by_time(1, 1, 1)},
        Refused("startingOffsets", "is greater than the resolved end offset 0"),
    ),
    _of(
        THREE,
        "startingOffsets leave a partition out",
        {"startingOffsets": '{"$t":{"0":1}}'},
        Refused("startingOffsets", "don't match what are assigned"),
    ),
    _of(
        THREE,
        "startingOffsets name a partition that is not there",
        {"startingOffsets": '{"$t":{"0":1,"1":1,"2":1,"3":1}}'},
        Refused("startingOffsets", "don't match what are assigned"),
    ),
    _of(
        THREE,
        "startingOffsets name a topic that is not read",
        {"startingOffsets": '{"$t":{"0":1,"1":1,"2":1},"$u":{"0":1}}'},
        Refused("startingOffsets", "don't match what are assigned"),
    ),
    _of(
        THREE,
        "endingOffsets leave a partition out",
        {"endingOffsets": '{"$t":{"0":1}}'},
        Refused("endingOffsets", "don't match what are assigned"),
    ),
    _of((Create("t", 3),), "an empty topic", {}, rows()),
    _of((*THREE, DeleteRecords("t", 4)), "deleted records, from earliest", {}, numbers(range(4, 21))),
    _of(
        (Create("t"), send("t", range(5)), DeleteRecords("t", 5)),
        "a topic whose records are all deleted",
        {},
        rows(),
    ),
    _of(
        (Create("t"), send("t", range(10)), DeleteRecords("t", 4)),
        "deleted records, from offset 0",
        {"startingOffsets": '{"$t":{"0":0}}'},
        Refused("failOnDataLoss"),
    ),
    _of(
        (Create("t"), send("t", range(10)), DeleteRecords("t", 4)),
        "deleted records, from offset 0, with failOnDataLoss=false",
        {"startingOffsets": '{"$t":{"0":0}}', "failOnDataLoss": "false", "kafkaConsumer.pollTimeoutMs": "1000"},
        numbers(range(4, 10)),
    ),
)

_TIMES: Final[tuple[Scenario, ...]] = (
    _of(
        TIMED,
        "from a time to a time, by partition",
        {"startingOffsetsByTimestamp": by_time(*[_SECOND] * 3), "endingOffsetsByTimestamp": by_time(*[_THIRD] * 3)},
        numbers(range(10, 20)),
        quick=True,
    ),
    _of(
        TIMED,
        "from a time to an offset",
        {"startingOffsetsByTimestamp": by_time(*[_FIRST] * 3), "endingOffsets": '{"$t":{"0":-1,"1":-1,"2":1}}'},
        rows(*(str(number) for number in range(30) if number % 3 != 2 or number == 2)),
    ),
    _of(
        TIMED,
        "from an offset to a time",
        {"startingOffsets": '{"$t":{"0":-2,"1":-2,"2":0}}', "endingOffsetsByTimestamp": by_time(*[_THIRD] * 3)},
        numbers(range(20)),
    ),
    _of(TIMED, "from a time", {"startingOffsetsByTimestamp": by_time(*[_SECOND] * 3)}, numbers(range(10, 30))),
    _of(TIMED, "to a time", {"endingOffsetsByTimestamp": by_time(*[_THIRD] * 3)}, numbers(range(20))),
    _of(
        TIMED,
        "from one time to one time for all",
        {"startingTimestamp": str(_SECOND), "endingTimestamp": str(_THIRD)},
        numbers(range(10, 20)),
        quick=True,
    ),
    _of(TIMED, "from one time for all", {"startingTimestamp": str(_SECOND)}, numbers(range(10, 30))),
    _of(TIMED, "to one time for all", {"endingTimestamp": str(_SECOND)}, numbers(range(10))),
    _of(TIMED, "a time between two records", {"startingTimestamp": str(_SECOND + 1)}, numbers(range(20, 30))),
    _of(TIMED, "times with blanks around", {"startingTimestamp": f" {_SECOND} "}, numbers(range(10, 30))),
    _of(
        TIMED,
        "a starting time that is too late for one partition",
        {"startingOffsetsByTimestamp": by_time(_SECOND, _SECOND, 2**63 - 1)},
        Refused("startingOffsetsByTimestamp", "no offset matched from request"),
    ),
    _of(
        TIMED,
        "a starting time that is too late for all",
        {"startingTimestamp": str(_AFTER)},
        Refused("startingTimestamp", "no offset matched from request"),
    ),
    _of(
        TIMED,
        "a starting time that is too late, with the strategy error",
        {"startingTimestamp": str(_AFTER), "startingOffsetsByTimestampStrategy": "error"},
        Refused("startingTimestamp", "no offset matched from request"),
    ),
    _of(
        TIMED,
        "a starting time that is too late, with the strategy latest",
        {
            "startingOffsetsByTimestamp": by_time(_THIRD, _THIRD, _AFTER),
            "startingOffsetsByTimestampStrategy": "LATEST",
        },
        rows(*(str(number) for number in range(20, 30) if number % 3 != 2)),
    ),
    _of(
        TIMED,
        "the one time comes before the times of partitions, and these before offsets",
        {
            "startingTimestamp": str(_THIRD),
            "startingOffsetsByTimestamp": by_time(*[_SECOND] * 3),
            "startingOffsets": "earliest",
        },
        numbers(range(20, 30)),
    ),
    _of(
        TIMED,
        "times of partitions come before offsets",
        {"startingOffsetsByTimestamp": by_time(*[_SECOND] * 3), "startingOffsets": "earliest"},
        numbers(range(10, 30)),
    ),
    _of(
        TIMED,
        "an ending time that is too late ends at latest",
        {"endingOffsetsByTimestamp": by_time(_SECOND, _SECOND, 2**63 - 1)},
        rows(*(str(number) for number in range(30) if number < 10 or number % 3 == 2)),
    ),
    _of(
        TIMED,
        "times leave a partition out",
        {"startingOffsetsByTimestamp": by_time(_SECOND, _SECOND)},
        Refused("startingOffsetsByTimestamp", "don't match what are assigned"),
    ),
    _of(
        TIMED,
        "times name a partition that is not there",
        {"startingOffsetsByTimestamp": by_time(*[_SECOND] * 4)},
        Refused("startingOffsetsByTimestamp", "don't match what are assigned"),
    ),
)

_TWO: Final[tuple[Step, ...]] = (
    Create("t", 2),
    Create("u"),
    send("t", 0, 1, partition=0),
    send("t", 2, partition=1),
    send("u", 3, 4),
)


def _topics(name: str, options: Options, expect: Outcome, *more: Step, **about: object) -> Scenario:
    ours = about.pop("ours", None)
    read = Read(options=options, expect=expect, ours=ours)  # type: ignore[arg-type]
    return scenario(f"batch read: {name}", *_TWO, *more, read, suite=_RELATION, **about)


_TOPICS: Final[tuple[Scenario, ...]] = (
    _topics("two topics", {"subscribe": "$t,$u"}, numbers(range(5))),
    _topics("topics with blanks and commas too many", {"subscribe": " $t , ,$u,"}, numbers(range(5))),
    _topics("a topic named twice is read once", {"subscribe": "$u,$u"}, rows("3", "4")),
    _topics("single partitions", {"assign": '{"$t":[1],"$u":[0]}'}, rows("2", "3", "4"), quick=True),
    _topics("assign with blanks around", {"assign": '  {"$t":[1]} '}, rows("2")),
    _topics(
        "a partition that is not there",
        {"assign": '{"$t":[7]}'},
        rows(),
        ours=Refused("$t-7"),
        differs="`kafka.bootstrap.servers`, `assign`, `subscribe`",
    ),
    _topics("a topic that is not there", {"subscribe": "$v"}, Refused("$v", "UnknownTopicOrPartition")),
    _topics("a topic that is not there beside another", {"subscribe": "$t,$v"}, Refused("", "UnknownTopicOrPartition")),
    _topics("a deleted topic", {"subscribe": "$t,$u"}, Refused("", "UnknownTopicOrPartition"), Delete("u")),
    _topics("a pattern", {"subscribePattern": "$prefix-.*"}, numbers(range(5)), quick=True),
    _topics("a pattern is found anywhere in the name", {"subscribePattern": "$prefix-"}, numbers(range(5)), quick=True),
    _topics("an anchored pattern", {"subscribePattern": "^$prefix-u$"}, rows("3", "4")),
    _topics("an anchored part of a name", {"subscribePattern": "^-u$"}, rows()),
    _topics("a pattern with blanks around", {"subscribePattern": "  $prefix-u "}, rows("3", "4")),
    _topics("a pattern of alternatives", {"subscribePattern": "^$prefix-(t|x)$|nothing"}, rows("0", "1", "2")),
    _topics("a pattern with a flag", {"subscribePattern": "(?i)$prefix-U"}, rows("3", "4")),
    _topics("a pattern in Java's own language", {"subscribePattern": "\\Q$prefix-\\E[a-z&&[^u]]"}, rows("0", "1", "2")),
    _topics("a pattern that matches nothing", {"subscribePattern": "no-such-topic"}, rows()),
    _topics(
        "new partitions of a topic",
        {"subscribe": "$u"},
        rows("3", "4", "5"),
        Partitions("u", 3),
        send("u", 5, partition=2),
    ),
)

_HEADERS: Final[tuple[Step, ...]] = (
    Create("t", 3),
    send("t", "1", partition=0),
    send("t", Record("2", headers=(("a", "b"), ("c", "d"))), partition=1),
    send("t", Record("3", headers=(("e", "f"), ("e", "g"), ("n", None))), partition=2),
)
_TYPES: Final = tuple(
    f"typeof({name})" for name in ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
)


def _columns(
    name: str, topic: tuple[Step, ...], columns: tuple[str, ...], expect: Outcome, **about: object
) -> Scenario:
    options = {"subscribe": "$t"} | dict(about.pop("options", {}))  # type: ignore[call-overload]
    return scenario(
        f"batch read: {name}", *topic, Read(options=options, columns=columns, expect=expect), suite=_RELATION, **about
    )


_CONTENT: Final[tuple[Scenario, ...]] = (
    _columns(
        "headers",
        _HEADERS,
        ("CAST(value AS STRING)", "headers"),
        rows(("1", None), ("2", [["a", "b"], ["c", "d"]]), ("3", [["e", "f"], ["e", "g"], ["n", None]])),
        options={"includeHeaders": "true"},
        quick=True,
    ),
    _columns("no column for headers", _HEADERS, ("headers",), Refused("headers")),
    _columns(
        "no column for headers with includeHeaders=false",
        _HEADERS,
        ("headers",),
        Refused("headers"),
        options={"includeHeaders": "false"},
    ),
    _columns(
        "the types of the columns",
        (Create("t"), send("t", "1")),
        _TYPES,
        rows(("binary", "binary", "string", "int", "bigint", "timestamp", "int")),
    ),
    _columns(
        "the type of the headers",
        (Create("t"), send("t", "1")),
        ("typeof(headers)",),
        rows("array<struct<key:string,value:binary>>"),
        options={"includeHeaders": "true"},
    ),
    _columns(
        "all columns",
        (Create("t", 2, _KEEP), send("t", Record("v", "k", timestamp_ms=_FIRST), partition=1)),
        ("key", "value", "topic", "partition", "offset", "unix_millis(timestamp)", "timestampType"),
        rows(("k", "v", "$t", 1, 0, _FIRST, 0)),
        quick=True,
    ),
    _columns(
        "null and empty keys and values",
        (Create("t"), send("t", None, Record(None, "k"), Record("v", None), Record("", ""))),
        ("key", "value"),
        rows((None, None), ("k", None), (None, "v"), ("", "")),
        quick=True,
    ),
    _columns(
        "times that the broker gives",
        (Create("t", 1, {"message.timestamp.type": "LogAppendTime"}), send("t", Record("v", timestamp_ms=_FIRST))),
        ("timestampType", f"unix_millis(timestamp) > {_AFTER}"),
        rows((1, True)),
    ),
    _columns("no column", THREE, ("1",), rows(*[1] * 21)),
    _columns(
        "a time that is no time of Spark",
        (
            Create("t", 1, {"message.timestamp.after.max.ms": str(2**63 - 1)} | _KEEP),
            send("t", Record("v", timestamp_ms=1712345678123456789)),
        ),
        ("timestamp",),
        Refused("timestamp", "overflow"),
    ),
)

_COMMITTED: Final[tuple[Step, ...]] = (
    Create("t"),
    Transact("t", ("1", "2")),
    Transact("t", ("3", "4"), commit=False),
    Transact("t", ("5",)),
)


_CUT: Final = "`minPartitions`, `maxRecordsPerPartition`"


def _tasks(
    name: str, options: Options, tasks: int, count: int = 21, ours: int | None = None, **about: object
) -> Scenario:
    read = Read(
        options={"subscribe": "$t"} | dict(options),
        tasks=True,
        expect=rows((tasks, count)),
        ours=None if ours is None else rows((ours, count)),
    )
    return scenario(f"batch read: {name}", *THREE, read, suite=_RELATION, **about)


_QUERIES: Final[tuple[Scenario, ...]] = (
    _of(_COMMITTED, "committed records", {"kafka.isolation.level": "read_committed"}, rows("1", "2", "5")),
    _of(_COMMITTED, "uncommitted records", {"kafka.isolation.level": "read_uncommitted"}, numbers(range(1, 6))),
    _of(_COMMITTED, "uncommitted records by default", {}, numbers(range(1, 6))),
    _tasks("one task for a partition", {}, 3),
    _tasks("minPartitions", {"minPartitions": "6"}, 7),
    _tasks("fewer minPartitions than partitions", {"minPartitions": "2"}, 3),
    _tasks("maxRecordsPerPartition", {"maxRecordsPerPartition": "4"}, 3, ours=7, differs=_CUT, quick=True),
    _tasks("maxRecordsPerPartition and minPartitions", {"maxRecordsPerPartition": "5", "minPartitions": "9"}, 9),
    _tasks(
        "no task for an empty partition",
        {"startingOffsets": '{"$t":{"0":10,"1":0,"2":1}}'},
        3,
        10,
        ours=1,
        differs=_CUT,
    ),
    scenario(
        "batch read: a DataFrame used twice in one query",
        Create("t"),
        send("t", range(11)),
        Read(options={"subscribe": "$t"}, union=True, expect=numbers(range(11), range(11))),
        suite=_RELATION,
        quick=True,
    ),
    scenario(
        "batch read: a DataFrame used again ends at what is latest then",
        *THREE,
        Read(
            options={"subscribe": "$t", "startingOffsets": "earliest", "endingOffsets": "latest"},
            again=(send("t", range(21, 30), partition=2),),
            expect=numbers(range(30)),
        ),
        suite=_RELATION,
    ),
    scenario(
        "batch read: a DataFrame used again keeps ends that are offsets",
        *THREE,
        Read(
            options={
                "subscribe": "$t",
                "startingOffsets": '{"$t":{"0":-2,"1":-2,"2":0}}',
                "endingOffsets": '{"$t":{"0":-1,"1":-1,"2":1}}',
            },
            again=(send("t", range(31, 40), partition=2), send("t", range(21, 31), partition=1)),
            expect=numbers(range(31)),
        ),
        suite=_RELATION,
    ),
    scenario(
        "batch read: a DataFrame used again starts at what is earliest then",
        Create("t"),
        send("t", range(10)),
        Read(
            options={"subscribe": "$t"},
            again=(DeleteRecords("t", 10), send("t", range(10, 20))),
            expect=numbers(range(10, 20)),
        ),
        suite=_RELATION,
    ),
)

SCENARIOS: Final = (*_OFFSETS, *_TIMES, *_TOPICS, *_CONTENT, *_QUERIES)
