"""The options of format "kafkaraw": names of Spark's own Kafka connector, checked when the DataFrame is made.

Every option is declared once in `_OPTIONS`; `parse_options` checks names and values; `check_batch_read` and
`check_stream_read` check what only one kind of read allows. `kafka.*` options are client settings by the names of the
Java clients (`kafka.linger.ms` is the client's `linger_ms`), translated and checked by the client's own tables.

Must not import pyspark and must not talk to a broker.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from kafkaraw.client.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig, parse
from kafkaraw.client.java_names import known_names, translated
from kafkaraw.client.settings import build, settings_of
from kafkaraw.errors import ConfigError
from kafkaraw.records import TopicPartition
from kafkaraw.spark.offsets import EARLIEST, LATEST, Position, parse_json, parse_position, partition_number

_log = logging.getLogger(__name__)

Settings = dict[str, str]


@dataclass(frozen=True)
class SparkOptions:
    """Checked options of one DataFrame, reading or writing.

    Attributes:
        client: settings given as `kafka.*`, under the client's names, as text.
        subscribe: topics to read with all their partitions.
        assign: partitions to read.
        starting: where to start; None when not given (the default depends on the kind of read).
        ending: where a batch read ends; None when not given.
        rows_per_trigger_max: about how many offsets one micro-batch takes; None for all there are.
        partitions_min: about how many tasks to have at least; None for one per partition.
        include_headers: whether there is a column `headers`.
        fail_on_data_loss: whether missing records are an error or a warning.
        poll_timeout_ms: how long a task may go without getting records, in ms.
        topic: the topic to write to, whatever the column `topic` says.
    """

    client: Settings = field(default_factory=dict)
    subscribe: tuple[str, ...] = ()
    assign: tuple[TopicPartition, ...] = ()
    starting: Position | None = None
    ending: Position | None = None
    rows_per_trigger_max: int | None = None
    partitions_min: int | None = None
    include_headers: bool = False
    fail_on_data_loss: bool = True
    poll_timeout_ms: int = 120_000
    topic: str | None = None

    @property
    def topics(self) -> list[str]:
        """The topics that are read."""
        return list(self.subscribe) or sorted({tp.topic for tp in self.assign})


def _bool(name: str, text: str) -> bool:
    value = {"true": True, "false": False}.get(text.strip().lower())
    if value is None:
        raise ConfigError(f'{name}={text!r}: must be "true" or "false"')
    return value


def _positive(name: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 1 <= value < 2**63:
        raise ConfigError(f"{name}={text!r}: must be a whole number from 1")
    return value


def _topics(name: str, text: str) -> tuple[str, ...]:
    topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not topics:
        raise ConfigError(f'{name}={text!r} names no topic; give "topic" or "topic1,topic2"')
    return topics


def _assignment(name: str, text: str) -> tuple[TopicPartition, ...]:
    value = parse_json(text, what=name)
    if not isinstance(value, dict) or not all(isinstance(partitions, list) for partitions in value.values()):
        raise ConfigError(f'{name}={text!r}: must be JSON such as {{"topic":[0,1]}}')
    chosen = {
        TopicPartition(topic, partition_number(partition, what=name))
        for topic, partitions in value.items()
        for partition in partitions
    }
    if not chosen:
        raise ConfigError(f'{name}={text!r} names no partition; give JSON such as {{"topic":[0,1]}}')
    return tuple(sorted(chosen))


def _topic(name: str, text: str) -> str:
    if not text.strip():
        raise ConfigError(f"{name} is empty; name the topic to write to, or leave it out and have a column `topic`")
    return text.strip()


# Option name -> field of SparkOptions and how its text is read.
_OPTIONS: dict[str, tuple[str, Callable[[str, str], object]]] = {
    "subscribe": ("subscribe", _topics),
    "assign": ("assign", _assignment),
    "startingOffsets": ("starting", parse_position),
    "endingOffsets": ("ending", parse_position),
    "maxOffsetsPerTrigger": ("rows_per_trigger_max", _positive),
    "minPartitions": ("partitions_min", _positive),
    "includeHeaders": ("include_headers", _bool),
    "failOnDataLoss": ("fail_on_data_loss", _bool),
    "kafkaConsumer.pollTimeoutMs": ("poll_timeout_ms", _positive),
    "topic": ("topic", _topic),
}

# Spark puts these among the options of a streaming write; they are not for us.
_SPARKS_OWN = frozenset(
    {
        "checkpointlocation",
        "queryname",
        "asyncprogresstrackingenabled",
        "asyncprogresstrackingcheckpointintervalms",
        "_asyncprogresstrackingoverridesinksupportcheck",
    }
)

_SERIALIZER = "keys and values are bytes; convert them in Spark, with cast() or a function"
_TIMESTAMPS = "start and end by timestamp are not part of this version; use startingOffsets and endingOffsets"

# Options that people bring along from Spark's own connector, and what to do instead.
_REFUSED = {
    "path": "a topic is not a path: name it with subscribe (reading) or topic (writing), with load() or save() bare",
    "subscribePattern": "not part of this version; list the topics with subscribe",
    "startingTimestamp": _TIMESTAMPS,
    "startingOffsetsByTimestamp": _TIMESTAMPS,
    "startingOffsetsByTimestampStrategy": _TIMESTAMPS,
    "endingTimestamp": _TIMESTAMPS,
    "endingOffsetsByTimestamp": _TIMESTAMPS,
    "maxRecordsPerPartition": "not part of this version; use minPartitions for more tasks",
    "minOffsetsPerTrigger": "not part of this version; use a longer processingTime trigger for larger batches",
    "maxTriggerDelay": "not part of this version; use a longer processingTime trigger for larger batches",
    "groupIdPrefix": "the source joins no consumer group, so there is no name to give",
    "fetchOffset.numRetries": "the client retries by itself; limit it with kafka.default.api.timeout.ms",
    "fetchOffset.retryIntervalMs": "the client's pause between retries is kafka.retry.backoff.ms",
    "kafka.group.id": "the source joins no consumer group and commits nothing to one in this version",
    "kafka.auto.offset.reset": "use startingOffsets, and failOnDataLoss for offsets that are gone",
    "kafka.enable.auto.commit": "Spark's checkpoint keeps the offsets; nothing is committed to Kafka",
    "kafka.interceptor.classes": "there are no interceptors, nor Java classes",
    "kafka.key.deserializer": _SERIALIZER,
    "kafka.value.deserializer": _SERIALIZER,
    "kafka.key.serializer": _SERIALIZER,
    "kafka.value.serializer": _SERIALIZER,
}
_REFUSED_LOWER = {name.lower(): (name, why) for name, why in _REFUSED.items()}

_CLIENT_PREFIX = "kafka."
_KINDS: tuple[type[ClientConfig], ...] = (ConsumerConfig, ProducerConfig, AdminConfig)
_OURS = frozenset({"auto.offset.reset", "max.poll.records", "allow.auto.create.topics"})
_CLIENT_NAMES = {_CLIENT_PREFIX + name for name in known_names() - _OURS} - _REFUSED_LOWER.keys()
_LOWER = {name.lower(): name for name in _OPTIONS}
_BOOTSTRAP = "kafka.bootstrap.servers"


def parse_options(options: Mapping[str, str]) -> SparkOptions:
    """Check the options of a DataFrame; names in any mixture of upper and lower case.

    Raises:
        ConfigError: an option is unknown (the nearest name is suggested), refused (with what to use instead), missing,
            contradicts another, or has a value that makes no sense.
    """
    values: dict[str, object] = {}
    java: Settings = {}
    for given, text in options.items():
        lower = given.lower()
        if lower in _LOWER:
            target, read = _OPTIONS[_LOWER[lower]]
            values[target] = read(_LOWER[lower], text)
        elif lower in _CLIENT_NAMES:
            java[lower.removeprefix(_CLIENT_PREFIX)] = text
        elif lower not in _SPARKS_OWN:
            raise ConfigError(_unknown(given))
    try:
        client = translated(java, *_KINDS)
    except ConfigError as error:
        raise ConfigError(f"one of the options {_CLIENT_PREFIX}* is not accepted: {error}") from None
    if "bootstrap_servers" not in client:
        raise ConfigError(f'the option {_BOOTSTRAP} is missing: give "host:port" of one or more brokers')
    _check_client(client)
    if "subscribe" in values and "assign" in values:
        raise ConfigError(
            "subscribe and assign exclude each other: subscribe reads whole topics, assign single partitions"
        )
    return replace(SparkOptions(client=client), **values)  # type: ignore[arg-type]  # the table pairs field and type


def _unknown(given: str) -> str:
    lower = given.lower()
    if lower in _REFUSED_LOWER:
        name, why = _REFUSED_LOWER[lower]
        return f"the option {name} is not accepted: {why}"
    near = _nearest(lower, [*_OPTIONS, *_CLIENT_NAMES])
    hint = f"; did you mean {near}?" if near else ""
    if lower.startswith(_CLIENT_PREFIX):
        return f"the option {given} is not accepted: the client has no setting of this name{hint}"
    return f"unknown option {given!r} of format kafkaraw{hint}"


def _nearest(lower: str, names: Iterable[str]) -> str | None:
    by_lower = {name.lower(): name for name in names}
    # A client setting without its prefix is the commonest slip.
    if _CLIENT_PREFIX + lower in by_lower:
        return by_lower[_CLIENT_PREFIX + lower]
    if _CLIENT_PREFIX + lower.replace("_", ".") in by_lower:
        return by_lower[_CLIENT_PREFIX + lower.replace("_", ".")]
    close = difflib.get_close_matches(lower, by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def _check_client(client: Settings) -> None:
    """Let the client check each setting, so that its limits and texts stand in one place."""
    servers = {"bootstrap_servers": client["bootstrap_servers"]}
    for name, text in client.items():
        option = _CLIENT_PREFIX + name.replace("_", ".")
        kind = next(kind for kind in _KINDS if name in settings_of(kind))
        try:
            build(kind, servers | {name: text}, from_text=True)
        except ConfigError as error:
            raise ConfigError(f"the option {option} is wrong: {error}") from None
    for kind in _KINDS:
        parse(kind, settings_for(kind, client), from_text=True)


def settings_for(kind: type[ClientConfig], client: Settings) -> Settings:
    """Those of the settings that this kind of client has; a job may share one set between reading and writing."""
    return {name: text for name, text in client.items() if name in settings_of(kind)}


def typed_settings(kind: type[ClientConfig], client: Settings) -> dict[str, object]:
    """The same settings as values that the client's constructor takes."""
    config = parse(kind, client, from_text=True)
    return {name: getattr(config, name) for name in client}


def check_read(options: SparkOptions) -> None:
    """What every read needs.

    Raises:
        ConfigError: no topic is named.
    """
    if not options.subscribe and not options.assign:
        hint = f'; topic is for writing, to read use subscribe="{options.topic}"' if options.topic else ""
        raise ConfigError(f"nothing to read: give the option subscribe or assign{hint}")


def check_batch_read(options: SparkOptions) -> tuple[Position, Position]:
    """Where a batch read starts and ends: by default the whole topic.

    Raises:
        ConfigError: it starts at the latest or ends at the earliest offset.
    """
    check_read(options)
    starting = options.starting or Position("startingOffsets", everywhere=EARLIEST)
    ending = options.ending or Position("endingOffsets", everywhere=LATEST)
    if starting.uses(LATEST):
        raise ConfigError(f"startingOffsets of a batch read cannot be latest ({LATEST}): nothing would be read")
    if ending.uses(EARLIEST):
        raise ConfigError(f"endingOffsets cannot be earliest ({EARLIEST}): nothing would be read")
    if options.rows_per_trigger_max is not None:
        _log.warning("maxOffsetsPerTrigger is ignored by a batch read; endingOffsets bounds it")
    return starting, ending


def check_stream_read(options: SparkOptions) -> Position:
    """Where a streaming read without a checkpoint starts: by default at the latest offsets.

    Raises:
        ConfigError: an ending is given.
    """
    check_read(options)
    if options.ending is not None:
        raise ConfigError("endingOffsets is for batch reads; a stream ends by its trigger: use availableNow=True")
    return options.starting or Position("startingOffsets", everywhere=LATEST)
