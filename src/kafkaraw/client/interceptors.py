"""The interfaces of interceptors. Source: KIP-42.

`sending/pipeline.py` and `fetching/interception.py` call them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from kafkaraw.light_classes import NamedTuple

if TYPE_CHECKING:
    from kafkaraw.client.committed import OffsetAndMetadata
    from kafkaraw.records import Headers, Record, RecordMetadata, TopicPartition

log: logging.Logger = logging.getLogger(__name__)


class ProducerRecord(NamedTuple):
    """The arguments of `send`. An interceptor changes them with `_replace`, which returns a new object."""

    topic: str
    value: object = None
    key: object = None
    headers: Headers | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


class ProducerInterceptor(Protocol):
    """Intercepts the records of a producer. One of the two methods is enough; `close()` is optional, too.

    It is not called for the rows of `send_arrow`.
    """

    def on_send(self, record: ProducerRecord, /) -> ProducerRecord:
        """Return the record to send: the same, or another one. Runs in the task or thread that calls `send`."""

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None, /) -> None:
        """Called with the outcome of a record; the offset is -1 if it failed. Runs on the producer's loop."""


class ConsumerInterceptor(Protocol):
    """Intercepts the records and commits of a consumer. One of the two methods is enough; `close()` is optional."""

    def on_consume(self, records: list[Record], /) -> Iterable[Record]:
        """Return the records of a batch for the application: the same records, fewer, or others.

        Called once for each batch, with its deserialized records, when the application first reads the batch and in the
        same task or thread. It is not called for Arrow columns, which have no record objects.
        """

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], /) -> None:
        """Called with committed offsets. Runs on the consumer's loop; must not block."""


class _OnSend(Protocol):
    def on_send(self, record: ProducerRecord, /) -> ProducerRecord: ...


class _OnAcknowledgement(Protocol):
    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None, /) -> None: ...


class _OnConsume(Protocol):
    def on_consume(self, records: list[Record], /) -> Iterable[Record]: ...


class _OnCommit(Protocol):
    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], /) -> None: ...


ProducerInterceptorLike: TypeAlias = _OnSend | _OnAcknowledgement
"""A `ProducerInterceptor`, or an object with one of its methods."""
ConsumerInterceptorLike: TypeAlias = _OnConsume | _OnCommit
"""A `ConsumerInterceptor`, or an object with one of its methods."""


def is_interceptor(given: object, methods: Iterable[str]) -> bool:
    """Whether it has one of the methods that are called."""
    return any(callable(getattr(given, name, None)) for name in methods)


def methods_of(interceptors: Sequence[object], name: str) -> list[Callable[..., object]]:
    """The methods of that name, of those that have one."""
    found = (getattr(interceptor, name, None) for interceptor in interceptors)
    return [method for method in found if callable(method)]


def guarded(method: Callable[..., object], *arguments: object) -> object:
    """Call user code, and log its exception, so that neither the record nor the loop fails; None if it raised."""
    try:
        return method(*arguments)
    except Exception:
        log.exception("%s failed", name_of_method(method))
        return None


def name_of_method(method: Callable[..., object]) -> str:
    """What to call it in the log."""
    return f"the interceptor's {getattr(method, '__qualname__', method)}"
