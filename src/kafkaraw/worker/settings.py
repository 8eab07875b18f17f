"""What a worker is told: its settings, how it repeats failed calls, and its handlers. Values, without I/O.

`Worker.handle` makes a `HandlerSpec`. Start at `WorkerSettings`.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kafkaraw.client.config import ConsumerConfig, ProducerConfig, ShareConsumerConfig
from kafkaraw.client.deserializers import DeserializerLike, is_deserializer
from kafkaraw.client.interceptors import ProducerRecord
from kafkaraw.client.settings import build, setting, settings_of, unknown_name
from kafkaraw.core.retry import Backoff
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import NamedTuple, dataclass

if TYPE_CHECKING:
    from kafkaraw.records import Record

_DAY_MS: Final = 86_400_000

Results: TypeAlias = ProducerRecord | Iterable[ProducerRecord] | None
HandlerFunction: TypeAlias = "Callable[[Record], Results | AsyncIterable[ProducerRecord] | Awaitable[Results]]"
"""A function of a record, `async` or not; it returns or yields the records to send."""


class Ordering(StrEnum):
    """Which records of a partition run one after the other."""

    KEY = "key"
    """Those with the same key; records without a key have no order."""
    PARTITION = "partition"
    UNORDERED = "unordered"


class WorkerGroup(StrEnum):
    """What the workers of a group share: partitions, or records."""

    CONSUMER = "consumer"
    SHARE = "share"


def _interceptors(value: object) -> tuple[object, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """The settings of a worker, besides those of its clients."""

    group_type: str = setting(
        "consumer",
        "What the workers of a group share: partitions, in a consumer group, or records, in a share group (KIP-932).",
        choices=tuple(each.value for each in WorkerGroup),
    )
    concurrency: int = setting(10, "Maximum number of handlers that run at a time.", minimum=1, maximum=100_000)
    ordering: str = setting(
        "key",
        "Records of a partition that run one after the other: those with the same key, all, or none. In a share group "
        "none.",
        choices=tuple(each.value for each in Ordering),
    )
    queued_records_max: int = setting(
        500,
        "Number of unfinished records of a partition from which it is paused; in a share group, of all unfinished "
        "records from which no more are acquired.",
        minimum=1,
        maximum=10_000_000,
    )
    commit_interval_ms: int = setting(
        1_000,
        "Time between two commits of processed records; a share group has none.",
        unit="ms",
        minimum=1,
        maximum=_DAY_MS,
    )
    drain_timeout_ms: int = setting(
        20_000,
        "Time for records in work to finish, when their partitions are revoked and when the worker stops.",
        unit="ms",
        minimum=0,
        maximum=_DAY_MS,
    )
    port: int | None = setting(
        None, "Port of /healthz, /metrics and /status; 0 for a free one; None for none.", minimum=0, maximum=65_535
    )
    host: str = setting("127.0.0.1", "Address at which the port listens.")
    consumer_interceptors: tuple[object, ...] = setting((), "Interceptors of the consumer.", convert=_interceptors)
    producer_interceptors: tuple[object, ...] = setting((), "Interceptors of the producer.", convert=_interceptors)


_DECIDED: Final = {
    "enable_auto_commit": "the worker commits what is processed",
    "auto_commit_interval_ms": "give commit_interval_ms",
    "enable_auto_offset_store": "the worker commits what is processed",
    "key_deserializer": "give it to handle()",
    "value_deserializer": "give it to handle()",
    "key_serializer": "handlers return bytes, because dead letters are bytes",
    "value_serializer": "handlers return bytes, because dead letters are bytes",
    "interceptors": "give consumer_interceptors and producer_interceptors",
}
"""Settings of the clients that the worker decides, with what to do instead."""

_DECIDED_OF_SHARE_GROUPS: Final = {
    **_DECIDED,
    "share_acknowledgement_mode": "the worker acknowledges each record when it is processed",
    "share_acquire_mode": "the worker acquires a record when a handler is free for it",
    "max_poll_records": "the worker acquires as many records as handlers are free",
    "auto_offset_reset": "set share.auto.offset.reset of the group: kafkaraw configs set --group NAME ...",
    "isolation_level": "set share.isolation.level of the group: kafkaraw configs set --group NAME ...",
    "commit_interval_ms": "acknowledgements are sent with the next request to the broker",
    "transactional_id": "acknowledgements of a share group cannot be part of a transaction",
}
"""As `_DECIDED`, for `group_type="share"`."""


class SplitSettings(NamedTuple):
    """The settings of a worker and of its clients."""

    own: WorkerSettings
    consumer: dict[str, Any]
    producer: dict[str, Any]


def split(given: Mapping[str, object]) -> SplitSettings:
    """Return the settings of the worker, its consumer and its producer; those of both clients go to both.

    Raises:
        ConfigError: an unknown name (the nearest one is named), a value that does not fit, or a setting that the worker
            decides.
    """
    is_shared = given.get("group_type") == WorkerGroup.SHARE
    decided = _DECIDED_OF_SHARE_GROUPS if is_shared else _DECIDED
    kinds: tuple[type, ...] = (WorkerSettings, ShareConsumerConfig if is_shared else ConsumerConfig, ProducerConfig)
    known = [settings_of(kind).keys() - decided.keys() for kind in kinds]
    every = set[str]().union(*known)
    wrong = [unknown_name(name, sorted(every), decided) for name in given if name not in every]
    if wrong:
        raise ConfigError("; ".join(wrong))
    own, consumer, producer = ({name: given[name] for name in given if name in names} for names in known)
    settings = build(WorkerSettings, own)
    if "group_id" not in consumer or consumer["group_id"] is None:
        what = "records" if is_shared else "partitions"
        raise ConfigError(f"group_id is missing: the workers with the same group_id share the {what}")
    consumer |= {"interceptors": settings.consumer_interceptors}
    producer |= {"interceptors": settings.producer_interceptors}
    if is_shared:
        if own.get("ordering", Ordering.UNORDERED) != Ordering.UNORDERED:
            raise ConfigError(
                f"ordering={settings.ordering!r}: a share group does not keep the order of records; leave it out, or "
                "give group_type='consumer'"
            )
        consumer |= {"share_acknowledgement_mode": "explicit", "share_acquire_mode": "record_limit"}
    else:
        consumer |= {"enable_auto_commit": False}
    if producer.get("transactional_id") is not None:
        consumer.setdefault("isolation_level", "read_committed")
    return SplitSettings(settings, consumer, producer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often, when and where a worker calls a handler again after a failure.

    Attributes:
        attempts: number of calls, the first one included; None for no limit.
        backoff_ms: the wait before the second call, in milliseconds; it doubles with each further one.
        backoff_max_ms: the longest wait, in milliseconds.
        topic: the retry topic to which the record is written; None repeats the call in place, which keeps the order by
            key.
        on: the exceptions to repeat a call for; others make a dead letter at once.

    Raises:
        ConfigError: a value outside its limits.
    """

    attempts: int | None = 3
    backoff_ms: int = 1_000
    backoff_max_ms: int = 60_000
    topic: str | None = None
    on: type[Exception] | tuple[type[Exception], ...] = Exception

    def __post_init__(self) -> None:
        if self.attempts is not None and self.attempts < 1:
            raise ConfigError(
                f"Retries: attempts={self.attempts} must be at least 1, the first call; None for no limit"
            )
        if not 0 <= self.backoff_ms <= self.backoff_max_ms:
            raise ConfigError(
                f"Retries: backoff_ms={self.backoff_ms} must be between 0 and backoff_max_ms={self.backoff_max_ms}"
            )
        kinds: tuple[object, ...] = self.on if isinstance(self.on, tuple) else (self.on,)
        if not kinds or not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
            raise ConfigError(f"Retries: on={self.on!r} must be an exception class, or a tuple of them")

    @property
    def backoff(self) -> Backoff:
        """The waits between calls."""
        return Backoff(self.backoff_ms, self.backoff_max_ms)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HandlerSpec:
    """A handler and how its records are treated.

    Attributes:
        name: the function's, in logs, metrics and headers.
        topics: the topics whose records it handles, without the retry topic.
        function: the handler.
        retries: how failed calls are repeated.
        dead_letter_topic: where records go that cannot be handled; None stops the worker instead.
        timeout_ms: the longest call, in milliseconds; None for no limit.
        key_deserializer: makes the handler's keys of bytes.
        value_deserializer: makes the handler's values of bytes.

    Raises:
        ConfigError: a value cannot be used; the message names it.
    """

    name: str
    topics: tuple[str, ...]
    function: HandlerFunction
    retries: Retries
    dead_letter_topic: str | None = None
    timeout_ms: int | None = None
    key_deserializer: DeserializerLike | None = None
    value_deserializer: DeserializerLike | None = None

    def __post_init__(self) -> None:
        where = f"handle({', '.join(map(repr, self.topics))})"
        given_topics: tuple[object, ...] = self.topics
        if not given_topics or not all(isinstance(topic, str) and topic for topic in given_topics):
            raise ConfigError(f"{where}: give the names of one or more topics")
        if not callable(self.function):
            raise ConfigError(f"{where}: the handler {self.function!r} is not a function of a record")
        _check_signature(where, self.function)
        if not isinstance(self.retries, Retries):
            raise ConfigError(f"{where}: retries={self.retries!r} must be a Retries(...)")
        if self.timeout_ms is not None and self.timeout_ms <= 0:
            raise ConfigError(f"{where}: timeout_ms={self.timeout_ms} must be above 0, or None for no limit")
        for name in ("key_deserializer", "value_deserializer"):
            given = getattr(self, name)
            if given is not None and not is_deserializer(given):
                raise ConfigError(
                    f"{where}: {name}={given!r} must be a function of bytes, or have a method deserialize"
                )
        for name, topic in (("Retries.topic", self.retries.topic), ("dead_letter_topic", self.dead_letter_topic)):
            if topic is not None and topic in self.topics:
                raise ConfigError(f"{where}: {name}={topic!r} is the topic that is handled: give another one")
        if self.retries.topic is not None and self.retries.topic == self.dead_letter_topic:
            raise ConfigError(f"{where}: Retries.topic and dead_letter_topic are both {self.dead_letter_topic!r}")


def _check_signature(where: str, function: HandlerFunction) -> None:
    """Check that a handler can be called with a record, and gives its results to the worker."""
    unwrapped: object = function
    while isinstance(unwrapped, partial):
        unwrapped = unwrapped.func
    if inspect.isclass(unwrapped):
        raise ConfigError(f"{where}: the handler {function!r} is a class; give a function of a record, or an object")
    code = getattr(unwrapped, "__code__", None)
    if code is not None and code.co_flags & inspect.CO_ITERABLE_COROUTINE:
        raise ConfigError(f"{where}: the handler {function!r} is a generator made a coroutine; write it as `async def`")
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        raise ConfigError(f"{where}: the handler {function!r} cannot be called with a record: {error}") from None
    except ValueError:  # a function in C that does not tell its arguments
        return


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """All that a worker was told.

    Attributes:
        group_id: its group.
        settings: of the worker itself.
        handlers: what it handles.
        is_transactional: results and offsets are committed in transactions.
    """

    group_id: str
    settings: WorkerSettings
    handlers: tuple[HandlerSpec, ...]
    is_transactional: bool

    @property
    def is_shared(self) -> bool:
        """Whether it reads from a share group."""
        return self.settings.group_type == WorkerGroup.SHARE

    @property
    def ordering(self) -> Ordering:
        """Which records of a partition run one after the other."""
        return Ordering.UNORDERED if self.is_shared else Ordering(self.settings.ordering)

    @property
    def by_topic(self) -> dict[str, HandlerSpec]:
        """The handler of each topic, retry topics included."""
        found = {topic: spec for spec in self.handlers for topic in spec.topics}
        return found | {spec.retries.topic: spec for spec in self.handlers if spec.retries.topic is not None}

    @property
    def written_topics(self) -> dict[str, str]:
        """The retry and dead-letter topics, with how an error names them."""
        found: dict[str, str] = {}
        for spec in self.handlers:
            if spec.retries.topic is not None:
                found[spec.retries.topic] = f"Retries(topic={spec.retries.topic!r})"
            if spec.dead_letter_topic is not None:
                found[spec.dead_letter_topic] = f"dead_letter_topic={spec.dead_letter_topic!r}"
        return found

    def with_handler(self, spec: HandlerSpec) -> WorkerConfig:
        """Return the configuration with one more handler.

        Raises:
            ConfigError: one of its topics, or its name, is taken.
        """
        taken = self.by_topic
        for topic in (*spec.topics, *([spec.retries.topic] if spec.retries.topic is not None else [])):
            if topic in taken:
                raise ConfigError(f"handle: {topic!r} has a handler already: {taken[topic].name!r}")
        if spec.name in {each.name for each in self.handlers}:
            raise ConfigError(f"handle: another handler has the name {spec.name!r}, which metrics and headers use")
        return WorkerConfig(self.group_id, self.settings, (*self.handlers, spec), self.is_transactional)
