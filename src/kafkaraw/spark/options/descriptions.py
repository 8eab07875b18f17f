"""What each option of format "kafkaraw" is for, in one line: for the reference, which is made from this table.

Declarations only; `parsing` and `schemas` read the options. A test compares the names. Start at `DESCRIPTIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Use(StrEnum):
    """In which queries an option has an effect."""

    READ = "read"
    STREAM = "stream read"
    BATCH = "batch read"
    WRITE = "write"
    BOTH = "read, write"


@dataclass(frozen=True, slots=True)
class Described:
    """One option.

    Attributes:
        use: in which queries it has an effect.
        default: what holds without it, as text; empty for nothing.
        doc: what it does, in one line.
    """

    use: Use
    default: str
    doc: str


_SCHEMA_DOCS: Final = {
    "format": ("bytes", "`avro`, `protobuf` or `json-schema`: the {column} is a typed column."),
    "schema": ("", "The schema itself, instead of one of the registry."),
    "schema.version": ("latest", "Version of the subject; `latest` is the latest one when the DataFrame is made."),
    "schema.subject": ("TOPIC-{column}", "Subject of the schema; required if several topics are read."),
    "schema.message": ("the first one", "Protobuf: full name of the message."),
}

DESCRIPTIONS: Final[Mapping[str, Described]] = {
    "subscribe": Described(Use.READ, "", "Topics, `a,b`. One of the three options is required to read."),
    "subscribePattern": Described(Use.READ, "", "A Java regex; all topics that match are read."),
    "assign": Described(Use.READ, "", 'Partitions, `{"a":[0,1]}`.'),
    "logDirs": Described(
        Use.BATCH, "", "Log directories to read, instead of brokers: paths or URLs, separated by commas."
    ),
    "startingOffsets": Described(
        Use.READ,
        "latest (stream), earliest (batch)",
        "Where a query without a checkpoint starts: `earliest`, `latest`, or offsets "
        '`{"a":{"0":23,"1":-1}}`, with -1 for latest and -2 for earliest.',
    ),
    "startingTimestamp": Described(
        Use.READ, "", "Start at the first record at or after this time, in ms since 1970; overrides `startingOffsets`."
    ),
    "startingOffsetsByTimestamp": Described(
        Use.READ, "", 'The same by partition, `{"a":{"0":1767225600000}}`; `startingTimestamp` overrides it.'
    ),
    "startingOffsetsByTimestampStrategy": Described(
        Use.READ, "error", "If no record has this time or a later one: `error`, or `latest` to start at the end."
    ),
    "endingOffsets": Described(Use.BATCH, "latest", "Where the read ends: `latest`, or offsets as for the start."),
    "endingTimestamp": Described(Use.BATCH, "", "End before the first record at or after this time, in ms since 1970."),
    "endingOffsetsByTimestamp": Described(Use.BATCH, "", "The same by partition; `endingTimestamp` overrides it."),
    "maxOffsetsPerTrigger": Described(
        Use.STREAM, "no limit", "Approximate number of offsets of a micro-batch, shared among partitions by backlog."
    ),
    "minOffsetsPerTrigger": Described(Use.STREAM, "", "A micro-batch waits until this many offsets are new."),
    "maxTriggerDelay": Described(Use.STREAM, "15m", "The longest time that it waits for them, such as `30s` or `15m`."),
    "minPartitions": Described(Use.READ, "one task per partition", "Approximate minimum number of tasks."),
    "maxRecordsPerPartition": Described(Use.READ, "no limit", "Maximum number of offsets that a task reads."),
    "maxTasks": Described(Use.READ, "no limit", "Maximum number of tasks, each of which may read several partitions."),
    "includeHeaders": Described(Use.READ, "false", "Add the column `headers`."),
    "failOnDataLoss": Described(
        Use.READ, "true", "If records are lost: `true` fails the query, `false` continues with a warning."
    ),
    "commitOffsets": Described(
        Use.STREAM, "false", "Commit the offsets to the group `kafka.group.id`, for tools that show lag."
    ),
    "kafkaConsumer.pollTimeoutMs": Described(
        Use.READ, "120000", "How long a task waits for its position to advance before it fails, in ms."
    ),
    "fetchOffset.numRetries": Described(Use.READ, "3", "Retries of the driver's offset lookups."),
    "fetchOffset.retryIntervalMs": Described(Use.READ, "10", "How long it waits before a retry, in ms."),
    "topic": Described(Use.WRITE, "", "The topic of all rows; overrides the column `topic`."),
    "includeTimestamp": Described(Use.WRITE, "false", "Write the column `timestamp` as the timestamp of the records."),
    "deadLetterTopic": Described(
        Use.BOTH, "", "Topic for rows that their topic does not take, and for records that cannot be decoded."
    ),
    "deadLetterHeaders": Described(
        Use.BOTH,
        "",
        "Headers of dead letters, a JSON object of texts, instead of `kafkaraw.error.topic` and "
        "`kafkaraw.error.message`; `{topic}`, `{message}` and `{time}` are filled in.",
    ),
    "exactlyOnce": Described(Use.WRITE, "false", "Write in transactions: each row is delivered exactly once."),
    "transactionalIdPrefix": Described(Use.WRITE, "kafkaraw-spark", "Prefix of the transactional ids of the tasks."),
    "decisionsTopic": Described(
        Use.WRITE, "kafkaraw-spark-decisions", "Compacted topic that stores which micro-batches are committed."
    ),
    "resolveBatches": Described(Use.WRITE, "", "What to do with micro-batches that are refused."),
    **{
        f"{column}.{name}": Described(Use.BOTH, default.format(column=column), doc.format(column=column))
        for column in ("key", "value")
        for name, (default, doc) in _SCHEMA_DOCS.items()
    },
    "decodeErrors": Described(
        Use.READ,
        "fail",
        "A record that cannot be decoded: `fail` ends the query, `column` makes the value null and adds `value_error`, "
        "`deadLetter` sends it to `deadLetterTopic`.",
    ),
    "recursiveFieldMaxDepth": Described(Use.READ, "0", "How often a record may contain itself."),
    "autoRegisterSchemas": Described(Use.WRITE, "true", "Register schemas; `false` only looks them up."),
    "ignoreSchemaRules": Described(
        Use.BOTH, "false", "Use schemas with rules, such as encryption, without running the rules."
    ),
    "includeRaw": Described(Use.READ, "false", "Add `key_raw` or `value_raw`, the bytes of a typed column."),
}
"""By name. Options that only this package sets, and those without effect, are left out."""
