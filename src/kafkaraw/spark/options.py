"""The options of format "kafkaraw": names of Spark's own Kafka connector, checked when the DataFrame is made.

Every option is declared once in `_OPTIONS`; `parse_options` checks names and values; `check_batch_read` and
`check_stream_read` check what only one kind of read allows. `kafka.*` options are client settings by the names of the
Java clients (`kafka.linger.ms` is the client's `linger_ms`), translated and checked by the client's own tables.

Must not import pyspark and must not talk to a broker.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from kafkaraw.client.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig, parse
from kafkaraw.client.java_names import known_names, translated
from kafkaraw.client.java_spelling import named_as_given
from kafkaraw.client.network.security import network_for
from kafkaraw.client.settings import settings_of
from kafkaraw.errors import ConfigError
from kafkaraw.records import TopicPartition
from kafkaraw.spark.errors import CLIENT_PREFIX
from kafkaraw.spark.java_regex import translate
from kafkaraw.spark.offsets import EARLIEST, LATEST, parse_json, partition_number
from kafkaraw.spark.positions import (
    OffsetPosition,
    Position,
    TimestampPosition,
    parse_position,
    parse_timestamp,
    parse_timestamps,
)

_log = logging.getLogger(__name__)

Settings = dict[str, str]


@dataclass(frozen=True)
class ExactlyOnce:
    """How to write so that every row can be read once.

    Attributes:
        prefix: begins the transactional ids of the tasks.
        topic: where it is written down which micro-batches are decided.
    """

    prefix: str = "kafkaraw-spark"
    topic: str = "kafkaraw-spark-decisions"


@dataclass(frozen=True)
class SparkOptions:
    """Checked options of one DataFrame, reading or writing.

    Attributes:
        client: settings given as `kafka.*`, under the client's names, as text.
        subscribe: topics to read with all their partitions.
        pattern: a regular expression in Java's language; topics that match are read with all their partitions.
        assign: partitions to read.
        starting: where to start; None when not given (the default depends on the kind of read).
        ending: where a batch read ends; None when not given.
        rows_per_trigger_max: about how many offsets one micro-batch takes; None for all there are.
        rows_per_trigger_min: a micro-batch waits until there are so many offsets; None to wait for none.
        trigger_delay_max_ms: how long it waits for them at most, in ms.
        partitions_min: about how many tasks to have at least; None for one per partition.
        rows_per_partition_max: how many offsets a task takes of a partition at most; None for no limit.
        tasks_max: how many tasks to have at most, each of which may read several partitions; None for no limit.
        lookup_retries: how often the driver tries again to look up offsets.
        lookup_pause_ms: how long it waits before it does, in ms.
        include_headers: whether there is a column `headers`.
        fail_on_data_loss: whether missing records are an error or a warning.
        commit_offsets: whether the positions of a stream are committed to the group `kafka.group.id`.
        poll_timeout_ms: how long a task may go without getting records, in ms.
        topic: the topic to write to, whatever the column `topic` says.
        dead_letter_topic: where rows go that are too large for their topic; None to fail.
        exactly_once: write in transactions; None for at least once.
    """

    client: Settings = field(default_factory=dict)
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
    dead_letter_topic: str | None = None
    exactly_once: ExactlyOnce | None = None

    @property
    def topics(self) -> list[str]:
        """The topics that are read by name."""
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


def _count(name: str, text: str) -> int:
    return 0 if text.strip() == "0" else _positive(name, text)


def _duration_ms(name: str, text: str) -> int:
    found = _DURATION.fullmatch(text.strip().lower())
    scale = _SPARKS_UNITS.get(found[2] or "ms") if found else None
    if found is None or scale is None:
        raise ConfigError(f'{name}={text!r}: must be a duration such as "30s", "15m" or "1h"')
    return int(found[1]) * scale


def _pattern(name: str, text: str) -> str:
    try:
        translate(text)
    except ValueError as error:
        raise ConfigError(f"{name}={text!r}: {error}") from None
    return text


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


def _name(name: str, text: str) -> str:
    if not text.strip():
        raise ConfigError(f"{name} is empty; give a name, or leave it out")
    return text.strip()


def _exactly_once(given: Settings) -> ExactlyOnce | None:
    chosen = {_ONCE[name]: _name(name, text) for name, text in given.items() if name in _ONCE}
    if _bool(_EXACTLY_ONCE, given.get(_EXACTLY_ONCE, "false")):
        return ExactlyOnce(**chosen)
    if chosen:
        raise ConfigError(f"{', '.join(name for name in _ONCE if name in given)} is only for {_EXACTLY_ONCE}=true")
    return None


# Option name -> field of SparkOptions and how its text is read.
_OPTIONS: dict[str, tuple[str, Callable[[str, str], object]]] = {
    "subscribe": ("subscribe", _topics),
    "subscribePattern": ("pattern", _pattern),
    "assign": ("assign", _assignment),
    "maxOffsetsPerTrigger": ("rows_per_trigger_max", _positive),
    "minOffsetsPerTrigger": ("rows_per_trigger_min", _positive),
    "maxTriggerDelay": ("trigger_delay_max_ms", _duration_ms),
    "minPartitions": ("partitions_min", _positive),
    "maxRecordsPerPartition": ("rows_per_partition_max", _positive),
    "maxTasks": ("tasks_max", _positive),
    "includeHeaders": ("include_headers", _bool),
    "failOnDataLoss": ("fail_on_data_loss", _bool),
    "commitOffsets": ("commit_offsets", _bool),
    "kafkaConsumer.pollTimeoutMs": ("poll_timeout_ms", _positive),
    "fetchOffset.numRetries": ("lookup_retries", _count),
    "fetchOffset.retryIntervalMs": ("lookup_pause_ms", _count),
    "topic": ("topic", _topic),
    "deadLetterTopic": ("dead_letter_topic", _name),
}

# Options that say where to start and to end, and how their texts are read. Of several the first counts.
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
# Options that count with it only -> field of ExactlyOnce.
_ONCE = {"transactionalIdPrefix": "prefix", "decisionsTopic": "topic"}

_DURATION: Final = re.compile(r"(\d+)([a-z]+)?")
_SPARKS_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}

# Options that mean something to Spark's own connector, and nothing to this source.
_WITHOUT_EFFECT = {
    "groupIdPrefix": "the source joins no consumer group, so it needs no name for one",
    "kafka.max.poll.records": "rows go to Spark in batches of bytes; maxRecordsPerPartition says how many a task takes",
    "kafka.allow.auto.create.topics": "reading never creates a topic",
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

# Spark puts what it knows of a table among the options of everything that is read from the table or written to it.
_OF_TABLES = frozenset({"owner", "provider", "location", "comment", "external", "is_managed_location", "collation"})

_OPENSSL = "TLS is Python's own: the configuration of its OpenSSL decides"
_SERIALIZER = "keys and values are bytes; convert them in Spark, with cast() or a function"

# Options that people bring along from Spark's own connector, and what to do instead.
_REFUSED = {
    "path": "a topic is not a path: name it with subscribe (reading) or topic (writing), with load() or save() bare",
    "kafka.auto.offset.reset": "use startingOffsets, and failOnDataLoss for offsets that are gone",
    "kafka.enable.auto.commit": "Spark's checkpoint keeps the offsets; nothing is committed to Kafka",
    "kafka.transactional.id": "use exactlyOnce=true: every task has a transactional id of its own then",
    "kafka.ssl.cipher.suites": _OPENSSL,
    "kafka.ssl.engine.factory.class": _OPENSSL,
    "kafka.ssl.provider": _OPENSSL,
    "kafka.security.providers": _OPENSSL,
    "kafka.sasl.login.class": "kafka.sasl.mechanism and kafka.sasl.jaas.config say how to log in",
    "kafka.interceptor.classes": "there are no interceptors, nor Java classes",
    "kafka.key.deserializer": _SERIALIZER,
    "kafka.value.deserializer": _SERIALIZER,
    "kafka.key.serializer": _SERIALIZER,
    "kafka.value.serializer": _SERIALIZER,
}
# The client's advice for these is to name a Python object, which no option can.
_TOKENS = "kafka.sasl.oauthbearer.token.endpoint.url and a client's id and secret get tokens"
_INSTEAD = {
    "partitioner.class": "have a column `partition`, or leave it out: records go by their keys",
    "sasl.client.callback.handler.class": "kafka.sasl.jaas.config has the user and the password",
    "sasl.login.callback.handler.class": _TOKENS,
    "sasl.oauthbearer.jwt.retriever.class": _TOKENS,
    "ssl.enabled.protocols": _OPENSSL,
    "ssl.protocol": _OPENSSL,
    **{name: _TOKENS for name in known_names() if name.startswith("sasl.oauthbearer.assertion.")},
}
_REFUSED_LOWER = {name.lower(): (name, why) for name, why in _REFUSED.items()}

GROUP_ID: Final = "group_id"

_KINDS: tuple[type[ClientConfig], ...] = (ConsumerConfig, ProducerConfig, AdminConfig)
_OURS = frozenset({"auto.offset.reset", "max.poll.records", "allow.auto.create.topics"})
_CLIENT_NAMES = {CLIENT_PREFIX + name for name in known_names() - _OURS} - _REFUSED_LOWER.keys()
_NAMES = (*_OPTIONS, *_STARTING, *_ENDING, _STRATEGY, *_WITHOUT_EFFECT, _EXACTLY_ONCE, *_ONCE)
_LOWER = {name.lower(): name for name in _NAMES}
_BOOTSTRAP = "kafka.bootstrap.servers"


def parse_options(options: Mapping[str, str]) -> SparkOptions:
    """Check the options of a DataFrame; names in any mixture of upper and lower case.

    Raises:
        ConfigError: an option is unknown (the nearest name is suggested), refused (with what to use instead), missing,
            contradicts another, or has a value that makes no sense.
    """
    given, java = _sorted_out(options)
    values = {_OPTIONS[name][0]: _OPTIONS[name][1](name, text) for name, text in given.items() if name in _OPTIONS}
    values["starting"] = _starting(given)
    values["ending"] = _first_of(_ENDING, given)
    values["exactly_once"] = _exactly_once(given)
    for name, why in _WITHOUT_EFFECT.items():
        if name in given:
            _log.warning("the option %s has no effect: %s", name, why)
    with named_as_given(java, prefix=CLIENT_PREFIX):
        client = translated(java, *_KINDS, instead=_INSTEAD)
    if "bootstrap_servers" not in client:
        raise ConfigError(f'the option {_BOOTSTRAP} is missing: give "host:port" of one or more brokers')
    with named_as_given(java, prefix=CLIENT_PREFIX):
        _check_client(client)
    parsed = replace(SparkOptions(client=client), **values)  # type: ignore[arg-type]  # the table pairs field and type
    _check_together(parsed, [name for name in _WHAT_TO_READ if name in given])
    return parsed


_WHAT_TO_READ: Final = ("subscribe", "subscribePattern", "assign")


def is_bare_table(options: Mapping[str, str]) -> bool:
    """Whether this is the definition of a table, whose options come with each query: `SELECT ... WITH (...)`."""
    names = {name.lower() for name in options}
    return bool(names) and names <= _OF_TABLES


def _sorted_out(options: Mapping[str, str]) -> tuple[Settings, Settings]:
    """Our options, by the names of the tables, and the client's, by Java's names."""
    ours: Settings = {}
    java: Settings = {}
    for given, text in options.items():
        lower = given.lower()
        if lower in _LOWER:
            ours[_LOWER[lower]] = text
        elif lower in _CLIENT_NAMES:
            java[lower.removeprefix(CLIENT_PREFIX)] = text
        elif lower not in _SPARKS_OWN | _OF_TABLES:
            raise ConfigError(_unknown(given))
    return ours, java


def _first_of(table: Mapping[str, Callable[[str, str], Position]], given: Settings) -> Position | None:
    """The position by the first of the options that are given; the others are checked, and do not count."""
    positions = [read(name, given[name]) for name, read in table.items() if name in given]
    return positions[0] if positions else None


def _starting(given: Settings) -> Position | None:
    strategy = given.get(_STRATEGY, "error").strip().lower()
    if strategy not in _STRATEGIES:
        raise ConfigError(f'{_STRATEGY}={given[_STRATEGY]!r}: must be "error" or "latest"')
    position = _first_of(_STARTING, given)
    if isinstance(position, TimestampPosition):
        return replace(position, unmatched_is_latest=_STRATEGIES[strategy])
    return position


def _check_together(options: SparkOptions, what_to_read: list[str]) -> None:
    """What no option can be checked for by itself."""
    if len(what_to_read) > 1:
        raise ConfigError(
            f"{' and '.join(what_to_read)} exclude each other: subscribe reads whole topics by name, subscribePattern "
            "those that match, assign single partitions"
        )
    if options.commit_offsets and GROUP_ID not in options.client:
        raise ConfigError("commitOffsets=true needs the option kafka.group.id: the group to commit to")
    least, most = options.rows_per_trigger_min, options.rows_per_trigger_max
    if least is not None and most is not None and least > most:
        raise ConfigError(f"minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}: it cannot be met")


def _unknown(given: str) -> str:
    lower = given.lower()
    if lower in _REFUSED_LOWER:
        name, why = _REFUSED_LOWER[lower]
        return f"the option {name} is not accepted: {why}"
    near = _nearest(lower, [*_NAMES, *_CLIENT_NAMES])
    hint = f"; did you mean {near}?" if near else ""
    if lower.startswith(CLIENT_PREFIX):
        return f"the option {given} is not accepted: the client has no setting of this name{hint}"
    return f"unknown option {given!r} of format kafkaraw{hint}"


def _nearest(lower: str, names: Iterable[str]) -> str | None:
    by_lower = {name.lower(): name for name in names}
    # A client setting without its prefix is the commonest slip.
    if CLIENT_PREFIX + lower in by_lower:
        return by_lower[CLIENT_PREFIX + lower]
    if CLIENT_PREFIX + lower.replace("_", ".") in by_lower:
        return by_lower[CLIENT_PREFIX + lower.replace("_", ".")]
    close = difflib.get_close_matches(lower, by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def _check_client(client: Settings) -> None:
    """Let the clients check their settings, certificates included, so that limits and texts stand in one place."""
    configs = [parse(kind, settings_for(kind, client), from_text=True) for kind in _KINDS]
    network_for(configs[0])  # the settings of TLS are the same for all kinds


def settings_for(kind: type[ClientConfig], client: Settings) -> Settings:
    """Those of the settings that this kind of client has; a job may share one set between reading and writing."""
    return {name: text for name, text in client.items() if name in settings_of(kind)}


# Streams and tasks outlive brokers: one that starts while no broker runs waits as long as a call does (decision 0024).
PATIENCE_OPTION: Final = ("kafka.bootstrap.timeout.ms", "60000")


def patient(options: SparkOptions) -> SparkOptions:
    """The same, with clients that wait for the first broker, unless the user has said how long."""
    return replace(options, client={"bootstrap_timeout_ms": PATIENCE_OPTION[1]} | options.client)


def typed_settings(kind: type[ClientConfig], client: Settings) -> dict[str, object]:
    """The same settings as values that the client's constructor takes."""
    config = parse(kind, client, from_text=True)
    return {name: getattr(config, name) for name in client}


def check_read(options: SparkOptions) -> None:
    """What every read needs.

    Raises:
        ConfigError: no topic is named.
    """
    if not options.subscribe and not options.assign and options.pattern is None:
        hint = f'; topic is for writing, to read use subscribe="{options.topic}"' if options.topic else ""
        raise ConfigError(f"nothing to read: give the option subscribe, subscribePattern or assign{hint}")


def check_batch_read(options: SparkOptions) -> tuple[Position, Position]:
    """Where a batch read starts and ends: by default the whole topic.

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
    """Where a streaming read without a checkpoint starts: by default at the latest offsets.

    Raises:
        ConfigError: an ending is given.
    """
    check_read(options)
    if options.ending is not None:
        raise ConfigError(
            f"{options.ending.option} is for batch reads; a stream ends by its trigger: use availableNow=True"
        )
    return options.starting or OffsetPosition("startingOffsets", everywhere=LATEST)
