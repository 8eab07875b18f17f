"""The options of format "kafkaraw": names of Spark's own Kafka connector, checked when the DataFrame is made.

Every option is declared once in `_OPTIONS`; `parse_options` checks names and values; `check_batch_read` and
`check_stream_read` check the rules of one kind of read. `client` handles the options `kafka.*`, and `unsupported`
handles unknown options.

Must not import pyspark and must not talk to a broker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from kafkaraw.errors import ConfigError
from kafkaraw.records import TopicPartition
from kafkaraw.spark.errors import CLIENT_PREFIX
from kafkaraw.spark.options import texts
from kafkaraw.spark.options.client import (
    CLIENT_NAMES,
    GROUP_ID,
    PATIENCE_OPTION,
    Settings,
    client_settings,
    settings_without_brokers,
)
from kafkaraw.spark.options.java_regex import translate
from kafkaraw.spark.options.offsets import EARLIEST, LATEST
from kafkaraw.spark.options.positions import (
    OffsetPosition,
    Position,
    TimestampPosition,
    parse_position,
    parse_timestamp,
    parse_timestamps,
)
from kafkaraw.spark.options.resolutions import Resolution, parse_resolutions
from kafkaraw.spark.options.schemas import NAMES as SCHEMA_NAMES
from kafkaraw.spark.options.schemas import REGISTRY_PREFIX, SchemaOptions, check_decoding, parse_schemas
from kafkaraw.spark.options.unsupported import (
    IGNORED,
    LOG_DIRS,
    OF_BROKERS,
    OF_ONE_KIND,
    REFUSED_READING,
    REFUSED_WRITING,
    WITHOUT_EFFECT,
    check_kind,
    unknown,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ExactlyOnce:
    """How to write so that every row is delivered exactly once.

    Attributes:
        prefix: prefix of the transactional ids of the tasks.
        topic: the decisions topic, which stores which micro-batches are committed.
        resolutions: what to do with micro-batches that would be refused.
        batch: for `foreachBatch`, where tasks do not get them from Spark: the writer's query and the micro-batch.
    """

    prefix: str = "kafkaraw-spark"
    topic: str = "kafkaraw-spark-decisions"
    resolutions: tuple[Resolution, ...] = ()
    batch: tuple[str, int] | None = None


@dataclass(frozen=True)
class SparkOptions:
    """Checked options of one DataFrame, reading or writing.

    Attributes:
        log_dirs: log directories to read instead of a cluster; empty for a cluster.
        client: settings given as `kafka.*`, under the client's names, as text.
        subscribe: topics to read with all their partitions.
        pattern: a Java regex; topics that match are read with all their partitions.
        assign: partitions to read.
        starting: where to start; None if not given (the default depends on the kind of read).
        ending: where a batch read ends; None if not given.
        rows_per_trigger_max: about how many offsets one micro-batch reads; None for all available ones.
        rows_per_trigger_min: a micro-batch waits until this many offsets are new; None not to wait.
        trigger_delay_max_ms: the longest time that it waits for them, in ms.
        partitions_min: about how many tasks to have at least; None for one per partition.
        rows_per_partition_max: maximum number of offsets that a task reads of a partition; None for no limit.
        tasks_max: maximum number of tasks, each of which may read several partitions; None for no limit.
        lookup_retries: how often the driver retries to look up offsets.
        lookup_pause_ms: how long it waits before a retry, in ms.
        include_headers: whether there is a column `headers`.
        fail_on_data_loss: whether missing records are an error or a warning.
        commit_offsets: whether the offsets of a stream are committed to the group `kafka.group.id`.
        poll_timeout_ms: how long a task may wait without getting records, in ms.
        topic: the topic of all rows to write; overrides the column `topic`.
        include_timestamp: whether the column `timestamp` becomes the records' timestamps.
        dead_letter_topic: topic for rows that are too large for their own topic, and for records that cannot be
            decoded; None to fail.
        dead_letter_headers: headers in front of those of rows that are too large, instead of `kafkaraw.error.topic` and
            `.message`; None for these two.
        schemas: which columns are decoded or encoded with schemas of a registry; None for bytes.
        json_columns: which fields of JSON values become a column; None for none.
        exactly_once: write in transactions; None for at least once.
        what_to_read: which of subscribe, subscribePattern and assign are given.
        of_one_kind: settings of Java's clients that only reading or only writing refuses, as text.
    """

    log_dirs: tuple[str, ...] = ()
    client: Settings = field(default_factory=Settings)
    subscribe: tuple[str, ...] = ()
    pattern: str | None = None
    assign: tuple[TopicPartition, ...] = ()
    starting: Position | None = None
    ending: Position | None = None
    rows_per_trigger_max: int | None = None
    rows_per_trigger_min: int | None = None
    trigger_delay_max_ms: int = 15 * 60_000
    partitions_min: int | None = None
    rows_per_partition_max: int | None = None
    tasks_max: int | None = None
    lookup_retries: int = 3
    lookup_pause_ms: int = 10
    include_headers: bool = False
    fail_on_data_loss: bool = True
    commit_offsets: bool = False
    poll_timeout_ms: int = 120_000
    topic: str | None = None
    include_timestamp: bool = False
    dead_letter_topic: str | None = None
    dead_letter_headers: tuple[tuple[str, str], ...] | None = None
    exactly_once: ExactlyOnce | None = None
    schemas: SchemaOptions | None = None
    json_columns: str | None = None
    what_to_read: tuple[str, ...] = ()
    of_one_kind: Mapping[str, str] = field(default_factory=dict)

    @property
    def read_committed(self) -> bool:
        """Whether records of open and aborted transactions are left out."""
        return self.client.get("isolation_level", "").strip().lower() == "read_committed"

    @property
    def topics(self) -> list[str]:
        """The topics that are subscribed to by name."""
        return list(self.subscribe) or sorted({tp.topic for tp in self.assign})


def _exactly_once(given: Mapping[str, str]) -> ExactlyOnce | None:
    chosen = {_ONCE[name][0]: _ONCE[name][1](name, text) for name, text in given.items() if name in _ONCE}
    if texts.boolean(_EXACTLY_ONCE, given.get(_EXACTLY_ONCE, "false")):
        return replace(ExactlyOnce(), **chosen)  # type: ignore[arg-type]  # the table pairs field and type
    if chosen:
        raise ConfigError(f"{', '.join(name for name in _ONCE if name in given)} is only for {_EXACTLY_ONCE}=true")
    return None


JSON_OPTION: Final = "jsonColumns"
"""Set by pipelines: the fields of JSON values, as `reading.json_values.JsonValues.to_text` returns them."""

# Option name -> field of SparkOptions and how its text is read.
_OPTIONS: dict[str, tuple[str, Callable[[str, str], object]]] = {
    LOG_DIRS: ("log_dirs", texts.locations),
    "subscribe": ("subscribe", texts.topics),
    "subscribePattern": ("pattern", texts.pattern),
    "assign": ("assign", texts.assignment),
    "maxOffsetsPerTrigger": ("rows_per_trigger_max", texts.positive),
    "minOffsetsPerTrigger": ("rows_per_trigger_min", texts.positive),
    "maxTriggerDelay": ("trigger_delay_max_ms", texts.duration_ms),
    "minPartitions": ("partitions_min", texts.positive),
    "maxRecordsPerPartition": ("rows_per_partition_max", texts.positive),
    "maxTasks": ("tasks_max", texts.positive),
    "includeHeaders": ("include_headers", texts.boolean),
    "failOnDataLoss": ("fail_on_data_loss", texts.boolean),
    "commitOffsets": ("commit_offsets", texts.boolean),
    "kafkaConsumer.pollTimeoutMs": ("poll_timeout_ms", texts.positive),
    "fetchOffset.numRetries": ("lookup_retries", texts.count),
    "fetchOffset.retryIntervalMs": ("lookup_pause_ms", texts.count),
    "topic": ("topic", texts.topic),
    "includeTimestamp": ("include_timestamp", texts.boolean),
    "deadLetterTopic": ("dead_letter_topic", texts.name_of),
    "deadLetterHeaders": ("dead_letter_headers", texts.headers),
    JSON_OPTION: ("json_columns", texts.name_of),
}

# Options for the start and the end, and how their texts are read. If several are given, the first one applies.
_STARTING: dict[str, Callable[[str, str], Position]] = {
    "startingTimestamp": parse_timestamp,
    "startingOffsetsByTimestamp": parse_timestamps,
    "startingOffsets": parse_position,
}
_ENDING: dict[str, Callable[[str, str], Position]] = {
    "endingTimestamp": parse_timestamp,
    "endingOffsetsByTimestamp": parse_timestamps,
    "endingOffsets": parse_position,
}
_STRATEGY = "startingOffsetsByTimestampStrategy"
_STRATEGIES = {"error": False, "latest": True}

_EXACTLY_ONCE = "exactlyOnce"
BATCH_OPTION: Final = "exactlyOnceBatch"
"""Set by `foreach_batch`: name of the writer and number of the micro-batch, as in "name/57"."""
# Options that apply with it only -> field of ExactlyOnce and how its text is read.
_ONCE: dict[str, tuple[str, Callable[[str, str], object]]] = {
    "transactionalIdPrefix": ("prefix", texts.name_of),
    "decisionsTopic": ("topic", texts.name_of),
    "resolveBatches": ("resolutions", parse_resolutions),
    BATCH_OPTION: ("batch", texts.named_batch),
}

_NAMES = (*_OPTIONS, *_STARTING, *_ENDING, _STRATEGY, *WITHOUT_EFFECT, _EXACTLY_ONCE, *_ONCE, *SCHEMA_NAMES)
INTERNAL: Final = frozenset({JSON_OPTION, BATCH_OPTION})
"""Options that only this package sets."""
_LOWER = {name.lower(): name for name in _NAMES}


def user_options() -> frozenset[str]:
    """Return the names of the options that have an effect, without those of clients and of the registry."""
    return frozenset(_NAMES) - WITHOUT_EFFECT.keys() - INTERNAL


def parse_options(options: Mapping[str, str]) -> SparkOptions:
    """Check the options of a DataFrame; names in upper or lower case.

    Raises:
        ConfigError: an option is unknown (the message suggests the nearest name), refused (with an alternative),
            missing, contradicts another, or has an invalid value.
    """
    given, java, of_one_kind, registry = _sorted_out(options)
    values = {_OPTIONS[name][0]: _OPTIONS[name][1](name, text) for name, text in given.items() if name in _OPTIONS}
    values["starting"] = _starting(given)
    values["ending"] = _first_of(_ENDING, given)
    values["exactly_once"] = _exactly_once(given)
    values["schemas"] = parse_schemas({name: given[name] for name in SCHEMA_NAMES if name in given}, registry)
    if LOG_DIRS in given:
        _check_needs_no_broker(given)
    for name, why in WITHOUT_EFFECT.items():
        if name in given:
            _log.warning("the option %s has no effect: %s", name, why)
    client = settings_without_brokers(java, LOG_DIRS) if LOG_DIRS in given else client_settings(java)
    values["what_to_read"] = tuple(name for name in _WHAT_TO_READ if name in given)
    values["of_one_kind"] = of_one_kind
    parsed = replace(SparkOptions(client=client), **values)  # type: ignore[arg-type]  # the table pairs field and type
    _check_together(parsed)
    return parsed


_WHAT_TO_READ: Final = ("subscribe", "subscribePattern", "assign")


def _sorted_out(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str], dict[str, str], dict[str, str]]:
    """Split into our options, the client's by Java's names, those of one kind of use, and those of the registry."""
    registry: dict[str, str] = {}
    ours: dict[str, str] = {}
    java: dict[str, str] = {}
    of_one_kind: dict[str, str] = {}
    for given, text in options.items():
        lower = given.lower()
        if lower in _LOWER:
            ours[_LOWER[lower]] = text
        elif lower.startswith(REGISTRY_PREFIX):
            registry[lower] = text
        elif lower in OF_ONE_KIND:
            of_one_kind[lower] = text
        elif lower in CLIENT_NAMES:
            java[lower.removeprefix(CLIENT_PREFIX)] = text
        elif lower not in IGNORED:
            raise ConfigError(unknown(given, [*_NAMES, *CLIENT_NAMES]))
    return ours, java, of_one_kind, registry


def _first_of(table: Mapping[str, Callable[[str, str], Position]], given: dict[str, str]) -> Position | None:
    """Return the position of the first of the options that are given; the others are checked, and have no effect."""
    positions = [read(name, given[name]) for name, read in table.items() if name in given]
    return positions[0] if positions else None


def _starting(given: dict[str, str]) -> Position | None:
    strategy = given.get(_STRATEGY, "error").strip().lower()
    if strategy not in _STRATEGIES:
        raise ConfigError(f'{_STRATEGY}={given[_STRATEGY]!r}: must be "error" or "latest"')
    position = _first_of(_STARTING, given)
    if isinstance(position, TimestampPosition):
        return replace(position, unmatched_is_latest=_STRATEGIES[strategy])
    return position


def _check_together(options: SparkOptions) -> None:
    """Check the rules that involve several options."""
    if options.commit_offsets and GROUP_ID not in options.client:
        raise ConfigError("commitOffsets=true needs the option kafka.group.id: the group to commit to")
    least, most = options.rows_per_trigger_min, options.rows_per_trigger_max
    if least is not None and most is not None and least > most:
        raise ConfigError(f"minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}: it cannot be met")


def _check_needs_no_broker(given: Mapping[str, str]) -> None:
    needless = [name for name in OF_BROKERS if name in given]
    if needless:
        raise ConfigError(
            f"{', '.join(needless)} cannot be combined with {LOG_DIRS}: files are read in batch queries, and no broker "
            "is asked"
        )


def patient(options: SparkOptions) -> SparkOptions:
    """Return the same options, with clients that wait for the first broker, unless the user has set the timeout."""
    return replace(options, client={"bootstrap_timeout_ms": PATIENCE_OPTION[1]} | options.client)


def check_read(options: SparkOptions) -> None:
    """Check the rules of every read.

    Raises:
        ConfigError: no topic is named, or in two ways; or an option is only for writing.
    """
    check_kind(options.of_one_kind, REFUSED_READING, "reading")
    if len(options.what_to_read) > 1:
        raise ConfigError(
            f"{' and '.join(options.what_to_read)} exclude each other: subscribe reads whole topics by name, "
            "subscribePattern those that match, assign single partitions"
        )
    if not options.subscribe and not options.assign and options.pattern is None:
        hint = f'; topic is for writing, to read use subscribe="{options.topic}"' if options.topic else ""
        raise ConfigError(f"nothing to read: give the option subscribe, subscribePattern or assign{hint}")
    dead = options.dead_letter_topic
    is_read = dead is not None and (
        dead in options.topics or (options.pattern is not None and translate(options.pattern).search(dead) is not None)
    )
    check_decoding(options.schemas, dead, is_read=is_read)


def check_write(options: SparkOptions) -> None:
    """Check the rules of every write; options for reading have no effect on it.

    Raises:
        ConfigError: an option is only for reading.
    """
    check_kind(options.of_one_kind, REFUSED_WRITING, "writing")


def check_batch_read(options: SparkOptions) -> tuple[Position, Position]:
    """Return where a batch read starts and ends: by default the whole topic.

    Raises:
        ConfigError: it starts at the latest or ends at the earliest offset.
    """
    check_read(options)
    starting = options.starting or OffsetPosition("startingOffsets", everywhere=EARLIEST)
    ending = options.ending or OffsetPosition("endingOffsets", everywhere=LATEST)
    if starting.uses(LATEST):
        raise ConfigError(f"startingOffsets of a batch read cannot be latest ({LATEST}): nothing would be read")
    if ending.uses(EARLIEST):
        raise ConfigError(f"endingOffsets cannot be earliest ({EARLIEST}): nothing would be read")
    if isinstance(ending, TimestampPosition):
        ending = replace(ending, unmatched_is_latest=True)
    for name, value in {
        "maxOffsetsPerTrigger": options.rows_per_trigger_max,
        "minOffsetsPerTrigger": options.rows_per_trigger_min,
    }.items():
        if value is not None:
            _log.warning("%s is ignored by a batch read; endingOffsets bounds it", name)
    return starting, ending


def check_stream_read(options: SparkOptions) -> Position:
    """Return where a streaming read without a checkpoint starts: by default at the latest offsets.

    Raises:
        ConfigError: an ending is given, or log directories.
    """
    if options.log_dirs:
        raise ConfigError(
            f"{LOG_DIRS} is for batch reads: use spark.read; a stream needs a broker that takes new records, named by "
            "kafka.bootstrap.servers"
        )
    check_read(options)
    if options.ending is not None:
        raise ConfigError(
            f"{options.ending.option} is for batch reads; a stream ends by its trigger: use availableNow=True"
        )
    return options.starting or OffsetPosition("startingOffsets", everywhere=LATEST)
