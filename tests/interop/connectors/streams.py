"""Streams: KafkaMicroBatchSourceSuite. Where they start, what they read after a restart, and in which portions."""

from __future__ import annotations

from typing import Final

from tests.interop.connectors.batches import THREE, by_time
from tests.interop.connectors.scenario import (
    Create,
    Delete,
    Options,
    Outcome,
    Partitions,
    Record,
    Refused,
    Rows,
    Scenario,
    Step,
    Stream,
    Transact,
    numbers,
    rows,
    scenario,
    send,
)

_SOURCE: Final = "KafkaMicroBatchSource"
_FIRST, _SECOND = 1_000_000, 1_001_000
_KEEP: Final = {"retention.ms": "-1"}

# Five partitions of three records each.
_FIVE: Final[tuple[Step, ...]] = (
    Create("t", 5),
    *(send("t", *range(10 * number, 10 * number + 3), partition=number) for number in range(5)),
)
# One record at a first time and two at a second in partitions 0 and 1, the other way round in 2 and 3; all in 4 early.
_TIMED: Final[tuple[Step, ...]] = (
    Create("t", 5, _KEEP),
    *(
        send(
            "t",
            *(
                Record(str(10 * number + place), timestamp_ms=_FIRST if place < early else _SECOND)
                for place in range(3)
            ),
            partition=number,
        )
        for number, early in enumerate((1, 1, 2, 2, 3))
    ),
)
_ALL: Final = tuple(10 * number + place for number in range(5) for place in range(3))


def _texts(*values: int) -> Rows:
    return rows(*(str(value) for value in values))


# What to read -> options, and whether new partitions are found.
_STRATEGIES: Final[dict[str, tuple[Options, bool]]] = {
    "assign": ({"assign": '{"$t":[0,1,2,3,4]}'}, False),
    "subscribe": ({"subscribe": "$t"}, True),
    "subscribePattern": ({"subscribePattern": "^$prefix-.*"}, True),
}

# Where to start -> topic, options, what is read first.
_STARTS: Final[dict[str, tuple[tuple[Step, ...], Options, Rows]]] = {
    "latest": (_FIVE, {"startingOffsets": "latest"}, rows()),
    "earliest": (_FIVE, {"startingOffsets": "earliest"}, _texts(*_ALL)),
    "offsets": (
        _FIVE,
        {"startingOffsets": '{"$t":{"0":-2,"1":-1,"2":0,"3":1,"4":2}}'},
        _texts(0, 1, 2, 20, 21, 22, 31, 32, 42),
    ),
    "times of partitions": (
        _TIMED,
        {"startingOffsetsByTimestamp": by_time(_SECOND, _SECOND, _SECOND, _SECOND, _FIRST)},
        _texts(1, 2, 11, 12, 22, 32, 40, 41, 42),
    ),
    "one time": (
        (*_TIMED, send("t", Record("43", timestamp_ms=_SECOND), partition=4)),
        {"startingTimestamp": str(_SECOND)},
        _texts(1, 2, 11, 12, 22, 32, 43),
    ),
}


def _restarted() -> list[Scenario]:
    """A stream that is started three times: what is there first, what has come, what is in new partitions."""
    found = []
    for strategy, (what, finds_partitions) in _STRATEGIES.items():
        for start, (topic, where, first) in _STARTS.items():
            for lenient in (False, True) if strategy == "subscribe" else (False,):
                options = {**what, **where, "failOnDataLoss": str(not lenient).lower()}
                steps: list[Step] = [
                    *topic,
                    Stream(options=options, expect=first),
                    *(send("t", 100 + number, partition=number) for number in range(3)),
                    Stream(options=options, expect=_texts(100, 101, 102)),
                ]
                if finds_partitions:
                    steps += [
                        Partitions("t", 10),
                        send("t", 200, partition=0),
                        send("t", 201, 202, partition=9),
                        Stream(options=options, expect=_texts(200, 201, 202)),
                    ]
                name = f"stream: {strategy} from {start}" + (", with failOnDataLoss=false" if lenient else "")
                found.append(scenario(name, *steps, suite=_SOURCE, quick=name == "stream: subscribe from offsets"))
    return found


def _late() -> list[Scenario]:
    """A time after the last record of partition 4."""
    found = []
    for strategy in ("subscribe", "subscribePattern"):
        for kind, where in {
            "times of partitions": {"startingOffsetsByTimestamp": by_time(*[_SECOND] * 5)},
            "one time": {"startingTimestamp": str(_SECOND)},
        }.items():
            options = {**_STRATEGIES[strategy][0], **where}
            option = next(iter(where))
            refused = Refused(option, "no offset matched from request")
            found.append(
                scenario(
                    f"stream: {strategy} from {kind}, one of which is too late",
                    *_TIMED,
                    Stream(options=options, checkpoint="default", expect=refused),
                    Stream(
                        options=options | {"startingOffsetsByTimestampStrategy": "error"},
                        checkpoint="error",
                        expect=refused,
                    ),
                    Stream(
                        options=options | {"startingoffsetsbytimestampstrategy": "latest"},
                        checkpoint="latest",
                        expect=_texts(1, 2, 11, 12, 22, 32),
                    ),
                    send("t", 43, partition=4),
                    Stream(
                        options=options | {"startingoffsetsbytimestampstrategy": "latest"},
                        checkpoint="latest",
                        expect=_texts(43),
                    ),
                    suite=_SOURCE,
                )
            )
    return found


_EARLIEST: Final = {"subscribe": "$t", "startingOffsets": "earliest"}
# As of the suite: 101 records, 11 and 1.
_UNEVEN: Final[tuple[Step, ...]] = (
    Create("t", 3),
    send("t", range(100, 201), partition=0),
    send("t", range(10, 21), partition=1),
    send("t", 1, partition=2),
)


def _sizes(name: str, topic: tuple[Step, ...], options: Options, expect: Outcome, **about: object) -> Scenario:
    trigger = str(about.pop("trigger", "availableNow"))
    ours = about.pop("ours", None)
    stream = Stream(options=_EARLIEST | dict(options), sizes=True, trigger=trigger, expect=expect, ours=ours)  # type: ignore[arg-type]
    return scenario(f"stream: {name}", *topic, stream, suite=_SOURCE, **about)


_FIFTEEN: Final[tuple[Step, ...]] = (Create("t", 5), send("t", range(15)))

_PORTIONS: Final = (
    _sizes(
        "maxOffsetsPerTrigger of one partition",
        _FIFTEEN,
        {"maxOffsetsPerTrigger": "5"},
        rows((0, 5), (1, 5), (2, 5)),
        quick=True,
    ),
    _sizes("no limit", _FIFTEEN, {}, rows((0, 15))),
    _sizes(
        "maxOffsetsPerTrigger is shared by backlog", _UNEVEN, {"maxOffsetsPerTrigger": "60"}, rows((0, 59), (1, 54))
    ),
    _sizes("Trigger.Once has no limit", _UNEVEN, {"maxOffsetsPerTrigger": "10"}, rows((0, 113)), trigger="once"),
    _sizes(
        "Trigger.Once waits for no minOffsetsPerTrigger",
        _FIFTEEN,
        {"minOffsetsPerTrigger": "100"},
        rows((0, 15)),
        trigger="once",
    ),
    _sizes("minOffsetsPerTrigger, first micro-batch", _FIFTEEN, {"minOffsetsPerTrigger": "15"}, rows((0, 15))),
    scenario(
        "stream: each micro-batch takes of every partition",
        *_UNEVEN,
        Stream(
            options=_EARLIEST | {"maxOffsetsPerTrigger": "10"},
            trigger="live",
            phases=(((), 113),),
            columns=("partition", "offset"),
            expect=Rows((*((0, n) for n in range(101)), *((1, n) for n in range(11)), (2, 0))),
        ),
        suite=_SOURCE,
    ),
    scenario(
        "stream: minOffsetsPerTrigger holds few records back until maxTriggerDelay",
        Create("t"),
        send("t", range(5)),
        Stream(
            options=_EARLIEST | {"minOffsetsPerTrigger": "5", "maxTriggerDelay": "3s"},
            trigger="live",
            phases=(((send("t", 5, 6),), 7), ((send("t", range(7, 20)),), 20)),
            expect=numbers(range(20)),
        ),
        suite=_SOURCE,
    ),
    scenario(
        "stream: maxOffsetsPerTrigger is shared by partitions of two topics, which end where their backlog says",
        Create("t", 2),
        Create("u"),
        send("t", range(20), partition=0),
        send("t", range(20), partition=1),
        send("u", range(5)),
        Stream(
            options={"subscribe": "$t,$u", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "18"},
            ends=True,
            expect=rows(
                (0, '{"$t": {"0": 8, "1": 8}, "$u": {"0": 2}}'),
                (1, '{"$t": {"0": 16, "1": 16}, "$u": {"0": 4}}'),
                (2, '{"$t": {"0": 20, "1": 20}, "$u": {"0": 5}}'),
            ),
        ),
        suite=_SOURCE,
    ),
    scenario(
        "stream: maxOffsetsPerTrigger from offsets and latest",
        Create("t", 2),
        send("t", range(20), partition=0),
        send("t", range(20), partition=1),
        Stream(
            options={"subscribe": "$t", "startingOffsets": '{"$t":{"0":15,"1":-1}}', "maxOffsetsPerTrigger": "3"},
            ends=True,
            expect=rows((0, '{"$t": {"0": 18, "1": 20}}'), (1, '{"$t": {"0": 20, "1": 20}}')),
        ),
        suite=_SOURCE,
    ),
    scenario(
        "stream: a restart goes on in portions of another size",
        *_FIFTEEN,
        Stream(options=_EARLIEST | {"maxOffsetsPerTrigger": "5"}, sizes=True, expect=rows((0, 5), (1, 5), (2, 5))),
        send("t", range(15, 30)),
        Stream(options=_EARLIEST | {"maxOffsetsPerTrigger": "8"}, sizes=True, expect=rows((0, 8), (1, 7))),
        suite=_SOURCE,
    ),
    scenario(
        "stream: minPartitions",
        *THREE,
        Stream(options=_EARLIEST | {"minPartitions": "6"}, tasks=True, expect=rows((7, 21))),
        suite=_SOURCE,
    ),
)

_LIVE: Final = (
    scenario(
        "stream: records that come while it runs",
        Create("t", 2),
        Stream(
            options={"subscribe": "$t"},
            trigger="live",
            phases=(((send("t", 1, 2), send("t", 3, partition=1)), 3), ((send("t", 4),), 4)),
            expect=numbers(range(1, 5)),
        ),
        suite=_SOURCE,
        quick=True,
    ),
    scenario(
        "stream: partitions that are added while it runs",
        Create("t", 1),
        Stream(
            options={"subscribe": "$t"},
            trigger="live",
            phases=(((send("t", 1),), 1), ((Partitions("t", 3), send("t", 2, partition=2)), 2)),
            expect=numbers(range(1, 3)),
        ),
        suite=_SOURCE,
    ),
    scenario(
        "stream: a topic that begins to match while it runs",
        Create("t"),
        Stream(
            options={"subscribePattern": "$prefix-.*"},
            trigger="live",
            phases=(((send("t", 1),), 1), ((Create("u", 2), send("u", 2, partition=1)), 2)),
            expect=numbers(range(1, 3)),
        ),
        suite=_SOURCE,
    ),
    scenario(
        "stream: a topic that begins to match between two runs",
        Create("t"),
        send("t", 1),
        Stream(options={"subscribePattern": "$prefix-.*", "startingOffsets": "earliest"}, expect=rows("1")),
        Create("u", 2),
        send("u", 2, partition=1),
        Stream(options={"subscribePattern": "$prefix-.*", "startingOffsets": "earliest"}, expect=rows("2")),
        suite=_SOURCE,
    ),
    scenario(
        "stream: a matching topic is deleted and another begins to match while it runs, with failOnDataLoss=false",
        Create("t", 5),
        send("t", -1),
        Stream(
            options={
                "subscribePattern": "$prefix-.*",
                "failOnDataLoss": "false",
                "kafka.request.timeout.ms": "3000",
                "kafka.default.api.timeout.ms": "3000",
            },
            trigger="live",
            phases=(
                ((send("t", 1, 2, 3, partition=1),), 3),
                ((Delete("t"), Create("u", 5), send("u", 4, 5, 6, partition=2)), 6),
            ),
            expect=numbers(range(1, 7)),
        ),
        suite=_SOURCE,
    ),
    scenario(
        "stream: a matching topic that was created again between two runs",
        Create("t"),
        Create("u"),
        send("t", 1, 3),
        send("u", 2, 4),
        Stream(options={"subscribePattern": "$prefix-.*", "startingOffsets": "earliest"}, expect=numbers(range(1, 5))),
        Delete("u"),
        Create("u"),
        send("u", 6),
        Stream(
            options={"subscribePattern": "$prefix-.*", "startingOffsets": "earliest"},
            expect=Refused("failOnDataLoss", "was changed from 2 to 1"),
        ),
        suite=_SOURCE,
    ),
)

_COMMITTED: Final[tuple[Step, ...]] = (
    Create("t"),
    Transact("t", ("0", "1", "2", "3", "4")),
    Transact("t", ("6", "7", "8", "9", "10"), commit=False),
    Transact("t", ("12", "13", "14", "15", "16")),
    Transact("t", ("18",)),
    Transact("t", ("20",)),
    Transact("t", ("22", "23")),
)
_POLL: Final = {"kafkaConsumer.pollTimeoutMs": "5000"}

_CONTENT: Final = (
    scenario(
        "stream: committed records, in portions of three offsets",
        *_COMMITTED,
        Stream(
            options=_EARLIEST | {"maxOffsetsPerTrigger": "3", "kafka.isolation.level": "read_committed"} | _POLL,
            sizes=True,
            expect=rows((0, 3), (1, 2), (2, 3), (3, 2), (4, 2), (5, 2)),
        ),
        suite=_SOURCE,
    ),
    scenario(
        "stream: uncommitted records, in portions of three offsets",
        *_COMMITTED,
        Stream(
            options=_EARLIEST | {"maxOffsetsPerTrigger": "3", "kafka.isolation.level": "read_uncommitted"} | _POLL,
            sizes=True,
            expect=rows((0, 3), (1, 2), (2, 3), (3, 2), (4, 3), (5, 2), (6, 2), (7, 2)),
        ),
        suite=_SOURCE,
    ),
    scenario(
        "stream: null keys and values of transactions",
        Create("t"),
        Transact("t", (None, "v")),
        send("t", Record(None, "k")),
        Stream(options=_EARLIEST, columns=("key", "value"), expect=rows((None, None), (None, "v"), ("k", None))),
        suite=_SOURCE,
    ),
    scenario(
        "stream: all columns, and headers",
        Create("t", 2, _KEEP),
        send("t", Record("v", "k", (("a", "b"), ("c", "d")), _FIRST), partition=1),
        Stream(
            options=_EARLIEST | {"includeHeaders": "true"},
            columns=(
                "key",
                "value",
                "topic",
                "partition",
                "offset",
                "unix_millis(timestamp)",
                "timestampType",
                "headers",
            ),
            expect=rows(("k", "v", "$t", 1, 0, _FIRST, 0, [["a", "b"], ["c", "d"]])),
        ),
        suite=_SOURCE,
        quick=True,
    ),
    scenario(
        "stream: a time that is no time of Spark",
        Create("t", 1, {"message.timestamp.after.max.ms": str(2**63 - 1)} | _KEEP),
        send("t", Record("v", timestamp_ms=1712345678123456789)),
        Stream(options=_EARLIEST, columns=("timestamp",), expect=Refused("timestamp", "overflow")),
        suite=_SOURCE,
    ),
)

_FAIL_ON_7: Final = ("CASE WHEN value = '7' THEN raise_error('error for 7') ELSE CAST(value AS STRING) END",)

_RESTARTS: Final = (
    scenario(
        "stream: startingOffsets do not count after a restart",
        Create("t"),
        send("t", range(3)),
        Stream(options=_EARLIEST, expect=numbers(range(3))),
        send("t", range(3, 5)),
        Stream(options={"subscribe": "$t", "startingOffsets": "latest"}, expect=numbers(range(3, 5))),
        suite=_SOURCE,
    ),
    scenario(
        "stream: a micro-batch that failed is repeated, also when partitions were added",
        Create("t"),
        send("t", range(1, 8)),
        Stream(options=_EARLIEST, columns=_FAIL_ON_7, expect=Refused("error for 7")),
        Partitions("t", 2),
        Stream(options=_EARLIEST, columns=_FAIL_ON_7, expect=Refused("error for 7")),
        Stream(options=_EARLIEST, expect=numbers(range(1, 8))),
        suite=_SOURCE,
    ),
    scenario(
        "stream: a topic is added to subscribe between two runs",
        Create("t"),
        Create("u"),
        send("t", 1),
        send("u", 2),
        Stream(options=_EARLIEST, expect=rows("1")),
        send("t", 3),
        Stream(options=_EARLIEST | {"subscribe": "$t,$u"}, expect=rows("2", "3")),
        suite=_SOURCE,
    ),
    scenario(
        "stream: a topic is taken from subscribe between two runs",
        Create("t"),
        Create("u"),
        send("t", 1),
        send("u", 2),
        Stream(options=_EARLIEST | {"subscribe": "$t,$u"}, expect=rows("1", "2")),
        send("t", 3),
        Stream(options=_EARLIEST, expect=Refused("failOnDataLoss", "have been deleted")),
        suite=_SOURCE,
    ),
    scenario(
        "stream: a topic is taken from subscribe between two runs, with failOnDataLoss=false",
        Create("t"),
        Create("u"),
        send("t", 1),
        send("u", 2),
        Stream(options=_EARLIEST | {"subscribe": "$t,$u"}, expect=rows("1", "2")),
        send("t", 3),
        Stream(options=_EARLIEST | {"failOnDataLoss": "false"}, expect=rows("3")),
        suite=_SOURCE,
    ),
    scenario(
        "stream: a run without new records",
        Create("t"),
        send("t", 1),
        Stream(options=_EARLIEST, expect=rows("1")),
        Stream(options=_EARLIEST, expect=rows()),
        send("t", 2),
        Stream(options=_EARLIEST, expect=rows("2")),
        suite=_SOURCE,
    ),
    scenario(
        "stream: an empty topic",
        Create("t", 5),
        Stream(options={"subscribe": "$t"}, expect=rows()),
        Stream(options={"subscribe": "$t"}, expect=rows()),
        suite=_SOURCE,
    ),
    scenario(
        "stream: startingOffsets leave a partition out",
        *THREE,
        Stream(
            options={"subscribe": "$t", "startingOffsets": '{"$t":{"0":1}}'},
            expect=Refused("startingOffsets", "must specify all TopicPartitions"),
        ),
        suite=_SOURCE,
    ),
    scenario(
        "stream: a topic that is not there",
        Stream(options={"subscribe": "$v"}, expect=Refused("$v", "UnknownTopicOrPartition")),
        suite=_SOURCE,
    ),
)

_PROGRESS: Final = (
    scenario(
        "stream: the progress has the offsets",
        *THREE,
        Stream(
            options=_EARLIEST,
            progress=("endOffset", "numInputRows"),
            expect=rows(('{"$t": {"0": 10, "1": 10, "2": 1}}', "21")),
        ),
        suite=_SOURCE,
    ),
    scenario(
        "stream: the progress says how far it is behind",
        *THREE,
        Stream(
            options=_EARLIEST,
            progress=("minOffsetsBehindLatest", "maxOffsetsBehindLatest", "avgOffsetsBehindLatest"),
            expect=rows(('"0"', '"0"', '"0.0"')),
            ours=rows(("null", "null", "null")),
        ),
        suite=_SOURCE,
        differs="`avgOffsetsBehindLatest`, `min...`, `max...`",
    ),
)

SCENARIOS: Final = (*_restarted(), *_late(), *_PORTIONS, *_LIVE, *_CONTENT, *_RESTARTS, *_PROGRESS)
