"""Options that are refused, or accepted in every spelling: KafkaSourceProviderSuite and the "bad options" of others."""

from __future__ import annotations

from typing import Final

from tests.interop.connectors.scenario import (
    Create,
    Options,
    Outcome,
    Read,
    Refused,
    Rows,
    Scenario,
    Stream,
    Write,
    numbers,
    rows,
    scenario,
    send,
)

_RELATION: Final = "KafkaRelation"
_SOURCE: Final = "KafkaMicroBatchSource"
_PROVIDER: Final = "KafkaSourceProvider"
_SINK: Final = "KafkaSinkStreaming"

# What is wrong -> options, words of our message, words of theirs. Of batch reads and of streams.
_BOTH_READS: Final[dict[str, tuple[Options, str, str]]] = {
    "no topic is named": ({}, "subscribe", "options must be specified"),
    "topics by name and by pattern": ({"subscribe": "t", "subscribePattern": "t.*"}, "exclude each other", "only one"),
    "topics and partitions": ({"subscribe": "t", "assign": '{"a":[0]}'}, "exclude each other", "only one"),
    "a pattern and partitions": ({"subscribePattern": "t", "assign": '{"a":[0]}'}, "exclude each other", "only one"),
    "empty assign": ({"assign": ""}, "assign", "no topicpartitions to assign"),
    "empty subscribe": ({"subscribe": ""}, "names no topic", "no topics to subscribe"),
    "subscribe of commas only": ({"subscribe": " , ,"}, "names no topic", "no topics to subscribe"),
    "empty subscribePattern": ({"subscribePattern": ""}, "subscribePattern is empty", "pattern to subscribe is empty"),
    "subscribePattern of blanks": ({"subscribePattern": "  "}, "subscribePattern is empty", "pattern to subscribe is"),
    "assign that is no JSON": ({"assign": "t"}, "assign", "no topicpartitions to assign"),
    "assign of a number": ({"assign": '{"t":0}'}, "assign", "expected e.g."),
    "assign of a text": ({"assign": '{"t":["a"]}'}, "assign", "expected e.g."),
    "no brokers": (
        {"subscribe": "t", "kafka.bootstrap.servers": None},
        "kafka.bootstrap.servers",
        "kafka.bootstrap.servers",
    ),
    "startingOffsets that are no JSON": (
        {"subscribe": "t", "startingOffsets": "x"},
        "startingOffsets",
        "expected e.g.",
    ),
    "startingOffsets without partitions": (
        {"subscribe": "t", "startingOffsets": '{"t":5}'},
        "startingOffsets",
        "expected e.g.",
    ),
    "startingOffsets of a partition that is no number": (
        {"subscribe": "t", "startingOffsets": '{"t":{"a":5}}'},
        "startingOffsets",
        "expected e.g.",
    ),
    "startingOffsets of text": (
        {"subscribe": "t", "startingOffsets": '{"t":{"0":"x"}}'},
        "startingOffsets",
        "expected",
    ),
    "startingTimestamp of text": (
        {"subscribe": "t", "startingTimestamp": "x"},
        "startingTimestamp",
        "single long value",
    ),
    "startingTimestamp with a fraction": (
        {"subscribe": "t", "startingTimestamp": "1.5"},
        "startingTimestamp",
        "single long value",
    ),
    "startingOffsetsByTimestamp that is no JSON": (
        {"subscribe": "t", "startingOffsetsByTimestamp": "x"},
        "startingOffsetsByTimestamp",
        "expected e.g.",
    ),
    "unknown startingOffsetsByTimestampStrategy": (
        {"subscribe": "t", "startingTimestamp": "1", "startingOffsetsByTimestampStrategy": "skip"},
        "startingOffsetsByTimestampStrategy",
        "no value found for 'SKIP'",
    ),
    "minPartitions of 0": ({"subscribe": "t", "minPartitions": "0"}, "minPartitions", "minPartitions must be positive"),
    "negative minPartitions": ({"subscribe": "t", "minPartitions": "-1"}, "minPartitions", "must be positive"),
    "minPartitions of text": ({"subscribe": "t", "minPartitions": "a"}, "minPartitions", "for input string"),
    "minPartitions with a fraction": ({"subscribe": "t", "minPartitions": "1.0"}, "minPartitions", "for input string"),
    "maxRecordsPerPartition of 0": (
        {"subscribe": "t", "maxRecordsPerPartition": "0"},
        "maxRecordsPerPartition",
        "maxrecordsperpartition must be positive",
    ),
    "negative maxRecordsPerPartition": (
        {"subscribe": "t", "maxRecordsPerPartition": "-5"},
        "maxRecordsPerPartition",
        "maxrecordsperpartition must be positive",
    ),
    "maxRecordsPerPartition of text": (
        {"subscribe": "t", "maxRecordsPerPartition": "a"},
        "maxRecordsPerPartition",
        "for input string",
    ),
    "includeHeaders of text": ({"subscribe": "t", "includeHeaders": "x"}, "includeHeaders", "for input string"),
    "failOnDataLoss of text": ({"subscribe": "t", "failOnDataLoss": "x"}, "failOnDataLoss", "for input string"),
    "kafka.auto.offset.reset=none": (
        {"subscribe": "t", "kafka.auto.offset.reset": "none"},
        "use startingOffsets",
        "'auto.offset.reset' is not supported",
    ),
    "kafka.auto.offset.reset=earliest": (
        {"subscribe": "t", "kafka.auto.offset.reset": "earliest"},
        "use startingOffsets",
        "'auto.offset.reset' is not supported",
    ),
    "kafka.auto.offset.reset=latest": (
        {"subscribe": "t", "kafka.auto.offset.reset": "latest"},
        "use startingOffsets",
        "'auto.offset.reset' is not supported",
    ),
    "unknown kafka.auto.offset.reset": (
        {"subscribe": "t", "kafka.auto.offset.reset": "someValue"},
        "use startingOffsets",
        "'auto.offset.reset' is not supported",
    ),
    "kafka.key.deserializer": (
        {"subscribe": "t", "kafka.key.deserializer": "x.Y"},
        "kafka.key.deserializer",
        "'key.deserializer' is not supported",
    ),
    "kafka.value.deserializer": (
        {"subscribe": "t", "kafka.value.deserializer": "x.Y"},
        "kafka.value.deserializer",
        "'value.deserializer' is not supported",
    ),
    "kafka.enable.auto.commit": (
        {"subscribe": "t", "kafka.enable.auto.commit": "true"},
        "kafka.enable.auto.commit",
        "'enable.auto.commit' is not supported",
    ),
    "kafka.interceptor.classes": (
        {"subscribe": "t", "kafka.interceptor.classes": "x.Y"},
        "kafka.interceptor.classes",
        "'interceptor.classes' is not supported",
    ),
    "more minOffsetsPerTrigger than maxOffsetsPerTrigger": (
        {"subscribe": "t", "minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "15"},
        "minOffsetsPerTrigger=20 is more than maxOffsetsPerTrigger=15",
        "minoffsetpertrigger(20) is higher than the maxoffsetspertrigger(15)",
    ),
    "fetchOffset.numRetries of text": (
        {"subscribe": "t", "fetchOffset.numRetries": "x"},
        "fetchOffset.numRetries",
        "for input string",
    ),
    "fetchOffset.retryIntervalMs of text": (
        {"subscribe": "t", "fetchOffset.retryIntervalMs": "x"},
        "fetchOffset.retryIntervalMs",
        "for input string",
    ),
    "kafkaConsumer.pollTimeoutMs of text": (
        {"subscribe": "t", "kafkaConsumer.pollTimeoutMs": "x"},
        "kafkaConsumer.pollTimeoutMs",
        "for input string",
    ),
    "a pattern that is no regular expression": ({"subscribePattern": "("}, "subscribePattern", "unclosed group"),
}

# Of batch reads only.
_BATCH_READS: Final[dict[str, tuple[Options, str, str]]] = {
    "start at latest": ({"subscribe": "t", "startingOffsets": "latest"}, "startingOffsets", "starting offset can't be"),
    "start at LATEST": ({"subscribe": "t", "startingOffsets": "LATEST"}, "startingOffsets", "starting offset can't be"),
    "start at -1": ({"subscribe": "t", "startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets", "t-0 can't be latest"),
    "end at earliest": ({"subscribe": "t", "endingOffsets": "earliest"}, "endingOffsets", "ending offset can't be"),
    "end at eArLiEsT": ({"subscribe": "t", "endingOffsets": "eArLiEsT"}, "endingOffsets", "ending offset can't be"),
    "end at -2": ({"subscribe": "t", "endingOffsets": '{"t":{"0":-2}}'}, "endingOffsets", "t-0 can't be earliest"),
    "endingOffsets that are no JSON": ({"subscribe": "t", "endingOffsets": "x"}, "endingOffsets", "expected e.g."),
    "endingTimestamp of text": ({"subscribe": "t", "endingTimestamp": "x"}, "endingTimestamp", "single long value"),
    "endingOffsetsByTimestamp that is no JSON": (
        {"subscribe": "t", "endingOffsetsByTimestamp": "x"},
        "endingOffsetsByTimestamp",
        "expected e.g.",
    ),
    "other partitions at the end than at the start": (
        {"subscribe": "t", "startingOffsets": '{"t":{"0":1,"1":1}}', "endingOffsets": '{"t":{"0":2}}'},
        "startingOffsets names",
        "should have the same topic-partitions",
    ),
    "start after the end": (
        {"subscribe": "t", "startingOffsets": '{"t":{"0":1}}', "endingOffsets": '{"t":{"0":0}}'},
        "startingOffsets",
        "start offset 1 is greater than the end offset 0",
    ),
    "other partitions in ending than in starting times": (
        {
            "subscribe": "t",
            "startingOffsetsByTimestamp": '{"t":{"0":1,"1":1}}',
            "endingOffsetsByTimestamp": '{"t":{"0":2}}',
        },
        "startingOffsetsByTimestamp names",
        "should have the same topic-partitions",
    ),
    "a starting time after the ending time": (
        {
            "subscribe": "t",
            "startingOffsetsByTimestamp": '{"t":{"0":9}}',
            "endingOffsetsByTimestamp": '{"t":{"0":2}}',
        },
        "startingOffsetsByTimestamp",
        "9 is greater than the end timestamp 2",
    ),
}

# Of streams only.
_STREAMS: Final[dict[str, tuple[Options, str, str]]] = {
    "endingOffsets": ({"subscribe": "t", "endingOffsets": "latest"}, "endingOffsets", "ending offset not valid"),
    "endingOffsetsByTimestamp": (
        {"subscribe": "t", "endingOffsetsByTimestamp": '{"t":{"0":1000}}'},
        "endingOffsetsByTimestamp",
        "ending timestamp not valid",
    ),
    "maxOffsetsPerTrigger of text": (
        {"subscribe": "t", "maxOffsetsPerTrigger": "a"},
        "maxOffsetsPerTrigger",
        "for input string",
    ),
    "minOffsetsPerTrigger of text": (
        {"subscribe": "t", "minOffsetsPerTrigger": "a"},
        "minOffsetsPerTrigger",
        "for input string",
    ),
    "maxTriggerDelay of text": (
        {"subscribe": "t", "minOffsetsPerTrigger": "1", "maxTriggerDelay": "soon"},
        "maxTriggerDelay",
        "failed to parse time string",
    ),
}

_QUICK: Final = frozenset({"no topic is named", "topics and partitions", "empty subscribePattern", "start at latest"})


def _own_topic(options: Options) -> Options:
    """The same with the name of the scenario's own topic."""
    return {
        name: text and text.replace('"t"', '"$t"').replace("t-0", "$t-0") if text != "t" else "$t"
        for name, text in options.items()
    }


def _refused_reads() -> list[Scenario]:
    found = []
    for name, (options, ours, theirs) in {**_BOTH_READS, **_BATCH_READS}.items():
        step = Read(options=_own_topic(options), expect=Refused(ours, theirs))
        found.append(scenario(f"batch read: {name}", Create("t"), step, suite=_RELATION, quick=name in _QUICK))
    for name, (options, ours, theirs) in {**_BOTH_READS, **_STREAMS}.items():
        stream = Stream(options=_own_topic(options), expect=Refused(ours, theirs))
        found.append(scenario(f"stream: {name}", Create("t"), stream, suite=_SOURCE, quick=name == "endingOffsets"))
    return found


def _accepted(name: str, options: Options, ours: Outcome | None = None, **about: str) -> Scenario:
    """A batch read of a topic of three records, with options that change nothing."""
    read = Read(options={"subscribe": "$t"} | dict(options), expect=numbers(range(3)), ours=ours)
    return scenario(f"batch read: {name}", Create("t"), send("t", range(3)), read, suite=_PROVIDER, **about)


def _accepted_by_streams(name: str, options: Options, ours: Outcome | None = None, **about: str) -> Scenario:
    common = {"subscribe": "$t", "startingOffsets": "earliest"}
    stream = Stream(options=common | dict(options), expect=numbers(range(3)), ours=ours)
    return scenario(f"stream: {name}", Create("t"), send("t", range(3)), stream, suite=_PROVIDER, **about)


# Options in every spelling, with values that matter to a topic of the records 0, 1 and 2 in its one partition.
_SPELLED: Final[dict[str, tuple[Options, Rows]]] = {
    "kafkaConsumer.pollTimeoutMs": ({"kafkaConsumer.pollTimeoutMs": "1111"}, numbers(range(3))),
    "fetchOffset.numRetries": ({"fetchOffset.numRetries": "11"}, numbers(range(3))),
    "fetchOffset.retryIntervalMs": ({"fetchOffset.retryIntervalMs": "1111"}, numbers(range(3))),
    "startingOffsets": ({"startingOffsets": '{"$t":{"0":1}}'}, numbers(range(1, 3))),
    "endingOffsets": ({"endingOffsets": '{"$t":{"0":1}}'}, numbers(range(1))),
    "minPartitions": ({"minPartitions": "3"}, numbers(range(3))),
    "failOnDataLoss": ({"failOnDataLoss": "FALSE"}, numbers(range(3))),
}


def _spelled() -> list[Scenario]:
    found = []
    for name, (options, expected) in _SPELLED.items():
        spellings = ({way(each): text for each, text in options.items()} for way in (str.upper, str.lower))
        reads = [
            Read(options={way("subscribe"): "$t"} | given, expect=expected)
            for way, given in zip((str.upper, str.lower), spellings, strict=True)
        ]
        found.append(
            scenario(f"{name} in upper and lower case", Create("t"), send("t", range(3)), *reads, suite=_PROVIDER)
        )
    return found


_NAMED: Final = "`kafka.*` of Java's clients"
_RATES: Final = "`maxOffsetsPerTrigger`, `minOffsetsPerTrigger`, `maxTriggerDelay`"
_OFFSETS: Final = "`startingOffsets`, `startingTimestamp`"

SCENARIOS: Final = (
    *_refused_reads(),
    *_spelled(),
    _accepted("groupIdPrefix", {"groupIdPrefix": "mine"}),
    _accepted("kafka.group.id", {"kafka.group.id": "mine"}),
    _accepted_by_streams("groupIdPrefix", {"groupIdPrefix": "mine"}),
    _accepted_by_streams("kafka.group.id", {"kafka.group.id": "mine"}),
    _accepted(
        "offsets in words of any case, with blanks", {"startingOffsets": " eArLiEsT ", "endingOffsets": " LATest"}
    ),
    _accepted("a client setting", {"kafka.fetch.max.bytes": "100000", "kafka.client.id": "me"}),
    _accepted("a client setting in upper case", {"KAFKA.FETCH.MAX.BYTES": "100000"}),
    _accepted("rate options", {"maxOffsetsPerTrigger": "1", "minOffsetsPerTrigger": "1", "maxTriggerDelay": "1s"}),
    _accepted("a rate option of text", {"maxOffsetsPerTrigger": "a"}, Refused("maxOffsetsPerTrigger"), differs=_RATES),
    _accepted("an unknown option", {"colour": "red"}, Refused("unknown option 'colour'"), differs="unknown options"),
    _accepted("an unknown client setting", {"kafka.colour": "red"}, Refused("kafka.colour"), differs=_NAMED),
    _accepted("kafka.metadata.max.age.ms=1", {"kafka.metadata.max.age.ms": "1"}),
    _accepted("kafka.key.serializer", {"kafka.key.serializer": "x.Y"}),
    scenario(
        "batch read: a path",
        Create("t"),
        send("t", range(3)),
        Read(options={"subscribe": "$t"}, path="somewhere", expect=numbers(range(3))),
        suite=_PROVIDER,
    ),
    scenario(
        "batch read: a schema",
        Create("t"),
        send("t", range(3)),
        Read(
            options={"subscribe": "$t"},
            schema="value binary",
            expect=Refused("schema", "user-specified schema doesn't match"),
            ours=numbers(range(3)),
        ),
        suite=_PROVIDER,
        differs='`.schema("value binary")`',
    ),
    _accepted_by_streams(
        "endingTimestamp",
        {"endingTimestamp": "1"},
        Refused("endingTimestamp is for batch reads"),
        differs="`endingOffsets`, `endingTimestamp`",
    ),
    scenario(
        "batch read: a table with the options of CREATE TABLE",
        Create("t"),
        send("t", range(3)),
        Read(
            options={"subscribe": "$t", "startingOffsets": '{"$t":{"0":1}}'},
            table=True,
            expect=numbers(range(1, 3)),
        ),
        suite=_PROVIDER,
        quick=True,
    ),
    _accepted_by_streams("maxTriggerDelay alone", {"maxTriggerDelay": "1s"}),
    _accepted_by_streams("maxOffsetsPerTrigger of the largest long", {"maxOffsetsPerTrigger": str(2**63 - 1)}),
    scenario(
        "batch read: offsets of a whole topic",
        Create("t"),
        send("t", range(3)),
        Read(
            options={"subscribe": "$t", "startingOffsets": '{"$t":"earliest"}'},
            expect=Refused("startingOffsets", "expected e.g."),
            ours=numbers(range(3)),
        ),
        suite=_RELATION,
        differs=_OFFSETS,
    ),
    scenario(
        "batch write: kafka.key.serializer",
        Create("t"),
        Write(
            query="SELECT 'a' value",
            options={"topic": "$t", "kafka.key.serializer": "x"},
            expect=Refused("serializer", "'key.serializer' is not supported"),
        ),
        suite=_SINK,
    ),
    scenario(
        "batch write: kafka.value.serializer",
        Create("t"),
        Write(
            query="SELECT 'a' value",
            options={"topic": "$t", "kafka.value.serializer": "x"},
            expect=Refused("serializer", "'value.serializer' is not supported"),
        ),
        suite=_SINK,
    ),
    scenario(
        "batch write: no brokers",
        Create("t"),
        Write(
            query="SELECT 'a' value",
            options={"topic": "$t", "kafka.bootstrap.servers": None},
            expect=Refused("kafka.bootstrap.servers", "bootstrap"),
        ),
        suite=_SINK,
    ),
    *(
        scenario(
            f"batch write: {name}",
            Create("t"),
            Write(query="SELECT 'a' value", options={"topic": "$t", name: text}, expect=rows("a")),
            suite=_SINK,
        )
        for name, text in {
            "kafka.auto.offset.reset": "latest",
            "kafka.interceptor.classes": "",
        }.items()
    ),
    scenario(
        "batch write: subscribe beside topic",
        Create("t"),
        Write(query="SELECT 'a' value", options={"topic": "$t", "subscribe": "x"}, expect=rows("a")),
        suite=_SINK,
    ),
)
